/* vae_cuda.cu - see vae_cuda.h. */
#include "harness/engine/vae/vae_cuda.h"

#include "harness/device/vector.cuh"
#include "harness/engine/product.cuh"
#include "harness/engine/vae/element.cuh"

/* ---- convolution ----------------------------------------------------------------------------- */

enum { PIXELS = 128, COLUMNS = 32, DEPTH = KVR_PRODUCT_DEPTH, CONV_THREADS = 64, NO_PIXEL = -1 };
/* The shared-memory tiles `rows` and `columns` have one line per K index (product.cuh). ROW_LINE
 * and COLUMN_LINE are the numbers of quads (four floats) per line. The last quad is padding: it
 * avoids bank conflicts when lanes with adjacent K indices store quads of the same index. */
enum { ROW_LINE = PIXELS / 4 + 1, COLUMN_LINE = COLUMNS / 4 + 1 };
enum { QUADS_AT_ONCE = CONV_THREADS / DEPTH };
static_assert(PIXELS / 4 % QUADS_AT_ONCE == 0 && COLUMNS / 4 % QUADS_AT_ONCE == 0,
              "every thread fetches the same number of quads");

/* One K index of the convolution's implicit GEMM: a frame, a kernel tap (dy, dx) and an input
 * channel. */
struct tap {
    int dy, dx, channel, stride;
    bool there;
};

template <class T>
static __device__ __forceinline__ float pixel(const struct kvr_conv_shape &c, const struct tap &t,
                                              kvr_global<const T> frame, int place)
{
    const int y = (place >> 16) + t.dy, x = (place & 0xffff) + t.dx;

    if (!t.there || place == NO_PIXEL || y < 0 || y >= c.height || x < 0 || x >= c.width)
        return 0.0f;
    return kvr_value_of(
        frame[((int64_t)(y / c.up) * (c.width / c.up) + x / c.up) * t.stride + t.channel]);
}

/* Returns the index of the weight of an output channel at one K index. The weights have the layout
 * [frame, output channel, kernel row, kernel column, input channel] in F32, and [output channel,
 * kernel row, kernel column, frame, input channel] in BF16. */
template <class T>
static __device__ __forceinline__ int64_t weight_at(const struct kvr_conv_shape &c, int span,
                                                    int frame, int out, int within)
{
    if (sizeof(T) == sizeof(float))
        return ((int64_t)frame * c.out + out) * span + within;
    return ((int64_t)out * span + within / c.in * c.in) * c.taps + frame * c.in + within % c.in;
}

/* Loads input values of the CTA's output pixels at this thread's K index t into line `lane` of the
 * shared-memory tile `rows`. The CONV_THREADS / DEPTH threads with the same K index load different
 * quads of the line. */
template <class T>
static __device__ __forceinline__ void
load_pixels(const struct kvr_conv_shape &c, const struct tap &t, int frame, kvr_global<const T> f0,
            kvr_global<const T> f1, kvr_global<const T> f2, kvr_shared<int> places, int lane,
            kvr_shared<struct kvr_quad> rows)
{
    for (int iter = 0; iter < PIXELS / 4 / QUADS_AT_ONCE; iter++) {
        const int q = (int)threadIdx.x / DEPTH + iter * QUADS_AT_ONCE;
        struct kvr_quad v;

#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int place = places[4 * q + i];

            v.v[i] = frame == 0   ? pixel<T>(c, t, f0, place)
                     : frame == 1 ? pixel<T>(c, t, f1, place)
                                  : pixel<T>(c, t, f2, place);
        }
        rows[lane * ROW_LINE + q] = v;
    }
}

/* Loads the weights of output channels [n0, n0 + COLUMNS) at this thread's K index into line `lane`
 * of the shared-memory tile `columns`. The CONV_THREADS / DEPTH threads with the same K index load
 * different quads of the line. */
template <class T>
static __device__ __forceinline__ void
load_weights(const struct kvr_conv_shape &c, bool there, kvr_global<const T> w, int span, int frame,
             int n0, int within, int lane, kvr_shared<struct kvr_quad> columns)
{
#pragma unroll
    for (int iter = 0; iter < COLUMNS / 4 / QUADS_AT_ONCE; iter++) {
        const int q = (int)threadIdx.x / DEPTH + iter * QUADS_AT_ONCE;
        struct kvr_quad v;

#pragma unroll
        for (int i = 0; i < 4; i++)
            v.v[i] = n0 + 4 * q + i < c.out && there
                         ? kvr_value_of(w[weight_at<T>(c, span, frame, n0 + 4 * q + i, within)])
                         : 0.0f;
        columns[lane * COLUMN_LINE + q] = v;
    }
}

