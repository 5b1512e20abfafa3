/* hopper.cuh - sm_90: mbarriers, bulk copies (TMA), wgmma, setmaxnreg, clusters.
 *
 * A producer thread, and a consumer warp group of 128 threads:
 *
 *     kvr_barrier_expect(full, n_bytes);              kvr_barrier_wait(full, 0);
 *     kvr_tile_begin(tile, map, c, h, t, full);       kvr_wgmma_fence(sums);
 *                                                     kvr_wgmma(sums, q, keys, false);
 *                                                     kvr_wgmma_commit();
 *     kvr_barrier_wait(empty, 0);                     kvr_wgmma_wait<0>(sums);
 *                                                     kvr_barrier_arrive(empty);
 *
 * An mbarrier counts arrivals and bytes. When it has counted all expected arrivals and bytes, it
 * completes its phase and starts the next phase. A wait names a phase by its parity p: it returns
 * once the latest phase of parity p has completed. On a fresh mbarrier a wait for parity 1 returns
 * at once.
 *
 * wgmma and bulk copies see a thread's generic writes to shared memory only after a
 * kvr_fence_async() of that thread. No thread may access the target of a bulk copy, or the operands
 * of a wgmma, until a thread has waited for the operation.
 *
 * Blocks of a cluster (KVR_LAUNCH_CLUSTERS) access one another's shared memory between two cluster
 * barriers: after the first barrier all blocks have started, and no block exits before the second.
 *
 *     kvr_cluster_arrive();                           kvr_barrier_wait_cluster(full, 0);
 *     kvr_cluster_wait();                             kvr_fence_async();
 *     kvr_remote_expect(its_full, 16);                kvr_wgmma(...);
 *     kvr_remote_store(its_tile, x, its_full);        kvr_remote_arrive(its_empty);
 *     ...                                             ...
 *     kvr_cluster_arrive();                           kvr_cluster_arrive();
 *     kvr_cluster_wait();                             kvr_cluster_wait();
 *
 * A remote store signals an mbarrier of the target block by complete_tx, as a copy does. wgmma sees
 * the store only after a thread has waited for that mbarrier and executed fence.proxy.async. A
 * fence of the writer cannot cover the store, which completes after that fence.
 *
 * Tiles in shared memory have rows of 128 bytes, are aligned to 1024 bytes and use the 128-byte
 * swizzle: the 16-byte chunk c of row r is stored as chunk c ^ r % 8.
 *
 * Under nvcc each function is one instruction of sm_90a. On other architectures the bodies of
 * kernels that use these functions are empty (KVR_HAS_WGMMA). The emulator checks the ordering of
 * the instructions with vector clocks (emu_hopper.cuh). */
#ifndef KVR_DEVICE_HOPPER_CUH
#define KVR_DEVICE_HOPPER_CUH

#include "harness/device/mma.cuh"

#ifndef KVR_EMULATED
#include <cuda.h>
#endif

#if defined(KVR_EMULATED) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define KVR_HAS_WGMMA 1
#else
#define KVR_HAS_WGMMA 0
#endif

/* Whether the device has compute capability 9.0 and the program has the sm_90a body of this kernel,
 * compiled for blocks of this many threads. */
template <class K> static bool kvr_hopper_has(const struct kvr_stream *s, K *kernel, int threads)
{
    if (kvr_stream_capability(s) != 90)
        return false;
#ifdef KVR_EMULATED
    return kernel && threads;
#else
    struct cudaFuncAttributes code;

    if (cudaFuncGetAttributes(&code, kernel) == cudaSuccess)
        return code.maxThreadsPerBlock >= threads;
    cudaGetLastError();
    return false;
#endif
}

/* Layout in which a bulk copy stores a box in shared memory. wgmma expects KVR_SWIZZLE_128. */
enum kvr_swizzle { KVR_SWIZZLE_NONE, KVR_SWIZZLE_128 };

enum {
    KVR_TILE_COLUMNS = 64, /* number of BF16 elements in 128 bytes */
    KVR_TILE_ALIGN = 1024, /* alignment of a tile in shared memory */
    KVR_WARP_GROUP = 128,  /* threads of a warp group */
};

#ifdef KVR_EMULATED
/* A BF16 tensor [n_tok, n_heads, head_dim] in global memory, and the box of it that a TMA copy
 * moves. */
struct kvr_tensor_map {
    const void *rows;
    int64_t n_tok;
    int n_heads, head_dim, box_tok;
    enum kvr_swizzle swizzle;
};

