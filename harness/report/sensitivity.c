/* sensitivity.c - tests whether verdicts between methods also hold under other conditions. These
 * are a subset of the seeds or prompts, teacher forcing, and the methods' other variants (NAME or
 * NAME@study). */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/stats/nested.h"
#include "harness/report/stats/pairs.h"
#include "harness/report/stat_tables.h"
#include "harness/report/table/values.h"
#include "harness/store/statement.h"
#include "metrics/metric.h"

KVR_STATEMENT(stats_sensitivity);

enum { METHOD, PLACE, SAMPLE, SEEDS, FORCING, VALUE }; /* columns of stats_sensitivity.sql */

/* A selection of cells for which all verdicts are tested again. */
static const struct variant {
    const char *name, *head;
    /* seeds: 1 or 2 selects the first or second seed of each prompt; half: 1 selects odd prompts, 2
     * even prompts; 0 selects all */
    int seeds, half;
    bool teacher, other_reading;
} variants[] = {
    { .name = "seeds_1", .head = "first seeds", .seeds = 1 },
    { .name = "seeds_2", .head = "second seeds", .seeds = 2 },
    { .name = "half_1", .head = "odd prompts", .half = 1 },
    { .name = "half_2", .head = "even prompts", .half = 2 },
    { .name = "put_in", .head = "teacher", .teacher = true },
    { .name = "other_reading", .head = "other version", .other_reading = true },
};
enum { N_VARIANTS = sizeof variants / sizeof variants[0] };

static const struct variant everything = { .name = "all" };

struct method {
    const char *name;
    /* rows [from, to); index of the method's other variant (NAME or NAME@study) in work.m, or -1 */
    int from, to, other;
    double score;
};

struct work {
    const struct kvr_stat_options *o;
    struct kvr_table *t;
    struct method *m;
    int n, sign;
    struct kvr_sample *a, *b, *d;
    double *x;
};

static int samples(const struct work *w, const struct method *m, const struct variant *v,
                   struct kvr_sample *s)
{
    int n = 0;

    for (int i = m->from; i < m->to; i++) {
        const int place = (int)kvr_table_number(w->t, i, PLACE);
        const bool teacher = strcmp(kvr_table_text(w->t, i, FORCING), "teacher") == 0;
        const bool free = strcmp(kvr_table_text(w->t, i, FORCING), "none") == 0;

        if ((v->teacher ? !teacher : !free) || (v->half && place % 2 != v->half % 2) ||
            (v->seeds && (int)kvr_table_number(w->t, i, SEEDS) != v->seeds))
            continue;
        s[n++] = (struct kvr_sample){ .prompt = place,
                                      .seed = (int)kvr_table_number(w->t, i, SAMPLE),
                                      .x = kvr_table_number(w->t, i, VALUE) * w->sign };
    }
    return kvr_nest(s, n, KVR_PER_SEED);
}

/* Tests the difference between methods a and b on the cells of variant `v`, paired by seed. If the
 * methods have no common samples, c->n is 0. */
static enum kvr_status compare(struct work *w, const struct method *a, const struct method *b,
                               const struct variant *v, struct kvr_comparison *c)
{
    int n;

    *c = (struct kvr_comparison){ 0 };
    if (v->other_reading && (a->other < 0 || b->other < 0))
        return KVR_OK;
    if (v->other_reading) {
        a = &w->m[a->other];
        b = &w->m[b->other];
    }
    n = samples(w, a, v, w->a);
    n = kvr_nest_pairs(w->a, n, w->b, samples(w, b, v, w->b), w->d);
    n = kvr_nest(w->d, n, KVR_PER_PROMPT);
    kvr_nest_values(w->d, n, w->x);
    return n ? kvr_compare(w->x, n, w->o->level, c) : KVR_OK;
}

static const char *verdict_of(const struct kvr_comparison *c)
{
    if (c->n == 0)
        return "-";
    if (c->mean > 0)
        return c->n > 1 && c->ci.lo > 0 ? "yes" : "weaker";
    return c->n > 1 && c->ci.hi < 0 ? "reversed" : "no";
}

static enum kvr_status add_verdict(struct work *w, struct kvr_table *out, const struct method *a,
                                   const struct method *b, const struct kvr_comparison *all)
{
    struct kvr_value v[8 + N_VARIANTS];
    char text[32];
    int n = 0, n_decided = 0, yes = 0;

    v[n++] = kvr_value_text(a->name);
    v[n++] = kvr_value_text(b->name);
    v[n++] = kvr_value_count(all->n);
    v[n++] = kvr_value_number(all->mean);
    v[n++] = kvr_value_number(all->ci.lo);
    v[n++] = kvr_value_number(all->ci.hi);
    for (int i = 0; i < N_VARIANTS; i++) {
        struct kvr_comparison c;

        KVR_TRY(compare(w, a, b, &variants[i], &c));
        n_decided += c.n > 0;
        yes += c.n > 0 && c.mean > 0;
        v[n++] = kvr_value_text(verdict_of(&c));
    }
    snprintf(text, sizeof text, "%d of %d", yes, n_decided);
    v[n++] = kvr_value_text(text);
    return kvr_table_add(out, v);
}

static int by_score(const void *pa, const void *pb)
{
    const struct method *a = pa, *b = pb;

    return a->score != b->score ? (a->score < b->score) - (a->score > b->score)
                                : strcmp(a->name, b->name);
}

