/* bench_attention.c - see bench_attention.h. */
#include "harness/bench/bench_attention.h"

#include <math.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/cache.h"
#include "harness/core/clock.h"
#include "harness/core/onednn.h"
#include "harness/core/rng.h"

/* One chunk of queries over so many chunks of past. */
static const struct shape {
    const char *name;
    int heads, d, tokens_per_frame, frames_per_chunk, past_chunks;
} shapes[] = {
    { "108x756", 3, 64, 36, 3, 6 },     /* the bundled model's window */
    { "192x4800", 12, 128, 64, 3, 24 }, /* Wan's heads */
};
static const char *const methods[] = { "BF16", "RTN_INT4", "KIVI_INT2", "QUAROT_KV_INT4" };
enum { N_SHAPES = 2, N_METHODS = 4, N_PATHS = 2 };
_Static_assert(N_SHAPES *N_METHODS *N_PATHS <= KVR_BENCH_ATTENTION_ROWS, "a row each");

struct kit {
    struct kvr_dev *dev;
    const struct shape *s;
    int rounds;
    int64_t n_query, n_key;
    size_t width;
    struct kvr_buf x; /* q, k, v of the current chunk, and the output: [4][T,H,D] */
    struct kvr_buf k, v, scores, product;
};

static void kit_close(struct kit *t)
{
    kvr_buf_free(&t->x);
    kvr_buf_free(&t->k);
    kvr_buf_free(&t->v);
    kvr_buf_free(&t->scores);
    kvr_buf_free(&t->product);
}

static enum kvr_status kit_open(struct kit *t)
{
    const size_t q = (size_t)t->n_query * t->width, k = (size_t)t->n_key * t->width;

    kvr_onednn_limit();
    KVR_TRY(kvr_buf_alloc(&t->x, t->dev, KVR_MEM_IO, 4 * q * sizeof(float)));
    KVR_TRY(kvr_buf_alloc(&t->k, t->dev, KVR_MEM_IO, k * sizeof(float)));
    KVR_TRY(kvr_buf_alloc(&t->v, t->dev, KVR_MEM_IO, k * sizeof(float)));
    KVR_TRY(kvr_buf_alloc(&t->scores, t->dev, KVR_MEM_IO,
                          (size_t)(t->n_query * t->n_key * t->s->heads) * sizeof(float)));
    KVR_TRY(kvr_buf_alloc(&t->product, t->dev, KVR_MEM_IO, q * sizeof(float)));
    kvr_normal(t->x.p, 3 * q, 1, KVR_RNG_SYNTHETIC, 1, 0, 0);
    return KVR_OK;
}

/* Both products by the library, head by head; every head is one thread's. */
static void products(struct kit *t)
{
    const int d = t->s->d;
    const dnnl_dim_t m = t->n_query, n = t->n_key, ld = (dnnl_dim_t)t->width;

#pragma omp parallel for schedule(static)
    for (int h = 0; h < t->s->heads; h++) {
        const float *q = (const float *)t->x.p + h * d;
        float *s = (float *)t->scores.p + (int64_t)h * m * n;

        dnnl_sgemm('N', 'T', m, n, d, 1, q, ld, (const float *)t->k.p + h * d, ld, 0, s, n);
        dnnl_sgemm('N', 'N', m, d, n, 1, s, n, (const float *)t->v.p + h * d, ld, 0,
                   (float *)t->product.p + h * d, ld);
    }
}

/* A cache filled with the past, the current chunk appended. */
static enum kvr_status fill(struct kit *t, struct kvr_cache *cache)
{
    const int fpc = t->s->frames_per_chunk;
    const size_t n = (size_t)t->n_query * t->width;
    float *x = t->x.p, *out = x + 3 * n;

    for (int c = 0; c <= t->s->past_chunks; c++) {
        const struct kvr_pass pass = { c, c * fpc, fpc, 0, c < t->s->past_chunks };

        kvr_normal(x, 3 * n, 1, KVR_RNG_SYNTHETIC, (uint32_t)c, 1, 0);
        KVR_TRY(kvr_cache_begin_pass(cache, &pass));
        KVR_TRY(kvr_cache_append(cache, 0, x + n, x + 2 * n));
        KVR_TRY(kvr_cache_attend(cache, 0, x, out));
        KVR_TRY(kvr_cache_end_pass(cache));
    }
    return KVR_OK;
}

/* out against a direct softmax in double of a few queries: F32 sums over up to 4800 keys, so
 * 1e-4 of values of order 1. */
static enum kvr_status check(struct kit *t, const struct kvr_cache *cache, const char *name)
{
    const int d = t->s->d, heads = t->s->heads;
    const size_t n = (size_t)t->n_query * t->width;
    const float *x = t->x.p, *out = x + 3 * n, *k = t->k.p, *v = t->v.p;
    double *p = malloc((size_t)t->n_key * sizeof *p);
    const int64_t past = kvr_cache_read(cache, 0, t->k.p, t->v.p);
    double worst = 0;

