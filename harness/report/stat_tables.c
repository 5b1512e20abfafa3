/* stat_tables.c - see stat_tables.h. */
#include "harness/report/stat_tables.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/stats/stats.h"
#include "harness/store/views.h"
#include "metrics/metric.h"

enum { MAX_METHODS = 1000, SQL_MAX = 4096 };

/* What two cells must share to be a pair, and two repeats to be repeats. */
#define UNIT "suite || '/' || prompt_id || '/' || seed || '/' || settings || '/' || machine"

static enum kvr_status query(struct kvr_table **t, const struct kvr_stat_options *o,
                             const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static enum kvr_status query(struct kvr_table **t, const struct kvr_stat_options *o,
                             const char *fmt, ...)
{
    char sql[SQL_MAX];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(sql, sizeof sql, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof sql)
        return kvr_fail(KVR_EINVAL, "stats: condition of more than %d characters", SQL_MAX / 2);
    return kvr_table_query(t, o->db, sql, NULL);
}

static const char *condition(const struct kvr_stat_options *o)
{
    return o->where ? o->where : "1";
}

static enum kvr_status one_machine(const struct kvr_stat_options *o)
{
    struct kvr_table *t;
    enum kvr_status st = KVR_OK;

    if (o->across_machines)
        return KVR_OK;
    KVR_TRY(query(&t, o,
                  "SELECT group_concat(machine, '; '), count(*) FROM (SELECT DISTINCT machine "
                  "FROM cells_wide WHERE outcome = 'OK' AND (%s))",
                  condition(o)));
    if (kvr_table_number(t, 0, 1) > 1)
        st = kvr_fail(KVR_EINVAL,
                      "stats: measurements of unlike machines (%s); choose one with --where "
                      "\"machine = '...'\", or say --across-machines",
                      kvr_table_text(t, 0, 0));
    kvr_table_close(&t);
    return st;
}

static struct kvr_value text(const char *s)
{
    return (struct kvr_value){ .type = KVR_VALUE_TEXT, .text = s, .n_bytes = (int)strlen(s) };
}

static struct kvr_value number(double x)
{
    return isfinite(x) ? (struct kvr_value){ .type = KVR_VALUE_REAL, .r = x }
                       : (struct kvr_value){ .type = KVR_VALUE_NULL };
}

static struct kvr_value count(int64_t n)
{
    return (struct kvr_value){ .type = KVR_VALUE_INT, .i = n, .r = (double)n };
}

/* --- pairs ------------------------------------------------------------------------------ */

static const char *const costs[] = { "runtime_s",         "peak_bytes",       "resident_bytes",
                                     "max_nominal_bytes", "nominal_bytes",    "max_resident_bytes",
                                     "host_peak_bytes",   "identical_frames", NULL };
static const char *const gains[] = { "compression", "resident_compression", NULL };

static bool among(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(name, *list) == 0)
            return true;
    return false;
}

/* +1: higher is better. */
static enum kvr_status direction(const char *metric, int *out)
{
    const struct kvr_metric *m = kvr_metric_find(metric);

    *out = m ? m->direction : among(metric, gains) ? 1 : -1;
    if (m || among(metric, gains) || among(metric, costs))
        return KVR_OK;
    return kvr_fail(KVR_EINVAL,
                    "stats: '%s' is no metric (`kvreel list metrics`), and none of runtime_s, "
                    "peak_bytes, resident_bytes, nominal_bytes, compression, ...",
                    metric);
}

/* One row per method and unit, mean over repeats; methods together, units in order. */
static enum kvr_status read_values(struct kvr_table **t, const struct kvr_stat_options *o)
{
    const char *verdict = strcmp(o->metric, "runtime_s") == 0 ? "verdict = 'VALID'" : "1";

    if (kvr_metric_find(o->metric))
        return query(
            t, o,
            "WITH v AS (SELECT method, " UNIT " AS unit, is_baseline, " KVR_SQL_SCORE(
                "cells_wide", "value",
                "%1$s") " AS value FROM cells_wide WHERE outcome = "
                        "'OK' AND run_kind = 'bench' AND (%2$s)) SELECT method, unit, avg(value), "
                        "max(is_baseline) FROM v WHERE value IS NOT NULL GROUP BY 1, 2 "
                        "ORDER BY max(is_baseline) DESC, 1, 2",
            o->metric, condition(o));
    return query(t, o,
                 "SELECT method, " UNIT " AS unit, avg(%s), max(is_baseline) FROM cells_wide WHERE "
                 "outcome = 'OK' AND %s AND run_kind = 'bench' AND %s IS NOT NULL AND (%s) GROUP "
                 "BY 1, 2 ORDER BY max(is_baseline) DESC, 1, 2",
                 o->metric, verdict, o->metric, condition(o));
}

