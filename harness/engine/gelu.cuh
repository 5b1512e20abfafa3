/* gelu.cuh - GELU in its tanh form, for the elementwise kernel and for the epilogues of GEMMs. */
#ifndef KVR_ENGINE_GELU_CUH
#define KVR_ENGINE_GELU_CUH

#include "harness/device/kernel.cuh"

/* Returns e^x with x clamped to [-87, 87], as on the CPU. NaN propagates. */
static __device__ __forceinline__ float kvr_exp_bounded(float x)
{
    x = x < -87.0f ? -87.0f : x;
    return expf(x > 87.0f ? 87.0f : x);
}

static __device__ __forceinline__ float kvr_gelu_of(float u)
{
    const float a = -2.0f * 0.7978845608028654f, b = a * 0.044715f;

    return u / (1.0f + kvr_exp_bounded(u * fmaf(b * u, u, a)));
}

#endif
