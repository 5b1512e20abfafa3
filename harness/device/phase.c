/* phase.c - sums of intervals between instants of a device. */
#include "harness/device/phase.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "harness/device/dev_impl.h"

struct phase {
    int64_t ns;    /* of the intervals whose length is known */
    int64_t begun; /* the instant at which the open one began */
    bool open;
};

/* Two instants that the device may not have reached yet. */
struct interval {
    int phase;
    int64_t begun, ended;
};

struct kvr_phases {
    struct kvr_dev *dev;
    struct interval *pending;
    int64_t n_pending, max_pending;
    bool lost; /* there was no memory for an interval */
    int n;
    struct phase phase[];
};

enum kvr_status kvr_phases_open(struct kvr_phases **out, struct kvr_dev *dev, int n_phases)
{
    struct kvr_phases *p = calloc(1, sizeof *p + (size_t)n_phases * sizeof p->phase[0]);

    *out = p;
    if (!p)
        return kvr_fail(KVR_ENOMEM, "phases: no memory for %d", n_phases);
    p->dev = dev;
    p->n = n_phases;
    return KVR_OK;
}

void kvr_phases_close(struct kvr_phases **p)
{
    if (*p)
        free((*p)->pending);
    free(*p);
    *p = NULL;
}

static void keep(struct kvr_phases *p, const struct interval *i)
{
    if (p->n_pending == p->max_pending) {
        const int64_t n = p->max_pending ? 2 * p->max_pending : 4096;
        struct interval *grown = realloc(p->pending, (size_t)n * sizeof *grown);

        if (!grown) {
            p->lost = true;
            return;
        }
        p->pending = grown;
        p->max_pending = n;
    }
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
    if (!p->dev->kind->between)
        p->phase[phase].ns += i.ended - i.begun;
    else if (i.begun >= 0 && i.ended >= 0)
        keep(p, &i);
}

enum kvr_status kvr_phases_read(struct kvr_phases *p, int64_t *ns)
{
    KVR_TRY(kvr_dev_sync(p->dev));
    if (p->lost)
        return kvr_fail(KVR_ENOMEM, "phases: no memory for %lld intervals",
                        (long long)p->n_pending + 1);
    while (p->n_pending) {
        const struct interval *i = &p->pending[p->n_pending - 1];
        int64_t took;

        KVR_TRY(p->dev->kind->between(p->dev, i->begun, i->ended, &took));
        p->phase[i->phase].ns += took;
        p->n_pending--;
    }
    for (int i = 0; i < p->n; i++)
        ns[i] = p->phase[i].ns;
    return KVR_OK;
}

void kvr_phases_reset(struct kvr_phases *p)
{
    memset(p->phase, 0, (size_t)p->n * sizeof p->phase[0]);
    p->n_pending = 0;
    p->lost = false;
}

void kvr_phases_forget(struct kvr_dev *dev)
{
    dev->kind->forget_instants(dev);
}
