/* grid_cuda.cu - integer grids of grid.h on a device; grid.c is the reference.
 *
 * Results are bit-identical to the CPU, rounding by rounding (built with -fmad=false): codes,
 * scales and zero points are the same bytes. Where the CPU divides by a group's scale, kvr_quotient
 * computes the same quotient with three products; a code times its scale is exact in F32, so the
 * following sum may be fused. Minimum and maximum are taken over integers, so the reduction order
 * does not matter.
 *
 * Each thread handles the channels of one T: as many as T has bytes, one byte per channel in a
 * plane's row. T is uint32_t if extents and addresses are multiples of four channels: values then
 * move in 16-byte and codes in 4-byte accesses, and a warp covers 512 or 128 contiguous bytes.
 *
 * Kernels are compiled twice: PLAIN for the intended reading in F32, and once for any reading and
 * arithmetic. */
#include "methods/codecs/grid/grid_code.cuh"
#include "methods/codecs/grid/grid_cuda.h"
#include "methods/codecs/grid/grid_rotated.cuh"

#include <type_traits>

enum {
    THREADS = 128,
    WARPS = THREADS / 32,
    KEPT = 16,             /* tokens whose values a thread of grid_encode_16 keeps in registers */
    SPAN = 256,            /* channels that a CTA of encode_rows encodes at a time */
    GROUPS = 8 * SPAN / 8, /* 8 tokens; the shortest group is 8 */
    TOKEN_UNITS = 512      /* at most this many threads per CTA of encode_token */
};

/* One grid, or two with the second for the residual of the first. */
struct chain {
    struct shape g[2];
    int n;
    bool rotate_bf16; /* arithmetic of the transform */
    bool round;       /* decoding: round the result to BF16 */
};

/* Codes of N channels, one byte each. */
template <int N>
static __device__ __forceinline__ unsigned code_of(const struct shape &g, const float (&v)[N])
{
    unsigned u = __float_as_uint(v[0]);

    if (N >= 2)
        u = __byte_perm(u, __float_as_uint(v[1 % N]), 0x0040);
    if (N == 4)
        u = __byte_perm(
            u, __byte_perm(__float_as_uint(v[2 % N]), __float_as_uint(v[3 % N]), 0x0040), 0x5410);
    return u ^ g.flip;
}

template <class T> using values = kvr_few<float, sizeof(T)>;

/* Kernel variants: one grid; a transform before it (one head per warp); two grids. */
enum kind { ALONE, ROTATED, PAIR };
template <class Codes, enum kind K, bool Plain = true, class In = float> struct way {
    using T = Codes;
    using X = In;
    static constexpr bool rotated = K == ROTATED, pair = K == PAIR, plain = Plain;
    static constexpr bool raw =
        K == ALONE && sizeof(In) == 2; /* values stay BF16 until they are encoded */
};

/* Storage for 16 tokens in the general variant: one channel per thread, to reduce code size. */
template <bool PLAIN> struct codes_of {
    using type = uint32_t;
};
template <> struct codes_of<false> {
    using type = uint8_t;
};

/* Groups along tokens, of any length: one group per thread. x is read twice, the second time from
 * cache. */
