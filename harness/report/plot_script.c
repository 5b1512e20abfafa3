/* plot_script.c - the data file and the gnuplot script of one figure. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/outfile.h"
#include "harness/core/path.h"
#include "harness/report/escape.h"
#include "harness/report/figure.h"
#include "harness/report/palette.h"
#include "harness/store/statement.h"

KVR_SCRIPT(points);

const struct kvr_fig_shape kvr_fig_shapes[] = {
    { 2.5, 11, "under 2.5" },     { 3.5, 9, "2.5 to 3.5" }, { 4.5, 13, "3.5 to 4.5" },
    { 6.0, 5, "4.5 to 6" },       { 10.0, 15, "6 to 10" },  { INFINITY, 7, "10 or more" },
    { INFINITY, 6, "not known" },
};

static const char *colour(const struct kvr_figure *f, int family)
{
    return kvr_family_colour(f->family[family]);
}

/* Give `text` [n] to a file that appears whole or not at all. */
static enum kvr_status save(const char *dir, const char *stem, const char *suffix, const char *text,
                            size_t n)
{
    struct kvr_out *o = NULL;
    char *name = NULL, *path = NULL;
    enum kvr_status st;

    if (asprintf(&name, "%s%s", stem, suffix) < 0)
        return kvr_fail(KVR_ENOMEM, "plot: no memory");
    path = kvr_path_join(dir, name);
    free(name);
    if (!path)
        return kvr_fail(KVR_ENOMEM, "plot: no memory");
    st = kvr_out_open(&o, path);
    if (st == KVR_OK)
        st = kvr_out_write(o, text, n);
    if (st == KVR_OK)
        st = kvr_out_commit(&o);
    else
        kvr_out_drop(&o);
    free(path);
    return st;
}

static bool is_text(const struct kvr_table *t, int c)
{
    for (int r = 0; r < t->n_rows; r++) {
        enum kvr_value_type type = kvr_table_at(t, r, c)->type;

        if (type == KVR_VALUE_TEXT || type == KVR_VALUE_BLOB)
            return true;
    }
    return false;
}

static void data_value(FILE *to, const struct kvr_value *v)
{
    if (v->type == KVR_VALUE_INT)
        fprintf(to, "%lld", (long long)v->i);
    else if (v->type == KVR_VALUE_REAL && isfinite(v->r))
        fprintf(to, "%.9g", v->r);
    else if (v->type == KVR_VALUE_TEXT)
        kvr_escape_tsv(to, v->text);
}

static void data_number(FILE *to, double x)
{
    if (isfinite(x))
        fprintf(to, "%.9g", x);
    fputc('\t', to);
}

/* Numbers first: gnuplot takes a line that begins with # for a comment, and a quote in a text
 * cannot then reach a number. */
static void put_data(const struct kvr_figure *f, FILE *to)
{
    const struct kvr_table *t = f->rows;

    fputs("x\ty\tfront\tcolour\tpoint_type", to);
    for (int pass = 0; pass < 2; pass++)
        for (int c = 0; c < t->n_columns; c++)
            if (is_text(t, c) == (pass == 1)) {
                fputc('\t', to);
                kvr_escape_tsv(to, t->column[c].name);
            }
    fputc('\n', to);
    for (int i = 0; i < f->n; i++) {
        const struct kvr_fig_point *p = &f->point[i];
        const char *c = p->baseline ? "#000000" : colour(f, p->family);

        data_number(to, p->x);
        data_number(to, p->y);
        fprintf(to, "%d\t%ld\t%d", p->drawn ? p->front : 0, strtol(c + 1, NULL, 16),
                kvr_fig_shapes[p->shape].point_type);
        for (int pass = 0; pass < 2; pass++)
            for (int k = 0; k < t->n_columns; k++)
                if (is_text(t, k) == (pass == 1)) {
                    fputc('\t', to);
                    data_value(to, kvr_table_at(t, p->row, k));
                }
        fputc('\n', to);
    }
}

static void put_ticks(const struct kvr_fig_axis *a, char which, FILE *to)
{
    fprintf(to, "set %ctics (", which);
    for (int i = 0; i < a->n_ticks; i++)
        fprintf(to, "%s'%.6g' %.9g", i ? ", " : "", a->tick[i], a->tick[i]);
    fputs(")\n", to);
}

static void put_axis(const struct kvr_fig_axis *a, char which, FILE *to)
{
    fprintf(to, "set %clabel ", which);
    kvr_escape_gnuplot(to, a->spec->label);
    fprintf(to, "\nset %crange [%.9g:%.9g]\n", which, a->lo, a->hi);
    if (a->spec->log)
        fprintf(to, "set logscale %c 2\n", which);
    put_ticks(a, which, to);
}