struct method {
    const char *name;
    int first, n;           /* rows of the table of values */
    double mean, se, score; /* score: higher is better */
    int n_pairs;
    double diff;
    struct kvr_interval ci;
    int group;
};

static int find_methods(const struct kvr_table *t, struct method *m)
{
    int n = 0;

    for (int i = 0; i < t->n_rows; i++) {
        const char *name = kvr_table_text(t, i, 0);

        if (n == 0 || strcmp(m[n - 1].name, name) != 0) {
            if (n == MAX_METHODS)
                break;
            m[n++] = (struct method){ .name = name, .first = i };
        }
        m[n - 1].n++;
    }
    return n;
}

/* Differences a - b over the units that both have; `d` has room for a->n. */
static int pair_up(const struct kvr_table *t, const struct method *a, const struct method *b,
                   double *d)
{
    int n = 0;

    for (int i = 0, j = 0; i < a->n && j < b->n;) {
        int c = strcmp(kvr_table_text(t, a->first + i, 1), kvr_table_text(t, b->first + j, 1));

        if (c == 0)
            d[n++] = kvr_table_number(t, a->first + i, 2) - kvr_table_number(t, b->first + j, 2);
        i += c <= 0;
        j += c >= 0;
    }
    return n;
}

static enum kvr_status difference(const struct kvr_table *t, const struct method *a,
                                  const struct method *b, const struct kvr_stat_options *o,
                                  double *d, int *n, struct kvr_interval *ci)
{
    *n = pair_up(t, a, b, d);
    *ci = (struct kvr_interval){ NAN, NAN, o->level, false };
    return *n < 2 ? KVR_OK : kvr_bootstrap_mean(d, *n, o->level, o->seed, ci);
}

static int by_mean(const void *a, const void *b)
{
    const struct method *x = a, *y = b;
    double d = y->score - x->score;

    return d != 0 ? (d > 0) - (d < 0) : strcmp(x->name, y->name);
}

/* From the best down: a method is in the group of the group's best unless their paired interval
 * leaves zero out. */
static enum kvr_status group(const struct kvr_table *t, struct method *m, int n,
                             const struct kvr_stat_options *o, double *d)
{
    int leader = 0, g = 1;

    for (int i = 0; i < n; i++) {
        struct kvr_interval ci;
        int n_pairs;

        KVR_TRY(difference(t, &m[i], &m[leader], o, d, &n_pairs, &ci));
        if (i > leader && n_pairs >= 2 && (ci.lo > 0 || ci.hi < 0)) {
            leader = i;
            g++;
        }
        m[i].group = g;
    }
    return KVR_OK;
}

static enum kvr_status add_paired(struct kvr_table *t, const struct method *m, const char *against)
{
    const bool self = strcmp(m->name, against) == 0;
    const char *apart = self || m->n_pairs < 2 ? "" : m->ci.lo > 0 || m->ci.hi < 0 ? "yes" : "no";
    const struct kvr_value row[] = { text(m->name),
                                     count(m->n),
                                     number(m->mean),
                                     number(m->se),
                                     count(m->n_pairs),
                                     number(self ? NAN : m->diff),
                                     number(self ? NAN : m->ci.lo),
                                     number(self ? NAN : m->ci.hi),
                                     text(apart),
                                     count(m->group) };

    return kvr_table_add(t, row);
}

static enum kvr_status paired_table(struct kvr_table **out, const struct kvr_table *t,
                                    struct method *m, int n, const struct kvr_stat_options *o,
                                    double *d, int sign)
{
    static const struct kvr_column columns[] = {
        { .name = "method" },
        { .name = "n" },
        { .name = "mean", .digits = -1 },
        { .name = "standard_error", .head = "s.e.", .digits = -1 },
        { .name = "n_pairs", .head = "pairs" },
        { .name = "difference", .digits = -1 },
        { .name = "lo", .head = "from", .digits = -1 },
        { .name = "hi", .head = "to", .digits = -1 },
        { .name = "separable" },
        { .name = "tie_group", .head = "group" },
    };
    const struct method *base = NULL;
    char note[256];

    for (int i = 0; i < n; i++)
        if (strcmp(m[i].name, o->against) == 0)
            base = &m[i];
    if (!base)
        return kvr_fail(KVR_ENOTFOUND, "stats: no '%s' of method '%s' in %s", o->metric, o->against,
                        o->db);
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < m[i].n; k++)
            d[k] = kvr_table_number(t, m[i].first + k, 2);
        m[i].mean = kvr_mean(d, m[i].n);
        m[i].score = m[i].mean * sign;
        m[i].se = kvr_standard_error(d, m[i].n);
        KVR_TRY(difference(t, &m[i], base, o, d, &m[i].n_pairs, &m[i].ci));
        m[i].diff = kvr_mean(d, m[i].n_pairs);
    }
    qsort(m, (size_t)n, sizeof *m, by_mean);
    KVR_TRY(group(t, m, n, o, d));
    KVR_TRY(kvr_table_open(out, (int)(sizeof columns / sizeof *columns), columns));
    for (int i = 0; i < n; i++)
        KVR_TRY(add_paired(*out, &m[i], o->against));
    snprintf(note, sizeof note,
             "%s, difference to %s paired by prompt; %g %% BCa bootstrap, seed %llu, %d resamples; "
             "one group: not told from its best",
             o->metric, o->against, 100 * o->level, (unsigned long long)o->seed,
             KVR_BOOTSTRAP_RESAMPLES);
    return kvr_table_note(*out, note);
}

