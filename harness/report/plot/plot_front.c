/* plot_front.c - adds the verdicts of kvr_pareto() (pareto.h), such as `dominated`, to a figure's
 * rows, and finds the corners of the Pareto front. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/plot/figure.h"
#include "harness/report/pareto/pareto.h"
#include "harness/report/table/values.h"

static bool is_better(const struct kvr_plot_spec *s, const struct kvr_fig_point *a,
                      const struct kvr_fig_point *b)
{
    double dx = s->x.better * (a->x - b->x), dy = s->y.better * (a->y - b->y);

    return dx >= 0 && dy >= 0 && (dx > 0 || dy > 0);
}

/* Returns whether the point violates one of the bounds that the caller set (pareto.h). `verdict` is
 * the index of the verdict's column, or -1. */
static bool is_beyond(const struct kvr_figure *f, const struct kvr_fig_point *p, int verdict)
{
    return verdict >= 0 && strcmp(kvr_table_text(f->rows, p->row, verdict), "beyond") == 0;
}

void kvr_fig_front(struct kvr_figure *f)
{
    const bool wanted = f->spec->x.better && f->spec->y.better;
    const int verdict = kvr_table_find(f->rows, "verdict");

    for (int i = 0; i < f->n; i++) {
        struct kvr_fig_point *p = &f->point[i];

        p->corner = wanted && p->drawn && !is_beyond(f, p, verdict);
        for (int j = 0; p->corner && j < f->n; j++)
            p->corner = !(f->point[j].drawn && is_better(f->spec, &f->point[j], p) &&
                          !is_beyond(f, &f->point[j], verdict));
        p->front = p->corner;
        if (verdict >= 0 && p->drawn)
            p->front = !is_beyond(f, p, verdict) &&
                       strcmp(kvr_table_text(f->rows, p->row, verdict), "dominated") != 0;
    }
}

/* Writes the objective of an axis, NAME:max or NAME:min. For the axis `bits`, where lower values
 * are better, the objective is compression:max. */
static void objective(const struct kvr_plot_axis *a, char *to, size_t size)
{
    const bool bits = strcmp(a->column, "bits") == 0;

    snprintf(to, size, "%s:%s", bits ? "compression" : a->column,
             (a->better > 0) != bits ? "max" : "min");
}

/* Writes the settings of a row in the format of the column `settings` of kvr_pareto(). */
static void settings_of(const struct kvr_table *t, int row, char *to, size_t size)
{
    snprintf(to, size, "%s, %s", kvr_table_text(t, row, kvr_table_find(t, "settings")),
             kvr_table_text(t, row, kvr_table_find(t, "machine")));
}

/* Returns the row of `front` with the method and settings of row `row` of `t`; -1: there is
 * none. */
static int row_of(const struct kvr_table *front, const struct kvr_table *t, int row)
{
    /* index of column `settings`; -1: all rows have the same settings */
    const int settings = kvr_table_find(front, "settings");
    const char *method = kvr_table_text(t, row, kvr_table_find(t, "method"));
    char want[1024];

    settings_of(t, row, want, sizeof want);
    for (int r = 0; r < front->n_rows; r++)
        if (strcmp(kvr_table_text(front, r, 0), method) == 0 &&
            (settings < 0 || strcmp(kvr_table_text(front, r, settings), want) == 0))
            return r;
    return -1;
}

enum kvr_status kvr_plot_verdicts(struct kvr_table **rows, const struct kvr_plot_spec *spec,
                                  const char *db_path, const struct kvr_plot_style *style)
{
    char objectives[256], second[128];
    const struct kvr_pareto_options o = {
        .db_path = db_path, .objectives = objectives, .cells = style->where, .bounds = style->bounds
    };
    struct kvr_table *t = *rows, *front, *out = NULL;
    const size_t n = (size_t)t->n_columns;
    struct kvr_column *columns;
    struct kvr_value *row;
    enum kvr_status st;

    if (!spec->x.better || !spec->y.better || kvr_table_find(t, "machine") < 0)
        return KVR_OK;
    objective(&spec->x, objectives, sizeof objectives - sizeof second - 1);
    objective(&spec->y, second, sizeof second);
    strcat(objectives, ",");
    strcat(objectives, second);
    st = kvr_pareto(&front, &o);
    if (st == KVR_ENOTFOUND) /* no finished cell matches: the figure will be empty */
        return KVR_OK;
    KVR_TRY(st);
    columns = calloc(n + 2, sizeof *columns);
    row = calloc(n + 2, sizeof *row);
    st = columns && row ? KVR_OK : kvr_fail(KVR_ENOMEM, "plot: out of memory");
    if (st == KVR_OK) {
        memcpy(columns, t->column, n * sizeof *columns);
        columns[n] = (struct kvr_column){ .name = "verdict" };
        columns[n + 1] = (struct kvr_column){ .name = "p_front" };
        st = kvr_table_open(&out, (int)n + 2, columns);
    }
    for (int r = 0; st == KVR_OK && r < t->n_rows; r++) {
        const int at = row_of(front, t, r);
        const char *verdict =
            at < 0 ? "" : kvr_table_text(front, at, kvr_table_find(front, "verdict"));

        memcpy(row, kvr_table_at(t, r, 0), n * sizeof *row);
        row[n] = kvr_value_text_or_none(verdict);
        row[n + 1] =
            at < 0 ? kvr_value_none() : *kvr_table_at(front, at, kvr_table_find(front, "p_front"));
        st = kvr_table_add(out, row);
    }
    free(columns);
    free(row);
    kvr_table_close(&front);
    if (st == KVR_OK) {
        kvr_table_close(rows);
        *rows = out;
    } else {
        kvr_table_close(&out);
    }
    return st;
}
