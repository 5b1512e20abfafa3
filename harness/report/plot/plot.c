/* plot.c - turns rows into figures: groups settings, places points, writes files, runs gnuplot. */
#include "harness/report/plot/plot.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/join.h"
#include "harness/core/memtext.h"
#include "harness/core/opts.h"
#include "harness/core/path.h"
#include "harness/report/plot/curves.h"
#include "harness/report/table/escape.h"
#include "harness/report/plot/figure.h"
#include "harness/report/plot/script.h"
#include "harness/report/plot/gnuplot.h"
#include "harness/report/report.h"
#include "harness/store/setting.h"
#include "metrics/metric.h"

static enum kvr_status no_memory(void)
{
    return kvr_fail(KVR_ENOMEM, "plot: out of memory");
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
            return kvr_fail(KVR_EINVAL,
                            "formats '%s': need a comma-separated list of svg, png and pdf", text);
        formats |= bit;
    }
    if (!formats)
        return kvr_fail(KVR_EINVAL, "formats '%s': need a comma-separated list of svg, png and pdf",
                        text);
    *out = formats;
    return KVR_OK;
}

/* Returns whether the rows are from several machines. If so, the settings of a figure include its
 * machine; otherwise only the caption names the machine. */
static bool many_machines(const struct kvr_table *t)
{
    const int c = kvr_table_find(t, "machine");

    for (int r = 1; c >= 0 && r < t->n_rows; r++)
        if (strcmp(kvr_table_text(t, r, c), kvr_table_text(t, 0, c)) != 0)
            return true;
    return false;
}

/* Returns the settings that define a row's figure, such as "model nano, frames 42", without default
 * values. The caller frees the text. NULL: no memory. */
