/* gpus.h - one cell per GPU across processes: a lock per GPU, held while a cell runs.
 *
 *     kvr_gpus_open(&g, uuid, n);                     without GPUs every take gives at = -1
 *     KVR_TRY(kvr_gpu_acquire(&g, &at, &taken));
 *     if (taken) ... kvr_gpus_uuid(&g, at) ... kvr_gpu_release(&g, at);
 *     kvr_gpus_close(&g);
 *
 * The lock is a file kvreel-UUID.lock in $KVREEL_LOCKS; if that is not set, in /run/lock, or else
 * in /tmp. The kernel releases it when the process ends; the file remains. Concurrent sweeps on one
 * machine share its GPUs this way, cell by cell. */
#ifndef KVR_RUN_GPUS_H
#define KVR_RUN_GPUS_H

#include <stdbool.h>

#include "harness/core/status.h"
#include "harness/device/info.h"

struct kvr_gpus {
    int n;
    struct {
        char uuid[KVR_UUID_LEN];
        int fd; /* -1: not held */
    } gpu[KVR_MAX_DEVICES];
};

void kvr_gpus_open(struct kvr_gpus *g, const char uuid[][KVR_UUID_LEN], int n);
void kvr_gpus_close(struct kvr_gpus *g); /* releases all; accepts {0} */

/* Takes the first free GPU. False: all are taken, by this or other processes, and *at is -1.
 * KVR_EIO: a lock cannot be created. */
enum kvr_status kvr_gpu_acquire(struct kvr_gpus *g, int *at, bool *taken);
void kvr_gpu_release(struct kvr_gpus *g, int at); /* accepts -1 */

/* UUID of GPU `at`; "" for -1. */
const char *kvr_gpus_uuid(const struct kvr_gpus *g, int at);

#endif
