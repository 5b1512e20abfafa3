/* cells.h - quantization formats in which a group of channels of one head and token shares a scale,
 * for the stages `ints`, `floats`, `gauss` and `iq4_nl`. CPU and CUDA share the arithmetic in this
 * header.
 *
 * A group has G consecutive channels of one head of one token. A group has a scale s and, in some
 * formats, an offset m, which is a minimum or a zero point. The numbers s and m are rounded to
 * their storage types. An element x becomes a code q, which decodes to x^:
 *
 *     ints      x^ = (q - 2^(b-1)) s     no zero point
 *               x^ = q s + m             a minimum
 *               x^ = (q - m) s           a zero point
 *     floats    x^ = value(q) s          value: E4M3, E5M2, E3M2, E2M3 or E2M1
 *     levels    x^ = level[q] s
 *
 * The functions are compiled for host and device and give identical bits. Sums over a group add the
 * channels in ascending order. CUDA code multiplies by a reciprocal instead of dividing, and then
 * corrects the product to the correctly rounded quotient (quotient.h).
 *
 * The codes of a block are packed into bit planes (pack.h). The side information of a block starts
 * with its largest magnitude in FP32, if the format needs it. Then come the array of all scales s
 * and the array of all offsets m: the array with the wider elements comes first, or the scales if
 * the widths are equal.
 *
 * A group with a non-finite element gets a scale of NaN. If scales are relative to the block's
 * largest magnitude, all groups of the block then get NaN. Formats without a scale have a code
 * for NaN. */
#ifndef KVR_METHODS_CELLS_H
#define KVR_METHODS_CELLS_H

#include <math.h>

#include "methods/part.h"

#ifdef __cplusplus
#include "harness/device/number.cuh"
#include "methods/kernels/quotient.h"
#define CELLS static __device__ __forceinline__
/* CELLS declares functions that only kernels call. CELLS_BOTH declares functions that are also
 * compiled for the host, because the code that launches kernels calls them. */
#define CELLS_BOTH static __host__ __device__ __forceinline__
typedef kvr_global<const float> cells_in;
typedef kvr_global<const uint8_t> cells_bytes_in;
#define cells_bits __float_as_uint
#define cells_float __uint_as_float
#define cells_half kvr_half_of
#define cells_unhalf kvr_float_of
#else
#define CELLS static inline
#define CELLS_BOTH static inline
typedef const float *cells_in;
typedef const uint8_t *cells_bytes_in;
#define cells_bits kvr_f32_bits
#define cells_float kvr_bits_f32
#define cells_half kvr_f32_to_f16
#define cells_unhalf kvr_f16_to_f32
#endif

enum { CELLS_MAX_GROUP = 256, CELLS_MAX_LEVELS = 16 };

/* Reads a little-endian number of `size` <= 4 bytes at byte offset `at`, which need not be
 * aligned. */
CELLS unsigned cells_get(cells_bytes_in p, int64_t at, int size)
{
    unsigned raw = 0;

    for (int b = 0; b < size; b++)
        raw |= (unsigned)p[at + b] << (8 * b);
    return raw;
}

#ifndef __cplusplus
/* Writes the lowest `size` <= 4 bytes of `raw` at byte offset `at`, little-endian, as cells_get()
 * reads them. */
static inline void cells_put(uint8_t *to, int64_t at, int size, unsigned raw)
{
    for (int b = 0; b < size; b++)
        to[at + b] = (uint8_t)(raw >> (8 * b));
}
#endif

enum cells_kind { CELLS_INTS, CELLS_FLOATS, CELLS_LEVELS };

/* Storage type of a group's scale, or of its minimum or zero point. With CELLS_ONE, nothing is
 * stored, and the scale is 1. With CELLS_BLOCK, groups store no scale, and the scale is computed
 * from the block's largest magnitude. */
enum cells_number {
    CELLS_ONE,
    CELLS_BLOCK,
    CELLS_F32,
    CELLS_F16,
    CELLS_BF16,
    CELLS_E4M3,
    CELLS_E8M0,
    CELLS_E4M3_UP, /* E4M3, with the scale rounded up, so that no element clips */
    CELLS_U8
};

