/* emu.cc - fibers, barriers, warps and shadow memory behind emu.cuh, and the emulated stream.
 *
 * Written without the C++ run time library (no exceptions, no containers), so that the tests
 * link as C programs do. */
#include "harness/cuda/emu.cuh"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

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
#ifdef KVR_ASAN
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
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

thread_local struct place *here;

/* ---- fibers ---------------------------------------------------------------------------- */

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

#ifndef KVR_EMU_UCONTEXT
extern "C" void kvr_emu_switch(void **save, void *load);
__asm__(".text\n.type kvr_emu_switch,@function\nkvr_emu_switch:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
        ".size kvr_emu_switch,.-kvr_emu_switch\n");

static void prepare(struct context *c, void (*entry)())
{
    /* Six registers, the entry as return address, and one word so that the stack is aligned as
     * after a call. */
    void **top = (void **)((uintptr_t)c->bottom + c->size) - 8;

    for (int i = 0; i < 8; i++)
        top[i] = NULL;
    top[6] = (void *)entry;
    c->sp = top;
}

static void jump(struct context *from, struct context *to)
{
    kvr_emu_switch(&from->sp, to->sp);
}
#else
static void prepare(struct context *c, void (*entry)())
{
    getcontext(&c->u);
    c->u.uc_stack.ss_sp = (void *)c->bottom;
    c->u.uc_stack.ss_size = c->size;
    c->u.uc_link = NULL;
    makecontext(&c->u, entry, 0);
}

static void jump(struct context *from, struct context *to)
{
    swapcontext(&from->u, &to->u);
}
#endif

static void leave_for(struct context *from, struct context *to, bool for_good)
{
#ifdef KVR_ASAN
    __sanitizer_start_switch_fiber(for_good ? NULL : &from->fake, to->bottom, to->size);
#else
    (void)for_good;
#endif
    jump(from, to);
#ifdef KVR_ASAN
    __sanitizer_finish_switch_fiber(from->fake, NULL, NULL);
#endif
}

/* ---- the machine ----------------------------------------------------------------------- */

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
static thread_local struct kvr_stream *streams;
static thread_local struct kvr_stream *running;

