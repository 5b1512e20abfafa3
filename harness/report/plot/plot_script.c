/* plot_script.c - writes the data file and the gnuplot script of one figure. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/memtext.h"
#include "harness/report/table/escape.h"
#include "harness/report/plot/figure.h"
#include "harness/report/plot/palette.h"
#include "harness/report/plot/script.h"
#include "harness/store/statement.h"

KVR_SCRIPT(points);

static const char *colour(const struct kvr_figure *f, int family)
{
    return kvr_family_colour(f->family[family]);
}

/* Writes `text` [n] to a file atomically: the file appears complete or not at all. */
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

/* Returns gnuplot's point type. The mark of a method NAME@study is hollow; gnuplot numbers the
 * hollow type of a shape one below the filled type. */
static int point_type(const struct kvr_fig_point *p)
{
    const int type = kvr_fig_shapes[p->shape].point_type;

    return p->study && type > 3 ? type - 1 : type;
}

/* Writes the data file. Columns of numbers precede columns of text. A line therefore never starts
 * with a #, and a quote in a text cannot damage a number. */
static void put_data(const struct kvr_figure *f, FILE *to)
{
    const struct kvr_table *t = f->rows;

    fputs("x\ty\tx_lo\tx_hi\ty_lo\ty_hi\tfront\tbar\tcolour\tpoint_type", to);
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
        data_number(to, p->x_lo);
        data_number(to, p->x_hi);
        data_number(to, p->y_lo);
        data_number(to, p->y_hi);
        fprintf(to, "%d\t%d\t%ld\t%d", p->drawn ? p->front : 0, p->bar, strtol(c + 1, NULL, 16),
                point_type(p));
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
        fprintf(to, "%s'%.6g' %.9g", i ? ", " : "", a->tick[i], kvr_fig_drawn(a, a->tick[i]));
    fputs(")\n", to);
}

/* Writes an axis label. If it is too long, its text in brackets is dropped. */
static void put_axis_label(const struct kvr_figure *f, const struct kvr_fig_axis *a, char which,
                           FILE *to)
{
    const double available = which == 'x' ? f->at.right - f->at.left : f->at.top - f->at.bottom;
    const int most = (int)(1.12 * available / (0.5 * f->at.font * kvr_px_per_pt));
    const char *more = a->cap > 0 ? ", stretched towards 1" : "", *bracket, *against;
    const int of = a->spec->of ? kvr_table_find(f->rows, a->spec->of) : -1;
    /* `label`: the axis label; `text`: the label as written, with a note if the axis is stretched,
     * and shortened if it is too long */
    char label[224], text[256];

    snprintf(label, sizeof label, "%.150s%s%.64s", a->spec->label, of < 0 ? "" : " ",
             of < 0 ? "" : kvr_table_text(f->rows, f->point[0].row, of));
    snprintf(text, sizeof text, "%.200s%s", label, more);
    bracket = strrchr(label, '(');
    against = strstr(label, " against ");
    if ((int)strlen(text) > most && bracket > label && strlen(bracket) > 8)
        snprintf(text, sizeof text, "%.*s%s", (int)(bracket - label - 1), label, more);
    if ((int)strlen(text) > most && against)
        snprintf(text, sizeof text, "%.*s%s", (int)(against - label), label, more);
    if ((int)strlen(text) > most && of >= 0)
        snprintf(text, sizeof text, "%.200s", label);
    else if ((int)strlen(text) > most && strlen(a->spec->column) + strlen(more) < strlen(text))
        snprintf(text, sizeof text, "%.200s%s", a->spec->column, more);
    fprintf(to, "set %clabel ", which);
    kvr_escape_gnuplot(to, text);
    fputc('\n', to);
}