enum cells_zero { CELLS_NO_ZERO, CELLS_MINIMUM, CELLS_POINT, CELLS_HIDDEN };
enum cells_round { CELLS_EVEN, CELLS_AWAY, CELLS_UP, CELLS_TRUNC };
/* How elements are scaled before they are rounded to codes. STORED divides by the stored scale.
 * UNROUNDED divides by the scale before it was rounded to its storage type. INVERSE multiplies by
 * the reciprocal of the unrounded scale. */
enum cells_by { CELLS_STORED, CELLS_UNROUNDED, CELLS_INVERSE };
/* How the scale is computed from a group's elements. TOP maps the group's largest magnitude to the
 * largest value of the format; E8M0 scales are then rounded up to a power of two. FLOOR, for E8M0
 * scales, rounds both numbers down to powers of two and divides the first by the second, as in OCP
 * MX. BEST, for E2M1, maps the group's largest magnitude to 6 or to 4, whichever gives the smaller
 * squared error. */
enum cells_pick { CELLS_TOP, CELLS_FLOOR, CELLS_BEST };
enum cells_fit_of_levels { CELLS_NORM, CELLS_NORM_KEPT, CELLS_REFIT };

struct cells {
    int kind, bits, group;
    int scale, zero, second; /* scale, second: storage types (enum cells_number) of the scale s and
                              * of the offset m; zero: whether m is a minimum or a zero point (enum
                              * cells_zero) */
    int round, by, pick, of_levels;
    bool first_extreme; /* whether the element of largest magnitude is mapped to -2^(b-1), by a
                         * scale of the opposite sign */
    bool relative;      /* whether scales are stored as fractions of a block scale, which is
                         * computed from the block's largest magnitude */
    float clip, quantile, least;
    int man, emin; /* CELLS_FLOATS: number of mantissa bits, and the exponent of the smallest normal
                    * number */
    float top;     /* CELLS_FLOATS: largest value */
    int nan;       /* CELLS_FLOATS: code of NaN, or -1 if the format has no NaN */
    float level[CELLS_MAX_LEVELS];
    /* Numbers of tokens, channels (H*D) and groups of the block. Its side information has
     * params_bytes bytes. The array of scales s starts at byte scale_at, and the array of offsets m
     * at byte second_at. */
    int64_t n_tok, channels, n_groups;
    size_t scale_at, second_at, params_bytes;
};

struct cells_fit {
    float s, m;      /* as decoded */
    float by, low;   /* code q: (x - low) / by, or (x - low) * by if `inverse` is set, rounded */
    unsigned raw, z; /* as stored */
    bool inverse, bad;
    float inv; /* 1 / by, or 0 if cells_quotient() must divide by `by` */
};

CELLS size_t cells_size(int number)
{
    return number == CELLS_F32                           ? 4
           : number == CELLS_F16 || number == CELLS_BF16 ? 2
           : number <= CELLS_BLOCK                       ? 0
                                                         : 1;
}

/* 2^e, e in -126..127. */
CELLS float cells_pow2(int e)
{
    return cells_float((unsigned)(e + 127) << 23);
}

/* Returns 1/s, with which cells_quotient() multiplies instead of dividing. Returns 0 if |s| is
 * outside [2^-60, 2^60], where cells_quotient() must divide. */
CELLS float cells_inverse(float s)
{
    return fabsf(s) >= cells_pow2(-60) && fabsf(s) <= cells_pow2(60) ? 1 / s : 0;
}

/* Returns y / s, correctly rounded, given inv = cells_inverse(s). On CUDA, a quotient above 1e38
 * may be off by a few ulp; callers clamp such quotients to the largest code. */
CELLS float cells_quotient(float y, float s, float inv)
{
#ifdef __cplusplus
    if (inv != 0 && (fabsf(y) >= cells_pow2(-80) || y == 0))
        return kvr_quotient_any(y, s, inv);
#else
    (void)inv;
#endif
    return y / s;
}

/* Rounds x, which is not NaN, to a minifloat of `bits` bits with `man` mantissa bits, ties to even.
 * The smallest normal number is 2^emin. Magnitudes above `top` become `top`. The highest bit of the
 * returned code is the sign. */
