/* grid_narrow_isa.c - kernels that encode grids directly from BF16 values (grid_narrow_kernels.h).
 * The arithmetic is in grid_narrow.h. */
#include "methods/codecs/grid/grid_narrow.h"

#ifdef KVR_SIMD
/* Quantizes and packs the first n spans of a strip with the scales in `params`. A strip is N tokens
 * of at most STRIP channels, a span is SPAN channels. The values are wide[token][vector] in F32 or,
 * if `wide` is NULL, the BF16 rows r from channel c on. */
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

/* Quantizes and packs the first n spans of a strip (see code_strip()) with the first of two grids.
 * `residual` receives the values minus the decoded values, which the second grid encodes. */
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

/* Quantizes m channels with the symmetric grid of b, and their residual with that of b2. Returns
 * the number of leading channels encoded, which is less than m if the scale of a later channel
 * exceeds the range of FP16. */
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

static int by_one(const struct kvr_grid_block *b, const struct kvr_narrow_rows *r, int m)
{
#define CALL(...) one_grid(b, r, m, (struct variant){ __VA_ARGS__ })
    BY_GRID(b->grid, false, CALL)
#undef CALL
}

/* Encodes a chain of two symmetric grids of 2 or 4 bits each. Returns 0 for other chains. */
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

/* ---- quantization after a Walsh-Hadamard transform ------------------------------------- */

/* Returns, for BF16 values x, twice the difference between the bits of |x| and the bits of 2^-60,
 * as unsigned 16-bit integers that wrap around. The maximum of this distance tells rotate_heads()
 * whether every |x| is in [2^-60, 2^100]. In this range no sum of the transform is -0 or NaN, and
 * scaled() rounds like a division. */
ALWAYS vi distance(vi raw)
{
    return w_sub(w_twice(raw), w_set(67 << 8));
}

/* Two tokens are transformed together. Vector q has channels [q VL, (q + 1) VL) of the first token
 * in its low half, and those of the second token in its high half. Only butterflies with strides
 * below HALF must shuffle lanes. */
enum { HALF = VL / 2, GROUP = VL == 16 ? 8 : 4 /* number of vectors q in registers */ };

/* Applies the butterflies of stride h < HALF to each of n vectors. They combine lanes j and j ^ h,
 * as in fwht_isa.c. */
ALWAYS void within(vec *r, int n)
{
    const bool bf16 = false;

    STRIDE(1)
    STRIDE(2)
#if defined(KVR_ISA_AVX512)
    STRIDE(4)
#endif
}

/* Applies butterflies between the n vectors r[0], r[scale], r[2 scale], ... Strides, in these
 * vectors, are h = from, 2 from, 4 from, ... below `to`. */
ALWAYS void between(vec *r, int n, int scale, int from, int to)
{
#pragma GCC unroll 8
    for (int h = from; h < to; h *= 2)
#pragma GCC unroll 16
        for (int at = 0; at < n / 2; at++) {
            const int i = at / h * 2 * h + at % h;
            const vec a = r[i * scale], b = r[(i + h) * scale];

            r[i * scale] = a + b;
            r[(i + h) * scale] = a - b;
        }
}

/* Loads vectors q = 0 .. n - 1 of two tokens and applies the butterflies within and between them.
 * r[2 q] receives the results for the even channels of vector q, r[2 q + 1] those for its odd
 * channels. Returns the largest distance() of the input. */
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

/* Returns r / norm, correctly rounded, where norm = sqrt(d). If y is 1 / norm rounded to F32, and l
 * is the rounding error 1 / norm - y, the result for d = 128 is fma(r, y, r l). The test
 * tests/methods/test_isa.c checks every mantissa. */
ALWAYS vf scaled(vec r, int d)
{
    const float norm = d == 128 ? 0x1.6a09e6p3f : 8, y = 1 / norm;
    const vf l = v_set(__builtin_fmaf(-y, norm, 1) * y);

    return d == 128 ? v_mul_add((vf)r, v_set(y), v_mul((vf)r, l)) : v_mul((vf)r, v_set(y));
}

