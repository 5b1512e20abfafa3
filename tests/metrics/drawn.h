/* drawn.h - random weights that C and Python generate identically.
 *
 *     def mix(n, seed):                                 # uint32, wrapping
 *         x = arange(n) * 0x9E3779B1 + seed * 0x85EBCA6B
 *         x ^= x >> 16; x *= 0x7feb352d; x ^= x >> 15; x *= 0x846ca68b; x ^= x >> 16
 *         return float32(x >> 8) * float32(2**-24) */
#ifndef TESTS_METRICS_DRAWN_H
#define TESTS_METRICS_DRAWN_H

#include <check.h>
#include <stdlib.h>

#include "harness/core/safetensors.h"

static inline float mix(uint32_t i, uint32_t seed)
{
    uint32_t x = i * 0x9E3779B1u + seed * 0x85EBCA6Bu;

    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return (float)(x >> 8) * 0x1p-24f;
}

/* Returns an F32 tensor with elements (mix(i, seed) - offset) * scale, where i is the element's
 * index and mix() gives pseudorandom numbers in [0, 1). The caller frees the tensor's data. */
static inline struct kvr_st_item drawn(const char *name, int n_dims, const int64_t *shape,
                                       uint32_t seed, float offset, float scale)
{
    struct kvr_st_item it = { .name = name, .t = { .dtype = KVR_F32, .n_dims = n_dims } };
    size_t n = 1;
    float *p;

    for (int i = 0; i < n_dims; i++) {
        it.t.shape[i] = shape[i];
        n *= (size_t)shape[i];
    }
    p = malloc(n * sizeof *p);
    ck_assert_ptr_nonnull(p);
    for (size_t i = 0; i < n; i++)
        p[i] = (mix((uint32_t)i, seed) - offset) * scale;
    it.t.data = p;
    return it;
}

#endif
