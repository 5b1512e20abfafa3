/* grid_narrow_isa.c - see grid_narrow_kernels.h.
 *
 * A vector of 32-bit words holds two BF16 values per word. Its even channels become F32 by a shift
 * and its odd channels by a mask, and both stay apart until their codes are merged into 16-bit words.
 *
 * Codes need no division. With v the value, s the scale (11 bits) and y within 2 ulp of 1/s:
 *
 *   near   One or both of v and the residual have at most 11 bits (below), so that v/s is a tie of
 *          rounding, h = k + 1/2, or at least 2^-13 away from it: v - h s is a multiple of the
 *          smaller of their last places. near = fma(v, y, C) rounds to a multiple of 2^-16 (2^-13
 *          for 8 bits), which is finer than that and coarser than the error of v y. So ties stay
 *          ties, and rounding near to an integer gives the code of the rounded quotient.
 *   exact  Otherwise near = fma(v, y, fl(v l)), where y + l is 1/s within 2^-43. It is the correctly
 *          rounded quotient, because v/s is at least 2^-12 ulp from a rounding boundary
 *          (grid_encode_isa.c).
 *
 * The residual r = x - c s of a BF16 number x and a symmetric code c has at most 11 bits: for c = 0
 * it is x, and otherwise |x| >= s/2, so that r is a multiple of s 2^-11 and at most s/2.
 *
 * Adding M = 1.5 2^23 rounds to an integer, ties to even, in the low bits of the sum; later rows of a
 * byte are added to 2^bits times the earlier ones. */
#include "methods/codecs/grid/grid_fit.h"
#include "methods/codecs/grid/grid_narrow_kernels.h"
#include "methods/codecs/hadamard/fwht_lanes.h"

#ifdef KVR_SIMD
enum { N = KVR_NARROW_TOKENS, SPAN = 2 * VL, MOST = 4 /* rows per byte */ };

#define ALWAYS static inline __attribute__((always_inline))

/* How a grid is coded; compile-time constants in each instantiation. */
struct how {
    int bits;
    bool asym, exact;
};

static const float whole = 12582912; /* M */

/* C */
ALWAYS float offset_of(struct how how)
{
    return how.exact ? 0 : how.bits == 8 ? 1536 : 192;
}

/* Scale, its reciprocal in two parts, and minimum. */
struct steps {
    vf s, y, l, m;
};

ALWAYS struct steps steps_of(vf s, vf m, struct how how)
{
    const vf about = v_about_inverse(s);
    const vf y = v_mul_add(v_minus_mul(about, s, v_set(1)), about, about);
    const vf l = how.exact ? v_mul(v_minus_mul(y, s, v_set(1)), y) : y;

    return (struct steps){ s, y, l, m };
}

/* C + v/s, to be rounded to an integer. */
ALWAYS vf near_of(vf x, const struct steps *k, struct how how)
{
    const vf v = how.asym ? v_sub(x, k->m) : x;

    return v_mul_add(v, k->y, how.exact ? v_mul(v, k->l) : v_set(offset_of(how)));
}

/* One byte of 8 / bits rows, x[i] at bit i * bits, as integers in the low bits; symmetric codes
 * still lack their bias. */
ALWAYS vi byte_of(const vf *x, const struct steps *k, int64_t each, struct how how)
{
    const int per = 8 / how.bits;
    const float base = whole - offset_of(how), more = (float)(1 << how.bits);
    vf sum = v_add(near_of(x[per - 1], k + each * (per - 1), how), v_set(base));

#pragma GCC unroll 4
    for (int i = per - 2; i >= 0; i--)
        sum = v_add(near_of(x[i], k + each * i, how),
                    v_mul_add(sum, v_set(more), v_set(base - more * whole)));
    return v_bits(sum);
}

/* The same; x becomes the residual. plainly: as decoding computes it, with the sign of zeros, which
 * only asymmetric grids can tell. */
