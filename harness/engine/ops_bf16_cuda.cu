/* ops_bf16_cuda.cu - norms, RoPE and gated residuals of BF16 activations (ops_cuda.h). Each CTA
 * computes one row. A thread loads eight elements at a time, or two elements if vectors of eight
 * are unaligned. */
#include "harness/device/mma.cuh"
#include "harness/engine/ops_cuda.h"
#include "harness/engine/row_sum.cuh"

#include <cassert>

enum { MODULATE = 1, ADD = 2, EIGHT = 4 };

/* N adjacent elements of a row, converted to float. */
template <int N> struct numbers {
    float v[N];
};

template <int N>
static __device__ __forceinline__ struct numbers<N> load(kvr_global<const kvr_bf16> x, int64_t at) {
    const kvr_vec<unsigned, N / 2> u = kvr_as<const kvr_vec<unsigned, N / 2>>(x + at)[0];
    struct numbers<N> n;

#pragma unroll
    for (int i = 0; i < N / 2; i++) {
        n.v[2 * i] = kvr_bf16_low(u.v[i]);
        n.v[2 * i + 1] = kvr_bf16_high(u.v[i]);
    }
    return n;
}

/* Rounds N elements to BF16, stores the rounded elements, and returns them as floats. */
template <int N>
static __device__ __forceinline__ struct numbers<N> store(kvr_global<kvr_bf16> x, int64_t at,
                                                          struct numbers<N> n) {
    kvr_vec<unsigned, N / 2> u;

#pragma unroll
    for (int i = 0; i < N / 2; i++) {
        u.v[i] = kvr_bf16_pair(n.v[2 * i], n.v[2 * i + 1]);
        n.v[2 * i] = kvr_bf16_low(u.v[i]);
        n.v[2 * i + 1] = kvr_bf16_high(u.v[i]);
    }
    kvr_as<kvr_vec<unsigned, N / 2>>(x + at)[0] = u;
    return n;
}

template <int N, class T>
static __device__ __forceinline__ kvr_vec<T, N> side_by_side(kvr_global<const T> x, int64_t at)
{
    return kvr_as<const kvr_vec<T, N>>(x + at)[0];
}

/* Returns the sums of N elements n of a row and N elements u of a residual. If `gated` is true,
 * each element of u is first multiplied by its gate. The gates start at gate + at. */
template <int N>
static __device__ __forceinline__ struct numbers<N> plus(struct numbers<N> n, struct numbers<N> u,
                                                         bool gated, kvr_global<const float> gate,
                                                         int64_t at) {
    if (gated) {
        const kvr_vec<float, N> g = side_by_side<N, float>(gate, at);

#pragma unroll
        for (int k = 0; k < N; k++)
            n.v[k] = fmaf(u.v[k], g.v[k], n.v[k]);
    } else {
#pragma unroll
        for (int k = 0; k < N; k++)
            n.v[k] += u.v[k];
    }
    return n;
}

/* Returns N elements of a row, starting at index i. Each kernel keeps the first N elements that the
 * thread has loaded, at index threadIdx.x * N, in registers as `mine`. For this index, the function
 * returns `mine` instead of loading the elements again. */
template <int N>
static __device__ __forceinline__ struct numbers<N> again(kvr_global<const kvr_bf16> x, int64_t row,
                                                          int i, const struct numbers<N> &mine) {
    return i == (int)threadIdx.x * N ? mine : load<N>(x, row + i);
}

/* Parameters of LayerNorm. With MODULATE, every frame has its own vectors `factor` and `add`, and
 * the vectors of successive frames are `stride` floats apart. Without MODULATE, all rows use the
 * same vectors. */
struct vectors {
    int64_t stride;
    float eps, share; /* share: 1 / d, which turns a row sum into the mean */
    /* Row length of y. A row of x has d elements, so columns d to `columns` - 1 of y are padding
     * and become zero. */
    int columns;
    bool gated;
    int64_t gate_stride;
};
template <int HOW> struct form {
    enum { N = HOW & EIGHT ? 8 : 2 };
};
template <bool> struct source_of {
    typedef const kvr_bf16 type;
};
template <> struct source_of<true> {
    typedef kvr_bf16 type;
};

/* Normalizes each row x of d elements to n = (x - mean) / sqrt(variance + eps). The output is
 * y = n (1 + factor) + add with MODULATE, and y = n factor + add without MODULATE. With ADD, the
 * kernel first adds the residual `from` to x. If the residual has a gate, `from` is multiplied by
 * the gate before the addition. */