namespace kvr_emu
{

/* Whether cuTensorMapEncodeTiled would accept the map. */
bool map_is_taken(const struct kvr_tensor_map *m);

/* Whether wgmma or the thread owns the registers of a kvr_registers. */
struct held {
    int under_way; /* number of products in flight that use the registers */
    /* lent: products in flight own the registers. fenced: the thread has not accessed the registers
     * since its last wgmma.fence. */
    bool lent, fenced;
};

void barrier_init(struct region *r, uintptr_t at, unsigned count);
void barrier_arrive(struct region *r, uintptr_t at, unsigned bytes);
void barrier_wait(struct region *r, uintptr_t at, unsigned parity, bool of_cluster,
                  const char *file, int line);
/* Operations on the mbarrier of another block. remote_expect is relaxed: it orders no accesses. */
void remote_arrive(struct region *r, uintptr_t at);
void remote_expect(struct region *r, uintptr_t at, unsigned bytes);
void *remote_read(struct region *r, uintptr_t at, size_t n);
/* A st.async of 16 bytes. */
void remote_store(struct region *r, uintptr_t at, const void *bytes, struct region *barrier,
                  uintptr_t barrier_at);
void remote_copy(struct region *to, uintptr_t at, struct region *from, uintptr_t source, size_t n,
                 struct region *barrier, uintptr_t barrier_at);
void cluster_arrive(const char *file, int line);
void cluster_wait(const char *file, int line);
void fence_async();
void named_barrier(int id, int n_threads, bool waits, const char *file, int line);
void set_registers(int n, bool more);
void tile_begin(struct region *to, uintptr_t at, const struct kvr_tensor_map *map, int c, int h,
                int64_t t, struct region *barrier, uintptr_t barrier_at, bool to_all);
void use_registers(struct held *h);
void lend_registers(struct held *h);
void return_registers(struct held *h, int pending);
/* Types of operands. BF16 operands have k = 16 and float sums, the others k = 32 and int32_t
 * sums. */
enum numbers { BF16, SIGNED_BYTES, BYTES };

/* Address in the shared::cluster window. The block's rank starts at bit KVR_RANK_SHIFT; the lower
 * bits are the offset in the block's shared memory. */
unsigned shared_address(struct region *r, uintptr_t at);
/* Checks the values of a descriptor's fields before the low bits of these values are dropped. */
void check_operand_fields(unsigned address, unsigned leading, unsigned stride);
uint64_t operand_from(uint64_t descriptor, int n_bytes);
/* Starts a product [64,k] x [k,columns] of operands that descriptors describe. If a is NULL,
 * operand A is in the four registers `of_a`. */
void product_begin(enum numbers numbers, void *sums, struct held *of_sums, const uint64_t *a,
                   const unsigned *of_a, struct held *held_a, uint64_t b, int columns,
                   bool transposed, bool add);
void product_commit();
void product_wait(int pending);

} // namespace kvr_emu

/* N registers of a thread that wgmma reads or accumulates into. The thread must not access the
 * registers between kvr_wgmma_fence and kvr_wgmma_wait. */
template <class T, int N> struct kvr_registers {
    T x[N];
    struct kvr_emu::held held = {};

    T &operator[](int i)
    {
        kvr_emu::use_registers(&held);
        return x[i];
    }
};

/* An address in another block's shared memory. */
template <class T> struct kvr_remote {
    kvr_shared<T> p;

    kvr_remote operator+(int i) const
    {
        return { p + i };
    }
};

/* The dynamic shared memory of the block, aligned for swizzled tiles. */
#define KVR_SHARED_TILES(T, name) KVR_SHARED_DYNAMIC(T, name)
#else
struct kvr_tensor_map {
    CUtensorMap map;
};
static_assert(sizeof(CUtensorMap) == 128 && alignof(CUtensorMap) >= 64, "as PTX reads it");

template <class T, int N> struct kvr_registers {
    T x[N];

    __device__ __forceinline__ T &operator[](int i)
    {
        return x[i];
    }
};

template <class T> struct kvr_remote {
    unsigned at;

    __device__ __forceinline__ kvr_remote operator+(int i) const
    {
        return { at + (unsigned)i * (unsigned)sizeof(T) };
    }
};

#define KVR_SHARED_TILES(T, name)                                                                  \
    extern __shared__ __align__(1024) unsigned char kvr_tiles_[];                                  \
    T *const name = reinterpret_cast<T *>(kvr_tiles_)

