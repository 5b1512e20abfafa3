/* cost_figure.c - joins the rows of figure_cost.sql with the study's published values, and draws
 * them (cost_plot.h). */
#include "harness/report/plot/cost_plot.h"

#include <stdio.h>
#include <string.h>

#include "harness/report/table/published.h"
#include "harness/report/table/values.h"

static const char *const taken[] = { "method", "family",         "path",       "model",
                                     "frames", "window",         "peak_bytes", "runtime_s",
                                     "mark",   "runtime_seen_s", "time_codes", "n",
                                     "commit", "date",           "card",       "settings" };
enum { N_TAKEN = sizeof taken / sizeof *taken, N_ALL = N_TAKEN + 2 };

static bool is_number(const char *column)
{
    static const char *const numbers[] = { "frames",    "window",         "peak_bytes",
                                           "runtime_s", "runtime_seen_s", "n" };

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(numbers[i], column) == 0)
            return true;
    return false;
}

/* Writes the name under which the study published a method: NAME for both NAME and NAME@study.
 * Writes "" for a method with options or a bias correction, because the study published no such
 * methods. */
static void study_name(const char *method, char *out, size_t size)
{
    const size_t n = strcspn(method, "@ +");

    snprintf(out, size, "%.*s", (int)n, method);
    if (method[n] && strcmp(method + n, "@study") != 0)
        *out = 0;
}

/* Adds a row to `out`. Published values are NaN unless the row's model is Wan 2.1 1.3B. */
static enum kvr_status add_row(struct kvr_table *out, const struct kvr_table *t, int row,
                               const struct kvr_published *peak,
                               const struct kvr_published *runtime)
{
    struct kvr_value v[N_ALL];
    char name[96];
    bool fits;

    KVR_TRY(kvr_published_fits(&fits, kvr_table_text(t, row, kvr_table_find(t, "model"))));
    study_name(fits ? kvr_table_text(t, row, kvr_table_find(t, "method")) : "", name, sizeof name);
    for (int i = 0; i < N_TAKEN; i++) {
        const int c = kvr_table_find(t, taken[i]);

        v[i] = is_number(taken[i]) ? kvr_value_number(kvr_table_number(t, row, c))
                                   : kvr_value_text(kvr_table_text(t, row, c));
    }
    v[N_TAKEN] = kvr_value_number(kvr_published_value(peak, name, "moviegen"));
    v[N_TAKEN + 1] = kvr_value_number(kvr_published_value(runtime, name, "runtime_s"));
    return kvr_table_add(out, v);
}

enum kvr_status kvr_cost_figure(const struct kvr_table *rows, const char *out_dir, unsigned formats,
                                const struct kvr_plot_style *style, struct kvr_plot_result *r)
{
    struct kvr_published peak = { 0 }, runtime = { 0 };
    struct kvr_column columns[N_ALL] = { 0 };
    struct kvr_table *t = NULL;
    enum kvr_status st = kvr_published_read(&peak, "kvquant33_peak_gib");

    for (int i = 0; i < N_TAKEN; i++)
        columns[i].name = taken[i];
    columns[N_TAKEN].name = "published_peak_gib";
    columns[N_TAKEN + 1].name = "published_runtime_s";
    if (st == KVR_OK)
        st = kvr_published_read(&runtime, "kvquant33_moviegen");
    if (st == KVR_OK)
        st = kvr_table_open(&t, N_ALL, columns);
    for (int i = 0; st == KVR_OK && i < rows->n_rows; i++)
        st = add_row(t, rows, i, &peak, &runtime);
    if (st == KVR_OK)
        st = kvr_cost_plot(t, out_dir, formats, style, r);
    kvr_table_close(&t);
    kvr_published_free(&peak);
    kvr_published_free(&runtime);
    return st;
}
