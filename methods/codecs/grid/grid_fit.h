/* grid_fit.h - computes scales and zero points from the ranges of groups, as defined in grid.h;
 * included by grid_encode_isa.c. */
#ifndef KVR_METHODS_GRID_FIT_H
#define KVR_METHODS_GRID_FIT_H

#include <assert.h>
#include <math.h>

#include "methods/codecs/grid/grid_kernels.h"
#include "methods/codecs/grid/order.h"
#include "methods/kernels/simd.h"

/* FIT is the length of the arrays in struct groups, which have one element for each group of a
 * strip. A strip has KVR_GRID_ROWS x KVR_GRID_STRIP values, and a group has at least 8 values. With
 * 16 more elements, the size of an array is not a power of two, so the arrays start in different
 * cache sets. */
enum { FIT = KVR_GRID_ROWS * KVR_GRID_STRIP / 8 + 16 };

/* Parameters of the groups of one strip, with one array per field, so that loops over groups are
 * vectorized. */
struct groups {
    int32_t low[FIT], high[FIT];   /* smallest and largest value of each group, as integers that
                                    * compare like the floats (order_of()) */
    float lo[FIT], hi[FIT];        /* range */
    float s[FIT];                  /* divisor in q = rne((x - m) / s + pre) + post, which computes
                                    * the code q of element x; never 0 */
    float m[FIT], pre[FIT];        /* m and pre in the formula of q above, in which `post` is a
                                    * constant of the grid */
    kvr_f16 scale[FIT], zero[FIT]; /* as stored */
};

static inline float bf16_of(float x)
{
    return kvr_bf16_to_f32(kvr_f32_to_bf16(x));
}

/* Rounds n values x[i] >= 0 up to FP16, but to at most 65504, the largest finite FP16 number. */
static inline void f16_up(kvr_f16 *__restrict h, const float *__restrict x, int n)
{
    float back[FIT];

    kvr_from_f32(h, KVR_F16, x, (size_t)n);
    kvr_to_f32(back, h, KVR_F16, (size_t)n);
    for (int i = 0; i < n; i++) {
        const unsigned up = h[i] + (back[i] < x[i] ? 1u : 0u);

        h[i] = (kvr_f16)(up < 0x7c00u ? up : 0x7bffu);
    }
}

/* Rounds n values x[i] down to FP16. A value above 65504 becomes 65504, and a value below -65504
 * becomes -65504. */
static inline void f16_down(kvr_f16 *__restrict h, const float *__restrict x, int n)
{
    float back[FIT];

    kvr_from_f32(h, KVR_F16, x, (size_t)n);
    kvr_to_f32(back, h, KVR_F16, (size_t)n);
    for (int i = 0; i < n; i++) {
        const unsigned down_one = h[i] & 0x8000u ? 1u : 0xffffu; /* +1 or -1 */
        const unsigned down = (h[i] + (back[i] > x[i] ? down_one : 0u)) & 0xffffu;
        const unsigned size = down & 0x7fffu;

        h[i] = (kvr_f16)((down & 0x8000u) | (size < 0x7c00u ? size : 0x7bffu));
    }
}

/* Computes the parameters of groups in the study version of a grid (grid.h). The scale is the range
 * divided by 2^b - 1 (asym), or the largest magnitude divided by 2^(b-1) - 1 (sym), and at least
 * 1e-8. Codes are computed with the unrounded scale. */
static inline void fit_study(const struct kvr_grid *g, bool bf16, struct groups *r, int n)
{
    const float q_top = (float)((1 << g->bits) - 1);
    const float qmax = (float)((1 << (g->bits - 1)) - 1); /* INT2 is ternary */
    const float eps = bf16 ? bf16_of(1e-8f) : 1e-8f;

    for (int i = 0; i < n; i++) {
        const float lo = bf16 ? bf16_of(r->lo[i]) : r->lo[i];
        const float hi = bf16 ? bf16_of(r->hi[i]) : r->hi[i];
        const float wide = g->asym ? hi - lo : hi > -lo ? hi : -lo;
        float s = (bf16 ? bf16_of(wide) : wide) / (g->asym ? q_top : qmax), z;

        s = bf16 ? bf16_of(s) : s;
        s = s < eps ? eps : s;
        z = -lo / s;
        z = rintf(bf16 ? bf16_of(z) : z);
        z = z > 0 ? z : 0;
        r->s[i] = s;
        r->m[i] = 0;
        r->pre[i] = !g->asym ? 0 : z < q_top ? z : q_top;
    }
    kvr_from_f32(r->scale, KVR_F16, r->s, (size_t)n);
    kvr_from_f32(r->zero, KVR_F16, r->pre, (size_t)n);
}

