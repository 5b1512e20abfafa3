/* stats.h - estimates and confidence intervals for small samples.
 *
 *     struct kvr_interval ci;
 *     kvr_median_interval(x, n, 0.95, &ci);      ... ci.lo, ci.hi, ci.level ...
 *     KVR_TRY(kvr_mean_interval(x, n, 0.95, &ci));
 *
 * The intervals do not assume a normal distribution: runtimes have long tails, and prompts are few.
 * All functions are pure. The samples x [n] must be independent: one value per prompt, not per cell
 * (nested.h). */
#ifndef KVR_STATS_STATS_H
#define KVR_STATS_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/core/status.h"

struct kvr_interval {
    double lo, hi;
    double level; /* actual coverage, which may differ from the requested level */
    bool min_max; /* there are too few samples for the level: lo and hi are the minimum and
                   * maximum */
};

double kvr_mean(const double *x, int n);           /* arithmetic mean (NaN: n is 0) */
double kvr_standard_error(const double *x, int n); /* standard error of the mean (NaN: n < 2) */
double kvr_median(const double *x, int n);         /* median (NaN: n is 0); x has no NaN */

/* Distribution-free confidence interval of the median: the narrowest symmetric pair of order
 * statistics whose coverage is at least `level`, or the minimum and maximum if no pair has that
 * coverage. With n < 6 no pair of order statistics has 95 % coverage. KVR_EINVAL: n < 1. */
enum kvr_status kvr_median_interval(const double *x, int n, double level, struct kvr_interval *out);

/* Sets flag[i] if x[i] is more than 14.826 median absolute deviations from the median, which is ten
 * standard deviations for normal data. Returns the number of flagged values. Flagged values are
 * only displayed as outliers; no estimate excludes them. */
int kvr_outliers(const double *x, int n, bool *flag);

/* Computes the confidence interval of the mean of x [n]. The interval is Student's t interval;
 * Hall's transformation extends it on the side of the long tail. KVR_EINVAL: n < 2. Let m be the
 * mean, s the standard deviation (divisor n - 1), and m2 and m3 the second and third central
 * moments. The skewness is G = (m3 / m2^1.5) sqrt(n (n - 1)) / (n - 2). Let y = t / sqrt(n), where
 * t is the (1 + level) / 2 quantile of Student's t distribution with n - 1 degrees of freedom. The
 * bounds lo and hi of the interval are:
 *
 *     lo = m - s max(y, h(y)),  hi = m + s max(y, -h(-y)),
 *     h(y) = 3 / G (cbrt(1 + G (y - G / (6 n))) - 1).
 *
 * The function h is the inverse of Hall's transformation H(w) = w + G w^2 / 3 + G^2 w^3 / 27 + G /
 * (6 n). H removes most of the skewness (Hall, On the removal of skewness by transformation,
 * Journal of the Royal Statistical Society B 54, 1992, 221). The interval contains the mean and is
 * equivariant under affine maps a x + b. docs/measuring.md gives its measured coverage, which
 * tests/report checks. */
enum kvr_status kvr_mean_interval(const double *x, int n, double level, struct kvr_interval *out);

/* Clips an interval to [lo, hi], the range of possible values (for example, SSIM <= 1). Clipping
 * does not change the coverage. */
void kvr_interval_within(struct kvr_interval *ci, double lo, double hi);

/* Cumulative distribution function and quantile of the standard normal distribution, and of
 * Student's t with df >= 1 degrees of freedom. */
double kvr_normal_cdf(double z);
double kvr_normal_quantile(double p);
double kvr_student_cdf(double t, int df);
double kvr_student_quantile(double p, int df);

#endif