template <class T>
static __global__ void __launch_bounds__(CONV_THREADS, 6)
    conv_pixels(struct kvr_conv_shape c, int first, int stride0, int stride1, int stride2,
                kvr_global<const T> f0, kvr_global<const T> f1, kvr_global<const T> f2,
                kvr_global<const T> w, kvr_global<const float> bias, kvr_global<T> out)
{
    KVR_SHARED(struct kvr_quad, rows, DEPTH * ROW_LINE);
    KVR_SHARED(struct kvr_quad, columns, DEPTH * COLUMN_LINE);
    KVR_SHARED(int, places, PIXELS);
    const int across = (c.out + COLUMNS - 1) / COLUMNS;
    const int tx = (int)threadIdx.x % 4, ty = (int)threadIdx.x / 4;
    const int64_t p0 = (int64_t)(blockIdx.x / (unsigned)across) * PIXELS;
    const int64_t n_pixels = (int64_t)c.height * c.width;
    const int n0 = (int)(blockIdx.x % (unsigned)across) * COLUMNS;
    const int span = c.kernel * c.kernel * c.in, depth = c.taps * span, border = c.kernel / 2;
    float sum[8][8];

    for (int i = (int)threadIdx.x; i < PIXELS; i += CONV_THREADS)
        places[i] = p0 + i < n_pixels ? (int)((p0 + i) / c.width) << 16 | (int)((p0 + i) % c.width)
                                      : NO_PIXEL;
    kvr_product_begin(sum);
    for (int k0 = first * span; k0 < depth; k0 += DEPTH) {
        const int lane = (int)threadIdx.x % DEPTH, k = k0 + lane, frame = k / span;
        const int within = k % span, near = within / c.in;
        const struct tap t = { near / c.kernel - border, near % c.kernel - border, k % c.in,
                               frame == 0   ? stride0
                               : frame == 1 ? stride1
                                            : stride2,
                               k < depth };

        /* Waits until all threads have read the tiles of the previous DEPTH K indices. In the first
         * iteration, the barrier also makes the pixel coordinates in `places` visible to all
         * threads. */
        __syncthreads();
        load_pixels<T>(c, t, frame, f0, f1, f2, places, lane, rows);
        load_weights<T>(c, t.there, w, span, frame, n0, within, lane, columns);
        __syncthreads();
        kvr_product_add<ROW_LINE, 16, COLUMN_LINE, 4>(sum, rows, ty, columns, tx);
    }
#pragma unroll
    for (int r = 0; r < 8; r++) {
        const int64_t p = p0 + 4 * ty + r / 4 * 64 + r % 4;

#pragma unroll
        for (int j = 0; j < 8; j++) {
            const int column = n0 + 4 * tx + j / 4 * 16 + j % 4;

            if (p < n_pixels && column < c.out)
                out[p * c.out + column] = kvr_element_of<T>(sum[r][j] + (float)bias[column]);
        }
    }
}

template <class T>
static void conv_as(struct kvr_stream *s, const struct kvr_conv_shape *c,
                    const struct kvr_conv_frame *f, int first, const void *w, const float *bias,
                    void *y)
{
    const unsigned blocks =
        kvr_blocks((int64_t)c->height * c->width, PIXELS) * kvr_blocks(c->out, COLUMNS);

    KVR_LAUNCH(conv_pixels<T>, blocks, CONV_THREADS, 0, s, *c, first, f[0].stride, f[1].stride,
               f[2].stride, (const T *)f[0].p, (const T *)f[1].p, (const T *)f[2].p, (const T *)w,
               bias, (T *)y);
}

void kvr_conv_cuda_run(struct kvr_stream *s, enum kvr_dtype type, const struct kvr_conv_shape *c,
                       const struct kvr_conv_frame *frames, const void *w, const float *bias,
                       void *y)
{
    struct kvr_conv_frame f[3] = {};
    const int first = kvr_conv_frames_copy(c, frames, f);

    if (type == KVR_BF16)
        conv_as<kvr_bf16>(s, c, f, first, w, bias, y);
    else
        conv_as<float>(s, c, f, first, w, bias, y);
}

