/* element.cuh - converts the VAE's activations, which are F32 or BF16, to F32 and back.
 *
 *     sum += kvr_value_of(x[i]);
 *     y[i] = kvr_element_of<T>(sum);        rounds once, to nearest even
 */
#ifndef KVR_VAE_ELEMENT_CUH
#define KVR_VAE_ELEMENT_CUH

#include "harness/device/number.cuh"

static __device__ __forceinline__ float kvr_value_of(float x)
{
    return x;
}

static __device__ __forceinline__ float kvr_value_of(kvr_bf16 x)
{
    return __uint_as_float((unsigned)x << 16);
}

template <class T> struct kvr_element;
template <> struct kvr_element<float> {
    static __device__ __forceinline__ float of(float x)
    {
        return x;
    }
};
template <> struct kvr_element<kvr_bf16> {
    static __device__ __forceinline__ kvr_bf16 of(float x)
    {
        return kvr_bf16_of(x);
    }
};

template <class T> static __device__ __forceinline__ T kvr_element_of(float x)
{
    return kvr_element<T>::of(x);
}

#endif
