/* pareto.h - the Pareto front of methods over several objectives, and which method dominates each
 * other one.
 *
 *     struct kvr_table *t;
 *     struct kvr_pareto_options o = { .db_path = "out/study33.db",
 *                                     .objectives = "ssim:max,compression:max",
 *                                     .margins = "ssim=0.005" };
 *     KVR_TRY(kvr_pareto(&t, &o));
 *
 * By the rule of front.h, A dominates B if it is worse by more than the margin in no objective and
 * better by more than the margin in one. If the intervals exclude that, A does not dominate B;
 * otherwise the pair is undecided. Intervals are of paired differences over shared prompts,
 * averaged per prompt. Their level is 1 - 0.05 / (number of rivals), so at most one table in twenty
 * wrongly calls a method dominated. With fewer than six prompts noisy objectives are undecided.
 * Bytes and compression are exact. The default margin is the effect of chaos on the difference of
 * two means (chaos.h). Only rows with the same settings and machine are compared. A method that
 * lacks an objective's value is listed as incomplete; a method whose mean violates a bound, or is
 * missing, is listed as beyond. Incomplete and beyond methods neither dominate nor are
 * dominated. */
#ifndef KVR_REPORT_PARETO_H
#define KVR_REPORT_PARETO_H

#include "harness/report/table.h"

struct kvr_pareto_options {
    const char *db_path;    /* a database; NULL: use `published` */
    const char *published;  /* a suite of the study's published table: "moviegen", "storyeval" */
    const char *objectives; /* "NAME:max,NAME:min", or the name of one of kvr_frontiers */
    const char *where;      /* SQL condition on summary that selects methods; NULL: all */
    const char *cells;      /* SQL condition on cells_wide that selects cells; NULL: all */
    const char *margins;    /* "NAME=VALUE,...", replaces the margins of chaos.h */
    const char *bounds;     /* "ssim>=0.9,lpips<=0.2": methods beyond these bounds do not compete */
    bool exact;      /* any difference above the margin counts, even noise, as in the study */
    bool front_only; /* omits dominated and incomplete methods */
};

/* The study's four fronts, by its objectives; the note names objectives that the database lacks. */
struct kvr_frontier {
    const char *name, *title, *objectives;
};
extern const struct kvr_frontier kvr_frontiers[]; /* ends with name NULL */

/* Rows: the front by its first objective, then undecided methods, then the others. Columns: method,
 * verdict (front, undecided, dominated, beyond, incomplete), each objective, p_front (share of
 * resamples in which no other method dominates the method), dominated_by, why, settings.
 * KVR_EINVAL: malformed or unknown objectives or margins. KVR_ENOTFOUND: no cell has an objective,
 * or there are no methods to compare. */
enum kvr_status kvr_pareto(struct kvr_table **out, const struct kvr_pareto_options *o);

#endif
