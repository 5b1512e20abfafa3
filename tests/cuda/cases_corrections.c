/* cases_corrections.c - corrections: CPU against CUDA.
 *
 * Squared scales and moments must be equal, because both backends do the same operations in the
 * same order. Sums over D run in another order. Let u = 2^-24, and let q be the query divided by
 * sqrt(D). Then the error of a score is at most (2 D + 4) u times
 *
 *     S = |q| |k| + |log m| + C
 *
 * |q| |k| is at least the sum of |q_d k_d|, also if q and k are rotated. There are D + 4 roundings
 * with an error of u each, and rotating q adds log2 D < D more. C depends on the correction:
 *
 *     taylor, flat    |q|^2 max s^2 / 24
 *     exact           3/2 |q| |s|. The error of log(sinh a / a) is 8 u a below a = 1/2. Above,
 *                     it is 8 u (a + 1) <= 24 u a, since a, log 2a and log1p round once or
 *                     twice each. The sum of all a is at most |q| |s| / 2.
 *     energy          |q| |shift of the mean| + |q|^2 max |shift of the variance| / 2
 *
 * The error of the output follows as in cases_attend.c. */
#include "harness/cache/attend.h"
#include "harness/cache/attend_cuda.h"
#include "methods/method.h"
#include "tests/cuda/both.h"

static const double u = 0x1p-24;

/* Codec pipelines besides those of the methods: every group axis, with and without `outliers`. */
static const char *const layouts[] = {
    "exact",
    "asym(bits=2,axis=channels,group=8)",
    "sym(bits=4,axis=channels,group=32)",
    "asym(bits=2,axis=token)",
    "sym(bits=2,axis=tokens,group=64)",
    "hadamard | asym(bits=2,axis=channels,group=16)",
    "outliers(sigma=1) | asym(bits=2,axis=channels,group=8)",
    "outliers(sigma=1) | sym(bits=2,axis=token)",
    "outliers(sigma=1) | asym(bits=2)",
    "hadamard | outliers(sigma=1) | sym(bits=2)",
    "outliers(sigma=1) | hadamard | sym(bits=2)",
};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0], MAX_CODECS = 256 };

struct codecs {
    struct kvr_codec *c[MAX_CODECS];
    int n;
};

static void add_codec(struct codecs *all, const char *text, bool study, enum kvr_compute compute)
{
    struct kvr_codec *c = open_codec(text, KVR_K, study, compute);

    for (int i = 0; i < all->n; i++)
        if (!strcmp(all->c[i]->text, c->text) && all->c[i]->study == study) {
            kvr_codec_close(&c);
            return;
        }
    ck_assert_int_lt(all->n, MAX_CODECS);
    all->c[all->n++] = c;
}

/* Opens each codec that is used for keys once. */
static struct codecs open_codecs(void)
{
    struct codecs all = { .n = 0 };
    char spec[128];

    for (int i = 0; i < N_LAYOUTS; i++)
        add_codec(&all, layouts[i], false, KVR_COMPUTE_F32);
    for (int i = 0; kvr_methods[i]; i++)
        for (int r = 0; kvr_method_spec(kvr_methods[i], r, spec, sizeof spec); r++) {
            struct kvr_scheme *p;

            ck_assert_msg(kvr_scheme_open(&p, spec, NULL, 0) == KVR_OK, "%s", kvr_error());
            for (int t = 0; t < p->n_tiers; t++)
                add_codec(&all, p->k[t]->text, p->k[t]->study, p->k[t]->compute);
            kvr_scheme_close(&p);
        }
    ck_assert_int_ge(all.n, N_LAYOUTS + 12);
    return all;
}

static void close_codecs(struct codecs *all)
{
    while (all->n)
        kvr_codec_close(&all->c[--all->n]);
}

/* Decoders of keys run on the device's own stream. So all launches use that stream, once the
 * copies are complete. */
static struct kvr_stream *on_stream(void)
{
    ck_assert_msg(kvr_stream_sync(both_stream) == KVR_OK, "%s", kvr_error());
    return kvr_dev_stream(both_dev);
}

static void get(void *host, const void *out, size_t n, const char *what)
{
    ck_assert_msg(kvr_dev_sync(both_dev) == KVR_OK, "%s: %s", what, kvr_error());
    both_get(host, out, n, what);
}

