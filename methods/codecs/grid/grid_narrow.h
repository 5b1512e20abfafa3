/* grid_narrow.h - computes the codes of BF16 values without division; included by the *_isa.c files
 * of this folder.
 *
 * A 32-bit word of a vector contains two BF16 values. A shift converts the values of even channels
 * to F32, and a mask those of odd channels. Even and odd channels are quantized separately, and
 * their codes are then merged into 16-bit words. A span is the SPAN channels whose BF16 values fill
 * one vector.
 *
 * Quantization needs no division. Let v be the value, s the scale with 11 significand bits, and y
 * an approximation of 1/s within 2 ulp. From v and y follows `near`, an approximation of v/s. The
 * code is `near` rounded to an integer. Two variants give the same code as the correctly rounded
 * quotient.
 *
 * The variant without `exact` requires that v has at most 11 significand bits, as BF16 numbers
 * and residuals of a symmetric grid have (see below). A tie is a quotient h = k + 1/2, halfway
 * between two integers. Let u(a) be the value of the last of the 11 significand bits of a. Then v
 * is a multiple of u(v), and h s is a multiple of u(s)/2, so v - h s is a multiple of the smaller
 * one. Near a tie, |v| is above |s|/4, so u(v) and u(s)/2 are both above 2^-13 |s|. Therefore v/s
 * either equals a tie or is at least 2^-13 away from it. The approximation near = fma(v, y, C),
 * with the constant C of offset_of(), is C plus v/s rounded to a multiple of 2^-16 (of 2^-13 for
 * 8 bits). This spacing is at most 2^-13 and exceeds the error of v y, so near - C equals a tie
 * if and only if v/s does.
 *
 * The variant `exact` uses a second number l, for which y + l approximates 1/s with a relative
 * error below 2^-43. It computes near = fma(v, y, fl(v l)), where fl() rounds to F32. This `near`
 * is the correctly rounded quotient, because v/s is at least 2^-12 ulp away from every midpoint
 * between two adjacent floats (grid_encode_isa.c).
 *
 * The residual r = x - c s of a BF16 number x and a symmetric code c has at most 11 significand
 * bits. If c = 0, r is x. If c is not 0, then |x| >= |s|/2, so r is a multiple of u(s). Since |r|
 * <= |s|/2 and |s| < 2^11 u(s), |r| is less than 2^10 u(s).
 *
 * Adding M = 1.5 * 2^23 to a float rounds it to an integer, ties to even, and the low bits of the
 * sum contain this integer. Codes of several tokens are packed into a byte by Horner's scheme. It
 * starts with the code of the last token. For each earlier token, it multiplies the sum by 2^bits
 * and adds the token's code.
 *
 *     range_of_narrow(x, stride, &low, &high);     16 tokens of SPAN channels
 *     done = fit_strip(&place, n, range, how, k);  scales, stored, and reciprocals
 *     sum = word_of(&tokens, k, how);              a byte of each channel */
#ifndef KVR_METHODS_GRID_NARROW_H
#define KVR_METHODS_GRID_NARROW_H

#include "methods/codecs/grid/grid_fit.h"
#include "methods/codecs/grid/grid_narrow_kernels.h"
#include "methods/codecs/hadamard/fwht_lanes.h"

#ifdef KVR_SIMD
enum { N = KVR_NARROW_TOKENS, SPAN = 2 * VL, MAX_ROWS = 4 /* rows per byte */ };

#define ALWAYS static inline __attribute__((always_inline))

/* Parameters of a grid, passed as compile-time constants, so that the compiler generates code for
 * every combination. */
struct variant {
    int bits;
    bool asym, exact;
};

static const float magic = 12582912; /* M */

/* Returns the constant C in near = fma(v, y, C), or 0 for `exact`, which has no such constant. C is
 * 1.5 * 2^7, or 1.5 * 2^10 for 8-bit codes. Floats near C have a spacing of 2^-16, or 2^-13 for
 * 8-bit codes, so the FMA rounds v/s to a multiple of this spacing. */
ALWAYS float offset_of(struct variant variant)
{
    return variant.exact ? 0 : variant.bits == 8 ? 1536 : 192;
}

/* Parameters of a vector of groups: scale s, minimum m, an approximation y of 1/s, and for `exact`
 * also l, an approximation of the error 1/s - y. */
