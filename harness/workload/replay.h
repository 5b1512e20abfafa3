/* replay.h - replays a trace's attention through a method's cache.
 *
 *     struct kvr_replay_request req = { .trace = t, .frames = 42, .window_frames = 21, ... };
 *     KVR_TRY(kvr_replay_run(dev, scheme, &req, NULL, NULL, &result));
 *     kvr_replay_result_free(&result);
 *
 * Passes, chunks and layers run in the recorded order: the cache takes their keys and values, codes
 * those of clean passes, and attends with their queries. A method's outputs never feed back: the
 * trace acts as a teacher.
 *
 * With `compare` every attention output o^ is compared with o of a BF16 cache with the same window,
 * keys and values, whose memory and time are not counted. Over queries with a past, with e = o^ -
 * o:
 *
 *     attn_out_mse   mean of e^2 over all channels;    attn_out_rel   sqrt(sum e^2 / sum o^2)
 *     attn_out_cos   mean over queries and heads of o^ . o / (|o^| |o|); 1 where both are 0
 *
 * `recorded_rel` is attn_out_rel against the recorded output instead of o. For BF16 it validates
 * the trace; 0 means bit-identical. */
#ifndef KVR_WORKLOAD_REPLAY_H
#define KVR_WORKLOAD_REPLAY_H

#include "harness/workload/trace/trace.h"
#include "harness/workload/workload.h"

struct kvr_replay_request {
    const struct kvr_trace *trace;
    int frames;        /* number of first frames to replay: whole chunks, or all frames */
    int n_layers;      /* number of first layers to replay; 0: all */
    int window_frames; /* 0 = all */
    int sink_frames;
    bool evict;
    enum kvr_path path;
    enum kvr_attend_as attend;
    int64_t staged_bytes;            /* see struct kvr_cache_shape */
    kvr_cache_observer_fn *observer; /* sees every call; NULL in timed runs */
    void *observer_ctx;
    bool phases;  /* record each pass's time by phase; not in a timed run */
    bool compare; /* compare outputs with those of a BF16 cache */
};

/* Means over a chunk, or over all chunks. NaN if nothing was compared. */
struct kvr_replay_error {
    int64_t queries;
    double out_mse, out_rel, out_cos;
};

struct kvr_replay_result {
    struct kvr_replay_error all, *chunk; /* chunk [cost.n_chunks], owned */
    double recorded_rel;                 /* NaN: the trace has no outputs */
    struct kvr_rollout_result cost;      /* times, bytes, passes; no frames */
};

/* KVR_EINVAL: more frames or layers than the trace has, or part of a chunk. KVR_ENAN: a query, key
 * or value of the trace, or an output, is not finite. */
enum kvr_status kvr_replay_run(struct kvr_dev *dev, const struct kvr_scheme *scheme,
                               const struct kvr_replay_request *req, kvr_progress_fn *progress,
                               void *progress_ctx, struct kvr_replay_result *out);
void kvr_replay_result_free(struct kvr_replay_result *r);

#endif