ALWAYS vi byte_leaving(vf *x, const struct steps *k, struct how how, bool plainly)
{
    const int per = 8 / how.bits;
    vi sum = i_set(0);

#pragma GCC unroll 4
    for (int i = per - 1; i >= 0; i--) {
        const vf n = v_add(near_of(x[i], k, how), v_set(whole - offset_of(how)));
        const vf code = v_sub(n, v_set(whole));

        sum = i_add(i_left(sum, how.bits), v_bits(n));
        if (plainly)
            x[i] = v_sub(x[i], v_add(v_mul(code, k->s), how.asym ? k->m : v_set(0)));
        else
            x[i] = v_minus_mul(code, k->s, x[i]);
    }
    return sum;
}

/* Stores the bytes of SPAN channels. */
ALWAYS void store_bytes(uint8_t *to, vi even, vi odd, struct how how)
{
    int bias = 0;

    for (int i = 0; i < 8 && !how.asym; i += how.bits)
        bias |= 1 << (how.bits - 1) << i;
    i_store_low(to, i_add(i_add(even, i_left(odd, 8)), i_set(bias * 0x101)));
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

/* The order of grid_fit.h. */
ALWAYS vi in_order(vf x)
{
    return i_xor(v_bits(x), i_and(i_sign(v_bits(x)), i_set(0x7fffffff)));
}

/* Ranges of SPAN columns of BF16, whose bits are compared as in grid_encode_isa.c. */
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

/* Ranges of VL columns in registers. */
ALWAYS void range_of_column(const vf x[N], vi *low, vi *high)
{
    vi most = v_bits(x[0]), most_bits = most;

#pragma GCC unroll 16
    for (int i = 1; i < N; i++) {
        most = i_max(most, v_bits(x[i]));
        most_bits = i_max_bits(most_bits, v_bits(x[i]));
    }
    if (__builtin_expect(!i_all_signs(i_and_not(most, most_bits)), 0)) {
        vi least = v_bits(x[0]), least_bits = least;

#pragma GCC unroll 16
        for (int i = 1; i < N; i++) {
            least = i_min(least, v_bits(x[i]));
            least_bits = i_min_bits(least_bits, v_bits(x[i]));
        }
        most = i_pick(i_sign(most), least_bits, most);
        most_bits = i_pick(i_sign(most_bits), most_bits, least);
    }
    *high = in_order(v_of_bits(most));
    *low = in_order(v_of_bits(most_bits));
}

/* Whether no scale or minimum is at FP16's limit, so that nothing clips and nothing is NaN. */
ALWAYS bool moderate(const struct v_fitted *f, bool asym)
{
    const vi size = i_set(0x7fff), most = i_set(0x7bfe);
    const vi step = i_and(f->step, size);

    return i_none_over(asym ? i_max(step, i_and(f->zero, size)) : step, most);
}

/* Scales and minima of SPAN groups. */
ALWAYS void store_groups(const struct kvr_grid_block *b, int64_t at, const struct v_fitted *even,
                         const struct v_fitted *odd, bool asym)
{
    i_store(b->meta + at, i_add(even->step, i_left(odd->step, 16)));
    if (asym)
        i_store(b->meta + b->n_groups + at, i_add(even->zero, i_left(odd->zero, 16)));
}

/* ---- blocks of 16 tokens --------------------------------------------------------------- */

/* A block and the place of its current column. */
struct place {
    const struct kvr_grid_block *b;
    int64_t t0, c;
};

ALWAYS uint8_t *codes_at(const struct place *p, int row, int bits)
{
    return p->b->codes + (p->t0 / (8 / bits) + row) * p->b->channels + p->c;
}

ALWAYS int64_t group_at(const struct place *p)
{
    return p->t0 / N * p->b->channels + p->c;
}

/* Codes and stores SPAN columns that are in registers, or can be loaded again. */
ALWAYS void code_columns(const struct place *p, const vf even[N], const vf odd[N],
                         const struct v_fitted f[2], struct how how)
{
    const struct steps ke = steps_of(f[0].s, f[0].m, how), ko = steps_of(f[1].s, f[1].m, how);
    const int per = 8 / how.bits;
    vi bytes[N];

#pragma GCC unroll 16
    for (int i = 0; i < N / per; i++)
        bytes[i] = byte_of(even + i * per, &ke, 0, how);
#pragma GCC unroll 16
    for (int i = 0; i < N / per; i++)
        store_bytes(codes_at(p, i, how.bits), bytes[i], byte_of(odd + i * per, &ko, 0, how), how);
}

ALWAYS void fetch(const struct kvr_grid_soon *soon, int c)
{
    if (c * (int)sizeof(kvr_bf16) % 64 == 0)
#pragma GCC unroll 16
        for (int i = 0; i < N; i++)
            __builtin_prefetch(soon->p + i * soon->stride + (int64_t)soon->size * c, 0, 2);
}

/* Fits VL columns in registers; false if they are not moderate. */
ALWAYS bool fit_column(const struct kvr_grid *g, const vf x[N], struct v_fitted *f)
{
    vi low, high;

    range_of_column(x, &low, &high);
    *f = v_fit(g, low, high);
    return moderate(f, g->asym);
}

ALWAYS int one_grid(const struct kvr_grid_block *b, const struct kvr_narrow_rows *r, int m,
                    struct how how)
{
    const struct kvr_grid g = { .bits = how.bits, .asym = how.asym };

    for (int c = 0; c < m; c += SPAN) {
        const struct place p = { b, r->t0, r->c0 + c };
        const kvr_bf16 *x = r->x + c;
        vf even[N], odd[N];
        struct v_fitted f[2];
        vi low, high;

        fetch(r->soon, c);
        range_of_narrow(x, r->stride, &low, &high);
        f[0] = v_fit(&g, in_order(evens(low)), in_order(evens(high)));
        f[1] = v_fit(&g, in_order(odds(low)), in_order(odds(high)));
        if (!moderate(&f[0], how.asym) || !moderate(&f[1], how.asym))
            return c;
        store_groups(b, group_at(&p), &f[0], &f[1], how.asym);
#pragma GCC unroll 16
        for (int i = 0; i < N; i++) {
            even[i] = evens(i_load(x + i * r->stride));
            odd[i] = odds(i_load(x + i * r->stride));
        }
        code_columns(&p, even, odd, f, how);
    }
    return m;
}

/* Codes VL columns of x by both grids; false if a fit of the second is not moderate. */
ALWAYS bool code_twice(vf x[N], const struct v_fitted *f, struct how how, struct v_fitted *f2,
                       struct how how2, vi bytes[N], vi bytes2[N])
{
    const struct kvr_grid g2 = { .bits = how2.bits, .asym = how2.asym };
    const struct steps k = steps_of(f->s, f->m, how);
    const int per = 8 / how.bits, per2 = 8 / how2.bits;

#pragma GCC unroll 16
    for (int i = 0; i < N / per; i++)
        bytes[i] = byte_leaving(x + i * per, &k, how, how.asym || how2.asym);
    if (!fit_column(&g2, x, f2))
        return false;
    const struct steps k2 = steps_of(f2->s, f2->m, how2);

#pragma GCC unroll 16
    for (int i = 0; i < N / per2; i++)
        bytes2[i] = byte_of(x + i * per2, &k2, 0, how2);
    return true;
}

ALWAYS int two_grids(const struct kvr_grid_block *b, const struct kvr_grid_block *b2,
                     const struct kvr_narrow_rows *r, int m, struct how how, struct how how2)
{
    const struct kvr_grid g = { .bits = how.bits, .asym = how.asym };

    for (int c = 0; c < m; c += SPAN) {
        const struct place p = { b, r->t0, r->c0 + c }, p2 = { b2, r->t0, r->c0 + c };
        const kvr_bf16 *x = r->x + c;
        vi bytes[2][N], bytes2[2][N], low, high;
        struct v_fitted f[2], f2[2];
        vf v[N];

        fetch(r->soon, c);
        range_of_narrow(x, r->stride, &low, &high);
        f[0] = v_fit(&g, in_order(evens(low)), in_order(evens(high)));
        f[1] = v_fit(&g, in_order(odds(low)), in_order(odds(high)));
        if (!moderate(&f[0], how.asym) || !moderate(&f[1], how.asym))
            return c;
#pragma GCC unroll 16
        for (int i = 0; i < N; i++)
            v[i] = evens(i_load(x + i * r->stride));
        if (!code_twice(v, &f[0], how, &f2[0], how2, bytes[0], bytes2[0]))
            return c;
#pragma GCC unroll 16
        for (int i = 0; i < N; i++)
            v[i] = odds(i_load(x + i * r->stride));
        if (!code_twice(v, &f[1], how, &f2[1], how2, bytes[1], bytes2[1]))
            return c;
        store_groups(b, group_at(&p), &f[0], &f[1], how.asym);
        store_groups(b2, group_at(&p2), &f2[0], &f2[1], how2.asym);
#pragma GCC unroll 16
        for (int i = 0; i < N * how.bits / 8; i++)
            store_bytes(codes_at(&p, i, how.bits), bytes[0][i], bytes[1][i], how);
#pragma GCC unroll 16
        for (int i = 0; i < N * how2.bits / 8; i++)
            store_bytes(codes_at(&p2, i, how2.bits), bytes2[0][i], bytes2[1][i], how2);
    }
    return m;
}

/* ---- choosing an instantiation --------------------------------------------------------- */

/* Returns call(bits, asym, exact) with constants. */
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
#define CALL(...) one_grid(b, r, m, (struct how){ __VA_ARGS__ })
    BY_GRID(b->grid, false, CALL)
#undef CALL
}

