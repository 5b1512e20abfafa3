/* curves_script.c - writes a data file with one block per method, and a gnuplot script that plots
 * the blocks by index. */
#include "harness/report/plot/curves_script.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/memtext.h"
#include "harness/report/table/escape.h"
#include "harness/report/plot/figure.h"
#include "harness/report/plot/palette.h"
#include "harness/report/plot/script.h"
#include "harness/store/statement.h"

KVR_SCRIPT(curves);
KVR_SCRIPT(heat);

/* Positions of a figure's elements. Lengths are in pixels of 1/96 inch, and text sizes in points.
 * Method names are on the right of the plot, or below it in a narrow picture. */
struct layout {
    double width, height, left, right, bottom, top;
    double font, label, note, title, em; /* em: size of axis text in pixels */
    bool narrow;
    int n_named, n_notes, n_title, columns, rows; /* columns, rows: grid of panels */
    double panel;                                 /* height of one panel in pixels */
    char line[KVR_FIG_MAX_NOTES][KVR_FIG_LINE_MAX], head[2][KVR_FIG_LINE_MAX];
};

/* Writes the caption: the settings, the number of prompts per point, and the number of methods
 * without a label or panel. */
static void describe(const struct kvr_curves_figure *f, char *out, size_t n)
{
    const int c = kvr_table_find(f->rows, "n");
    double lo = INFINITY, hi = -INFINITY;
    int named = 0;
    size_t at = (size_t)snprintf(out, n, "%.900s", f->settings);

    for (int i = 0; i < f->n; i++) {
        named += f->curve[i].named;
        for (int r = f->curve[i].from; c >= 0 && r < f->curve[i].to; r++) {
            lo = fmin(lo, kvr_table_number(f->rows, r, c));
            hi = fmax(hi, kvr_table_number(f->rows, r, c));
        }
    }
    if (lo < hi)
        at += (size_t)snprintf(out + at, n - at, "; n = %.9g to %.9g", lo, hi);
    else if (lo == hi)
        at += (size_t)snprintf(out + at, n - at, "; n = %.9g", hi);
    if (named < f->n && f->spec->kind == KVR_CURVES_STACK)
        snprintf(out + at, n - at, "; %d of %d methods", named, f->n);
    else if (named < f->n && f->spec->kind != KVR_CURVES_HEAT)
        snprintf(out + at, n - at, "; thin: the %d other methods", f->n - named);
}

static void lay_out(const struct kvr_curves_figure *f, struct layout *at)
{
    const struct kvr_plot_style *s = f->style;
    const bool heat = f->spec->kind == KVR_CURVES_HEAT, stack = f->spec->kind == KVR_CURVES_STACK;
    char where[KVR_FIG_LINE_MAX] = "", about[1024];
    const char *const caption[] = { about, f->host, where };
    double label, plot, names, longest = 5;

    *at = (struct layout){ .width = 96.0 * (s->width_in > 0 ? s->width_in : 1000.0 / 96.0) };
    at->font = s->font_pt > 0 ? s->font_pt : s->width_in > 0 ? 8.0 : 12.0;
    at->label = at->note = fmax(7.0, 0.75 * at->font);
    at->title = 1.25 * at->font;
    at->em = at->font * kvr_px_per_pt;
    label = at->label * kvr_px_per_pt;
    at->narrow = at->width < 45 * at->em;
    for (int i = 0; i < f->n; i++) {
        if (f->curve[i].named || heat)
            longest = fmax(longest, kvr_fig_ems(f->curve[i].method));
        at->n_named += f->curve[i].named;
    }
    if (s->where)
        snprintf(where, sizeof where, "where %.240s", s->where);
    describe(f, about, sizeof about);
    for (int i = 0; i < 3; i++)
        at->n_notes += kvr_fig_wrap(caption[i], (int)(0.96 * at->width / (0.53 * label)),
                                    &at->line[at->n_notes], KVR_FIG_MAX_NOTES / 3);
    at->n_title =
        kvr_fig_wrap(s->title ? s->title : f->spec->title,
                     (int)(0.96 * at->width / (0.56 * at->title * kvr_px_per_pt)), at->head, 2);
    names = fmin(label * (longest + (heat ? 1.0 : 3.4)), (heat ? 0.55 : 0.45) * at->width);
    at->left = heat ? names + 0.5 * at->em : (f->spec->hi == 1.0 ? 6.6 : 5.5) * at->em;
    at->right = at->width - (heat         ? 7.4 * at->em
                             : at->narrow ? 1.2 * at->em
                                          : names + 0.6 * at->em);
    at->columns = at->narrow ? 2 : 3;
    at->rows = (at->n_named + at->columns - 1) / at->columns;
    at->panel = at->em * (at->narrow ? 10.0 : at->rows == 1 ? 26.0 : at->rows == 2 ? 15.0 : 10.0);
    plot = heat    ? fmax(8 * at->em, 1.3 * label * f->n)
           : stack ? at->rows * at->panel
                   : (at->narrow ? 0.78 * (at->right - at->left) : 0.47 * at->width);
    at->bottom = 0.5 * at->em + at->n_notes * 1.36 * label + 3.6 * at->em;
    if (at->narrow && !heat && !stack)
        at->bottom += at->n_named * 1.3 * label + 0.7 * at->em;
    if (stack)
        at->bottom += 0.3 * at->em;
    at->top = at->bottom + plot;
    at->height = at->top + (at->n_title ? (0.9 + 1.35 * at->n_title) * at->title * kvr_px_per_pt
                                        : 0.8 * at->em);
}

