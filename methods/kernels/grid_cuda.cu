/* grid_cuda.cu - the integer grids of grid.h on a device; grid.c is the definition.
 *
 * Every operation on an element is the CPU's, in its order (built with -fmad=false), so codes,
 * steps and zero points are the same bytes. Minimum and maximum are taken of integers, so the
 * order of a reduction does not show. */
#include "harness/cuda/number.cuh"
#include "methods/kernels/kernels_cuda.h"
#include "methods/kernels/planes.cuh"

enum {
    THREADS = 128,
    WARPS = THREADS / 32,
    SPAN = 256,         /* channels that a block of encode_rows codes at a time */
    SETS = 8 * SPAN / 8 /* 8 tokens; 8 is the shortest group */
};

/* A grid and a block of tokens, as kernels see them. */
struct shape {
    struct kvr_planes planes;     /* n_tok: as stored, padding included */
    int64_t n_tok, n_sets, width; /* width: elements of a set along channels */
    int axis, group;
    bool asym, study, bf16;
};

static __device__ __forceinline__ int order_of(float x)
{
    const unsigned u = __float_as_uint(x);

    return (int)(u ^ (u >> 31 ? 0x7fffffffu : 0u));
}

static __device__ __forceinline__ float value_of(int order)
{
    const unsigned u = (unsigned)order;

    return __uint_as_float(u ^ (u >> 31 ? 0x7fffffffu : 0u));
}

/* q = rne((x - m) / s + pre) + post. */
struct fitted {
    float s, m, pre;
    kvr_f16 step, zero;
};

/* Nearest FP16 not below x >= 0, 65504 at most. */
static __device__ __forceinline__ kvr_f16 half_up(float x)
{
    const kvr_f16 h = kvr_half_of(x);
    const unsigned up = h + (kvr_float_of(h) < x ? 1u : 0u);

    return (kvr_f16)(up < 0x7c00u ? up : 0x7bffu);
}

/* Nearest FP16 not above x, -65504 at least. */
static __device__ __forceinline__ kvr_f16 half_down(float x)
{
    const kvr_f16 h = kvr_half_of(x);
    const unsigned away = h & 0x8000u ? 1u : 0xffffu; /* +1 or -1 */
    const unsigned down = (h + (kvr_float_of(h) > x ? away : 0u)) & 0xffffu;
    const unsigned size = down & 0x7fffu;

    return (kvr_f16)((down & 0x8000u) | (size < 0x7c00u ? size : 0x7bffu));
}

static __device__ __forceinline__ struct fitted fit_study(const struct shape &g, float lo, float hi)
{
    const float q_top = (float)((1 << g.planes.bits) - 1);
    const float qmax = (float)((1 << (g.planes.bits - 1)) - 1); /* INT2 is ternary */
    const float eps = g.bf16 ? kvr_round_bf16(1e-8f) : 1e-8f;
    struct fitted f;
    float wide, z;

    lo = g.bf16 ? kvr_round_bf16(lo) : lo;
    hi = g.bf16 ? kvr_round_bf16(hi) : hi;
    wide = g.asym ? hi - lo : hi > -lo ? hi : -lo;
    f.s = (g.bf16 ? kvr_round_bf16(wide) : wide) / (g.asym ? q_top : qmax);
    f.s = g.bf16 ? kvr_round_bf16(f.s) : f.s;
    f.s = f.s < eps ? eps : f.s;
    z = -lo / f.s;
    z = rintf(g.bf16 ? kvr_round_bf16(z) : z);
    z = z > 0 ? z : 0;
    f.m = 0;
    f.pre = !g.asym ? 0 : z < q_top ? z : q_top;
    f.step = kvr_half_of(f.s);
    f.zero = kvr_half_of(f.pre);
    return f;
}

static __device__ __forceinline__ struct fitted fit_sym(int bits, float lo, float hi)
{
    const float qmax = (float)((1 << (bits - 1)) - 1);
    const float pos = hi > 0 ? hi : 0, neg = lo < 0 ? -lo : 0;
    const float wide = (pos > neg ? pos : neg) / (qmax + 1);
    const float narrow = (pos > neg ? neg : pos) / qmax;
    struct fitted f;

    f.m = f.pre = 0;
    f.zero = 0;
    f.step = (kvr_f16)(half_up(wide > narrow ? wide : narrow) | (pos > neg ? 0x8000u : 0u));
    f.s = kvr_float_of(f.step);
    return f;
}

static __device__ __forceinline__ struct fitted fit_asym(int bits, float lo, float hi)
{
    const float q_top = (float)((1 << bits) - 1);
    struct fitted f;

    f.zero = half_down(lo);
    f.m = kvr_float_of(f.zero);
    f.pre = 0;
    f.step = half_up((hi - f.m) / q_top);
    f.s = kvr_float_of(f.step);
    return f;
}

static __device__ __forceinline__ struct fitted fit(const struct shape &g, int low, int high)
{
    const float lo = value_of(low), hi = value_of(high);
    const bool bad = high >= order_of(INFINITY) || low <= order_of(-INFINITY);
    struct fitted f = g.study  ? fit_study(g, lo, hi)
                      : g.asym ? fit_asym(g.planes.bits, lo, hi)
                               : fit_sym(g.planes.bits, lo, hi);

    f.s = bad ? NAN : f.s == 0 ? 1 : f.s;
    f.step = bad ? 0x7e00 : f.step;
    return f;
}

