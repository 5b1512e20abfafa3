/* worker_memory.h - a cell's device memory by phase: the pool's high-water mark, and NVML's count.
 *
 *     struct kvr_worker_memory m = { 0 };
 *     KVR_TRY(kvr_worker_memory_open(&m, dev));              phase context: the empty device
 *     KVR_TRY(kvr_worker_memory_end(&m, dev, "weights"));    at the end of a phase
 *     KVR_TRY(kvr_worker_memory_answer(&m, answer));         once the answer has metrics
 *     kvr_worker_memory_close(&m);
 *
 * Metrics pool_PHASE_bytes and nvml_PHASE_bytes; the latter is missing, with the reason, if NVML
 * does not report it. The pool retains freed memory, so NVML's count at the end of a phase is its
 * peak. Nothing is measured on the CPU, and on the emulated device only if KVREEL_NVML names a
 * library. */
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
    struct kvr_gpu_states *nvml; /* NULL: unavailable, see `why` */
    char why[200], uuid[KVR_UUID_LEN];
    size_t held; /* bytes reserved by other pools of the process */
    int n;
    struct kvr_memory_phase {
        const char *name; /* borrowed: a literal */
        int64_t pool, nvml;
        char why[200]; /* why NVML is unavailable */
    } phase[KVR_MEMORY_PHASES];
};

enum kvr_status kvr_worker_memory_open(struct kvr_worker_memory *m, struct kvr_dev *dev);
enum kvr_status kvr_worker_memory_end(struct kvr_worker_memory *m, struct kvr_dev *dev,
                                      const char *phase);
/* Counts the memory reserved by `dev` as held while another device is opened. */
enum kvr_status kvr_worker_memory_hold(struct kvr_worker_memory *m, struct kvr_dev *dev);
enum kvr_status kvr_worker_memory_answer(const struct kvr_worker_memory *m, json_t *answer);
void kvr_worker_memory_close(struct kvr_worker_memory *m);

#endif
