/* attend_kernels.h - inner loops of CPU attention, one table of functions per instruction set.
 *
 *     const struct kvr_attend_kernels *f = kvr_attend_kernels();
 *     f->pack_keys(k, n, d, pk);
 *     f->pack_values(v, n, d, pv);
 *     f->scores(q, d, pk, s, lds, m, n);                     s = q k
 *     f->online_softmax(s, lds, NULL, m, n, max, sum, rescale);       s <- e^(s - max), sums updated
 *     f->add_values(s, lds, pv, out, ldo, n, m, d);          out += s v
 *
 * Scores and outputs are matrix products of the form C[m][n] = A[m][k] B[k][n]. B is packed into
 * panels of PAD (KVR_ATTEND_PAD) columns, [k][PAD] each. A panel is read sequentially, which avoids
 * conflict misses in the CPU cache. The columns of B are padded with zeros to whole panels, and the
 * caller sets the scores of padded keys to -INFINITY. */
#ifndef KVR_CACHE_ATTEND_KERNELS_H
#define KVR_CACHE_ATTEND_KERNELS_H

#include <stdint.h>

#include "harness/core/isa.h"

enum {
    KVR_ATTEND_PAD = 16,  /* floats per vector of the widest instruction set */
    KVR_ATTEND_TILE = 64, /* maximum tokens per tile */
    KVR_ATTEND_ROWS = 48, /* maximum query rows per softmax call */
};

struct kvr_attend_kernels {
    /* s[m][n] = q[m][d] keys[d][n], a matrix product; n is a multiple of KVR_ATTEND_PAD. Rows of s
     * are `stride` floats apart. */
    void (*scores)(const float *q, int d, const float *keys, float *s, int64_t stride, int m,
                   int n);
    /* out[m][d] += p[m][n] values[n][d], a matrix product; d is a multiple of KVR_ATTEND_PAD. Rows
     * of p are `stride` floats apart, rows of out `ldo` floats. */
    void (*add_values)(const float *p, int64_t stride, const float *values, float *out, int64_t ldo,
                       int n, int m, int d);

    /* Updates the online softmax of m <= KVR_ATTEND_ROWS query rows i with the scores s_ij of n
     * keys j. n is a multiple of KVR_ATTEND_PAD and at most KVR_ATTEND_TILE. First, bias[j] is
     * added to s_ij, unless `bias` is NULL. The new maximum of row i is M = max(max_i, max_j s_ij).
     * The function computes:
     *
     *     s_ij <- e^(s_ij - M), rescale_i <- e^(max_i - M), sum_i <- sum_i rescale_i + sum_j s_ij
     *
     * It then stores M in max_i. The rescaling factor rescale_i is exactly 1 if the row's maximum
     * does not change. The relative error of e^x is below 2e-7 + 6e-8 |x|; for x < -87 the computed
     * e^x is 0. A NaN score makes its row's sum NaN. */
    void (*online_softmax)(float *s, int64_t stride, const float *bias, int m, int n, float *max,
                           float *sum, float *rescale);

    /* x[n] *= factor; n is a multiple of KVR_ATTEND_PAD. */
    void (*scale)(float *x, int n, float factor);

    /* Packs key rows [n][d] into panels of PAD tokens, [d][PAD] each. */
    void (*pack_keys)(const float *rows, int n, int d, float *out);
    /* Packs value rows [n][d] into panels of PAD channels, [n][PAD] each. */
    void (*pack_values)(const float *rows, int n, int d, float *out);
};

KVR_ISA_TABLES(struct kvr_attend_kernels, kvr_attend_kernels)

#endif
