/* hopper.cuh - wrappers of sm_90 instructions: mbarriers, bulk copies (TMA), wgmma, setmaxnreg and
 * clusters.
 *
 * In this example a producer thread (left) loads a tile, which a consumer warpgroup of 128 threads
 * (right) multiplies:
 *
 *     kvr_barrier_arrive_expect_tx(full, n_bytes);              kvr_barrier_wait(full, 0);
 *     kvr_tma_load(tile, map, c, h, t, full);       kvr_wgmma_fence(sums);
 *                                                     kvr_wgmma(sums, q, keys, false);
 *                                                     kvr_wgmma_commit();
 *     kvr_barrier_wait(empty, 0);                     kvr_wgmma_wait<0>(sums);
 *                                                     kvr_barrier_arrive(empty);
 *
 * An mbarrier counts arrivals and copied bytes. An mbarrier that has received the expected arrivals
 * and bytes completes its current phase and starts the next phase. Phase i has the parity i % 2,
 * starting at phase 0. A wait for parity p returns once the parity of the current phase is not p.
 * On a newly initialized mbarrier, a wait for parity 1 therefore returns immediately.
 *
 * Ordinary stores of a thread to shared memory (generic-proxy writes) are visible to wgmma and bulk
 * copies only after the thread has called kvr_fence_async(). Before a thread has waited for a bulk
 * copy, it must not access the copy's target. Between a wgmma and its kvr_wgmma_wait, no thread and
 * no copy may write the operands of the wgmma in shared memory; reads are allowed.
 *
 * The blocks of a cluster (KVR_LAUNCH_CLUSTERS) access one another's shared memory between two
 * cluster barriers. The first barrier ensures that all blocks have started, and the second barrier
 * ensures that no block exits while other blocks access its shared memory. In this example a block
 * (left) stores to another block (right):
 *
 *     kvr_cluster_arrive();                           kvr_barrier_wait_cluster(full, 0);
 *     kvr_cluster_wait();                             kvr_fence_async();
 *     kvr_remote_arrive_expect_tx(its_full, 16);                kvr_wgmma(...);
 *     kvr_remote_store(its_tile, x, its_full);        kvr_remote_arrive(its_empty);
 *     ...                                             ...
 *     kvr_cluster_arrive();                           kvr_cluster_arrive();
 *     kvr_cluster_wait();                             kvr_cluster_wait();
 *
 * A remote store performs complete_tx on an mbarrier of the target block, as a bulk copy does. A
 * wgmma sees the stored data only if a thread of the target block waits for that mbarrier and then
 * executes fence.proxy.async. A fence by the storing thread does not cover the store, because the
 * store is asynchronous and may complete after that fence.
 *
 * A tile in shared memory has rows of 128 bytes, is aligned to 1024 bytes and uses the 128-byte
 * swizzle: chunk c (16 bytes) of row r is stored as chunk c ^ (r % 8).
 *
 * Under nvcc the wrappers are inline PTX for sm_90a. On other architectures KVR_HAS_WGMMA is 0, and
 * kernels that use the wrappers have empty bodies. In the emulator, vector clocks detect accesses
 * that race because a barrier, fence or wait is missing (emu_hopper.cuh). */
#ifndef KVR_DEVICE_HOPPER_CUH
#define KVR_DEVICE_HOPPER_CUH

#include "harness/device/mma.cuh"

#ifndef KVR_EMULATED
#include <atomic>
#include <cuda.h>
#endif

#if defined(KVR_EMULATED) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define KVR_HAS_WGMMA 1
#else
#define KVR_HAS_WGMMA 0
#endif

/* Returns whether the device has compute capability 9.0 and the program contains sm_90a code of
 * KERNEL. Without this code, KERNEL is empty and has a launch bound of less than `threads` threads
 * per block. The first call asks the driver, which takes a few microseconds. Later calls use its
 * answer. */
