/* pairs.h - tests whether two methods differ, from paired differences over the same prompts.
 *
 *     struct kvr_comparison c;
 *     KVR_TRY(kvr_compare(d, n, 0.95, &c));      d [n]: A - B, one per prompt
 *     kvr_holm(p, m, adjusted);                  p [m]: c.p of all comparisons of a table
 *     if (kvr_separable(&c, adjusted[i])) ...
 *
 * The function kvr_compare runs a sign-flip permutation test. Under the null hypothesis all 2^n
 * sign assignments of the differences d are equally likely. The p-value is the fraction of sign
 * assignments whose sum is at least as far from 0 as the observed sum (Fisher, The Design of
 * Experiments, 1935, section 21). The test assumes independent prompts and, under the null,
 * differences symmetric about 0. If the means are equal but the differences are skewed, the test's
 * error rate may exceed the nominal rate. Two methods therefore count as separable only if the
 * skewness-corrected confidence interval of the mean also excludes 0. The measured error rate of
 * both criteria together is in docs/measuring.md. */
#ifndef KVR_STATS_PAIRS_H
#define KVR_STATS_PAIRS_H

#include "harness/report/stats/stats.h"

enum {
    KVR_PAIRS_MIN = 6,   /* 5 pairs cannot reach p < 5 %: their smallest p is 1/16 */
    KVR_FLIPS_EXACT = 34 /* maximum number of pairs for which all 2^n sign assignments are
                          * enumerated; more pairs are tested by Student's t test */
};

struct kvr_comparison {
    int n; /* number of pairs */
    double mean;
    struct kvr_interval ci; /* confidence interval of the mean difference (NaN: n < 2) */
    double p;               /* two-sided p-value (NaN: n is 0) */
    /* Evidence for A > B: 1 minus the one-sided mid-p value. It is the fraction of the 2^n sign
     * assignments of d that have a smaller sum than d; sign assignments with an equal sum count
     * half. The value 0.5 means no evidence; the maximum is 1 - 2^-(n + 1). The field is NaN if n
     * is 0. */
    double p_above;
};

/* Compares two methods by their paired differences d [n], which must be finite; n may be 0.
 * KVR_ENOMEM. */
enum kvr_status kvr_compare(const double *d, int n, double level, struct kvr_comparison *out);

/* Writes the Holm-adjusted p-values of p [m] to adjusted [m]. If all hypotheses with adjusted p <=
 * alpha are rejected, the probability of any false positive is at most alpha (Holm, Scandinavian
 * Journal of Statistics 6, 1979, 65). A NaN in p stays NaN and is not counted as a hypothesis.
 * KVR_ENOMEM. */
enum kvr_status kvr_holm(const double *p, int m, double *adjusted);

/* Returns whether two methods are separable, that is, differ significantly: c has at least
 * KVR_PAIRS_MIN pairs, `adjusted` (c->p adjusted for multiple comparisons) is at most 1 - level,
 * and c->ci excludes 0. */
bool kvr_separable(const struct kvr_comparison *c, double adjusted);

/* Returns the smallest number of pairs n >= KVR_PAIRS_MIN with which kvr_separable can return true
 * in a table of m comparisons at confidence level `level`. The p-value of n pairs is at least
 * 2^(1 - n), and Holm's method rejects the smallest of m p-values if it is at most
 * (1 - level) / m. */
int kvr_pairs_needed(int m, double level);

#endif