void kvr_fig_put_axis(const struct kvr_fig_axis *a, char which, FILE *to)
{
    const double lo = kvr_fig_drawn(a, a->lo), end = kvr_fig_drawn(a, a->hi);
    /* Extends the range slightly, so that rounding cannot move a value at the end of the axis out
     * of the range. */
    const double hi = a->cap > 0 ? end + 1e-6 * (end - lo) : end;

    fprintf(to, "set %crange [%.9g:%.9g]\n", which, lo, hi);
    if (a->cap > 0)
        fprintf(
            to,
            "s%c(v) = -log10(1 - v > %.9g ? 1 - v : %.9g) # 0.9, 0.99 and 0.999 are equidistant\n",
            which, a->cap, a->cap);
    else
        fprintf(to, "s%c(v) = v\n", which);
    fprintf(to,
            "in%c(v) = s%c(v) < %.9g ? %.9g : s%c(v) > %.9g ? %.9g : s%c(v) "
            "# error bars are clipped at the edge of the plot\n",
            which, which, lo, lo, which, hi, hi, which);
    if (a->spec->log)
        fprintf(to, "set logscale %c 2\n", which);
    put_ticks(a, which, to);
}

const char *kvr_fig_floor(const struct kvr_figure *f, double *floor)
{
    const char *column = strcmp(f->spec->y.column, "ssim") == 0      ? "ssim_floor"
                         : strcmp(f->spec->y.column, "psnr_db") == 0 ? "psnr_floor"
                                                                     : "";
    const int c = kvr_table_find(f->rows, column);

    *floor = c < 0 ? NAN : kvr_table_number(f->rows, f->point[0].row, c);
    if (!(*floor >= f->y.lo && kvr_fig_drawn(&f->y, *floor) < kvr_fig_drawn(&f->y, f->y.hi)))
        return NULL;
    return f->at.key_below ? "chaos floor" : "chaos floor: BF16 with perturbed noise";
}

/* Marks the region above the chaos floor, which is the mean metric of BF16's draws (reruns with
 * slightly perturbed noise). Methods in this region are at least as close to the BF16 rollout as
 * its draws, so differences between these methods have no meaning. */
static void put_floor(const struct kvr_figure *f, FILE *to)
{
    double floor;
    const char *text = kvr_fig_floor(f, &floor);

    if (!text)
        return;
    fprintf(to,
            "\n# The chaos floor: mean metric of BF16 reruns with slightly perturbed noise.\n"
            "set object 1 rectangle from graph 0, first %.9g to graph 1, graph 1 behind \\\n"
            "    fillcolor rgb '#000000' fillstyle transparent solid 0.08 noborder\n"
            "set label 10004 '%s' at graph 0.99, first %.9g "
            "\\\n    right offset 0,-0.6 font label_font textcolor rgb faint_ink\n",
            kvr_fig_drawn(&f->y, floor), text, kvr_fig_drawn(&f->y, floor));
}

/* Writes the labels next to their points. A label that is far from its point has a leader line. */
static void put_labels(const struct kvr_figure *f, FILE *to)
{
    fputs("\n# Labels: placed so that they do not overlap; x and y are data coordinates.\n", to);
    for (int i = 0; i < f->n; i++) {
        const struct kvr_fig_point *p = &f->point[i];
        const struct kvr_label *l = &f->label[i];
        double middle = l->bottom + 1.17 * f->at.label * kvr_px_per_pt / 2.0;

        if (!p->drawn || !p->named)
            continue;
        fprintf(to, "set label %d ", i + 1);
        kvr_escape_gnuplot(to, p->text);
        fprintf(to, " at %.6g,%.6g left font label_font textcolor rgb %s\n",
                kvr_fig_value(&f->x, l->left, f->at.left, f->at.right),
                kvr_fig_value(&f->y, middle, f->at.bottom, f->at.top),
                p->front || p->baseline || !f->spec->x.better ? "ink" : "faint_ink");
        if (!l->leader)
            continue;
        fprintf(to, "set arrow %d from %.6g,%.6g to %.6g,%.6g nohead lw 0.7 lc rgb hair back\n",
                i + 1, kvr_fig_drawn(&f->x, p->x), kvr_fig_drawn(&f->y, p->y),
                kvr_fig_value(&f->x, l->end_x, f->at.left, f->at.right),
                kvr_fig_value(&f->y, l->end_y, f->at.bottom, f->at.top));
    }
}

