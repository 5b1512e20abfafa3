/* grid_cuda.cu - the integer grids of grid.h on a device; grid.c is the definition.
 *
 * Every operation on an element is the CPU's, in its order (built with -fmad=false), so codes,
 * steps and zero points are the same bytes. Minimum and maximum are taken of integers, so the
 * order of a reduction does not show.
 *
 * A thread has the channels of one T: as many as T has bytes, since each has a byte of a plane's
 * row. T is uint32_t where extents and addresses are multiples of four channels: then values move
 * by 16 bytes, codes by 4, and a warp's share is a run of 512 or 128 bytes. */
#include "methods/codecs/hadamard/fwht.cuh"
#include "methods/codecs/grid/grid_cuda.h"
#include "methods/kernels/planes.cuh"

enum {
    THREADS = 128,
    WARPS = THREADS / 32,
    KEPT = 16,          /* tokens whose values a thread of grid_encode_16 keeps */
    SPAN = 256,         /* channels that a block of encode_rows codes at a time */
    SETS = 8 * SPAN / 8 /* 8 tokens; 8 is the shortest group */
};

/* A grid and a block of tokens, as kernels see them. */
struct shape {
    struct kvr_planes planes;     /* n_tok: as stored, padding included */
    int64_t n_tok, n_sets, width; /* width: elements of a set along channels */
    int64_t per_token;            /* sets of a token, where sets lie within one */
    int axis, group;
    bool asym, study, bf16;
};

/* One grid, or two of which the second has what the first left. */
struct chain {
    struct shape g[2];
    int n;
    bool rotate_bf16; /* arithmetic of the transform */
    bool round;       /* what is decoded, to BF16 */
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

template <class T> using values = kvr_few<float, sizeof(T)>;

/* How a kernel goes about it: one grid; with the transform before it (a warp has a head); or two.
 */
enum kind { ALONE, ROTATED, PAIR };
template <class Codes, enum kind K>
struct way {
    using T = Codes; static constexpr bool rotated = K == ROTATED, pair = K == PAIR;
};

/* The planes, in T. */
template <class T>
static __device__ __forceinline__ struct kvr_planes planes_of(const struct shape &g)
{
    return { g.planes.n_tok, g.planes.channels / (int64_t)sizeof(T), g.planes.bits };
}

/* Sets along tokens, of any length: a thread has one set. x is read twice; the second time it is in
 * a cache. */
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
        unsigned code[8];

#pragma unroll
        for (int i = 0; i < 8; i++) {
            const float v = t + i < have ? (float)x[(t + i) * channels + c] : 0.0f;

            code[i] = t + i < end ? code_of(g, v, f.s, f.m, f.pre) : 0u;
        }
        kvr_store8(g.planes, t / 8, c, code, codes);
    }
}

/* x^ = (q - z) s + off of a set. */
struct level {
    float s, z, off;
};

/* `zero` is not used where the grid is symmetric. */
static __device__ __forceinline__ struct level level_of(const struct shape &g, kvr_f16 step,
                                                        kvr_f16 zero)
{
    struct level l = { kvr_float_of(step), (float)(1 << (g.planes.bits - 1)), 0 };

    if (g.asym) {
        l.z = g.study ? kvr_float_of(zero) : 0;
        l.off = g.study ? 0 : kvr_float_of(zero);
    }
    return l;
}

static __device__ __forceinline__ struct level load_level(const struct shape &g, int64_t set,
                                                          kvr_global<const kvr_f16> meta)
{
    return level_of(g, meta[set], g.asym ? (kvr_f16)meta[g.n_sets + set] : (kvr_f16)0);
}

static __device__ __forceinline__ float decoded(unsigned code, const struct level &l, bool bf16)
{
    const float x = ((float)(int)(code & 255u) - l.z) * l.s;

    return bf16 ? kvr_round_bf16(kvr_round_bf16(x) + l.off) : x + l.off;
}

/* Sets of 16 tokens from token t0 on, of the channels of unit c: v, of which `given` tokens are not
 * padding. What a next grid would have to code is left in v. */
