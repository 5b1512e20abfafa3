/* query_norm.h - RMSNorm and RoPE of BF16 queries [T,H,D], fused into attention's load of Q:
 *
 *     u = x * inverse * weight;    pairs of u rotated in float64;    rounded once
 *
 * The results are rounded like those of rms_rope in kvr_ops (harness/engine/ops.h). The linear
 * layer that writes the queries also writes partial sums of the squares of each token's H*D query
 * elements (kvr_product_layer.squares). The RMSNorm factor `inverse` of a token is computed from
 * its partial sums, which are added in a fixed order. */
#ifndef KVR_CACHE_QUERY_NORM_H
#define KVR_CACHE_QUERY_NORM_H

#include <stdint.h>

#include "harness/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_query_norm {
    const float *inverses;         /* [T]: RMSNorm factor `inverse` of each query token; NULL leaves
                                    * the queries unchanged */
    const float *weight;           /* [H,D], 8-byte aligned */
    const double *cosines, *sines; /* [T,D/2]; NULL: no rotation */
};

/* Computes inverses[i] = 1 / sqrt(sum_i / width + eps) for n tokens, each with `width` query
 * elements (H*D). Row i of squares [n,parts] has the partial sums of squares of token i, and sum_i
 * is their sum. */
void kvr_query_inverses_cuda(struct kvr_stream *s, int64_t n, const float *squares, int parts,
                             int width, double eps, float *inverses);

#ifdef __cplusplus
}
#endif
#endif
