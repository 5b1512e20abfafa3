/* stats.h - what few samples can say, and how sure it is.
 *
 *     struct kvr_interval ci;
 *     kvr_median_interval(x, n, 0.95, &ci);      ... ci.lo, ci.hi, ci.level ...
 *     KVR_TRY(kvr_mean_interval(x, n, 0.95, &ci));
 *
 * No assumption of a normal distribution: run times have a long tail, and prompts are few. Pure
 * functions of their arguments. x [n] are independent things: prompts, not cells (nested.h). */
#ifndef KVR_REPORT_STATS_H
#define KVR_REPORT_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/core/status.h"

struct kvr_interval {
    double lo, hi;
    double level; /* coverage that it has: may be less, or more, than was asked for */
    bool min_max; /* too few samples for the level: these are the smallest and the largest */
};

double kvr_mean(const double *x, int n);           /* NaN when n is 0 */
double kvr_standard_error(const double *x, int n); /* of the mean; NaN when n < 2 */
double kvr_median(const double *x, int n);         /* copies; NaN when n is 0 or without memory */

/* Of the median, from order statistics: the narrowest symmetric pair of ranks that covers it with
 * probability `level` whatever the distribution. With n < 6 no pair reaches 95 %. */
enum kvr_status kvr_median_interval(const double *x, int n, double level, struct kvr_interval *out);

/* flag[i]: x[i] is further than 14.826 MAD from the median, ten standard deviations of a normal
 * distribution. Flags are for showing: nothing is ever left out. Returns how many. */
int kvr_outliers(const double *x, int n, bool *flag);

/* Of the mean of x [n], n >= 2, or KVR_EINVAL: Student's interval, drawn out on the side of the
 * long tail as far as Hall's transformation says. With m the mean, s the standard deviation
 * (n - 1), G the skewness sqrt(n (n - 1)) / (n - 2) m3 / m2^1.5, y = t / sqrt(n) and t Student's
 * quantile of n - 1 degrees of freedom,
 *
 *     lo = m - s max(y, h(y)),  hi = m + s max(y, -h(-y)),
 *     h(y) = 3 / G (cbrt(1 + G (y - G / (6 n))) - 1),
 *
 * h being the inverse of w + G w^2 / 3 + G^2 w^3 / 27 + G / (6 n), whose distribution has lost
 * most of its skewness: P. Hall, On the removal of skewness by transformation, J. R. Statist. Soc.
 * B 54 (1992) 221. The mean lies inside; x a + b has the interval times a, plus b. What it covers
 * is measured in docs/measuring.md and held to by tests/report. */
enum kvr_status kvr_mean_interval(const double *x, int n, double level, struct kvr_interval *out);

/* The part of an interval that values can be in: an SSIM above 1 is none. Covers as much. */
void kvr_interval_within(struct kvr_interval *ci, double lo, double hi);

/* Standard normal distribution function and its inverse; Student's of df >= 1 degrees of freedom.
 */
double kvr_normal_cdf(double z);
double kvr_normal_quantile(double p);
double kvr_student_cdf(double t, int df);
double kvr_student_quantile(double p, int df);

#endif
