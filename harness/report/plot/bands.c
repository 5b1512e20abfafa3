/* bands.c - see bands.h. */
#include "harness/report/plot/bands.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/stats/stats.h"
#include "harness/report/table/values.h"

enum { METHOD, FAMILY, BASELINE, SETTINGS, X, Y, LO, HI, N, N_COLUMNS };

static bool same_point(const struct kvr_table *t, const int *column, int a, int b)
{
    return kvr_table_number(t, a, column[X]) == kvr_table_number(t, b, column[X]) &&
           strcmp(kvr_table_text(t, a, column[METHOD]), kvr_table_text(t, b, column[METHOD])) ==
               0 &&
           strcmp(kvr_table_text(t, a, column[SETTINGS]), kvr_table_text(t, b, column[SETTINGS])) ==
               0;
}

/* Adds the point of a curve that is computed from rows [from, to) of `in`: the mean over prompts,
 * and its interval. */
static enum kvr_status add_point(struct kvr_table *out, const struct kvr_table *in,
                                 const int *column, int from, int to, double least, double most,
                                 double *value)
{
    struct kvr_interval ci = { .lo = NAN, .hi = NAN };
    struct kvr_value row[N_COLUMNS];
    int n = 0;

    for (int r = from; r < to; r++) {
        value[n] = kvr_table_number(in, r, column[Y]);
        n += isfinite(value[n]);
    }
    if (n > 1)
        KVR_TRY(kvr_mean_interval(value, n, 0.95, &ci));
    if (least < most)
        kvr_interval_within(&ci, least, most);
    for (int c = METHOD; c <= X; c++)
        row[c] = *kvr_table_at(in, from, column[c]);
    row[Y] = kvr_value_number(kvr_mean(value, n));
    row[LO] = kvr_value_number(ci.lo);
    row[HI] = kvr_value_number(ci.hi);
    row[N] = kvr_value_count(n);
    return kvr_table_add(out, row);
}

enum kvr_status kvr_bands(struct kvr_table **out, const struct kvr_table *in, double least,
                          double most)
{
    static const struct kvr_column columns[] = {
        { .name = "method" },   { .name = "family" }, { .name = "is_baseline" },
        { .name = "settings" }, { .name = "x" },      { .name = "y" },
        { .name = "lo" },       { .name = "hi" },     { .name = "n" },
    };
    int column[N_COLUMNS] = { 0 };
    double *value = calloc((size_t)in->n_rows + 1, sizeof *value);
    enum kvr_status st = value ? kvr_table_open(out, N_COLUMNS, columns)
                               : kvr_fail(KVR_ENOMEM, "plot: out of memory");

    for (int c = METHOD; c <= X; c++)
        column[c] = kvr_table_find(in, columns[c].name);
    column[Y] = kvr_table_find(in, "value");
    for (int from = 0, to; st == KVR_OK && from < in->n_rows; from = to) {
        for (to = from + 1; to < in->n_rows && same_point(in, column, from, to); to++)
            ;
        st = add_point(*out, in, column, from, to, least, most, value);
    }
    free(value);
    if (st != KVR_OK)
        kvr_table_close(out);
    return st;
}
