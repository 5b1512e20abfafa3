/* worker_trace.h - a trace's cell in a worker: inputs, and additions to the answer.
 *
 *     struct kvr_trace *t;
 *     ... req.path and req.attend are set ...
 *     KVR_TRY(kvr_worker_trace_open(&t, spec, request, &set, &req));
 *     KVR_TRY(kvr_worker_trace_warm_up(dev, scheme, &req, set.warmup, answer));
 *     ... kvr_replay_run(dev, scheme, &req, NULL, NULL, &result) ...
 *     KVR_TRY(kvr_worker_trace_answer(&result, answer));
 *     kvr_trace_close(&t); */
#ifndef KVR_RUN_WORKER_TRACE_H
#define KVR_RUN_WORKER_TRACE_H

#include <jansson.h>

#include "harness/store/setting.h"
#include "harness/workload/replay.h"

/* Completes the request. KVR_EFORMAT: the trace differs from the one that the plan hashed. */
enum kvr_status kvr_worker_trace_open(struct kvr_trace **out, const json_t *spec,
                                      const json_t *request, const struct kvr_settings *set,
                                      struct kvr_replay_request *req);

/* Runs n warm-up replays; only their times are kept, in `answer`. */
enum kvr_status kvr_worker_trace_warm_up(struct kvr_dev *dev, const struct kvr_scheme *scheme,
                                         const struct kvr_replay_request *req, int n,
                                         json_t *answer);

/* Adds recorded_rel and, if outputs are compared, attn_out_mse, attn_out_rel and attn_out_cos with
 * a series by chunk. */
enum kvr_status kvr_worker_trace_answer(const struct kvr_replay_request *req,
                                        const struct kvr_replay_result *r, json_t *answer);

#endif