/* Allocation tags of the stacked memory, from the bottom. Data column `column` is a tag's memory in
 * each forward pass of the model, and `at_peak` its memory at the peak. */
static const struct {
    const char *column, *at_peak, *name;
} stack[] = { { "kv", "at_kv", "KV" },
              { "meta", "at_meta", "META" },
              { "scratch", "at_scratch", "SCRATCH" },
              { "act", "at_act", "ACT" },
              { "io", "at_io", "IO" } };
enum { N_STACK = sizeof stack / sizeof stack[0] };

static const char *tag_colour(const char *tag)
{
    const struct kvr_colour *c = kvr_palette_tags;

    while (strcmp(c->name, tag) != 0)
        c++;
    return c->rgb;
}

static double number(const struct kvr_curves_figure *f, int row, const char *column)
{
    return kvr_table_number(f->rows, row, kvr_table_find(f->rows, column));
}

static const char *colour(const struct kvr_curve *c)
{
    return c->baseline ? "#000000" : kvr_family_colour(c->family);
}

/* ------------------------------------------------------------- data */

static bool is_data(const struct kvr_curves_figure *f, int column)
{
    static const char *const texts[] = { "method", "family", "settings", NULL };

    for (const char *const *t = texts; *t; t++)
        if (strcmp(f->rows->column[column].name, *t) == 0)
            return false;
    return true;
}

/* Writes one block of rows per method. Two empty lines separate the blocks, which gnuplot selects
 * with `index N`. */
static bool put_data(const struct kvr_curves_figure *f, unsigned formats, FILE *to)
{
    (void)formats;
    for (int i = 0; i < f->n; i++) {
        fputs(i ? "\n\n# " : "# ", to);
        kvr_escape_tsv(to, f->curve[i].method);
        fputs("\n#", to);
        for (int c = 0; c < f->rows->n_columns; c++)
            if (is_data(f, c))
                fprintf(to, " %s", f->rows->column[c].name);
        fputc('\n', to);
        for (int r = f->curve[i].from; r < f->curve[i].to; r++) {
            bool first = true;

            for (int c = 0; c < f->rows->n_columns; c++) {
                double v = kvr_table_number(f->rows, r, c);

                if (!is_data(f, c))
                    continue;
                fprintf(to, isfinite(v) ? "%s%.9g" : "%sNaN", first ? "" : "\t", v);
                first = false;
            }
            fputc('\n', to);
        }
    }
    fputc('\n', to);
    return true;
}

