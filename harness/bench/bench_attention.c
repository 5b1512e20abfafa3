/* bench_attention.c - see bench_attention.h. */
#include "harness/bench/bench_attention.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/bench/products_bf16.h"
#include "harness/cache/cache.h"
#include "harness/core/clock.h"
#include "harness/core/isa.h"
#include "harness/core/onednn.h"
#include "harness/core/onednn_guard.h"
#include "harness/core/rng.h"

/* Shape of one attention call: the queries of one chunk attend to `past_chunks` cached chunks and
 * to their own chunk. */
struct shape {
    int heads, d, tokens_per_frame, frames_per_chunk, past_chunks;
};
static const struct shape shapes[] = {
    { 3, 64, 36, 3, 6 },    /* 108 queries x 756 keys, the window of the bundled model */
    { 12, 128, 64, 3, 24 }, /* 192 queries x 4800 keys, with the heads of Wan */
};
static const char *const methods[] = { "BF16", "RTN_INT4", "KIVI_INT2", "QUAROT_KV_INT4" };
static const char *const as_bytes[] = { "RTN_INT4", "RTN_INT2", "KIVI_INT4", "KIVI_INT2" };
static const char *const as_bf16[] = { "BF16", "RTN_INT4", "KIVI_INT2" };
enum { N_SHAPES = 2, N_METHODS = 4, N_PATHS = 2, N_BYTES = 4, N_BF16 = 3, MANY_CHUNKS = 32 };
enum { MAX_D = 256, CHECKED = 48 };
_Static_assert(N_SHAPES *(N_METHODS *N_PATHS + 2 * N_BYTES + 2 * N_BF16) <=
                   KVR_BENCH_ATTENTION_ROWS,
               "a row each");

/* What the speed of a result row is compared with: oneDNN's matrix products in F32 (PRODUCTS)
 * or BF16 (PRODUCTS_BF16), or kvreel's attention over a BF16 cache in F32 (OWN) or BF16
 * (OWN_BF16). */
enum reference { PRODUCTS, PRODUCTS_BF16, OWN, OWN_BF16 };
static const char *const reference_names[] = { "oneDNN products", "oneDNN BF16 products",
                                               "own F32 of BF16", "own BF16 products" };

struct subject {
    const char *method;
    enum kvr_path path;
    enum kvr_attend_as attend;
    bool bf16;
    enum reference against;
};

struct kit {
    struct kvr_dev *dev;
    const struct shape *s;
    int rounds;
    double seconds; /* time limit in seconds for all rounds of a row; 0: no limit */
    int64_t n_query, n_key;
    size_t width;
    /* [4][T, H, D]: queries, keys and values of the current chunk, and the output */
    struct kvr_buf x;
    /* [n_past][3][T, H, D]: queries, keys and values of the chunks that fill the cache */
    struct kvr_buf past;
    int n_past;
    struct kvr_buf k, v, scores, product;
    struct kvr_bf16_products *bf16; /* NULL: not yet opened */
    struct kvr_buf narrow;          /* queries, keys and values in BF16 */
};

static void kit_close(struct kit *t)
{
    kvr_buf_free(&t->x);
    kvr_buf_free(&t->past);
    kvr_buf_free(&t->k);
    kvr_buf_free(&t->v);
    kvr_buf_free(&t->scores);
    kvr_buf_free(&t->product);
    kvr_bf16_products_close(&t->bf16);
    kvr_buf_free(&t->narrow);
}

static enum kvr_status kit_open(struct kit *t)
{
    const size_t q = (size_t)t->n_query * t->width, k = (size_t)t->n_key * t->width;

    kvr_onednn_limit();
    KVR_TRY(kvr_buf_alloc(&t->x, t->dev, KVR_MEM_IO, 4 * q * sizeof(float)));
    KVR_TRY(kvr_buf_alloc(&t->k, t->dev, KVR_MEM_IO, k * sizeof(float)));
    KVR_TRY(kvr_buf_alloc(&t->v, t->dev, KVR_MEM_IO, k * sizeof(float)));
    KVR_TRY(kvr_buf_alloc(&t->scores, t->dev, KVR_MEM_IO,
                          (size_t)(t->n_query * t->n_key * omp_get_max_threads()) * sizeof(float)));
    KVR_TRY(kvr_buf_alloc(&t->product, t->dev, KVR_MEM_IO, q * sizeof(float)));
    kvr_normal(t->x.p, 3 * q, 1, KVR_RNG_SYNTHETIC, 1, 0, 0);
    t->n_past = t->s->past_chunks < MANY_CHUNKS ? t->s->past_chunks + 1 : MANY_CHUNKS;
    KVR_TRY(kvr_buf_alloc(&t->past, t->dev, KVR_MEM_IO, (size_t)t->n_past * 3 * q * sizeof(float)));
    for (int c = 0; c < t->n_past; c++)
        kvr_normal((float *)t->past.p + (size_t)c * 3 * q, 3 * q, 1, KVR_RNG_SYNTHETIC, (uint32_t)c,
                   1, 0);
    return KVR_OK;
}

