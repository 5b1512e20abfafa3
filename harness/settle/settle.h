/* settle.h - adds prompts to the open claims of a ledger until each has a verdict.
 *
 *     struct kvr_settle_summary s;
 *     KVR_TRY(kvr_settle(&(struct kvr_settle_options){ .db = "kvreel.db", .out = "out" }, &s));
 *
 * A round first computes the verdicts of all claims of the ledger (report/claims.h). The round
 * selects the open claims whose verdicts cost the least, as estimated from the variance and the
 * cell times measured so far. Then a sweep runs the methods of these claims on more prompts
 * (run/run.h). A claim that needs more prompts than exist is measured until its verdict is futile.
 * Prompts are added in suite order. The first prompt with a word that the model was not trained on
 * (`held_out`), and all prompts after it, are not used. A round at most doubles the number of a
 * claim's prompts, because early estimates of the variance are unreliable. All state is in the
 * database, so an interrupted kvr_settle resumes when it is called again.
 *
 * The ledger's entry `settle` configures the sweeps: {model, suites, frames, window, control,
 * metrics, set}, where `set` is a map of further settings. `settle` may also be a list of such
 * maps, one per model. A claim that names no model is tested on the first model of the list.
 *
 * Settle adds prompts, never seeds. With n prompts, k seeds per prompt, prompt variance p and seed
 * variance s, the variance of the mean is (p + s / k) / n. A new prompt costs as much as a second
 * seed of an old prompt, and reduces this variance at least as much. The sequential test
 * (sequence.h) also requires that a prompt's value stays fixed once the test has used the value,
 * but a new seed would change the value. BF16 reruns with slightly perturbed noise (`control` gives
 * their number) show for which prompts the rollout is bimodal, that is, can end in two different
 * videos. */
#ifndef KVR_SETTLE_SETTLE_H
#define KVR_SETTLE_SETTLE_H

#include <stdio.h>

#include "harness/plan/preferences.h"
#include "harness/report/claims/claims.h"

struct kvr_settle_options {
    const char *ledger;     /* NULL: results/claims.yaml */
    const char *db, *out;   /* path of the database; folder for the sweeps and frames of all
                             * rounds */
    const char *const *ids; /* claims, NULL-terminated (NULL: all) */
    int budget_s; /* time limit in seconds, 0: unlimited; only cells that would finish in time
                   * start */
    int jobs;
    int most;      /* maximum number of prompts per claim (0: all prompts of the suites) */
    int elsewhere; /* number of prompts per suite that are also measured, after the last round, with
                    * the methods' other variants (readings) and with teacher forcing */
    const struct kvr_preferences *preferences;
    FILE *progress; /* NULL: quiet */
    int argc;
    char **argv;
};

struct kvr_settle_summary {
    int rounds, cells, failed; /* number of rounds; cells measured by this call; cells that
                                * failed */
    int open;                  /* number of claims that more prompts could still decide */
    int stuck;                 /* open claims that get no more prompts because their cells failed or
                                * are unsupported */
    bool interrupted;          /* a signal ended the call */
    bool out_of_budget;
};

/* KVR_ENOTFOUND: a claim id is unknown (the message suggests the nearest id). KVR_EINVAL: the
 * ledger is invalid. */
enum kvr_status kvr_settle(const struct kvr_settle_options *options,
                           struct kvr_settle_summary *out);

/* Sets `hidden` for every claim of the ledger that is not in `ids` (NULL: no claim is hidden). */
enum kvr_status kvr_settle_choose(struct kvr_ledger *l, const char *const *ids);

/* Number of prompts to measure for a claim: n_needed, or, if n_needed exceeds `most`, the number
 * that proves the claim futile. */
double kvr_settle_goal(double n_needed, int most);

/* Number of prompts per suite of a claim's next round: a multiple of three, at most `most`. The
 * claim so far has n samples from `now` prompts per suite in n_suites suites. Returns `now` if
 * there are no more prompts. */
int kvr_settle_next(double n_needed, int n, int now, int n_suites, int most);

#endif
