/* ops_cuda.cu - see ops_cuda.h. Norms use one CTA per row. Elementwise kernels use one thread per
 * element. */
#include "harness/engine/ops_cuda.h"

#include "harness/device/kernel.cuh"
#include "harness/device/number.cuh"
#include "harness/engine/gelu.cuh"
#include "harness/engine/row_sum.cuh"

/* Computes LayerNorm of each row x: n = (x - mean) / sqrt(variance + eps), with the mean and
 * variance of the row's d elements. With MODULATE, the output is y = (1 + factor) n + add, and
 * every frame has its own vectors `factor` and `add`. Without MODULATE, the output is
 * y = factor n + add, and all rows use the same vectors. */
template <bool MODULATE>
static __global__ void __launch_bounds__(THREADS)
    layer_norm(struct kvr_rows r, kvr_global<const float> x, kvr_global<const float> add,
               kvr_global<const float> factor, int64_t stride, float eps, kvr_global<float> y)
{
    KVR_SHARED(float, warps, WARPS);
    const int64_t row = (int64_t)blockIdx.x * r.d;
    const int64_t at = MODULATE ? blockIdx.x / (unsigned)r.tokens_per_frame * stride : 0;
    float sum = 0, mean, inv;

    for (int i = (int)threadIdx.x; i < r.d; i += THREADS)
        sum += x[row + i];
    mean = block_sum(sum, warps) / (float)r.d;
    sum = 0;
    for (int i = (int)threadIdx.x; i < r.d; i += THREADS) {
        const float d = x[row + i] - mean;

        sum += d * d;
    }
    inv = 1.0f / sqrtf(block_sum(sum, warps) / (float)r.d + eps);
    for (int i = (int)threadIdx.x; i < r.d; i += THREADS) {
        const float f = factor[at + i];

        y[row + i] = (x[row + i] - mean) * inv * (MODULATE ? 1.0f + f : f) + add[at + i];
    }
}

static __global__ void __launch_bounds__(THREADS)
    rms_norm(struct kvr_rows r, kvr_global<const float> w, float eps, kvr_global<float> x)
{
    KVR_SHARED(float, warps, WARPS);
    const int64_t row = (int64_t)blockIdx.x * r.d;
    float sum = 0, inv;

    for (int i = (int)threadIdx.x; i < r.d; i += THREADS) {
        const float v = x[row + i];

        sum += v * v;
    }
    inv = 1.0f / sqrtf(block_sum(sum, warps) / (float)r.d + eps);
    for (int i = (int)threadIdx.x; i < r.d; i += THREADS)
        x[row + i] = x[row + i] * inv * w[i];
}

/* Applies RMSNorm and then RoPE to a row in place. With separate kernels, the row would be written
 * to global memory twice. In the second loop, a thread normalizes and rotates both channels of a
 * RoPE pair, so that threads need not exchange values. */
static __global__ void __launch_bounds__(THREADS)
    rms_rope(struct kvr_rows r, int pairs_of_head, kvr_global<const float> w, float eps,
             kvr_global<const double> cosines, kvr_global<const double> sines, kvr_global<float> x)
{
    KVR_SHARED(float, warps, WARPS);
    const int64_t row = (int64_t)blockIdx.x * r.d, angles = (int64_t)blockIdx.x * pairs_of_head;
    float sum = 0, inv;

    for (int i = (int)threadIdx.x; i < r.d; i += THREADS) {
        const float v = x[row + i];

        sum += v * v;
    }
    inv = 1.0f / sqrtf(block_sum(sum, warps) / (float)r.d + eps);
    for (int i = (int)threadIdx.x; i < r.d / 2; i += THREADS) {
        const int64_t at = row + 2 * i, angle = angles + i % pairs_of_head;
        const float u = x[at] * inv * w[2 * i], v = x[at + 1] * inv * w[2 * i + 1];
        const double a = u, b = v, co = cosines[angle], si = sines[angle];

        x[at] = (float)(a * co - b * si);
        x[at + 1] = (float)(a * si + b * co);
    }
}

/* Each thread applies RoPE to one channel pair. */
static __global__ void __launch_bounds__(THREADS)
    rope(int64_t n_pairs, int pairs_of_token, int pairs_of_head, kvr_global<const double> cosines,
         kvr_global<const double> sines, kvr_global<float> x)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i >= n_pairs)
        return;
    const int64_t angle = i / pairs_of_token * pairs_of_head + i % pairs_of_token % pairs_of_head;
    const double a = (float)x[2 * i], b = (float)x[2 * i + 1];
    const double co = cosines[angle], si = sines[angle];

    x[2 * i] = (float)(a * co - b * si);
    x[2 * i + 1] = (float)(a * si + b * co);
}

