/* claims.h - tests claims of papers with the measurements in a database.
 *
 *     struct kvr_ledger l;
 *     KVR_TRY(kvr_claims(&l, NULL, "kvreel.db", &(struct kvr_claims_options){ 0 }));
 *     kvr_ledger_table(&l, &table);
 *     kvr_ledger_free(&l);
 *
 * A ledger is a YAML file with these keys:
 *
 *     sources     paper by short name
 *     margins     equivalence margin by metric
 *     methods     {method, options} by label, for methods that are not rows of the registry
 *     settle      the sweeps of `kvreel settle`, which measures more prompts (settle.h)
 *     claims      a list
 *
 * Every claim of a ledger has these keys:
 *
 *     id, says, source, at    the statement, and where the paper makes it
 *     published               the printed difference in the metric's unit, positive in the claimed direction
 *
 * Exactly one of the following keys of a claim defines the comparison:
 *
 *     more: {metric, of, than, by, kind, forcing, suite, model, margin}    metric(of) > metric(than) + `by`, over
 *                                the prompts of both; without `than`: metric(of) > `by`
 *     less: {...}                metric(of) < metric(than) - `by`; without `than`: < `by`
 *     alike: {metric, of, than, within}    |metric(of) - metric(than)| <= `within`
 *     sql: SELECT place, sample, x         general: the mean of x is above 0; `shown_by` describes x,
 *                                `metric` or `margin` give its unit, `needs` the methods,
 *                                `kind` and `forcing` their cells
 *     ratio: {method, options, is}    compression ratio of Wan 1.3B's cache at 165 frames, as printed;
 *                                `options` is a map of the method's options
 *     command, why               not testable on this machine, and the command that would test it
 *
 * A claim may also have the key `card` (graphics card), which defines a test with GPU measurements:
 *
 *     card: {of, than, above or below}    the ratio of two rows of results/measured is above, or below, a
 *                                number (claims_card.c); takes precedence over CPU times
 *     card: {of, on, above or below}      a row's value, on GPUs whose name contains `on`
 *
 * Verdicts come from the sequential test of sequence.h, with a false discovery rate of 5 % (e-BH)
 * over all tested claims. Claims may be tested again after every new prompt without loss of
 * validity. A verdict is one of:
 *
 *     holds            the difference exceeds the margin in the claimed direction (`alike`: the
 *                      difference is within the margin)
 *     does not hold    the difference exceeds the margin in the other direction (`alike`: in either
 *                      direction)
 *     equal            the difference is within the margin (not a verdict of `alike` claims)
 *     futile           after at least 24 prompts: a verdict needs more than `most` prompts
 *     cannot be told here    undecided, or not testable on this machine; see `why`
 *
 * The equivalence margin of a claim is its own `margin` (default: the ledger's margin for the
 * metric), or the effect of chaos if that is larger. The margin of an `alike` claim is at least
 * `within`. Chaos is the growth of rounding errors during a rollout. It is measured with BF16
 * reruns whose noise is slightly perturbed. The chaos floor f is the mean SSIM or PSNR between
 * these reruns and the unperturbed BF16 rollout. For SSIM, the effect of chaos is 1 - f. For PSNR,
 * it is 10 log10(1 + 10^((p - f) / 10)) dB, where p is the higher of the mean PSNRs of the claim's
 * two methods. This is the decrease in PSNR if an independent error with PSNR f is added to an
 * error with PSNR p. The chaos floor excludes prompts for which a BF16 rerun gives a clearly
 * different video (chaos.h). */
#ifndef KVR_CLAIMS_CLAIMS_H
#define KVR_CLAIMS_CLAIMS_H

#include "harness/plan/yaml.h"
#include "harness/report/stats/sequence.h"
#include "harness/report/table/table.h"

enum kvr_claim_verdict {
    KVR_CLAIM_HOLDS,
    KVR_CLAIM_NOT,
    KVR_CLAIM_EQUAL,
    KVR_CLAIM_FUTILE,
    KVR_CLAIM_OPEN,
    KVR_N_CLAIM_VERDICTS
};
extern const char *const kvr_claim_verdict_names[]; /* the name of each verdict, such as "does not
                                                     * hold" */

enum kvr_claim_relation {
    KVR_CLAIM_MORE,
    KVR_CLAIM_LESS,
    KVR_CLAIM_ALIKE,
    KVR_CLAIM_SQL,
    KVR_CLAIM_RATIO,
    KVR_CLAIM_COMMAND
};

