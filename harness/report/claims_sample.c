/* claims_sample.c - reads a claim's samples from a database. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/predict.h"
#include "harness/report/chaos.h"
#include "harness/report/claims.h"
#include "harness/report/nested.h"
#include "harness/store/statement.h"

KVR_STATEMENT(claims_values);

/* Columns of cells_wide are selected by name, metrics through their cells. */
static const char *value_of(const char *metric, char *buf, size_t size)
{
    static const char *const columns[] = { "compression", "resident_compression",
                                           "peak_bytes",  "resident_bytes",
                                           "runtime_s",   "runtime_ratio",
                                           NULL };

    for (int i = 0; columns[i]; i++)
        if (strcmp(columns[i], metric) == 0)
            return metric;
    snprintf(buf, size, "{w.score:%.60s}", metric);
    return buf;
}

/* --- values ----------------------------------------------------------------------------- */

struct kvr_claim_values {
    const char *metric, *kind, *forcing, *model;
    struct kvr_table *rows; /* method, place, sample, value, suite; by method and sample */
    struct kvr_claim_values *next;
};

enum { METHOD, PLACE, SAMPLE, VALUE, SUITE }; /* columns */

void kvr_claim_values_free(struct kvr_claim_values **v)
{
    while (*v) {
        struct kvr_claim_values *next = (*v)->next;

        kvr_table_close(&(*v)->rows);
        free(*v);
        *v = next;
    }
}

/* PSNR at which two different videos are possible; a distance from the BF16 rollout has no meaning
 * there. "0" for other metrics. */
static const char *two_videos(const char *metric)
{
    return strncmp(metric, "ssim", 4) == 0 || strncmp(metric, "psnr", 4) == 0 ||
                   strcmp(metric, "lpips") == 0
               ? KVR_TWO_VIDEOS_DB
               : "0";
}

static enum kvr_status values_of(struct kvr_claim_values **all, const char *db, const char *metric,
                                 const char *kind, const char *forcing, const char *model,
                                 const struct kvr_table **out)
{
    struct kvr_claim_values *v = *all;
    char value[80];

    for (; v; v = v->next)
        if (strcmp(v->metric, metric) == 0 && strcmp(v->kind, kind) == 0 &&
            strcmp(v->forcing, forcing) == 0 && strcmp(v->model, model) == 0) {
            *out = v->rows;
            return KVR_OK;
        }
    v = calloc(1, sizeof *v);
    if (!v)
        return kvr_fail(KVR_ENOMEM, "claims: no memory");
    *v = (struct kvr_claim_values){ metric, kind, forcing, model, NULL, *all };
    *all = v;
    KVR_TRY(kvr_table_query_with(&v->rows, db, kvr_statement_claims_values,
                                 KVR_WITH("value", value_of(metric, value, sizeof value), "kind",
                                          kind, "forcing", forcing, "model", model, "two",
                                          two_videos(metric)),
                                 NULL));
    *out = v->rows;
    return KVR_OK;
}