/* An encoded block of keys on both backends. `x` and `back` are the original and the decoded keys
 * in the codec's transformed space. */
struct block {
    struct kvr_dev *dev;
    struct kvr_packed p, on_device;
    float *x, *back; /* host, [T,H,D] */
    char what[320];
};

static void open_block(struct block *b, const struct kvr_codec *c,
                       const struct kvr_block_shape *shape, enum fill fill)
{
    const size_t n = elements(shape);
    float *work = floats(n);

    snprintf(b->what, sizeof b->what, "%s%s, %s", c->text, c->study ? ", study" : "",
             fill_names[fill]);
    b->dev = open_dev();
    b->x = floats(n);
    b->back = floats(n);
    fill_block(b->x, shape, fill, 5);
    ck_assert_msg(kvr_codec_encode(c, b->dev, b->x, shape, work, &b->p) == KVR_OK, "%s",
                  kvr_error());
    kvr_codec_decode_rotated(&b->p, 0, shape->n_tok, 0, shape->n_heads, b->back);
    kvr_codec_transform(c, NULL, KVR_TO_SPACE, b->x, shape->n_tok, 0, shape->n_heads,
                        shape->head_dim);
    b->on_device = b->p;
    b->on_device.dev = both_dev;
    for (int i = 0; i < KVR_MAX_STAGES; i++) {
        struct kvr_stage_data *d = &b->on_device.stage[i];

        if (d->codes.n_bytes)
            d->codes.p = both_in(d->codes.p, d->codes.n_bytes);
        if (d->meta.n_bytes)
            d->meta.p = both_in(d->meta.p, d->meta.n_bytes);
    }
    free(work);
}

static void close_block(struct block *b)
{
    both_free();
    kvr_packed_free(&b->p);
    kvr_dev_close(&b->dev);
    free(b->x);
    free(b->back);
}

static const struct kvr_block_shape shapes[] = { { 37, 3, 32 }, { 21, 2, 24 }, { 1, 1, 8 } };
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

static void check_steps(const struct block *b, int64_t t0, int64_t n)
{
    const int heads = b->p.shape.n_heads, d = b->p.shape.head_dim;
    const size_t size = (size_t)(n * heads * d);
    float *want = floats((size_t)(n * d)), *got = floats(size), *out = both_out(size * sizeof *got);

    kvr_squared_scales_cuda(on_stream(), &b->on_device, t0, n, out);
    get(got, out, size * sizeof *got, b->what);
    for (int h = 0; h < heads; h++) {
        kvr_squared_scales(&b->p, h, t0, (int)n, want);
        for (int64_t t = 0; t < n; t++)
            for (int c = 0; c < d; c++) {
                const float a = want[t * d + c], g = got[(t * heads + h) * d + c];

                if (!same(a, g))
                    ck_abort_msg("%s: token %lld, head %d, channel %d: %a on the CPU, %a on CUDA",
                                 b->what, (long long)(t0 + t), h, c, (double)a, (double)g);
            }
    }
    free(want);
    free(got);
}

static bool half_is_nan(kvr_f16 h)
{
    return (h & 0x7fffu) > 0x7c00u;
}

static void check_moments(const struct block *b, const struct kvr_correction *corr)
{
    const size_t n = elements(&b->p.shape) * sizeof *b->x;
    const size_t m = (size_t)corr->moments * (size_t)(b->p.shape.n_heads * b->p.shape.head_dim);
    kvr_f16 *want = calloc(m, sizeof *want), *got = calloc(m, sizeof *got);
    kvr_f16 *out = both_out(m * sizeof *got);

    corr->prepare(&b->p, b->x, want);
    corr->prepare_cuda(on_stream(), &b->on_device, both_in(b->x, n), both_inout(b->back, n), out);
    get(got, out, m * sizeof *got, b->what);
    for (size_t i = 0; i < m; i++)
        if (want[i] != got[i] && !(half_is_nan(want[i]) && half_is_nan(got[i])))
            ck_abort_msg("%s, %s: moment %zu: %04x on the CPU, %04x on CUDA", corr->name, b->what,
                         i, want[i], got[i]);
    free(want);
    free(got);
}

