/* attend_kernels.h - hot loops of CPU attention, by instruction set.
 *
 *     const struct kvr_attend_kernels *f = kvr_attend_kernels();
 *     f->pack_keys(k, n, d, pk);
 *     f->pack_values(v, n, d, pv);
 *     f->scores(q, d, pk, s, lds, m, n);                     s = q k
 *     f->online_softmax(s, lds, NULL, m, n, max, sum, rescale);       s <- e^(s - max), sums updated
 *     f->add_values(s, lds, pv, out, ldo, n, m, d);          out += s v
 *
 * Both products have the form C[m][n] = A[m][k] B[k][n]. B is in panels of PAD columns, each
 * [k][PAD]: a panel is read sequentially, and no two of its rows share a cache set. n is rounded up
 * to whole panels; padded values are 0, and the caller sets the scores of padded keys to
 * -INFINITY. */
#ifndef KVR_CACHE_ATTEND_KERNELS_H
#define KVR_CACHE_ATTEND_KERNELS_H

#include <stdint.h>

#include "harness/core/isa.h"

enum {
    KVR_ATTEND_PAD = 16,  /* floats of the widest vector of all variants */
    KVR_ATTEND_TILE = 64, /* maximum tokens per tile */
    KVR_ATTEND_ROWS = 48, /* maximum query rows per softmax call */
};

struct kvr_attend_kernels {
    /* s[m][n] = q[m][d] keys[d][n]; n a multiple of PAD, rows of s `stride` floats apart. */
    void (*scores)(const float *q, int d, const float *keys, float *s, int64_t stride, int m,
                   int n);
    /* out[m][d] += p[m][n] values[n][d]; d a multiple of PAD, any n. */
    void (*add_values)(const float *p, int64_t stride, const float *values, float *out, int64_t ldo,
                       int n, int m, int d);

    /* Online softmax of m <= KVR_ATTEND_ROWS rows of n scores (n <= KVR_ATTEND_TILE, a multiple of
     * PAD), after adding bias[n] (bias NULL: 0). With M = max(max_i, max_j s_ij)
     *
     *     s_ij <- e^(s_ij - M), rescale_i <- e^(max_i - M), sum_i <- sum_i rescale_i + sum_j s_ij
     *
     * and max_i <- M. rescale, the rescaling factor, is exactly 1 if the maximum is unchanged. e^x
     * has an error of 2e-7 + 6e-8 |x| and is 0 below -87. A NaN score makes its row's sum NaN. */
    void (*online_softmax)(float *s, int64_t stride, const float *bias, int m, int n, float *max,
                           float *sum, float *rescale);

    /* x[n] *= factor; n a multiple of KVR_ATTEND_PAD. */
    void (*scale)(float *x, int n, float factor);

    /* rows [n][d] of keys -> panels of tokens, each [d][PAD]. */
    void (*pack_keys)(const float *rows, int n, int d, float *out);
    /* rows [n][d] of values -> panels of channels, each [n][PAD]. */
    void (*pack_values)(const float *rows, int n, int d, float *out);
};

KVR_ISA_TABLES(struct kvr_attend_kernels, kvr_attend_kernels)

#endif
