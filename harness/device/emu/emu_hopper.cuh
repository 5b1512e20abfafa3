/* emu_hopper.cuh - sm_90 on the emulated device: the state that emu_hopper.cc, emu_mbarrier.cc,
 * emu_cluster.cc, emu_tma.cc, emu_wgmma.cc and emu_setmaxnreg.cc share.
 *
 * In a block that uses instructions of sm_90, the emulator detects data races by vector clocks.
 * Every thread has a clock, which advances at every synchronization of the thread. A thread also
 * has a view (its vector clock): for every other clock, the latest time that happens before the
 * thread's next access. A barrier merges the views of arriving threads and joins the result to the
 * views of waiting threads. Two conflicting accesses are a race if the view of the later access
 * does not contain the earlier access.
 *
 * Asynchronous operations have clocks of their own, which are further entries of every vector
 * clock. Every mbarrier has a clock for the bulk copies that signal it; the value of this clock is
 * the number of the mbarrier's current phase. A wgmma uses the clock of its warp's tensor core; its
 * reads of operands end at wgmma.wait_group. A thread has a second vector clock, `fenced`, for the
 * generic writes that the async proxy sees: the writes that happened before the thread's last
 * fence.proxy.async.
 *
 * The emulator's pseudorandom scheduler (emu.cuh) decides when a bulk copy completes. The emulator
 * computes the matrix product of a wgmma only when the threads execute the wgmma.wait_group that
 * waits for this wgmma.
 *
 * The blocks of a cluster share one set of clocks. An mbarrier has one view (vector clock) for
 * arrivals by threads of its own block, and a second view for arrivals and stores (st.async) by
 * other blocks. Only an mbarrier wait with cluster scope joins the second view to the view of the
 * waiting thread. Every mbarrier also has a second clock, for the remote stores that signal it.
 * Bulk copies and remote stores need different clocks: wgmma sees the bytes of a bulk copy without
 * a fence.proxy.async, but those of a remote store only after one. */