enum { KVR_CLAIM_NEEDS = 8 };

/* The GPU test of a claim compares the value of one row of results/measured/GPU/rows.csv, or the
 * ratio of the values of two rows, with a bound. */
struct kvr_claim_card {
    const char *of, *than; /* names of rows in rows.csv: the test compares the ratio value(of) /
                            * value(than) with `bound` or, if `than` is "", value(of); `of` is
                            * NULL if the claim has no GPU test */
    const char *on;        /* text that the GPU's name must contain, such as "H200" ("": any GPU) */
    bool above;
    double bound;
    int n;                  /* number of measurement sessions that have rows `of` and `than` (or,
                             * if `than` is "", row `of`) */
    double lo, hi, log_sum; /* `lo`, `hi`: smallest and largest of the n ratios; `log_sum`: sum
                             * of the ratios' natural logarithms; if `than` is "", the n values
                             * of row `of` replace the ratios */
    char gpu[64];
};

/* One claim. The strings of a claim belong to the ledger's YAML document. */
struct kvr_claim {
    const char *id, *says, *source, *at;
    enum kvr_claim_relation relation;
    const char *metric, *of, *than, *kind, *forcing, *suite, *model, *sql; /* "": not given */
    const char *needs[KVR_CLAIM_NEEDS + 1]; /* methods whose cells are needed to test the claim;
                                             * ends with NULL */
    double by, within, fixed;               /* `by`, `within`: values of these keys of the claim,
                                             * explained at the top of this file; `fixed`: the
                                             * claim's or the ledger's equivalence margin, in the
                                             * metric's unit */
    double published;                       /* published difference in the metric's unit (NaN: not
                                             * published in this unit) */
    char shown[320];                        /* description of the tested comparison, for the
                                             * table */
    bool tested;                            /* the database has cells that test the claim */
    char timed_on[96]; /* devices with measured runtime ratios, such as "a CPU" or "cuda" ("": the
                        * metric is not runtime_ratio) */
    bool arithmetic;
    struct kvr_sequence s;
    double level_a, level_b; /* mean of the metric over the cells of method `of`, and over the
                              * cells of method `than` (NaN: unknown) */
    double margin;
    double figure, lo, hi; /* mean difference, and its confidence interval at the level of the
                            * e-BH procedure. For a GPU verdict: the geometric mean of the n
                            * ratios or values, and the range [card.lo / 1.1, 1.1 card.hi], which
                            * allows for a timing error of 10 % */
    double log_e;
    double n_needed; /* number of prompts needed for a verdict (NaN: unknown, INFINITY: no number
                      * suffices) */
    double cost_s;   /* estimated seconds to run the cells of the prompts still missing for a
                      * verdict, from the mean wall time per cell (NaN: unknown) */
    enum kvr_claim_verdict verdict;
    struct kvr_claim_card card;
    bool hidden; /* whether the table omits the claim */
    int next;    /* number of prompts per suite on which the claim's methods will have been
                  * measured after the next sweep of `kvreel settle` */
    char why[512];
    char where[320]; /* verdicts of the same claim under other conditions: with the methods'
                      * other variants (NAME@study), with teacher forcing (each chunk is
                      * generated from the BF16 rollout's past), and on a language model */
};

struct kvr_ledger {
    struct kvr_yaml *doc; /* owned */
    const struct kvr_yaml_node *sources, *methods, *margins, *settle;
    int n_claims, n_tested;
    struct kvr_claim *claim; /* owned */
    double threshold;        /* natural logarithm of the e-value that a verdict requires; defines
                              * the level of the confidence intervals (sequence.h) */
    double wall_s;           /* sum of the wall times in seconds of all OK cells in the database
                              * (NaN: no database) */
    int cheapest;            /* index of the undecided claim with the lowest cost_s (-1: none) */
    int n[KVR_N_CLAIM_VERDICTS];
    char two_videos[400]; /* prompts for which a BF16 rerun with slightly perturbed noise gives a
                           * clearly different video (chaos.h); metrics relative to BF16 exclude
                           * these prompts */
};

struct kvr_claims_options {
    int most;          /* number of available prompts; a claim that needs more prompts is futile; 0
                        * means KVR_CLAIMS_MOST */
    const char *model; /* model on which claims that name no model are tested (NULL: the model of
                        * the first sweep listed in the ledger's key `settle`, or nano if there
                        * is none) */
    bool elsewhere;    /* whether to repeat the tests under the other conditions listed at the field
                        * `where` of struct kvr_claim */
};

