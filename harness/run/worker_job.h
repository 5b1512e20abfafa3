/* worker_job.h - a cell while its worker measures it: the request, its inputs, and the answer so far.
 *
 *     KVR_TRY(kvr_worker_open_truth(j, config));           worker_inputs.c
 *     KVR_TRY(kvr_worker_answer_frames(j, config, &r));    worker_frames.c
 *
 * Private to worker.c and these two. */
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

#define KVR_WORKER_REQUEST "worker's request" /* in messages */

enum { KVR_WORKER_ARTIFACTS = 3 };

struct kvr_worker_job {
    json_t *request, *spec; /* spec: borrowed */
    const char *model_dir, *out_dir, *frames, *video, *reference, *reference_sha256;
    const char *scheme, *sha256, *prompt;
    struct kvr_settings set;
    const char *device; /* its name, if part of the key */
    bool device_full;   /* an allocation failed on the device */
    int64_t memory_bytes, device_bytes;
    struct kvr_worker_memory memory; /* on the device */
    struct kvr_truth truth;          /* {0}: none */
    int64_t given;
    float *first;     /* the video's first latent frame; NULL: it is generated */
    float *embedding; /* [n_embeddings, text_len, text_dim]; NULL: the text is used */
    int n_embeddings;
    json_t *answer;
    int n_artifacts;
    struct kvr_row_artifact artifact[KVR_WORKER_ARTIFACTS];
    char sha[KVR_WORKER_ARTIFACTS][KVR_SHA256_HEX], truth_name[64]; /* borrowed by the artifacts */
};

/* Sets a key of the answer; takes `value`, which may be NULL for lack of memory. */
enum kvr_status kvr_worker_add(struct kvr_worker_job *j, const char *key, json_t *value);

/* Inputs of the cell. Each must have the hash that the plan put into the cell's key; a cell without one is KVR_OK. */
enum kvr_status kvr_worker_open_truth(struct kvr_worker_job *j, const struct kvr_model_config *c);
/* The image is encoded on a device of its own: neither its memory nor its time is the cell's. */
enum kvr_status kvr_worker_encode_image(struct kvr_worker_job *j, const struct kvr_dev *dev,
                                        const struct kvr_model *model);
/* A prompt of several shots has an embedding for each. */
enum kvr_status kvr_worker_open_embedding(struct kvr_worker_job *j,
                                          const struct kvr_model_config *c);

/* Writes frames, truth and video below out_dir, and adds artifacts and metrics to the answer. */
enum kvr_status kvr_worker_answer_frames(struct kvr_worker_job *j, const struct kvr_model_config *c,
                                         const struct kvr_rollout_result *r);
/* Only cost is measured: every metric is NULL, with the reason. */
enum kvr_status kvr_worker_answer_no_frames(struct kvr_worker_job *j, const char *why);

#endif
