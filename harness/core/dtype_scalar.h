/* dtype_scalar.h - conversions of one element without branches, so that the compiler vectorizes
 * loops over them (dtype.c, dtype_isa.c).
 *
 * A float is converted to a narrow format with m mantissa bits by integer operations on its bits.
 * For a normal result, the low 23 - m bits are dropped after adding 2^(22 - m) - 1 + b, where b is
 * the lowest bit that remains. This rounds to nearest, ties to even. A subnormal result is a
 * multiple of the narrow format's smallest positive number. To find the multiple, the code adds to
 * the float a power of two whose ulp is this smallest number. The addition rounds to nearest, ties
 * to even, and the low bits of the sum are the multiple. If rounding up reaches the next power of
 * two, the carry increments the exponent, which is the correct result. */
#ifndef KVR_CORE_DTYPE_SCALAR_H
#define KVR_CORE_DTYPE_SCALAR_H

#include "harness/core/dtype.h"

/* Branch-free select: returns `yes` if `is` is 1, and `no` if `is` is 0. */
static inline uint32_t pick(uint32_t is, uint32_t yes, uint32_t no)
{
    return (no & (is - 1u)) | (yes & (0u - is));
}

/* Divides the float x, given as its bits `abs_bits`, by the ulp of `two_to_k`, a power of two.
 * Returns the quotient as an integer, rounded to nearest, ties to even. The result is valid if 0 <=
 * x < two_to_k. */
static inline uint32_t count_steps(uint32_t abs_bits, float two_to_k)
{
    return kvr_f32_bits(kvr_bits_f32(abs_bits) + two_to_k) - kvr_f32_bits(two_to_k);
}

/* Converts the bits `abs_bits` of a nonnegative float to the bits of a narrower format. That format
 * has `cut` fewer mantissa bits than float and the exponent bias `bias`. Rounds to nearest, ties to
 * even. The result is valid if it is a normal number of the narrower format. */
static inline uint32_t narrow_normal(uint32_t abs_bits, int cut, int bias)
{
    uint32_t half = (1u << (cut - 1)) - 1u;

    return ((abs_bits + half + ((abs_bits >> cut) & 1u)) >> cut) -
           ((uint32_t)(127 - bias) << (23 - cut));
}

/* A NaN becomes a quiet NaN that keeps its sign and upper payload bits, as in F16C hardware. */
static inline float f16_to_f32(kvr_f16 h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, a = h & 0x7fffu;
    const uint32_t small = kvr_f32_bits((float)(int32_t)a * 0x1p-24f); /* |h| of a subnormal h */
    uint32_t u = (a << 13) + ((127u - 15u) << 23);

    u = pick(a < 0x400u, small, u);
    u = pick(a >= 0x7c00u, 0x7f800000u | (a & 0x3ffu) << 13, u);
    u = pick(a > 0x7c00u, 0x7fc00000u | u, u);
    return kvr_bits_f32(sign | u);
}

static inline kvr_f16 f32_to_f16(float x)
{
    const uint32_t u = kvr_f32_bits(x), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
    uint32_t h = narrow_normal(a, 13, 15);

    h = pick(a < 0x38800000u, count_steps(a, 0.5f), h); /* below 2^-14: subnormal */
    h = pick(a >= 0x477ff000u, 0x7c00u, h);             /* 65520 and above become infinity:
                                                         * 65520 is halfway from 65504, the
                                                         * largest F16 number, to 65536 */
    h = pick(a > 0x7f800000u, 0x7e00u | ((a >> 13) & 0x3ffu), h);
    return (kvr_f16)(sign | h);
}

static inline float e4m3_to_f32(uint8_t b)
{
    const uint32_t sign = (uint32_t)(b & 0x80u) << 24, a = b & 0x7fu;
    uint32_t u = (a << 20) + ((127u - 7u) << 23);

    u = pick(a < 8u, kvr_f32_bits((float)(int32_t)a * 0x1p-9f), u);
    u = pick(a == 0x7fu, 0x7fc00000u, u);
    return kvr_bits_f32(sign | u);
}

static inline uint8_t f32_to_e4m3(float x)
{
    const uint32_t u = kvr_f32_bits(x), sign = (u >> 24) & 0x80u, a = u & 0x7fffffffu;
    uint32_t b = narrow_normal(a, 20, 7);

    b = pick(a < 0x3c800000u, count_steps(a, 0x1p14f), b); /* below 2^-6: subnormal */
    b = pick(a >= 0x43e00000u, 0x7eu, b);                  /* 448 and above, and infinity, become
                                                            * 448, the largest E4M3 number */
    b = pick(a > 0x7f800000u, 0x7fu, b);
    return (uint8_t)(sign | b);
}

static inline float e5m2_to_f32(uint8_t b)
{
    const uint32_t sign = (uint32_t)(b & 0x80u) << 24, a = b & 0x7fu;
    uint32_t u = (a << 21) + ((127u - 15u) << 23);

    u = pick(a < 4u, kvr_f32_bits((float)(int32_t)a * 0x1p-16f), u);
    u = pick(a >= 0x7cu, 0x7f800000u | (a & 3u) << 21, u);
    u = pick(a > 0x7cu, 0x7fc00000u | u, u);
    return kvr_bits_f32(sign | u);
}

static inline uint8_t f32_to_e5m2(float x)
{
    const uint32_t u = kvr_f32_bits(x), sign = (u >> 24) & 0x80u, a = u & 0x7fffffffu;
    uint32_t b = narrow_normal(a, 21, 15);

    b = pick(a < 0x38800000u, count_steps(a, 0x1p7f), b); /* below 2^-14: subnormal */
    b = pick(a >= 0x47700000u, 0x7cu, b); /* 61440 and above become infinity: 61440 is halfway
                                           * from 57344, the largest E5M2 number, to 65536 */
    b = pick(a > 0x7f800000u, 0x7fu, b);
    return (uint8_t)(sign | b);
}

#endif
