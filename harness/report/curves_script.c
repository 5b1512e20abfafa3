/* curves_script.c - one block of data per method, and a script that draws them by number. */
#include "harness/report/curves_script.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/outfile.h"
#include "harness/core/path.h"
#include "harness/report/escape.h"
#include "harness/report/palette.h"
#include "harness/store/statement.h"

KVR_SCRIPT(curves);
KVR_SCRIPT(heat);

enum { WIDTH = 1000, HEIGHT = 640, LABEL_PX = 15, PANEL_COLUMNS = 3 };
static const double left = 0.085, right = 0.68, bottom = 0.175, top = 0.91; /* of the screen */

/* What is stacked, from below: a tag's column at each pass, and at the instant of the peak. */
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

/* Blocks of rows, a method each, parted by two empty lines: `index N` in gnuplot. */
static void put_data(const struct kvr_curves_figure *f, unsigned formats, FILE *to)
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
}

/* Number of a column in the data, from 1. */
static int place(const struct kvr_curves_figure *f, const char *column)
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

static void put_head(const struct kvr_curves_figure *f, FILE *to)
{
    kvr_statement_put(to, kvr_script_curves, KVR_WITH("stem", f->stem));
}

/* Title and captions. */
static void put_texts(const struct kvr_curves_figure *f, FILE *to)
{
    fputs("set label 10001 ", to);
    kvr_escape_gnuplot(to, f->spec->title);
    fputs(" at screen 0.02, 0.965 left font 'sans-serif,15' textcolor rgb ink\n"
          "set label 10002 ",
          to);
    kvr_escape_gnuplot(to, f->settings);
    fputs(" at screen 0.02, 0.05 left font 'sans-serif,9' textcolor rgb '#666666'\n"
          "set label 10003 ",
          to);
    kvr_escape_gnuplot(to, f->host);
    fputs(" at screen 0.02, 0.02 left font 'sans-serif,9' textcolor rgb '#666666'\n", to);
}

static void put_axis_labels(const struct kvr_curves_figure *f, FILE *to)
{
    fputs("set xlabel ", to);
    kvr_escape_gnuplot(to, f->spec->x_label);
    fputs(" textcolor rgb ink\nset ylabel ", to);
    kvr_escape_gnuplot(to, f->spec->y_label);
    fputs(" textcolor rgb ink\n", to);
}

static int by_height(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (x[0] > y[0]) - (x[0] < y[0]);
}

/* Names at the right end of their curves, pushed apart until a line fits between. */
static void put_end_labels(const struct kvr_curves_figure *f, double lo, double hi, FILE *to)
{
    const double step = (double)LABEL_PX / HEIGHT;
    double(*end)[2] = calloc((size_t)f->n + 1, sizeof *end); /* [n][height, curve] */
    int n = 0;

    for (int i = 0; end && i < f->n; i++) {
        double y = number(f, f->curve[i].to - 1, "y");

        if (!f->curve[i].named || !isfinite(y))
            continue;
        end[n][0] = bottom + (y - lo) / (hi - lo) * (top - bottom);
        end[n++][1] = i;
    }
    if (end)
        qsort(end, (size_t)n, sizeof *end, by_height);
    for (int round = 0; round < 100; round++)
        for (int i = 1; i < n; i++) {
            double gap = step - (end[i][0] - end[i - 1][0]);

            if (gap > 0) {
                end[i][0] += gap / 2;
                end[i - 1][0] -= gap / 2;
            }
        }
    for (int i = n - 1; i >= 0; i--) /* none above the frame */
        end[i][0] = fmin(end[i][0], i == n - 1 ? top : end[i + 1][0] - step);
    for (int i = 0; i < n; i++) {
        const struct kvr_curve *c = &f->curve[(int)end[i][1]];

        fprintf(to, "set label %d ", i + 1);
        kvr_escape_gnuplot(to, c->method);
        fprintf(to, " at screen %.4f, %.4f left font 'sans-serif,8' textcolor rgb '%s'\n",
                right + 0.012, end[i][0], colour(c));
    }
    free(end);
}