template <bool PLAIN>
static __global__ void __launch_bounds__(THREADS)
    grid_encode_tokens(struct shape g, unsigned strips, kvr_global<const float> x,
                       kvr_global<uint8_t> codes, kvr_global<kvr_f16> meta)
{
    const int64_t channels = g.planes.channels, b = blockIdx.x / strips;
    const int64_t c = (int64_t)(blockIdx.x % strips) * THREADS + threadIdx.x;
    const int64_t t0 = b * g.group, stored = g.planes.n_tok;
    const int64_t end = t0 + g.group < stored ? t0 + g.group : stored;
    const int64_t have = end < g.n_tok ? end : g.n_tok;
    struct fitted f;
    int low, high;

    if (c >= channels)
        return;
    low = high = order_of(have < end ? 0.0f : (float)x[t0 * channels + c]);
#pragma unroll 4
    for (int64_t t = t0; t < have; t++) {
        const int v = order_of(x[t * channels + c]);

        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    f = fit<PLAIN>(g, low, high);
    meta[b * channels + c] = f.step;
    if (g.asym)
        meta[g.n_groups + b * channels + c] = f.zero;
    for (int64_t t = t0; t < end; t += 8) {
        unsigned code[8];

#pragma unroll
        for (int i = 0; i < 8; i++) {
            const float v[1] = { coded<PLAIN>(
                g, t + i < have ? (float)x[(t + i) * channels + c] : 0.0f, f) };

            code[i] = t + i < end ? code_of<1>(g, v) : 0u;
        }
        kvr_store8(g.planes, t / 8, c, code, codes);
    }
}

/* x^ = (q - z) s + off of a group. */
struct level {
    float s, z, off;
};

/* `zero` is unused for symmetric grids. PLAIN grids have one z for all groups. */
template <bool PLAIN>
static __device__ __forceinline__ struct level level_of(const struct shape &g, kvr_f16 step,
                                                        kvr_f16 zero)
{
    struct level l = { kvr_float_of(step), g.middle, 0 };

    if (g.asym) {
        l.z = !PLAIN && g.study ? kvr_float_of(zero) : 0;
        l.off = !PLAIN && g.study ? 0 : kvr_float_of(zero);
    }
    return l;
}

/* Decodes byte j of `code` by inserting it as the low byte of the float 2^23. */
template <bool PLAIN>
static __device__ __forceinline__ float decoded(const struct shape &g, unsigned code, int j,
                                                const struct level &l)
{
    const float q = __uint_as_float(__byte_perm(code, 0x4b000000u, 0x7540u | (unsigned)j));

    if (PLAIN)
        return fmaf(q - (8388608 + g.middle), l.s, l.off);
    const float x = (q - 8388608 - l.z) * l.s;

    return rounded(rounded(x, g.bf16) + l.off, g.bf16);
}

/* A thread's channels of one token: floats, or BF16 pairs until they are encoded. */
template <class X, int V> struct held {
    using type = kvr_few<float, V>;
};
template <int V> struct held<kvr_bf16, V> {
    using type = kvr_few<unsigned, V / 2>;
};

template <int V> static __device__ __forceinline__ float value_at(const kvr_few<float, V> &x, int j)
{
    float v = x.v[0];

#pragma unroll
    for (int n = 1; n < V; n++)
        v = j == n ? x.v[n] : v;
    return v;
}

template <int P>
static __device__ __forceinline__ float value_at(const kvr_few<unsigned, P> &x, int j)
{
    const unsigned pair = x.v[j / 2];

    return j % 2 ? kvr_bf16_high(pair) : kvr_bf16_low(pair);
}

template <class X, int V>
static __device__ __forceinline__ void hold(kvr_few<float, V> &v, const kvr_few<X, V> &x)
{
#pragma unroll
    for (int j = 0; j < V; j++)
        v.v[j] = widened(x.v[j]);
}

template <int P>
static __device__ __forceinline__ void hold(kvr_few<unsigned, P> &v, const kvr_few<unsigned, P> &x)
{
    v = x;
}

template <int V>
static __device__ __forceinline__ void leave(kvr_few<float, V> &x, int j, float what)
{
    x.v[j] = what;
}

template <int P> static __device__ __forceinline__ void leave(kvr_few<unsigned, P> &, int, float)
{
}

/* Codes of a group x of channel j, one byte of each of `code`. With `next`, v becomes the
 * residual. */
template <bool PLAIN, bool CLIPS, class Values>
static __device__ __forceinline__ void encode_group(const struct shape &g, const struct fitted &f,
                                                    const struct level &l, unsigned put, bool next,
                                                    int given, int j, const float (&x)[KEPT],
                                                    Values (&v)[KEPT], unsigned (&code)[KEPT])
{
    const float z = PLAIN || !g.asym ? 0 : l.z;

#pragma unroll
    for (int i = 0; i < KEPT; i++) {
        const float q = coded<PLAIN, CLIPS>(g, x[i], f);

        code[i] = j ? __byte_perm(code[i], __float_as_uint(q), put) : __float_as_uint(q);
        if (next && (PLAIN || i < given)) /* the residual in F32; padding stays 0 */
            leave(v[i], PLAIN ? j : 0, x[i] - fmaf(q - ROUND - z, l.s, l.off));
    }
}

/* Range of channel j over N tokens. For BF16, both channels of a pair are computed at even j; odd j
 * returns the range kept in `least` and `most`. */
template <int V, int N>
static __device__ __forceinline__ void range_at(const kvr_few<float, V> (&v)[N], int j, unsigned &,
                                                unsigned &, int &low, int &high)
{
    float x[N];

#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] = v[i].v[j];
    range_of(seen_of(x), low, high);
}

template <int P, int N>
static __device__ __forceinline__ void range_at(const kvr_few<unsigned, P> (&v)[N], int j,
                                                unsigned &least, unsigned &most, int &low,
                                                int &high)
{
    if (j % 2 == 0) {
        least = most = v[0].v[j / 2];
#pragma unroll
        for (int i = 1; i < N; i++) {
            least = kvr_bf16_choice<false>(least, v[i].v[j / 2]);
            most = kvr_bf16_choice<true>(most, v[i].v[j / 2]);
        }
    }
    low = order_of(j % 2 ? kvr_bf16_high(least) : kvr_bf16_low(least));
    high = order_of(j % 2 ? kvr_bf16_high(most) : kvr_bf16_low(most));
}

/* Encodes groups of 16 tokens from token t0 on for the channels of unit c: v, with `given` tokens
 * that are not padding. The residual for a following grid is left in v. The general variant loops
 * over channels to keep the code small; it has no following grid with several channels. */
template <class T, bool PLAIN, class Held>
static __device__ __forceinline__ void encode_kept(const struct shape &g, int64_t t0, int64_t c,
                                                   bool next, Held (&v)[KEPT], kvr_global<T> codes,
                                                   kvr_global<kvr_few<kvr_f16, sizeof(T)>> meta)
{
    enum { V = sizeof(T) };
    const int64_t units = g.planes.channels / V, set = t0 / KEPT * units + c;
    const int left = at_most(g.planes.n_tok - t0, KEPT);
    const int given = at_most(g.n_tok - t0, KEPT);
    unsigned long long steps = 0, zeros = 0;
    kvr_few<kvr_f16, V> step, zero;
    unsigned code[KEPT] = {}, least = 0, most = 0;

#pragma unroll(PLAIN ? V : 1)
    for (int j = 0; j < V; j++) {
        const unsigned put = (0x3210u & ~(15u << 4 * j)) | 4u << 4 * j; /* selects a low byte as
                                                                         * byte j */
        float x[KEPT];
        int low, high;

#pragma unroll
        for (int i = 0; i < KEPT; i++)
            x[i] = value_at(v[i], j);
        if constexpr (PLAIN) {
            range_at(v, j, least, most, low, high);
        } else {
            low = high = order_of(x[0]);
#pragma unroll
            for (int i = 1; i < KEPT; i++) {
                const int o = i < left ? order_of(x[i]) : low;

                low = o < low ? o : low;
                high = o > high ? o : high;
            }
        }
        const struct fitted f = fit<PLAIN>(g, low, high);
        const struct level l = level_of<PLAIN>(g, f.step, f.zero);

        steps |= (unsigned long long)f.step << 16 * j;
        zeros |= (unsigned long long)f.zero << 16 * j;
        if (PLAIN && !f.clips)
            encode_group<PLAIN, false>(g, f, l, put, next, given, j, x, v, code);
        else
            encode_group<PLAIN, true>(g, f, l, put, next, given, j, x, v, code);
    }
#pragma unroll
    for (int j = 0; j < V; j++) {
        step.v[j] = (kvr_f16)(steps >> 16 * j);
        zero.v[j] = (kvr_f16)(zeros >> 16 * j);
    }
    meta[set] = step;
    if (g.asym)
        meta[g.n_groups / V + set] = zero;
    if (PLAIN && left == KEPT && store_full<T>(g, t0, c, code, codes))
        return;
    store_left(g, left, t0, c, code, codes);
}

/* Groups of 16 tokens: each thread keeps the values of its channels in registers, so x is read
 * once. */
template <class W>
static __global__ void __launch_bounds__(THREADS, W::pair || !W::plain ? 3
                                                  : W::raw             ? 6
                                                  : W::rotated         ? 5
                                                                       : 4)
    grid_encode_16(struct chain chain, unsigned strips,
                   kvr_global<const kvr_few<typename W::X, sizeof(typename W::T)>> x,
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
    const int given = at_most(chain.g[0].n_tok - t0, KEPT);
    using Held = typename held<typename std::conditional<W::raw, kvr_bf16, float>::type, V>::type;
    using Read = typename std::conditional<W::raw, Held, kvr_few<typename W::X, V>>::type;
    const kvr_global<const Read> from = kvr_as<const Read>(x + (t0 * units + c));
    const unsigned row = (unsigned)units;
    Held v[KEPT];

    if (c >= units)
        return;
    if (given == KEPT) { /* unconditional addresses */
#pragma unroll
        for (int i = 0; i < KEPT; i++)
            hold(v[i], (Read)from[row * (unsigned)i]);
    } else {
#pragma unroll
        for (int i = 0; i < KEPT; i++) {
            Read there = {};

            /* Past the end the last token is loaded again: it does not change the range, and its
             * code is discarded. */
            if (W::plain || i < given)
                there = from[row * (unsigned)(W::plain && i >= given ? given - 1 : i)];
            hold(v[i], there);
        }
    }
    if constexpr (W::rotated)
        kvr_fwht_warp<V, KEPT, false>(v, 32 * V, !W::plain && chain.rotate_bf16,
                                      !W::plain || chain.g[0].asym);
#pragma unroll 1
    for (int n = 0; n <= (int)W::pair; n++)
        encode_kept<T, W::plain>(chain.g[n], t0, c, W::pair && !n, v, n ? codes_2 : codes,
                                 n ? meta_2 : meta);
}

/* Range of a thread's channels for each of 8 tokens. For BF16 only the upper half is compared, see
 * whole(). */
template <int V>
static __device__ __forceinline__ void ranges_of(const kvr_few<float, V> (&v)[8], int (&low)[8],
                                                 int (&high)[8])
{
#pragma unroll
    for (int i = 0; i < 8; i++)
        range_of(seen_of(v[i].v), low[i], high[i]);
}

static __device__ __forceinline__ void ranges_of(const kvr_few<unsigned, 2> (&v)[8], int (&low)[8],
                                                 int (&high)[8])
{

#pragma unroll
    for (int i = 0; i < 8; i += 2) {
        unsigned least[2], most[2];

#pragma unroll
        for (int k = 0; k < 2; k++) {
            least[k] = kvr_bf16_choice<false>(v[i + k].v[0], v[i + k].v[1]);
            most[k] = kvr_bf16_choice<true>(v[i + k].v[0], v[i + k].v[1]);
        }
        /* Pack the lower halves and the upper halves of each pair. */
        const unsigned l = kvr_bf16_choice<false>(__byte_perm(least[0], least[1], 0x5410),
                                                  __byte_perm(least[0], least[1], 0x7632));
        const unsigned h = kvr_bf16_choice<true>(__byte_perm(most[0], most[1], 0x5410),
                                                 __byte_perm(most[0], most[1], 0x7632));

        low[i + 1] = (int)kvr_bf16_order(l);
        low[i] = (int)((unsigned)low[i + 1] << 16);
        high[i + 1] = (int)kvr_bf16_order(h);
        high[i] = (int)((unsigned)high[i + 1] << 16);
    }
}

/* Extends the order_of() value of a BF16 number (bytes == 2) to that of the float. */
static __device__ __forceinline__ int whole(int order, size_t bytes)
{
    const int low = order < 0 ? 0xffff : 0;

    return bytes == 2 ? (order & ~0xffff) | low : order;
}

/* Encodes 8 tokens of a thread's channels; `left` of them exist. */
template <bool PLAIN, bool CLIPS, class Fits, class Held>
static __device__ __forceinline__ void code_tokens(const struct shape &g, int left,
                                                   const Fits &fits, const Held (&v)[8],
                                                   unsigned (&code)[8])
{
#pragma unroll
    for (int i = 0; i < 8; i++) {
        code[i] = 0;
        if (i >= left)
            continue;
        const struct fitted f = fits[i];
        float q[4];

#pragma unroll
        for (int j = 0; j < 4; j++)
            q[j] = coded<PLAIN, CLIPS>(g, value_at(v[i], j), f);
        code[i] = code_of<4>(g, q);
    }
}

/* One group per token: a thread keeps 8 tokens of its channels, a CTA covers all channels. Launched
 * with one thread per unit, rounded up to warps. */
template <class W>
static __global__ void __launch_bounds__(TOKEN_UNITS)
    grid_encode_token(struct shape g,
                      kvr_global<const kvr_few<typename W::X, sizeof(typename W::T)>> x,
                      kvr_global<typename W::T> codes, kvr_global<kvr_f16> meta)
{
    using T = typename W::T;
    enum { V = sizeof(T) };
    KVR_SHARED(int, low, 8 * TOKEN_UNITS / 32);
    KVR_SHARED(int, high, 8 * TOKEN_UNITS / 32);
    KVR_SHARED(struct fitted, fits, 8);
    KVR_SHARED(int, clips, 1);
    const int64_t units = g.planes.channels / V, t0 = (int64_t)blockIdx.x * 8, c = threadIdx.x;
    const int left = at_most(g.planes.n_tok - t0, 8);
    const int given = at_most(g.n_tok - t0, 8);
    const int warp = (int)threadIdx.x / 32, warps = (int)blockDim.x / 32;
    using Held = typename held<typename W::X, V>::type;
    const kvr_global<const Held> from = kvr_as<const Held>(x);
    Held v[8];
    unsigned code[8];
    int lo[8], hi[8];

#pragma unroll
    for (int i = 0; i < 8; i++) {
        v[i] = {};
        if (i < given && c < units)
            v[i] = from[(t0 + i) * units + c];
    }
    ranges_of(v, lo, hi);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        lo[i] = __reduce_min_sync(~0u, c < units ? lo[i] : 0x7fffffff);
        hi[i] = __reduce_max_sync(~0u, c < units ? hi[i] : -0x7fffffff - 1);
        if (threadIdx.x % 32 == 0) {
            low[8 * warp + i] = lo[i];
            high[8 * warp + i] = hi[i];
        }
    }
    __syncthreads();
    if (!warp) {
        struct fitted f = {};

        if ((int)threadIdx.x < left) {
            int least = low[threadIdx.x], most = high[threadIdx.x];

            for (int w = 1; w < warps; w++) {
                const int l = low[8 * w + (int)threadIdx.x], h = high[8 * w + (int)threadIdx.x];

                least = l < least ? l : least;
                most = h > most ? h : most;
            }
            f = fit<W::plain>(g, whole(least, sizeof(typename W::X)),
                              whole(most, sizeof(typename W::X)));
            fits[threadIdx.x] = f;
            meta[t0 + threadIdx.x] = f.step;
            if (g.asym)
                meta[g.n_groups + t0 + threadIdx.x] = f.zero;
        }
        const int any = __any_sync(~0u, f.clips);

        if (!threadIdx.x)
            clips[0] = any;
    }
    __syncthreads();
    if (c >= units)
        return;
    if (W::plain && !clips[0])
        code_tokens<W::plain, false>(g, left, fits, v, code);
    else
        code_tokens<W::plain, true>(g, left, fits, v, code);
    kvr_store8(planes_of<T>(g), blockIdx.x, c, code, codes);
}

