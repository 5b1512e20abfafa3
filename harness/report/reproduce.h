/* reproduce.h - published figures beside ours, cell by cell, each with a verdict.
 *
 *     struct kvr_reproduction r;
 *     KVR_TRY(kvr_reproduce(&r, "study33", "out/study33.db", NULL, false));
 *     st = kvr_table_write(r.table, KVR_TABLE_TEXT, stdout);
 *     ... r.n[KVR_VERDICT_OUT] ...
 *     kvr_reproduction_free(&r);
 *
 * What follows from arithmetic (bytes, peak memory) is computed for the published model and must
 * agree. What was measured on another model or machine stands beside the published figure without
 * a claim of equality; the reason is in the row. docs/reproduction.md explains the reasons. */
#ifndef KVR_REPORT_REPRODUCE_H
#define KVR_REPORT_REPRODUCE_H

#include "harness/report/table.h"

enum kvr_verdict {
    KVR_VERDICT_EXACT,          /* equal, to the last digit that was printed */
    KVR_VERDICT_WITHIN,         /* inside a tolerance that the row derives */
    KVR_VERDICT_BOUNDS,         /* depends on data; inside what the format allows */
    KVR_VERDICT_OUT,            /* comparable, and different: the command's exit code is 4 */
    KVR_VERDICT_NOT_COMPARABLE, /* measured, under conditions that make equality impossible */
    KVR_VERDICT_NOT_MEASURED,   /* no such figure of ours; the reason says why */
    KVR_VERDICT_NOT_PUBLISHED,  /* ours alone */
    KVR_VERDICT_HOLDS,          /* a direction, and ours for sure */
    KVR_VERDICT_FAILS,          /* ours is the other one, for sure */
    KVR_VERDICT_CANNOT_TELL,    /* ours is not sure */
    KVR_N_VERDICTS
};
extern const char *const kvr_verdict_names[]; /* ends with NULL */

struct kvr_reproduction {
    struct kvr_table *table;
    int n[KVR_N_VERDICTS];
};

extern const char
    *const kvr_reproduce_names[]; /* "study33", "jensen", "jensen-llm", "pafu", NULL */

/* `db_path` NULL: nothing measured, arithmetic alone. `quantity` NULL: every column, else the one
 * of that name. `measured`, of study33 with a database: what is in it alone, compression and peak
 * memory as they were measured too, in place of what arithmetic says. KVR_ENOTFOUND: no such paper
 * or quantity, or nothing of it in the database; KVR_EINVAL: `measured` of something else. */
enum kvr_status kvr_reproduce(struct kvr_reproduction *out, const char *paper, const char *db_path,
                              const char *quantity, bool measured);
void kvr_reproduction_free(struct kvr_reproduction *r);

#endif