template <class T>
static __device__ __forceinline__ void
encode_kept(const struct shape &g, int64_t t0, int64_t c, bool next, values<T> (&v)[KEPT],
            kvr_global<T> codes, kvr_global<kvr_few<kvr_f16, sizeof(T)>> meta)
{
    enum { V = sizeof(T) };
    const int64_t units = g.planes.channels / V, set = t0 / KEPT * units + c;
    const int64_t left = g.planes.n_tok - t0, given = g.n_tok - t0;
    kvr_few<kvr_f16, V> step, zero;
    struct fitted f[V];

#pragma unroll
    for (int j = 0; j < V; j++) {
        int low = order_of(v[0].v[j]), high = low;

#pragma unroll
        for (int i = 1; i < KEPT; i++) {
            const int o = i < left ? order_of(v[i].v[j]) : low;

            low = o < low ? o : low;
            high = o > high ? o : high;
        }
        f[j] = fit(g, low, high);
        step.v[j] = f[j].step;
        zero.v[j] = f[j].zero;
    }
    meta[set] = step;
    if (g.asym)
        meta[g.n_sets / V + set] = zero;
#pragma unroll
    for (int h = 0; h < KEPT; h += 8) {
        unsigned code[8];

#pragma unroll
        for (int i = 0; i < 8; i++) {
            code[i] = 0;
#pragma unroll
            for (int j = 0; j < V; j++)
                if (h + i < left)
                    code[i] |= code_of(g, v[h + i].v[j], f[j].s, f[j].m, f[j].pre) << (8 * j);
        }
        if (h < left)
            kvr_store8(planes_of<T>(g), (t0 + h) / 8, c, code, codes);
        if (!next)
            continue;
#pragma unroll
        for (int i = 0; i < 8; i++) {
#pragma unroll
            for (int j = 0; j < V; j++)
                if (h + i < given) /* every grid has zeros for padding */
                    v[h + i].v[j] -=
                        decoded(code[i] >> (8 * j), level_of(g, step.v[j], zero.v[j]), false);
        }
    }
}

/* Sets of 16 tokens: a thread has those of its channels and keeps their values, so that x is read
 * once, whatever is done with it. */
template <class W>
static __global__ void __launch_bounds__(THREADS, 4)
    grid_encode_16(struct chain chain, unsigned strips, kvr_global<const values<typename W::T>> x,
                   kvr_global<typename W::T> codes,
                   kvr_global<kvr_few<kvr_f16, sizeof(typename W::T)>> meta,
                   kvr_global<typename W::T> codes_2,
                   kvr_global<kvr_few<kvr_f16, sizeof(typename W::T)>> meta_2)
{
    using T = typename W::T;
    enum { V = sizeof(T) };
    const int64_t units = chain.g[0].planes.channels / V,
                  t0 = (int64_t)(blockIdx.x / strips) * KEPT;
    const int64_t c = (int64_t)(blockIdx.x % strips) * THREADS + threadIdx.x;
    const int64_t given = chain.g[0].n_tok - t0;
    values<T> v[KEPT];

    if (c >= units)
        return;
#pragma unroll
    for (int i = 0; i < KEPT; i++) {
        v[i] = {};
        if (i < given)
            v[i] = x[(t0 + i) * units + c];
    }
    if (W::rotated)
        kvr_fwht_warp<V, KEPT>(v, 32 * V, chain.rotate_bf16);
    encode_kept<T>(chain.g[0], t0, c, W::pair, v, codes, meta);
    if (W::pair)
        encode_kept<T>(chain.g[1], t0, c, false, v, codes_2, meta_2);
}

/* Sets within a token: a block has 8 tokens and either some sets of each, or one wide set of
 * each. A warp takes the range of a set, a thread fits it, and a thread codes 8 tokens of its
 * channels. */
template <class T>
static __global__ void __launch_bounds__(THREADS)
    grid_encode_rows(struct shape g, int64_t span, kvr_global<const values<T>> x,
                     kvr_global<T> codes, kvr_global<kvr_f16> meta)
{
    enum { V = sizeof(T) };
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
        const int64_t t = 8 * t8 + i / k, at = (t * channels + first + i % k * g.width) / V;
        int lo = 0x7fffffff, hi = -0x7fffffff - 1;

        for (int64_t c = lane; c < g.width / V; c += 32) {
            values<T> x4 = {};

            if (t < g.n_tok)
                x4 = x[at + c];
#pragma unroll
            for (int j = 0; j < V; j++) {
                const int v = order_of(x4.v[j]);

                lo = v < lo ? v : lo;
                hi = v > hi ? v : hi;
            }
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
        const int64_t set = (8 * t8 + i / k) * g.per_token + first / g.width + i % k;

        step[i] = f.s;
        base[i] = f.m;
        pre[i] = f.pre;
        meta[set] = f.step;
        if (g.asym)
            meta[g.n_sets + set] = f.zero;
    }
    __syncthreads();
    for (int64_t c = first / V + threadIdx.x; c < last / V; c += THREADS) {
        const int mine = (int)(c * V - first) / (int)g.width;
        unsigned code[8];

#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int64_t t = 8 * t8 + i;
            values<T> x4 = {};

            code[i] = 0;
            if (i >= rows)
                continue;
            if (t < g.n_tok)
                x4 = x[(t * channels) / V + c];
            const int set = i * k + mine;
            const float s = step[set], m = base[set], before = pre[set];

#pragma unroll
            for (int j = 0; j < V; j++)
                code[i] |= code_of(g, x4.v[j], s, m, before) << (8 * j);
        }
        kvr_store8(planes_of<T>(g), t8, c, code, codes);
    }
}

