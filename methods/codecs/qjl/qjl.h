/* qjl.h - the arithmetic of the stage `qjl`, which both kinds of device do.
 *
 * Of a head's r [D], with S [D,D] of independent normal numbers, drawn from a seed and the same for
 * all heads, layers and times:
 *
 *     n = FP16(||r||)    b_i = (S r)_i >= 0    r^ = n sqrt(pi / 2) / D  sum_i (2 b_i - 1) S_i
 *
 * so that q . r^ is TurboQuant's estimate of q . r. A number of S is (the ones among 64 mixed bits -
 * 32) / 4: a binomial one, of mean 0 and variance 1, whose sums are whole and the same everywhere. */
#ifndef KVR_METHODS_QJL_H
#define KVR_METHODS_QJL_H

#include "methods/codecs/cells/cells.h"

enum { QJL_MAX_DIM = 256 };

/* A block. codes = the signs as pack.h says, 1 bit; meta = the norms FP16 [T,H]. */
struct qjl {
    uint32_t seed;
    int n_heads, head_dim;
    int64_t n_tok;
};

/* Murmur's finalizer. */
CELLS uint32_t qjl_mixed(uint32_t word)
{
    word = (word ^ word >> 16) * 0x85ebca6bu;
    word = (word ^ word >> 13) * 0xc2b2ae35u;
    return word ^ word >> 16;
}

CELLS int qjl_ones(uint32_t word)
{
    word -= word >> 1 & 0x55555555u;
    word = (word & 0x33333333u) + (word >> 2 & 0x33333333u);
    return (int)(((word + (word >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24);
}

/* Four times S[i][c]. */
CELLS int qjl_number(uint32_t seed, int i, int c)
{
    const uint32_t at = qjl_mixed(seed * 0x9e3779b9u ^ (uint32_t)(i * QJL_MAX_DIM + c));

    return qjl_ones(qjl_mixed(at ^ 0x2545f491u)) + qjl_ones(qjl_mixed(at ^ 0x9e3779b9u)) - 32;
}

/* Element c of r^ of a sum of four times S[i][c] with the signs. */
CELLS float qjl_value(const struct qjl *g, float norm, int sum)
{
    return norm * (1.2533141f / (4 * (float)g->head_dim)) * (float)sum;
}

KVR_DECODE_LAUNCHER(qjl);

#endif