START_TEST(steps_and_moments)
{
    const struct kvr_block_shape *shape = &shapes[_i / N_FILLS];
    struct codecs all = open_codecs();
    int n = 0;

    for (int i = 0; i < all.n; i++) {
        struct block b;

        if (kvr_codec_check(all.c[i], shape->n_heads, shape->head_dim) != KVR_OK)
            continue;
        open_block(&b, all.c[i], shape, (enum fill)(_i % N_FILLS));
        check_steps(&b, 0, shape->n_tok);
        check_steps(&b, shape->n_tok / 3, (shape->n_tok + 2) / 3);
        for (int k = 0; kvr_corrections[k]; k++)
            if (kvr_corrections[k]->moments)
                check_moments(&b, kvr_corrections[k]);
        close_block(&b);
        n++;
    }
    ck_assert_int_ge(n, 12);
    close_codecs(&all);
}
END_TEST

/* A correction has rows_cuda() unless attention kernels compute it from the scales. It has
 * prepare() and prepare_cuda() if and only if it stores moments. */
START_TEST(table_is_whole)
{
    for (int k = 0; kvr_corrections[k]; k++) {
        const struct kvr_correction *c = kvr_corrections[k];

        ck_assert((c->by_scales == KVR_BY_SCALES_NO) == (c->rows_cuda != NULL));
        ck_assert((c->moments > 0) == (c->prepare != NULL));
        ck_assert((c->moments > 0) == (c->prepare_cuda != NULL));
    }
}
END_TEST

/* ---- attention --------------------------------------------------------------------------- */

enum { QUERIES = 5, CURRENT = 9, FIRST = 17 /* number of keys in the first piece */ };

/* Attention of QUERIES queries over a coded block and CURRENT unquantized keys. */
struct scene {
    const struct kvr_correction *corr; /* NULL: none */
    const struct block *b;
    struct kvr_packed v; /* values of the block, unquantized */
    /* on the host: queries [QUERIES,H,D], unquantized keys [CURRENT,H,D], values [T,H,D] */
    float *q, *now, *vals;
    kvr_f16 *moments; /* NULL: none */
    float log_m;      /* log multiplicity of the block's tokens */
};

static size_t moment_bytes(const struct scene *s)
{
    const struct kvr_block_shape *shape = &s->b->p.shape;

    return (size_t)(s->corr->moments * shape->n_heads * shape->head_dim) * sizeof(kvr_f16);
}

static void open_scene(struct scene *s, const struct block *b, const struct kvr_codec *exact,
                       const struct kvr_correction *corr)
{
    const struct kvr_block_shape *shape = &b->p.shape;
    const size_t width = (size_t)(shape->n_heads * shape->head_dim);
    float *work = floats(elements(shape));

    *s = (struct scene){ .corr = corr, .b = b, .log_m = 0.75f };
    s->q = floats(QUERIES * width);
    s->now = floats(CURRENT * width);
    s->vals = floats(elements(shape));
    kvr_normal(s->q, QUERIES * width, 3, KVR_RNG_TEST, 1, 0, 0);
    for (size_t i = 0; i < QUERIES * width; i++) /* makes corrections larger than rounding errors */
        s->q[i] *= 4;
    kvr_normal(s->now, CURRENT * width, 3, KVR_RNG_TEST, 2, 0, 0);
    kvr_normal(s->vals, elements(shape), 3, KVR_RNG_TEST, 3, 0, 0);
    ck_assert_int_eq(kvr_codec_encode(exact, b->dev, s->vals, shape, work, &s->v), KVR_OK);
    if (corr && corr->moments) {
        s->moments = calloc(1, moment_bytes(s));
        corr->prepare(&b->p, b->x, s->moments);
    }
    free(work);
}

static void close_scene(struct scene *s)
{
    kvr_packed_free(&s->v);
    free(s->q);
    free(s->now);
    free(s->vals);
    free(s->moments);
}

