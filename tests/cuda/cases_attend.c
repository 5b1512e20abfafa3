/* cases_attend.c - F32 attention over pieces (slices of keys and values, struct kvr_attend_piece):
 * CPU against CUDA.
 *
 * Let u = 2^-24, and let m be a key's multiplicity. A score is a sequential sum of D products; CUDA
 * starts it from log m. Its error is at most (D + 4) u S, where S is a query's largest sum of
 * magnitudes |q_d k_d| / sqrt(D) + |log m|. A weight depends on two scores (its own and the
 * maximum) on each of two backends: 4 (D + 4) u S. The function exp_neg() adds an error of 2e-7 =
 * 3.4 u to a weight, counted as 4 u. Numerator and denominator each sum n weights, with an error of
 * n u in either order.
 *
 * The output is a weighted mean of v. On either backend, its error is at most max|v| times
 * 2 (4 (D + 4) u S + 4 u + n u), where the factor 2 counts numerator and denominator. Merging a
 * piece rescales earlier sums, with an error of u per piece, which n u covers. */
#include "harness/cache/attend.h"
#include "harness/cache/attend_cuda.h"
#include "methods/codecs/grid/grid_cuda.h"
#include "methods/codecs/hadamard/fwht_cuda.h"
#include "tests/cuda/both.h"

static const double u = 0x1p-24;

enum { MAX_PIECES = 4 };

struct attend_case {
    struct kvr_attend_shape a;
    int n_pieces;
    int64_t n[MAX_PIECES];
    float log_m[MAX_PIECES];
};
/* The cases include numbers of queries, keys and channels that are not multiples of the kernel's
 * block, tile and warp sizes. Some keys have a multiplicity. */
