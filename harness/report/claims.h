/* claims.h - tests claims of papers against a database.
 *
 *     struct kvr_ledger l;
 *     KVR_TRY(kvr_claims(&l, NULL, "kvreel.db", &(struct kvr_claims_options){ 0 }));
 *     kvr_ledger_table(&l, &table);
 *     kvr_ledger_free(&l);
 *
 * A ledger is a YAML file with
 *
 *     sources     paper by short name
 *     margins     equivalence margin by metric
 *     methods     {method, options} by label, for methods that are not rows of the registry
 *     settle      the sweeps of `kvreel settle` (settle.h)
 *     claims      a list
 *
 * A claim has
 *
 *     id, says, source, at    the statement, and where the paper makes it
 *     published               the printed difference in the metric's unit, positive in the claimed direction
 *
 * and one of
 *
 *     more: {metric, of, than, by, kind, forcing, suite, model, margin}    metric(of) > metric(than) + `by`, over
 *                                the prompts of both; without `than`: metric(of) > `by`
 *     less: {...}                metric(of) < metric(than) - `by`; without `than`: < `by`
 *     alike: {metric, of, than, within}    their difference is at most `within`
 *     sql: SELECT place, sample, x         general: the mean of x is above 0; `shown_by` describes x,
 *                                `metric` or `margin` give its unit, `needs` the methods,
 *                                `kind` and `forcing` their cells
 *     ratio: {method, is}        compression of Wan 1.3B's cache at 165 frames, as printed
 *     command, why               not testable on this machine, and the command that would test it
 *
 * and optionally
 *
 *     card: {of, than, above or below}    the ratio of two rows of results/measured is above, or below, a
 *                                number (claims_card.c); takes precedence over CPU times
 *     card: {of, on, above or below}      a row's value, on cards whose name contains `on`
 *
 * Verdicts come from the sequential test of sequence.h, with e-BH at 5 % over all tests of the
 * ledger. They stay valid however often a growing database is judged:
 *
 *     holds            the difference exceeds the margin in the claimed direction
 *     does not hold    it exceeds the margin in the other direction
 *     equal            within the margin
 *     futile           after at least 24 prompts, a verdict would need more than `most`
 *     cannot be told here    undecided, or not testable on this machine; see `why`
 *
 * The margin is the larger of the ledger's and the chaos part. For SSIM the chaos part is 1 - the
 * mean over the BF16 rollout's draws. For a PSNR p and the draws' floor f it is 10 log10(1 + 10^((p
 * - f) / 10)), the decibels that the chaos error adds to an error of p. The floor excludes prompts
 * with two possible videos (chaos.h). */
#ifndef KVR_REPORT_CLAIMS_H
#define KVR_REPORT_CLAIMS_H

#include "harness/plan/yaml.h"
#include "harness/report/sequence.h"
#include "harness/report/table.h"

enum kvr_claim_verdict {
    KVR_CLAIM_HOLDS,
    KVR_CLAIM_NOT,
    KVR_CLAIM_EQUAL,
    KVR_CLAIM_FUTILE,
    KVR_CLAIM_OPEN,
    KVR_N_CLAIM_VERDICTS
};
extern const char *const kvr_claim_verdict_names[]; /* "holds", "does not hold", ... */

enum kvr_claim_relation {
    KVR_CLAIM_MORE,
    KVR_CLAIM_LESS,
    KVR_CLAIM_ALIKE,
    KVR_CLAIM_SQL,
    KVR_CLAIM_RATIO,
    KVR_CLAIM_COMMAND
};

enum { KVR_CLAIM_NEEDS = 8 };

/* Ratio of two measured rows on a GPU, or the value of a row on a named GPU. */
struct kvr_claim_card {
    const char *of, *than; /* row names; `of` NULL: the claim has no `card`; `than` "": a row's
                            * value, not a ratio */
    const char *on;        /* required part of the GPU's name, "H200"; "": any GPU */
    bool above;
    double bound;
    int n;                  /* number of sessions with both rows */
    double lo, hi, log_sum; /* minimum and maximum of the ratios, and the sum of their logarithms */
    char gpu[64];
};

