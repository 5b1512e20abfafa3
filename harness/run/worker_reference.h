/* worker_reference.h - the BF16 rollout that serves as teacher for forced cells, computed once for
 * all methods.
 *
 *     KVR_TRY(kvr_worker_reference(request, spec, out_dir, dev, &req, &teacher));
 *     ... kvr_rollout_run() with req.teacher = teacher ...
 *     free(teacher);
 *
 * Stored as out_dir/teacher/HASH.safetensors, tensor "x0" [chunks, steps, frames_per_chunk,
 * frame_elems] F32, with the sha256 of its bytes. HASH covers what determines the rollout: the
 * cell's spec without method and metrics, the build, the processor and its kernels. */
#ifndef KVR_RUN_WORKER_REFERENCE_H
#define KVR_RUN_WORKER_REFERENCE_H

#include <jansson.h>

#include "harness/workload/workload.h"

/* Like kvr_rollout_reference(): reads another cell's complete file, else computes and stores it.
 * `request` and `spec` are the worker's. The caller frees *teacher. */
enum kvr_status kvr_worker_reference(const json_t *request, const json_t *spec, const char *out_dir,
                                     struct kvr_dev *dev, const struct kvr_rollout_request *req,
                                     float **teacher);

#endif
