/* grid_encode_isa.c - quantization: computes the range of every group, its scale (grid_fit.h) and
 * the codes of its elements.
 *
 * In the intended version (grid.h) with F32 arithmetic, the vector loops quantize without a
 * division. Let v be an element, minus the group's minimum for `asym`, s the scale, and y an
 * approximation of 1/s within 2 ulp. The loops compute
 *
 *     q0 = v y,   r = v - q0 s,   q = q0 + r y
 *
 * with one FMA each for r and q. The result q is the correctly rounded quotient v/s, so the code is
 * the same as with a division. Proof: s is an FP16 number with 11 significand bits. The error of q0
 * is at most 5 ulp of v/s, so r has at most 15 significant bits and one FMA computes it exactly.
 * Before its final rounding, q differs from v/s by at most 5 2^-21 ulp, because y has a relative
 * error of at most 2^-21. The rounded results could differ only if v/s were that close to a
 * midpoint m of two adjacent floats. Such a midpoint has 25 significant bits, and its lowest bit is
 * 1/2 ulp. The difference v - m s is a multiple of 1/2 ulp times the lowest bit of s. It is not 0,
 * because m s has at least 25 significant bits and v has 24. Since |s| is less than 2^11 times its
 * lowest bit, v/s is at least 2^-12 ulp away from m. If r underflows, |v/s| is far below 1/2, and
 * the code is that of 0. The product q0 cannot overflow: |y| is at most 2^24, and a group with
 * values beyond the range of FP16 has the scale 65504. */
#include <assert.h>
#include <string.h>

#include "methods/codecs/grid/grid_fit.h"
#include "methods/kernels/pack.h"
#include "methods/kernels/simd.h"

enum { STRIP = KVR_GRID_STRIP, ROWS = KVR_GRID_ROWS };

/* Values of the missing rows of an incomplete group, which the study version pads with zeros
 * (grid.h). */
static const float padding[STRIP];

static float post_of(const struct kvr_grid *g)
{
    return g->asym ? 0 : (float)(1 << (g->bits - 1));
}

/* ---- ranges ---------------------------------------------------------------------------- */

#ifdef KVR_SIMD
/* For each of k VL columns from column c on, computes the largest bit pattern of n floats, compared
 * as signed integers (r->high) and as unsigned integers (r->low). In a column with values of both
 * signs, these are the maximum and the minimum. The pointer x is at column c of the first row.
 * Prefetches the odd rows of the tile at `prefetch`, which is encoded next; code_bytes() prefetches
 * the even rows. */
static inline __attribute__((always_inline)) void
bit_extremes(struct groups *restrict r, const float *restrict x, int64_t stride, int n, int c,
             int k, const struct kvr_grid_prefetch *prefetch)
{
    const int64_t below = 2 * prefetch->stride, across = VL * (int64_t)prefetch->size;
    const char *near = prefetch->p + prefetch->stride + (int64_t)prefetch->size * c;
    vi high[4], low[4]; /* only the first k elements are used */
    int i = 1;

#pragma GCC unroll 4
    for (int j = 0; j < k; j++)
        high[j] = low[j] = i_load(x + j * VL);
    for (x += stride; i + 2 <= n; i += 2, x += 2 * stride, near += below)
#pragma GCC unroll 4
        for (int j = 0; j < k; j++) {
            const vi v = i_load(x + j * VL), w = i_load(x + stride + j * VL);

            __builtin_prefetch(near + j * across, 0, 2);
            high[j] = i_max(i_max(high[j], v), w);
            low[j] = i_max_bits(i_max_bits(low[j], v), w);
        }
    if (i < n)
#pragma GCC unroll 4
        for (int j = 0; j < k; j++) {
            const vi v = i_load(x + j * VL);

            __builtin_prefetch(near + j * across, 0, 2);
            high[j] = i_max(high[j], v);
            low[j] = i_max_bits(low[j], v);
        }
#pragma GCC unroll 4
    for (int j = 0; j < k; j++) {
        i_store(r->high + c + j * VL, high[j]);
        i_store(r->low + c + j * VL, low[j]);
    }
}

