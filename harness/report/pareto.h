/* pareto.h - who is on the front of several objectives, and who dominates the rest.
 *
 *     struct kvr_table *t;
 *     struct kvr_pareto_options o = { .db_path = "out/study33.db",
 *                                     .objectives = "ssim:max,compression:max",
 *                                     .margins = "ssim=0.005" };
 *     KVR_TRY(kvr_pareto(&t, &o));
 *
 * The rule is that of stats/front.h: A dominates B when it is nowhere worse by more than the margin
 * and somewhere better by more, for sure; does not, when that is sure; else it is undecided. For
 * sure: by the interval of the differences over the prompts that both have, seeds, repeats and
 * draws being means of their prompt; its level is 1 - 0.05 / (number of rivals), so that a method
 * is wrongly called dominated in at most one table of twenty, however many rivals it has. With
 * fewer than six prompts nothing is known of what is noisy. Bytes and compression are exact. A
 * margin that nobody says is what chaos alone does to the difference of two means (chaos.h). Only
 * rows of the same settings and machine are compared. A method without a value for every objective
 * is named, and neither dominates nor is dominated; nor does one whose mean of a metric lies beyond a
 * bound, or that has no value of it: what is cheap and wrong is no rival. */
#ifndef KVR_REPORT_PARETO_H
#define KVR_REPORT_PARETO_H

#include "harness/report/table.h"

struct kvr_pareto_options {
    const char *db_path;    /* a database, or */
    const char *published;  /* a suite of the study's published table: "moviegen", "storyeval" */
    const char *objectives; /* "NAME:max,NAME:min", or the name of one of kvr_frontiers */
    const char *where;      /* SQL condition on summary: who takes part; NULL: all */
    const char *cells;      /* SQL condition on cells_wide: what of them; NULL: all */
    const char *margins;    /* "NAME=VALUE,...", instead of what chaos.h says of an objective */
    const char *bounds;     /* "ssim>=0.9,lpips<=0.2": means beyond which a method takes no part */
    bool exact;             /* any difference above the margin counts, noise too, as in the study */
    bool front_only;        /* leaves out who is dominated or incomplete */
};

/* The study's four, by its own objectives; those that a database lacks are left out, said so. */
struct kvr_frontier {
    const char *name, *title, *objectives;
};
extern const struct kvr_frontier kvr_frontiers[]; /* ends with name NULL */

/* Rows: the front by its first objective, then the undecided, then the others. Columns: method,
 * verdict (front: nobody dominates it, for sure; undecided; dominated; beyond a bound; incomplete), each objective,
 * p_front (share of the resamples of the prompts in which nobody dominates it), dominated_by, why,
 * settings. KVR_EINVAL: objectives or margins that cannot be read or are not known; KVR_ENOTFOUND:
 * one that nobody has, or nobody to compare. */
enum kvr_status kvr_pareto(struct kvr_table **out, const struct kvr_pareto_options *o);

#endif
