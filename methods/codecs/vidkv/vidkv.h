/* vidkv.h - arithmetic of the stage `vidkv`, shared by CPU and CUDA.
 *
 * The field `easy` is the number of easy channels of a head. Easy channels are the channel indices
 * with the smallest range of values over all tokens and heads. The other channels are hard; a head
 * has hard = D - easy of them. A group has G consecutive tokens of a channel; the last group may be
 * shorter. Every operation is rounded to FP16, and rne rounds to the nearest integer, ties to even:
 *
 *     a hard channel     m = min x    s = (max x - m) / 3    q = rne((x - m) / s), 0 where s is 0
 *                        x^ = q s + m
 *     the easy channels  X = DFT(x) over the easy channels of a token and head: 2 * easy numbers,
 *                        the real and imaginary parts
 *                        s = mean |X| of one of these numbers over a group    q = X >= 0
 *                        X^ = 2 s q - s, or s q if not `balanced`; x^ = Re(DFT^-1(X^)) */
#ifndef KVR_METHODS_VIDKV_H
#define KVR_METHODS_VIDKV_H

#include "methods/codecs/cells/cells.h"

enum { VIDKV_MAX_DIM = 256, VIDKV_MAX_EASY = 128 };

/* The codes of a block are the 2-bit codes of the hard channels [T, H * hard], and then the signs
 * of X [T, 2 * H * easy], 1 bit each. Both arrays are packed as in pack.h. The side information of
 * a block starts with the scales and then the minima of the hard channels, both FP16 [groups][H *
 * hard]. Next are the scales of X^ (2 s, or s if not `balanced`) and then its minima (-s or 0),
 * both FP16 [groups][2 * H * easy]. The last D bits state for each channel index whether it is easy
 * (1) or hard (0). */
struct vidkv {
    int group, easy, n_heads, head_dim;
    bool balanced;
    int64_t n_tok;
    float cosine[VIDKV_MAX_EASY], sine[VIDKV_MAX_EASY]; /* cosines and sines of the angles 2 pi i /
                                                         * easy */
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

/* Offset of the signs of X in the codes, in bytes. */
CELLS_BOTH int64_t vidkv_signs_at(const struct vidkv *g)
{
    return (g->n_tok + 3) / 4 * vidkv_hard(g);
}

/* Offset of the scales and minima of X^ in the side information, in FP16 numbers (2 bytes). */
CELLS_BOTH int64_t vidkv_sign_params_at(const struct vidkv *g)
{
    return 2 * vidkv_groups(g) * vidkv_hard(g);
}

/* Offset of the bits that mark easy channels, in FP16 numbers (2 bytes) from the start of the side
 * information. */
CELLS_BOTH int64_t vidkv_bits_at(const struct vidkv *g)
{
    return vidkv_sign_params_at(g) + 2 * vidkv_groups(g) * vidkv_signs(g);
}

/* Returns the real part of element j of the inverse DFT of X. The array X contains the g->easy
 * decoded coefficients, each stored as a real and an imaginary part. */
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
