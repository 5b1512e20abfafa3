/* claims_sample.c - reads a claim's samples from a database. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/predict.h"
#include "harness/report/claims/claims.h"
#include "harness/report/claims/claims_values.h"
#include "harness/report/stats/nested.h"
#include "methods/method.h"

/* Returns the index of a method's first row. The rows are sorted by method. */
static int first_of(const struct kvr_claim_value *row, int n, const char *method)
{
    int lo = 0, hi = n;

    while (lo < hi) {
        const int mid = lo + (hi - lo) / 2;

        if (strcmp(row[mid].method, method) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* An iterator over the rows of `method`. `row` is the current row. `end` points past the last row
 * of the last method. */
struct at {
    const struct kvr_claim_value *row, *end;
    const char *method;
};

static bool in_method(const struct at *a)
{
    return a->row < a->end && strcmp(a->row->method, a->method) == 0;
}

/* Advances b to the row with the same prompt, seed, settings and machine (`sample`) as the current
 * row of a. Returns false if b's method has no such row. */
static bool advance_to(const struct at *a, struct at *b)
{
    while (in_method(b) && b->row->sample < a->row->sample)
        b->row++;
    return in_method(b) && b->row->sample == a->row->sample;
}

/* Values of two methods for the same prompt, seed, settings and machine. */
struct pair {
    const struct kvr_claim_value *of, *than; /* `than` NULL: the claim is about one method */
};

static int age_of(const struct pair *p)
{
    return p->than && p->than->age > p->of->age ? p->than->age : p->of->age;
}

/* Appends the pair of values `of` and `than` to pair [n], and returns the new number of pairs. If
 * several machines measured the same prompt, seed and settings, only the newest pair is kept. */
static int add_pair(struct pair *pair, int n, const struct kvr_claim_value *of,
                    const struct kvr_claim_value *than)
{
    const struct pair now = { of, than };

    if (!n || pair[n - 1].of->pair != of->pair)
        pair[n++] = now;
    else if (age_of(&now) >= age_of(&pair[n - 1]))
        pair[n - 1] = now;
    return n;
}

/* --- samples ---------------------------------------------------------------------------- */

/* The conditions under which a claim is tested. These are the conditions in the ledger, or
 * conditions with another implementation of the methods (NAME or NAME@study), forcing, metric or
 * model. */
struct variant {
    const char *of, *than, *forcing, *metric, *model;
    /* 1: higher values are better in `metric` and in the metric that the ledger gives, or lower
     * values are better in both; -1: otherwise */
    double sign;
};

struct pair_sums {
    struct kvr_sequence s;
    double a, b; /* mean values of methods `of` and `than`; NaN: unknown */
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
    const struct kvr_claim_choice choice = { v->metric, c->kind, v->forcing, v->model };
    const struct kvr_claim_value *rows = NULL;
    struct kvr_sample *sample;
    struct pair *pair;
    struct at a, b;
    int n_rows, n = 0;

    *out = (struct pair_sums){ 0 };
    KVR_TRY(kvr_claim_values_read(values, db, &choice, &rows, &n_rows));
    sample = calloc((size_t)n_rows + 1, sizeof *sample);
    pair = calloc((size_t)n_rows + 1, sizeof *pair);
    if (!sample || !pair) {
        free(sample);
        free(pair);
        return kvr_fail(KVR_ENOMEM, "claims: out of memory");
    }
    a = (struct at){ rows + first_of(rows, n_rows, v->of), rows + n_rows, v->of };
    b = (struct at){ rows + first_of(rows, n_rows, v->than), rows + n_rows, v->than };
    for (; in_method(&a); a.row++)
        if (strncmp(a.row->suite, c->suite, strlen(c->suite)) == 0 && (alone || advance_to(&a, &b)))
            n = add_pair(pair, n, a.row, alone ? NULL : b.row);
    for (int i = 0; i < n; i++) {
        const double x = pair[i].of->value, y = alone ? 0 : pair[i].than->value;

        sample[i] = (struct kvr_sample){ .prompt = pair[i].of->place, .seed = pair[i].of->sample };
        out->a += x;
        out->b += y;
        sample[i].x = alone ? sign * (x - c->by) : sign * (x - y) - c->by;
    }
    out->a = n ? out->a / n : NAN;
    out->b = n && !alone ? out->b / n : NAN;
    finish(sample, n, out);
    free(pair);
    free(sample);
    return KVR_OK;
}

/* Runs the SQL statement of a claim, which selects three columns: an integer that identifies the
 * prompt, an integer that identifies the sample within the prompt, and the sample's value. */
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
        return kvr_fail(KVR_ENOMEM, "claims: out of memory");
    free(sample);
    return KVR_OK;
}

/* Sets c->timed_on to the devices on which the database's runtimes relative to BF16 were measured,
 * such as "a CPU" or "cuda". */
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
        snprintf(c->why, sizeof c->why, "no database given; name one with --db");
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
                     ? "the database has no valid runtime_ratio (the method's runtime divided by "
                       "BF16's); measure it with `kvreel run configs/claims-time.yaml --jobs 1` "
                       "on an idle machine"
                     : "the database has no cells that this claim compares; `kvreel settle` "
                       "measures them");
    return KVR_OK;
}

/* --- other variants, forcings and models ------------------------------------------------ */

static const char study[] = "@study";

void kvr_claim_other_reading(const char *name, char *out, size_t n)
{
    const size_t len = strlen(name), tail = sizeof study - 1;

    if (len > tail && strcmp(name + len - tail, study) == 0)
        snprintf(out, n, "%.*s", (int)(len - tail), name);
    else if (name[0] && !strchr(name, '@') && !kvr_is_reference_method(name))
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

/* Tests the claim under the conditions `v`. Appends the conditions' name, the verdict and the
 * number of prompts to c->where, such as "intended: equal (24)". If the database has no cells for
 * these conditions, appends nothing. */
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