/* The PTX ISA (9.0) states the following rules for the instructions of hopper.cuh. The emulator
 * checks every rule unless this comment says otherwise. Every check has a test that violates the
 * rule and expects the emulator's error message. The test is a kernel with a deliberate error in
 * tests/cuda/faults_*.cu, or a test case in tests/cuda/test_emu.c.
 *
 * Rules of mbarriers (mbarrier.*). An mbarrier expects 1 to 2^20 - 1 arrivals per phase. The
 * tx-count of an mbarrier is at most 2^20 - 1. The lower bound of the tx-count, -(2^20 - 1), needs
 * no check: the bulk copies and st.async of one phase write different bytes of a block's shared
 * memory, which has fewer than 2^20 bytes. An mbarrier is in shared memory at an 8-byte aligned
 * address. One thread initializes an mbarrier once, and a barrier orders the initialization before
 * every use by other threads. No thread accesses an initialized mbarrier by ordinary loads or
 * stores. An mbarrier receives no more arrivals per phase than it expects. A thread waits for the
 * parity of the current or of the preceding phase of an mbarrier. A parity does not tell phase k
 * from phase k + 2. The emulator therefore assumes that a thread waits for consecutive phases, or
 * again for the phase that it waited for last. The rules of mbarrier.inval,
 * test_wait, arrive_drop, .noComplete and try_wait on another block's mbarrier are omitted, because
 * hopper.cuh has no wrappers for them.
 *
 * Rules of bulk copies (cp.async.bulk). The addresses and the size of a bulk copy are multiples of
 * 16 bytes. The shared-memory target of a tensor copy is aligned to 128 bytes, or to 1024 bytes
 * with the 128-byte swizzle. A bulk copy stays within its source and target arrays. The mbarrier of
 * a bulk copy is in the shared memory of the block that contains the copy's target. A multicast
 * copy targets only blocks that have started. Until a bulk copy completes, no thread writes its
 * source or accesses its target. At least one thread waits for each bulk copy before the target's
 * block exits. A fence.proxy.async is required between generic writes and a bulk copy that reads or
 * overwrites the written bytes. The emulator does not require a fence.proxy.async between a generic
 * read and a bulk copy that overwrites the bytes; as in CUTLASS, an mbarrier alone orders the two
 * accesses. The emulator does not model fence.proxy.async for global memory, so it rejects a bulk
 * copy that reads global memory written by the same launch. The rules of .bulk_group completion and
 * of bulk reductions, prefetches and stores to global memory are omitted, because hopper.cuh has no
 * wrappers for them.
 *
 * Rules of tensor maps. The global address of a tensor map is a multiple of 16 bytes. The
 * dimensions of a tensor map are 1 to 2^32 elements. The strides of a tensor map are multiples of
 * 16 bytes below 2^40. A box has 1 to 256 elements in each dimension. The inner dimension of a box
 * is a multiple of 16 bytes, and with the 128-byte swizzle at most 128 bytes. Tensor maps are
 * tiled, not interleaved, and have element strides of 1. Under nvcc, a static_assert checks the
 * size (128 bytes) and the alignment (at least 64 bytes) of a CUtensorMap. The emulator does not
 * check that a kernel parameter with a tensor map is __grid_constant__.
 *
 * Rules of wgmma. A block that executes wgmma consists of whole warpgroups. All threads of a warp
 * group issue the same wgmma with equal descriptors. In the matrix descriptor of a wgmma operand,
 * the start address and the offsets are multiples of 16 bytes below 2^18, and the bits outside the
 * fields are 0. The emulator supports only the 128-byte swizzle with a base offset of 0. A
 * wgmma.fence is required between a thread's access to a register and a wgmma that uses the
 * register. A thread does not access the registers of a wgmma before the thread's wgmma.wait_group
 * for this wgmma. A wgmma.commit_group precedes each wgmma.wait_group. At most 7 groups may stay
 * pending after a wgmma.wait_group (checked by a static_assert). Between a wgmma and its
 * wgmma.wait_group, no thread and no copy writes the wgmma's operands in shared memory. A
 * fence.proxy.async is required between generic writes and a wgmma that reads the written bytes.
 * The emulator does not check the shape and the operand types of a wgmma, because hopper.cuh has
 * wrappers only for valid ones.
 *
 * Rules of setmaxnreg. The operand of setmaxnreg is a multiple of 8 from 24 to 256 (checked by a
 * static_assert). A setmaxnreg.dec does not increase a warp's registers per thread, and a
 * setmaxnreg.inc does not decrease them. A setmaxnreg.inc waits until enough of the registers that
 * the launch allocated for the block are free; the emulator reports a wait that cannot end. All
 * warps of a warpgroup execute the same setmaxnreg, and synchronize before the next setmaxnreg.
 * For nvcc builds, tools/sass/setmaxnreg.py checks the requests of setmaxnreg against the registers
 * that ptxas assigned to the kernel, and fails if ptxas ignored a setmaxnreg. A setmaxnreg.inc
 * leaves the added registers undefined; the emulator does not check that a thread writes them
 * before it reads them.
 *
 * Rules of clusters. The rank of a block is below the cluster size, and the cluster size divides
 * the grid size. The emulator runs at most 4 blocks per cluster (the portable maximum is 8). Every
 * thread of a cluster alternately arrives at the cluster barrier and waits for it. No thread
 * accesses the shared memory of a block before the block has started or after the block has exited.
 * The target of an st.async is 16-byte aligned, and its mbarrier is in the shared memory of the
 * same block as the target. A thread may read data that an st.async has stored only after an
 * mbarrier wait with cluster scope. Such a wait also orders the reads that threads of other blocks
 * did before they arrived on the mbarrier. It does not order plain writes to the shared memory of
 * another block; only the cluster barrier does.
 *
 * Rules of named barriers (bar.sync, bar.arrive). A named barrier has an index from 1 to 15. The
 * thread count of a named barrier is a multiple of 32, is at most the block's thread count, and is
 * equal in all calls of one phase. All lanes of a warp arrive at a named barrier. No warp arrives
 * twice at a named barrier in one phase. */
#ifndef KVR_DEVICE_EMU_HOPPER_CUH
#define KVR_DEVICE_EMU_HOPPER_CUH

#include "harness/device/emu/emu_machine.cuh"

#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "harness/device/hopper.cuh"

