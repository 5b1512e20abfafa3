/* replay.h - replays the attention calls of a trace through a method's KV cache.
 *
 *     struct kvr_replay_request req = { .trace = t, .frames = 42, .window_frames = 21, ... };
 *     KVR_TRY(kvr_replay_run(dev, scheme, &req, NULL, NULL, &result));
 *     kvr_replay_result_free(&result);
 *
 * Passes, chunks and layers are replayed in the recorded order. The recorded keys and values are
 * appended to the KV cache, and attention is computed with the recorded queries. The method
 * compresses only the keys and values of cache-update passes; those of other passes are discarded
 * after the pass. A method's outputs do not influence later inputs, so a replay is teacher-forced.
 *
 * If `compare` is set, the replay compares each attention output o^ of the method with the output o
 * of a BF16 KV cache that has the same window, keys and values. The memory and times in `cost`
 * exclude the BF16 KV cache. The errors e = o^ - o of all queries that have a past are summarized
 * as follows:
 *
 *     attn_out_mse   mean of e^2 over all channels;    attn_out_rel   sqrt(sum e^2 / sum o^2)
 *     attn_out_cos   mean over queries and heads of o^ . o / (|o^| |o|); 1 where both are 0
 *
 * `recorded_rel` is computed as attn_out_rel, but against the trace's recorded attention outputs
 * instead of the outputs o. For method BF16, `recorded_rel` validates the trace: it is 0 if the
 * replay reproduces the recorded outputs bit for bit. */
#ifndef KVR_WORKLOAD_REPLAY_H
#define KVR_WORKLOAD_REPLAY_H

#include "harness/workload/trace/trace.h"
#include "harness/workload/workload.h"

struct kvr_replay_request {
    const struct kvr_trace *trace;
    int frames;        /* number of frames to replay, from the start of the trace: a multiple of the
                        * frames per chunk, or the trace's number of frames */
    int n_layers;      /* number of layers to replay, from the first layer (0: all layers) */
    int window_frames; /* 0 = all */
    int sink_frames;
    bool evict;
    enum kvr_path path;
    enum kvr_attend_as attend;
    int64_t staged_bytes;            /* see struct kvr_cache_shape */
    kvr_cache_observer_fn *observer; /* called for every attention call; NULL in timed runs */
    void *observer_ctx;
    bool phases;  /* whether to measure each pass's time for encoding, decoding and attention
                   * separately; false in timed runs, which the measurement would slow down */
    bool compare; /* whether to compare the method's attention outputs with those of a BF16 KV
                   * cache */
};

/* The errors attn_out_mse, attn_out_rel and attn_out_cos, defined at the beginning of this file,
 * over the queries of one chunk or of all chunks. They are NaN if no outputs were compared. */
struct kvr_replay_error {
    int64_t queries;
    double out_mse, out_rel, out_cos;
};

struct kvr_replay_result {
    struct kvr_replay_error all, *chunk; /* chunk [cost.n_chunks], owned */
    double recorded_rel;                 /* relative L2 error of attention outputs against the
                                          * recorded outputs, or NaN if the trace has no outputs */
    struct kvr_rollout_result cost;      /* time and memory of the replay, in total and per pass;
                                          * the field rgb is NULL */
};

/* Returns KVR_EINVAL if the request has more frames or layers than the trace, or if the requested
 * frames end inside a chunk. Returns KVR_ENAN if a query, key or value of the trace, or an
 * attention output, is not finite. */
enum kvr_status kvr_replay_run(struct kvr_dev *dev, const struct kvr_scheme *scheme,
                               const struct kvr_replay_request *req, kvr_progress_fn *progress,
                               void *progress_ctx, struct kvr_replay_result *out);
void kvr_replay_result_free(struct kvr_replay_result *r);

#endif
