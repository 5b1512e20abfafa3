/* share.h - rounds a fraction of n items to a whole number of items.
 *
 *     n_recent = kvr_share(0.25 * beta * n, 1, n);
 *
 * The number x is rounded to the nearest integer, ties to even, as in torch and Python, and then
 * clamped to [lo, hi]. If lo > hi, the result is hi; otherwise, if x is NaN, the result is lo. */
#ifndef KVR_METHODS_KERNELS_SHARE_H
#define KVR_METHODS_KERNELS_SHARE_H

#include <math.h>
#include <stdint.h>

static inline int64_t kvr_share(double x, int64_t lo, int64_t hi)
{
    double r = rint(x);

    if (!(r > (double)lo))
        return lo < hi ? lo : hi;
    return r >= (double)hi ? hi : (int64_t)r;
}

#endif