/* Groups within a token: a CTA handles 8 tokens and either several groups or one wide group of
 * each. A warp reduces a group's range, a thread fits it, then each thread encodes 8 tokens of its
 * channels. */
template <class W>
static __global__ void __launch_bounds__(THREADS, 5)
    grid_encode_rows(struct shape g, int64_t span, unsigned spans,
                     kvr_global<const values<typename W::T>> x, kvr_global<typename W::T> codes,
                     kvr_global<kvr_f16> meta)
{
    using T = typename W::T;
    enum { V = sizeof(T) };
    KVR_SHARED(int, low, GROUPS);
    KVR_SHARED(int, high, GROUPS);
    KVR_SHARED(struct fitted, fits, GROUPS);
    const int64_t channels = g.planes.channels;
    const int64_t t8 = blockIdx.x / spans, first = (int64_t)(blockIdx.x % spans) * span;
    const int64_t last = channels - first < span ? channels : first + span;
    const int rows = at_most(g.planes.n_tok - 8 * t8, 8);
    const int width = (int)g.width, k = (int)(last - first) / width; /* groups per token */
    const int n = rows * k, lane = (int)threadIdx.x % 32;

    for (int i = (int)threadIdx.x / 32; i < n; i += WARPS) {
        const int64_t t = 8 * t8 + i / k, at = (t * channels + first + i % k * width) / V;
        int lo = 0x7fffffff, hi = -0x7fffffff - 1;

#pragma unroll 4
        for (int c = lane; c < width / V; c += 32) {
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
        const struct fitted f = fit<W::plain>(g, low[i], high[i]);
        const int64_t set = (8 * t8 + i / k) * g.per_token + first / width + i % k;

        fits[i] = f;
        meta[set] = f.step;
        if (g.asym)
            meta[g.n_groups + set] = f.zero;
    }
    __syncthreads();
    for (int64_t c = first / V + threadIdx.x; c < last / V; c += THREADS) {
        const int mine = (int)(c * V - first) / width;
        unsigned code[8];

#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int64_t t = 8 * t8 + i;
            values<T> x4 = {};
            float q[V];

            code[i] = 0;
            if (i >= rows)
                continue;
            if (t < g.n_tok)
                x4 = x[t * (channels / V) + c];
            const struct fitted f = fits[i * k + mine];

#pragma unroll
            for (int j = 0; j < V; j++)
                q[j] = coded<W::plain>(g, x4.v[j], f);
            code[i] = code_of<V>(g, q);
        }
        kvr_store8(planes_of<T>(g), t8, c, code, codes);
    }
}

