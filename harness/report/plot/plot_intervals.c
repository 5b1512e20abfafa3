/* plot_intervals.c - computes the confidence intervals of a figure's points from the cells of each
 * row. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/plot/figure.h"
#include "harness/report/stats/stats.h"
#include "harness/report/stats/nested.h"
#include "harness/report/table/values.h"
#include "metrics/metric.h"

enum { METHOD, SETTINGS, PROMPT, SEED, FIRST };

/* Returns whether a column has no confidence interval. Bytes and ratios of bytes are exact. */
static bool is_exact(const char *column)
{
    static const char *const exact[] = { "bits",
                                         "compression",
                                         "resident_compression",
                                         "nominal_bytes",
                                         "resident_bytes",
                                         "peak_bytes",
                                         "host_peak_bytes",
                                         "bf16_bytes",
                                         NULL };

    for (int i = 0; exact[i]; i++)
        if (strcmp(column, exact[i]) == 0)
            return true;
    return false;
}

static enum kvr_status query_cells(struct kvr_table **out, const char *const name[2],
                                   const char *db_path, const char *where)
{
    const struct kvr_query_limits limits = { .where = where };
    char *sql = NULL, value[2][256];
    enum kvr_status st;

    for (int i = 0; i < 2; i++)
        if (is_exact(name[i]))
            snprintf(value[i], sizeof value[i], "NULL");
        else if (strcmp(name[i], "ssim") == 0 || strcmp(name[i], "psnr_db") == 0 ||
                 strcmp(name[i], "runtime_s") == 0)
            snprintf(value[i], sizeof value[i], "w.%s", name[i]);
        else
            snprintf(value[i], sizeof value[i], "{w.score:%.64s}", name[i]);
    if (asprintf(&sql,
                 "SELECT w.method, w.settings || ', ' || w.machine AS settings,\n"
                 "  dense_rank() OVER (ORDER BY w.suite, w.prompt_id) AS prompt, w.seed,\n"
                 "  %s AS v0, %s AS v1 FROM cells_wide w\n"
                 "WHERE w.outcome = 'OK' AND w.run_kind = 'bench' AND w.jitter = 0\n"
                 "ORDER BY settings, w.method",
                 value[0], value[1]) < 0)
        return kvr_fail(KVR_ENOMEM, "plot: out of memory");
    st = kvr_table_query_within(out, db_path, sql, &limits);
    free(sql);
    return st;
}

/* Computes the interval of column `c` over rows [from, to) of the cells. */
static enum kvr_status interval_of(const struct kvr_table *cells, int from, int to, int c,
                                   const char *name, struct kvr_interval *ci)
{
    const struct kvr_metric *m = kvr_metric_find(strcmp(name, "psnr_db") == 0 ? "psnr" : name);
    const bool time = strcmp(name, "runtime_s") == 0;
    struct kvr_sample *s = calloc((size_t)(to - from) + 1, sizeof *s);
    double *x = calloc((size_t)(to - from) + 1, sizeof *x);
    enum kvr_status st = s && x ? KVR_OK : kvr_fail(KVR_ENOMEM, "plot: out of memory");
    int n = 0;

    *ci = (struct kvr_interval){ .lo = NAN, .hi = NAN };
    for (int r = from; st == KVR_OK && r < to; r++) {
        double v = kvr_table_number(cells, r, c);

        if (!isfinite(v))
            continue;
        x[n] = v;
        s[n++] = (struct kvr_sample){ .prompt = (int)kvr_table_number(cells, r, PROMPT),
                                      .seed = (int)kvr_table_number(cells, r, SEED),
                                      .x = v };
    }
    if (st == KVR_OK && !time) {
        n = kvr_nest(s, kvr_nest(s, n, KVR_PER_SEED), KVR_PER_PROMPT);
        kvr_nest_values(s, n, x);
    }
    if (st == KVR_OK && n > 1)
        st = time ? kvr_median_interval(x, n, 0.95, ci) : kvr_mean_interval(x, n, 0.95, ci);
    if (st == KVR_OK && n > 1 && m)
        kvr_interval_within(ci, m->lo, m->hi);
    free(s);
    free(x);
    return st;
}

/* Finds the range of cells that belong to one row of the figure. */
static void cells_of(const struct kvr_table *cells, const char *method, const char *settings,
                     int *from, int *to)
{
    for (*from = 0; *from < cells->n_rows; ++*from)
        if (strcmp(kvr_table_text(cells, *from, METHOD), method) == 0 &&
            strcmp(kvr_table_text(cells, *from, SETTINGS), settings) == 0)
            break;
    for (*to = *from; *to < cells->n_rows; ++*to)
        if (strcmp(kvr_table_text(cells, *to, METHOD), method) != 0 ||
            strcmp(kvr_table_text(cells, *to, SETTINGS), settings) != 0)
            break;
}

static enum kvr_status add_row(struct kvr_table *out, const struct kvr_table *t, int r,
                               const struct kvr_table *cells, const char *const name[2],
                               struct kvr_value *row)
{
    const int n = t->n_columns;
    char settings[1024];
    int from, to;

    snprintf(settings, sizeof settings, "%s, %s",
             kvr_table_text(t, r, kvr_table_find(t, "settings")),
             kvr_table_text(t, r, kvr_table_find(t, "machine")));
    cells_of(cells, kvr_table_text(t, r, kvr_table_find(t, "method")), settings, &from, &to);
    memcpy(row, kvr_table_at(t, r, 0), (size_t)n * sizeof *row);
    for (int i = 0; i < 2; i++) {
        struct kvr_interval ci;

        KVR_TRY(interval_of(cells, from, to, FIRST + i, name[i], &ci));
        row[n + 2 * i] = kvr_value_number(ci.lo);
        row[n + 2 * i + 1] = kvr_value_number(ci.hi);
    }
    return kvr_table_add(out, row);
}

enum kvr_status kvr_plot_intervals(struct kvr_table **rows, const struct kvr_plot_spec *spec,
                                   const char *db_path, const char *where)
{
    const char *const name[2] = { spec->x.column, spec->y.column };
    struct kvr_table *t = *rows, *cells = NULL, *out = NULL;
    const size_t n = (size_t)t->n_columns;
    struct kvr_column *columns;
    struct kvr_value *row;
    char heads[4][96];
    enum kvr_status st;

    if (kvr_table_find(t, "machine") < 0)
        return KVR_OK;
    KVR_TRY(query_cells(&cells, name, db_path, where));
    columns = calloc(n + 4, sizeof *columns);
    row = calloc(n + 4, sizeof *row);
    st = columns && row ? KVR_OK : kvr_fail(KVR_ENOMEM, "plot: out of memory");
    if (st == KVR_OK) {
        memcpy(columns, t->column, n * sizeof *columns);
        for (int i = 0; i < 4; i++) {
            snprintf(heads[i], sizeof heads[i], "%.80s_%s", name[i / 2], i % 2 ? "hi" : "lo");
            columns[n + (size_t)i] = (struct kvr_column){ .name = heads[i] };
        }
        st = kvr_table_open(&out, (int)n + 4, columns);
    }
    for (int r = 0; st == KVR_OK && r < t->n_rows; r++)
        st = add_row(out, t, r, cells, name, row);
    free(columns);
    free(row);
    kvr_table_close(&cells);
    if (st == KVR_OK) {
        kvr_table_close(rows);
        *rows = out;
    } else {
        kvr_table_close(&out);
    }
    return st;
}