template <bool GATED>
static __global__ void __launch_bounds__(THREADS)
    add_rows(struct kvr_rows r, kvr_global<const float> y, kvr_global<const float> gate,
             int64_t stride, kvr_global<float> x)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i >= r.n * r.d)
        return;
    if (GATED)
        x[i] = fmaf(y[i], gate[i / r.d / r.tokens_per_frame * stride + i % r.d], x[i]);
    else
        x[i] = x[i] + y[i];
}

static __global__ void __launch_bounds__(THREADS) gelu(int64_t n, kvr_global<float> x)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < n)
        x[i] = kvr_gelu_of(x[i]);
}

/* Each CTA computes GELU of one row. */
static __global__ void __launch_bounds__(THREADS)
    gelu_round(int d, int columns, kvr_global<const float> x, kvr_global<kvr_bf16> y)
{
    const int64_t row = blockIdx.x;

    for (int i = (int)threadIdx.x; i < columns; i += THREADS)
        y[row * columns + i] = kvr_bf16_of(i < d ? kvr_gelu_of(x[row * d + i]) : 0.0f);
}

/* If HERE is true, x and y are the same array, which the kernel accesses only through y. If the
 * kernel used both __restrict__ pointers, the compiler could move a load of x above a store to
 * y. */
template <bool HERE>
static __global__ void __launch_bounds__(THREADS)
    silu(int64_t n, kvr_global<const float> x, kvr_global<float> y)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < n) {
        const float u = HERE ? y[i] : x[i];

        y[i] = u / (1.0f + kvr_exp_bounded(-u));
    }
}

/* Without BACK, the kernel rearranges frames [F,C,H,W] into tokens, one token per patch of a frame.
 * The values of a token are in the order (channel, row in the patch, column in the patch). With
 * BACK, the kernel rearranges tokens into frames, and the values of a token are in the order (row
 * in the patch, column in the patch, channel). Each thread copies one value. */
template <bool BACK>
static __global__ void __launch_bounds__(THREADS)
    patches(struct kvr_patching p, kvr_global<const float> in, kvr_global<float> out)
{
    const int gh = p.height / p.ph, gw = p.width / p.pw, values = p.channels * p.ph * p.pw;
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int64_t token = i / values;
    const int v = (int)(i % values);
    const int c = BACK ? v % p.channels : v / (p.ph * p.pw);
    const int pq = BACK ? v / p.channels : v % (p.ph * p.pw);
    const int64_t frame = token / (gh * gw);
    const int patch = (int)(token % (gh * gw));
    const int64_t line = (frame * p.channels + c) * p.height + patch / gw * p.ph + pq / p.pw;
    const int64_t pixel = line * p.width + patch % gw * p.pw + pq % p.pw;

    if (frame >= p.n_frames)
        return;
    if (BACK)
        out[pixel] = in[i];
    else
        out[i] = in[pixel];
}

static __global__ void __launch_bounds__(THREADS)
    modulation(int64_t n, int n_rows, int d, bool same_for_rows, kvr_global<const float> base,
               kvr_global<const float> per_frame, kvr_global<float> out)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int64_t frame = i / d / n_rows;

    if (i < n)
        out[i] = base[i % ((int64_t)n_rows * d)] + per_frame[same_for_rows ? frame * d + i % d : i];
}

static __global__ void __launch_bounds__(THREADS)
    subtract(int64_t n, kvr_global<const float> x, kvr_global<const float> y, kvr_global<float> out)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < n)
        out[i] = x[i] - y[i];
}

/* Computes partial sums of |x - y| and of |y|. CTA b sums the blocks b, b + P, b + 2 P, ... of
 * THREADS adjacent elements, where P is the number of CTAs, KVR_OPS_L1_PARTS. The order of each sum
 * is fixed and does not depend on the scheduling of CTAs. */
static __global__ void __launch_bounds__(THREADS)
    l1_parts(int64_t n, kvr_global<const float> x, kvr_global<const float> y,
             kvr_global<double> sums)
{
    KVR_SHARED(double, warps, 2 * WARPS);
    double change = 0, size = 0;

    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n;
         i += (int64_t)KVR_OPS_L1_PARTS * THREADS) {
        const double before = (float)y[i];

        change += fabs((double)(float)x[i] - before);
        size += fabs(before);
    }
    for (int h = 16; h; h /= 2) {
        change += __shfl_xor_sync(~0u, change, h);
        size += __shfl_xor_sync(~0u, size, h);
    }
    if (threadIdx.x % 32 == 0) {
        warps[threadIdx.x / 32] = change;
        warps[WARPS + threadIdx.x / 32] = size;
    }
    __syncthreads();
    if (threadIdx.x >= 2)
        return;
    change = 0;
    for (int w = 0; w < WARPS; w++)
        change += warps[(int)threadIdx.x * WARPS + w];
    sums[(int64_t)threadIdx.x * KVR_OPS_L1_PARTS + blockIdx.x] = change;
}