template <class T> static __device__ __forceinline__ unsigned kvr_shared_address(T *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}
#endif

/* The PTX matrix descriptor of a wgmma operand in shared memory. */
typedef uint64_t kvr_operand;
/* First bit of the block's rank in an address of the shared::cluster window. */
enum { KVR_RANK_SHIFT = 24 };

/* ---- host ----------------------------------------------------------------------------------- */

/* Creates the tensor map of a 16-byte aligned BF16 tensor [n_tok, n_heads, head_dim]. Its boxes
 * have box_tok tokens and KVR_TILE_COLUMNS channels of one head. Tokens outside [0, n_tok) are read
 * as zeros. In a box that starts at a multiple of KVR_TILE_COLUMNS, channels from head_dim on, a
 * multiple of 8, are read as zeros too. Returns false if the driver refuses the map. */
static inline bool kvr_tensor_map_of(struct kvr_tensor_map *out, const void *rows, int64_t n_tok,
                                     int n_heads, int head_dim, int box_tok,
                                     enum kvr_swizzle swizzle)
{
#ifdef KVR_EMULATED
    *out = { rows, n_tok, n_heads, head_dim, box_tok, swizzle };
    return kvr_emu::map_is_taken(out);
#else
    typedef CUresult encode_fn(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                               const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                               const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                               CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
    static void *encode;
    const cuuint64_t width = (cuuint64_t)n_heads * (cuuint64_t)head_dim * 2;
    const cuuint64_t n[3] = { (cuuint64_t)head_dim, (cuuint64_t)n_heads, (cuuint64_t)n_tok };
    const cuuint64_t strides[2] = { (cuuint64_t)head_dim * 2, width };
    const cuuint32_t box[3] = { KVR_TILE_COLUMNS, 1, (cuuint32_t)box_tok }, ones[3] = { 1, 1, 1 };

    if (!encode)
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000,
                                         cudaEnableDefault, NULL);
    return encode &&
           ((encode_fn *)encode)(&out->map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, (void *)rows, n,
                                 strides, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                 swizzle == KVR_SWIZZLE_128 ? CU_TENSOR_MAP_SWIZZLE_128B
                                                            : CU_TENSOR_MAP_SWIZZLE_NONE,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
#endif
}

/* ---- mbarriers ------------------------------------------------------------------------------ */

/* Initializes an mbarrier. Other threads may use it after __syncthreads, bulk copies after
 * kvr_fence_async. */
static __device__ __forceinline__ void kvr_barrier_init(kvr_shared<uint64_t> b, unsigned count)
{
#ifdef KVR_EMULATED
    kvr_emu::barrier_init(b.inside(), b.address(), count);
#else
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(kvr_shared_address(b)), "r"(count)
                 : "memory");
#endif
}

static __device__ __forceinline__ void kvr_barrier_arrive(kvr_shared<uint64_t> b)
{
#ifdef KVR_EMULATED
    kvr_emu::barrier_arrive(b.inside(), b.address(), 0);
#else
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(kvr_shared_address(b))
                 : "memory");
#endif
}

/* mbarrier.arrive.expect_tx: arrives, and increases the number of bytes that this phase expects by
 * n_bytes. */
static __device__ __forceinline__ void kvr_barrier_expect(kvr_shared<uint64_t> b, unsigned n_bytes)
{
#ifdef KVR_EMULATED
    kvr_emu::barrier_arrive(b.inside(), b.address(), n_bytes);
#else
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(kvr_shared_address(b)),
        "r"(n_bytes)
        : "memory");
#endif
}

#ifdef KVR_EMULATED
static inline void kvr_barrier_wait(kvr_shared<uint64_t> b, unsigned parity, KVR_EMU_AT)
{
    kvr_emu::barrier_wait(b.inside(), b.address(), parity, false, file, line);
}
static inline void kvr_barrier_wait_cluster(kvr_shared<uint64_t> b, unsigned parity, KVR_EMU_AT)
{
    kvr_emu::barrier_wait(b.inside(), b.address(), parity, true, file, line);
}
static inline void kvr_cluster_arrive(KVR_EMU_AT)
{
    kvr_emu::cluster_arrive(file, line);
}
static inline void kvr_cluster_wait(KVR_EMU_AT)
{
    kvr_emu::cluster_wait(file, line);
}
static inline void kvr_named_sync(int id, int n_threads, KVR_EMU_AT)
{
    kvr_emu::named_barrier(id, n_threads, true, file, line);
}
static inline void kvr_named_arrive(int id, int n_threads, KVR_EMU_AT)
{
    kvr_emu::named_barrier(id, n_threads, false, file, line);
}
#else
static __device__ __forceinline__ void kvr_barrier_wait(uint64_t *b, unsigned parity)
{
    unsigned passed;

    do
        asm volatile("{\n.reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n}"
                     : "=r"(passed)
                     : "r"(kvr_shared_address(b)), "r"(parity)
                     : "memory");
    while (!passed);
}

