/* byte_code.cuh - quantizes F32 to INT8 (-127..127) with the rounding of attend_dot.c. */
#ifndef KVR_CACHE_BYTE_CODE_CUH
#define KVR_CACHE_BYTE_CODE_CUH

#include <math.h>

#include "harness/device/kernel.cuh"
#include "harness/device/vector.cuh"

/* |x| as an integer. Integers have the order of the floats, with NaN above infinity. */
static __device__ __forceinline__ unsigned size_of(float x)
{
    return __float_as_uint(x) & 0x7fffffffu;
}

static __device__ __forceinline__ unsigned larger_of(unsigned a, unsigned b)
{
    return a > b ? a : b;
}

/* Quantization factor 127 / most; 0 if `most` is below 1e-30 or not finite. */
static __device__ __forceinline__ float inverse_of(unsigned most)
{
    const float x = __uint_as_float(most);

    return x >= 1e-30f && x < INFINITY ? 127.0f / x : 0.0f;
}

/* Scale most / 127; NaN if `most` is infinite or NaN. */
static __device__ __forceinline__ float step_of(unsigned most)
{
    const float x = __uint_as_float(most);

    return x < INFINITY ? x / 127.0f : NAN;
}

/* INT8 code in the lowest byte. Adding 1.5 * 2^23 rounds to the nearest integer, ties to even. */
static __device__ __forceinline__ unsigned code_of(float x, float by)
{
    return __float_as_uint(x * by + 12582912.0f);
}

/* Packs the lowest byte of each of four words. */
static __device__ __forceinline__ unsigned four_codes(unsigned a, unsigned b, unsigned c,
                                                      unsigned d)
{
    return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}

#endif
