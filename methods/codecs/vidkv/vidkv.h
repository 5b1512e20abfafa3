/* vidkv.h - arithmetic of the stage `vidkv`, shared by CPU and CUDA.
 *
 * Of a head's D channels, the `easy` ones with the smallest range over all tokens and heads are the
 * same for every head; the others are hard. Groups are G consecutive tokens, the last one possibly
 * shorter. In FP16, every operation rounded:
 *
 *     a hard channel     m = min x    s = (max x - m) / 3    q = rne((x - m) / s), 0 where s is 0
 *                        x^ = q s + m
 *     the easy ones      X = DFT(x) over them, of each token and head: 2 easy numbers, re and im
 *                        s = mean |X| of such a number    q = X >= 0
 *                        X^ = 2 s q - s, or s q if not `balanced`; x^ = Re(DFT^-1(X^)) */
#ifndef KVR_METHODS_VIDKV_H
#define KVR_METHODS_VIDKV_H

#include "methods/codecs/cells/cells.h"

enum { VIDKV_MAX_DIM = 256, VIDKV_MAX_EASY = 128 };

/* A block. codes: hard channels as in pack.h, 2 bits [T, H hard]; signs, 1 bit [T, 2 H easy].
 * meta: scales, then minima, FP16 [groups][H hard] each; scales and minima of the signs [groups][2
 * H easy];
 *       one bit per channel, 1: easy. */
struct vidkv {
    int group, easy, n_heads, head_dim;
    bool balanced;
    int64_t n_tok;
    float cosine[VIDKV_MAX_EASY], sine[VIDKV_MAX_EASY]; /* of 2 pi i / easy */
};

CELLS float vidkv_half(float x)
{
    return cells_load(CELLS_F16, cells_store(CELLS_F16, x));
}

CELLS_BOTH int64_t vidkv_groups(const struct vidkv *g)
{
    return (g->n_tok + g->group - 1) / g->group;
}

CELLS_BOTH int64_t vidkv_hard(const struct vidkv *g)
{
    return (int64_t)g->n_heads * (g->head_dim - g->easy);
}

CELLS_BOTH int64_t vidkv_signs(const struct vidkv *g)
{
    return 2 * (int64_t)g->n_heads * g->easy;
}

/* Offset of the signs in codes; in meta, offsets of the signs' numbers and of the channel bits, in
 * FP16 units. */
CELLS_BOTH int64_t vidkv_signs_at(const struct vidkv *g)
{
    return (g->n_tok + 3) / 4 * vidkv_hard(g);
}

CELLS_BOTH int64_t vidkv_sign_params_at(const struct vidkv *g)
{
    return 2 * vidkv_groups(g) * vidkv_hard(g);
}

CELLS_BOTH int64_t vidkv_bits_at(const struct vidkv *g)
{
    return vidkv_sign_params_at(g) + 2 * vidkv_groups(g) * vidkv_signs(g);
}

/* Element j of the inverse transform of 2 easy numbers X^. */
CELLS float vidkv_inverse(const struct vidkv *g, int j, const float *X)
{
    float sum = 0;

    for (int f = 0; f < g->easy; f++) {
        const int a = f * j % g->easy;

        sum += X[2 * f] * g->cosine[a] - X[2 * f + 1] * g->sine[a];
    }
    return sum / (float)g->easy;
}

KVR_DECODE_LAUNCHER(vidkv);

#endif