/* Above the floor nothing is told apart: BF16 with its noise moved is as far from itself. */
static void put_floor(const struct kvr_figure *f, FILE *to)
{
    const char *column = strcmp(f->spec->y.column, "ssim") == 0      ? "ssim_floor"
                         : strcmp(f->spec->y.column, "psnr_db") == 0 ? "psnr_floor"
                                                                     : "";
    const int c = kvr_table_find(f->rows, column);
    const double floor = c < 0 ? NAN : kvr_table_number(f->rows, f->point[0].row, c);

    if (!(floor >= f->y.lo && floor <= f->y.hi))
        return;
    fprintf(to,
            "\n# The floor: how far BF16 is from itself when its noise is moved a little.\n"
            "set object 1 rectangle from graph 0, first %.9g to graph 1, graph 1 behind \\\n"
            "    fillcolor rgb '#000000' fillstyle transparent solid 0.08 noborder\n"
            "set label 10004 'within chaos: BF16 is no nearer to itself' at graph 0.99, first %.9g "
            "\\\n    right offset 0,-0.6 font label_font textcolor rgb faint_ink\n",
            floor, floor);
}

/* Names beside the points, and thin lines to those that stand far off. */
static void put_labels(const struct kvr_figure *f, FILE *to)
{
    fputs("\n# Names: placed so that they do not cover each other; x and y are data.\n", to);
    for (int i = 0; i < f->n; i++) {
        const struct kvr_fig_point *p = &f->point[i];
        const struct kvr_label *l = &f->label[i];
        double middle = l->bottom + KVR_FIG_LINE / 2.0;

        if (!p->drawn || !p->named)
            continue;
        fprintf(to, "set label %d ", i + 1);
        kvr_escape_gnuplot(to, p->text);
        fprintf(to, " at %.6g,%.6g left font label_font textcolor rgb %s\n",
                kvr_fig_value(&f->x, l->left, KVR_FIG_LEFT, KVR_FIG_RIGHT),
                kvr_fig_value(&f->y, middle, KVR_FIG_BOTTOM, KVR_FIG_TOP),
                p->front || p->baseline || !f->spec->x.better ? "ink" : "faint_ink");
        if (!l->leader)
            continue;
        fprintf(to, "set arrow %d from %.6g,%.6g to %.6g,%.6g nohead lw 0.7 lc rgb hair back\n",
                i + 1, p->x, p->y, kvr_fig_value(&f->x, l->end_x, KVR_FIG_LEFT, KVR_FIG_RIGHT),
                kvr_fig_value(&f->y, l->end_y, KVR_FIG_BOTTOM, KVR_FIG_TOP));
    }
}

/* The front's corners in order of x. Points that share x and y are one corner. */
static int put_front(const struct kvr_figure *f, FILE *to)
{
    double x = NAN, y = NAN;
    int n = 0;

    fputs("\n$front << EOD\nx\ty\n", to);
    for (int i = 0; i < f->n; i++) {
        const struct kvr_fig_point *p = &f->point[i];

        if (!p->corner || (p->x == x && p->y == y))
            continue;
        x = p->x;
        y = p->y;
        fprintf(to, "%.9g\t%.9g\n", x, y);
        n++;
    }
    fputs("EOD\n", to);
    return n;
}

static void put_key(const struct kvr_figure *f, FILE *to)
{
    for (int k = 0; k < f->n_families; k++) {
        bool any = false;

        for (int i = 0; i < f->n; i++)
            any = any || (f->point[i].drawn && !f->point[i].baseline && f->point[i].family == k);
        if (!any)
            continue;
        fprintf(to, ", \\\n    keyentry with points pt 7 ps size lc rgb '%s' title ", colour(f, k));
        kvr_escape_gnuplot(to, f->family[k]);
    }
    fputs(", \\\n    keyentry with points pt 0 lc rgb '#ffffff' title ' ', \\\n"
          "    keyentry with points pt 0 lc rgb '#ffffff' title 'bits per scalar'",
          to);
    for (int k = 0; k < KVR_FIG_N_SHAPES; k++) {
        bool any = false;

        for (int i = 0; i < f->n; i++)
            any = any || (f->point[i].drawn && f->point[i].shape == k);
        if (any)
            fprintf(to, ", \\\n    keyentry with points pt %d ps size lc rgb '#777777' title '%s'",
                    kvr_fig_shapes[k].point_type, kvr_fig_shapes[k].title);
    }
}

