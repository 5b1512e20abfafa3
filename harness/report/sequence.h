/* sequence.h - verdicts that may be looked at after every prompt.
 *
 *     struct kvr_sequence s = { 0 };
 *     for (...) kvr_sequence_add(&s, x);            differences, one per prompt, as they come
 *     kvr_sequence_tell(&s, margin, &region, &log_e);
 *     kvr_e_bh(log_e, m, 0.05, told, &threshold);   over all claims of a ledger
 *     kvr_sequence_interval(&s, threshold, &lo, &hi);
 *
 * E(m), the evidence against mean m, is a Bayes factor: Student's t statistic under a normal prior
 * of variance G = 1 on (mean - m) / sd, against no difference,
 *
 *     E = (1 + nG)^-1/2 [(1 + t^2 / (n - 1)) / (1 + t^2 / ((n - 1)(1 + nG)))]^(n / 2).
 *
 * Under mean m and normal data E is a test martingale, so that P(E ever reaches 1 / alpha) <= alpha
 * whenever and however often one looks: H. Wang and A. Ramdas, Anytime-valid t-tests and confidence
 * sequences for Gaussian means with unknown variance, Sequential Analysis 44 (2025), Theorem 4.2
 * (after T. L. Lai, Ann. Statist. 4 (1976) 265). {m: E(m) < 1 / alpha} is a confidence sequence.
 *
 * t misleads for skewed data, so z = (mean - m) / sd is replaced by the smaller of z and its Hall
 * transformation (stats.h). The skewness is the sample's, plus one standard error of a normal sample's
 * skewness towards the side where t is anti-conservative:
 *
 *     h(z) = z + g z^2 / 3 + g^2 z^3 / 27 + g / (6n),  g = min(G1, 0) - sqrt(6 n (n - 1) / ((n - 2)
 *            (n + 1)(n + 3))),  G1: of the data as seen from m.
 *
 * tests/report/test_sequence.c simulates what is left of 5 %. A rare event that no sample has had
 * (one prompt in twenty) is beyond any such method: KVR_SEQUENCE_MIN prompts come before a verdict.
 *
 * Over claims: the e-BH procedure, R. Wang and A. Ramdas, False discovery rate control with e-values,
 * J. R. Statist. Soc. B 84 (2022) 822: of m claims the k with the most evidence get a verdict, k
 * being the largest for which each has E >= m / (k alpha). The expected share of false verdicts is at most
 * alpha under any dependence between claims. */
#ifndef KVR_REPORT_SEQUENCE_H
#define KVR_REPORT_SEQUENCE_H

#include <stdbool.h>

#include "harness/core/status.h"

enum { KVR_SEQUENCE_MIN = 12 }; /* prompts before any verdict */

/* Sums over n values; {0} is of none. */
struct kvr_sequence {
    int n;
    double mean, m2, m3; /* sums of squares and cubes about the mean */
};

void kvr_sequence_add(struct kvr_sequence *s, double x);
double kvr_sequence_sd(const struct kvr_sequence *s); /* NaN when n < 2 */

/* Natural logarithm of E(m), at least 0; 0 where n < KVR_SEQUENCE_MIN. */
double kvr_sequence_log_e(const struct kvr_sequence *s, double m);

/* Of a mean in units of margin >= 0: above it, below -margin, or within both. */
enum kvr_region { KVR_ABOVE, KVR_BELOW, KVR_WITHIN };

/* The region of the mean, and the evidence that the true mean is nowhere else. */
void kvr_sequence_tell(const struct kvr_sequence *s, double margin, enum kvr_region *region,
                       double *log_e);

/* {m: log E(m) < log_e}, infinite where n is too small for it. */
void kvr_sequence_interval(const struct kvr_sequence *s, double log_e, double *lo, double *hi);

/* The least n at which a sequence of this mean, deviation and skewness would have `log_e` for its
 * region; INFINITY: none below 1e7. */
double kvr_sequence_needed(const struct kvr_sequence *s, double margin, double log_e);

/* log_e [m] (NaN: no claim), told [m]. *threshold: the log E that the next claim needs to be told;
 * of those told it is no more than what each has. KVR_ENOMEM. */
enum kvr_status kvr_e_bh(const double *log_e, int m, double alpha, bool *told, double *threshold);

#endif