/* ---- other operations
 * --------------------------------------------------------------------------- */

enum { THREADS = 256, WARPS = THREADS / 32 };

/* Each warp normalizes one pixel. */
template <class T>
static __global__ void __launch_bounds__(THREADS)
    pixel_norm(int64_t n, int channels, bool silu, float root, kvr_global<const T> x,
               kvr_global<const float> gamma, kvr_global<T> y)
{
    const int64_t i = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const int lane = (int)threadIdx.x % 32;
    float sum = 0, scale;

    if (i >= n)
        return;
    for (int c = lane; c < channels; c += 32) {
        const float v = kvr_value_of(x[i * channels + c]);

        sum = fmaf(v, v, sum);
    }
    for (int h = 16; h; h /= 2)
        sum += __shfl_xor_sync(~0u, sum, h);
    scale = root / fmaxf(sqrtf(sum), 1e-12f);
    for (int c = lane; c < channels; c += 32) {
        const float v = kvr_value_of(x[i * channels + c]) * scale * gamma[c];

        y[i * channels + c] = kvr_element_of<T>(silu ? v / (1.0f + expf(-v)) : v);
    }
}

template <class T>
static void norm_as(struct kvr_stream *s, int64_t n, int channels, bool silu, const void *x,
                    const float *gamma, void *y)
{
    const float root = sqrtf((float)channels);

    if (n)
        KVR_LAUNCH(pixel_norm<T>, kvr_blocks(n, WARPS), THREADS, 0, s, n, channels, silu, root,
                   (const T *)x, gamma, (T *)y);
}

void kvr_pixel_norm_cuda(struct kvr_stream *s, enum kvr_dtype type, int64_t n, int channels,
                         bool silu, const void *x, const float *gamma, void *y)
{
    if (type == KVR_BF16)
        norm_as<kvr_bf16>(s, n, channels, silu, x, gamma, y);
    else
        norm_as<float>(s, n, channels, silu, x, gamma, y);
}

template <class T, int N>
static __device__ __forceinline__ struct kvr_vec<T, N> sum_of(const struct kvr_vec<T, N> &a,
                                                              const struct kvr_vec<T, N> &b) {
    struct kvr_vec<T, N> sum;

#pragma unroll
    for (int k = 0; k < N; k++)
        sum.v[k] = kvr_element_of<T>(kvr_value_of(a.v[k]) + kvr_value_of(b.v[k]));
    return sum;
}

/* Computes x += y for arrays of n vectors. FEW is kvr_vec<T, N>, a vector of N elements of type T,
 * and each thread adds one vector. */
template <class FEW>
static __global__ void __launch_bounds__(THREADS)
    add_pixels(int64_t n, kvr_global<const FEW> y, kvr_global<FEW> x)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < n)
        x[i] = sum_of((FEW)x[i], (FEW)y[i]);
}

template <class T, int N>
static void add_as(struct kvr_stream *s, int64_t n, const void *y, void *x)
{
    typedef struct kvr_vec<T, N> few;

    KVR_LAUNCH(add_pixels<few>, kvr_blocks(n / N, THREADS), THREADS, 0, s, n / N, (const few *)y,
               (few *)x);
}

void kvr_add_pixels_cuda(struct kvr_stream *s, enum kvr_dtype type, int64_t n, const void *y,
                         void *x)
{
    const bool wide = kvr_aligned(x, 16) && kvr_aligned(y, 16);

    if (n == 0)
        return;
    if (type == KVR_BF16 && wide && n % 8 == 0)
        add_as<kvr_bf16, 8>(s, n, y, x);
    else if (type == KVR_BF16)
        add_as<kvr_bf16, 1>(s, n, y, x);
    else if (wide && n % 4 == 0)
        add_as<float, 4>(s, n, y, x);
    else
        add_as<float, 1>(s, n, y, x);
}

static __global__ void __launch_bounds__(THREADS)
    round_pixels(int64_t n, kvr_global<const float> from, kvr_global<kvr_bf16> to)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < n)
        to[i] = kvr_element_of<kvr_bf16>(from[i]);
}

void kvr_round_pixels_cuda(struct kvr_stream *s, int64_t n, const float *from, kvr_bf16 *to)
{
    if (n)
        KVR_LAUNCH(round_pixels, kvr_blocks(n, THREADS), THREADS, 0, s, n, from, to);
}