/* kvr_barrier_wait with cluster scope: the thread is also ordered after shared-memory accesses of
 * the other blocks that have arrived. */
static __device__ __forceinline__ void kvr_barrier_wait_cluster(uint64_t *b, unsigned parity)
{
    unsigned passed;

    do
        asm volatile("{\n.reg .pred p;\n"
                     "mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n}"
                     : "=r"(passed)
                     : "r"(kvr_shared_address(b)), "r"(parity)
                     : "memory");
    while (!passed);
    asm volatile("fence.acquire.sync_restrict::shared::cluster.cluster;" ::: "memory");
}

/* barrier.cluster, with release semantics at the arrival and acquire semantics at the wait. */
static __device__ __forceinline__ void kvr_cluster_arrive()
{
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
}
static __device__ __forceinline__ void kvr_cluster_wait()
{
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

/* Named barrier `id`, from 1 to 15, for n_threads threads, a multiple of 32. kvr_named_sync waits
 * for the barrier, kvr_named_arrive does not. */
static __device__ __forceinline__ void kvr_named_sync(int id, int n_threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
}
static __device__ __forceinline__ void kvr_named_arrive(int id, int n_threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
}
#endif

/* fence.proxy.async: bulk copies and wgmma that start later see the generic writes that are visible
 * to this thread. */
static __device__ __forceinline__ void kvr_fence_async()
{
#ifdef KVR_EMULATED
    kvr_emu::fence_async();
#else
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/* ---- other blocks of the cluster ------------------------------------------------------------ */

static __device__ __forceinline__ unsigned kvr_cluster_rank()
{
#ifdef KVR_EMULATED
    return kvr_emu::here->rank;
#else
    unsigned rank;

    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
#endif
}

/* Number of blocks of the cluster. */
static __device__ __forceinline__ unsigned kvr_cluster_blocks()
{
#ifdef KVR_EMULATED
    return kvr_emu::here->n_ranks;
#else
    unsigned n;

    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
    return n;
#endif
}

/* The address in block `rank` that corresponds to p in this block. */
template <class T>
static __device__ __forceinline__ kvr_remote<T> kvr_remote_of(kvr_shared<T> p, unsigned rank)
{
#ifdef KVR_EMULATED
    struct kvr_emu::region *r = kvr_emu::map_shared(p.inside(), rank);

    return { kvr_shared<T>(
        p.address() - (uintptr_t)kvr_emu::begin(p.inside()) + (uintptr_t)kvr_emu::begin(r), r) };
#else
    unsigned at;

    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(kvr_shared_address(p)), "r"(rank));
    return { at };
#endif
}

template <class U, class T>
static __device__ __forceinline__ kvr_remote<U> kvr_remote_as(kvr_remote<T> r)
{
#ifdef KVR_EMULATED
    return { kvr_as<U>(r.p) };
#else
    return { r.at };
#endif
}

/* mbarrier.arrive with cluster scope. A thread that has returned from kvr_barrier_wait_cluster may
 * overwrite data that the arriving thread, or a thread that the arriving thread has synchronized
 * with, has read. Writes become visible to other blocks only at a cluster barrier. */
static __device__ __forceinline__ void kvr_remote_arrive(kvr_remote<uint64_t> b)
{
#ifdef KVR_EMULATED
    kvr_emu::remote_arrive(b.p.inside(), b.p.address());
#else
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(b.at) : "memory");
#endif
}

/* Relaxed mbarrier.arrive.expect_tx: arrives, and increases the number of bytes that this phase
 * expects by n_bytes. It orders no accesses. */
static __device__ __forceinline__ void kvr_remote_expect(kvr_remote<uint64_t> b, unsigned n_bytes)
{
#ifdef KVR_EMULATED
    kvr_emu::remote_expect(b.p.inside(), b.p.address(), n_bytes);
#else
    asm volatile(
        "mbarrier.arrive.expect_tx.relaxed.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(b.at),
        "r"(n_bytes)
        : "memory");
#endif
}

