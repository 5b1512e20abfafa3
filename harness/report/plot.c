/* plot.c - from rows to figures: groups of settings, points, labels, files, gnuplot. */
#include "harness/report/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/opts.h"
#include "harness/core/path.h"
#include "harness/report/curves.h"
#include "harness/report/escape.h"
#include "harness/report/figure.h"
#include "harness/report/gnuplot.h"
#include "harness/report/report.h"

static enum kvr_status no_memory(void)
{
    return kvr_fail(KVR_ENOMEM, "plot: no memory");
}

enum kvr_status kvr_plot_formats_parse(const char *text, unsigned *out)
{
    static const char *const names[] = { "svg", "png", "pdf" };
    static const unsigned bits[] = { KVR_PLOT_SVG, KVR_PLOT_PNG, KVR_PLOT_PDF };
    unsigned formats = 0;

    for (const char *s = text; *s; s += strcspn(s, ","), s += *s == ',') {
        size_t n = strcspn(s, ",");
        unsigned bit = 0;

        for (int i = 0; i < 3; i++)
            if (strlen(names[i]) == n && strncmp(s, names[i], n) == 0)
                bit = bits[i];
        if (!bit)
            return kvr_fail(KVR_EINVAL, "formats '%s': need svg, png, pdf, joined by commas", text);
        formats |= bit;
    }
    if (!formats)
        return kvr_fail(KVR_EINVAL, "no formats: need svg, png, pdf, joined by commas");
    *out = formats;
    return KVR_OK;
}

/* "model nano, frames 42, ..." of one row: what must be equal within a figure. NULL without
 * memory; free(). */
