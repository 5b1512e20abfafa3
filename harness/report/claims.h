/* claims.h - what papers say, and what of it a database shows.
 *
 * A ledger is a YAML file: `sources`, by a short name the paper; `claims`, each with
 *
 *     id, says, source, at    what is said, and where it stands
 *
 * and one of
 *
 *     more: {metric, of, than, by, kind, forcing}    of's metric is above than's (above 0 without
 *                                one) by more than `by`, over the prompts that both have
 *     less: {...}                the other way round
 *     alike: {metric, of, than, within}    the two are within that of each other
 *     sql: SELECT place, sample, x         anything else: the mean of x is above 0; `shown_by` says
 *                                what it is
 *     ratio: {method, is}        compression of Wan 1.3B's cache at 165 frames, as printed
 *     command, why               what cannot be told here, and what would tell it
 *
 * A claim holds when the test of stats/pairs.h says so, Holm over all tests of the ledger; does not
 * hold when it says the contrary; else it cannot be told here, and the row says why. */
#ifndef KVR_REPORT_CLAIMS_H
#define KVR_REPORT_CLAIMS_H

#include "harness/report/table.h"

enum kvr_claim_verdict { KVR_CLAIM_HOLDS, KVR_CLAIM_NOT, KVR_CLAIM_OPEN, KVR_N_CLAIM_VERDICTS };
extern const char *const kvr_claim_verdict_names[]; /* "holds", "does not hold", ... */

struct kvr_ledger {
    struct kvr_table *table; /* owned */
    int n[KVR_N_CLAIM_VERDICTS];
};

/* `path`: NULL: results/claims.yaml, wherever it is. `db`: NULL: none, so that only arithmetic can
 * be told. KVR_EINVAL with file, line and column: a ledger that cannot be read. */
enum kvr_status kvr_claims(struct kvr_ledger *out, const char *path, const char *db);
void kvr_ledger_free(struct kvr_ledger *l);

#endif
