/* exact_cuda.cu - elements held as BF16 or F32 (methods/codecs/exact.c). */
#include "harness/cuda/number.cuh"
#include "methods/kernels/kernels_cuda.h"

enum { THREADS = 256 };

static __global__ void __launch_bounds__(THREADS)
    exact_to_bf16(int64_t n, kvr_global<const float> x, kvr_global<kvr_bf16> out)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < n)
        out[i] = (kvr_bf16)(__float_as_uint(kvr_round_bf16(x[i])) >> 16);
}

static __global__ void __launch_bounds__(THREADS) round_to_bf16(int64_t n, kvr_global<float> x)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < n)
        x[i] = kvr_round_bf16(x[i]);
}

/* Rows of `width` channels, cut out of rows of `channels`. */
template <class T>
static __global__ void __launch_bounds__(THREADS)
    exact_to_f32(int64_t n, int64_t channels, int64_t first, int64_t width, kvr_global<const T> x,
                 kvr_global<float> out)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i >= n)
        return;
    const T v = x[i / width * channels + first + i % width];

    out[i] = sizeof(T) == 4 ? (float)v : __uint_as_float((unsigned)v << 16);
}

void kvr_exact_encode_cuda(struct kvr_stream *s, const struct kvr_block_shape *shape,
                           const float *x, kvr_bf16 *codes)
{
    const int64_t n = shape->n_tok * shape->n_heads * shape->head_dim;

    if (n)
        KVR_LAUNCH(exact_to_bf16, kvr_blocks(n, THREADS), THREADS, 0, s, n, x, codes);
}

void kvr_round_bf16_cuda(struct kvr_stream *s, float *x, int64_t n)
{
    if (n)
        KVR_LAUNCH(round_to_bf16, kvr_blocks(n, THREADS), THREADS, 0, s, n, x);
}

void kvr_exact_decode_cuda(struct kvr_stream *s, const struct kvr_block_shape *shape,
                           enum kvr_dtype type, const void *codes, int64_t t0, int64_t n, int h0,
                           int nh, float *out)
{
    const int64_t d = shape->head_dim, channels = shape->n_heads * d, width = nh * d;
    const int64_t first = t0 * channels + h0 * d, all = n * width;

    if (!all)
        return;
    if (type == KVR_F32)
        KVR_LAUNCH(exact_to_f32<float>, kvr_blocks(all, THREADS), THREADS, 0, s, all, channels,
                   first, width, (const float *)codes, out);
    else
        KVR_LAUNCH(exact_to_f32<kvr_bf16>, kvr_blocks(all, THREADS), THREADS, 0, s, all, channels,
                   first, width, (const kvr_bf16 *)codes, out);
}