/* Corrects the result of bit_extremes() for columns whose values all have the same sign. If all
 * values are negative, the maximum is the value whose bits are smallest as an unsigned integer. If
 * no value is negative, the minimum is the value whose bits are smallest as a signed integer. */
static void range_of_one_sign(const float *x, int64_t stride, int n, vi *high, vi *low)
{
    vi least = i_load(x), least_bits = least;

    for (int i = 1; i < n; i++) {
        const vi v = i_load(x + i * stride);

        least = i_min(least, v);
        least_bits = i_min_bits(least_bits, v);
    }
    *high = i_pick(i_sign(*high), least_bits, *high);
    *low = i_pick(i_sign(*low), *low, least);
}

/* Computes the minimum and maximum of m columns over n rows by comparing the bits of floats as
 * integers. If a column has a positive element, its maximum has the largest bits as a signed
 * integer. If a column has a negative element, its minimum has the largest bits as an unsigned
 * integer. Few columns lack one of the signs; range_of_one_sign() corrects their results. The
 * number m is a multiple of VL. */
static void range_of_vectors(struct groups *restrict r, const float *restrict x, int64_t stride,
                             int n, int m, const struct kvr_grid_prefetch *prefetch)
{
    enum { SIDE = 4 }; /* vectors per call, whose independent maxima hide latency */
    int at = 0;

    for (; at + SIDE * VL <= m; at += SIDE * VL)
        bit_extremes(r, x + at, stride, n, at, SIDE, prefetch);
    for (; at < m; at += VL)
        bit_extremes(r, x + at, stride, n, at, 1, prefetch);
    for (int c = 0; c < m; c += VL) {
        vi high = i_load(r->high + c), low = i_load(r->low + c);

        if (!i_all_signs(i_and_not(high, low)))
            range_of_one_sign(x + c, stride, n, &high, &low);
        i_store(r->high + c, i_xor(high, i_and(i_sign(high), i_set(0x7fffffff))));
        i_store(r->low + c, i_xor(low, i_and(i_sign(low), i_set(0x7fffffff))));
    }
}
#endif

/* Computes the range of each column of x [n][m]; a column is one group. */
static void range_across(struct groups *restrict r, const float *restrict x, int64_t stride, int n,
                         int m, const struct kvr_grid_prefetch *prefetch)
{
    int c = 0;

#ifdef KVR_SIMD
    c = m / VL * VL;
    range_of_vectors(r, x, stride, n, c, prefetch);
#else
    (void)prefetch;
#endif
    for (int e = c; e < m; e++)
        r->low[e] = r->high[e] = order_of(x[e]);
    for (int i = 1; i < n; i++)
        for (int e = c; e < m; e++) {
            const int32_t v = order_of(x[i * stride + e]);

            r->low[e] = v < r->low[e] ? v : r->low[e];
            r->high[e] = v > r->high[e] ? v : r->high[e];
        }
}

#ifdef KVR_SIMD
/* Computes the range of n contiguous values by comparing their bits as integers, as
 * range_of_vectors() does. The number n is a positive multiple of VL. */