/* Transforms one head of two tokens, at x and `below`, into `to` and `to_below`. In each result,
 * vectors 2 j and 2 j + 1 have the even and the odd channels of span j. The results are divided by
 * the norm sqrt(d) only if `scale`. The order of additions is the same as in fwht_isa.c. Returns
 * false if an |x| is outside [2^-60, 2^100]. */
ALWAYS bool rotate_heads(vf *to, vf *to_below, const kvr_bf16 *x, const kvr_bf16 *below, int d,
                         bool scale)
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

            v_store_halves(first + at, second + at, scale ? scaled(across[g], d) : (vf)across[g]);
        }
    }
    return w_none_over_bits(max_distance, w_set((short)((227 - 67) << 8)));
}

/* For symmetric grids of 2 or 4 bits, the following functions quantize the sums of the transform
 * with one FMA per value, without first dividing them by the norm sqrt(d).
 *
 * Let q = sum / (scale norm). The code is q rounded to an integer, plus 2^(bits-1). The functions
 * compute near = fma(sum, 1 / (scale norm), C) with C = 192 + 2^(bits-1) + 1/2 + 4 2^-16. Near is
 * in [192, 256), where the upper 16 bits of a float are 0x4340 plus its integer part minus 192. The
 * 1/2 turns truncation into rounding, and the 4 2^-16 is a margin for errors. The error of near is
 * less than 2^-16: at most 2^-17 from its own rounding, 2^-18.5 from the reciprocal, and 2^-20 from
 * the roundings of the two divisions, by norm and scale, whose codes near must reproduce. Hence the
 * upper 16 bits of near are 0x4340 plus the code, unless the lower 16 bits are below 8. In that
 * case q is close to a tie between two codes, and the span is encoded again with the two
 * divisions. */
ALWAYS int fit_rotated(const struct tile_position *p, const vf (*x)[COLUMNS], int d,
                       struct variant variant, struct encode_params *k)
{
    struct range range[COLUMNS];

    range_of_wide(x, d / VL, variant, range);
#pragma GCC unroll 16
    for (int j = 0; j < d / VL; j++)
        range[j] = (struct range){ v_bits(scaled((vec)v_of_bits(range[j].low), d)),
                                   v_bits(scaled((vec)v_of_bits(range[j].high), d)) };
    return fit_strip(p, d / SPAN, range, variant, k);
}

/* Computes near, as defined above, for two rows. Returns the upper halves of near as 16-bit words:
 * the low word from `first`, the high word from `second`. *worst becomes the minimum of itself and
 * all 16-bit halves of near; only a lower half can be below 8. */
ALWAYS vi near_word(vf first, vf second, vf inverse, vf offset, vi *worst)
{
    const vi a = v_bits(v_mul_add(first, inverse, offset));
    const vi b = v_bits(v_mul_add(second, inverse, offset));

    *worst = w_min_bits(*worst, w_min_bits(a, b));
    return w_halves((vi)((uvec)a >> 16), b);
}

/* Encodes span j of a head with near_word(). Returns false if a value is close to a tie between two
 * codes. */
ALWAYS bool code_near(const struct tile_position *p, const vf (*x)[COLUMNS], int j, int d,
                      struct variant variant, const struct encode_params k[2])
{
    const int per = 8 / variant.bits;
    const vf norm = v_set(d == 128 ? 1 / 0x1.6a09e6p3f : 0.125f);
    const vf even = v_mul(k[0].y, norm), odd = v_mul(k[1].y, norm);
    const vf offset = v_set(192.5f + (float)(1 << (variant.bits - 1)) + 0x1p-14f);
    uint8_t *to = codes_at(p, 0, variant.bits) + j * SPAN;
    unsigned excess = 0; /* sum of the 0x4340 that near_word() adds to each code of a word */
    vi worst = i_set(-1);