static char *settings_of(const struct kvr_plot_spec *spec, const struct kvr_table *t, int row)
{
    char *text = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&text, &n);

    if (!to)
        return NULL;
    for (const char *const *s = spec->settings; *s; s++) {
        int c = kvr_table_find(t, *s);
        const struct kvr_value *v = c < 0 ? NULL : kvr_table_at(t, row, c);

        if (!v || v->type == KVR_VALUE_NULL)
            continue;
        fprintf(to, "%s%s ", ftell(to) > 0 ? ", " : "", *s);
        if (v->type == KVR_VALUE_INT)
            fprintf(to, "%lld", (long long)v->i);
        else if (v->type == KVR_VALUE_REAL)
            fprintf(to, "%.6g", v->r);
        else
            kvr_escape_text(to, v->text);
    }
    if (fclose(to) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

static int shape_of(double bits)
{
    int k = 0;

    if (!isfinite(bits))
        return KVR_FIG_N_SHAPES - 1;
    while (k < KVR_FIG_N_SHAPES - 2 && bits >= kvr_fig_shapes[k].below)
        k++;
    return k;
}

static double on_axis(const struct kvr_plot_axis *a, const struct kvr_table *t, int row)
{
    double v = kvr_table_number(t, row, kvr_table_find(t, a->column));

    v *= a->scale == 0.0 ? 1.0 : a->scale;
    return isfinite(v) && (!a->log || v > 0.0) ? v : NAN;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int family_index(const struct kvr_figure *f, const char *name)
{
    const char **found =
        bsearch(&name, f->family, (size_t)f->n_families, sizeof *f->family, by_text);

    return found ? (int)(found - f->family) : 0;
}

/* All families of the rows, of every group, so that a colour means the same in each figure. */
static enum kvr_status list_families(struct kvr_figure *f)
{
    int c = kvr_table_find(f->rows, "family"), n = 0;

    f->family = calloc((size_t)f->rows->n_rows + 1, sizeof *f->family);
    if (!f->family)
        return no_memory();
    for (int r = 0; r < f->rows->n_rows; r++)
        f->family[r] = kvr_table_text(f->rows, r, c);
    qsort(f->family, (size_t)f->rows->n_rows, sizeof *f->family, by_text);
    for (int r = 0; r < f->rows->n_rows; r++)
        if (n == 0 || strcmp(f->family[n - 1], f->family[r]) != 0)
            f->family[n++] = f->family[r];
    f->n_families = n;
    return KVR_OK;
}

static enum kvr_status add_point(struct kvr_figure *f, int row)
{
    const struct kvr_table *t = f->rows;
    struct kvr_fig_point *p = &f->point[f->n];
    const char *method = kvr_table_text(t, row, kvr_table_find(t, "method"));
    double ok = kvr_table_number(t, row, kvr_table_find(t, "n_ok"));
    double attempted = kvr_table_number(t, row, kvr_table_find(t, "n_attempted"));
    const int p_front = kvr_table_find(t, "p_front");
    const double chance = p_front < 0 ? NAN : kvr_table_number(t, row, p_front);
    char sure[32] = "";

    p->row = row;
    p->x = on_axis(&f->spec->x, t, row);
    p->y = on_axis(&f->spec->y, t, row);
    p->drawn = !isnan(p->x) && !isnan(p->y);
    p->baseline = kvr_table_number(t, row, kvr_table_find(t, "is_baseline")) == 1.0;
    p->family = family_index(f, kvr_table_text(t, row, kvr_table_find(t, "family")));
    p->shape = shape_of(kvr_table_number(t, row, kvr_table_find(t, "bits")));
    /* Of those that may be on the front or not: in which share of the resamples they are. */
    if (chance > 0.05 && chance < 0.95)
        snprintf(sure, sizeof sure, ", P(front) %.2f", chance);
    if (ok < attempted ? asprintf(&p->text, "%s (%.0f/%.0f)%s", method, ok, attempted, sure) < 0
                       : asprintf(&p->text, "%s%s", method, sure) < 0) {
        p->text = NULL;
        return no_memory();
    }
    f->n++;
    return KVR_OK;
}

/* Those without a place come last. */
static int by_place(const void *pa, const void *pb)
{
    const struct kvr_fig_point *a = pa, *b = pb;

    if (a->drawn != b->drawn)
        return a->drawn ? -1 : 1;
    if (a->drawn && a->x != b->x)
        return a->x < b->x ? -1 : 1;
    if (a->drawn && a->y != b->y)
        return a->y < b->y ? -1 : 1;
    return strcmp(a->text, b->text);
}

/* "n = 10 videos a method", "n = 7 to 10 videos a method; a/b beside a name: a of b succeeded" */
static enum kvr_status make_captions(struct kvr_figure *f, const char *settings, const char *host)
{
    int c = kvr_table_find(f->rows, "n_ok"), n_out = 0;
    double lo = INFINITY, hi = 0.0;
    char count[64] = "", left_out[64] = "";

    for (int i = 0; i < f->n; i++) {
        double n = kvr_table_number(f->rows, f->point[i].row, c);

        if (!f->point[i].drawn) {
            n_out++;
            continue;
        }
        lo = fmin(lo, n);
        hi = fmax(hi, n);
    }
    if (lo == hi)
        snprintf(count, sizeof count, "n = %.0f per method", hi);
    else
        snprintf(count, sizeof count, "n = %.0f to %.0f per method", lo, hi);
    if (n_out)
        snprintf(left_out, sizeof left_out, "; %d method%s without a result left out", n_out,
                 n_out > 1 ? "s" : "");
    if (asprintf(&f->caption[0], "%s; %s%s", count, settings, left_out) < 0) {
        f->caption[0] = NULL;
        return no_memory();
    }
    f->caption[1] = strdup(host);
    return f->caption[1] ? KVR_OK : no_memory();
}

/* Average advance of the label font; names are mostly capitals. */
static const double char_width = 7.5;

/* With more points than names can stand beside, those of the front and those that stand alone. */
static int choose_names(struct kvr_figure *f, int n_drawn, const double *px, const double *py)
{
    enum { ALL_UP_TO = 40, APART_PX = 12 };
    int n = 0;

    for (int i = 0; i < n_drawn; i++) {
        struct kvr_fig_point *p = &f->point[i];
        bool alone = true;

        for (int j = 0; j < n_drawn && alone; j++) /* names are wide and low */
            alone = j == i || hypot((px[i] - px[j]) / 4.0, py[i] - py[j]) > APART_PX;
        p->named = n_drawn <= ALL_UP_TO || p->corner || p->baseline || alone;
        n += p->named;
    }
    return n;
}

/* The labels of named points, gathered for placing, and put back. */
static enum kvr_status place_named(struct kvr_figure *f, int n_drawn, int n_named,
                                   const struct kvr_label_field *field)
{
    struct kvr_label *some = calloc((size_t)n_named + 1, sizeof *some);
    int k = 0;

    if (!some)
        return no_memory();
    for (int i = 0; i < n_drawn; i++)
        if (f->point[i].named)
            some[k++] = f->label[i];
    kvr_labels_place(some, n_named, field);
    k = 0;
    for (int i = 0; i < n_drawn; i++)
        if (f->point[i].named)
            f->label[i] = some[k++];
    free(some);
    return KVR_OK;
}

static enum kvr_status place_labels(struct kvr_figure *f)
{
    struct kvr_label_field field = { .left = KVR_FIG_LEFT + 4,
                                     .right = KVR_FIG_RIGHT - 2,
                                     .bottom = KVR_FIG_BOTTOM + 2,
                                     .top = KVR_FIG_TOP - 2,
                                     .height = KVR_FIG_LINE,
                                     .radius = KVR_FIG_MARK };
    size_t n = (size_t)f->n;
    double *px = calloc(n, sizeof *px), *py = calloc(n, sizeof *py);
    struct kvr_line *lines = calloc(2 * n, sizeof *lines);
    struct kvr_label *labels = calloc(n, sizeof *labels);
    int n_drawn = 0, last = -1;
    enum kvr_status st;

    f->label = labels;
    if (!px || !py || !lines || !labels) {
        free(px);
        free(py);
        free(lines);
        return no_memory();
    }
    while (n_drawn < f->n && f->point[n_drawn].drawn)
        n_drawn++;
    for (int i = 0; i < n_drawn; i++) {
        const struct kvr_fig_point *p = &f->point[i];

        px[i] = kvr_fig_px(&f->x, p->x, KVR_FIG_LEFT, KVR_FIG_RIGHT);
        py[i] = kvr_fig_px(&f->y, p->y, KVR_FIG_BOTTOM, KVR_FIG_TOP);
        labels[i] = (struct kvr_label){ .x = px[i],
                                        .y = py[i],
                                        .width = char_width * kvr_escape_width(p->text) };
        if (!p->corner)
            continue;
        if (last >= 0) { /* the two sides of the step that ends here */
            bool down_first = f->spec->x.better > 0;
            double cx = down_first ? px[last] : px[i], cy = down_first ? py[i] : py[last];

            lines[field.n_lines++] = (struct kvr_line){ px[last], py[last], cx, cy };
            lines[field.n_lines++] = (struct kvr_line){ cx, cy, px[i], py[i] };
        }
        last = i;
    }
    field.n_points = n_drawn;
    field.px = px;
    field.py = py;
    field.lines = lines;
    st = place_named(f, n_drawn, choose_names(f, n_drawn, px, py), &field);
    free(px);
    free(py);
    free(lines);
    return st;
}

static void free_figure(struct kvr_figure *f)
{
    for (int i = 0; i < f->n; i++)
        free(f->point[i].text);
    free(f->point);
    free(f->label);
    free(f->family);
    free(f->stem);
    free(f->caption[0]);
    free(f->caption[1]);
}

/* Points of the rows whose settings are `settings`, and all that follows from them. */
static enum kvr_status fill_figure(struct kvr_figure *f, char *const *row_settings,
                                   const char *settings, int number, const char *host)
{
    KVR_TRY(list_families(f));
    f->point = calloc((size_t)f->rows->n_rows, sizeof *f->point);
    if (!f->point)
        return no_memory();
    for (int r = 0; r < f->rows->n_rows; r++)
        if (strcmp(row_settings[r], settings) == 0)
            KVR_TRY(add_point(f, r));
    qsort(f->point, (size_t)f->n, sizeof *f->point, by_place);
    if (!f->point[0].drawn)
        return KVR_OK;
    if ((number > 1 ? asprintf(&f->stem, "%s-%d", f->spec->name, number)
                    : asprintf(&f->stem, "%s", f->spec->name)) < 0) {
        f->stem = NULL;
        return no_memory();
    }
    KVR_TRY(make_captions(f, settings, host));
    kvr_fig_front(f);
    kvr_fig_axes(f);
    return place_labels(f);
}

static enum kvr_status draw(const struct kvr_figure *f, const char *out_dir, unsigned formats,
                            struct kvr_plot_result *out)
{
    char *script = NULL;

    KVR_TRY(kvr_fig_write_data(f, out_dir));
    KVR_TRY(kvr_fig_write_script(f, out_dir, formats));
    if (asprintf(&script, "%s.gp", f->stem) < 0)
        return no_memory();
    if (!kvr_gnuplot_run(out_dir, script, out->warning, sizeof out->warning))
        out->drawn = false;
    free(script);
    return KVR_OK;
}

/* One figure for each set of settings, in the order of the rows. */
static enum kvr_status draw_groups(const struct kvr_plot_spec *spec, const struct kvr_table *rows,
                                   char *const *row_settings, const char *host, const char *out_dir,
                                   unsigned formats, struct kvr_plot_result *out)
{
    for (int r = 0; r < rows->n_rows; r++) {
        struct kvr_figure f = { .spec = spec, .rows = rows };
        bool seen = false;
        enum kvr_status st;

        for (int i = 0; i < r && !seen; i++)
            seen = strcmp(row_settings[i], row_settings[r]) == 0;
        if (seen)
            continue;
        st = fill_figure(&f, row_settings, row_settings[r], out->n_figures + 1, host);
        for (int i = 0; i < f.n; i++)
            out->n_left_out += !f.point[i].drawn;
        if (st == KVR_OK && f.stem) {
            st = draw(&f, out_dir, formats, out);
            out->n_figures++;
        }
        free_figure(&f);
        KVR_TRY(st);
    }
    return KVR_OK;
}

static enum kvr_status check_columns(const struct kvr_plot_spec *spec, const struct kvr_table *rows)
{
    const char *needed[] = { "method", "family",      "bits",         "is_baseline",
                             "n_ok",   "n_attempted", spec->x.column, spec->y.column };

    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (kvr_table_find(rows, needed[i]) < 0)
            return kvr_fail(KVR_EINTERNAL, "plot %s: its statement gives no column '%s'",
                            spec->name, needed[i]);
    return KVR_OK;
}

enum kvr_status kvr_plot_table(const struct kvr_plot_spec *spec, const struct kvr_table *rows,
                               const char *host, const char *out_dir, unsigned formats,
                               struct kvr_plot_result *out)
{
    char **row_settings;
    enum kvr_status st = KVR_OK;

    *out = (struct kvr_plot_result){ .n_rows = rows->n_rows, .drawn = true };
    KVR_TRY(check_columns(spec, rows));
    KVR_TRY(kvr_mkdirs(out_dir));
    row_settings = calloc((size_t)rows->n_rows + 1, sizeof *row_settings);
    if (!row_settings)
        return no_memory();
    for (int r = 0; st == KVR_OK && r < rows->n_rows; r++) {
        row_settings[r] = settings_of(spec, rows, r);
        if (!row_settings[r])
            st = no_memory();
    }
    if (st == KVR_OK)
        st = draw_groups(spec, rows, row_settings, host, out_dir, formats, out);
    for (int r = 0; r < rows->n_rows; r++)
        free(row_settings[r]);
    free(row_settings);
    if (st == KVR_OK && out->n_figures == 0)
        st = kvr_fail(KVR_EINVAL, "plot %s: nothing to draw: %d rows, none with both %s and %s",
                      spec->name, rows->n_rows, spec->x.column, spec->y.column);
    return st;
}

static enum kvr_status fail_unknown(const char *name)
{
    const char *names[64] = { NULL };
    const char *near;
    int n = 0;

    for (int i = 0; n < 63 && kvr_plots[i].name; i++)
        names[n++] = kvr_plots[i].name;
    for (int i = 0; n < 63 && kvr_curves[i].name; i++)
        names[n++] = kvr_curves[i].name;
    near = kvr_nearest(name, names);
    return kvr_fail(KVR_ENOTFOUND, "no plot '%s'%s%s%s", name, near ? "; did you mean '" : "",
                    near ? near : "", near ? "'?" : "");
}

enum kvr_status kvr_plot(const char *db_path, const char *name, const char *out_dir,
                         unsigned formats, struct kvr_plot_result *out)
{
    const struct kvr_plot_spec *spec = kvr_plots;
    struct kvr_table *rows;
    char *host = NULL;
    enum kvr_status st;

    memset(out, 0, sizeof *out);
    while (spec->name && strcmp(spec->name, name) != 0)
        spec++;
    for (const struct kvr_curves_spec *c = kvr_curves; c->name; c++)
        if (strcmp(c->name, name) == 0)
            return kvr_curves_draw(c, db_path, out_dir, formats, out);
    if (!spec->name)
        return fail_unknown(name);
    KVR_TRY(kvr_table_query(&rows, db_path, spec->sql, NULL));
    st = kvr_plot_verdicts(&rows, spec, db_path);
    if (st == KVR_OK)
        st = kvr_report_hosts(&host, db_path);
    if (st == KVR_OK)
        st = kvr_plot_table(spec, rows, host, out_dir, formats, out);
    free(host);
    kvr_table_close(&rows);
    return st;
}
