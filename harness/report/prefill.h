/* prefill.h - summarizes language-model runs with a compressed prefix (KV cache of the first
 * tokens).
 *
 *     struct kvr_prefill p;
 *     KVR_TRY(kvr_prefill_read(&p, "out/partial-prefill.db"));
 *     for (int i = 0; i < p.n; i++)
 *         KVR_TRY(kvr_prefill_compare(&p, &p.run[i], kvr_prefill_carrier(&p, &p.run[i]),
 *                                     KVR_PREFILL_NLL, &c));
 *     kvr_prefill_free(&p);
 *
 * A condition is one combination of settings, chunk length and prefix length; all methods of a
 * condition ran over the same texts. Differences between methods are paired by text (pairs.h). The
 * mean negative log-likelihood weights tokens equally, not texts: sum of -log p / number of
 * tokens. */
#ifndef KVR_REPORT_PREFILL_H
#define KVR_REPORT_PREFILL_H

#include "harness/report/stats/pairs.h"
#include "harness/report/table/table.h"

/* Metrics of one text. NLL is the negative log-likelihood, and MASS the share of attention weight
 * on the prefix. D_NLL and the shifts of MASS are differences from a run with a BF16 cache on the
 * same text. */
enum kvr_prefill_value {
    KVR_PREFILL_NLL,
    KVR_PREFILL_D_NLL,
    KVR_PREFILL_KL,
    KVR_PREFILL_TOP1,
    KVR_PREFILL_MASS,
    KVR_PREFILL_MASS_SHIFT,
    KVR_PREFILL_MASS_DISTANCE, /* |shift| */
    KVR_PREFILL_N
};

/* A run is one method in one condition; its strings are borrowed from the table. */
struct kvr_prefill_run {
    const char *settings, *method, *carrier; /* labels of the run's settings and method; `carrier`:
                                              * label of the method without its correction (a term
                                              * that removes the bias of attention scores) */
    const char *correction;                  /* "none", "taylor", ... */
    int chunk, prefix;                       /* chunk length and prefix length in tokens; prefix
                                              * length 0 stands for the mean over all prefix
                                              * lengths */
    bool baseline;
    double bits;  /* nominal bits per cached scalar, including scales and other metadata */
    int from, to; /* range [from, to) of the run's rows in the table */
    int n_texts;
};

struct kvr_prefill {
    struct kvr_table *table; /* from sql/table_prefill.sql */
    int n;
    struct kvr_prefill_run *run; /* runs [n], sorted by settings, chunk length, prefix length (0 is
                                  * last) and method (BF16 is first) */
};

/* Reads all runs of a database. A database without language-model cells yields n = 0. */
enum kvr_status kvr_prefill_read(struct kvr_prefill *out, const char *db_path);
void kvr_prefill_free(struct kvr_prefill *p); /* accepts {0} */

bool kvr_prefill_same_condition(const struct kvr_prefill_run *a, const struct kvr_prefill_run *b);
/* Returns the run of `method` with the settings, chunk length and prefix length of the run `at`, or
 * NULL if there is no such run. */
const struct kvr_prefill_run *
kvr_prefill_find(const struct kvr_prefill *p, const struct kvr_prefill_run *at, const char *method);
/* Returns the run of the BF16 cache with the settings, chunk length and prefix length of the run
 * `at`, or NULL if there is no such run. */
const struct kvr_prefill_run *kvr_prefill_baseline(const struct kvr_prefill *p,
                                                   const struct kvr_prefill_run *at);
/* Returns the run of at->carrier (the method of `at` without its correction) in the same condition
 * as `at`. The result is NULL if there is no such run, or if at->method has no correction. */
const struct kvr_prefill_run *kvr_prefill_carrier(const struct kvr_prefill *p,
                                                  const struct kvr_prefill_run *at);

/* Returns the mean of metric `value` over a run's texts, weighted by their numbers of tokens. */
double kvr_prefill_mean(const struct kvr_prefill *p, const struct kvr_prefill_run *run,
                        enum kvr_prefill_value value);
/* Compares runs a and b by the paired differences a - b over shared texts, with a 95 % interval. If
 * b is NULL, the test is whether the mean of metric `value` in run a differs from 0. KVR_ENOMEM. */
enum kvr_status kvr_prefill_compare(const struct kvr_prefill *p, const struct kvr_prefill_run *a,
                                    const struct kvr_prefill_run *b, enum kvr_prefill_value value,
                                    struct kvr_comparison *out);

/* Builds the table `prefill`, which has one row per run. Column `gain` is the negative
 * log-likelihood with a correction minus that of the same method without the correction; a negative
 * `gain` is an improvement. The test of a gain is the paired test of pairs.h. Holm's method adjusts
 * the p-values of all gains with equal settings, chunk length and prefix length. */
enum kvr_status kvr_report_prefill(struct kvr_table **out, const char *db_path);

#endif
