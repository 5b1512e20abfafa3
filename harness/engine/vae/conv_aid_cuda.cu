/* conv_aid_cuda.cu - see conv_aid_cuda.h. */
#include "harness/engine/vae/conv_aid_cuda.h"

#include "harness/device/vector.cuh"
#include "harness/engine/vae/element.cuh"

enum { THREADS = 256 };

template <class T>
static __global__ void __launch_bounds__(THREADS)
    bias_rows(int64_t n, int channels, kvr_global<const float> bias, kvr_global<T> y)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < n)
        y[i] = kvr_element_of<T>(bias[i % channels]);
}

void kvr_bias_rows_cuda(struct kvr_stream *s, enum kvr_dtype type, int64_t n_pixels, int channels,
                        const float *bias, void *y)
{
    const int64_t n = n_pixels * channels;

    if (n && type == KVR_BF16)
        KVR_LAUNCH(bias_rows<kvr_bf16>, kvr_blocks(n, THREADS), THREADS, 0, s, n, channels, bias,
                   (kvr_bf16 *)y);
    else if (n)
        KVR_LAUNCH(bias_rows<float>, kvr_blocks(n, THREADS), THREADS, 0, s, n, channels, bias,
                   (float *)y);
}

/* Writes one row of `out` per output pixel (im2row over frames). The row consists of the channels
 * of the corresponding pixel of each input frame, frame by frame. FEW is kvr_vec<T, N>, a vector of
 * N adjacent channels of type T. A thread copies one vector for one output pixel and one input
 * frame. `wide` is the number of vectors per pixel of a frame. */
template <class FEW>
static __global__ void __launch_bounds__(THREADS)
    frame_rows(struct kvr_conv_shape c, int taps, int wide, int stride0, int stride1, int stride2,
               int first, int64_t n, kvr_global<const FEW> f0, kvr_global<const FEW> f1,
               kvr_global<const FEW> f2, kvr_global<FEW> out)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int within = (int)(i % (taps * wide)), tap = within / wide, channel = within % wide;
    const int pixel = (int)(i / (taps * wide)), y = first + pixel / c.width, x = pixel % c.width;
    const int stride = tap == 0 ? stride0 : tap == 1 ? stride1 : stride2;
    FEW v = {};

    if (i >= n)
        return;
    if (stride && y >= 0 && y < c.height) {
        const int64_t at = ((int64_t)(y / c.up) * (c.width / c.up) + x / c.up) * stride + channel;

        v = tap == 0 ? f0[at] : tap == 1 ? f1[at] : f2[at];
    }
    out[i] = v;
}

/* Launches the kernel frame_rows with vectors of N elements of type T. The kernel's arguments
 * stride0 to stride2 are the distances between adjacent pixels of each frame, in vectors. A stride
 * of 0 marks a missing frame, for which the kernel writes zeros. */
template <class T, int N>
static void frame_rows_as(struct kvr_stream *s, const struct kvr_conv_shape *c, int taps,
                          const struct kvr_conv_frame *f, int first, int rows, void *out)
{
    typedef struct kvr_vec<T, N> few;
    const int64_t n = (int64_t)rows * c->width * taps * (c->in / N);

    if (n)
        KVR_LAUNCH(frame_rows<few>, kvr_blocks(n, THREADS), THREADS, 0, s, *c, taps, c->in / N,
                   f[0].p ? f[0].stride / N : 0, f[1].p ? f[1].stride / N : 0,
                   f[2].p ? f[2].stride / N : 0, first, n, (const few *)f[0].p, (const few *)f[1].p,
                   (const few *)f[2].p, (few *)out);
}

