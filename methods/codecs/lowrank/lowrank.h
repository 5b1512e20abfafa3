/* lowrank.h - format and decoder of the stage `lowrank`, shared by CPU and CUDA.
 *
 *     x^ = mean + sum_k c[k] u[k]        u: r directions of a head's D channels
 *
 * The sum over k is computed in FP32, in ascending order of k. */
#ifndef KVR_METHODS_LOWRANK_H
#define KVR_METHODS_LOWRANK_H

#include "methods/codecs/cells/cells.h"

/* The codes of a block are the coefficients c, BF16 [T,H,r]. The side information of a block has,
 * for each head, the mean [D] and then the directions u [r][D], in BF16. */
struct lowrank {
    int64_t n_tok;
    int n_heads, d, rank;
};

#ifdef __cplusplus
typedef kvr_global<const kvr_bf16> lowrank_in;
#else
typedef const kvr_bf16 *lowrank_in;
#endif

CELLS float lowrank_value(const struct lowrank *g, lowrank_in codes, lowrank_in basis, int64_t t,
                          int h, int c)
{
    const int64_t head = (int64_t)h * (g->rank + 1) * g->d, at = (t * g->n_heads + h) * g->rank;
    float v = cells_load(CELLS_BF16, basis[head + c]);

    for (int k = 0; k < g->rank; k++)
        v += cells_load(CELLS_BF16, codes[at + k]) *
             cells_load(CELLS_BF16, basis[head + (int64_t)(k + 1) * g->d + c]);
    return v;
}

KVR_DECODE_LAUNCHER(lowrank);

#ifndef __cplusplus
/* Computes u [n][D], n <= D, the eigenvectors of the symmetric matrix a [D][D] with the largest
 * eigenvalues. The function overwrites a and writes all eigenvectors to the rows of the scratch
 * matrix v [D][D]. Eigenvectors with equal eigenvalues have the same order in u as in v. The
 * component of largest magnitude of every eigenvector is positive. */
void kvr_lowrank_directions(int d, double *a, double *v, int n, float *u);
#endif

#endif
