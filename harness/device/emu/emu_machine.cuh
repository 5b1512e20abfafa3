/* emu_machine.cuh - data structures of the emulator, which emu*.cc and stream_emu.cc share.
 *
 * Launches, blocks, barriers and warp operations are in emu.cc. Fiber stacks and context switches
 * are in emu_fiber.cc. Shared arrays and the shadow memory are in emu_memory.cc. Vector clocks and
 * reports of deadlocks at sm_90 barriers, setmaxnreg and wgmma are in emu_hopper.cc. Each of the
 * files emu_mbarrier.cc, emu_cluster.cc, emu_tma.cc, emu_wgmma.cc and emu_setmaxnreg.cc implements
 * one feature of sm_90. Allocations and copies of device memory are in emu_global.cc. Graph capture
 * and graph launches are in emu_graph.cc. The byte counts of each kernel's memory traffic are in
 * emu_traffic.cc. The other functions of stream.h are in stream_emu.cc.
 *
 * The emulator does not use the C++ runtime library (exceptions, containers), so the tests can be
 * linked as C programs. */
#ifndef KVR_DEVICE_EMU_MACHINE_CUH
#define KVR_DEVICE_EMU_MACHINE_CUH

#include "harness/device/capture.h"
#include "harness/device/emu/emu.cuh"
#include "harness/device/tickets.h"

/* On x86-64 the context switch between fibers is written in assembly, because swapcontext makes a
 * slow system call. */
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
    /* The top of stack i is lowered by i % 64 * 256 bytes, so that stacks occupy different sets of
     * the CPU's cache. */
    STACK_COLOURS = 64,
    COLOUR_BYTES = 256,
    /* Size of the area at the top of a stack that the emulator unpoisons for AddressSanitizer
     * before it reuses the stack. The area contains the frames of the emulator functions that end a
     * thread. These functions never return, so their frames stay poisoned. */
    LAST_FRAMES = 4096,
    MAX_ARRAYS = 32,
    REDZONE = 256, /* unused bytes between shared arrays, so that short overruns hit no array */
    /* Alignment, in bytes, of dynamic shared memory. TMA tiles with the 128-byte swizzle require
     * this alignment (KVR_TILE_ALIGN). */
    TILE_ALIGN = 1024,
    MAX_SHARED = 227 * 1024,       /* bytes of shared memory that a block may use on sm_90 */
    MAX_STATIC_SHARED = 48 * 1024, /* bytes of static shared memory that a block may use */
    DEFAULT_SHARED =
        /* bytes of static plus dynamic shared memory that a block may use without
         * cudaFuncSetAttribute */
    48 * 1024,
    SHARED_BYTES = (TILE_ALIGN + MAX_SHARED + MAX_STATIC_SHARED + MAX_ARRAYS * (REDZONE + 128) +
                    TILE_ALIGN - 1) /
                   TILE_ALIGN * TILE_ALIGN,
    MAX_CLUSTER = 4, /* maximum number of blocks in an emulated cluster */
    /* Maximum number of threads of a cluster, and of a block that executes sm_90 instructions. Each
     * such thread has a vector clock. */
    MAX_CLOCKED = 768,
    MAX_KERNELS = 128,
    MAX_ASKED = 1024, /* maximum number of kernels that request dynamic shared memory */
    MAX_COPIES = 64,  /* maximum number of cp.async copies that a thread has in flight */
    MESSAGE = 512,
};

/* The state of a suspended fiber: its stack pointer. The fiber's callee-saved registers are on its
 * stack. */
struct context {
#ifdef KVR_EMU_UCONTEXT
    ucontext_t u;
#else
    void *sp;
#endif
    void *fake; /* AddressSanitizer's fake stack of the fiber */
    const void *bottom;
    size_t size;
};

/* A stamp records which thread accessed memory, and when. A stamp has only 64 bits, because every
 * shadow cell contains three stamps. Bits 36 to 63 are the serial number of the thread's block,
 * counted over all launches. A serial number of 0 means no access, and 1 means an access by the
 * host. Bits 23 to 35 are the epoch: the number of __syncthreads that the block has completed. Bits
 * 12 to 22 are the warp epoch: the number of __syncwarp that the warp has completed since the last
 * __syncthreads. In a block with vector clocks, bits 12 to 35 are the thread's clock instead. Bits
 * 2 to 11 are the index of the thread or of the asynchronous operation's clock. Bit 1 marks an
 * atomic operation. Bit 0 marks an asynchronous copy in flight. */
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

struct cell { /* the last accesses to `unit` adjacent bytes of a region (see struct region) */
    stamp write;
    stamp read[2]; /* read[0] is the stamp of the last read, and read[1] that of an earlier read.
                    * Without vector clocks, the two reads are by different warps. With vector
                    * clocks, no barrier orders read[1] before read[0]. */
};