enum kvr_status kvr_stat_paired(struct kvr_table **out, const struct kvr_stat_options *o)
{
    struct kvr_table *t = NULL;
    struct method *m = calloc(MAX_METHODS, sizeof *m);
    double *d = NULL;
    int sign = 1;
    enum kvr_status st = m ? direction(o->metric, &sign) : kvr_fail(KVR_ENOMEM, "stats: no memory");

    *out = NULL;
    if (st == KVR_OK)
        st = one_machine(o);
    if (st == KVR_OK)
        st = read_values(&t, o);
    if (st == KVR_OK) {
        d = malloc(((size_t)t->n_rows + 1) * sizeof *d);
        st = d ? paired_table(out, t, m, find_methods(t, m), o, d, sign)
               : kvr_fail(KVR_ENOMEM, "stats: no memory");
    }
    if (st != KVR_OK)
        kvr_table_close(out);
    kvr_table_close(&t);
    free(d);
    free(m);
    return st;
}

/* --- times ------------------------------------------------------------------------------ */

static enum kvr_status add_timing(struct kvr_table *out, const struct kvr_table *t, int first,
                                  int n, double level, double *x, bool *flag)
{
    struct kvr_interval ci;
    double explained = 0, least = INFINITY;
    int outliers;

    for (int i = 0; i < n; i++) {
        x[i] = kvr_table_number(t, first + i, 4);
        explained += kvr_table_number(t, first + i, 5) / n;
        least = x[i] < least ? x[i] : least;
    }
    KVR_TRY(kvr_median_interval(x, n, level, &ci));
    outliers = kvr_outliers(x, n, flag);
    {
        const struct kvr_value row[] = { text(kvr_table_text(t, first, 1)),
                                         text(kvr_table_text(t, first, 2)),
                                         count(n),
                                         number(kvr_median(x, n)),
                                         number(n > 1 ? ci.lo : NAN),
                                         number(n > 1 ? ci.hi : NAN),
                                         number(ci.level),
                                         text(n < 2        ? "one sample"
                                              : ci.min_max ? "min-max"
                                                           : "ranks"),
                                         number(least),
                                         count(outliers),
                                         number(explained),
                                         text(kvr_table_text(t, first, 3)) };

        return kvr_table_add(out, row);
    }
}

enum kvr_status kvr_stat_timing(struct kvr_table **out, const struct kvr_stat_options *o)
{
    static const struct kvr_column columns[] = {
        { .name = "method" },
        { .name = "prompt" },
        { .name = "n" },
        { .name = "median_s", .head = "median", .unit = "(s)", .digits = 3 },
        { .name = "lo_s", .head = "from", .unit = "(s)", .digits = 3 },
        { .name = "hi_s", .head = "to", .unit = "(s)", .digits = 3 },
        { .name = "coverage", .digits = 3 },
        { .name = "interval" },
        { .name = "min_s", .head = "min", .unit = "(s)", .digits = 3 },
        { .name = "outliers" },
        { .name = "attributed", .digits = 3 },
        { .name = "verdict" },
    };
    struct kvr_table *t = NULL;
    double *x = NULL;
    bool *flag = NULL;
    enum kvr_status st;

