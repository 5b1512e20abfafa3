/* gpus.h - one cell per GPU, whoever runs it: a lock per GPU, for the time of a cell.
 *
 *     kvr_gpus_open(&g, uuid, n);                     without GPUs every take is at -1
 *     KVR_TRY(kvr_gpu_take(&g, &at, &taken));
 *     if (taken) ... kvr_gpus_uuid(&g, at) ... kvr_gpu_give(&g, at);
 *     kvr_gpus_close(&g);
 *
 * The lock is a file kvreel-UUID.lock in $KVREEL_LOCKS, else in /run/lock, else in /tmp. It is the
 * kernel's and ends with the process, however that ends; the file stays. Several sweeps on one
 * machine share its GPUs by it, cell by cell. */
#ifndef KVR_RUN_GPUS_H
#define KVR_RUN_GPUS_H

#include <stdbool.h>

#include "harness/core/status.h"
#include "harness/device/info.h"

struct kvr_gpus {
    int n;
    struct {
        char uuid[KVR_UUID_LEN];
        int fd; /* -1: not ours */
    } gpu[KVR_MAX_DEVICES];
};

void kvr_gpus_open(struct kvr_gpus *g, const char uuid[][KVR_UUID_LEN], int n);
void kvr_gpus_close(struct kvr_gpus *g); /* gives all back; copes with {0} */

/* The first GPU that nobody has. False: all are taken, here or by others, and *at is -1. KVR_EIO:
 * a lock cannot be made. */
enum kvr_status kvr_gpu_take(struct kvr_gpus *g, int *at, bool *taken);
void kvr_gpu_give(struct kvr_gpus *g, int at); /* copes with -1 */

/* "" for -1. */
const char *kvr_gpus_uuid(const struct kvr_gpus *g, int at);

#endif
