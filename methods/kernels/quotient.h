/* quotient.h - correctly rounded y / s by a multiplication and two fused multiply-adds, for a
 * divisor s that many y share.
 *
 *     inv = 1 / s;                      once, rounded to nearest
 *     q = kvr_quotient(y, s, inv);      for each y
 *
 * The first approximation q0 = y * inv is within 3 ulp of y / s. The remainder e = y - q0 * s is a
 * multiple of ulp(q0) * ulp(s), and |e| is below 8 * |s| * ulp(q0), so e has at most 3 significand
 * bits more than s. If s has at most 21 significand bits, fmaf therefore computes e exactly. The
 * result is q0 + e * inv. Before rounding, this sum differs from y / s by e times the error of inv,
 * a product of at most 3 * 2^-24 * ulp(q0). If s has p significand bits, y / s is at least 2^-(p+1)
 * ulp away from every midpoint between two adjacent floats. The result is therefore correctly
 * rounded if s is an FP16 number (11 bits), a BF16 number (8 bits) or a small integer. The divisor
 * sqrt(D) of the Walsh-Hadamard transform can have 24 significand bits; for D = 2, 8, 32, 128 and
 * 512, tests/methods/test_quotient.c checks every significand of y.
 *
 * The magnitude of y must be 0, or at least 2^-100 and so small that y * inv is finite. For a
 * smaller |y|, the result may differ from the rounded y / s by one ulp of a denormal number,
 * 2^-149. The result is 0 if and only if y / s rounds to 0. For an infinite y, for NaN, and for y =
 * -0 with a positive s, the result equals that of a division. */
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
                over = fmaf(q, s, -y); /* remainder -e, which is +0 if q is exact; if s > 0, q = -0
                                        * then keeps its sign, because fmaf(+0, -inv, -0) is -0 */

    return fabsf(over) < INFINITY ? fmaf(over, -inv, q) : q; /* `over` is NaN if y is not finite */
}

/* Like kvr_quotient, for a finite y only. */
KVR_QUOTIENT kvr_quotient_finite(float y, float s, float inv)
{
    const float q = y * inv;

    return fmaf(fmaf(q, s, -y), -inv, q);
}

/* Like kvr_quotient, for any s such that s and inv are normal numbers. The function corrects y *
 * inv twice: the first correction leaves an error below one ulp, and the second one rounds
 * correctly (Markstein 1990). Quotients of 1e38 and more may be off by a few ulp, and the sign of a
 * zero is arbitrary. */
KVR_QUOTIENT kvr_quotient_any(float y, float s, float inv)
{
    const float first = y * inv, q = fmaf(fmaf(first, s, -y), -inv, first);

    return fabsf(first) < 1e38f ? fmaf(fmaf(q, s, -y), -inv, q) : first;
}

/* Refines `near`, an approximation of 1 / s within 4 ulp, to 1 / s rounded to nearest, for an s of
 * at most 11 significand bits. The remainder e = 1 - s * near has at most 13 significand bits, so
 * fmaf computes it exactly. The sum near + e * near differs from 1 / s by e^2 / s. For every s,
 * tests/methods/test_quotient.c checks that this error does not change the rounding. */
KVR_QUOTIENT kvr_inverse_refine(float near, float s)
{
    return fmaf(near, fmaf(-s, near, 1), near);
}

#ifdef __cplusplus
/* Computes 1 / s, rounded to nearest, for a normal s whose reciprocal is normal. */
KVR_QUOTIENT kvr_inverse(float s)
{
#ifdef KVR_EMULATED
    const float near = 1 / s * (1 + 0x1p-22f); /* 1 / s, increased by the maximum relative error of
                                                * the device's approximate reciprocal */
#else
    float near;

    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(s));
#endif
    return kvr_inverse_refine(near, s);
}
#endif

#endif