struct encode_params {
    vf s, y, l, m;
};

ALWAYS struct encode_params encode_params_of(vf s, vf m, struct variant variant)
{
    const vf about = v_about_inverse(s);
    const vf y = v_mul_add(v_minus_mul(about, s, v_set(1)), about, about);
    const vf l = variant.exact ? v_mul(v_minus_mul(y, s, v_set(1)), y) : y;

    return (struct encode_params){ s, y, l, m };
}

/* Returns `near`, as defined above, for v = x - m (asymmetric grids) or v = x (symmetric grids).
 * `near` approximates v/s for `exact`, and otherwise v/s plus offset_of(variant). */
ALWAYS vf near_of(vf x, const struct encode_params *k, struct variant variant)
{
    const vf v = variant.asym ? v_sub(x, k->m) : x;

    return v_mul_add(v, k->y, variant.exact ? v_mul(v, k->l) : v_set(offset_of(variant)));
}

/* Quantizes the values x[i] of as many tokens as have codes in one byte. In the result, the code of
 * x[i] is at bit i * bits of each channel's byte. For symmetric codes, the caller adds bias_of() to
 * the result. */
ALWAYS vi byte_of(const vf *x, const struct encode_params *k, int64_t each, struct variant variant)
{
    const int per = 8 / variant.bits;
    const float base = magic - offset_of(variant), more = (float)(1 << variant.bits);
    vf sum = v_add(near_of(x[per - 1], k + each * (per - 1), variant), v_set(base));

#pragma GCC unroll 4
    for (int i = per - 2; i >= 0; i--)
        sum = v_add(near_of(x[i], k + each * i, variant),
                    v_mul_add(sum, v_set(more), v_set(base - more * magic)));
    return v_bits(sum);
}

/* Returns a 16-bit word to be added to packed codes. For symmetric grids, every code field of the
 * word contains 2^(bits-1), the bias of symmetric codes. For asymmetric grids, the word is 0. */
ALWAYS int bias_of(struct variant variant)
{
    int bias = 0;

    for (int i = 0; i < 16 && !variant.asym; i += variant.bits)
        bias |= 1 << (variant.bits - 1) << i;
    return bias;
}

ALWAYS vf evens(vi raw)
{
    return v_of_bits(i_left(raw, 16));
}

ALWAYS vf odds(vi raw)
{
    return v_of_bits(i_and(raw, i_set((int)0xffff0000u)));
}

/* ---- ranges ---------------------------------------------------------------------------- */

/* Maps floats to signed integers that compare like the floats, as order_of() does. */
ALWAYS vi in_order(vf x)
{
    return i_xor(v_bits(x), i_and(i_sign(v_bits(x)), i_set(0x7fffffff)));
}

/* Computes the smallest and the largest value of each of SPAN columns. A column is the N BF16
 * values of one channel in a group. If a column has values of both signs, its largest value has
 * the largest bits as a signed integer, and its smallest value the largest bits as an unsigned
 * integer. */
ALWAYS void range_of_narrow(const kvr_bf16 *x, int64_t stride, vi *low, vi *high)
{
    vi most = i_load(x), most_bits = most;

#pragma GCC unroll 16
    for (int i = 1; i < N; i++) {
        const vi v = i_load(x + i * stride);

        most = w_max(most, v);
        most_bits = w_max_bits(most_bits, v);
    }
    if (__builtin_expect(!w_all_signs(i_and_not(most, most_bits)), 0)) { /* some column has values
                                                                          * of one sign only */
        vi least = i_load(x), least_bits = least;

        for (int i = 1; i < N; i++) {
            const vi v = i_load(x + i * stride);

            least = w_min(least, v);
            least_bits = w_min_bits(least_bits, v);
        }
        most = i_pick(w_sign(most), least_bits, most);
        most_bits = i_pick(w_sign(most_bits), most_bits, least);
    }
    *high = most;
    *low = most_bits;
}

/* Returns whether all scales and minima in f have magnitudes below 65504, the largest FP16
 * number. Otherwise a group may be clipped, or it has a NaN or infinity and thus a scale of NaN. */
ALWAYS bool in_fp16_range(const struct v_quant_params *f, bool asym)
{
    const vi size = i_set(0x7fff), most = i_set(0x7bfe);
    const vi scale = i_and(f->scale, size);

    return i_none_over(asym ? i_max(scale, i_and(f->zero, size)) : scale, most);
}