/* Returns the number of a column in the data file, counted from 1. */
static int column_of(const struct kvr_curves_figure *f, const char *column)
{
    int n = 0;

    for (int c = 0; c < f->rows->n_columns; c++) {
        n += is_data(f, c);
        if (strcmp(f->rows->column[c].name, column) == 0)
            return n;
    }
    return 0;
}

/* ------------------------------------------------------------- script */

static void range(const struct kvr_curves_figure *f, const char *column, double *lo, double *hi)
{
    for (int i = 0; i < f->n; i++)
        for (int r = f->curve[i].from; r < f->curve[i].to; r++) {
            double v = number(f, r, column);

            if (isfinite(v)) {
                *lo = fmin(*lo, v);
                *hi = fmax(*hi, v);
            }
        }
    if (!(*hi > *lo))
        *hi = *lo + 1.0;
}

static void put_head(const struct kvr_curves_figure *f, const struct layout *at, FILE *to)
{
    char font[32];

    snprintf(font, sizeof font, "%.3g", at->font);
    kvr_statement_put(to, kvr_script_curves, KVR_WITH("stem", f->stem, "font", font));
}

static void put_texts(const struct layout *at, FILE *to)
{
    kvr_script_title(to, at->head, at->n_title, at->title, at->height);
    kvr_script_notes(to, at->line, at->n_notes, at->note, at->height);
}

/* Writes the axis labels. If the y label is longer than the axis, the function drops its part
 * "against ...". If the label is still too long, the function also drops the note ", stretched
 * towards 1". */
static void put_axis_labels(const struct kvr_curves_figure *f, const struct layout *at,
                            bool stretched, FILE *to)
{
    const double available = 1.1 * (at->top - at->bottom) / at->em;
    const char *more = stretched ? ", stretched towards 1" : "";
    const char *against = strstr(f->spec->y_label, " against ");
    char y[128];

    snprintf(y, sizeof y, "%.100s%s", f->spec->y_label, more);
    if (kvr_fig_ems(y) > available && against)
        snprintf(y, sizeof y, "%.*s%s", (int)(against - f->spec->y_label), f->spec->y_label, more);
    if (kvr_fig_ems(y) > available && against)
        snprintf(y, sizeof y, "%.*s", (int)(against - f->spec->y_label), f->spec->y_label);
    fputs("set xlabel ", to);
    kvr_escape_gnuplot(to, f->spec->x_label);
    fputs(" textcolor rgb ink\nset ylabel ", to);
    kvr_escape_gnuplot(to, y);
    fputs(" textcolor rgb ink\n", to);
}

static int by_height(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (x[0] > y[0]) - (x[0] < y[0]);
}

static const char *const dash[] = { "1", "2", "4", "3", "5" };

/* Returns the dash pattern of a curve. The n-th method of a family, by name, has the n-th pattern,
 * as on the report page (plots/report/chart.js). The baseline and thin curves are solid. */
static const char *dash_of(const struct kvr_curves_figure *f, int curve)
{
    const struct kvr_curve *c = &f->curve[curve];
    int nth = 0;

    for (int i = 0; i < curve; i++)
        nth += !f->curve[i].baseline && strcmp(f->curve[i].family, c->family) == 0;
    return c->named && !c->baseline ? dash[nth % 5] : dash[0];
}

/* Shortens a name to a width in ems by cutting out its middle, because names differ at both
 * ends. */
static void shorten(const char *name, double ems, char out[KVR_FIG_LINE_MAX])
{
    const int len = (int)strlen(name);
    const int most = (int)(ems / kvr_fig_ems(name) * len);

    if (len <= most || most < 8)
        snprintf(out, KVR_FIG_LINE_MAX, "%s", name);
    else
        snprintf(out, KVR_FIG_LINE_MAX, "%.*s...%s", (most - 3) / 2, name,
                 name + len - (most - 2) / 2);
}