/* Writes the corners of the front in order of x, and returns their number. Points with equal x and
 * y are one corner. */
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

/* Draws the legend from single marks and labels, because gnuplot's own legend cannot be placed
 * freely. */
static void put_key(const struct kvr_figure *f, FILE *to)
{
    const struct kvr_fig_layout *at = &f->at;
    const double line = 1.45 * at->key * kvr_px_per_pt, em = at->key * kvr_px_per_pt;
    const int rows = kvr_fig_key_rows(f);
    int slot = 0;

    fputs("\n# The key.\n", to);
    for (int i = 0; i < f->n_key; i++) {
        const struct kvr_fig_key *k = &f->key[i];
        double x, y;

        if (k->point_type == 0 && at->key_columns > 1 && slot % rows == rows - 1)
            slot++; /* moves a heading from the end of a legend column to the next */
        x = (at->key_below ? 0.6 * em : at->right + em) + slot / rows * at->key_column;
        y = at->key_top - (slot++ % rows + 0.5) * line;
        fprintf(to, "set label %d ", 20001 + i);
        kvr_escape_gnuplot(to, k->text);
        fprintf(to, " at screen %.5f, %.5f left font key_font textcolor rgb ink\n",
                (x + (k->point_type ? 1.5 * em : 0)) / at->width, y / at->height);
        if (k->point_type > 0)
            fprintf(to, "set label %d '' at screen %.5f, %.5f point pt %d ps size lc rgb '%s'\n",
                    21001 + i, (x + 0.6 * em) / at->width, y / at->height, k->point_type, k->rgb);
        else if (k->point_type < 0)
            fprintf(to,
                    "set arrow %d from screen %.5f, %.5f to screen %.5f, %.5f nohead "
                    "lw %s lc rgb '%s'\n",
                    21001 + i, x / at->width, y / at->height, (x + 1.2 * em) / at->width,
                    y / at->height, k->point_type == -1 ? "1.5" : "1 dt 3", k->rgb);
    }
}

/* If both axes show the same metric, for example on two suites, writes points of the line x = y to
 * gnuplot's data block $same. The line is a series of points, because it is curved if an axis is
 * stretched (logarithmic in 1 - value). */
static bool put_same(const struct kvr_figure *f, FILE *to)
{
    const double lo = fmax(f->x.lo, f->y.lo), hi = fmin(f->x.hi, f->y.hi);
    const int n = 64;

    if (!f->spec->x.of || !f->spec->y.of || !(lo < hi))
        return false;
    fputs("\n# Equal on both axes.\n$same << EOD\nv\n", to);
    /* If both axes are stretched, the points of the line are evenly spaced in the picture. */
    for (int i = 0; i <= n; i++) {
        double v = lo + (hi - lo) * i / n;

        if (f->x.cap > 0 && f->y.cap > 0) {
            const double near = fmax(f->x.cap, f->y.cap);

            v = 1 - (1 - lo) * pow(near / (1 - lo), (double)i / n);
        }
        fprintf(to, "%.9g\n", v);
    }
    fputs("EOD\n", to);
    return true;
}