/* Stores the scales and minima of SPAN groups by interleaving those of the even and of the odd
 * channels. */
ALWAYS void store_groups(const struct kvr_grid_block *b, int64_t at,
                         const struct v_quant_params *even, const struct v_quant_params *odd,
                         bool asym)
{
    i_store(b->scales + at, i_add(even->scale, i_left(odd->scale, 16)));
    if (asym)
        i_store(b->scales + b->n_groups + at, i_add(even->zero, i_left(odd->zero, 16)));
}

/* A position in block b: t0 is the first token of a group, and c is a channel. */
struct tile_position {
    const struct kvr_grid_block *b;
    int64_t t0, c;
};

ALWAYS uint8_t *codes_at(const struct tile_position *p, int row, int bits)
{
    return p->b->codes + (p->t0 / (8 / bits) + row) * p->b->channels + p->c;
}

ALWAYS int64_t group_at(const struct tile_position *p)
{
    return p->t0 / N * p->b->channels + p->c;
}

ALWAYS void fetch(const struct kvr_grid_prefetch *prefetch, int c)
{
    if (c * (int)sizeof(kvr_bf16) % 64 == 0)
#pragma GCC unroll 16
        for (int i = 0; i < N; i++)
            __builtin_prefetch(prefetch->p + i * prefetch->stride + (int64_t)prefetch->size * c, 0,
                               2);
}

/* A strip of 128 columns stays in the L1 cache and is quantized in two passes per grid. The first
 * pass computes all scales, and the second pass computes the codes. Computing a scale is a long
 * chain of dependent instructions, and the chains of several columns overlap in the first pass. A
 * strip consists of STRIP / SPAN spans. Two F32 vectors hold the values of span j: vector 2 j those
 * of its even channels, and vector 2 j + 1 those of its odd channels. */
enum { STRIP = 128, COLUMNS = STRIP / VL };

/* F32 values of one span, for the tokens whose codes share a byte. even[i] and odd[i] are the even
 * and the odd channels of token i. */
struct token_rows {
    vf even[MAX_ROWS], odd[MAX_ROWS];
};

/* Quantizes 8 / bits tokens (those whose codes share a byte). Each 16-bit word of the result has
 * the byte of an even channel in its low half and that of the next, odd channel in its high half.
 * Codes are packed by Horner's scheme, as in byte_of(). */
ALWAYS vi word_of(const struct token_rows *x, const struct encode_params k[2],
                  struct variant variant)
{
    const int per = 8 / variant.bits;
    const float base = magic - offset_of(variant), more = (float)(1 << variant.bits);
    vf sum = v_add(near_of(x->odd[per - 1], k + 1, variant), v_set(base));

#pragma GCC unroll 8
    for (int i = 2 * per - 2; i >= 0; i--)
        sum = v_add(near_of(i < per ? x->even[i] : x->odd[i - per], k + (i >= per), variant),
                    v_mul_add(sum, v_set(more), v_set(base - more * magic)));
    return i_add(v_bits(sum), i_set(bias_of(variant)));
}

/* Quantizes like word_of() and replaces x by the residual. The sign of a zero residual may be
 * lost, but the next grid is symmetric and gives both zeros the same code. */
ALWAYS vi word_with_residual(struct token_rows *x, const struct encode_params k[2],
                             struct variant variant)
{
    const int per = 8 / variant.bits;
    const float more = (float)(1 << variant.bits);
    vf sum = v_set(0);

#pragma GCC unroll 8
    for (int i = 2 * per - 1; i >= 0; i--) {
        const struct encode_params *own = k + (i >= per);
        vf *v = i < per ? &x->even[i] : &x->odd[i - per];
        const vf n = v_add(near_of(*v, own, variant), v_set(magic - offset_of(variant)));
        const vf code = v_sub(n, v_set(magic));

        sum = i == 2 * per - 1 ? code : v_mul_add(sum, v_set(more), code);
        *v = v_minus_mul(code, own->s, *v);
    }
    return v_bits(v_add(sum, v_set(magic + (float)bias_of(variant))));
}

