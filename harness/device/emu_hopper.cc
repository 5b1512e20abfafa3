/* emu_hopper.cc - sm_90 on the emulated device: mbarriers, bulk copies (TMA), wgmma, setmaxnreg, clusters; see
 * hopper.cuh.
 *
 * A block that uses them has vector clocks. A thread's clock advances whenever others may synchronize with it;
 * its view holds, for every other clock, up to which time the thread is ordered after it. A barrier merges the
 * views of arriving threads and publishes them to waiting ones. Accesses that no view orders are a race.
 *
 * Asynchronous operations have clocks of their own. A bulk copy happens in the phase of the mbarrier that its
 * bytes count for; a product happens on its warp's tensor core, whose reads end when a thread waits for the
 * product. A second view, `fenced`, holds which generic writes they see: what was visible at the last
 * fence.proxy.async.
 *
 * Copies complete whenever the seed decides; products are computed when they are waited for.
 *
 * The blocks of a cluster share one set of clocks. Remote arrivals and stores (st.async) merge into a view of
 * their own, which waits with cluster scope receive. A remote store happens in its mbarrier's phase like a copy, but
 * has a separate clock: products see it only behind a fence. */
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
    STORED = PHASED + MAX_PHASED, /* remote stores, by mbarrier */
    CORES = STORED + MAX_PHASED,
    WHO = CORES + MAX_CLOCKED / 32, /* number of clocks */
    MAX_NAMED = 16,
    MAX_COMING = 64,
    MAX_STORES = 8192, /* remote stores in flight */
    STORE_BYTES = 16,
    MAX_PRODUCTS = 64,     /* products in flight per warp group */
    MOST_ARRIVE = 1 << 20, /* counts of an mbarrier are below this */
    FIELD = (1 << 14) - 1, /* of a descriptor field, in units of 16 bytes */
    MOST_OFFSET = FIELD << 4,
    MAX_SETMAXNREG = 8, /* of a warp group */
    N = 128,            /* most columns of a product */
    K = 32,             /* bytes per row of a product: 32 bytes or 16 BF16 elements */
    ROWS = 64,
};
static_assert(WHO <= 1024, "a stamp has 10 bits for who");

static const uint32_t MAX_CLOCK = (1u << 24) - 1;

struct view {
    uint32_t seen[WHO], fenced[WHO];
};

struct phased {
    struct region *in;
    uintptr_t at;
    stamp init;
    uint32_t phase, copied, waited; /* current phase; last one with copies, last one waited for */
    uint32_t stored, far_waited;    /* the same for remote stores */
    unsigned count, lacking;        /* expected arrivals, pending arrivals */
    int64_t bytes;                  /* tx-count */
    struct view open, done;         /* merged in this phase; in all completed ones */
    struct view far, far_done;      /* the same for arrivals of other blocks */
};

struct named {
    int expected, came;
    bool has[MAX_CLOCKED]; /* threads that have arrived since it last opened */
    struct view open;
};

struct coming {
    struct region *to;
    uintptr_t at;
    struct kvr_tensor_map map; /* of a box, */
    struct region *from;
    uintptr_t source; /* or an address in shared memory */
    size_t n;         /* with n bytes; 0: a box */
    int c, h;
    int64_t t;
    int barrier;
};

struct store {
    struct region *to;
    uintptr_t at;
    unsigned char bytes[STORE_BYTES];
    int barrier;
};

/* The barrier of the cluster. */
struct meeting {
    unsigned came;
    uint32_t phase;
    struct view open, done;
};

/* A decoded matrix descriptor. */
struct matrix {
    struct region *in; /* the array that holds its start address; NULL: none does */
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
    bool came;      /* arrived at the cluster barrier without waiting yet */
    uint32_t phase; /* of the cluster barrier at its arrival */
    int n_products, keeps;
    unsigned group;
    struct product product[MAX_PRODUCTS];
};

/* setmaxnreg of a warp: registers per thread, requested ones, and the instructions executed with their times. */
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
    uint32_t reached[MAX_CLUSTER][MAX_CLOCKED]; /* time of a thread's last access to a block, + 1 */
    struct member member[MAX_CLOCKED];
    uint32_t core[MAX_CLOCKED / 32]; /* clocks of the tensor cores */
    struct warp_registers registers[MAX_CLOCKED / 32];
    unsigned in_group[MAX_CLOCKED / KVR_WARP_GROUP]; /* threads waiting in wgmma.wait_group */
    unsigned char
        swizzle[MAX_CLUSTER * SHARED_BYTES / 16]; /* swizzle of the last copy of each 16 bytes */
    float a[ROWS][K], b[K][N], sums[ROWS][N];     /* the product being computed */
    int32_t whole_a[ROWS][K], whole_b[K][N], whole_sums[ROWS][N];
};

void hopper_close(struct kvr_stream *s)
{
    free(s->hopper);
    s->hopper = NULL;
}

/* ---- clocks and views ---------------------------------------------------------------------- */

static uint32_t clock_of(stamp t)
{
    return (uint32_t)(t >> 12) & MAX_CLOCK;
}

static struct member *member_of(struct kvr_stream *s, const struct fiber *f)
{
    return &s->hopper->member[f->place.linear];
}

static void join_range(uint32_t *to, const uint32_t *from, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        to[i] = from[i] > to[i] ? from[i] : to[i];
}

static void join(const struct kvr_stream *s, struct view *to, const struct view *from)
{
    const unsigned n_phased = (unsigned)s->hopper->n_phased;
    const unsigned n[4] = { s->n_fibers, n_phased, s->n_blocks > 1 ? n_phased : 0,
                            (s->n_fibers + 31) / 32 };
    static const unsigned at[4] = { 0, PHASED, STORED, CORES };

    for (int i = 0; i < 4; i++) {
        join_range(to->seen + at[i], from->seen + at[i], n[i]);
        join_range(to->fenced + at[i], from->fenced + at[i], n[i]);
    }
}

/* Advance the clock of f after a synchronization. */
static void tick(struct kvr_stream *s, struct fiber *f)
{
    uint32_t *mine = &member_of(s, f)->view.seen[f->place.linear];

    if (*mine == MAX_CLOCK)
        fail("more than %u synchronizations of a thread", MAX_CLOCK);
    f->epoch = *mine >> 11;
    f->warp_epoch = *mine & MAX_WARP_EPOCH;
    ++*mine;
    restamp(s, f);
}

/* Start vector clocks for the running block. The views continue the epochs that its barriers have reached: a
 * thread is ordered after every earlier epoch and after earlier warp epochs of its own warp. */
static bool begin_clocks(struct kvr_stream *s)
{
    struct hopper *x = s->hopper;

    if (!x) {
        x = (struct hopper *)calloc(1, sizeof *x);
        if (!x)
            return false;
        s->hopper = x;
    }
    s->clocked = true;
    x->n_phased = 0;
    x->n_copies = x->n_stores = 0;
    x->meeting = {};
    memset(x->reached, 0, sizeof x->reached);
    memset(x->core, 0, sizeof x->core);
    memset(x->registers, 0, sizeof x->registers);
    for (unsigned i = 0; i < (s->n_fibers + 31) / 32; i++)
        x->registers[i].now = kvr_launch_registers((int)s->n_threads);
    memset(x->in_group, 0, sizeof x->in_group);
    for (unsigned i = 0; i < s->n_blocks * MAX_NAMED; i++)
        x->named[i] = {};
    for (unsigned i = 0; i < s->n_fibers; i++) {
        struct fiber *f = &s->fibers[i];
        struct member *m = &x->member[i];
        const uint32_t now = f->epoch << 11 | f->warp_epoch;

        m->view = {};
        m->n_products = 0;
        m->group = 0;
        m->came = false;
        for (unsigned j = 0; j < s->n_fibers; j++)
            m->view.seen[j] = j / 32 == i / 32 ? now : f->epoch << 11;
        m->view.seen[i] = now + 1;
    }
    return true;
}

