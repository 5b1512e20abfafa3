/* emu.cc - kernel launches on the emulated device. The emulator runs one block, or one cluster of
 * blocks, at a time. The threads of a block are fibers, which a seeded random scheduler
 * interleaves. */
#include "harness/device/emu/emu_machine.cuh"

#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace kvr_emu
{

__thread struct coords *here;
__thread struct kvr_stream *streams;
__thread struct kvr_stream *running;

static uint64_t draw(struct kvr_stream *s)
{
    uint64_t z = s->seed + ++s->draws * 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Returns a random number, uniform in [0, n). A multiplication replaces the slower division by n,
 * because every context switch calls this function. */
static uint32_t random_below(struct kvr_stream *s, uint32_t n)
{
    return (uint32_t)((draw(s) >> 32) * n >> 32);
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

void record(struct kvr_stream *s, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vrecord(s, fmt, ap);
    va_end(ap);
}

/* Records an error and never resumes the calling fiber. The abandoned fiber leaks nothing, because
 * kernels own no resources. */
void fail(const char *fmt, ...)
{
    va_list ap;

    if (!here)
        abort(); /* the caller is host code, which must not access device memory */
    va_start(ap, fmt);
    vrecord(running, fmt, ap);
    va_end(ap);
    for (;;)
        leave_for(&self()->context, &running->host, false);
}

static_assert(offsetof(struct fiber, coords) == 0,
              "a thread's coordinates are its fiber's first member");

void wake(struct kvr_stream *s, struct fiber *f)
{
    f->state = RUNS;
    s->ready[s->n_ready++] = f->coords.linear;
}

/* Returns the next context to run: a random runnable fiber, or the host context if no fiber is
 * runnable. The random choice includes the asynchronous copies in flight. If the choice is a copy,
 * the copy completes and the function chooses again. */
static struct context *next_of(struct kvr_stream *s)
{
    unsigned i, next;

    for (;;) {
        if (!(s->n_ready + s->n_coming) || s->failed)
            return &s->host;
        i = random_below(s, s->n_ready + s->n_coming);
        if (i < s->n_ready)
            break;
        complete_transfer(s, i - s->n_ready);
    }
    next = s->ready[i];
    s->ready[i] = s->ready[--s->n_ready];
    here = &s->fibers[next].coords;
    return &s->fibers[next].context;
}

static void fiber_main()
{
    struct kvr_stream *s = running;
    struct fiber *f;

    fiber_arrived();
    s->body(s->arg);
    f = self();
    f->state = LEFT;
    s->warps[f->coords.linear / 32].left |= 1u << f->coords.linear % 32;
    if (s->clocked)
        thread_left(s);
    if (++s->block[f->coords.rank].n_left == s->n_threads && s->clocked && !s->failed)
        block_ended(s);
    leave_for(&f->context, next_of(s), true);
    abort();
}

/* Releases the threads of block `rank` from __syncthreads, after all threads of the block have
 * arrived. */
static void open_barrier(struct kvr_stream *s, unsigned rank)
{
    struct fiber *fibers = s->fibers + (size_t)rank * s->n_threads, *first = fibers;

    for (unsigned i = 0; i < s->n_threads; i++) {
        struct fiber *f = &fibers[i];

        if (first->line == f->line && !strcmp(first->file, f->file))
            continue;
        here = &f->coords;
        record(s, "%s:%d: divergent __syncthreads: thread %u waits at %s:%d", f->file, f->line,
               first->coords.linear, first->file, first->line);
        return;
    }
    if (first->epoch == MAX_EPOCH && !s->clocked) {
        here = &first->coords;
        record(s, "%s:%d: more than %d __syncthreads in a block", first->file, first->line,
               MAX_EPOCH);
        return;
    }
    s->block[rank].n_waiting = 0;
    if (s->clocked)
        meet_all(s, rank);
    for (unsigned i = 0; i < s->n_threads; i++) {
        if (!s->clocked) {
            fibers[i].epoch++;
            fibers[i].warp_epoch = 0;
            restamp(s, &fibers[i]);
        }
        wake(s, &fibers[i]);
    }
}

void wait_as(enum state why, const char *file, int line)
{
    struct fiber *f = self();
    struct context *next;

    f->state = why;
    f->file = file;
    f->line = line;
    if (why == AT_BARRIER && ++running->block[here->rank].n_waiting == running->n_threads)
        open_barrier(running, here->rank);
    next = next_of(running);
    /* The scheduler may select this fiber again: next_of() completes asynchronous copies, and a
     * completed copy may wake this fiber. */
    if (next != &f->context)
        leave_for(&f->context, next, false);
}

/* Returns the lane whose value a shuffle returns to `lane`. */
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

/* Returns the result of a warp operation that returns the same value to all lanes of its mask, such
 * as a ballot or a reduction. */
static uint64_t common_of(const struct warp_book *w, enum warp_kind kind, unsigned mask)
{
    const unsigned first = (unsigned)__builtin_ctz(mask);
    int64_t all = (int64_t)w->value[first];
    unsigned bits = 0;

    for (unsigned l = first; l < 32; l++) {
        const int64_t v = (int64_t)w->value[l];

        if (!(mask >> l & 1u))
            continue;
        if (kind == BALLOT)
            bits |= (unsigned)(v != 0) << l;
        if (kind == REDUCE_ADD && l != first)
            all += v;
        if (kind == REDUCE_MIN)
            all = v < all ? v : all;
        if (kind == REDUCE_MAX)
            all = v > all ? v : all;
    }
    return kind == BALLOT ? bits : (uint64_t)all;
}

static unsigned same_as(const struct warp_book *w, unsigned mask, unsigned lane)
{
    unsigned bits = 0;

    for (unsigned l = 0; l < 32; l++)
        bits |= (unsigned)(w->value[l] == w->value[lane]) << l;
    return bits & mask;
}

static void give_results(struct warp_book *w, enum warp_kind kind, unsigned mask)
{
    const uint64_t common = kind >= BALLOT && kind <= REDUCE_MAX ? common_of(w, kind, mask) : 0;

    for (unsigned left = mask; left; left &= left - 1) {
        const unsigned l = (unsigned)__builtin_ctz(left);

        w->result[l] = kind == MATCH_ANY  ? same_as(w, mask, l)
                       : kind <= SHFL_XOR ? w->value[source_of(kind, l, w->arg[l], w->width[l])]
                                          : common;
    }
}

/* Returns whether all lanes of the mask have arrived at the warp operation that `lane` executes. */
static bool all_came(const struct warp_book *w, unsigned lane)
{
    const unsigned mask = w->mask[lane];

    if (mask & ~w->waiting & ~(1u << lane))
        return false;
    for (unsigned left = mask; left; left &= left - 1) {
        const unsigned l = (unsigned)__builtin_ctz(left);

        if (w->mask[l] != mask || w->kind[l] != w->kind[lane] ||
            (w->kind[l] == TOGETHER && w->fn[l] != w->fn[lane]))
            return false;
    }
    return true;
}

#define LANE_LEFT "%s:%d: warp operation: lane %d of the mask %08x has left the kernel"

uint64_t warp(enum warp_kind kind, unsigned mask, uint64_t value, int arg, int width,
              const char *file, int line)
{
    struct kvr_stream *s = running;
    const unsigned lane = here->linear % 32, first = here->linear - lane;
    const unsigned size = s->n_fibers - first < 32 ? s->n_fibers - first : 32;
    const unsigned exist = size == 32 ? ~0u : (1u << size) - 1u;
    struct fiber *lanes = &s->fibers[first];
    struct warp_book *w = &s->warps[first / 32];

    /* A block whose size is not a multiple of 32 has an incomplete last warp: remove the lanes that
     * do not exist from the mask. */
    mask &= exist;
    if (!(mask >> lane & 1u))
        fail("%s:%d: warp operation: the mask %08x does not name the caller, lane %u", file, line,
             mask, lane);
    if (width < 1 || width > 32 || (width & (width - 1)))
        fail("%s:%d: shuffle: width %d, need a power of two up to 32", file, line, width);
    if (!(mask >> source_of(kind, lane, arg, width) & 1u))
        fail("%s:%d: shuffle: lane %u is read, the mask is %08x", file, line,
             source_of(kind, lane, arg, width), mask);
    if (mask & w->left)
        fail(LANE_LEFT, file, line, __builtin_ctz(mask & w->left), mask);
    w->kind[lane] = kind;
    w->mask[lane] = mask;
    w->value[lane] = value;
    w->arg[lane] = arg;
    w->width[lane] = width;
    if (!all_came(w, lane)) {
        w->waiting |= 1u << lane;
        wait_as(IN_WARP, file, line);
        return w->result[lane];
    }
    /* This lane is the last lane of the mask to arrive. */
    if (kind == TOGETHER) {
        void *brought[32];

        for (unsigned l = 0; l < 32; l++)
            brought[l] = (void *)(uintptr_t)w->value[l];
        w->fn[lane](brought);
    }
    give_results(w, kind, mask);
    if (kind == SYNC && s->clocked)
        meet_lanes(s, first, mask);
    for (unsigned left = mask; left; left &= left - 1) {
        struct fiber *f = &lanes[__builtin_ctz(left)];

        if (kind == SYNC && !s->clocked && mask == (exist & ~w->left)) {
            if (++f->warp_epoch > MAX_WARP_EPOCH)
                fail("%s:%d: more than %d __syncwarp without a barrier", file, line,
                     MAX_WARP_EPOCH);
            restamp(s, f);
        }
        if (f->coords.linear != first + lane)
            wake(s, f);
    }
    w->waiting &= ~mask;
    return w->result[lane];
}

void run_lanes_together(void (*fn)(void *const *lanes), void *mine, const char *file, int line)
{
    const unsigned lane = here->linear % 32, first = here->linear - lane;

    if (running->n_fibers - first < 32)
        fail("%s:%d: needs 32 lanes, the warp has %u", file, line, running->n_fibers - first);
    running->warps[first / 32].fn[lane] = fn;
    warp(TOGETHER, ~0u, (uint64_t)(uintptr_t)mine, 0, 32, file, line);
}

/* Reports a deadlock, in which no thread is runnable. If a thread waits for registers (setmaxnreg),
 * the report names that thread, because its wait may block the other threads. */
static void record_deadlock(struct kvr_stream *s)
{
    for (unsigned i = 0; i < s->n_fibers; i++)
        if (s->fibers[i].state == AT_REGISTERS) {
            here = &s->fibers[i].coords;
            record_stuck(s, &s->fibers[i]);
            return;
        }
    for (unsigned i = 0; i < s->n_fibers; i++) {
        const struct fiber *f = &s->fibers[i];
        const struct warp_book *w = &s->warps[i / 32];
        const unsigned mask = w->mask[i % 32];

        if (f->state == LEFT || (f->state == AT_BARRIER && !s->block[f->coords.rank].n_left))
            /* this thread waits at __syncthreads for threads that are themselves deadlocked; report
             * one of those threads instead */
            continue;
        here = const_cast<struct coords *>(&f->coords);
        if (f->state == AT_BARRIER)
            record(s, "%s:%d: divergent __syncthreads: %u of %u threads have left the kernel",
                   f->file, f->line, s->block[here->rank].n_left, s->n_threads);
        else if (f->state != IN_WARP)
            record_stuck(s, f);
        else if (mask & w->left)
            record(s, LANE_LEFT, f->file, f->line, __builtin_ctz(mask & w->left), mask);
        else
            record(s,
                   "%s:%d: waits in a warp operation for lanes of the mask %08x that do not come",
                   f->file, f->line, mask);
        return;
    }
}

/* Starts the threads of a cluster. The cluster's first block has the index `at`, and the blocks of
 * a cluster are adjacent along x. */
static void start_threads(struct kvr_stream *s, const struct shape *shape, uint3 at)
{
    const dim3 block = shape->block;
    uint3 thread = { 0, 0, 0 };

    s->n_ready = s->n_coming = 0;
    s->clocked = false;
    s->n_threads = block.x * block.y * block.z;
    s->n_blocks = shape->cluster;
    s->n_fibers = s->n_threads * s->n_blocks;
    fiber_stacks(s, s->n_fibers);
    for (unsigned i = 0; i < (s->n_fibers + 31) / 32; i++)
        s->warps[i].left = s->warps[i].waiting = 0;
    for (unsigned i = 0; i < s->n_blocks; i++) {
        struct block *b = &s->block[i];

        b->n_waiting = b->n_left = 0;
        b->n_arrays = 0;
        b->used = b->static_used = 0;
        b->phased = b->phased_end = 0;
        add_shared(s, i, NULL, "dynamic", shape->shared_bytes);
    }
    for (unsigned i = 0; i < s->n_fibers; i++) {
        struct fiber *f = &s->fibers[i];

        f->coords.thread = thread;
        f->coords.block = at;
        f->coords.rank = i / s->n_threads;
        f->coords.block.x += f->coords.rank;
        f->coords.n_ranks = s->n_blocks;
        f->coords.block_dim = block;
        f->coords.grid_dim = shape->grid;
        f->coords.linear = i;
        f->epoch = f->warp_epoch = f->group = 0;
        f->n_copies = 0;
        restamp(s, f);
        fiber_prepare(&f->context, fiber_main, f->state == LEFT);
        wake(s, f);
        if (++thread.x == block.x) {
            thread.x = 0;
            if (++thread.y == block.y) {
                thread.y = 0;
                thread.z = (thread.z + 1) % block.z;
            }
        }
    }
    if (s->n_blocks > 1)
        clock_cluster(s);
}

static void run_threads(struct kvr_stream *s)
{
    unsigned n_left;

    do {
        struct context *next = next_of(s);

        if (next == &s->host)
            record_deadlock(s);
        else
            leave_for(&s->host, next, false);
        here = NULL;
        n_left = 0;
        for (unsigned i = 0; i < s->n_blocks; i++)
            n_left += s->block[i].n_left;
    } while (n_left < s->n_fibers && !s->failed);
}

bool asked_for(const struct kvr_stream *s, const void *entry, size_t bytes)
{
    for (int i = 0; i < s->n_asked; i++)
        if (s->asked[i].entry == entry)
            return bytes <= s->asked[i].bytes;
    return false;
}

bool refused(struct kvr_stream *s, const struct shape *shape)
{
    const dim3 grid = shape->grid, block = shape->block;
    const size_t shared = shape->shared_bytes;
    const char *name = shape->name;
    const uint64_t threads = (uint64_t)block.x * block.y * block.z;

    if (!threads || threads > MAX_THREADS || block.z > 64)
        record(s, "%s: a block of %u x %u x %u threads", name, block.x, block.y, block.z);
    else if (!grid.x || !grid.y || !grid.z || grid.x > 0x7fffffffu || grid.y > 65535 ||
             grid.z > 65535)
        record(s, "%s: a grid of %u x %u x %u blocks", name, grid.x, grid.y, grid.z);
    else if (shared > s->block_shared)
        record(s, "%s: %zu bytes of shared memory, at most %zu", name, shared, s->block_shared);
    else if (shared > DEFAULT_SHARED && !asked_for(s, shape->entry, shared))
        record(s, "%s: %zu bytes of dynamic shared memory, more than %d have to be asked for", name,
               shared, DEFAULT_SHARED);
    else if (!shape->cluster || shape->cluster > MAX_CLUSTER)
        record(s, "%s: a cluster of %u blocks, emulated are 1 to %d", name, shape->cluster,
               MAX_CLUSTER);
    else if (grid.x % shape->cluster)
        record(s, "%s: a grid of %u blocks along x in clusters of %u", name, grid.x,
               shape->cluster);
    else if (shape->cluster > 1 && (threads % 32 || threads * shape->cluster > MAX_CLOCKED))
        record(s,
               "%s: a cluster of %u blocks of %llu threads, emulated are whole warps and %d in all",
               name, shape->cluster, (unsigned long long)threads, MAX_CLOCKED);
    return s->failed;
}

void check_apart(struct kvr_stream *s, const char *kernel, const struct argument *a, int n)
{
    for (int j = 1; j < n; j++)
        for (int i = 0; i < j; i++)
            if (a[i].at && a[i].at == a[j].at && (a[i].written || a[j].written))
                record(s, "%s: arguments %d and %d are the same address, and __restrict__", kernel,
                       i + 1, j + 1);
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

void run(struct kvr_stream *s, const struct shape *shape, void (*body)(void *), void *arg)
{
    const dim3 grid = shape->grid;
    /* number of clusters in the grid, or number of blocks if the kernel has no clusters */
    uint64_t blocks;
    uint32_t *order;

    if (s->failed || refused(s, shape))
        return;
    blocks = (uint64_t)grid.x * grid.y * grid.z / shape->cluster;
    order = (uint32_t *)malloc(blocks * sizeof *order);
    if (!order) {
        record(s, "%s: the host is out of memory while allocating the order of %llu blocks",
               shape->name, (unsigned long long)blocks);
        return;
    }
    if (s->serial + blocks > MAX_SERIAL)
        renumber(s);
    if (s->serial + blocks > MAX_SERIAL)
        abort();
    for (uint64_t i = 0; i < blocks; i++) {
        const uint32_t j = random_below(s, (uint32_t)i + 1);

        order[i] = order[j];
        order[j] = (uint32_t)i;
    }
    running = s;
    s->kernel = shape->name;
    s->entry = shape->entry;
    s->body = body;
    s->arg = arg;
    s->launch_serial = s->serial + 1;
    for (uint64_t i = 0; i < blocks && !s->failed; i++) {
        const uint32_t x = grid.x / shape->cluster, b = order[i];

        s->serial++;
        start_threads(s, shape, { b % x * shape->cluster, b / x % grid.y, b / x / grid.y });
        run_threads(s);
    }
    free(order);
    s->kernel = NULL;
    running = NULL;
    if (!s->failed)
        count_launch(s, shape->name);
    if (!s->failed && s->traffic)
        account_launch(s, shape->name);
}

} // namespace kvr_emu

void __syncthreads(const char *file, int line)
{
    wait_as(AT_BARRIER, file, line);
}