static uint64_t draw(struct kvr_stream *s)
{
    uint64_t z = s->seed + ++s->draws * 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static struct fiber *self()
{
    return &running->fibers[here->linear];
}

static void vrecord(struct kvr_stream *s, const char *fmt, va_list ap)
{
    size_t n = 0;

    if (s->failed)
        return;
    s->failed = true;
    if (here)
        n = (size_t)snprintf(s->error, sizeof s->error,
                             "%s, block (%u,%u,%u), thread (%u,%u,%u): ", s->kernel, here->block.x,
                             here->block.y, here->block.z, here->thread.x, here->thread.y,
                             here->thread.z);
    vsnprintf(s->error + n, sizeof s->error - n, fmt, ap);
}

static void __attribute__((format(printf, 2, 3))) record(struct kvr_stream *s, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vrecord(s, fmt, ap);
    va_end(ap);
}

/* The fiber is not run again: kernels have nothing to clean up. */
void fail(const char *fmt, ...)
{
    va_list ap;

    if (!here)
        abort(); /* device memory touched by the host's own code */
    va_start(ap, fmt);
    vrecord(running, fmt, ap);
    va_end(ap);
    for (;;)
        leave_for(&self()->context, &running->host, false);
}

/* ---- shadow memory --------------------------------------------------------------------- */

struct region *find(const void *p)
{
    const uintptr_t at = (uintptr_t)p;

    for (struct kvr_stream *s = streams; s; s = s->next)
        for (struct region *r = s->regions; r; r = r->next)
            if (at >= (uintptr_t)r->base && at <= (uintptr_t)r->base + r->n)
                return r;
    return NULL;
}

void *begin(struct region *r)
{
    return r->base;
}

static struct region *add_shared(struct kvr_stream *s, const void *id, const char *name, size_t n)
{
    struct region *r = &s->array[s->n_arrays];
    const size_t at = s->shared_used + REDZONE;

    if (s->n_arrays == MAX_ARRAYS)
        return NULL;
    *r = { NULL, name, id, s->shared_bytes + at, n, s->shared_cells + at, true };
    s->n_arrays++;
    s->shared_used = (at + n + 127) / 128 * 128;
    return r;
}

struct region *shared_array(const void *id, const char *name, size_t n_bytes)
{
    struct kvr_stream *s = running;
    struct region *r;

    for (int i = 1; i < s->n_arrays; i++)
        if (s->array[i].id == id)
            return &s->array[i];
    s->static_used += n_bytes;
    if (s->static_used > MAX_STATIC_SHARED)
        fail("shared array '%s': %zu bytes in all, at most %d", name, s->static_used,
             MAX_STATIC_SHARED);
    if (s->static_used + s->array[0].n > MAX_SHARED)
        fail("shared array '%s': %zu bytes in all, at most %d", name,
             s->static_used + s->array[0].n, MAX_SHARED);
    r = add_shared(s, id, name, n_bytes);
    if (!r)
        fail("more than %d shared arrays", MAX_ARRAYS - 1);
    return r;
}

struct region *shared_dynamic()
{
    return &running->array[0];
}

/* May both have happened at the same time on a device? */
static bool unordered(const struct region *r, const struct stamp *then, const struct stamp *now)
{
    if (then->serial < running->launch_serial)
        return false; /* an earlier launch, the host, or never */
    if (then->serial != now->serial)
        return !r->shared; /* another block has shared memory of its own */
    if (then->thread == now->thread || then->epoch != now->epoch)
        return false;
    return then->thread / 32 != now->thread / 32 || then->warp_epoch == now->warp_epoch;
}

static void race(const struct region *r, size_t at, const char *before, const char *after,
                 const struct stamp *then, const struct stamp *now)
{
    if (then->serial == now->serial)
        fail("%s memory '%s', byte %zu: %s, %s by thread %u of the block without a barrier between",
             r->shared ? "shared" : "global", r->name, at, after, before, then->thread);
    fail("%s memory '%s', byte %zu: %s, %s by thread %u of another block in the same launch",
         r->shared ? "shared" : "global", r->name, at, after, before, then->thread);
}

void touch(struct region *r, uintptr_t p, size_t n, size_t align, enum access how)
{
    static const char *const done[] = { "read", "written", "changed atomically" };
    const struct fiber *f;
    struct stamp now;
    size_t at;

    if (!here)
        abort(); /* device memory touched by the host's own code */
    f = self();
    now = { running->serial, f->warp_epoch, (uint16_t)f->epoch, (uint16_t)here->linear,
            how == ATOMIC };
    if (!r)
        fail("%s: address %p is not device memory", done[how], (void *)p);
    at = p - (uintptr_t)r->base;
    if (at > r->n || n > r->n - at)
        fail("%s memory '%s': %zu bytes %s at byte %td of %zu", r->shared ? "shared" : "global",
             r->name, n, done[how], (ptrdiff_t)at, r->n);
    if (p % align)
        fail("%s memory '%s': %zu bytes %s at byte %zu, not aligned",
             r->shared ? "shared" : "global", r->name, n, done[how], at);
    for (size_t i = at; i < at + n; i++) {
        struct cell *c = &r->cells[i];

        if (how != WRITE && (r->shared ? c->write.serial != now.serial : !c->write.serial))
            fail("%s memory '%s', byte %zu: %s, but nobody has written it",
                 r->shared ? "shared" : "global", r->name, i, done[how]);
        if (unordered(r, &c->write, &now) && !(how == ATOMIC && c->write.atomic))
            race(r, i, "written", done[how], &c->write, &now);
        for (int k = 0; k < 2 && how != READ; k++)
            if (unordered(r, &c->read[k], &now) && !(how == ATOMIC && c->read[k].atomic))
                race(r, i, "read", done[how], &c->read[k], &now);
        if (how != READ) {
            c->write = now;
        } else {
            if (c->read[0].thread / 32 != now.thread / 32 || c->read[0].serial != now.serial)
                c->read[1] = c->read[0];
            c->read[0] = now;
        }
    }
}

/* ---- running a block ------------------------------------------------------------------- */

static void wake(struct kvr_stream *s, struct fiber *f)
{
    f->state = RUNS;
    s->ready[s->n_ready++] = f->place.linear;
}

static void fiber_main()
{
    struct kvr_stream *s = running;
    struct fiber *f;

#ifdef KVR_ASAN
    __sanitizer_finish_switch_fiber(NULL, NULL, NULL);
#endif
    s->body(s->arg);
    f = self();
    f->state = LEFT;
    s->n_left++;
    leave_for(&f->context, &s->host, true);
    abort();
}

static void wait_as(enum state why, const char *file, int line)
{
    struct fiber *f = self();

    f->state = why;
    f->file = file;
    f->line = line;
    leave_for(&f->context, &running->host, false);
}

/* The lane whose value a shuffle gives. */
static unsigned source_of(enum warp_kind kind, unsigned lane, int arg, int width)
{
    const unsigned w = (unsigned)width, first = lane / w * w;

    if (kind == SHFL)
        return first + (unsigned)arg % w;
    if (kind == SHFL_UP)
        return lane - first >= (unsigned)arg ? lane - (unsigned)arg : lane;
    if (kind == SHFL_DOWN)
        return lane - first + (unsigned)arg < w ? lane + (unsigned)arg : lane;
    if (kind == SHFL_XOR)
        return (lane ^ (unsigned)arg) < first + w ? lane ^ (unsigned)arg : lane;
    return lane;
}

static uint64_t result_of(const struct fiber *lanes, unsigned lane)
{
    const struct fiber *f = &lanes[lane];
    int64_t sum = (int64_t)f->value;
    unsigned bits = 0;

    if (f->kind <= SHFL_XOR)
        return lanes[source_of(f->kind, lane, f->arg, f->width)].value;
    for (unsigned l = 0; l < 32; l++) {
        if (!(f->mask >> l & 1u))
            continue;
        const int64_t v = (int64_t)lanes[l].value;

        if (f->kind == BALLOT)
            bits |= (unsigned)(v != 0) << l;
        if (f->kind == MATCH_ANY)
            bits |= (unsigned)(lanes[l].value == f->value) << l;
        if (f->kind == REDUCE_ADD && l != lane)
            sum += v;
        if (f->kind == REDUCE_MIN)
            sum = v < sum ? v : sum;
        if (f->kind == REDUCE_MAX)
            sum = v > sum ? v : sum;
    }
    return f->kind == BALLOT || f->kind == MATCH_ANY ? bits : (uint64_t)sum;
}

uint64_t warp(enum warp_kind kind, unsigned mask, uint64_t value, int arg, int width,
              const char *file, int line)
{
    struct kvr_stream *s = running;
    struct fiber *f = self();
    const unsigned lane = here->linear % 32, first = here->linear - lane;
    const unsigned size = s->n_threads - first < 32 ? s->n_threads - first : 32;
    const unsigned exist = size == 32 ? ~0u : (1u << size) - 1u;
    struct fiber *lanes = &s->fibers[first];
    unsigned live = 0;

    mask &= exist; /* lanes that were never launched are as good as none */
    if (!(mask >> lane & 1u))
        fail("%s:%d: warp operation: the mask %08x does not name the caller, lane %u", file, line,
             mask, lane);
    if (width < 1 || width > 32 || (width & (width - 1)))
        fail("%s:%d: shuffle: width %d, need a power of two up to 32", file, line, width);
    if (!(mask >> source_of(kind, lane, arg, width) & 1u))
        fail("%s:%d: shuffle: lane %u is read, the mask is %08x", file, line,
             source_of(kind, lane, arg, width), mask);
    f->kind = kind;
    f->mask = mask;
    f->value = value;
    f->arg = arg;
    f->width = width;
    for (unsigned l = 0; l < size; l++) {
        live |= (unsigned)(lanes[l].state != LEFT) << l;
        if (l == lane || !(mask >> l & 1u))
            continue;
        if (lanes[l].state == LEFT)
            fail("%s:%d: warp operation: lane %u of the mask %08x has left the kernel", file, line,
                 l, mask);
        if (lanes[l].state != IN_WARP || lanes[l].mask != mask || lanes[l].kind != kind) {
            wait_as(IN_WARP, file, line);
            return f->result;
        }
    }
    /* The last lane has come. */
    for (unsigned l = 0; l < size; l++)
        if (mask >> l & 1u)
            lanes[l].result = result_of(lanes, l);
    for (unsigned l = 0; l < size; l++)
        if (mask >> l & 1u) {
            if (kind == SYNC && mask == live)
                lanes[l].warp_epoch++;
            if (l != lane)
                wake(s, &lanes[l]);
        }
    return f->result;
}

/* Nobody can go on: let the barrier open, or say why not. */
static void open_barrier(struct kvr_stream *s)
{
    const struct fiber *first = NULL;

    for (unsigned i = 0; i < s->n_threads; i++) {
        struct fiber *f = &s->fibers[i];

        if (f->state == LEFT)
            continue;
        here = &f->place;
        if (f->state == IN_WARP) {
            record(s,
                   "%s:%d: waits in a warp operation for lanes of the mask %08x that do not come",
                   f->file, f->line, f->mask);
            return;
        }
        if (s->n_left) {
            record(s, "%s:%d: divergent __syncthreads: %u of %u threads have left the kernel",
                   f->file, f->line, s->n_left, s->n_threads);
            return;
        }
        if (first && (first->line != f->line || strcmp(first->file, f->file))) {
            record(s, "%s:%d: divergent __syncthreads: thread %u waits at %s:%d", f->file, f->line,
                   first->place.linear, first->file, first->line);
            return;
        }
        first = first ? first : f;
    }
    here = NULL;
    for (unsigned i = 0; i < s->n_threads; i++) {
        s->fibers[i].epoch++;
        wake(s, &s->fibers[i]);
    }
}

static void start_threads(struct kvr_stream *s, dim3 grid, dim3 block, uint3 at)
{
    s->n_ready = s->n_left = 0;
    s->n_threads = block.x * block.y * block.z;
    for (unsigned i = 0; i < s->n_threads; i++) {
        struct fiber *f = &s->fibers[i];

        f->place.thread = { i % block.x, i / block.x % block.y, i / block.x / block.y };
        f->place.block = at;
        f->place.block_dim = block;
        f->place.grid_dim = grid;
        f->place.linear = i;
        f->epoch = f->warp_epoch = 0;
#ifdef KVR_ASAN
        __asan_unpoison_memory_region(f->context.bottom, f->context.size);
#endif
        prepare(&f->context, fiber_main);
        wake(s, f);
    }
}

static void run_block(struct kvr_stream *s)
{
    while (s->n_left < s->n_threads && !s->failed) {
        unsigned i, next;

        if (!s->n_ready) {
            open_barrier(s);
            continue;
        }
        i = (unsigned)(draw(s) % s->n_ready);
        next = s->ready[i];
        s->ready[i] = s->ready[--s->n_ready];
        here = &s->fibers[next].place;
        leave_for(&s->host, &s->fibers[next].context, false);
        here = NULL;
    }
    here = NULL;
}

static bool refused(struct kvr_stream *s, const char *name, dim3 grid, dim3 block, size_t shared)
{
    const uint64_t threads = (uint64_t)block.x * block.y * block.z;

    if (!threads || threads > MAX_THREADS || block.z > 64)
        record(s, "%s: a block of %u x %u x %u threads", name, block.x, block.y, block.z);
    else if (!grid.x || !grid.y || !grid.z || grid.x > 0x7fffffffu || grid.y > 65535 ||
             grid.z > 65535)
        record(s, "%s: a grid of %u x %u x %u blocks", name, grid.x, grid.y, grid.z);
    else if (shared > MAX_SHARED)
        record(s, "%s: %zu bytes of shared memory, at most %d", name, shared, MAX_SHARED);
    return s->failed;
}

static void count_launch(struct kvr_stream *s, const char *name)
{
    const size_t n = strcspn(name, "<");
    int i = 0;

    while (i < s->n_counts && (strncmp(s->count[i].name, name, n) || s->count[i].name[n]))
        i++;
    if (i == MAX_KERNELS || n >= sizeof s->count[i].name)
        abort();
    if (i == s->n_counts) {
        memcpy(s->count[i].name, name, n);
        s->n_counts++;
    }
    s->count[i].n++;
}

void run(struct kvr_stream *s, const char *name, dim3 grid, dim3 block, size_t shared_bytes,
         void (*body)(void *), void *arg)
{
    const uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
    uint32_t *order;

    if (s->failed || refused(s, name, grid, block, shared_bytes))
        return;
    order = (uint32_t *)malloc(blocks * sizeof *order);
    if (!order || s->serial + blocks + 2 > UINT32_MAX)
        abort();
    for (uint64_t i = 0; i < blocks; i++) {
        const uint64_t j = draw(s) % (i + 1);

        order[i] = order[j];
        order[j] = (uint32_t)i;
    }
    running = s;
    s->kernel = name;
    s->body = body;
    s->arg = arg;
    s->launch_serial = s->serial + 1;
    for (uint64_t i = 0; i < blocks && !s->failed; i++) {
        const uint32_t b = order[i];

        s->serial++;
        s->n_arrays = 0;
        s->shared_used = s->static_used = 0;
        add_shared(s, NULL, "dynamic", shared_bytes);
        start_threads(s, grid, block, { b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y });
        run_block(s);
    }
    free(order);
    s->kernel = NULL;
    running = NULL;
    if (!s->failed)
        count_launch(s, name);
}

} // namespace kvr_emu

