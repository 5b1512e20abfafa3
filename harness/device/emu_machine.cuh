/* emu_machine.cuh - the emulated device's own structures, shared by emu*.cc and stream_emu.cc.
 *
 *     emu.cc          launches, blocks, barriers and warps
 *     emu_fiber.cc    fiber stacks and context switches
 *     emu_memory.cc   shared arrays and shadow memory
 *     emu_hopper.cc   sm_90: vector clocks, deadlock reports; their state is in emu_hopper.cuh
 *     emu_mbarrier.cc, emu_cluster.cc, emu_tma.cc, emu_wgmma.cc, emu_setmaxnreg.cc
 *                     one feature of sm_90 in each file
 *     emu_global.cc   device memory: allocations and copies
 *     emu_graph.cc    graph capture and launch
 *     emu_traffic.cc  bytes that each kernel moves
 *     stream_emu.cc   the other functions of stream.h
 *
 * The emulator uses no C++ runtime library (no exceptions, no containers), so that the tests link
 * as C programs. */
#ifndef KVR_DEVICE_EMU_MACHINE_CUH
#define KVR_DEVICE_EMU_MACHINE_CUH

#include "harness/device/capture.h"
#include "harness/device/emu.cuh"
#include "harness/device/tickets.h"

/* On x86-64 the context switch is written in assembly, because swapcontext makes a system call. */
#if !defined(__x86_64__) && !defined(KVR_EMU_UCONTEXT)
#define KVR_EMU_UCONTEXT
#endif
#ifdef KVR_EMU_UCONTEXT
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define KVR_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KVR_ASAN 1
#endif
#endif

namespace kvr_emu
{

enum {
    MAX_THREADS = 1024,
    STACK_BYTES = 144 * 1024,
    /* Stack i starts i % 64 * 256 bytes lower, so that stacks occupy different cache sets. */
    STACK_COLOURS = 64,
    COLOUR_BYTES = 256,
    LAST_FRAMES = 4096, /* bound on the stack that a thread uses after its kernel has returned */
    MAX_ARRAYS = 32,
    REDZONE = 256, /* unused bytes between two shared arrays */
    /* Alignment of dynamic shared memory, which holds the tiles of hopper.cuh. */
    TILE_ALIGN = 1024,
    MAX_SHARED = 227 * 1024,       /* limit of a block's shared memory on sm_90 */
    MAX_STATIC_SHARED = 48 * 1024, /* limit of static shared memory */
    UNASKED_SHARED =
        48 * 1024, /* limit of static plus dynamic shared memory without cudaFuncSetAttribute */
    SHARED_BYTES = (TILE_ALIGN + MAX_SHARED + MAX_STATIC_SHARED + MAX_ARRAYS * (REDZONE + 128) +
                    TILE_ALIGN - 1) /
                   TILE_ALIGN * TILE_ALIGN,
    MAX_CLUSTER = 4, /* maximum number of blocks in a cluster */
    /* Maximum number of threads with vector clocks: those of a block that uses sm_90, or of a
     * cluster. */
    MAX_CLOCKED = 768,
    MAX_KERNELS = 128,
    MAX_ASKED = 1024, /* maximum number of kernels with dynamic shared memory */
    MAX_COPIES = 64,  /* maximum number of cp.async that a thread has in flight */
    MESSAGE = 512,
};

/* A suspended fiber, given by its stack pointer. Its callee-saved registers are on its stack. */
struct context {
#ifdef KVR_EMU_UCONTEXT
    ucontext_t u;
#else
    void *sp;
#endif
    void *fake; /* the fake stack that AddressSanitizer keeps for the fiber */
    const void *bottom;
    size_t size;
};

/* The author and time of an access, packed into 64 bits because each shadow cell has three of them:
 *     63     36     23        12      2       1       0
 *     | serial | epoch | warp epoch | thread | atomic | coming |
 * serial is the number of the block, counted over all launches; 0 stands for no access and 1 for
 * the host. epoch is the number of __syncthreads so far; warp epoch is the number of __syncwarp
 * since the last __syncthreads. In a block with vector clocks these two fields hold the thread's
 * clock instead. coming says that an asynchronous copy is in flight. */
typedef uint64_t stamp;
enum { COMING = 1, ATOMICALLY = 2, MAX_EPOCH = (1 << 13) - 1, MAX_WARP_EPOCH = (1 << 11) - 1 };
static const uint32_t MAX_SERIAL = (1u << 28) - 1;
static const stamp BY_HOST = (stamp)1 << 36;

static inline uint32_t serial_of(stamp t)
{
    return (uint32_t)(t >> 36);
}
static inline unsigned thread_of(stamp t)
{
    return (unsigned)(t >> 2) & 1023u;
}

struct cell { /* shadow of `unit` bytes of a region */
    stamp write;
    stamp read[2]; /* the last read, and the last read by another warp */
};

/* The shadow starts with one cell per 4 bytes. The first narrower access to a region splits all
 * cells of the region. Most accesses to memory are 32-bit words; a cell per byte would be larger
 * and slower. */
enum { COARSEST = 4 };

struct region {
    struct region *next;
    const char *name;
    const void *id;
    unsigned char *base;  /* device address; the host may not access it */
    unsigned char *bytes; /* backing storage; equal to `base` for shared memory */
    size_t n;
    struct cell *cells; /* [ceil(n / unit)]; for shared memory there is space for n cells */
    bool shared;
    unsigned unit;
    unsigned rank; /* rank in the cluster of the block that owns the region */
};

/* A graph node. The node's arguments follow it in memory. */
struct alignas(16) step {
    struct step *next;
    player *play;
    struct shape shape;
};

struct copy {
    struct region *to;
    uintptr_t at, source;
    uint32_t n;
    unsigned group;
    bool zeros;
};

enum state {
    RUNS,
    AT_BARRIER,
    IN_WARP,
    AT_NAMED,
    AT_PHASE,
    IN_GROUP,
    AT_CLUSTER,
    AT_REGISTERS,
    LEFT
};

struct fiber {
    struct coords coords; /* first member, so that `here` also points to the fiber */
    struct context context;
    enum state state;
    unsigned epoch, warp_epoch;
    stamp now;        /* identifies the thread's accesses until its next barrier */
    const char *file; /* source file of the operation in which the thread waits */
    int line;
    int n_copies;
    unsigned group; /* the cp.async group that the next commit completes */
    struct copy copy[MAX_COPIES];
};

/* Arguments of a warp's lanes in the warp operations where they wait. The last lane that arrives
 * reads them. */
struct warp_book {
    unsigned left, waiting; /* bit masks of the exited lanes and of the waiting lanes */
    enum warp_kind kind[32];
    unsigned mask[32];
    uint64_t value[32], result[32];
    int arg[32], width[32];
    void (*fn[32])(void *const *); /* the functions of run_lanes_together */
};

/* A block of the running cluster. */
struct block {
    /* numbers of threads that wait at __syncthreads and that have exited */
    unsigned n_waiting, n_left;
    unsigned char *bytes; /* shared memory */
    struct cell *cells;
    struct region array[MAX_ARRAYS]; /* array[0] is the dynamic shared memory */
    int n_arrays;
    size_t used, static_used;
    /* The range of addresses that contains the block's mbarriers; empty if it has no mbarrier. */
    uintptr_t phased, phased_end;
};

struct hopper;  /* defined in emu_hopper.cuh */
struct traffic; /* defined in emu_traffic.cc */

/* The attribute MaxDynamicSharedMemorySize of a kernel. */
struct asked {
    const void *entry;
    size_t bytes;
};

struct kernel_count {
    char name[64];
    int64_t n;
};

} // namespace kvr_emu

