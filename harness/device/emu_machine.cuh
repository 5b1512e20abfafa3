/* emu_machine.cuh - the emulated device's own structures, shared by emu*.cc and stream_emu.cc.
 *
 *     emu.cc          launches, blocks, barriers and warps
 *     emu_fiber.cc    stacks and switches
 *     emu_memory.cc   shared arrays, and the shadow of every byte
 *     emu_hopper.cc   what sm_90 has besides: who has seen what, in blocks that use it
 *     emu_global.cc   device memory: allocation, copies
 *     emu_graph.cc    captures and their launches
 *     emu_ledger.cc   what launches move
 *     stream_emu.cc   the rest of stream.h
 *
 * Written without the C++ run time library (no exceptions, no containers), so that the tests link
 * as C programs do. */
#ifndef KVR_DEVICE_EMU_MACHINE_CUH
#define KVR_DEVICE_EMU_MACHINE_CUH

#include "harness/device/capture.h"
#include "harness/device/emu.cuh"
#include "harness/device/tickets.h"

/* The switch is written by hand where we know how: swapcontext makes a system call. */
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
    STACK_COLOURS = 64, /* stacks begin at so many places of a page and the caches' sets, */
    COLOUR_BYTES = 256, /* so far apart */
    LAST_FRAMES =
        4096, /* more than what a thread leaves on its stack when it has left the kernel */
    MAX_ARRAYS = 32,
    REDZONE = 256,                 /* no array borders on another */
    TILE_ALIGN = 1024,             /* of dynamic shared memory: tiles of hopper.cuh lie in it */
    MAX_SHARED = 227 * 1024,       /* what a block of sm_90 may have */
    MAX_STATIC_SHARED = 48 * 1024, /* what it may declare with a constant size */
    UNASKED_SHARED = 48 * 1024,    /* static and dynamic, of a kernel that asked for no more */
    SHARED_BYTES = (TILE_ALIGN + MAX_SHARED + MAX_STATIC_SHARED + MAX_ARRAYS * (REDZONE + 128) +
                    TILE_ALIGN - 1) /
                   TILE_ALIGN * TILE_ALIGN,
    MAX_CLUSTER = 4,   /* blocks that run together */
    MAX_CLOCKED = 768, /* threads of blocks whose order emu_hopper.cc keeps, and of a cluster */
    MAX_KERNELS = 128,
    MAX_ASKED = 1024, /* kernels that have dynamic shared memory */
    MAX_COPIES = 64,  /* of a thread, under way */
    MESSAGE = 512,
};

/* A suspended stack: its pointer, with the registers that calls preserve on top. */
struct context {
#ifdef KVR_EMU_UCONTEXT
    ucontext_t u;
#else
    void *sp;
#endif
    void *fake; /* AddressSanitizer's own */
    const void *bottom;
    size_t size;
};

/* When a thread did something, as far as ordering goes, in one word, since there are three to a
 * cell:
 *     63     36     23        12      2       1       0
 *     | serial | epoch | warp epoch | thread | atomic | coming |
 * serial: of the block, over all launches; 0: never; 1: the host. epoch: __syncthreads passed;
 * warp epoch: __syncwarp passed since; in a block whose order emu_hopper.cc keeps, the two are one
 * clock of the thread. coming: a copy that nobody has waited for. */
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

struct cell { /* of `unit` bytes of a region */
    stamp write;
    stamp read[2]; /* the last one, and the last of another warp */
};

/* Regions begin with the coarsest cells. The first access that lies across one splits them all:
 * most memory is only ever used in whole words, and books on every byte are large and slow. */
enum { COARSEST = 4 };

struct region {
    struct region *next;
    const char *name;
    const void *id;
    unsigned char *base;  /* its address on the device; the host may not touch what is there */
    unsigned char *bytes; /* where its bytes are; of shared memory: base */
    size_t n;
    struct cell *cells; /* [ceil(n / unit)]; of shared memory there is room for n */
    bool shared;
    unsigned unit;
    unsigned rank; /* of its block in the cluster */
};

/* A step of a graph; what it was given follows. */
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
    struct place place; /* first, so that `here` is the fiber, too */
    struct context context;
    enum state state;
    unsigned epoch, warp_epoch;
    stamp now;        /* of what it does until the next barrier */
    const char *file; /* where it waits */
    int line;
    int n_copies;
    unsigned group; /* of the copies that begin now */
    struct copy copy[MAX_COPIES];
};

/* What the lanes of a warp brought to the operation in which they wait. Beside one another, since
 * the last one that comes looks at all. */
struct warp_book {
    unsigned left, waiting; /* lanes, by bit */
    enum warp_kind kind[32];
    unsigned mask[32];
    uint64_t value[32], result[32];
    int arg[32], width[32];
    void (*fn[32])(void *const *); /* TOGETHER */
};

/* What a block of the cluster that runs has. */
struct block {
    unsigned n_waiting, n_left; /* threads at __syncthreads; that have left the kernel */
    unsigned char *bytes;       /* shared memory, */
    struct cell *cells;
    struct region array[MAX_ARRAYS]; /* of which array[0] is the dynamic one */
    int n_arrays;
    size_t used, static_used;
};