void __syncthreads(const char *file, int line)
{
    wait_as(AT_BARRIER, file, line);
}

/* ---- the stream ------------------------------------------------------------------------ */

enum kvr_status kvr_stream_open(struct kvr_stream **out)
{
    const size_t shared = MAX_SHARED + MAX_STATIC_SHARED + MAX_ARRAYS * (REDZONE + 128);
    struct kvr_stream *s = (struct kvr_stream *)calloc(1, sizeof *s);

    *out = NULL;
    if (!s)
        return kvr_fail(KVR_ENOMEM, "emulated device: no memory");
    s->serial = 1; /* the host's */
    s->fibers = (struct fiber *)calloc(MAX_THREADS, sizeof *s->fibers);
    s->ready = (unsigned *)calloc(MAX_THREADS, sizeof *s->ready);
    s->shared_bytes = (unsigned char *)aligned_alloc(128, (shared + 127) / 128 * 128);
    s->shared_cells = (struct cell *)calloc(shared, sizeof *s->shared_cells);
    s->stacks =
        (unsigned char *)mmap(NULL, (size_t)MAX_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!s->fibers || !s->ready || !s->shared_bytes || !s->shared_cells ||
        s->stacks == MAP_FAILED) {
        s->stacks = s->stacks == MAP_FAILED ? NULL : s->stacks;
        kvr_stream_close(&s);
        return kvr_fail(KVR_ENOMEM, "emulated device: no memory");
    }
    for (unsigned i = 0; i < MAX_THREADS; i++) {
        unsigned char *stack = s->stacks + (size_t)i * STACK_BYTES;
        const size_t page = (size_t)sysconf(_SC_PAGESIZE);

        mprotect(stack, page, PROT_NONE); /* a stack that runs over faults */
        s->fibers[i].context.bottom = stack + page;
        s->fibers[i].context.size = STACK_BYTES - page;
    }
#ifdef KVR_ASAN
    /* The host's stack, which fibers return to. */
    {
        pthread_attr_t attr;
        void *bottom;
        size_t size;

        pthread_getattr_np(pthread_self(), &attr);
        pthread_attr_getstack(&attr, &bottom, &size);
        pthread_attr_destroy(&attr);
        s->host.bottom = bottom;
        s->host.size = size;
    }
#endif
    s->next = streams;
    streams = s;
    *out = s;
    return KVR_OK;
}

