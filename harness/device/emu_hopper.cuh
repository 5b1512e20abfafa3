/* emu_hopper.cuh - sm_90 on the emulated device: the state shared by emu_hopper.cc,
 * emu_mbarrier.cc, emu_cluster.cc, emu_tma.cc, emu_wgmma.cc and emu_setmaxnreg.cc; see hopper.cuh.
 *
 * A block that uses sm_90 has vector clocks. A thread's clock advances at every synchronization.
 * Its view holds, for every other clock, the latest time that happens before the thread's next
 * access. A barrier merges the views of arriving threads and publishes them to waiting ones. Two
 * conflicting accesses that no view orders are a race.
 *
 * Asynchronous operations have clocks of their own. A bulk copy uses that of its mbarrier's phase,
 * a wgmma that of its warp's tensor core; its reads end at wgmma.wait_group. A second view,
 * `fenced`, holds the generic writes that the async proxy sees: the ones visible at the last
 * fence.proxy.async.
 *
 * The stream's seed decides when a bulk copy completes. wgmma.wait_group computes the pending
 * products.
 *
 * The blocks of a cluster share one set of clocks. Remote arrivals and stores (st.async) merge into
 * a separate view, which only waits with cluster scope receive. A remote store completes in its
 * mbarrier's phase like a bulk copy, but has its own clock: wgmma sees it only after a fence. */
/* Rules of the PTX ISA (9.0) for the instructions of hopper.cuh. Each is checked, with a planted
 * fault in tests/cuda/faults_*.cu or a case of test_emu.c, unless the text says otherwise.
 *
 *     mbarrier     counts of 1 to 2^20 - 1; tx-count up to 2^20 - 1 (its lower bound cannot be
 *                  passed: shared memory is smaller); 8-byte alignment; in shared memory;
 *                  initialized once, before use, and a barrier apart from it; no other access
 *                  while in use (mbarrier.inval has no wrapper); no more arrivals than the phase
 *                  has pending; a wait's parity is that of the current or the preceding phase.
 *                  test_wait, try_wait of another block's mbarrier, arrive_drop and noComplete
 *                  have no wrapper
 *     bulk copies  16-byte addresses and sizes; 128 bytes for boxes, 1024 with the 128-byte
 *                  swizzle; bytes in range; mbarrier in the target's block; multicast to blocks
 *                  that have started; source not changed and target not accessed before
 *                  completion; every copy waited for; generic writes fenced before. Not checked:
 *                  fence.proxy.async between a generic read and the copy that overwrites what was
 *                  read, which is ordered by an mbarrier alone, as in CUTLASS; global memory
 *                  written in the same launch is refused instead of its fence. bulk_group,
 *                  reductions, prefetches and stores have no wrapper
 *     tensor maps  16-byte address, dimensions of 1 to 2^32, strides in multiples of 16 below
 *                  2^40, boxes of 1 to 256, inner box in multiples of 16 within the swizzle's
 *                  span; element strides are 1, maps are tiled and not interleaved. nvcc asserts
 *                  their size and alignment. Not checked: that an argument with a map is
 *                  __grid_constant__
 *     wgmma        block of whole warp groups; one product in all their threads, with equal
 *                  descriptors; descriptor fields, masked addresses, swizzle, base offset 0;
 *                  wgmma.fence after an access to registers; no access until wait_group; commit
 *                  before it; at most 7 groups pending (static_assert); operands not changed
 *                  before it; generic writes to operands fenced. Shapes and types are those of
 *                  the wrappers
 *     setmaxnreg   24 to 256 in eights (static_assert); dec not above, inc not below what a warp
 *                  has; within the pool; the same in all warps of a warp group, which synchronize
 *                  before the next. tools/sass/setmaxnreg.py reads what ptxas assigned and
 *                  whether it ignored one. Not checked: reads of registers that inc added
 *     clusters     rank below the size; grid a multiple of it; at most 4 blocks emulated (8 are
 *                  portable); arrive and wait in turn, by all threads; no access before a block
 *                  has started or after its exit; st.async aligned to 16, its mbarrier in the
 *                  target's block, its data waited for with cluster scope. An mbarrier orders
 *                  another block's reads only, not its plain writes: those need the cluster
 *                  barrier
 *     bar          1 to 15, threads in multiples of 32 up to the block's, the same number for
 *                  all, whole warps, no second arrival in a phase */
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
    MAX_PHASED = 112,             /* mbarriers per cluster */
    STORED = PHASED + MAX_PHASED, /* remote stores: one clock per mbarrier */
    CORES = STORED + MAX_PHASED,
    WHO = CORES + MAX_CLOCKED / 32, /* number of clocks */
    MAX_NAMED = 16,
    MAX_COMING = 64,
    MAX_STORES = 8192, /* remote stores in flight */
    STORE_BYTES = 16,
    MAX_PRODUCTS = 64,     /* products in flight per warp group */
    MOST_ARRIVE = 1 << 20, /* limit of an mbarrier's counts */
    FIELD = (1 << 14) - 1, /* largest descriptor field, in units of 16 bytes */
    MOST_OFFSET = FIELD << 4,
    MAX_SETMAXNREG = 8, /* per warp */
    N = 128,            /* maximum columns of a product */
    K = 32,             /* bytes per row of a product: 32 bytes or 16 BF16 elements */
    ROWS = 64,
};
static_assert(WHO <= 1024, "a stamp has 10 bits for who");