/* st.async of 16 bytes, with complete_tx on b, which is an mbarrier in the block of `to`. */
static __device__ __forceinline__ void kvr_remote_store(kvr_remote<uint4> to, const uint4 &x,
                                                        kvr_remote<uint64_t> b)
{
#ifdef KVR_EMULATED
    kvr_emu::remote_store(to.p.inside(), to.p.address(), &x, b.p.inside(), b.p.address());
#else
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 "
                 "[%0], {%1,%2,%3,%4}, [%5];" ::"r"(to.at),
                 "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "r"(b.at)
                 : "memory");
#endif
}

/* Bulk copy of n bytes to another block, with complete_tx on b, which is an mbarrier in the block
 * of `to`. Addresses and n are multiples of 16. The copy reads the source through the async proxy,
 * so the source needs kvr_fence_async; wgmma may read the target without a fence. Only one thread
 * calls this function. */
static __device__ __forceinline__ void kvr_remote_copy(kvr_remote<uint8_t> to,
                                                       kvr_shared<uint8_t> from, unsigned n,
                                                       kvr_remote<uint64_t> b)
{
#ifdef KVR_EMULATED
    kvr_emu::remote_copy(to.p.inside(), to.p.address(), from.inside(), from.address(), n,
                         b.p.inside(), b.p.address());
#else
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(to.at),
                 "r"(kvr_shared_address(from)), "r"(n), "r"(b.at)
                 : "memory");
#endif
}

static __device__ __forceinline__ unsigned kvr_remote_load(kvr_remote<unsigned> from)
{
#ifdef KVR_EMULATED
    return *(const unsigned *)kvr_emu::remote_read(from.p.inside(), from.p.address(), 4);
#else
    unsigned x;

    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(x) : "r"(from.at) : "memory");
    return x;
#endif
}

/* ---- registers ----------------------------------------------------------------------------- */

/* setmaxnreg redistributes the registers that the launch allocated: the number of threads times the
 * registers per thread of the compiled kernel, which is less than the register file. With launch
 * bounds (threads, 1) ptxas uses at most floor(65536 / threads / 8) * 8 registers per thread. For
 * 384 threads that is 168, which makes a pool of 504 x 128. A setmaxnreg.inc that exceeds the pool
 * waits forever. */
enum { KVR_REGISTER_FILE = 65536, KVR_MOST_REGISTERS = 256 };
static constexpr int kvr_launch_registers(int threads)
{
    const int n = KVR_REGISTER_FILE / threads / 8 * 8;

    return n < KVR_MOST_REGISTERS ? n : KVR_MOST_REGISTERS;
}
/* Whether the registers of one producer warp group and of the remaining consumer warp groups fit
 * the register pool of a launch. */
static constexpr bool kvr_registers_fit(int threads, int producer, int consumer)
{
    const int groups = threads / KVR_WARP_GROUP;

    return producer + (groups - 1) * consumer <= groups * kvr_launch_registers(threads);
}

/* setmaxnreg to N registers per thread. All warps of a warp group must execute it. With `inc` it
 * waits until the pool has enough registers. */
template <int N> static __device__ __forceinline__ void kvr_setmaxnreg_inc()
{
    static_assert(N >= 24 && N <= 256 && N % 8 == 0, "registers are given in eights");
#ifdef KVR_EMULATED
    kvr_emu::set_registers(N, true);
#else
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
#endif
}
template <int N> static __device__ __forceinline__ void kvr_setmaxnreg_dec()
{
    static_assert(N >= 24 && N <= 256 && N % 8 == 0, "registers are given in eights");
#ifdef KVR_EMULATED
    kvr_emu::set_registers(N, false);
#else
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
#endif
}

/* ---- bulk copies --------------------------------------------------------------------------- */

/* TMA copy of a box to `to`, with complete_tx on b. The box belongs to head h and starts at channel
 * c and token t. Only one thread calls this function. */
static __device__ __forceinline__ void kvr_tile_begin(kvr_shared<kvr_bf16> to,
                                                      const struct kvr_tensor_map &map, int c,
                                                      int h, int t, kvr_shared<uint64_t> b)
{
#ifdef KVR_EMULATED
    kvr_emu::tile_begin(to.inside(), to.address(), &map, c, h, t, b.inside(), b.address(), false);
#else
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(kvr_shared_address(to)),
                 "l"(&map.map), "r"(c), "r"(h), "r"(t), "r"(kvr_shared_address(b))
                 : "memory");
