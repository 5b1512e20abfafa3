/* claims_values.c - see claims_values.h. */
#include "harness/report/claims/claims_values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/table/chaos.h"
#include "harness/report/table/table.h"
#include "harness/store/statement.h"

KVR_STATEMENT(claims_cells);
KVR_STATEMENT(claims_scores);

/* Columns of claims_cells.sql. The columns from FIRST_METRIC on are the metrics of_cells[], in this
 * order. */
enum { METHOD, PLACE, SAMPLE, PAIR, AGE, SUITE, KIND, FORCING, MODEL, KEY, TWO, FIRST_METRIC };
static const char *const of_cells[] = { "compression", "resident_compression",
                                        "peak_bytes",  "resident_bytes",
                                        "runtime_s",   "runtime_ratio",
                                        NULL };

/* Values of one metric for all cells, in the order of the cells. */
struct metric {
    const char *name;
    double *value; /* [number of cells]; NaN: the cell lacks the metric */
    struct metric *next;
};

struct chosen {
    struct kvr_claim_choice of;
    struct kvr_claim_value *row;
    int n;
    struct chosen *next;
};

struct kvr_claim_values {
    struct kvr_table *cells; /* one row per cell, sorted by METHOD, then by SAMPLE */
    struct metric *metrics;
    struct chosen *chosen;
};

void kvr_claim_values_free(struct kvr_claim_values **all)
{
    struct kvr_claim_values *v = *all;

    *all = NULL;
    if (!v)
        return;
    while (v->metrics) {
        struct metric *next = v->metrics->next;

        free(v->metrics->value);
        free(v->metrics);
        v->metrics = next;
    }
    while (v->chosen) {
        struct chosen *next = v->chosen->next;

        free(v->chosen->row);
        free(v->chosen);
        v->chosen = next;
    }
    kvr_table_close(&v->cells);
    free(v);
}

/* ---- metrics ----------------------------------------------------------------------------- */

/* Returns the row with a key in the first column of a table, which is sorted by that column; -1:
 * there is none. */
