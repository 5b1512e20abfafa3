/* worker_job.h - state of a worker that measures a cell: request, inputs, and the partial answer.
 *
 *     KVR_TRY(kvr_worker_open_truth(j, config));           worker_inputs.c
 *     KVR_TRY(kvr_worker_answer_frames(j, config, &r));    worker_frames.c
 *
 * Only worker.c, worker_inputs.c and worker_frames.c include this header. */
#ifndef KVR_RUN_WORKER_JOB_H
#define KVR_RUN_WORKER_JOB_H

#include <jansson.h>
#include <stdbool.h>

#include "harness/core/sha256.h"
#include "harness/run/worker_memory.h"
#include "harness/store/record.h"
#include "harness/store/setting.h"
#include "harness/workload/truth.h"
#include "harness/workload/workload.h"

#define KVR_WORKER_REQUEST "worker's request" /* name of the request in error messages */

enum { KVR_WORKER_ARTIFACTS = 3 };

struct kvr_worker_job {
    json_t *request, *spec; /* spec: borrowed */
    const char *model_dir, *out_dir, *frames, *video, *reference, *reference_sha256;
    const char *scheme, *sha256, *prompt;
    struct kvr_settings set;
    const char *device; /* device name, if the cell's key contains it */
    bool device_full;   /* a memory allocation on the device failed */
    int64_t memory_bytes, device_bytes;
    struct kvr_worker_memory memory; /* device memory by phase */
    struct kvr_truth truth;          /* recorded clip, or {0} if the cell has no clip */
    int64_t given;
    float *first;     /* first latent frame of the video (NULL: the model generates the frame) */
    float *embedding; /* embeddings [n_embeddings, text_len, text_dim] (NULL: the model reads the
                       * prompt's text) */
    int n_embeddings;
    json_t *answer;
    int n_artifacts;
    struct kvr_row_artifact artifact[KVR_WORKER_ARTIFACTS];
    char sha[KVR_WORKER_ARTIFACTS][KVR_SHA256_HEX], truth_name[64]; /* borrowed by the artifacts */
};

/* Sets a key of the answer and takes ownership of `value`. If `value` is NULL, the status is
 * KVR_ENOMEM. */
enum kvr_status kvr_worker_add(struct kvr_worker_job *j, const char *key, json_t *value);

/* Opens the recorded clip of the cell and checks that its hash is that in the cell's key. The call
 * does nothing for a cell without a clip. */
enum kvr_status kvr_worker_open_truth(struct kvr_worker_job *j, const struct kvr_model_config *c);
/* Encodes the first frame's image, after checking its hash. The encoding runs on a separate device,
 * so the cell's memory and time do not include it. */
enum kvr_status kvr_worker_encode_image(struct kvr_worker_job *j, const struct kvr_dev *dev,
                                        const struct kvr_model *model);
/* Reads the prompt's embedding, after checking its hash. A prompt with several shots has one
 * embedding per shot. */
enum kvr_status kvr_worker_open_embedding(struct kvr_worker_job *j,
                                          const struct kvr_model_config *c);

/* Writes the frames, the ground truth and the video below out_dir, and adds artifacts and metrics
 * to the answer. */
enum kvr_status kvr_worker_answer_frames(struct kvr_worker_job *j, const struct kvr_model_config *c,
                                         const struct kvr_rollout_result *r);
/* Adds the metrics of a cell without frames, which measures only memory and time: every value is
 * NULL with the reason `why`. */
enum kvr_status kvr_worker_answer_no_frames(struct kvr_worker_job *j, const char *why);

#endif
