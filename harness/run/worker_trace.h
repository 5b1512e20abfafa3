/* worker_trace.h - runs a cell that replays a trace: opens the inputs and adds results to the
 * answer.
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

/* Opens the trace and sets the remaining fields of `req`. KVR_EFORMAT: the trace's hash is not that
 * in the plan. */
enum kvr_status kvr_worker_trace_open(struct kvr_trace **out, const json_t *spec,
                                      const json_t *request, const struct kvr_settings *set,
                                      struct kvr_replay_request *req);

/* Runs n warm-up replays and adds their times to `answer`; other results are discarded. */
enum kvr_status kvr_worker_trace_warm_up(struct kvr_dev *dev, const struct kvr_scheme *scheme,
                                         const struct kvr_replay_request *req, int n,
                                         json_t *answer);

/* Adds the metric recorded_rel to the answer. If outputs are compared, also adds attn_out_mse,
 * attn_out_rel and attn_out_cos, each with one value per chunk. */
enum kvr_status kvr_worker_trace_answer(const struct kvr_replay_request *req,
                                        const struct kvr_replay_result *r, json_t *answer);

#endif