struct hopper; /* emu_hopper.cc */
struct ledger; /* emu_ledger.cc */

/* Dynamic shared memory that a kernel asked for. */
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
    size_t block_shared; /* that a block may have */
    bool was_full;
    int capability;
    struct kvr_capture capture;
    struct kvr_graph *graph; /* that is being captured */
    struct kvr_tickets tickets;
    int64_t *marks; /* [max_marks], by ticket */
    int64_t max_marks;
    uint32_t serial, launch_serial; /* of the block that runs; of the launch's first block */
    unsigned char *stacks;
    unsigned n_stacks;                     /* that are guarded */
    struct fiber *fibers;                  /* [MAX_THREADS] */
    unsigned *ready;                       /* [MAX_THREADS] fibers that can go on */
    unsigned n_ready, n_threads, n_blocks; /* threads of a block, blocks that run together: */
    unsigned n_fibers;                     /* of these all threads */
    struct warp_book warps[MAX_THREADS / 32];
    struct hopper *hopper; /* NULL: nothing has used it yet */
    bool clocked;          /* it keeps the order of the block that runs */
    unsigned n_coming;     /* bulk copies and stores to other blocks under way */
    struct context host;
    void (*body)(void *);
    void *arg;
    const char *kernel; /* NULL: none runs */
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
    struct ledger *ledger; /* NULL: nobody asked */
};

namespace kvr_emu
{

/* The machine of this thread: what CUDA calls its current device. */
extern __thread struct kvr_stream *streams; /* all that are open */
extern __thread struct kvr_stream *running; /* in a launch; else NULL */

/* Stacks for the first n threads, each with a guard behind it. */
void fiber_stacks(struct kvr_stream *s, unsigned n);
/* A fresh stack that begins at `entry`. left: its last owner came to its end. */
void fiber_prepare(struct context *c, void (*entry)(), bool left);
/* First thing on a fresh stack. */
void fiber_arrived();
/* Go on with `to` until something comes back; for_good: nothing will. */
void leave_for(struct context *from, struct context *to, bool for_good);
/* What the calling thread's own stack is, for switches away from it. */
void fiber_describe_host(struct context *host);

/* The stream's first error. */
void record(struct kvr_stream *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Has the kernel asked for so many bytes of dynamic shared memory? */
bool asked_for(const struct kvr_stream *s, const void *entry, size_t bytes);
/* True, and an error: no device launches this. */
bool refused(struct kvr_stream *s, const struct shape *shape);

/* Count serials from the beginning: all that was written was written by the host. */
void renumber(struct kvr_stream *s);

/* Cells of `unit` bytes where there were coarser ones. False: no memory. */
bool split(struct region *r, unsigned unit);
/* The cells of bytes [at, at + n) of r, made as fine as they need to be; how many. 0: no memory. */
size_t cells_of(struct region *r, size_t at, size_t n, struct cell **first);

/* The next array of the block that is about to run, or runs; NULL: there are too many. */
struct region *add_shared(struct kvr_stream *s, unsigned rank, const void *id, const char *name,
                          size_t n);

/* The thread that runs waits until it is woken. */
void wait_as(enum state why, const char *file, int line);
void wake(struct kvr_stream *s, struct fiber *f);

/* May the thread that did something `then` not have been seen yet by the one that runs? */
bool unseen(const struct kvr_stream *s, stamp then);
/* The same of what a thread of another block of the cluster has written. */
bool unmet(const struct kvr_stream *s, stamp then);
/* What __syncthreads and __syncwarp are in a block that is `clocked`: all have seen all. */
void meet_all(struct kvr_stream *s, unsigned rank);
void meet_lanes(struct kvr_stream *s, unsigned first, unsigned mask);
/* Copy or store i of those under way arrives. */
void arrives(struct kvr_stream *s, unsigned i);
/* Keep the order of what is about to run, which is several blocks, from its beginning. */
void clock_cluster(struct kvr_stream *s);
/* Why a thread that waits in a state of sm_90's own cannot go on; none can. */
void record_stuck(struct kvr_stream *s, const struct fiber *f);
/* The thread that runs has left; with it all of its block have. */
void thread_left(struct kvr_stream *s);
void block_ended(struct kvr_stream *s);
void hopper_close(struct kvr_stream *s);
/* Who did something `then`, in words. */
const char *who(stamp then, char *text, size_t size);

/* What a launch that has just run has moved; what a copy or a fill has. */
void account_launch(struct kvr_stream *s, const char *kernel);
void account_move(struct kvr_stream *s, const char *what, int64_t read, int64_t written);

/* Of the thread that runs. */
static inline struct fiber *self()
{
    return (struct fiber *)here;
}

/* To be called whenever one of a fiber's epochs changes. */
static inline void restamp(const struct kvr_stream *s, struct fiber *f)
{
    f->now = (stamp)s->serial << 36 | (stamp)f->epoch << 23 | (stamp)f->warp_epoch << 12 |
             (stamp)f->place.linear << 2;
}

} // namespace kvr_emu

#endif
