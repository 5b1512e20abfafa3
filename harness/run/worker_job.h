/* worker_job.h - state of a worker that measures a cell: the request, its inputs, and the answer so
 * far.
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
    const char *device; /* device name, if part of the key */
    bool device_full;   /* an allocation failed on the device */
    int64_t memory_bytes, device_bytes;
    struct kvr_worker_memory memory; /* device memory by phase */
    struct kvr_truth truth;          /* {0}: the cell has no recorded clip */
    int64_t given;
    float *first;     /* the video's first latent frame; NULL: it is generated */
    float *embedding; /* [n_embeddings, text_len, text_dim]; NULL: the text is used */
    int n_embeddings;
    json_t *answer;
    int n_artifacts;
    struct kvr_row_artifact artifact[KVR_WORKER_ARTIFACTS];
    char sha[KVR_WORKER_ARTIFACTS][KVR_SHA256_HEX], truth_name[64]; /* borrowed by the artifacts */
};

/* Sets a key of the answer. Takes ownership of `value`; NULL means out of memory. */
enum kvr_status kvr_worker_add(struct kvr_worker_job *j, const char *key, json_t *value);

/* Opens the inputs of the cell. Each must have the hash that is part of the cell's key. KVR_OK for
 * a cell without such an input. */
enum kvr_status kvr_worker_open_truth(struct kvr_worker_job *j, const struct kvr_model_config *c);
/* The image is encoded on a separate device, so neither its memory nor its time is part of the
 * cell's. */
enum kvr_status kvr_worker_encode_image(struct kvr_worker_job *j, const struct kvr_dev *dev,
                                        const struct kvr_model *model);
/* A prompt with several shots has one embedding per shot. */
enum kvr_status kvr_worker_open_embedding(struct kvr_worker_job *j,
                                          const struct kvr_model_config *c);

/* Writes frames, truth and video below out_dir, and adds artifacts and metrics to the answer. */
enum kvr_status kvr_worker_answer_frames(struct kvr_worker_job *j, const struct kvr_model_config *c,
                                         const struct kvr_rollout_result *r);
/* For a cell that measures only cost: every metric is NULL, with the reason. */
enum kvr_status kvr_worker_answer_no_frames(struct kvr_worker_job *j, const char *why);

#endif