static void range_of_row(const float *x, int64_t n, int32_t *low, int32_t *high)
{
    vi most[2], most_bits[2];
    int64_t i = 0;

    for (int j = 0; j < 2; j++)
        most[j] = most_bits[j] = i_load(x);
    for (; i + 2 * VL <= n; i += 2 * VL)
#pragma GCC unroll 2
        for (int j = 0; j < 2; j++) {
            const vi v = i_load(x + i + j * VL);

            most[j] = i_max(most[j], v);
            most_bits[j] = i_max_bits(most_bits[j], v);
        }
    if (i < n) {
        most[0] = i_max(most[0], i_load(x + i));
        most_bits[0] = i_max_bits(most_bits[0], i_load(x + i));
    }
    *high = i_most(i_max(most[0], most[1]));
    *low = (int32_t)i_most_bits(i_max_bits(most_bits[0], most_bits[1]));
    if (*high < 0 || *low >= 0) { /* all values have the same sign */
        vi least = i_load(x), least_bits = least;

        for (i = VL; i < n; i += VL) {
            least = i_min(least, i_load(x + i));
            least_bits = i_min_bits(least_bits, i_load(x + i));
        }
        *high = *high < 0 ? (int32_t)i_least_bits(least_bits) : *high;
        *low = *low < 0 ? *low : i_least(least);
    }
    *high ^= *high < 0 ? 0x7fffffff : 0;
    *low ^= *low < 0 ? 0x7fffffff : 0;
}
#endif

