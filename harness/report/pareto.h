/* pareto.h - who is on the front of several objectives, and who dominates the rest.
 *
 *     struct kvr_table *t;
 *     struct kvr_pareto_options o = { .db_path = "out/study33.db",
 *                                     .objectives = "ssim:max,compression:max" };
 *     KVR_TRY(kvr_pareto(&t, &o));
 *
 * A dominates B when it is nowhere worse and somewhere better. A difference counts when the 95 %
 * interval (BCa bootstrap) of the differences over the prompts that both have keeps off zero, so
 * that noise makes no front; bytes and compression are exact. Only rows of the same settings and
 * machine are compared. A method without a value for every objective is named, and neither
 * dominates nor is dominated. */
#ifndef KVR_REPORT_PARETO_H
#define KVR_REPORT_PARETO_H

#include "harness/report/table.h"

struct kvr_pareto_options {
    const char *db_path;    /* a database, or */
    const char *published;  /* a suite of the study's published table: "moviegen", "storyeval" */
    const char *objectives; /* "NAME:max,NAME:min", or the name of one of kvr_frontiers */
    const char *where;      /* SQL condition on summary: who takes part; NULL: all */
    bool exact;             /* any difference above 1e-9 counts, as in the study */
    bool front_only;
};

/* The study's four, by its own objectives; those that a database lacks are left out, said so. */
struct kvr_frontier {
    const char *name, *title, *objectives;
};
extern const struct kvr_frontier kvr_frontiers[]; /* ends with name NULL */

/* Rows: the front by its first objective, then the others. Columns: method, verdict, each
 * objective, dominated_by, why. KVR_EINVAL: objectives that cannot be read; KVR_ENOTFOUND: one that
 * is not there, or nobody to compare. */
enum kvr_status kvr_pareto(struct kvr_table **out, const struct kvr_pareto_options *o);

#endif