static void put_plot(const struct kvr_figure *f, int n_front, FILE *to)
{
    /* Between two corners the better x lasts longer: down first when more x is better. */
    const char *steps = f->spec->x.better > 0 ? "fsteps" : "steps";
    bool front = n_front > 0;

    fputs("\nplot \\\n", to);
    if (n_front > 1)
        fprintf(to, "    $front using 1:2 with %s lw 1.5 lc rgb hair title '%s', \\\n", steps,
                kvr_table_find(f->rows, "verdict") < 0 ? "Pareto front" : "front of the means");
    if (front)
        fputs("    data using (column('x')):(column('front') == 0 ? column('y') : NaN)"
              ":(column('point_type')):(fade(column('colour'))) \\\n"
              "        with points pt variable ps size lc rgb variable notitle, \\\n",
              to);
    fprintf(to,
            "    data using (column('x')):(%scolumn('y')%s)"
            ":(column('point_type')):(column('colour')) \\\n"
            "        with points pt variable ps size lc rgb variable notitle",
            front ? "column('front') == 1 ? " : "", front ? " : NaN" : "");
    put_key(f, to);
    fputc('\n', to);
}

static void put_head(const struct kvr_figure *f, FILE *to)
{
    char left[32], right[32], bottom[32], top[32];

    snprintf(left, sizeof left, "%.9g", (double)KVR_FIG_LEFT / KVR_FIG_WIDTH);
    snprintf(right, sizeof right, "%.9g", (double)KVR_FIG_RIGHT / KVR_FIG_WIDTH);
    snprintf(bottom, sizeof bottom, "%.9g", (double)KVR_FIG_BOTTOM / KVR_FIG_HEIGHT);
    snprintf(top, sizeof top, "%.9g", (double)KVR_FIG_TOP / KVR_FIG_HEIGHT);
    kvr_statement_put(
        to, kvr_script_points,
        KVR_WITH("stem", f->stem, "left", left, "right", right, "bottom", bottom, "top", top));
}

static void put_texts(const struct kvr_figure *f, FILE *to)
{
    static const double height[] = { 0.052, 0.02 };

    fputs("set label 10001 ", to);
    kvr_escape_gnuplot(to, f->spec->title);
    fputs(" at screen 0.02, 0.955 left font 'sans-serif,15' textcolor rgb ink\n", to);
    for (int i = 0; i < 2; i++) {
        fprintf(to, "set label %d ", 10002 + i);
        kvr_escape_gnuplot(to, f->caption[i]);
        fprintf(to, " at screen 0.02, %g left font 'sans-serif,9' textcolor rgb '#666666'\n",
                height[i]);
    }
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

static void put_script(const struct kvr_figure *f, unsigned formats, FILE *to)
{
    bool first = true;
    int n_front;

    put_head(f, to);
    put_texts(f, to);
    put_axis(&f->x, 'x', to);
    put_axis(&f->y, 'y', to);
    put_floor(f, to);
    put_labels(f, to);
    n_front = put_front(f, to);
    for (size_t i = 0; i < sizeof terminals / sizeof terminals[0]; i++) {
        if (!(formats & terminals[i].format))
            continue;
        fprintf(to, "\nset terminal %s\nset output '%s.%s'", terminals[i].terminal, f->stem,
                terminals[i].suffix);
        if (first)
            put_plot(f, n_front, to);
        else
            fputs("\nreplot\n", to);
        first = false;
    }
    fputs("unset output\n", to);
}

typedef void put_fn(const struct kvr_figure *f, unsigned formats, FILE *to);

static void put_data_any(const struct kvr_figure *f, unsigned formats, FILE *to)
{
    (void)formats;
    put_data(f, to);
}

static enum kvr_status write_file(const struct kvr_figure *f, const char *dir, const char *suffix,
                                  put_fn *put, unsigned formats)
{
    char *text = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&text, &n);
    enum kvr_status st;

    if (!to)
        return kvr_fail(KVR_ENOMEM, "plot: no memory");
    put(f, formats, to);
    if (fclose(to) != 0) {
        free(text);
        return kvr_fail(KVR_ENOMEM, "plot: no memory");
    }
    st = save(dir, f->stem, suffix, text, n);
    free(text);
    return st;
}

enum kvr_status kvr_fig_write_data(const struct kvr_figure *f, const char *dir)
{
    return write_file(f, dir, ".tsv", put_data_any, 0);
}

enum kvr_status kvr_fig_write_script(const struct kvr_figure *f, const char *dir, unsigned formats)
{
    return write_file(f, dir, ".gp", put_script, formats);
}
