/* profile.h - FlowCache's profile pass: the change of each layer's old frames.
 *
 *     struct kvr_profile *p;
 *     KVR_TRY(kvr_profile_open(&p, n_layers, n_heads, head_dim, tokens_per_frame, frames));
 *     for each prompt:
 *         kvr_profile_begin(p);
 *         ... a rollout with .observer = kvr_profile_observe, .observer_ctx = p ...
 *     kvr_profile_budgets(p, 0.7, 1.3, score, beta);
 *     kvr_profile_close(&p);
 *
 * The study's procedure: at every forward and layer, each frame's summary (mean |K| + mean |V| of
 * each head) is compared with the tail-aligned summaries of the previous forward. For frames
 * without a counterpart the change is 1 (methods/kernels/saliency.h). A layer's score is the mean
 * over all forwards and old frames: all but the newest max(1, rne(0.25 n)) of n. Nothing is coded,
 * so a frame's summary changes only while its chunk is denoised. */
#ifndef KVR_WORKLOAD_PROFILE_H
#define KVR_WORKLOAD_PROFILE_H

#include "harness/cache/cache.h"

struct kvr_profile;

/* max_frames: the most that a forward sees. KVR_ENOMEM. */
enum kvr_status kvr_profile_open(struct kvr_profile **out, int n_layers, int n_heads, int head_dim,
                                 int tokens_per_frame, int max_frames);
void kvr_profile_close(struct kvr_profile **p);

/* Begins a new video: drops the frame summaries, and keeps accumulating the scores. */
void kvr_profile_begin(struct kvr_profile *p);

/* Adds one forward of one layer: k, v [n_frames * tokens_per_frame, H, D] of its chunk. */
enum kvr_status kvr_profile_add(struct kvr_profile *p, const struct kvr_pass *pass, int layer,
                                const float *k, const float *v);
/* kvr_profile_add as a kvr_cache_observer_fn; ctx is the profile. */
enum kvr_status kvr_profile_observe(void *ctx, const struct kvr_cache_view *view);

/* score [L]; beta [L] = lo + (hi - lo) (score - min) / (max - min), or (lo + hi) / 2 if all scores
 * are equal. KVR_EINVAL: no forward was added. KVR_ENAN: a score is NaN. */
enum kvr_status kvr_profile_budgets(const struct kvr_profile *p, double lo, double hi,
                                    double *score, double *beta);

#endif