static void on_the_cpu(const struct scene *s, float *out)
{
    const struct kvr_block_shape *shape = &s->b->p.shape;
    const struct kvr_segment seg = {
        .n_tok = shape->n_tok, .k = s->b->p, .v = s->v, .moments = { .p = s->moments }
    };
    const struct kvr_span spans[] = {
        { .seg = &seg, .n = shape->n_tok, .log_m = s->log_m },
        { .raw = { s->now, s->now, KVR_F32 }, .n = CURRENT },
    };
    const struct kvr_attend_needs needs = {
        .n_heads = shape->n_heads,
        .head_dim = shape->head_dim,
        .max_query = QUERIES,
        .staged = true,
        .rotated = true,
        .correction = kvr_correction_at(1),
    };
    const struct kvr_attend_job job = {
        .n_heads = shape->n_heads,
        .head_dim = shape->head_dim,
        .n_query = QUERIES,
        .q = s->q,
        .out = out,
        .spans = spans,
        .n_spans = 2,
        .correction = s->corr,
    };
    struct kvr_attend_scratch scratch = { 0 };

    ck_assert_int_eq(kvr_attend_reserve(&scratch, s->b->dev, &needs), KVR_OK);
    kvr_attend(&job, &scratch);
    kvr_attend_release(&scratch);
}

/* Runs attention on the device. kvr_attend_piece_cuda() gets the correction as a row bias or as
 * squared scales, not as a struct kvr_correction. */
static void on_cuda(const struct scene *s, float *out)
{
    const struct kvr_block_shape *shape = &s->b->p.shape;
    const struct kvr_attend_shape a = { QUERIES, shape->n_heads, shape->head_dim };
    const int64_t width = (int64_t)a.n_heads * a.head_dim, rows = QUERIES * (int64_t)a.n_heads;
    const size_t size = (size_t)(QUERIES * width) * sizeof(float);
    const struct kvr_attend_state st = { both_out((size_t)rows * sizeof(float)),
                                         both_out((size_t)rows * sizeof(float)), both_out(size) };
    float *d_q = both_in(s->q, size), *d_rotated = d_q, *d_out = both_out(size);
    const float *now = both_in(s->now, (size_t)(CURRENT * width) * sizeof(float));
    const struct kvr_attend_piece current = { .k = now, .v = now, .n = CURRENT };
    float *bias = NULL;

    if (kvr_codec_rotated(s->b->p.codec)) {
        float *rotated = floats((size_t)(QUERIES * width));

        memcpy(rotated, s->q, size);
        kvr_codec_transform(s->b->p.codec, NULL, KVR_QUERY_TO_SPACE, rotated, QUERIES, 0, a.n_heads,
                            a.head_dim);
        d_rotated = both_in(rotated, size);
        free(rotated);
    }
    if (s->corr && s->corr->rows_cuda) {
        bias = both_out((size_t)rows * sizeof *bias);
        s->corr->rows_cuda(on_stream(), shape, both_in(s->moments, moment_bytes(s)), d_rotated,
                           QUERIES, bias);
    }
    kvr_attend_begin_cuda(on_stream(), &a, &st);
    for (int64_t t = 0, n; t < shape->n_tok; t += n) {
        struct kvr_attend_piece p = { .log_m = s->log_m, .row_bias = bias };
        size_t bytes;

        n = shape->n_tok - t < FIRST ? shape->n_tok - t : FIRST;
        bytes = (size_t)(n * width) * sizeof(float);
        p.n = n;
        p.k = both_in(s->b->back + t * width, bytes);
        p.v = both_in(s->vals + t * width, bytes);
        if (s->corr && s->corr->by_scales != KVR_BY_SCALES_NO) {
            float *s2 = both_out(bytes);

            kvr_squared_scales_cuda(on_stream(), &s->b->on_device, t, n, s2);
            p.s2 = s2;
            p.by_scales = s->corr->by_scales;
        }
        kvr_attend_piece_cuda(on_stream(), &a, d_rotated, &p, &st);
    }
    kvr_attend_piece_cuda(on_stream(), &a, d_q, &current, &st);
    kvr_attend_finish_cuda(on_stream(), &a, &st, d_out);
    get(out, d_out, size, s->b->what);
}

static double norm2(const float *x, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += isfinite(x[i]) ? (double)x[i] * (double)x[i] : 0;
    return sum;
}

static double largest(const float *x, size_t n)
{
    double top = 0;

    for (size_t i = 0; i < n; i++)
        top = isfinite(x[i]) && fabs((double)x[i]) > top ? fabs((double)x[i]) : top;
    return top;
}