/* Initially the shadow memory of a region has one cell per 4 bytes. The first narrower access to
 * the region splits all its cells. Most accesses are 32-bit words, so an initial cell per byte
 * would only cost memory and time. */
enum { COARSEST = 4 };

struct region {
    struct region *next;
    const char *name;
    const void *id;
    unsigned char *base; /* device address of the region; host code must not access it */
    /* host memory that stores the region's data; for shared memory equal to `base` */
    unsigned char *bytes;
    size_t n;
    /* [ceil(n / unit)] shadow cells, each for `unit` of the region's n bytes; for shared memory the
     * array has space for n cells */
    struct cell *cells;
    bool shared;
    unsigned unit;
    unsigned rank; /* cluster rank of the block whose shared memory contains the region */
};

/* A graph node, followed in memory by the arguments of the node's operation. */
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
    /* must be the first member, because self() casts the address of this member to the address of
     * the fiber */
    struct coords coords;
    struct context context;
    enum state state;
    unsigned epoch, warp_epoch;
    stamp now;        /* the stamp of the thread's accesses until its next synchronization */
    const char *file; /* source file of the barrier or warp operation at which the thread waits */
    int line;
    int n_copies;
    unsigned group; /* index of the cp.async group that the next cp.async.commit_group closes */
    struct copy copy[MAX_COPIES];
};

/* The warp operations at which the lanes of a warp wait, with their arguments. The last lane that
 * arrives computes the results of all lanes from these arguments. */
struct warp_book {
    unsigned left, waiting; /* lane masks: exited, and waiting at a warp operation */
    enum warp_kind kind[32];
    unsigned mask[32];
    uint64_t value[32], result[32];
    int arg[32], width[32];
    void (*fn[32])(void *const *); /* the argument `fn` of each lane's run_lanes_together() */
};

/* A block of the running cluster. */
struct block {
    /* number of threads that wait at __syncthreads, and number of threads that have exited */
    unsigned n_waiting, n_left;
    unsigned char *bytes; /* shared memory */
    struct cell *cells;
    struct region array[MAX_ARRAYS]; /* array[0] is the block's dynamic shared memory */
    int n_arrays;
    size_t used, static_used;
    /* The range of addresses that contains the block's mbarriers. The range is empty if the block
     * has no mbarrier. */
    uintptr_t phased, phased_end;
};

struct hopper;  /* defined in emu_hopper.cuh */
struct traffic; /* defined in emu_traffic.cc */

/* The bytes of dynamic shared memory that a kernel may use, as set by cudaFuncSetAttribute on a
 * GPU. */
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
    size_t block_shared; /* bytes of shared memory that a block of the emulated GPU may use */
    bool was_full;
    int capability;
    struct kvr_capture capture;
    struct kvr_graph *graph; /* the graph that the stream is capturing */
    struct kvr_tickets tickets;
    int64_t *marks; /* when each timing event occurred, in ns; array of max_marks elements,
                     * indexed by kvr_ticket_slot() */
    int64_t max_marks;
    /* Serial number of the running block, and serial number of the first block of the running
     * launch. */
    uint32_t serial, launch_serial;
    unsigned char *stacks;
    unsigned n_stacks;    /* number of stacks that already have guard pages */
    struct fiber *fibers; /* [MAX_THREADS], the fibers of the running cluster */
    unsigned *ready;      /* [MAX_THREADS], the runnable fibers */
    /* numbers of runnable fibers, of threads per block, and of blocks per cluster */
    unsigned n_ready, n_threads, n_blocks;
    unsigned n_fibers; /* number of threads of the running cluster */
    struct warp_book warps[MAX_THREADS / 32];
    /* vector clocks, mbarriers and other state of sm_90 instructions, or NULL until a block needs
     * them */
    struct hopper *hopper;
    bool clocked;      /* whether the running block has vector clocks */
    unsigned n_coming; /* number of bulk copies and remote stores in flight */
    struct context host;
    void (*body)(void *);
    void *arg;
    const char *kernel; /* name of the running kernel, or NULL while no kernel runs */
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
    struct traffic *traffic; /* byte counts of memory traffic, or NULL if they are not recorded */
};

