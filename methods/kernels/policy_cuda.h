/* policy_cuda.h - statistics and ranking for tiers and retention on a CUDA stream.
 *
 * The comment of a function names its CPU reference, for example kvr_topk. Results are
 * bit-identical to the CPU's, except for NaN payloads, because the GPU and the CPU add the same
 * partial sums in double in the same order. All arrays are in device memory. */
#ifndef KVR_METHODS_POLICY_CUDA_H
#define KVR_METHODS_POLICY_CUDA_H

#include "harness/device/stream.h"
#include "methods/kernels/topk.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The frames of k and v [n_tok,H,D], with S = tokens_per_frame tokens per frame. The first `skip`
 * tokens of the first frame are missing, so frame i consists of the existing tokens among i*S -
 * skip to (i+1)*S - skip - 1. */
struct kvr_frames_of {
    int64_t n_tok, skip;
    int tokens_per_frame, n_heads, head_dim;
};

/* Computes kvr_frame_summary of every frame and head: summary [frames, H]. */
void kvr_frame_summary_cuda(struct kvr_stream *s, const struct kvr_frames_of *f, const float *k,
                            const float *v, float *summary);
/* Computes, for every token position i of a frame, the variance over frames of the mean of |v| over
 * channels (methods/tiers/spatial.c). The input is v [n_frames * positions, channels], and the
 * output is rank[i] = { variance, i }. */
void kvr_position_variance_cuda(struct kvr_stream *s, const float *v, int64_t n_frames,
                                int64_t positions, int64_t channels, struct kvr_ranked *rank);
/* Writes the items to `sorted` in the order of kvr_topk (descending score). The field `index` of
 * all items must be distinct. The function compares all n^2 pairs of items, which is fast enough
 * for the positions of one frame, but not for all tokens of the cache. */
void kvr_topk_cuda(struct kvr_stream *s, const struct kvr_ranked *item, int64_t n,
                   struct kvr_ranked *sorted);

/* Computes the mean [width] of n tokens x [n, width], as kvr_layer_pool does. */
void kvr_pool_cuda(struct kvr_stream *s, const float *x, int64_t n, int64_t width, float *mean);

#ifdef __cplusplus
}
#endif
#endif