static struct hopper *clock_block()
{
    struct kvr_stream *s = running;

    if (s->clocked)
        return s->hopper;
    if (s->n_threads > MAX_CLOCKED)
        fail("sm_90 barriers in a block of %u threads, emulated are at most %d", s->n_threads,
             MAX_CLOCKED);
    if (!begin_clocks(s))
        fail("the host has no memory for barriers of sm_90");
    return s->hopper;
}

/* Blocks of a cluster share a serial number; clocks tell their threads apart. */
void clock_cluster(struct kvr_stream *s)
{
    if (!begin_clocks(s))
        record(s, "%s: the host has no memory for clusters", s->kernel);
}

bool unseen(const struct kvr_stream *s, stamp then)
{
    const unsigned by = thread_of(then), me = here->linear;

    return by != me && clock_of(then) >= s->hopper->member[me].view.seen[by];
}

/* An mbarrier orders another block after reads, and after writes to its own memory; writes elsewhere are ordered by
 * the cluster barrier only. */
bool unmet(const struct kvr_stream *s, stamp then)
{
    const unsigned by = thread_of(then);

    return by < PHASED && by / s->n_threads != here->rank &&
           clock_of(then) >= s->hopper->meeting.done.seen[by];
}

const char *who(stamp then, char *text, size_t size)
{
    const unsigned by = thread_of(then);

    if (running->clocked && by >= CORES)
        snprintf(text, size, "a product of warp %u", by - CORES);
    else if (running->clocked && by >= STORED)
        snprintf(text, size, "a store of another block");
    else if (running->clocked && by >= PHASED)
        snprintf(text, size, "an asynchronous copy");
    else if (running->n_blocks > 1)
        snprintf(text, size, "thread %u of block %u of the cluster", by % running->n_threads,
                 by / running->n_threads);
    else
        snprintf(text, size, "thread %u of the block", by);
    return text;
}

void meet_all(struct kvr_stream *s, unsigned rank)
{
    const unsigned first = rank * s->n_threads, end = first + s->n_threads;
    struct view all = {};

    for (unsigned i = first; i < end; i++)
        join(s, &all, &s->hopper->member[i].view);
    for (unsigned i = first; i < end; i++) {
        join(s, &s->hopper->member[i].view, &all);
        tick(s, &s->fibers[i]);
    }
}

void meet_lanes(struct kvr_stream *s, unsigned first, unsigned mask)
{
    struct view all = {};

    for (unsigned left = mask; left; left &= left - 1)
        join(s, &all, &s->hopper->member[first + (unsigned)__builtin_ctz(left)].view);
    for (unsigned left = mask; left; left &= left - 1) {
        const unsigned i = first + (unsigned)__builtin_ctz(left);

        join(s, &s->hopper->member[i].view, &all);
        tick(s, &s->fibers[i]);
    }
}

void fence_async()
{
    struct view *v = &clock_block()->member[here->linear].view;

    join_range(v->fenced, v->seen, WHO);
    tick(running, self());
}

/* ---- barriers ------------------------------------------------------------------------------ */

static void wake_those(struct kvr_stream *s, enum state why, int on)
{
    for (unsigned i = 0; i < s->n_fibers; i++)
        if (s->fibers[i].state == why && s->hopper->member[i].on == on)
            wake(s, &s->fibers[i]);
}

void barrier_init(struct region *r, uintptr_t at, unsigned count)
{
    struct hopper *x = clock_block();
    struct cell *cell;
    int i = 0;

    if (!count || count >= MOST_ARRIVE)
        fail("mbarrier: %u arrivals, need 1 to %d", count, MOST_ARRIVE - 1);
    while (i < x->n_phased && x->phased[i].at != at)
        i++;
    if (i < x->n_phased && cells_of(r, at - (uintptr_t)r->base, 8, &cell) &&
        cell->write == x->phased[i].init)
        fail("mbarrier at byte %zu of '%s': initialized again while in use",
             at - (uintptr_t)r->base, r->name);
    touch_write(r, at, 8, 8);
    if (!r->shared)
        fail("mbarrier in '%s', which is not shared memory", r->name);
    if (i == MAX_PHASED)
        fail("more than %d mbarriers of a block", MAX_PHASED);
    x->n_phased += i == x->n_phased;
    cells_of(r, at - (uintptr_t)r->base, 8, &cell);
    memset(&x->phased[i], 0, offsetof(struct phased, open));
    x->phased[i].in = r;
    x->phased[i].at = at;
    x->phased[i].init = cell->write;
    x->phased[i].count = x->phased[i].lacking = count;
    x->phased[i].open = x->phased[i].done = x->phased[i].far = x->phased[i].far_done = {};
}

/* The mbarrier at this address, valid for the running thread. */
static struct phased *phased_at(struct region *r, uintptr_t at)
{
    struct hopper *x = clock_block();
    struct phased *b = x->phased, *end = x->phased + x->n_phased;
    struct cell *cell;
    char text[64];

    while (b < end && b->at != at)
        b++;
    if (!r || !r->shared || b == end)
        fail("mbarrier at byte %td of '%s': not initialized",
             (ptrdiff_t)(at - (uintptr_t)(r ? r->base : 0)), r ? r->name : "no memory");
    cells_of(r, at - (uintptr_t)r->base, 8, &cell);
    if (cell[0].write != b->init)
        fail("mbarrier at byte %zu of '%s': overwritten by %s", at - (uintptr_t)r->base, r->name,
             who(cell[0].write, text, sizeof text));
    if (unseen(running, b->init))
        fail("mbarrier at byte %zu of '%s': used, initialized by %s without a barrier between",
             at - (uintptr_t)r->base, r->name, who(b->init, text, sizeof text));
    return b;
}

/* Complete the phase if nothing is pending. */
static void end_phase(struct kvr_stream *s, struct phased *b)
{
    const int i = (int)(b - s->hopper->phased);

    if (b->lacking || b->bytes)
        return;
    join(s, &b->done, &b->open);
    b->open = {};
    b->done.seen[PHASED + i] = ++b->phase;
    if (s->n_blocks > 1) {
        join(s, &b->far_done, &b->far);
        b->far = {};
        b->far_done.seen[STORED + i] = b->phase;
    }
    b->lacking = b->count;
    wake_those(s, AT_PHASE, i);
}

/* An access of the running thread to block `rank`, which must be known to have started. `until`: the block must
 * not exit before it is ordered after the access. */