/* Computes the range of one group of n contiguous values. */
static void range_along(struct groups *r, int group, const float *x, int64_t n)
{
    int32_t low = INT32_MAX, high = INT32_MIN;
    int64_t i = 0;

#ifdef KVR_SIMD
    i = n / VL * VL;
    if (i)
        range_of_row(x, i, &low, &high);
#endif
    for (; i < n; i++) {
        const int32_t v = order_of(x[i]);

        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    r->low[group] = low;
    r->high[group] = high;
}

/* ---- codes ----------------------------------------------------------------------------- */

/* NaN gets code 0. The scale of a group with a NaN is NaN. */
static inline uint8_t code_of(float x, float s, float m, float pre, float post, float top,
                              bool bf16)
{
    float v;

    if (bf16)
        v = bf16_of(bf16_of(bf16_of(x - m) / s) + pre);
    else
        v = (x - m) / s + pre;
    v = rintf(v) + post;
    v = v > 0 ? v : 0;
    v = v < top ? v : top;
    return (uint8_t)(int)v;
}

/* Quantizes a row of n elements, where element c belongs to group from + c. */
static void code_across(const struct kvr_grid_block *b, uint8_t *restrict code,
                        const float *restrict x, const struct groups *restrict r, int from, int n)
{
    const float top = (float)((1 << b->grid.bits) - 1), post = post_of(&b->grid);
    const float *s = r->s + from, *m = r->m + from, *pre = r->pre + from;

    if (b->bf16)
        for (int c = 0; c < n; c++)
            code[c] = code_of(x[c], s[c], m[c], pre[c], post, top, true);
    else
        for (int c = 0; c < n; c++)
            code[c] = code_of(x[c], s[c], m[c], pre[c], post, top, false);
}

/* Quantizes a row of n elements that all belong to group `group`. */
static void code_along(const struct kvr_grid_block *b, uint8_t *restrict code,
                       const float *restrict x, const struct groups *r, int group, int n)
{
    const float top = (float)((1 << b->grid.bits) - 1), post = post_of(&b->grid);
    const float s = r->s[group], m = r->m[group], pre = r->pre[group];

    if (b->bf16)
        for (int c = 0; c < n; c++)
            code[c] = code_of(x[c], s, m, pre, post, top, true);
    else
        for (int c = 0; c < n; c++)
            code[c] = code_of(x[c], s, m, pre, post, top, false);
}

/* Rows of x to quantize. If `along`, groups are parts of rows, and element (i, c) belongs to group
 * first + i groups_per_row + c / width. Otherwise groups are columns, and it belongs to group first
 * + c. */
struct rows {
    const float *x;
    int64_t stride;
    float *residual; /* receives x minus the decoded values, or is NULL */
    int64_t residual_stride;
    int n_valid, n; /* number of rows of x; the same plus the study version's rows of zeros */
    int first, groups_per_row, width;
    bool along;
    const struct kvr_grid_prefetch *prefetch; /* not NULL if groups are columns */
};

static void code_plainly(const struct kvr_grid_block *b, const struct rows *w, int64_t t0,
                         int64_t c0, int m, const struct groups *r)
{
    uint8_t codes[ROWS * STRIP];

    for (int t = 0; t < w->n; t += ROWS) {
        const int n = w->n - t < ROWS ? w->n - t : ROWS;

        for (int i = 0; i < n; i++) {
            const float *x = t + i < w->n_valid ? w->x + (t + i) * w->stride : padding;

            if (!w->along)
                code_across(b, codes + i * m, x, r, w->first, m);
            for (int c = 0; c < m && w->along; c += w->width)
                code_along(b, codes + i * m + c, x + c, r,
                           w->first + (t + i) * w->groups_per_row + c / w->width,
                           m - c < w->width ? m - c : w->width);
        }
        kvr_pack(b->codes, b->stored, b->channels, b->grid.bits, t0 + t, n, c0, m, codes);
    }
}

#ifdef KVR_SIMD
enum { QUAD = 4 * VL };

struct reciprocals {
    float y[FIT];
    bool clip; /* the result of clips() */
};

/* Parameters of the vector loops, which are compile-time constants in every call. */
struct variant {
    int bits;
    bool asym, along, keep_residual;
    bool clip; /* quotients may exceed the range of codes and must be clamped */
};

/* Scales s, their reciprocals y, and minima m of the groups to which the elements of a vector
 * belong. */
struct encode_params {
    vf s, y, m;
};

static inline __attribute__((always_inline)) vi code_vector(vf x, const struct encode_params *k,
                                                            struct variant variant)
{
    const int post = variant.asym ? 0 : 1 << (variant.bits - 1), top = (1 << variant.bits) - 1;
    const vf v = variant.asym ? v_sub(x, k->m) : x, q0 = v_mul(v, k->y);
    const vf q = v_mul_add(v_minus_mul(q0, k->s, v), k->y, q0);
    const vf q_min = v_set((float)-post), q_max = v_set((float)(top - post));

    return v_nearest(variant.clip ? v_min(v_max(q, q_min), q_max) : q);
}

/* Returns x minus the decoded value of `code`, which is rounded as in the decoder. */
static inline __attribute__((always_inline)) vf
residual_of(vf x, vi code, const struct encode_params *k, struct variant variant)
{
    return v_sub(x, v_add(v_mul(v_of_int(code), k->s), variant.asym ? k->m : v_set(0)));
}

/* Quantizes m channels of rows t to t + n - 1 of w, and packs them into one row of m bytes. Each
 * byte has the codes of one channel: that of row t + i starts at bit i * bits. The number m is a
 * multiple of QUAD. Pointers in *w, *r and *inv are copied to local variables, because the compiler
 * must assume that a store to `out` changes these structs. */
static inline __attribute__((always_inline)) void
code_bytes(const struct rows *w, int t, int n, int m, struct variant variant,
           const struct groups *r, const struct reciprocals *inv, uint8_t *out)
{
    enum { MAX_ROWS = 4 }; /* maximum number of rows per byte, for 2-bit codes */
    const int post = variant.asym ? 0 : 1 << (variant.bits - 1);
    const int64_t across = variant.along ? 0 : VL * (int64_t)w->prefetch->size;
    const float *s = r->s + w->first, *y = inv->y + w->first, *low = r->m + w->first;
    const float *x[MAX_ROWS];
    float *residual[MAX_ROWS];
    const char *near[MAX_ROWS];
    struct encode_params row[MAX_ROWS];
    int bias = 0;

#pragma GCC unroll 4
    for (int i = 0; i < n; i++) {
        const int group = w->first + (t + i) * w->groups_per_row;

        bias |= post << i * variant.bits;
        x[i] = w->x + (t + i) * w->stride;
        if (variant.keep_residual)
            residual[i] = w->residual + (t + i) * w->residual_stride;
        if (variant.along)
            row[i] = (struct encode_params){ v_set(r->s[group]), v_set(inv->y[group]),
                                             v_set(r->m[group]) };
        else
            near[i] = w->prefetch->p + (t + i) * w->prefetch->stride;
    }
    for (int c = 0; c < m; c += QUAD) {
        vi byte[4];

#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            const int at = c + k * VL;
            struct encode_params column;
            vi sum = i_set(0);

            if (!variant.along)
                column = (struct encode_params){ v_load(s + at), v_load(y + at), v_load(low + at) };
#pragma GCC unroll 4
            for (int i = n - 1; i >= 0; i--) {
                const struct encode_params *params = variant.along ? &row[i] : &column;
                const vf v = v_load(x[i] + at);
                const vi code = code_vector(v, params, variant);

                if (variant.keep_residual)
                    v_store(residual[i] + at, residual_of(v, code, params, variant));
                if (!variant.along && (i + t) % 2 == 0)
                    __builtin_prefetch(near[i] + k * across, 0, 2);
                sum = i_add(i_left(sum, variant.bits), code);
            }
            byte[k] = i_add(sum, i_set(bias));
        }
        for (int i = 0; i < n && !variant.along; i++)
            near[i] += 4 * across;
        i_store_bytes(out + c, byte[0], byte[1], byte[2], byte[3]);
    }
}

