/* phase.c - measures the total time of each phase: the sum of its intervals between time stamps of
 * a device. */
#include "harness/device/phase.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "harness/device/dev_impl.h"

struct phase {
    int64_t ns;    /* total duration of the intervals that have been read, in ns */
    int64_t begun; /* time stamp at the start of the open interval */
    bool open;
};

/* A pending interval: two time stamps that the device may not have reached yet. */
struct interval {
    int phase;
    int64_t begun, ended;
};

/* Maximum number of pending intervals. At this limit, the durations of the older half are read. The
 * device has passed the ends of these intervals long ago, so reading does not block. Their events
 * are then reused. */
enum { MOST_PENDING = 1024 };

struct kvr_phases {
    struct kvr_dev *dev;
    struct interval pending[MOST_PENDING];
    int n_pending;
    enum kvr_status failed; /* error of the first interval that could not be read */
    int n;
    struct phase phase[];
};

enum kvr_status kvr_phases_open(struct kvr_phases **out, struct kvr_dev *dev, int n_phases)
{
    struct kvr_phases *p = calloc(1, sizeof *p + (size_t)n_phases * sizeof p->phase[0]);

    *out = p;
    if (!p)
        return kvr_fail(KVR_ENOMEM, "device timing: out of memory while allocating %d timed phases",
                        n_phases);
    p->dev = dev;
    p->n = n_phases;
    return KVR_OK;
}

/* Discards pending and open intervals. */
static void forget(struct kvr_phases *p)
{
    void (*const give)(struct kvr_dev * dev, int64_t a) = p->dev->kind->forget_instant;

    for (int i = 0; i < p->n_pending; i++) {
        give(p->dev, p->pending[i].begun);
        give(p->dev, p->pending[i].ended);
    }
    for (int i = 0; i < p->n; i++)
        if (give && p->phase[i].open)
            give(p->dev, p->phase[i].begun);
    p->n_pending = 0;
}

void kvr_phases_close(struct kvr_phases **p)
{
    if (*p)
        forget(*p);
    free(*p);
    *p = NULL;
}

/* Reads the durations of the n oldest pending intervals, and adds them to their phases. */
static enum kvr_status settle(struct kvr_phases *p, int n)
{
    const struct kvr_dev_kind *kind = p->dev->kind;

    for (int k = 0; k < n; k++) {
        const struct interval *i = &p->pending[k];
        int64_t took = 0;

        if (p->failed == KVR_OK)
            p->failed = kind->elapsed(p->dev, i->begun, i->ended, &took);
        p->phase[i->phase].ns += took;
        kind->forget_instant(p->dev, i->begun);
        kind->forget_instant(p->dev, i->ended);
    }
    p->n_pending -= n;
    memmove(p->pending, p->pending + n, (size_t)p->n_pending * sizeof *p->pending);
    return p->failed;
}

static void keep(struct kvr_phases *p, const struct interval *i)
{
    if (p->n_pending == MOST_PENDING)
        settle(p, MOST_PENDING / 2);
    p->pending[p->n_pending++] = *i;
}

void kvr_phase_begin(struct kvr_phases *p, int phase)
{
    if (!p)
        return;
    assert(phase >= 0 && phase < p->n && !p->phase[phase].open);
    p->phase[phase].begun = p->dev->kind->instant(p->dev);
    p->phase[phase].open = true;
}

void kvr_phase_end(struct kvr_phases *p, int phase)
{
    struct interval i = { .phase = phase };

    if (!p)
        return;
    assert(phase >= 0 && phase < p->n && p->phase[phase].open);
    i.begun = p->phase[phase].begun;
    i.ended = p->dev->kind->instant(p->dev);
    p->phase[phase].open = false;
    if (!p->dev->kind->elapsed)
        p->phase[phase].ns += i.ended - i.begun;
    else if (i.begun >= 0 && i.ended >= 0)
        keep(p, &i);
    else /* not measured: one time stamp is -1, as a graph was captured */
        p->dev->kind->forget_instant(p->dev, i.begun >= 0 ? i.begun : i.ended);
}

enum kvr_status kvr_phases_read(struct kvr_phases *p, int64_t *ns)
{
    KVR_TRY(kvr_dev_sync(p->dev));
    if (settle(p, p->n_pending) != KVR_OK)
        return kvr_fail(
            p->failed,
            "device timing: reading the GPU events that time a phase of the rollout failed");
    for (int i = 0; i < p->n; i++)
        ns[i] = p->phase[i].ns;
    return KVR_OK;
}

void kvr_phases_reset(struct kvr_phases *p)
{
    forget(p);
    memset(p->phase, 0, (size_t)p->n * sizeof p->phase[0]);
    p->failed = KVR_OK;
}

void kvr_phases_forget(struct kvr_dev *dev)
{
    dev->kind->forget_instants(dev);
}
