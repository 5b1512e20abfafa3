/* mean_cuda.cu - the stages `mean` and `demean` on a CUDA device. The encoder of `mean` subtracts
 * from every channel its mean over tokens: one kernel computes the means, one subtracts them. The
 * stage `demean` subtracts from every row of channels its mean. A single thread adds a channel or a
 * row in the same order as the CPU, so results are bit-identical. */
#include "harness/device/number.cuh"
#include "methods/codecs/mean/mean_cuda.h"

enum {
    THREADS = 128,
    MEAN_THREADS = 256,
    WARPS = MEAN_THREADS / 32,
    POOL = 64,  /* tokens of a tile in mean_measure */
    TOKENS = 8, /* tokens per thread in mean_shift */
    ROWS = 32   /* rows per CTA in demean */
};

/* Computes the mean of every channel over n tokens. A CTA processes 32 channels. All warps load the
 * next POOL tokens, while warp 0, with one channel per lane, adds the previous POOL tokens in token
 * order. */
static __global__ void __launch_bounds__(MEAN_THREADS)
    mean_measure(int64_t n, int64_t channels, kvr_global<const float> x, kvr_global<kvr_f16> mean)
{
    KVR_SHARED(float, tile, POOL * 32);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int64_t c = (int64_t)blockIdx.x * 32 + lane;
    float next[POOL / WARPS];
    double sum = 0;

    for (int64_t t0 = 0; t0 < n + POOL; t0 += POOL) {
        const int64_t left = t0 ? n - (t0 - POOL) : 0; /* tokens of the tile and after it */

#pragma unroll
        for (int i = 0; i < POOL / WARPS; i++) {
            const int64_t t = t0 + i * WARPS + warp;

            next[i] = t < n && c < channels ? (float)x[t * channels + c] : 0.0f;
        }
        if (warp == 0 && left >= POOL) {
#pragma unroll
            for (int i = 0; i < POOL; i++)
                sum += (double)(float)tile[i * 32 + lane];
        } else if (warp == 0) {
            for (int i = 0; i < left; i++)
                sum += (double)(float)tile[i * 32 + lane];
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < POOL / WARPS; i++)
            tile[(i * WARPS + warp) * 32 + lane] = next[i];
        __syncthreads();
    }
    if (warp == 0 && c < channels) {
        const float m = (float)(sum / (double)n);

        mean[c] = kvr_half_of(m > 65504 ? 65504 : m < -65504 ? -65504 : m);
    }
}

/* Adds the channel means to TOKENS rows of x, or subtracts the means. Each thread processes one of
 * the `width` channels, which are divided into `strips` strips of THREADS channels. */
template <bool ADD>
static __global__ void __launch_bounds__(THREADS)
    mean_shift(int64_t n, int64_t width, unsigned strips, kvr_global<float> x,
               kvr_global<const kvr_f16> mean)
{
    const int64_t t0 = (int64_t)(blockIdx.x / strips) * TOKENS;
    const int64_t c = (int64_t)(blockIdx.x % strips) * THREADS + threadIdx.x;

    float v[TOKENS];

    if (c >= width)
        return;
    const float m = kvr_float_of(mean[c]);

#pragma unroll
    for (int i = 0; i < TOKENS; i++)
        v[i] = t0 + i < n ? (float)x[(t0 + i) * width + c] : 0.0f;
#pragma unroll
    for (int i = 0; i < TOKENS; i++)
        if (t0 + i < n)
            x[(t0 + i) * width + c] = ADD ? v[i] + m : v[i] - m;
}

/* Subtracts from every row of x its mean. A CTA stages ROWS rows in shared memory, whose rows are
 * d + 1 floats apart, so that the lanes of a warp, which each add a row, access 32 banks. */
static __global__ void __launch_bounds__(THREADS) demean(int64_t rows, int d, kvr_global<float> x)
{
    KVR_SHARED_DYNAMIC(float, tile);
    KVR_SHARED(float, mean, ROWS);
    const int64_t first = (int64_t)blockIdx.x * ROWS;
    const int n = rows - first < ROWS ? (int)(rows - first) : ROWS, lane = (int)threadIdx.x % 32;

    for (int r = (int)threadIdx.x / 32; r < n; r += THREADS / 32)
        for (int c = lane; c < d; c += 32)
            tile[r * (d + 1) + c] = (float)x[(first + r) * d + c];
    __syncthreads();
    if ((int)threadIdx.x < n) {
        float sum = 0;

#pragma unroll 8
        for (int c = 0; c < d; c++)
            sum += (float)tile[(int)threadIdx.x * (d + 1) + c];
        mean[threadIdx.x] = sum / (float)d;
    }
    __syncthreads();
    for (int r = (int)threadIdx.x / 32; r < n; r += THREADS / 32) {
        const float m = mean[r];

        for (int c = lane; c < d; c += 32)
            x[(first + r) * d + c] = (float)tile[r * (d + 1) + c] - m;
    }
}

template <bool ADD>
static void shift(struct kvr_stream *s, float *x, int64_t n, int64_t width, const kvr_f16 *mean)
{
    const unsigned strips = kvr_blocks(width, THREADS);

    if (n && width)
        KVR_LAUNCH(mean_shift<ADD>, kvr_blocks(n, TOKENS) * strips, THREADS, 0, s, n, width, strips,
                   x, mean);
}

void kvr_mean_encode_cuda(struct kvr_stream *s, float *x, int64_t n, int64_t channels,
                          kvr_f16 *mean)
{
    KVR_LAUNCH(mean_measure, kvr_blocks(channels, 32), MEAN_THREADS, 0, s, n, channels,
               (const float *)x, mean);
    shift<false>(s, x, n, channels, mean);
}

void kvr_mean_decode_cuda(struct kvr_stream *s, float *x, int64_t n, int64_t width,
                          const kvr_f16 *mean)
{
    shift<true>(s, x, n, width, mean);
}

void kvr_demean_cuda(struct kvr_stream *s, float *x, int64_t rows, int d)
{
    if (rows)
        KVR_LAUNCH(demean, kvr_blocks(rows, ROWS), THREADS, ROWS * (size_t)(d + 1) * sizeof(float),
                   s, rows, d, x);
}