CELLS unsigned cells_mini(float x, int man, int emin, float top, int bits)
{
    const float a = fminf(fabsf(x), top);
    int e = (int)(cells_bits(a) >> 23) - 127;
    unsigned q;

    e = e < emin ? emin : e;
    q = (unsigned)rintf(a * cells_pow2(man - e)) + ((unsigned)(e - emin) << man);
    return q | (cells_bits(x) >> 31 ? 1u << (bits - 1) : 0u);
}

CELLS float cells_unmini(unsigned q, int man, int emin, int bits)
{
    const unsigned size = q & ((1u << (bits - 1)) - 1u);
    const int e = (int)(size >> man);
    const float m = (float)((size & ((1u << man) - 1u)) + (e ? 1u << man : 0u));
    const float v = m * cells_pow2((e ? e - 1 : 0) + emin - man);

    return q >> (bits - 1) & 1u ? -v : v;
}

/* Like cells_mini(), but if the rounded |x| is below |x|, returns the next larger magnitude of the
 * format, up to `top`. */
CELLS unsigned cells_mini_up(float x, int man, int emin, float top, int bits)
{
    const unsigned q = cells_mini(x, man, emin, top, bits);
    const float v = fabsf(cells_unmini(q, man, emin, bits));

    return v < fabsf(x) && v < top ? q + 1 : q;
}

/* Returns the bits of x rounded to the storage type `number`. A NaN, which marks a group with
 * non-finite elements, becomes the type's NaN, or 0 for CELLS_U8. */
CELLS unsigned cells_store(int number, float x)
{
    unsigned h;

    switch (number) {
    case CELLS_F32:
        return cells_bits(x);
    case CELLS_F16:
        h = cells_half(x);
        return x != x ? 0x7e00u : (h & 0x7fffu) < 0x7c00u ? h : (h & 0x8000u) | 0x7bffu;
    case CELLS_BF16:
        h = cells_bits(x);
        return x != x ? 0x7fc0u : (h + 0x7fffu + (h >> 16 & 1u)) >> 16;
    case CELLS_E4M3:
        return x != x ? 0x7fu : cells_mini(x, 3, -6, 448, 8);
    case CELLS_E4M3_UP:
        return x != x ? 0x7fu : cells_mini_up(x, 3, -6, 448, 8);
    case CELLS_E8M0: /* x is already a power of two */
        return x != x ? 255u : cells_bits(x) >> 23;
    case CELLS_U8:
        return x != x ? 0u : (unsigned)x;
    default:
        return 0;
    }
}

CELLS float cells_load(int number, unsigned raw)
{
    switch (number) {
    case CELLS_F32:
        return cells_float(raw);
    case CELLS_F16:
        return cells_unhalf((kvr_f16)raw);
    case CELLS_BF16:
        return cells_float(raw << 16);
    case CELLS_E4M3:
    case CELLS_E4M3_UP:
        return raw == 0x7fu ? cells_float(0x7fc00000u) : cells_unmini(raw, 3, -6, 8);
    case CELLS_E8M0:
        return raw == 255u ? cells_float(0x7fc00000u) : cells_float(raw << 23);
    case CELLS_U8:
        return (float)raw;
    default:
        return 1;
    }
}

/* Rounds x >= 0 up (if `up` is set) or down to a power of two. The result is at least 2^-126. */
CELLS float cells_power(float x, bool up)
{
    const unsigned u = cells_bits(x);
    int e = (int)(u >> 23) - 127 + (up && (u & 0x7fffffu) ? 1 : 0);

    e = e < -126 ? -126 : e > 127 ? 127 : e;
    return cells_pow2(e);
}

/* Returns the magnitude that has index `rank` if the magnitudes of elements x[at .. at + n) are
 * sorted in ascending order. */
CELLS float cells_ranked(cells_in x, int64_t at, int n, int rank)
{
    unsigned low = 0, high = 0x7f800000u;

    while (low < high) {
        const unsigned mid = low + (high - low) / 2;
        int below = 0;

        for (int i = 0; i < n; i++)
            below += (cells_bits(x[at + i]) & 0x7fffffffu) <= mid;
        if (below > rank)
            high = mid;
        else
            low = mid + 1;
    }
    return cells_float(low);
}