/* Computes both matrix products of attention with oneDNN, one head per thread at a time. */
static enum kvr_status products(struct kit *t)
{
    const int d = t->s->d;
    const dnnl_dim_t m = t->n_query, n = t->n_key, ld = (dnnl_dim_t)t->width;
    int worst = dnnl_success;

#pragma omp parallel for schedule(static) reduction(max : worst)
    for (int h = 0; h < t->s->heads; h++) {
        const float *q = (const float *)t->x.p + h * d;
        float *s = (float *)t->scores.p + omp_get_thread_num() * m * n;

        dnnl_status_t st =
            kvr_dnnl_sgemm('N', 'T', m, n, d, 1, q, ld, (const float *)t->k.p + h * d, ld, 0, s, n);
        if (st == dnnl_success)
            st = kvr_dnnl_sgemm('N', 'N', m, d, n, 1, s, n, (const float *)t->v.p + h * d, ld, 0,
                                (float *)t->product.p + h * d, ld);
        worst = (int)st > worst ? (int)st : worst;
    }
    return kvr_onednn_done(worst, "bench", "a matrix product");
}

/* Computes both matrix products in BF16 with oneDNN. The inputs are rounded to BF16 once, in the
 * first call. */
static enum kvr_status products_bf16(struct kit *t)
{
    const size_t nq = (size_t)t->n_query * t->width, nk = (size_t)t->n_key * t->width;
    kvr_bf16 *q, *k, *v;
    int worst = dnnl_success;

    if (!t->bf16) {
        KVR_TRY(kvr_buf_alloc(&t->narrow, t->dev, KVR_MEM_IO, (nq + 2 * nk) * sizeof *q));
        KVR_TRY(kvr_bf16_products_open(&t->bf16, t->n_query, t->n_key, t->s->d, (int64_t)t->width,
                                       omp_get_max_threads()));
        kvr_from_f32(t->narrow.p, KVR_BF16, t->x.p, nq);
        kvr_from_f32((kvr_bf16 *)t->narrow.p + nq, KVR_BF16, t->k.p, nk);
        kvr_from_f32((kvr_bf16 *)t->narrow.p + nq + nk, KVR_BF16, t->v.p, nk);
    }
    q = t->narrow.p;
    k = q + nq;
    v = k + nk;
#pragma omp parallel for schedule(static) reduction(max : worst)
    for (int h = 0; h < t->s->heads; h++) {
        const int at = h * t->s->d, me = omp_get_thread_num();
        kvr_bf16 *s = (kvr_bf16 *)((float *)t->scores.p + me * t->n_query * t->n_key);
        const int st = kvr_bf16_products_run(t->bf16, me, q + at, k + at, v + at, s,
                                             (float *)t->product.p + at);

        worst = st > worst ? st : worst;
    }
    return kvr_onednn_done(worst, "bench", "a matrix product");
}

/* Fills a cache with the past chunks and appends the current chunk. The data of chunk c is that of
 * chunk c % t->n_past, so at most MANY_CHUNKS chunks differ. Past chunks are stored without
 * computing attention, because no benchmarked method selects tokens by their attention weights. */
static enum kvr_status fill(struct kit *t, struct kvr_cache *cache)
{
    const int fpc = t->s->frames_per_chunk;
    const size_t n = (size_t)t->n_query * t->width;
    float *x = t->x.p, *out = x + 3 * n;

    for (int c = 0; c <= t->s->past_chunks; c++) {
        const struct kvr_pass pass = { .chunk = c,
                                       .frame0 = c * fpc,
                                       .n_frames = fpc,
                                       .index = 0,
                                       .clean = c < t->s->past_chunks };

        memcpy(x, (const float *)t->past.p + (size_t)(c % t->n_past) * 3 * n, 3 * n * sizeof *x);
        KVR_TRY(kvr_cache_begin_pass(cache, &pass));
        KVR_TRY(kvr_cache_append(cache, 0, x + n, x + 2 * n));
        KVR_TRY(pass.clean ? kvr_cache_commit(cache, 0) : kvr_cache_attend(cache, 0, x, out));
        KVR_TRY(kvr_cache_end_pass(cache));
    }
    return KVR_OK;
}