/* Computes x / n, correctly rounded, for a small integer n and x >= 0. With FMA, the quotient is
 * corrected by its remainder, as derived in grid_encode_isa.c. If the quotient underflows, the
 * result may be inexact, but callers only test whether it is 0. If x is infinite, the result may be
 * wrong, but the caller marks the group as non-finite. */
static inline float quotient(float x, float n)
{
#ifdef KVR_ISA_AVX2
    const float y = 1 / n, q = x * y;

    return __builtin_fmaf(__builtin_fmaf(-q, n, x), y, q);
#else
    return x / n;
#endif
}

/* Computes the scale s of `sym` in the intended version (grid.h). Codes minus the zero point range
 * from -qmax-1 to qmax. If the value of largest magnitude is positive, s is negative, so that this
 * value gets a negative code. No value is clipped. Before rounding, |s| is at most the largest
 * magnitude divided by qmax, the scale of the study version. */
static inline void fit_sym(int bits, struct groups *r, int n)
{
    const float qmax = (float)((1 << (bits - 1)) - 1);

    /* Comparing the bits of two positive floats as integers compares the floats. Here pos and neg
     * are the bits of the largest magnitudes of positive and of negative values. */
    for (int i = 0; i < n; i++) {
        const int32_t pos = r->high[i] > 0 ? r->high[i] : 0, neg = r->low[i] < 0 ? ~r->low[i] : 0;
        const float wide = float_of(pos > neg ? pos : neg) * (1 / (qmax + 1));
        const float narrow = quotient(float_of(pos > neg ? neg : pos), qmax);
        const int32_t w = order_of(wide), s = order_of(narrow);

        r->s[i] = float_of(w > s ? w : s);
        r->m[i] = r->pre[i] = 0;
    }
    f16_up(r->scale, r->s, n);
    for (int i = 0; i < n; i++) {
        const int32_t pos = r->high[i] > 0 ? r->high[i] : 0, neg = r->low[i] < 0 ? ~r->low[i] : 0;

        r->scale[i] = (kvr_f16)(r->scale[i] | (pos > neg ? 0x8000u : 0u));
    }
    kvr_to_f32(r->s, r->scale, KVR_F16, (size_t)n);
}

/* Computes the minimum m and the scale s of groups of an `asym` grid in the intended version
 * (grid.h). The minimum of a group is rounded down to m in FP16. The scale covers the distance from
 * m to the maximum, because codes are computed from x - m. */
static inline void fit_asym(int bits, struct groups *r, int n)
{
    const float q_top = (float)((1 << bits) - 1);

    f16_down(r->zero, r->lo, n);
    kvr_to_f32(r->m, r->zero, KVR_F16, (size_t)n);
    for (int i = 0; i < n; i++) {
        r->s[i] = quotient(r->hi[i] - r->m[i], q_top);
        r->pre[i] = 0;
    }
    f16_up(r->scale, r->s, n);
    kvr_to_f32(r->s, r->scale, KVR_F16, (size_t)n);
}

#ifdef KVR_SIMD
/* Like f16_up(), for one vector. The result is FP16 bits in 32-bit integers. */
static inline vi v_f16_up(vf x)
{
    const vh h = h_nearest(x);

    return i_min(i_one_more(h_ints(h), x, h_floats(h)), i_set(0x7bff));
}

/* Like f16_down(), for one vector. The result is FP16 bits in 32-bit integers. */
static inline vi v_f16_down(vf x)
{
    const vh h = h_nearest(x);
    const vi near = h_ints(h), negative = i_over(near, i_set(0x7fff));
    const vi beyond = i_sub(i_set(0), i_one_more(i_set(0), h_floats(h), x));
    const vi down_one = i_pick(negative, i_set(1), i_set(-1));
    const vi down = i_add(near, i_and(beyond, down_one));

    return i_xor(i_and(down, i_set(0x8000)), i_min(i_and(down, i_set(0x7fff)), i_set(0x7bff)));
}

static inline vf v_quotient(vf x, float n)
{
    const vf y = v_set(1 / n), q = v_mul(x, y);

    return v_mul_add(v_minus_mul(q, v_set(n), x), y, q);
}