/* Writes a method's name and a sample of its line at position (x, y) in pixels. */
static void put_name(const struct kvr_curves_figure *f, const struct layout *at, int i, double x,
                     double y, FILE *to)
{
    const struct kvr_curve *c = &f->curve[i];
    /* length of the line sample in pixels; a sample in a narrow figure is longer relative to the
     * text, so that it shows the dash pattern */
    const double line = (at->narrow ? 4.6 : 2.2) * at->label * kvr_px_per_pt;
    char name[KVR_FIG_LINE_MAX];

    shorten(c->method, (at->width - x - line - 4) / (at->label * kvr_px_per_pt), name);
    fprintf(to, "set label %d ", i + 1);
    kvr_escape_gnuplot(to, name);
    fprintf(to, " at screen %.5f, %.5f left font 'sans-serif,%.3g' textcolor rgb '%s'\n",
            (x + line + 4) / at->width, y / at->height, at->label, colour(c));
    fprintf(to,
            "set arrow %d from screen %.5f, %.5f to screen %.5f, %.5f nohead lw 2 dt %s "
            "lc rgb '%s'\n",
            i + 1, x / at->width, y / at->height, (x + line) / at->width, y / at->height,
            dash_of(f, i), colour(c));
}

/* Writes the names of the labelled curves at the right ends of the curves, at least one line of
 * text apart. If the figure has a legend or is narrow, the function instead writes the names as a
 * list beside or below the plot. */
static bool put_names(const struct kvr_curves_figure *f, const struct layout *at,
                      const struct kvr_fig_axis *a, FILE *to)
{
    const double step = 1.25 * at->label * kvr_px_per_pt;
    const bool list = f->spec->key || at->narrow;
    /* end [n][2]: height of a name in pixels, and index of its curve */
    double(*end)[2] = calloc((size_t)f->n + 1, sizeof *end);
    int n = 0;

    if (!end)
        return false;
    for (int i = 0; i < f->n; i++) {
        double y = number(f, f->curve[i].to - 1, "y");

        if (!f->curve[i].named || (!isfinite(y) && !list))
            continue;
        end[n][0] = list ? (at->narrow ? at->bottom - 3.9 * at->em : at->top) - (n + 0.5) * step
                         : kvr_fig_px(a, y, at->bottom, at->top);
        end[n++][1] = i;
    }
    if (!list)
        qsort(end, (size_t)n, sizeof *end, by_height);
    for (int round = 0; round < 100 && !list; round++)
        for (int i = 1; i < n; i++) {
            double gap = step - (end[i][0] - end[i - 1][0]);

            if (gap > 0) {
                end[i][0] += gap / 2;
                end[i - 1][0] -= gap / 2;
            }
        }
    /* The spacing can push names above the plot. Moves them down to its top edge, and moves lower
     * names down where they are too close. */
    for (int i = n - 1; i >= 0 && !list; i--)
        end[i][0] = fmin(end[i][0], i == n - 1 ? at->top : end[i + 1][0] - step);
    for (int i = 0; i < n; i++)
        put_name(f, at, (int)end[i][1], at->narrow ? at->em : at->right + 0.4 * at->em, end[i][0],
                 to);
    free(end);
    return true;
}

/* Draws one error bar per labelled curve, side by side: the confidence interval of the curve's last
 * point. Error bars replace confidence bands if there are many labelled curves, because many bands
 * would hide the curves. */
static void put_end_bars(const struct kvr_curves_figure *f, FILE *to)
{
    const int x = column_of(f, "x"), y = column_of(f, "y"), lo = column_of(f, "lo"),
              hi = column_of(f, "hi");
    double x0 = INFINITY, x1 = -INFINITY;
    int nth = 0;

    range(f, "x", &x0, &x1);
    for (int i = 0; i < f->n; i++) {
        const struct kvr_curve *c = &f->curve[i];
        const int last = c->to - c->from - 1;

        /* a curve of one prompt has no interval */
        if (c->named && isfinite(number(f, c->to - 1, "lo")))
            fprintf(to,
                    "    data index %d every ::%d::%d using ($%d - %.9g):(sy($%d)):(iny($%d))"
                    ":(iny($%d)) with yerrorbars pt -1 lw 1.2 lc rgb '%s' notitle, \\\n",
                    i, last, last, x, ++nth * 0.012 * (x1 - x0), y, lo, hi, colour(c));
    }
}

enum { BANDS_AT_MOST = 6 };