static __global__ void __launch_bounds__(THREADS)
    flow_to_x0(int64_t n, kvr_global<const float> x, kvr_global<const float> flow, float sigma,
               kvr_global<float> x0)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < n)
        x0[i] = (float)((double)(float)x[i] - (double)sigma * (double)(float)flow[i]);
}

static __global__ void __launch_bounds__(THREADS)
    renoise(int64_t n, kvr_global<const float> x0, kvr_global<const float> eps, float sigma,
            kvr_global<float> x)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < n)
        x[i] = (1.0f - sigma) * x0[i] + sigma * eps[i];
}

/* Each thread computes one element of a linear combination. The kernel computes the products and
 * their sum in float64, in the order of the terms. Bit i of `in_place` is set if input i is also
 * the output array; the kernel reads this input from `out`. */
static __global__ void __launch_bounds__(THREADS)
    blend(int64_t n, int n_terms, unsigned in_place, double c0, double c1, double c2, double c3,
          kvr_global<const float> x0, kvr_global<const float> x1, kvr_global<const float> x2,
          kvr_global<const float> x3, kvr_global<float> out)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < n) {
        const float old = in_place ? (float)out[i] : 0;
        double sum = n_terms > 0 ? c0 * (double)(in_place & 1u ? old : (float)x0[i]) : 0.0;

        if (n_terms > 1)
            sum += c1 * (double)(in_place & 2u ? old : (float)x1[i]);
        if (n_terms > 2)
            sum += c2 * (double)(in_place & 4u ? old : (float)x2[i]);
        if (n_terms > 3)
            sum += c3 * (double)(in_place & 8u ? old : (float)x3[i]);
        out[i] = (float)sum;
    }
}

static __global__ void __launch_bounds__(THREADS)
    clamp(int64_t n, float lo, float hi, kvr_global<float> x)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < n) {
        const float v = x[i], above = v < lo ? lo : v;

        x[i] = above > hi ? hi : above;
    }
}

static __global__ void __launch_bounds__(THREADS)
    not_finite(int64_t n, kvr_global<const float> x, kvr_global<int32_t> flag)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < n && !(fabsf(x[i]) <= 3.402823466e38f))
        atomicMax(flag + 0, 1);
}

void kvr_norm_modulate_cuda(struct kvr_stream *s, const struct kvr_rows *r, const float *x,
                            const float *shift, const float *scale, int64_t stride, double eps,
                            float *y)
{
    if (r->n)
        KVR_LAUNCH(layer_norm<true>, (unsigned)r->n, THREADS, 0, s, *r, x, shift, scale, stride,
                   (float)eps, y);
}

void kvr_norm_affine_cuda(struct kvr_stream *s, const struct kvr_rows *r, const float *x,
                          const float *w, const float *b, double eps, float *y)
{
    if (r->n)
        KVR_LAUNCH(layer_norm<false>, (unsigned)r->n, THREADS, 0, s, *r, x, b, w, (int64_t)0,
                   (float)eps, y);
}

void kvr_rms_rope_cuda(struct kvr_stream *s, const struct kvr_rows *r, int head_dim, const float *w,
                       double eps, const double *cosines, const double *sines, float *x)
{
    if (r->n)
        KVR_LAUNCH(rms_rope, (unsigned)r->n, THREADS, 0, s, *r, head_dim / 2, w, (float)eps,
                   cosines, sines, x);
}

void kvr_rms_norm_cuda(struct kvr_stream *s, const struct kvr_rows *r, const float *w, double eps,
                       float *x)
{
    if (r->n)
        KVR_LAUNCH(rms_norm, (unsigned)r->n, THREADS, 0, s, *r, w, (float)eps, x);
}

void kvr_rope_cuda(struct kvr_stream *s, const struct kvr_rows *r, int head_dim,
                   const double *cosines, const double *sines, float *x)
{
    const int64_t pairs = r->n * (r->d / 2);

    if (pairs)
        KVR_LAUNCH(rope, kvr_blocks(pairs, THREADS), THREADS, 0, s, pairs, r->d / 2, head_dim / 2,
                   cosines, sines, x);
}

void kvr_add_cuda(struct kvr_stream *s, const struct kvr_rows *r, const float *y, const float *gate,
                  int64_t stride, float *x)
{
    const int64_t n = r->n * r->d;

    if (n && gate)
        KVR_LAUNCH(add_rows<true>, kvr_blocks(n, THREADS), THREADS, 0, s, *r, y, gate, stride, x);
    else if (n)
        KVR_LAUNCH(add_rows<false>, kvr_blocks(n, THREADS), THREADS, 0, s, *r, y, gate, stride, x);
}

