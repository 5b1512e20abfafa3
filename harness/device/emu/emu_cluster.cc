/* emu_cluster.cc - clusters on the emulated device: the cluster barrier, and accesses to the shared
 * memory of another block (see emu_hopper.cuh). */
#include "harness/device/emu/emu_hopper.cuh"

namespace kvr_emu
{

/* Completes the cluster barrier if all threads of the cluster have arrived. A thread that has
 * exited counts as arrived. */
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

void reach(unsigned rank, bool until, const char *how)
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
                 r->name, at - (uintptr_t)r->base,
                 describe_stamp(cell[k].write, text, sizeof text));
    return (void *)at;
}

/* Starts a remote store. When the remote store completes, it performs complete_tx on the
 * mbarrier. */
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

void store_arrives(struct kvr_stream *s, unsigned i)
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

} // namespace kvr_emu
