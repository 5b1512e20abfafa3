/* vector.cuh - vector types. One instruction loads or stores up to 16 bytes of a vector.
 *
 * The type that a kernel loads and stores in one access is a template parameter of the kernel. The
 * kernel's launcher selects a vector type if every array is aligned to the vector type and every
 * row length is a multiple of the vector's length, and otherwise a scalar type. */
#ifndef KVR_DEVICE_VECTOR_CUH
#define KVR_DEVICE_VECTOR_CUH

#include "harness/device/kernel.cuh"

template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) kvr_vec {
    T v[N];
};

/* Reinterprets an aligned pointer to shared or global memory as a pointer to another type. */
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

/* Returns whether address p is a multiple of n bytes. */
static inline bool kvr_aligned(const void *p, size_t n)
{
    return (uintptr_t)p % n == 0;
}

#endif