template <auto *KERNEL> static bool kvr_hopper_has(const struct kvr_stream *s, int threads)
{
    if (kvr_stream_capability(s) != 90)
        return false;
#ifdef KVR_EMULATED
    return threads > 0;
#else
    static std::atomic<int> most; /* largest block that KERNEL's code allows; 0: not known yet */
    struct cudaFuncAttributes code;

    if (!most && cudaFuncGetAttributes(&code, KERNEL) == cudaSuccess)
        most = code.maxThreadsPerBlock;
    else if (!most)
        cudaGetLastError();
    return most >= threads;
#endif
}

/* Layout in which a tensor copy (TMA) stores a box in shared memory. Operands of wgmma require
 * KVR_SWIZZLE_128. */
enum kvr_swizzle { KVR_SWIZZLE_NONE, KVR_SWIZZLE_128 };

enum {
    KVR_TILE_COLUMNS = 64, /* BF16 elements per tile row of 128 bytes */
    KVR_TILE_ALIGN = 1024, /* alignment of a tile in shared memory, in bytes */
    KVR_WARPGROUP = 128,   /* number of threads of a warpgroup */
};

#ifdef KVR_EMULATED
/* A BF16 tensor [n_tok, n_heads, head_dim] in global memory, and the number of tokens (box_tok) of
 * the box that one TMA copy moves. */
struct kvr_tensor_map {
    const void *rows;
    int64_t n_tok;
    int n_heads, head_dim, box_tok;
    enum kvr_swizzle swizzle;
};

namespace kvr_emu
{

/* Returns whether cuTensorMapEncodeTiled would accept this tensor map. */
bool map_is_taken(const struct kvr_tensor_map *m);

/* Emulator state of a kvr_registers object: whether the thread or a wgmma in flight owns the
 * registers. */
struct held {
    int under_way; /* number of wgmma in flight that use the registers */
    /* If `lent` is true, wgmma in flight own the registers. If `fenced` is true, the thread has not
     * accessed the registers since its last wgmma.fence. */
    bool lent, fenced;
};

void barrier_init(struct region *r, uintptr_t at, unsigned count);
void barrier_arrive(struct region *r, uintptr_t at, unsigned bytes);
void barrier_wait(struct region *r, uintptr_t at, unsigned parity, bool of_cluster,
                  const char *file, int line);
/* The remote_* functions access the shared memory or an mbarrier of another block. The arrival of
 * remote_expect is relaxed: it orders no accesses. */
void remote_arrive(struct region *r, uintptr_t at);
void remote_expect(struct region *r, uintptr_t at, unsigned bytes);
void *remote_read(struct region *r, uintptr_t at, size_t n);
/* Starts an st.async of 16 bytes to another block's shared memory. */
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
/* Element types of wgmma operands. A wgmma of BF16 operands has k = 16 and float accumulators; a
 * wgmma of 8-bit operands has k = 32 and int32_t accumulators. */
enum numbers { BF16, SIGNED_BYTES, BYTES };

/* Returns a shared::cluster address. The bits from KVR_RANK_SHIFT on are the cluster rank of the
 * block that contains r, and the lower bits are the offset in that block's shared memory. */
unsigned shared_address(struct region *r, uintptr_t at);
/* Checks that the address and the two offsets of a matrix descriptor are multiples of 16 bytes,
 * because the encoding drops their low four bits. Also checks that both offsets fit in 14 bits
 * after the encoding. */
void check_operand_fields(unsigned address, unsigned leading, unsigned stride);
uint64_t operand_from(uint64_t descriptor, int n_bytes);
/* Starts a wgmma [64,k] x [k,columns]. The matrix descriptor `b` describes operand B, and the
 * matrix descriptor *a describes operand A. If the pointer `a` is NULL, operand A is in the four
 * registers of_a[0] to of_a[3] of every thread. */
void product_begin(enum numbers numbers, void *sums, struct held *of_sums, const uint64_t *a,
                   const unsigned *of_a, struct held *held_a, uint64_t b, int columns,
                   bool transposed, bool add);
void product_commit();
void product_wait(int pending);

} // namespace kvr_emu

