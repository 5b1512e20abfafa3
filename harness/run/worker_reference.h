/* worker_reference.h - the BF16 rollout that a forced cell goes on from, made once for all methods.
 *
 *     KVR_TRY(kvr_worker_reference(request, spec, out_dir, dev, &req, &teacher));
 *     ... kvr_rollout_run() with req.teacher = teacher ...
 *     free(teacher);
 *
 * Kept as out_dir/teacher/HASH.safetensors, tensor "x0" [chunks, steps, frames_per_chunk,
 * frame_elems] F32, with the sha256 of its bytes. HASH is of what decides the rollout: all of the
 * cell's spec but the method and what is measured, the build, the processor and its kernels. */
#ifndef KVR_RUN_WORKER_REFERENCE_H
#define KVR_RUN_WORKER_REFERENCE_H

#include <jansson.h>

#include "harness/workload/workload.h"

/* As kvr_rollout_reference(): read where another cell has left it and it is whole, else made and
 * left. `request` and `spec` are the worker's. The caller frees *teacher. */
enum kvr_status kvr_worker_reference(const json_t *request, const json_t *spec, const char *out_dir,
                                     struct kvr_dev *dev, const struct kvr_rollout_request *req,
                                     float **teacher);

#endif
