/* raw_cuda.cu - copies elements that are stored as BF16 or F32, on a CUDA device (raw.c).
 *
 * A thread copies 8 elements if all element counts and offsets are multiples of 8 and addresses are
 * 16-byte aligned, and otherwise 1 element. */
#include "harness/device/number.cuh"
#include "harness/device/vector.cuh"
#include "methods/codecs/raw/raw_cuda.h"

enum { THREADS = 256, MANY = 8 };

template <int N>
static __global__ void __launch_bounds__(THREADS)
    raw_to_bf16(int64_t n, kvr_global<const kvr_vec<float, N>> x,
                kvr_global<kvr_vec<kvr_bf16, N>> out)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    kvr_vec<kvr_bf16, N> y;

    if (i >= n)
        return;
    const kvr_vec<float, N> v = x[i];

#pragma unroll
    for (int j = 0; j < N; j++)
        y.v[j] = kvr_bf16_of(v.v[j]);
    out[i] = y;
}

template <int N>
static __global__ void __launch_bounds__(THREADS)
    round_to_bf16(int64_t n, kvr_global<kvr_vec<float, N>> x)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i >= n)
        return;
    kvr_vec<float, N> v = x[i];

#pragma unroll
    for (int j = 0; j < N; j++)
        v.v[j] = kvr_round_bf16(v.v[j]);
    x[i] = v;
}

/* Template parameters of raw_to_f32: a thread reads N elements of type E at a time. */
template <class E, int N> struct by {
    using T = kvr_vec<E, N>;
    static constexpr int n = N;
};

/* Copies channels [first, first + width) of every row; a row has `channels` channels. `first`,
 * `width` and `channels` count vectors of N elements. Each CTA copies THREADS vectors of one
 * row. */
template <class W>
static __global__ void __launch_bounds__(THREADS)
    raw_to_f32(unsigned strips, int64_t channels, int64_t first, int64_t width,
               kvr_global<const typename W::T> x, kvr_global<kvr_vec<float, W::n>> out)
{
    const int64_t row = blockIdx.x / strips;
    const int64_t c = (int64_t)(blockIdx.x % strips) * THREADS + threadIdx.x;
    kvr_vec<float, W::n> y;

    if (c >= width)
        return;
    const typename W::T v = x[row * channels + first + c];

#pragma unroll
    for (int j = 0; j < W::n; j++)
        y.v[j] = sizeof v.v[j] == 4 ? (float)v.v[j] : __uint_as_float((unsigned)v.v[j] << 16);
    out[row * width + c] = y;
}

template <int N> static void to_bf16(struct kvr_stream *s, int64_t n, const float *x, kvr_bf16 *out)
{
    KVR_LAUNCH(raw_to_bf16<N>, kvr_blocks(n / N, THREADS), THREADS, 0, s, n / N,
               (const kvr_vec<float, N> *)x, (kvr_vec<kvr_bf16, N> *)out);
}

void kvr_raw_encode_cuda(struct kvr_stream *s, const struct kvr_block_shape *shape, const float *x,
                         kvr_bf16 *codes)
{
    const int64_t n = shape->n_tok * shape->n_heads * shape->head_dim;

    if (n && n % MANY == 0 && kvr_aligned(x, 16) && kvr_aligned(codes, 16))
        to_bf16<MANY>(s, n, x, codes);
    else if (n)
        to_bf16<1>(s, n, x, codes);
}

template <int N> static void to_rounded(struct kvr_stream *s, int64_t n, float *x)
{
    KVR_LAUNCH(round_to_bf16<N>, kvr_blocks(n / N, THREADS), THREADS, 0, s, n / N,
               (kvr_vec<float, N> *)x);
}

void kvr_round_bf16_cuda(struct kvr_stream *s, float *x, int64_t n)
{
    if (n && n % MANY == 0 && kvr_aligned(x, 16))
        to_rounded<MANY>(s, n, x);
    else if (n)
        to_rounded<1>(s, n, x);
}

/* The part of a stored block of K or V that one launch copies; all fields count elements. */
struct cut {
    int64_t rows, channels, first, width;
};

template <class W>
static void to_f32(struct kvr_stream *s, const struct cut &c, const void *codes, float *out)
{
    const unsigned strips = kvr_blocks(c.width / W::n, THREADS);

    KVR_LAUNCH(raw_to_f32<W>, (unsigned)c.rows * strips, THREADS, 0, s, strips, c.channels / W::n,
               c.first / W::n, c.width / W::n, (const typename W::T *)codes,
               (kvr_vec<float, W::n> *)out);
}

void kvr_raw_decode_cuda(struct kvr_stream *s, const struct kvr_block_shape *shape,
                         enum kvr_dtype type, const void *codes, int64_t t0, int64_t n, int h0,
                         int nh, float *out)
{
    const int64_t d = shape->head_dim, channels = shape->n_heads * d,
                  first = t0 * channels + h0 * d;
    /* if all heads are decoded, the n tokens are contiguous in memory, so the kernel copies them
     * as one long row */
    const bool whole = nh == shape->n_heads;
    const struct cut c = { whole ? 1 : n, channels, first, whole ? n * channels : nh * d };
    const bool many = channels % MANY == 0 && c.first % MANY == 0 && c.width % MANY == 0 &&
                      kvr_aligned(codes, 16) && kvr_aligned(out, 16);

    if (!c.rows || !c.width)
        return;
    if (type == KVR_F32 && many)
        to_f32<by<float, MANY>>(s, c, codes, out);
    else if (type == KVR_F32)
        to_f32<by<float, 1>>(s, c, codes, out);
    else if (many)
        to_f32<by<kvr_bf16, MANY>>(s, c, codes, out);
    else
        to_f32<by<kvr_bf16, 1>>(s, c, codes, out);
}