static bool other_reading(const char *a, const char *b)
{
    const size_t n = strlen(a);

    return strncmp(a, b, n) == 0 && strcmp(b + n, "@study") == 0;
}

static void find_methods(struct work *w)
{
    for (int i = 0; i < w->t->n_rows; i++) {
        const char *name = kvr_table_text(w->t, i, METHOD), *last = w->n ? w->m[w->n - 1].name : "";

        assert(name && last);
        if (w->n == 0 || strcmp(last, name) != 0)
            w->m[w->n++] = (struct method){ .name = name, .from = i };
        w->m[w->n - 1].to = i + 1;
    }
    for (int i = 0; i < w->n; i++) {
        int n = kvr_nest(w->a, samples(w, &w->m[i], &everything, w->a), KVR_PER_PROMPT);

        kvr_nest_values(w->a, n, w->x);
        w->m[i].score = n ? kvr_mean(w->x, n) : -INFINITY;
    }
    qsort(w->m, (size_t)w->n, sizeof *w->m, by_score);
    for (int i = 0; i < w->n; i++) {
        w->m[i].other = -1;
        for (int j = 0; j < w->n; j++)
            if (other_reading(w->m[i].name, w->m[j].name) ||
                other_reading(w->m[j].name, w->m[i].name))
                w->m[i].other = j;
    }
}

/* Adds the verdicts. The methods are sorted from best to worst. A method's verdict is that it is
 * better than the next method in this order that is separable from it. */
static enum kvr_status all_verdicts(struct work *w, struct kvr_table *out)
{
    for (int i = 0; i < w->n; i++)
        for (int j = i + 1; j < w->n; j++) {
            struct kvr_comparison c;

            KVR_TRY(compare(w, &w->m[i], &w->m[j], &everything, &c));
            if (!kvr_separable(&c, c.p * (w->n - 1)))
                continue;
            KVR_TRY(add_verdict(w, out, &w->m[i], &w->m[j], &c));
            break;
        }
    return KVR_OK;
}

static enum kvr_status read_rows(struct work *w)
{
    size_t n;

    KVR_TRY(kvr_table_query_with(
        &w->t, w->o->db, kvr_statement_stats_sensitivity,
        KVR_WITH("metric", w->o->metric, "where", w->o->where ? w->o->where : "1"), NULL));
    n = (size_t)w->t->n_rows + 1;
    w->m = calloc(n, sizeof *w->m);
    w->a = calloc(n, sizeof *w->a);
    w->b = calloc(n, sizeof *w->b);
    w->d = calloc(n, sizeof *w->d);
    w->x = calloc(n, sizeof *w->x);
    return w->m && w->a && w->b && w->d && w->x ? KVR_OK
                                                : kvr_fail(KVR_ENOMEM, "stats: out of memory");
}

static enum kvr_status open_table(struct kvr_table **out)
{
    struct kvr_column columns[8 + N_VARIANTS] = {
        { .name = "method" },
        { .name = "above" },
        { .name = "n" },
        { .name = "difference", .digits = -1 },
        { .name = "lo", .head = "from", .digits = -1 },
        { .name = "hi", .head = "to", .digits = -1 },
    };
    int n = 6;

    for (int i = 0; i < N_VARIANTS; i++)
        columns[n++] = (struct kvr_column){ .name = variants[i].name, .head = variants[i].head };
    columns[n++] = (struct kvr_column){ .name = "same_side", .head = "same side" };
    return kvr_table_open(out, n, columns);
}

enum kvr_status kvr_stat_sensitivity(struct kvr_table **out, const struct kvr_stat_options *o)
{
    const struct kvr_metric *m = kvr_metric_find(o->metric);
    struct work w = { .o = o };
    char note[640];
    enum kvr_status st;

    *out = NULL;
    if (!m)
        return kvr_fail(KVR_EINVAL, "stats: unknown metric '%s'; `kvreel list metrics` lists them",
                        o->metric);
    w.sign = m->direction;
    KVR_TRY(kvr_stat_one_machine(o));
    st = read_rows(&w);
    if (st == KVR_OK)
        st = open_table(out);
    if (st == KVR_OK) {
        find_methods(&w);
        st = all_verdicts(&w, *out);
    }
    snprintf(
        note, sizeof note,
        "%s; column above names method B, the best of the methods that are significantly worse "
        "than the row's method A; the columns after it test with other rollouts whether A is "
        "still better than B: yes (the confidence interval of the difference excludes 0), "
        "weaker (A is better, but the interval includes 0), no, or reversed (B is better, and "
        "the interval excludes 0); teacher: rollouts with forcing: teacher; other version: "
        "the methods as the 33-method study implemented them (NAME@study), or the reverse",
        o->metric);
    if (st == KVR_OK)
        st = kvr_table_note(*out, note);
    if (st != KVR_OK)
        kvr_table_close(out);
    kvr_table_close(&w.t);
    free(w.m);
    free(w.a);
    free(w.b);
    free(w.d);
    free(w.x);
    return st;
}

enum kvr_status kvr_report_sensitivity(struct kvr_table **out, const char *db_path)
{
    const struct kvr_stat_options o = {
        .db = db_path, .metric = "ssim", .level = 0.95, .across_machines = true
    };

    return kvr_stat_sensitivity(out, &o);
}
