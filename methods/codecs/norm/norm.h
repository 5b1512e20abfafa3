/* norm.h - the arithmetic of the stage `norm`, which both kinds of device do.
 *
 * n = FP16(||x||), x a token over all heads, at most 65504; x / n is handed on, and what is decoded
 * is multiplied by n. A token of zeros has n = 0 and is divided by 1. */
#ifndef KVR_METHODS_NORM_H
#define KVR_METHODS_NORM_H

#include "methods/codecs/cells/cells.h"

/* A block. meta = the norms FP16 [T]. */
struct norm {
    int64_t n_tok, channels;
};

/* As it is stored; sum: of the squares. */
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

/* Divides x and writes the norms into meta; device memory both. */
KVR_LAUNCHER kvr_norm_encode_cuda(struct kvr_stream *s, const struct norm *g, float *x, void *meta);
KVR_DECODE_LAUNCHER(norm);

#endif