/* Texts belong to the ledger's document. */
struct kvr_claim {
    const char *id, *says, *source, *at;
    enum kvr_claim_relation relation;
    const char *metric, *of, *than, *kind, *forcing, *suite, *model, *sql; /* "": none */
    const char *needs[KVR_CLAIM_NEEDS + 1]; /* methods; ends with NULL */
    double by, within, fixed;               /* fixed: the ledger's margin; within: bound of an
                                             * `alike` claim */
    double published;                       /* NaN: not published, or in another unit */
    char shown[320];                        /* how to reproduce it */
    bool tested;                            /* the database has cells for it */
    char timed_on[96]; /* devices of a ratio of times: "cpu"; "": not about time */
    bool arithmetic;
    struct kvr_sequence s;
    double level_a, level_b; /* mean metric of `of` and `than`; NaN: unknown */
    double margin;
    double figure, lo, hi; /* mean difference and its interval at the level of e-BH */
    double log_e;
    double n_needed; /* required prompts; NaN: unknown, INFINITY: unreachable */
    double cost_s;   /* of the missing prompts, in core seconds; NaN: unknown */
    enum kvr_claim_verdict verdict;
    struct kvr_claim_card card;
    bool hidden; /* not shown in the table */
    int next;    /* prompts per suite that `kvreel settle` would add */
    char why[512];
    char where[320]; /* text: results with other readings, forcings and models */
};

struct kvr_ledger {
    struct kvr_yaml *doc; /* owned */
    const struct kvr_yaml_node *sources, *methods, *margins, *settle;
    int n_claims, n_tested;
    struct kvr_claim *claim; /* owned */
    double threshold;        /* log E at which the intervals are given */
    double cpu_s;            /* CPU time of the cells of all tests; NaN: no database */
    int cheapest;            /* index of the cheapest open claim; -1: no claim is open */
    int n[KVR_N_CLAIM_VERDICTS];
    char two_videos[400]; /* prompts excluded from distances to BF16 */
};

struct kvr_claims_options {
    int most;          /* number of available prompts; 0: KVR_CLAIMS_MOST */
    const char *model; /* model to judge; NULL: the first of `settle`, else nano */
    bool elsewhere;    /* fill `where` */
};

/* Number of prompts in the suites of `kvreel settle`, without held-out words. */
enum { KVR_CLAIMS_MOST = 360, KVR_CLAIMS_FUTILE_AFTER = 24 };

/* path NULL: the installed results/claims.yaml. db NULL: only arithmetic claims are judged.
 * KVR_EINVAL with file, line and column: an invalid ledger. */
enum kvr_status kvr_claims(struct kvr_ledger *out, const char *path, const char *db,
                           const struct kvr_claims_options *options);
void kvr_ledger_free(struct kvr_ledger *l); /* accepts {0} */

enum kvr_status kvr_ledger_table(const struct kvr_ledger *l, struct kvr_table **out);

/* Claims of the installed ledger for which the database has cells. KVR_ENOTFOUND: no ledger. */
enum kvr_status kvr_report_claims(struct kvr_table **out, const char *db_path);

/* Options of a label in `methods`, {method, options}; NULL: the label is a row of the registry. */
const struct kvr_yaml_node *kvr_ledger_method(const struct kvr_ledger *l, const char *label);

/* --- what claims*.c share ---------------------------------------------------------------- */

enum kvr_status kvr_ledger_read(struct kvr_ledger *l, const char *path);
/* Reads the ratios of a claim's `card` below the folder `measured`; none if there is no such
 * folder. Errors of measured.h. */
enum kvr_status kvr_claim_card(struct kvr_claim *c, const char *measured);
/* Judges a claim by the ratios of its `card`, if there are any and the claim is open or the
 * database's times are those of a CPU. */
void kvr_claim_judge_card(struct kvr_claim *c);
/* Computes margins, verdicts, required prompts and costs of the tested claims. */
enum kvr_status kvr_ledger_judge(struct kvr_ledger *l, const char *db,
                                 const struct kvr_claims_options *options);
struct kvr_claim_values; /* claims_values.h */
/* Sets c->s to the sequence of the paired differences in `db`, and c->tested; without differences,
 * c->why gives the reason. *v caches the values. db NULL: not tested. */
enum kvr_status kvr_claim_sample(struct kvr_claim *c, struct kvr_claim_values **v, const char *db,
                                 const char *model);
/* Fills `where`: results with other readings, forcings and models. */
enum kvr_status kvr_claim_other_conditions(struct kvr_claim *c, struct kvr_claim_values **v,
                                           const char *db, const char *model);
/* Writes the name of the method's other reading, NAME@study for NAME and vice versa; the same name
 * if there is no other reading. */
void kvr_claim_other_reading(const char *name, char *out, size_t n);
bool kvr_claim_has_reading(const char *name); /* a method with that reading exists */
/* Default equivalence margin of a metric; 0: unknown metric. */
double kvr_default_margin(const char *metric);
/* The ledger's equivalence margin of a metric; 0: the metric has none. */
double kvr_ledger_margin(const struct kvr_ledger *l, const char *metric);

#endif
