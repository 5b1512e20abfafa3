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

/* Describes how arrays k and v [n_tok,H,D] are divided into frames of S = tokens_per_frame tokens.
 * The first `skip` tokens of the first frame are missing, so frame i consists of the existing
 * tokens among i*S - skip to (i+1)*S - skip - 1. */
struct kvr_frames_of {
    int64_t n_tok, skip;
    int tokens_per_frame, n_heads, head_dim;
};

/* Computes summary [frames,H], mean |K| + mean |V| of every frame and head, as kvr_frame_summary
 * does. */
void kvr_frame_summary_cuda(struct kvr_stream *s, const struct kvr_frames_of *f, const float *k,
                            const float *v, float *summary);
/* Let a[f][i] be the mean of |v| over channels at token position i of frame f. The function
 * computes the variance of a[f][i] over all frames f (methods/tiers/spatial.c). The input is v
 * [n_frames * positions, channels], and the output is rank[i] = { variance, i } for every i. */
void kvr_position_variance_cuda(struct kvr_stream *s, const float *v, int64_t n_frames,
                                int64_t positions, int64_t channels, struct kvr_ranked *rank);
/* Sorts n items by descending score, as kvr_topk does, and writes them to `sorted`. The values of
 * the field `index` must be distinct. The function compares all n^2 pairs of items, which is fast
 * enough for the positions of one frame, but not for all tokens of the cache. */
void kvr_topk_cuda(struct kvr_stream *s, const struct kvr_ranked *item, int64_t n,
                   struct kvr_ranked *sorted);

/* Computes the mean [width] of n tokens x [n, width], as kvr_layer_pool does. */
void kvr_pool_cuda(struct kvr_stream *s, const float *x, int64_t n, int64_t width, float *mean);

#ifdef __cplusplus
}
#endif
#endif
