/* abs_sum.h - sum of |x| in double, with the same result on every machine. Partial sum i adds the
 * elements i, i + 8, i + 16, ... in order, and the eight partial sums are added in order. */
#ifndef KVR_METHODS_KERNELS_ABS_SUM_H
#define KVR_METHODS_KERNELS_ABS_SUM_H

#include <stdint.h>

#include "harness/core/isa.h"

struct kvr_sum_kernels {
    double (*abs)(const float *x, int64_t n);
};
KVR_ISA_TABLES(struct kvr_sum_kernels, kvr_sum_kernels)

static inline double kvr_abs_sum(const float *x, int64_t n)
{
    return kvr_sum_kernels()->abs(x, n);
}

#endif
