/* grid_narrow_isa.c - see grid_narrow_kernels.h.
 *
 * A vector of 32-bit words holds two BF16 values per word. A shift converts the even channels to
 * F32, a mask the odd ones. Both are quantized separately; then their codes are merged into 16-bit
 * words.
 *
 * Quantization needs no division. Let v be the value, s the scale (11 bits), y within 2 ulp of 1/s:
 *
 *   near   One or both of v and the residual have at most 11 bits (below), so that v/s is a tie of
 *          rounding, h = k + 1/2, or at least 2^-13 away from it: v - h s is a multiple of the
 *          smaller of their last places. near = fma(v, y, C) rounds to a multiple of 2^-16 (2^-13
 *          for 8 bits), which is finer than that and coarser than the error of v y. So ties stay
 *          ties, and rounding near to an integer gives the code of the rounded quotient.
 * exact Otherwise near = fma(v, y, fl(v l)), where y + l is 1/s within 2^-43. It is the correctly
 *          rounded quotient, because v/s is at least 2^-12 ulp from a rounding boundary
 *          (grid_encode_isa.c).
 *
 * The residual r = x - c s of a BF16 number x and a symmetric code c has at most 11 bits: for c = 0
 * it is x; otherwise |x| >= s/2, so r is a multiple of s 2^-11 and at most s/2.
 *
 * Adding M = 1.5 2^23 rounds to an integer, ties to even, in the low bits of the sum. The codes of
 * a byte are packed by Horner's scheme: sum = 2^bits sum + code, from the last row to the first. */
#include "methods/codecs/grid/grid_fit.h"
#include "methods/codecs/grid/grid_narrow_kernels.h"
#include "methods/codecs/hadamard/fwht_lanes.h"

#ifdef KVR_SIMD
enum { N = KVR_NARROW_TOKENS, SPAN = 2 * VL, MAX_ROWS = 4 /* rows per byte */ };

#define ALWAYS static inline __attribute__((always_inline))

/* Grid parameters; compile-time constants in each instantiation. */
struct variant {
    int bits;
    bool asym, exact;
};

static const float magic = 12582912; /* M */

/* The constant C: 1.5 times the power of two whose spacing is 2^-16 (8 bits: 2^-13); 0 for
 * `exact`. */
ALWAYS float offset_of(struct variant variant)
{
    return variant.exact ? 0 : variant.bits == 8 ? 1536 : 192;
}

/* Scale s, reciprocal y + l, minimum m. */
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

/* C + v/s, still to be rounded to an integer. */
ALWAYS vf near_of(vf x, const struct encode_params *k, struct variant variant)
{
    const vf v = variant.asym ? v_sub(x, k->m) : x;

    return v_mul_add(v, k->y, variant.exact ? v_mul(v, k->l) : v_set(offset_of(variant)));
}

/* Quantizes 8 / bits rows into one byte per channel, x[i] at bit i * bits. Symmetric codes still
 * lack their bias. */
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

/* Bias of symmetric codes, in every field of a 16-bit word. */
ALWAYS int bias_of(struct variant variant)
{
    int bias = 0;

    for (int i = 0; i < 16 && !variant.asym; i += variant.bits)
        bias |= 1 << (variant.bits - 1) << i;
    return bias;
}