template <int HOW>
static __global__ void __launch_bounds__(THREADS)
    norm_rows(struct kvr_rows r, kvr_global<typename source_of<(HOW & ADD) != 0>::type> x,
              kvr_global<const float> add, kvr_global<const float> factor, struct vectors how,
              kvr_global<const kvr_bf16> from, kvr_global<const float> gate, kvr_global<kvr_bf16> y)
{
    enum { N = form<HOW>::N };
    KVR_SHARED(float, warps, WARPS);
    const int64_t row = (int64_t)blockIdx.x * r.d, out = (int64_t)blockIdx.x * how.columns;
    const int64_t frame = blockIdx.x / (unsigned)r.tokens_per_frame;
    const int64_t at = HOW & MODULATE ? frame * how.stride : 0;
    float sum = 0, mean, inv;
    struct numbers<N> mine = {
    };

#pragma unroll 1
    for (int i = (int)threadIdx.x * N; i < r.d; i += (int)blockDim.x * N) {
        struct numbers<N> n = load<N>(x, row + i);

        if constexpr ((HOW & ADD) != 0) {
            n = plus<N>(n, load<N>(from, row + i), how.gated, gate, frame * how.gate_stride + i);
            n = store<N>(x, row + i, n);
        }
        if (i == (int)threadIdx.x * N)
            mine = n;
#pragma unroll
        for (int k = 0; k < N; k++)
            sum += n.v[k];
    }
    mean = block_sum(sum, warps) * how.share;
    sum = 0;
#pragma unroll 1
    for (int i = (int)threadIdx.x * N; i < r.d; i += (int)blockDim.x * N) {
        const struct numbers<N> n = again<N>(x, row, i, mine);

#pragma unroll
        for (int k = 0; k < N; k++)
            sum = fmaf(n.v[k] - mean, n.v[k] - mean, sum);
    }
    inv = 1.0f / sqrtf(block_sum(sum, warps) * how.share + how.eps);
#pragma unroll 1
    for (int i = (int)threadIdx.x * N; i < r.d; i += (int)blockDim.x * N) {
        const kvr_vec<float, N> f = side_by_side<N, float>(factor, at + i);
        const kvr_vec<float, N> b = side_by_side<N, float>(add, at + i);
        struct numbers<N> n = again<N>(x, row, i, mine);

#pragma unroll
        for (int k = 0; k < N; k++)
            n.v[k] = fmaf((n.v[k] - mean) * inv, HOW & MODULATE ? 1.0f + f.v[k] : f.v[k], b.v[k]);
        store<N>(y, out + i, n);
    }
    for (int i = r.d + (int)threadIdx.x; i < how.columns; i += (int)blockDim.x)
        y[out + i] = 0;
}

struct of_squares {
    float share, eps; /* share: 1 / d, which turns a row sum into the mean */
};
/* Returns the RMSNorm factor of a row, 1 / sqrt(mean of squares + eps). `mine` receives the first N
 * elements that the thread loads. */
template <int N>
static __device__ __forceinline__ float
inverse_rms(kvr_global<const kvr_bf16> x, int64_t row, int d, struct of_squares mean,
            kvr_shared<float> warps, struct numbers<N> &mine)
{
    float sum = 0;

#pragma unroll 1
    for (int i = (int)threadIdx.x * N; i < d; i += (int)blockDim.x * N) {
        const struct numbers<N> n = load<N>(x, row + i);

        if (i == (int)threadIdx.x * N)
            mine = n;
#pragma unroll
        for (int k = 0; k < N; k++)
            sum = fmaf(n.v[k], n.v[k], sum);
    }
    return 1.0f / sqrtf(block_sum(sum, warps) * mean.share + mean.eps);
}

template <int HOW>
static __global__ void __launch_bounds__(THREADS)
    rms_rows(struct kvr_rows r, kvr_global<const float> w, struct of_squares mean,
             kvr_global<kvr_bf16> x)
{
    enum { N = form<HOW>::N };
    KVR_SHARED(float, warps, WARPS);
    const int64_t row = (int64_t)blockIdx.x * r.d;
    struct numbers<N> mine = {
    };
    const float inv = inverse_rms<N>(x, row, r.d, mean, warps, mine);

#pragma unroll 1
    for (int i = (int)threadIdx.x * N; i < r.d; i += (int)blockDim.x * N) {
        const kvr_vec<float, N> f = side_by_side<N, float>(w, i);
        struct numbers<N> n = again<N>(x, row, i, mine);

#pragma unroll
        for (int k = 0; k < N; k++)
            n.v[k] = n.v[k] * inv * f.v[k];
        store<N>(x, row + i, n);
    }
}