using namespace kvr_emu;

struct kvr_graph {
    struct step *first, *last;
};

struct kvr_stream {
    struct kvr_stream *next;
    uint64_t seed, draws;
    struct region *regions;
    size_t total_bytes, used_bytes, peak_bytes;
    size_t block_shared; /* limit of the shared memory of a block */
    bool was_full;
    int capability;
    struct kvr_capture capture;
    struct kvr_graph *graph; /* the graph that is being captured */
    struct kvr_tickets tickets;
    int64_t *marks; /* [max_marks], indexed by ticket */
    int64_t max_marks;
    /* Serial numbers of the running block and of the launch's first block. */
    uint32_t serial, launch_serial;
    unsigned char *stacks;
    unsigned n_stacks;    /* number of stacks that have guard pages */
    struct fiber *fibers; /* [MAX_THREADS], the fibers of the running cluster */
    unsigned *ready;      /* [MAX_THREADS], the runnable fibers */
    /* Numbers of fibers in `ready`, of threads per block, and of blocks per cluster. */
    unsigned n_ready, n_threads, n_blocks;
    unsigned n_fibers; /* number of threads of a cluster */
    struct warp_book warps[MAX_THREADS / 32];
    struct hopper *hopper; /* NULL until a block uses sm_90 */
    bool clocked;          /* the running block has vector clocks */
    unsigned n_coming;     /* number of bulk copies and remote stores in flight */
    struct context host;
    void (*body)(void *);
    void *arg;
    const char *kernel; /* NULL while no kernel is running */
    const void *entry;
    struct asked asked[MAX_ASKED];
    int n_asked;
    unsigned char *shared_bytes;
    struct cell *shared_cells;
    size_t n_shared_cells;
    struct block block[MAX_CLUSTER];
    bool failed;
    char error[MESSAGE];
    struct kernel_count count[MAX_KERNELS];
    int n_counts;
    struct traffic *traffic; /* NULL if traffic is not recorded */
};

