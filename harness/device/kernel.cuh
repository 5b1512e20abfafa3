/* kernel.cuh - macros and types that let both nvcc and, for the emulator, the host compiler compile
 * all .cu files.
 *
 * A kernel has pointer parameters of type kvr_global<T>, and declares shared arrays by KVR_SHARED
 * as kvr_shared<T>. Under nvcc, kvr_global<T> is T *__restrict__ and kvr_shared<T> is T *. Under
 * the host compiler, both types are the checked pointers of emu.cuh. A kernel uses a kvr_global or
 * kvr_shared pointer p only as p[i], *p and p + i. If T is a structure, a kernel reads and writes
 * whole structures, not single members. Atomic functions take an element's address p + i. For
 * example, KVR_LAUNCH(twice, kvr_blocks(n, 128), 128, 0, s, n, x) launches the kernel `twice` on
 * stream s with arguments n and x, blocks of 128 threads and no dynamic shared memory. */
#ifndef KVR_DEVICE_KERNEL_CUH
#define KVR_DEVICE_KERNEL_CUH

#include "harness/device/stream.h"

/* Allows launches of the kernel with `bytes` bytes of dynamic shared memory. Returns false, and
 * records an error on the stream, if the device does not support this size. */
extern "C" bool kvr_stream_opt_in_shared(struct kvr_stream *s, const void *kernel, size_t bytes);

/* Allows launches of the kernel to use `shared` bytes of dynamic shared memory. Gives false if the
 * device refuses. Without cudaFuncSetAttribute, a block has at most 48 KiB of static plus dynamic
 * shared memory. The macro does not know a kernel's static shared memory, so every launch with
 * dynamic shared memory calls kvr_stream_opt_in_shared(). */
#define KVR_MAY_SHARE(kernel, shared, s)                                                           \
    ((shared) == 0 || kvr_stream_opt_in_shared(s, (const void *)(kernel), (size_t)(shared)))

#ifdef KVR_EMULATED
#include "harness/device/emu/emu.cuh"

extern "C" int kvr_stream_ctas_per_sm(struct kvr_stream *s, int threads, size_t bytes);
#define KVR_CTAS_PER_SM(kernel, threads, shared, declared, s)                                      \
    kvr_stream_ctas_per_sm(s, threads, (size_t)(shared) + (size_t)(declared))
#else
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#if CUDART_VERSION < 12080
#error "kvreel needs nvcc 12.8 or newer"
#endif

template <class T> using kvr_global = T *__restrict__;
template <class T> using kvr_shared = T *;

/* Declares a shared array of n elements of type T, where n is a constant. */
#define KVR_SHARED(T, name, n) __shared__ T name[n]
/* Declares the dynamic shared memory as an array of T. A kernel may use this macro only once. */
#define KVR_SHARED_DYNAMIC(T, name)                                                                \
    extern __shared__ __align__(16) unsigned char kvr_dynamic_[];                                  \
    T *const name = reinterpret_cast<T *>(kvr_dynamic_)

extern "C" cudaStream_t kvr_stream_ready(struct kvr_stream *s);
extern "C" bool kvr_stream_may_launch(const struct kvr_stream *s);
extern "C" int kvr_stream_ctas_per_sm(struct kvr_stream *s, const void *kernel, int threads,
                                      size_t bytes);
/* Records the result of a launch: the error, or one launch of the kernel. */
extern "C" void kvr_stream_launched(struct kvr_stream *s, const char *kernel, cudaError_t e);

/* Occupancy: the number of blocks of the kernel that an SM runs at once, as limited by registers,
 * threads and shared memory. The emulator does not limit registers. The argument `declared` is the
 * size of the kernel's static shared memory in bytes; only the emulator uses this argument. */
#define KVR_CTAS_PER_SM(kernel, threads, shared, declared, s)                                      \
    kvr_stream_ctas_per_sm(s, (const void *)(kernel), threads, (size_t)(shared))

#define KVR_LAUNCH(kernel, grid, block, shared, s, ...)                                            \
    do {                                                                                           \
        if (kvr_stream_may_launch(s) && KVR_MAY_SHARE(kernel, shared, s)) {                        \
            kernel<<<grid, block, shared, kvr_stream_ready(s)>>>(__VA_ARGS__);                     \
            kvr_stream_launched(s, #kernel, cudaGetLastError());                                   \
        }                                                                                          \
    } while (0)

/* Launches a grid of clusters of `cluster` blocks along x. The number of blocks of the grid along x
 * is a multiple of `cluster`. */
#define KVR_LAUNCH_CLUSTERS(kernel, cluster, grid, block, shared, s, ...)                          \
    do {                                                                                           \
        if (kvr_stream_may_launch(s) && KVR_MAY_SHARE(kernel, shared, s)) {                        \
            cudaLaunchAttribute of_cluster = {};                                                   \
            cudaLaunchConfig_t launch_as = {};                                                     \
                                                                                                   \
            of_cluster.id = cudaLaunchAttributeClusterDimension;                                   \
            of_cluster.val.clusterDim = { (unsigned)(cluster), 1, 1 };                             \
            launch_as.gridDim = dim3(grid);                                                        \
            launch_as.blockDim = dim3(block);                                                      \
            launch_as.dynamicSmemBytes = (size_t)(shared);                                         \
            launch_as.stream = kvr_stream_ready(s);                                                \
            launch_as.attrs = &of_cluster;                                                         \
            launch_as.numAttrs = 1;                                                                \
            kvr_stream_launched(s, #kernel, cudaLaunchKernelEx(&launch_as, kernel, __VA_ARGS__));  \
        }                                                                                          \
    } while (0)
#endif

/* Returns the number of blocks of `size` threads that cover n elements, but at least 1, because a
 * grid cannot be empty. */
static inline unsigned kvr_blocks(int64_t n, int64_t size)
{
    return n > 0 ? (unsigned)((n + size - 1) / size) : 1u;
}

#endif
