/* emu_machine.cuh - the emulated device's own structures, shared by emu*.cc and stream_emu.cc.
 *
 *     emu.cc          launches, blocks, barriers and warps
 *     emu_fiber.cc    fiber stacks and context switches
 *     emu_memory.cc   shared arrays, shadow memory
 *     emu_hopper.cc   sm_90: vector clocks, deadlock reports; state in emu_hopper.cuh
 *     emu_mbarrier.cc, emu_cluster.cc, emu_tma.cc, emu_wgmma.cc, emu_setmaxnreg.cc
 *                     one feature of sm_90 each
 *     emu_global.cc   device memory: allocation, copies
 *     emu_graph.cc    graph capture and launch
 *     emu_traffic.cc  bytes moved per kernel
 *     stream_emu.cc   the rest of stream.h
 *
 * Uses no C++ runtime library (no exceptions, no containers), so that the tests link as C programs. */
#ifndef KVR_DEVICE_EMU_MACHINE_CUH
#define KVR_DEVICE_EMU_MACHINE_CUH

#include "harness/device/capture.h"
#include "harness/device/emu.cuh"
#include "harness/device/tickets.h"

/* On x86-64 the context switch is assembly: swapcontext makes a system call. */
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
    STACK_COLOURS = 64, /* stack i starts i % 64 * 256 bytes lower: other cache sets */
    COLOUR_BYTES = 256,
    LAST_FRAMES = 4096, /* bound on stack use after a thread returns from the kernel */
    MAX_ARRAYS = 32,
    REDZONE = 256,           /* bytes between arrays */
    TILE_ALIGN = 1024,       /* of dynamic shared memory, which holds the tiles of hopper.cuh */
    MAX_SHARED = 227 * 1024, /* limit of a block on sm_90 */
    MAX_STATIC_SHARED = 48 * 1024, /* limit of static shared memory */
    UNASKED_SHARED =
        48 * 1024, /* limit of static plus dynamic shared memory without cudaFuncSetAttribute */
    SHARED_BYTES = (TILE_ALIGN + MAX_SHARED + MAX_STATIC_SHARED + MAX_ARRAYS * (REDZONE + 128) +
                    TILE_ALIGN - 1) /
                   TILE_ALIGN * TILE_ALIGN,
    MAX_CLUSTER = 4,   /* blocks per cluster */
    MAX_CLOCKED = 768, /* threads with vector clocks, in a block that uses sm_90 or in a cluster */
    MAX_KERNELS = 128,
    MAX_ASKED = 1024, /* kernels with dynamic shared memory */
    MAX_COPIES = 64,  /* cp.async in flight per thread */
    MESSAGE = 512,
};

/* A suspended fiber: its stack pointer; callee-saved registers are on the stack. */
struct context {
#ifdef KVR_EMU_UCONTEXT
    ucontext_t u;
#else
    void *sp;
#endif
    void *fake; /* AddressSanitizer's fake stack */
    const void *bottom;
    size_t size;
};

/* When a thread made an access, packed into 64 bits because each shadow cell has three:
 *     63     36     23        12      2       1       0
 *     | serial | epoch | warp epoch | thread | atomic | coming |
 * serial: number of the block over all launches; 0: no access, 1: the host. epoch: number of __syncthreads so
 * far; warp epoch: number of __syncwarp since the last one. In a block with vector clocks these two fields hold
 * the thread's clock. coming: an asynchronous copy is in flight. */
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
    stamp read[2]; /* the last read, and the last one by another warp */
};

/* The shadow starts with one cell per 4 bytes, and the first narrower access to a region splits all
 * its cells. Most memory is accessed in 32-bit words; a cell per byte is larger and slower. */
enum { COARSEST = 4 };

struct region {
    struct region *next;
    const char *name;
    const void *id;
    unsigned char *base;  /* device address; the host may not access it */
    unsigned char *bytes; /* backing storage; for shared memory the same as base */
    size_t n;
    struct cell *cells; /* [ceil(n / unit)]; shared memory has room for n */
    bool shared;
    unsigned unit;
    unsigned rank; /* of its block in the cluster */
};

/* A graph node; its arguments follow. */
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
    const char *file; /* where it waits */
    int line;
    int n_copies;
    unsigned group; /* current cp.async group */
    struct copy copy[MAX_COPIES];
};

/* Arguments of a warp's lanes in their pending warp operation; the last lane to arrive reads
 * them. */
struct warp_book {
    unsigned left, waiting; /* bit masks of lanes */
    enum warp_kind kind[32];
    unsigned mask[32];
    uint64_t value[32], result[32];
    int arg[32], width[32];
    void (*fn[32])(void *const *); /* TOGETHER */
};

/* A block of the running cluster. */
struct block {
    unsigned n_waiting, n_left; /* threads at __syncthreads; threads that have exited */
    unsigned char *bytes;       /* shared memory */
    struct cell *cells;
    struct region array[MAX_ARRAYS]; /* array[0] is the dynamic one */
    int n_arrays;
    size_t used, static_used;
    uintptr_t phased, phased_end; /* its mbarriers lie in this range; empty: it has none */
};

