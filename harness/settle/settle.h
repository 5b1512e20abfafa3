/* settle.h - measures more prompts for the claims of a ledger (YAML file of claims to test) until
 * each claim has a verdict.
 *
 *     struct kvr_settle_summary s;
 *     KVR_TRY(kvr_settle(&(struct kvr_settle_options){ .db = "kvreel.db", .out = "out" }, &s));
 *
 * kvr_settle works in rounds. A round first tests all claims of the ledger (report/claims.h). A
 * claim without a verdict is open. The round selects the open claim that needs the least CPU time
 * for a verdict, and other open claims of similar cost. The cost is estimated from the variance and
 * the run times measured so far. Then a sweep runs the methods of the selected claims on more
 * prompts (run/run.h). If a claim is estimated to need more prompts than the suites contain, it is
 * measured on only KVR_CLAIMS_FUTILE_AFTER prompts and then gets the verdict `futile`. Prompts are
 * measured in the order of the suite. Only the prompts of a suite that precede the first prompt
 * with a `held_out` word are used. Such a word was not in the model's training data. A round at
 * most doubles the number of a claim's prompts, because early estimates of the variance are
 * unreliable. All state is in the database, so an interrupted kvr_settle resumes when it is called
 * again.
 *
 * The ledger's entry `settle` configures the sweeps: {model, suites, frames, window, control,
 * metrics, set}. Here `control` is the number of BF16 reruns with perturbed noise, and `set` maps
 * further keys of a sweep config to values. For several models, `settle` is a list of such maps,
 * one per model. A claim that names no model is tested on the first model of the list.
 *
 * The function kvr_settle measures further prompts, never further seeds of a measured prompt. With
 * n prompts, k seeds per prompt, variance p between prompts, and variance s between the seeds of a
 * prompt, the variance of the mean is (p + s / k) / n. A new prompt costs as much as a second seed
 * of an old prompt, and reduces this variance at least as much. Moreover, the sample of a prompt in
 * the sequential test (sequence.h) is the mean over the prompt's seeds. The test requires that a
 * sample that it has used does not change, but a further seed would change this mean. The BF16
 * reruns show for which prompts the rollout is bimodal, that is, can end in two different
 * videos. */
#ifndef KVR_SETTLE_SETTLE_H
#define KVR_SETTLE_SETTLE_H

#include <stdio.h>

#include "harness/plan/preferences.h"
#include "harness/report/claims/claims.h"

struct kvr_settle_options {
    const char *ledger;     /* NULL: results/claims.yaml */
    const char *db, *out;   /* db: path of the database; out: output folder for sweep files and
                             * frames */
    const char *const *ids; /* claims, NULL-terminated (NULL: all) */
    int budget_s; /* time limit of kvr_settle in seconds (0: unlimited); a rollout starts only if it
                   * would finish within the limit */
    int jobs;
    int most;      /* maximum number of prompts per claim (0: all prompts of the suites) */
    int elsewhere; /* number of prompts per suite in two extra sweeps after the last round (0: no
                    * extra sweeps). The first sweep runs other versions of the claims' methods:
                    * NAME@study (as in the published study) for NAME, and NAME for NAME@study. The
                    * second sweep runs the claims' methods with teacher forcing. */
    const struct kvr_preferences *preferences;
    FILE *progress; /* NULL: quiet */
    int argc;
    char **argv;
};

struct kvr_settle_summary {
    int rounds, cells, failed; /* number of rounds; number of cells (rollouts) that this call
                                * measured; number of cells that failed */
    int open;                  /* number of open claims for which more prompts could still lead to a
                                * verdict */
    int stuck;                 /* number of open claims that get no more prompts because their cells
                                * failed or are unsupported */
    bool interrupted;          /* a signal ended kvr_settle early */
    bool out_of_budget;
};

/* KVR_ENOTFOUND: a claim id is unknown (the message suggests the nearest id). KVR_EINVAL: the
 * ledger is invalid. */
enum kvr_status kvr_settle(const struct kvr_settle_options *options,
                           struct kvr_settle_summary *out);

/* Sets the field `hidden` of every claim whose id is not in `ids`, so that kvr_settle measures only
 * the claims in `ids`. If `ids` is NULL, no claim is hidden. KVR_ENOTFOUND: unknown id. */
enum kvr_status kvr_settle_choose(struct kvr_ledger *l, const char *const *ids);

/* Returns the target number of prompts of a claim. The target is n_needed, the estimated number of
 * prompts that a verdict needs. If n_needed exceeds `most`, the number of available prompts, such a
 * verdict cannot be reached. The target is then at most KVR_CLAIMS_FUTILE_AFTER, because a claim
 * with this number of prompts gets the verdict `futile`. */
double kvr_settle_goal(double n_needed, int most);

/* Returns the number of prompts per suite that a claim will have after its next round. The result
 * is rounded up to a multiple of three, but is at most `most`, the number of available prompts per
 * suite. Before the round, the claim has n samples, which come from the first `now` prompts of each
 * of n_suites suites. A verdict is estimated to need n_needed samples. Returns `now` if no suite
 * has further prompts. */
int kvr_settle_next(double n_needed, int n, int now, int n_suites, int most);

#endif