/* Copies the cache's decoded keys and values to t->k and t->v. The tokens of the current chunk are
 * appended, rounded to BF16 as in the cache. */
static enum kvr_status read_back(struct kit *t, const struct kvr_cache *cache, const char *name)
{
    const size_t n = (size_t)t->n_query * t->width;
    const float *x = t->x.p;
    float *k = t->k.p, *v = t->v.p;
    int64_t past;

    KVR_TRY(kvr_cache_read(cache, 0, k, v, &past));
    if (past + t->n_query != t->n_key)
        return kvr_fail(KVR_EINTERNAL,
                        "bench: %s: the cache has %lld past tokens, but the benchmark expects %lld "
                        "(all keys except those of the current chunk)",
                        name, (long long)past, (long long)(t->n_key - t->n_query));
    k += (size_t)past * t->width;
    v += (size_t)past * t->width;
    for (size_t i = 0; i < n; i++) {
        k[i] = kvr_bf16_to_f32(kvr_f32_to_bf16(x[n + i]));
        v[i] = kvr_bf16_to_f32(kvr_f32_to_bf16(x[2 * n + i]));
    }
    return KVR_OK;
}

struct error {
    double worst;       /* largest absolute difference */
    double relative_l2; /* relative L2 error over all checked outputs */
    double of_values;   /* RMS error of the outputs, relative to the RMS of the cached values V */
};

/* Computes the output of one head for one query in double precision, with the decoded keys and
 * values. */
static void direct(const struct kit *t, const float *q, int h, double *p, double out[MAX_D])
{
    const int d = t->s->d;
    const float *k = (const float *)t->k.p + h * d, *v = (const float *)t->v.p + h * d;
    double top = -INFINITY, sum = 0;

    memset(out, 0, (size_t)d * sizeof *out);
    for (int64_t j = 0; j < t->n_key; j++) {
        p[j] = 0;
        for (int c = 0; c < d; c++)
            p[j] += (double)q[c] * k[(size_t)j * t->width + (size_t)c];
        p[j] /= sqrt(d);
        top = fmax(top, p[j]);
    }
    for (int64_t j = 0; j < t->n_key; j++) {
        sum += p[j] = exp(p[j] - top);
        for (int c = 0; c < d; c++)
            out[c] += p[j] * v[(size_t)j * t->width + (size_t)c];
    }
    for (int c = 0; c < d; c++)
        out[c] /= sum;
}

/* Computes the error of the cache's output relative to direct(). It checks every n-th query,
 * n = max(n_query / CHECKED, 17), and one head of each checked query. */
static enum kvr_status error_of(struct kit *t, struct error *out)
{
    const int d = t->s->d, heads = t->s->heads;
    const float *x = t->x.p, *got = x + 3 * (size_t)t->n_query * t->width;
    const int64_t every = t->n_query / CHECKED > 17 ? t->n_query / CHECKED : 17;
    const size_t n_values = (size_t)t->n_key * t->width;
    double *p = malloc((size_t)t->n_key * sizeof *p), e2 = 0, all2 = 0, v2 = 0;
    int64_t n = 0;

    if (!p)
        return kvr_fail(KVR_ENOMEM, "bench: out of memory");
    out->worst = 0;
    for (int64_t r = 0; r < t->n_query; r += every) {
        const int h = (int)(r / every % heads);
        const size_t at = (size_t)r * t->width + (size_t)(h * d);
        double o[MAX_D];

        direct(t, x + at, h, p, o);
        for (int c = 0; c < d; c++) {
            const double e = fabs(o[c] - got[at + (size_t)c]);

            n++;
            e2 += e * e;
            all2 += o[c] * o[c];
            if (out->worst == out->worst && !(e <= out->worst))
                out->worst = e;
        }
    }
    free(p);
    for (size_t i = 0; i < n_values; i++)
        v2 += (double)((const float *)t->v.p)[i] * ((const float *)t->v.p)[i];
    out->relative_l2 = sqrt(e2 / all2);
    out->of_values = sqrt(e2 / (double)n / (v2 / (double)n_values));
    return KVR_OK;
}