/* Returns the term C of the bound at the top of this file, for |q|^2 <= q2. */
static double size_of_correction(const struct scene *s, double q2)
{
    const int heads = s->b->p.shape.n_heads, d = s->b->p.shape.head_dim;
    const size_t channels = (size_t)(heads * d);
    double top = 0, norm = 0;
    float x[2 * 3 * KVR_CORRECTION_MAX_D];

    if (!s->corr)
        return 0;
    if (s->moments) {
        ck_assert((size_t)s->corr->moments * channels <= sizeof x / sizeof *x);
        kvr_to_f32(x, s->moments, KVR_F16, (size_t)s->corr->moments * channels);
        if (s->corr->moments == 1)
            return q2 * largest(x, channels) / 24;
        for (int h = 0; h < heads; h++)
            norm = fmax(norm, norm2(x + h * d, d));
        return sqrt(q2 * norm) + q2 * largest(x + channels, channels) / 2;
    }
    for (int h = 0; h < heads; h++)
        for (int64_t t = 0; t < s->b->p.shape.n_tok; t++) {
            double sum = 0;

            kvr_squared_scales(&s->b->p, h, t, 1, x);
            for (int c = 0; c < d; c++)
                sum += isfinite(x[c]) ? (double)x[c] : 0;
            norm = fmax(norm, sum);
            top = fmax(top, largest(x, (size_t)d));
        }
    return s->corr->by_scales == KVR_BY_SCALES_TAYLOR ? q2 * top / 24 : 1.5 * sqrt(q2 * norm);
}

static double tolerance(const struct scene *s)
{
    const struct kvr_block_shape *shape = &s->b->p.shape;
    const int d = shape->head_dim, heads = shape->n_heads;
    const int64_t n = shape->n_tok + CURRENT;
    double q2 = 0, k2 = 0, top, S;

    for (int i = 0; i < QUERIES * heads; i++)
        q2 = fmax(q2, norm2(s->q + i * d, d) / d);
    for (int64_t i = 0; i < shape->n_tok * heads; i++)
        k2 = fmax(k2, norm2(s->b->back + i * d, d));
    for (int i = 0; i < CURRENT * heads; i++)
        k2 = fmax(k2, norm2(s->now + i * d, d));
    top = fmax(largest(s->vals, elements(shape)), largest(s->now, (size_t)(CURRENT * heads * d)));
    S = sqrt(q2 * k2) + fabs((double)s->log_m) + size_of_correction(s, q2);
    return 2 * top * 2 * (4 * (2 * d + 4) * u * S + 4 * u + (double)n * u);
}

/* Fails if a difference exceeds tol; returns the largest difference. */
static double compare(const struct scene *s, const float *want, const float *got, double tol)
{
    const struct kvr_block_shape *shape = &s->b->p.shape;
    double most = 0;

    for (int i = 0; i < QUERIES * shape->n_heads * shape->head_dim; i++) {
        const double off = fabs((double)want[i] - (double)got[i]);

        if (!same(want[i], got[i]) && !(off <= tol))
            ck_abort_msg("%s, %s: %d: %g on the CPU, %g on CUDA, may differ by %g",
                         s->corr ? s->corr->name : "none", s->b->what, i, (double)want[i],
                         (double)got[i], tol);
        most = off > most ? off : most;
    }
    return most;
}

/* Checks that both backends agree on a block's output. Returns whether the correction changes
 * the output by more than the tolerance. */
static bool check_scene(const struct block *b, const struct kvr_codec *exact,
                        const struct kvr_correction *corr)
{
    const size_t n = (size_t)(QUERIES * b->p.shape.n_heads * b->p.shape.head_dim);
    float *want = floats(n), *got = floats(n), *plain = floats(n);
    struct scene s;
    bool moved;

    open_scene(&s, b, exact, corr);
    on_the_cpu(&s, want);
    on_cuda(&s, got);
    compare(&s, want, got, tolerance(&s));
    s.corr = NULL;
    on_the_cpu(&s, plain);
    s.corr = corr;
    moved = compare(&s, want, plain, INFINITY) > tolerance(&s);
    close_scene(&s);
    free(want);
    free(got);
    free(plain);
    return moved;
}

/* Checks every correction over one coded block. moved[i] counts the cases in which correction i
 * has a visible effect. */