static void put_lines(const struct kvr_curves_figure *f, FILE *to)
{
    static const char *const dash[] = { "1", "2", "4", "3", "5" };
    const int x = place(f, "x"), y = place(f, "y"), lo = place(f, "lo"), hi = place(f, "hi");
    int of_family[64] = { 0 };

    fputs("plot \\\n", to);
    for (int i = 0; lo && hi && i < f->n; i++)
        if (f->curve[i].named)
            fprintf(to,
                    "    data index %d using %d:%d:%d with filledcurves lc rgb '%s' "
                    "fs transparent solid 0.15 notitle, \\\n",
                    i, x, lo, hi, colour(&f->curve[i]));
    for (int i = 0; i < f->n; i++) {
        const struct kvr_curve *c = &f->curve[i];
        int family = 0, nth;

        while (family < f->families->n_rows && family < 63 &&
               strcmp(kvr_table_text(f->families, family, 0), c->family) != 0)
            family++;
        nth = c->named ? of_family[family]++ : 0;
        fprintf(to, "    data index %d using %d:%d with lines lc rgb '%s%s' lw %s dt %s ", i, x, y,
                c->named ? "#" : "#b0", colour(c) + 1, c->named ? "2" : "0.7", dash[nth % 5]);
        if (f->spec->key) {
            fputs("title ", to);
            kvr_escape_gnuplot(to, c->method);
        } else {
            fputs("notitle", to);
        }
        fputs(i + 1 < f->n ? ", \\\n" : "\n", to);
    }
}

static void put_line_figure(const struct kvr_curves_figure *f, FILE *to)
{
    double x0 = INFINITY, x1 = -INFINITY, y0 = f->spec->zero ? 0.0 : INFINITY, y1 = -INFINITY;
    double margin;

    range(f, "x", &x0, &x1);
    range(f, "y", &y0, &y1);
    margin = 0.04 * (y1 - y0);
    y1 += margin;
    if (!f->spec->zero)
        y0 -= margin;
    put_axis_labels(f, to);
    fprintf(to,
            "set lmargin at screen %g\nset rmargin at screen %g\nset bmargin at screen %g\n"
            "set tmargin at screen %g\nset xrange [%.9g:%.9g]\nset yrange [%.9g:%.9g]\n",
            left, right, bottom, top, x0, x1, y0, y1);
    if (f->spec->key)
        fprintf(to,
                "set key at screen %.3f, %.3f left top Left reverse samplen 3 spacing 1.2 "
                "noenhanced font 'sans-serif,8' textcolor rgb ink\n",
                right + 0.012, top);
    else
        put_end_labels(f, y0, y1, to);
}

static void put_panel_legend(const struct kvr_curves_figure *f, FILE *to)
{
    for (int i = 0; i <= N_STACK; i++)
        fprintf(to,
                "set label %d '%s' at screen %.3f, 0.05 right font 'sans-serif,10' "
                "textcolor rgb '%s'\n",
                20001 + i, i < N_STACK ? stack[i].name : "peak", 0.50 + 0.078 * i,
                i < N_STACK ? tag_colour(stack[i].name) : "#a4262c");
    fputs("set label 20010 ", to);
    kvr_escape_gnuplot(to, f->spec->y_label);
    fputs(" at screen 0.018, 0.5 center rotate font 'sans-serif,10' textcolor rgb ink\n"
          "set label 20011 ",
          to);
    kvr_escape_gnuplot(to, f->spec->x_label);
    fputs(" at screen 0.45, 0.085 center font 'sans-serif,10' textcolor rgb ink\n"
          "set tics font 'sans-serif,8'\n",
          to);
}

