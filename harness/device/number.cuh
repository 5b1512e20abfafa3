/* number.cuh - conversions between float, BF16 and FP16 in kernels. The results are bit-identical
 * to those of harness/core/dtype.h on the CPU. */
#ifndef KVR_DEVICE_NUMBER_CUH
#define KVR_DEVICE_NUMBER_CUH

#include "harness/core/dtype.h"
#include "harness/device/kernel.cuh"

/* Rounds a float to the nearest BF16 number, with ties to even. */
static __device__ __forceinline__ float kvr_round_bf16(float x)
{
    const unsigned u = __float_as_uint(x);

    if ((u & 0x7fffffffu) > 0x7f800000u)
        return __uint_as_float((u & 0xffff0000u) | 0x400000u);
    return __uint_as_float((u + 0x7fffu + ((u >> 16) & 1u)) & 0xffff0000u);
}

static __device__ __forceinline__ kvr_bf16 kvr_bf16_of(float x)
{
    return (kvr_bf16)(__float_as_uint(kvr_round_bf16(x)) >> 16);
}

/* Converts a float to FP16. A NaN keeps its sign and its upper payload bits, which the hardware
 * conversion would lose. */
static __device__ __forceinline__ kvr_f16 kvr_half_of(float x)
{
    const unsigned u = __float_as_uint(x);

    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (kvr_f16)(((u >> 16) & 0x8000u) | 0x7e00u | ((u >> 13) & 0x3ffu));
    return __half_as_ushort(__float2half_rn(x));
}

static __device__ __forceinline__ float kvr_float_of(kvr_f16 h)
{
    return __half2float(__ushort_as_half(h));
}

#endif
