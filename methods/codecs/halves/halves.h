/* halves.h - arithmetic of the stage `halves`, shared by CPU and CUDA.
 *
 * A group has G consecutive tokens of a channel; tokens beyond the block are 0. Every operation is
 * rounded to FP16:
 *
 *     m = min x    s = (max x - m) / (2^b - 1)    q = rne((x - m) / s), 0 where s is 0
 *     x^ = q s + m in FP32
 *
 * The format is that of the video generator LightX2V. Values beyond the range of FP16 become
 * +-65504 here, but infinite in LightX2V. A group with a non-finite value gets a scale of NaN. */
#ifndef KVR_METHODS_HALVES_H
#define KVR_METHODS_HALVES_H

#include "methods/codecs/cells/cells.h"

/* A block is padded with tokens of zeros to `padded` tokens, whose codes are packed as in pack.h.
 * The side information of a block is the scales and then the minima, both FP32 [padded /
 * group][channels]. */
struct halves {
    int bits, group;
    int64_t n_tok, padded, channels;
};

struct halves_fit {
    float s, m;
};

/* Rounds to FP16. Values beyond +-65504 become +-65504. */
CELLS float halves_round(float x)
{
    return cells_load(CELLS_F16, cells_store(CELLS_F16, x));
}

/* Computes the scale and the minimum of the group whose first element is x[t * channels + c]. */
CELLS struct halves_fit halves_fit(const struct halves *g, cells_in x, int64_t t, int64_t c)
{
    struct halves_fit f;
    float lo = 0, hi = 0;

    for (int i = 0; i < g->group; i++) {
        const float raw = t + i < g->n_tok ? (float)x[(t + i) * g->channels + c] : 0.0f;
        const float v = halves_round(raw);

        if ((cells_bits(raw) & 0x7fffffffu) >= 0x7f800000u) {
            f.s = cells_float(0x7fc00000u);
            f.m = 0;
            return f;
        }
        lo = i == 0 || v < lo ? v : lo;
        hi = i == 0 || v > hi ? v : hi;
    }
    f.m = lo;
    f.s = halves_round(halves_round(hi - lo) / (float)((1 << g->bits) - 1));
    return f;
}

CELLS unsigned halves_code(const struct halves *g, const struct halves_fit *f, float x)
{
    if (!(f->s > 0))
        return 0;
    const float y = halves_round(halves_round(halves_round(x) - f->m) / f->s);

    return (unsigned)rintf(cells_clamp(y, 0, (float)((1 << g->bits) - 1)));
}

CELLS float halves_value(const struct halves_fit *f, unsigned q)
{
    return (float)q * f->s + f->m;
}

KVR_ENCODE_LAUNCHER(halves);
KVR_DECODE_LAUNCHER(halves);

#endif
