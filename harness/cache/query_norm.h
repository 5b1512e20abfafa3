/* query_norm.h - what attention on a device may do to BF16 queries [T,H,D] when a block loads them, in the
 * place of a pass over them: the RMS norm of a token's H D values, and the rotation of every head.
 *
 *     u = x * inverse * weight;    pairs of u turned, in float64;    rounded once
 *
 * as kvr_ops has them. The sum of squares behind `inverse` is one that the linear layer which wrote the
 * queries leaves (KVR_LEFT_SQUARES of product_cuda.h), in parts that are added up in order. */
#ifndef KVR_CACHE_QUERY_NORM_H
#define KVR_CACHE_QUERY_NORM_H

#include <stdint.h>

#include "harness/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_query_norm {
    const float *inverses;         /* [T]; NULL: queries are taken as they are */
    const float *weight;           /* [H,D], at a multiple of 8 bytes */
    const double *cosines, *sines; /* [T,D/2]; NULL: nothing is rotated */
};

/* inverses [n] = 1 / sqrt(sum of squares [n,parts] / width + eps). */
void kvr_query_inverses_cuda(struct kvr_stream *s, int64_t n, const float *squares, int parts,
                             int width, double eps, float *inverses);

#ifdef __cplusplus
}
#endif
#endif
