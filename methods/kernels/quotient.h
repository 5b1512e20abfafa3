/* quotient.h - y / s to the bit, by three products, for a divisor that many numbers share.
 *
 *     inv = 1 / s;                      once, rounded to nearest
 *     q = kvr_quotient(y, s, inv);      for each y
 *
 * q0 = y inv is within 3 units of its last place of y / s. e = y - q0 s is a multiple of the product
 * of their last places and below 8 s of the former's, so that it has at most 3 bits more than s and
 * fmaf finds it exactly where s has at most 21. Then q0 + e inv is off y / s by e's share of the error
 * of inv, 3 2^-24 of a last place, before it is rounded. Where s is a number of p bits, y / s is no
 * nearer than 2^-(p+1) of a last place to where rounding changes, unless it is s 2^k times some
 * number of 24 bits exactly: so for FP16 (11 bits), BF16 (8) and small integers the rounded number is
 * the quotient's own. Of the roots that the Walsh-Hadamard transform divides by (24 bits, one
 * significand) tests/methods/test_quotient.c tries every y.
 *
 * |y| has to be 0 or between 2^-100 and what leaves y inv finite; below, what comes out is off by a
 * denormal number's last place, and still 0 where the quotient is. An infinite y, a NaN and, where s
 * is positive, -0 come out as they should. */
#ifndef KVR_METHODS_QUOTIENT_H
#define KVR_METHODS_QUOTIENT_H

#include <math.h>

#ifdef __cplusplus
#include "harness/device/kernel.cuh"
#define KVR_QUOTIENT static __device__ __forceinline__ float
#else
#define KVR_QUOTIENT static inline float
#endif

KVR_QUOTIENT kvr_quotient(float y, float s, float inv)
{
    const float q = y * inv,
                over = fmaf(q, s, -y); /* +0 where q is the quotient, and -0 stays -0 */

    return fabsf(over) < INFINITY ? fmaf(over, -inv, q) : q; /* a NaN where y is not finite */
}

/* The same for a y that is finite. */
KVR_QUOTIENT kvr_quotient_finite(float y, float s, float inv)
{
    const float q = y * inv;

    return fmaf(fmaf(q, s, -y), -inv, q);
}

/* The same for any s, as long as s and inv are normal numbers: what the first correction leaves is
 * less than a last place, and the second rounds it as it should be (P. Markstein, Computation of
 * elementary functions on the IBM RISC System/6000 processor, IBM J. Res. Dev. 34, 1990). From 1e38
 * on it is off by some last places; of zeros it is either. */
KVR_QUOTIENT kvr_quotient_any(float y, float s, float inv)
{
    const float first = y * inv, q = fmaf(fmaf(first, s, -y), -inv, first);

    return fabsf(first) < 1e38f ? fmaf(fmaf(q, s, -y), -inv, q) : first;
}

/* 1 / s, rounded to nearest, from what is within 4 units of its last place, where s is a number of at most
 * 11 bits. e = 1 - s near has 13 bits, so that fmaf finds it exactly, and what near + e near misses of 1 / s
 * is e e / s. That this never changes what it is rounded to is tried of every s (test_quotient.c). */
KVR_QUOTIENT kvr_inverse_near(float near, float s)
{
    return fmaf(near, fmaf(-s, near, 1), near);
}

#ifdef __cplusplus
/* The same without anything near, for a normal s whose inverse is one as well. */
KVR_QUOTIENT kvr_inverse(float s)
{
#ifdef KVR_EMULATED
    const float near = 1 / s * (1 + 0x1p-22f); /* as far off as a device may be */
#else
    float near;

    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(s));
#endif
    return kvr_inverse_near(near, s);
}
#endif

#endif