/* NaN gives code 0. */
static __device__ __forceinline__ unsigned code_of(const struct shape &g, float x, float s, float m,
                                                   float pre)
{
    const float top = (float)((1 << g.planes.bits) - 1);
    float v;

    if (g.bf16)
        v = kvr_round_bf16(kvr_round_bf16(kvr_round_bf16(x - m) / s) + pre);
    else
        v = (x - m) / s + pre;
    v = rintf(v) + (g.asym ? 0.0f : (float)(1 << (g.planes.bits - 1)));
    v = v > 0 ? v : 0;
    v = v < top ? v : top;
    return (unsigned)(int)v;
}

/* Sets along tokens: a thread has one set. x is read twice; the second time it is in a cache. */
static __global__ void __launch_bounds__(THREADS)
    grid_encode_tokens(struct shape g, kvr_global<const float> x, kvr_global<uint8_t> codes,
                       kvr_global<kvr_f16> meta)
{
    const int64_t channels = g.planes.channels, strips = (channels + THREADS - 1) / THREADS;
    const int64_t b = blockIdx.x / strips, c = blockIdx.x % strips * THREADS + threadIdx.x;
    const int64_t t0 = b * g.group, stored = g.planes.n_tok;
    const int64_t end = t0 + g.group < stored ? t0 + g.group : stored;
    const int64_t have = end < g.n_tok ? end : g.n_tok;
    struct fitted f;
    int low, high;

    if (c >= channels)
        return;
    low = high = order_of(have < end ? 0.0f : (float)x[t0 * channels + c]);
    for (int64_t t = t0; t < have; t++) {
        const int v = order_of(x[t * channels + c]);

        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    f = fit(g, low, high);
    meta[b * channels + c] = f.step;
    if (g.asym)
        meta[g.n_sets + b * channels + c] = f.zero;
    for (int64_t t = t0; t < end; t += 8) {
        uint64_t word = 0;

#pragma unroll
        for (int i = 0; i < 8; i++)
            if (t + i < end)
                word |= (uint64_t)code_of(g, t + i < have ? (float)x[(t + i) * channels + c] : 0.0f,
                                          f.s, f.m, f.pre)
                        << (8 * i);
        kvr_store8(g.planes, t / 8, c, word, codes);
    }
}

/* Sets within a token: a block has 8 tokens and either some sets of each, or one wide set of
 * each. A warp takes the range of a set, a thread fits it, and a thread codes 8 tokens of a
 * channel. */
static __global__ void __launch_bounds__(THREADS)
    grid_encode_rows(struct shape g, int64_t span, kvr_global<const float> x,
                     kvr_global<uint8_t> codes, kvr_global<kvr_f16> meta)
{
    KVR_SHARED(int, low, SETS);
    KVR_SHARED(int, high, SETS);
    KVR_SHARED(float, step, SETS);
    KVR_SHARED(float, base, SETS);
    KVR_SHARED(float, pre, SETS);
    const int64_t channels = g.planes.channels, spans = (channels + span - 1) / span;
    const int64_t t8 = blockIdx.x / spans, first = blockIdx.x % spans * span;
    const int64_t last = channels - first < span ? channels : first + span;
    const int64_t rows = g.planes.n_tok - 8 * t8 < 8 ? g.planes.n_tok - 8 * t8 : 8;
    const int k = (int)((last - first) / g.width), n = (int)rows * k; /* sets: of a token, of all */
    const int lane = (int)threadIdx.x % 32;

    for (int i = (int)threadIdx.x / 32; i < n; i += WARPS) {
        const int64_t t = 8 * t8 + i / k, at = t * channels + first + i % k * g.width;
        int lo = 0x7fffffff, hi = -0x7fffffff - 1;

        for (int64_t c = lane; c < g.width; c += 32) {
            const int v = order_of(t < g.n_tok ? (float)x[at + c] : 0.0f);

            lo = v < lo ? v : lo;
            hi = v > hi ? v : hi;
        }
        lo = __reduce_min_sync(~0u, lo);
        hi = __reduce_max_sync(~0u, hi);
        if (!lane) {
            low[i] = lo;
            high[i] = hi;
        }
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < n; i += THREADS) {
        const struct fitted f = fit(g, low[i], high[i]);
        const int64_t set = ((8 * t8 + i / k) * channels + first) / g.width + i % k;

        step[i] = f.s;
        base[i] = f.m;
        pre[i] = f.pre;
        meta[set] = f.step;
        if (g.asym)
            meta[g.n_sets + set] = f.zero;
    }
    __syncthreads();
    for (int64_t c = first + threadIdx.x; c < last; c += THREADS) {
        const int mine = (int)((c - first) / g.width);
        uint64_t word = 0;

#pragma unroll
        for (int i = 0; i < 8; i++)
            if (i < rows) {
                const int64_t t = 8 * t8 + i;
                const float v = t < g.n_tok ? (float)x[t * channels + c] : 0.0f;
                const int set = i * k + mine;

                word |= (uint64_t)code_of(g, v, step[set], base[set], pre[set]) << (8 * i);
            }
        kvr_store8(g.planes, t8, c, word, codes);
    }
}

/* What is decoded. */
struct part {
    int64_t t0, n, first, width; /* tokens; channels */
    int mode;
};

static __device__ __forceinline__ int64_t set_of(const struct shape &g, int64_t t, int64_t c)
{
    if (g.axis == KVR_AXIS_TOKENS)
        return t / g.group * g.planes.channels + c;
    return (t * g.planes.channels + c) / g.width;
}

/* A thread has up to 8 tokens of a channel. */
static __global__ void __launch_bounds__(THREADS)
    grid_decode(struct shape g, struct part d, kvr_global<const uint8_t> codes,
                kvr_global<const kvr_f16> meta, kvr_global<float> out)
{
    const int64_t strips = (d.width + THREADS - 1) / THREADS;
    const int64_t t8 = d.t0 / 8 + blockIdx.x / strips;
    const int64_t c = blockIdx.x % strips * THREADS + threadIdx.x;
    const float half = g.asym ? 0.0f : (float)(1 << (g.planes.bits - 1));
    float s = 0, zero = 0;
    uint64_t word;

    if (c >= d.width)
        return;
    word = kvr_load8(g.planes, t8, d.first + c, codes);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int64_t t = 8 * t8 + i, at = (t - d.t0) * d.width + c;
        float v, x;

        if (t < d.t0 || t >= d.t0 + d.n)
            continue;
        const int64_t set = set_of(g, t, d.first + c);
        s = kvr_float_of(meta[set]);
        zero = g.asym ? kvr_float_of(meta[g.n_sets + set]) : 0;
        v = (float)(int)((word >> (8 * i)) & 255u);
        x = (v - (g.asym && g.study ? zero : half)) * s;
        v = g.asym && !g.study ? zero : 0;
        x = g.bf16 ? kvr_round_bf16(kvr_round_bf16(x) + v) : x + v;
        if (d.mode == KVR_DECODE_SET)
            out[at] = x;
        else
            out[at] = d.mode == KVR_DECODE_ADD ? (float)out[at] + x : (float)out[at] - x;
    }
}