/* Range to decode. */
struct part {
    int64_t t0, n, first, width; /* tokens; channels */
    int mode;
};

/* Decodes tokens [8 t8, 8 t8 + 8) of channels c .. c + V - 1 of one grid and adds them to x. Only
 * tokens from `begin` to `end` are needed. */
template <class T, bool PLAIN>
static __device__ __forceinline__ void add_decoded(const struct shape &g, int begin, int end,
                                                   int64_t t8, int64_t c, kvr_global<const T> codes,
                                                   kvr_global<const kvr_f16> meta, bool first,
                                                   values<T> (&x)[8])
{
    enum { V = sizeof(T) };
    unsigned code[8];

    /* Loads of the scales are issued before those of the codes, and all before the first use. */
    if (g.axis == KVR_AXIS_TOKENS) { /* 8 divides the group: one scale for all tokens */
        const int64_t set = (int64_t)((unsigned)t8 * 8 / (unsigned)g.group) * g.planes.channels + c;
        const kvr_global<const kvr_few<kvr_f16, V>> all = kvr_as<const kvr_few<kvr_f16, V>>(meta);
        const kvr_few<kvr_f16, V> step = all[set / V];
        kvr_few<kvr_f16, V> zero = {};
        struct level l[V];

        if (g.asym)
            zero = all[(g.n_groups + set) / V];
        kvr_load8(planes_of<T>(g), t8, c / V, codes, code);
#pragma unroll
        for (int j = 0; j < V; j++)
            l[j] = level_of<PLAIN>(g, step.v[j], zero.v[j]);
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < V; j++) {
                const float v = decoded<PLAIN>(g, code[i], j, l[j]);

                x[i].v[j] = first ? v : x[i].v[j] + v;
            }
        return;
    }
    const kvr_global<const kvr_f16> groups =
        meta + ((8 * t8 + begin) * g.per_token + (unsigned)c / (unsigned)g.width);
    const unsigned per = (unsigned)g.per_token;
    kvr_few<kvr_f16, 8> step = {}, zero = {};

    if (g.eights && end - begin == 8) {
        step = kvr_as<const kvr_few<kvr_f16, 8>>(groups)[0];
        if (g.asym)
            zero = kvr_as<const kvr_few<kvr_f16, 8>>(groups + g.n_groups)[0];
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (i >= begin && i < end)
                step.v[i] = groups[per * (unsigned)(i - begin)];
        if (g.asym) {
#pragma unroll
            for (int i = 0; i < 8; i++)
                if (i >= begin && i < end)
                    zero.v[i] = groups[g.n_groups + per * (unsigned)(i - begin)];
        }
    }
    kvr_load8(planes_of<T>(g), t8, c / V, codes, code);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const struct level l = level_of<PLAIN>(g, step.v[i], zero.v[i]);

