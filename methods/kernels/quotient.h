/* quotient.h - correctly rounded y / s with three products, for a divisor shared by many y.
 *
 *     inv = 1 / s;                      once, rounded to nearest
 *     q = kvr_quotient(y, s, inv);      for each y
 *
 * q0 = y inv is within 3 ulp of y / s. e = y - q0 s is a multiple of the product of their ulps and
 * below 8 s ulp(q0), so it has at most 3 bits more than s. fmaf computes it exactly if s has at
 * most 21 bits. Then q0 + e inv differs from y / s by e times the error of inv, 3 2^-24 ulp, before
 * rounding. If s has p bits, y / s is at least 2^-(p+1) ulp away from a rounding boundary, unless
 * it is exactly s 2^k times a 24-bit number. So for FP16 (11 bits), BF16 (8 bits) and small
 * integers the result is the correctly rounded quotient. For the square roots in the Walsh-Hadamard
 * transform (24 bits, one significand) tests/methods/test_quotient.c checks every y.
 *
 * The magnitude of y must be 0, or at least 2^-100 and small enough for a finite y inv. Below
 * 2^-100 the result may be off by one denormal ulp, and is 0 if the quotient is 0. Infinite y, NaN
 * and, for positive s, -0 give the result of the division. */
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
                over = fmaf(q, s, -y); /* +0 if q is the exact quotient, so that -0 stays -0 */

    return fabsf(over) < INFINITY ? fmaf(over, -inv, q) : q; /* NaN if y is not finite */
}

/* kvr_quotient for a finite y. */
KVR_QUOTIENT kvr_quotient_finite(float y, float s, float inv)
{
    const float q = y * inv;

    return fmaf(fmaf(q, s, -y), -inv, q);
}

/* kvr_quotient for any s, if s and inv are normal numbers. The first correction leaves an error
 * below one ulp, and the second rounds correctly (P. Markstein, Computation of elementary functions
 * on the IBM RISC System/6000 processor, IBM J. Res. Dev. 34, 1990). From 1e38 on it is off by a
 * few ulp; the sign of a zero is arbitrary. */
KVR_QUOTIENT kvr_quotient_any(float y, float s, float inv)
{
    const float first = y * inv, q = fmaf(fmaf(first, s, -y), -inv, first);

    return fabsf(first) < 1e38f ? fmaf(fmaf(q, s, -y), -inv, q) : first;
}

/* 1 / s, rounded to nearest, from an approximation within 4 ulp, for s of at most 11 bits. e = 1 -
 * s near has 13 bits, so fmaf computes it exactly, and near + e near differs from 1 / s by e e / s.
 * test_quotient.c checks for every s that this does not change the rounding. */
KVR_QUOTIENT kvr_inverse_refine(float near, float s)
{
    return fmaf(near, fmaf(-s, near, 1), near);
}

#ifdef __cplusplus
/* 1 / s, rounded to nearest, computed without a given approximation, for a normal s whose
 * reciprocal is normal. */
KVR_QUOTIENT kvr_inverse(float s)
{
#ifdef KVR_EMULATED
    const float near = 1 / s * (1 + 0x1p-22f); /* maximum error of a device's reciprocal */
#else
    float near;

    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(s));
#endif
    return kvr_inverse_refine(near, s);
}
#endif

#endif
