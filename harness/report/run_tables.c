/* run_tables.c - compares the cells of a database with the same cells of an earlier database,
 * measured with another commit or compiler, or on another machine. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/stats/nested.h"
#include "harness/report/stats/pairs.h"
#include "harness/report/stat_tables.h"
#include "harness/report/table/values.h"
#include "harness/store/statement.h"
#include "metrics/metric.h"

KVR_STATEMENT(table_runs);
KVR_STATEMENT(table_runs_who);

enum { KEY, METHOD, SETTINGS, PROMPT, SEED, VALUE, RUNTIME, FRAMES };

static const struct kvr_column columns[] = {
    { .name = "method", .digits = -1 },
    { .name = "cells", .digits = -1 },
    { .name = "same_frames", .head = "same frames", .digits = -1 },
    { .name = "before", .digits = 4 },
    { .name = "now", .digits = 4 },
    { .name = "difference", .digits = 5 },
    { .name = "lo", .head = "from", .digits = 5 },
    { .name = "hi", .head = "to", .digits = 5 },
    { .name = "separable", .digits = -1 },
    { .name = "time_ratio", .head = "time", .unit = "(now/before)", .digits = 3 },
    { .name = "time_lo", .head = "from", .digits = 3 },
    { .name = "time_hi", .head = "to", .digits = 3 },
    { .name = "settings", .digits = -1 },
};
enum { N_COLUMNS = sizeof columns / sizeof columns[0] };

/* Comparison of one method at one setting between the two databases. */
struct line {
    int from, to; /* the method's rows [from, to) in the newer database */
    /* number of cells in both databases; number of these whose frames are equal */
    int n_both, same;
    double before, now, holm;
    struct kvr_comparison c;
    double ratio;
    /* interval of `ratio`; NaN: fewer than two cells have a runtime in both databases */
    struct kvr_interval time;
};

struct job {
    const struct kvr_stat_options *o;
    struct kvr_table *now, *before;
    int *match; /* [rows of `now`], the row of the same cell in `before`, or -1 */
    struct kvr_sample *sample;
    double *x;
};

static enum kvr_status read_cells(struct kvr_table **out, const struct kvr_stat_options *o,
                                  const char *db, const char *order)
{
    return kvr_table_query_with(out, db, kvr_statement_table_runs,
                                KVR_WITH("metric", o->metric, "where",
                                         o->where ? o->where : "forcing = 'none'", "order", order),
                                NULL);
}

/* Matches cells by key; `before` is sorted by key. */
static enum kvr_status match_cells(struct job *j)
{
    const int n = j->now->n_rows, m = j->before->n_rows;

    j->match = malloc(((size_t)n + 1) * sizeof *j->match);
    j->sample = malloc(((size_t)n + 1) * sizeof *j->sample);
    j->x = malloc(((size_t)n + 1) * sizeof *j->x);
    if (!j->match || !j->sample || !j->x)
        return kvr_fail(KVR_ENOMEM, "stats: out of memory");
    for (int i = 0; i < n; i++) {
        const char *key = kvr_table_text(j->now, i, KEY);
        int lo = 0, hi = m;

        while (lo < hi) {
            const int mid = lo + (hi - lo) / 2;

            if (strcmp(kvr_table_text(j->before, mid, KEY), key) < 0)
                lo = mid + 1;
            else
                hi = mid;
        }
        j->match[i] = lo < m && strcmp(kvr_table_text(j->before, lo, KEY), key) == 0 ? lo : -1;
    }
    return KVR_OK;
}

/* Returns the mean metric of the cells that both databases contain. The values are those of the
 * newer (`now`) or of the earlier database. */
static double mean_of(struct job *j, const struct line *l, bool now)
{
    int n = 0;

    for (int i = l->from; i < l->to; i++)
        if (j->match[i] >= 0)
            j->sample[n++] =
                (struct kvr_sample){ .prompt = (int)kvr_table_number(j->now, i, PROMPT),
                                     .seed = (int)kvr_table_number(j->now, i, SEED),
                                     .x = now ? kvr_table_number(j->now, i, VALUE)
                                              : kvr_table_number(j->before, j->match[i], VALUE) };
    n = kvr_nest(j->sample, n, j->o->unit);
    kvr_nest_values(j->sample, n, j->x);
    return kvr_mean(j->x, n);
}

static enum kvr_status compare_line(struct job *j, struct line *l)
{
    int n = 0;

    for (int i = l->from; i < l->to; i++) {
        const int k = j->match[i];
        const char *frames = kvr_table_text(j->now, i, FRAMES);

        if (k < 0)
            continue;
        l->n_both++;
        l->same += *frames && strcmp(frames, kvr_table_text(j->before, k, FRAMES)) == 0;
        j->sample[n++] = (struct kvr_sample){ .prompt = (int)kvr_table_number(j->now, i, PROMPT),
                                              .seed = (int)kvr_table_number(j->now, i, SEED),
                                              .x = kvr_table_number(j->now, i, VALUE) -
                                                   kvr_table_number(j->before, k, VALUE) };
    }
    n = kvr_nest(j->sample, n, KVR_PER_SEED);
    n = kvr_nest(j->sample, n, j->o->unit);
    kvr_nest_values(j->sample, n, j->x);
    KVR_TRY(kvr_compare(j->x, n, j->o->level, &l->c));
    l->before = mean_of(j, l, false);
    l->now = mean_of(j, l, true);
    n = 0;
    for (int i = l->from; i < l->to; i++) {
        const double ratio = j->match[i] < 0
                                 ? NAN
                                 : kvr_table_number(j->now, i, RUNTIME) /
                                       kvr_table_number(j->before, j->match[i], RUNTIME);

        if (isfinite(ratio))
            j->x[n++] = ratio;
    }
    l->ratio = kvr_median(j->x, n);
    l->time = (struct kvr_interval){ .lo = NAN, .hi = NAN };
    return n > 1 ? kvr_median_interval(j->x, n, j->o->level, &l->time) : KVR_OK;
}