/* Returns the quantile `share`, a number in [0, 1], of the magnitudes of elements x[at .. at + n),
 * interpolated linearly. */
CELLS float cells_quantile(cells_in x, int64_t at, int n, float share)
{
    const float rank = share * (float)(n - 1);
    const int below = (int)rank;
    const float a = cells_ranked(x, at, n, below);

    return below + 1 < n ? a + (rank - (float)below) * (cells_ranked(x, at, n, below + 1) - a) : a;
}

CELLS float cells_rounded(float y, int how)
{
    const float a = fabsf(y);
    float f;

    switch (how) {
    case CELLS_EVEN:
        return rintf(y);
    case CELLS_TRUNC:
        return truncf(y);
    case CELLS_AWAY:
        f = floorf(a);
        f += a - f >= 0.5f ? 1.0f : 0.0f;
        return y < 0 ? -f : f;
    default:
        return floorf(y + 0.5f);
    }
}

CELLS float cells_clamp(float x, float lo, float hi)
{
    return !(x >= lo) ? lo : x > hi ? hi : x; /* NaN gives lo */
}

/* Index of the level nearest to v, or of the higher level if two levels are equally near. */
CELLS unsigned cells_nearest(const struct cells *c, float v)
{
    const int n = 1 << c->bits;
    unsigned q = 0;

    for (int i = 0; i + 1 < n; i++)
        q += v >= 0.5f * (c->level[i] + c->level[i + 1]);
    return q;
}

CELLS unsigned cells_code(const struct cells *c, const struct cells_fit *f, float x)
{
    const float qm = (float)((1 << (c->bits - 1)) - 1), half = qm + 1;
    float y;

    if (f->bad)
        return 0;
    y = f->inverse ? (x - f->low) * f->by : cells_quotient(x - f->low, f->by, f->inv);
    if (c->kind == CELLS_FLOATS) {
        if ((cells_bits(x) & 0x7fffffffu) >= 0x7f800000u)
            return (unsigned)c->nan;
        return cells_mini(y, c->man, c->emin, c->top, c->bits);
    }
    if (c->kind == CELLS_LEVELS)
        return cells_nearest(c, y);
    if (c->zero == CELLS_MINIMUM)
        return (unsigned)cells_clamp(cells_rounded(y, c->round), 0, 2 * qm + 1);
    if (c->zero != CELLS_NO_ZERO)
        return (unsigned)cells_clamp(cells_rounded(y + f->m, c->round), 0, 2 * qm + 1);
    if (c->round == CELLS_UP) /* as in ggml's Q4_0, one addition adds both 2^(b-1), which makes the
                               * code unsigned, and 0.5, with which floorf() rounds to nearest */
        return (unsigned)cells_clamp(floorf(y + (half + 0.5f)), c->first_extreme ? 0 : 1,
                                     2 * qm + 1);
    return (unsigned)(cells_clamp(cells_rounded(y, c->round), c->first_extreme ? -half : -qm, qm) +
                      half);
}

CELLS float cells_value(const struct cells *c, const struct cells_fit *f, unsigned q)
{
    switch (c->kind) {
    case CELLS_INTS:
        return c->zero == CELLS_MINIMUM   ? (float)q * f->s + f->m
               : c->zero != CELLS_NO_ZERO ? ((float)q - f->m) * f->s
                                          : ((float)q - (float)(1 << (c->bits - 1))) * f->s;
    case CELLS_FLOATS:
        if ((int)q == c->nan)
            return cells_float(0x7fc00000u);
        return cells_unmini(q, c->man, c->emin, c->bits) * f->s;
    default:
        return c->level[q] * f->s;
    }
}

/* Decodes into `f` a group's scale from its stored bits `raw`, and its offset m from its stored
 * bits z; with CELLS_HIDDEN, m is the lowest 4 bits of `raw`. `most` is the block's largest
 * magnitude. Relative scales are multiplied by it, and with CELLS_BLOCK the scale is computed from
 * it. */
