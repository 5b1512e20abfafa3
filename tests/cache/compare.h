/* compare.h - what tests of every method share: how many there are, and how far outputs differ. */
#ifndef KVR_TESTS_CACHE_COMPARE_H
#define KVR_TESTS_CACHE_COMPARE_H

#include <math.h>

#include "methods/method.h"

/* The largest difference; NaN when there is one. */
static inline double worst(const float *a, const float *b, size_t n)
{
    double w = 0;

    for (size_t i = 0; i < n; i++) {
        const double e = fabs((double)a[i] - b[i]);

        if (w == w && !(e <= w)) /* a NaN, once met, stays */
            w = e;
    }
    return w;
}

static inline int n_methods(void)
{
    int n = 0;

    while (kvr_methods[n])
        n++;
    return n;
}

#endif