struct hopper;  /* emu_hopper.cuh */
struct traffic; /* emu_traffic.cc */

/* MaxDynamicSharedMemorySize of a kernel. */
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
    size_t block_shared; /* limit per block */
    bool was_full;
    int capability;
    struct kvr_capture capture;
    struct kvr_graph *graph; /* being captured */
    struct kvr_tickets tickets;
    int64_t *marks; /* [max_marks], by ticket */
    int64_t max_marks;
    uint32_t serial, launch_serial; /* serial of the running block, of the launch's first block */
    unsigned char *stacks;
    unsigned n_stacks;                     /* with guard pages */
    struct fiber *fibers;                  /* [MAX_THREADS] */
    unsigned *ready;                       /* [MAX_THREADS] runnable fibers */
    unsigned n_ready, n_threads, n_blocks; /* threads per block, blocks per cluster, */
    unsigned n_fibers;                     /* threads per cluster */
    struct warp_book warps[MAX_THREADS / 32];
    struct hopper *hopper; /* NULL until a block uses sm_90 */
    bool clocked;          /* the running block has vector clocks */
    unsigned n_coming;     /* bulk copies and remote stores in flight */
    struct context host;
    void (*body)(void *);
    void *arg;
    const char *kernel; /* NULL: none is running */
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
    struct traffic *traffic; /* NULL: not requested */
};

namespace kvr_emu
{

/* The emulated device of this host thread. */
extern __thread struct kvr_stream *streams; /* all open ones */
extern __thread struct kvr_stream *running; /* NULL outside a launch */

/* Stacks for the first n threads, each with a guard page behind it. */
void fiber_stacks(struct kvr_stream *s, unsigned n);
/* A fresh stack that starts at `entry`. left: its previous owner has returned. */
void fiber_prepare(struct context *c, void (*entry)(), bool left);
/* Must be the first call on a fresh stack. */
void fiber_arrived();
/* Switch to `to`; for_good: `from` is never resumed. */
void leave_for(struct context *from, struct context *to, bool for_good);
/* Describe the calling thread's own stack, for switches away from it. */
void fiber_describe_host(struct context *host);

/* Records the stream's first error. */
void record(struct kvr_stream *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Whether the kernel opted into this many bytes of dynamic shared memory. */
bool asked_for(const struct kvr_stream *s, const void *entry, size_t bytes);
/* Returns true and records an error if a device would refuse this launch. */
bool refused(struct kvr_stream *s, const struct shape *shape);

/* Restarts block serials at 1; all earlier writes then count as the host's. */
void renumber(struct kvr_stream *s);

/* Splits cells to `unit` bytes each. False: out of memory. */
bool split(struct region *r, unsigned unit);
/* The cells of bytes [at, at + n) of r, split as needed. Returns their number; 0: out of memory. */
size_t cells_of(struct region *r, size_t at, size_t n, struct cell **first);

/* Adds a shared array to a block. NULL: too many arrays. */
struct region *add_shared(struct kvr_stream *s, unsigned rank, const void *id, const char *name,
                          size_t n);

/* Suspends the running thread until wake(). */
void wait_as(enum state why, const char *file, int line);
void wake(struct kvr_stream *s, struct fiber *f);

/* Whether the access `then` does not happen before the running thread. */
bool is_unobserved(const struct kvr_stream *s, stamp then);
/* The same for an access by another block of the cluster. */
bool unmet(const struct kvr_stream *s, stamp then);
/* __syncthreads or __syncwarp in a block with vector clocks. */
void meet_all(struct kvr_stream *s, unsigned rank);
void meet_lanes(struct kvr_stream *s, unsigned first, unsigned mask);
/* Completes bulk copy or remote store i of those in flight. */
void complete_transfer(struct kvr_stream *s, unsigned i);
/* Starts vector clocks for a cluster of several blocks. */
void clock_cluster(struct kvr_stream *s);
/* Reports a deadlocked thread that waits in one of the sm_90 states. */
void record_stuck(struct kvr_stream *s, const struct fiber *f);
/* The running thread has exited and was the last one of its block. */
void thread_left(struct kvr_stream *s);
void block_ended(struct kvr_stream *s);
/* Fails if bytes [at, at + n) of shared memory hold a part of an mbarrier. */
void check_no_mbarrier(const struct region *r, uintptr_t at, size_t n, const char *how);
void hopper_close(struct kvr_stream *s);
/* Describe the thread or operation of a stamp. */
const char *describe_stamp(stamp then, char *text, size_t size);

/* Accounts the bytes of the launch that has just finished; of a copy or a fill. */
void account_launch(struct kvr_stream *s, const char *kernel);
void account_move(struct kvr_stream *s, const char *what, int64_t read, int64_t written);

/* The running thread's fiber. */
static inline struct fiber *self()
{
    return (struct fiber *)here;
}

/* Must follow every change of the fiber's epochs. */
static inline void restamp(const struct kvr_stream *s, struct fiber *f)
{
    f->now = (stamp)s->serial << 36 | (stamp)f->epoch << 23 | (stamp)f->warp_epoch << 12 |
             (stamp)f->coords.linear << 2;
}

} // namespace kvr_emu

#endif