/* The one or two tensors that a launch processes, such as Q and K, with n rows each. The first n
 * CTAs process the rows of the first tensor, and the next n CTAs process the rows of the second
 * tensor. */
struct both_of {
    const float *w[2];
    const kvr_bf16 *x[2];
    kvr_bf16 *y[2];
};

/* Computes y = RoPE(RMSNorm(x)). RoPE rotates the channel pairs of every head. */
template <int HOW>
static __global__ void __launch_bounds__(THREADS, 4)
    rope_rows(struct kvr_rows r, int pairs_of_head, struct both_of all, struct of_squares mean,
              kvr_global<const double> cosines, kvr_global<const double> sines)
{
    enum { N = form<HOW>::N };
    KVR_SHARED(float, warps, WARPS);
    const bool second = blockIdx.x >= (unsigned)r.n;
    const int64_t token = (int64_t)blockIdx.x - (second ? r.n : 0), row = token * r.d;
    const kvr_global<const float> w = kvr_global<const float>(second ? all.w[1] : all.w[0]);
    const kvr_global<const kvr_bf16> x = kvr_global<const kvr_bf16>(second ? all.x[1] : all.x[0]);
    const kvr_global<kvr_bf16> y = kvr_global<kvr_bf16>(second ? all.y[1] : all.y[0]);
    struct numbers<N> mine = {
    };
    const float inv = inverse_rms<N>(x, row, r.d, mean, warps, mine);

#pragma unroll 1
    for (int i = (int)threadIdx.x * N; i < r.d; i += (int)blockDim.x * N) {
        const int64_t angle = token * pairs_of_head + i / 2 % pairs_of_head;
        const kvr_vec<double, N / 2> co = side_by_side<N / 2, double>(cosines, angle);
        const kvr_vec<double, N / 2> si = side_by_side<N / 2, double>(sines, angle);
        const kvr_vec<float, N> f = side_by_side<N, float>(w, i);
        struct numbers<N> n = again<N>(x, row, i, mine);

#pragma unroll
        for (int k = 0; k < N / 2; k++) {
            const double a = n.v[2 * k] * inv * f.v[2 * k];
            const double b = n.v[2 * k + 1] * inv * f.v[2 * k + 1];

            n.v[2 * k] = (float)(a * co.v[k] - b * si.v[k]);
            n.v[2 * k + 1] = (float)(a * si.v[k] + b * co.v[k]);
        }
        store<N>(y, row + i, n);
    }
}

/* Adds a residual, x += y. If the residual has gates, y is multiplied by the gate of the row's
 * frame. */
template <int HOW>
static __global__ void __launch_bounds__(THREADS)
    sum_rows(struct kvr_rows r, kvr_global<const kvr_bf16> y, bool gated,
             kvr_global<const float> gate, int64_t stride, kvr_global<kvr_bf16> x)
{
    enum { N = form<HOW>::N };
    const int64_t row = (int64_t)blockIdx.x * r.d;
    const int64_t at = blockIdx.x / (unsigned)r.tokens_per_frame * stride;

#pragma unroll 1
    for (int i = (int)threadIdx.x * N; i < r.d; i += (int)blockDim.x * N) {
        const struct numbers<N> u = load<N>(y, row + i);

        store<N>(x, row + i, plus<N>(load<N>(x, row + i), u, gated, gate, at + i));
    }
}

/* ---- launchers ---------------------------------------------------------------------------- */

/* Returns whether a kernel can access the n arrays p in 16-byte aligned vectors of eight elements.
 * The arrays' rows have d elements. `stride` is the distance, in floats, between the LayerNorm
 * parameters or the gates of successive frames. */
static bool by_eight(int d, int64_t stride, const void *const *p, int n)
{
    assert(d % 2 == 0 && stride % 2 == 0);
    if (d % 8 || stride % 4)
        return false;
    for (int i = 0; i < n; i++)
        if (!kvr_aligned(p[i], 16))
            return false;
    return true;
}

/* Returns the number of threads per CTA: enough warps to cover a row of d elements in one pass, but
 * at most THREADS threads. */
template <int HOW> static unsigned threads_of(int d)
{
    const int n = (d / form<HOW>::N + 31) / 32 * 32;

    return (unsigned)(n < THREADS ? n : (int)THREADS);
}

static const float *const none = NULL;

