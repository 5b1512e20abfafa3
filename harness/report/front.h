/* front.h - the dominance rule of tables, page and plots.
 *
 * Each objective has a non-inferiority margin delta >= 0, below which differences do not matter. The gain A -
 * B, signed so that more is better, has an interval [lo, hi]; lo = hi for exact objectives. Then
 *
 *     A dominates B      if lo >= -delta in every objective, and lo > delta in one
 *     A does not if hi < -delta in one objective, or hi <= delta in all
 *     undecided          otherwise
 *
 * A wider interval makes lo smaller and hi greater, so noise can only take dominance away. */
#ifndef KVR_REPORT_FRONT_H
#define KVR_REPORT_FRONT_H

#include <stdint.h>

#include "harness/core/status.h"

enum kvr_dominance { KVR_DOMINATES_NOT = -1, KVR_DOMINANCE_UNDECIDED = 0, KVR_DOMINATES = 1 };

struct kvr_gain {
    double lo, hi; /* -INFINITY, INFINITY: unknown */
    double margin;
};

/* g [n_objectives], n_objectives >= 1. Gains below 1e-9 count as 0. */
enum kvr_dominance kvr_dominance(const struct kvr_gain *g, int n_objectives);

enum { KVR_FRONT_RESAMPLES = 2000 };

/* M methods, K objectives, P prompts; more is better in all. */
struct kvr_front {
    int n_methods, n_objectives, n_prompts;
    const double *value; /* [M, K] */
    const double
        *by_prompt;       /* [M, K, P] value per prompt; NaN: missing, and for exact objectives */
    const double *margin; /* [K] */
};

/* probability [M]: share of bootstrap resamples of the prompts (the same for all methods) in which
 * no method dominates this one by the rule above with lo = hi. Deviations of resampled means are
 * scaled by sqrt(n / (n - 1)), because the bootstrap's variance is too small by that factor (T.
 * Hesterberg, Am. Statistician 69 (2015) 371). With fewer than two prompts there is no deviation.
 * Deterministic. KVR_ENOMEM. */
enum kvr_status kvr_front_membership(const struct kvr_front *f, uint64_t seed, double *probability);

#endif