static __global__ void __launch_bounds__(THREADS)
    rectify(int64_t n, bool added, kvr_global<const float> y, kvr_global<float> x)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    float v;

    if (i >= n)
        return;
    v = added ? x[i] + y[i] : (float)x[i];
    x[i] = v < 0.0f ? 0.0f : v;
}

void kvr_rectify_cuda(struct kvr_stream *s, int64_t n, const float *y, float *x)
{
    const bool added = y != NULL;

    if (n)
        KVR_LAUNCH(rectify, kvr_blocks(n, THREADS), THREADS, 0, s, n, added, y, x);
}

/* Adds the shortcut connection of a decoder level to `to`, one frame of the level's output. The
 * shortcut connection upsamples the level's input `from` to `times` frames (kvr_vae_ops.spread),
 * and `which` is the index of the frame to add. Each thread computes one value of `to`. */
template <class T>
static __global__ void __launch_bounds__(THREADS)
    spread(int64_t n, int w, int in, int out, int times, int which, kvr_global<const T> from,
           kvr_global<T> to)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int64_t y = i / out / (2 * w), x = i / out % (2 * w);
    const int place = (int)(i % out) * times * 4 + which * 4 + (int)(y % 2 * 2 + x % 2);

    if (i < n)
        to[i] = kvr_element_of<T>(
            kvr_value_of(to[i]) +
            kvr_value_of(from[(y / 2 * w + x / 2) * in + place / (out * times * 4 / in)]));
}

template <class T>
static void spread_as(struct kvr_stream *s, int h, int w, int in, int out, int times, int which,
                      const void *from, void *to)
{
    const int64_t n = (int64_t)4 * h * w * out;

    if (n)
        KVR_LAUNCH(spread<T>, kvr_blocks(n, THREADS), THREADS, 0, s, n, w, in, out, times, which,
                   (const T *)from, (T *)to);
}

void kvr_spread_cuda(struct kvr_stream *s, enum kvr_dtype type, int h, int w, int in, int out,
                     int times, int which, const void *from, void *to)
{
    if (type == KVR_BF16)
        spread_as<kvr_bf16>(s, h, w, in, out, times, which, from, to);
    else
        spread_as<float>(s, h, w, in, out, times, which, from, to);
}

template <class T>
static __global__ void __launch_bounds__(THREADS)
    unpatch(int64_t n, int w, kvr_global<const T> from, kvr_global<T> to)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int64_t y = i / 3 / (2 * w), x = i / 3 % (2 * w);

    if (i < n)
        to[i] = from[(y / 2 * w + x / 2) * 12 + (i % 3 * 2 + x % 2) * 2 + y % 2];
}

template <class T>
static void unpatch_as(struct kvr_stream *s, int h, int w, const void *from, void *to)
{
    const int64_t n = (int64_t)12 * h * w;

    if (n)
        KVR_LAUNCH(unpatch<T>, kvr_blocks(n, THREADS), THREADS, 0, s, n, w, (const T *)from,
                   (T *)to);
}

void kvr_unpatch_cuda(struct kvr_stream *s, enum kvr_dtype type, int h, int w, const void *from,
                      void *to)
{
    if (type == KVR_BF16)
        unpatch_as<kvr_bf16>(s, h, w, from, to);
    else
        unpatch_as<float>(s, h, w, from, to);
}

static __global__ void __launch_bounds__(THREADS)
    patch(int64_t n, int w, kvr_global<const float> from, kvr_global<float> to)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int64_t y = i / 3 / (2 * w), x = i / 3 % (2 * w);

    if (i < n)
        to[(y / 2 * w + x / 2) * 12 + (i % 3 * 2 + x % 2) * 2 + y % 2] = from[i];
}

void kvr_patch_cuda(struct kvr_stream *s, int h, int w, const float *from, float *to)
{
    const int64_t n = (int64_t)12 * h * w;

    if (n)
        KVR_LAUNCH(patch, kvr_blocks(n, THREADS), THREADS, 0, s, n, w, from, to);
}

/* Nearest-neighbour downsampling by 2, which keeps the pixel in the odd row and odd column of every
 * 2 x 2 square. Each thread computes one output value. */
static __global__ void __launch_bounds__(THREADS)
    halve(int64_t n, int w, int channels, kvr_global<const float> from, kvr_global<float> to)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int64_t y = i / channels / w, x = i / channels % w;

    if (i < n)
        to[i] = from[((2 * y + 1) * 2 * w + 2 * x + 1) * channels + i % channels];
}