template <int HOW>
static void norm(struct kvr_stream *s, const struct kvr_rows *r, const struct kvr_residual *before,
                 kvr_bf16 *x, const float *add, const float *factor, const struct vectors *how,
                 kvr_bf16 *y)
{
    const kvr_bf16 *const nothing = NULL, *const there = x;

    if (before->y)
        KVR_LAUNCH(norm_rows<HOW | ADD>, (unsigned)r->n, threads_of<HOW | ADD>(r->d), 0, s, *r, x,
                   add, factor, *how, before->y, before->gate, y);
    else
        KVR_LAUNCH(norm_rows<HOW>, (unsigned)r->n, threads_of<HOW>(r->d), 0, s, *r, there, add,
                   factor, *how, nothing, none, y);
}

template <int HOW>
static void norm_by(struct kvr_stream *s, const struct kvr_rows *r,
                    const struct kvr_residual *before, kvr_bf16 *x, const float *add,
                    const float *factor, int64_t stride, double eps, kvr_bf16 *y, int columns)
{
    const struct vectors how = { stride,  (float)eps,           1.0f / (float)r->d,
                                 columns, before->gate != NULL, before->stride };
    const void *const all[] = { x, add, factor, y, before->y, before->gate };

    if (!r->n)
        return;
    if (columns % 8 == 0 && by_eight(r->d, stride | before->stride, all, 6))
        norm<HOW | EIGHT>(s, r, before, x, add, factor, &how, y);
    else
        norm<HOW>(s, r, before, x, add, factor, &how, y);
}

void kvr_norm_modulate_bf16_cuda(struct kvr_stream *s, const struct kvr_rows *r,
                                 const struct kvr_residual *before, kvr_bf16 *x, const float *shift,
                                 const float *scale, int64_t stride, double eps, kvr_bf16 *y,
                                 int columns)
{
    norm_by<MODULATE>(s, r, before, x, shift, scale, stride, eps, y, columns);
}

void kvr_norm_affine_bf16_cuda(struct kvr_stream *s, const struct kvr_rows *r,
                               const struct kvr_residual *before, kvr_bf16 *x, const float *w,
                               const float *b, double eps, kvr_bf16 *y, int columns)
{
    norm_by<0>(s, r, before, x, b, w, 0, eps, y, columns);
}

void kvr_rms_norm_bf16_cuda(struct kvr_stream *s, const struct kvr_rows *r, const float *w,
                            double eps, kvr_bf16 *x)
{
    const struct of_squares mean = { 1.0f / (float)r->d, (float)eps };
    const void *const all[] = { x, w };

    if (r->n && by_eight(r->d, 0, all, 2))
        KVR_LAUNCH(rms_rows<EIGHT>, (unsigned)r->n, threads_of<EIGHT>(r->d), 0, s, *r, w, mean, x);
    else if (r->n)
        KVR_LAUNCH(rms_rows<0>, (unsigned)r->n, threads_of<0>(r->d), 0, s, *r, w, mean, x);
}

void kvr_rms_rope_bf16_cuda(struct kvr_stream *s, const struct kvr_rows *r, int head_dim,
                            const float *const *w, double eps, const double *cosines,
                            const double *sines, const kvr_bf16 *const *x, kvr_bf16 *const *y)
{
    const struct both_of both = { { w[0], w[1] }, { x[0], x[1] }, { y[0], y[1] } };
    const struct of_squares mean = { 1.0f / (float)r->d, (float)eps };
    const void *const all[] = { w[0], w[1], x[0], x[1], y[0], y[1], cosines, sines };

    const int64_t rows = x[1] ? 2 * r->n : r->n;

    if (r->n && head_dim % 8 == 0 && by_eight(r->d, 0, all, 8))
        KVR_LAUNCH(rope_rows<EIGHT>, (unsigned)rows, threads_of<EIGHT>(r->d), 0, s, *r,
                   head_dim / 2, both, mean, cosines, sines);
    else if (r->n)
        KVR_LAUNCH(rope_rows<0>, (unsigned)rows, threads_of<0>(r->d), 0, s, *r, head_dim / 2, both,
                   mean, cosines, sines);
}

void kvr_add_bf16_cuda(struct kvr_stream *s, const struct kvr_rows *r,
                       const struct kvr_residual *from, kvr_bf16 *x)
{
    const bool gated = from->gate != NULL;
    const void *const all[] = { from->y, from->gate, x };

    if (r->n && by_eight(r->d, from->stride, all, 3))
        KVR_LAUNCH(sum_rows<EIGHT>, (unsigned)r->n, threads_of<EIGHT>(r->d), 0, s, *r, from->y,
                   gated, from->gate, from->stride, x);
    else if (r->n)
        KVR_LAUNCH(sum_rows<0>, (unsigned)r->n, threads_of<0>(r->d), 0, s, *r, from->y, gated,
                   from->gate, from->stride, x);
}