/* Chains whose grids are both symmetric, the published ones, have their own loops. */
static int by_two(const struct kvr_grid_block *b, const struct kvr_grid_block *b2,
                  const struct kvr_narrow_rows *r, int m)
{
    const struct how two = { 2, false, false }, four = { 4, false, false };

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

/* Whether all magnitudes of SPAN values lie in [2^-60, 2^101); then no sum of them is -0, NaN or a
 * nonzero number outside of the range in which scaled() rounds like a division. */
ALWAYS vi distance(vi raw)
{
    return w_sub(w_twice(raw), w_set(67 << 8));
}

/* Lanes j and j ^ h in each of the n vectors, as in fwht_isa.c. */
ALWAYS void within(vec *r, int n)
{
    const bool bf16 = false;

    STRIDE(1)
    STRIDE(2)
    STRIDE(4)
#if defined(KVR_ISA_AVX512)
    STRIDE(8)
#endif
}

/* The transform of a head: vectors 2 j and 2 j + 1 have its j-th even and odd channels. False if a
 * value is out of range. The sums are those of fwht_isa.c: channels 1 apart are in two vectors, the
 * next ones within a vector. r / norm is fma(r, y, r l) with y + l = 1 / norm
 * (tests/methods/test_isa.c checks every mantissa). */
ALWAYS bool turn_head(vf *to, const kvr_bf16 *x, int d)
{
    const float norm = d == 128 ? 0x1.6a09e6p3f : 8, y = 1 / norm;
    const vf l = v_set(__builtin_fmaf(-y, norm, 1) * y);
    vi far = i_set(0);
    vec r[128 / VL];

#pragma GCC unroll 8
    for (int j = 0; j < d / SPAN; j++) {
        const vi raw = i_load(x + j * SPAN);
        const vf even = evens(raw), odd = odds(raw);

        far = w_max_bits(far, distance(raw));
        r[2 * j] = (vec)v_add(even, odd);
        r[2 * j + 1] = (vec)v_sub(even, odd);
    }
    within(r, d / VL);
#pragma GCC unroll 8
    for (int h = 2; h < d / VL; h *= 2)
#pragma GCC unroll 8
        for (int at = 0; at < d / VL / 2; at++) {
            const int i = at / h * 2 * h + at % h;
            const vec a = r[i], b = r[i + h];

            r[i] = a + b;
            r[i + h] = a - b;
        }
#pragma GCC unroll 16
    for (int i = 0; i < d / VL; i++)
        to[i] = v_mul_add((vf)r[i], v_set(y), v_mul((vf)r[i], l));
    return w_none_over_bits(far, w_set((short)((227 - 67) << 8)));
}

ALWAYS int turned(const struct kvr_grid_block *b, const struct kvr_narrow_rows *r, int m, int d,
                  struct how how)
{
    const struct kvr_grid g = { .bits = how.bits, .asym = how.asym };
    const size_t lines = 64 / sizeof(kvr_bf16);
    vf head[N][128 / VL];

    for (int c0 = 0; c0 < m; c0 += d) {
        bool usable = true;

        for (int i = 0; i < N; i++) {
            for (size_t c = 0; c < (size_t)d; c += lines)
                __builtin_prefetch(
                    r->soon->p + i * r->soon->stride + r->soon->size * ((size_t)c0 + c), 0, 2);
            usable = turn_head(head[i], r->x + i * r->stride + c0, d) && usable;
        }
        if (!usable)
            return c0;
        for (int c = c0; c < c0 + d; c += SPAN) {
            const struct place p = { b, r->t0, r->c0 + c };
            vf even[N], odd[N];
            struct v_fitted f[2];

#pragma GCC unroll 16
            for (int i = 0; i < N; i++) {
                even[i] = head[i][2 * (c - c0) / SPAN];
                odd[i] = head[i][2 * (c - c0) / SPAN + 1];
            }
            if (!fit_column(&g, even, &f[0]) || !fit_column(&g, odd, &f[1]))
                return c0;
            store_groups(b, group_at(&p), &f[0], &f[1], how.asym);
            code_columns(&p, even, odd, f, how);
        }
    }
    return m;
}

static int walsh(const struct kvr_grid_block *b, const struct kvr_narrow_rows *r, int m, int d){
#define CALL(...)                                                                                  \
    (d == 128 ? turned(b, r, m, 128, (struct how){ __VA_ARGS__ })                                  \
              : turned(b, r, m, 64, (struct how){ __VA_ARGS__ }))
    BY_GRID(b->grid, true, CALL)
#undef CALL
}

/* ---- whole tokens ---------------------------------------------------------------------- */

/* Range of a token of both signs; else false. Prefetches as many bytes at `near`. */
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

/* Codes 8 / bits tokens; steps k of each. */
ALWAYS void code_tokens(const struct kvr_grid_block *b, const struct kvr_narrow_rows *r, int t,
                        const struct steps *k, struct how how)
{
    const int per = 8 / how.bits;
    uint8_t *to = b->codes + (r->t0 + t) / per * b->channels;
    const kvr_bf16 *x = r->x + t * r->stride;

    for (int64_t c = 0; c < b->channels; c += SPAN) {
        vf even[MOST], odd[MOST];

#pragma GCC unroll 4
        for (int i = 0; i < per; i++) {
            even[i] = evens(i_load(x + i * r->stride + c));
            odd[i] = odds(i_load(x + i * r->stride + c));
        }
        store_bytes(to + c, byte_of(even, k, 1, how), byte_of(odd, k, 1, how), how);
    }
}

ALWAYS bool whole_tokens(const struct kvr_grid_block *b, const struct kvr_narrow_rows *r, int n,
                         struct how how)
{
    const struct kvr_grid g = { .bits = how.bits, .asym = how.asym };
    const int per = 8 / how.bits;
    int32_t low[VL] = { 0 }, high[VL] = { 0 }, step[VL], zero[VL];
    struct v_fitted f;
    struct steps all;
    float s[VL], y[VL], l[VL], m[VL];

    for (int i = 0; i < n; i++)
        if (!range_of_token(r->x + i * r->stride, b->channels, r->soon->p + i * r->soon->stride,
                            &low[i], &high[i]))
            return false;
    f = v_fit(&g, i_load(low), i_load(high));
    if (!moderate(&f, how.asym))
        return false;
    all = steps_of(f.s, f.m, how);
    i_store(step, f.step);
    i_store(zero, f.zero);
    v_store(s, all.s);
    v_store(y, all.y);
    v_store(l, all.l);
    v_store(m, all.m);
    for (int i = 0; i < n; i++) {
        b->meta[r->t0 + i] = (kvr_f16)step[i];
        if (how.asym)
            b->meta[b->n_groups + r->t0 + i] = (kvr_f16)zero[i];
    }
    for (int t = 0; t < n; t += per) {
        struct steps k[MOST];

#pragma GCC unroll 4
        for (int i = 0; i < per; i++)
            k[i] = (struct steps){ v_set(s[t + i]), v_set(y[t + i]), v_set(l[t + i]),
                                   v_set(m[t + i]) };
        code_tokens(b, r, t, k, how);
    }
    return true;
}

static bool rows(const struct kvr_grid_block *b, const struct kvr_narrow_rows *r, int n)
{
#define CALL(...) whole_tokens(b, r, n, (struct how){ __VA_ARGS__ })
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
