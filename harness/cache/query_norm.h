/* query_norm.h - RMS norm and RoPE applied to BF16 queries [T,H,D] while attention loads them, in
 * place of a separate pass.
 *
 *     u = x * inverse * weight;    pairs of u rotated in float64;    rounded once
 *
 * as in kvr_ops. The sum of squares in `inverse` is left by the linear layer that wrote the queries
 * (kvr_product_layer.squares), as partial sums added in order. */
#ifndef KVR_CACHE_QUERY_NORM_H
#define KVR_CACHE_QUERY_NORM_H

#include <stdint.h>

#include "harness/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_query_norm {
    const float *inverses;         /* [T]; NULL: queries are used unchanged */
    const float *weight;           /* [H,D], 8-byte aligned */
    const double *cosines, *sines; /* [T,D/2]; NULL: no rotation */
};

/* inverses [n] = 1 / sqrt(sum of squares [n,parts] / width + eps). */
void kvr_query_inverses_cuda(struct kvr_stream *s, int64_t n, const float *squares, int parts,
                             int width, double eps, float *inverses);

#ifdef __cplusplus
}
#endif
#endif
