/* grid_code.cuh - device code that the kernels of integer grids share: range, scale, zero point and
 * codes of a group. */
#ifndef KVR_METHODS_GRID_CODE_CUH
#define KVR_METHODS_GRID_CODE_CUH

#include "methods/codecs/hadamard/fwht.cuh"
#include "methods/kernels/planes.cuh"

/* An integer grid, and the shape of the block that it quantizes. */
struct shape {
    /* planes.n_tok is the number of stored tokens, including padding */
    struct kvr_planes planes;
    /* n_tok excludes padding; width is the number of channels of a group */
    int64_t n_tok, n_groups, width;
    int64_t per_token; /* number of groups per token if groups are within a token */
    int axis, group;
    bool asym, study, bf16;
    /* largest and smallest quantized integer: 2^b - 1 and 0 for an asymmetric grid of b bits,
     * 2^(b-1) - 1 and -2^(b-1) for a symmetric grid */
    float q_max, q_min;
    /* difference between a stored code and its quantized integer: 2^(b-1) for symmetric grids of b
     * bits, and 0 for asymmetric grids */
    float middle;
    /* XOR mask that turns quantized integers (b bits, two's complement, one per byte) into codes */
    unsigned flip;
    /* whether tokens have one FP16 scale each, and one 16-byte load reads eight tokens' scales */
    bool aligned_scales;
    float inv_q_max;      /* 1 / q_max */
    float inv_half_range; /* 1 / 2^(b-1) */
};

static __device__ __forceinline__ int at_most(int64_t n, int most)
{
    return n < most ? (int)n : most;
}

/* Maps a float to an integer, such that the integers have the same order as the floats. The inverse
 * function is value_of(). */
static __device__ __forceinline__ int order_of(float x)
{
    const int u = (int)__float_as_uint(x);

    return u ^ (u >> 31 & 0x7fffffff);
}

static __device__ __forceinline__ float value_of(int order)
{
    return __uint_as_float((unsigned)(order ^ (order >> 31 & 0x7fffffff)));
}

/* Quantization parameters of a group with the scale S. A value x is quantized to (x - m) / S + pre,
 * rounded to the nearest integer. Asymmetric grids of methods named NAME@study use the zero point
 * `pre`, and m is 0. Other asymmetric grids use the minimum m, and `pre` is 0. In symmetric grids,
 * m and `pre` are 0. The fields s = S * down and inv = 1/s let the kernel compute (x - m) * down *
 * inv instead of (x - m) / S. The factor `down` is 2^-64 for scales S above 2^100, which prevents a
 * denormal inv, and otherwise 1. */
struct quant_params {
    float s, inv, m, pre, down;
    kvr_f16 scale, zero;
    /* Whether quantized integers may be outside [q_min, q_max], because the FP16 scale or minimum
     * is NaN or has saturated at 65504. PLAIN kernels (grid_variants.cuh) clip only then; other
     * kernels always clip. */
    bool clips;
};

/* Rounds x >= 0 up to an FP16 number, but not above 65504. The result for NaN is unspecified. */
static __device__ __forceinline__ kvr_f16 half_up(float x)
{
    const unsigned h = __half_as_ushort(__float2half_rn(x));
    const unsigned up = h + (kvr_float_of((kvr_f16)h) < x ? 1u : 0u);

    return (kvr_f16)(up < 0x7bffu ? up : 0x7bffu);
}

/* Rounds x down to an FP16 number, but not below -65504. */
static __device__ __forceinline__ kvr_f16 half_down(float x)
{
    const kvr_f16 h = kvr_half_of(x);
    /* If rounding to nearest gave an h above x, the result is the next lower FP16 number: its bit
     * pattern is h + 1 if h is negative, otherwise h - 1. */
    const unsigned down_one = h & 0x8000u ? 1u : 0xffffu;
    const unsigned down = (h + (kvr_float_of(h) > x ? down_one : 0u)) & 0xffffu;
    const unsigned size = down & 0x7fffu;

    return (kvr_f16)((down & 0x8000u) | (size < 0x7c00u ? size : 0x7bffu));
}

static __device__ __forceinline__ struct quant_params fit_study(const struct shape &g, float lo,
                                                                float hi)
{
    const float q_top = (float)((1 << g.planes.bits) - 1);
    /* a symmetric grid of 2 bits uses only the integers -1, 0 and 1, because qmax is 1 */
    const float qmax = (float)((1 << (g.planes.bits - 1)) - 1);
    const float eps = g.bf16 ? kvr_round_bf16(1e-8f) : 1e-8f;
    struct quant_params f;
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
    f.scale = kvr_half_of(f.s);
    f.zero = kvr_half_of(f.pre);
    return f;
}

