/* profile.h - FlowCache's profile pass, which measures how much the cached frames of each layer
 * change.
 *
 *     struct kvr_profile *p;
 *     KVR_TRY(kvr_profile_open(&p, n_layers, n_heads, head_dim, tokens_per_frame, frames));
 *     for each prompt:
 *         kvr_profile_begin(p);
 *         ... a rollout with .observer = kvr_profile_observe, .observer_ctx = p ...
 *     kvr_profile_budgets(p, 0.7, 1.3, score, beta);
 *     kvr_profile_close(&p);
 *
 * The profile pass follows the procedure of the FlowCache paper (arXiv:2602.10825). A frame's
 * summary in a layer is mean |K| + mean |V| for each head, over the frame's tokens and channels. At
 * every forward pass, each layer's list of frame summaries is compared with the list of the
 * previous pass. The k-th newest frame is compared with the k-th newest frame of the previous list
 * (methods/kernels/saliency.h). A frame's change is the L1 distance of the two summaries, divided
 * by the L1 norm of the previous summary. If the previous list is shorter, frames without a
 * counterpart have change 1. A layer's score is the mean change over all forward passes and, in
 * each pass, over the old frames: all frames except the newest quarter (at least one frame). Keys
 * and values are not quantized in the profile pass, so a frame's summary is constant once the
 * frame's chunk is finished. */
#ifndef KVR_WORKLOAD_PROFILE_H
#define KVR_WORKLOAD_PROFILE_H

#include "harness/cache/cache.h"

struct kvr_profile;

/* Opens a profile for videos of at most max_frames latent frames. */
enum kvr_status kvr_profile_open(struct kvr_profile **out, int n_layers, int n_heads, int head_dim,
                                 int tokens_per_frame, int max_frames);
void kvr_profile_close(struct kvr_profile **p);

/* Begins a new video: discards the frame summaries of the previous video, but not the accumulated
 * scores. */
void kvr_profile_begin(struct kvr_profile *p);

/* Computes the frame summaries of one layer in one forward pass, and adds the changes of the old
 * frames to the layer's score. The arguments k and v [n_frames * tokens_per_frame, H, D] are the
 * keys and values of the pass's chunk. */
enum kvr_status kvr_profile_add(struct kvr_profile *p, const struct kvr_pass *pass, int layer,
                                const float *k, const float *v);
/* Observer of attention calls (kvr_cache_observer_fn) that calls kvr_profile_add with the current
 * chunk's keys and values. `ctx` is a struct kvr_profile *. */
enum kvr_status kvr_profile_observe(void *ctx, const struct kvr_cache_view *view);

/* Computes each layer's score [L], and its budget factor beta [L], by which methods multiply the
 * number of frames that they keep in the layer. The arguments lo and hi are the smallest and
 * largest factor. A layer's factor is lo + (hi - lo) * (score - min) / (max - min), where min and
 * max are the smallest and largest score of any layer. If all scores are equal, every factor is (lo
 * + hi) / 2. Returns KVR_EINVAL if every forward pass had too few frames to have old frames.
 * Returns KVR_ENAN if a score is not finite. */
enum kvr_status kvr_profile_budgets(const struct kvr_profile *p, double lo, double hi,
                                    double *score, double *beta);

#endif