static void reach(unsigned rank, bool until, const char *how)
{
    struct kvr_stream *s = running;
    struct hopper *x = clock_block();
    const struct view *mine = &x->member[here->linear].view;
    unsigned j = rank * s->n_threads;
    const unsigned end = j + s->n_threads;

    if (rank == here->rank)
        return;
    while (j < end && !mine->seen[j])
        j++;
    if (j == end)
        fail("%s in block %u of the cluster without a cluster barrier after its start", how, rank);
    if (s->block[rank].n_left == s->n_threads)
        fail("%s in block %u of the cluster, which has exited", how, rank);
    if (until)
        x->reached[rank][here->linear] = mine->seen[here->linear];
}

/* `gives`: waiting threads are ordered after the arriving one. */
static void arrive(struct region *r, uintptr_t at, unsigned bytes, bool gives)
{
    struct phased *b = phased_at(r, at);

    if (!b->lacking)
        fail("mbarrier at byte %zu of '%s': more than %u arrivals in a phase",
             at - (uintptr_t)r->base, r->name, b->count);
    b->bytes += bytes;
    if (b->bytes >= MOST_ARRIVE)
        fail("mbarrier at byte %zu of '%s': %lld bytes to wait for, at most %d",
             at - (uintptr_t)r->base, r->name, (long long)b->bytes, MOST_ARRIVE - 1);
    if (gives)
        join(running, r->rank == here->rank ? &b->open : &b->far,
             &member_of(running, self())->view);
    tick(running, self());
    b->lacking--;
    end_phase(running, b);
}

void barrier_arrive(struct region *r, uintptr_t at, unsigned bytes)
{
    arrive(r, at, bytes, true);
}

void remote_arrive(struct region *r, uintptr_t at)
{
    reach(r->rank, true, "an arrival");
    arrive(r, at, 0, true);
}

void remote_expect(struct region *r, uintptr_t at, unsigned bytes)
{
    reach(r->rank, false, "an arrival");
    arrive(r, at, bytes, false);
}

void barrier_wait(struct region *r, uintptr_t at, unsigned parity, bool of_cluster,
                  const char *file, int line)
{
    struct phased *b = phased_at(r, at);
    struct member *m = member_of(running, self());

    m->on = (int)(b - running->hopper->phased);
    while ((b->phase & 1) == parity)
        wait_as(AT_PHASE, file, line);
    join(running, &m->view, &b->done);
    if (!of_cluster)
        b->waited = b->phase;
    else if (running->n_blocks > 1)
        join(running, &m->view, &b->far_done);
    if (of_cluster)
        b->waited = b->far_waited = b->phase;
}

/* ---- clusters ------------------------------------------------------------------------------- */

/* Exited threads count as arrived. */
static void end_meeting(struct kvr_stream *s)
{
    struct meeting *c = &s->hopper->meeting;
    unsigned n_left = 0;

    for (unsigned i = 0; c->came && i < s->n_fibers; i++)
        n_left += s->fibers[i].state == LEFT && !s->hopper->member[i].came;
    if (!c->came || c->came + n_left < s->n_fibers)
        return;
    for (unsigned i = 0; i < s->n_fibers; i++)
        if (s->fibers[i].state == LEFT)
            s->hopper->member[i].came = false;
    join(s, &c->done, &c->open);
    c->open = {};
    c->came = 0;
    c->phase++;
    wake_those(s, AT_CLUSTER, 0);
}

void cluster_arrive(const char *file, int line)
{
    struct meeting *c = &clock_block()->meeting;
    struct member *m = member_of(running, self());

    if (m->came)
        fail("%s:%d: the thread arrives at the cluster barrier twice without waiting", file, line);
    m->came = true;
    m->phase = c->phase;
    c->came++;
    join(running, &c->open, &m->view);
    tick(running, self());
    end_meeting(running);
}

void cluster_wait(const char *file, int line)
{
    struct meeting *c = &clock_block()->meeting;
    struct member *m = member_of(running, self());

    if (!m->came)
        fail("%s:%d: waits at the cluster barrier without having arrived", file, line);
    m->on = 0;
    while (c->phase == m->phase)
        wait_as(AT_CLUSTER, file, line);
    m->came = false;
    join(running, &m->view, &c->done);
}

void thread_left(struct kvr_stream *s)
{
    end_meeting(s);
}

void *remote_read(struct region *r, uintptr_t at, size_t n)
{
    struct cell *cell;
    size_t n_cells;
    char text[64];

    reach(r->rank, true, "a load");
    touch_read(r, at, n, n);
    n_cells = cells_of(r, at - (uintptr_t)r->base, n, &cell);
    for (size_t k = 0; k < n_cells; k++)
        if (unmet(running, cell[k].write))
            fail("shared memory '%s', byte %zu: read, written by %s without a cluster barrier "
                 "between",
                 r->name, at - (uintptr_t)r->base, who(cell[k].write, text, sizeof text));
    return (void *)at;
}

/* Completes later, with complete_tx on the mbarrier. */
void remote_store(struct region *r, uintptr_t at, const void *bytes, struct region *barrier,
                  uintptr_t barrier_at)
{
    struct hopper *x = clock_block();
    struct store *put = &x->store[x->n_stores];
    struct phased *b;
    struct cell *cell;
    size_t n_cells;

    reach(r->rank, false, "a store");
    if (barrier->rank != r->rank)
        fail("a store to block %u of the cluster signals an mbarrier of block %u", r->rank,
             barrier->rank);
    b = phased_at(barrier, barrier_at);
    if (x->n_stores == MAX_STORES)
        fail("more than %d remote stores in flight", MAX_STORES);
    touch_write(r, at, STORE_BYTES, STORE_BYTES);
    n_cells = cells_of(r, at - (uintptr_t)r->base, STORE_BYTES, &cell);
    for (size_t k = 0; k < n_cells; k++)
        cell[k].write |= COMING;
    b->stored = b->phase + 1;
    *put = { r, at, {}, (int)(b - x->phased) };
    memcpy(put->bytes, bytes, STORE_BYTES);
    x->n_stores++;
    running->n_coming++;
}

static void store_arrives(struct kvr_stream *s, unsigned i)
{
    struct hopper *x = s->hopper;
    const struct store put = x->store[i];
    struct phased *b = &x->phased[put.barrier];
    const stamp now =
        (stamp)s->serial << 36 | (stamp)b->phase << 12 | (stamp)(STORED + put.barrier) << 2;
    struct cell *cell;
    const size_t n_cells = cells_of(put.to, put.at - (uintptr_t)put.to->base, STORE_BYTES, &cell);

    x->store[i] = x->store[--x->n_stores];
    for (size_t k = 0; k < n_cells; k++)
        cell[k].write = now;
    memcpy((void *)put.at, put.bytes, STORE_BYTES);
    b->bytes -= STORE_BYTES;
    end_phase(s, b);
}

