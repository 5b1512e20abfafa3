/* fwht_cuda.cu - the Walsh-Hadamard transform of fwht.h on a CUDA device. Each warp transforms one
 * to four rows of d elements, and each lane has V elements of a row in registers.
 *
 * The address of each row is aligned to 16 bytes or, for rows of fewer than 16 bytes, to the row's
 * size. */
#include "methods/codecs/hadamard/fwht.cuh"
#include "methods/codecs/hadamard/fwht.h"
#include "methods/codecs/hadamard/fwht_cuda.h"

enum { WARPS = 4 };

/* Returns the number of rows that a warp transforms if each lane has v elements of a row. With this
 * number of rows, every lane has 16 to 128 bytes of loads in flight. */
static __host__ __device__ constexpr int rows_of(int v)
{
    return v < 4 ? 4 : v < 16 ? 16 / v : 1;
}

/* Transforms rows of d values, with V values of a row per lane. If V is 1, d is at most 32;
 * otherwise d is 32 * V. */
template <int V>
static __global__ void __launch_bounds__(WARPS * 32)
    fwht_rows(kvr_global<kvr_vec<float, V>> x, int64_t rows, int d, bool bf16)
{
    enum { R = rows_of(V) };
    const int64_t first = ((int64_t)blockIdx.x * WARPS + threadIdx.x / 32) * R;
    const int lane = (int)threadIdx.x % 32, units = d / V;
    kvr_vec<float, V> v[R];

    if (first >= rows)
        return;
#pragma unroll
    for (int r = 0; r < R; r++) {
        v[r] = {};
        if (first + r < rows && lane < units)
            v[r] = x[(first + r) * units + lane];
    }
    kvr_fwht_warp<V, R, true>(v, d, bf16);
#pragma unroll
    for (int r = 0; r < R; r++)
        if (first + r < rows && lane < units)
            x[(first + r) * units + lane] = v[r];
}

template <int V> static void launch(struct kvr_stream *s, float *x, int64_t rows, int d, bool bf16)
{
    KVR_LAUNCH(fwht_rows<V>, kvr_blocks(rows, WARPS * rows_of(V)), WARPS * 32, 0, s,
               (kvr_vec<float, V> *)x, rows, d, bf16);
}

void kvr_fwht_cuda(struct kvr_stream *s, float *x, int64_t rows, int d, enum kvr_compute compute)
{
    const bool bf16 = compute == KVR_COMPUTE_BF16;

    if (!rows)
        return;
    if (d <= 32)
        launch<1>(s, x, rows, d, bf16);
    else if (d == 64)
        launch<2>(s, x, rows, d, bf16);
    else if (d == 128)
        launch<4>(s, x, rows, d, bf16);
    else if (d == 256)
        launch<8>(s, x, rows, d, bf16);
    else if (d == 512)
        launch<16>(s, x, rows, d, bf16);
    else
        launch<32>(s, x, rows, d, bf16);
}
