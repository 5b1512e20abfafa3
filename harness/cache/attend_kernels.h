/* attend_kernels.h - the loops attention spends its time in, by instruction set.
 *
 *     const struct kvr_attend_kernels *f = kvr_attend_kernels();
 *     f->pack_keys(k, n, d, pk);
 *     f->pack_values(v, n, d, pv);
 *     f->scores(q, d, pk, s, lds, m, n);                     s = q k
 *     f->soften(s, lds, NULL, m, n, max, sum, shrink);       s <- e^(s - max), sums updated
 *     f->add_values(s, lds, pv, out, ldo, n, m, d);          out += s v
 *
 * Both products have the form C[m][n] = A[m][k] B[k][n]. B lies in panels of PAD columns, each
 * [k][PAD]: a panel is read from end to end, and no two of its rows share a set of the cache.
 * n is rounded up to whole panels; what pads is 0 in values, and what pads keys is cut off by the
 * caller with scores of -INFINITY. */
#ifndef KVR_CACHE_ATTEND_KERNELS_H
#define KVR_CACHE_ATTEND_KERNELS_H

#include <stdint.h>

#include "harness/core/isa.h"

enum {
    KVR_ATTEND_PAD = 16,  /* PAD: floats of the widest vector of all variants */
    KVR_ATTEND_TILE = 64, /* tokens of one head attended to together, at most */
    KVR_ATTEND_ROWS = 48, /* queries whose softmax is taken together, at most */
};

struct kvr_attend_kernels {
    /* s[m][n] = q[m][d] keys[d][n]; n a multiple of PAD, rows of s `stride` floats apart. */
    void (*scores)(const float *q, int d, const float *keys, float *s, int64_t stride, int m,
                   int n);
    /* out[m][d] += p[m][n] values[n][d]; d a multiple of PAD, any n. */
    void (*add_values)(const float *p, int64_t stride, const float *values, float *out, int64_t ldo,
                       int n, int m, int d);

    /* Softmax of m <= KVR_ATTEND_ROWS rows of n scores (n <= KVR_ATTEND_TILE, a multiple of PAD),
     * to each of which bias[n] is added first (NULL: nothing), against what the rows have seen:
     * with M = max(max_i, max_j s_ij)
     *
     *     s_ij <- e^(s_ij - M), shrink_i <- e^(max_i - M), sum_i <- sum_i shrink_i + sum_j s_ij
     *
     * and max_i <- M. shrink is exactly 1 where the maximum stays. e^x is right to
     * 2e-7 + 6e-8 |x| and 0 below -87. A NaN among the scores makes its row's sum NaN. */
    void (*soften)(float *s, int64_t stride, const float *bias, int m, int n, float *max,
                   float *sum, float *shrink);

    /* x[n] *= factor; n a multiple of KVR_ATTEND_PAD. */
    void (*scale)(float *x, int n, float factor);

    /* rows [n][d] of keys -> panels of tokens, each [d][PAD]. */
    void (*pack_keys)(const float *rows, int n, int d, float *out);
    /* rows [n][d] of values -> panels of channels, each [n][PAD]. */
    void (*pack_values)(const float *rows, int n, int d, float *out);
};

KVR_ISA_TABLES(struct kvr_attend_kernels, kvr_attend_kernels)

#endif