void named_barrier(int id, int n_threads, bool waits, const char *file, int line)
{
    struct hopper *x = clock_block();
    struct kvr_stream *s = running;
    struct member *m = member_of(s, self());
    struct named *b;

    if (id < 1 || id >= MAX_NAMED)
        fail("%s:%d: named barrier %d, there are 1 to %d", file, line, id, MAX_NAMED - 1);
    b = &x->named[here->rank * MAX_NAMED + (unsigned)id];
    if (n_threads < 32 || n_threads % 32 || (unsigned)n_threads > s->n_threads)
        fail("%s:%d: named barrier %d of %d threads, need a multiple of 32 up to %u", file, line,
             id, n_threads, s->n_threads);
    if (b->came && b->expected != n_threads)
        fail("%s:%d: named barrier %d of %d threads, of %d for others", file, line, id, n_threads,
             b->expected);
    if (b->has[here->linear])
        fail("%s:%d: named barrier %d: the thread arrives twice in one phase", file, line, id);
    b->expected = n_threads;
    b->has[here->linear] = true;
    b->came++;
    join(s, &b->open, &m->view);
    tick(s, self());
    m->on = (int)(b - x->named);
    if (b->came < n_threads) {
        if (waits)
            wait_as(AT_NAMED, file, line);
        return;
    }
    /* The hardware counts whole warps. */
    for (unsigned i = 0; i < s->n_fibers; i++)
        if (b->has[i] != b->has[i / 32 * 32])
            fail("%s:%d: named barrier %d: thread %u arrives without all lanes of its warp", file,
                 line, id, b->has[i] ? i : i / 32 * 32);
    for (unsigned i = 0; i < s->n_fibers; i++)
        if (s->fibers[i].state == AT_NAMED && x->member[i].on == m->on)
            join(s, &x->member[i].view, &b->open);
    if (waits)
        join(s, &m->view, &b->open);
    *b = {};
    wake_those(s, AT_NAMED, m->on);
}

/* ---- registers ------------------------------------------------------------------------------ */

static unsigned warps_of_block(const struct kvr_stream *s)
{
    return (s->n_threads + 31) / 32;
}

/* Registers allocated by the launch and held by warps: per thread, times warps. */
static int pool_of(const struct kvr_stream *s)
{
    return kvr_launch_registers((int)s->n_threads) * (int)warps_of_block(s);
}

static int taken_of(const struct kvr_stream *s, unsigned rank)
{
    const unsigned n = warps_of_block(s);
    int sum = 0;

    for (unsigned w = rank * n; w < (rank + 1) * n; w++)
        sum += s->hopper->registers[w].now;
    return sum;
}

static void record_registers(struct kvr_stream *s, const struct fiber *f)
{
    const struct warp_registers *r = &s->hopper->registers[f->place.linear / 32];

    record(s,
           "setmaxnreg.inc to %d waits forever: the launch allocated %d registers (%d x %u "
           "threads), warps hold %d; a warp with %d per thread lacks %d",
           r->wants, 32 * pool_of(s), kvr_launch_registers((int)s->n_threads), s->n_threads,
           32 * taken_of(s, f->place.rank), r->now,
           32 * (r->wants - r->now - pool_of(s) + taken_of(s, f->place.rank)));
}

/* All warps of a warp group execute the same k-th setmaxnreg and synchronize before the next one. */
static void check_group(struct kvr_stream *s, struct warp_registers *mine, int set)
{
    struct hopper *x = s->hopper;
    const unsigned n = warps_of_block(s), first = here->rank * n, warp = here->linear / 32;
    const unsigned group = first + (warp - first) / 4 * 4, end = first + n;

    if (mine->n_set == MAX_SETMAXNREG)
        fail("more than %d setmaxnreg per warp are not emulated", MAX_SETMAXNREG);
    for (unsigned w = group; w < group + 4 && w < end; w++) {
        const struct warp_registers *r = &x->registers[w];

        if (r->n_set > mine->n_set && r->set[mine->n_set] != set)
            fail("setmaxnreg: warp %u has %s to %d, another of its warp group %s to %d",
                 warp - first, set > 0 ? "inc" : "dec", abs(set),
                 r->set[mine->n_set] > 0 ? "inc" : "dec", abs(r->set[mine->n_set]));
        if (mine->n_set && w != warp &&
            (r->n_set < mine->n_set ||
             x->member[here->linear].view.seen[32 * w] <= r->at[mine->n_set - 1]))
            fail("setmaxnreg: warp %u executes another one before its warp group has synchronized",
                 warp - first);
    }
    mine->set[mine->n_set] = set;
    mine->at[mine->n_set++] = x->member[here->linear].view.seen[here->linear];
    tick(s, self());
}

void set_registers(int n, bool more)
{
    struct hopper *x = clock_block();
    struct kvr_stream *s = running;
    struct warp_registers *mine = &x->registers[here->linear / 32];
    const unsigned lanes =
        (unsigned)warp(MATCH_ANY, ~0u, (uint64_t)n << 1 | more, 0, 32, __FILE__, __LINE__);

    if (lanes != (unsigned)warp(BALLOT, ~0u, 1, 0, 32, __FILE__, __LINE__))
        fail("setmaxnreg: the lanes of a warp execute different ones");
    if (here->linear % 32 == 0) {
        if (more ? n < mine->now : n > mine->now)
            fail("setmaxnreg.%s: to %d registers, a thread has %d", more ? "inc" : "dec", n,
                 mine->now);
        check_group(s, mine, more ? n : -n);
        mine->wants = n;
        member_of(s, self())->on = (int)here->rank;
        while (taken_of(s, here->rank) + n - mine->now > pool_of(s))
            wait_as(AT_REGISTERS, "", 0);
        mine->now = n;
        if (!more)
            wake_those(s, AT_REGISTERS, (int)here->rank);
    }
    warp(BALLOT, ~0u, 1, 0, 32, __FILE__, __LINE__);
}

/* All warps of a warp group execute the same setmaxnreg. */
static void check_setmaxnreg(struct kvr_stream *s, unsigned rank)
{
    const unsigned n = warps_of_block(s), first = rank * n;

    for (unsigned w = first; w < first + n; w++) {
        const int of_group = s->hopper->registers[first + (w - first) / 4 * 4].n_set;

        if (s->hopper->registers[w].n_set != of_group)
            record(s, "setmaxnreg: warp %u has executed %d, the first of its warp group %d",
                   w - first, s->hopper->registers[w].n_set, of_group);
    }
}

/* ---- threads that wait, blocks that end ------------------------------------------------------- */

void record_stuck(struct kvr_stream *s, const struct fiber *f)
{
    const int on = member_of(s, f)->on;
    const struct phased *b = s->hopper->phased + (f->state == AT_PHASE ? on : 0);

    if (f->state == AT_NAMED)
        record(s, "%s:%d: waits at named barrier %d, where %d of %d threads have arrived", f->file,
               f->line, on % MAX_NAMED, s->hopper->named[on].came, s->hopper->named[on].expected);
    else if (f->state == AT_REGISTERS)
        record_registers(s, f);
    else if (f->state == AT_CLUSTER)
        record(s, "%s:%d: waits at the cluster barrier, where %u of %u threads have arrived",
               f->file, f->line, s->hopper->meeting.came, s->n_fibers);
    else if (f->state == AT_PHASE)
        record(s,
               "%s:%d: waits for phase %u of the mbarrier at byte %zu of '%s', which lacks %u of "
               "%u arrivals and %lld bytes",
               f->file, f->line, b->phase, b->at - (uintptr_t)b->in->base, b->in->name, b->lacking,
               b->count, (long long)b->bytes);
    else
        record(s,
               "waits for products (wgmma), where %u of %d threads of its warp group have arrived",
               s->hopper->in_group[f->place.linear / KVR_WARP_GROUP], KVR_WARP_GROUP);
}