/* Stores one byte for each of SPAN channels. */
ALWAYS void store_bytes(uint8_t *to, vi even, vi odd, struct variant variant)
{
    i_store_low(to, i_add(i_add(even, i_left(odd, 8)), i_set(bias_of(variant))));
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

/* Monotonic map from floats to signed integers, as in grid_fit.h. */
ALWAYS vi in_order(vf x)
{
    return i_xor(v_bits(x), i_and(i_sign(v_bits(x)), i_set(0x7fffffff)));
}

/* Ranges of SPAN columns of BF16, compared by their bits as in grid_encode_isa.c. */
ALWAYS void range_of_narrow(const kvr_bf16 *x, int64_t stride, vi *low, vi *high)
{
    vi most = i_load(x), most_bits = most;

#pragma GCC unroll 16
    for (int i = 1; i < N; i++) {
        const vi v = i_load(x + i * stride);

        most = w_max(most, v);
        most_bits = w_max_bits(most_bits, v);
    }
    if (__builtin_expect(!w_all_signs(i_and_not(most, most_bits)), 0)) { /* columns of one sign */
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

/* Whether scale and minimum are below the largest FP16 number, so that no code clips and none is
 * NaN. */
ALWAYS bool in_fp16_range(const struct v_quant_params *f, bool asym)
{
    const vi size = i_set(0x7fff), most = i_set(0x7bfe);
    const vi scale = i_and(f->scale, size);

    return i_none_over(asym ? i_max(scale, i_and(f->zero, size)) : scale, most);
}

/* Stores scales and minima of SPAN groups. */
ALWAYS void store_groups(const struct kvr_grid_block *b, int64_t at,
                         const struct v_quant_params *even, const struct v_quant_params *odd,
                         bool asym)
{
    i_store(b->scales + at, i_add(even->scale, i_left(odd->scale, 16)));
    if (asym)
        i_store(b->scales + b->n_groups + at, i_add(even->zero, i_left(odd->zero, 16)));
}

/* ---- blocks of 16 tokens --------------------------------------------------------------- */

/* A block and the position of the current column. */
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

/* Strips of 128 columns are quantized in several passes while they are in L1, so that the
 * dependency chains of the columns' fits overlap. Vectors 2 j and 2 j + 1 are the even and odd
 * channels of span j. */
enum { STRIP = 128, COLUMNS = STRIP / VL };

/* Even and odd channels of tokens [i, i + 8 / bits) as F32. */
struct token_rows {
    vf even[MAX_ROWS], odd[MAX_ROWS];
};

/* Quantizes these tokens into 16-bit words: the byte of the odd channel above that of the even one.
 * Packed by Horner's scheme, as in byte_of(). */
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

/* The same; x becomes the residual. Zeros may lose their sign, since the next grid is symmetric. */
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

/* Takes the tokens from F32 columns. */
ALWAYS void take_tokens(const vf (*x)[COLUMNS], int n, struct token_rows *to)
{
#pragma GCC unroll 4
    for (int i = 0; i < n; i++) {
        to->even[i] = x[i][0];
        to->odd[i] = x[i][1];
    }
}

/* Range of a column: bits of its smallest and largest float. */
struct range {
    vi low, high;
};

/* Updates `worst`, which exceeds 0x7bfe - 0x400 if any FP16 number so far was outside [0x400,
 * 0x7bfe], FP16's normal numbers without the largest. */
ALWAYS vi note_not_normal(vi worst, vi half)
{
    return i_max_bits(worst, i_sub(half, i_set(0x400)));
}

ALWAYS bool all_normal(vi worst)
{
    return i_most_bits(worst) <= 0x7bfe - 0x400;
}

/* Converts |x| from F32 to FP16; correct if the result is a normal FP16 number. */
ALWAYS vi half_of(vi x)
{
    return (vi)((uvec)i_sub(x, i_set(112 << 23)) >> 13);
}

/* Rounds |x| up to 11 significant bits, in F32. */
ALWAYS vi up_to_half(vi x)
{
    return i_and(i_add(x, i_set(0x1fff)), i_set(~0x1fff));
}

/* v_fit() of a column, correct if scale and minimum are normal FP16 numbers; `worst` records
 * whether. */
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

/* Fits spans [0, n) of a strip at p from the ranges of their columns. Returns the number of leading
 * spans that are in_fp16_range(). */
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

/* Fits spans [0, n) of BF16 columns. */
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

/* Fits spans [0, n) of F32 columns. For asymmetric grids they must contain no NaN and no -0. */
ALWAYS int fit_wide(const struct tile_position *p, const vf (*x)[COLUMNS], int n,
                    struct variant variant, struct encode_params *k)
{
    struct range range[COLUMNS];

    for (int j = 0; j < 2 * n; j++) {
        vf most = x[0][j], least = most;

#pragma GCC unroll 16
        for (int i = 1; i < N; i++) {
            if (variant.asym) {
                most = v_max(most, x[i][j]);
                least = v_min(least, x[i][j]);
            } else { /* compared as unsigned bits, negative floats are the largest */
                most = v_of_bits(i_max(v_bits(most), v_bits(x[i][j])));
                least = v_of_bits(i_max_bits(v_bits(least), v_bits(x[i][j])));
            }
        }
        range[j] = (struct range){ v_bits(least), v_bits(most) };
    }
    return fit_strip(p, n, range, variant, k);
}

/* Quantizes spans [0, n) of a strip. wide: its columns in F32, or NULL to load them from r. */
ALWAYS void code_strip(const struct tile_position *p, const struct kvr_narrow_rows *r, int c,
                       const vf (*wide)[COLUMNS], int n, struct variant variant,
                       const struct encode_params *params)
{
    const int per = 8 / variant.bits;
    const int64_t channels = p->b->channels, stride = r->stride;

    for (int j = 0; j < n; j++) {
        const struct encode_params k[2] = { params[2 * j], params[2 * j + 1] };
        const kvr_bf16 *x = r->x + c + j * SPAN;
        uint8_t *to = codes_at(p, 0, variant.bits) + j * SPAN;

#pragma GCC unroll 8
        for (int i = 0; i < N; i += 2 * per, to += 2 * channels) {
            struct token_rows a, b;

            if (wide) {
                take_tokens((const vf(*)[COLUMNS])(&wide[i][2 * j]), per, &a);
                take_tokens((const vf(*)[COLUMNS])(&wide[i + per][2 * j]), per, &b);
            } else {
                load_tokens(x + i * stride, stride, per, &a);
                load_tokens(x + (i + per) * stride, stride, per, &b);
            }
            i_store_lows(to, to + channels, word_of(&a, k, variant), word_of(&b, k, variant));
        }
    }
}

ALWAYS int one_grid(const struct kvr_grid_block *b, const struct kvr_narrow_rows *r, int m,
                    struct variant variant)
{
    struct encode_params k[COLUMNS];

    for (int c = 0; c < m; c += STRIP) {
        const struct tile_position p = { b, r->t0, r->c0 + c };
        const int n = (m - c < STRIP ? m - c : STRIP) / SPAN;
        const int done = fit_narrow(&p, r, c, n, variant, k);

        code_strip(&p, r, c, NULL, done, variant, k);
        if (done < n)
            return c + done * SPAN;
    }
    return m;
}

/* Quantizes spans [0, n) of a strip with the first grid; residual: receives the residual. */
ALWAYS void code_with_residual(const struct tile_position *p, const struct kvr_narrow_rows *r,
                               int c, int n, struct variant variant,
                               const struct encode_params *params, vf (*residual)[COLUMNS])
{
    const int per = 8 / variant.bits;
    const int64_t channels = p->b->channels, stride = r->stride;

    for (int j = 0; j < n; j++) {
        const struct encode_params k[2] = { params[2 * j], params[2 * j + 1] };
        const kvr_bf16 *x = r->x + c + j * SPAN;
        uint8_t *to = codes_at(p, 0, variant.bits) + j * SPAN;

        for (int i = 0; i < N; i += 2 * per, to += 2 * channels) {
            vi word[2];

#pragma GCC unroll 2
            for (int h = 0; h < 2; h++) {
                struct token_rows a;

                load_tokens(x + (i + h * per) * stride, stride, per, &a);
                word[h] = word_with_residual(&a, k, variant);
#pragma GCC unroll 4
                for (int t = 0; t < per; t++) {
                    residual[i + h * per + t][2 * j] = a.even[t];
                    residual[i + h * per + t][2 * j + 1] = a.odd[t];
                }
            }
            i_store_lows(to, to + channels, word[0], word[1]);
        }
    }
}

/* Quantizes with two grids, both symmetric. */
ALWAYS int two_grids(const struct kvr_grid_block *b, const struct kvr_grid_block *b2,
                     const struct kvr_narrow_rows *r, int m, struct variant variant,
                     struct variant variant2)
{
    struct encode_params k[COLUMNS];
    vf residual[N][COLUMNS];

    for (int c = 0; c < m; c += STRIP) {
        const struct tile_position p = { b, r->t0, r->c0 + c }, p2 = { b2, r->t0, r->c0 + c };
        const int n = (m - c < STRIP ? m - c : STRIP) / SPAN;
        int done = fit_narrow(&p, r, c, n, variant, k);

        code_with_residual(&p, r, c, done, variant, k, residual);
        done = fit_wide(&p2, (const vf(*)[COLUMNS])residual, done, variant2, k);
        code_strip(&p2, r, c, (const vf(*)[COLUMNS])residual, done, variant2, k);
        if (done < n)
            return c + done * SPAN;
    }
    return m;
}

/* ---- choosing an instantiation --------------------------------------------------------- */

/* Returns call(bits, asym, exact) with constant arguments. */
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

static int by_one(const struct kvr_grid_block *b, const struct kvr_narrow_rows *r, int m)
{
#define CALL(...) one_grid(b, r, m, (struct variant){ __VA_ARGS__ })
    BY_GRID(b->grid, false, CALL)
#undef CALL
}

/* Chains of two symmetric grids, the published ones, have specialized loops. */
static int by_two(const struct kvr_grid_block *b, const struct kvr_grid_block *b2,
                  const struct kvr_narrow_rows *r, int m)
{
    const struct variant two = { 2, false, false }, four = { 4, false, false };

    if (b->grid.asym || b2->grid.asym)
        return 0;
    switch (b->grid.bits * 8 + b2->grid.bits) {
    case 2 * 8 + 2:
        return two_grids(b, b2, r, m, two, two);
    case 2 * 8 + 4:
        return two_grids(b, b2, r, m, two, four);
    case 4 * 8 + 2:
        return two_grids(b, b2, r, m, four, two);
    case 4 * 8 + 4:
        return two_grids(b, b2, r, m, four, four);
    default:
        return 0;
    }
}

static int tokens(const struct kvr_grid_block *first, const struct kvr_grid_block *second,
                  const struct kvr_narrow_rows *r, int m)
{
    return second ? by_two(first, second, r, m) : by_one(first, r, m);
}

/* ---- after a Walsh-Hadamard transform -------------------------------------------------- */

/* Exponent distance of |x| from 2^-60; turn_heads() requires |x| in [2^-60, 2^100] for SPAN values.
 * Then no sum is -0, NaN, or a nonzero number for which scaled() rounds unlike a division. */
ALWAYS vi distance(vi raw)
{
    return w_sub(w_twice(raw), w_set(67 << 8));
}

/* Two tokens are transformed together: vector q has VL channels of the first token in its low half
 * and of the second in its high half, so only strides within a half shuffle lanes. */
enum { HALF = VL / 2, GROUP = VL == 16 ? 8 : 4 /* vectors q that stay in registers */ };

/* Butterflies of strides within a half, lanes j and j ^ h, in each of n vectors; as in
 * fwht_isa.c. */
ALWAYS void within(vec *r, int n)
{
    const bool bf16 = false;

    STRIDE(1)
    STRIDE(2)
#if defined(KVR_ISA_AVX512)
    STRIDE(4)
#endif
}

/* Butterflies between vectors: strides h = from, 2 from, ... below `to`, over n vectors `stride`
 * apart. */
ALWAYS void between(vec *r, int n, int stride, int from, int to)
{
#pragma GCC unroll 8
    for (int h = from; h < to; h *= 2)
#pragma GCC unroll 16
        for (int at = 0; at < n / 2; at++) {
            const int i = at / h * 2 * h + at % h;
            const vec a = r[i * stride], b = r[(i + h) * stride];

            r[i * stride] = a + b;
            r[(i + h) * stride] = a - b;
        }
}

/* The first butterfly stages of GROUP vectors q: r[2 q] holds their even channels, r[2 q + 1] the
 * odd ones. Returns the largest distance() of the input. */
ALWAYS vi butterfly_group(vec r[2 * GROUP], const kvr_bf16 *x, const kvr_bf16 *below, int n)
{
    vi max_distance = i_set(0);

#pragma GCC unroll 8
    for (int q = 0; q < n; q++) {
        const vi raw = i_halves(x + q * VL, below + q * VL);
        const vf even = evens(raw), odd = odds(raw);

        max_distance = w_max_bits(max_distance, distance(raw));
        r[2 * q] = (vec)v_add(even, odd);
        r[2 * q + 1] = (vec)v_sub(even, odd);
    }
    within(r, 2 * n);
    between(r, 2 * n, 1, 2, 2 * n);
    return max_distance;
}

/* r / norm, as fma(r, y, r l) with y + l = 1 / norm; tests/methods/test_isa.c checks every
 * mantissa. */
ALWAYS vf scaled(vec r, int d)
{
    const float norm = d == 128 ? 0x1.6a09e6p3f : 8, y = 1 / norm;
    const vf l = v_set(__builtin_fmaf(-y, norm, 1) * y);

    return d == 128 ? v_mul_add((vf)r, v_set(y), v_mul((vf)r, l)) : v_mul((vf)r, v_set(y));
}

/* Transforms one head of the tokens at x and `below`. Vectors 2 j and 2 j + 1 of each result are
 * its j-th even and odd channels. The sums are those of fwht_isa.c. Returns false if a value is out
 * of range. */
ALWAYS bool rotate_heads(vf *to, vf *to_below, const kvr_bf16 *x, const kvr_bf16 *below, int d)
{
    const int n = d / VL < GROUP ? d / VL : GROUP, groups = d / VL / n;
    float *const first = (float *)to, *const second = (float *)to_below;
    vec r[128 / VL / GROUP][2 * GROUP];
    vi max_distance = i_set(0);

#pragma GCC unroll 4
    for (int g = 0; g < groups; g++)
        max_distance =
            w_max_bits(max_distance, butterfly_group(r[g], x + g * n * VL, below + g * n * VL, n));
#pragma GCC unroll 16
    for (int i = 0; i < 2 * n; i++) {
        vec across[4];

#pragma GCC unroll 4
        for (int g = 0; g < groups; g++)
            across[g] = r[g][i];
        between(across, groups, 1, 1, groups);
#pragma GCC unroll 4
        for (int g = 0; g < groups; g++) {
            const int q = g * n + i / 2, at = (q / 2 * 2 + i % 2) * VL + q % 2 * HALF;

            v_store_halves(first + at, second + at, scaled(across[g], d));
        }
    }
    return w_none_over_bits(max_distance, w_set((short)((227 - 67) << 8)));
}

/* A symmetric grid needs no range check. Infinities and NaN reach the ranges of their columns,
 * whose fit is then not in_fp16_range(), and signs of zeros have no effect. Below 2^-90 the quotient by
 * the norm may be off by one ulp, but such values have code 0: no scale is below 2^-24, and a
 * column of such values alone has the scale 2^-24, or 0 if all are 0. */
ALWAYS int rotated_grid(const struct kvr_grid_block *b, const struct kvr_narrow_rows *r, int m,
                        int d, struct variant variant)
{
    const size_t line_values = 64 / sizeof(kvr_bf16);
    struct encode_params k[COLUMNS];
    vf head[N][COLUMNS];

    for (int c = 0; c < m; c += d) {
        const struct tile_position p = { b, r->t0, r->c0 + c };
        const kvr_bf16 *x = r->x + c;
        bool usable = true;

        for (int i = 0; i < N; i += 2, x += 2 * r->stride) {
            for (size_t e = 0; e < 2 * (size_t)d; e += line_values)
                __builtin_prefetch(r->prefetch->p + (i + (e >= (size_t)d)) * r->prefetch->stride +
                                       r->prefetch->size * ((size_t)c + e % (size_t)d),
                                   0, 2);
            usable = rotate_heads(head[i], head[i + 1], x, x + r->stride, d) && usable;
        }
        if ((variant.asym && !usable) ||
            fit_wide(&p, (const vf(*)[COLUMNS])head, d / SPAN, variant, k) < d / SPAN)
            return c;
        code_strip(&p, r, c, (const vf(*)[COLUMNS])head, d / SPAN, variant, k);
    }
    return m;
}

static int walsh(const struct kvr_grid_block *b, const struct kvr_narrow_rows *r, int m, int d){
#define CALL(...)                                                                                  \
    (d == 128 ? rotated_grid(b, r, m, 128, (struct variant){ __VA_ARGS__ })                        \
              : rotated_grid(b, r, m, 64, (struct variant){ __VA_ARGS__ }))
    BY_GRID(b->grid, true, CALL)
#undef CALL
}

/* ---- whole tokens ---------------------------------------------------------------------- */

/* Range of a token; false unless it has values of both signs. Prefetches as many bytes at
 * `near`. */
ALWAYS
    bool range_of_token(const kvr_bf16 *x, int64_t n, const char *near, int32_t *low, int32_t *high)
{
    vi most[2] = { i_load(x), i_load(x) }, most_bits[2] = { most[0], most[0] };
    int64_t c = 0;

    for (; c + 2 * SPAN <= n; c += 2 * SPAN)
#pragma GCC unroll 2
        for (int j = 0; j < 2; j++) {
            const vi v = i_load(x + c + j * SPAN);

            if (j * (int)sizeof(vi) % 64 == 0)
                __builtin_prefetch(near + (c + j * SPAN) * (int64_t)sizeof *x, 0, 2);
            most[j] = w_max(most[j], v);
            most_bits[j] = w_max_bits(most_bits[j], v);
        }
    if (c < n) {
        most[0] = w_max(most[0], i_load(x + c));
        most_bits[0] = w_max_bits(most_bits[0], i_load(x + c));
    }
    most[0] = w_max(most[0], most[1]);
    most_bits[0] = w_max_bits(most_bits[0], most_bits[1]);
    *high = i_most(i_max(v_bits(evens(most[0])), v_bits(odds(most[0]))));
    *low =
        (int32_t)i_most_bits(i_max_bits(v_bits(evens(most_bits[0])), v_bits(odds(most_bits[0]))));
    *low ^= 0x7fffffff;
    return *high >= 0 && *low < 0;
}

/* Quantizes 8 / bits tokens, each with its own steps k. */
ALWAYS void code_tokens(const struct kvr_grid_block *b, const struct kvr_narrow_rows *r, int t,
                        const struct encode_params *k, struct variant variant)
{
    const int per = 8 / variant.bits;
    uint8_t *to = b->codes + (r->t0 + t) / per * b->channels;
    const kvr_bf16 *x = r->x + t * r->stride;

    for (int64_t c = 0; c < b->channels; c += SPAN) {
        vf even[MAX_ROWS], odd[MAX_ROWS];

#pragma GCC unroll 4
        for (int i = 0; i < per; i++) {
            even[i] = evens(i_load(x + i * r->stride + c));
            odd[i] = odds(i_load(x + i * r->stride + c));
        }
        store_bytes(to + c, byte_of(even, k, 1, variant), byte_of(odd, k, 1, variant), variant);
    }
}

ALWAYS bool token_grids(const struct kvr_grid_block *b, const struct kvr_narrow_rows *r, int n,
                        struct variant variant)
{
    const struct kvr_grid g = { .bits = variant.bits, .asym = variant.asym };
    const int per = 8 / variant.bits;
    int32_t low[VL] = { 0 }, high[VL] = { 0 }, scale[VL], zero[VL];
    struct v_quant_params f;
    struct encode_params all;
    float s[VL], y[VL], l[VL], m[VL];

    for (int i = 0; i < n; i++)
        if (!range_of_token(r->x + i * r->stride, b->channels,
                            r->prefetch->p + i * r->prefetch->stride, &low[i], &high[i]))
            return false;
    f = v_fit(&g, i_load(low), i_load(high));
    if (!in_fp16_range(&f, variant.asym))
        return false;
    all = encode_params_of(f.s, f.m, variant);
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

#pragma GCC unroll 4
        for (int i = 0; i < per; i++)
            k[i] = (struct encode_params){ v_set(s[t + i]), v_set(y[t + i]), v_set(l[t + i]),
                                           v_set(m[t + i]) };
        code_tokens(b, r, t, k, variant);
    }
    return true;
}

static bool rows(const struct kvr_grid_block *b, const struct kvr_narrow_rows *r, int n)
{
#define CALL(...) token_grids(b, r, n, (struct variant){ __VA_ARGS__ })
    BY_GRID(b->grid, false, CALL)
#undef CALL
}

const struct kvr_grid_narrow KVR_ISA_NAME(kvr_grid_narrow) = {
    .span = SPAN,
    .tokens = tokens,
    .walsh = walsh,
    .rows = rows,
};
#else
const struct kvr_grid_narrow KVR_ISA_NAME(kvr_grid_narrow) = { 0 };
#endif
