/* window_tables.c - makes tables of a metric per part of the video (window), and of the growth of
 * its error from chunk to chunk. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/stat_tables.h"
#include "harness/report/stats/pairs.h"
#include "harness/report/stats/stats.h"
#include "harness/report/table/values.h"
#include "harness/store/statement.h"
#include "methods/method.h"
#include "metrics/metric.h"

KVR_STATEMENT(stats_windows);
KVR_STATEMENT(stats_growth);

/* Input of both tables: the rows of the SQL statement, which are sorted by their leading columns,
 * and buffers. */
struct reading {
    const struct kvr_stat_options *o;
    struct kvr_table *t;
    struct kvr_sample *a, *b, *d; /* [rows] */
    double *x;
    int sign;
    bool distance;
};

static enum kvr_status open_reading(struct reading *r, const struct kvr_stat_options *o,
                                    const char *statement)
{
    const struct kvr_metric *m = kvr_metric_find(o->metric);
    size_t n;

    *r = (struct reading){ .o = o };
    if (!m)
        return kvr_fail(KVR_EINVAL, "stats: unknown metric '%s'; `kvreel list metrics` lists them",
                        o->metric);
    r->sign = m->direction;
    r->distance = !m->alone && !m->truth;
    KVR_TRY(kvr_stat_one_machine(o));
    KVR_TRY(kvr_table_query_with(&r->t, o->db, statement,
                                 KVR_WITH("metric", o->metric, "where", o->where ? o->where : "1"),
                                 NULL));
    n = (size_t)r->t->n_rows + 1;
    r->a = calloc(n, sizeof *r->a);
    r->b = calloc(n, sizeof *r->b);
    r->d = calloc(n, sizeof *r->d);
    r->x = calloc(n, sizeof *r->x);
    return r->a && r->b && r->d && r->x ? KVR_OK : kvr_fail(KVR_ENOMEM, "stats: out of memory");
}

static void close_reading(struct reading *r)
{
    kvr_table_close(&r->t);
    free(r->a);
    free(r->b);
    free(r->d);
    free(r->x);
}

/* Returns the end of the group of rows that starts at row `from` and has equal values in the first
 * `columns` columns. */
static int group_end(const struct kvr_table *t, int from, int columns)
{
    int to = from + 1;

    for (; to < t->n_rows; to++)
        for (int c = 0; c < columns; c++)
            if (strcmp(kvr_table_text(t, from, c), kvr_table_text(t, to, c)) != 0)
                return to;
    return to;
}

/* Writes the mean over units (prompts or seeds) and the two ends of its confidence interval. If
 * `values` is true, the samples are values of the metric, and the interval is clamped to the
 * metric's range; differences and slopes may lie outside of this range. */
static enum kvr_status interval(struct reading *r, struct kvr_sample *s, int n_seeds, bool values,
                                struct kvr_value to[3], int *n)
{
    const struct kvr_metric *m = kvr_metric_find(r->o->metric);
    struct kvr_interval ci = { .lo = NAN, .hi = NAN };

    *n = kvr_nest(s, n_seeds, r->o->unit);
    kvr_nest_values(s, *n, r->x);
    if (*n > 1)
        KVR_TRY(kvr_mean_interval(r->x, *n, r->o->level, &ci));
    if (*n > 1 && values && m)
        kvr_interval_within(&ci, m->lo, m->hi);
    to[0] = kvr_value_number(kvr_mean(r->x, *n));
    to[1] = kvr_value_number(ci.lo);
    to[2] = kvr_value_number(ci.hi);
    return KVR_OK;
}

/* --- windows ---------------------------------------------------------------------------- */

enum { W_WINDOW, W_METHOD, W_PROMPT, W_SEED, W_VALUE, W_CONTROL };

struct window_row {
    int from, to;
    const char *window, *method;
    struct kvr_value v[3];
    int n;
    double floor;
    /* comparison with the BF16 draws (reruns with slightly perturbed noise) in the same window;
     * c.n = 0: there are no draws */
    struct kvr_comparison c;
    double holm;
};

static int window_samples(const struct reading *r, int from, int to, bool controls,
                          struct kvr_sample *s)
{
    int n = 0;