static enum kvr_status add_line(struct kvr_table *out, const struct job *j, const struct line *l,
                                int n_lines)
{
    const int needed = kvr_pairs_needed(n_lines, j->o->level);
    char same[48], sure[48];
    struct kvr_value v[N_COLUMNS];

    snprintf(same, sizeof same, "%d/%d", l->same, l->n_both);
    if (l->same == l->n_both && l->c.mean == 0)
        snprintf(sure, sizeof sure, "the same");
    else if (l->c.n < needed)
        snprintf(sure, sizeof sure, "needs %d more pairs", needed - l->c.n);
    else
        snprintf(sure, sizeof sure, "%s", kvr_separable(&l->c, l->holm) ? "yes" : "no");
    v[0] = kvr_value_text(kvr_table_text(j->now, l->from, METHOD));
    v[1] = kvr_value_number(l->n_both);
    v[2] = kvr_value_text(same);
    v[3] = kvr_value_number(l->before);
    v[4] = kvr_value_number(l->now);
    v[5] = kvr_value_number(l->c.mean);
    v[6] = kvr_value_number(l->c.ci.lo);
    v[7] = kvr_value_number(l->c.ci.hi);
    v[8] = kvr_value_text(sure);
    v[9] = kvr_value_number(l->ratio);
    v[10] = kvr_value_number(l->time.lo);
    v[11] = kvr_value_number(l->time.hi);
    v[12] = kvr_value_text(kvr_table_text(j->now, l->from, SETTINGS));
    return kvr_table_add(out, v);
}

static enum kvr_status add_lines(struct kvr_table *out, struct job *j)
{
    const size_t size = (size_t)j->now->n_rows + 1;
    struct line *l = calloc(size, sizeof *l);
    double *p = malloc(size * sizeof *p), *holm = malloc(size * sizeof *holm);
    enum kvr_status st = l && p && holm ? KVR_OK : kvr_fail(KVR_ENOMEM, "stats: out of memory");
    int n = 0;

    for (int from = 0, to; st == KVR_OK && from < j->now->n_rows; from = to) {
        for (to = from + 1; to < j->now->n_rows; to++)
            if (strcmp(kvr_table_text(j->now, from, METHOD), kvr_table_text(j->now, to, METHOD)) ||
                strcmp(kvr_table_text(j->now, from, SETTINGS),
                       kvr_table_text(j->now, to, SETTINGS)))
                break;
        l[n] = (struct line){ .from = from, .to = to };
        st = compare_line(j, &l[n]);
        if (l[n].n_both)
            p[n] = l[n].c.p, n++;
    }
    if (st == KVR_OK)
        st = kvr_holm(p, n, holm);
    for (int i = 0; st == KVR_OK && i < n; i++) {
        l[i].holm = holm[i];
        st = add_line(out, j, &l[i], n);
    }
    free(l);
    free(p);
    free(holm);
    return st;
}

/* Adds a note with a database's path, commit, compiler and machine. `alone` is the number of its
 * cells that the other database lacks. */
static enum kvr_status note_who(struct kvr_table *out, const char *word, const char *db, int alone)
{
    struct kvr_table *t;
    char note[1024];
    enum kvr_status st;

    KVR_TRY(kvr_table_query(&t, db, kvr_statement_table_runs_who, NULL));
    snprintf(note, sizeof note, "%s: %.200s, %.600s; %d cells are only in this database", word, db,
             t->n_rows ? kvr_table_text(t, 0, 0) : "", alone);
    st = kvr_table_note(out, note);
    kvr_table_close(&t);
    return st;
}

enum kvr_status kvr_stat_runs(struct kvr_table **out, const struct kvr_stat_options *o)
{
    static const char *const fold[] = { "settings", NULL };
    struct job j = { .o = o };
    int n_both = 0;
    enum kvr_status st = KVR_OK;

    *out = NULL;
    if (!o->before)
        return kvr_fail(KVR_EINVAL,
                        "stats runs: need --before FILE, the earlier database to compare with");
    if (!kvr_metric_find(o->metric))
        return kvr_fail(KVR_EINVAL, "stats: unknown metric '%s'; `kvreel list metrics` lists them",
                        o->metric);
    KVR_TRY(read_cells(&j.now, o, o->db, "c.settings, c.is_baseline DESC, c.method, c.key"));
    st = read_cells(&j.before, o, o->before, "c.key");
    if (st == KVR_OK)
        st = match_cells(&j);
    if (st == KVR_OK)
        st = kvr_table_open(out, N_COLUMNS, columns);
    if (st == KVR_OK)
        st = add_lines(*out, &j);
    for (int i = 0; st == KVR_OK && i < j.now->n_rows; i++)
        n_both += j.match[i] >= 0;
    if (st == KVR_OK)
        st = kvr_table_fold(*out, fold);
    if (st == KVR_OK)
        st = kvr_table_note(*out, "compares the cells that two databases, `before` and `now`, have "
                                  "in common; time: median ratio of valid runtimes; separable: "
                                  "significantly different, Holm-adjusted over the methods");
    if (st == KVR_OK)
        st = note_who(*out, "before", o->before, j.before->n_rows - n_both);
    if (st == KVR_OK)
        st = note_who(*out, "now", o->db, j.now->n_rows - n_both);
    kvr_table_close(&j.now);
    kvr_table_close(&j.before);
    free(j.match);
    free(j.sample);
    free(j.x);
    if (st != KVR_OK)
        kvr_table_close(out);
    return st;
}
