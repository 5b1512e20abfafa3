/* pairs.h - are two methods different, told from their differences over the same prompts?
 *
 *     struct kvr_comparison c;
 *     KVR_TRY(kvr_compare(d, n, 0.95, &c));      d [n]: A - B, one per prompt
 *     kvr_holm(p, m, adjusted);                  p [m]: c.p of all comparisons of a table
 *     if (kvr_separable(&c, adjusted[i])) ...
 *
 * A sign-flip permutation test: if A and B are the same, A - B and B - A are equally likely in every
 * prompt, and so are all 2^n choices of signs of d. p is the share of them whose sum is at least as far
 * from 0 as the observed one (R. A. Fisher, The Design of Experiments, 1935, section 21).
 * It assumes that the prompts are independent and that a difference is symmetric about 0 when there
 * is none, and nothing of its shape. Where only the means are equal, and the differences skewed,
 * it may err more often; so "separable" also asks that the interval of the mean leave 0 out, which
 * allows for skewness. How often both are wrong together is measured in docs/measuring.md. */
#ifndef KVR_REPORT_PAIRS_H
#define KVR_REPORT_PAIRS_H

#include "harness/report/stats.h"

enum {
    KVR_PAIRS_MIN = 6,   /* with 5 pairs p is never below 1/16: nothing can be told at 5 % */
    KVR_FLIPS_EXACT = 34 /* up to here all 2^n are counted; beyond, Student's distribution */
};

struct kvr_comparison {
    int n; /* pairs */
    double mean;
    struct kvr_interval ci; /* NaN when n < 2 */
    double p;               /* two-sided; NaN when n is 0 */
    double p_above;         /* probability that A's mean is above B's: share of the sign choices
                             * whose sum is below the one seen, ties half. 0.5 says nothing; with
                             * n pairs it is at most 1 - 2^-(n + 1). NaN when n is 0 */
};

/* d [n] finite; n may be 0. KVR_ENOMEM. */
enum kvr_status kvr_compare(const double *d, int n, double level, struct kvr_comparison *out);

/* p-values p [m] of m comparisons, adjusted so that any false one among those <= alpha has
 * probability alpha: S. Holm, Scand. J. Statist. 6 (1979) 65. NaN stays NaN and is not counted.
 * KVR_ENOMEM. */
enum kvr_status kvr_holm(const double *p, int m, double *adjusted);

/* At least KVR_PAIRS_MIN pairs, adjusted p at most 1 - level, 0 outside of the interval. */
bool kvr_separable(const struct kvr_comparison *c, double adjusted);

/* The fewest pairs with which one of m comparisons could be separable: 2^(1 - n) <= (1 - level) /
 * m.
 */
int kvr_pairs_needed(int m, double level);

#endif