#pragma unroll
        for (int j = 0; j < V; j++) { /* one scale for all channels */
            const float v = decoded<PLAIN>(g, code[i], j, l);

            x[i].v[j] = first ? v : x[i].v[j] + v;
        }
    }
}

/* A thread's decoded channels of one token: floats, or BF16 pairs. */
template <class W> struct stored {
    enum { V = sizeof(typename W::T) };
    static constexpr bool narrow = sizeof(typename W::X) == 2, pairs = narrow && V > 1;
    using type = typename std::conditional<
        pairs, kvr_few<unsigned, (V + 1) / 2>,
        typename std::conditional<narrow, kvr_bf16, kvr_few<float, V>>::type>::type;
};

template <int V>
static __device__ __forceinline__ void store_as(kvr_few<float, V> &to, const kvr_few<float, V> &x)
{
    to = x;
}
template <int V, int P>
static __device__ __forceinline__ void store_as(kvr_few<unsigned, P> &to,
                                                const kvr_few<float, V> &x)
{
#pragma unroll
    for (int i = 0; i < P; i++)
        to.v[i] = kvr_bf16_pair(x.v[2 * i], x.v[2 * i + 1]);
}
static __device__ __forceinline__ void store_as(kvr_bf16 &to, const kvr_few<float, 1> &x)
{
    to = (kvr_bf16)(kvr_bf16_pair(x.v[0], 0.0f) & 0xffffu);
}

/* Each thread decodes up to 8 tokens of its channels. With a transform, a second grid or BF16 output, mode
 * is SET. */