void kvr_gelu_cuda(struct kvr_stream *s, int64_t n, float *x)
{
    if (n)
        KVR_LAUNCH(gelu, kvr_blocks(n, THREADS), THREADS, 0, s, n, x);
}

void kvr_gelu_bf16_cuda(struct kvr_stream *s, const struct kvr_rows *r, const float *x, kvr_bf16 *y,
                        int columns)
{
    if (r->n)
        KVR_LAUNCH(gelu_round, (unsigned)r->n, THREADS, 0, s, r->d, columns, x, y);
}

void kvr_silu_cuda(struct kvr_stream *s, int64_t n, const float *x, float *y)
{
    const float *const nothing = NULL;

    if (n && x == y)
        KVR_LAUNCH(silu<true>, kvr_blocks(n, THREADS), THREADS, 0, s, n, nothing, y);
    else if (n)
        KVR_LAUNCH(silu<false>, kvr_blocks(n, THREADS), THREADS, 0, s, n, x, y);
}

static int64_t values_of(const struct kvr_patching *p)
{
    return (int64_t)p->n_frames * (p->height / p->ph) * (p->width / p->pw) * p->channels * p->ph *
           p->pw;
}

void kvr_patchify_cuda(struct kvr_stream *s, const struct kvr_patching *p, const float *x,
                       float *out)
{
    if (values_of(p))
        KVR_LAUNCH(patches<false>, kvr_blocks(values_of(p), THREADS), THREADS, 0, s, *p, x, out);
}

void kvr_unpatchify_cuda(struct kvr_stream *s, const struct kvr_patching *p, const float *in,
                         float *x)
{
    if (values_of(p))
        KVR_LAUNCH(patches<true>, kvr_blocks(values_of(p), THREADS), THREADS, 0, s, *p, in, x);
}

void kvr_add_modulation_cuda(struct kvr_stream *s, int n_frames, int n_rows, int d,
                             const float *base, const float *per_frame, bool same_for_rows,
                             float *out)
{
    const int64_t n = (int64_t)n_frames * n_rows * d;

    if (n)
        KVR_LAUNCH(modulation, kvr_blocks(n, THREADS), THREADS, 0, s, n, n_rows, d, same_for_rows,
                   base, per_frame, out);
}

void kvr_subtract_cuda(struct kvr_stream *s, int64_t n, const float *x, const float *y, float *out)
{
    if (n)
        KVR_LAUNCH(subtract, kvr_blocks(n, THREADS), THREADS, 0, s, n, x, y, out);
}

void kvr_l1_cuda(struct kvr_stream *s, int64_t n, const float *x, const float *y, double *sums)
{
    KVR_LAUNCH(l1_parts, KVR_OPS_L1_PARTS, THREADS, 0, s, n, x, y, sums);
}

void kvr_x0_from_flow_cuda(struct kvr_stream *s, int64_t n, const float *x, const float *flow,
                           float sigma, float *x0)
{
    if (n)
        KVR_LAUNCH(flow_to_x0, kvr_blocks(n, THREADS), THREADS, 0, s, n, x, flow, sigma, x0);
}

void kvr_renoise_cuda(struct kvr_stream *s, int64_t n, const float *x0, const float *eps,
                      float sigma, float *x)
{
    if (n)
        KVR_LAUNCH(renoise, kvr_blocks(n, THREADS), THREADS, 0, s, n, x0, eps, sigma, x);
}

void kvr_blend_cuda(struct kvr_stream *s, int64_t n, const struct kvr_blend *b, float *out)
{
    const float *x[KVR_BLEND_MAX] = { 0 };
    unsigned in_place = 0;

    for (int i = 0; i < b->n; i++)
        if (b->x[i] == out)
            in_place |= 1u << i;
        else
            x[i] = b->x[i];
    if (n)
        KVR_LAUNCH(blend, kvr_blocks(n, THREADS), THREADS, 0, s, n, b->n, in_place, b->c[0],
                   b->c[1], b->c[2], b->c[3], x[0], x[1], x[2], x[3], out);
}

void kvr_clamp_cuda(struct kvr_stream *s, int64_t n, float lo, float hi, float *x)
{
    if (n)
        KVR_LAUNCH(clamp, kvr_blocks(n, THREADS), THREADS, 0, s, n, lo, hi, x);
}

void kvr_not_finite_cuda(struct kvr_stream *s, int64_t n, const float *x, int32_t *flag)
{
    if (n)
        KVR_LAUNCH(not_finite, kvr_blocks(n, THREADS), THREADS, 0, s, n, x, flag);
}