ALWAYS void load_tokens(const kvr_bf16 *x, int64_t stride, int n, struct token_rows *to)
{
#pragma GCC unroll 4
    for (int i = 0; i < n; i++) {
        const vi raw = i_load(x + i * stride);

        to->even[i] = evens(raw);
        to->odd[i] = odds(raw);
    }
}

/* Copies the values of one span and n tokens from x to `to`. x[i][0] has the even channels of token
 * i, and x[i][1] the odd ones. */
ALWAYS void take_tokens(const vf (*x)[COLUMNS], int n, struct token_rows *to)
{
#pragma GCC unroll 4
    for (int i = 0; i < n; i++) {
        to->even[i] = x[i][0];
        to->odd[i] = x[i][1];
    }
}

/* Ranges of VL columns, one per 32-bit element: the bits of the smallest (low) and of the largest
 * (high) float of the column. */
struct range {
    vi low, high;
};

/* Tests whether the FP16 numbers in the vector `half` are all in [0x400, 0x7bfe] as integers, which
 * excludes zeros, denormals, the largest finite number, infinities and NaN. Returns the maximum of
 * `worst` and half - 0x400, both as unsigned integers. It exceeds 0x7bfe - 0x400 if a number of
 * this or an earlier call was outside, because integers below 0x400 wrap around. */
ALWAYS vi note_not_normal(vi worst, vi half)
{
    return i_max_bits(worst, i_sub(half, i_set(0x400)));
}

ALWAYS bool all_normal(vi worst)
{
    return i_most_bits(worst) <= 0x7bfe - 0x400;
}

/* Converts x >= 0, already rounded to 11 significant bits, from F32 to FP16. The result is correct
 * only if x is a normal FP16 number. */
ALWAYS vi half_of(vi x)
{
    return (vi)((uvec)i_sub(x, i_set(112 << 23)) >> 13);
}

/* Rounds F32 values x >= 0 up to 11 significant bits, the precision of FP16. The result is F32. */
ALWAYS vi up_to_half(vi x)
{
    return i_and(i_add(x, i_set(0x1fff)), i_set(~0x1fff));
}

/* Computes the scale and minimum of each column, like v_fit(). The result is correct only if all of
 * them are normal FP16 numbers. The function combines them into *worst by note_not_normal(), and
 * the caller checks all_normal(*worst). */
ALWAYS struct v_quant_params fit_normal(struct range r, struct variant variant, vi *worst)
{
    const vi sign = i_set(INT32_MIN);

    if (variant.asym) {
        const vi low = i_and(i_add(r.low, i_and(i_sign(r.low), i_set(0x1fff))), i_set(~0x1fff));
        const vf m = v_of_bits(low), wide = v_sub(v_of_bits(r.high), m);
        const vi s = up_to_half(v_bits(v_quotient(wide, (float)((1 << variant.bits) - 1))));
        const vi scale = half_of(s), zero = half_of(i_and_not(sign, low));

        *worst = note_not_normal(note_not_normal(*worst, scale), zero);
        return (struct v_quant_params){ v_of_bits(s), m, scale,
                                        i_add(zero, i_and(i_sign(low), i_set(0x8000))) };
    }
    const float qmax = (float)((1 << (variant.bits - 1)) - 1);
    const vi pos = i_max(r.high, i_set(0)), neg = i_max(i_xor(r.low, sign), i_set(0));
    const vf wide = v_mul(v_of_bits(i_max(pos, neg)), v_set(1 / (qmax + 1)));
    const vf narrow = v_quotient(v_of_bits(i_min(pos, neg)), qmax);
    const vi s = up_to_half(i_max(v_bits(wide), v_bits(narrow))), scale = half_of(s);
    const vi over = i_over(pos, neg);

    *worst = note_not_normal(*worst, scale);
    return (struct v_quant_params){ v_of_bits(i_xor(s, i_and(over, sign))), v_set(0),
                                    i_xor(scale, i_and(over, i_set(0x8000))), i_set(0) };
}

/* Computes the scales and minima of the groups in n adjacent spans. The first span is at position
 * p, and vectors 2 j and 2 j + 1 of span j have the ranges r[2 j] and r[2 j + 1]. Stores the scales
 * and minima in the block, and sets k[] to the parameters with which the spans are encoded. Returns
 * n, or the number of spans before the first span that is not in_fp16_range(). */