/* Some thread of the block must be ordered after every remote access to it. */
static void check_reached(struct kvr_stream *s, unsigned rank)
{
    struct hopper *x = s->hopper;
    const unsigned first = rank * s->n_threads;
    struct view all = {};
    char text[64];

    for (unsigned i = first; i < first + s->n_threads; i++)
        join(s, &all, &x->member[i].view);
    for (unsigned i = 0; i < s->n_fibers; i++)
        if (x->reached[rank][i] > all.seen[i])
            record(s,
                   "the block has exited without being ordered after the last remote access by %s",
                   who((stamp)i << 2, text, sizeof text));
}

void block_ended(struct kvr_stream *s)
{
    const unsigned rank = here->rank, first = rank * s->n_threads;

    for (int i = 0; i < s->hopper->n_phased; i++) {
        const struct phased *b = &s->hopper->phased[i];

        if (b->in->rank != rank)
            continue;
        if (b->copied > b->waited)
            record(s, "the block has exited without a wait for an asynchronous copy to it");
        if (b->stored > b->far_waited)
            record(s, "the block has exited without a wait for remote stores to it");
    }
    if (s->n_blocks > 1)
        check_reached(s, rank);
    check_setmaxnreg(s, rank);
    for (unsigned i = first; i < first + s->n_threads; i++)
        if (s->hopper->member[i].n_products)
            record(s, "thread %u has exited without a wait for its products (wgmma)", i - first);
}

/* ---- bulk copies --------------------------------------------------------------------------- */

static uintptr_t swizzled(uintptr_t at)
{
    return at ^ (at >> 7 & 7) << 4;
}

/* The driver's rules: 1 to 2^32 of each dimension, strides in multiples of 16 below 2^40, boxes of 1 to 256, an
 * inner dimension of a box in multiples of 16 and within the swizzle's span. Element strides are 1. */
bool map_is_taken(const struct kvr_tensor_map *m)
{
    const int64_t most = (int64_t)1 << 32, far = (int64_t)1 << 40, span = 128;
    const int64_t strides[2] = { (int64_t)m->head_dim * 2, (int64_t)m->n_heads * m->head_dim * 2 };
    const int64_t inner = KVR_TILE_COLUMNS * (int64_t)sizeof(kvr_bf16);

    if ((uintptr_t)m->rows % 16 || m->head_dim < 1 || m->n_heads < 1 || m->n_tok < 1 ||
        m->n_tok > most || m->box_tok < 1 || m->box_tok > 256 || inner % 16 ||
        (m->swizzle == KVR_SWIZZLE_128 && inner > span))
        return false;
    for (int i = 0; i < 2; i++)
        if (strides[i] % 16 || strides[i] >= far)
            return false;
    return true;
}

static size_t tile_bytes(const struct kvr_tensor_map *m)
{
    return (size_t)m->box_tok * KVR_TILE_COLUMNS * sizeof(kvr_bf16);
}

/* Whether an asynchronous operation of the running thread is ordered after a write. */
static void check_written(const struct region *r, size_t at, const struct view *mine, stamp then,
                          const char *how)
{
    const unsigned by = thread_of(then);
    char text[64];

    if (by != here->linear && clock_of(then) >= mine->seen[by])
        fail("shared memory '%s', byte %zu: %s, written by %s without a barrier between", r->name,
             at, how, who(then, text, sizeof text));
    if ((by < PHASED || (by >= STORED && by < CORES)) && clock_of(then) >= mine->fenced[by])
        fail("shared memory '%s', byte %zu: %s, written by %s without a fence.proxy.async between",
             r->name, at, how, who(then, text, sizeof text));
}

/* Start writing `n` bytes by a copy that counts for b; they belong to it until it completes. */
static void begin_target(struct region *to, uintptr_t at, size_t n, struct phased *b)
{
    struct kvr_stream *s = running;
    const struct view *mine = &member_of(s, self())->view;
    const size_t offset = at - (uintptr_t)to->base;
    const char *how = "written by an asynchronous copy";
    struct cell *cell;
    size_t n_cells;

    if (clock_of(b->init) >= mine->fenced[thread_of(b->init)])
        fail("mbarrier at byte %zu of '%s': a bulk copy signals it without a fence.proxy.async "
             "after its initialization",
             b->at - (uintptr_t)b->in->base, b->in->name);
    if (s->hopper->n_copies == MAX_COMING)
        fail("more than %d bulk copies in flight", MAX_COMING);
    if (!to->shared || offset > to->n || n > to->n - offset)
        fail("shared memory '%s': %zu bytes copied to byte %zu of %zu", to->name, n, offset, to->n);
    n_cells = cells_of(to, offset, n, &cell);
    for (size_t k = 0; k < n_cells; k++) {
        const size_t byte = offset + k * to->unit;
        char text[64];

        if (serial_of(cell[k].write) == s->serial) {
            if (cell[k].write & COMING)
                fail("shared memory '%s', byte %zu: %s while an asynchronous copy to it is in "
                     "flight",
                     to->name, byte, how);
            check_written(to, byte, mine, cell[k].write, how);
        }
        for (int j = 0; j < 2; j++) {
            const stamp read = cell[k].read[j];

            if (serial_of(read) == s->serial && thread_of(read) != here->linear &&
                clock_of(read) >= mine->seen[thread_of(read)])
                fail("shared memory '%s', byte %zu: %s, read by %s without a barrier between",
                     to->name, byte, how, who(read, text, sizeof text));
        }
        cell[k].write = self()->now | COMING;
    }
    b->copied = b->phase + 1;
}

/* Source of a bulk copy. No thread may have written it in this launch: fence.proxy.async of global memory is not
 * emulated. */
static void read_row(struct region *from, uintptr_t at, size_t n)
{
    struct cell *cell;
    size_t n_cells;

    touch_read(from, at, n, 16);
    n_cells = cells_of(from, at - (uintptr_t)from->base, n, &cell);
    for (size_t k = 0; k < n_cells; k++)
        if (serial_of(cell[k].write) >= running->launch_serial)
            fail("global memory '%s', byte %zu: read by a bulk copy, written in the same launch "
                 "(fences of global memory are not emulated)",
                 from->name, at - (uintptr_t)from->base + k * from->unit);
}

static void begin_copy(struct region *to, uintptr_t at, const struct kvr_tensor_map *map, int c,
                       int h, int64_t t, struct region *barrier, uintptr_t barrier_at)
{
    struct phased *b = phased_at(barrier, barrier_at);
    struct kvr_stream *s = running;
    struct hopper *x = s->hopper;
    struct region *from = find(map->rows);
    const int64_t row = (int64_t)map->n_heads * map->head_dim;

    if (at % (map->swizzle == KVR_SWIZZLE_128 ? KVR_TILE_ALIGN : 128))
        fail("shared memory '%s', byte %zu: a bulk copy's target is not aligned", to->name,
             at - (uintptr_t)to->base);
    if (c < 0 || c >= map->head_dim ||
        (c % KVR_TILE_COLUMNS && c + KVR_TILE_COLUMNS > map->head_dim) || h < 0 ||
        h >= map->n_heads)
        fail("bulk copy of channels %d to %d of head %d, there are %d of %d", c,
             c + KVR_TILE_COLUMNS, h, map->head_dim, map->n_heads);
    for (int64_t i = t < 0 ? -t : 0; i < map->box_tok && t + i < map->n_tok; i++)
        read_row(
            from, (uintptr_t)map->rows + (uintptr_t)((t + i) * row + h * map->head_dim + c) * 2,
            (size_t)(map->head_dim - c < KVR_TILE_COLUMNS ? map->head_dim - c : KVR_TILE_COLUMNS) *
                2);
    begin_target(to, at, tile_bytes(map), b);
    x->coming[x->n_copies++] = { to, at, *map, from, 0, 0, c, h, t, (int)(b - x->phased) };
    s->n_coming++;
}

