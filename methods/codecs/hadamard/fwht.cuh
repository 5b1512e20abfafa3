/* fwht.cuh - the fast Walsh-Hadamard transform of fwht.h by one warp. Of each of R rows, lane i of
 * the warp has elements i * V to i * V + V - 1 in registers.
 *
 * Results are bit-identical to the CPU's: the butterflies of one stride are independent, so the
 * assignment of elements to lanes does not affect rounding. */
#ifndef KVR_METHODS_FWHT_CUH
#define KVR_METHODS_FWHT_CUH

#include "harness/device/mma.cuh"
#include "methods/kernels/quotient.h"

/* Returns x, rounded to BF16 if `bf16` is true. */
static __device__ __forceinline__ float kvr_fwht_round(float x, bool bf16)
{
    return bf16 ? __uint_as_float(kvr_bf16_pair(0, x)) : x;
}

/* Transforms R rows of d values. If V is 1, d is at most 32; otherwise d is 32 * V. All lanes of
 * the warp call this function. After the butterflies, every value is divided by sqrt(d). The
 * division uses kvr_quotient, whose denormal results may be rounded incorrectly if the dividend is
 * below 2^-100 in magnitude. With TINY, a lane with such a value uses the `/` operator instead,
 * which rounds correctly. With `sure`, infinite results are correct; without `sure`, they may
 * become NaN. */
template <int V, int R, bool TINY>
static __device__ __forceinline__ void kvr_fwht_warp(kvr_vec<float, V> (&x)[R], int d, bool bf16,
                                                     bool sure = true)
{
    const float norm = sqrtf((float)d), inv = 1 / norm;
    bool tiny = false;

#pragma unroll
    for (int h = 1; h < V; h *= 2) {
#pragma unroll
        for (int r = 0; r < R; r++) {
#pragma unroll
            for (int j = 0; j < V; j++) {
                if (j & h)
                    continue;
                const float a = x[r].v[j], b = x[r].v[j + h];

                x[r].v[j] = kvr_fwht_round(a + b, bf16);
                x[r].v[j + h] = kvr_fwht_round(a - b, bf16);
            }
        }
    }
#pragma unroll
    for (int h = 1; h < 32; h *= 2) {
        /* A row of d < 32 values has no butterflies of stride h >= d. The loop uses `continue`,
         * because `break` would prevent its unrolling. */
        if (V == 1 && h >= d)
            continue;
        const float sign = threadIdx.x & (unsigned)h ? -1.0f : 1.0f;

#pragma unroll
        for (int r = 0; r < R; r++) {
#pragma unroll
            for (int j = 0; j < V; j++) { /* sign * v is exact, so fmaf rounds like + or - */
                const float v = x[r].v[j], other = __shfl_xor_sync(~0u, v, h);

                x[r].v[j] = kvr_fwht_round(fmaf(sign, v, other), bf16);
            }
        }
    }
#pragma unroll
    for (int i = 0; TINY && i < R * V; i++)
        tiny |= fabsf(x[i / V].v[i % V]) < 7.888609e-31f; /* 2^-100 */
    if (TINY && tiny) {
#pragma unroll
        for (int i = 0; i < R * V; i++)
            x[i / V].v[i % V] = kvr_fwht_round(x[i / V].v[i % V] / norm, bf16);
        return;
    }
    if (!sure && !(V == 2 || V == 8 || V == 32)) {
#pragma unroll
        for (int i = 0; i < R * V; i++)
            x[i / V].v[i % V] =
                kvr_fwht_round(kvr_quotient_finite(x[i / V].v[i % V], norm, inv), bf16);
        return;
    }
#pragma unroll
    for (int i = 0; i < R * V; i++) {
        /* For V = 2, 8 or 32, sqrt(d) is a power of two, so v * inv equals v / norm. */
        const float v = x[i / V].v[i % V];
        const float y = V == 2 || V == 8 || V == 32 ? v * inv : kvr_quotient(v, norm, inv);

        x[i / V].v[i % V] = kvr_fwht_round(y, bf16);
    }
}

#endif
