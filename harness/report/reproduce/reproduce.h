/* reproduce.h - compares figures (numbers) published in papers with kvreel's values, and gives each
 * comparison a verdict.
 *
 *     struct kvr_reproduction r;
 *     KVR_TRY(kvr_reproduce(&r, "study33", "out/study33.db", NULL, false));
 *     st = kvr_table_write(r.table, KVR_TABLE_TEXT, stdout);
 *     ... r.n[KVR_VERDICT_OUT] ...
 *     kvr_reproduction_free(&r);
 *
 * kvreel computes bytes and peak memory from the published model's shapes and formats, without a
 * rollout. These computed values must agree with the published figures. Figures measured on another
 * model or machine are not expected to be equal; the row gives the reason, which
 * docs/reproduction.md explains. */
#ifndef KVR_REPRODUCE_REPRODUCE_H
#define KVR_REPRODUCE_REPRODUCE_H

#include "harness/report/table/table.h"

enum kvr_verdict {
    KVR_VERDICT_EXACT,          /* kvreel's value equals the published figure in all printed
                                 * digits */
    KVR_VERDICT_WITHIN,         /* the values differ by at most the row's tolerance */
    KVR_VERDICT_BOUNDS,         /* the compressed size depends on the data, and the published figure
                                 * is within the format's bounds */
    KVR_VERDICT_OUT,            /* the values are comparable but differ by more than rounding or the
                                 * tolerance, so `kvreel reproduce` exits with code 4 */
    KVR_VERDICT_NOT_COMPARABLE, /* kvreel's conditions differ from the paper's, or the paper does
                                 * not publish them */
    KVR_VERDICT_NOT_MEASURED,   /* kvreel has no value; the row's `reason` says why */
    KVR_VERDICT_NOT_PUBLISHED,  /* the paper gives no value */
    KVR_VERDICT_HOLDS,          /* kvreel's results confirm the published statement */
    KVR_VERDICT_FAILS,          /* kvreel's results contradict the published statement */
    KVR_VERDICT_CANNOT_TELL,    /* kvreel's results neither confirm nor contradict the published
                                 * statement */
    KVR_N_VERDICTS
};
extern const char *const kvr_verdict_names[]; /* ends with NULL */

struct kvr_reproduction {
    struct kvr_table *table;
    int n[KVR_N_VERDICTS];
};

extern const char
    *const kvr_reproduce_names[]; /* short names of the papers in docs/reproduction.md: study33 (the
                                   * 33-method study), jensen and jensen-llm (attention-bias
                                   * correction), pafu (PaFu-KV); ends with NULL */

/* Compares the figures published in `paper` with kvreel's values. If `db_path` is NULL, only
 * computed figures are compared. `quantity` selects one column of the published table; NULL selects
 * all. If `measured` is true, only measured values are compared: those of compression and peak
 * memory replace kvreel's computed values, and figures without a measured value are omitted.
 * `measured` requires paper "study33" and a database, else KVR_EINVAL. KVR_ENOTFOUND: no such paper
 * or quantity, or `measured` is true and the database has no matching value. */
enum kvr_status kvr_reproduce(struct kvr_reproduction *out, const char *paper, const char *db_path,
                              const char *quantity, bool measured);
void kvr_reproduction_free(struct kvr_reproduction *r);

#endif
