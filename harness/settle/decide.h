/* decide.h - `until: decided METRIC`: runs a sweep until each pair of its methods has a verdict.
 *
 *     KVR_TRY(kvr_run(&run_options, &run));               run.until_decided: nothing was run
 *     KVR_TRY(kvr_decide(&run_options, &summary));
 *     KVR_TRY(kvr_decide_pairs(summary.ledger, db, summary.most, &pairs));
 *
 * The pairs are written as the claims of a ledger, OUT/NAME.decide.yaml, and tested like any other
 * claims (report/claims.h). First, all methods run the first prompts of each suite. After each
 * interim analysis (look), only methods of undecided pairs run more prompts (kvr_settle_next). If
 * the metric is a distance to the BF16 rollout, no pair contains BF16. Baselines that were added
 * automatically are in no pair and run the first prompts only. All state is in the database, so an
 * interrupted kvr_decide resumes when it is called again. */
#ifndef KVR_SETTLE_DECIDE_H
#define KVR_SETTLE_DECIDE_H

#include <jansson.h>

#include "harness/run/run.h"

struct kvr_decide_summary {
    struct kvr_run_summary run; /* summary of the sweep's last round, except for `ok` and `failed`,
                                 * which are totals over all rounds */
    int looks, pairs, open;     /* number of interim analyses, of pairs, and of pairs without a
                                 * verdict */
    int most;                   /* total number of available prompts in all suites */
    bool stopped;               /* a signal, the budget or `limit` ended the call */
    char ledger[600];           /* path of the ledger that lists the pairs; an empty string if the
                                 * sweep has no pairs */
};

/* KVR_EINVAL: the sweep has fewer than two methods, more than KVR_DECIDE_METHODS methods, or
 * shards. */
enum { KVR_DECIDE_METHODS = 32 };
enum kvr_status kvr_decide(const struct kvr_run_options *o, struct kvr_decide_summary *out);

/* Returns the verdicts of a ledger's pairs as JSON: [{better, than, metric, verdict, figure, lo,
 * hi, margin, n, n_needed}]. */
enum kvr_status kvr_decide_pairs(const char *ledger, const char *db, int most, json_t **out);
/* Path of OUT/NAME.decide.yaml. KVR_EINVAL: too long. */
enum kvr_status kvr_decide_path(const char *out_dir, const char *name, char *path, size_t size);

#endif