CELLS void cells_read(const struct cells *c, unsigned raw, unsigned z, float most,
                      struct cells_fit *f)
{
    f->s = cells_load(c->scale, raw);
    f->m = c->second ? cells_load(c->second, z) : 0;
    if (c->zero == CELLS_HIDDEN)
        f->m = (float)(raw & 15u);
    if (c->scale == CELLS_BLOCK) {
        const float top = c->kind == CELLS_FLOATS ? c->top : (float)((1 << (c->bits - 1)) - 1);

        f->s = cells_bits(most) >= 0x7f800000u ? cells_float(0x7fc00000u) : most / top;
        f->s = f->s < c->least ? c->least : f->s;
    }
    if (c->relative) { /* The group with the block's largest magnitude stores the scale 448, the
                        * largest E4M3 number. With CELLS_BEST, it stores 256, or 1.5 * 256 = 384 if
                        * cells_fit() maps its largest magnitude to 4 instead of 6. */
        const float all = c->top * (c->pick == CELLS_BEST ? 256.0f : 448.0f);
        const float y = f->s * most;

        f->s = cells_quotient(y, all, y < cells_pow2(100) ? cells_inverse(all) : 0);
    }
}

/* Sets f->by, from which cells_code() computes codes: cells_code() multiplies elements by f->by if
 * f->inverse is set, and otherwise divides them by it. c->by selects whether f->by is computed from
 * the decoded scale f->s or from `unrounded`, the scale before its rounding to the storage type. */
CELLS void cells_code_by(const struct cells *c, float unrounded, struct cells_fit *f)
{
    const float s = c->by == CELLS_STORED ? f->s : unrounded;

    f->inverse = c->by == CELLS_INVERSE || s == 0;
    f->by = s == 0 ? 0 : f->inverse ? 1 / s : s;
    f->inv = cells_inverse(f->by);
    f->low = 0;
}

CELLS float cells_error(const struct cells *c, cells_in x, int64_t at, const struct cells_fit *f)
{
    float sum = 0;

    for (int i = 0; i < c->group; i++) {
        const float e = cells_value(c, f, cells_code(c, f, x[at + i])) - x[at + i];

        sum += e * e;
    }
    return sum;
}

/* Computes the scale of a group with largest magnitude `size` by the rule c->pick. The scale is
 * multiplied by `more`, which is 1, or 1.5 if CELLS_BEST maps `size` to 4 instead of 6. `most` is
 * the block's largest magnitude. */
CELLS void cells_fit_floats(const struct cells *c, float size, float most, float more,
                            struct cells_fit *f)
{
    float s = size / c->top;

    if (c->relative)
        s = most > 0 ? s * (c->top * (c->pick == CELLS_BEST ? 256.0f : 448.0f) / most) : 0;
    s *= more;
    if (c->scale == CELLS_E8M0)
        s = c->pick == CELLS_FLOOR ? cells_power(size, false) / cells_power(c->top, false)
                                   : cells_power(s, true);
    if (c->scale == CELLS_E8M0)
        s = s < cells_pow2(-126) ? cells_pow2(-126) : s;
    s = s < c->least ? c->least : s;
    f->raw = cells_store(c->scale, s);
    cells_read(c, f->raw, 0, most, f);
    cells_code_by(c, s, f);
}

CELLS void cells_fit_ints(const struct cells *c, cells_in x, int64_t at, float most,
                          struct cells_fit *f)
{
    const float qm = (float)((1 << (c->bits - 1)) - 1);
    float lo = x[at], hi = x[at], extreme = x[at], s;