static __device__ __forceinline__ struct quant_params fit_sym(const struct shape &g, float lo,
                                                              float hi)
{
    const float pos = hi > 0 ? hi : 0, neg = lo < 0 ? -lo : 0;
    const float wide = (pos > neg ? pos : neg) * g.inv_half_range;
    const float narrow = kvr_quotient_finite(pos > neg ? neg : pos, g.q_max, g.inv_q_max);
    struct quant_params f;

    f.m = f.pre = 0;
    f.zero = 0;
    f.scale = (kvr_f16)(half_up(wide > narrow ? wide : narrow) | (pos > neg ? 0x8000u : 0u));
    f.s = kvr_float_of(f.scale);
    return f;
}

static __device__ __forceinline__ struct quant_params fit_asym(const struct shape &g, float lo,
                                                               float hi)
{
    struct quant_params f;

    f.zero = half_down(lo);
    f.m = kvr_float_of(f.zero);
    f.pre = 0;
    f.scale = half_up(kvr_quotient_finite(hi - f.m, g.q_max, g.inv_q_max));
    f.s = kvr_float_of(f.scale);
    return f;
}

template <bool PLAIN>
static __device__ __forceinline__ struct quant_params fit(const struct shape &g, int low, int high)
{
    const float lo = value_of(low), hi = value_of(high);
    const bool bad = high >= order_of(INFINITY) || low <= order_of(-INFINITY);
    struct quant_params f = !PLAIN && g.study ? fit_study(g, lo, hi)
                            : g.asym          ? fit_asym(g, lo, hi)
                                              : fit_sym(g, lo, hi);

    f.s = bad ? NAN : f.s == 0 ? 1 : f.s;
    f.scale = bad ? 0x7e00 : f.scale;
    f.zero = bad ? 0 : f.zero;
    f.clips = bad || (f.scale & 0x7fff) == 0x7bff || (f.zero & 0x7fff) == 0x7bff;
    f.down = !PLAIN && f.s > 0x1p100f ? 0x1p-64f : 1;
    f.s *= f.down;
    f.inv = PLAIN ? kvr_inverse(f.s) : 1 / f.s;
    if (!PLAIN && f.inv == 0) /* the scale is infinite, so every x is quantized to 0 */
        f.s = 1;
    return f;
}

static __device__ __forceinline__ float rounded(float x, bool bf16)
{
    return bf16 ? __uint_as_float(kvr_bf16_pair(0, x)) : x;
}

/* Quantizes x to an integer q, and returns the float q + ROUND. The low byte of its bit pattern is
 * q, in two's complement if q is negative. The addition of ROUND = 1.5 * 2^23 rounds to an integer,
 * because floats from 2^23 to 2^24 have a spacing of 1. If x or the scale is NaN, q is q_min. */
static const float ROUND = 12582912;

template <bool PLAIN, bool CLIPS = true>
static __device__ __forceinline__ float quantize(const struct shape &g, float x,
                                                 const struct quant_params &f)
{
    float v;

    if (PLAIN) {
        v = kvr_quotient_finite(x - f.m, f.s, f.inv);
    } else {
        v = kvr_quotient_any(rounded(x - f.m, g.bf16) * f.down, f.s, f.inv);
        v = rounded(rounded(v, g.bf16) + f.pre, g.bf16);
    }
    return (CLIPS ? fminf(fmaxf(v, g.q_min), g.q_max) : v) + ROUND;
}

/* Extremes of the bit patterns of several floats, from which range_of() computes their minimum and
 * maximum. If any float is negative, the minimum is the float with the largest unsigned bit
 * pattern, umax. Otherwise the minimum is the float with the smallest unsigned bit pattern, umin.
 * If all floats are negative, the maximum is the float with the smallest unsigned bit pattern,
 * umin. Otherwise the maximum is the float with the largest signed bit pattern, smax. */
struct bit_range {
    unsigned umin, umax;
    int smax; /* largest bit pattern, compared as signed integers */
};

static __device__ __forceinline__ struct bit_range merge(struct bit_range a, struct bit_range b)
{
    return { b.umin < a.umin ? b.umin : a.umin, b.umax > a.umax ? b.umax : a.umax,
             b.smax > a.smax ? b.smax : a.smax };
}