    for (int i = from; i < to; i++)
        if ((kvr_table_number(r->t, i, W_CONTROL) == 1.0) == controls)
            s[n++] = (struct kvr_sample){ .prompt = (int)kvr_table_number(r->t, i, W_PROMPT),
                                          .seed = (int)kvr_table_number(r->t, i, W_SEED),
                                          .x = kvr_table_number(r->t, i, W_VALUE) };
    return kvr_nest(s, n, KVR_PER_SEED);
}

/* Computes a row's mean, and its comparison with the BF16 draws (reruns with slightly perturbed
 * noise), whose mean is the chaos floor. `floor` is the row of BF16 in the same window, or NULL if
 * there is none. If the metric compares with the BF16 rollout, BF16's row has the mean of the
 * draws, because the BF16 rollout equals itself. */
static enum kvr_status fill_window_row(struct reading *r, struct window_row *w,
                                       const struct window_row *floor)
{
    const bool bf16 = kvr_is_reference_method(w->method);
    int n_floor = floor ? window_samples(r, floor->from, floor->to, true, r->b) : 0;
    int n = window_samples(r, w->from, w->to, bf16 && r->distance && n_floor > 0, r->a);

    w->floor = NAN;
    if (n_floor > 0) {
        struct kvr_value v[3];
        int n_units;

        memcpy(r->d, r->b, (size_t)n_floor * sizeof *r->d);
        KVR_TRY(interval(r, r->d, n_floor, true, v, &n_units));
        w->floor = v[0].type == KVR_VALUE_REAL ? v[0].r : NAN;
        if (!bf16) {
            n_floor = kvr_nest_pairs(r->a, n, r->b, n_floor, r->d);
            n_floor = kvr_nest(r->d, n_floor, r->o->unit);
            kvr_nest_values(r->d, n_floor, r->x);
            KVR_TRY(kvr_compare(r->x, n_floor, r->o->level, &w->c));
        }
    }
    return interval(r, r->a, n, true, w->v, &w->n);
}

static const char *verdict_text(const struct reading *r, const struct window_row *w, int compared,
                                char *buf, size_t size)
{
    const int missing = kvr_pairs_needed(compared, r->o->level) - w->c.n;

    if (w->c.n == 0)
        return "";
    if (missing > 0) {
        snprintf(buf, size, "needs %d more pairs", missing);
        return buf;
    }
    return kvr_separable(&w->c, w->holm) && (!r->distance || w->c.mean * r->sign < 0) ? "yes"
                                                                                      : "no";
}

/* Holm-adjusts the p-values of the comparisons with BF16 reruns, over the methods of one window. */
static enum kvr_status adjust_window(struct window_row *w, int n, int *compared)
{
    double *p = calloc(2 * (size_t)n + 1, sizeof *p);
    enum kvr_status st = p ? KVR_OK : kvr_fail(KVR_ENOMEM, "stats: out of memory");

    *compared = 0;
    for (int i = 0; p && i < n; i++) {
        p[i] = w[i].c.n ? w[i].c.p : NAN;
        *compared += w[i].c.n > 0;
    }
    if (st == KVR_OK)
        st = kvr_holm(p, n, p + n);
    for (int i = 0; st == KVR_OK && i < n; i++)
        w[i].holm = p[n + i];
    free(p);
    return st;
}

static enum kvr_status window_table(struct kvr_table **out, struct reading *r, struct window_row *w,
                                    int n)
{
    static const struct kvr_column columns[] = {
        { .name = "window" },
        { .name = "method" },
        { .name = "n" },
        { .name = "mean", .digits = -1 },
        { .name = "lo", .head = "from", .digits = -1 },
        { .name = "hi", .head = "to", .digits = -1 },
        { .name = "floor", .digits = -1 },
        { .name = "beyond_chaos", .head = "beyond chaos" },
    };
    enum kvr_status st = kvr_table_open(out, (int)(sizeof columns / sizeof *columns), columns);

    for (int from = 0, to, compared; st == KVR_OK && from < n; from = to) {
        for (to = from; to < n && strcmp(w[from].window, w[to].window) == 0;)
            to++;
        st = adjust_window(w + from, to - from, &compared);
        for (int i = from; st == KVR_OK && i < to; i++) {
            char buf[48];

            st = kvr_table_add(
                *out, (const struct kvr_value[]){
                          kvr_value_text(strchr(w[i].window, ' ') + 1), kvr_value_text(w[i].method),
                          kvr_value_count(w[i].n), w[i].v[0], w[i].v[1], w[i].v[2],
                          kvr_value_number(w[i].floor),
                          kvr_value_text(verdict_text(r, &w[i], compared, buf, sizeof buf)) });
        }
    }
    return st;
}

