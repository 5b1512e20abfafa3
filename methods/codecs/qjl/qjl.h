/* qjl.h - arithmetic of the stage `qjl`, shared by CPU and CUDA.
 *
 * The stage encodes a head's vector r [D] as the signs of its random projections. The elements of
 * the projection matrix S [D,D] are approximately normal random numbers that depend only on a seed.
 * All heads, layers and tokens use the same matrix, and S_i is its row i:
 *
 *     n = FP16(||r||)    b_i = (S r)_i >= 0    r^ = n sqrt(pi / 2) / D  sum_i (2 b_i - 1) S_i
 *
 * The dot product q . r^ is TurboQuant's estimate of q . r. An element of S is (popcount of 64
 * hashed bits - 32) / 4, a binomial number that is shifted and scaled to mean 0 and variance 1.
 * Sums of multiples of 1/4 are exact, so results are the same on every machine. */
#ifndef KVR_METHODS_QJL_H
#define KVR_METHODS_QJL_H

#include "methods/codecs/cells/cells.h"

enum { QJL_MAX_DIM = 256 };

/* The codes of a block are the bits b, packed as in pack.h. The side information of a block is the
 * norms n, FP16 [T,H]. */
struct qjl {
    uint32_t seed;
    int n_heads, head_dim;
    int64_t n_tok;
};

/* The finalizer fmix32 of MurmurHash3. */
CELLS uint32_t qjl_mixed(uint32_t word)
{
    word = (word ^ word >> 16) * 0x85ebca6bu;
    word = (word ^ word >> 13) * 0xc2b2ae35u;
    return word ^ word >> 16;
}

CELLS int qjl_ones(uint32_t word)
{
#ifdef __cplusplus
    return __popc(word);
#else
    word -= word >> 1 & 0x55555555u;
    word = (word & 0x33333333u) + (word >> 2 & 0x33333333u);
    return (int)(((word + (word >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24);
#endif
}

/* Four times S[i][c]. */
CELLS int qjl_number(uint32_t seed, int i, int c)
{
    const uint32_t at = qjl_mixed(seed * 0x9e3779b9u ^ (uint32_t)(i * QJL_MAX_DIM + c));

    return qjl_ones(qjl_mixed(at ^ 0x2545f491u)) + qjl_ones(qjl_mixed(at ^ 0x9e3779b9u)) - 32;
}

/* Returns element c of r^ from the vector's norm n (`norm`) and the integer sum_i (2 b_i - 1) (4
 * S[i][c]) (`sum`). */
CELLS float qjl_value(const struct qjl *g, float norm, int sum)
{
    return norm * (1.2533141f / (4 * (float)g->head_dim)) * (float)sum;
}

KVR_DECODE_LAUNCHER(qjl);

#endif
