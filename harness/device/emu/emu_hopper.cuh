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
 * Asynchronous operations have clocks of their own. Every mbarrier has a clock for the bulk copies
 * that signal it; the time of this clock is the number of the current phase. A wgmma uses the clock
 * of its warp's tensor core; its reads of operands end at wgmma.wait_group. A thread's second view,
 * `fenced`, contains the generic writes that the async proxy sees: the writes that were visible to
 * the thread at its last fence.proxy.async.
 *
 * The emulator's pseudorandom scheduler (emu.cuh) decides when a bulk copy completes. The emulator
 * computes the matrix product of a wgmma only when the threads execute the wgmma.wait_group that
 * waits for this wgmma.
 *
 * The blocks of a cluster share one set of clocks. For arrivals and stores (st.async) from other
 * blocks, an mbarrier has a separate view. Only an mbarrier wait with cluster scope joins the
 * mbarrier's separate view to the view of the waiting thread. Every mbarrier has a second clock,
 * for the remote stores that signal it. Remote stores do not use the clock of bulk copies, because
 * wgmma sees a remote store only after a fence.proxy.async. */
/* The PTX ISA (9.0) states the following rules for the instructions of hopper.cuh. The emulator
 * checks every rule unless the text says otherwise. Every check has a test that violates the rule
 * and expects the emulator's report: a fault in tests/cuda/faults_*.cu or a case of test_emu.c.
 *
 * Rules of mbarriers (mbarrier.*). An mbarrier expects 1 to 2^20 - 1 arrivals per phase. The
 * tx-count of an mbarrier is at most 2^20 - 1. Its lower bound of -(2^20 - 1) needs no check,
 * because shared memory has fewer than 2^20 bytes. An mbarrier is in shared memory at an 8-byte
 * aligned address. One thread initializes an mbarrier once, and a barrier
 * orders the initialization before every use by other threads. No thread reads or writes an
 * initialized mbarrier by plain accesses. An mbarrier receives no more arrivals per phase than it
 * expects. A thread waits for the parity of the current or of the preceding phase of an mbarrier.
 * The wrappers in hopper.cuh do not include mbarrier.inval, test_wait, arrive_drop, noComplete, or
 * try_wait on another block's mbarrier.
 *
 * Rules of bulk copies (cp.async.bulk). The addresses and the size of a bulk copy are multiples of
 * 16 bytes. The shared-memory target of a tensor copy is aligned to 128 bytes, or to 1024 bytes
 * with the 128-byte swizzle. A bulk copy stays within its source and target arrays. The mbarrier of
 * a bulk copy is in the block that contains the copy's target. A multicast copy targets only blocks
 * that have started. Until a bulk copy completes, no thread writes its source or accesses its
 * target. At least one thread waits for each bulk copy before the target's block exits. A
 * fence.proxy.async is required between generic writes and a bulk copy that reads or overwrites the
 * written bytes. The emulator does not require a fence.proxy.async between a generic read and a
 * bulk copy that overwrites the bytes; as in CUTLASS, an mbarrier alone orders the two accesses.
 * Fences of global memory are not emulated, so the emulator rejects a bulk copy from global memory
 * that the same launch has written. The wrappers in hopper.cuh do not include bulk_group, or bulk
 * reductions, prefetches and stores.
 *
 * Rules of tensor maps. The global address of a tensor map is a multiple of 16 bytes. The
 * dimensions of a tensor map are 1 to 2^32. The strides of a tensor map are multiples of 16 bytes
 * below 2^40. A box has 1 to 256 elements in each dimension. The inner dimension of a box is a
 * multiple of 16 bytes, and with the 128-byte swizzle at most 128 bytes. Tensor maps are tiled, not
 * interleaved, and have element strides of 1. Under nvcc, assertions check the size and the
 * alignment of a tensor map. The emulator does not check that a kernel parameter with a tensor map
 * is __grid_constant__.
 *
 * Rules of wgmma. A block that executes wgmma consists of whole warp groups. All threads of a warp
 * group issue the same wgmma with equal descriptors. The descriptor of a wgmma operand has valid
 * fields, the 128-byte swizzle and a base offset of 0. A wgmma.fence is required between a thread's
 * access to a register and a wgmma that uses the register. A thread does not access the registers
 * of a wgmma before the thread's wgmma.wait_group for this wgmma. A wgmma.commit_group precedes
 * each wgmma.wait_group. At most 7 groups may stay pending after a wgmma.wait_group
 * (static_assert). Between a wgmma and its wgmma.wait_group, no thread and no copy writes the
 * wgmma's operands in shared memory. A fence.proxy.async is required between generic writes and a
 * wgmma that reads the written bytes. The wrappers in hopper.cuh determine the possible shapes and
 * types of a wgmma.
 *
 * Rules of setmaxnreg. The operand of setmaxnreg is a multiple of 8 from 24 to 256 (static_assert).
 * A setmaxnreg.dec does not increase a warp's registers per thread, and a setmaxnreg.inc does not
 * decrease them. The registers of all warps of a block together fit the register pool of the
 * launch. All warps of a warp group execute the same setmaxnreg, and synchronize before the next
 * setmaxnreg. The script tools/sass/setmaxnreg.py reads how many registers ptxas assigned, and
 * whether ptxas ignored a setmaxnreg. The emulator does not check reads of registers that a
 * setmaxnreg.inc has added.
 *
 * Rules of clusters. The rank of a block is below the cluster size, and the cluster size divides
 * the grid. The emulator runs at most 4 blocks per cluster (the portable maximum is 8). Every
 * thread of a cluster alternately arrives at the cluster barrier and waits for it. No thread
 * accesses the shared memory of a block before the block has started or after the block has exited.
 * The target of an st.async is 16-byte aligned, and its mbarrier is in the same block as the
 * target. A thread may read data that an st.async has stored only after an mbarrier wait with
 * cluster scope. An mbarrier wait orders another block's reads before the waiting thread's next
 * access. Only the cluster barrier does so for another block's plain writes.
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
    PHASED = MAX_CLOCKED,
    MAX_PHASED = 112, /* maximum number of mbarriers in an emulated cluster */
    /* index of the first clock of remote stores; every mbarrier has one clock for the remote stores
     * that signal it */
    STORED = PHASED + MAX_PHASED,
    CORES = STORED + MAX_PHASED,
    WHO = CORES + MAX_CLOCKED / 32, /* number of clocks */
    MAX_NAMED = 16,
    MAX_COMING = 64,
    MAX_STORES = 8192, /* maximum number of remote stores in flight */
    STORE_BYTES = 16,
    MAX_PRODUCTS = 64, /* maximum number of wgmma in flight per warp group */
    /* exclusive upper bound of the arrival count and of the tx-count of an mbarrier */
    MOST_ARRIVE = 1 << 20,
    FIELD = (1 << 14) - 1, /* largest value of a matrix descriptor's field, in units of 16 bytes */
    MOST_OFFSET = FIELD << 4,
    MAX_SETMAXNREG = 8, /* maximum number of setmaxnreg instructions that a warp executes */
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
    /* numbers of three phases: the current phase, the last phase with bulk copies, and the last
     * phase that a thread has waited for */
    uint32_t phase, copied, waited;
    /* number of the last phase with remote stores, and of the last phase that a thread has waited
     * for with cluster scope */
    uint32_t stored, far_waited;
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

