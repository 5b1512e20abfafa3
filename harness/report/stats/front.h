/* front.h - the rule by which one method dominates another in tables, in the HTML report and in
 * plots.
 *
 * Each objective has a non-inferiority margin delta >= 0; smaller differences are irrelevant. The
 * interval [lo, hi] is the confidence interval of the gain of A over B. The gain is the difference
 * A - B, or B - A if lower values are better. For objectives without sampling error, such as bytes,
 * lo = hi. The rule is:
 *
 *     A dominates B          if lo >= -delta in every objective, and lo > delta in one
 *     A does not dominate B  if hi < -delta in one objective, or hi <= delta in all
 *     undecided              otherwise
 *
 * More noise widens the intervals, that is, lo decreases and hi increases. It can thus turn a
 * decision into "undecided", but never into its opposite. */
#ifndef KVR_STATS_FRONT_H
#define KVR_STATS_FRONT_H

#include <stdint.h>

#include "harness/core/status.h"

enum kvr_dominance { KVR_DOMINATES_NOT = -1, KVR_DOMINANCE_UNDECIDED = 0, KVR_DOMINATES = 1 };

struct kvr_gain {
    double lo, hi; /* -INFINITY, INFINITY: unknown */
    double margin;
};

/* Returns whether method A dominates B by the rule at the top of this file; g [n_objectives] are
 * the gains of A over B, one per objective, and n_objectives >= 1. Gains with an absolute value
 * below 1e-9 count as 0. */
enum kvr_dominance kvr_dominance(const struct kvr_gain *g, int n_objectives);

enum { KVR_FRONT_RESAMPLES = 2000 };

/* Values of M methods in K objectives over P prompts; larger is better in every objective. */
struct kvr_front {
    int n_methods, n_objectives, n_prompts;
    const double *value;     /* [M, K] */
    const double *by_prompt; /* values per prompt, [M, K, P]; NaN: the value is missing, or the
                              * objective has no values per prompt */
    const double *margin;    /* [K] */
};

/* Sets probability [i] to the fraction of bootstrap resamples in which no method dominates method
 * i. In a resample, the gain of A over B is exact (lo = hi): the difference of their resampled
 * means. In each resample, all methods use the same resampled prompts. With n prompts, the
 * deviation of a resampled mean from the sample mean is scaled by sqrt(n / (n - 1)), because the
 * bootstrap underestimates the variance by the factor (n - 1) / n (Hesterberg, The American
 * Statistician 69, 2015, 371). With fewer than two prompts the means are not resampled. The result
 * is deterministic for a given seed. KVR_ENOMEM. */
enum kvr_status kvr_front_membership(const struct kvr_front *f, uint64_t seed, double *probability);

#endif
