/* claims.h - papers' claims, and the verdicts that a database supports.
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
 *     published               the printed difference, positive as the claim says, in the metric's unit
 *
 * and one of
 *
 *     more: {metric, of, than, by, kind, forcing, suite, model, margin}    of's metric is above than's (above
 *                                0 without one) by more than `by`, over the prompts that both have
 *     less: {...}                the other way round
 *     alike: {metric, of, than, within}    the two are within that of each other
 *     sql: SELECT place, sample, x         anything else: the mean of x is above 0; `shown_by` says
 *                                what it is, `metric` or `margin` in what it is measured, `needs`
 *                                which methods, `kind` and `forcing` which cells of them
 *     ratio: {method, is}        compression of Wan 1.3B's cache at 165 frames, as printed
 *     command, why               not testable on this machine, and the command that would test it
 *
 * and, beside any of them,
 *
 *     card: {of, than, above or below}    the ratio of two rows of results/measured is above, or below, a
 *                                number (claims_card.c); decides a claim about time before a CPU's times do
 *     card: {of, on, above or below}      a row's value, on cards whose name contains `on`
 *
 * Verdicts are of the test of sequence.h, e-BH at 5 % over all tests of the ledger, so that a database
 * may be judged as often as it grows:
 *
 *     holds            the difference is beyond the margin, as the claim says
 *     does not hold    beyond the margin, the other way round
 *     equal            within the margin
 *     futile           24 prompts or more, and a verdict would need more than `most`
 *     cannot be told here    none of these yet, or not on this machine; `why` says which
 *
 * The margin is the larger of the ledger's and the chaos part. For an SSIM that is 1 - the mean over the BF16
 * rollout's draws. For a PSNR p with the draws' floor f it is 10 log10(1 + 10^((p - f) / 10)): the decibels
 * that the chaos error adds to an error of p. Prompts with two possible videos (chaos.h)
 * are no part of the floor. */
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

/* Ratios of two measured rows of a GPU, or a row's value on a named GPU. */
struct kvr_claim_card {
    const char *of, *than; /* names of rows; of NULL: the claim has no `card`; than "": no ratio */
    const char *on;        /* "H200": the figure must be from a card of that name; "": any */
    bool above;
    double bound;
    int n;                  /* sessions with both rows */
    double lo, hi, log_sum; /* of the ratios */
    char gpu[64];
};

/* Texts are the ledger's document's. */
struct kvr_claim {
    const char *id, *says, *source, *at;
    enum kvr_claim_relation relation;
    const char *metric, *of, *than, *kind, *forcing, *suite, *model, *sql; /* "": none */
    const char *needs[KVR_CLAIM_NEEDS + 1]; /* methods; ends with NULL */
    double by, within, fixed;               /* fixed: the ledger's margin; within: of `alike` */
    double published;                       /* NaN: none, or of another unit */
    char shown[320];                        /* how to show it */
    bool tested;                            /* the database has cells of it */
    char timed_on[96]; /* devices of a ratio of times: "cpu"; "": no such claim */
    bool arithmetic;
    struct kvr_sequence s;
    double level_a, level_b; /* mean metric of `of` and `than`; NaN: not known */
    double margin;
    double figure, lo, hi; /* of the mean difference, at the level of e-BH */
    double log_e;
    double n_needed; /* prompts; NaN: not known, INFINITY: none would do */
    double cost_s;   /* of the prompts that are missing, seconds of one core; NaN: not known */
    enum kvr_claim_verdict verdict;
    struct kvr_claim_card card;
    bool hidden; /* no row of the table */
    int next;    /* prompts per suite that `kvreel settle` would give it */
    char why[512];
    char where[320]; /* what its other readings, forcings and models say */
};

struct kvr_ledger {
    struct kvr_yaml *doc; /* owned */
    const struct kvr_yaml_node *sources, *methods, *margins, *settle;
    int n_claims, n_tested;
    struct kvr_claim *claim; /* owned */
    double threshold;        /* log E of the intervals */
    double cpu_s;            /* what the cells of all tests took; NaN: no database */
    int cheapest;            /* of the open claims; -1: none */
    int n[KVR_N_CLAIM_VERDICTS];
    char two_videos[400]; /* prompts that are left out of distances from BF16 */
};

struct kvr_claims_options {
    int most;          /* prompts that there are; 0: KVR_CLAIMS_MOST */
    const char *model; /* whose cells are judged; NULL: the first of `settle`, else nano's */
    bool elsewhere;    /* fill `where` */
};

/* The suites that `kvreel settle` draws from, without held-out words. */
enum { KVR_CLAIMS_MOST = 360, KVR_CLAIMS_FUTILE_AFTER = 24 };

/* `path`: NULL: results/claims.yaml, wherever it is. `db`: NULL: none, so that only arithmetic can
 * be told. KVR_EINVAL with file, line and column: a ledger that cannot be read. */
enum kvr_status kvr_claims(struct kvr_ledger *out, const char *path, const char *db,
                           const struct kvr_claims_options *options);
void kvr_ledger_free(struct kvr_ledger *l); /* accepts {0} */

enum kvr_status kvr_ledger_table(const struct kvr_ledger *l, struct kvr_table **out);

/* The claims of the installed ledger that the database has cells of. KVR_ENOTFOUND: no ledger. */
enum kvr_status kvr_report_claims(struct kvr_table **out, const char *db_path);

/* The options of a label of `methods`: {method, options}; NULL: a row of the registry. */
const struct kvr_yaml_node *kvr_ledger_method(const struct kvr_ledger *l, const char *label);

/* --- what claims*.c share ---------------------------------------------------------------- */

enum kvr_status kvr_ledger_read(struct kvr_ledger *l, const char *path);
/* Ratios of a claim's `card` below the folder `measured`; none are found where there is no such folder.
 * Errors of measured.h. */
enum kvr_status kvr_claim_card(struct kvr_claim *c, const char *measured);
/* The verdict of those, if the claim is open or the database's times are a CPU's, and there are some. */
void kvr_claim_judge_card(struct kvr_claim *c);
/* Margins, verdicts, n that is needed and costs of the claims that have been tested. */
enum kvr_status kvr_ledger_judge(struct kvr_ledger *l, const char *db,
                                 const struct kvr_claims_options *options);
/* Values of a database, read once per metric, kind, forcing and model. */
struct kvr_claim_values;
void kvr_claim_values_free(struct kvr_claim_values **v);
enum kvr_status kvr_claim_sample(struct kvr_claim *c, struct kvr_claim_values **v, const char *db,
                                 const char *model);
/* What other readings, forcings and models say. */
enum kvr_status kvr_claim_elsewhere(struct kvr_claim *c, struct kvr_claim_values **v,
                                    const char *db, const char *model);
/* The method in its other reading, NAME@study for NAME and back; the same where there is none. */
void kvr_claim_other_reading(const char *name, char *out, size_t n);
bool kvr_claim_has_reading(const char *name); /* a method with that reading exists */
/* Default equivalence margin of a metric; 0: unknown metric. */
double kvr_usual_margin(const char *metric);
/* 0: metric without a margin. */
double kvr_ledger_margin(const struct kvr_ledger *l, const char *metric);

#endif
