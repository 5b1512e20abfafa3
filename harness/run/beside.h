/* beside.h - what the machine does beside a cell: other programs, a hypervisor, clocks, and its
 * GPU.
 *
 *     KVR_TRY(kvr_machine_open(&m, n_cpus, jobs, asks_gpus));           once for a session
 *     kvr_beside_begin(&b, &m, uuid);                        when a cell's worker starts
 *     kvr_beside_look(&b, &m, now_ns);                       now and then while it runs
 *     kvr_beside_end(&b, &m, worker_cpu_ns);                 ... b.codes, b.watch
 *     kvr_machine_close(&m);
 *
 * Every cell is looked at, timed or not. A code says why its time does not count (docs/sweeps.md);
 * the numbers go into the table `watch`. Clocks are held against the fastest that the session has
 * seen, a GPU's against its own: the fastest of the cell, because it rests while the host computes. */
#ifndef KVR_RUN_BESIDE_H
#define KVR_RUN_BESIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/core/status.h"
#include "harness/device/gpu_state.h"
#include "harness/device/info.h"
#include "harness/store/store.h"

struct kvr_machine {
    int n_cpus, jobs;
    double mhz; /* the fastest clock of this session; 0: not known */
    struct {
        char uuid[KVR_UUID_LEN];
        double mhz;
    } fastest[KVR_MAX_DEVICES];  /* the same of each GPU, "" behind the last */
    struct kvr_gpu_states *gpus; /* NULL: none, or they cannot be asked */
    char nvml[256];              /* what answers, or why nothing does; "": not asked */
};

enum { KVR_N_WATCH = 11 };

struct kvr_beside {
    int64_t start_ns, busy_ns, stolen_ns, looked_ns; /* the host's counters when it began */
    char uuid[KVR_UUID_LEN];                         /* "": no GPU */
    double busy_before, others; /* share in which the GPU worked, most processes but the worker */
    struct kvr_gpu_state gpu;   /* most of each number, and all reasons */
    struct kvr_row_watch watch[KVR_N_WATCH];
    int n_watch;
    char codes[96];
};

/* `asks_gpus`: NVML is looked for. What cannot be known is not, and no failure; KVR_ENOMEM is one. */
enum kvr_status kvr_machine_open(struct kvr_machine *m, int n_cpus, int jobs, bool asks_gpus);
void kvr_machine_close(struct kvr_machine *m);
/* "GPU-1: most 1980 MHz, limit 700 W, ECC on; GPU-2: ..." of the uuid [n_gpus]; "" where nothing
 * can be asked. Malloc'ed; NULL: no memory. */
char *kvr_machine_gpus(const struct kvr_machine *m, const char uuid[][KVR_UUID_LEN], int n_gpus);

void kvr_beside_begin(struct kvr_beside *b, struct kvr_machine *m, const char *uuid);
void kvr_beside_look(struct kvr_beside *b, const struct kvr_machine *m, int64_t now_ns);
/* worker_cpu_ns: what the worker and its children have computed themselves. */
void kvr_beside_end(struct kvr_beside *b, struct kvr_machine *m, int64_t worker_cpu_ns);

#endif
