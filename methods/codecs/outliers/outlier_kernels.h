/* outlier_kernels.h - kernels of the stage `outliers`, by instruction set. */
#ifndef KVR_METHODS_OUTLIER_KERNELS_H
#define KVR_METHODS_OUTLIER_KERNELS_H

#include <stdint.h>

#include "harness/core/isa.h"

/* Count, mean and sum of squared deviations, merged as in Chan, Golub and LeVeque, 1979. Within a
 * span, m2 is the sum of squares minus n mean^2, clamped at 0. In double this loses as many digits
 * as mean^2 exceeds the variance, and a float needs only seven of sixteen. */
struct kvr_moments {
    double n, mean, m2;
};

enum { KVR_OUTLIER_SPAN = 1024 };

/* F32 sums of BF16 values and of their squares, rounded at most 64 times before they are added in
 * double. Error: at most 2^-18 of the sum of magnitudes, and of the sum of squares. */
struct kvr_rough {
    double sum, square;
};

struct kvr_outlier_kernels {
    /* Sixteen partial sums of values and of squares, over every sixteenth element in order, then
     * added in order: bit-identical in every variant. n is 1..KVR_OUTLIER_SPAN. */
    struct kvr_moments (*moments)(const float *x, int64_t n);
    int64_t (*count_over)(const float *x, int64_t n, float bound); /* |x| > bound */
    /* Lists first + i for those i < n, ascending; returns their number. */
    int64_t (*list_over)(const float *x, int64_t n, float bound, int32_t first, int32_t *list);
    int64_t (*next_over)(const float *x, int64_t n, float bound); /* index of the first |x| > bound;
                                                                   * n if there is none */
    /* n BF16 values, 1..KVR_OUTLIER_SPAN. Bit i % 64 of over[i / 64]: |x[i]| > least, both as bits.
     * The sums differ between variants. */
    struct kvr_rough (*rough)(const uint16_t *x, int64_t n, uint16_t least, uint64_t *over);
};
KVR_ISA_TABLES(struct kvr_outlier_kernels, kvr_outlier_kernels)

#endif
