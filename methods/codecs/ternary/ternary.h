/* ternary.h - arithmetic of the stage `ternary`, shared by CPU and CUDA.
 *
 * A group has G consecutive tokens of a channel; the last group may be shorter. The scale of a
 * group is s = FP16(mean |x|). The code q is 1 in the dead zone |x| <= dead * s, 2 above this zone,
 * and 0 below it; the factor `dead` is an option. A code decodes to x^ = (q - 1) s, or to q - 1 if
 * `scaled` is false. */
#ifndef KVR_METHODS_TERNARY_H
#define KVR_METHODS_TERNARY_H

#include "methods/codecs/cells/cells.h"

/* The codes of a block have 2 bits and are packed as in pack.h. The side information of a block is
 * the scales s and then, as in the stage `asym`, the minima -s, both FP16 [groups][C]. */
struct ternary {
    int group;
    float dead;
    bool scaled;
    int64_t n_tok, channels;
};

/* Scale of the group whose first element is x[t * channels + c]. */
CELLS float ternary_scale(const struct ternary *g, cells_in x, int64_t t, int64_t c)
{
    double sum = 0;
    int n = 0;
    bool bad = false;

    for (; n < g->group && t + n < g->n_tok; n++) {
        const float v = x[(t + n) * g->channels + c];

        bad = bad || (cells_bits(v) & 0x7fffffffu) >= 0x7f800000u;
        sum += (double)fabsf(v);
    }
    return cells_load(CELLS_F16,
                      cells_store(CELLS_F16, bad || !n ? NAN : (float)(sum / (double)n)));
}

CELLS unsigned ternary_code(const struct ternary *g, float s, float x)
{
    return x > g->dead * s ? 2u : x < -(g->dead * s) ? 0u : 1u;
}

KVR_ENCODE_LAUNCHER(ternary);

#endif