static void put_lines(const struct kvr_curves_figure *f, FILE *to)
{
    const int x = column_of(f, "x"), y = column_of(f, "y"), lo = column_of(f, "lo"),
              hi = column_of(f, "hi");
    const bool sure = lo && hi && !f->style->no_bars;
    int n_named = 0;

    for (int i = 0; i < f->n; i++)
        n_named += f->curve[i].named && !f->curve[i].baseline;
    fputs("plot \\\n", to);
    for (int i = 0; sure && n_named <= BANDS_AT_MOST && i < f->n; i++)
        if (f->curve[i].named)
            fprintf(
                to,
                "    data index %d using %d:(iny($%d)):(iny($%d)) with filledcurves lc rgb '%s' "
                "fs transparent solid 0.15 notitle, \\\n",
                i, x, lo, hi, colour(&f->curve[i]));
    if (sure && n_named > BANDS_AT_MOST)
        put_end_bars(f, to);
    for (int named = 0; named < 2; named++) /* draws labelled curves last, over the others */
        for (int i = 0; i < f->n; i++) {
            const struct kvr_curve *c = &f->curve[i];

            if (c->named == (named == 1))
                fprintf(to,
                        "    data index %d using %d:(sy($%d)) with lines lc rgb '%s%s' lw %s "
                        "dt %s notitle, \\\n",
                        i, x, y, named ? "#" : "#b0", colour(c) + 1, named ? "2" : "0.7",
                        dash_of(f, i));
        }
    fputs("    NaN notitle\n", to);
}

/* Fits the y axis to all curves, and to the confidence bands of labelled curves. */
static bool fit_y(const struct kvr_curves_figure *f, struct kvr_fig_axis *a)
{
    const int n_rows = f->curve[f->n - 1].to - f->curve[0].from;
    const bool bands = column_of(f, "lo") && !f->style->no_bars;
    double *v = calloc((size_t)n_rows + 1, sizeof *v),
           *ends = calloc(2 * (size_t)n_rows + 1, sizeof *v);
    const bool available = v && ends;
    int n = 0;

    for (int i = 0; available && i < f->n; i++)
        for (int r = f->curve[i].from; r < f->curve[i].to; r++) {
            double y = number(f, r, "y");

            if (!isfinite(y))
                continue;
            v[n] = y;
            ends[2 * n] = bands && f->curve[i].named ? number(f, r, "lo") : NAN;
            ends[2 * n++ + 1] = bands && f->curve[i].named ? number(f, r, "hi") : NAN;
        }
    if (n)
        kvr_fig_fit(a, v, ends, n);
    free(v);
    free(ends);
    return available;
}

/* Returns whether all values of x are integers, such as frames. */
static bool x_is_integer(const struct kvr_curves_figure *f)
{
    for (int r = f->curve[0].from; r < f->curve[f->n - 1].to; r++)
        if (fmod(number(f, r, "x"), 1) != 0)
            return false;
    return true;
}

static bool put_line_figure(const struct kvr_curves_figure *f, const struct layout *at, FILE *to)
{
    const struct kvr_plot_axis spec = { .lo = f->spec->lo, .hi = f->spec->hi };
    struct kvr_fig_axis a = { .spec = &spec };
    double x0 = INFINITY, x1 = -INFINITY, y0 = 0.0, y1 = -INFINITY;

    range(f, "x", &x0, &x1);
    if (f->spec->zero) {
        range(f, "y", &y0, &y1);
        a.lo = y0;
        a.hi = y1 + 0.04 * (y1 - y0);
    } else {
        if (!fit_y(f, &a))
            return false;
    }
    put_axis_labels(f, at, a.cap > 0, to);
    fprintf(to,
            "set lmargin at screen %.5f\nset rmargin at screen %.5f\nset bmargin at screen %.5f\n"
            "set tmargin at screen %.5f\nset xrange [%.9g:%.9g]\n",
            at->left / at->width, at->right / at->width, at->bottom / at->height,
            at->top / at->height, x0, x1);
    if (x_is_integer(f))
        fprintf(to, "set xtics %.9g\n", fmax(1, kvr_fig_step(x1 - x0, at->narrow ? 5 : 10)));
    if (f->spec->zero) /* the y axis starts at 0, and gnuplot chooses its ticks */
        fprintf(to, "set yrange [%.9g:%.9g]\nsy(v) = v\niny(v) = v\n", a.lo, a.hi);
    else
        kvr_fig_put_axis(&a, 'y', to);
    return put_names(f, at, &a, to);
}

