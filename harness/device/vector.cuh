/* vector.cuh - some elements side by side, moved by one instruction of up to 16 bytes.
 *
 * A kernel that is a template over what it moves is launched with the wide type where address and
 * extents are multiples of it, and with the narrow one elsewhere. */
#ifndef KVR_DEVICE_VECTOR_CUH
#define KVR_DEVICE_VECTOR_CUH

#include "harness/device/kernel.cuh"

template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) kvr_few {
    T v[N];
};

/* Elements of shared and global memory as another type, where they are aligned for it. */
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

/* Does p lie on a multiple of n bytes? */
static inline bool kvr_aligned(const void *p, size_t n)
{
    return (uintptr_t)p % n == 0;
}

#endif
