/* disturbance.h - detects what disturbs the measured time of a cell (one run): other programs, CPU
 * time stolen by the hypervisor, low clock frequencies, or a throttled GPU.
 *
 *     KVR_TRY(kvr_machine_open(&m, n_cpus, jobs, asks_gpus));           once for a session
 *     kvr_disturbance_begin(&b, &m, uuid);                        when a cell's worker starts
 *     kvr_disturbance_sample(&b, &m, now_ns);                       periodically while it runs
 *     kvr_disturbance_end(&b, &m, worker_cpu_ns);                 ... b.codes, b.watch
 *     kvr_machine_close(&m);
 *
 * The machine is observed during timed and untimed cells. Each disturbance has a code. A cell with
 * at least one code is disturbed, so statistics do not use its time (docs/sweeps.md). The
 * observations are stored in the database's table `watch`. A cell's CPU clock is compared with the
 * fastest CPU clock since the start of this run of kvreel, and its GPU clock with the fastest clock
 * of the same GPU. A cell's GPU clock is the maximum of its samples, because the clock drops while
 * the GPU is idle. */
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
    double mhz; /* fastest CPU clock observed by this process, in MHz (0: unknown) */
    struct {
        char uuid[KVR_UUID_LEN];
        double mhz;
    } fastest[KVR_MAX_DEVICES];  /* fastest clock observed on each GPU, in MHz; an entry with uuid
                                  * "" ends the list */
    struct kvr_gpu_states *gpus; /* handle for queries of GPUs (gpu_state.h); NULL: NVML is
                                  * unavailable or was not requested */
    char nvml[256];              /* NVML's version, or why NVML is unavailable, or "" if NVML was
                                  * not requested */
};

enum { KVR_N_WATCH = 11 };

struct kvr_disturbance {
    int64_t start_ns, busy_ns, stolen_ns, looked_ns; /* start_ns: start time of the cell; busy_ns,
                                                      * stolen_ns: the host's busy and stolen CPU
                                                      * time at the start; looked_ns: time of the
                                                      * last GPU sample */
    char uuid[KVR_UUID_LEN];                         /* "": no GPU */
    double busy_before, others; /* busy_before: GPU utilisation before the cell; others: maximum
                                 * number of other processes on the GPU over the samples */
    struct kvr_gpu_state gpu;   /* maximum of mhz, memory_mhz, celsius and watts over the cell's
                                 * samples; `reasons`: union over the samples; other fields:
                                 * values before the cell */
    struct kvr_row_watch watch[KVR_N_WATCH];
    int n_watch;
    char codes[96];
};

/* Prepares the observation of the machine. If `asks_gpus` is true, also loads NVML. Unavailable
 * information is not an error. KVR_ENOMEM. */
enum kvr_status kvr_machine_open(struct kvr_machine *m, int n_cpus, int jobs, bool asks_gpus);
void kvr_machine_close(struct kvr_machine *m);
/* Returns a text with the maximum clock, memory clock, power limit and ECC mode of the GPUs uuid
 * [n_gpus]. The text is "" if NVML is unavailable. The caller frees the text. Returns NULL if out
 * of memory. */
char *kvr_machine_gpus(const struct kvr_machine *m, const char uuid[][KVR_UUID_LEN], int n_gpus);

/* Records the state of the machine and of GPU `uuid` before a cell's worker process starts. If
 * `uuid` is "", the cell runs on the CPU. */
void kvr_disturbance_begin(struct kvr_disturbance *b, struct kvr_machine *m, const char *uuid);
/* Samples the GPU while the worker runs. The caller may call the function at any rate; it queries
 * NVML only if enough time has passed between the last query and now_ns. */
void kvr_disturbance_sample(struct kvr_disturbance *b, const struct kvr_machine *m, int64_t now_ns);
/* Sets b->codes (the detected disturbances) and b->watch (the observations) after the worker has
 * ended. worker_cpu_ns, the CPU time of the worker and its descendants, is not counted as a
 * disturbance. */
void kvr_disturbance_end(struct kvr_disturbance *b, struct kvr_machine *m, int64_t worker_cpu_ns);

#endif