/* First row of a method, or n_rows. */
static int first_of(const struct kvr_table *t, const char *method)
{
    int lo = 0, hi = t->n_rows;

    while (lo < hi) {
        const int mid = lo + (hi - lo) / 2;

        if (strcmp(kvr_table_text(t, mid, METHOD), method) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* A position in table `t`, at a row of `method`. */
struct at {
    const struct kvr_table *t;
    int row;
    const char *method;
};

static bool in_method(const struct at *a)
{
    return a->row < a->t->n_rows && strcmp(kvr_table_text(a->t, a->row, METHOD), a->method) == 0;
}

/* Advances b to the sample of a. False: b's method lacks it. */
static bool advance_to(const struct at *a, struct at *b)
{
    const double sample = kvr_table_number(a->t, a->row, SAMPLE);

    while (in_method(b) && kvr_table_number(b->t, b->row, SAMPLE) < sample)
        b->row++;
    return in_method(b) && kvr_table_number(b->t, b->row, SAMPLE) == sample;
}

/* --- samples ---------------------------------------------------------------------------- */

/* The claim in the ledger's conditions, or with another reading, forcing, metric or model. */
struct variant {
    const char *of, *than, *forcing, *metric, *model;
    double sign; /* -1: this metric's direction is opposite to the claim's */
};

struct pair_sums {
    struct kvr_sequence s;
    double a, b; /* means of the two values */
};

static void finish(struct kvr_sample *sample, int n, struct pair_sums *out)
{
    n = kvr_nest(sample, n, KVR_PER_PROMPT);
    for (int i = 0; i < n; i++)
        kvr_sequence_add(&out->s, sample[i].x);
}

static enum kvr_status sample_pair(const struct kvr_claim *c, struct kvr_claim_values **values,
                                   const char *db, const struct variant *v, struct pair_sums *out)
{
    const double sign = (c->relation == KVR_CLAIM_LESS ? -1 : 1) * v->sign;
    const bool alone = !v->than[0];
    const struct kvr_table *t = NULL;
    struct kvr_sample *sample;
    struct at a, b;
    int n = 0;

    *out = (struct pair_sums){ 0 };
    KVR_TRY(values_of(values, db, v->metric, c->kind, v->forcing, v->model, &t));
    sample = calloc((size_t)t->n_rows + 1, sizeof *sample);
    if (!sample)
        return kvr_fail(KVR_ENOMEM, "claims: no memory");
    a = (struct at){ t, first_of(t, v->of), v->of };
    b = (struct at){ t, first_of(t, v->than), v->than };
    for (; in_method(&a); a.row++) {
        const double x = kvr_table_number(t, a.row, VALUE);

        if (strncmp(kvr_table_text(t, a.row, SUITE), c->suite, strlen(c->suite)) != 0 ||
            (!alone && !advance_to(&a, &b)))
            continue;
        sample[n] = (struct kvr_sample){ .prompt = (int)kvr_table_number(t, a.row, PLACE),
                                         .seed = (int)kvr_table_number(t, a.row, SAMPLE) };
        out->a += x;
        out->b += alone ? 0 : kvr_table_number(t, b.row, VALUE);
        sample[n++].x =
            alone ? sign * (x - c->by) : sign * (x - kvr_table_number(t, b.row, VALUE)) - c->by;
    }
    out->a = n ? out->a / n : NAN;
    out->b = n && !alone ? out->b / n : NAN;
    finish(sample, n, out);
    free(sample);
    return KVR_OK;
}

/* Rows of place, sample, x. */
static enum kvr_status sample_sql(const char *db, const char *sql, struct pair_sums *out)
{
    struct kvr_table *t;
    struct kvr_sample *sample;

    *out = (struct pair_sums){ .a = NAN, .b = NAN };
    KVR_TRY(kvr_table_query(&t, db, sql, NULL));
    sample = calloc((size_t)t->n_rows + 1, sizeof *sample);
    for (int i = 0; sample && i < t->n_rows; i++)
        sample[i] = (struct kvr_sample){ .prompt = (int)kvr_table_number(t, i, 0),
                                         .seed = (int)kvr_table_number(t, i, 1),
                                         .x = kvr_table_number(t, i, 2) };
    if (sample)
        finish(sample, t->n_rows, out);
    kvr_table_close(&t);
    if (!sample)
        return kvr_fail(KVR_ENOMEM, "claims: no memory");
    free(sample);
    return KVR_OK;
}

/* Devices whose ratios of times the database has: "a CPU", "cuda". */
static enum kvr_status name_devices(struct kvr_claim *c, const char *db)
{
    struct kvr_table *t;

    KVR_TRY(
        kvr_table_query(&t, db,
                        "SELECT group_concat(DISTINCT iif(backend = 'cpu', 'a CPU', backend)) FROM "
                        "cells_wide WHERE runtime_ratio IS NOT NULL AND NOT is_baseline",
                        NULL));
    snprintf(c->timed_on, sizeof c->timed_on, "%s", t->n_rows ? kvr_table_text(t, 0, 0) : "");
    kvr_table_close(&t);
    return KVR_OK;
}

enum kvr_status kvr_claim_sample(struct kvr_claim *c, struct kvr_claim_values **values,
                                 const char *db, const char *model)
{
    const struct variant v = {
        c->of, c->than, c->forcing, c->metric, c->model[0] ? c->model : model, 1
    };
    struct pair_sums p;

    if (c->relation > KVR_CLAIM_SQL)
        return KVR_OK;
    if (!db) {
        snprintf(c->why, sizeof c->why, "no database given (--db)");
        return KVR_OK;
    }
    if (c->relation == KVR_CLAIM_SQL)
        KVR_TRY(sample_sql(db, c->sql, &p));
    else
        KVR_TRY(sample_pair(c, values, db, &v, &p));
    c->s = p.s;
    c->level_a = p.a;
    c->level_b = p.b;
    c->tested = c->s.n > 0;
    if (c->tested && strcmp(c->metric, "runtime_ratio") == 0)
        KVR_TRY(name_devices(c, db));
    if (!c->tested)
        snprintf(c->why, sizeof c->why, "%s",
                 strcmp(c->metric, "runtime_ratio") == 0
                     ? "the database has no valid ratio of times: kvreel run "
                       "configs/claims-time.yaml --jobs 1 on a quiet machine"
                     : "the database has no such cells");
    return KVR_OK;
}

/* --- other readings, forcings and models ------------------------------------------------ */

static const char study[] = "@study";

void kvr_claim_other_reading(const char *name, char *out, size_t n)
{
    const size_t len = strlen(name), tail = sizeof study - 1;

    if (len > tail && strcmp(name + len - tail, study) == 0)
        snprintf(out, n, "%.*s", (int)(len - tail), name);
    else if (name[0] && !strchr(name, '@') && strcmp(name, "BF16") != 0)
        snprintf(out, n, "%s%s", name, study);
    else
        snprintf(out, n, "%s", name);
}

bool kvr_claim_has_reading(const char *name)
{
    struct kvr_scheme *scheme = NULL;
    const bool there = kvr_scheme_open(&scheme, name, NULL, 0) == KVR_OK;

    kvr_scheme_close(&scheme);
    return there;
}

/* Adds text such as "intended: equal (24)"; nothing if there are no cells. */
static enum kvr_status add(struct kvr_claim *c, struct kvr_claim_values **values, const char *db,
                           const char *name, const struct variant *v, double margin)
{
    const size_t at = strlen(c->where);
    struct pair_sums p;
    enum kvr_region region;
    const char *word = "open";
    double log_e;

    KVR_TRY(sample_pair(c, values, db, v, &p));
    if (p.s.n == 0)
        return KVR_OK;
    kvr_sequence_region(&p.s, margin, &region, &log_e);
    if (log_e >= log(20))
        word = c->relation == KVR_CLAIM_ALIKE ? (region == KVR_WITHIN ? "holds" : "does not hold")
               : region == KVR_ABOVE          ? "holds"
               : region == KVR_BELOW          ? "does not hold"
                                              : "equal";
    snprintf(c->where + at, sizeof c->where - at, "%s%s: %s%s (%d)", at ? "; " : "", name,
             (c->verdict == KVR_CLAIM_HOLDS && strcmp(word, "does not hold") == 0) ||
                     (c->verdict == KVR_CLAIM_NOT && strcmp(word, "holds") == 0)
                 ? "DISAGREES, "
                 : "",
             word, p.s.n);
    return KVR_OK;
}

enum kvr_status kvr_claim_other_conditions(struct kvr_claim *c, struct kvr_claim_values **values,
                                           const char *db, const char *model)
{
    struct variant v = { c->of, c->than, c->forcing, c->metric, model, 1 };
    char of[96], than[96];

    if (c->relation > KVR_CLAIM_ALIKE || strcmp(c->kind, "bench") != 0 || c->model[0])
        return KVR_OK;
    kvr_claim_other_reading(c->of, of, sizeof of);
    kvr_claim_other_reading(c->than, than, sizeof than);
    if (strcmp(of, c->of) != 0 || strcmp(than, c->than) != 0) {
        v.of = of;
        v.than = than;
        KVR_TRY(add(c, values, db, strstr(c->of, study) ? "intended" : "study", &v, c->margin));
    }
    v = (struct variant){ c->of, c->than, "teacher", c->metric, model, 1 };
    if (strcmp(c->forcing, "none") == 0)
        KVR_TRY(add(c, values, db, "under a teacher", &v, c->margin));
    if (strcmp(c->metric, "ssim") != 0 && strcmp(c->metric, "psnr") != 0)
        return KVR_OK;
    /* A method closer to BF16 has a lower negative log-likelihood. */
    v = (struct variant){ of, than, "none", "nll", "smollm2-135m", -1 };
    if (!strstr(c->of, study)) {
        v.of = c->of;
        v.than = c->than;
    }
    return add(c, values, db, "smollm2-135m", &v, 0.005);
}