/* KVR_CLAIMS_MOST is the number of prompts on which `kvreel settle` can measure a method. It
 * excludes prompts with a word that the model was not trained on. A claim cannot be futile before
 * KVR_CLAIMS_FUTILE_AFTER prompts. */
enum { KVR_CLAIMS_MOST = 360, KVR_CLAIMS_FUTILE_AFTER = 24 };

/* Reads a ledger and computes the verdicts of its claims. If `path` is NULL, the ledger is the
 * installed results/claims.yaml. If `db` is NULL, only claims with the key `ratio` or `card` get
 * verdicts. A `ratio` is compared with a computed compression ratio, and `card` with GPU
 * measurements, so neither needs cells. KVR_EINVAL: the ledger is invalid (the message gives file,
 * line and column). */
enum kvr_status kvr_claims(struct kvr_ledger *out, const char *path, const char *db,
                           const struct kvr_claims_options *options);
void kvr_ledger_free(struct kvr_ledger *l); /* accepts {0} */

enum kvr_status kvr_ledger_table(const struct kvr_ledger *l, struct kvr_table **out);

/* Builds a table of those published claims for which the database has cells. The claims are read
 * from the installed ledger. KVR_ENOTFOUND: no ledger is installed. */
enum kvr_status kvr_report_claims(struct kvr_table **out, const char *db_path);

/* Returns the entry {method, options} of `label` in the ledger's map `methods`. Returns NULL if the
 * map lacks `label`; the label itself then names a row of methods.def. */
const struct kvr_yaml_node *kvr_ledger_method(const struct kvr_ledger *l, const char *label);

/* --- functions shared by the claims*.c files ---------------------------------------------- */

enum kvr_status kvr_ledger_read(struct kvr_ledger *l, const char *path);
/* Reads the rows that a claim's GPU test compares from the files GPU/rows.csv in the folder
 * `measured`, and writes the ratios' or values' number, range and sum of logarithms to c->card. If
 * there are no such files, c->card.n is 0. Errors are those of kvr_measured_read. */
enum kvr_status kvr_claim_card(struct kvr_claim *c, const char *measured);
/* Computes the verdict of a claim's GPU test from c->card. If the database gave no verdict
 * (c->verdict is KVR_CLAIM_OPEN), the GPU verdict replaces c->verdict. If the database gave a
 * verdict on runtimes (c->timed_on is not ""), a GPU verdict other than KVR_CLAIM_OPEN replaces it.
 * Without GPU measurements (c->card.n is 0), c->verdict stays unchanged. */
void kvr_claim_judge_card(struct kvr_claim *c);
/* Computes the fields `margin`, `verdict`, `n_needed` and `cost_s` of each tested claim. */
enum kvr_status kvr_ledger_judge(struct kvr_ledger *l, const char *db,
                                 const struct kvr_claims_options *options);
struct kvr_claim_values; /* claims_values.h */
/* Adds the paired differences of the claim's cells in `db` to the sequential test c->s, and sets
 * c->tested. If the database has no such cells, c->tested is false and c->why gives the reason. *v
 * caches the metric's values between calls. If `db` is NULL, the claim is not tested. */
enum kvr_status kvr_claim_sample(struct kvr_claim *c, struct kvr_claim_values **v, const char *db,
                                 const char *model);
/* Tests the claim under the other conditions listed at the field `where`, and writes the results to
 * c->where. */
enum kvr_status kvr_claim_other_conditions(struct kvr_claim *c, struct kvr_claim_values **v,
                                           const char *db, const char *model);
/* Writes the name of the method's other variant: NAME@study for NAME, and NAME for NAME@study. BF16
 * and names with another suffix, such as NAME@vllm, are written unchanged. */
void kvr_claim_other_reading(const char *name, char *out, size_t n);
/* Returns whether kvreel has the method variant `name`, such as NAME@study. */
bool kvr_claim_has_reading(const char *name);
/* Returns the built-in equivalence margin of a metric, for ledgers that give none; 0: there is no
 * built-in margin. */
double kvr_default_margin(const char *metric);
/* Returns the ledger's equivalence margin of a metric, or kvr_default_margin(metric) if the ledger
 * gives none. */
double kvr_ledger_margin(const struct kvr_ledger *l, const char *metric);

#endif