static const uint32_t MAX_CLOCK = (1u << 24) - 1;

struct view {
    uint32_t seen[WHO], fenced[WHO];
};

/* An mbarrier. */
struct phased {
    struct region *in;
    uintptr_t at;
    stamp init;
    uint32_t phase, copied, waited; /* phases: current; last with copies; last waited for */
    uint32_t stored, far_waited;    /* the same for remote stores */
    unsigned count, lacking;        /* expected arrivals, pending arrivals */
    int64_t bytes;                  /* tx-count */
    struct view open, done;         /* merged views of this phase; of all completed phases */
    struct view far, far_done;      /* the same of arrivals from other blocks */
};

/* A named barrier (bar.sync, bar.arrive). */
struct named {
    int expected, came;
    bool has[MAX_CLOCKED]; /* threads that have arrived since it last opened */
    struct view open;
};

/* A bulk copy in flight: a box of a tensor map, or n bytes of shared memory. */
struct coming {
    struct region *to;
    uintptr_t at;
    struct kvr_tensor_map map;
    struct region *from;
    uintptr_t source; /* in shared memory */
    size_t n;         /* 0: a tensor-map box */
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

/* The cluster barrier. */
struct meeting {
    unsigned came;
    uint32_t phase;
    struct view open, done;
};

/* A decoded matrix descriptor. */
struct matrix {
    struct region *in; /* the array that contains its start address; NULL: none */
    uintptr_t at;
    unsigned leading, stride;
};

struct product {
    void *sums; /* float, or int32_t for 8-bit operands */
    struct held *held, *held_a;
    uint64_t descriptor_a, descriptor_b; /* A: 0 if it is in registers */
    struct matrix a, b;
    unsigned of_a[4];
    enum numbers numbers;
    int columns;
    bool registers, transposed, add;
    unsigned group;
};

/* State of a thread. */
struct member {
    struct view view;
    int on;         /* index of the barrier it waits at */
    bool came;      /* has arrived at the cluster barrier and not yet waited */
    uint32_t phase; /* phase of the cluster barrier at its arrival */
    int n_products, keeps;
    unsigned group;
    struct product product[MAX_PRODUCTS];
};

/* setmaxnreg state of a warp: registers per thread, the pending request, and the executed
 * instructions with their times. */
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
    uint32_t reached[MAX_CLUSTER][MAX_CLOCKED]; /* time + 1 of a thread's last access to a block */
    struct member member[MAX_CLOCKED];
    uint32_t core[MAX_CLOCKED / 32]; /* clocks of the tensor cores */
    struct warp_registers registers[MAX_CLOCKED / 32];
    unsigned in_group[MAX_CLOCKED / KVR_WARP_GROUP]; /* threads waiting in wgmma.wait_group */
    unsigned char
        swizzle[MAX_CLUSTER * SHARED_BYTES / 16]; /* swizzle of the last copy of each 16 bytes */
    float a[ROWS][K], b[K][N], sums[ROWS][N];     /* the product being computed */
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

/* Address of a byte under the 128-byte swizzle: bits [4, 7) XOR the row modulo 8. */
static inline uintptr_t swizzled(uintptr_t at)
{
    return at ^ (at >> 7 & 7) << 4;
}

/* emu_hopper.cc: vector clocks. */
void join(const struct kvr_stream *s, struct view *to, const struct view *from);
/* Advances the clock of f after a synchronization. */
void tick(struct kvr_stream *s, struct fiber *f);
/* State of the running block; the first call in a block starts its vector clocks. */
struct hopper *clock_block();
/* Fails unless a write at `then` happens before an asynchronous operation of the running thread,
 * whose view is `mine`. */
void check_written(const struct region *r, size_t at, const struct view *mine, stamp then,
                   const char *how);
/* Wakes the threads that wait at barrier `on` in state `why`. */
void wake_those(struct kvr_stream *s, enum state why, int on);

/* emu_mbarrier.cc */
/* The mbarrier at this address, valid for the running thread. */
struct phased *phased_at(struct region *r, uintptr_t at);
/* Completes the phase if no arrival and no byte is pending. */
void end_phase(struct kvr_stream *s, struct phased *b);

/* emu_cluster.cc */
/* Checks an access of the running thread to block `rank`. The block must be known to have started;
 * with `until` it must not exit before a cluster barrier orders the exit after the access. */
void reach(unsigned rank, bool until, const char *how);
/* Completes remote store i of those in flight. */
void store_arrives(struct kvr_stream *s, unsigned i);

/* emu_setmaxnreg.cc */
/* Reports a warp that waits for registers that never become free. */
void record_registers(struct kvr_stream *s, const struct fiber *f);
/* At exit of block `rank`: all warps of a warp group must have executed the same number of
 * setmaxnreg. */
void check_setmaxnreg(struct kvr_stream *s, unsigned rank);

} // namespace kvr_emu

#endif
