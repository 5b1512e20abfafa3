/* share.h - how many things a share of them is.
 *
 *     n_recent = kvr_share(0.25 * beta * n, 1, n);
 *
 * x rounded half to even, as torch and Python round, then kept within [lo, hi]; where lo > hi,
 * hi. NaN gives lo. */
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
