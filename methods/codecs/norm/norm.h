/* norm.h - arithmetic of the stage `norm`, shared by CPU and CUDA.
 *
 * The norm of a token x over all heads is n = FP16(||x||), at most 65504. The stage outputs x / n,
 * and its decoder multiplies by n. If n is 0, the token is not divided. */
#ifndef KVR_METHODS_NORM_H
#define KVR_METHODS_NORM_H

#include "methods/codecs/cells/cells.h"

/* The side information of a block is the norms, FP16 [T]. */
struct norm {
    int64_t n_tok, channels;
};

/* Returns the FP16 bits of a token's norm sqrt(sum), where `sum` is the sum of squares of its
 * elements. */
CELLS unsigned norm_store(double sum)
{
    const float n = (float)sqrt(sum);

    return cells_store(CELLS_F16, n >= INFINITY ? NAN : n);
}

CELLS float norm_value(unsigned raw)
{
    return cells_load(CELLS_F16, raw);
}

CELLS float norm_divisor(float n)
{
    return n == 0 ? 1 : n;
}

/* Divides each token of x by its norm and stores the norms; x and norms are device memory. */
KVR_LAUNCHER kvr_norm_encode_cuda(struct kvr_stream *s, const struct norm *g, float *x,
                                  void *norms);
KVR_DECODE_LAUNCHER(norm);

#endif