static int row_of(const struct kvr_table *t, const char *key)
{
    int lo = 0, hi = t->n_rows;

    while (lo < hi) {
        const int mid = lo + (hi - lo) / 2;

        if (strcmp(kvr_table_text(t, mid, 0), key) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < t->n_rows && strcmp(kvr_table_text(t, lo, 0), key) == 0 ? lo : -1;
}

static enum kvr_status read_scores(const struct kvr_table *cells, const char *db, struct metric *m)
{
    struct kvr_table *t;

    KVR_TRY(kvr_table_query_with(&t, db, kvr_statement_claims_scores, KVR_WITH("metric", m->name),
                                 NULL));
    for (int i = 0; i < cells->n_rows; i++) {
        const int row = row_of(t, kvr_table_text(cells, i, KEY));

        m->value[i] = row < 0 ? NAN : kvr_table_number(t, row, 1);
    }
    kvr_table_close(&t);
    return KVR_OK;
}

static enum kvr_status metric_of(struct kvr_claim_values *v, const char *db, const char *name,
                                 const double **out)
{
    struct metric *m = v->metrics;
    int column = 0;

    while (m && strcmp(m->name, name) != 0)
        m = m->next;
    if (!m) {
        m = calloc(1, sizeof *m);
        if (m)
            m->value = calloc((size_t)v->cells->n_rows + 1, sizeof *m->value);
        if (!m || !m->value) {
            free(m);
            return kvr_fail(KVR_ENOMEM, "claims: out of memory");
        }
        m->name = name;
        m->next = v->metrics;
        v->metrics = m;
        while (of_cells[column] && strcmp(of_cells[column], name) != 0)
            column++;
        for (int i = 0; of_cells[column] && i < v->cells->n_rows; i++)
            m->value[i] = kvr_table_number(v->cells, i, FIRST_METRIC + column);
        if (!of_cells[column])
            KVR_TRY(read_scores(v->cells, db, m));
    }
    *out = m->value;
    return KVR_OK;
}

/* ---- a choice ---------------------------------------------------------------------------- */

/* Returns whether the metric is a similarity to the BF16 rollout. Such a metric is meaningless for
 * a prompt if a BF16 rerun with slightly perturbed noise gives a clearly different video
 * (chaos.h). */
static bool is_distance(const char *metric)
{
    return strncmp(metric, "ssim", 4) == 0 || strncmp(metric, "psnr", 4) == 0 ||
           strcmp(metric, "lpips") == 0;
}

static bool is_of(const struct kvr_table *t, int row, const struct kvr_claim_choice *c)
{
    return strcmp(kvr_table_text(t, row, KIND), c->kind) == 0 &&
           strcmp(kvr_table_text(t, row, FORCING), c->forcing) == 0 &&
           (!c->model[0] || strcmp(kvr_table_text(t, row, MODEL), c->model) == 0) &&
           !(is_distance(c->metric) && kvr_table_number(t, row, TWO) > 0);
}

static void choose(const struct kvr_table *t, const double *value, struct chosen *to)
{
    int of_sample = 0;

    for (int i = 0; i < t->n_rows; i++) {
        struct kvr_claim_value *last = to->n ? &to->row[to->n - 1] : NULL;
        const char *method = kvr_table_text(t, i, METHOD);
        const int sample = (int)kvr_table_number(t, i, SAMPLE);
        const int age = (int)kvr_table_number(t, i, AGE);

        if (isnan(value[i]) || !is_of(t, i, &to->of))
            continue;
        if (last && last->sample == sample && strcmp(last->method, method) == 0) {
            last->value += (value[i] - last->value) / ++of_sample;
            last->age = age > last->age ? age : last->age;
            continue;
        }
        of_sample = 1;
        to->row[to->n++] = (struct kvr_claim_value){
            .method = method,
            .suite = kvr_table_text(t, i, SUITE),
            .place = (int)kvr_table_number(t, i, PLACE),
            .sample = sample,
            .pair = (int)kvr_table_number(t, i, PAIR),
            .age = age,
            .value = value[i],
        };
    }
}

static bool same(const struct kvr_claim_choice *a, const struct kvr_claim_choice *b)
{
    return strcmp(a->metric, b->metric) == 0 && strcmp(a->kind, b->kind) == 0 &&
           strcmp(a->forcing, b->forcing) == 0 && strcmp(a->model, b->model) == 0;
}

enum kvr_status kvr_claim_values_read(struct kvr_claim_values **all, const char *db,
                                      const struct kvr_claim_choice *choice,
                                      const struct kvr_claim_value **rows, int *n)
{
    struct kvr_claim_values *v = *all;
    const double *value = NULL;
    struct chosen *c;

    if (!v)
        v = *all = calloc(1, sizeof *v);
    if (!v)
        return kvr_fail(KVR_ENOMEM, "claims: out of memory");
    if (!v->cells)
        KVR_TRY(kvr_table_query_with(&v->cells, db, kvr_statement_claims_cells,
                                     KVR_WITH("two", KVR_TWO_VIDEOS_DB), NULL));
    for (c = v->chosen; c && !same(&c->of, choice);)
        c = c->next;
    if (!c) {
        KVR_TRY(metric_of(v, db, choice->metric, &value));
        c = calloc(1, sizeof *c);
        if (c)
            c->row = calloc((size_t)v->cells->n_rows + 1, sizeof *c->row);
        if (!c || !c->row) {
            free(c);
            return kvr_fail(KVR_ENOMEM, "claims: out of memory");
        }
        c->of = *choice;
        choose(v->cells, value, c);
        c->next = v->chosen;
        v->chosen = c;
    }
    *rows = c->row;
    *n = c->n;
    return KVR_OK;
}