static char *settings_of(const struct kvr_plot_spec *spec, const struct kvr_table *t, int row)
{
    char *text = NULL;
    size_t n = 0;
    FILE *to = kvr_text_open(&text, &n);

    if (!to)
        return NULL;
    for (const char *const *s = spec->settings; *s; s++) {
        int c = kvr_table_find(t, *s);
        const struct kvr_value *v = c < 0 ? NULL : kvr_table_at(t, row, c);
        char number[32] = "";

        if (!v || v->type == KVR_VALUE_NULL)
            continue;
        if (v->type == KVR_VALUE_INT)
            snprintf(number, sizeof number, "%lld", (long long)v->i);
        else if (v->type == KVR_VALUE_REAL)
            snprintf(number, sizeof number, "%.6g", v->r);
        if (kvr_setting_is_omitted(*s, number[0] ? number : v->text))
            continue;
        fprintf(to, "%s%s ", ftell(to) > 0 ? ", " : "", kvr_setting_sweep_name(*s));
        if (number[0])
            fputs(number, to);
        else
            kvr_escape_text(to, v->text);
    }
    if (many_machines(t)) {
        fputs(", on ", to);
        kvr_escape_text(to, kvr_table_text(t, row, kvr_table_find(t, "machine")));
    }
    kvr_text_close(to, &text);
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

/* Reads the interval of a value from the columns NAME_lo and NAME_hi. */
static void end_of(const struct kvr_plot_axis *a, const struct kvr_table *t, int row, double *lo,
                   double *hi)
{
    const double scale = a->scale == 0.0 ? 1.0 : a->scale;
    char name[96];
    int c;

    snprintf(name, sizeof name, "%.80s_lo", a->column);
    c = kvr_table_find(t, name);
    *lo = c < 0 ? NAN : scale * kvr_table_number(t, row, c);
    snprintf(name, sizeof name, "%.80s_hi", a->column);
    c = kvr_table_find(t, name);
    *hi = c < 0 ? NAN : scale * kvr_table_number(t, row, c);
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

/* Lists the method families of all rows, so that a colour has the same meaning in all figures. */
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
    const int reading = kvr_table_find(t, "reading");
    double ok = kvr_table_number(t, row, kvr_table_find(t, "n_ok"));
    double attempted = kvr_table_number(t, row, kvr_table_find(t, "n_attempted"));
    const int p_front = kvr_table_find(t, "p_front");
    const double chance = p_front < 0 ? NAN : kvr_table_number(t, row, p_front);
    char sure[32] = "";

    p->row = row;
    p->x = on_axis(&f->spec->x, t, row);
    p->y = on_axis(&f->spec->y, t, row);
    end_of(&f->spec->x, t, row, &p->x_lo, &p->x_hi);
    end_of(&f->spec->y, t, row, &p->y_lo, &p->y_hi);
    p->drawn = !isnan(p->x) && !isnan(p->y);
    p->study = reading >= 0 && strcmp(kvr_table_text(t, row, reading), "study") == 0;
    p->baseline = kvr_table_number(t, row, kvr_table_find(t, "is_baseline")) == 1.0;
    p->family = family_index(f, kvr_table_text(t, row, kvr_table_find(t, "family")));
    p->shape = shape_of(kvr_table_number(t, row, kvr_table_find(t, "bits")));
    /* The label includes the fraction of bootstrap resamples in which the method is on the Pareto
     * front, unless this fraction is close to 0 or 1. */
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

/* Sorts points by x, then y. Points that lack a value on one of the axes are last. */
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

/* Returns whether the intervals of x and y do not overlap. If both axes show the same metric, for
 * example on two suites, the point then differs significantly from the line x = y. */
static bool off_line(const struct kvr_fig_point *p)
{
    return p->x_hi < p->y_lo || p->y_hi < p->x_lo;
}

/* Selects the points with interval bars. In a crowded figure, bars would hide points, so only the
 * corners of the Pareto front have bars. If both axes show the same metric, only points whose
 * intervals do not overlap have bars in a crowded figure. */
static void choose_bars(struct kvr_figure *f)
{
    const int at_most = 30;
    const bool line = f->spec->x.of && f->spec->y.of;
    int n_drawn = 0, n_corners = 0;

    for (int i = 0; i < f->n; i++) {
        n_drawn += f->point[i].drawn;
        n_corners += f->point[i].drawn && f->point[i].corner;
    }
    f->crowded = n_drawn > at_most && (line || n_corners > 0);
    for (int i = 0; i < f->n; i++) {
        struct kvr_fig_point *p = &f->point[i];

        p->bar =
            p->drawn && !f->style->no_bars && (!f->crowded || (line ? off_line(p) : p->corner));
    }
}

static bool has_bar(const struct kvr_fig_point *p)
{
    return p->bar && (p->y_hi > p->y_lo || p->x_hi > p->x_lo);
}

static bool is_outside(const struct kvr_fig_axis *a, double lo, double hi)
{
    return lo < a->lo || hi > a->hi; /* false if there is no interval (NaN) */
}

/* Writes the range of a column over the drawn points, such as "2" or "2 to 4". Returns false if the
 * column has no numbers. */
static bool span(const struct kvr_figure *f, const char *column, char *out, size_t n)
{
    const int c = kvr_table_find(f->rows, column);
    double lo = INFINITY, hi = -INFINITY;

    for (int i = 0; c >= 0 && i < f->n; i++)
        if (f->point[i].drawn) {
            lo = fmin(lo, kvr_table_number(f->rows, f->point[i].row, c));
            hi = fmax(hi, kvr_table_number(f->rows, f->point[i].row, c));
        }
    if (lo < hi)
        snprintf(out, n, "%.0f to %.0f", lo, hi);
    else
        snprintf(out, n, "%.0f", hi);
    return lo <= hi;
}

/* Writes the sample size, such as "n = 2 prompts (3 to 4 videos) per method". The number of prompts
 * is first, because prompts are the independent samples. */
static void count_samples(const struct kvr_figure *f, char *out, size_t n)
{
    char prompts[48], videos[48];
    const bool both = span(f, "n_prompts", prompts, sizeof prompts);

    if (!span(f, "n_ok", videos, sizeof videos))
        snprintf(out, n, "n unknown");
    else if (!both)
        snprintf(out, n, "n = %s per method", videos);
    else if (strcmp(prompts, videos) == 0)
        snprintf(out, n, "n = %s prompt%s per method", prompts, strcmp(prompts, "1") ? "s" : "");
    else
        snprintf(out, n, "n = %s prompt%s (%s videos) per method", prompts,
                 strcmp(prompts, "1") ? "s" : "", videos);
}

static enum kvr_status make_captions(struct kvr_figure *f, const char *settings, const char *host,
                                     int n_unnamed)
{
    const bool line = f->spec->x.of && f->spec->y.of;
    int n_out = 0;
    char count[160], left_out[64] = "", unnamed[64] = "";
    bool bars = false, cut = false;

    for (int i = 0; i < 2; i++) {
        free(f->caption[i]);
        f->caption[i] = NULL;
    }
    if (n_unnamed)
        snprintf(unnamed, sizeof unnamed, "; %d without a label", n_unnamed);

    count_samples(f, count, sizeof count);
    for (int i = 0; i < f->n; i++)
        n_out += !f->point[i].drawn;
    if (n_out)
        snprintf(left_out, sizeof left_out, "; %d method%s without a result omitted", n_out,
                 n_out > 1 ? "s" : "");
    for (int i = 0; i < f->n; i++)
        if (has_bar(&f->point[i])) {
            const struct kvr_fig_point *p = &f->point[i];

            bars = true;
            cut = cut || is_outside(&f->x, p->x_lo, p->x_hi) || is_outside(&f->y, p->y_lo, p->y_hi);
        }
    if (asprintf(&f->caption[0], "%s; %s%s%s%s%s%s%s%s%s%s", count, settings, left_out, unnamed,
                 bars ? "; bars: 95 % intervals over prompts" : "",
                 !bars || !f->crowded ? ""
                 : line               ? ", only where they differ"
                                      : ", only on the front",
                 cut ? ", some clipped at the edge of the plot" : "",
                 f->style->where ? "; where " : "", f->style->where ? f->style->where : "",
                 f->style->bounds ? "; the front requires " : "",
                 f->style->bounds ? f->style->bounds : "") < 0) {
        f->caption[0] = NULL;
        return no_memory();
    }
    f->caption[1] = strdup(host);
    return f->caption[1] ? KVR_OK : no_memory();
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

static const char *stem_of(const struct kvr_plot_spec *spec)
{
    return spec->stem ? spec->stem : spec->name;
}

/* Builds the figure from the rows whose text in row_settings equals `settings`. */
static enum kvr_status fill_figure(struct kvr_figure *f, char *const *row_settings,
                                   const char *settings, int number, const char *host)
{
    KVR_TRY(list_families(f));
    f->point = calloc((size_t)f->rows->n_rows, sizeof *f->point);
    if (!f->point)
        return no_memory();
    for (int r = 0; r < f->rows->n_rows; r++) {
        assert(row_settings[r]);
        if (strcmp(row_settings[r], settings) == 0)
            KVR_TRY(add_point(f, r));
    }
    qsort(f->point, (size_t)f->n, sizeof *f->point, by_place);
    if (!f->point[0].drawn)
        return KVR_OK;
    if ((number > 1 ? asprintf(&f->stem, "%s-%d", stem_of(f->spec), number)
                    : asprintf(&f->stem, "%s", stem_of(f->spec))) < 0) {
        f->stem = NULL;
        return no_memory();
    }
    kvr_fig_front(f);
    choose_bars(f);
    KVR_TRY(kvr_fig_axes(f));
    KVR_TRY(make_captions(f, settings, host, 0));
    kvr_fig_lay_out(f);
    KVR_TRY(kvr_fig_place_labels(f));
    if (!kvr_fig_count_unnamed(f))
        return KVR_OK;
    /* The captions now also state the number of points without a label. This does not change the
     * size of the plot. */
    KVR_TRY(make_captions(f, settings, host, kvr_fig_count_unnamed(f)));
    kvr_fig_lay_out(f);
    return kvr_fig_place_labels(f);
}

static enum kvr_status draw(const struct kvr_figure *f, const char *out_dir, unsigned formats,
                            struct kvr_plot_result *out)
{
    enum kvr_status st;
    char *script = NULL;
    bool drawn;

    KVR_TRY(kvr_fig_write_data(f, out_dir));
    KVR_TRY(kvr_fig_write_script(f, out_dir, formats));
    if (asprintf(&script, "%s.gp", f->stem) < 0)
        return no_memory();
    st = kvr_gnuplot_run(out_dir, script, &drawn, out->warning, sizeof out->warning);
    out->drawn = out->drawn && drawn;
    free(script);
    return st;
}

/* Draws one figure per combination of settings, in the order of the rows. */
static enum kvr_status draw_groups(const struct kvr_plot_spec *spec, const struct kvr_table *rows,
                                   char *const *row_settings, const char *host, const char *out_dir,
                                   unsigned formats, const struct kvr_plot_style *style,
                                   struct kvr_plot_result *out)
{
    for (int r = 0; r < rows->n_rows; r++) {
        struct kvr_figure f = { .spec = spec, .style = style, .rows = rows };
        bool seen = false;
        enum kvr_status st;

        assert(row_settings[r]);
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
            return kvr_fail(KVR_EINTERNAL, "plot %s: its SQL statement returns no column '%s'",
                            spec->name, needed[i]);
    return KVR_OK;
}

/* Fails because there is nothing to draw. If the rows have no valid runtime, the message lists the
 * codes of the reasons (column `time_codes`). */
static enum kvr_status fail_empty(const struct kvr_plot_spec *spec, const struct kvr_table *rows)
{
    const int why = kvr_table_find(rows, "time_codes");
    const bool time =
        strcmp(spec->x.column, "runtime_s") == 0 || strcmp(spec->y.column, "runtime_s") == 0;
    const char *codes = time && why >= 0 && rows->n_rows > 0 ? kvr_table_text(rows, 0, why) : "";

    return kvr_fail(KVR_EINVAL,
                    "plot %s: nothing to draw: none of %d rows has both %s and %s%s%s%s",
                    spec->name, rows->n_rows, spec->x.column, spec->y.column,
                    *codes ? "; only runtimes measured with `timing: true` on an idle machine are "
                             "drawn (codes of the reasons for leaving out the other runtimes: "
                           : "",
                    codes, *codes ? ")" : "");
}

enum kvr_status kvr_plot_table(const struct kvr_plot_spec *spec, const struct kvr_table *rows,
                               const char *host, const char *out_dir, unsigned formats,
                               const struct kvr_plot_style *style, struct kvr_plot_result *out)
{
    char **row_settings;
    enum kvr_status st = KVR_OK;

    *out = (struct kvr_plot_result){ .n_rows = rows->n_rows, .drawn = true };
    snprintf(out->stem, sizeof out->stem, "%s", stem_of(spec));
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
        st = draw_groups(spec, rows, row_settings, host, out_dir, formats, style, out);
    for (int r = 0; r < rows->n_rows; r++)
        free(row_settings[r]);
    free(row_settings);
    if (st == KVR_OK && out->n_figures == 0)
        st = fail_empty(spec, rows);
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
    return kvr_fail(KVR_ENOTFOUND, "no plot '%s'; %s%s%s", name, near ? "did you mean '" : "",
                    near ? near : "`kvreel plot --list` lists the plots", near ? "'?" : "");
}

/* Returns the axis with this column from any figure of kvr_plots; NULL: there is none. */
static const struct kvr_plot_axis *known_axis(const char *name)
{
    for (const struct kvr_plot_spec *p = kvr_plots; p->name; p++) {
        if (p->x.better && strcmp(p->x.column, name) == 0)
            return &p->x;
        if (p->y.better && strcmp(p->y.column, name) == 0)
            return &p->y;
    }
    return NULL;
}

/* Fails because the database `db` has no values of the axis `name`; t [metric] has the metrics of
 * the database. */
static enum kvr_status fail_axis(const char *name, const char *db, const struct kvr_table *t)
{
    char list[1024] = "compression, bits, runtime_s, peak_bytes, ssim, psnr";

    for (const struct kvr_metric *const *m = kvr_metrics; *m; m++)
        if (strcmp((*m)->name, name) == 0)
            return kvr_fail(KVR_EINVAL,
                            "plot: %s has no values of metric %s; `kvreel score %s --db %s` "
                            "computes them",
                            db, name, name, db);
    for (int r = 0; r < t->n_rows; r++) {
        const char *metric = kvr_table_text(t, r, 0);

        if (!known_axis(metric) && strcmp(metric, "psnr") != 0)
            kvr_join(list, sizeof list, metric);
    }
    return kvr_fail(KVR_EINVAL, "plot: unknown metric '%s'; need one of %s", name, list);
}

/* Finds an axis by name: the axis of a figure, or otherwise a metric of the database. If the view
 * `summary` lacks the metric, an SQL column for it is written to `extra`. */
static enum kvr_status name_axis(struct kvr_plot_axis *a, char *label, size_t size,
                                 const char *name, const char *db_path, FILE *extra)
{
    const struct kvr_plot_axis *known = known_axis(strcmp(name, "psnr") == 0 ? "psnr_db" : name);
    const struct kvr_metric *m = kvr_metric_find(name);
    struct kvr_table *t;
    enum kvr_status st = KVR_OK;
    bool there = false;

    if (known) {
        *a = *known;
        return KVR_OK;
    }
    KVR_TRY(kvr_table_query(&t, db_path, "SELECT DISTINCT name FROM metric ORDER BY name", NULL));
    for (int r = 0; r < t->n_rows; r++)
        there = there || strcmp(kvr_table_text(t, r, 0), name) == 0;
    if (!there || name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_.")])
        st = fail_axis(name, db_path, t);
    kvr_table_close(&t);
    KVR_TRY(st);
    snprintf(label, size, "%s%s%s%s", m ? m->title : name, m && strcmp(m->unit, "1") ? " (" : "",
             m && strcmp(m->unit, "1") ? m->unit : "", m && strcmp(m->unit, "1") ? ")" : "");
    *a = (struct kvr_plot_axis){ .column = name, .label = label, .better = m ? m->direction : 0 };
    if (m && m->hi == 1.0)
        a->lo = fmax(m->lo, -1.0), a->hi = 1.0;
    fprintf(extra,
            ", (SELECT avg({w.score:%s}) FROM cells_wide w WHERE w.method = s.method\n"
            "    AND w.settings = s.settings AND w.machine = s.machine AND w.outcome = 'OK'\n"
            "    AND w.run_kind = 'bench') AS \"%s\"",
            name, name);
    return KVR_OK;
}

/* Texts of a figure whose axes the style replaces. */
struct own_texts {
    char label[2][128], title[256], stem[160];
};

/* Writes the name of the figure's files: NAME, with -Y if the y axis is not that of `figure`, and
 * with -against-X if the x axis is not. */
static void name_files(struct own_texts *own, const struct kvr_plot_spec *spec,
                       const struct kvr_plot_spec *figure, const struct kvr_plot_style *style)
{
    const bool y = strcmp(spec->y.column, figure->y.column) != 0;
    const bool x = strcmp(spec->x.column, figure->x.column) != 0;

    snprintf(own->stem, sizeof own->stem, "%.40s%s%.50s%s%.50s", spec->name, y ? "-" : "",
             y ? style->y : "", x ? "-against-" : "", x ? style->x : "");
}

/* Replaces the axes of a figure by the axes that the style names (style->x, style->y), and builds
 * the SQL statement that selects their columns. If the style names no axis, *sql is NULL. The
 * caller frees *sql. */
static enum kvr_status restyle(struct kvr_plot_spec *spec, struct own_texts *own,
                               const struct kvr_plot_style *style, const char *db_path, char **sql)
{
    const struct kvr_plot_spec figure = *spec;
    char *extra = NULL;
    size_t n = 0;
    FILE *to = kvr_text_open(&extra, &n);
    enum kvr_status st = to ? KVR_OK : no_memory();

    *sql = NULL;
    if (st == KVR_OK && style->x)
        st = name_axis(&spec->x, own->label[0], sizeof own->label[0], style->x, db_path, to);
    if (st == KVR_OK && style->y)
        st = name_axis(&spec->y, own->label[1], sizeof own->label[1], style->y, db_path, to);
    if (!kvr_text_close(to, &extra) && st == KVR_OK)
        st = no_memory();
    if (st == KVR_OK && (style->x || style->y)) {
        snprintf(own->title, sizeof own->title, "%s against %s", spec->y.column, spec->x.column);
        spec->title = own->title;
        name_files(own, spec, &figure, style);
        spec->stem = own->stem;
        if (asprintf(sql, "SELECT s.*%s FROM (%s) s", extra, spec->sql) < 0) {
            *sql = NULL;
            st = no_memory();
        }
    }
    free(extra);
    return st;
}

/* Draws the figure as a scatter plot, with one point per row. */
static enum kvr_status draw_points(const struct kvr_plot_spec *spec, struct kvr_table **rows,
                                   const char *db_path, const char *out_dir, unsigned formats,
                                   const struct kvr_plot_style *style, struct kvr_plot_result *out)
{
    char *host = NULL;
    enum kvr_status st;

    KVR_TRY(kvr_plot_verdicts(rows, spec, db_path, style));
    KVR_TRY(kvr_plot_intervals(rows, spec, db_path, style->where));
    KVR_TRY(kvr_report_footer(&host, db_path));
    st = kvr_plot_table(spec, *rows, host, out_dir, formats, style, out);
    free(host);
    return st;
}

enum kvr_status kvr_plot(const char *db_path, const char *name, const char *out_dir,
                         unsigned formats, const struct kvr_plot_style *style,
                         struct kvr_plot_result *out)
{
    const struct kvr_query_limits limits = { .where = style->where };
    const struct kvr_plot_spec *found = kvr_plots;
    struct kvr_plot_spec spec;
    struct kvr_table *rows = NULL;
    struct own_texts own;
    char *sql = NULL;
    enum kvr_status st;

    memset(out, 0, sizeof *out);
    while (found->name && strcmp(found->name, name) != 0)
        found++;
    for (const struct kvr_curves_spec *c = kvr_curves; c->name; c++)
        if (strcmp(c->name, name) == 0)
            return kvr_curves_draw(c, db_path, out_dir, formats, style, out);
    if (!found->name)
        return fail_unknown(name);
    spec = *found;
    if ((style->x || style->y) && !spec.x.better)
        return kvr_fail(KVR_EINVAL, "plot %s has fixed axes; --x and --y apply to plot pareto only",
                        name);
    st = restyle(&spec, &own, style, db_path, &sql);
    if (st == KVR_OK)
        st = kvr_table_query_within(&rows, db_path, sql ? sql : spec.sql, &limits);
    if (st == KVR_OK)
        st = spec.draw ? spec.draw(rows, out_dir, formats, style, out)
                       : draw_points(&spec, &rows, db_path, out_dir, formats, style, out);
    free(sql);
    kvr_table_close(&rows);
    return st;
}
