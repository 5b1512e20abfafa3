/* cases_bytes.c - int8 attention on a device. Codes are compared bit by bit. Outputs are compared
 * with sums in double precision over the same codes, and with the CPU's attention.
 *
 * Sums of products are exact. A weight is p = 255 e^(s - m), rounded to an integer. Before rounding
 * its error is p (2 e + 2^-11 + 32 u), where e is the error of a score (derived below) and 2^-11
 * the rounding error of FP16. So the weight rounds as in double precision, unless it lies within
 * this error of the midpoint of two codes. In this case the bounds allow for a difference of one
 * code.
 *
 * An F32 sum over n_tiles tiles has an error of at most 8 u (n_tiles + 8) times the sum of its
 * terms' magnitudes. The kernel adds 128 to the codes of values before it multiplies them. The
 * larger products add an error of at most 256 u times the value scale to an output. */
#include "harness/cache/attend.h"
#include "harness/cache/attend_bytes.h"
#include "tests/cuda/both.h"

static const double u = 0x1p-24;

enum { D = KVR_BYTE_D, TILE = KVR_BYTE_TILE, MOST_SPANS = 4, LINE = 32 };

struct byte_case {
    int64_t n_query;
    int heads;
    int64_t n[MOST_SPANS]; /* 0 ends the list */
    float log_m[MOST_SPANS];
};
static const struct byte_case cases[] = {
    { 5, 1, { 128 }, { 0 } },
    { 37, 2, { 300, 64, 1 }, { 0.7f, 0, -2 } },
    { 131, 1, { 1, 129, 128, 511 }, { 0, 1, 0, 0.3f } },
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

/* ---- codes, computed as in attend_dot.c ---------------------------------------------------- */

static float most_of(const float *x, const float *less, int64_t step, int n)
{
    float most = 0;

    for (int i = 0; i < n; i++) {
        const float size = fabsf(x[i * step] - (less ? less[i] : 0));

        most = isnan(most) || isnan(size) ? NAN : size > most ? size : most;
    }
    return most;
}

static float inverse(float most)
{
    return most >= 1e-30f && most < INFINITY ? 127.0f / most : 0;
}

static float step_of(float most)
{
    return most < INFINITY ? most / 127.0f : NAN;
}

static int code_of(float x, float by)
{
    return isfinite(x) ? (int)rintf(x * by) : 0;
}

/* Keys and values of all spans, tile by tile. */
struct coded {
    int n_tiles;
    float *mu;        /* [H,D] */
    int *left, *span; /* for each tile, its number of valid tokens and its span */
    int8_t *k, *v;    /* [tiles,TILE,H,D] */
    float *a, *b;     /* scales of the keys, [tiles,TILE,H], and of the values, [tiles,H,D] */
};

static int tiles_of(const struct byte_case *c)
{
    int n = 0;

    for (int i = 0; i < MOST_SPANS && c->n[i]; i++)
        n += (int)((c->n[i] + TILE - 1) / TILE);
    return n;
}

static void code_tile(const struct byte_case *c, struct coded *z, int tile, const float *k,
                      const float *v)
{
    const int H = c->heads, n = z->left[tile];

    for (int h = 0; h < H; h++) {
        for (int t = 0; t < n; t++) {
            const float *row = k + (t * H + h) * D;
            const int at = (tile * TILE + t) * H + h;
            const float most = most_of(row, z->mu + h * D, 1, D);

            z->a[at] = step_of(most);
            for (int i = 0; i < D; i++)
                z->k[at * D + i] = (int8_t)code_of(row[i] - z->mu[h * D + i], inverse(most));
        }
        for (int i = 0; i < D; i++) {
            const float most = most_of(v + h * D + i, NULL, H * D, n);

            z->b[(tile * H + h) * D + i] = step_of(most);
            for (int t = 0; t < n; t++)
                z->v[((tile * TILE + t) * H + h) * D + i] =
                    (int8_t)code_of(v[(t * H + h) * D + i], inverse(most));
        }
    }
}

static struct coded code_all(const struct byte_case *c, const float *k, const float *v)
{
    const int H = c->heads;
    const size_t tiles = (size_t)tiles_of(c), rows = tiles * TILE * (size_t)H;
    const int first = c->n[0] < KVR_BYTE_MEAN ? (int)c->n[0] : (int)KVR_BYTE_MEAN;
    struct coded z = { .mu = calloc((size_t)(H * D), sizeof(float)),
                       .left = calloc(tiles, sizeof(int)),
                       .span = calloc(tiles, sizeof(int)),
                       .k = calloc(rows, D),
                       .v = calloc(rows, D),
                       .a = calloc(rows, sizeof(float)),
                       .b = calloc(tiles * (size_t)(H * D), sizeof(float)) };

    ck_assert(z.mu && z.left && z.span && z.k && z.v && z.a && z.b);
    for (int t = 0; t < first; t++)
        for (int i = 0; i < H * D; i++)
            z.mu[i] += k[t * H * D + i] / (float)first;
    for (int s = 0; s < MOST_SPANS && c->n[s]; s++)
        for (int64_t t = 0; t < c->n[s]; t += TILE) {
            const int n = c->n[s] - t < TILE ? (int)(c->n[s] - t) : (int)TILE;

            z.left[z.n_tiles] = n;
            z.span[z.n_tiles] = s;
            code_tile(c, &z, z.n_tiles++, k, v);
            k += n * H * D;
            v += n * H * D;
        }
    return z;
}

static void coded_free(struct coded *z)
{
    free(z->mu);
    free(z->left);
    free(z->span);
    free(z->k);
    free(z->v);
    free(z->a);
    free(z->b);
}

/* ---- on the device ------------------------------------------------------------------------- */

/* Quantizes all spans on the device, into exactly as many tiles as they need. */
static struct kvr_byte_rows device_rows(const struct byte_case *c, const float *k, const float *v,
                                        void **scratch)
{
    const int tiles = tiles_of(c);
    const size_t row = (size_t)(c->heads * D);
    struct kvr_byte_rows rows;
    int64_t tile = 0;

    *scratch = both_out(kvr_byte_rows_size(c->heads, tiles));
    rows = kvr_byte_rows_at(*scratch, c->heads, tiles);
    for (int s = 0; s < MOST_SPANS && c->n[s]; s++) {
        const size_t n = (size_t)c->n[s] * row;
        const float *d_k = both_in(k, n * sizeof(float)), *d_v = both_in(v, n * sizeof(float));

        if (!s)
            kvr_byte_mean_cuda(both_stream, c->heads, d_k, c->n[s], rows.mu);
        kvr_byte_rows_cuda(both_stream, c->heads, d_k, d_v, c->n[s], tile, &rows);
        tile += (c->n[s] + TILE - 1) / TILE;
        k += n;
        v += n;
    }
    return rows;
}

static void fill_rows(float *x, int64_t n_tok, int heads, enum fill fill, uint32_t seed)
{
    const struct kvr_block_shape shape = { n_tok, heads, D };

    fill_block(x, &shape, fill, seed);
}

static int64_t tokens_of(const struct byte_case *c)
{
    int64_t n = 0;

    for (int i = 0; i < MOST_SPANS; i++)
        n += c->n[i];
    return n;
}

/* Returns the index of token t among the 128 codes of a value channel in a tile. byte_rows.h
 * permutes the tokens in this way. */
static int value_slot(int t)
{
    return t / 16 * 16 + t % 8 / 2 * 4 + t % 16 / 8 * 2 + t % 2;
}

/* Compares the codes and scales of a tile's keys of head h with the reference. */
static void check_keys(const struct kvr_byte_rows *at, const struct coded *z, int H, int tile,
                       int h, const char *what)
{
    const float *of_keys = at->key_steps + (tile * KVR_BYTE_KEY_STEPS * H + h) * LINE;
    const float *of_tile = of_keys + (KVR_BYTE_KEY_STEPS - 1) * H * LINE;
    bool has_nan = false;

    for (int t = 0; t < TILE; t++) {
        const int row = (tile * TILE + t) * H + h;
        const float *step = of_keys + t / 16 * H * LINE + t % 16 * 2;
        const float want = t < z->left[tile] ? z->a[row] : 0;

        has_nan |= isnan(want);
        if (t >= z->left[tile]) {
            ck_assert(step[1] == -INFINITY);
            continue;
        }
        for (int i = 0; i < D && !isnan(want); i++)
            ck_assert_msg((int8_t)at->keys[row * D + i] == z->k[row * D + i], "%s: key [%d,%d,%d]",
                          what, t, h, i);
        /* The kernel stores a key's scale relative to of_tile[0], a power of two. Small relative
         * scales are denormal and have fewer bits, so the tolerance is 2^-140 of_tile[0]. */
        ck_assert_msg(isnan(want) ? step[0] == 0 && step[1] == 0
                                  : fabs((double)step[0] * 0x1p-127 * (double)of_tile[0] -
                                         (double)want) <= 0x1p-140 * (double)of_tile[0],
                      "%s: scale of key [%d,%d]: %g of %g, not %g", what, t, h, (double)step[0],
                      (double)of_tile[0], (double)want);
        ck_assert(fabs((double)step[1] + KVR_BYTE_BIAS * 0x1p-149 * (double)step[0]) <=
                  4 * u * fabs((double)step[1]));
        ck_assert(isfinite(step[0]) && step[0] < 0x1p127f);
    }
    ck_assert(has_nan ? isnan(of_tile[1]) : of_tile[1] == 0);
}

/* Compares the codes and scales of a tile's values of head h with the reference. */
static void check_values(const struct kvr_byte_rows *at, const struct coded *z, int H, int tile,
                         int h, const char *what)
{
    for (int i = 0; i < D; i++) {
        const uint8_t *code = at->values + ((tile * D + i) * H + h) * TILE;
        const float b = z->b[(tile * H + h) * D + i];
        const float step =
            at->value_steps[((tile * KVR_BYTE_VALUE_STEPS + i / LINE) * H + h) * LINE + i % LINE];

        ck_assert(isnan(b) ? isnan(step)
                           : fabs((double)step * 255 * 0x1p-22 - (double)b) <= 4 * u * (double)b);
        for (int t = 0; t < z->left[tile] && !isnan(b); t++)
            ck_assert_msg(code[value_slot(t)] == z->v[((tile * TILE + t) * H + h) * D + i] + 128,
                          "%s: value [%d,%d,%d]", what, t, h, i);
    }
}

START_TEST(codes)
{
    const struct byte_case *c = &cases[_i / N_FILLS];
    const enum fill fill = (enum fill)(_i % N_FILLS);
    const int H = c->heads, tiles = tiles_of(c);
    const size_t n = (size_t)(tokens_of(c) * H * D), bytes = kvr_byte_rows_size(H, tiles);
    float *k = floats(n), *v = floats(n);
    uint8_t *got = malloc(bytes);
    struct kvr_byte_rows at;
    struct coded z;
    void *scratch;

    ck_assert_ptr_nonnull(got);
    fill_rows(k, tokens_of(c), H, fill, 3);
    fill_rows(v, tokens_of(c), H, fill, 4);
    z = code_all(c, k, v);
    device_rows(c, k, v, &scratch);
    both_get(got, scratch, bytes, fill_names[fill]);
    at = kvr_byte_rows_at(got, H, tiles);
    for (int i = 0; i < H * D; i++)
        ck_assert_msg(at.mu[i] == z.mu[i] || (isnan(at.mu[i]) && isnan(z.mu[i])), "%s: mu %d",
                      fill_names[fill], i);
    for (int tile = 0; tile < tiles; tile++)
        for (int h = 0; h < H; h++) {
            check_keys(&at, &z, H, tile, h, fill_names[fill]);
            check_values(&at, &z, H, tile, h, fill_names[fill]);
        }
    both_free();
    coded_free(&z);
    free(got);
    free(k);
    free(v);
}
END_TEST

/* ---- attention ----------------------------------------------------------------------------- */

/* Attention of one query and head, computed in F64 from the codes: the output, the log of the
 * softmax sum (lse), and error bounds of both (off, lse_off). */
struct answer {
    double out[D], off[D], lse, lse_off;
};

/* Scores of a query over one tile. g is the query's scale, `mean` its dot product with the mean key
 * mu, and mean_size the sum of magnitudes of the terms of `mean`. */
struct query_scores {
    float x[D], most; /* scaled query, and its largest magnitude */
    double g, mean, mean_size;
    double s[TILE], m, e; /* scores of a tile, their maximum, and the bound of their error */
    bool bad_row;         /* a scale is not finite */
};

/* Running softmax: the maximum M, the denominator, the denominator's error bound den_off, and for
 * every channel the sum of the magnitudes of its terms. */
struct running {
    double M, den, den_off, size[D];
};

static struct query_scores scores_begin(const struct coded *z, const float *q, int h)
{
    struct query_scores s = { .mean = 0 };

    for (int i = 0; i < D; i++) {
        s.x[i] = q[i] * (1.0f / sqrtf((float)D));
        s.mean += (double)s.x[i] * (double)z->mu[h * D + i];
        s.mean_size += fabs((double)s.x[i] * (double)z->mu[h * D + i]);
    }
    s.most = most_of(s.x, NULL, 1, D);
    s.g = step_of(s.most);
    s.bad_row = !isfinite(s.g) || !isfinite(s.mean);
    return s;
}

static void scores_of_tile(const struct byte_case *c, const struct coded *z, int tile, int h,
                           struct query_scores *s)
{
    s->m = -INFINITY;
    s->e = 0;
    for (int t = 0; t < z->left[tile]; t++) {
        const int row = (tile * TILE + t) * c->heads + h;
        const double unit = s->g * (double)z->a[row];
        int dot = 0;

        for (int i = 0; i < D; i++)
            dot += code_of(s->x[i], inverse(s->most)) * z->k[row * D + i];
        s->bad_row |= isnan(z->a[row]);
        s->s[t] = unit * dot + s->mean + (double)c->log_m[z->span[tile]];
        /* KVR_BYTE_BIAS is rounded twice, with an error of at most unit / 4 each: in the stored
         * product with the key's scale (C of byte_rows.h), and in the FMA that adds C. */
        s->e = fmax(s->e, unit / 2 + 16 * u * (fabs(unit * dot) + fabs(s->mean) + 2));
        s->m = fmax(s->m, s->s[t]);
    }
    /* The error of `mean` is common to all keys. It cancels in the output, but not in lse. */
    s->e += 2 * D * u * s->mean_size;
}

/* Online softmax: rescales the sums and adds the tile's weights and values. */
static void add_tile(const struct byte_case *c, const struct coded *z, int tile, int h,
                     const struct query_scores *s, struct running *sum, struct answer *r)
{
    const int H = c->heads;
    const double change = exp(sum->M - fmax(sum->M, s->m)), keep = isfinite(change) ? change : 0;
    double weight_scale;

    sum->M = fmax(sum->M, s->m);
    weight_scale = exp(s->m - sum->M) / 255;
    sum->den *= keep;
    sum->den_off *= keep;
    for (int i = 0; i < D; i++) {
        r->out[i] *= keep;
        r->off[i] *= keep;
        sum->size[i] *= keep;
    }
    for (int t = 0; t < z->left[tile]; t++) {
        const int row = (tile * TILE + t) * H + h;
        const double p = 255 * exp(s->s[t] - s->m), near = p * (2 * s->e + 0x1p-11 + 32 * u);
        const double one = fabs(p - floor(p) - 0.5) <= near ? 1 : near > 0.5 ? near + 1 : 0;

        sum->den += weight_scale * rint(p);
        sum->den_off += weight_scale * one;
        for (int i = 0; i < D; i++) {
            const double b = z->b[(tile * H + h) * D + i], v = b * z->v[row * D + i];

            r->out[i] += weight_scale * rint(p) * v;
            r->off[i] += weight_scale * (one * fabs(v) + rint(p) * 256 * u * b);
            sum->size[i] += weight_scale * rint(p) * fabs(v);
        }
    }
    r->lse_off = fmax(r->lse_off, 2 * s->e);
}

static void answer_of(const struct byte_case *c, const struct coded *z, const float *q, int h,
                      struct answer *r)
{
    struct query_scores s = scores_begin(z, q, h);
    struct running sum = { .M = -INFINITY };

    memset(r, 0, sizeof *r);
    for (int tile = 0; tile < z->n_tiles; tile++) {
        scores_of_tile(c, z, tile, h, &s);
        add_tile(c, z, tile, h, &s, &sum, r);
    }
    sum.den_off +=
        /* Rescaling the sums by weight_scale adds one rounding per tile. */
        sum.den * (2 * r->lse_off + 8 * u * (double)(z->n_tiles + 8));
    for (int i = 0; i < D; i++) {
        const double all = r->off[i] + sum.size[i] * (2 * r->lse_off + 8 * u * (z->n_tiles + 8));

        r->out[i] /= sum.den;
        r->off[i] = (all + fabs(r->out[i]) * sum.den_off) / (sum.den - sum.den_off) + 1e-38;
        if (s.bad_row)
            r->out[i] = NAN;
    }
    r->lse = s.bad_row ? NAN : sum.M + log(sum.den);
    r->lse_off += sum.den_off / (sum.den - sum.den_off) + 8 * u * fabs(sum.M);
}

/* Returns the largest ratio of an error to its bound. */
static double hold_to(const struct byte_case *c, const struct coded *z, const float *q,
                      const float *out, const float *mx, const float *sum, const char *what)
{
    double worst = 0;

    for (int64_t i = 0; i < c->n_query; i++)
        for (int h = 0; h < c->heads; h++) {
            const int64_t row = i * c->heads + h;
            const double lse = (double)mx[row] + log((double)sum[row]);
            struct answer r;

            answer_of(c, z, q + row * D, h, &r);
            ck_assert_msg(isnan(r.lse) ? isnan(lse) : fabs(lse - r.lse) <= r.lse_off,
                          "%s: query %lld of head %d: log of its weights %g, not %g +- %g", what,
                          (long long)i, h, lse, r.lse, r.lse_off);
            for (int d = 0; d < D; d++) {
                const double got = out[row * D + d];

                ck_assert_msg(isnan(r.out[d]) ? isnan(got) : fabs(got - r.out[d]) <= r.off[d],
                              "%s: [%lld,%d,%d] %g, not %g +- %g", what, (long long)i, h, d, got,
                              r.out[d], r.off[d]);
                if (isfinite(got))
                    worst = fmax(worst, fabs(got - r.out[d]) / r.off[d]);
            }
        }
    return worst;
}

static bool bytes_here(void)
{
    return kvr_stream_emulated() || kvr_attend_bytes_supported(both_stream);
}

static int spans_of(const struct byte_case *c, struct kvr_byte_span *out)
{
    int n = 0;

    for (; n < MOST_SPANS && c->n[n]; n++)
        out[n] = (struct kvr_byte_span){ c->n[n], c->log_m[n] };
    return n;
}

START_TEST(attention)
{
    const struct byte_case *c = &cases[_i / N_FILLS];
    const enum fill fill = (enum fill)(_i % N_FILLS);
    const int H = c->heads;
    const size_t n = (size_t)(tokens_of(c) * H * D), rows = (size_t)(c->n_query * H);
    const struct kvr_attend_shape a = { c->n_query, H, D };
    const size_t n_parts = kvr_attend_parts_floats(&a);
    float *k = floats(n), *v = floats(n), *q = floats(rows * D), *out = floats(rows * D);
    float *mx = floats(rows), *sum = floats(rows), *first = floats(rows * D), *d_out, *parts;
    const float *d_q;
    struct kvr_attend_state st;
    struct kvr_byte_span spans[MOST_SPANS];
    const int n_spans = spans_of(c, spans);
    struct kvr_byte_rows at;
    struct coded z;
    void *scratch;

    if (!bytes_here())
        goto end;
    fill_rows(k, tokens_of(c), H, fill, 3);
    fill_rows(v, tokens_of(c), H, fill, 4);
    fill_rows(q, c->n_query, H, fill == FILL_HUGE || fill == FILL_BEYOND_FP16 ? FILL_TINY : fill,
              5);
    z = code_all(c, k, v);
    at = device_rows(c, k, v, &scratch);
    ck_assert(kvr_attend_bytes_maps(&at, H));
    d_q = both_in(q, rows * D * sizeof(float));
    st = (struct kvr_attend_state){ both_out(rows * sizeof(float)), both_out(rows * sizeof(float)),
                                    both_out(rows * D * sizeof(float)) };
    d_out = both_out(rows * D * sizeof(float));
    parts = both_out(n_parts * sizeof(float));
    /* Runs 0 and 1 are unsplit and must give identical bits. The emulator schedules them in
     * different orders, and run 1 initializes the softmax state in a separate launch. Run 2 is
     * split along keys, which changes the order of its sums. */
    for (int i = 0; i < 3; i++) {
        const bool cut = i == 2;

        kvr_stream_seed(both_stream, 50 + (uint64_t)i);
        const struct kvr_attend_io io = { .q = d_q, .state = st, .begins = i != 1 };

        if (!io.begins)
            kvr_attend_begin_cuda(both_stream, &a, &st);
        kvr_attend_bytes_cuda(both_stream, &a, &io, spans, n_spans, &at, cut ? parts : NULL,
                              cut ? n_parts : 0);
        kvr_attend_finish_cuda(both_stream, &a, &st, d_out);
        both_get(mx, st.mx, rows * sizeof(float), fill_names[fill]);
        both_get(sum, st.sum, rows * sizeof(float), fill_names[fill]);
        both_get(out, d_out, rows * D * sizeof(float), fill_names[fill]);
        hold_to(c, &z, q, out, mx, sum, fill_names[fill]);
        if (!i)
            memcpy(first, out, rows * D * sizeof(float));
        else if (i == 1)
            ck_assert_mem_eq(first, out, rows * D * sizeof(float));
    }
    both_free();
    coded_free(&z);
end:
    free(k);
    free(v);
    free(q);
    free(out);
    free(mx);
    free(sum);
    free(first);
}
END_TEST

/* ---- kvr_attend() with int8 ----------------------------------------------------------------- */

static double relative(const float *x, const float *want, size_t n)
{
    double off = 0, size = 0;

    for (size_t i = 0; i < n; i++) {
        off += ((double)x[i] - (double)want[i]) * ((double)x[i] - (double)want[i]);
        size += (double)want[i] * (double)want[i];
    }
    return sqrt(off / size);
}

/* Inputs of kvr_attend(): an encoded segment of n tokens, JOB_NOW unquantized tokens, and JOB_T
 * queries. */
enum { JOB_T = 5, JOB_H = 2, JOB_NOW = 33 };
struct job_inputs {
    struct kvr_packed k, v;
    const float *q;
    const void *raw; /* [JOB_NOW, JOB_H, D] */
    enum kvr_dtype exact;
    int n; /* number of tokens of the encoded segment */
};

/* Runs kvr_attend() on device `at`. Returns the number of launches of attend_bytes, or 0 on the
 * CPU. */
static int64_t run_job(const struct job_inputs *x, struct kvr_dev *at, bool int8, float *out)
{
    const size_t n_q = JOB_T * JOB_H * D, n_now = JOB_NOW * JOB_H * D;
    const struct kvr_attend_needs needs = { .n_heads = JOB_H,
                                            .head_dim = D,
                                            .max_query = JOB_T,
                                            .exact = x->exact,
                                            .staged = true,
                                            .rotated = true,
                                            .int8 = int8,
                                            .max_coded = 16 };
    struct kvr_segment seg = { .kind = KVR_SEG_CODED, .n_tok = x->n };
    struct kvr_buf rows = { 0 }, of_q = { 0 }, of_out = { 0 };
    struct kvr_attend_scratch scratch = { 0 };
    int64_t n_launches = 0;

    ck_assert_int_eq(kvr_packed_copy(&x->k, at, &seg.k), KVR_OK);
    ck_assert_int_eq(kvr_packed_copy(&x->v, at, &seg.v), KVR_OK);
    ck_assert_int_eq(kvr_buf_alloc(&rows, at, KVR_MEM_KV, n_now * sizeof(float)), KVR_OK);
    ck_assert_int_eq(kvr_buf_alloc(&of_q, at, KVR_MEM_ACT, n_q * sizeof(float)), KVR_OK);
    ck_assert_int_eq(kvr_buf_alloc(&of_out, at, KVR_MEM_ACT, n_q * sizeof(float)), KVR_OK);
    ck_assert_int_eq(kvr_dev_put(at, rows.p, x->raw, n_now * kvr_dtype_size(x->exact)), KVR_OK);
    ck_assert_int_eq(kvr_dev_put(at, of_q.p, x->q, n_q * sizeof(float)), KVR_OK);
    const struct kvr_span spans[] = {
        { .seg = &seg, .t0 = 3, .n = x->n - 3, .log_m = 0.5f },
        { .raw = { rows.p, rows.p, x->exact }, .n = JOB_NOW },
        { .seg = &seg, .n = x->n },
    };
    const struct kvr_attend_job job = { .n_heads = JOB_H,
                                        .head_dim = D,
                                        .n_query = JOB_T,
                                        .q = of_q.p,
                                        .out = of_out.p,
                                        .spans = spans,
                                        .n_spans = 3,
                                        .int8 = int8,
                                        .tensor_cores = x->exact == KVR_BF16 };

    ck_assert_msg(kvr_attend_check(&needs, kvr_dev_backend(at)) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_attend_reserve(&scratch, at, &needs) == KVR_OK, "%s", kvr_error());
    kvr_attend(&job, &scratch);
    ck_assert_msg(kvr_dev_sync(at) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_dev_get(at, out, of_out.p, n_q * sizeof(float)), KVR_OK);
    if (kvr_dev_stream(at))
        n_launches = kvr_stream_launches(kvr_dev_stream(at), "attend_bytes");
    kvr_attend_release(&scratch);
    kvr_packed_free(&seg.k);
    kvr_packed_free(&seg.v);
    kvr_buf_free(&rows);
    kvr_buf_free(&of_q);
    kvr_buf_free(&of_out);
    return n_launches;
}

/* Attention over an encoded span, unquantized tokens and another encoded span. The output of int8
 * attention on a device is compared with int8 attention on the CPU and with F32 attention on the
 * CPU. On normal values, 8-bit attention has a relative error of .012, and 7-bit attention (CPUs
 * without byte products) .019 (docs/decisions.md). With tokens in BF16, two outputs differ by at
 * most .03. The scratch has 16 tiles of 128 tokens, so 2 x 2500 tokens take three launches. */
START_TEST(jobs)
{
    static const struct {
        const char *k, *v;
        enum kvr_dtype exact;
        int n, launches;
    } t[] = { { "sym(bits=4)", "sym(bits=4)", KVR_BF16, 200, 1 },
              { "asym(bits=2)", "asym(bits=2,axis=token)", KVR_BF16, 40, 1 },
              { "hadamard | sym(bits=4)", "hadamard | sym(bits=4)", KVR_F32, 300, 1 },
              { "sym(bits=4)", "asym(bits=8)", KVR_BF16, 2500, 3 } };
    enum { T = JOB_T, H = JOB_H, NOW = JOB_NOW };
    const size_t n_q = T * H * D, n_k = (size_t)t[_i].n * H * D, n_now = NOW * H * D;
    float *q = floats(n_q), *x = floats(n_k), *work = floats(n_k), *now = floats(n_now);
    float *out[3] = { floats(n_q), floats(n_q), floats(n_q) };
    const struct kvr_block_shape shape = { t[_i].n, H, D };
    struct kvr_codec *k = open_codec(t[_i].k, KVR_K, false, KVR_COMPUTE_F32);
    struct kvr_codec *v = open_codec(t[_i].v, KVR_V, false, KVR_COMPUTE_F32);
    struct kvr_dev *host = open_dev(), *dev;
    struct job_inputs in = { .q = q, .exact = t[_i].exact, .n = t[_i].n };
    void *raw = malloc(n_now * sizeof(float));

    if (!kvr_stream_emulated())
        goto end;
    setenv("KVREEL_EMULATED_CAPABILITY", "9.0", 1);
    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CUDA), KVR_OK);
    unsetenv("KVREEL_EMULATED_CAPABILITY");
    kvr_normal(q, n_q, 3, KVR_RNG_TEST, 3, 0, 0);
    fill_rows(x, t[_i].n, H, FILL_NORMAL, 8);
    ck_assert_int_eq(kvr_codec_encode(k, host, x, &shape, work, &in.k), KVR_OK);
    fill_rows(x, t[_i].n, H, FILL_NORMAL, 9);
    ck_assert_int_eq(kvr_codec_encode(v, host, x, &shape, work, &in.v), KVR_OK);
    fill_rows(now, NOW, H, FILL_NORMAL, 10);
    kvr_from_f32(raw, t[_i].exact, now, n_now);
    in.raw = raw;
    ck_assert_int_eq(run_job(&in, dev, true, out[0]), t[_i].launches);
    run_job(&in, host, true, out[1]);
    run_job(&in, host, false, out[2]);
    ck_assert_msg(relative(out[0], out[2], n_q) <= 0.03, "%s, against F32: %g", t[_i].k,
                  relative(out[0], out[2], n_q));
    ck_assert_msg(relative(out[0], out[1], n_q) <= 0.03, "%s, against the CPU: %g", t[_i].k,
                  relative(out[0], out[1], n_q));
    ck_assert_msg(relative(out[0], out[2], n_q) >= 0.001, "bytes are not multiplied");
    kvr_packed_free(&in.k);
    kvr_packed_free(&in.v);
    kvr_dev_close(&dev);