void tile_begin(struct region *to, uintptr_t at, const struct kvr_tensor_map *map, int c, int h,
                int64_t t, struct region *barrier, uintptr_t barrier_at, bool to_all)
{
    for (unsigned i = 0; i < running->n_blocks; i++) {
        struct region *there = to_all ? map_shared(to, i) : to;
        struct region *counts = to_all ? map_shared(barrier, i) : barrier;

        if (!to_all && i != here->rank)
            continue;
        reach(i, false, "a bulk copy");
        begin_copy(there, at - (uintptr_t)to->base + (uintptr_t)there->base, map, c, h, t, counts,
                   barrier_at - (uintptr_t)barrier->base + (uintptr_t)counts->base);
    }
}

/* A bulk copy from the own shared memory, which is read when the copy completes. */
void remote_copy(struct region *to, uintptr_t at, struct region *from, uintptr_t source, size_t n,
                 struct region *barrier, uintptr_t barrier_at)
{
    struct phased *b;
    struct kvr_stream *s = running;
    struct hopper *x = s->hopper;
    const struct view *mine = &member_of(s, self())->view;
    const size_t offset = source - (uintptr_t)from->base;
    const char *how = "read by an asynchronous copy";
    struct cell *cell;
    size_t n_cells;
    stamp now;

    reach(to->rank, false, "a bulk copy");
    if (barrier->rank != to->rank)
        fail("a copy to block %u of the cluster signals an mbarrier of block %u", to->rank,
             barrier->rank);
    b = phased_at(barrier, barrier_at);
    if ((at | source | n) % STORE_BYTES)
        fail("shared memory '%s', byte %zu: a bulk copy of %zu bytes is not aligned", from->name,
             offset, n);
    if (!from->shared || offset > from->n || n > from->n - offset)
        fail("shared memory '%s': %zu bytes copied from byte %zu of %zu", from->name, n, offset,
             from->n);
    begin_target(to, at, n, b);
    now = (stamp)s->serial << 36 | (stamp)b->phase << 12 | (stamp)(PHASED + (b - x->phased)) << 2;
    n_cells = cells_of(from, offset, n, &cell);
    for (size_t k = 0; k < n_cells; k++) {
        const size_t byte = offset + k * from->unit;

        if (serial_of(cell[k].write) != s->serial)
            fail("shared memory '%s', byte %zu: %s, but never written", from->name, byte, how);
        if (cell[k].write & COMING)
            fail("shared memory '%s', byte %zu: %s while an asynchronous copy to it is in flight",
                 from->name, byte, how);
        check_written(from, byte, mine, cell[k].write, how);
        cell[k].read[1] = cell[k].read[0];
        cell[k].read[0] = now;
    }
    x->coming[x->n_copies++] = { to, at, {}, from, source, n, 0, 0, 0, (int)(b - x->phased) };
    s->n_coming++;
}

/* The target inherits the source's swizzle; bytes that threads wrote count as swizzled. */
static void move_bytes(struct kvr_stream *s, const struct coming *c)
{
    unsigned char *swizzle = s->hopper->swizzle;
    const uintptr_t base = (uintptr_t)s->shared_bytes;
    struct cell *cell;

    memcpy((void *)c->at, (const void *)c->source, c->n);
    for (size_t i = 0; i < c->n; i += STORE_BYTES) {
        const uintptr_t from = c->source + i;

        cells_of(c->from, from - (uintptr_t)c->from->base, STORE_BYTES, &cell);
        swizzle[(c->at + i - base) / STORE_BYTES] = thread_of(cell->write) < PHASED
                                                        ? (unsigned char)KVR_SWIZZLE_128
                                                        : swizzle[(from - base) / STORE_BYTES];
    }
}

static void copy_arrives(struct kvr_stream *s, unsigned i)
{
    struct hopper *x = s->hopper;
    const struct coming c = x->coming[i];
    struct phased *b = &x->phased[c.barrier];
    const struct kvr_tensor_map *m = &c.map;
    const size_t offset = c.at - (uintptr_t)c.to->base, n = c.n ? c.n : tile_bytes(m);
    const stamp now =
        (stamp)s->serial << 36 | (stamp)b->phase << 12 | (stamp)(PHASED + c.barrier) << 2;
    struct cell *cell;
    const size_t n_cells = cells_of(c.to, offset, n, &cell);

    x->coming[i] = x->coming[--x->n_copies];
    for (size_t k = 0; k < n_cells; k++)
        cell[k].write = now;
    if (c.n)
        move_bytes(s, &c);
    for (size_t at = 0; at < n && !c.n; at += 16) {
        const int64_t t = c.t + (int64_t)(at / 128);
        const uintptr_t plain = c.at + at,
                        to = m->swizzle == KVR_SWIZZLE_128 ? swizzled(plain) : plain;
        const size_t from = (size_t)(((t * m->n_heads + c.h) * m->head_dim + c.c) * 2) + at % 128;

        if (t < 0 || t >= m->n_tok || c.c + (int)(at % 128 / 2) >= m->head_dim)
            memset((void *)to, 0, 16);
        else
            memcpy((void *)to,
                   c.from->bytes + ((uintptr_t)m->rows - (uintptr_t)c.from->base) + from, 16);
        x->swizzle[(to - (uintptr_t)s->shared_bytes) / 16] = (unsigned char)m->swizzle;
    }
    b->bytes -= (int64_t)n;
    end_phase(s, b);
}

void arrives(struct kvr_stream *s, unsigned i)
{
    s->n_coming--;
    if (i < s->hopper->n_copies)
        copy_arrives(s, i);
    else
        store_arrives(s, i - s->hopper->n_copies);
}

/* ---- products ------------------------------------------------------------------------------ */

void use_registers(struct held *h)
{
    if (h->lent)
        fail("registers of a product (wgmma) in flight are accessed");
    h->fenced = false;
}

void lend_registers(struct held *h)
{
    h->fenced = true;
}

void return_registers(struct held *h, int pending)
{
    if (h->under_way)
        fail("wait_group %d (wgmma) names registers of products that stay in flight", pending);
    h->lent = false;
}

unsigned shared_address(struct region *r, uintptr_t at)
{
    if (!r || !r->shared)
        fail("operand (wgmma) in '%s', which is not shared memory", r ? r->name : "");
    return r->rank << KVR_RANK_SHIFT | (unsigned)(at - (uintptr_t)running->block[r->rank].bytes);
}

void check_operand_fields(unsigned address, unsigned leading, unsigned stride)
{
    if ((address | leading | stride) % 16)
        fail("descriptor (wgmma): address 0x%x, leading offset %u, stride offset %u: not multiples "
             "of 16",
             address, leading, stride);
    if (leading > MOST_OFFSET || stride > MOST_OFFSET)
        fail("descriptor (wgmma): leading offset %u, stride offset %u, at most %d", leading, stride,
             MOST_OFFSET);
}

