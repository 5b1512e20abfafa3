/* scaled.c - see scaled.h. */
#include "harness/report/scaled.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/plan/geometry.h"
#include "harness/report/table/values.h"
#include "harness/store/statement.h"

KVR_STATEMENT(table_scaled);
enum { MODEL, METHOD, BASELINE, REST, PATH, FRAMES, WINDOW, LAYERS, RUNTIME, SEEN, CODES, PEAK };

#define MIB (1.0 / (1024.0 * 1024.0))

static const struct kvr_column columns[] = {
    { .name = "model", .digits = -1 },
    { .name = "method", .digits = -1 },
    { .name = "path", .digits = -1 },
    { .name = "frames", .digits = -1 },
    { .name = "window", .digits = -1 },
    { .name = "measured_layers", .head = "layers", .unit = "(measured)", .digits = -1 },
    { .name = "layers", .unit = "(all)", .digits = -1 },
    { .name = "scaled_runtime_s", .head = "scaled runtime", .unit = "(s)", .digits = 2 },
    { .name = "scaled_seen_s", .head = "uncontrolled runtime, scaled", .unit = "(s)", .digits = 2 },
    { .name = "time_codes", .head = "why uncontrolled", .digits = -1 },
    { .name = "scaled_ratio", .head = "to BF16, scaled", .unit = "(x)", .digits = 3 },
    { .name = "whole_seen_s", .head = "whole, seen", .unit = "(s)", .digits = 2 },
    { .name = "error_seen", .head = "error of scaling", .unit = "(%)", .scale = 100, .digits = 1 },
    { .name = "scaled_peak_bytes",
      .head = "scaled peak",
      .unit = "(MiB)",
      .scale = MIB,
      .digits = 1 },
    { .name = "whole_peak_bytes", .head = "whole", .unit = "(MiB)", .scale = MIB, .digits = 1 },
    { .name = "error_peak", .head = "error of scaling", .unit = "(%)", .scale = 100, .digits = 2 },
    { .name = "missing", .digits = -1 },
};
enum { N_COLUMNS = sizeof columns / sizeof columns[0] };

/* Rows of one method at one setting. Rows `a` and `b` were measured with two different numbers of
 * layers, and row `whole` with the whole model. -1: there is no such row. */
struct group {
    int a, b, whole;
    double layers; /* number of layers of the whole model; NaN: the model's folder is missing */
};

static bool same(const struct kvr_table *t, int a, int b, int column)
{
    return strcmp(kvr_table_text(t, a, column), kvr_table_text(t, b, column)) == 0;
}

/* Extrapolates a column linearly to all layers of the model. NaN: there are no rows for two numbers
 * of layers, or the value does not increase with the layers. */
static double scaled(const struct kvr_table *t, const struct group *g, int column)
{
    if (g->a < 0 || g->b < 0)
        return NAN;
    const double la = kvr_table_number(t, g->a, LAYERS), lb = kvr_table_number(t, g->b, LAYERS);
    const double xa = kvr_table_number(t, g->a, column), xb = kvr_table_number(t, g->b, column);
    const double each = (xb - xa) / (lb - la);

    return each > 0 ? xa + (g->layers - la) * each : NAN;
}

static struct group find_group(const struct kvr_table *t, int from, int to)
{
    struct group g = { -1, -1, -1, NAN };
    struct kvr_geometry geo;

    for (int r = from; r < to; r++)
        if (kvr_table_number(t, r, LAYERS) == 0)
            g.whole = r;
        else if (g.a < 0)
            g.a = r;
        else if (g.b < 0)
            g.b = r;
    if (kvr_geometry_find(kvr_table_text(t, from, MODEL), &geo) == KVR_OK)
        g.layers = geo.n_layers;
    return g;
}

static void say_missing(const struct kvr_table *t, const struct group *g, char *out, size_t n)
{
    *out = 0;
    if (g->b < 0)
        snprintf(out, n,
                 "cells exist only for model_layers %.0f; extrapolation needs a second value of "
                 "model_layers in the sweep",
                 kvr_table_number(t, g->a, LAYERS));
    else if (!isfinite(g->layers))
        snprintf(
            out, n,
            "folder of model %.60s not found, so the number of layers to extrapolate to is unknown",
            kvr_table_text(t, g->a, MODEL));
    else if (!isfinite(scaled(t, g, SEEN)))
        snprintf(
            out, n,
            "the runtime does not increase with model_layers, so the runtime is not extrapolated");
}