/* What is decoded. */
struct part {
    int64_t t0, n, first, width; /* tokens; channels */
    int mode;
};

/* Tokens [8 t8, 8 t8 + 8) of channels c .. c + V - 1, as one grid has them, added to x. */
template <class T>
static __device__ __forceinline__ void add_decoded(const struct shape &g, const struct part &d,
                                                   int64_t t8, int64_t c, kvr_global<const T> codes,
                                                   kvr_global<const kvr_f16> meta, bool first,
                                                   values<T> (&x)[8])
{
    enum { V = sizeof(T) };
    const int64_t set0 = g.axis == KVR_AXIS_TOKENS ? t8 * 8 / g.group * g.planes.channels + c
                                                   : (unsigned)c / (unsigned)g.width;
    struct level l[V] = {};
    unsigned code[8];

    kvr_load8(planes_of<T>(g), t8, c / V, codes, code);
    if (g.axis == KVR_AXIS_TOKENS) { /* 8 divides the group: one set for all tokens */
#pragma unroll
        for (int j = 0; j < V; j++)
            l[j] = load_level(g, set0 + j, meta);
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int64_t t = 8 * t8 + i;

        if (t < d.t0 || t >= d.t0 + d.n)
            continue;
        if (g.axis != KVR_AXIS_TOKENS) { /* one set for all channels */
            l[0] = load_level(g, t * g.per_token + set0, meta);
#pragma unroll
            for (int j = 1; j < V; j++)
                l[j] = l[0];
        }
#pragma unroll
        for (int j = 0; j < V; j++) {
            const float v = decoded(code[i] >> (8 * j), l[j], g.bf16);

            x[i].v[j] = first ? v : x[i].v[j] + v;
        }
    }
}

/* A thread has up to 8 tokens of its channels. With a transform or a second grid, mode is SET. */
template <class W>
static __global__ void __launch_bounds__(THREADS, 5)
    grid_decode(struct chain chain, struct part d, unsigned strips,
                kvr_global<const typename W::T> codes, kvr_global<const kvr_f16> meta,
                kvr_global<const typename W::T> codes_2, kvr_global<const kvr_f16> meta_2,
                kvr_global<values<typename W::T>> out)
{
    using T = typename W::T;
    enum { V = sizeof(T) };
    const int64_t units = d.width / V, t8 = d.t0 / 8 + blockIdx.x / strips;
    const int64_t at = (int64_t)(blockIdx.x % strips) * THREADS + threadIdx.x;
    values<T> x[8] = {};

    if (at >= units)
        return;
    add_decoded<T>(chain.g[0], d, t8, d.first + at * V, codes, meta, true, x);
    if (W::pair)
        add_decoded<T>(chain.g[1], d, t8, d.first + at * V, codes_2, meta_2, false, x);
#pragma unroll
    for (int i = 0; i < 8; i++) {
#pragma unroll
        for (int j = 0; j < V; j++)
            x[i].v[j] = W::pair && chain.round ? kvr_round_bf16(x[i].v[j]) : x[i].v[j];
    }
    if (W::rotated)
        kvr_fwht_warp<V, 8>(x, 32 * V, chain.rotate_bf16);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int64_t t = 8 * t8 + i, row = (t - d.t0) * units + at;

        if (t < d.t0 || t >= d.t0 + d.n)
            continue;
        if (!W::rotated && !W::pair && d.mode != KVR_DECODE_SET) {
            const values<T> old = out[row];

#pragma unroll
            for (int j = 0; j < V; j++)
                x[i].v[j] = d.mode == KVR_DECODE_ADD ? old.v[j] + x[i].v[j] : old.v[j] - x[i].v[j];
        }
        out[row] = x[i];
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
    s.per_token = g->axis == KVR_AXIS_TOKENS ? 0 : channels / s.width;
    s.asym = g->asym;
    s.study = job->study;
    s.bf16 = job->compute == KVR_COMPUTE_BF16;
    s.n_sets = g->axis == KVR_AXIS_TOKENS ? (s.planes.n_tok + g->group - 1) / g->group * channels
                                          : s.planes.n_tok * s.per_token;
    return s;
}

