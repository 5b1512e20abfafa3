/* emu_hopper.cc - vector clocks, deadlock reports, and checks at the exit of a block, for sm_90 on
 * the emulated device (see emu_hopper.cuh). */
#include "harness/device/emu/emu_hopper.cuh"

namespace kvr_emu
{

void hopper_close(struct kvr_stream *s)
{
    free(s->hopper);
    s->hopper = NULL;
}

/* ---- vector clocks ------------------------------------------------------------------------- */

void join(const struct kvr_stream *s, struct view *to, const struct view *from)
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

void tick(struct kvr_stream *s, struct fiber *f)
{
    uint32_t *mine = &member_of(s, f)->view.seen[f->coords.linear];

    if (*mine == MAX_CLOCK)
        fail("more than %u synchronizations of a thread", MAX_CLOCK);
    f->epoch = *mine >> 11;
    f->warp_epoch = *mine & MAX_WARP_EPOCH;
    ++*mine;
    restamp(s, f);
}

/* Starts the vector clocks of a cluster at its launch, or those of a block without a cluster at its
 * first sm_90 operation. In its initial view (vector clock), a thread is ordered after all accesses
 * before the block's last __syncthreads, and after all accesses of its own warp before the warp's
 * last __syncwarp. */
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

struct hopper *clock_block()
{
    struct kvr_stream *s = running;

    if (s->clocked)
        return s->hopper;
    if (s->n_threads > MAX_CLOCKED)
        fail("sm_90 barriers in a block of %u threads, emulated are at most %d", s->n_threads,
             MAX_CLOCKED);
    if (!begin_clocks(s))
        fail("the host is out of memory while allocating barriers of sm_90");
    return s->hopper;
}

/* Initializes the vector clocks of all threads of a cluster. The accesses of all blocks of a
 * cluster are recorded with the same block serial number. Every thread of the cluster has its own
 * clock. */
void clock_cluster(struct kvr_stream *s)
{
    if (!begin_clocks(s))
        record(s, "%s: the host is out of memory while allocating clusters", s->kernel);
}

bool is_unobserved(const struct kvr_stream *s, stamp then)
{
    const unsigned by = thread_of(then), me = here->linear;

    return by != me && clock_of(then) >= s->hopper->member[me].view.seen[by];
}

/* Returns whether an access is by a thread of another block of the cluster, and no cluster barrier
 * orders this access before the running thread. A wait on an mbarrier orders the running thread
 * after two kinds of accesses by another block: its reads, and its remote stores to the block that
 * contains the mbarrier. Only the cluster barrier orders a thread after all other writes by another
 * block. */
bool unmet(const struct kvr_stream *s, stamp then)
{
    const unsigned by = thread_of(then);

    return by < PHASED && by / s->n_threads != here->rank &&
           clock_of(then) >= s->hopper->meeting.done.seen[by];
}

const char *describe_stamp(stamp then, char *text, size_t size)
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

void check_written(const struct region *r, size_t at, const struct view *mine, stamp then,
                   const char *how)
{
    const unsigned by = thread_of(then);
    char text[64];

    if (by != here->linear && clock_of(then) >= mine->seen[by])
        fail("shared memory '%s', byte %zu: %s, written by %s without a barrier between", r->name,
             at, how, describe_stamp(then, text, sizeof text));
    if ((by < PHASED || (by >= STORED && by < CORES)) && clock_of(then) >= mine->fenced[by])
        fail("shared memory '%s', byte %zu: %s, written by %s without a fence.proxy.async between",
             r->name, at, how, describe_stamp(then, text, sizeof text));
}

void wake_those(struct kvr_stream *s, enum state why, int on)
{
    for (unsigned i = 0; i < s->n_fibers; i++)
        if (s->fibers[i].state == why && s->hopper->member[i].on == on)
            wake(s, &s->fibers[i]);
}

/* ---- deadlocks, exits ---------------------------------------------------------------------- */

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
               "waits for products (wgmma), where %u of %d threads of its warpgroup have arrived",
               s->hopper->in_group[f->coords.linear / KVR_WARPGROUP], KVR_WARPGROUP);
}

/* Records an error if another block has accessed the shared memory of block `rank` and no thread of
 * block `rank` is ordered after this access. */
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
                   describe_stamp((stamp)i << 2, text, sizeof text));
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

} // namespace kvr_emu
