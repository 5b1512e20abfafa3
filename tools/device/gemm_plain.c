/* gemm_plain.c - linear layers of the CPU in plain loops, for a machine without oneDNN: what a
 * device's engine is held to there. Sums are F32, k in order. */
#include <stdlib.h>
#include <string.h>

#include "harness/core/dtype.h"
#include "harness/engine/gemm_impl.h"

struct layer {
    struct kvr_linear base;
    float *b;  /* [n] behind w; NULL: none */
    float w[]; /* [n,k], as the layer computes with it */
};

static float as_computed(const struct kvr_gemm *g, float x)
{
    return g->compute == KVR_BF16 ? kvr_bf16_to_f32(kvr_f32_to_bf16(x)) : x;
}

static enum kvr_status open_gemm(struct kvr_gemm **out, struct kvr_dev *dev, enum kvr_dtype compute)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return kvr_fail(KVR_ENOMEM, "gemm: no memory");
    **out = (struct kvr_gemm){ .dev = dev, .compute = compute };
    return KVR_OK;
}

static void close_gemm(struct kvr_gemm *g)
{
    free(g);
}

static enum kvr_status open_layer(struct kvr_linear **out, struct kvr_gemm *g, int n, int k,
                                  const float *w, const float *b)
{
    const size_t size = (size_t)n * (size_t)k;
    struct layer *l = malloc(sizeof *l + (size + (size_t)n) * sizeof(float));

    if (!l)
        return kvr_fail(KVR_ENOMEM, "gemm: no memory");
    l->base = (struct kvr_linear){ .g = g, .n = n, .k = k, .has_bias = b != NULL };
    l->b = b ? l->w + size : NULL;
    for (size_t i = 0; i < size; i++)
        l->w[i] = as_computed(g, w[i]);
    for (int i = 0; b && i < n; i++)
        l->b[i] = as_computed(g, b[i]);
    *out = &l->base;
    return KVR_OK;
}

static void close_layer(struct kvr_linear *l)
{
    free(l);
}

static enum kvr_status prepare(const struct kvr_linear *l, int64_t m)
{
    (void)l, (void)m;
    return KVR_OK;
}

static void run_one(const struct kvr_gemm *g, int64_t m, const float *x, const struct layer *l,
                    float *y)
{
    const int n = l->base.n, k = l->base.k;

#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0;

            for (int c = 0; c < k; c++)
                sum += as_computed(g, x[i * k + c]) * l->w[(int64_t)j * k + c];
            y[i * n + j] = l->b ? sum + l->b[j] : sum;
        }
}

static enum kvr_status run(struct kvr_gemm *g, int64_t m, const float *x, int n_layers,
                           const struct kvr_linear *const *l, float *const *y)
{
    for (int i = 0; i < n_layers; i++)
        run_one(g, m, x, (const struct layer *)l[i], y[i]);
    return KVR_OK;
}

static void rest(struct kvr_gemm *g)
{
    (void)g;
}

static const char *library(const struct kvr_gemm *g)
{
    (void)g;
    return "plain loops";
}

const struct kvr_gemm_kind kvr_gemm_cpu = {
    .open = open_gemm,
    .close = close_gemm,
    .linear_open = open_layer,
    .linear_open_there = open_layer,
    .linear_close = close_layer,
    .prepare = prepare,
    .run = run,
    .rest = rest,
    .library = library,
};