/* May n channels at a time be moved, those of `first` and `width` among them? */
static bool by(int n, const struct shape *g, int64_t first, int64_t width, const void *x,
               const void *codes, const void *meta)
{
    const bool sets = g->axis == KVR_AXIS_TOKENS || g->width % n == 0;

    return sets && g->planes.channels % n == 0 && first % n == 0 && width % n == 0 &&
           kvr_aligned(x, (size_t)n * 4) && kvr_aligned(codes, (size_t)n) &&
           kvr_aligned(meta, (size_t)n * 2);
}

static struct chain chain_of_one(const struct kvr_grid *g, const struct kvr_stage_job *job)
{
    struct chain one = {};

    one.g[0] = shape_of(g, job);
    one.n = 1;
    return one;
}

static struct chain chain_of(const struct kvr_grid_chain *c)
{
    struct chain chain = {};

    chain.n = c->n;
    chain.rotate_bf16 = c->rotate_compute == KVR_COMPUTE_BF16;
    chain.round = c->round;
    for (int i = 0; i < c->n; i++)
        chain.g[i] = shape_of(&c->grid[i], &c->job[i]);
    return chain;
}

/* Two grids' bytes; the second's are NULL where there is none. */
struct bytes {
    void *codes[2], *meta[2];
};

static struct bytes bytes_of(const struct kvr_stage_data *const data[2], int n)
{
    struct bytes b = {};

    for (int i = 0; i < n; i++) {
        b.codes[i] = data[i]->codes.p;
        b.meta[i] = data[i]->meta.p;
    }
    return b;
}

static bool all_by(int n, const struct chain *c, int64_t first, int64_t width, const void *x,
                   const struct bytes *b)
{
    bool all = true;

    for (int i = 0; i < c->n; i++)
        all = all && by(n, &c->g[i], first, width, x, b->codes[i], b->meta[i]);
    return all;
}

template <class W>
static void encode_16(struct kvr_stream *s, const struct chain &c, const float *x,
                      const struct bytes &b)
{
    using T = typename W::T;
    using meta = kvr_few<kvr_f16, sizeof(T)>;
    const unsigned strips = kvr_blocks(c.g[0].planes.channels / (int64_t)sizeof(T), THREADS);

    KVR_LAUNCH(grid_encode_16<W>, kvr_blocks(c.g[0].planes.n_tok, KEPT) * strips, THREADS, 0, s, c,
               strips, (const values<T> *)x, (T *)b.codes[0], (meta *)b.meta[0], (T *)b.codes[1],
               (meta *)b.meta[1]);
}

template <class T>
static void encode_rows(struct kvr_stream *s, const struct shape &g, const float *x, void *codes,
                        void *meta)
{
    const int64_t span = g.width < SPAN ? SPAN / g.width * g.width : g.width;
    const unsigned spans = kvr_blocks(g.planes.channels, span);

    KVR_LAUNCH(grid_encode_rows<T>, kvr_blocks(g.planes.n_tok, 8) * spans, THREADS, 0, s, g, span,
               (const values<T> *)x, (T *)codes, (kvr_f16 *)meta);
}

template <class W>
static void decode(struct kvr_stream *s, const struct chain &c, const struct part &d,
                   const struct bytes &b, float *out)
{
    using T = typename W::T;
    const unsigned strips = kvr_blocks(d.width / (int64_t)sizeof(T), THREADS);
    const int64_t runs = (d.t0 + d.n + 7) / 8 - d.t0 / 8;

    KVR_LAUNCH(grid_decode<W>, (unsigned)runs * strips, THREADS, 0, s, c, d, strips,
               (const T *)b.codes[0], (const kvr_f16 *)b.meta[0], (const T *)b.codes[1],
               (const kvr_f16 *)b.meta[1], (values<T> *)out);
}