static void put_plot(const struct kvr_figure *f, int n_front, bool same, FILE *to)
{
    /* The Pareto front is drawn as a step line through its corners. From one corner to the next,
     * the line goes down first if larger x is better, otherwise to the right first. */
    const char *steps = f->spec->x.better > 0 ? "fsteps" : "steps";
    bool front = n_front > 0;

    fputs("plot \\\n", to);
    if (same)
        fputs("    $same using (sx($1)):(sy($1)) with lines lw 1 dt 3 lc rgb hair notitle, \\\n",
              to);
    if (n_front > 1)
        fprintf(to, "    $front using (sx($1)):(sy($2)) with %s lw 1.5 lc rgb hair notitle, \\\n",
                steps);
    if (!f->style->no_bars)
        fputs("    data using (bar(sx(column('x')))):(sy(column('y'))):(iny(column('y_lo')))"
              ":(iny(column('y_hi'))):(pale(column('colour'))) \\\n"
              "        with yerrorbars pt -1 ps 0 lw 0.8 lc rgb variable notitle, \\\n"
              "    data using (bar(sx(column('x')))):(sy(column('y'))):(inx(column('x_lo')))"
              ":(inx(column('x_hi'))):(pale(column('colour'))) \\\n"
              "        with xerrorbars pt -1 ps 0 lw 0.8 lc rgb variable notitle, \\\n",
              to);
    if (front)
        fputs("    data using (sx(column('x'))):(column('front') == 0 ? sy(column('y')) : NaN)"
              ":(column('point_type')):(fade(column('colour'))) \\\n"
              "        with points pt variable ps size lc rgb variable notitle, \\\n",
              to);
    fprintf(to,
            "    data using (sx(column('x'))):(%ssy(column('y'))%s)"
            ":(column('point_type')):(column('colour')) \\\n"
            "        with points pt variable ps size lc rgb variable notitle\n",
            front ? "column('front') == 1 ? " : "", front ? " : NaN" : "");
}

static void put_head(const struct kvr_figure *f, FILE *to)
{
    const struct kvr_fig_layout *at = &f->at;
    char edge[4][32], font[3][32], size[32];

    snprintf(edge[0], sizeof edge[0], "%.9g", at->left / at->width);
    snprintf(edge[1], sizeof edge[1], "%.9g", at->right / at->width);
    snprintf(edge[2], sizeof edge[2], "%.9g", at->bottom / at->height);
    snprintf(edge[3], sizeof edge[3], "%.9g", at->top / at->height);
    snprintf(font[0], sizeof font[0], "%.3g", at->font);
    snprintf(font[1], sizeof font[1], "%.3g", at->label);
    snprintf(font[2], sizeof font[2], "%.3g", at->key);
    snprintf(size, sizeof size, "%.3g", 1.4 * at->font / 12.0);
    kvr_statement_put(to, kvr_script_points,
                      KVR_WITH("stem", f->stem, "left", edge[0], "right", edge[1], "bottom",
                               edge[2], "top", edge[3], "font", font[0], "label", font[1], "key",
                               font[2], "size", size));
}

static void put_texts(const struct kvr_figure *f, FILE *to)
{
    kvr_script_title(to, f->title, f->n_title, f->at.title, f->at.height);
    kvr_script_notes(to, f->note, f->n_notes, f->at.note, f->at.height);
}

static void put_script(const struct kvr_figure *f, unsigned formats, FILE *to)
{
    bool first = true, same;
    int n_front;

    put_head(f, to);
    put_texts(f, to);
    put_axis_label(f, &f->x, 'x', to);
    kvr_fig_put_axis(&f->x, 'x', to);
    put_axis_label(f, &f->y, 'y', to);
    kvr_fig_put_axis(&f->y, 'y', to);
    put_floor(f, to);
    put_labels(f, to);
    put_key(f, to);
    n_front = put_front(f, to);
    same = put_same(f, to);
    for (int i = 0; i < KVR_N_PLOT_FORMATS; i++) {
        if (!kvr_script_output(to, formats, i, f->stem, f->at.width, f->at.height))
            continue;
        if (first)
            put_plot(f, n_front, same, to);
        else
            fputs("replot\n", to);
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
    FILE *to = kvr_text_open(&text, &n);
    enum kvr_status st;

    if (!to)
        return kvr_fail(KVR_ENOMEM, "plot: out of memory");
    put(f, formats, to);
    if (!kvr_text_close(to, &text))
        return kvr_fail(KVR_ENOMEM, "plot: out of memory");
    st = kvr_script_save(dir, f->stem, suffix, text, n);
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
