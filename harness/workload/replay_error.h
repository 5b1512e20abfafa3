/* replay_error.h - computes the errors of the attention outputs of a replayed trace, compared with
 * the outputs of a BF16 KV cache and with the recorded outputs.
 *
 *     KVR_TRY(kvr_replay_errors_open(&e, &shape, n_chunks, true));
 *     for each pass:
 *         KVR_TRY(kvr_replay_errors_begin(e, &pass));
 *         for each layer: KVR_TRY(kvr_replay_errors_add(e, &pass, layer, &call, q, k, v, out));
 *         KVR_TRY(kvr_replay_errors_end(e));
 *     kvr_replay_errors_result(e, &result);
 *     kvr_replay_errors_close(&e);
 *
 * The BF16 KV cache uses a separate CPU device handle, so that its memory does not count as the
 * method's memory. */
#ifndef KVR_WORKLOAD_REPLAY_ERROR_H
#define KVR_WORKLOAD_REPLAY_ERROR_H

#include "harness/workload/replay.h"

struct kvr_replay_errors;

/* If `compare` is false, attention outputs are compared with the recorded outputs only, not with a
 * BF16 KV cache. */
enum kvr_status kvr_replay_errors_open(struct kvr_replay_errors **out,
                                       const struct kvr_cache_shape *shape, int n_chunks,
                                       bool compare);
void kvr_replay_errors_close(struct kvr_replay_errors **e);

enum kvr_status kvr_replay_errors_begin(struct kvr_replay_errors *e, const struct kvr_pass *pass);
/* Computes the errors of one layer's attention call, and adds them to the sums in `e`. The queries
 * q, the method's output `out` [T,H,D] and the keys and values k, v [T,Hkv,D] are in host memory.
 * For a pass without queries, the arguments call, q and out must be NULL. */
enum kvr_status kvr_replay_errors_add(struct kvr_replay_errors *e, const struct kvr_trace_pass *p,
                                      int layer, const struct kvr_trace_call *call, const float *q,
                                      const float *k, const float *v, const float *out);
enum kvr_status kvr_replay_errors_end(struct kvr_replay_errors *e);

/* Sets the fields `all`, `chunk` and `recorded_rel` of *out. */
void kvr_replay_errors_result(const struct kvr_replay_errors *e, struct kvr_replay_result *out);

#endif