void kvr_halve_cuda(struct kvr_stream *s, int h, int w, int channels, const float *from, float *to)
{
    const int64_t n = (int64_t)h * w * channels;

    if (n)
        KVR_LAUNCH(halve, kvr_blocks(n, THREADS), THREADS, 0, s, n, w, channels, from, to);
}

static __global__ void __launch_bounds__(THREADS)
    gather(int64_t n, int w, int in, int out, int times, kvr_global<const float> from,
           kvr_global<float> to)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int64_t y = i / out / w, x = i / out % w;
    const int factor = times * 4, group = in * factor / out, first = (int)(i % out) * group;
    float sum = 0;

    if (i >= n)
        return;
    for (int e = first; e < first + group; e++)
        if (e % factor >= factor - 4)
            sum += from[((2 * y + e % 4 / 2) * 2 * w + 2 * x + e % 2) * in + e / factor];
    to[i] = to[i] + sum / (float)group;
}

void kvr_gather_cuda(struct kvr_stream *s, int h, int w, int in, int out, int times,
                     const float *from, float *to)
{
    const int64_t n = (int64_t)h * w * out;

    if (n)
        KVR_LAUNCH(gather, kvr_blocks(n, THREADS), THREADS, 0, s, n, w, in, out, times, from, to);
}

template <class T>
static __global__ void __launch_bounds__(THREADS)
    split_qkv(int64_t n, int d, kvr_global<const T> qkv, kvr_global<float> out)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int64_t row = i / (3 * d), column = i % (3 * d);

    if (row >= n)
        return;
    if (column < 2 * d)
        out[column / d * n * d + row * d + column % d] = kvr_value_of(qkv[i]);
    else
        out[2 * n * d + (column - 2 * d) * n + row] = kvr_value_of(qkv[i]);
}

template <class T>
static void split_as(struct kvr_stream *s, int64_t n, int d, const void *qkv, float *out)
{
    if (n)
        KVR_LAUNCH(split_qkv<T>, kvr_blocks(n * 3 * d, THREADS), THREADS, 0, s, n, d,
                   (const T *)qkv, out);
}

void kvr_split_qkv_cuda(struct kvr_stream *s, enum kvr_dtype type, int64_t n, int d,
                        const void *qkv, float *out)
{
    if (type == KVR_BF16)
        split_as<kvr_bf16>(s, n, d, qkv, out);
    else
        split_as<float>(s, n, d, qkv, out);
}

/* Returns to every thread the maximum of v over all threads of the CTA if MOST is true, and
 * otherwise the sum. */
template <bool MOST>
static __device__ __forceinline__ float all_of(float v, kvr_shared<float> warps)
{
    float all;

    for (int h = 16; h; h /= 2) {
        const float other = __shfl_xor_sync(~0u, v, h);

        v = MOST ? fmaxf(v, other) : v + other;
    }
    __syncthreads(); /* waits until all threads have read `warps` in the previous call */
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = v;
    __syncthreads();
    all = warps[0];
    for (int i = 1; i < WARPS; i++)
        all = MOST ? fmaxf(all, warps[i]) : all + warps[i];
    return all;
}

/* Each CTA computes the softmax of one row. */
static __global__ void __launch_bounds__(THREADS)
    softmax_rows(int64_t n, float scale, kvr_global<float> x)
{
    KVR_SHARED(float, warps, WARPS);
    const int64_t row = (int64_t)blockIdx.x * n;
    float most = -INFINITY, sum = 0;

    for (int64_t i = threadIdx.x; i < n; i += THREADS)
        most = fmaxf(most, x[row + i] * scale);
    most = all_of<true>(most, warps);
    for (int64_t i = threadIdx.x; i < n; i += THREADS) {
        const float e = expf(x[row + i] * scale - most);

        x[row + i] = e;
        sum += e;
    }
    sum = all_of<false>(sum, warps);
    for (int64_t i = threadIdx.x; i < n; i += THREADS)
        x[row + i] = x[row + i] / sum;
}

void kvr_softmax_cuda(struct kvr_stream *s, int64_t rows, int64_t n, float scale, float *x)
{
    if (rows && n)
        KVR_LAUNCH(softmax_rows, (unsigned)rows, THREADS, 0, s, n, scale, x);
}