static struct shape shape_of(const struct kvr_grid *g, const struct kvr_stage_job *job)
{
    const int64_t channels = (int64_t)job->shape.n_heads * job->shape.head_dim;
    const int64_t n = job->shape.n_tok;
    struct shape s;

    s.planes.n_tok = job->study ? (n + KVR_STUDY_BLOCK - 1) / KVR_STUDY_BLOCK * KVR_STUDY_BLOCK : n;
    s.planes.channels = channels;
    s.planes.bits = g->bits;
    s.n_tok = n;
    s.axis = g->axis;
    s.group = g->group;
    s.width = g->axis == KVR_AXIS_TOKEN ? channels : g->group;
    s.asym = g->asym;
    s.study = job->study;
    s.bf16 = job->compute == KVR_COMPUTE_BF16;
    s.n_sets = g->axis == KVR_AXIS_TOKENS ? (s.planes.n_tok + g->group - 1) / g->group * channels
                                          : s.planes.n_tok * channels / s.width;
    return s;
}

void kvr_grid_encode_cuda(struct kvr_stream *s, const struct kvr_grid *g,
                          const struct kvr_stage_job *job, const float *x, void *codes, void *meta)
{
    const struct shape sh = shape_of(g, job);
    const int64_t stored = sh.planes.n_tok, channels = sh.planes.channels;

    if (!stored || !channels)
        return;
    if (g->axis == KVR_AXIS_TOKENS) {
        const int64_t blocks = (stored + g->group - 1) / g->group;

        KVR_LAUNCH(grid_encode_tokens, (unsigned)(blocks * kvr_blocks(channels, THREADS)), THREADS,
                   0, s, sh, x, (uint8_t *)codes, (kvr_f16 *)meta);
    } else {
        const int64_t span = sh.width < SPAN ? SPAN / sh.width * sh.width : sh.width;

        KVR_LAUNCH(grid_encode_rows, (unsigned)((stored + 7) / 8 * kvr_blocks(channels, span)),
                   THREADS, 0, s, sh, span, x, (uint8_t *)codes, (kvr_f16 *)meta);
    }
}

void kvr_grid_decode_cuda(struct kvr_stream *s, const struct kvr_grid *g,
                          const struct kvr_stage_job *job, const void *codes, const void *meta,
                          int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                          float *out)
{
    const struct shape sh = shape_of(g, job);
    const struct part d = { t0, n, (int64_t)h0 * job->shape.head_dim,
                            (int64_t)nh * job->shape.head_dim, mode };

    if (n && d.width)
        KVR_LAUNCH(grid_decode,
                   (unsigned)(((t0 + n + 7) / 8 - t0 / 8) * kvr_blocks(d.width, THREADS)), THREADS,
                   0, s, sh, d, (const uint8_t *)codes, (const kvr_f16 *)meta, out);
}
