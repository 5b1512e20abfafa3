/* policy_cuda.h - statistics and ranking for tiers and retention on a CUDA stream.
 *
 * Each function names its CPU reference. Results are bit-identical except for NaN payloads: sums
 * run in double over the same lanes in the same order. All pointers are device memory. */
#ifndef KVR_METHODS_POLICY_CUDA_H
#define KVR_METHODS_POLICY_CUDA_H

#include "harness/device/stream.h"
#include "methods/kernels/topk.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Frames of k, v [n_tok,H,D]. Frame i has tokens [i*S - skip, (i+1)*S - skip), clipped to the given
 * ones: the first `skip` tokens of the first frame are missing. */
struct kvr_frames_of {
    int64_t n_tok, skip;
    int tokens_per_frame, n_heads, head_dim;
};

/* kvr_frame_summary of every frame: summary [frames, H]. */
void kvr_frame_summary_cuda(struct kvr_stream *s, const struct kvr_frames_of *f, const float *k,
                            const float *v, float *summary);
/* Variance over frames of mean |v| at every position (methods/tiers/spatial.c): v [n_frames * S,
 * channels] -> rank[i] = { variance, i }, i < S. */
void kvr_position_variance_cuda(struct kvr_stream *s, const float *v, int64_t n_frames,
                                int64_t positions, int64_t channels, struct kvr_ranked *rank);
/* kvr_topk into another array; indices are unique. Uses n^2 comparisons: for frames and positions,
 * not for tokens. */
void kvr_topk_cuda(struct kvr_stream *s, const struct kvr_ranked *item, int64_t n,
                   struct kvr_ranked *sorted);

/* Mean token of n: x [n, width] -> mean [width] (kvr_layer_pool). */
void kvr_pool_cuda(struct kvr_stream *s, const float *x, int64_t n, int64_t width, float *mean);

#ifdef __cplusplus
}
#endif
#endif
