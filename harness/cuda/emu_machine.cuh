/* emu_machine.cuh - the emulated device's own structures, shared by emu*.cc and stream_emu.cc.
 *
 *     emu.cc          launches, blocks, barriers and warps
 *     emu_fiber.cc    stacks and switches
 *     emu_memory.cc   shared arrays, and the shadow of every byte
 *     stream_emu.cc   stream.h
 *
 * Written without the C++ run time library (no exceptions, no containers), so that the tests link
 * as C programs do. */
#ifndef KVR_CUDA_EMU_MACHINE_CUH
#define KVR_CUDA_EMU_MACHINE_CUH

#include "harness/cuda/emu.cuh"

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
    STACK_BYTES = 128 * 1024,
    MAX_ARRAYS = 32,
    REDZONE = 256,                 /* no array borders on another */
    MAX_SHARED = 227 * 1024,       /* what a block of sm_90 may have */
    MAX_STATIC_SHARED = 48 * 1024, /* what it may declare with a constant size */
    MAX_KERNELS = 128,
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

/* When a thread did something, as far as ordering goes. */
struct stamp {
    uint32_t serial; /* of the block, over all launches; 0: never; 1: the host */
    uint32_t warp_epoch;
    uint16_t epoch, thread; /* __syncthreads passed */
    bool atomic;
};

struct cell { /* of one byte */
    struct stamp write;
    struct stamp read[2]; /* the last one, and the last of another warp */
};

struct region {
    struct region *next;
    const char *name;
    const void *id;
    unsigned char *base;
    size_t n;
    struct cell *cells;
    bool shared;
};

enum state { RUNS, AT_BARRIER, IN_WARP, LEFT };

struct fiber {
    struct place place;
    struct context context;
    enum state state;
    unsigned epoch, warp_epoch;
    const char *file; /* where it waits */
    int line;
    enum warp_kind kind;
    unsigned mask;
    uint64_t value, result;
    int arg, width;
};

struct kernel_count {
    char name[64];
    int64_t n;
};

} // namespace kvr_emu

using namespace kvr_emu;

struct kvr_stream {
    struct kvr_stream *next;
    uint64_t seed, draws;
    struct region *regions;
    uint32_t serial, launch_serial; /* of the block that runs; of the launch's first block */
    unsigned char *stacks;
    struct fiber *fibers; /* [MAX_THREADS] */
    unsigned *ready;      /* [MAX_THREADS] fibers that can go on */
    unsigned n_ready, n_threads, n_left;
    struct context host;
    void (*body)(void *);
    void *arg;
    const char *kernel; /* NULL: none runs */
    unsigned char *shared_bytes;
    struct cell *shared_cells;
    struct region array[MAX_ARRAYS]; /* array[0] is the dynamic one */
    int n_arrays;
    size_t shared_used, static_used;
    bool failed;
    char error[MESSAGE];
    struct kernel_count count[MAX_KERNELS];
    int n_counts;
};

namespace kvr_emu
{

/* The machine of this thread: what CUDA calls its current device. */
extern thread_local struct kvr_stream *streams; /* all that are open */
extern thread_local struct kvr_stream *running; /* in a launch; else NULL */

/* A fresh stack that begins at `entry`. */
void fiber_prepare(struct context *c, void (*entry)());
/* First thing on a fresh stack. */
void fiber_arrived();
/* Go on with `to` until something comes back; for_good: nothing will. */
void leave_for(struct context *from, struct context *to, bool for_good);
/* What the calling thread's own stack is, for switches away from it. */
void fiber_describe_host(struct context *host);

/* The next array of the block that is about to run, or runs; NULL: there are too many. */
struct region *add_shared(struct kvr_stream *s, const void *id, const char *name, size_t n);

/* Of the thread that runs. */
static inline struct fiber *self()
{
    return &running->fibers[here->linear];
}

} // namespace kvr_emu

#endif
