/* pareto.c - collects the methods to compare (contenders) from a database or from the study's
 * published table. */
#include "harness/report/pareto/pareto.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/join.h"
#include "harness/report/table/chaos.h"
#include "harness/report/pareto/pareto_race.h"
#include "harness/report/stats/stats.h"
#include "methods/method.h"

enum { SQL_MAX = 8192 };

static enum kvr_status query_cells(struct kvr_race *r)
{
    char sql[SQL_MAX];
    size_t n;

    n = (size_t)snprintf(
        sql, sizeof sql,
        "WITH s AS (SELECT DISTINCT method, {root}, machine FROM summary WHERE (%s))\n"
        "SELECT w.method, w.is_baseline, w.root_settings || ', ' || w.machine AS settings,\n"
        "  dense_rank() OVER (ORDER BY w.suite, w.prompt_id) AS prompt, w.seed",
        r->o->where ? r->o->where : "1");
    for (int i = 0; i < r->n_objectives && n < sizeof sql; i++) {
        const struct kvr_objective *ob = &r->objective[i];

        n += (size_t)snprintf(
            sql + n, sizeof sql - n,
            ob->is_column ? ",\n  w.%1$s AS o%2$d" : ",\n  {w.score:%1$s} AS o%2$d", ob->name, i);
    }
    for (int i = 0; i < r->n_bounds && n < sizeof sql; i++)
        n += (size_t)snprintf(sql + n, sizeof sql - n,
                              r->bound[i].is_column ? ",\n  w.%1$s AS b%2$d"
                                                    : ",\n  {w.score:%1$s} AS b%2$d",
                              r->bound[i].name, i);
    if (n < sizeof sql)
        n += (size_t)snprintf(sql + n, sizeof sql - n,
                              "\nFROM cells_wide w JOIN s USING(method, {root}, machine)\n"
                              "WHERE w.outcome = 'OK' AND w.run_kind = 'bench'\n"
                              "  AND NOT w.is_control\n"
                              "ORDER BY settings, w.is_baseline DESC, w.method");
    if (n >= sizeof sql)
        return kvr_fail(KVR_EINVAL,
                        "pareto: the SQL query, which includes the condition of --where, has more "
                        "than %d characters; shorten this condition",
                        SQL_MAX - 1);
    return kvr_table_query_within(&r->rows, r->o->db_path, sql,
                                  &(struct kvr_query_limits){ .where = r->o->cells });
}

enum { PROMPT = 3, SEED, FIRST_OBJECTIVE }; /* columns of the rows */

/* Returns the maximum, harmonic mean, median or mean of the values x [n] of a contender's cells, as
 * `how` selects. */
static double pool(const double *x, int n, enum kvr_gather how)
{
    double v = n ? x[0] : NAN;

    switch (how) {
    case KVR_GATHER_HIGHEST:
        for (int i = 1; i < n; i++)
            v = fmax(v, x[i]);
        return v;
    /* the harmonic mean of compression ratios with equal BF16 bytes is the total BF16 bytes divided
     * by the total compressed bytes */
    case KVR_GATHER_HARMONIC:
        v = 0.0;
        for (int i = 0; i < n; i++)
            v += 1.0 / x[i];
        return n ? n / v : NAN;
    case KVR_GATHER_MIDDLE:
        return kvr_median(x, n);
    case KVR_GATHER_MEAN:
        break;
    }
    return kvr_mean(x, n);
}

/* Averages a column over the cells of each seed of a contender, and writes one sample per seed to s
 * [rows]. Returns the number of samples. */
static int read_seeds(const struct kvr_race *r, const struct kvr_contender *c, int column,
                      struct kvr_sample *s)
{
    const int n = c->to - c->from;

    for (int i = 0; i < n; i++)
        s[i] = (struct kvr_sample){
            .prompt = (int)kvr_table_number(r->rows, c->from + i, PROMPT),
            .seed = (int)kvr_table_number(r->rows, c->from + i, SEED),
            .x = kvr_table_number(r->rows, c->from + i, column),
        };
    return kvr_nest(s, n, KVR_PER_SEED);
}

/* Reads the values of contender c in objective k, which vary between prompts. Stores one sample
 * per seed in r->samples. If the objective is a mean over prompts, also stores this mean in
 * c->v[k]. */
static void take_samples(struct kvr_race *r, struct kvr_contender *c, int k, double *x,
                         struct kvr_sample *scratch)
{
    const int column = r->objective[k].column;
    struct kvr_sample *s = &r->samples[(size_t)column * (size_t)r->rows->n_rows + (size_t)c->from];
    int n = c->n_seeds[column] = read_seeds(r, c, FIRST_OBJECTIVE + column, s);