    for (int i = 1; i < c->group; i++) {
        const float v = x[at + i];

        lo = v < lo ? v : lo;
        hi = v > hi ? v : hi;
        extreme = fabsf(v) > fabsf(extreme) ? v : extreme;
    }
    if (c->zero != CELLS_NO_ZERO) {
        lo *= c->clip;
        hi *= c->clip;
        s = (hi - lo) / (2 * qm + 1);
    } else if (c->first_extreme) {
        s = extreme * c->clip / -(qm + 1);
    } else {
        s = c->quantile < 1 ? cells_quantile(x, at, c->group, c->quantile) : fabsf(extreme);
        s = s * c->clip / qm;
    }
    if (c->scale == CELLS_E8M0)
        s = cells_power(s, c->pick != CELLS_FLOOR);
    s = fabsf(s) < c->least ? c->least : s;
    f->raw = cells_store(c->scale, s);
    f->z = 0;
    if (c->zero == CELLS_MINIMUM)
        f->z = cells_store(c->second, lo);
    else if (c->zero != CELLS_NO_ZERO)
        f->z = (unsigned)cells_clamp(cells_rounded(s == 0 ? 0 : -lo / s, c->round), 0, 2 * qm + 1);
    if (c->zero == CELLS_HIDDEN)
        f->raw = (f->raw & ~15u) | f->z;
    cells_read(c, f->raw, f->z, most, f);
    cells_code_by(c, s, f);
    if (c->zero == CELLS_MINIMUM)
        f->low = c->by == CELLS_STORED ? f->m : lo;
}

CELLS void cells_fit_levels(const struct cells *c, cells_in x, int64_t at, struct cells_fit *f)
{
    float norm = 0, quantized = 0, extreme = x[at], s;

    for (int i = 0; i < c->group; i++) {
        norm += x[at + i] * x[at + i];
        extreme = fabsf(x[at + i]) > fabsf(extreme) ? x[at + i] : extreme;
    }
    s = c->of_levels == CELLS_REFIT ? extreme / c->level[0] : sqrtf(norm / (float)c->group);
    f->low = 0;
    f->inverse = c->of_levels == CELLS_REFIT || s == 0;
    f->by = s == 0 ? 0 : f->inverse ? 1 / s : s;
    f->inv = cells_inverse(f->by);
    if (c->of_levels == CELLS_NORM_KEPT) {
        for (int i = 0; i < c->group; i++) {
            const float v = c->level[cells_code(c, f, x[at + i])];

            quantized += v * v;
        }
        s = sqrtf(norm) / sqrtf(quantized);
    } else if (c->of_levels == CELLS_REFIT) {
        float over = 0, under = 0;

        for (int i = 0; i < c->group; i++) {
            const float v = c->level[cells_code(c, f, x[at + i])], w = x[at + i] * x[at + i];

            over += w * v * x[at + i];
            under += w * v * v;
        }
        if (under > 0 && fabsf(over) <= 3e38f && under <= 3e38f)
            s = over / under;
    }
    f->raw = cells_store(c->scale, s);
    f->s = cells_load(c->scale, f->raw);
}

/* Computes the scale s and the offset m of the group whose first element is x[at]. `most` is the
 * block's largest magnitude. */
CELLS struct cells_fit cells_fit(const struct cells *c, cells_in x, int64_t at, float most)
{
    struct cells_fit f, other;
    unsigned size = 0;

    for (int i = 0; i < c->group; i++) {
        const unsigned u = cells_bits(x[at + i]) & 0x7fffffffu;

        size = u > size ? u : size;
    }
    f.bad = size >= 0x7f800000u || cells_bits(most) >= 0x7f800000u;
    if (f.bad && c->scale != CELLS_ONE) {
        f.s = f.m = f.by = f.low = f.inv = 0;
        f.inverse = true;
        f.z = 0;
        f.raw = cells_store(c->scale, cells_float(0x7fc00000u));
        return f;
    }
    f.bad = false;
    f.z = 0;
    f.m = 0;
    if (c->kind == CELLS_LEVELS) {
        cells_fit_levels(c, x, at, &f);
    } else if (c->kind == CELLS_INTS) {
        cells_fit_ints(c, x, at, most, &f);
    } else {
        cells_fit_floats(c, cells_float(size), most, 1, &f);
        if (c->pick == CELLS_BEST) {
            other = f;
            cells_fit_floats(c, cells_float(size), most, 1.5f, &other);
            if (cells_error(c, x, at, &other) < cells_error(c, x, at, &f))
                f = other;
        }
    }
    return f;
}

KVR_ENCODE_LAUNCHER(cells);
KVR_DECODE_LAUNCHER(cells);

#endif