/* Tolerances. BF16: rounding a number has a relative error of at most 2^-8. An output is a weighted
 * mean of values, so its error reaches 2^-8 only if all rounding errors have the same sign. With
 * KIVI_INT2, the error of the outputs is .0007 times the RMS of V. F32: the error is below 1e-4 if
 * values are of order 1, with up to 65520 keys. int8: with random keys, the relative L2 error of
 * the outputs is .01 to .02 (attend_dot.h). A wrong scale would increase it tenfold. */
static enum kvr_status check(struct kit *t, const struct kvr_cache *cache, const struct subject *x,
                             struct kvr_bench_row *row)
{
    const bool int8 = x->attend == KVR_ATTEND_INT8;
    struct error e = { NAN, NAN, NAN };

    KVR_TRY(read_back(t, cache, row->name));
    KVR_TRY(error_of(t, &e));
    row->error = e.relative_l2;
    if (x->bf16 && !(e.of_values <= 0x1p-8))
        return kvr_fail(KVR_ETOLERANCE,
                        "bench: %s: the attention output differs from a double-precision reference "
                        "by an RMS error of %g times the RMS of V; the limit is 2^-8",
                        row->name, e.of_values);
    if (!int8 && !x->bf16 && !(e.worst <= 1e-4))
        return kvr_fail(KVR_ETOLERANCE,
                        "bench: %s: the attention output differs from a double-precision reference "
                        "by up to %g; the limit is 1e-4",
                        row->name, e.worst);
    if (int8 && !(e.relative_l2 <= .05))
        return kvr_fail(KVR_ETOLERANCE,
                        "bench: %s: the attention output differs from a double-precision reference "
                        "by a relative L2 error of %g; the limit is .05",
                        row->name, e.relative_l2);
    return KVR_OK;
}

/* Measures the time in ns of one attention call for the current chunk. */
static enum kvr_status attend_once(struct kit *t, struct kvr_cache *cache, int64_t *ns)
{
    const size_t n = (size_t)t->n_query * t->width;
    const int fpc = t->s->frames_per_chunk, c = t->s->past_chunks;
    const struct kvr_pass pass = {
        .chunk = c, .frame0 = c * fpc, .n_frames = fpc, .index = 1, .clean = false
    };
    float *x = t->x.p;
    int64_t t0;

    KVR_TRY(kvr_cache_begin_pass(cache, &pass));
    KVR_TRY(kvr_cache_append(cache, 0, x + n, x + 2 * n));
    t0 = kvr_now_ns();
    KVR_TRY(kvr_cache_attend(cache, 0, x, x + 3 * n));
    *ns = kvr_now_ns() - t0;
    return kvr_cache_end_pass(cache);
}

/* Measures the rate of one attention call with evicted CPU caches, and of another call immediately
 * afterwards. */
static enum kvr_status time_caches(struct kit *t, struct kvr_cache *cache, double flops,
                                   double *cold, double *warm)
{
    KVR_TRY(kvr_bench_evict_all());
    for (int i = 0; i < 2; i++) {
        int64_t ns;

        KVR_TRY(attend_once(t, cache, &ns));
        *(i ? warm : cold) = flops / (double)ns;
    }
    return KVR_OK;
}

/* Returns whether the time limit has passed and there are enough rounds to compute quartiles. */
static bool is_late(const struct kit *t, int n, int64_t began)
{
    return n >= 2 && t->seconds > 0 && (double)(kvr_now_ns() - began) > t->seconds * 1e9;
}

/* Measures attention with `cache`, alternating with the reference. `reference` NULL: the reference
 * is oneDNN's matrix products. */
static enum kvr_status time_cache(struct kit *t, struct kvr_cache *cache,
                                  struct kvr_cache *reference, const struct subject *x,
                                  struct kvr_bench_row *row)
{
    const double flops = 4.0 * (double)t->n_query * (double)t->n_key * (double)t->width;
    double v[KVR_BENCH_MAX_ROUNDS], ratio[KVR_BENCH_MAX_ROUNDS];
    double cold[KVR_BENCH_CACHE_ROUNDS], warm[KVR_BENCH_CACHE_ROUNDS];
    const int caches = kvr_bench_cache_rounds(t->rounds);
    int64_t began = 0;
    bool last = false, late = false;
    int n = -1; /* round -1 is a warm-up */

