/* fwht.cuh - the transform of fwht.h inside a warp: lane l has elements l V .. l V + V - 1 of R
 * rows.
 *
 * The sums of one stride do not depend on one another, so where an element lives does not show: the
 * same roundings as the CPU's, stride by stride. */
#ifndef KVR_METHODS_FWHT_CUH
#define KVR_METHODS_FWHT_CUH

#include "harness/device/number.cuh"
#include "harness/device/vector.cuh"

/* Rows of d values, d = 32 V, or less with V 1. All lanes of the warp call it. */
template <int V, int R>
static __device__ __forceinline__ void kvr_fwht_warp(kvr_few<float, V> (&x)[R], int d, bool bf16)
{
    const int lane = (int)threadIdx.x % 32;
    const float norm = sqrtf((float)d);

#pragma unroll
    for (int h = 1; h < V; h *= 2) {
#pragma unroll
        for (int r = 0; r < R; r++) {
#pragma unroll
            for (int j = 0; j < V; j++) {
                if (j & h)
                    continue;
                const float a = x[r].v[j], b = x[r].v[j + h];

                x[r].v[j] = bf16 ? kvr_round_bf16(a + b) : a + b;
                x[r].v[j + h] = bf16 ? kvr_round_bf16(a - b) : a - b;
            }
        }
    }
#pragma unroll
    for (int h = 1; h < 32; h *= 2) {
        if (V == 1 && h >= d) /* less than a warp; a loop that is left cannot be unrolled */
            continue;
#pragma unroll
        for (int r = 0; r < R; r++) {
#pragma unroll
            for (int j = 0; j < V; j++) {
                const float v = x[r].v[j], other = __shfl_xor_sync(~0u, v, h);
                const float sum = lane & h ? other - v : v + other;

                x[r].v[j] = bf16 ? kvr_round_bf16(sum) : sum;
            }
        }
    }
#pragma unroll
    for (int r = 0; r < R; r++) {
#pragma unroll
        for (int j = 0; j < V; j++) {
            /* d = 64, 256, 1024: the root is a power of two, and its inverse exact. */
            const float y = V == 2 || V == 8 || V == 32 ? x[r].v[j] * (1 / norm) : x[r].v[j] / norm;

            x[r].v[j] = bf16 ? kvr_round_bf16(y) : y;
        }
    }
}

#endif
