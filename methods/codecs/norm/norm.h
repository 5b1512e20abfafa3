/* norm.h - arithmetic of the stage `norm`, shared by CPU and CUDA.
 *
 * n = FP16(||x||) for a token x over all heads, at most 65504. The stage outputs x / n; decoding
 * multiplies by n. A zero token has n = 0 and is divided by 1. */
#ifndef KVR_METHODS_NORM_H
#define KVR_METHODS_NORM_H

#include "methods/codecs/cells/cells.h"

/* A block. meta = the norms FP16 [T]. */
struct norm {
    int64_t n_tok, channels;
};

/* The norm as stored in FP16; `sum` is the sum of squares. */
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

/* Divides x by its norms and stores them; both buffers are device memory. */
KVR_LAUNCHER kvr_norm_encode_cuda(struct kvr_stream *s, const struct norm *g, float *x,
                                  void *norms);
KVR_DECODE_LAUNCHER(norm);

#endif
