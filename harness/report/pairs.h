/* pairs.h - tests whether two methods differ, from paired differences over the same prompts.
 *
 *     struct kvr_comparison c;
 *     KVR_TRY(kvr_compare(d, n, 0.95, &c));      d [n]: A - B, one per prompt
 *     kvr_holm(p, m, adjusted);                  p [m]: c.p of all comparisons of a table
 *     if (kvr_separable(&c, adjusted[i])) ...
 *
 * A sign-flip permutation test: under the null hypothesis A - B and B - A are equally likely in
 * every prompt, and so are all 2^n choices of signs of d. p is the share of choices whose sum is at
 * least as far from 0 as the observed one (R. A. Fisher, The Design of Experiments, 1935, section
 * 21). It assumes independent prompts and, under the null, differences symmetric about 0. If only
 * the means are equal and the differences are skewed, its error rate may exceed the level.
 * "Separable" therefore also requires that the confidence interval of the mean, which accounts for
 * skewness, excludes 0. docs/measuring.md measures the joint error rate. */
#ifndef KVR_REPORT_PAIRS_H
#define KVR_REPORT_PAIRS_H

#include "harness/report/stats.h"

enum {
    KVR_PAIRS_MIN = 6,   /* with 5 pairs p is at least 1/16, above 5 % */
    KVR_FLIPS_EXACT = 34 /* with up to 34 pairs all 2^n choices are enumerated; with more, Student's
                          * t is used */
};

struct kvr_comparison {
    int n; /* number of pairs */
    double mean;
    struct kvr_interval ci; /* NaN when n < 2 */
    double p;               /* two-sided; NaN when n is 0 */
    /* 1 less the one-sided mid-p value for A above B: the share of sign assignments whose sum is below
     * the observed one, ties counting half. 0.5: no evidence; at most 1 - 2^-(n + 1). NaN if n is 0. */
    double p_above;
};

/* d [n] finite; n may be 0. KVR_ENOMEM. */
enum kvr_status kvr_compare(const double *d, int n, double level, struct kvr_comparison *out);

/* Holm-adjusted p-values of p [m]: if all hypotheses with adjusted p <= alpha are rejected, the
 * probability of any false positive is at most alpha (S. Holm, Scand. J. Statist. 6 (1979) 65). NaN
 * stays NaN and is not counted. KVR_ENOMEM. */
enum kvr_status kvr_holm(const double *p, int m, double *adjusted);

/* Whether the two methods are separable: at least KVR_PAIRS_MIN pairs, adjusted p at most 1 -
 * level, and an interval that excludes 0. */
bool kvr_separable(const struct kvr_comparison *c, double adjusted);

/* Minimum number of pairs for one of m comparisons to be separable: 2^(1 - n) <= (1 - level) /
 * m. */
int kvr_pairs_needed(int m, double level);

#endif