    *out = NULL;
    KVR_TRY(one_machine(o));
    KVR_TRY(query(
        &t, o,
        "SELECT rollout || machine || code || method AS unit, method, prompt_id, "
        "CASE WHEN sum(verdict = 'NOISY') OVER (PARTITION BY rollout, machine, code, "
        "method) > 0 THEN 'NOISY' ELSE 'VALID' END, runtime_s, (SELECT sum(s.ns) FROM "
        "sample s WHERE s.cell = key AND s.kind IN ('encode', 'decode', 'attend', "
        "'linear', 'cross', 'other', 'graph')) / 1e9 / runtime_s FROM cells_wide WHERE outcome = "
        "'OK' AND run_kind = 'bench' AND (%s) ORDER BY is_baseline DESC, method, "
        "prompt_id, unit, repeat",
        condition(o)));
    x = malloc(((size_t)t->n_rows + 1) * sizeof *x);
    flag = malloc((size_t)t->n_rows + 1);
    st = x && flag ? kvr_table_open(out, (int)(sizeof columns / sizeof *columns), columns)
                   : kvr_fail(KVR_ENOMEM, "stats: no memory");
    for (int i = 0, n; st == KVR_OK && i < t->n_rows; i += n) {
        for (n = 1; i + n < t->n_rows &&
                    strcmp(kvr_table_text(t, i, 0), kvr_table_text(t, i + n, 0)) == 0;)
            n++;
        st = add_timing(*out, t, i, n, o->level, x, flag);
    }
    if (st == KVR_OK)
        st = kvr_table_note(*out, "median over repeats, interval from order statistics; fewer than "
                                  "6 repeats cannot give 95 % and show min-max; outliers are "
                                  "counted, never dropped");
    if (st != KVR_OK)
        kvr_table_close(out);
    kvr_table_close(&t);
    free(x);
    free(flag);
    return st;
}

/* --- coverage --------------------------------------------------------------------------- */

/* Column heads and row cells come from two passes over one query, ordered by method. */
static enum kvr_status matrix(struct kvr_table **out, const struct kvr_table *t,
                              const struct kvr_table *prompts)
{
    int n = prompts->n_rows + 1;
    struct kvr_column *columns = calloc((size_t)n, sizeof *columns);
    struct kvr_value *row = calloc((size_t)n, sizeof *row);
    enum kvr_status st = columns && row ? KVR_OK : kvr_fail(KVR_ENOMEM, "stats: no memory");

    for (int i = 0; st == KVR_OK && i < n; i++)
        columns[i].name = i ? kvr_table_text(prompts, i - 1, 0) : "method";
    if (st == KVR_OK)
        st = kvr_table_open(out, n, columns);
    for (int i = 0; st == KVR_OK && i < t->n_rows; i++) {
        bool last =
            i + 1 == t->n_rows || strcmp(kvr_table_text(t, i, 0), kvr_table_text(t, i + 1, 0)) != 0;

        row[0] = text(kvr_table_text(t, i, 0));
        for (int k = 1; k < n; k++)
            if (strcmp(columns[k].name, kvr_table_text(t, i, 1)) == 0)
                row[k] = text(kvr_table_text(t, i, 2));
        if (last) {
            st = kvr_table_add(*out, row);
            memset(row, 0, (size_t)n * sizeof *row);
        }
    }
    free(columns);
    free(row);
    return st;
}

enum kvr_status kvr_stat_coverage(struct kvr_table **out, const struct kvr_stat_options *o)
{
    struct kvr_table *t = NULL, *prompts = NULL;
    enum kvr_status st;

    *out = NULL;
    st = query(&prompts, o,
               "SELECT DISTINCT suite || ':' || prompt_id FROM cells_wide WHERE (%s) ORDER BY "
               "suite, prompt_id LIMIT 200",
               condition(o));
    if (st == KVR_OK)
        st = query(&t, o,
                   "SELECT method, suite || ':' || prompt_id, sum(outcome = 'OK') || '/' || "
                   "count(*) || CASE WHEN sum(outcome = 'UNSUPPORTED') THEN ' U' ELSE '' END || "
                   "CASE WHEN sum(outcome IN ('SKIPPED', 'INTERRUPTED')) THEN ' S' ELSE '' END || "
                   "CASE WHEN sum(outcome NOT IN ('OK', 'UNSUPPORTED', 'SKIPPED', 'INTERRUPTED')) "
                   "THEN ' F' ELSE '' END FROM cells_wide WHERE (%s) GROUP BY 1, 2 ORDER BY "
                   "max(is_baseline) OVER (PARTITION BY method) DESC, 1, 2",
                   condition(o));
    if (st == KVR_OK)
        st = matrix(out, t, prompts);
    if (st == KVR_OK)
        st = kvr_table_note(*out, "cells OK / cells there are; U unsupported, S open, F failed, - "
                                  "never tried");
    if (st != KVR_OK)
        kvr_table_close(out);
    kvr_table_close(&t);
    kvr_table_close(&prompts);
    return st;
}
