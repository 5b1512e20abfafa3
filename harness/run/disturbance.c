/* disturbance.c - see disturbance.h. */
#include "harness/run/disturbance.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/clock.h"
#include "harness/core/hostmem.h"
#include "harness/core/machine.h"
#include "harness/core/memtext.h"

/* Limits above which a time is noisy: share of CPU time used by other programs, share stolen by a
 * hypervisor, and relative slowdown of the GPU clock against the fastest clock seen. */
static const double max_load = 0.1, max_stolen = 0.01, max_slower = 0.05;

/* Interval between samples of the GPU; NVML updates its readings about as often. */
enum { LOOK_EVERY_NS = 200000000 };

enum kvr_status kvr_machine_open(struct kvr_machine *m, int n_cpus, int jobs, bool asks_gpus)
{
    *m = (struct kvr_machine){ .n_cpus = n_cpus, .jobs = jobs };
    return asks_gpus ? kvr_gpu_states_open(&m->gpus, m->nvml, sizeof m->nvml) : KVR_OK;
}

void kvr_machine_close(struct kvr_machine *m)
{
    kvr_gpu_states_close(&m->gpus);
}

static void print_number(FILE *to, const char *before, double x, const char *unit)
{
    if (x == x)
        fprintf(to, "%s%.0f %s", before, x, unit);
}

char *kvr_machine_gpus(const struct kvr_machine *m, const char uuid[][KVR_UUID_LEN], int n_gpus)
{
    char *text = NULL;
    size_t size;
    FILE *to = kvr_text_open(&text, &size);
    int n = 0;

    for (int i = 0; to && i < n_gpus; i++) {
        struct kvr_gpu_state s;

        if (!kvr_gpu_sample(m->gpus, uuid[i], &s))
            continue;
        fprintf(to, "%s%s:", n++ ? "; " : "", uuid[i]);
        print_number(to, " most ", s.most_mhz, "MHz,");
        print_number(to, " memory ", s.memory_mhz, "MHz,");
        print_number(to, " limit ", s.limit_watts, "W,");
        fprintf(to, " ECC %s", s.ecc == 1 ? "on" : s.ecc == 0 ? "off" : "unknown");
    }
    return kvr_text_close(to, &text) ? text : NULL;
}

/* Maximum that ignores NaN. */
static double most(double a, double b)
{
    return a > b || b != b ? a : b;
}

void kvr_disturbance_begin(struct kvr_disturbance *b, struct kvr_machine *m, const char *uuid)
{
    memset(b, 0, sizeof *b);
    snprintf(b->uuid, sizeof b->uuid, "%s", uuid);
    b->gpu = (struct kvr_gpu_state){ NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, 0 };
    b->busy_before = b->others = NAN;
    if (uuid[0] && kvr_gpu_sample(m->gpus, uuid, &b->gpu)) {
        b->busy_before = b->gpu.busy;
        /* all are other programs: our worker has not started yet */
        b->others = b->gpu.processes;
    }
    b->busy_ns = kvr_host_busy_ns();
    b->stolen_ns = kvr_host_stolen_ns();
    b->start_ns = b->looked_ns = kvr_now_ns();
}

static void look_again(struct kvr_disturbance *b, const struct kvr_machine *m)
{
    struct kvr_gpu_state s;

    if (!b->uuid[0] || !kvr_gpu_sample(m->gpus, b->uuid, &s))
        return;
    b->gpu.mhz = most(b->gpu.mhz, s.mhz);
    b->gpu.memory_mhz = most(b->gpu.memory_mhz, s.memory_mhz);
    b->gpu.celsius = most(b->gpu.celsius, s.celsius);
    b->gpu.watts = most(b->gpu.watts, s.watts);
    b->gpu.reasons |= s.reasons;
    /* The processes of other programs are all but our worker. NVML reports 0 processes, not even
     * our worker, if a container hides them; 0 then remains 0. */
    b->others = most(b->others, s.processes > 0 ? s.processes - 1 : s.processes);
}

