/* corrections_cuda.cu - corrections of attention scores on a CUDA device: squared quantization
 * scales of keys, statistics of keys, and the correction of every query.
 *
 * The CPU references are correction.c, flat.c and energy.c. A sum over tokens is computed by one
 * thread per channel, in token order. A sum over channels is computed by one warp per query. */
#include "methods/corrections/corrections_cuda.h"

#include <float.h>

#include "harness/device/number.cuh"

enum { THREADS = 128, WARPS = THREADS / 32 };

/* Sets out[i] to the squared quantization scale of the element with the index `first` + i in the
 * block. Elements are in the order [token, channel], and a token has `channels` channels. */
static __global__ void __launch_bounds__(THREADS)
    stored_scales(int64_t first, int64_t n, int64_t channels, int axis, int group,
                  kvr_global<const kvr_f16> scale, kvr_global<float> out)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, e = first + i;
    float s;

    if (i >= n)
        return;
    if (axis == KVR_AXIS_TOKENS)
        s = kvr_float_of(scale[e / channels / group * channels + e % channels]);
    else if (axis == KVR_AXIS_CHANNELS)
        s = kvr_float_of(scale[e / group]);
    else
        s = kvr_float_of(scale[e / channels]);
    out[i] = s * s;
}

/* Replaces every out[i] by (relative * out[i])^2, a squared scale. If the block stores scales,
 * `out` contains these scales on entry, and `relative` is 1. If scales are proportional to values,
 * `out` contains the dequantized values on entry, and a scale is `relative` times the value. */
static __global__ void __launch_bounds__(THREADS)
    decoded_scales(int64_t n, float relative, kvr_global<float> out)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < n)
        out[i] = relative * (float)out[i] * (relative * (float)out[i]);
}

/* Sets the squared scales of outliers to 0, because outliers are stored without quantization. */
static __global__ void __launch_bounds__(THREADS)
    no_steps(int64_t n_exact, int64_t first, int64_t n, kvr_global<const int32_t> exact,
             kvr_global<float> out)
{
    const int64_t k = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (k < n_exact && exact[k] >= first && exact[k] < first + n)
        out[exact[k] - first] = 0;
}

static __global__ void __launch_bounds__(THREADS)
    step_means(int64_t n_tok, int64_t channels, kvr_global<const float> s2,
               kvr_global<kvr_f16> moments)
{
    const int64_t c = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    double sum = 0;

    if (c >= channels)
        return;
#pragma unroll 8
    for (int64_t t = 0; t < n_tok; t++)
        sum += (double)(float)s2[t * channels + c];
    moments[c] = kvr_half_of((float)(sum / (double)n_tok));
}

/* Rounds a double to FP16. Finite values saturate at +-65504, but infinity and NaN remain. */
static __device__ __forceinline__ kvr_f16 finite_half(double x)
{
    if (fabs(x) <= DBL_MAX)
        x = x > 65504 ? 65504 : x < -65504 ? -65504 : x;
    return kvr_half_of((float)x);
}

static __global__ void __launch_bounds__(THREADS)
    energy_moments(int64_t n_tok, int64_t channels, kvr_global<const float> x,
                   kvr_global<const float> back, kvr_global<kvr_f16> moments)
{
    const int64_t c = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const double n = (double)n_tok;
    double sum = 0, square = 0, sum_back = 0, square_back = 0, mean, mean_back;

    if (c >= channels)
        return;
#pragma unroll 4
    for (int64_t t = 0; t < n_tok; t++) {
        const double a = (double)(float)x[t * channels + c];
        const double b = (double)(float)back[t * channels + c];

        sum += a;
        square += a * a;
        sum_back += b;
        square_back += b * b;
    }
    mean = sum / n;
    mean_back = sum_back / n;
    moments[c] = finite_half(mean_back - mean);
    moments[channels + c] =
        finite_half(square_back / n - mean_back * mean_back - (square / n - mean * mean));
}

/* Computes the correction of every query and head, one per warp. Let x[c] be channel c of the
 * query, multiplied by the softmax scale. If `energy` is true, the correction is the sum over
 * channels of x[c] * mean[c] + x[c]^2 * var[c] / 2. Here mean[c] is the mean over tokens of key
 * channel c after decoding minus the mean before encoding, and var[c] is the same difference of the
 * variances. If `energy` is false, the correction is the sum over channels of x[c]^2 * s2[c] / 24,
 * where s2[c] is the mean squared quantization scale of the keys. */
