/* worker_pace.h - measures decoded frames per second for a cell whose config sets `fps`: with the
 * transformer alone, and with each video decoder.
 *
 *     KVR_TRY(kvr_worker_pace_run(&p, dev, scheme, &req, model_dir, out_dir, 0, r.wall_ns));
 *     KVR_TRY(kvr_worker_pace_answer(&p, answer));     after metrics and samples are in the answer
 *
 * The video decoders are the model's VAE and TAEHV, a small approximation of the VAE's decoder. The
 * worker's JSON answer gets the metrics fps_transformer, fps_vae, fps_taehv, peak_vae_bytes and
 * peak_taehv_bytes. The answer also gets the samples paced_* (wall time of a rollout with decoding)
 * and decoded_* (the decoding time in that rollout). If a metric cannot be measured, the answer has
 * a reason instead of its value. */
#ifndef KVR_RUN_WORKER_PACE_H
#define KVR_RUN_WORKER_PACE_H

#include <jansson.h>

#include "harness/workload/pace.h"

struct kvr_worker_pace {
    int frames;      /* number of decoded frames in pixel space (0: the cell's config does not set
                      * `fps`) */
    int64_t wall_ns; /* wall time of the rollout without decoding (0: unknown, because decoding
                      * overlapped the rollout) */
    struct kvr_pace pace[KVR_N_DECODERS];
    char missing[KVR_N_DECODERS][512]; /* why the decoder was not measured ("": it was measured) */
};

/* Runs one more rollout per decoder. For a model with random weights and no decoder file, writes a
 * decoder file with random weights to out_dir/drawn. If `overlap_threads` is not 0, decoding
 * overlaps the rollout and uses this number of CPU threads. If a decoder does not fit into device
 * memory, its metrics have no value. After any other error the cell fails. */
enum kvr_status kvr_worker_pace_run(struct kvr_worker_pace *p, struct kvr_dev *dev,
                                    const struct kvr_scheme *scheme,
                                    const struct kvr_rollout_request *req, const char *model_dir,
                                    const char *out_dir, int overlap_threads, int64_t wall_ns);
enum kvr_status kvr_worker_pace_answer(const struct kvr_worker_pace *p, json_t *answer);

#endif