static void put_panel_legend(const struct kvr_curves_figure *f, const struct layout *at, FILE *to)
{
    const double y = at->bottom - 1.2 * at->em, key = at->bottom - 2.6 * at->em;
    const double label = at->label * kvr_px_per_pt;
    double x = at->em;

    for (int i = 0; i <= N_STACK; i++) {
        const char *name = i < N_STACK ? stack[i].name : "peak";

        if (i < N_STACK)
            fprintf(to, "set label %d '' at screen %.5f, %.5f point pt 5 ps %.3g lc rgb '%s'\n",
                    20021 + i, (x + 0.6 * label) / at->width, key / at->height, 0.13 * at->label,
                    tag_colour(name));
        else
            fprintf(to,
                    "set arrow 20021 from screen %.5f, %.5f to screen %.5f, %.5f nohead dt 2 "
                    "lc rgb '#a4262c'\n",
                    x / at->width, key / at->height, (x + 2 * label) / at->width, key / at->height);
        x += (i < N_STACK ? 1.5 : 2.4) * label;
        fprintf(to,
                "set label %d '%s' at screen %.5f, %.5f left font 'sans-serif,%.3g' "
                "textcolor rgb ink\n",
                20001 + i, name, x / at->width, key / at->height, at->label);
        x += label * (kvr_fig_ems(name) + 1.4);
    }
    fputs("set label 20010 ", to);
    kvr_escape_gnuplot(to, f->spec->y_label);
    fprintf(to,
            " at screen %.5f, %.5f center rotate font 'sans-serif,%.3g' textcolor rgb ink\n"
            "set label 20011 ",
            0.9 * at->em / at->width, 0.5 * (at->top + at->bottom) / at->height, at->label);
    kvr_escape_gnuplot(to, f->spec->x_label);
    fprintf(to,
            " at screen 0.5, %.5f center font 'sans-serif,%.3g' textcolor rgb ink\n"
            "set tics font 'sans-serif,%.3g'\n",
            y / at->height, at->label, at->label);
}

/* Writes a panel's title. A name that is wider than the panel continues on a second line, because
 * cut names could look alike. */
static void put_panel_title(const struct kvr_curve *c, double width, const struct layout *at,
                            FILE *to)
{
    const int len = (int)strlen(c->method);
    const int most =
        (int)(len * fmin(1.0, width / (at->label * kvr_px_per_pt * kvr_fig_ems(c->method))));
    int cut = len;
    char name[KVR_FIG_LINE_MAX];

    if (len > most)
        for (cut = most; cut > 1 && !strchr("_ ", c->method[cut - 1]) && c->method[cut] != '@';)
            cut--;
    if (cut <= 1)
        cut = most;
    snprintf(name, sizeof name, "%.*s", cut, c->method);
    kvr_escape_gnuplot(to, name);
    if (c->method[cut]) {
        fputs(" . \"\\n\" . ", to);
        kvr_escape_gnuplot(to, c->method + cut);
    }
    fprintf(to, " font 'sans-serif,%.3g' offset 0,%s textcolor rgb '%s'\n", at->label,
            c->method[cut] ? "-0.9" : "-0.7", colour(c));
}

/* Draws the memory of each allocation tag at the peak as a stacked bar at the right end of the
 * panel. */
static void put_peak_column(const struct kvr_curves_figure *f, const struct kvr_curve *c, double x0,
                            double x1, FILE *to)
{
    double base = 0.0;

    for (int k = 0; k < N_STACK; k++) {
        double v = number(f, c->from, stack[k].at_peak);

        if (!(v > 0.0))
            continue;
        fprintf(to, "set object rect from %.9g,%.9g to %.9g,%.9g fc rgb '%s' fs solid noborder\n",
                x0 + 1.05 * (x1 - x0), base, x0 + 1.12 * (x1 - x0), base + v,
                tag_colour(stack[k].name));
        base += v;
    }
}

