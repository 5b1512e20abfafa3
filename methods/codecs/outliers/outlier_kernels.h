/* outlier_kernels.h - functions of the stage `outliers`, one table per instruction set. */
#ifndef KVR_METHODS_OUTLIER_KERNELS_H
#define KVR_METHODS_OUTLIER_KERNELS_H

#include <stdint.h>

#include "harness/core/isa.h"

/* Number n, mean and sum m2 of squared deviations of a set of values. For up to KVR_OUTLIER_SPAN
 * values, m2 = max(sum x^2 - n mean^2, 0). Larger sets are merged by the formulas of Chan, Golub
 * and LeVeque (1979). The subtraction cancels leading digits if mean^2 is much larger than the
 * variance. This is acceptable, because double precision has nine digits more than the float result
 * needs. */
struct kvr_moments {
    double n, mean, m2;
};

enum { KVR_OUTLIER_SPAN = 1024 };

/* The sum of BF16 values and the sum of their squares, both approximate. Values are first added
 * in F32, with at most 64 roundings before a result is added in double. The error of `sum` is at
 * most 2^-18 times the sum of magnitudes, and that of `square` at most 2^-18 times the sum of
 * squares. */
struct kvr_rough {
    double sum, square;
};

struct kvr_outlier_kernels {
    /* Computes struct kvr_moments of n values, 1 <= n <= KVR_OUTLIER_SPAN. Partial sum i adds the
     * elements i, i + 16, i + 32, ... in order, and the sixteen partial sums are added in order.
     * All instruction sets therefore compute identical bits. */
    struct kvr_moments (*moments)(const float *x, int64_t n);
    int64_t (*count_over)(const float *x, int64_t n, float bound); /* |x| > bound */
    /* Writes first + i to `list`, in ascending order, for all i < n with |x[i]| > bound. Returns
     * the number of written indices. */
    int64_t (*list_over)(const float *x, int64_t n, float bound, int32_t first, int32_t *list);
    /* Returns the smallest i with |x[i]| > bound, or n if there is none. */
    int64_t (*next_over)(const float *x, int64_t n, float bound);
    /* Reads n BF16 values, 1 <= n <= KVR_OUTLIER_SPAN. Computes the sums of x and x^2, and sets bit
     * i % 64 of over[i / 64] if |x[i]| > least. BF16 numbers are passed as uint16_t integers with
     * the same bits. The sums may differ between instruction sets. */
    struct kvr_rough (*rough)(const uint16_t *x, int64_t n, uint16_t least, uint64_t *over);
};
KVR_ISA_TABLES(struct kvr_outlier_kernels, kvr_outlier_kernels)

#endif