/* Quantizes m channels of all rows and packs the codes of 8 / bits rows into each row of bytes. */
static inline __attribute__((always_inline)) void
code_plane(const struct kvr_grid_block *b, const struct rows *w, int64_t t0, int64_t c0, int m,
           struct variant variant, const struct groups *r, const struct reciprocals *inv)
{
    const int per = 8 / variant.bits;

    for (int t = 0; t < w->n; t += per) {
        uint8_t *out = b->codes + (t0 + t) / per * b->channels + c0;

        if (w->n - t < per)
            code_bytes(w, t, w->n - t, m, variant, r, inv, out);
        else
            code_bytes(w, t, per, m, variant, r, inv, out);
    }
}

static inline __attribute__((always_inline)) void
code_variant(const struct kvr_grid_block *b, const struct rows *w, int64_t t0, int64_t c0, int m,
             int bits, bool asym, const struct groups *r, const struct reciprocals *inv)
{
    const bool clip = inv->clip;

    if (w->along && clip)
        code_plane(b, w, t0, c0, m, (struct variant){ bits, asym, true, false, true }, r, inv);
    else if (w->along)
        code_plane(b, w, t0, c0, m, (struct variant){ bits, asym, true, false, false }, r, inv);
    else if (w->residual && clip)
        code_plane(b, w, t0, c0, m, (struct variant){ bits, asym, false, true, true }, r, inv);
    else if (w->residual)
        code_plane(b, w, t0, c0, m, (struct variant){ bits, asym, false, true, false }, r, inv);
    else if (clip)
        code_plane(b, w, t0, c0, m, (struct variant){ bits, asym, false, false, true }, r, inv);
    else
        code_plane(b, w, t0, c0, m, (struct variant){ bits, asym, false, false, false }, r, inv);
}

static void code_vectors(const struct kvr_grid_block *b, const struct rows *w, int64_t t0,
                         int64_t c0, int m, const struct groups *r, const struct reciprocals *inv)
{
    switch (b->grid.bits * 2 + b->grid.asym) {
    case 4:
        code_variant(b, w, t0, c0, m, 2, false, r, inv);
        break;
    case 5:
        code_variant(b, w, t0, c0, m, 2, true, r, inv);
        break;
    case 8:
        code_variant(b, w, t0, c0, m, 4, false, r, inv);
        break;
    case 9:
        code_variant(b, w, t0, c0, m, 4, true, r, inv);
        break;
    case 16:
        code_variant(b, w, t0, c0, m, 8, false, r, inv);
        break;
    default:
        code_variant(b, w, t0, c0, m, 8, true, r, inv);
        break;
    }
}