end:
    kvr_dev_close(&host);
    kvr_codec_close(&k);
    kvr_codec_close(&v);
    free(q);
    free(x);
    free(work);
    free(now);
    free(raw);
    for (int i = 0; i < 3; i++)
        free(out[i]);
}
END_TEST

/* An unsupported job is refused, and the message names the requirement that it does not meet. */
START_TEST(what_it_refuses)
{
    static const struct {
        const char *capability, *says;
        bool fused;
        int head_dim, correction;
    } t[] = { { "9.0", NULL, false, 128, 0 },
              { "9.0", "path fused is not supported; use path staged", true, 128, 0 },
              { "9.0", "the method's correction 'taylor' is not supported", false, 128, 1 },
              { "9.0", "head_dim is 64, need 128", false, 64, 0 },
              { "8.0", "compute capability is 8.0, need 9.0", false, 128, 0 } };

    if (!kvr_stream_emulated())
        return;
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        const struct kvr_attend_needs needs = { .n_heads = 1,
                                                .head_dim = t[i].head_dim,
                                                .max_query = 3,
                                                .exact = KVR_BF16,
                                                .staged = !t[i].fused,
                                                .correction = kvr_correction_at(t[i].correction),
                                                .int8 = true,
                                                .max_coded = 100 };
        struct kvr_attend_scratch scratch = { 0 };
        struct kvr_dev *dev;
        enum kvr_status st;

        setenv("KVREEL_EMULATED_CAPABILITY", t[i].capability, 1);
        ck_assert_int_eq(kvr_dev_open(&dev, KVR_CUDA), KVR_OK);
        unsetenv("KVREEL_EMULATED_CAPABILITY");
        st = kvr_attend_check(&needs, KVR_CUDA);
        if (st == KVR_OK)
            st = kvr_attend_reserve(&scratch, dev, &needs);
        ck_assert_int_eq(st, t[i].says ? KVR_EUNSUPPORTED : KVR_OK);
        if (t[i].says)
            ck_assert_msg(strstr(kvr_error(), t[i].says) != NULL, "'%s', expected '%s'",
                          kvr_error(), t[i].says);
        kvr_attend_release(&scratch);
        kvr_dev_close(&dev);
    }
}
END_TEST

TCase *cases_bytes(void)
{
    TCase *tc = tcase_create("attention by bytes");

    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, codes, 0, N_CASES * N_FILLS);
    tcase_add_loop_test(tc, attention, 0, N_CASES * N_FILLS);
    tcase_add_loop_test(tc, jobs, 0, 4);
    tcase_add_test(tc, what_it_refuses);
    return tc;
}