#endif
}

/* The same copy as kvr_tile_begin, multicast to all blocks of the cluster at the same offsets of
 * `to` and b. */
static __device__ __forceinline__ void kvr_tile_begin_all(kvr_shared<kvr_bf16> to,
                                                          const struct kvr_tensor_map &map, int c,
                                                          int h, int t, kvr_shared<uint64_t> b)
{
#ifdef KVR_EMULATED
    kvr_emu::tile_begin(to.inside(), to.address(), &map, c, h, t, b.inside(), b.address(), true);
#else
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(kvr_shared_address(to)),
        "l"(&map.map), "r"(c), "r"(h), "r"(t), "r"(kvr_shared_address(b)),
        "h"((unsigned short)((1u << kvr_cluster_blocks()) - 1))
        : "memory");
#endif
}

/* ---- wgmma ---------------------------------------------------------------------------------- */

/* PTX's matrix descriptor. A field with an address or a byte offset x has 14 bits, (x & 0x3FFFF) >>
 * 4.
 *
 *     63 62  51  49  45           32  29            16  13          0
 *     | swizzle | base | stride offset | leading offset | start address |
 *
 * Swizzle 1 is the 128-byte swizzle. The base offset is 0, because tiles are aligned to 1024 bytes.
 * In a cluster an address contains the block's rank from bit 24 on; the mask keeps the rank out of
 * the leading offset. */
static __device__ __forceinline__ kvr_operand kvr_operand_encode(unsigned address, unsigned leading,
                                                                 unsigned stride)
{
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(leading >> 4) << 16 |
           (uint64_t)(stride >> 4) << 32 | (uint64_t)1 << 62;
}

/* Descriptor of an operand in a tile whose rows have 64 BF16 elements or 128 bytes. A product takes
 * 16 columns of BF16 or 32 columns of bytes from the tile. From a transposed operand it takes 16
 * rows of BF16.
 *
 *     K-major      `stride` bytes from 8 rows to the next 8; `leading` is ignored
 *     transposed   `stride` bytes from 8 rows to the next 8; `leading` bytes from 64 columns to the
 *                  next 64 */
static __device__ __forceinline__ kvr_operand kvr_operand_at(kvr_shared<const kvr_bf16> p,
                                                             unsigned leading, unsigned stride)
{
#ifdef KVR_EMULATED
    const unsigned address = kvr_emu::shared_address(p.inside(), p.address());

    kvr_emu::check_operand_fields(address, leading, stride);
    return kvr_operand_encode(address, leading, stride);
#else
    return kvr_operand_encode(kvr_shared_address(p), leading, stride);
#endif
}

/* Descriptor of the operand that starts n_bytes further on. n_bytes is a multiple of 16, and the
 * new start address must still fit its field. */
static __device__ __forceinline__ kvr_operand kvr_operand_from(kvr_operand m, int n_bytes)
{
#ifdef KVR_EMULATED
    return kvr_emu::operand_from(m, n_bytes);
#else
    return m + (uint64_t)(n_bytes >> 4);
#endif
}

#ifndef KVR_EMULATED
/* Compiler barrier on these registers: the compiler moves no access to them across it. */
template <int N>
static __device__ __forceinline__ void kvr_registers_pass(struct kvr_registers<float, N> &r)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(r.x[i])::"memory");
}
template <int N>
static __device__ __forceinline__ void kvr_registers_pass(struct kvr_registers<int, N> &r)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+r"(r.x[i])::"memory");
}
template <int N>
static __device__ __forceinline__ void kvr_registers_pass(struct kvr_registers<unsigned, N> &r)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+r"(r.x[i])::"memory");
}
#endif