    for (; !last; n++) {
        int64_t other, ns;

        if (n == 0)
            began = kvr_now_ns();
        late = is_late(t, n, began);
        last = n >= 0 && (kvr_bench_last(ratio, n, t->rounds) || late);
        kvr_bench_rotate_rows(t->x.p, (size_t)t->n_query * t->width * sizeof(float),
                              t->width * sizeof(float)); /* reorders the queries */
        other = kvr_now_ns();
        if (reference) {
            KVR_TRY(attend_once(t, reference, &other));
        } else {
            KVR_TRY(x->against == PRODUCTS ? products(t) : products_bf16(t));
            other = kvr_now_ns() - other;
        }
        KVR_TRY(attend_once(t, cache, &ns));
        if (n >= 0) {
            v[n] = flops / (double)ns;
            ratio[n] = (double)other / (double)ns;
        }
        if (n >= 0 && n < caches)
            KVR_TRY(time_caches(t, cache, flops, &cold[n], &warm[n]));
    }
    row->device = "cpu";
    row->unit = "GFLOP/s";
    row->reference = reference_names[x->against];
    kvr_bench_fill(row, v, ratio, n);
    kvr_bench_fill_caches(row, cold, warm, n < caches ? n : caches);
    row->out_of_time = late && !row->steady && n < t->rounds;
    return KVR_OK;
}

static enum kvr_status open_filled(struct kit *t, const struct subject *x,
                                   struct kvr_scheme **scheme, struct kvr_cache **cache)
{
    const struct shape *s = t->s;
    const struct kvr_cache_shape shape = {
        .n_layers = 1,
        .n_heads = s->heads,
        .head_dim = s->d,
        .tokens_per_frame = s->tokens_per_frame,
        .frames_per_chunk = s->frames_per_chunk,
        .capacity_frames = s->frames_per_chunk * (s->past_chunks + 1),
        .exact = KVR_BF16,
        .attend = x->attend,
        .bf16 = x->bf16,
    };

    KVR_TRY(kvr_scheme_open(scheme, x->method, NULL, 0));
    KVR_TRY(kvr_cache_open(cache, t->dev, *scheme, &shape, x->path));
    return fill(t, *cache);
}

static void name_row(const struct kit *t, const struct subject *x, struct kvr_bench_row *row)
{
    static const char *const suffix[] = { "", ".onednn", "", ".bf16" };
    const char *how = x->attend == KVR_ATTEND_INT8 ? "int8"
                      : x->bf16                    ? "bf16"
                                                   : kvr_path_names[x->path];

    snprintf(row->name, sizeof row->name, "attention.%s.%s.%lldx%lld%s", how, x->method,
             (long long)t->n_query, (long long)t->n_key, suffix[x->against]);
}

static enum kvr_status time_row(struct kit *t, const struct subject *x, struct kvr_bench_row *row)
{
    const struct subject own = { "BF16", x->path, KVR_ATTEND_FLOAT, x->against == OWN_BF16, 0 };
    struct kvr_scheme *scheme = NULL, *bf16 = NULL;
    struct kvr_cache *cache = NULL, *reference = NULL;
    enum kvr_status st = KVR_OK;

    name_row(t, x, row);
    if (x->against >= OWN)
        st = open_filled(t, &own, &bf16, &reference);
    if (st == KVR_OK)
        st = open_filled(t, x, &scheme, &cache);
    if (st == KVR_OK) /* oneDNN's products use the decoded keys and values */
        st = read_back(t, cache, row->name);
    if (st == KVR_OK)
        st = time_cache(t, cache, reference, x, row);
    if (st == KVR_OK) /* checks the output of the last timed round */
        st = check(t, cache, x, row);
    kvr_cache_close(&cache);
    kvr_scheme_close(&scheme);
    kvr_cache_close(&reference);
    kvr_scheme_close(&bf16);
    return st;
}

/* oneDNN may be limited to an instruction set without BF16 (ONEDNN_MAX_CPU_ISA). */
static enum kvr_status bench_subject(struct kit *t, const struct subject *x,
                                     struct kvr_bench_row *row)
{
    if (x->against != PRODUCTS_BF16 || kvr_onednn_has_bf16())
        return time_row(t, x, row);
    *row = (struct kvr_bench_row){ .device = "cpu",
                                   .unit = "GFLOP/s",
                                   .median = NAN,
                                   .min = NAN,
                                   .cold = NAN,
                                   .warm = NAN,
                                   .reference = reference_names[x->against] };
    name_row(t, x, row);
    kvr_bench_without(row,
                      "oneDNN has no BF16 GEMM for this CPU, or ONEDNN_MAX_CPU_ISA excludes it");
    return KVR_OK;
}

