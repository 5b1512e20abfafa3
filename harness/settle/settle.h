/* settle.h - adds prompts to the open claims of a ledger until each has a verdict.
 *
 *     struct kvr_settle_summary s;
 *     KVR_TRY(kvr_settle(&(struct kvr_settle_options){ .db = "kvreel.db", .out = "out" }, &s));
 *
 * A round judges the ledger (report/claims.h). The open claims with the least remaining cost, by
 * variance and by the time of their methods' cells so far, get more prompts. A claim that needs
 * more prompts than exist is measured until it is futile. Then a sweep of these methods runs
 * (run/run.h). Prompts are taken in the order of the ledger's suites, up to the first prompt with a
 * word outside the model's training (`held_out`). A round at most doubles a claim's prompts, so an
 * early estimate of the variance does not determine the sample size. All state is in the database,
 * so the same call resumes an interrupted one.
 *
 * `settle` in a ledger is {model, suites, frames, window, control, metrics, set}, where `set` is a
 * map of other settings; or a list of such maps, one per model. Claims without a model belong to
 * the first.
 *
 * Settle adds prompts, never seeds. A new prompt costs as much as a second seed of an old one, and
 * reduces the variance of the mean, (p + s / k) / n for n prompts and k seeds, at least as much. A
 * new seed would also change the value of a prompt that was already judged, while the sequential
 * test (sequence.h) bounds false verdicts only for values that do not change. Draws of BF16
 * (`control`) show which prompts have two possible videos. */
#ifndef KVR_SETTLE_SETTLE_H
#define KVR_SETTLE_SETTLE_H

#include <stdio.h>

#include "harness/plan/preferences.h"
#include "harness/report/claims.h"

struct kvr_settle_options {
    const char *ledger;     /* NULL: results/claims.yaml */
    const char *db, *out;   /* database; folder of the rounds' sweeps and frames */
    const char *const *ids; /* claims, NULL-terminated; NULL: all */
    int budget_s; /* seconds; only cells that would finish in time are started; 0: unlimited */
    int jobs;
    int most;      /* prompts beyond which a claim is futile; 0: all available */
    int elsewhere; /* number of prompts per suite that are measured at the end in other readings and
                    * forcings */
    const struct kvr_preferences *preferences;
    FILE *progress; /* NULL: quiet */
    int argc;
    char **argv;
};

struct kvr_settle_summary {
    int rounds, cells, failed; /* number of rounds; cells that this call measured; cells that
                                * failed */
    int open;                  /* claims that more prompts could still decide */
    int stuck;                 /* open claims with failed or unsupported cells */
    bool interrupted;          /* by a signal */
    bool out_of_budget;
};

/* KVR_ENOTFOUND: an unknown id, with the nearest; KVR_EINVAL: an invalid ledger. */
enum kvr_status kvr_settle(const struct kvr_settle_options *options,
                           struct kvr_settle_summary *out);

/* Restricts the ledger to the claims in `ids` (NULL: all); the others get `hidden`. */
enum kvr_status kvr_settle_choose(struct kvr_ledger *l, const char *const *ids);

/* Samples at which a claim has a verdict: n_needed, or fewer if `most` do not suffice, since the
 * claim is futile then. */
double kvr_settle_goal(double n_needed, int most);

/* The next number of prompts per suite for a claim with n samples of `now` prompts per suite of n_suites: a
 * multiple of three, at most `most`; `now` if there are no more. */
int kvr_settle_next(double n_needed, int n, int now, int n_suites, int most);

#endif
