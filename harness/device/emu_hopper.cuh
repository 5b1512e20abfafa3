/* emu_hopper.cuh - sm_90 on the emulated device: the state shared by emu_hopper.cc,
 * emu_mbarrier.cc, emu_cluster.cc, emu_tma.cc, emu_wgmma.cc and emu_setmaxnreg.cc; see hopper.cuh.
 *
 * A block that uses sm_90 has vector clocks. A thread's clock advances at every synchronization. A
 * thread has a view, which holds for every other clock the latest time that happens before the
 * thread's next access. A barrier merges the views of arriving threads and joins the result to the
 * views of waiting threads. Two conflicting accesses are a race if the view of the later one does
 * not contain the earlier one.
 *
 * Asynchronous operations have clocks of their own. A bulk copy uses the clock of its mbarrier's
 * phase. A wgmma uses the clock of its warp's tensor core; its reads end at wgmma.wait_group. A
 * second view of a thread, `fenced`, holds the generic writes that the async proxy sees: the writes
 * that were visible to the thread at its last fence.proxy.async.
 *
 * The stream's seed decides when a bulk copy completes. wgmma.wait_group computes the products that
 * it waits for.
 *
 * The blocks of a cluster share one set of clocks. Arrivals and stores (st.async) from another
 * block merge into a separate view. Only a wait with cluster scope adds this view to that of the
 * waiting thread. A remote store completes in its mbarrier's phase, as a bulk copy does, but has a
 * clock of its own, because wgmma sees the store only after a fence. */
/* Rules of the PTX ISA (9.0) for the instructions of hopper.cuh. The emulator checks every rule
 * that is not marked as unchecked. A planted fault in tests/cuda/faults_*.cu or a case of
 * test_emu.c tests each check.
 *
 *     mbarrier     The count of arrivals is 1 to 2^20 - 1. The tx-count is at most 2^20 - 1; shared
 *                  memory is too small for the tx-count to pass its lower bound. The address is in
 *                  shared memory and 8-byte aligned. A thread initializes the mbarrier once, and a
 *                  barrier follows before the first use. Plain accesses do not touch an mbarrier in
 *                  use; mbarrier.inval has no wrapper. A phase receives no more arrivals than it has
 *                  pending. The parity of a wait is the parity of the current or of the preceding
 *                  phase. test_wait, try_wait on another block's mbarrier, arrive_drop and
 *                  noComplete have no wrapper.
 *     bulk copies  Addresses and sizes are multiples of 16 bytes; the target of a box is aligned to
 *                  128 bytes, or to 1024 with the 128-byte swizzle. All bytes are in range. The
 *                  mbarrier is in the target's block. A multicast goes to blocks that have started.
 *                  Until the copy completes, nothing changes its source or accesses its target.
 *                  A thread waits for every copy. A fence precedes the copy of generic writes.
 *                  Unchecked: the fence.proxy.async between a generic read and the copy that
 *                  overwrites the bytes; as in CUTLASS, an mbarrier alone orders the two. The
 *                  emulator has no fence for global memory: it refuses to copy global memory that
 *                  the same launch has written. bulk_group, reductions, prefetches and stores have
 *                  no wrapper.
 *     tensor maps  The address is a multiple of 16 bytes. Dimensions are 1 to 2^32. Strides are
 *                  multiples of 16 bytes below 2^40. Box dimensions are 1 to 256; the inner one is
 *                  a multiple of 16 bytes within the swizzle's span. Element strides are 1; maps
 *                  are tiled and not interleaved. Assertions under nvcc check the size and
 *                  alignment of a map. Unchecked: whether an argument with a map is
 *                  __grid_constant__.
 *     wgmma        A block consists of whole warp groups. All threads of a warp group execute the
 *                  same product with equal descriptors. Descriptor fields, masked addresses and the
 *                  swizzle are valid; the base offset is 0. Between an access to registers and a
 *                  product that uses them there is a wgmma.fence. Until wait_group the thread does
 *                  not access these registers. A commit precedes wait_group. At most 7 groups are
 *                  pending (static_assert). Nothing changes an operand before wait_group. A fence
 *                  precedes the use of generic writes as an operand. Shapes and types are those of
 *                  the wrappers.
 *     setmaxnreg   The operand is a multiple of 8 from 24 to 256 (static_assert). dec does not
 *                  increase the registers per thread of a warp, and inc does not decrease them. The
 *                  registers of all warps together fit the register pool. All warps of a warp group
 *                  execute the same setmaxnreg, and synchronize before the next one.
 *                  tools/sass/setmaxnreg.py reads how many registers ptxas assigned, and whether
 *                  ptxas ignored a setmaxnreg. Unchecked: reads of registers that inc has added.
 *     clusters     A rank is below the cluster's size, which divides the grid. The emulator runs at
 *                  most 4 blocks per cluster (the portable maximum is 8). All threads arrive at the
 *                  cluster barrier and wait for it, in turn. Nothing accesses the shared memory of
 *                  a block before the block has started or after it has exited. st.async is aligned
 *                  to 16 bytes, has its mbarrier in the target's block, and its data is waited for
 *                  with cluster scope. An mbarrier orders only the reads of another block; plain
 *                  writes of another block need the cluster barrier.
 *     bar          A named barrier has an index from 1 to 15. Its number of threads is a multiple
 *                  of 32, at most that of the block, and the same for all threads. Whole warps
 *                  arrive. No warp arrives twice in a phase. */