/* Returns whether a quotient may exceed the range of codes. This is possible only if a scale or
 * minimum was clamped to 65504, the largest FP16 number. An unclamped scale is rounded up and an
 * unclamped minimum down, so every quotient rounds to a valid code. */
static bool clips(const struct groups *restrict r, int n, bool asym)
{
    const unsigned size = 0x7fff, largest = 0x7bff; /* infinities and NaN have larger bits */
    unsigned most = 0;

    for (int i = 0; i < n; i++)
        most = (r->scale[i] & size) > most ? r->scale[i] & size : most;
    for (int i = 0; i < n && asym; i++)
        most = (r->zero[i] & size) > most ? r->zero[i] & size : most;
    return most >= largest;
}

static void invert(struct reciprocals *restrict inv, const struct groups *restrict r, int n,
                   bool asym)
{
    int i = 0;

    inv->clip = clips(r, n, asym);
    for (; i + VL <= n; i += VL) {
        const vf s = v_load(r->s + i), y = v_about_inverse(s);

        v_store(inv->y + i, v_mul_add(v_minus_mul(y, s, v_set(1)), y, y));
    }
    for (; i < n; i++)
        inv->y[i] = 1.0f / r->s[i];
}
#endif

/* Returns whether code_vectors() supports this block. It does not support the study version
 * (grid.h), which divides by FP32 scales. */
static bool by_vectors(const struct kvr_grid_block *b)
{
#ifdef KVR_SIMD
    const int bits = b->grid.bits;

    return !b->study && !b->bf16 && (bits == 2 || bits == 4 || bits == 8);
#else
    (void)b;
    return false;
#endif
}

/* Quantizes channels [c0, c0 + m) of the rows, with the scales of their groups in r. `inv` has the
 * reciprocals of the scales for code_vectors(), or is NULL. */
static void code(const struct kvr_grid_block *b, const struct rows *w, int64_t t0, int64_t c0,
                 int m, const struct groups *r, const void *inv)
{
    struct rows rest = *w;
    int done = 0;

#ifdef KVR_SIMD
    if (inv) {
        done = m / QUAD * QUAD;
        code_vectors(b, w, t0, c0, done, r, inv);
    }
#else
    (void)inv;
#endif
    if (done == m)
        return;
    rest.x += done;
    rest.first += w->along ? 0 : done;
    code_plainly(b, &rest, t0, c0 + done, m - done, r);
}

/* ---- blocks ---------------------------------------------------------------------------- */

static void store_groups(const struct kvr_grid_block *b, int64_t at, const struct groups *r,
                         int from, int n)
{
    memcpy(b->scales + at, r->scale + from, (size_t)n * sizeof *b->scales);
    if (b->grid.asym)
        memcpy(b->scales + b->n_groups + at, r->zero + from, (size_t)n * sizeof *b->scales);
}

static void encode_tokens(const struct kvr_grid_block *b, int64_t t0, int64_t c0, int m,
                          const float *x, int64_t stride, float *residual, int64_t residual_stride,
                          const struct kvr_grid_prefetch *prefetch)
{
    const int64_t n_stored = b->stored - t0, n_tok = b->n_tok - t0;
    const int n = (int)(n_stored < b->grid.group ? n_stored : b->grid.group);
    const int n_valid = (int)(n_tok < 0 ? 0 : n_tok < n ? n_tok : n);
    const struct rows w = { .x = x,
                            .stride = stride,
                            .residual = residual,
                            .residual_stride = residual_stride,
                            .n_valid = n_valid,
                            .n = n,
                            .prefetch = prefetch };
    struct groups r;
#ifdef KVR_SIMD
    struct reciprocals inv_;
#endif
    const void *inv = NULL;

    assert(b->grid.group > 0 && m > 0);
    range_across(&r, n_valid ? x : padding, stride, n_valid ? n_valid : 1, m, prefetch);
    for (int c = 0; c < m && n_valid < n; c++) {
        r.low[c] = r.low[c] < 0 ? r.low[c] : 0;
        r.high[c] = r.high[c] > 0 ? r.high[c] : 0;
    }
    fit(b, &r, m);
    store_groups(b, t0 / b->grid.group * b->channels + c0, &r, 0, m);
#ifdef KVR_SIMD
    if (by_vectors(b)) {
        invert(&inv_, &r, m, b->grid.asym);
        inv = &inv_;
    }
#endif
    code(b, &w, t0, c0, m, &r, inv);
}

