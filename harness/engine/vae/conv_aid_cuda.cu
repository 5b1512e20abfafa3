/* conv_aid_cuda.cu - see conv_aid_cuda.h. */
#include "harness/engine/vae/conv_aid_cuda.h"

#include "harness/device/kernel.cuh"

enum { THREADS = 256 };

static __global__ void __launch_bounds__(THREADS)
    bias_rows(int64_t n, int channels, kvr_global<const float> bias, kvr_global<float> y)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < n)
        y[i] = bias[i % channels];
}

void kvr_bias_rows_cuda(struct kvr_stream *s, int64_t n_pixels, int channels, const float *bias,
                        float *y)
{
    const int64_t n = n_pixels * channels;

    if (n)
        KVR_LAUNCH(bias_rows, kvr_blocks(n, THREADS), THREADS, 0, s, n, channels, bias, y);
}

static __global__ void __launch_bounds__(THREADS)
    frame_rows(struct kvr_conv_shape c, int stride, int first, int64_t n,
               kvr_global<const float> frame, kvr_global<float> out)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, pixel = i / c.in;
    const int y = first + (int)(pixel / c.width), x = (int)(pixel % c.width);

    if (i >= n)
        return;
    if (y < 0 || y >= c.height)
        out[i] = 0.0f;
    else
        out[i] = frame[((int64_t)(y / c.up) * (c.width / c.up) + x / c.up) * stride + i % c.in];
}

void kvr_frame_rows_cuda(struct kvr_stream *s, const struct kvr_conv_shape *c,
                         const struct kvr_conv_frame *frame, int first, int rows, float *out)
{
    const int64_t n = (int64_t)rows * c->width * c->in;

    if (n)
        KVR_LAUNCH(frame_rows, kvr_blocks(n, THREADS), THREADS, 0, s, *c, frame->stride, first, n,
                   frame->p, out);
}

/* The finaliser of SplitMix64 (Steele, Lea and Flood, 2014) on the place of a number. */
static __global__ void __launch_bounds__(THREADS) any_numbers(int64_t n, kvr_global<float> x)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    uint64_t z = ((uint64_t)i + 1) * 0x9e3779b97f4a7c15u;

    if (i >= n)
        return;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    x[i] = (float)(int)(z >> 40) * 0x1p-23f - 1.0f;
}

void kvr_any_numbers_cuda(struct kvr_stream *s, int64_t n, float *x)
{
    if (n)
        KVR_LAUNCH(any_numbers, kvr_blocks(n, THREADS), THREADS, 0, s, n, x);
}

/* The larger of two; NaN, once seen, stays. */
static __device__ __forceinline__ float worse(float a, float b)
{
    return b > a || b != b ? b : a;
}

static __global__ void __launch_bounds__(THREADS)
    furthest(int64_t n, kvr_global<const float> a, kvr_global<const float> b, kvr_global<float> out)
{
    KVR_SHARED(float, apart, THREADS);
    KVR_SHARED(float, size, THREADS);
    float d = 0, most = 0;

    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n;
         i += (int64_t)KVR_FURTHEST * THREADS) {
        const float v = b[i];

        d = worse(d, fabsf(a[i] - v));
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

void kvr_furthest_cuda(struct kvr_stream *s, int64_t n, const float *a, const float *b, float *out)
{
    KVR_LAUNCH(furthest, KVR_FURTHEST, THREADS, 0, s, n, a, b, out);
}
