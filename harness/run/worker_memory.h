/* worker_memory.h - measures the device memory of a cell (one run) in phases such as loading
 * weights: the memory pool's high-water mark, and the process's memory as reported by NVML.
 *
 *     struct kvr_worker_memory m = { 0 };
 *     KVR_TRY(kvr_worker_memory_open(&m, dev));              phase context: the empty device
 *     KVR_TRY(kvr_worker_memory_end(&m, dev, "weights"));    at the end of a phase
 *     KVR_TRY(kvr_worker_memory_answer(&m, answer));         once the answer has metrics
 *     kvr_worker_memory_close(&m);
 *
 * The worker's JSON answer gets the metrics pool_PHASE_bytes and nvml_PHASE_bytes. If NVML does not
 * report the process's memory, nvml_PHASE_bytes has a reason instead of a value. The pool does not
 * return freed memory to the driver, so the process's memory at the end of a phase is the peak
 * since the process started. On the CPU nothing is measured. On the emulated CUDA device, nothing
 * is measured unless KVREEL_NVML names a library that replaces NVML. */
#ifndef KVR_RUN_WORKER_MEMORY_H
#define KVR_RUN_WORKER_MEMORY_H

#include <jansson.h>
#include <stdbool.h>

#include "harness/device/dev.h"
#include "harness/device/gpu_state.h"
#include "harness/device/info.h"

enum { KVR_MEMORY_PHASES = 8 };

struct kvr_worker_memory {
    bool on;
    struct kvr_gpu_states *nvml; /* handle of NVML; NULL: NVML is unavailable, for the reason in
                                  * `why` */
    char why[200], uuid[KVR_UUID_LEN];
    size_t held; /* bytes that the rollout's device handle keeps reserved while a second handle
                  * decodes; added to the pool bytes of later phases */
    int n;
    struct kvr_memory_phase {
        const char *name; /* borrowed: a literal */
        int64_t pool, nvml;
        char why[200]; /* why `nvml` has no value for this phase */
    } phase[KVR_MEMORY_PHASES];
};

enum kvr_status kvr_worker_memory_open(struct kvr_worker_memory *m, struct kvr_dev *dev);
enum kvr_status kvr_worker_memory_end(struct kvr_worker_memory *m, struct kvr_dev *dev,
                                      const char *phase);
/* Sets m->held to the bytes that the memory pool of `dev` has reserved. Call it before a phase that
 * runs on another device handle: that handle's pool does not contain these bytes, so
 * kvr_worker_memory_end() adds them. */
enum kvr_status kvr_worker_memory_hold(struct kvr_worker_memory *m, struct kvr_dev *dev);
enum kvr_status kvr_worker_memory_answer(const struct kvr_worker_memory *m, json_t *answer);
void kvr_worker_memory_close(struct kvr_worker_memory *m);

#endif