uint64_t operand_from(uint64_t descriptor, int n_bytes)
{
    const int64_t start = (int64_t)(descriptor & FIELD) + (n_bytes >> 4);

    if (n_bytes % 16)
        fail("descriptor (wgmma): moved by %d bytes, not a multiple of 16", n_bytes);
    if (start < 0 || start > FIELD)
        fail("descriptor (wgmma): start address 0x%x moved by %d bytes carries into bit 14",
             (unsigned)(descriptor & FIELD) << 4, n_bytes);
    return descriptor + (uint64_t)(n_bytes >> 4);
}

/* A 14-bit field in bytes. */
static unsigned field_at(uint64_t descriptor, int bit)
{
    return (unsigned)(descriptor >> bit & FIELD) << 4;
}

/* Decode a descriptor as the tensor core does: an address in the shared memory of its own block. */
static struct matrix decode(uint64_t descriptor)
{
    const struct block *b = &running->block[here->rank];
    const uint64_t named = FIELD | (uint64_t)FIELD << 16 | (uint64_t)FIELD << 32 |
                           (uint64_t)7 << 49 | (uint64_t)3 << 62;
    struct matrix m = { NULL, (uintptr_t)b->bytes + field_at(descriptor, 0),
                        field_at(descriptor, 16), field_at(descriptor, 32) };

    if (descriptor & ~named)
        fail("descriptor (wgmma) 0x%llx: bits outside its fields are set",
             (unsigned long long)descriptor);
    if (descriptor >> 62 != KVR_SWIZZLE_128)
        fail("descriptor (wgmma) 0x%llx: swizzle %u, emulated is only 1 (128 bytes)",
             (unsigned long long)descriptor, (unsigned)(descriptor >> 62));
    if (descriptor >> 49 & 7)
        fail("descriptor (wgmma) 0x%llx: base offset %u, emulated is only 0",
             (unsigned long long)descriptor, (unsigned)(descriptor >> 49 & 7));
    for (int i = 0; i < b->n_arrays && !m.in; i++)
        if (m.at >= (uintptr_t)b->array[i].base &&
            m.at - (uintptr_t)b->array[i].base < b->array[i].n)
            m.in = const_cast<struct region *>(&b->array[i]);
    return m;
}

/* Address of 16 bytes of an operand: row r, byte c on. */
static uintptr_t place_of(const struct matrix *m, bool transposed, int r, int c)
{
    const uintptr_t rows = (uintptr_t)(r / 8) * m->stride + (uintptr_t)(r % 8) * 128;

    return swizzled(
        m->at + rows +
        (transposed ? (uintptr_t)(c / 128) * m->leading + (uintptr_t)(c % 128) : (uintptr_t)c));
}

/* Check that n_bytes of rows [from, from + rows) are visible to a product of the running thread. core >= 0: record
 * the read by this tensor core. */
static void check_operand(const struct matrix *m, bool transposed, int from, int rows, int n_bytes,
                          int core)
{
    struct kvr_stream *s = running;
    const struct view *mine = &member_of(s, self())->view;
    const char *how = "read by a product (wgmma)";
    const stamp now = core < 0 ? 0
                               : (stamp)s->serial << 36 | (stamp)s->hopper->core[core] << 12 |
                                     (stamp)(CORES + core) << 2;

    if (!m->in)
        fail("byte %td of shared memory: %s, where no array is",
             (ptrdiff_t)(m->at - (uintptr_t)s->block[here->rank].bytes), how);
    if (m->at & 0x380)
        fail("%s: does not start at a row group of a tile", how);
    for (int i = from; i < from + rows; i++)
        for (int c = 0; c < n_bytes; c += 16) {
            const uintptr_t p = place_of(m, transposed, i, c);
            const size_t at = p - (uintptr_t)m->in->base;
            struct cell *cell;
            size_t n_cells;

            if (p < (uintptr_t)m->in->base || at > m->in->n || 16 > m->in->n - at)
                fail("shared memory '%s': 16 bytes %s at byte %td of %zu", m->in->name, how,
                     (ptrdiff_t)at, m->in->n);
            n_cells = cells_of(m->in, at, 16, &cell);
            for (size_t k = 0; k < n_cells; k++) {
                const size_t byte = at + k * m->in->unit;
                const stamp then = cell[k].write;

                if (serial_of(then) != s->serial)
                    fail("shared memory '%s', byte %zu: %s, but never written", m->in->name, byte,
                         how);
                if (then & COMING)
                    fail("shared memory '%s', byte %zu: %s while an asynchronous copy to it is in "
                         "flight",
                         m->in->name, byte, how);
                check_written(m->in, byte, mine, then, how);
                if (thread_of(then) >= PHASED && thread_of(then) < STORED &&
                    s->hopper->swizzle[(p - (uintptr_t)s->shared_bytes) / 16] != KVR_SWIZZLE_128)
                    fail("shared memory '%s', byte %zu: %s with the 128-byte swizzle, copied "
                         "without it",
                         m->in->name, byte, how);
                if (core < 0)
                    continue;
                if (thread_of(cell[k].read[0]) != thread_of(now) ||
                    serial_of(cell[k].read[0]) != s->serial)
                    cell[k].read[1] = cell[k].read[0];
                cell[k].read[0] = now;
            }
        }
}

/* Check the operands that a warp's tensor core reads. */
static void check_product(const struct product *p, int warp, int core)
{
    if (!p->registers)
        check_operand(&p->a, false, 16 * warp, 16, K, core);
    if (p->transposed)
        check_operand(&p->b, true, 0, K / 2, 2 * p->columns, core);
    else
        check_operand(&p->b, false, 0, p->columns, K, core);
}

void product_begin(enum numbers numbers, void *sums, struct held *of_sums, const uint64_t *a,
                   const unsigned *of_a, struct held *held_a, uint64_t b, int columns,
                   bool transposed, bool add)
{
    struct hopper *x = clock_block();
    struct member *m = &x->member[here->linear];
    struct product *p = &m->product[m->n_products];

    if (running->n_threads % KVR_WARP_GROUP)
        fail("products (wgmma) in a block of %u threads, need a multiple of %d", running->n_threads,
             KVR_WARP_GROUP);
    if (m->n_products == MAX_PRODUCTS)
        fail("more than %d products (wgmma) in flight", MAX_PRODUCTS);
    if (!of_sums->fenced || (held_a && !held_a->fenced))
        fail("a product (wgmma) of registers accessed since the last wgmma.fence");
    *p = { sums, of_sums, held_a,  a ? *a : 0, b,          {},  decode(b),
           {},   numbers, columns, !a,         transposed, add, m->group };
    if (a)
        p->a = decode(*a);
    else
        memcpy(p->of_a, of_a, sizeof p->of_a);
    of_sums->lent = true;
    of_sums->under_way++;
    if (held_a) {
        held_a->lent = true;
        held_a->under_way++;
    }
    if (here->linear % 32 == 0)
        check_product(p, (int)here->linear / 32 % 4, -1);
    m->n_products++;
}

void product_commit()
{
    clock_block()->member[here->linear].group++;
}

static kvr_bf16 element_of(const struct matrix *m, bool transposed, int r, int c)
{
    return ((const kvr_bf16 *)place_of(m, transposed, r, 2 * c & ~15))[c & 7];
}

