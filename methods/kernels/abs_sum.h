/* abs_sum.h - sum of |x| in double, the same on every machine: eight sums, each of every eighth
 * element in order, then the eight in order. */
#ifndef KVR_METHODS_KERNELS_ABS_SUM_H
#define KVR_METHODS_KERNELS_ABS_SUM_H

#include <math.h>
#include <stdint.h>

static inline double kvr_abs_sum(const float *x, int64_t n)
{
    double lane[8] = { 0 }, sum = 0;
    int64_t i = 0;

    for (; i + 8 <= n; i += 8)
        for (int l = 0; l < 8; l++)
            lane[l] += fabsf(x[i + l]);
    for (; i < n; i++)
        lane[i % 8] += fabsf(x[i]);
    for (int l = 0; l < 8; l++)
        sum += lane[l];
    return sum;
}

#endif
