/* decide.h - `until: decided METRIC`: runs a sweep until each pair of its methods has a verdict.
 *
 *     KVR_TRY(kvr_run(&run_options, &run));               run.until_decided: nothing was run
 *     KVR_TRY(kvr_decide(&run_options, &summary));
 *     KVR_TRY(kvr_decide_pairs(summary.ledger, db, summary.most, &pairs));
 *
 * The pairs form a ledger (report/claims.h), OUT/NAME.decide.yaml, with the tests, margins and
 * error rates of claims. All methods run the first prompts of each suite. After each look only
 * methods of undecided pairs get more prompts (kvr_settle_next). BF16 is in no pair if the metric
 * compares with BF16. Baselines that the sweep does not list are in no pair and get the first
 * prompts only. All state is in the database, so the same call resumes an interrupted one. */
#ifndef KVR_SETTLE_DECIDE_H
#define KVR_SETTLE_DECIDE_H

#include <jansson.h>

#include "harness/run/run.h"

struct kvr_decide_summary {
    struct kvr_run_summary run; /* of the last look, except that cells measured and failed are
                                 * totals of all looks */
    int looks, pairs, open;     /* open: pairs without a verdict */
    int most;                   /* prompts of all suites together */
    bool stopped;               /* by a signal, the budget or `limit` */
    char ledger[600];           /* path of the ledger; "": there is no pair */
};

/* KVR_EINVAL: fewer than two methods, more than KVR_DECIDE_METHODS, or shards. */
enum { KVR_DECIDE_METHODS = 32 };
enum kvr_status kvr_decide(const struct kvr_run_options *o, struct kvr_decide_summary *out);

/* Verdicts of a ledger's pairs: [{better, than, metric, verdict, figure, lo, hi, margin, n, n_needed}]. */
enum kvr_status kvr_decide_pairs(const char *ledger, const char *db, int most, json_t **out);
/* Path of OUT/NAME.decide.yaml. KVR_EINVAL: too long. */
enum kvr_status kvr_decide_path(const char *out_dir, const char *name, char *path, size_t size);

#endif
