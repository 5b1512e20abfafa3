/* gpus.h - a lock per GPU, so that each GPU runs at most one cell (one measured run) at a time,
 * even if several kvreel processes share the machine.
 *
 *     kvr_gpus_open(&g, uuid, n);                     without GPUs, at is always -1
 *     KVR_TRY(kvr_gpu_acquire(&g, &at, &taken));
 *     if (taken) ... kvr_gpus_uuid(&g, at) ... kvr_gpu_release(&g, at);
 *     kvr_gpus_close(&g);
 *
 * The lock is a kernel lock on the file kvreel-UUID.lock in the folder $KVREEL_LOCKS. The default
 * folder is /run/lock, or /tmp if /run/lock is not writable. The kernel releases the lock when the
 * process ends, but the file remains. Concurrent sweeps on one machine therefore share its GPUs:
 * after each cell, any of the sweeps may lock the GPU next. */
#ifndef KVR_RUN_GPUS_H
#define KVR_RUN_GPUS_H

#include <stdbool.h>

#include "harness/core/status.h"
#include "harness/device/info.h"

struct kvr_gpus {
    int n;
    struct {
        char uuid[KVR_UUID_LEN];
        int fd; /* file descriptor of the locked file; -1: this process does not hold the lock */
    } gpu[KVR_MAX_DEVICES];
};

void kvr_gpus_open(struct kvr_gpus *g, const char uuid[][KVR_UUID_LEN], int n);
void kvr_gpus_close(struct kvr_gpus *g); /* releases all GPU locks of this process; accepts {0} */

/* Locks the first free GPU and sets *at to its index. If all GPUs are locked, *taken is false and
 * *at is -1. On a machine without GPUs, no lock is needed, so *taken is true and *at is -1. Returns
 * KVR_EIO if a lock file cannot be created or locked, for example on a file system without
 * locks. */
enum kvr_status kvr_gpu_acquire(struct kvr_gpus *g, int *at, bool *taken);
void kvr_gpu_release(struct kvr_gpus *g, int at); /* accepts -1 */

/* Returns the UUID of the GPU with index `at`, or "" if `at` is -1. */
const char *kvr_gpus_uuid(const struct kvr_gpus *g, int at);

#endif