void kvr_grid_encode_cuda(struct kvr_stream *s, const struct kvr_grid *g,
                          const struct kvr_stage_job *job, const float *x, void *codes, void *meta)
{
    const struct chain one = chain_of_one(g, job);
    const struct bytes b = { { codes }, { meta } };
    const struct shape &sh = one.g[0];
    const int64_t channels = sh.planes.channels;
    const bool wide = by(4, &sh, 0, channels, x, codes, meta);

    if (!sh.planes.n_tok || !channels)
        return;
    if (g->axis != KVR_AXIS_TOKENS && wide)
        encode_rows<uint32_t>(s, sh, x, codes, meta);
    else if (g->axis != KVR_AXIS_TOKENS)
        encode_rows<uint8_t>(s, sh, x, codes, meta);
    else if (g->group == KEPT && wide)
        encode_16<way<uint32_t, ALONE>>(s, one, x, b);
    else
        KVR_LAUNCH(grid_encode_tokens,
                   kvr_blocks(sh.planes.n_tok, g->group) * kvr_blocks(channels, THREADS), THREADS,
                   0, s, sh, x, (uint8_t *)codes, (kvr_f16 *)meta);
}

bool kvr_chain_encode_cuda(struct kvr_stream *s, const struct kvr_grid_chain *c, const float *x,
                           const struct kvr_stage_data *const data[2])
{
    const struct chain chain = chain_of(c);
    const struct bytes b = bytes_of(data, c->n);
    const int d = c->job[0].shape.head_dim, few = c->rotate ? d / 32 : 4;
    const int64_t channels = chain.g[0].planes.channels;

    for (int i = 0; i < c->n; i++)
        if (c->grid[i].axis != KVR_AXIS_TOKENS || c->grid[i].group != KEPT)
            return false;
    if ((c->rotate && (c->n > 1 || d < 32 || d > 128)) || !all_by(few, &chain, 0, channels, x, &b))
        return false;
    if (!chain.g[0].planes.n_tok || !channels)
        return true;
    if (!c->rotate)
        encode_16<way<uint32_t, PAIR>>(s, chain, x, b);
    else if (d == 32)
        encode_16<way<uint8_t, ROTATED>>(s, chain, x, b);
    else if (d == 64)
        encode_16<way<uint16_t, ROTATED>>(s, chain, x, b);
    else
        encode_16<way<uint32_t, ROTATED>>(s, chain, x, b);
    return true;
}

static struct part part_of(const struct kvr_stage_job *job, int64_t t0, int64_t n, int h0, int nh,
                           enum kvr_decode_mode mode)
{
    const int64_t d = job->shape.head_dim;

    return { t0, n, h0 * d, nh * d, mode };
}

template <enum kind K>
static void decode_by(struct kvr_stream *s, const struct chain &c, const struct part &d,
                      const struct bytes &b, float *out)
{
    if (!d.n || !d.width)
        return;
    if (all_by(4, &c, d.first, d.width, out, &b))
        decode<way<uint32_t, K>>(s, c, d, b, out);
    else
        decode<way<uint8_t, K>>(s, c, d, b, out);
}

void kvr_grid_decode_cuda(struct kvr_stream *s, const struct kvr_grid *g,
                          const struct kvr_stage_job *job, const void *codes, const void *meta,
                          int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                          float *out)
{
    const struct chain one = chain_of_one(g, job);
    const struct bytes b = { { (void *)codes }, { (void *)meta } };

    decode_by<ALONE>(s, one, part_of(job, t0, n, h0, nh, mode), b, out);
}

bool kvr_chain_decode_cuda(struct kvr_stream *s, const struct kvr_grid_chain *c,
                           const struct kvr_stage_data *const data[2], int64_t t0, int64_t n,
                           int h0, int nh, float *out)
{
    const struct chain chain = chain_of(c);
    const struct bytes b = bytes_of(data, c->n);
    const struct part d = part_of(&c->job[0], t0, n, h0, nh, KVR_DECODE_SET);
    const int dim = c->job[0].shape.head_dim;

    if (!c->rotate) {
        decode_by<PAIR>(s, chain, d, b, out);
        return true;
    }
    if (c->n > 1 || dim < 32 || dim > 128 || !all_by(dim / 32, &chain, d.first, d.width, out, &b))
        return false;
    if (!n || !d.width)
        return true;
    if (dim == 32)
        decode<way<uint8_t, ROTATED>>(s, chain, d, b, out);
    else if (dim == 64)
        decode<way<uint16_t, ROTATED>>(s, chain, d, b, out);
    else
        decode<way<uint32_t, ROTATED>>(s, chain, d, b, out);
    return true;
}