namespace kvr_emu
{

/* Every host thread has its own emulated device, and therefore its own streams. */
extern __thread struct kvr_stream *streams; /* all open streams */
extern __thread struct kvr_stream *running; /* stream that executes a kernel, or NULL */

/* Prepares the stacks of the first n fibers, with a guard page below every stack. */
void fiber_stacks(struct kvr_stream *s, unsigned n);
/* Prepares a fiber that starts at `entry` with an empty stack. `left` is true if the previous
 * thread on this stack has exited; then AddressSanitizer's poison is left only in the top
 * LAST_FRAMES bytes of the stack. If `left` is false, any byte of the stack may be poisoned. */
void fiber_prepare(struct context *c, void (*entry)(), bool left);
/* Tells AddressSanitizer that the switch to a new fiber is complete. The fiber's entry function
 * must call fiber_arrived() first. */
void fiber_arrived();
/* Switches from context `from` to context `to`. If `for_good` is true, the program never resumes
 * `from`. */
void leave_for(struct context *from, struct context *to, bool for_good);
/* Stores the bounds of the calling host thread's stack, which AddressSanitizer needs at switches
 * between the host and fibers. */
void fiber_describe_host(struct context *host);

/* Records an error on the stream, unless the stream already has an error. */
void record(struct kvr_stream *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Returns whether the kernel `entry` may use `bytes` bytes of dynamic shared memory. */
bool asked_for(const struct kvr_stream *s, const void *entry, size_t bytes);
/* Checks the launch configuration. Returns true, and records an error, if a GPU would reject the
 * configuration. */
bool refused(struct kvr_stream *s, const struct shape *shape);

/* Restarts the serial numbers of blocks after the largest number has been used. In the shadow
 * memory of device buffers, replaces the stamps of earlier writes by the host's stamp, and deletes
 * the stamps of earlier reads. */
void renumber(struct kvr_stream *s);

/* Splits the shadow cells of a region into cells that describe `unit` bytes each. Returns false if
 * the host has no memory for the new cells. */
bool split(struct region *r, unsigned unit);
/* Finds the shadow cells of bytes [at, at + n) of region r, and splits the cells of r if these
 * bytes do not fill whole cells. Returns the number of cells, or 0 if the host has no memory for
 * the split cells. */
size_t cells_of(struct region *r, size_t at, size_t n, struct cell **first);

/* Adds a shared array to block `rank`. Returns NULL if the block already has MAX_ARRAYS arrays. */
struct region *add_shared(struct kvr_stream *s, unsigned rank, const void *id, const char *name,
                          size_t n);

/* Sets the state of the running thread to `why`, and suspends the thread until a call of wake() for
 * this thread. */
void wait_as(enum state why, const char *file, int line);
void wake(struct kvr_stream *s, struct fiber *f);

/* The stamp `then` identifies the thread and the time of an earlier access. Returns true if no
 * barrier orders this access before the running thread's next access. */
bool is_unobserved(const struct kvr_stream *s, stamp then);
/* Returns true if another block of the cluster made the access with stamp `then`, and no cluster
 * barrier orders this access before the running thread's next access. */
bool unmet(const struct kvr_stream *s, stamp then);
/* Merge the vector clocks (views) of the threads that have arrived at a __syncthreads or
 * __syncwarp. */
void meet_all(struct kvr_stream *s, unsigned rank);
void meet_lanes(struct kvr_stream *s, unsigned first, unsigned mask);
/* Completes the bulk copy or remote store with index i: writes its bytes, and subtracts them from
 * the tx-count of its mbarrier. Bulk copies in flight have the first indices, remote stores
 * follow. */
void complete_transfer(struct kvr_stream *s, unsigned i);
/* Initializes the vector clocks of all threads of a cluster of several blocks. */
void clock_cluster(struct kvr_stream *s);
/* Records which sm_90 barrier, setmaxnreg.inc or wgmma.wait_group a deadlocked thread waits at. */
void record_stuck(struct kvr_stream *s, const struct fiber *f);
/* The emulator calls thread_left() when the running thread exits, and block_ended() when the last
 * thread of a block has exited. */
void thread_left(struct kvr_stream *s);
void block_ended(struct kvr_stream *s);
/* Fails if an mbarrier overlaps the n bytes of shared memory from address `at` on. */
void check_no_mbarrier(const struct region *r, uintptr_t at, size_t n, const char *how);
void hopper_close(struct kvr_stream *s);
/* Writes to `text` a description of the thread or asynchronous operation that made the access with
 * stamp `then`. */
const char *describe_stamp(stamp then, char *text, size_t size);

/* Update the counters of global-memory traffic. account_launch() adds the bytes that the last
 * launch of `kernel` has read and written. account_move() adds to the counters named `what` the
 * bytes that a copy or memset has read and written. */
void account_launch(struct kvr_stream *s, const char *kernel);
void account_move(struct kvr_stream *s, const char *what, int64_t read, int64_t written);

/* Returns the fiber of the running thread. */
static inline struct fiber *self()
{
    return (struct fiber *)here;
}

/* Recomputes f->now, the stamp (block, epochs and thread) that the shadow memory records for every
 * access of the fiber. Callers must call this function after every change of f->epoch or
 * f->warp_epoch. */
static inline void restamp(const struct kvr_stream *s, struct fiber *f)
{
    f->now = (stamp)s->serial << 36 | (stamp)f->epoch << 23 | (stamp)f->warp_epoch << 12 |
             (stamp)f->coords.linear << 2;
}

} // namespace kvr_emu

#endif