/* N registers of a thread that contain an operand or accumulators of wgmma. The thread must not
 * access the registers between kvr_wgmma_fence and kvr_wgmma_wait. */
template <class T, int N> struct kvr_registers {
    T x[N];
    struct kvr_emu::held held = {};

    T &operator[](int i)
    {
        kvr_emu::use_registers(&held);
        return x[i];
    }
};

/* A pointer to the shared memory of another block of the cluster. */
template <class T> struct kvr_remote {
    kvr_shared<T> p;

    kvr_remote operator+(int i) const
    {
        return { p + i };
    }
};

/* Declares `name` as the block's dynamic shared memory, aligned for swizzled tiles. */
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
typedef uint64_t kvr_matrix_desc;
/* Position of the lowest bit of the block's cluster rank in a shared::cluster address. */
enum { KVR_RANK_SHIFT = 24 };

/* ---- host ----------------------------------------------------------------------------------- */

/* Creates the tensor map of a 16-byte aligned BF16 tensor [n_tok, n_heads, head_dim]. A box of the
 * tensor map has box_tok tokens and KVR_TILE_COLUMNS channels of one head. A tensor copy reads
 * tokens outside [0, n_tok) and channels past head_dim - 1 as zeros. If a box has channels past
 * head_dim - 1, and its first channel is not a multiple of KVR_TILE_COLUMNS, the emulator reports
 * an error, because no kernel copies such a box. The head dimension head_dim is a multiple of 8.
 * Returns false if the driver rejects the tensor map. */
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

    if (!encode && cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000,
                                                    cudaEnableDefault, NULL) != cudaSuccess)
        cudaGetLastError(); /* clear the error, which the next launch would report */
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

/* Initializes an mbarrier that expects `count` arrivals per phase. Other threads may use the
 * mbarrier after __syncthreads, and bulk copies may signal it after kvr_fence_async. */
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

/* Arrives on the mbarrier, and adds n_bytes to the bytes that the current phase expects
 * (mbarrier.arrive.expect_tx). */
static __device__ __forceinline__ void kvr_barrier_arrive_expect_tx(kvr_shared<uint64_t> b,
                                                                    unsigned n_bytes)
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

/* Like kvr_barrier_wait, but the wait acquires at cluster scope: the thread then also observes what
 * threads of the cluster's other blocks wrote to shared memory before they arrived. */
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

/* The cluster barrier (barrier.cluster) has release semantics at the arrival and acquire semantics
 * at the wait. */