namespace kvr_emu
{

/* The emulated device that belongs to the current host thread. */
extern __thread struct kvr_stream *streams; /* all open streams */
extern __thread struct kvr_stream *running; /* NULL outside a launch */

/* Prepares stacks for the first n threads, each with a guard page below it. */
void fiber_stacks(struct kvr_stream *s, unsigned n);
/* Prepares a fresh stack that starts at `entry`. left: the function that used the stack before has
 * returned. */
void fiber_prepare(struct context *c, void (*entry)(), bool left);
/* Must be the first call of a function that runs on a fresh stack. */
void fiber_arrived();
/* Switches from context `from` to context `to`. for_good: `from` is never resumed. */
void leave_for(struct context *from, struct context *to, bool for_good);
/* Describes the calling host thread's own stack, so that AddressSanitizer can follow switches away
 * from it. */
void fiber_describe_host(struct context *host);

/* Records an error on the stream, unless the stream already has one. */
void record(struct kvr_stream *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Whether the kernel may use this many bytes of dynamic shared memory. */
bool asked_for(const struct kvr_stream *s, const void *entry, size_t bytes);
/* Returns true and records an error if a real device would refuse this launch. */
bool refused(struct kvr_stream *s, const struct shape *shape);

/* Restarts the numbering of blocks at 1. The shadow memory then attributes all earlier writes to
 * the host, so races with them are no longer detected. */
void renumber(struct kvr_stream *s);

/* Splits the cells of a region into cells of `unit` bytes each. Returns false if the host has no
 * memory for the cells. */
bool split(struct region *r, unsigned unit);
/* Finds the cells of bytes [at, at + n) of r, splitting cells as needed. Returns the number of
 * cells, or 0 if the host has no memory for them. */
size_t cells_of(struct region *r, size_t at, size_t n, struct cell **first);

/* Adds a shared array to block `rank`. Returns NULL if the block has too many arrays. */
struct region *add_shared(struct kvr_stream *s, unsigned rank, const void *id, const char *name,
                          size_t n);

/* Suspends the running thread in state `why`, until wake() is called for it. */
void wait_as(enum state why, const char *file, int line);
void wake(struct kvr_stream *s, struct fiber *f);

/* Whether the access at time `then` does not happen before the running thread's next access. */
bool is_unobserved(const struct kvr_stream *s, stamp then);
/* Whether an access of another block of the cluster at time `then` does not happen before the
 * running thread's next access. */
bool unmet(const struct kvr_stream *s, stamp then);
/* Execute __syncthreads and __syncwarp in a block with vector clocks. */
void meet_all(struct kvr_stream *s, unsigned rank);
void meet_lanes(struct kvr_stream *s, unsigned first, unsigned mask);
/* Completes the transfer with index i among the bulk copies and remote stores in flight. */
void complete_transfer(struct kvr_stream *s, unsigned i);
/* Starts vector clocks for a cluster of several blocks. */
void clock_cluster(struct kvr_stream *s);
/* Reports a deadlocked thread that waits in one of the sm_90 states. */
void record_stuck(struct kvr_stream *s, const struct fiber *f);
/* Handles the exit of the running thread, and of its block when that thread was the block's last
 * one. */
void thread_left(struct kvr_stream *s);
void block_ended(struct kvr_stream *s);
/* Fails if a part of an mbarrier is in bytes [at, at + n) of shared memory. */
void check_no_mbarrier(const struct region *r, uintptr_t at, size_t n, const char *how);
void hopper_close(struct kvr_stream *s);
/* Describes the thread or the operation that a stamp records. */
const char *describe_stamp(stamp then, char *text, size_t size);

/* Adds up the bytes that were moved by the launch that has just finished. The second function does
 * so for a copy or a fill. */
void account_launch(struct kvr_stream *s, const char *kernel);
void account_move(struct kvr_stream *s, const char *what, int64_t read, int64_t written);

/* The fiber of the running thread. */
static inline struct fiber *self()
{
    return (struct fiber *)here;
}

/* Updates the stamp of a fiber's accesses. A call must follow every change of the fiber's
 * epochs. */
static inline void restamp(const struct kvr_stream *s, struct fiber *f)
{
    f->now = (stamp)s->serial << 36 | (stamp)f->epoch << 23 | (stamp)f->warp_epoch << 12 |
             (stamp)f->coords.linear << 2;
}

} // namespace kvr_emu

#endif