ALWAYS int fit_strip(const struct tile_position *p, int n, const struct range *r,
                     struct variant variant, struct encode_params *k)
{
    const struct kvr_grid g = { .bits = variant.bits, .asym = variant.asym };
    vi worst = i_set(0);

    for (int j = 0; j < n; j++) {
        struct v_quant_params f[2];

#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) {
            f[i] = fit_normal(r[2 * j + i], variant, &worst);
            k[2 * j + i] = encode_params_of(f[i].s, f[i].m, variant);
        }
        store_groups(p->b, group_at(p) + j * SPAN, &f[0], &f[1], variant.asym);
    }
    if (__builtin_expect(all_normal(worst), 1))
        return n;
    for (int j = 0; j < n; j++) {
        struct v_quant_params f[2];

#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) {
            const struct range *of = &r[2 * j + i];

            f[i] = v_fit(&g, in_order(v_of_bits(of->low)), in_order(v_of_bits(of->high)));
            k[2 * j + i] = encode_params_of(f[i].s, f[i].m, variant);
        }
        if (!in_fp16_range(&f[0], variant.asym) || !in_fp16_range(&f[1], variant.asym))
            return j;
        store_groups(p->b, group_at(p) + j * SPAN, &f[0], &f[1], variant.asym);
    }
    return n;
}

/* Like fit_strip(), but computes the ranges from BF16 values, those of the N rows in r. The n spans
 * start at channel c of the rows. */
ALWAYS int fit_narrow(const struct tile_position *p, const struct kvr_narrow_rows *r, int c, int n,
                      struct variant variant, struct encode_params *k)
{
    struct range range[COLUMNS];

    for (int j = 0; j < n; j++) {
        vi low, high;

        fetch(r->prefetch, c + j * SPAN);
        range_of_narrow(r->x + c + j * SPAN, r->stride, &low, &high);
        range[2 * j] = (struct range){ v_bits(evens(low)), v_bits(evens(high)) };
        range[2 * j + 1] = (struct range){ v_bits(odds(low)), v_bits(odds(high)) };
    }
    return fit_strip(p, n, range, variant, k);
}

/* Computes range[j], the ranges of the columns in the F32 vectors x[token][j], for j < n. If the
 * grid is asymmetric, no value may be NaN or -0, for which the vector minimum and maximum depend on
 * the order of their operands. */
ALWAYS void range_of_wide(const vf (*x)[COLUMNS], int n, struct variant variant,
                          struct range *range)
{
    for (int j = 0; j < n; j++) {
        vf most = x[0][j], least = most;

#pragma GCC unroll 16
        for (int i = 1; i < N; i++) {
            if (variant.asym) {
                most = v_max(most, x[i][j]);
                least = v_min(least, x[i][j]);
            } else { /* compared as unsigned integers, negative floats exceed positive floats, and
                      * the most negative float is the largest */
                most = v_of_bits(i_max(v_bits(most), v_bits(x[i][j])));
                least = v_of_bits(i_max_bits(v_bits(least), v_bits(x[i][j])));
            }
        }
        range[j] = (struct range){ v_bits(least), v_bits(most) };
    }
}

/* Like fit_strip(), but computes the ranges from the F32 vectors x[token][vector]. */
ALWAYS int fit_wide(const struct tile_position *p, const vf (*x)[COLUMNS], int n,
                    struct variant variant, struct encode_params *k)
{
    struct range range[COLUMNS];

    range_of_wide(x, 2 * n, variant, range);
    return fit_strip(p, n, range, variant, k);
}

/* Makes the enclosing function return call(bits, asym, exact) with compile-time constants as
 * arguments: bits and asym of grid g, and `exact`, which is `precise` for symmetric and true for
 * asymmetric grids. */
#define BY_GRID(g, precise, call)                                                                  \
    switch ((g).bits * 2 + (g).asym) {                                                             \
    case 4:                                                                                        \
        return call(2, false, precise);                                                            \
    case 5:                                                                                        \
        return call(2, true, true);                                                                \
    case 8:                                                                                        \
        return call(4, false, precise);                                                            \
    case 9:                                                                                        \
        return call(4, true, true);                                                                \
    case 16:                                                                                       \
        return call(8, false, precise);                                                            \
    default:                                                                                       \
        return call(8, true, true);                                                                \
    }

/* The smallest and the largest value allowed for a token, with low <= 0 <= high. Each is a BF16
 * number, broadcast to all 16-bit elements of a vector. */