static const struct attend_case cases[] = {
    { { 1, 1, 8 }, 1, { 1 }, { 0 } },
    { { 5, 2, 20 }, 2, { 7, 40 }, { 0, 2.5f } },
    { { 17, 3, 32 }, 3, { 33, 1, 32 }, { 0, 7.3f, -1 } },
    { { 33, 1, 64 }, 1, { 100 }, { 0 } },
    { { 9, 2, 128 }, 2, { 65, 31 }, { 0, 0 } },
    { { 16, 1, 256 }, 1, { 34 }, { 1 } },
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

static struct kvr_attend_state new_state(const struct kvr_attend_shape *a)
{
    const size_t rows = (size_t)(a->n_query * a->n_heads);

    return (struct kvr_attend_state){ both_out(rows * sizeof(float)),
                                      both_out(rows * sizeof(float)),
                                      both_out(rows * (size_t)a->head_dim * sizeof(float)) };
}

/* Computes attention over `spans` on the CPU; out [T,H,D]. */
static void on_the_cpu(const struct kvr_attend_shape *a, const float *q,
                       const struct kvr_span *spans, int n_spans, float *out)
{
    struct kvr_dev *dev = open_dev();
    struct kvr_attend_scratch scratch = { 0 };
    const struct kvr_attend_job job = {
        .n_heads = a->n_heads,
        .head_dim = a->head_dim,
        .n_query = a->n_query,
        .q = q,
        .out = out,
        .spans = spans,
        .n_spans = n_spans,
    };

    const struct kvr_attend_needs needs = {
        .n_heads = a->n_heads,
        .head_dim = a->head_dim,
        .max_query = a->n_query,
        .staged = true,
        .rotated = true,
        .correction = kvr_correction_at(1),
    };

    ck_assert_int_eq(kvr_attend_reserve(&scratch, dev, &needs), KVR_OK);
    kvr_attend(&job, &scratch);
    kvr_attend_release(&scratch);
    kvr_dev_close(&dev);
}

/* Returns the largest difference allowed between the backends, as derived at the top of this
 * file. */
static double tolerance(const struct kvr_attend_shape *a, const float *q, const float *k,
                        const float *v, int64_t n, float top_log_m)
{
    const int64_t width = (int64_t)a->n_heads * a->head_dim;
    double S = 0, top = 0;

    for (int64_t t = 0; t < a->n_query; t++)
        for (int64_t j = 0; j < n; j++)
            for (int h = 0; h < a->n_heads; h++) {
                double sum = 0;

                for (int d = h * a->head_dim; d < (h + 1) * a->head_dim; d++)
                    sum += fabs((double)q[t * width + d] * (double)k[j * width + d]);
                S = sum > S ? sum : S;
            }
    for (int64_t i = 0; i < n * width; i++)
        top = fabs((double)v[i]) > top ? fabs((double)v[i]) : top;
    S = S / sqrt(a->head_dim) + fabs((double)top_log_m);
    return 2 * top * 2 * (4 * (a->head_dim + 4) * u * S + 4 * u + (double)n * u);
}

static void close_to(const float *want, const float *got, int64_t n, double tol, const char *what)
{
    for (int64_t i = 0; i < n; i++)
        if (!same(want[i], got[i]) && !(fabs((double)want[i] - (double)got[i]) <= tol))
            ck_abort_msg("%s[%lld]: %g on the CPU, %g on CUDA, may differ by %g", what,
                         (long long)i, (double)want[i], (double)got[i], tol);
}

/* With other fills, scores reach the thousands, and the bound would exceed the outputs. */
static const enum fill attend_fills[] = {
    FILL_NORMAL, FILL_ZERO, FILL_CONSTANT, FILL_OUTLIER_CHANNEL, FILL_TINY, FILL_NAN, FILL_INF
};
enum { N_ATTEND_FILLS = sizeof attend_fills / sizeof attend_fills[0] };

START_TEST(pieces)
{
    const struct attend_case *c = &cases[_i / N_ATTEND_FILLS];
    const enum fill fill = attend_fills[_i % N_ATTEND_FILLS];
    const struct kvr_attend_shape a = c->a;
    const int64_t width = (int64_t)a.n_heads * a.head_dim;
    const size_t size = (size_t)(a.n_query * width) * sizeof(float);
    struct kvr_block_shape shape = { 0, a.n_heads, a.head_dim };
    struct kvr_span spans[MAX_PIECES];
    float *q, *k, *v, *want = floats((size_t)(a.n_query * width));
    float *got = floats((size_t)(a.n_query * width)), *d_q, *d_out = both_out(size);
    float top_log_m = 0;
    const struct kvr_attend_state st = new_state(&a);
    int64_t t = 0;

    for (int i = 0; i < c->n_pieces; i++)
        shape.n_tok += c->n[i];
    k = floats(elements(&shape));
    v = floats(elements(&shape));
    fill_block(k, &shape, fill, 1);
    fill_block(v, &shape, fill == FILL_ZERO ? FILL_NORMAL : fill, 2);
    q = floats((size_t)(a.n_query * width));
    kvr_normal(q, (size_t)(a.n_query * width), 3, KVR_RNG_TEST, 3, 0, 0);
    d_q = both_in(q, size);
    kvr_attend_begin_cuda(both_stream, &a, &st);
    for (int i = 0; i < c->n_pieces; t += c->n[i++]) {
        const size_t bytes = (size_t)(c->n[i] * width) * sizeof(float);
        const struct kvr_attend_piece p = {
            .k = both_in(k + t * width, bytes),
            .v = both_in(v + t * width, bytes),
            .n = c->n[i],
            .log_m = c->log_m[i],
        };

        kvr_attend_piece_cuda(both_stream, &a, d_q, &p, &st);
        spans[i] = (struct kvr_span){ .raw = { k + t * width, v + t * width, KVR_F32 },
                                      .n = c->n[i],
                                      .log_m = c->log_m[i] };
        top_log_m = fabsf(c->log_m[i]) > top_log_m ? fabsf(c->log_m[i]) : top_log_m;
    }
    kvr_attend_finish_cuda(both_stream, &a, &st, d_out);
    both_get(got, d_out, size, fill_names[fill]);
    on_the_cpu(&a, q, spans, c->n_pieces, want);
    close_to(want, got, a.n_query * width,
             fill == FILL_NAN || fill == FILL_INF
                 /* Finite outputs are means of normal values of v, so a fixed tolerance
                  * suffices. */
                 ? 1e-3
                 : tolerance(&a, q, k, v, shape.n_tok, top_log_m),
             fill_names[fill]);
    both_free();
    free(q);
    free(k);
    free(v);
    free(want);
    free(got);
}
END_TEST

/* Encodes the i-th segment's keys and values. k, v [n_tok,H,D] receive the CPU's decoded values. */
static void encode_segment(struct kvr_codec *c, struct kvr_dev *dev,
                           const struct kvr_block_shape *shape, uint32_t i, float *x, float *work,
                           struct kvr_segment *seg, float *k, float *v)
{
    fill_block(x, shape, FILL_NORMAL, 10 + i);
    ck_assert_int_eq(kvr_codec_encode(c, dev, x, shape, work, &seg->k), KVR_OK);
    kvr_codec_decode(&seg->k, 0, shape->n_tok, 0, shape->n_heads, k);
    fill_block(x, shape, FILL_OFFSET, 20 + i);
    ck_assert_int_eq(kvr_codec_encode(c, dev, x, shape, work, &seg->v), KVR_OK);
    kvr_codec_decode(&seg->v, 0, shape->n_tok, 0, shape->n_heads, v);
}

/* Decodes the block of a grid stage on the device. If the codec has rotated the block before the
 * grid, the decoded values remain rotated. */
static void decode_grid(const struct kvr_grid *g, const struct kvr_stage_job *job,
                        const struct kvr_stage_data *d, float *d_out)
{
    kvr_grid_decode_cuda(both_stream, g, job, both_in(d->codes.p, d->codes.n_bytes),
                         both_in(d->meta.p, d->meta.n_bytes), 0, job->shape.n_tok, 0,
                         job->shape.n_heads, KVR_DECODE_SET, d_out);
}

/* Segments packed by two codecs are decoded into scratch on the device and attended to. The second
 * codec rotates its keys and values, so queries are rotated, too. The second segment has its own
 * softmax state, whose weighted sum of values is rotated back before the states are merged. */
START_TEST(packed_and_rotated)
{
    enum { T = 19, H = 2, D = 32, N = 48, W = H * D };
    const struct kvr_attend_shape a = { T, H, D };
    const struct kvr_block_shape shape = { N, H, D };
    const struct kvr_grid g = { .bits = 4, .axis = KVR_AXIS_TOKENS, .group = 16 };
    const struct kvr_stage_job job = { .shape = shape };
    struct kvr_codec *plain = open_codec("sym(bits=4,group=16)", KVR_K, false, KVR_COMPUTE_F32);
    struct kvr_codec *rotated =
        open_codec("hadamard | sym(bits=4,group=16)", KVR_K, false, KVR_COMPUTE_F32);
    struct kvr_dev *dev = open_dev();
    struct kvr_segment seg[2] = { { .n_tok = N }, { .n_tok = N } };
    const struct kvr_span spans[2] = { { .seg = &seg[0], .n = N },
                                       { .seg = &seg[1], .n = N, .log_m = 0.5f } };
    float *x = floats(N * W), *work = floats(N * W), q[T * W], want[T * W], got[T * W];
    float *decoded = floats(2 * N * W), *values = floats(2 * N * W);
    float *d_q, *d_rotated, *d_out = both_out(sizeof want), *d_k = both_out(N * W * sizeof *x);
    float *d_v = both_out(N * W * sizeof *x);
    const struct kvr_attend_state st = new_state(&a), st_rotated = new_state(&a);
    const struct kvr_attend_piece piece = { .k = d_k, .v = d_v, .n = N };
    const struct kvr_attend_piece rotated_piece = { .k = d_k, .v = d_v, .n = N, .log_m = 0.5f };

    for (int i = 0; i < 2; i++)
        encode_segment(i ? rotated : plain, dev, &shape, (uint32_t)i, x, work, &seg[i],
                       decoded + i * N * W, values + i * N * W);
    kvr_normal(q, T * W, 3, KVR_RNG_TEST, 4, 0, 0);
    on_the_cpu(&a, q, spans, 2, want);
    d_q = both_in(q, sizeof q);
    d_rotated = both_inout(q, sizeof q);
    kvr_fwht_cuda(both_stream, d_rotated, T * H, D, KVR_COMPUTE_F32);
    kvr_attend_begin_cuda(both_stream, &a, &st);
    kvr_attend_begin_cuda(both_stream, &a, &st_rotated);
    /* In codec i, stage i is the grid: stage 0 of the second codec is the rotation. */
    for (int i = 0; i < 2; i++) {
        decode_grid(&g, &job, &seg[i].k.stage[i], d_k);
        decode_grid(&g, &job, &seg[i].v.stage[i], d_v);
        kvr_attend_piece_cuda(both_stream, &a, i ? d_rotated : d_q, i ? &rotated_piece : &piece,
                              i ? &st_rotated : &st);
    }
    kvr_fwht_cuda(both_stream, st_rotated.acc, T * H, D, KVR_COMPUTE_F32);
    kvr_attend_merge_cuda(both_stream, &a, &st, &st_rotated);
    kvr_attend_finish_cuda(both_stream, &a, &st, d_out);
    both_get(got, d_out, sizeof got, "packed");
    /* The rotations add log2(D) roundings to q and to the output, which the bound's (D + 4) u
     * covers. */
    close_to(want, got, T * W, 2 * tolerance(&a, q, decoded, values, 2 * N, 0.5f), "packed");
    both_free();
    for (int i = 0; i < 2; i++) {
        kvr_packed_free(&seg[i].k);
        kvr_packed_free(&seg[i].v);
    }
    kvr_codec_close(&plain);
    kvr_codec_close(&rotated);
    kvr_dev_close(&dev);
    free(x);
    free(work);
    free(decoded);
    free(values);
}
END_TEST

/* Merging an empty state has no effect, whether it is the source or the destination. */
START_TEST(merge_with_nothing)
{
    enum { T = 3, H = 2, D = 8, W = H * D };
    const struct kvr_attend_shape a = { T, H, D };
    const struct kvr_block_shape shape = { T, H, D };
    float x[T * W], want[T * W], got[T * W], *d_out = both_out(sizeof want), *d_x;
    const struct kvr_attend_state full = new_state(&a), none = new_state(&a);
    struct kvr_attend_piece piece = { .n = T };

    fill_block(x, &shape, FILL_NORMAL, 1);
    d_x = both_in(x, sizeof x);
    piece.k = piece.v = d_x;
    kvr_attend_begin_cuda(both_stream, &a, &full);
    kvr_attend_begin_cuda(both_stream, &a, &none);
    kvr_attend_piece_cuda(both_stream, &a, d_x, &piece, &full);
    kvr_attend_finish_cuda(both_stream, &a, &full, d_out);
    both_get(want, d_out, sizeof want, "alone");
    kvr_attend_merge_cuda(both_stream, &a, _i ? &none : &full, _i ? &full : &none);
    kvr_attend_finish_cuda(both_stream, &a, _i ? &none : &full, d_out);
    both_get(got, d_out, sizeof got, "merged");
    for (int i = 0; i < T * W; i++) {
        ck_assert(isfinite(want[i]));
        ck_assert_float_eq(want[i], got[i]);
    }
    both_free();
}
END_TEST

/* Results are bit-identical for any order of blocks and threads. */
START_TEST(order_does_not_show)
{
    enum { T = 37, H = 2, D = 40, N = 70, W = H * D };
    const struct kvr_attend_shape a = { T, H, D };
    const struct kvr_block_shape shape = { N, H, D };
    float *k = floats(N * W), *v = floats(N * W), first[T * W], again[T * W];

    fill_block(k, &shape, FILL_NORMAL, 1);
    fill_block(v, &shape, FILL_NORMAL, 2);
    for (uint64_t seed = 1; seed <= 4; seed++) {
        const struct kvr_attend_state st = new_state(&a);
        const struct kvr_attend_piece piece = { .k = both_in(k, N * W * sizeof *k),
                                                .v = both_in(v, N * W * sizeof *v),
                                                .n = N };
        float *d_out = both_out(sizeof first);

        kvr_stream_seed(both_stream, seed);
        kvr_attend_begin_cuda(both_stream, &a, &st);
        kvr_attend_piece_cuda(both_stream, &a, both_in(k, sizeof first), &piece, &st);
        kvr_attend_finish_cuda(both_stream, &a, &st, d_out);
        both_get(seed == 1 ? first : again, d_out, sizeof first, "attention");
        if (seed > 1)
            ck_assert_mem_eq(first, again, sizeof first);
        both_free();
    }
    free(k);
    free(v);
}
END_TEST

/* ---- one softmax over keys cut into pieces -------------------------------------------------- */

/* A division of the keys into n pieces. Piece i ends before token end[i] and updates softmax state
 * state[i]. Finally, all states are merged into state 0. */
enum { MAX_CUTS = 24, N_STATES = 3 };
struct cuts {
    int n;
    int64_t end[MAX_CUTS];
    int state[MAX_CUTS];
};

/* Returns random cuts. No piece has tokens on both sides of token `fixed`, where the multiplicity
 * changes. Plan 0 has two pieces and one softmax state. In other plans, a state may get no
 * piece. */
static struct cuts draw_cuts(uint32_t plan, int64_t n, int64_t fixed)
{
    struct cuts c = { .n = 0 };
    float r[2 * MAX_CUTS];
    const int most = (int)(plan * 5 % (MAX_CUTS - 2));
    int64_t t = 0;

    kvr_uniform(r, 2 * MAX_CUTS, 3, KVR_RNG_TEST, plan, 0, 0);
    while (t < n) {
        const int64_t left = (t < fixed ? fixed : n) - t;
        const bool rest = c.n >= most || left == 1;

        t += rest ? left : 1 + (int64_t)(r[c.n] * (float)(left - 1) / 2);
        c.end[c.n] = t;
        c.state[c.n] = plan ? (int)(r[MAX_CUTS + c.n] * N_STATES) : 0;
        c.n++;
    }
    return c;
}

/* Sizes of the queries, keys and values of the tests below. Each key before token FIXED has the
 * multiplicity e^FIXED_LOG_M. */
enum { SPLIT_T = 5, SPLIT_H = 2, SPLIT_D = 24, SPLIT_N = 97, FIXED = 40 };
enum { SPLIT_W = SPLIT_H * SPLIT_D };
static const float FIXED_LOG_M = 1.5f;
static const struct kvr_attend_shape split_shape = { SPLIT_T, SPLIT_H, SPLIT_D };

struct split_data {
    float q[SPLIT_T * SPLIT_W], k[SPLIT_N * SPLIT_W], v[SPLIT_N * SPLIT_W];
};

static void fill_split(struct split_data *x, enum fill fill)
{
    const struct kvr_block_shape shape = { SPLIT_N, SPLIT_H, SPLIT_D };

    fill_block(x->k, &shape, fill, 1);
    fill_block(x->v, &shape, FILL_NORMAL, 2);
    kvr_normal(x->q, SPLIT_T * SPLIT_W, 3, KVR_RNG_TEST, 3, 0, 0);
}

/* Attention in double; out [T,H,D]. */
static void split_in_double(const struct split_data *x, float *out)
{
    for (int t = 0; t < SPLIT_T; t++)
        for (int h = 0; h < SPLIT_H; h++) {
            const float *q = x->q + t * SPLIT_W + h * SPLIT_D;
            double s[SPLIT_N], top = -INFINITY, sum = 0, acc[SPLIT_D] = { 0 };

            for (int j = 0; j < SPLIT_N; j++) {
                s[j] = 0;
                for (int d = 0; d < SPLIT_D; d++)
                    s[j] += (double)q[d] * (double)x->k[j * SPLIT_W + h * SPLIT_D + d];
                s[j] = s[j] / sqrt(SPLIT_D) + (j < FIXED ? (double)FIXED_LOG_M : 0);
                top = s[j] > top ? s[j] : top;
            }
            for (int j = 0; j < SPLIT_N; j++) {
                const double w = exp(s[j] - top);

                sum += w;
                for (int d = 0; d < SPLIT_D; d++)
                    acc[d] += w * (double)x->v[j * SPLIT_W + h * SPLIT_D + d];
            }
            for (int d = 0; d < SPLIT_D; d++)
                out[t * SPLIT_W + h * SPLIT_D + d] = (float)(acc[d] / sum);
        }
}

static void split_on_cuda(const struct split_data *x, const struct cuts *c, float *out)
{
    const float *k = both_in(x->k, sizeof x->k), *v = both_in(x->v, sizeof x->v);
    const float *q = both_in(x->q, sizeof x->q);
    float *d_out = both_out(sizeof x->q);
    struct kvr_attend_state st[N_STATES];

    for (int i = 0; i < N_STATES; i++) {
        st[i] = new_state(&split_shape);
        kvr_attend_begin_cuda(both_stream, &split_shape, &st[i]);
    }
    for (int i = 0; i < c->n; i++) {
        const int64_t begin = i ? c->end[i - 1] : 0;
        const struct kvr_attend_piece p = {
            .k = k + begin * SPLIT_W,
            .v = v + begin * SPLIT_W,
            .n = c->end[i] - begin,
            .log_m = begin < FIXED ? FIXED_LOG_M : 0,
        };

        kvr_attend_piece_cuda(both_stream, &split_shape, q, &p, &st[c->state[i]]);
    }
    for (int i = 1; i < N_STATES; i++)
        kvr_attend_merge_cuda(both_stream, &split_shape, &st[0], &st[i]);
    kvr_attend_finish_cuda(both_stream, &split_shape, &st[0], d_out);
    both_get(out, d_out, sizeof x->q, "split");
    both_free();
}

/* However the keys are cut, the output equals split_in_double() within the error bound. Each new
 * maximum rescales the sums by exp(old - new). Its error is 3 u per tile and merge, plus u |old -
 * new|. These errors add up to at most 2 u S. tolerance() covers them, because it allows for the
 * errors of two backends and only one has rounding errors here. */
START_TEST(any_cuts)
{
    static const enum fill fills[] = { FILL_NORMAL, FILL_OUTLIER_CHANNEL, FILL_OFFSET };
    const enum fill fill = fills[_i % 3];
    const struct cuts c = draw_cuts((uint32_t)_i / 3, SPLIT_N, FIXED);
    struct split_data *x = malloc(sizeof *x);
    float want[SPLIT_T * SPLIT_W], got[SPLIT_T * SPLIT_W];

    ck_assert_ptr_nonnull(x);
    fill_split(x, fill);
    split_in_double(x, want);
    split_on_cuda(x, &c, got);
    close_to(want, got, SPLIT_T * SPLIT_W,
             tolerance(&split_shape, x->q, x->k, x->v, SPLIT_N, FIXED_LOG_M), fill_names[fill]);
    free(x);
}
END_TEST

/* For the same cuts, results are bit-identical for any order of blocks and threads. */
START_TEST(same_cuts_same_bits)
{
    const struct cuts c = draw_cuts((uint32_t)_i + 1, SPLIT_N, FIXED);
    struct split_data *x = malloc(sizeof *x);
    float first[SPLIT_T * SPLIT_W], again[SPLIT_T * SPLIT_W];

    ck_assert_ptr_nonnull(x);
    fill_split(x, FILL_NORMAL);
    for (uint64_t seed = 11; seed < 14; seed++) {
        kvr_stream_seed(both_stream, seed);
        split_on_cuda(x, &c, seed == 11 ? first : again);
        if (seed > 11)
            ck_assert_mem_eq(first, again, sizeof first);
    }
    free(x);
}
END_TEST

/* Attention weights in double precision: their sums and maxima over the queries, [n,H][2], for
 * the keys of all pieces in order. */
static void slow_columns(const struct attend_case *c, const float *q, const float *k,
                         const float *s2, int64_t n, bool taylor, double *out)
{
    const struct kvr_attend_shape a = c->a;
    double *p = calloc((size_t)n, sizeof *p);

    ck_assert_ptr_nonnull(p);
    for (int64_t r = 0; r < a.n_query; r++)
        for (int h = 0; h < a.n_heads; h++) {
            double top = -INFINITY, total = 0;
            int64_t j = 0;

            for (int i = 0; i < c->n_pieces; i++)
                for (int64_t t = 0; t < c->n[i]; t++, j++) {
                    p[j] = (double)c->log_m[i];
                    for (int d = 0; d < a.head_dim; d++) {
                        const double x =
                            (double)q[(r * a.n_heads + h) * a.head_dim + d] / sqrt(a.head_dim);
                        const int64_t at = (j * a.n_heads + h) * a.head_dim + d;

                        p[j] += x * (double)k[at] - (taylor ? x * x * (double)s2[at] / 24 : 0);
                    }
                    top = fmax(top, p[j]);
                }
            for (j = 0; j < n; j++)
                total += p[j] = exp(p[j] - top);
            for (j = 0; j < n; j++) {
                double *to = out + 2 * (j * a.n_heads + h);

                to[0] += p[j] / total;
                to[1] = fmax(to[1], p[j] / total);
            }
        }
    free(p);
}

/* kvr_attend_columns_cuda() computes the sum and the maximum of each key's weights over the
 * queries. A weight is the attention output for values of magnitude 1, so tolerance() bounds its
 * error. The error of a sum is at most n_query times larger. */
START_TEST(columns)
{
    const struct attend_case *c = &cases[_i / 2];
    const struct kvr_attend_shape a = c->a;
    const int64_t width = (int64_t)a.n_heads * a.head_dim;
    int64_t n = 0, first = 0;
    double tol, *want;

    for (int i = 0; i < c->n_pieces; i++)
        n += c->n[i];
    const size_t all = (size_t)(n * width), queries = (size_t)(a.n_query * width);
    float *q = floats(queries), *k = floats(all), *s2 = floats(all), *ones = floats(all);
    float *got = floats((size_t)(2 * n * a.n_heads));
    const struct kvr_block_shape qs = { a.n_query, a.n_heads, a.head_dim },
                                 ks = { n, a.n_heads, a.head_dim };
    const struct kvr_attend_state state = new_state(&a);
    float *dq, *dk, *ds2, *out = both_out((size_t)(2 * n * a.n_heads) * sizeof *out);

    fill_block(q, &qs, FILL_NORMAL, 1);
    fill_block(k, &ks, FILL_NORMAL, 2);
    for (size_t i = 0; i < all; i++) {
        s2[i] = 0.5f + (float)(i % 7) / 7;
        ones[i] = 1;
    }
    want = calloc((size_t)(2 * n * a.n_heads), sizeof *want);
    ck_assert_ptr_nonnull(want);
    slow_columns(c, q, k, s2, n, _i % 2, want);
    tol = tolerance(&a, q, k, ones, n, 7.3f);
    dq = both_in(q, queries * sizeof *q);
    dk = both_in(k, all * sizeof *k);
    ds2 = both_in(s2, all * sizeof *s2);
    kvr_attend_begin_cuda(both_stream, &a, &state);
    for (int second = 0; second < 2; second++, first = 0)
        for (int i = 0; i < c->n_pieces; first += c->n[i++]) {
            const struct kvr_attend_piece piece = {
                .k = dk + first * width,
                .v = dk + first * width,
                .n = c->n[i],
                .log_m = c->log_m[i],
                .by_scales = _i % 2 ? KVR_BY_SCALES_TAYLOR : KVR_BY_SCALES_NO,
                .s2 = ds2 + first * width,
            };

            if (second)
                kvr_attend_columns_cuda(both_stream, &a, dq, &piece, &state,
                                        out + 2 * first * a.n_heads);
            else
                kvr_attend_piece_cuda(both_stream, &a, dq, &piece, &state);
        }
    both_get(got, out, (size_t)(2 * n * a.n_heads) * sizeof *got, "columns");
    for (int64_t i = 0; i < n * a.n_heads; i++) {
        ck_assert(fabs((double)got[2 * i] - want[2 * i]) <= tol * (double)a.n_query);
        ck_assert(fabs((double)got[2 * i + 1] - want[2 * i + 1]) <= tol);
    }
    both_free();
    free(q);
    free(k);
    free(s2);
    free(ones);
    free(got);
    free(want);
}
END_TEST

TCase *cases_attend(void)
{
    TCase *tc = tcase_create("attention");

    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, pieces, 0, N_CASES * N_ATTEND_FILLS);
    tcase_add_test(tc, packed_and_rotated);
    tcase_add_loop_test(tc, merge_with_nothing, 0, 2);
    tcase_add_test(tc, order_does_not_show);
    tcase_add_loop_test(tc, any_cuts, 0, 8 * 3);
    tcase_add_loop_test(tc, same_cuts_same_bits, 0, 4);
    tcase_add_loop_test(tc, columns, 0, 2 * N_CASES);
    return tc;
}