static int32_t byte_of(enum numbers numbers, uint8_t x)
{
    return numbers == SIGNED_BYTES ? (int8_t)x : x;
}

/* Fragment layout: a thread's first row of A [64, 32 bytes], row and column of accumulator j. */
static int row_of(int thread)
{
    return thread / 32 * 16 + thread % 32 / 4;
}
static int sum_row(int thread, int j)
{
    return row_of(thread) + j / 2 % 2 * 8;
}
static int sum_column(int thread, int j)
{
    return j / 4 * 8 + thread % 4 * 2 + j % 2;
}

/* 8-bit products, exact in int32. */
static void multiply_bytes(struct hopper *x, const struct member *group, int at)
{
    const struct product *p = &group[0].product[at];
    const int columns = p->columns;

    for (int n = 0; n < columns; n++)
        for (int k = 0; k < K; k++)
            x->whole_b[k][n] =
                byte_of(p->numbers, ((const uint8_t *)place_of(&p->b, false, n, k & ~15))[k & 15]);
    for (int i = 0; i < ROWS && !p->registers; i++)
        for (int k = 0; k < K; k++)
            x->whole_a[i][k] =
                byte_of(p->numbers, ((const uint8_t *)place_of(&p->a, false, i, k & ~15))[k & 15]);
    for (int i = 0; i < KVR_WARP_GROUP; i++) {
        const struct product *q = &group[i].product[at];

        for (int r = 0; r < 4 && p->registers; r++)
            for (int e = 0; e < 4; e++)
                x->whole_a[row_of(i) + r % 2 * 8][i % 4 * 4 + r / 2 * 16 + e] =
                    byte_of(p->numbers, (uint8_t)(q->of_a[r] >> 8 * e));
        for (int j = 0; j < columns / 2; j++)
            x->whole_sums[sum_row(i, j)][sum_column(i, j)] =
                p->add ? ((const int32_t *)q->sums)[j] : 0;
    }
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < K; k++)
            for (int n = 0; n < columns; n++)
                x->whole_sums[i][n] += x->whole_a[i][k] * x->whole_b[k][n];
    for (int i = 0; i < KVR_WARP_GROUP; i++)
        for (int j = 0; j < columns / 2; j++)
            ((int32_t *)group[i].product[at].sums)[j] =
                x->whole_sums[sum_row(i, j)][sum_column(i, j)];
}

static void multiply_bf16(struct hopper *x, const struct member *group, int at)
{
    const struct product *p = &group[0].product[at];
    const int columns = p->columns;

    for (int k = 0; k < K / 2; k++)
        for (int n = 0; n < columns; n++)
            x->b[k][n] = kvr_bf16_to_f32(p->transposed ? element_of(&p->b, true, k, n)
                                                       : element_of(&p->b, false, n, k));
    for (int i = 0; i < ROWS && !p->registers; i++)
        for (int k = 0; k < K / 2; k++)
            x->a[i][k] = kvr_bf16_to_f32(element_of(&p->a, false, i, k));
    for (int i = 0; i < KVR_WARP_GROUP; i++) {
        const struct product *q = &group[i].product[at];

        for (int r = 0; r < 4 && p->registers; r++)
            for (int e = 0; e < 2; e++)
                x->a[row_of(i) + r % 2 * 8][i % 4 * 2 + r / 2 * 8 + e] = half_of(q->of_a[r], e);
        for (int j = 0; j < columns / 2; j++)
            x->sums[sum_row(i, j)][sum_column(i, j)] = p->add ? ((const float *)q->sums)[j] : 0.0f;
    }
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < K / 2; k++)
            for (int n = 0; n < columns; n++)
                x->sums[i][n] += x->a[i][k] * x->b[k][n];
    for (int i = 0; i < KVR_WARP_GROUP; i++)
        for (int j = 0; j < columns / 2; j++)
            ((float *)group[i].product[at].sums)[j] = x->sums[sum_row(i, j)][sum_column(i, j)];
}

/* Compute product `at` of a warp group. */
static void multiply(struct hopper *x, const struct member *group, int at)
{
    const struct product *p = &group[0].product[at];

    for (int i = 1; i < KVR_WARP_GROUP; i++) {
        const struct product *q = &group[i].product[at];

        if (q->numbers != p->numbers || q->registers != p->registers ||
            q->transposed != p->transposed || q->add != p->add || q->columns != p->columns ||
            q->group != p->group || q->descriptor_a != p->descriptor_a ||
            q->descriptor_b != p->descriptor_b)
            fail("the threads of a warp group issue different products (wgmma)");
    }
    if (p->numbers == BF16)
        multiply_bf16(x, group, at);
    else
        multiply_bytes(x, group, at);
    for (int i = 0; i < KVR_WARP_GROUP; i++) {
        const struct product *q = &group[i].product[at];

        q->held->under_way--;
        if (q->held_a)
            q->held_a->under_way--;
    }
}

/* Products of a thread that its wait_group completes. */
static int due(const struct member *m)
{
    int n = 0;

    while (n < m->n_products && m->product[n].group + (unsigned)m->keeps < m->group)
        n++;
    return n;
}

/* All threads of the group have arrived at the wait. */
static void finish_products(struct kvr_stream *s, unsigned first)
{
    struct hopper *x = s->hopper;
    struct member *group = &x->member[first];
    struct place *const me = here;
    const int n = due(group);

    for (int i = 1; i < KVR_WARP_GROUP; i++)
        if (due(&group[i]) != n)
            fail("the threads of a warp group wait for different products (wgmma)");
    /* Once per warp: its tensor core reads in parallel with the others. A cell keeps two readers; rotating the order
     * varies which. */
    for (int i = 0; i < n; i++)
        for (int w = 0; w < 4; w++) {
            const int of_group = (w + i) % 4;
            const unsigned warp = first / 32 + (unsigned)of_group;

            here = &s->fibers[32 * warp].place;
            check_product(&group[0].product[i], of_group, (int)warp);
        }
    here = me;
    for (int i = 0; i < n; i++)
        multiply(x, group, i);
    for (unsigned i = 0; i < KVR_WARP_GROUP; i++) {
        struct member *m = &group[i];
        const unsigned warp = (first + i) / 32;

        memmove(m->product, m->product + n, (size_t)(m->n_products - n) * sizeof m->product[0]);
        m->n_products -= n;
        m->view.seen[CORES + warp] = x->core[warp] + 1;
        if ((first + i) % 32 == 31)
            x->core[warp]++;
    }
}

void product_wait(int pending)
{
    struct hopper *x = clock_block();
    struct kvr_stream *s = running;
    const unsigned first = here->linear / KVR_WARP_GROUP * KVR_WARP_GROUP;
    unsigned *waiting = &x->in_group[here->linear / KVR_WARP_GROUP];
    struct member *m = &x->member[here->linear];

    if (s->n_threads % KVR_WARP_GROUP)
        fail("products (wgmma) in a block of %u threads, need a multiple of %d", s->n_threads,
             KVR_WARP_GROUP);
    m->keeps = pending;
    m->on = (int)first;
    if (++*waiting < KVR_WARP_GROUP) {
        wait_as(IN_GROUP, "", 0);
        return;
    }
    *waiting = 0;
    finish_products(s, first);
    wake_those(s, IN_GROUP, (int)first);
}

} // namespace kvr_emu