/* Panels share their axes, so that heights compare. */
static void put_panels(const struct kvr_curves_figure *f, FILE *to)
{
    const int x = place(f, "x");
    double x0 = 0.0, x1 = 1.0, y1 = 0.0;
    int n = 0, rows, at = 0;

    range(f, "x", &x0, &x1);
    for (int i = 0; i < f->n; i++) {
        n += f->curve[i].named;
        y1 = fmax(y1,
                  number(f, f->curve[i].from, "peak") - number(f, f->curve[i].from, "at_weights"));
    }
    rows = (n + PANEL_COLUMNS - 1) / PANEL_COLUMNS;
    put_texts(f, to);
    put_panel_legend(f, to);
    fputs("set multiplot\n", to);
    for (int i = 0; i < f->n; i++) {
        const struct kvr_curve *c = &f->curve[i];
        const double w = 0.93 / PANEL_COLUMNS, ht = 0.78 / rows;
        double base = 0.0, peak = number(f, c->from, "peak") - number(f, c->from, "at_weights");
        int column = at % PANEL_COLUMNS, row = at / PANEL_COLUMNS;

        if (!c->named)
            continue;
        fprintf(to, "unset object\nset lmargin at screen %.4f\nset rmargin at screen %.4f\n",
                0.065 + column * w, 0.065 + (column + 1) * w - 0.04);
        fprintf(to, "set tmargin at screen %.4f\nset bmargin at screen %.4f\n", 0.90 - row * ht,
                0.90 - (row + 1) * ht + 0.078);
        fprintf(to, "set xrange [%.9g:%.9g]\nset yrange [0:%.9g]\nset title ", x0,
                x0 + 1.16 * (x1 - x0), 1.08 * y1);
        kvr_escape_gnuplot(to, c->method);
        fprintf(to, " font 'sans-serif,9' offset 0,-0.7 textcolor rgb '%s'\n", colour(c));
        for (int k = 0; k < N_STACK; k++) {
            double v = number(f, c->from, stack[k].at_peak);

            if (!(v > 0.0))
                continue;
            fprintf(to,
                    "set object rect from %.9g,%.9g to %.9g,%.9g fc rgb '%s' fs solid noborder\n",
                    x0 + 1.05 * (x1 - x0), base, x0 + 1.12 * (x1 - x0), base + v,
                    tag_colour(stack[k].name));
            base += v;
        }
        fputs("plot \\\n", to);
        for (int k = N_STACK - 1; k >= 0; k--) { /* the tallest sum first, the others over it */
            fprintf(to, "    data index %d using %d:(", i, x);
            for (int j = 0; j <= k; j++)
                fprintf(to, "%s$%d", j ? "+" : "", place(f, stack[j].column));
            fprintf(to, ") with filledcurves y1=0 lc rgb '%s' fs solid notitle, \\\n",
                    tag_colour(stack[k].name));
        }
        fprintf(to, "    %.9g with lines dt 2 lc rgb '#a4262c' notitle\n", peak);
        if (at == 0)
            fputs("unset label\n", to);
        at++;
    }
    fputs("unset multiplot\n", to);
}

static void put_heat(const struct kvr_curves_figure *f, FILE *to)
{
    double x0 = INFINITY, x1 = -INFINITY;
    char low[32], high[32], frame[2][32], last[32];

    range(f, "x", &x0, &x1);
    snprintf(low, sizeof low, "%.9g", x0 - 0.5);
    snprintf(high, sizeof high, "%.9g", x1 + 0.5);
    snprintf(last, sizeof last, "%d.5", f->n - 1);
    snprintf(frame[0], sizeof frame[0], "%g", bottom);
    snprintf(frame[1], sizeof frame[1], "%g", top);
    fputs("set xlabel ", to);
    kvr_escape_gnuplot(to, f->spec->x_label);
    fputs(" textcolor rgb ink\nset cblabel ", to);
    kvr_escape_gnuplot(to, f->spec->y_label);
    fputs(" textcolor rgb ink\n", to);
    kvr_statement_put(
        to, kvr_script_heat,
        KVR_WITH("x_lo", low, "x_hi", high, "y_lo", last, "bottom", frame[0], "top", frame[1]));
    fputs("set ytics (", to);
    for (int i = 0; i < f->n; i++) {
        fputs(i ? ", " : "", to);
        kvr_escape_gnuplot(to, f->curve[i].method);
        fprintf(to, " %d", i);
    }
    fputs(")\n", to);
}