static void check_attention(const struct kvr_codec *c, const struct kvr_block_shape *shape,
                            enum fill fill, int *moved)
{
    struct kvr_codec *raw = open_codec("raw(type=f32)", KVR_V, false, KVR_COMPUTE_F32);
    struct block b;

    open_block(&b, c, shape, fill);
    for (int i = 0; kvr_corrections[i]; i++)
        moved[i] += check_scene(&b, raw, kvr_corrections[i]);
    close_block(&b);
    kvr_codec_close(&raw);
}

/* With other fills, scores reach the thousands, and the bound would exceed the outputs. These fills
 * have values of about 1, or are zero, tiny or non-finite. */
static const enum fill attend_fills[] = { FILL_NORMAL, FILL_OUTLIER_CHANNEL,
                                          FILL_ZERO,   FILL_TINY,
                                          FILL_NAN,    FILL_INF };
enum { N_ATTEND_FILLS = sizeof attend_fills / sizeof attend_fills[0], MAX_CORRECTIONS = 16 };

START_TEST(attention)
{
    const struct kvr_block_shape shape = { 37, 2, 64 }; /* every method supports heads of 64 */
    const enum fill fill = attend_fills[_i];
    struct codecs all = open_codecs();
    int moved[MAX_CORRECTIONS] = { 0 }, n = 0;

    while (kvr_corrections[n])
        n++;
    ck_assert_int_le(n, MAX_CORRECTIONS);

    for (int i = 0; i < (fill == FILL_NORMAL ? all.n : N_LAYOUTS); i++)
        if (!kvr_codec_is_raw(all.c[i]))
            check_attention(all.c[i], &shape, fill, moved);
    for (int i = 0; fill == FILL_NORMAL && i < n; i++)
        ck_assert_msg(moved[i] >= 10, "%s: %d", kvr_corrections[i]->name, moved[i]);
    close_codecs(&all);
}
END_TEST

/* Head widths for every instance of the attention kernel (up to 32, 64, 128 and 256 channels), and
 * widths that are not multiples of 32. */
START_TEST(widths)
{
    static const int width[] = { 20, 64, 72, 128, 256 };
    const struct kvr_block_shape shape = { 37, 2, width[_i] };
    struct kvr_codec *c =
        open_codec("outliers(sigma=2) | asym(bits=2)", KVR_K, false, KVR_COMPUTE_F32);
    int moved[MAX_CORRECTIONS] = { 0 };

    check_attention(c, &shape, FILL_NORMAL, moved);
    for (int i = 0; kvr_corrections[i]; i++)
        ck_assert_int_eq(moved[i], 1);
    kvr_codec_close(&c);
}
END_TEST

/* Results are bit-identical for any order of blocks and threads. */
START_TEST(order_does_not_show)
{
    const struct kvr_block_shape shape = { 37, 2, 40 };
    struct kvr_codec *c = open_codec("outliers(sigma=2) | asym(bits=2,axis=channels,group=8)",
                                     KVR_K, false, KVR_COMPUTE_F32);
    struct kvr_codec *raw = open_codec("raw(type=f32)", KVR_V, false, KVR_COMPUTE_F32);
    float first[QUERIES * 2 * 40], again[QUERIES * 2 * 40];

    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct block b;
        struct scene s;

        kvr_stream_seed(kvr_dev_stream(both_dev), seed);
        open_block(&b, c, &shape, FILL_NORMAL);
        open_scene(&s, &b, raw, kvr_corrections[_i]);
        if (s.corr->moments)
            check_moments(&b, s.corr);
        on_cuda(&s, seed == 1 ? first : again);
        if (seed > 1)
            ck_assert_mem_eq(first, again, sizeof first);
        close_scene(&s);
        close_block(&b);
    }
    kvr_codec_close(&raw);
    kvr_codec_close(&c);
}
END_TEST

TCase *cases_corrections(void)
{
    TCase *tc = tcase_create("corrections");
    int n = 0;

    while (kvr_corrections[n])
        n++;
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, table_is_whole);
    tcase_add_loop_test(tc, steps_and_moments, 0, N_SHAPES * N_FILLS);
    tcase_add_loop_test(tc, attention, 0, N_ATTEND_FILLS);
    tcase_add_loop_test(tc, widths, 0, 5);
    tcase_add_loop_test(tc, order_does_not_show, 0, n);
    return tc;
}
