/* saliency.h - FlowCache's saliency score of a latent frame.
 *
 *     summary[f,h] = mean |K| + mean |V|            over the frame's tokens and channels
 *     delta[f]     = mean_h |summary[f] - reference| / max(mean_h |reference|, 1e-6)
 *     score[f]     = delta_weight * delta[f] + recency_weight * f/(n-1)
 *
 * The readings differ in the reference. In the intended reading a frame is compared with its
 * predecessor once, when its keys and values are new; the first frame has delta 1. In the study's
 * reading the whole cache is summarised again at every call, and the LAST o = min(n_prev, n) frames
 * of both lists are compared. After a chunk of three frames, frame i is therefore compared with
 * frame i-3, the first frames keep delta 1, and a frame pruned to zeros gives deltas of 1e5.
 *
 * The tiers and the retention `saliency` share one kvr_policy_state: the tiers compute the scores,
 * and the retention of the same call reuses them. A fresh state is {0}; to reset,
 * kvr_buf_free(&state->buf) and set {0}.
 *
 * Means are summed in double (abs_sum.h per token and head, tokens in order) and rounded to float
 * once; all else is computed in float, as in torch. */
#ifndef KVR_METHODS_KERNELS_SALIENCY_H
#define KVR_METHODS_KERNELS_SALIENCY_H

#include "methods/kernels/topk.h"
#include "methods/policy.h"

struct kvr_saliency_rule {
    double delta_weight, recency_weight;
    bool every_call; /* true in the study's reading: score at every call; otherwise only when the
                      * number of frames changes */
};

/* State of a frame. In the intended reading it never returns to an earlier state. */
enum kvr_frame_level {
    KVR_FRAME_FINE,   /* always in the fine tiers */
    KVR_FRAME_COARSE, /* was in tier 0 */
    KVR_FRAME_GONE,   /* evicted */
};

/* Borrowed from the state until its next use. */
struct kvr_saliency {
    int64_t n;               /* frames; the last may be partial */
    const float *delta;      /* [n] */
    const float *score;      /* [n] */
    uint8_t *level;          /* [n] enum kvr_frame_level; written by the parts, intended only */
    struct kvr_ranked *rank; /* [n] scratch for planning */
};

/* Scores the frames of ctx. With k and v NULL every delta is 1. On failure the state is unchanged.
 * Only this call of the two parts can run out of memory or return a device error. On CUDA it
 * synchronises for the summaries. */
enum kvr_status kvr_saliency_score(const struct kvr_saliency_rule *rule,
                                   const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                                   struct kvr_policy_state *state, struct kvr_saliency *out);

/* Makes the scores of the last kvr_saliency_score available to the retention of this call. */
void kvr_saliency_publish(struct kvr_policy_state *state);
/* Takes the published scores, once. False if there are none. */
bool kvr_saliency_take(const struct kvr_policy_ctx *ctx, struct kvr_policy_state *state,
                       struct kvr_saliency *out);

/* Frames written so far: ceil(active / S). */
int64_t kvr_frames(const struct kvr_policy_ctx *ctx);
/* Written tokens of frame f: S, or fewer in a partial last frame. */
int64_t kvr_frame_tokens(const struct kvr_policy_ctx *ctx, int64_t f);
/* Sets the bytes of frame f's written tokens in `map` (policy.h) to `byte`. */
void kvr_frame_fill(const struct kvr_policy_ctx *ctx, int64_t f, uint8_t byte, uint8_t *map);

/* summary [H] of tokens [t0, t0 + n) of k, v [.,H,D]. */
void kvr_frame_summary(const float *k, const float *v, int64_t t0, int64_t n, int n_heads,
                       int head_dim, float *summary);
/* mean |now - before| / max(mean |before|, 1e-6) over H heads. */
float kvr_summary_delta(const float *now, const float *before, int n_heads);

#endif
