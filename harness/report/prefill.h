/* prefill.h - the effect of a compressed prefix on a language model: runs over texts, and their
 * table.
 *
 *     struct kvr_prefill p;
 *     KVR_TRY(kvr_prefill_read(&p, "out/partial-prefill.db"));
 *     for (int i = 0; i < p.n; i++)
 *         KVR_TRY(kvr_prefill_compare(&p, &p.run[i], kvr_prefill_carrier(&p, &p.run[i]),
 *                                     KVR_PREFILL_NLL, &c));
 *     kvr_prefill_free(&p);
 *
 * A place is a combination of settings, chunk and prefix, in which all methods ran over the same
 * texts. Differences are paired by text (pairs.h). The likelihood of a place is per token, not per
 * text: sum of -log p / number of tokens. */
#ifndef KVR_REPORT_PREFILL_H
#define KVR_REPORT_PREFILL_H

#include "harness/report/pairs.h"
#include "harness/report/table.h"

/* Values per text; differences are against the BF16 cache of the same text. */
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

/* One method at one place; texts are borrowed from the table. */
struct kvr_prefill_run {
    const char *settings, *method, *carrier; /* carrier: the method without its correction */
    const char *correction;                  /* "none", "taylor", ... */
    int chunk, prefix;                       /* prefix 0: all scored tokens */
    bool baseline;
    double bits;  /* bits per cached scalar */
    int from, to; /* rows of the table */
    int n_texts;
};

struct kvr_prefill {
    struct kvr_table *table; /* from sql/table_prefill.sql */
    int n;
    struct kvr_prefill_run *run; /* [n]: by settings, chunk and prefix (0 last); reference first */
};

/* A database without texts has no runs. */
enum kvr_status kvr_prefill_read(struct kvr_prefill *out, const char *db_path);
void kvr_prefill_free(struct kvr_prefill *p); /* accepts {0} */

bool kvr_prefill_same_condition(const struct kvr_prefill_run *a, const struct kvr_prefill_run *b);
/* The run of `method`, of the BF16 cache, and of a correction's carrier at the place of `at`. NULL:
 * there is no such run. */
const struct kvr_prefill_run *
kvr_prefill_find(const struct kvr_prefill *p, const struct kvr_prefill_run *at, const char *method);
const struct kvr_prefill_run *kvr_prefill_baseline(const struct kvr_prefill *p,
                                                   const struct kvr_prefill_run *at);
const struct kvr_prefill_run *kvr_prefill_carrier(const struct kvr_prefill *p,
                                                  const struct kvr_prefill_run *at);

/* Mean of a run's value over the tokens of all texts. */
double kvr_prefill_mean(const struct kvr_prefill *p, const struct kvr_prefill_run *run,
                        enum kvr_prefill_value value);
/* Compares runs a and b by their paired differences a - b over shared texts; b NULL: the values of
 * a are used instead of differences. The interval is at 95 %. KVR_ENOMEM. */
enum kvr_status kvr_prefill_compare(const struct kvr_prefill *p, const struct kvr_prefill_run *a,
                                    const struct kvr_prefill_run *b, enum kvr_prefill_value value,
                                    struct kvr_comparison *out);

/* The table `prefill`, a row per run. `gain`: likelihood of a correction minus its carrier's,
 * tested as in pairs.h with Holm's correction over the corrections of a place. */
enum kvr_status kvr_report_prefill(struct kvr_table **out, const char *db_path);

#endif