void kvr_disturbance_sample(struct kvr_disturbance *b, const struct kvr_machine *m, int64_t now_ns)
{
    if (now_ns - b->looked_ns < LOOK_EVERY_NS)
        return;
    b->looked_ns = now_ns;
    look_again(b, m);
}

static void add_value(struct kvr_disturbance *b, const char *name, double value)
{
    b->watch[b->n_watch++] = (struct kvr_row_watch){ name, value };
}

/* Takes the final sample of the GPU right after the worker's end, before the GPU lowers its clocks.
 * In a cell shorter than LOOK_EVERY_NS it is the only sample under load. */
static void end_gpu(struct kvr_disturbance *b, struct kvr_machine *m)
{
    const double others = b->others;

    look_again(b, m);
    /* the final sample does not count: our worker, which look_again() subtracts, has ended */
    b->others = others;
    add_value(b, "gpu_mhz", b->gpu.mhz);
    add_value(b, "gpu_memory_mhz", b->gpu.memory_mhz);
    add_value(b, "gpu_celsius", b->gpu.celsius);
    add_value(b, "gpu_watts", b->gpu.watts);
    add_value(b, "gpu_slowed_by", (double)b->gpu.reasons);
    add_value(b, "gpu_others", b->others);
    add_value(b, "gpu_busy_before", b->busy_before);
}

/* Returns the entry for the fastest clock seen on a GPU; NULL if there are more than
 * KVR_MAX_DEVICES GPUs. */
static double *fastest_of(struct kvr_machine *m, const char *uuid)
{
    for (int i = 0; i < KVR_MAX_DEVICES; i++) {
        if (!m->fastest[i].uuid[0])
            snprintf(m->fastest[i].uuid, sizeof m->fastest[i].uuid, "%s", uuid);
        if (strcmp(m->fastest[i].uuid, uuid) == 0)
            return &m->fastest[i].mhz;
    }
    return NULL;
}

/* Whether a GPU clock is below the fastest clock seen on that GPU by more than the fraction
 * max_slower. Also updates the fastest clock. */
static bool gpu_is_slow(struct kvr_machine *m, const char *uuid, double mhz)
{
    double *fastest = uuid[0] ? fastest_of(m, uuid) : NULL;
    const bool slow = fastest && mhz < (1 - max_slower) * *fastest;

    if (fastest && mhz > *fastest)
        *fastest = mhz;
    return slow;
}

void kvr_disturbance_end(struct kvr_disturbance *b, struct kvr_machine *m, int64_t worker_cpu_ns)
{
    const double wall = (double)(kvr_now_ns() - b->start_ns) * m->n_cpus, mhz = kvr_machine_mhz();
    const double busy = (double)(kvr_host_busy_ns() - b->busy_ns - worker_cpu_ns) / wall;
    const double stolen = (double)(kvr_host_stolen_ns() - b->stolen_ns) / wall;
    size_t n = 0;

    add_value(b, "others_share", b->busy_ns ? busy : NAN);
    add_value(b, "stolen_share", b->busy_ns ? stolen : NAN);
    add_value(b, "mhz", mhz > 0 ? mhz : NAN);
    add_value(b, "load", kvr_machine_load());
    if (b->uuid[0] && m->gpus)
        end_gpu(b, m);

    const struct {
        bool is;
        const char *code;
    } codes[] = { { b->busy_ns && busy > max_load, "LOAD" },
                  { b->busy_ns && stolen > max_stolen, "STEAL" },
                  { mhz > 0 && mhz < (1 - max_slower) * m->mhz, "CLOCK" },
                  { m->jobs > 1, "JOBS" },
                  { b->others > 0, "GPU_SHARED" },
                  { b->gpu.reasons & KVR_GPU_SLOWED, "GPU_SLOWED" },
                  { gpu_is_slow(m, b->uuid, b->gpu.mhz), "GPU_CLOCK" } };

    m->mhz = mhz > m->mhz ? mhz : m->mhz;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].is)
            n += (size_t)snprintf(b->codes + n, sizeof b->codes - n, "%s%s", n ? " " : "",
                                  codes[i].code);
}