#ifndef KVR_DEVICE_EMU_HOPPER_CUH
#define KVR_DEVICE_EMU_HOPPER_CUH

#include "harness/device/emu_machine.cuh"

#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "harness/device/hopper.cuh"

namespace kvr_emu
{

enum {
    PHASED = MAX_CLOCKED,
    MAX_PHASED = 112,             /* maximum number of mbarriers in a cluster */
    STORED = PHASED + MAX_PHASED, /* clocks of remote stores, one for each mbarrier */
    CORES = STORED + MAX_PHASED,
    WHO = CORES + MAX_CLOCKED / 32, /* number of clocks */
    MAX_NAMED = 16,
    MAX_COMING = 64,
    MAX_STORES = 8192, /* maximum number of remote stores in flight */
    STORE_BYTES = 16,
    MAX_PRODUCTS = 64,     /* maximum number of products in flight per warp group */
    MOST_ARRIVE = 1 << 20, /* exclusive limit of an mbarrier's counts */
    FIELD = (1 << 14) - 1, /* largest descriptor field, in units of 16 bytes */
    MOST_OFFSET = FIELD << 4,
    MAX_SETMAXNREG = 8, /* setmaxnreg instructions that a warp may execute */
    N = 128,            /* maximum columns of a product */
    K = 32,             /* bytes of a row of an operand: 32 bytes or 16 BF16 elements */
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
    /* the current phase; the last one with copies; the last one that a thread waited for */
    uint32_t phase, copied, waited;
    /* the last phase with remote stores; the last one waited for with cluster scope */
    uint32_t stored, far_waited;
    /* number of expected arrivals; number of arrivals that are pending */
    unsigned count, lacking;
    int64_t bytes; /* tx-count */
    /* merged views of arrivals: in this phase; in all completed phases */
    struct view open, done;
    /* merged views of arrivals from other blocks: in this phase; in all completed phases */
    struct view far, far_done;
};

/* State of a named barrier (bar.sync, bar.arrive). */
struct named {
    int expected, came;
    bool has[MAX_CLOCKED]; /* has[i]: thread i has arrived since the barrier last opened */
    struct view open;
};

/* A bulk copy in flight. It copies a box of a tensor map, or n bytes of shared memory. */
struct coming {
    struct region *to;
    uintptr_t at;
    struct kvr_tensor_map map;
    struct region *from;
    uintptr_t source; /* address of the source if it is in shared memory */
    size_t n;         /* 0 if the copy is a box of a tensor map */
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
    struct region *in; /* the array that contains the start address; NULL if no array does */
    uintptr_t at;
    unsigned leading, stride;
};

struct product {
    void *sums; /* elements are float, or int32_t for 8-bit operands */
    struct held *held, *held_a;
    uint64_t descriptor_a, descriptor_b; /* descriptor_a is 0 if A is in registers */
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
    int on;         /* index of the barrier at which the thread waits */
    bool came;      /* the thread has arrived at the cluster barrier and has not waited since */
    uint32_t phase; /* phase of the cluster barrier when the thread arrived */
    int n_products, keeps;
    unsigned group;
    struct product product[MAX_PRODUCTS];
};

/* setmaxnreg state of a warp: `now` registers per thread, the number `wants` of a pending request,
 * and the executed instructions `set` with their times `at`. */
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
    /* reached[block][thread]: time of the thread's last access to the block, plus 1. */
    uint32_t reached[MAX_CLUSTER][MAX_CLOCKED];
    struct member member[MAX_CLOCKED];
    uint32_t core[MAX_CLOCKED / 32]; /* the current time of every tensor core's clock */
    struct warp_registers registers[MAX_CLOCKED / 32];
    /* number of threads that wait in wgmma.wait_group, per warp group */
    unsigned in_group[MAX_CLOCKED / KVR_WARP_GROUP];
    /* For every 16 bytes of shared memory: the swizzle of the last copy that wrote them. */
    unsigned char swizzle[MAX_CLUSTER * SHARED_BYTES / 16];
    /* operands and result of the product that is being computed */
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

/* Address of the byte `at` after the 128-byte swizzle: bits [4, 7) are XORed with the row modulo
 * 8. */
static inline uintptr_t swizzled(uintptr_t at)
{
    return at ^ (at >> 7 & 7) << 4;
}

/* Functions of emu_hopper.cc: vector clocks. */
void join(const struct kvr_stream *s, struct view *to, const struct view *from);
/* Advances the clock of fiber f after a synchronization. */
void tick(struct kvr_stream *s, struct fiber *f);
/* Returns the state of the running block. The first call in a block starts the block's vector
 * clocks. */
struct hopper *clock_block();
/* Fails unless the write at time `then` happens before an asynchronous operation that the running
 * thread starts. `mine` is the view of that operation. */
void check_written(const struct region *r, size_t at, const struct view *mine, stamp then,
                   const char *how);
/* Wakes the threads that wait in state `why` at the barrier with index `on`. */
void wake_those(struct kvr_stream *s, enum state why, int on);

/* Functions of emu_mbarrier.cc. */
/* Returns the mbarrier at this address. Fails if the running thread may not use it. */
struct phased *phased_at(struct region *r, uintptr_t at);
/* Completes the mbarrier's phase if no arrival and no byte is pending. */
void end_phase(struct kvr_stream *s, struct phased *b);

/* Functions of emu_cluster.cc. */
/* Checks an access of the running thread to block `rank`. The thread must be ordered after the
 * start of the block. With `until` the block must not exit before a cluster barrier orders its exit
 * after the access. */
void reach(unsigned rank, bool until, const char *how);
/* Completes the remote store with index i among those in flight. */
void store_arrives(struct kvr_stream *s, unsigned i);

/* Functions of emu_setmaxnreg.cc. */
/* Reports a warp that waits for registers that never become free. */
void record_registers(struct kvr_stream *s, const struct fiber *f);
/* Runs when block `rank` exits, and records an error unless all warps of a warp group have executed
 * the same number of setmaxnreg. */
void check_setmaxnreg(struct kvr_stream *s, unsigned rank);

} // namespace kvr_emu

#endif
