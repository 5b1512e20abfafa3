/* reproduce.h - compares published figures with those of kvreel, with a verdict for each.
 *
 *     struct kvr_reproduction r;
 *     KVR_TRY(kvr_reproduce(&r, "study33", "out/study33.db", NULL, false));
 *     st = kvr_table_write(r.table, KVR_TABLE_TEXT, stdout);
 *     ... r.n[KVR_VERDICT_OUT] ...
 *     kvr_reproduction_free(&r);
 *
 * Figures that follow from arithmetic (bytes, peak memory) are computed for the published model and
 * must agree. Figures measured on another model or machine are shown without a claim of equality;
 * the row has the reason, which docs/reproduction.md explains. */
#ifndef KVR_REPORT_REPRODUCE_H
#define KVR_REPORT_REPRODUCE_H

#include "harness/report/table.h"

enum kvr_verdict {
    KVR_VERDICT_EXACT,          /* equal to the last printed digit */
    KVR_VERDICT_WITHIN,         /* within the row's tolerance */
    KVR_VERDICT_BOUNDS,         /* the figure depends on data and is within the format's bounds */
    KVR_VERDICT_OUT,            /* comparable, and different: the command's exit code is 4 */
    KVR_VERDICT_NOT_COMPARABLE, /* measured under conditions that rule out equality */
    KVR_VERDICT_NOT_MEASURED,   /* kvreel has no value; see the reason */
    KVR_VERDICT_NOT_PUBLISHED,  /* only kvreel has a value */
    KVR_VERDICT_HOLDS,          /* kvreel's interval confirms the published direction */
    KVR_VERDICT_FAILS,          /* kvreel's interval is on the other side */
    KVR_VERDICT_CANNOT_TELL,    /* kvreel's interval includes both directions */
    KVR_N_VERDICTS
};
extern const char *const kvr_verdict_names[]; /* ends with NULL */

struct kvr_reproduction {
    struct kvr_table *table;
    int n[KVR_N_VERDICTS];
};

extern const char
    *const kvr_reproduce_names[]; /* "study33", "jensen", "jensen-llm", "pafu", NULL */

/* `db_path` NULL: arithmetic only. `quantity`: the column to compare; NULL: all. `measured` (study33 with a
 * database): only measured figures, with measured compression and peak memory instead of arithmetic.
 * KVR_ENOTFOUND: no such paper or quantity, or none in the database; KVR_EINVAL: `measured` for another paper
 * or without a database. */
enum kvr_status kvr_reproduce(struct kvr_reproduction *out, const char *paper, const char *db_path,
                              const char *quantity, bool measured);
void kvr_reproduction_free(struct kvr_reproduction *r);

#endif