    for (int i = 0; i < 16; i += variant.bits)
        excess += 0x4340u << i;
#pragma GCC unroll 8
    for (int i = 0; i < N; i += 2 * per, to += 2 * p->b->channels) {
        vi sum = w_set((short)(0u - excess));

#pragma GCC unroll 4
        for (int t = 0; t < per; t++) {
            const vf *first = &x[i + t][2 * j], *second = &x[i + per + t][2 * j];

            sum = w_add(sum, w_left(near_word(first[0], second[0], even, offset, &worst),
                                    t * variant.bits));
            sum = w_add(sum, w_left(near_word(first[1], second[1], odd, offset, &worst),
                                    8 + t * variant.bits));
        }
        i_store_split(to, to + p->b->channels, sum);
    }
    return w_none_over_bits(w_set(8), worst);
}

ALWAYS void code_rotated(const struct tile_position *p, const struct kvr_narrow_rows *r,
                         const vf (*x)[COLUMNS], int d, struct variant variant,
                         const struct encode_params *k)
{
    for (int j = 0; j < d / SPAN; j++) {
        const struct tile_position span = { p->b, p->t0, p->c + j * SPAN };
        vf divided[N][COLUMNS];

        if (__builtin_expect(code_near(p, x, j, d, variant, k + 2 * j), 1))
            continue;
        for (int i = 0; i < N; i++)
            for (int h = 0; h < 2; h++)
                divided[i][h] = scaled((vec)x[i][2 * j + h], d);
        code_strip(&span, r, 0, (const vf(*)[COLUMNS])divided, 1, variant, k + 2 * j);
    }
}

/* Transforms and quantizes m channels. Returns the number of channels encoded. An asymmetric grid
 * requires |x| in [2^-60, 2^100]. A symmetric grid does not, for three reasons. Infinities and NaN
 * make the range of their column infinite or NaN, and the fit rejects such a column. A zero has the
 * same code with either sign. A transformed value below 2^-90 may be wrong by an ulp, but it is
 * quantized to 0, because no scale is below 2^-24. If all values of a column are that small, its
 * scale is 2^-24, or 0 if all are 0. */
ALWAYS int rotated_grid(const struct kvr_grid_block *b, const struct kvr_narrow_rows *r, int m,
                        int d, struct variant variant)
{
    const size_t line_values = 64 / sizeof(kvr_bf16);
    const bool near = !variant.asym && variant.bits < 8;
    struct encode_params k[COLUMNS];
    vf head[N][COLUMNS];

    for (int c = 0; c < m; c += d) {
        const struct tile_position p = { b, r->t0, r->c0 + c };
        const kvr_bf16 *x = r->x + c;
        bool usable = true;
        int done;

        for (int i = 0; i < N; i += 2, x += 2 * r->stride) {
            for (size_t e = 0; e < 2 * (size_t)d; e += line_values)
                __builtin_prefetch(r->prefetch->p + (i + (e >= (size_t)d)) * r->prefetch->stride +
                                       r->prefetch->size * ((size_t)c + e % (size_t)d),
                                   0, 2);
            usable = rotate_heads(head[i], head[i + 1], x, x + r->stride, d, !near) && usable;
        }
        if (variant.asym && !usable)
            return c;
        done = near ? fit_rotated(&p, (const vf(*)[COLUMNS])head, d, variant, k)
                    : fit_wide(&p, (const vf(*)[COLUMNS])head, d / SPAN, variant, k);
        if (done < d / SPAN)
            return c;
        if (near)
            code_rotated(&p, r, (const vf(*)[COLUMNS])head, d, variant, k);
        else
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

/* ---- groups of whole tokens ------------------------------------------------------------ */

/* Computes the range of a token's n values. Returns false unless the token has values of both
 * signs. Prefetches the n values at `near`, a row that is encoded later. */
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

ALWAYS bool token_grids(const struct kvr_grid_block *b, const struct kvr_narrow_rows *r, int n,
                        struct variant variant)
{
    int32_t low[VL] = { 0 }, high[VL] = { 0 };

    for (int i = 0; i < n; i++)
        if (!range_of_token(r->x + i * r->stride, b->channels,
                            r->prefetch->p + i * r->prefetch->stride, &low[i], &high[i]))
            return false;
    return code_ranged(b, r, n, low, high, false, variant);
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
