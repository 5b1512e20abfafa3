/* worker_pace.h - measures a cell's frames per second (setting `fps`): transformer alone, and with
 * each decoder.
 *
 *     KVR_TRY(kvr_worker_pace_run(&p, dev, scheme, &req, model_dir, out_dir, 0, r.wall_ns));
 *     KVR_TRY(kvr_worker_pace_answer(&p, answer));     after metrics and samples are in the answer
 *
 * Metrics fps_transformer, fps_vae, fps_taehv; peak_vae_bytes and peak_taehv_bytes; samples paced_*
 * (wall time of the rollout) and decoded_* (decoding within it). A value that cannot be measured is
 * missing, with the reason. */
#ifndef KVR_RUN_WORKER_PACE_H
#define KVR_RUN_WORKER_PACE_H

#include <jansson.h>

#include "harness/workload/pace.h"

struct kvr_worker_pace {
    int frames;      /* pixel frames; 0: not measured */
    int64_t wall_ns; /* wall time of the measured rollout; 0: that time included decoding
                      * (overlap_decode) */
    struct kvr_pace pace[KVR_N_DECODERS];
    char missing[KVR_N_DECODERS][512]; /* "": measured */
};

/* Runs one more rollout per decoder. A model with random weights and no decoder file gets a random
 * one in out_dir/drawn. overlap_threads: see kvr_pace_run. A decoder that does not fit the device's
 * memory is missing; other errors are those of the cell. */
enum kvr_status kvr_worker_pace_run(struct kvr_worker_pace *p, struct kvr_dev *dev,
                                    const struct kvr_scheme *scheme,
                                    const struct kvr_rollout_request *req, const char *model_dir,
                                    const char *out_dir, int overlap_threads, int64_t wall_ns);
enum kvr_status kvr_worker_pace_answer(const struct kvr_worker_pace *p, json_t *answer);

#endif