void kvr_stream_close(struct kvr_stream **sp)
{
    struct kvr_stream *s = *sp, **link = &streams;

    if (!s)
        return;
    while (*link && *link != s)
        link = &(*link)->next;
    if (*link)
        *link = s->next;
    while (s->regions)
        kvr_device_free(s, s->regions->base);
    if (s->stacks)
        munmap(s->stacks, (size_t)MAX_THREADS * STACK_BYTES);
    free(s->fibers);
    free(s->ready);
    free(s->shared_bytes);
    free(s->shared_cells);
    free(s);
    *sp = NULL;
}

enum kvr_status kvr_stream_sync(struct kvr_stream *s)
{
    if (!s->failed)
        return KVR_OK;
    s->failed = false;
    return kvr_fail(KVR_EINTERNAL, "emulated device: %s", s->error);
}

bool kvr_stream_emulated(void)
{
    return true;
}

void kvr_stream_seed(struct kvr_stream *s, uint64_t seed)
{
    s->seed = seed;
    s->draws = 0;
}

int64_t kvr_stream_launches(const struct kvr_stream *s, const char *kernel)
{
    for (int i = 0; i < s->n_counts; i++)
        if (!strcmp(s->count[i].name, kernel))
            return s->count[i].n;
    return 0;
}

enum kvr_status kvr_device_alloc(struct kvr_stream *s, void **p, size_t n)
{
    struct region *r = (struct region *)calloc(1, sizeof *r);
    unsigned char *bytes = NULL;

