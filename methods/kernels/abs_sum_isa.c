/* abs_sum_isa.c - sums the absolute values of an array in the order that abs_sum.h specifies. */
#include "methods/kernels/abs_sum.h"

#include <math.h>

static double abs_sum(const float *x, int64_t n)
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

const struct kvr_sum_kernels KVR_ISA_NAME(kvr_sum_kernels) = { .abs = abs_sum };
