/* sequence.h - anytime-valid sequential tests: verdicts may be read after every prompt.
 *
 *     struct kvr_sequence s = { 0 };
 *     for (...) kvr_sequence_add(&s, x);            paired differences, one per prompt
 *     kvr_sequence_region(&s, margin, &region, &log_e);
 *     kvr_e_bh(log_e, m, 0.05, rejected, &threshold);   over all claims of a ledger
 *     kvr_sequence_interval(&s, threshold, &lo, &hi);
 *
 * E(m), the evidence against mean m, is the Bayes factor of Student's t statistic under a normal
 * prior of variance G = 1 on (mean - m) / sd, against no difference:
 *
 *     E = (1 + nG)^-1/2 [(1 + t^2 / (n - 1)) / (1 + t^2 / ((n - 1)(1 + nG)))]^(n / 2).
 *
 * Under mean m and normal data E is a test martingale, so P(E ever reaches 1 / alpha) <= alpha
 * under any stopping rule: H. Wang and A. Ramdas, Anytime-valid t-tests and confidence sequences
 * for Gaussian means with unknown variance, Sequential Analysis 44 (2025), Theorem 4.2 (after T. L.
 * Lai, Ann. Statist. 4 (1976) 265). {m: E(m) < 1 / alpha} is a confidence sequence.
 *
 * t is biased for skewed data, so z = (mean - m) / sd is replaced by the smaller of z and its Hall
 * transformation (stats.h). The skewness is the sample's, shifted by one standard error of a normal
 * sample's skewness towards the side where t is anti-conservative:
 *
 *     h(z) = z + g z^2 / 3 + g^2 z^3 / 27 + g / (6n),  g = min(G1, 0) - sqrt(6 n (n - 1) / ((n - 2)
 *            (n + 1)(n + 3))),  G1: skewness towards m.
 *
 * tests/report/test_sequence.c simulates the actual error rate. No such method detects a rare event
 * that is absent from the sample (one prompt in twenty), so a verdict needs KVR_SEQUENCE_MIN
 * prompts.
 *
 * Multiple claims: the e-BH procedure (R. Wang and A. Ramdas, False discovery rate control with
 * e-values, J. R. Statist. Soc. B 84 (2022) 822). Of m claims the k with the most evidence get a
 * verdict, for the largest k such that each has E >= m / (k alpha). The expected share of false
 * verdicts is at most alpha under any dependence between claims. */
#ifndef KVR_REPORT_SEQUENCE_H
#define KVR_REPORT_SEQUENCE_H

#include <stdbool.h>

#include "harness/core/status.h"

enum { KVR_SEQUENCE_MIN = 12 }; /* prompts before any verdict */

/* Sums over n values; {0} is the empty sequence. */
struct kvr_sequence {
    int n;
    double mean, m2, m3; /* m2, m3: central sums of squares and cubes */
};

void kvr_sequence_add(struct kvr_sequence *s, double x);
double kvr_sequence_sd(const struct kvr_sequence *s); /* NaN if n < 2 */

/* Natural logarithm of E(m), at least 0; 0 if n < KVR_SEQUENCE_MIN. */
double kvr_sequence_log_e(const struct kvr_sequence *s, double m);

/* Region of a mean: above the margin (>= 0), below -margin, or between both. */
enum kvr_region { KVR_ABOVE, KVR_BELOW, KVR_WITHIN };

/* Region of the sample mean, and the evidence that the true mean is in no other region. */
void kvr_sequence_region(const struct kvr_sequence *s, double margin, enum kvr_region *region,
                         double *log_e);

/* Confidence sequence {m: log E(m) < log_e}; infinite if n is too small. */
void kvr_sequence_interval(const struct kvr_sequence *s, double log_e, double *lo, double *hi);

/* Smallest n at which a sequence of this mean, deviation and skewness would reach `log_e` for its
 * region; INFINITY: no n below 1e7 suffices. */
double kvr_sequence_needed(const struct kvr_sequence *s, double margin, double log_e);

/* e-BH (Wang and Ramdas 2022). log_e [m], NaN: no claim; rejected [m]: whether each null hypothesis
 * is rejected at false discovery rate alpha. *threshold: log E that the next claim needs.
 * KVR_ENOMEM. */
enum kvr_status kvr_e_bh(const double *log_e, int m, double alpha, bool *rejected,
                         double *threshold);

#endif
