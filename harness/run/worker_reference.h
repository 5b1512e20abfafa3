/* worker_reference.h - computes or loads the teacher of cells with forcing: a BF16 rollout whose
 * chunks replace the method's own past. The teacher is the same for all methods.
 *
 *     KVR_TRY(kvr_worker_reference(request, spec, out_dir, dev, &req, &teacher));
 *     ... kvr_rollout_run() with req.teacher = teacher ...
 *     free(teacher);
 *
 * The file out_dir/teacher/HASH.safetensors stores the latents that the teacher predicts in each
 * denoising step, as the F32 tensor "x0" [chunks, steps, frames_per_chunk, frame_elems]. The file's
 * metadata has the SHA-256 of the tensor's bytes. HASH is the hash of everything that determines
 * the rollout: the cell's spec without method and metrics, the build, the processor and the kernel
 * variants. */
#ifndef KVR_RUN_WORKER_REFERENCE_H
#define KVR_RUN_WORKER_REFERENCE_H

#include <jansson.h>

#include "harness/workload/workload.h"

/* Like kvr_rollout_reference(), but reads the teacher from its file if another cell stored it.
 * Otherwise computes the teacher and writes the file. `request` is the worker's JSON request, and
 * `spec` the part of it that describes the cell. The caller frees *teacher. */
enum kvr_status kvr_worker_reference(const json_t *request, const json_t *spec, const char *out_dir,
                                     struct kvr_dev *dev, const struct kvr_rollout_request *req,
                                     float **teacher);

#endif