/* Draws the memory of each allocation tag over time as stacked areas, and a horizontal line at the
 * peak. */
static void put_stack(const struct kvr_curves_figure *f, int i, FILE *to)
{
    const struct kvr_curve *c = &f->curve[i];
    const double peak = number(f, c->from, "peak") - number(f, c->from, "at_weights");

    fputs("plot \\\n", to);
    /* Draws the area of all tags first, and the areas of fewer tags over it. */
    for (int k = N_STACK - 1; k >= 0; k--) {
        fprintf(to, "    data index %d using %d:(", i, column_of(f, "x"));
        for (int j = 0; j <= k; j++)
            fprintf(to, "%s$%d", j ? "+" : "", column_of(f, stack[j].column));
        fprintf(to, ") with filledcurves y1=0 lc rgb '%s' fs solid notitle, \\\n",
                tag_colour(stack[k].name));
    }
    if (peak >= 0)
        fprintf(to, "    %.9g", peak);
    else /* gnuplot draws no line for NaN */
        fputs("    NaN", to);
    fputs(" with lines dt 2 lc rgb '#a4262c' notitle\n", to);
}

/* Writes the panels. All panels have the same axis ranges, so that heights can be compared. */
static void put_panels(const struct kvr_curves_figure *f, const struct layout *at, FILE *to)
{
    const double wide = (at->width - 1.4 * at->em) / at->columns;
    double x0 = 0.0, x1 = 1.0, y1 = 0.0;
    int nth = 0;

    range(f, "x", &x0, &x1);
    for (int i = 0; i < f->n; i++)
        y1 = fmax(y1,
                  number(f, f->curve[i].from, "peak") - number(f, f->curve[i].from, "at_weights"));
    if (!(y1 > 0)) /* all memory is weights, which are not drawn; the axis still needs a range */
        y1 = 1;
    put_texts(at, to);
    put_panel_legend(f, at, to);
    fprintf(to, "set ytics %.3g\nset xtics %.9g, %.9g, %.9g\nset multiplot\n", kvr_fig_step(y1, 5),
            x0, fmax(1, kvr_fig_step(x1 - x0, at->narrow ? 4 : 5)), x1);
    for (int i = 0; i < f->n; i++) {
        const struct kvr_curve *c = &f->curve[i];
        double left = 1.4 * at->em + nth % at->columns * wide + 3.2 * at->em;
        double right = 1.4 * at->em + (nth % at->columns + 1) * wide - 0.6 * at->em;
        double top = at->top - nth / at->columns * at->panel - 2.2 * at->em;
        if (!c->named)
            continue;
        fprintf(to, "unset object\nset lmargin at screen %.5f\nset rmargin at screen %.5f\n",
                left / at->width, right / at->width);
        fprintf(to, "set tmargin at screen %.5f\nset bmargin at screen %.5f\n", top / at->height,
                (top - at->panel + 4.1 * at->em) / at->height);
        fprintf(to, "set xrange [%.9g:%.9g]\nset yrange [0:%.9g]\nset title ", x0,
                x0 + 1.16 * (x1 - x0), 1.08 * y1);
        put_panel_title(c, right - left + 1.2 * at->em, at, to);
        put_peak_column(f, c, x0, x1, to);
        put_stack(f, i, to);
        if (nth++ == 0)
            fputs("unset label\nunset arrow\n", to);
    }
    fputs("unset multiplot\n", to);
}