struct limits {
    vi low, high;
};

ALWAYS vi clipped(vi raw, struct limits l)
{
    return w_min_bits(w_min(raw, l.high), l.low);
}

/* Quantizes tokens t to t + 8 / bits - 1 of the rows r, whose codes share bytes. Token t + i has
 * the parameters k[i]. If `limits` is not NULL, the function clips values to these limits.
 * Otherwise the codes of values outside them (outliers) would overflow into the adjacent codes of
 * the byte. With `limits`, the function also prefetches the next tokens, because its caller has not
 * just read them to compute their ranges. */
ALWAYS void code_tokens(const struct kvr_grid_block *b, const struct kvr_narrow_rows *r, int t,
                        const struct encode_params *k, const struct limits *limits,
                        struct variant variant)
{
    const int per = 8 / variant.bits;
    const float base = magic - offset_of(variant), more = (float)(1 << variant.bits);
    uint8_t *to = b->codes + (r->t0 + t) / per * b->channels;
    const kvr_bf16 *x = r->x + t * r->stride;

    for (int64_t c = 0; c < b->channels; c += SPAN) {
        struct token_rows a;
        vf sum;

#pragma GCC unroll 4
        for (int i = 0; i < per; i++) {
            const vi given = i_load(x + i * r->stride + c);
            const vi raw = limits ? clipped(given, limits[i]) : given;

            a.even[i] = evens(raw);
            a.odd[i] = odds(raw);
            if (limits && c * (int)sizeof *x % 64 == 0)
                __builtin_prefetch(x + (i + per) * r->stride + c, 0, 2);
        }
        sum = v_add(near_of(a.odd[per - 1], k + per - 1, variant), v_set(base));
#pragma GCC unroll 8
        for (int i = 2 * per - 2; i >= 0; i--) /* as in word_of() */
            sum = v_add(near_of(i < per ? a.even[i] : a.odd[i - per], k + i % per, variant),
                        v_mul_add(sum, v_set(more), v_set(base - more * magic)));
        i_store_low(to + c, i_add(v_bits(sum), i_set(bias_of(variant))));
    }
}

/* Quantizes n tokens, where n is at most 8 and a multiple of 8 / bits, the number of codes per
 * byte. The range of token i is low[i] to high[i], mapped to integers as in grid_fit.h. If `clip`
 * is true, values outside the range are clipped; if it is false, the caller guarantees that no
 * value is outside. Returns false and stores nothing if a scale or minimum is not
 * in_fp16_range(). */
ALWAYS bool code_ranged(const struct kvr_grid_block *b, const struct kvr_narrow_rows *r, int n,
                        const int32_t *low, const int32_t *high, bool clip, struct variant variant)
{
    const struct kvr_grid g = { .bits = variant.bits, .asym = variant.asym };
    const int per = 8 / variant.bits;
    const struct v_quant_params f = v_fit(&g, i_load(low), i_load(high));
    const struct encode_params all = encode_params_of(f.s, f.m, variant);
    int32_t scale[VL], zero[VL];
    float s[VL], y[VL], l[VL], m[VL];

    if (!in_fp16_range(&f, variant.asym))
        return false;
    i_store(scale, f.scale);
    i_store(zero, f.zero);
    v_store(s, all.s);
    v_store(y, all.y);
    v_store(l, all.l);
    v_store(m, all.m);
    for (int i = 0; i < n; i++) {
        b->scales[r->t0 + i] = (kvr_f16)scale[i];
        if (variant.asym)
            b->scales[b->n_groups + r->t0 + i] = (kvr_f16)zero[i];
    }
    for (int t = 0; t < n; t += per) {
        struct encode_params k[MAX_ROWS];
        struct limits limits[MAX_ROWS];

#pragma GCC unroll 4
        for (int i = 0; i < per; i++) {
            k[i] = (struct encode_params){ v_set(s[t + i]), v_set(y[t + i]), v_set(l[t + i]),
                                           v_set(m[t + i]) };
            limits[i] = (struct limits){ w_set((short)((low[t + i] ^ 0x7fffffff) >> 16)),
                                         w_set((short)(high[t + i] >> 16)) };
        }
        code_tokens(b, r, t, k, clip ? limits : NULL, variant);
    }
    return true;
}
#endif

#endif