/* Adds the row of a group (one method at one setting). `bf16` is the baseline's extrapolated time
 * in seconds, or NaN. */
static enum kvr_status add_row(struct kvr_table *out, const struct kvr_table *t,
                               const struct group *g, double bf16)
{
    const int at = g->a;
    const bool timed = isfinite(scaled(t, g, RUNTIME));
    const double seen = scaled(t, g, SEEN), peak = scaled(t, g, PEAK);
    const double whole = g->whole < 0 ? NAN : kvr_table_number(t, g->whole, SEEN);
    const double whole_peak = g->whole < 0 ? NAN : kvr_table_number(t, g->whole, PEAK);
    char cut[48], missing[160];
    struct kvr_value v[N_COLUMNS];
    int n = 0;

    if (g->b < 0)
        snprintf(cut, sizeof cut, "%.0f", kvr_table_number(t, g->a, LAYERS));
    else
        snprintf(cut, sizeof cut, "%.0f, %.0f", kvr_table_number(t, g->a, LAYERS),
                 kvr_table_number(t, g->b, LAYERS));
    say_missing(t, g, missing, sizeof missing);
    v[n++] = kvr_value_text(kvr_table_text(t, at, MODEL));
    v[n++] = kvr_value_text(kvr_table_text(t, at, METHOD));
    v[n++] = kvr_value_text(kvr_table_text(t, at, PATH));
    v[n++] = kvr_value_number(kvr_table_number(t, at, FRAMES));
    v[n++] = kvr_value_number(kvr_table_number(t, at, WINDOW));
    v[n++] = kvr_value_text(cut);
    v[n++] = kvr_value_number(g->layers);
    v[n++] = kvr_value_number(scaled(t, g, RUNTIME));
    v[n++] = kvr_value_number(timed ? NAN : seen);
    v[n++] = kvr_value_text_or_none(timed || g->b < 0 ? "" : kvr_table_text(t, g->b, CODES));
    v[n++] = kvr_value_number(seen / bf16);
    v[n++] = kvr_value_number(whole);
    v[n++] = kvr_value_number(seen / whole - 1);
    v[n++] = kvr_value_number(peak);
    v[n++] = kvr_value_number(whole_peak);
    v[n++] = kvr_value_number(peak / whole_peak - 1);
    v[n++] = kvr_value_text_or_none(missing);
    return kvr_table_add(out, v);
}

static enum kvr_status fill(struct kvr_table *out, const struct kvr_table *t)
{
    double bf16 = NAN;
    /* a row with the model and settings for which `bf16` was measured; -1: none */
    int base = -1;

    for (int from = 0, to; from < t->n_rows; from = to) {
        struct group g;

        for (to = from + 1; to < t->n_rows && same(t, from, to, MODEL) && same(t, from, to, REST) &&
                            same(t, from, to, METHOD);)
            to++;
        g = find_group(t, from, to);
        if (base < 0 || !same(t, base, from, MODEL) || !same(t, base, from, REST))
            bf16 = NAN;
        base = from;
        if (g.a >= 0 && kvr_table_number(t, from, BASELINE) == 1)
            bf16 = scaled(t, &g, SEEN);
        if (g.a >= 0)
            KVR_TRY(add_row(out, t, &g, bf16));
    }
    KVR_TRY(kvr_table_note(out, "scaled: linear extrapolation to all layers, from the runtimes and "
                                "peaks of the two smallest numbers of layers"));
    return kvr_table_note(
        out, "error of scaling: extrapolated value divided by the value measured with all layers, "
             "minus 1 (times of NOISY cells are included); fidelity cannot be extrapolated");
}

enum kvr_status kvr_report_scaled(struct kvr_table **out, const char *db_path)
{
    struct kvr_table *t = NULL;
    enum kvr_status st = kvr_table_query(&t, db_path, kvr_statement_table_scaled, NULL);

    *out = NULL;
    if (st == KVR_OK)
        st = kvr_table_open(out, N_COLUMNS, columns);
    if (st == KVR_OK)
        st = fill(*out, t);
    if (st != KVR_OK)
        kvr_table_close(out);
    kvr_table_close(&t);
    return st;
}