    memcpy(scratch, s, (size_t)n * sizeof *s);
    n = kvr_nest(scratch, n, KVR_PER_PROMPT);
    kvr_nest_values(scratch, n, x);
    if (r->objective[k].pool == KVR_GATHER_MEAN)
        c->v[k] = kvr_mean(x, n);
}

/* Sets c->beyond to the index of the first bound on a mean that contender c violates (-1: none). If
 * the contender's mean is unknown, the contender violates the bound. */
static void judge_bounds(const struct kvr_race *r, struct kvr_contender *c)
{
    c->beyond = -1;
    for (int i = r->n_bounds - 1; i >= 0; i--)
        if (!((c->bound_v[i] - r->bound[i].limit) * r->bound[i].better >= 0))
            c->beyond = i;
}

static void take_bounds(const struct kvr_race *r, struct kvr_contender *c, double *x,
                        struct kvr_sample *scratch)
{
    for (int i = 0; i < r->n_bounds; i++) {
        int n = read_seeds(r, c, FIRST_OBJECTIVE + r->n_asked + i, scratch);

        n = kvr_nest(scratch, n, KVR_PER_PROMPT);
        kvr_nest_values(scratch, n, x);
        c->bound_v[i] = n ? kvr_mean(x, n) : NAN;
    }
    judge_bounds(r, c);
}

/* Adds the method whose cells are rows [from, to) as a contender. */
static void add_contender(struct kvr_race *r, int from, int to, double *x,
                          struct kvr_sample *scratch)
{
    struct kvr_contender *c = &r->who[r->n++];

    c->method = kvr_table_text(r->rows, from, 0);
    c->settings = kvr_table_text(r->rows, from, 2);
    c->baseline = kvr_table_number(r->rows, from, 1) == 1.0;
    c->from = from;
    c->to = to;
    for (int k = 0; k < r->n_objectives; k++) {
        int n = 0;

        for (int i = from; i < to; i++) {
            x[n] = kvr_table_number(r->rows, i, FIRST_OBJECTIVE + r->objective[k].column);
            n += isfinite(x[n]);
        }
        c->v[k] = pool(x, n, r->objective[k].pool);
        if (r->objective[k].noisy)
            take_samples(r, c, k, x, scratch);
    }
    take_bounds(r, c, x, scratch);
    for (int i = from; i < to; i++) {
        int prompt = (int)kvr_table_number(r->rows, i, PROMPT);

        r->n_prompts = prompt > r->n_prompts ? prompt : r->n_prompts;
    }
}

static enum kvr_status contenders_of_db(struct kvr_race *r)
{
    struct kvr_sample *scratch;
    size_t n;
    double *x;
    enum kvr_status st = KVR_OK;

    KVR_TRY(query_cells(r));
    n = (size_t)r->rows->n_rows + 1;
    x = calloc(n, sizeof *x);
    scratch = calloc(n, sizeof *scratch);
    r->who = calloc(n, sizeof *r->who);
    r->samples = calloc(n * KVR_OBJECTIVES_MAX, sizeof *r->samples);
    if (!x || !scratch || !r->who || !r->samples)
        st = kvr_fail(KVR_ENOMEM, "pareto: out of memory");
    for (int from = 0, to; st == KVR_OK && from < r->rows->n_rows; from = to) {
        for (to = from + 1; to < r->rows->n_rows; to++)
            if (strcmp(kvr_table_text(r->rows, from, 0), kvr_table_text(r->rows, to, 0)) != 0 ||
                strcmp(kvr_table_text(r->rows, from, 2), kvr_table_text(r->rows, to, 2)) != 0)
                break;
        add_contender(r, from, to, x, scratch);
    }
    free(x);
    free(scratch);
    return st;
}

static enum kvr_status contenders_of_paper(struct kvr_race *r)
{
    r->who = calloc((size_t)r->published.n_rows + 1, sizeof *r->who);
    if (!r->who)
        return kvr_fail(KVR_ENOMEM, "pareto: out of memory");
    for (int i = 0; i < r->published.n_rows; i++) {
        struct kvr_contender *c = &r->who[r->n++];
        double rounding;

        c->method = kvr_published_cell(&r->published, i, "method");
        c->settings = "as published";
        c->baseline = kvr_is_reference_method(c->method);
        for (int k = 0; k < r->n_objectives; k++)
            if (!kvr_published_number(kvr_published_cell(&r->published, i, r->objective[k].printed),
                                      &c->v[k], &rounding))
                c->v[k] = NAN;
        for (int k = 0; k < r->n_bounds; k++)
            if (!kvr_published_number(kvr_published_cell(&r->published, i, r->bound[k].name),
                                      &c->bound_v[k], &rounding))
                c->bound_v[k] = NAN;
        judge_bounds(r, c);
    }
    return KVR_OK;
}

