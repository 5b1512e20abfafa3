/* worker_trace.h - opens the trace (recorded queries, keys and values) for a cell that replays the
 * trace, and adds the cell's results to the worker's JSON answer.
 *
 *     struct kvr_trace *t;
 *     ... req.path and req.attend are set ...
 *     KVR_TRY(kvr_worker_trace_open(&t, spec, request, &set, &req));
 *     KVR_TRY(kvr_worker_trace_warm_up(dev, scheme, &req, set.warmup, answer));
 *     ... kvr_replay_run(dev, scheme, &req, NULL, NULL, &result) ...
 *     KVR_TRY(kvr_worker_trace_answer(&req, &result, answer));
 *     kvr_trace_close(&t); */
#ifndef KVR_RUN_WORKER_TRACE_H
#define KVR_RUN_WORKER_TRACE_H

#include <jansson.h>

#include "harness/store/setting.h"
#include "harness/workload/replay.h"

/* Opens the trace, and sets the fields of `req` that select the trace, its frames and layers, the
 * attention window and sink, and the eviction of tokens. Returns KVR_EFORMAT if the trace was
 * modified after the sweep was planned. */
enum kvr_status kvr_worker_trace_open(struct kvr_trace **out, const json_t *spec,
                                      const json_t *request, const struct kvr_settings *set,
                                      struct kvr_replay_request *req);

/* Runs n warm-up replays and adds their times to `answer`; other results are discarded. */
enum kvr_status kvr_worker_trace_warm_up(struct kvr_dev *dev, const struct kvr_scheme *scheme,
                                         const struct kvr_replay_request *req, int n,
                                         json_t *answer);

/* Adds the metric recorded_rel, the attention error against the recorded outputs, to the answer. If
 * outputs are compared with those of a BF16 KV cache, also adds attn_out_mse, attn_out_rel and
 * attn_out_cos, each with one value per chunk. */
enum kvr_status kvr_worker_trace_answer(const struct kvr_replay_request *req,
                                        const struct kvr_replay_result *r, json_t *answer);

#endif
