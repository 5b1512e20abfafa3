/* truth.h - reads recorded clips. A clip's first frames start a rollout; the other frames are
 * compared with the generated frames. A clip is one tensor of 8-bit RGB frames.
 *
 *     struct kvr_truth t;
 *     KVR_TRY(kvr_truth_open(&t, "models/nano/truth.safetensors", "ct01"));
 *     ... t.frames.rgb [n, height, width, 3], t.sha256 ...
 *     kvr_truth_close(&t); */
#ifndef KVR_WORKLOAD_TRUTH_H
#define KVR_WORKLOAD_TRUTH_H

#include "harness/core/safetensors.h"
#include "harness/core/sha256.h"
#include "metrics/metric.h"

struct kvr_truth {
    struct kvr_st *file;
    struct kvr_frames frames;    /* frames in the mapped file; valid until kvr_truth_close */
    char sha256[KVR_SHA256_HEX]; /* SHA-256 of the pixels of all frames */
};

/* Opens the clip named `tensor`, which must be U8 [n, height, width, 3] with positive extents.
 * Error messages name the file and the tensor. After an error there is nothing to close. */
enum kvr_status kvr_truth_open(struct kvr_truth *t, const char *path, const char *tensor);
void kvr_truth_close(struct kvr_truth *t); /* accepts {0} */

/* Returns frames `from` to n - 1 of the clip `f`, without copying the pixels. */
struct kvr_frames kvr_frames_from(const struct kvr_frames *f, int from, int n);

#endif
