/* pareto.h - finds the Pareto front of methods over several objectives, and which methods dominate
 * the methods that are not on the front.
 *
 *     struct kvr_table *t;
 *     struct kvr_pareto_options o = { .db_path = "out/study33.db",
 *                                     .objectives = "ssim:max,compression:max",
 *                                     .margins = "ssim=0.005" };
 *     KVR_TRY(kvr_pareto(&t, &o));
 *
 * A dominates B if A is not worse than B by more than the margin in any objective, and better by
 * more than the margin in at least one (front.h). Dominance is decided from confidence intervals of
 * paired differences over shared prompts, so it can be undecided for a pair of methods. If a method
 * is compared with m other methods, each of its m intervals per objective has the level 1 - 0.05/m
 * (Bonferroni correction). For each objective, the m intervals are therefore simultaneous 95 %
 * intervals. If two methods share fewer than six prompts, the interval of their difference is
 * unbounded in objectives that vary between prompts. Bytes and compression are exact values without
 * confidence intervals. The default margin of a mean over prompts is kvr_chaos_margin(). With 95 %
 * probability, rounding errors that grow during a rollout change the difference of two means by
 * less than this margin. All other default margins are 0. Only rows with the same settings and
 * machine are compared. A method without a value in some objective is listed as `incomplete`. A
 * method whose mean violates a bound of `bounds`, or whose bounded mean is missing, is listed as
 * `beyond`. `incomplete` and `beyond` methods neither dominate other methods nor are dominated. */
#ifndef KVR_PARETO_PARETO_H
#define KVR_PARETO_PARETO_H

#include "harness/report/table/table.h"

struct kvr_pareto_options {
    const char *db_path;    /* path of the database whose methods are compared; not used if
                             * `published` is set */
    const char *published;  /* suite of the 33-method study, "moviegen" or "storyeval", whose
                             * published table is compared instead of a database (NULL: the
                             * database) */
    const char *objectives; /* objectives such as "ssim:max,compression:max", or the name of one of
                             * kvr_frontiers */
    const char *where;      /* SQL condition on the view `summary` that selects methods (NULL: all
                             * methods) */
    const char *cells;      /* SQL condition on the view `cells_wide` that selects cells (NULL: all
                             * cells) */
    const char *margins;    /* margins such as "ssim=0.005", which replace the default margins */
    const char *bounds;     /* bounds on means such as "ssim>=0.9,lpips<=0.2"; methods that violate
                             * a bound are excluded from the comparison */
    bool exact;             /* whether to compare means without intervals, as the 33-method study
                             * does */
    bool front_only;        /* whether to omit dominated and incomplete methods from the table */
};

/* One of the four Pareto fronts that the 33-method study reports, with its list of objectives.
 * Objectives that the database lacks are omitted and named in the table's note. */
struct kvr_frontier {
    const char *name, *title, *objectives;
};
extern const struct kvr_frontier kvr_frontiers[]; /* ends with name NULL */

/* Builds a table with a row per method and settings. Rows with equal settings are sorted by verdict
 * (front, undecided, dominated, beyond, incomplete), then by the first objective. The columns are
 * method, verdict, the objectives, p_front, dominated_by, why (the reason for the verdict) and
 * settings. Column p_front is the fraction of bootstrap resamples in which no other method
 * dominates the method. KVR_EINVAL: an objective or margin is malformed or unknown. KVR_ENOTFOUND:
 * no requested objective has a value, or there are no methods to compare. */
enum kvr_status kvr_pareto(struct kvr_table **out, const struct kvr_pareto_options *o);

#endif