/* Drops objectives for which no contender has a value, and records their names. */
static enum kvr_status drop_empty(struct kvr_race *r)
{
    for (int k = 0; k < r->n_objectives; k++) {
        int have = 0;

        for (int i = 0; i < r->n; i++)
            have += isfinite(r->who[i].v[k]);
        if (have)
            continue;
        kvr_join(r->left_out, sizeof r->left_out, r->objective[k].name);
        r->n_objectives--;
        for (int j = k; j < r->n_objectives; j++)
            r->objective[j] = r->objective[j + 1];
        for (int i = 0; i < r->n; i++)
            for (int j = k; j < r->n_objectives; j++)
                r->who[i].v[j] = r->who[i].v[j + 1];
        k--;
    }
    if (r->n == 0)
        return kvr_fail(KVR_ENOTFOUND, "pareto: %s has no finished cells%s%s",
                        r->o->published ? "the published table" : r->o->db_path,
                        r->o->where ? " where " : "", r->o->where ? r->o->where : "");
    if (r->n_objectives == 0)
        return kvr_fail(KVR_ENOTFOUND, "pareto: no method has a measured value of %s", r->left_out);
    return KVR_OK;
}

/* Sets the default margin of each objective that is a mean over prompts. The margin is the effect
 * of chaos, that is, the difference that BF16's draws (reruns with slightly perturbed noise) alone
 * cause. */
static enum kvr_status chaos_margins(struct kvr_race *r)
{
    for (int k = 0; !r->o->published && !r->o->exact && k < r->n_objectives; k++) {
        struct kvr_objective *ob = &r->objective[k];
        double margin = NAN;

        if (ob->noisy && ob->pool == KVR_GATHER_MEAN)
            KVR_TRY(kvr_chaos_margin(&margin, r->o->db_path,
                                     strcmp(ob->name, "psnr_db") == 0 ? "psnr" : ob->name));
        if (isfinite(margin)) {
            ob->margin = margin;
            ob->chaos = true;
        }
    }
    return KVR_OK;
}

/* Reads the requested objectives; each must exist in the database or the published table. */
static enum kvr_status read_objectives(struct kvr_race *r)
{
    const struct kvr_pareto_options *o = r->o;
    struct kvr_table *t = NULL;
    const char **names;
    char name[64];
    int n;
    enum kvr_status st;

    if (o->published) {
        snprintf(name, sizeof name, "kvquant33_%.32s", o->published);
        KVR_TRY(kvr_published_read(&r->published, name));
        n = r->published.n_columns;
    } else {
        KVR_TRY(kvr_table_query(&t, o->db_path, "SELECT DISTINCT name FROM metric ORDER BY name",
                                NULL));
        n = t->n_rows;
    }
    names = calloc((size_t)n + 1, sizeof *names);
    st = names ? KVR_OK : kvr_fail(KVR_ENOMEM, "pareto: out of memory");
    for (int i = 0; names && i < n; i++)
        names[i] = t ? kvr_table_text(t, i, 0) : r->published.column[i];
    if (st == KVR_OK)
        st = kvr_objectives_parse(r->objective, &r->n_objectives, o->objectives, names, n);
    r->n_asked = r->n_objectives;
    if (st == KVR_OK)
        st = kvr_bounds_parse(r->bound, &r->n_bounds, o->bounds, names, n);
    if (st == KVR_OK)
        st = chaos_margins(r);
    if (st == KVR_OK)
        st = kvr_objectives_margins(r->objective, r->n_objectives, o);
    free(names);
    kvr_table_close(&t);
    return st;
}

enum kvr_status kvr_pareto(struct kvr_table **out, const struct kvr_pareto_options *o)
{
    struct kvr_race r = { .o = o };
    enum kvr_status st;

    *out = NULL;
    st = read_objectives(&r);
    if (st == KVR_OK)
        st = o->published ? contenders_of_paper(&r) : contenders_of_db(&r);
    if (st == KVR_OK)
        st = drop_empty(&r);
    if (st == KVR_OK)
        st = kvr_race_judge(&r);
    if (st == KVR_OK)
        st = kvr_race_table(&r, out);
    if (st != KVR_OK)
        kvr_table_close(out);
    free(r.who);
    free(r.samples);
    free(r.dominance);
    kvr_table_close(&r.rows);
    kvr_published_free(&r.published);
    return st;
}