/* wgmma.fence: from here on the products that follow own the registers. */
template <class... R> static __device__ __forceinline__ void kvr_wgmma_fence(R &...r)
{
#ifdef KVR_EMULATED
    (kvr_emu::lend_registers(&r.held), ...);
#else
    (kvr_registers_pass(r), ...);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

/* wgmma.commit_group: puts the products since the last commit into a group. */
static __device__ __forceinline__ void kvr_wgmma_commit()
{
#ifdef KVR_EMULATED
    kvr_emu::product_commit();
#else
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

/* wgmma.wait_group: waits until at most PENDING groups are in flight. Afterwards the thread owns
 * the registers that it has passed. No product that is still in flight may use these registers. */
template <int PENDING, class... R> static __device__ __forceinline__ void kvr_wgmma_wait(R &...r)
{
    static_assert(PENDING >= 0 && PENDING <= 7, "the instruction has three bits for it");
#ifdef KVR_EMULATED
    kvr_emu::product_wait(PENDING);
    (kvr_emu::return_registers(&r.held, PENDING), ...);
#else
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
    (kvr_registers_pass(r), ...);
#endif
}

/* F32 accumulators [64,128] of a warp group. Thread 32 w + 4 g + t holds rows 16 w + g and 16 w + g
 * + 8. Of every 8 columns it holds 2 t and 2 t + 1, as in c of kvr_mma. */
typedef struct kvr_registers<float, 64> kvr_sums;
/* INT32 accumulators of 8-bit products, with the layout of kvr_sums. */
typedef struct kvr_registers<int, 64> kvr_whole_sums;

#ifndef KVR_EMULATED
/* clang-format off */
#define KVR_SUMS_64                                                                                \
    "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"                                      \
    "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"                             \
    "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"                             \
    "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}"
#define KVR_SUMS_32                                                                                \
    "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"                                      \
    "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}"
#define KVR_OF_8(d, i)                                                                             \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]),    \
    "+f"(d[i + 6]), "+f"(d[i + 7])
#define KVR_OF_32(d) KVR_OF_8(d, 0), KVR_OF_8(d, 8), KVR_OF_8(d, 16), KVR_OF_8(d, 24)
#define KVR_OF_64(d)                                                                               \
    KVR_OF_8(d, 0), KVR_OF_8(d, 8), KVR_OF_8(d, 16), KVR_OF_8(d, 24), KVR_OF_8(d, 32),             \
    KVR_OF_8(d, 40), KVR_OF_8(d, 48), KVR_OF_8(d, 56)
#define KVR_INT_8(d, i)                                                                            \
    "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3]), "+r"(d[i + 4]), "+r"(d[i + 5]),    \
    "+r"(d[i + 6]), "+r"(d[i + 7])
#define KVR_INT_32(d) KVR_INT_8(d, 0), KVR_INT_8(d, 8), KVR_INT_8(d, 16), KVR_INT_8(d, 24)
#define KVR_INT_64(d)                                                                              \
    KVR_INT_8(d, 0), KVR_INT_8(d, 8), KVR_INT_8(d, 16), KVR_INT_8(d, 24), KVR_INT_8(d, 32),        \
    KVR_INT_8(d, 40), KVR_INT_8(d, 48), KVR_INT_8(d, 56)
/* clang-format on */
#endif

/* d = a b^T, or d += a b^T if `add`. Both a [64,16] and b [128,16] are in shared memory. */
static __device__ __forceinline__ void kvr_wgmma(kvr_sums &d, kvr_operand a, kvr_operand b,
                                                 bool add)
{
#ifdef KVR_EMULATED
    kvr_emu::product_begin(kvr_emu::BF16, d.x, &d.held, &a, NULL, NULL, b, 128, false, add);
#else
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " KVR_SUMS_64
                 ", %64, %65, p, 1, 1, 0, 0;\n}"
                 : KVR_OF_64(d.x)
                 : "l"(a), "l"(b), "r"((int)add));
#endif
}

/* d += a b. a [64,16] is in registers i to i + 3 of each thread; the registers of warp w hold rows
 * 16 w to 16 w + 15 in the layout of a in kvr_mma. b [16,128] is in shared memory, transposed. */
template <int N>
static __device__ __forceinline__ void
kvr_wgmma_transposed(kvr_sums &d, struct kvr_registers<unsigned, N> &a, int i, kvr_operand b)
{
#ifdef KVR_EMULATED
    kvr_emu::product_begin(kvr_emu::BF16, d.x, &d.held, NULL, a.x + i, &a.held, b, 128, true, true);
#else
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " KVR_SUMS_64
                 ", {%64,%65,%66,%67}, %68, 1, 1, 1, 1;"
                 : KVR_OF_64(d.x)
                 : "r"(a.x[i]), "r"(a.x[i + 1]), "r"(a.x[i + 2]), "r"(a.x[i + 3]), "l"(b));
#endif
}