    if (!p)
        return kvr_fail(KVR_ENOMEM, "bench: no memory");
    if (past + t->n_query != t->n_key) {
        free(p);
        return kvr_fail(KVR_EINTERNAL, "bench: %s reads %lld tokens", name, (long long)past);
    }
    /* The chunk's own tokens, as the cache has them: rounded to BF16. */
    for (size_t i = 0; i < n; i++) {
        ((float *)t->k.p)[(size_t)past * t->width + i] = kvr_bf16_to_f32(kvr_f32_to_bf16(x[n + i]));
        ((float *)t->v.p)[(size_t)past * t->width + i] =
            kvr_bf16_to_f32(kvr_f32_to_bf16(x[2 * n + i]));
    }
    for (int64_t r = 0; r < t->n_query; r += 17) {
        const int h = (int)(r % heads);
        double top = -INFINITY, sum = 0;

        for (int64_t j = 0; j < t->n_key; j++) {
            p[j] = 0;
            for (int c = 0; c < d; c++)
                p[j] += (double)x[(size_t)r * t->width + (size_t)(h * d + c)] *
                        k[(size_t)j * t->width + (size_t)(h * d + c)];
            p[j] /= sqrt(d);
            top = fmax(top, p[j]);
        }
        for (int64_t j = 0; j < t->n_key; j++)
            sum += p[j] = exp(p[j] - top);
        for (int c = 0; c < d; c++) {
            double o = 0, e;

            for (int64_t j = 0; j < t->n_key; j++)
                o += p[j] * v[(size_t)j * t->width + (size_t)(h * d + c)];
            e = fabs(o / sum - out[(size_t)r * t->width + (size_t)(h * d + c)]);
            if (worst == worst && !(e <= worst))
                worst = e;
        }
    }
    free(p);
    if (!(worst <= 1e-4))
        return kvr_fail(KVR_ETOLERANCE, "bench: %s is off by %g > 1e-4", name, worst);
    return KVR_OK;
}

static enum kvr_status time_cache(struct kit *t, struct kvr_cache *cache, struct kvr_bench_row *row)
{
    const size_t n = (size_t)t->n_query * t->width;
    const double flops = 4.0 * (double)t->n_query * (double)t->n_key * (double)t->width;
    const int fpc = t->s->frames_per_chunk, c = t->s->past_chunks;
    const struct kvr_pass pass = { c, c * fpc, fpc, 1, false };
    double v[KVR_BENCH_MAX_ROUNDS], ratio[KVR_BENCH_MAX_ROUNDS];
    float *x = t->x.p;

    for (int i = 0; i < t->rounds; i++) {
        int64_t t0 = kvr_now_ns(), reference;

        products(t);
        reference = kvr_now_ns() - t0;
        KVR_TRY(kvr_cache_begin_pass(cache, &pass));
        KVR_TRY(kvr_cache_append(cache, 0, x + n, x + 2 * n));
        t0 = kvr_now_ns();
        KVR_TRY(kvr_cache_attend(cache, 0, x, x + 3 * n));
        t0 = kvr_now_ns() - t0;
        KVR_TRY(kvr_cache_end_pass(cache));
        v[i] = flops / (double)t0;
        ratio[i] = (double)reference / (double)t0;
    }
    row->device = "cpu";
    row->unit = "GFLOP/s";
    row->reference = "oneDNN products";
    kvr_bench_fill(row, v, ratio, t->rounds);
    return KVR_OK;
}

static enum kvr_status one(struct kit *t, const char *method, enum kvr_path path,
                           struct kvr_bench_row *row)
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
    };
    struct kvr_plan *plan = NULL;
    struct kvr_cache *cache = NULL;
    enum kvr_status st = kvr_plan_open(&plan, method, NULL, 0);

    snprintf(row->name, sizeof row->name, "attention.%s.%s.%s", kvr_path_names[path], method,
             s->name);
    if (st == KVR_OK)
        st = kvr_cache_open(&cache, t->dev, plan, &shape, path);
    if (st == KVR_OK)
        st = fill(t, cache);
    if (st == KVR_OK)
        st = check(t, cache, row->name);
    if (st == KVR_OK)
        st = time_cache(t, cache, row);
    kvr_cache_close(&cache);
    kvr_plan_close(&plan);
    return st;
}

enum kvr_status kvr_bench_attention(struct kvr_dev *dev, int rounds, struct kvr_bench_row *rows,
                                    int *n_rows)
{
    static const enum kvr_path paths[N_PATHS] = { KVR_PATH_STAGED, KVR_PATH_FUSED };

    if (rounds < 3 || rounds > KVR_BENCH_MAX_ROUNDS)
        return kvr_fail(KVR_EINVAL, "bench: %d rounds, need 3..%d", rounds, KVR_BENCH_MAX_ROUNDS);
    *n_rows = 0;
    for (int i = 0; i < N_SHAPES; i++) {
        const struct shape *s = &shapes[i];
        struct kit t = {
            .dev = dev,
            .s = s,
            .rounds = rounds,
            .n_query = (int64_t)s->tokens_per_frame * s->frames_per_chunk,
            .width = (size_t)s->heads * (size_t)s->d,
        };
        enum kvr_status st;

        t.n_key = t.n_query * (s->past_chunks + 1);
        st = kit_open(&t);
        for (int m = 0; m < N_METHODS && st == KVR_OK; m++)
            for (int p = 0; p < N_PATHS && st == KVR_OK; p++)
                st = one(&t, methods[m], paths[p], &rows[(*n_rows)++]);
        kit_close(&t);
        KVR_TRY(st);
    }
    return KVR_OK;
}