/* Like fit_sym(), for one vector of groups. The result is the FP16 bits of the scales. */
static inline vi v_fit_sym(int bits, vi low, vi high)
{
    const float qmax = (float)((1 << (bits - 1)) - 1);
    const vi pos = i_max(high, i_set(0)), neg = i_max(i_xor(low, i_set(-1)), i_set(0));
    const vf wide = v_mul(v_of_bits(i_max(pos, neg)), v_set(1 / (qmax + 1)));
    const vf narrow = v_quotient(v_of_bits(i_min(pos, neg)), qmax);
    const vi scale = v_f16_up(v_of_bits(i_max(v_bits(wide), v_bits(narrow))));

    return i_xor(scale, i_and(i_over(pos, neg), i_set(0x8000)));
}

/* Inverse of order_of(). */
static inline vf v_float_of(vi order)
{
    return v_of_bits(i_xor(order, i_and(i_sign(order), i_set(0x7fffffff))));
}

/* Parameters of one vector of groups, in the intended version (grid.h). */
struct v_quant_params {
    vf s, m;
    vi scale, zero; /* FP16, as stored */
};

static inline struct v_quant_params v_fit(const struct kvr_grid *g, vi low, vi high)
{
    const int32_t infinity = order_of(INFINITY), minus_infinity = order_of(-INFINITY);
    const vi above = i_over(high, i_set(infinity - 1));
    const vi bad = i_pick(above, above, i_over(i_set(minus_infinity + 1), low));
    vi zero = i_set(0), scale, none;
    vf s, m = v_set(0);

    if (g->asym) {
        zero = v_f16_down(v_float_of(low));
        m = h_floats(h_of_ints(zero));
        scale = v_f16_up(v_quotient(v_sub(v_float_of(high), m), (float)((1 << g->bits) - 1)));
    } else {
        scale = v_fit_sym(g->bits, low, high);
    }
    s = h_floats(h_of_ints(scale));
    none = i_over(i_set(1), i_and(scale, i_set(0x7fff)));
    s = v_of_bits(i_pick(bad, v_bits(v_set(NAN)), i_pick(none, v_bits(v_set(1)), v_bits(s))));
    return (struct v_quant_params){ s, m, i_pick(bad, i_set(0x7e00), scale),
                                    i_pick(bad, i_set(0), zero) };
}

/* Like fit(), but uses vector instructions, supports only the intended version (grid.h), and does
 * not write the fields lo and hi. n is a multiple of VL, the number of floats per vector. */
static inline void fit_vectors(const struct kvr_grid *g, struct groups *r, int n)
{
    for (int i = 0; i < n; i += VL) {
        const struct v_quant_params f = v_fit(g, i_load(r->low + i), i_load(r->high + i));

        v_store(r->s + i, f.s);
        v_store(r->m + i, f.m);
        v_store(r->pre + i, v_set(0));
        h_store(r->scale + i, h_of_ints(f.scale));
        h_store(r->zero + i, h_of_ints(f.zero));
    }
}
#endif

static inline void fit(const struct kvr_grid_block *b, struct groups *r, int n)
{
    const int32_t infinity = order_of(INFINITY), minus_infinity = order_of(-INFINITY);

    assert(n > 0);
#ifdef KVR_SIMD
    if (!b->study && n % VL == 0) {
        fit_vectors(&b->grid, r, n);
        return;
    }
#endif
    for (int i = 0; i < n; i++) {
        r->lo[i] = float_of(r->low[i]);
        r->hi[i] = float_of(r->high[i]);
    }
    if (b->study)
        fit_study(&b->grid, b->bf16, r, n);
    else if (b->grid.asym)
        fit_asym(b->grid.bits, r, n);
    else
        fit_sym(b->grid.bits, r, n);
    for (int i = 0; i < n; i++) {
        const bool bad = r->high[i] >= infinity || r->low[i] <= minus_infinity;

        /* If the scale is 0, x - m is 0 for all elements x of the group, so division by 1 gives the
         * correct codes. */
        r->s[i] = bad ? NAN : r->s[i] == 0 ? 1 : r->s[i];
        r->scale[i] = bad ? 0x7e00 : r->scale[i];
        r->zero[i] = bad ? 0 : r->zero[i]; /* 0 instead of a NaN, whose sign would depend on the
                                            * processor */
    }
}

#endif
