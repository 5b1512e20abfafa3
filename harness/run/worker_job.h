/* worker_job.h - state of a worker process that measures a cell (one run of one method): request,
 * inputs, and the results that the worker has computed so far.
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
    const char *device; /* name of the device, or NULL if the cell's key does not depend on the
                         * device */
    bool device_full;   /* whether a memory allocation on the device failed */
    int64_t memory_bytes, device_bytes;
    struct kvr_worker_memory memory; /* device memory by phase */
    struct kvr_truth truth;          /* recorded clip with the ground truth, or {0} if the cell has
                                      * no clip */
    int64_t given;
    float *first;     /* first latent frame of the video, encoded from an image (NULL: the model
                       * generates the frame) */
    float *embedding; /* text embeddings of the prompt's shots [n_embeddings, text_len, text_dim]
                       * (NULL: the model encodes the prompt's text) */
    int n_embeddings;
    json_t *answer;
    int n_artifacts;
    struct kvr_row_artifact artifact[KVR_WORKER_ARTIFACTS];
    char sha[KVR_WORKER_ARTIFACTS][KVR_SHA256_HEX], truth_name[64]; /* storage for strings that
                                                                     * `artifact` points to: hex
                                                                     * hashes of the files, and the
                                                                     * name of the ground-truth
                                                                     * file */
};

/* Sets the entry `key` of the JSON answer to `value`, and takes ownership of `value`. If `value` is
 * NULL, returns KVR_ENOMEM. */
enum kvr_status kvr_worker_add(struct kvr_worker_job *j, const char *key, json_t *value);

/* Opens the recorded clip of the cell, and checks that the clip's hash is the hash in the cell's
 * spec. The call does nothing for a cell without a clip. */
enum kvr_status kvr_worker_open_truth(struct kvr_worker_job *j, const struct kvr_model_config *c);
/* Encodes the image that the cell's spec gives as first frame of the video, after checking the
 * image's hash. Encoding uses a separate device handle, so that its memory and time do not count as
 * the cell's. */
enum kvr_status kvr_worker_encode_image(struct kvr_worker_job *j, const struct kvr_dev *dev,
                                        const struct kvr_model *model);
/* Reads the prompt's text embedding, after checking the embedding's hash. A prompt with several
 * shots has one embedding per shot. */
enum kvr_status kvr_worker_open_embedding(struct kvr_worker_job *j,
                                          const struct kvr_model_config *c);

/* Writes the frames, the ground truth and the MP4 video to files below out_dir. Adds the list of
 * these files and the metrics to the answer. */
enum kvr_status kvr_worker_answer_frames(struct kvr_worker_job *j, const struct kvr_model_config *c,
                                         const struct kvr_rollout_result *r);
/* Adds the metrics of a cell without frames, which measures only memory and time: every value is
 * NULL with the reason `why`. */
enum kvr_status kvr_worker_answer_no_frames(struct kvr_worker_job *j, const char *why);

#endif