namespace kvr_emu
{

enum {
    /* Entries of a vector clock: one per thread, then (from index PHASED) one per mbarrier for its
     * bulk copies. From STORED on, one per mbarrier for its remote stores; from CORES on, one per
     * warp for its wgmma operations. */
    PHASED = MAX_CLOCKED,
    MAX_PHASED = 112, /* maximum number of mbarriers in an emulated cluster */
    STORED = PHASED + MAX_PHASED,
    CORES = STORED + MAX_PHASED,
    WHO = CORES + MAX_CLOCKED / 32, /* number of entries of a vector clock */
    MAX_NAMED = 16,
    MAX_COMING = 64,
    MAX_STORES = 8192, /* maximum number of remote stores in flight */
    STORE_BYTES = 16,
    MAX_PRODUCTS = 64, /* maximum number of wgmma in flight per warpgroup */
    /* exclusive upper bound of the arrival count and of the tx-count of an mbarrier */
    MOST_ARRIVE = 1 << 20,
    /* largest value of the start address and of the offsets in a matrix descriptor, in units of 16
     * bytes */
    FIELD = (1 << 14) - 1,
    MOST_OFFSET = FIELD << 4,
    MAX_SETMAXNREG = 8, /* maximum number of setmaxnreg that a warp may execute in a launch */
    N = 128,            /* maximum number of columns of a wgmma result */
    /* bytes of an operand row that one wgmma multiplies (32 8-bit or 16 BF16 elements) */
    K = 32,
    ROWS = 64,
};
static_assert(WHO <= 1024, "a stamp has 10 bits for who");

static const uint32_t MAX_CLOCK = (1u << 24) - 1;

struct view {
    uint32_t seen[WHO], fenced[WHO];
};

/* State of an mbarrier. */
struct phased {
    struct region *in;
    uintptr_t at;
    stamp init;
    /* numbers of three phases: the current phase (from 0), the last phase with bulk copies, and the
     * last phase that a thread has waited for (both from 1; 0 means none) */
    uint32_t phase, copied, waited;
    /* numbers of the last phase with remote stores and of the last phase that a thread has waited
     * for with cluster scope (both from 1; 0 means none) */
    uint32_t stored, far_waited;
    /* passed[i] is the number of the last phase that thread i of the cluster has waited for (from
     * 1; 0 means none). */
    uint32_t passed[MAX_CLOCKED];
    /* number of arrivals that a phase expects, and number of these arrivals that the current phase
     * still lacks */
    unsigned count, lacking;
    int64_t bytes; /* tx-count */
    /* vector clocks of the arriving threads, merged over the current phase (`open`) and over all
     * completed phases (`done`) */
    struct view open, done;
    /* vector clocks of the arriving threads of other blocks, merged over the current phase (`far`)
     * and over all completed phases (`far_done`) */
    struct view far, far_done;
};

/* State of a named barrier (bar.sync, bar.arrive). */
struct named {
    int expected, came;
    bool has[MAX_CLOCKED]; /* whether thread i has arrived in the current phase */
    struct view open;
};

/* A bulk copy in flight to shared memory. Its source is a box of a tensor map (global memory), or n
 * bytes of shared memory. */
struct coming {
    struct region *to;
    uintptr_t at;
    struct kvr_tensor_map map;
    struct region *from;
    uintptr_t source; /* address of a source in shared memory, or 0 if the source is a box */
    size_t n;         /* bytes copied from shared memory, or 0 if the source is a box */
    int c, h;
    int64_t t;
    int barrier;
};

/* A remote store (st.async to the shared memory of another block) in flight. */
struct store {
    struct region *to;
    uintptr_t at;
    unsigned char bytes[STORE_BYTES];
    int barrier;
};

/* State of the cluster barrier. */
struct meeting {
    unsigned came;
    uint32_t phase;
    struct view open, done;
};

/* The decoded matrix descriptor of a wgmma operand in shared memory. */
struct matrix {
    /* the shared array that contains the operand's start address `at`, or NULL if no array contains
     * this address */
    struct region *in;
    uintptr_t at;
    unsigned leading, stride;
};

struct product {
    void *sums; /* accumulators: float, or int32_t for 8-bit operands */
    struct held *held, *held_a;
    /* matrix descriptors of A and B; descriptor_a is 0 if A is in registers */
    uint64_t descriptor_a, descriptor_b;
    struct matrix a, b;
    unsigned of_a[4];
    enum numbers numbers;
    int columns;
    bool registers, transposed, add;
    unsigned group;
};

/* State of a thread in a block with vector clocks. */
struct member {
    struct view view;
    /* index of the mbarrier, named barrier or warpgroup at which the thread waits */
    int on;
    /* whether the thread has arrived at the cluster barrier and has not waited for it since */
    bool came;
    uint32_t phase; /* phase of the cluster barrier when the thread arrived */
    int n_products, keeps;
    unsigned group;
    struct product product[MAX_PRODUCTS];
};

/* Registers of a warp: its current registers per thread (`now`), and the registers per thread that
 * a pending setmaxnreg.inc requests (`wants`). The warp has executed n_set setmaxnreg instructions.
 * For each of these instructions, `set` contains the operand (negated for setmaxnreg.dec), and `at`
 * the clock of the warp's lane 0 at its execution. */
struct warp_registers {
    int now, wants, n_set;
    int set[MAX_SETMAXNREG];
    uint32_t at[MAX_SETMAXNREG];
};

struct hopper {
    int n_phased;
    struct phased phased[MAX_PHASED];
    struct named named[MAX_CLUSTER * MAX_NAMED];
    unsigned n_copies, n_stores;
    struct coming coming[MAX_COMING];
    struct store store[MAX_STORES];
    struct meeting meeting;
    /* reached[block][thread] is the clock value, plus 1, of the last access of a thread of another
     * block to the shared memory of `block`. The value 0 means that there was no access. */
    uint32_t reached[MAX_CLUSTER][MAX_CLOCKED];
    struct member member[MAX_CLOCKED];
    uint32_t
        core[MAX_CLOCKED / 32]; /* per warp: logical clock of its asynchronous wgmma operations */
    struct warp_registers registers[MAX_CLOCKED / 32];
    /* number of threads that wait in wgmma.wait_group, per warpgroup */
    unsigned in_group[MAX_CLOCKED / KVR_WARPGROUP];
    /* The swizzle mode of the last bulk copy to each 16-byte chunk of the cluster's shared
     * memory. */
    unsigned char swizzle[MAX_CLUSTER * SHARED_BYTES / 16];
    /* operands and result of the wgmma that the emulator is computing */
    float a[ROWS][K], b[K][N], sums[ROWS][N];
    int32_t whole_a[ROWS][K], whole_b[K][N], whole_sums[ROWS][N];
};

static inline uint32_t clock_of(stamp t)
{
    return (uint32_t)(t >> 12) & MAX_CLOCK;
}

static inline struct member *member_of(struct kvr_stream *s, const struct fiber *f)
{
    return &s->hopper->member[f->coords.linear];
}

static inline void join_range(uint32_t *to, const uint32_t *from, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        to[i] = from[i] > to[i] ? from[i] : to[i];
}

/* Returns the address of byte `at` after the 128-byte swizzle, which XORs address bits 4 to 6 with
 * address bits 7 to 9 (the index of the 128-byte row modulo 8). */
static inline uintptr_t swizzled(uintptr_t at)
{
    return at ^ (at >> 7 & 7) << 4;
}

/* Functions of emu_hopper.cc. */
void join(const struct kvr_stream *s, struct view *to, const struct view *from);
/* Advances the clock of fiber f after a synchronization. */
void tick(struct kvr_stream *s, struct fiber *f);
/* Returns the state of the sm_90 features (mbarriers, clocks, ...) of the running block. In a block
 * without a cluster, the first call starts the block's vector clocks. */
struct hopper *clock_block();
/* Fails unless a write happens before an asynchronous operation that the running thread starts, and
 * a fence.proxy.async orders the two if it is a generic write or a remote store. The argument
 * `then` is the stamp of the write (its thread and time), and `mine` is the view (vector clock) of
 * the asynchronous operation. */
void check_written(const struct region *r, size_t at, const struct view *mine, stamp then,
                   const char *how);
/* Wakes the threads whose state is `why` (the kind of barrier or wait) and whose barrier or warp
 * group has index `on`. */
void wake_those(struct kvr_stream *s, enum state why, int on);

/* Functions of emu_mbarrier.cc. */
/* Returns the mbarrier at address `at`. Fails unless a barrier orders the mbarrier's initialization
 * before the running thread's next access. */
struct phased *phased_at(struct region *r, uintptr_t at);
/* Completes the mbarrier's current phase if no arrivals and no bytes are pending. */
void end_phase(struct kvr_stream *s, struct phased *b);

/* Functions of emu_cluster.cc. */
/* Checks an access of the running thread to the shared memory of block `rank`. The start of block
 * `rank` must happen before the access. If `until` is true, the access must also happen before the
 * exit of block `rank`. */
void reach(unsigned rank, bool until, const char *how);
/* Completes remote store i of those in flight: writes its bytes, and subtracts them from the
 * tx-count of its mbarrier. */
void store_arrives(struct kvr_stream *s, unsigned i);

/* Functions of emu_setmaxnreg.cc. */
/* Records the error of a warp whose setmaxnreg.inc waits for registers that never become free. */
void record_registers(struct kvr_stream *s, const struct fiber *f);
/* Called when block `rank` exits. Records an error unless all warps of a warpgroup have executed
 * equally many setmaxnreg instructions. */
void check_setmaxnreg(struct kvr_stream *s, unsigned rank);

} // namespace kvr_emu

#endif