static __device__ __forceinline__ void kvr_cluster_arrive()
{
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
}
static __device__ __forceinline__ void kvr_cluster_wait()
{
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

/* The named barrier `id` (1 to 15) completes when n_threads threads (a multiple of 32) have
 * arrived. The function kvr_named_sync arrives at the barrier and waits until it completes, and
 * kvr_named_arrive arrives without waiting. */
static __device__ __forceinline__ void kvr_named_sync(int id, int n_threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
}
static __device__ __forceinline__ void kvr_named_arrive(int id, int n_threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
}
#endif

/* Makes all generic-proxy writes that are visible to this thread visible to later bulk copies and
 * wgmma (fence.proxy.async). */
static __device__ __forceinline__ void kvr_fence_async()
{
#ifdef KVR_EMULATED
    kvr_emu::fence_async();
#else
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/* ---- remote blocks -------------------------------------------------------------------------- */

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

/* Returns the number of blocks in the cluster. */
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

/* Returns the address in block `rank` of the cluster that corresponds to p in this block. */
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

/* Arrives on an mbarrier of another block (mbarrier.arrive). After a thread has waited for
 * this arrival by kvr_barrier_wait_cluster, the thread may overwrite data that the arriving
 * thread read before the arrival. The same holds for data that other threads read before they
 * synchronized with the arriving thread. As in CUTLASS's ClusterBarrier, the arrival has PTX's
 * default scope, the CTA. PTX promises this order only with .release.cluster, for which nvcc 13.0
 * adds a MEMBAR per arrival. The arrival does not make writes visible to other blocks; only a
 * cluster barrier does. */
static __device__ __forceinline__ void kvr_remote_arrive(kvr_remote<uint64_t> b)
{
#ifdef KVR_EMULATED
    kvr_emu::remote_arrive(b.p.inside(), b.p.address());
#else
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(b.at) : "memory");
#endif
}

/* Arrives on an mbarrier of another block, and adds n_bytes to the bytes that the current phase
 * expects. The arrival is relaxed (mbarrier.arrive.expect_tx.relaxed): it orders no accesses. */
static __device__ __forceinline__ void kvr_remote_arrive_expect_tx(kvr_remote<uint64_t> b,
                                                                   unsigned n_bytes)
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

/* Starts an st.async of 16 bytes to another block, with complete_tx on mbarrier b of that block. */
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

/* Starts a bulk copy of n bytes to another block, with complete_tx on mbarrier b of that block. The
 * source address, the target address and n are multiples of 16. The async proxy performs the copy.
 * Therefore generic-proxy writes to the source require kvr_fence_async, but wgmma may read the
 * target without a fence. A single thread calls this function. */
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

/* The instruction setmaxnreg redistributes a block's register pool among its warpgroups. The pool
 * is the number of threads times the registers per thread of the compiled kernel, and may be
 * smaller than the register file. With launch bounds (threads, 1), ptxas uses at most floor(65536 /
 * threads / 8) * 8 registers per thread. The pool of a block of 384 threads is therefore 384 x 168
 * registers. A setmaxnreg.inc waits until other warpgroups have released enough registers. It
 * waits forever if all warpgroups together request more registers than the pool has. */
enum { KVR_REGISTER_FILE = 65536, KVR_MOST_REGISTERS = 256 };
static constexpr int kvr_launch_registers(int threads)
{
    const int n = KVR_REGISTER_FILE / threads / 8 * 8;

    return n < KVR_MOST_REGISTERS ? n : KVR_MOST_REGISTERS;
}
/* Returns whether a block's register pool is sufficient for one warpgroup with `producer`
 * registers per thread and all other warpgroups with `consumer` registers per thread. */
static constexpr bool kvr_registers_fit(int threads, int producer, int consumer)
{
    const int groups = threads / KVR_WARPGROUP;

    return producer + (groups - 1) * consumer <= groups * kvr_launch_registers(threads);
}

/* Increase (inc) or decrease (dec) the number of registers per thread of a warpgroup to N
 * (setmaxnreg). All warps of the warpgroup must execute the same setmaxnreg. */
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

/* Starts a tensor copy (TMA) of a box to shared memory at `to`, with complete_tx on mbarrier b. The
 * box has KVR_TILE_COLUMNS channels of head h from channel c on, and the box_tok tokens of
 * kvr_tensor_map_of from token t on. A single thread calls this function. */
static __device__ __forceinline__ void kvr_tma_load(kvr_shared<kvr_bf16> to,
                                                    const struct kvr_tensor_map &map, int c, int h,
                                                    int t, kvr_shared<uint64_t> b)
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

/* Starts the copy of kvr_tma_load as a multicast: every block of the cluster receives the box and
 * the complete_tx, at the same offsets in its shared memory. */
static __device__ __forceinline__ void kvr_tma_load_multicast(kvr_shared<kvr_bf16> to,
                                                              const struct kvr_tensor_map &map,
                                                              int c, int h, int t,
                                                              kvr_shared<uint64_t> b)
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

/* Encodes the matrix descriptor of PTX, which specifies a wgmma operand in shared memory. Bits 0 to
 * 13 are the start address, bits 16 to 29 the leading offset, bits 32 to 45 the stride offset, bits
 * 49 to 51 the base offset, and bits 62 and 63 the swizzle. The field of an address or byte offset
 * x is (x & 0x3FFFF) >> 4. The value 1 of the swizzle field is the 128-byte swizzle. The base
 * offset is 0, because tiles are aligned to 1024 bytes. In a cluster, an address contains the
 * block's rank from bit 24 on, and the mask 0x3FFFF keeps the rank out of the field of the leading
 * offset. */
static __device__ __forceinline__ kvr_matrix_desc kvr_matrix_desc_encode(unsigned address,
                                                                         unsigned leading,
                                                                         unsigned stride)
{
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(leading >> 4) << 16 |
           (uint64_t)(stride >> 4) << 32 | (uint64_t)1 << 62;
}

/* Returns the descriptor of a wgmma operand in a tile whose rows have 128 bytes, that is, 64 BF16
 * elements. One wgmma reads 16 columns of a BF16 tile, or 32 columns of a tile of bytes. From a
 * transposed operand, a wgmma reads 16 rows of BF16. The parameter `stride` is the byte distance
 * between row r and row r + 8. The parameter `leading` is the byte distance between column c and
 * column c + 64 of a transposed operand; a K-major operand ignores `leading`. */
static __device__ __forceinline__ kvr_matrix_desc kvr_matrix_desc_at(kvr_shared<const kvr_bf16> p,
                                                                     unsigned leading,
                                                                     unsigned stride)
{
#ifdef KVR_EMULATED
    const unsigned address = kvr_emu::shared_address(p.inside(), p.address());

    kvr_emu::check_operand_fields(address, leading, stride);
    return kvr_matrix_desc_encode(address, leading, stride);
#else
    return kvr_matrix_desc_encode(kvr_shared_address(p), leading, stride);
#endif
}

/* Returns the descriptor of an operand that starts n_bytes after the operand of descriptor m. The
 * distance n_bytes must be a multiple of 16, and the new start address must fit in the descriptor's
 * address field. */
static __device__ __forceinline__ kvr_matrix_desc kvr_matrix_desc_advance(kvr_matrix_desc m,
                                                                          int n_bytes)
{
#ifdef KVR_EMULATED
    return kvr_emu::operand_from(m, n_bytes);
#else
    return m + (uint64_t)(n_bytes >> 4);
#endif
}

#ifndef KVR_EMULATED
/* A compiler barrier for the registers r: the compiler does not move accesses to r across this
 * call. */
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

/* Transfers the ownership of the registers r from the thread to the wgmma that follow
 * (wgmma.fence). */
template <class... R> static __device__ __forceinline__ void kvr_wgmma_fence(R &...r)
{
#ifdef KVR_EMULATED
    (kvr_emu::lend_registers(&r.held), ...);
#else
    (kvr_registers_pass(r), ...);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

/* Puts the wgmma issued since the last commit into a group (wgmma.commit_group). */
static __device__ __forceinline__ void kvr_wgmma_commit()
{
#ifdef KVR_EMULATED
    kvr_emu::product_commit();
#else
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

/* Waits until at most PENDING groups are in flight (wgmma.wait_group). After the wait, the thread
 * owns the registers r again. No wgmma that is still in flight may use these registers. */
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

/* F32 accumulators [64,128] of a warpgroup. Lane 4 g + t of warp w (g < 8, t < 4, w < 4) has
 * accumulators of rows 16 w + g and 16 w + g + 8. In both rows, the lane has columns 8 j + 2 t and
 * 8 j + 2 t + 1 for all j < 16, as in operand c of kvr_mma. */
typedef struct kvr_registers<float, 64> kvr_sums;
/* INT32 accumulators [64,128] of a wgmma with 8-bit operands, in the layout of kvr_sums. */
typedef struct kvr_registers<int, 64> kvr_sums_s32;

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

/* Starts the BF16 matrix product d = a * b^T, or d += a * b^T if `add`. Operands `a` [64,16] and
 * `b` [128,16] are in shared memory. */
static __device__ __forceinline__ void kvr_wgmma(kvr_sums &d, kvr_matrix_desc a, kvr_matrix_desc b,
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

/* Starts the BF16 matrix product d += a * b. Operand `a` [64,16] is in the four registers a.x[i] to
 * a.x[i + 3] of every thread, where i is a parameter. Warp w (w < 4) of the warpgroup has rows
 * 16 w to 16 w + 15 of `a`, in the layout of kvr_mma (mma.cuh). Operand `b` [16,128] is in shared
 * memory and transposed (MN-major). */
template <int N>
static __device__ __forceinline__ void
kvr_wgmma_transposed(kvr_sums &d, struct kvr_registers<unsigned, N> &a, int i, kvr_matrix_desc b)
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

/* Like the kvr_wgmma_transposed above, but for b [16,64], so that d has 64 columns and every thread
 * has 32 accumulators. */
template <int N>
static __device__ __forceinline__ void kvr_wgmma_transposed(struct kvr_registers<float, 32> &d,
                                                            struct kvr_registers<unsigned, N> &a,
                                                            int i, kvr_matrix_desc b)
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

/* Starts the INT8 matrix product d = a * b^T, or d += a * b^T if `add`. Operands `a` [64,32] and
 * `b` [128,32] are signed bytes in shared memory. */
static __device__ __forceinline__ void kvr_wgmma_s8(kvr_sums_s32 &d, kvr_matrix_desc a,
                                                    kvr_matrix_desc b, bool add)
{
#ifdef KVR_EMULATED
    kvr_emu::product_begin(kvr_emu::SIGNED_BYTES, d.x, &d.held, &a, NULL, NULL, b, 128, false, add);
#else
    KVR_BYTES_OF_SHARED("s8", d.x, a, b, add);
#endif
}

/* Starts the matrix product of kvr_wgmma_s8, but for unsigned bytes. */
static __device__ __forceinline__ void kvr_wgmma_u8(kvr_sums_s32 &d, kvr_matrix_desc a,
                                                    kvr_matrix_desc b, bool add)
{
#ifdef KVR_EMULATED
    kvr_emu::product_begin(kvr_emu::BYTES, d.x, &d.held, &a, NULL, NULL, b, 128, false, add);
#else
    KVR_BYTES_OF_SHARED("u8", d.x, a, b, add);
#endif
}

/* Starts the UINT8 matrix product d = a * b^T, or d += a * b^T if `add`. Operand `b` [128,32] is in
 * shared memory. Operand `a` [64,32] is in the four registers a.x[i] to a.x[i + 3] of every thread,
 * where i is a parameter. Lane 4 g + t of warp w (g < 8, t < 4, w < 4) has bytes of two rows of
 * `a`. Of row 16 w + g, register a.x[i] contains bytes 4 t to 4 t + 3, and a.x[i + 2] contains
 * bytes 4 t + 16 to 4 t + 19. Registers a.x[i + 1] and a.x[i + 3] contain the same bytes of row
 * 16 w + g + 8. */
template <int N>
static __device__ __forceinline__ void kvr_wgmma_u8(kvr_sums_s32 &d,
                                                    struct kvr_registers<unsigned, N> &a, int i,
                                                    kvr_matrix_desc b, bool add)
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

/* Starts the UINT8 matrix product d = a * b^T, or d += a * b^T if `add`. Operand `a` [64,32] is in
 * registers, and operand `b` [64,32] is in shared memory. Here d has 64 columns, and every thread
 * has 32 accumulators. */
template <int N>
static __device__ __forceinline__ void kvr_wgmma_u8(struct kvr_registers<int, 32> &d,
                                                    struct kvr_registers<unsigned, N> &a, int i,
                                                    kvr_matrix_desc b, bool add)
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
