/* saliency.h - FlowCache's saliency score of latent frames.
 *
 *     summary[f,h] = mean |K| + mean |V|            over the frame's tokens and channels
 *     delta[f]     = mean_h |summary[f] - reference| / max(mean_h |reference|, 1e-6)
 *     score[f]     = delta_weight * delta[f] + recency_weight * f/(n-1)
 *
 * In the variant of FlowCache's paper, `reference` is the summary of the previous frame. delta is
 * computed once, when the frame's keys and values are new. The first frame has delta 1, since it
 * has no predecessor. In the variant that reproduces the code of the 33-method study, all n cached
 * frames are summarised again at every call. The last o = min(n_prev, n) of the n_prev summaries of
 * the previous call are the references of the last o frames. The other frames have delta 1. If a
 * chunk has three frames, n is n_prev + 3, so frame i is compared with frame i-3. If the reference
 * frame was pruned to zeros, the divisor is 1e-6 and delta is about 1e5.
 *
 * The tier policy `saliency` and the retention policy `saliency` share one kvr_policy_state: the
 * tier policy computes the scores, and the retention policy, which runs next, reuses them. A new
 * state is zero-initialised. To reset a state, free its buffer by kvr_buf_free(&state->buf) and set
 * the state to zeros.
 *
 * For each head, |K| is summed in double: first over the channels of each token (abs_sum.h), then
 * over the frame's tokens. |V| is summed in the same way. The sums over heads in delta are also in
 * double. Each mean is rounded to float once. All other arithmetic is in float, as in torch. */
#ifndef KVR_METHODS_KERNELS_SALIENCY_H
#define KVR_METHODS_KERNELS_SALIENCY_H

#include "methods/kernels/topk.h"
#include "methods/policy.h"

struct kvr_saliency_rule {
    double delta_weight, recency_weight;
    /* Used only by the study's variant. If true, every call computes the deltas. If false, a call
     * computes them only if the number of frames has changed since the previous call. */
    bool every_call;
};

/* Level of a frame: whether it has ever been moved to tier 0 (the tier of old frames) or evicted.
 * In the variant of the paper, the level of a frame never changes to an earlier enumerator. */
enum kvr_frame_level {
    KVR_FRAME_FINE,   /* the frame was never in the tier of old frames */
    KVR_FRAME_COARSE, /* the frame was moved to the tier of old frames */
    KVR_FRAME_GONE,   /* evicted */
};

/* Scores of frames. The pointers refer to memory of the policy state and are valid until the next
 * call that uses this state. */
struct kvr_saliency {
    int64_t n;               /* number of frames; the last frame may be partial */
    const float *delta;      /* [n] */
    const float *score;      /* [n] */
    uint8_t *level;          /* enum kvr_frame_level of each frame, [n]. Policies update it only in
                              * the variant of the paper. */
    struct kvr_ranked *rank; /* [n] scratch memory to sort frames by score */
};

/* Computes delta and score (see above) of all frames that are written so far. If ctx->k and ctx->v
 * are NULL, the delta of every frame is 1. After a failure the state is unchanged. Fails with
 * KVR_ENOMEM or with an error of the device; the other functions of this header cannot fail. On
 * CUDA the function waits for its kernels, because the host computes the deltas. */
enum kvr_status kvr_saliency_score(const struct kvr_saliency_rule *rule,
                                   const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                                   struct kvr_policy_state *state, struct kvr_saliency *out);

/* Makes the scores of the last kvr_saliency_score available to the next kvr_saliency_take. The tier
 * policy calls this function so that the retention policy need not compute the scores again. */
void kvr_saliency_publish(struct kvr_policy_state *state);
/* Sets *out to the scores that kvr_saliency_publish made available. Returns false if there are
 * none, or if an earlier call has already returned them. */
bool kvr_saliency_take(const struct kvr_policy_ctx *ctx, struct kvr_policy_state *state,
                       struct kvr_saliency *out);

/* Number of frames written so far, including a partial last frame. */
int64_t kvr_frames(const struct kvr_policy_ctx *ctx);
/* Number of written tokens of frame f: ctx->tokens_per_frame, or less for a partial last frame. */
int64_t kvr_frame_tokens(const struct kvr_policy_ctx *ctx, int64_t f);
/* Sets the bytes of all written tokens of frame f in `map` (policy.h) to `byte`. */
void kvr_frame_fill(const struct kvr_policy_ctx *ctx, int64_t f, uint8_t byte, uint8_t *map);

/* Computes summary [H], which is mean |K| + mean |V| per head, over tokens [t0, t0 + n) of k and v
 * [.,H,D]. */
void kvr_frame_summary(const float *k, const float *v, int64_t t0, int64_t n, int n_heads,
                       int head_dim, float *summary);
/* Returns delta for the summaries now [H] and before [H]: mean |now - before| / max(mean |before|,
 * 1e-6), with means over H heads. */
float kvr_summary_delta(const float *now, const float *before, int n_heads);

#endif