void kvr_frame_rows_cuda(struct kvr_stream *s, enum kvr_dtype type, const struct kvr_conv_shape *c,
                         int taps, const struct kvr_conv_frame *frames, int first, int rows,
                         void *out)
{
    struct kvr_conv_frame f[3] = {};
    bool wide = c->in % 8 == 0 && kvr_aligned(out, 16);

    for (int t = 0; t < taps; t++) {
        f[t] = frames[t];
        wide = wide && f[t].stride % 8 == 0 && kvr_aligned(f[t].p, 16);
    }
    if (type == KVR_BF16 && wide)
        frame_rows_as<kvr_bf16, 8>(s, c, taps, f, first, rows, out);
    else if (type == KVR_BF16)
        frame_rows_as<kvr_bf16, 1>(s, c, taps, f, first, rows, out);
    else if (wide)
        frame_rows_as<float, 4>(s, c, taps, f, first, rows, out);
    else
        frame_rows_as<float, 1>(s, c, taps, f, first, rows, out);
}

static __global__ void __launch_bounds__(THREADS)
    narrow_rows(int64_t n, int padded, int out, kvr_global<const kvr_bf16> from,
                kvr_global<kvr_bf16> to)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < n)
        to[i] = from[i / out * padded + i % out];
}

void kvr_narrow_rows_cuda(struct kvr_stream *s, int64_t n_pixels, int padded, int out,
                          const kvr_bf16 *from, kvr_bf16 *to)
{
    const int64_t n = n_pixels * out;

    if (n)
        KVR_LAUNCH(narrow_rows, kvr_blocks(n, THREADS), THREADS, 0, s, n, padded, out, from, to);
}

/* Fills x with pseudo-random test data in [-1, 1). An element is computed from the SplitMix64 hash
 * (Steele, Lea and Flood, 2014) of its index. */
template <class T>
static __global__ void __launch_bounds__(THREADS) any_numbers(int64_t n, kvr_global<T> x)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    uint64_t z = ((uint64_t)i + 1) * 0x9e3779b97f4a7c15u;

    if (i >= n)
        return;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    x[i] = kvr_element_of<T>((float)(int)(z >> 40) * 0x1p-23f - 1.0f);
}

void kvr_fill_random_cuda(struct kvr_stream *s, enum kvr_dtype type, int64_t n, void *x)
{
    if (n && type == KVR_BF16)
        KVR_LAUNCH(any_numbers<kvr_bf16>, kvr_blocks(n, THREADS), THREADS, 0, s, n, (kvr_bf16 *)x);
    else if (n)
        KVR_LAUNCH(any_numbers<float>, kvr_blocks(n, THREADS), THREADS, 0, s, n, (float *)x);
}

/* Returns the maximum of a and b, or NaN if a or b is NaN. */
static __device__ __forceinline__ float worse(float a, float b)
{
    return b > a || b != b ? b : a;
}

template <class T>
static __global__ void __launch_bounds__(THREADS)
    furthest(int64_t n, kvr_global<const T> a, kvr_global<const T> b, kvr_global<float> out)
{
    KVR_SHARED(float, apart, THREADS);
    KVR_SHARED(float, size, THREADS);
    float d = 0, most = 0;

    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n;
         i += (int64_t)KVR_MAX_DIFFERENCE_PARTS * THREADS) {
        const float v = kvr_value_of(b[i]);

        d = worse(d, fabsf(kvr_value_of(a[i]) - v));
        most = worse(most, fabsf(v));
    }
    apart[threadIdx.x] = d;
    size[threadIdx.x] = most;
    __syncthreads();
    if (threadIdx.x)
        return;
    for (int i = 1; i < THREADS; i++) {
        d = worse(d, apart[i]);
        most = worse(most, size[i]);
    }
    out[2 * blockIdx.x] = d;
    out[2 * blockIdx.x + 1] = most;
}

void kvr_max_difference_cuda(struct kvr_stream *s, enum kvr_dtype type, int64_t n, const void *a,
                             const void *b, float *out)
{
    if (type == KVR_BF16)
        KVR_LAUNCH(furthest<kvr_bf16>, KVR_MAX_DIFFERENCE_PARTS, THREADS, 0, s, n,
                   (const kvr_bf16 *)a, (const kvr_bf16 *)b, out);
    else
        KVR_LAUNCH(furthest<float>, KVR_MAX_DIFFERENCE_PARTS, THREADS, 0, s, n, (const float *)a,
                   (const float *)b, out);
}
