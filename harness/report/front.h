/* front.h - the one rule of dominance, for tables, page and plots.
 *
 * Each objective has a margin of non-inferiority, delta >= 0: what is less than that means nothing
 * (the floor of the metric, or what the reader would not mind). Of A and B the interval [lo, hi] of
 * the gain A - B is known, signed so that more is better; of what is exact lo = hi. Then
 *
 *     A dominates B      when lo >= -delta of every objective, and lo > delta of one
 *     A does not         when hi < -delta of one objective, or hi <= delta of every one
 *     undecided          else
 *
 * A wider interval makes lo smaller and hi greater, so noise can only take dominance away. */
#ifndef KVR_REPORT_FRONT_H
#define KVR_REPORT_FRONT_H

#include <stdint.h>

#include "harness/core/status.h"

enum kvr_dominance { KVR_DOMINATES_NOT = -1, KVR_DOMINANCE_UNDECIDED = 0, KVR_DOMINATES = 1 };

struct kvr_gain {
    double lo, hi; /* -INFINITY, INFINITY: nothing is known */
    double margin;
};

/* g [n_objectives], n_objectives >= 1. Less than 1e-9 is no gain. */
enum kvr_dominance kvr_dominance(const struct kvr_gain *g, int n_objectives);

enum { KVR_FRONT_RESAMPLES = 2000 };

/* M methods, K objectives, P prompts; more is better in all. */
struct kvr_front {
    int n_methods, n_objectives, n_prompts;
    const double *value;     /* [M, K] */
    const double *by_prompt; /* [M, K, P] what a prompt gave, NaN where nothing; an objective that
                              * is exact has nothing anywhere */
    const double *margin;    /* [K] */
};

/* probability [M]: share of resamples of the prompts (the same for all methods) in which
 * no method dominates this one by the rule above with lo = hi. A resampled mean strays from
 * value by sqrt(n / (n - 1)) times as far as it does, since means of n resampled values stray too
 * little by that (T. Hesterberg, Am. Statistician 69 (2015) 371). Fewer than two prompts cannot
 * stray. A function of its arguments. KVR_ENOMEM. */
enum kvr_status kvr_front_membership(const struct kvr_front *f, uint64_t seed, double *probability);

#endif
