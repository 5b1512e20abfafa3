/* stats.h - what few samples can say, and how sure it is.
 *
 *     struct kvr_interval ci;
 *     kvr_median_interval(x, n, 0.95, &ci);      ... ci.lo, ci.hi, ci.level ...
 *     KVR_TRY(kvr_bootstrap_mean(d, n, 0.95, seed, &ci));
 *
 * No assumption of a normal distribution: run times have a long tail, and prompts are few. Pure
 * functions of their arguments; the seed included, so that a table can be made again. */
#ifndef KVR_STATS_STATS_H
#define KVR_STATS_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/core/status.h"

struct kvr_interval {
    double lo, hi;
    double level; /* coverage that it has: may be less, or more, than was asked for */
    bool min_max; /* too few samples for the level: these are the smallest and the largest */
};

enum { KVR_BOOTSTRAP_RESAMPLES = 10000 };

double kvr_mean(const double *x, int n);           /* NaN when n is 0 */
double kvr_standard_error(const double *x, int n); /* of the mean; NaN when n < 2 */
double kvr_median(const double *x, int n);         /* copies; NaN when n is 0 or without memory */

/* Of the median, from order statistics: the narrowest symmetric pair of ranks that covers it with
 * probability `level` whatever the distribution. With n < 6 no pair reaches 95 %. */
enum kvr_status kvr_median_interval(const double *x, int n, double level, struct kvr_interval *out);

/* flag[i]: x[i] is further than 14.826 MAD from the median, ten standard deviations of a normal
 * distribution. Flags are for showing: nothing is ever left out. Returns how many. */
int kvr_outliers(const double *x, int n, bool *flag);

/* Of the mean of x, BCa bootstrap. With all x equal, that value. n < 2: KVR_EINVAL. */
enum kvr_status kvr_bootstrap_mean(const double *x, int n, double level, uint64_t seed,
                                   struct kvr_interval *out);

/* Standard normal distribution function and its inverse. */
double kvr_normal_cdf(double z);
double kvr_normal_quantile(double p);

#endif