enum kvr_status kvr_stat_windows(struct kvr_table **out, const struct kvr_stat_options *o)
{
    struct reading r;
    struct window_row *w = NULL, *floor = NULL;
    char note[384];
    int n = 0;
    enum kvr_status st = open_reading(&r, o, kvr_statement_stats_windows);

    *out = NULL;
    if (st == KVR_OK) {
        w = calloc((size_t)r.t->n_rows + 1, sizeof *w);
        st = w ? KVR_OK : kvr_fail(KVR_ENOMEM, "stats: out of memory");
    }
    for (int from = 0; st == KVR_OK && from < r.t->n_rows; from = w[n++].to) {
        w[n] = (struct window_row){ .from = from,
                                    .to = group_end(r.t, from, 2),
                                    .window = kvr_table_text(r.t, from, W_WINDOW),
                                    .method = kvr_table_text(r.t, from, W_METHOD) };
        if (floor && strcmp(floor->window, w[n].window) != 0)
            floor = NULL;
        if (kvr_is_reference_method(w[n].method))
            floor = &w[n];
        st = fill_window_row(&r, &w[n], floor);
    }
    if (st == KVR_OK)
        st = window_table(out, &r, w, n);
    snprintf(
        note, sizeof note,
        "%s by part of the video (window): means and %g %% intervals over prompts; floor: mean of "
        "BF16's reruns with perturbed noise in the same window; beyond chaos: whether the method "
        "differs significantly from these reruns, Holm-adjusted over the methods of a window",
        o->metric, 100 * o->level);
    if (st == KVR_OK)
        st = kvr_table_note(*out, note);
    if (st != KVR_OK)
        kvr_table_close(out);
    free(w);
    close_reading(&r);
    return st;
}

/* --- growth ----------------------------------------------------------------------------- */

enum { G_METHOD, G_FORCING, G_CELL, G_PROMPT, G_SEED, G_CONTROL, G_WHOLE, G_CHUNK, G_VALUE };

/* Returns the metric's change per chunk, a least-squares slope over rows [from, to), which are the
 * chunks of one cell. NaN: fewer than three chunks are used. If the metric compares with the BF16
 * rollout, chunks equal to that rollout are skipped, because they have no error yet. */
static double slope(const struct reading *r, int from, int to)
{
    const struct kvr_metric *m = kvr_metric_find(r->o->metric);
    const double best = m->direction > 0 ? m->hi : m->lo;
    double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;

    for (int i = from; i < to; i++) {
        const double x = kvr_table_number(r->t, i, G_CHUNK), y = kvr_table_number(r->t, i, G_VALUE);

        if (!isfinite(y) || (r->distance && y == best))
            continue;
        n++;
        sx += x;
        sy += y;
        sxx += x * x;
        sxy += x * y;
    }
    return n < 3 ? NAN : (n * sxy - sx * sy) / (n * sxx - sx * sx);
}

/* Writes one sample per cell in rows [from, to): the metric's slope per chunk if `rate` is true,
 * otherwise the metric of the whole video. Returns the number of samples. */
static int cell_samples(const struct reading *r, int from, int to, const char *forcing, bool rate,
                        struct kvr_sample *s)
{
    const bool draws = r->distance && kvr_is_reference_method(kvr_table_text(r->t, from, G_METHOD));
    int n = 0;

    for (int i = from, end; i < to; i = end) {
        for (end = i + 1; end < to && strcmp(kvr_table_text(r->t, i, G_CELL),
                                             kvr_table_text(r->t, end, G_CELL)) == 0;)
            end++;
        if (strcmp(kvr_table_text(r->t, i, G_FORCING), forcing) != 0 ||
            (draws && kvr_table_number(r->t, i, G_CONTROL) != 1.0))
            continue;
        s[n++] = (struct kvr_sample){ .prompt = (int)kvr_table_number(r->t, i, G_PROMPT),
                                      .seed = (int)kvr_table_number(r->t, i, G_SEED),
                                      .x = rate ? slope(r, i, end)
                                                : kvr_table_number(r->t, i, G_WHOLE) };
    }
    return kvr_nest(s, n, KVR_PER_SEED);
}