/* Encodes `rows` tokens of a grid whose groups are `width` contiguous channels of one token
 * (axis=channels or token). Processes `span` channels at a time: as many complete groups as STRIP
 * channels contain, or one group if it is wider. */
static void encode_some_rows(const struct kvr_grid_block *b, int64_t t0, int rows, const float *x)
{
    const int64_t channels = b->channels;
    const int64_t width = b->grid.axis == KVR_AXIS_TOKEN ? channels : b->grid.group;
    const int64_t span = width < STRIP ? STRIP / width * width : width;
    const int64_t n_tok = b->n_tok - t0;
    const int n_valid = (int)(n_tok < 0 ? 0 : n_tok < rows ? n_tok : rows);
    struct groups r;
#ifdef KVR_SIMD
    struct reciprocals inv_;
#endif
    const void *inv = NULL;
    bool one_by_one = false; /* whether each vector of code_vectors() lies within one group */

    for (int64_t first = 0; first < channels; first += span) {
        const int64_t last = channels - first < span ? channels : first + span;
        const int k = (int)((last - first) / width); /* number of groups per token in these
                                                      * channels */

        assert(k > 0);
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < k; j++)
                range_along(&r, i * k + j,
                            i < n_valid ? x + i * channels + first + j * width : padding,
                            i < n_valid ? width : 1);
        fit(b, &r, rows * k);
        for (int i = 0; i < rows; i++)
            store_groups(b, ((t0 + i) * channels + first) / width, &r, i * k, k);
#ifdef KVR_SIMD
        one_by_one = by_vectors(b) && (k == 1 || width % QUAD == 0);
        if (one_by_one) {
            invert(&inv_, &r, rows * k, b->grid.asym);
            inv = &inv_;
        }
#endif
        for (int64_t c0 = first; c0 < last;) {
            const int64_t piece = k > 1 && one_by_one ? width : STRIP;
            const int m = (int)(last - c0 < piece ? last - c0 : piece);
            const struct rows w = { .x = x + c0,
                                    .stride = channels,
                                    .n_valid = n_valid,
                                    .n = rows,
                                    .first = (int)((c0 - first) / width),
                                    .groups_per_row = k,
                                    .width = (int)width,
                                    .along = true };

            code(b, &w, t0, c0, m, &r, inv);
            c0 += m;
        }
    }
}

static void encode_rows(const struct kvr_grid_block *b, int64_t t0, int rows, const float *x)
{
    const int n = (int)(b->stored - t0 < rows ? b->stored - t0 : rows);
    /* The range of a row must be known before its codes. With axis=token, only 4 rows are processed
     * at a time, so that they are still in the CPU cache when their codes are computed. Fewer rows
     * would not fill the bytes of 2-bit codes. */
    const int some = by_vectors(b) && b->grid.axis == KVR_AXIS_TOKEN ? 4 : ROWS;

    for (int t = 0; t < n; t += some)
        encode_some_rows(b, t0 + t, n - t < some ? n - t : some, x + t * b->channels);
}

static bool returns_residual(const struct kvr_grid_block *b, int64_t m)
{
#ifdef KVR_SIMD
    return by_vectors(b) && b->grid.axis == KVR_AXIS_TOKENS && m % QUAD == 0;
#else
    (void)b;
    (void)m;
    return false;
#endif
}

const struct kvr_grid_encoders KVR_ISA_NAME(kvr_grid_encoders) = {
    .tokens = encode_tokens,
    .returns_residual = returns_residual,
    .rows = encode_rows,
};