static void put_heat(const struct kvr_curves_figure *f, const struct layout *at, FILE *to)
{
    double x0 = INFINITY, x1 = -INFINITY;
    char low[32], high[32], last[32], frame[4][32], font[32];

    range(f, "x", &x0, &x1);
    snprintf(low, sizeof low, "%.9g", x0 - 0.5);
    snprintf(high, sizeof high, "%.9g", x1 + 0.5);
    snprintf(last, sizeof last, "%d.5", f->n - 1);
    snprintf(frame[0], sizeof frame[0], "%.5f", at->bottom / at->height);
    snprintf(frame[1], sizeof frame[1], "%.5f", at->top / at->height);
    snprintf(frame[2], sizeof frame[2], "%.5f", at->left / at->width);
    snprintf(frame[3], sizeof frame[3], "%.5f", at->right / at->width);
    snprintf(font, sizeof font, "%.3g", at->label);
    fputs("set xlabel ", to);
    kvr_escape_gnuplot(to, f->spec->x_label);
    fputs(" textcolor rgb ink\nset cblabel ", to);
    kvr_escape_gnuplot(to, f->spec->y_label);
    fputs(" textcolor rgb ink\n", to);
    kvr_statement_put(to, kvr_script_heat,
                      KVR_WITH("x_lo", low, "x_hi", high, "y_lo", last, "bottom", frame[0], "top",
                               frame[1], "left", frame[2], "right", frame[3], "label", font));
    fprintf(to, "set xtics %.9g, %.9g\nset ytics (", x0, fmax(1, ceil((x1 - x0) / 12)));
    for (int i = 0; i < f->n; i++) {
        const char *method = f->curve[i].method;
        char name[KVR_FIG_LINE_MAX];

        shorten(method, at->left / (at->label * kvr_px_per_pt) - 1.4, name);
        fputs(i ? ", " : "", to);
        kvr_escape_gnuplot(to, name);
        fprintf(to, " %d", i);
    }
    fputs(")\n", to);
}

static void put_heat_rows(const struct kvr_curves_figure *f, FILE *to)
{
    const int x = column_of(f, "x"), y = column_of(f, "y");

    fputs("plot \\\n", to);
    for (int i = 0; i < f->n; i++)
        fprintf(to,
                "    data index %d using %d:(%d):(0.5):(0.5):%d with boxxyerror palette "
                "fs solid noborder notitle%s\n",
                i, x, i, y, i + 1 < f->n ? ", \\" : "");
}

static bool put_script(const struct kvr_curves_figure *f, unsigned formats, FILE *to)
{
    struct layout at;

    lay_out(f, &at);
    put_head(f, &at, to);
    if (f->spec->kind != KVR_CURVES_STACK)
        put_texts(&at, to);
    if (f->spec->kind == KVR_CURVES_LINES && !put_line_figure(f, &at, to))
        return false;
    if (f->spec->kind == KVR_CURVES_HEAT)
        put_heat(f, &at, to);
    for (int i = 0; i < KVR_N_PLOT_FORMATS; i++) {
        if (!kvr_script_output(to, formats, i, f->stem, at.width, at.height))
            continue;
        if (f->spec->kind == KVR_CURVES_LINES)
            put_lines(f, to);
        else if (f->spec->kind == KVR_CURVES_STACK)
            put_panels(f, &at, to);
        else
            put_heat_rows(f, to);
    }
    fputs("unset output\n", to);
    return true;
}

/* ------------------------------------------------------------- files */

/* Writes the content of the data file (.tsv) or of the gnuplot script (.gp). Returns false if
 * memory runs out. */
typedef bool put_fn(const struct kvr_curves_figure *f, unsigned formats, FILE *to);

static enum kvr_status write_one(const struct kvr_curves_figure *f, const char *dir,
                                 const char *suffix, put_fn *put, unsigned formats)
{
    char *text = NULL;
    size_t n = 0;
    FILE *to = kvr_text_open(&text, &n);
    bool ok = to && put(f, formats, to);
    enum kvr_status st = KVR_OK;

    if (!kvr_text_close(to, &text) || !ok)
        st = kvr_fail(KVR_ENOMEM, "plot: out of memory");
    if (st == KVR_OK)
        st = kvr_script_save(dir, f->stem, suffix, text, n);
    free(text);
    return st;
}

enum kvr_status kvr_curves_write(const struct kvr_curves_figure *f, const char *dir,
                                 unsigned formats)
{
    KVR_TRY(write_one(f, dir, ".tsv", put_data, 0));
    return write_one(f, dir, ".gp", put_script, formats);
}
