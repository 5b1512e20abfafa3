/* byte_code.cuh - quantizes F32 values to INT8 codes from -127 to 127. The codes are bit-identical
 * to those of the CPU code in attend_dot.c. */
#ifndef KVR_CACHE_BYTE_CODE_CUH
#define KVR_CACHE_BYTE_CODE_CUH

#include <math.h>

#include "harness/device/kernel.cuh"
#include "harness/device/vector.cuh"

/* Returns the bit pattern of |x| as an integer. Two such integers compare like the magnitudes of
 * their floats, and a NaN compares above infinity. */
static __device__ __forceinline__ unsigned size_of(float x)
{
    return __float_as_uint(x) & 0x7fffffffu;
}

static __device__ __forceinline__ unsigned larger_of(unsigned a, unsigned b)
{
    return a > b ? a : b;
}

/* Returns the factor 127 / most that maps values to INT8 codes. `most` is the largest magnitude of
 * the values, as a bit pattern of size_of(). Returns 0 if `most` is below 1e-30 or not finite. */
static __device__ __forceinline__ float inverse_of(unsigned most)
{
    const float x = __uint_as_float(most);

    return x >= 1e-30f && x < INFINITY ? 127.0f / x : 0.0f;
}

/* Returns the scale most / 127 that dequantizes INT8 codes, or NaN if `most` is infinite or NaN.
 * `most` is the largest magnitude of the quantized values, as for inverse_of(). */
static __device__ __forceinline__ float step_of(unsigned most)
{
    const float x = __uint_as_float(most);

    return x < INFINITY ? x / 127.0f : NAN;
}

/* Returns a word whose lowest byte is the INT8 code of x. The code is x times the factor `by`.
 * Adding 1.5 * 2^23 rounds this product to the nearest integer, ties to even. */
static __device__ __forceinline__ unsigned code_of(float x, float by)
{
    return __float_as_uint(x * by + 12582912.0f);
}

/* Packs the lowest bytes of four words into one word, with the byte of `a` lowest and the byte of
 * `d` highest. */
static __device__ __forceinline__ unsigned four_codes(unsigned a, unsigned b, unsigned c,
                                                      unsigned d)
{
    return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}

#endif