static __global__ void __launch_bounds__(THREADS)
    correction_rows(int64_t rows, int heads, int d, float scale, bool energy,
                    kvr_global<const kvr_f16> moments, kvr_global<const float> q,
                    kvr_global<float> row_bias)
{
    const int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const int lane = (int)threadIdx.x % 32;
    const int64_t at = row % heads * d;
    float sum = 0;

    if (row >= rows)
        return;
    for (int c = lane; c < d; c += 32) {
        const float x = q[row * d + c] * scale, a = kvr_float_of(moments[at + c]);

        if (energy)
            sum += x * a + 0.5f * (x * x) * kvr_float_of(moments[(int64_t)heads * d + at + c]);
        else
            sum += x * x * a;
    }
    for (int h = 16; h; h /= 2)
        sum += __shfl_xor_sync(~0u, sum, h);
    if (!lane)
        row_bias[row] = energy ? sum : sum / 24.0f;
}

void kvr_squared_scales_cuda(struct kvr_stream *s, const struct kvr_packed *k, int64_t t0,
                             int64_t n, float *out)
{
    const int64_t channels = (int64_t)k->shape.n_heads * k->shape.head_dim, size = n * channels;
    struct kvr_coding_noise noise;

    kvr_codec_noise(k, &noise);
    if (!n)
        return;
    if (noise.kind == KVR_NOISE_UNIFORM) {
        KVR_LAUNCH(stored_scales, kvr_blocks(size, THREADS), THREADS, 0, s, t0 * channels, size,
                   channels, (int)noise.axis, noise.group, noise.scale, out);
    } else if (noise.kind == KVR_NOISE_SCALES) {
        kvr_packed_scales(k, t0, n, 0, k->shape.n_heads, out);
        KVR_LAUNCH(decoded_scales, kvr_blocks(size, THREADS), THREADS, 0, s, size, 1.0f, out);
    } else if (noise.kind == KVR_NOISE_RELATIVE) {
        kvr_codec_decode_rotated(k, t0, n, 0, k->shape.n_heads, out);
        KVR_LAUNCH(decoded_scales, kvr_blocks(size, THREADS), THREADS, 0, s, size, noise.relative,
                   out);
    } else {
        kvr_device_fill(s, out, 0, (size_t)size * sizeof *out);
    }
    if (noise.n_exact)
        KVR_LAUNCH(no_steps, kvr_blocks(noise.n_exact, THREADS), THREADS, 0, s, noise.n_exact,
                   t0 * channels, size, noise.exact, out);
}

void kvr_flat_prepare_cuda(struct kvr_stream *s, const struct kvr_packed *k, const float *x,
                           float *back, kvr_f16 *moments)
{
    const int64_t channels = (int64_t)k->shape.n_heads * k->shape.head_dim;

    (void)x;
    kvr_squared_scales_cuda(s, k, 0, k->shape.n_tok, back);
    KVR_LAUNCH(step_means, kvr_blocks(channels, THREADS), THREADS, 0, s, k->shape.n_tok, channels,
               back, moments);
}

void kvr_energy_prepare_cuda(struct kvr_stream *s, const struct kvr_packed *k, const float *x,
                             float *back, kvr_f16 *moments)
{
    const int64_t channels = (int64_t)k->shape.n_heads * k->shape.head_dim;

    KVR_LAUNCH(energy_moments, kvr_blocks(channels, THREADS), THREADS, 0, s, k->shape.n_tok,
               channels, x, back, moments);
}

static void rows(struct kvr_stream *s, const struct kvr_block_shape *shape, bool energy,
                 const kvr_f16 *moments, const float *q, int64_t n_query, float *row_bias)
{
    const int64_t n = n_query * shape->n_heads;

    if (n)
        KVR_LAUNCH(correction_rows, kvr_blocks(n, WARPS), THREADS, 0, s, n, shape->n_heads,
                   shape->head_dim, 1.0f / sqrtf((float)shape->head_dim), energy, moments, q,
                   row_bias);
}

void kvr_flat_rows_cuda(struct kvr_stream *s, const struct kvr_block_shape *shape,
                        const kvr_f16 *moments, const float *q, int64_t n_query, float *row_bias)
{
    rows(s, shape, false, moments, q, n_query, row_bias);
}

void kvr_energy_rows_cuda(struct kvr_stream *s, const struct kvr_block_shape *shape,
                          const kvr_f16 *moments, const float *q, int64_t n_query, float *row_bias)
{
    rows(s, shape, true, moments, q, n_query, row_bias);
}
