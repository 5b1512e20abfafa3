/* outlier_kernels.h - the loops of the stage `outliers`, by instruction set. */
#ifndef KVR_METHODS_OUTLIER_KERNELS_H
#define KVR_METHODS_OUTLIER_KERNELS_H

#include <stdint.h>

#include "harness/core/isa.h"

/* Count, mean and sum of squared differences from it; merged as Chan, Golub, LeVeque 1979. Of one span
 * the last is the sum of squares less n mean^2, and not below 0: in double that loses as many digits as
 * the mean's square has more than the variance, of which a float needs seven of sixteen. */
struct kvr_moments {
    double n, mean, m2;
};

enum { KVR_OUTLIER_SPAN = 1024 };

struct kvr_outlier_kernels {
    /* Sixteen sums of values and of squares, each of every sixteenth element in order, then the
     * sixteen in order: the same bits in every variant. n 1..KVR_OUTLIER_SPAN. */
    struct kvr_moments (*moments)(const float *x, int64_t n);
    int64_t (*count_over)(const float *x, int64_t n, float bound); /* |x| > bound */
    /* first + i of those, i < n, ascending; how many. */
    int64_t (*list_over)(const float *x, int64_t n, float bound, int32_t first, int32_t *list);
    int64_t (*next_over)(const float *x, int64_t n, float bound); /* the first such; n: none */
};
KVR_ISA_TABLES(struct kvr_outlier_kernels, kvr_outlier_kernels)

#endif