/* Like the function above, but with 64 columns: b is [16,64], and a thread has 32 accumulators. */
template <int N>
static __device__ __forceinline__ void kvr_wgmma_transposed(struct kvr_registers<float, 32> &d,
                                                            struct kvr_registers<unsigned, N> &a,
                                                            int i, kvr_operand b)
{
#ifdef KVR_EMULATED
    kvr_emu::product_begin(kvr_emu::BF16, d.x, &d.held, NULL, a.x + i, &a.held, b, 64, true, true);
#else
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " KVR_SUMS_32
                 ", {%32,%33,%34,%35}, %36, 1, 1, 1, 1;"
                 : KVR_OF_32(d.x)
                 : "r"(a.x[i]), "r"(a.x[i + 1]), "r"(a.x[i + 2]), "r"(a.x[i + 3]), "l"(b));
#endif
}

/* ---- 8-bit operands ------------------------------------------------------------------------- */

#ifndef KVR_EMULATED
#define KVR_BYTES_OF_SHARED(type, d, a, b, add)                                                    \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"                                      \
                 "wgmma.mma_async.sync.aligned.m64n128k32.s32." type "." type " " KVR_SUMS_64      \
                 ", %64, %65, p;\n}"                                                               \
                 : KVR_INT_64(d)                                                                   \
                 : "l"(a), "l"(b), "r"((int)(add)))
#endif

/* d = a b^T, or d += a b^T if `add`. Both a [64,32] and b [128,32] are signed bytes in shared
 * memory. */
static __device__ __forceinline__ void kvr_wgmma_signed(kvr_whole_sums &d, kvr_operand a,
                                                        kvr_operand b, bool add)
{
#ifdef KVR_EMULATED
    kvr_emu::product_begin(kvr_emu::SIGNED_BYTES, d.x, &d.held, &a, NULL, NULL, b, 128, false, add);
#else
    KVR_BYTES_OF_SHARED("s8", d.x, a, b, add);
#endif
}

/* Like the function above, but with unsigned bytes. */
static __device__ __forceinline__ void kvr_wgmma_bytes(kvr_whole_sums &d, kvr_operand a,
                                                       kvr_operand b, bool add)
{
#ifdef KVR_EMULATED
    kvr_emu::product_begin(kvr_emu::BYTES, d.x, &d.held, &a, NULL, NULL, b, 128, false, add);
#else
    KVR_BYTES_OF_SHARED("u8", d.x, a, b, add);
#endif
}

/* Like the function above, but a [64,32] is in registers i to i + 3 of each thread. Thread 32 w + 4
 * g + t holds rows 16 w + g and 16 w + g + 8: bytes 4 t to 4 t + 3 of both rows in registers 0 and
 * 1, bytes 4 t + 16 to 4 t + 19 in registers 2 and 3. */
template <int N>
static __device__ __forceinline__ void kvr_wgmma_bytes(kvr_whole_sums &d,
                                                       struct kvr_registers<unsigned, N> &a, int i,
                                                       kvr_operand b, bool add)
{
#ifdef KVR_EMULATED
    kvr_emu::product_begin(kvr_emu::BYTES, d.x, &d.held, NULL, a.x + i, &a.held, b, 128, false,
                           add);
#else
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k32.s32.u8.u8 " KVR_SUMS_64
                 ", {%64,%65,%66,%67}, %68, p;\n}"
                 : KVR_INT_64(d.x)
                 : "r"(a.x[i]), "r"(a.x[i + 1]), "r"(a.x[i + 2]), "r"(a.x[i + 3]), "l"(b),
                   "r"((int)add));
#endif
}

/* Like the function above, but with 64 columns: b is [64,32], and a thread has 32 accumulators. */
template <int N>
static __device__ __forceinline__ void kvr_wgmma_bytes(struct kvr_registers<int, 32> &d,
                                                       struct kvr_registers<unsigned, N> &a, int i,
                                                       kvr_operand b, bool add)
{
#ifdef KVR_EMULATED
    kvr_emu::product_begin(kvr_emu::BYTES, d.x, &d.held, NULL, a.x + i, &a.held, b, 64, false, add);
#else
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k32.s32.u8.u8 " KVR_SUMS_32
                 ", {%32,%33,%34,%35}, %36, p;\n}"
                 : KVR_INT_32(d.x)
                 : "r"(a.x[i]), "r"(a.x[i + 1]), "r"(a.x[i + 2]), "r"(a.x[i + 3]), "l"(b),
                   "r"((int)add));
#endif
}

#endif
