/* outlier_kernels.h - functions of the stage `outliers`, one table per instruction set. */
#ifndef KVR_METHODS_OUTLIER_KERNELS_H
#define KVR_METHODS_OUTLIER_KERNELS_H

#include <stdint.h>

#include "harness/core/isa.h"

/* Count, mean and sum of squared deviations of a set of values, merged as in Chan, Golub and
 * LeVeque, 1979. Within a span of values, m2 is the sum of squares minus n mean^2, and at least 0.
 * The difference in m2 loses the digits by which mean^2 exceeds the variance; double has 16 digits,
 * and the float result needs only seven. */
struct kvr_moments {
    double n, mean, m2;
};

enum { KVR_OUTLIER_SPAN = 1024 };

/* F32 sums of BF16 values and of their squares. A partial sum is rounded at most 64 times before it
 * is added in double. The error is at most 2^-18 of the sum of magnitudes, and at most 2^-18 of the
 * sum of squares. */
struct kvr_rough {
    double sum, square;
};

struct kvr_outlier_kernels {
    /* Computes the moments of n values, 1 <= n <= KVR_OUTLIER_SPAN. Sixteen partial sums, each over
     * every sixteenth element in order, are added in order, so every variant gives identical
     * bits. */
    struct kvr_moments (*moments)(const float *x, int64_t n);
    int64_t (*count_over)(const float *x, int64_t n, float bound); /* |x| > bound */
    /* Lists first + i, in ascending order, for the elements i < n with |x[i]| > bound; returns
     * their number. */
    int64_t (*list_over)(const float *x, int64_t n, float bound, int32_t first, int32_t *list);
    /* index of the first element with |x| > bound, or n without such an element */
    int64_t (*next_over)(const float *x, int64_t n, float bound);
    /* n BF16 values, 1..KVR_OUTLIER_SPAN. Bit i % 64 of over[i / 64] is set if |x[i]| > least,
     * compared as integers. The sums may differ between instruction sets. */
    struct kvr_rough (*rough)(const uint16_t *x, int64_t n, uint16_t least, uint64_t *over);
};
KVR_ISA_TABLES(struct kvr_outlier_kernels, kvr_outlier_kernels)

#endif
