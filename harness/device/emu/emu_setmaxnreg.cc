/* emu_setmaxnreg.cc - setmaxnreg on the emulated device, with the register pool of a block (see
 * emu_hopper.cuh). */
#include "harness/device/emu/emu_hopper.cuh"

namespace kvr_emu
{

static unsigned warps_of_block(const struct kvr_stream *s)
{
    return (s->n_threads + 31) / 32;
}

/* Return the size of a block's register pool, and the registers that the block's warps currently
 * own. The functions count registers per thread, summed over the warps of the block. */
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

void record_registers(struct kvr_stream *s, const struct fiber *f)
{
    const struct warp_registers *r = &s->hopper->registers[f->coords.linear / 32];

    record(s,
           "setmaxnreg.inc to %d waits forever: the launch allocated %d registers (%d x %u "
           "threads), warps hold %d; a warp with %d per thread lacks %d",
           r->wants, 32 * pool_of(s), kvr_launch_registers((int)s->n_threads), s->n_threads,
           32 * taken_of(s, f->coords.rank), r->now,
           32 * (r->wants - r->now - pool_of(s) + taken_of(s, f->coords.rank)));
}

/* Fails unless the k-th setmaxnreg instruction has the same operand in all warps of a warpgroup,
 * and the warps synchronize before the next setmaxnreg. */
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
            fail("setmaxnreg: warp %u has %s to %d, another of its warpgroup %s to %d",
                 warp - first, set > 0 ? "inc" : "dec", abs(set),
                 r->set[mine->n_set] > 0 ? "inc" : "dec", abs(r->set[mine->n_set]));
        if (mine->n_set && w != warp &&
            (r->n_set < mine->n_set ||
             x->member[here->linear].view.seen[32 * w] <= r->at[mine->n_set - 1]))
            fail("setmaxnreg: warp %u executes another one before its warpgroup has synchronized",
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

void check_setmaxnreg(struct kvr_stream *s, unsigned rank)
{
    const unsigned n = warps_of_block(s), first = rank * n;

    for (unsigned w = first; w < first + n; w++) {
        const int of_group = s->hopper->registers[first + (w - first) / 4 * 4].n_set;

        if (s->hopper->registers[w].n_set != of_group)
            record(s, "setmaxnreg: warp %u has executed %d, the first of its warpgroup %d",
                   w - first, s->hopper->registers[w].n_set, of_group);
    }
}

} // namespace kvr_emu