template <int N>
static __device__ __forceinline__ struct bit_range bit_range_of(const float (&x)[N])
{
    const unsigned first = __float_as_uint(x[0]);
    struct bit_range all = { first, first, (int)first };

#pragma unroll
    for (int i = 1; i < N; i++) {
        const unsigned u = __float_as_uint(x[i]);

        all = merge(all, { u, u, (int)u });
    }
    return all;
}

/* Computes the minimum and the maximum of the floats whose extreme bit patterns are in `s`. The
 * function stores order_of() of the minimum in `low`, and order_of() of the maximum in `high`. */
static __device__ __forceinline__ void range_of(const struct bit_range &s, int &low, int &high)
{
    low = order_of(__uint_as_float((int)s.umax < 0 ? s.umax : s.umin));
    high = order_of(__uint_as_float(s.smax < 0 ? s.umin : (unsigned)s.smax));
}

/* Converts a float or BF16 number to float. The function is a template instead of two overloads,
 * because a source file may call it for one type only, and clang would warn about the unused
 * overload. */
template <typename X> static __device__ __forceinline__ float to_float(X x)
{
    if constexpr (sizeof x == sizeof(kvr_bf16))
        return __uint_as_float((unsigned)x << 16);
    else
        return x;
}

/* Returns the shape of the grid's bit planes for a kernel that accesses sizeof(T) channels at once,
 * as a word of type T with one byte per channel. In the result, `channels` is the number of such
 * words per row. */
template <class T>
static __device__ __forceinline__ struct kvr_planes planes_of(const struct shape &g)
{
    return { g.planes.n_tok, g.planes.channels / (int64_t)sizeof(T), g.planes.bits };
}

/* Selects bits of a where the mask m is set, and bits of b elsewhere. */
static __device__ __forceinline__ unsigned bit_select(unsigned m, unsigned a, unsigned b)
{
    return (a & m) | (b & ~m);
}

/* Stores the codes of tokens t0 to t0 + 15 in channels c * V to c * V + V - 1, where V = sizeof(T).
 * All 16 tokens must be in the block. code[i] contains the quantized integers of token t0 + i, one
 * byte per channel; the function converts them to codes by an XOR with g.flip. Returns false, and
 * stores nothing, unless the grid has 2 or 4 bits. */
template <class T>
static __device__ __forceinline__ bool store_full(const struct shape &g, int64_t t0, int64_t c,
                                                  const unsigned (&code)[16], kvr_global<T> codes)
{
    const int64_t row = g.planes.channels / (int64_t)sizeof(T);

    if (g.planes.bits == 4) {
        const unsigned flip = g.flip | g.flip << 4;
        kvr_global<T> to = codes + (t0 / 2 * row + c);

#pragma unroll
        for (int r = 0; r < 8; r++, to = to + row)
            to[0] = (T)(bit_select(kvr_fields(4), code[2 * r], code[2 * r + 1] << 4) ^ flip);
        return true;
    }
    if (g.planes.bits == 2) {
        const unsigned twice = g.flip | g.flip << 2, flip = twice | twice << 4;
        kvr_global<T> to = codes + (t0 / 4 * row + c);

#pragma unroll
        for (int r = 0; r < 4; r++, to = to + row) {
            const unsigned *of = code + 4 * r;
            const unsigned low = bit_select(kvr_fields(2), of[0], of[1] << 2);
            const unsigned high = bit_select(kvr_fields(2), of[2], of[3] << 2);

            to[0] = (T)(bit_select(kvr_fields(4), low, high << 4) ^ flip);
        }
        return true;
    }
    return false;
}

/* Like store_full, but stores the codes of tokens t0 to t0 + n_stored - 1 only, and supports every
 * number of bits. */
template <class T, int REG_TOKENS>
static __device__ __forceinline__ void store_tail(const struct shape &g, int n_stored, int64_t t0,
                                                  int64_t c, const unsigned (&code)[REG_TOKENS],
                                                  kvr_global<T> codes)
{
#pragma unroll
    for (int h = 0; h < REG_TOKENS; h += 8) {
        unsigned some[8];

#pragma unroll
        for (int i = 0; i < 8; i++)
            some[i] = h + i < n_stored ? code[h + i] ^ g.flip : 0u;
        if (h < n_stored)
            kvr_store8(planes_of<T>(g), (t0 + h) / 8, c, some, codes);
    }
}

#endif