static enum kvr_status all_rows(struct kit *t, struct kvr_bench_row *rows, int *n_rows)
{
    static const enum kvr_path paths[N_PATHS] = { KVR_PATH_STAGED, KVR_PATH_FUSED };
    const bool tiles = kvr_isa_has_tiles();

    KVR_TRY(kit_open(t));
    for (int m = 0; m < N_METHODS; m++)
        for (int p = 0; p < N_PATHS; p++)
            KVR_TRY(bench_subject(
                t, &(struct subject){ methods[m], paths[p], KVR_ATTEND_FLOAT, false, PRODUCTS },
                &rows[(*n_rows)++]));
    for (int m = 0; m < N_BF16 && tiles; m++) {
        struct subject x = { as_bf16[m], KVR_PATH_STAGED, KVR_ATTEND_FLOAT, true, OWN };

        KVR_TRY(bench_subject(t, &x, &rows[(*n_rows)++]));
        x.against = PRODUCTS_BF16;
        KVR_TRY(bench_subject(t, &x, &rows[(*n_rows)++]));
    }
    for (int m = 0; m < N_BYTES; m++) {
        struct subject x = { as_bytes[m], KVR_PATH_STAGED, KVR_ATTEND_INT8, false, OWN };

        KVR_TRY(bench_subject(t, &x, &rows[(*n_rows)++]));
        x.against = OWN_BF16;
        if (tiles)
            KVR_TRY(bench_subject(t, &x, &rows[(*n_rows)++]));
    }
    return KVR_OK;
}

static enum kvr_status of_shape(struct kvr_dev *dev, const struct shape *s, int rounds,
                                double seconds, struct kvr_bench_row *rows, int *n_rows)
{
    struct kit t = {
        .dev = dev,
        .s = s,
        .rounds = rounds,
        .seconds = seconds,
        .n_query = (int64_t)s->tokens_per_frame * s->frames_per_chunk,
        .width = (size_t)s->heads * (size_t)s->d,
    };
    enum kvr_status st;

    t.n_key = t.n_query * (s->past_chunks + 1);
    st = all_rows(&t, rows, n_rows);
    kit_close(&t);
    return st;
}

static enum kvr_status check_rounds(int rounds)
{
    if (rounds < 3 || rounds > KVR_BENCH_MAX_ROUNDS)
        return kvr_fail(KVR_EINVAL, "bench: %d rounds requested, need 3..%d", rounds,
                        KVR_BENCH_MAX_ROUNDS);
    return KVR_OK;
}

enum kvr_status kvr_bench_attention(struct kvr_dev *dev, int rounds, double seconds,
                                    struct kvr_bench_row *rows, int *n_rows)
{
    KVR_TRY(check_rounds(rounds));
    kvr_onednn_limit();
    *n_rows = 0;
    for (int i = 0; i < N_SHAPES; i++)
        KVR_TRY(of_shape(dev, &shapes[i], rounds, seconds, rows, n_rows));
    return KVR_OK;
}

int kvr_bench_attention_queries(int queries, int keys, int heads, int d)
{
    int parts = 1;

    while (queries / parts > 1 && (queries % parts || 4.0 * (queries / parts) * keys * heads * d >
                                                          KVR_BENCH_ATTENTION_FLOP))
        parts++;
    return queries % parts ? 1 : queries / parts;
}

enum kvr_status kvr_bench_attention_at(struct kvr_dev *dev, const char *text, int rounds,
                                       double seconds, struct kvr_bench_row *rows, int *n_rows)
{
    int queries, keys, heads, d, end = 0;

    KVR_TRY(check_rounds(rounds));
    kvr_onednn_limit();
    if (sscanf(text, "%dx%dx%dx%d%n", &queries, &keys, &heads, &d, &end) != 4 || text[end] ||
        queries < 1 || queries > 1 << 16 || keys % queries || keys < 2 * queries ||
        keys > 1 << 20 || heads < 1 || heads > 256 || d < 8 || d > MAX_D)
        return kvr_fail(KVR_EINVAL,
                        "bench: --shape '%s': need QUERIESxKEYSxHEADSxDIM, as in 768x9984x12x128, "
                        "with 1..%d queries, 1..256 heads, dim 8..%d and at most %d keys; the "
                        "number of keys must be a multiple, 2 or more, of the number of queries",
                        text, 1 << 16, (int)MAX_D, 1 << 20);
    *n_rows = 0;
    queries = kvr_bench_attention_queries(queries, keys, heads, d);
    return of_shape(dev, &(struct shape){ heads, d, queries, 1, keys / queries - 1 }, rounds,
                    seconds, rows, n_rows);
}
