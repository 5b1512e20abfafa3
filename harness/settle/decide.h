/* decide.h - runs a sweep with the setting `until: decided METRIC`, which ends when every pair of
 * methods has a verdict.
 *
 *     KVR_TRY(kvr_run(&run_options, &run));               run.until_decided: nothing was run
 *     KVR_TRY(kvr_decide(&run_options, &summary));
 *     KVR_TRY(kvr_decide_pairs(summary.ledger, db, summary.most, &pairs));
 *
 * The pairs are written as claims to the file OUT/NAME.decide.yaml, and are tested like other
 * claims (report/claims.h). Before the first interim analysis (look), all methods are run on the
 * same first few prompts of each suite. After each look, only methods of undecided pairs are run on
 * further prompts (kvr_settle_next). If the metric compares a rollout with the BF16 rollout, no
 * pair contains BF16. Baselines that kvreel added to the sweep are in no pair. The BF16 baseline is
 * run on every prompt that a method is run on. Other added baselines are run only on the first few
 * prompts, before the first look. All state is in the database, so an interrupted kvr_decide
 * resumes when it is called again. */
#ifndef KVR_SETTLE_DECIDE_H
#define KVR_SETTLE_DECIDE_H

#include <jansson.h>

#include "harness/run/run.h"

struct kvr_decide_summary {
    struct kvr_run_summary run; /* summary of the last call of kvr_run(), but `ok` and `failed` are
                                 * totals over all calls (one call per interim analysis) */
    int looks, pairs, open;     /* numbers of interim analyses (looks), of pairs of methods, and of
                                 * pairs without a verdict */
    int most;                   /* total number of available prompts in all suites */
    bool stopped;               /* kvr_decide ended early, because of a signal, the sweep's time
                                 * budget, or the sweep's limit on the number of cells */
    char ledger[600];           /* path of the file OUT/NAME.decide.yaml, which lists the pairs ("":
                                 * the sweep has no pairs) */
};

/* KVR_EINVAL: the sweep has fewer than two methods or more than KVR_DECIDE_METHODS methods, or the
 * sweep is divided into shards. */
enum { KVR_DECIDE_METHODS = 32 };
enum kvr_status kvr_decide(const struct kvr_run_options *o, struct kvr_decide_summary *out);

/* Reads the file `ledger`, which has one claim per pair of methods, tests the claims, and returns
 * the verdicts as JSON: [{better, than, metric, verdict, figure, lo, hi, margin, n, n_needed}].
 * Each claim states that method `better` is better than method `than`. `figure` is the mean
 * difference, [lo, hi] its confidence interval, and `margin` the equivalence margin. A verdict is
 * estimated to need n_needed samples, and `n` exist. */
enum kvr_status kvr_decide_pairs(const char *ledger, const char *db, int most, json_t **out);
/* Path of OUT/NAME.decide.yaml. KVR_EINVAL: too long. */
enum kvr_status kvr_decide_path(const char *out_dir, const char *name, char *path, size_t size);

#endif