/* A bulk copy in flight, which copies a box of a tensor map or n bytes of shared memory. */
struct coming {
    struct region *to;
    uintptr_t at;
    struct kvr_tensor_map map;
    struct region *from;
    uintptr_t source; /* shared-memory address of the copy's source, or 0 if the copy is a box of a
                       * tensor map */
    size_t n;         /* number of copied bytes, or 0 if the copy is a box of a tensor map */
    int c, h;
    int64_t t;
    int barrier;
};

/* A remote store in flight. */
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

/* A decoded matrix descriptor. */
struct matrix {
    /* the shared array that contains the operand's start address, or NULL if no array contains this
     * address */
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

/* State of a thread that uses sm_90. */
struct member {
    struct view view;
    /* index of the mbarrier, named barrier or warp group at which the thread waits */
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
 * The arrays `set` and `at` contain their operands (negative for setmaxnreg.dec) and the warp's
 * clock values at their execution. */
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
    /* number of threads that wait in wgmma.wait_group, per warp group */
    unsigned in_group[MAX_CLOCKED / KVR_WARP_GROUP];
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
 * the row modulo 8. */
static inline uintptr_t swizzled(uintptr_t at)
{
    return at ^ (at >> 7 & 7) << 4;
}

/* Functions of emu_hopper.cc. */
void join(const struct kvr_stream *s, struct view *to, const struct view *from);
/* Advances the clock of fiber f after a synchronization. */
void tick(struct kvr_stream *s, struct fiber *f);
/* Returns the state of the sm_90 features (mbarriers, clocks, ...) of the running block. The first
 * call in a block starts the block's vector clocks. */
struct hopper *clock_block();
/* Fails unless a write happens before an asynchronous operation that the running thread starts. The
 * argument `then` is the stamp of the write (its thread and time), and `mine` is the view (vector
 * clock) of the asynchronous operation. */
void check_written(const struct region *r, size_t at, const struct view *mine, stamp then,
                   const char *how);
/* Wakes the threads that wait in state `why` at the barrier (or warp group) with index `on`. */
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
/* Completes remote store i of the stores in flight. */
void store_arrives(struct kvr_stream *s, unsigned i);

/* Functions of emu_setmaxnreg.cc. */
/* Records the error of a warp whose setmaxnreg.inc waits for registers that never become free. */
void record_registers(struct kvr_stream *s, const struct fiber *f);
/* Called when block `rank` exits. Records an error unless all warps of a warp group have executed
 * equally many setmaxnreg instructions. */
void check_setmaxnreg(struct kvr_stream *s, unsigned rank);

} // namespace kvr_emu

#endif