static enum kvr_status add_growth(struct kvr_table *out, struct reading *r, int from, int to)
{
    struct kvr_value v[16],
        propagated[3] = { kvr_value_number(NAN), kvr_value_number(NAN), kvr_value_number(NAN) };
    const bool decibels = kvr_metric_find(r->o->metric)->pool == KVR_POOL_DB;
    int n_put, n_free, n, units, at = 0;
    double rate;

    n_put = cell_samples(r, from, to, "teacher", false, r->a);
    n_free = cell_samples(r, from, to, "none", false, r->b);
    n = kvr_nest_pairs(r->b, n_free, r->a, n_put, r->d);
    KVR_TRY(interval(r, r->d, n, false, propagated, &units));
    v[at++] = kvr_value_text(kvr_table_text(r->t, from, G_METHOD));
    KVR_TRY(interval(r, r->a, n_put, true, v + at, &units));
    at += 3;
    KVR_TRY(interval(r, r->b, n_free, true, v + at, &units));
    at += 3;
    memcpy(v + at, propagated, sizeof propagated);
    at += 3;
    n = cell_samples(r, from, to, "none", true, r->a);
    KVR_TRY(interval(r, r->a, n, false, v + at, &units));
    rate = v[at].type == KVR_VALUE_REAL ? v[at].r : NAN;
    at += 3;
    v[at++] = kvr_value_number(decibels ? pow(10, -rate / 20) : NAN);
    v[at++] = kvr_value_count(units);
    return kvr_table_add(out, v);
}

enum kvr_status kvr_stat_growth(struct kvr_table **out, const struct kvr_stat_options *o)
{
    static const struct kvr_column columns[] = {
        { .name = "method" },
        { .name = "put_in", .head = "injected", .digits = -1 },
        { .name = "put_in_lo", .head = "from", .digits = -1 },
        { .name = "put_in_hi", .head = "to", .digits = -1 },
        { .name = "free", .digits = -1 },
        { .name = "free_lo", .head = "from", .digits = -1 },
        { .name = "free_hi", .head = "to", .digits = -1 },
        { .name = "propagated", .digits = -1 },
        { .name = "propagated_lo", .head = "from", .digits = -1 },
        { .name = "propagated_hi", .head = "to", .digits = -1 },
        { .name = "rate", .head = "per chunk", .digits = -1 },
        { .name = "rate_lo", .head = "from", .digits = -1 },
        { .name = "rate_hi", .head = "to", .digits = -1 },
        { .name = "factor", .head = "error x", .digits = 3 },
        { .name = "n" },
    };
    static const char *const optional[] = { "put_in",        "put_in_lo",
                                            "put_in_hi",     "propagated",
                                            "propagated_lo", "propagated_hi",
                                            "factor",        NULL };
    struct reading r;
    char note[640];
    enum kvr_status st = open_reading(&r, o, kvr_statement_stats_growth);

    *out = NULL;
    if (st == KVR_OK)
        st = kvr_table_open(out, (int)(sizeof columns / sizeof *columns), columns);
    for (int from = 0, to; st == KVR_OK && from < r.t->n_rows; from = to) {
        to = group_end(r.t, from, 1);
        st = add_growth(*out, &r, from, to);
    }
    if (st == KVR_OK)
        kvr_table_drop_empty(*out, optional);
    snprintf(
        note, sizeof note,
        "%s with %g %% intervals over prompts; injected: error of cells with forcing 'teacher', "
        "whose chunks start from the BF16 rollout's past; free: accumulated error of cells without "
        "forcing; propagated: free minus injected, paired by prompt and seed; per chunk: slope of "
        "a least-squares line over the chunks of a rollout without forcing; error x: factor by "
        "which the RMS error grows per chunk; row BF16: BF16's reruns with perturbed noise",
        o->metric, 100 * o->level);
    if (st == KVR_OK)
        st = kvr_table_note(*out, note);
    if (st != KVR_OK)
        kvr_table_close(out);
    close_reading(&r);
    return st;
}