static void put_heat_rows(const struct kvr_curves_figure *f, FILE *to)
{
    const int x = place(f, "x"), y = place(f, "y");

    fputs("plot \\\n", to);
    for (int i = 0; i < f->n; i++)
        fprintf(to,
                "    data index %d using %d:(%d):(0.5):(0.5):%d with boxxyerror palette "
                "fs solid noborder notitle%s\n",
                i, x, i, y, i + 1 < f->n ? ", \\" : "");
}

static const struct {
    unsigned format;
    const char *terminal, *suffix;
} terminals[] = {
    { KVR_PLOT_SVG,
      "svg size 1000,640 dynamic noenhanced background '#ffffff' font font fontscale 1.333",
      "svg" },
    { KVR_PLOT_PNG, "pngcairo size 1000,640 noenhanced background '#ffffff' font font", "png" },
    { KVR_PLOT_PDF, "pdfcairo size 10in,6.4in noenhanced background '#ffffff' font font", "pdf" },
};

static void put_script(const struct kvr_curves_figure *f, unsigned formats, FILE *to)
{
    put_head(f, to);
    if (f->spec->kind != KVR_CURVES_STACK)
        put_texts(f, to);
    if (f->spec->kind == KVR_CURVES_LINES)
        put_line_figure(f, to);
    else if (f->spec->kind == KVR_CURVES_HEAT)
        put_heat(f, to);
    for (size_t i = 0; i < sizeof terminals / sizeof terminals[0]; i++) {
        if (!(formats & terminals[i].format))
            continue;
        fprintf(to, "\nset terminal %s\nset output '%s.%s'\n", terminals[i].terminal, f->stem,
                terminals[i].suffix);
        if (f->spec->kind == KVR_CURVES_LINES)
            put_lines(f, to);
        else if (f->spec->kind == KVR_CURVES_STACK)
            put_panels(f, to);
        else
            put_heat_rows(f, to);
    }
    fputs("unset output\n", to);
}

/* ------------------------------------------------------------- files */

typedef void put_fn(const struct kvr_curves_figure *f, unsigned formats, FILE *to);

static enum kvr_status write_one(const struct kvr_curves_figure *f, const char *dir,
                                 const char *suffix, put_fn *put, unsigned formats)
{
    char name[128], *path, *text = NULL;
    size_t n = 0;
    struct kvr_out *o = NULL;
    FILE *to = open_memstream(&text, &n);
    enum kvr_status st = KVR_OK;

    snprintf(name, sizeof name, "%s%s", f->stem, suffix);
    path = kvr_path_join(dir, name);
    if (to)
        put(f, formats, to);
    if (!to || fclose(to) != 0 || !path)
        st = kvr_fail(KVR_ENOMEM, "plot: no memory");
    if (st == KVR_OK)
        st = kvr_out_open(&o, path);
    if (st == KVR_OK) {
        st = kvr_out_write(o, text, n);
        if (st == KVR_OK)
            st = kvr_out_commit(&o);
        else
            kvr_out_drop(&o);
    }
    free(path);
    free(text);
    return st;
}

enum kvr_status kvr_curves_write(const struct kvr_curves_figure *f, const char *dir,
                                 unsigned formats)
{
    KVR_TRY(write_one(f, dir, ".tsv", put_data, 0));
    return write_one(f, dir, ".gp", put_script, formats);
}
