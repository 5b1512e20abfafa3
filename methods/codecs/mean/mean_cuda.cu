/* mean_cuda.cu - the stages `mean` and `demean` on a CUDA device. The encoder of `mean` subtracts
 * from every channel its mean over tokens, with one thread per channel. The stage `demean`
 * subtracts from every row of channels its mean, with one thread per row. Sums are accumulated in
 * the same order as on the CPU, so results are bit-identical. */
#include "harness/device/number.cuh"
#include "methods/codecs/mean/mean_cuda.h"

enum { THREADS = 128 };

static __global__ void __launch_bounds__(THREADS)
    mean_encode(int64_t n, int64_t channels, kvr_global<float> x, kvr_global<kvr_f16> mean)
{
    const int64_t c = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    double sum = 0;

    if (c >= channels)
        return;
    for (int64_t t = 0; t < n; t++)
        sum += (double)(float)x[t * channels + c];
    float m = (float)(sum / (double)n);

    m = m > 65504 ? 65504 : m < -65504 ? -65504 : m;
    const kvr_f16 rounded = kvr_half_of(m);

    mean[c] = rounded;
    m = kvr_float_of(rounded);
    for (int64_t t = 0; t < n; t++)
        x[t * channels + c] = (float)x[t * channels + c] - m;
}

static __global__ void __launch_bounds__(THREADS)
    mean_decode(int64_t n, int64_t width, kvr_global<float> x, kvr_global<const kvr_f16> mean)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < n)
        x[i] = (float)x[i] + kvr_float_of(mean[i % width]);
}

static __global__ void __launch_bounds__(THREADS) demean(int64_t rows, int d, kvr_global<float> x)
{
    const int64_t row = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    float sum = 0;

    if (row >= rows)
        return;
    for (int c = 0; c < d; c++)
        sum += (float)x[row * d + c];
    const float m = sum / (float)d;

    for (int c = 0; c < d; c++)
        x[row * d + c] = (float)x[row * d + c] - m;
}

void kvr_mean_encode_cuda(struct kvr_stream *s, float *x, int64_t n, int64_t channels,
                          kvr_f16 *mean)
{
    KVR_LAUNCH(mean_encode, kvr_blocks(channels, THREADS), THREADS, 0, s, n, channels, x, mean);
}

void kvr_mean_decode_cuda(struct kvr_stream *s, float *x, int64_t n, int64_t width,
                          const kvr_f16 *mean)
{
    if (n && width)
        KVR_LAUNCH(mean_decode, kvr_blocks(n * width, THREADS), THREADS, 0, s, n * width, width, x,
                   mean);
}

void kvr_demean_cuda(struct kvr_stream *s, float *x, int64_t rows, int d)
{
    if (rows)
        KVR_LAUNCH(demean, kvr_blocks(rows, THREADS), THREADS, 0, s, rows, d, x);
}
