/* saliency.h - how much a latent frame matters: FlowCache's score.
 *
 *     summary[f,h] = mean |K| + mean |V|            over the frame's tokens and channels
 *     delta[f]     = mean_h |summary[f] - reference| / max(mean_h |reference|, 1e-6)
 *     score[f]     = delta_weight * delta[f] + recency_weight * f/(n-1)
 *
 * The readings differ in the reference. As intended a frame is compared with the frame before
 * it in time, once, when its keys and values are new; the first frame has delta 1. As the study
 * ran it the whole cache is summarised again at every call, and the LAST o = min(n_prev, n)
 * frames of both lists are compared, so that after growth by a chunk frame i meets frame i-3,
 * the first frames keep delta 1, and a frame pruned to zeros makes deltas of 1e5.
 *
 * The tiers and the retention `saliency` share one kvr_policy_state: the tiers score and leave
 * the scores, the retention that follows in the same call takes them. A fresh state is {0}; to
 * forget a video, kvr_buf_free(&state->buf) and set {0}.
 *
 * A mean is summed in double (abs_sum.h per token and head, tokens in order) and rounded to
 * float once; the rest is float, as torch computes it. */
#ifndef KVR_METHODS_KERNELS_SALIENCY_H
#define KVR_METHODS_KERNELS_SALIENCY_H

#include "methods/kernels/topk.h"
#include "methods/policy.h"

struct kvr_saliency_rule {
    double delta_weight, recency_weight;
    bool every_call; /* study: score at every call; else when the number of frames changes */
};

/* What has become of a frame (intended reading: nothing comes back). */
enum kvr_frame_level {
    KVR_FRAME_FINE,   /* never left the fine tiers */
    KVR_FRAME_COARSE, /* was in tier 0 once */
    KVR_FRAME_GONE,   /* was given up */
};

/* Borrowed from the state until its next use. */
struct kvr_saliency {
    int64_t n;               /* frames, the last may be partial */
    const float *delta;      /* [n] */
    const float *score;      /* [n] */
    uint8_t *level;          /* [n] enum kvr_frame_level; written by the parts, intended only */
    struct kvr_ranked *rank; /* [n] scratch, so that a plan needs no memory of its own */
};

/* Score the frames of ctx. With k and v NULL every delta is 1. On failure the state is as it was;
 * this is the only place of the two parts where memory can run out, or a device fail. On CUDA it
 * waits for the summaries of the frames given. */
enum kvr_status kvr_saliency_score(const struct kvr_saliency_rule *rule,
                                   const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                                   struct kvr_policy_state *state, struct kvr_saliency *out);

/* Leave the scores of the last kvr_saliency_score for the other part of this call. */
void kvr_saliency_leave(struct kvr_policy_state *state);
/* Take what was left, once. False: nothing was. */
bool kvr_saliency_take(const struct kvr_policy_ctx *ctx, struct kvr_policy_state *state,
                       struct kvr_saliency *out);

/* Frames written so far: ceil(active / S). */
int64_t kvr_frames(const struct kvr_policy_ctx *ctx);
/* Written tokens of frame f: S, fewer in a last partial one. */
int64_t kvr_frame_tokens(const struct kvr_policy_ctx *ctx, int64_t f);
/* Their bytes in the map. */
void kvr_frame_fill(const struct kvr_policy_ctx *ctx, int64_t f, uint8_t byte, uint8_t *map);

/* summary [H] of tokens [t0, t0 + n) of k, v [.,H,D]. */
void kvr_frame_summary(const float *k, const float *v, int64_t t0, int64_t n, int n_heads,
                       int head_dim, float *summary);
/* mean |now - before| / max(mean |before|, 1e-6) over H heads. */
float kvr_summary_delta(const float *now, const float *before, int n_heads);

#endif