template <class W>
static __global__ void __launch_bounds__(THREADS, !W::plain || W::pair ? 5
                                                  : W::rotated         ? 6
                                                                       : 8)
    grid_decode(struct chain chain, struct part d, unsigned strips,
                kvr_global<const typename W::T> codes, kvr_global<const kvr_f16> meta,
                kvr_global<const typename W::T> codes_2, kvr_global<const kvr_f16> meta_2,
                kvr_global<typename stored<W>::type> out)
{
    using T = typename W::T;
    enum { V = sizeof(T) };
    const int64_t units = d.width / V, t8 = d.t0 / 8 + blockIdx.x / strips;
    const int64_t at = (int64_t)(blockIdx.x % strips) * THREADS + threadIdx.x;
    const int begin = d.t0 > 8 * t8 ? (int)(d.t0 - 8 * t8) : 0;
    const int end = at_most(d.t0 + d.n - 8 * t8, 8);
    values<T> x[8] = {};

    if (at >= units)
        return;
    add_decoded<T, W::plain>(chain.g[0], begin, end, t8, d.first + at * V, codes, meta, true, x);
    if (W::pair)
        add_decoded<T, W::plain>(chain.g[1], begin, end, t8, d.first + at * V, codes_2, meta_2,
                                 false, x);
#pragma unroll
    for (int i = 0; i < 8; i++) {
#pragma unroll
        for (int j = 0; j < V; j++)
            x[i].v[j] = W::pair ? rounded(x[i].v[j], chain.round) : x[i].v[j];
    }
    if (W::rotated)
        kvr_fwht_warp<V, 8, false>(x, 32 * V, !W::plain && chain.rotate_bf16);
    const kvr_global<typename stored<W>::type> to = out + ((8 * t8 - d.t0 + begin) * units + at);
    const unsigned row = (unsigned)units;

#pragma unroll
    for (int i = 0; i < 8; i++) {
        if (i < begin || i >= end)
            continue;
        if constexpr (!stored<W>::narrow && !W::rotated && !W::pair)
            if (d.mode != KVR_DECODE_SET) {
                const values<T> old = to[row * (unsigned)(i - begin)];

#pragma unroll
                for (int j = 0; j < V; j++)
                    x[i].v[j] =
                        d.mode == KVR_DECODE_ADD ? old.v[j] + x[i].v[j] : old.v[j] - x[i].v[j];
            }
        typename stored<W>::type all;

        store_as(all, x[i]);
        to[row * (unsigned)(i - begin)] = all;
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
    s.n_groups = g->axis == KVR_AXIS_TOKENS ? (s.planes.n_tok + g->group - 1) / g->group * channels
                                            : s.planes.n_tok * s.per_token;
    s.halved = 1.0f / (float)(1 << (g->bits - 1));
    s.middle = g->asym ? 0 : (float)(1 << (g->bits - 1));
    s.most = g->asym ? (float)((1 << g->bits) - 1) : s.middle - 1;
    s.least = -s.middle;
    s.share = 1.0f / s.most;
    s.eights = false;
    s.flip = g->asym ? 0 : 0x01010101u << (g->bits - 1);
    return s;
}

/* Whether accesses of n channels are aligned, including at `first` and `width`. */
static bool by(int n, const struct shape *g, int64_t first, int64_t width, const void *x,
               const void *codes, const void *meta)
{
    const bool groups = g->axis == KVR_AXIS_TOKENS || g->width % n == 0;

    return groups && g->planes.channels % n == 0 && first % n == 0 && width % n == 0 &&
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

/* Buffers of two grids; the second's are NULL if there is one grid. */
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

/* Whether the specialised PLAIN kernels apply. */
static bool plain(const struct chain *c)
{
    bool all = !c->rotate_bf16;

    for (int i = 0; i < c->n; i++)
        all = all && !c->g[i].study && !c->g[i].bf16;
    return all;
}

template <class W>
static void encode_16(struct kvr_stream *s, const struct chain &c, const void *x,
                      const struct bytes &b)
{
    using T = typename W::T;
    using meta = kvr_few<kvr_f16, sizeof(T)>;
    const unsigned strips = kvr_blocks(c.g[0].planes.channels / (int64_t)sizeof(T), THREADS);

    KVR_LAUNCH(grid_encode_16<W>, kvr_blocks(c.g[0].planes.n_tok, KEPT) * strips, THREADS, 0, s, c,
               strips, (const kvr_few<typename W::X, sizeof(T)> *)x, (T *)b.codes[0],
               (meta *)b.meta[0], (T *)b.codes[1], (meta *)b.meta[1]);
}

template <class W>
static void encode_token(struct kvr_stream *s, const struct shape &g, const void *x,
                         const struct bytes &b)
{
    using T = typename W::T;
    const unsigned units = (unsigned)(g.planes.channels / (int64_t)sizeof(T));

    KVR_LAUNCH(grid_encode_token<W>, kvr_blocks(g.planes.n_tok, 8), (units + 31) / 32 * 32, 0, s, g,
               (const kvr_few<typename W::X, sizeof(T)> *)x, (T *)b.codes[0], (kvr_f16 *)b.meta[0]);
}

template <class W>
static void encode_rows(struct kvr_stream *s, const struct shape &g, const float *x,
                        const struct bytes &b)
{
    const int64_t span = g.width < SPAN ? SPAN / g.width * g.width : g.width;
    const unsigned spans = kvr_blocks(g.planes.channels, span);
    using T = typename W::T;

    KVR_LAUNCH(grid_encode_rows<W>, kvr_blocks(g.planes.n_tok, 8) * spans, THREADS, 0, s, g, span,
               spans, (const values<T> *)x, (T *)b.codes[0], (kvr_f16 *)b.meta[0]);
}

template <bool PLAIN>
static void encode_tokens(struct kvr_stream *s, const struct shape &g, const float *x,
                          const struct bytes &b)
{
    const unsigned strips = kvr_blocks(g.planes.channels, THREADS);

    KVR_LAUNCH(grid_encode_tokens<PLAIN>, kvr_blocks(g.planes.n_tok, g.group) * strips, THREADS, 0,
               s, g, strips, x, (uint8_t *)b.codes[0], (kvr_f16 *)b.meta[0]);
}

template <class W>
static void decode(struct kvr_stream *s, struct chain c, const struct part &d,
                   const struct bytes &b, typename W::X *out)
{
    using T = typename W::T;
    const unsigned strips = kvr_blocks(d.width / (int64_t)sizeof(T), THREADS);
    const int64_t runs = (d.t0 + d.n + 7) / 8 - d.t0 / 8;

    for (int i = 0; i < c.n; i++)
        c.g[i].eights =
            c.g[i].per_token == 1 && c.g[i].n_groups % 8 == 0 && kvr_aligned(b.meta[i], 16);
    KVR_LAUNCH(grid_decode<W>, (unsigned)runs * strips, THREADS, 0, s, c, d, strips,
               (const T *)b.codes[0], (const kvr_f16 *)b.meta[0], (const T *)b.codes[1],
               (const kvr_f16 *)b.meta[1], (typename stored<W>::type *)out);
}

template <bool PLAIN>
static void encode_alone(struct kvr_stream *s, const struct chain &one, const float *x,
                         const struct bytes &b)
{
    const struct shape &g = one.g[0];
    const bool wide = all_by(4, &one, 0, g.planes.channels, x, &b);

    if (g.axis == KVR_AXIS_TOKEN && wide && g.planes.channels <= 4 * TOKEN_UNITS)
        encode_token<way<uint32_t, ALONE, PLAIN>>(s, g, x, b);
    else if (g.axis != KVR_AXIS_TOKENS && wide)
        encode_rows<way<uint32_t, ALONE, PLAIN>>(s, g, x, b);
    else if (g.axis != KVR_AXIS_TOKENS)
        encode_rows<way<uint8_t, ALONE, PLAIN>>(s, g, x, b);
    else if (g.group == KEPT && (wide || !PLAIN)) /* one channel per thread: less code */
        encode_16<way<typename codes_of<PLAIN>::type, ALONE, PLAIN>>(s, one, x, b);
    else
        encode_tokens<PLAIN>(s, g, x, b);
}

void kvr_grid_encode_cuda(struct kvr_stream *s, const struct kvr_grid *g,
                          const struct kvr_stage_job *job, const float *x, void *codes, void *meta)
{
    const struct chain one = chain_of_one(g, job);
    const struct bytes b = { { codes }, { meta } };

    if (!one.g[0].planes.n_tok || !one.g[0].planes.channels)
        return;
    if (plain(&one))
        encode_alone<true>(s, one, x, b);
    else
        encode_alone<false>(s, one, x, b);
}

/* Heads of 128 channels. */
template <bool PLAIN>
static void encode_rotated(struct kvr_stream *s, const struct chain &chain, const float *x,
                           const struct bytes &b)
{
    encode_16<way<uint32_t, ROTATED, PLAIN>>(s, chain, x, b);
}

template <bool PLAIN>
static void encode_rotated(struct kvr_stream *s, const struct chain &chain, const kvr_bf16 *x,
                           const struct bytes &b)
{
    kvr_grid_encode_rotated(s, &chain.g[0], x, b.codes[0], b.meta[0]);
}

/* X is the type of the values. */
template <bool PLAIN, class X>
static void encode_chain(struct kvr_stream *s, const struct chain &chain, int rotated,
                         const void *x, const struct bytes &b)
{
    using T = typename codes_of<PLAIN>::type;

    if (rotated == 32)
        encode_16<way<uint8_t, ROTATED, PLAIN, X>>(s, chain, x, b);
    else if (rotated == 64)
        encode_16<way<uint16_t, ROTATED, PLAIN, X>>(s, chain, x, b);
    else if (rotated)
        encode_rotated<PLAIN>(s, chain, (const X *)x, b);
    else if (chain.n == 2)
        encode_16<way<T, PAIR, PLAIN, X>>(s, chain, x, b);
    else
        encode_16<way<T, ALONE, PLAIN, X>>(s, chain, x, b);
}

bool kvr_chain_encode_cuda(struct kvr_stream *s, const struct kvr_grid_chain *c,
                           const struct kvr_values *x, const struct kvr_stage_data *const data[2])
{
    const struct chain chain = chain_of(c);
    const struct bytes b = bytes_of(data, c->n);
    const int d = c->job[0].shape.head_dim, few = c->rotate ? d / 32 : 4;
    const int64_t channels = chain.g[0].planes.channels;
    const bool token = c->n == 1 && !c->rotate && c->grid[0].axis == KVR_AXIS_TOKEN && x->bf16 &&
                       channels <= 4 * TOKEN_UNITS;

    for (int i = 0; i < c->n && !token; i++)
        if (c->grid[i].axis != KVR_AXIS_TOKENS || c->grid[i].group != KEPT)
            return false;
    if ((c->rotate && (c->n > 1 || d < 32 || d > 128)) || (x->bf16 && !plain(&chain)) ||
        !all_by(few, &chain, 0, channels, x->p, &b))
        return false;
    if (!chain.g[0].planes.n_tok || !channels)
        return true;
    if (token)
        encode_token<way<uint32_t, ALONE, true, kvr_bf16>>(s, chain.g[0], x->p, b);
    else if (x->bf16)
        encode_chain<true, kvr_bf16>(s, chain, c->rotate ? d : 0, x->p, b);
    else if (plain(&chain))
        encode_chain<true, float>(s, chain, c->rotate ? d : 0, x->p, b);
    else
        encode_chain<false, float>(s, chain, c->rotate ? d : 0, x->p, b);
    return true;
}

static struct part part_of(const struct kvr_stage_job *job, int64_t t0, int64_t n, int h0, int nh,
                           enum kvr_decode_mode mode)
{
    const int64_t d = job->shape.head_dim;

    return { t0, n, h0 * d, nh * d, mode };
}

/* Out: float or kvr_bf16. */
template <enum kind K, bool PLAIN, class Out>
static void decode_by(struct kvr_stream *s, const struct chain &c, const struct part &d,
                      const struct bytes &b, Out *out)
{
    if (!d.n || !d.width)
        return;
    if (all_by(4, &c, d.first, d.width, out, &b))
        decode<way<uint32_t, K, PLAIN, Out>>(s, c, d, b, out);
    else
        decode<way<uint8_t, K, PLAIN, Out>>(s, c, d, b, out);
}

template <bool PLAIN, class Out>
static void decode_rotated(struct kvr_stream *s, int head_dim, const struct chain &c,
                           const struct part &d, const struct bytes &b, Out *out)
{
    if (head_dim == 32)
        decode<way<uint8_t, ROTATED, PLAIN, Out>>(s, c, d, b, out);
    else if (head_dim == 64)
        decode<way<uint16_t, ROTATED, PLAIN, Out>>(s, c, d, b, out);
    else
        decode<way<uint32_t, ROTATED, PLAIN, Out>>(s, c, d, b, out);
}

void kvr_grid_decode_cuda(struct kvr_stream *s, const struct kvr_grid *g,
                          const struct kvr_stage_job *job, const void *codes, const void *meta,
                          int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                          float *out)
{
    const struct chain one = chain_of_one(g, job);
    const struct bytes b = { { (void *)codes }, { (void *)meta } };

    if (plain(&one))
        decode_by<ALONE, true>(s, one, part_of(job, t0, n, h0, nh, mode), b, out);
    else
        decode_by<ALONE, false>(s, one, part_of(job, t0, n, h0, nh, mode), b, out);
}

template <class Out>
static bool decode_chain(struct kvr_stream *s, const struct kvr_grid_chain *c,
                         const struct kvr_stage_data *const data[2], int64_t t0, int64_t n, int h0,
                         int nh, Out *out)
{
    const struct chain chain = chain_of(c);
    const struct bytes b = bytes_of(data, c->n);
    const struct part d = part_of(&c->job[0], t0, n, h0, nh, KVR_DECODE_SET);
    const int dim = c->job[0].shape.head_dim;

    if (!c->rotate) {
        const bool of_plain = plain(&chain);

        if (c->n == 1 && of_plain)
            decode_by<ALONE, true>(s, chain, d, b, out);
        else if (c->n == 1)
            decode_by<ALONE, false>(s, chain, d, b, out);
        else if (of_plain)
            decode_by<PAIR, true>(s, chain, d, b, out);
        else
            decode_by<PAIR, false>(s, chain, d, b, out);
        return true;
    }
    if (c->n > 1 || dim < 32 || dim > 128 || !all_by(dim / 32, &chain, d.first, d.width, out, &b))
        return false;
    if (!n || !d.width)
        return true;
    if (plain(&chain))
        decode_rotated<true>(s, dim, chain, d, b, out);
    else
        decode_rotated<false>(s, dim, chain, d, b, out);
    return true;
}

bool kvr_chain_decode_cuda(struct kvr_stream *s, const struct kvr_grid_chain *c,
                           const struct kvr_stage_data *const data[2], int64_t t0, int64_t n,
                           int h0, int nh, float *out)
{
    return decode_chain(s, c, data, t0, n, h0, nh, out);
}

bool kvr_chain_decode_bf16_cuda(struct kvr_stream *s, const struct kvr_grid_chain *c,
                                const struct kvr_stage_data *const data[2], int64_t t0, int64_t n,
                                int h0, int nh, kvr_bf16 *out)
{
    return decode_chain(s, c, data, t0, n, h0, nh, out);
}

bool kvr_chain_decodes_bf16(const struct kvr_grid_chain *c)
{
    const int d = c->job[0].shape.head_dim;
    const struct kvr_grid *g = &c->grid[0];

    if (!c->rotate)
        return true;
    return c->n == 1 && (d == 32 || d == 64 || d == 128) &&
           (g->axis != KVR_AXIS_CHANNELS || g->group % (d / 32) == 0);
}