    *p = NULL;
    if (r) {
        bytes = (unsigned char *)aligned_alloc(256, (n + 2 * REDZONE + 255) / 256 * 256);
        r->cells = (struct cell *)calloc(n ? n : 1, sizeof *r->cells);
    }
    if (!r || !bytes || !r->cells) {
        free(bytes);
        free(r ? r->cells : NULL);
        free(r);
        return kvr_fail(KVR_ENOMEM, "emulated device: no memory for %zu bytes", n);
    }
    memset(bytes, 0xcb, n + 2 * REDZONE);
    r->base = bytes + REDZONE;
    r->n = n;
    r->name = "device buffer";
    r->next = s->regions;
    s->regions = r;
    *p = r->base;
    return KVR_OK;
}

void kvr_device_free(struct kvr_stream *s, void *p)
{
    struct region **link = &s->regions;

    if (!p)
        return;
    while (*link && (*link)->base != p)
        link = &(*link)->next;
    if (!*link)
        abort(); /* not from kvr_device_alloc */
    struct region *r = *link;
    *link = r->next;
    free(r->base - REDZONE);
    free(r->cells);
    free(r);
}

static enum kvr_status host_range(const char *what, const void *p, size_t n, struct region **out)
{
    struct region *r = find(p);
    const size_t at = r ? (size_t)((const unsigned char *)p - r->base) : 0;

    if (!r || n > r->n - at)
        return kvr_fail(KVR_EINVAL, "emulated device: %s of %zu bytes is outside device memory",
                        what, n);
    *out = r;
    return KVR_OK;
}

enum kvr_status kvr_device_put(struct kvr_stream *s, void *device, const void *host, size_t n)
{
    struct region *r = NULL;

    (void)s;
    if (!n)
        return KVR_OK;
    KVR_TRY(host_range("copy in", device, n, &r));
    memcpy(device, host, n);
    for (size_t i = 0, at = (size_t)((unsigned char *)device - r->base); i < n; i++) {
        r->cells[at + i] = {};
        r->cells[at + i].write.serial = 1;
    }
    return KVR_OK;
}

enum kvr_status kvr_device_get(struct kvr_stream *s, void *host, const void *device, size_t n)
{
    struct region *r = NULL;

    (void)s;
    if (!n)
        return KVR_OK;
    KVR_TRY(host_range("copy out", device, n, &r));
    memcpy(host, device, n);
    return KVR_OK;
}
