/* emu_mbarrier.cc - mbarriers and named barriers (bar.sync) on the emulated device (see
 * emu_hopper.cuh). */
#include "harness/device/emu/emu_hopper.cuh"

namespace kvr_emu
{

void check_no_mbarrier(const struct region *r, uintptr_t at, size_t n, const char *how)
{
    const struct block *in = &running->block[r->rank];
    const struct hopper *x = running->hopper;

    if (at >= in->phased_end || at + n <= in->phased)
        return;
    for (int i = 0; i < x->n_phased; i++)
        if (at < x->phased[i].at + 8 && x->phased[i].at < at + n)
            fail("mbarrier at byte %zu of '%s': %s, not as an mbarrier",
                 x->phased[i].at - (uintptr_t)r->base, r->name, how);
}

void barrier_init(struct region *r, uintptr_t at, unsigned count)
{
    struct hopper *x = clock_block();
    struct cell *cell;
    const int i = x->n_phased;

    if (!count || count >= MOST_ARRIVE)
        fail("mbarrier: %u arrivals, need 1 to %d", count, MOST_ARRIVE - 1);
    for (int j = 0; j < i; j++)
        if (x->phased[j].at == at)
            fail("mbarrier at byte %zu of '%s': initialized again while in use",
                 at - (uintptr_t)r->base, r->name);
    touch_write(r, at, 8, 8);
    if (!r->shared)
        fail("mbarrier in '%s', which is not shared memory", r->name);
    if (i == MAX_PHASED)
        fail("more than %d mbarriers of a block", MAX_PHASED);
    x->n_phased++;
    struct block *in = &running->block[r->rank];

    in->phased = !in->phased_end || at < in->phased ? at : in->phased;
    in->phased_end = at + 8 > in->phased_end ? at + 8 : in->phased_end;
    cells_of(r, at - (uintptr_t)r->base, 8, &cell);
    memset(&x->phased[i], 0, offsetof(struct phased, open));
    x->phased[i].in = r;
    x->phased[i].at = at;
    x->phased[i].init = cell->write;
    x->phased[i].count = x->phased[i].lacking = count;
    x->phased[i].open = x->phased[i].done = x->phased[i].far = x->phased[i].far_done = {};
}

struct phased *phased_at(struct region *r, uintptr_t at)
{
    struct hopper *x = clock_block();
    struct phased *b = x->phased, *end = x->phased + x->n_phased;
    char text[64];

    while (b < end && b->at != at)
        b++;
    if (!r || !r->shared || b == end)
        fail("mbarrier at byte %td of '%s': not initialized",
             (ptrdiff_t)(at - (uintptr_t)(r ? r->base : 0)), r ? r->name : "no memory");
    if (is_unobserved(running, b->init))
        fail("mbarrier at byte %zu of '%s': used, initialized by %s without a barrier between",
             at - (uintptr_t)r->base, r->name, describe_stamp(b->init, text, sizeof text));
    return b;
}

void end_phase(struct kvr_stream *s, struct phased *b)
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

/* Arrives on the mbarrier. If `gives` is true, the arrival has release semantics: threads that wait
 * for the phase are ordered after the arriving thread. */
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

/* Fails unless phase `awaited` is the current or the preceding phase. In a later phase, the parity
 * of phase `awaited` is also that of another phase. */
static void check_phase(const struct phased *b, int64_t awaited)
{
    if (b->phase > awaited + 1)
        fail("mbarrier at byte %zu of '%s': a wait for phase %lld, but the current phase is %u; a "
             "parity is that of the current or of the preceding phase",
             b->at - (uintptr_t)b->in->base, b->in->name, (long long)awaited, b->phase);
}

void barrier_wait(struct region *r, uintptr_t at, unsigned parity, bool of_cluster,
                  const char *file, int line)
{
    struct phased *b = phased_at(r, at);
    struct member *m = member_of(running, self());
    uint32_t *passed = &b->passed[here->linear];
    /* the phase from 0; before the first wait, parity 1 is that of phase -1 */
    const int64_t awaited = (int64_t)*passed - ((*passed & 1) != parity);

    m->on = (int)(b - running->hopper->phased);
    check_phase(b, awaited);
    while ((b->phase & 1) == parity) {
        wait_as(AT_PHASE, file, line);
        check_phase(b, awaited);
    }
    *passed = (uint32_t)(awaited + 1);
    join(running, &m->view, &b->done);
    if (!of_cluster)
        b->waited = b->phase;
    else if (running->n_blocks > 1)
        join(running, &m->view, &b->far_done);
    if (of_cluster)
        b->waited = b->far_waited = b->phase;
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
    /* A bar.sync counts whole warps, so a warp must arrive with all its lanes. */
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

} // namespace kvr_emu
