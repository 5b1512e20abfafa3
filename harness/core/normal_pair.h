/* normal_pair.h - Box-Muller transform that uses only basic IEEE operations, so that CPU and GPU
 * give identical bits.
 *
 *     float x[2];
 *     kvr_normal_pair(u[0], u[1], x);            two words of the generator -> two N(0,1)
 *
 * Two uniform 32-bit integers u0 and u1 give x = (r cos a, r sin a), with r = sqrt(-2 ln((u0 + 1/2)
 * 2^-32)) and a = 2 pi (u1 + 1/2) 2^-32 (Box and Muller 1958). The added 1/2 keeps the logarithm's
 * argument above 0; the largest r is sqrt(2 ln 2^33) = 6.76. Logarithm, sine and cosine are series
 * in double precision with a fixed order of operations, so results do not depend on the math
 * library. Every build forbids the compiler to contract multiplications and additions to FMA. The
 * error of logarithm, sine and cosine is below one unit in the last place of a double. */
#ifndef KVR_CORE_NORMAL_PAIR_H
#define KVR_CORE_NORMAL_PAIR_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define KVR_PAIR_FN static __host__ __device__ __forceinline__
#else
#define KVR_PAIR_FN static inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Natural logarithm of v 2^-33, for odd v below 2^33. For v = 2 u0 + 1, this is the logarithm of
 * (u0 + 1/2) 2^-32. With v = 2^k m, m in [sqrt(1/2), sqrt(2)) and s = (m - 1) / (m + 1), ln m = 2
 * atanh(s) = 2 s (1 + s^2 / 3 + s^4 / 5 + ...), where |s| <= 0.1716. The first omitted term of the
 * series in parentheses is below 2e-20. The numbers m - 1 and m + 1 are exact in double precision,
 * since m has at most 33 significand bits. */
KVR_PAIR_FN double kvr_pair_ln(uint64_t v)
{
    const double ln2_hi = 0x1.62e42fefa38p-1; /* ln 2 to 42 significand bits, so that its product
                                               * with an exponent |e| <= 33 is exact */
    const double ln2_lo = 0x1.ef35793c7673p-45;
    double m = (double)v, s, z, p, e;
    uint64_t bits;

    memcpy(&bits, &m, sizeof bits);
    e = (double)((int)(bits >> 52) - 1023 - 33);
    bits = (bits & 0xfffffffffffffull) | 0x3ff0000000000000ull;
    memcpy(&m, &bits, sizeof m); /* in [1, 2) */
    if (m > 1.4142135623730951) {
        m *= 0.5;
        e += 1;
    }
    s = (m - 1) / (m + 1);
    z = s * s;
    p = 1.0 / 23;
    p = p * z + 1.0 / 21;
    p = p * z + 1.0 / 19;
    p = p * z + 1.0 / 17;
    p = p * z + 1.0 / 15;
    p = p * z + 1.0 / 13;
    p = p * z + 1.0 / 11;
    p = p * z + 1.0 / 9;
    p = p * z + 1.0 / 7;
    p = p * z + 1.0 / 5;
    p = p * z + 1.0 / 3;
    return e * ln2_hi + (2 * s + (2 * s * (z * p) + e * ln2_lo));
}

/* Cosine and sine of an angle in (0, 2 pi). Cody-Waite reduction subtracts j pi / 2, the multiple
 * of pi / 2 that is nearest to the angle, where pi / 2 is represented as the sum q_hi + q_lo. The
 * difference is represented as the sum x + tail of two doubles: x is the difference rounded to
 * double precision, with |x| <= pi / 4, and tail is the error of this rounding. Cosine and sine of
 * x + tail are computed by Taylor series. */
KVR_PAIR_FN void kvr_pair_rotate(double angle, double *cosine, double *sine)
{
    const double q_hi = 0x1.921fb54442dp0; /* pi / 2 to 45 significand bits, so that j * q_hi is
                                            * exact for 0 <= j <= 4 */
    const double q_lo = 0x1.8469898cc5170p-48;
    const int j = (int)(angle * 0.63661977236758134 + 0.5);
    const double near = angle - j * q_hi, off = j * q_lo, x = near - off, tail = (near - x) - off;
    const double z = x * x, half = 0.5 * z, whole = 1 - half;
    double c, s;

    s = 1.0 / 355687428096000;
    s = s * z - 1.0 / 1307674368000;
    s = s * z + 1.0 / 6227020800;
    s = s * z - 1.0 / 39916800;
    s = s * z + 1.0 / 362880;
    s = s * z - 1.0 / 5040;
    s = s * z + 1.0 / 120;
    s = s * z - 1.0 / 6;
    s = x + (x * z * s + tail * whole);
    c = -1.0 / 6402373705728000;
    c = c * z + 1.0 / 20922789888000;
    c = c * z - 1.0 / 87178291200;
    c = c * z + 1.0 / 479001600;
    c = c * z - 1.0 / 3628800;
    c = c * z + 1.0 / 40320;
    c = c * z - 1.0 / 720;
    c = c * z + 1.0 / 24;
    c = whole + (((1 - whole) - half) + (z * z * c - x * tail));
    *cosine = j & 1 ? s : c;
    *sine = j & 1 ? c : s;
    if (j == 1 || j == 2)
        *cosine = -*cosine;
    if (j == 2 || j == 3)
        *sine = -*sine;
}

KVR_PAIR_FN void kvr_normal_pair(uint32_t u0, uint32_t u1, float x[2])
{
    const double r = sqrt(-2.0 * kvr_pair_ln(2 * (uint64_t)u0 + 1));
    double c, s;

    kvr_pair_rotate(6.283185307179586476925 * (((double)u1 + 0.5) * 0x1p-32), &c, &s);
    x[0] = (float)(r * c);
    x[1] = (float)(r * s);
}

#ifdef __cplusplus
}
#endif

#endif
