/* fwht_cuda.cu - fwht.h on a device: a warp has a row, lane l its elements l, l + 32, ...
 *
 * The sums of one stride do not depend on one another, so where an element lives does not show:
 * the same roundings as the CPU's, stride by stride. */
#include "harness/cuda/number.cuh"
#include "methods/kernels/fwht.h"
#include "methods/kernels/kernels_cuda.h"

enum { WARPS = 4 };

/* Rows of d <= 32 N values. */
template <int N>
static __global__ void __launch_bounds__(WARPS * 32)
    fwht_rows(kvr_global<float> x, int64_t rows, int d, bool bf16)
{
    const int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const int lane = (int)threadIdx.x % 32;
    const float norm = sqrtf((float)d);
    float v[N];

    if (row >= rows)
        return;
#pragma unroll
    for (int j = 0; j < N; j++)
        v[j] = lane + 32 * j < d ? (float)x[row * d + lane + 32 * j] : 0.0f;
    for (int h = 1; h < 32 && h < d; h *= 2) {
#pragma unroll
        for (int j = 0; j < N; j++) {
            const float other = __shfl_xor_sync(~0u, v[j], h);

            v[j] = lane & h ? other - v[j] : v[j] + other;
            v[j] = bf16 ? kvr_round_bf16(v[j]) : v[j];
        }
    }
#pragma unroll
    for (int h = 1; h < N; h *= 2) {
#pragma unroll
        for (int j = 0; j < N; j++) {
            if (j & h)
                continue;
            const float a = v[j], b = v[j + h];

            v[j] = bf16 ? kvr_round_bf16(a + b) : a + b;
            v[j + h] = bf16 ? kvr_round_bf16(a - b) : a - b;
        }
    }
#pragma unroll
    for (int j = 0; j < N; j++) {
        /* d = 64, 256, 1024: the root is a power of two, and its inverse exact. */
        const float y = N == 2 || N == 8 || N == 32 ? v[j] * (1 / norm) : v[j] / norm;

        if (lane + 32 * j < d)
            x[row * d + lane + 32 * j] = bf16 ? kvr_round_bf16(y) : y;
    }
}

void kvr_fwht_cuda(struct kvr_stream *s, float *x, int64_t rows, int d, enum kvr_compute compute)
{
    const bool bf16 = compute == KVR_COMPUTE_BF16;
    const unsigned blocks = kvr_blocks(rows, WARPS);

    if (!rows)
        return;
    if (d <= 32)
        KVR_LAUNCH(fwht_rows<1>, blocks, WARPS * 32, 0, s, x, rows, d, bf16);
    else if (d == 64)
        KVR_LAUNCH(fwht_rows<2>, blocks, WARPS * 32, 0, s, x, rows, d, bf16);
    else if (d == 128)
        KVR_LAUNCH(fwht_rows<4>, blocks, WARPS * 32, 0, s, x, rows, d, bf16);
    else if (d == 256)
        KVR_LAUNCH(fwht_rows<8>, blocks, WARPS * 32, 0, s, x, rows, d, bf16);
    else if (d == 512)
        KVR_LAUNCH(fwht_rows<16>, blocks, WARPS * 32, 0, s, x, rows, d, bf16);
    else
        KVR_LAUNCH(fwht_rows<32>, blocks, WARPS * 32, 0, s, x, rows, d, bf16);
}
