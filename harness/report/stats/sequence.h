/* sequence.h - anytime-valid sequential tests: a test may be evaluated after every prompt and
 * stopped at any time.
 *
 *     struct kvr_sequence s = { 0 };
 *     for (...) kvr_sequence_add(&s, x);            paired differences, one per prompt
 *     kvr_sequence_region(&s, margin, &region, &log_e);
 *     kvr_e_bh(log_e, m, 0.05, rejected, &threshold);   over all claims of a ledger
 *     kvr_sequence_interval(&s, threshold, &lo, &hi);
 *
 * The e-value E(m) is the evidence against the hypothesis that the mean is m. E(m) is a Bayes
 * factor of Student's t statistic. The null hypothesis is (mean - m) / sd = 0, and the alternative
 * has a normal prior of variance G = 1 on (mean - m) / sd:
 *
 *     E = (1 + nG)^-1/2 [(1 + t^2 / (n - 1)) / (1 + t^2 / ((n - 1)(1 + nG)))]^(n / 2).
 *
 * If the data are normal with mean m, E is a test martingale, so P(E ever reaches 1 / alpha) <=
 * alpha under any stopping rule. See Wang and Ramdas, Anytime-valid t-tests and confidence
 * sequences for Gaussian means with unknown variance, Sequential Analysis 44, 2025, Theorem 4.2
 * (after Lai, Annals of Statistics 4, 1976, 265). The set of all m with E(m) < 1 / alpha is a
 * confidence sequence.
 *
 * The t statistic is biased for skewed data. E(m) therefore uses, instead of z = |mean - m| / sd,
 * the smaller of z and its Hall transformation h(z) (stats.h). Here mean and sd are the sample's
 * mean and standard deviation. The skewness g in h is min(G1, 0) minus the standard error of G1
 * under normality, where G1 is the sample skewness. A negative g stands for a longer tail towards
 * m, for which t is anti-conservative.
 *
 *     h(z) = z + g z^2 / 3 + g^2 z^3 / 27 + g / (6n),  g = min(G1, 0) - sqrt(6 n (n - 1) / ((n - 2)
 *            (n + 1)(n + 3))),  G1: sample skewness (sign reversed if mean < m).
 *
 * tests/report/test_sequence.c estimates by simulation how often E(true mean) reaches 1 / alpha,
 * for normal and skewed data. Very small samples can miss outliers that occur in one prompt of
 * twenty, so a verdict needs at least KVR_SEQUENCE_MIN prompts.
 *
 * Multiple claims are tested by the e-BH procedure (Wang and Ramdas, False discovery rate control
 * with e-values, Journal of the Royal Statistical Society B 84, 2022, 822). Of m claims, the k
 * claims with the largest E get a verdict, where k is the largest number such that each of these k
 * claims has E >= m / (k alpha). The expected fraction of false verdicts among all verdicts is at
 * most alpha under any dependence between claims. */
#ifndef KVR_STATS_SEQUENCE_H
#define KVR_STATS_SEQUENCE_H

#include <stdbool.h>

#include "harness/core/status.h"

enum { KVR_SEQUENCE_MIN = 12 }; /* minimum number of prompts for a verdict */

/* Running moments of n values; {0} is the empty sequence. */
struct kvr_sequence {
    int n;
    double mean, m2, m3; /* m2, m3: sums of the squared and of the cubed deviations from the mean */
};

void kvr_sequence_add(struct kvr_sequence *s, double x);
double kvr_sequence_sd(const struct kvr_sequence *s); /* standard deviation (NaN: n < 2) */

/* Returns the natural logarithm of E(m), or 0 if log E(m) is negative or n < KVR_SEQUENCE_MIN. */
double kvr_sequence_log_e(const struct kvr_sequence *s, double m);

/* Position of a mean relative to a margin >= 0: above the margin, below -margin, or within
 * [-margin, margin]. */
enum kvr_region { KVR_ABOVE, KVR_BELOW, KVR_WITHIN };

/* Sets *region to the region of the sample mean, and *log_e to the evidence that the true mean is
 * in the same region: the smallest log E(m) over the region's bounds m (margin, -margin). */
void kvr_sequence_region(const struct kvr_sequence *s, double margin, enum kvr_region *region,
                         double *log_e);

/* Sets [*lo, *hi] to the confidence sequence, the set of all means m with log E(m) < log_e. A bound
 * is infinite if the sample is too small for log E(m) to reach log_e at any finite m. */
void kvr_sequence_interval(const struct kvr_sequence *s, double log_e, double *lo, double *hi);

/* Returns the number of prompts needed for kvr_sequence_region to set its *log_e to at least
 * `log_e`, if mean, standard deviation and skewness stay as in `s`. Returns INFINITY if no number
 * below 1e7 suffices, and NAN if `s` has fewer than KVR_SEQUENCE_MIN values. */
double kvr_sequence_needed(const struct kvr_sequence *s, double margin, double log_e);

/* Runs the e-BH procedure (Wang and Ramdas 2022) on m null hypotheses, given the natural logarithms
 * log_e [m] of their e-values. A hypothesis whose log_e is NaN is not tested. Sets rejected [i] if
 * hypothesis i is rejected at false discovery rate alpha. If k of n tested hypotheses are rejected,
 * *threshold is log(n / (max(k, 1) alpha)); every rejected hypothesis has log_e >= *threshold.
 * KVR_ENOMEM. */
enum kvr_status kvr_e_bh(const double *log_e, int m, double alpha, bool *rejected,
                         double *threshold);

#endif
