/* vector.cuh - vectors of elements. One instruction loads or stores up to 16 bytes of a vector.
 *
 * The access type is a template parameter of kernels. The launcher picks the wide type if addresses
 * and extents are aligned for it, otherwise the narrow type. */
#ifndef KVR_DEVICE_VECTOR_CUH
#define KVR_DEVICE_VECTOR_CUH

#include "harness/device/kernel.cuh"

template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) kvr_vec {
    T v[N];
};

/* Reinterprets aligned shared or global memory as an array of another type. */
#ifdef KVR_EMULATED
template <class U, class T> static inline kvr_emu::pointer<U> kvr_as(kvr_emu::pointer<T> p)
{
    return kvr_emu::pointer<U>(p.address(), p.inside());
}
#else
template <class U, class T> static __device__ __forceinline__ U *kvr_as(T *p)
{
    return reinterpret_cast<U *>(p);
}
template <class U, class T> static __device__ __forceinline__ const U *kvr_as(const T *p)
{
    return reinterpret_cast<const U *>(p);
}
#endif

/* Whether the address p is a multiple of n bytes. */
static inline bool kvr_aligned(const void *p, size_t n)
{
    return (uintptr_t)p % n == 0;
}

#endif
