/* disturbance.h - detects disturbances while a cell runs: other programs, hypervisor, clocks, GPU.
 *
 *     KVR_TRY(kvr_machine_open(&m, n_cpus, jobs, asks_gpus));           once for a session
 *     kvr_disturbance_begin(&b, &m, uuid);                        when a cell's worker starts
 *     kvr_disturbance_sample(&b, &m, now_ns);                       periodically while it runs
 *     kvr_disturbance_end(&b, &m, worker_cpu_ns);                 ... b.codes, b.watch
 *     kvr_machine_close(&m);
 *
 * Every cell is observed, timed or not. A code gives the reason why the cell's time is not used
 * (docs/sweeps.md); the observed numbers are stored in the table `watch`. CPU clocks are compared
 * with the session's fastest, a GPU's clock with its own fastest. The GPU clock of a cell is the
 * maximum of its samples, since the GPU idles while the host computes. */
#ifndef KVR_RUN_DISTURBANCE_H
#define KVR_RUN_DISTURBANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/core/status.h"
#include "harness/device/gpu_state.h"
#include "harness/device/info.h"
#include "harness/store/store.h"

struct kvr_machine {
    int n_cpus, jobs;
    double mhz; /* fastest clock of this session; 0: unknown */
    struct {
        char uuid[KVR_UUID_LEN];
        double mhz;
    } fastest[KVR_MAX_DEVICES];  /* fastest clock of each GPU in MHz; the list ends with uuid "" */
    struct kvr_gpu_states *gpus; /* NULL: no GPU, or no NVML */
    char nvml[256];              /* NVML's version, or why it is unavailable; "": not requested */
};

enum { KVR_N_WATCH = 11 };

struct kvr_disturbance {
    int64_t start_ns, busy_ns, stolen_ns, looked_ns; /* the host's counters at the start */
    char uuid[KVR_UUID_LEN];                         /* "": no GPU */
    double busy_before, others; /* GPU utilisation before the cell; maximum number of other
                                 * processes */
    struct kvr_gpu_state gpu;   /* maximum of each number, and all throttle reasons */
    struct kvr_row_watch watch[KVR_N_WATCH];
    int n_watch;
    char codes[96];
};

/* `asks_gpus`: try NVML. Unavailable information is not an error; KVR_ENOMEM is. */
enum kvr_status kvr_machine_open(struct kvr_machine *m, int n_cpus, int jobs, bool asks_gpus);
void kvr_machine_close(struct kvr_machine *m);
/* Text "GPU-1: most 1980 MHz, limit 700 W, ECC on; GPU-2: ..." about uuid [n_gpus]; "" without
 * NVML. malloc'd; NULL: no memory. */
char *kvr_machine_gpus(const struct kvr_machine *m, const char uuid[][KVR_UUID_LEN], int n_gpus);

/* Called before the worker starts: records the state of its GPU (uuid "": the cell runs on the CPU)
 * and of the machine. */
void kvr_disturbance_begin(struct kvr_disturbance *b, struct kvr_machine *m, const char *uuid);
/* Called while the worker runs, as often as the caller polls; now_ns limits the rate of NVML
 * queries. */
void kvr_disturbance_sample(struct kvr_disturbance *b, const struct kvr_machine *m, int64_t now_ns);
/* Called after the worker has ended: fills codes and watch. worker_cpu_ns: processor time of the
 * worker and its children. */
void kvr_disturbance_end(struct kvr_disturbance *b, struct kvr_machine *m, int64_t worker_cpu_ns);

#endif
