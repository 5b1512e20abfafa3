/* cost_plot.c - draws runtime against peak memory in two panels: values measured on this GPU, and
 * the study's published values. */
#include "harness/report/plot/cost_plot.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/memtext.h"
#include "harness/core/path.h"
#include "harness/report/table/escape.h"
#include "harness/report/plot/figure.h"
#include "harness/report/plot/gnuplot.h"
#include "harness/report/plot/palette.h"
#include "harness/report/plot/script.h"
#include "harness/store/statement.h"

KVR_SCRIPT(cost);

enum { CARD, STUDY, N_PANELS, MAX_LINES = 12 };
static const double gib = 1024.0 * 1024.0 * 1024.0;

static const struct {
    const char *path;
    int point_type;
} shapes[] = {
    { "staged", 7 }, { "fused", 6 }, { "decoded", 5 }, { "dense", 8 }, { "published", 2 }
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes, PUBLISHED = N_SHAPES - 1 };

struct point {
    int panel, shape, row;
    double s, gib;
    bool confirmed;
    const char *rgb;
    char text[96];
};

struct panel {
    double left, right, bottom, top; /* edges of the plot area in pixels */
    double lo, hi, step; /* range of the time axis and distance of its ticks, in seconds */
    double mem;          /* top of the memory axis in GiB */
    const char *label;
};

struct figure {
    const struct kvr_table *t;
    const char *stem;                  /* stem of the output files' names */
    int from, to;                      /* rows [from, to) of `t` */
    double width, height, font, small; /* pixels; points */
    struct panel p[N_PANELS];
    struct point *point; /* [n]: the points measured on this GPU, then the published points */
    struct kvr_label *at;
    /* whether the study's panel is below the panel of this GPU instead of on its right */
    bool narrow;
    int n, n_panel[N_PANELS], n_lines, n_title;
    char line[MAX_LINES][KVR_FIG_LINE_MAX], title[2][KVR_FIG_LINE_MAX];
};

static double number(const struct kvr_table *t, int row, const char *column)
{
    const int c = kvr_table_find(t, column);

    return c < 0 ? NAN : kvr_table_number(t, row, c);
}

static const char *text(const struct kvr_table *t, int row, const char *column)
{
    const int c = kvr_table_find(t, column);

    return c < 0 ? "" : kvr_table_text(t, row, c);
}

/* --- points ------------------------------------------------------------------------------ */

static int shape_of(const char *path)
{
    for (int i = 0; i < PUBLISHED; i++)
        if (strcmp(shapes[i].path, path) == 0)
            return i;
    return 0;
}

static void add_card_point(struct figure *f, int row)
{
    const double sure = number(f->t, row, "runtime_s");
    const char *mark = text(f->t, row, "mark");
    struct point p = { .panel = CARD,
                       .row = row,
                       .shape = shape_of(text(f->t, row, "path")),
                       .s = isfinite(sure) ? sure : number(f->t, row, "runtime_seen_s"),
                       .gib = number(f->t, row, "peak_bytes") / gib,
                       .confirmed = isfinite(sure),
                       .rgb = kvr_family_colour(text(f->t, row, "family")) };

    snprintf(p.text, sizeof p.text, "%.80s%s%s%s", text(f->t, row, "method"), *mark ? " (" : "",
             mark, *mark ? ")" : "");
    if (isfinite(p.s) && isfinite(p.gib))
        f->point[f->n++] = p, f->n_panel[CARD]++;
}

/* Adds the published point of a method. A method with several rows (variants or attention paths)
 * has one published point. */
static void add_study_point(struct figure *f, int row)
{
    const char *method = text(f->t, row, "method");
    struct point p = { .panel = STUDY,
                       .row = row,
                       .shape = PUBLISHED,
                       .s = number(f->t, row, "published_runtime_s"),
                       .gib = number(f->t, row, "published_peak_gib"),
                       .confirmed = true,
                       .rgb = kvr_family_colour(text(f->t, row, "family")) };

    snprintf(p.text, sizeof p.text, "%.*s", (int)strcspn(method, "@ +"), method);
    for (int i = 0; i < f->n; i++)
        if (f->point[i].panel == STUDY && strcmp(f->point[i].text, p.text) == 0)
            return;
    if (isfinite(p.s) && isfinite(p.gib))
        f->point[f->n++] = p, f->n_panel[STUDY]++;
}

static enum kvr_status add_points(struct figure *f)
{
    const size_t most = 2 * (size_t)(f->to - f->from) + 1;

    f->point = calloc(most, sizeof *f->point);
    f->at = calloc(most, sizeof *f->at);
    if (!f->point || !f->at)
        return kvr_fail(KVR_ENOMEM, "plot cost: out of memory");
    for (int r = f->from; r < f->to; r++)
        add_card_point(f, r);
    for (int r = f->from; f->n && r < f->to; r++)
        add_study_point(f, r);
    return KVR_OK;
}

/* --- words ------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static void put_line(struct figure *f, int most,
                                                           const char *format, ...)
{
    char all[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(all, sizeof all, format, args);
    va_end(args);
    f->n_lines += kvr_fig_wrap(all, most, &f->line[f->n_lines], MAX_LINES - f->n_lines);
}

/* Lists the points measured on this GPU, such as "RTN_INT4@study (staged), ...": with `confirmed`
 * those with valid times, otherwise those with disturbed (NOISY) times. */
static void list(const struct figure *f, bool confirmed, char *out, size_t size)
{
    size_t n = 0;

    *out = 0;
    for (int i = 0; i < f->n && n < size; i++)
        if (f->point[i].panel == CARD && f->point[i].confirmed == confirmed)
            n += (size_t)snprintf(out + n, size - n, "%s%s (%s)", n ? ", " : "", f->point[i].text,
                                  shapes[f->point[i].shape].path);
}

/* Returns the distinct codes of the disturbances that made times on this GPU NOISY. Tables from
 * results/measured have no such codes; for these tables, returns a general reason. */
static const char *codes_of(const struct figure *f, char *out, size_t size)
{
    size_t n = 0;

    *out = 0;
    for (int i = 0; i < f->n && kvr_table_find(f->t, "model") >= 0; i++) {
        const char *all = text(f->t, f->point[i].row, "time_codes");

        for (size_t len; *all && n < size; all += len) {
            char code[48];

            all += strspn(all, " ");
            len = strcspn(all, " ");
            snprintf(code, sizeof code, "%.*s", (int)len, all);
            if (f->point[i].panel == CARD && *code && !strstr(out, code))
                n += (size_t)snprintf(out + n, size - n, "%s%s", n ? " " : "", code);
        }
    }
    return *out ? out
                : "the time of the BF16 rollouts drifted, or the measured phases sum to less than "
                  "90 % of the runtime";
}

static void say_unconfirmed(struct figure *f, int most)
{
    int sure = 0, most_n = 0;
    char names[1024], codes[256];

    for (int i = 0; i < f->n; i++) {
        sure += f->point[i].panel == CARD && f->point[i].confirmed;
        most_n = (int)fmax(most_n, number(f->t, f->point[i].row, "n"));
    }
    if (sure == f->n_panel[CARD])
        return;
    list(f, 2 * sure < f->n_panel[CARD], names, sizeof names);
    put_line(f, most, "Not confirmed: %d of %d times are NOISY (%s)%s%s.%s",
             f->n_panel[CARD] - sure, f->n_panel[CARD], codes_of(f, codes, sizeof codes),
             !sure                         ? ""
             : 2 * sure < f->n_panel[CARD] ? ": all but "
                                           : ": ",
             sure ? names : "", most_n == 1 ? " Each time was measured in one rollout." : "");
}

/* Adds a caption line with the commit and date of each measurement session that has points. */
static void say_sessions(struct figure *f, int most)
{
    char all[1024] = "";
    size_t n = 0;

    for (char mark = 'a'; mark <= 'z'; mark++)
        for (int i = 0; i < f->n; i++) {
            const int row = f->point[i].row;
            const char *own = text(f->t, row, "mark");

            if (f->point[i].panel != CARD || (*own ? *own : 'a') != mark || n >= sizeof all)
                continue;
            n += (size_t)snprintf(all + n, sizeof all - n, "%s%s%s%scommit %.12s, %s",
                                  n ? "; " : "", *own ? "(" : "", own, *own ? ") " : "",
                                  text(f->t, row, "commit"), text(f->t, row, "date"));
            break;
        }
    put_line(f, most,
             "Measured: %s. The baseline is the BF16 rollout of the same measurement session.",
             all);
}

static void write_captions(struct figure *f, const struct kvr_plot_style *style)
{
    const int most = (int)(f->width / (0.56 * f->small * kvr_px_per_pt));

    const char *model = text(f->t, f->point[0].row, "model");
    char title[256];

    snprintf(title, sizeof title, "Cost of a KV cache on one %.60s, %s, commit %.12s",
             text(f->t, f->point[0].row, "card"), text(f->t, f->point[0].row, "date"),
             text(f->t, f->point[0].row, "commit"));
    f->n_title = kvr_fig_wrap(style->title ? style->title : title,
                              (int)(f->width / (0.68 * f->font * kvr_px_per_pt)), f->title, 2);
    put_line(
        f, most,
        "%s: a rollout of %s, %g latent frames%s, "
        "window %g, without text encoder and decoder.%s",
        f->n_panel[STUDY] == 0 ? "Here"
        : f->narrow            ? "Above"
                               : "Left",
        *model ? model : "a model of Wan 1.3B's size with random weights",
        number(f->t, f->point[0].row, "frames"), *model ? "" : " of 480x832",
        number(f->t, f->point[0].row, "window"),
        f->n_panel[STUDY] == 0 ? ""
        : f->narrow
            ? " Below: times and memory published by the 33-method study, with text encoder and "
              "decoder, "
              "on a GPU that the study does not state."
            : " Right: times and memory published by the 33-method study, with text encoder and "
              "decoder, "
              "on a GPU that the study does not state.");
    say_sessions(f, most);
    say_unconfirmed(f, most);
}

/* --- layout ------------------------------------------------------------------------------ */

static void fit(struct figure *f, int panel)
{
    struct panel *p = &f->p[panel];
    double lo = INFINITY, hi = -INFINITY;

    for (int i = 0; i < f->n; i++)
        if (f->point[i].panel == panel) {
            lo = fmin(lo, f->point[i].s);
            hi = fmax(hi, f->point[i].s);
        }
    if (!(lo <= hi))
        lo = 0, hi = 1;
    p->step = kvr_fig_step(fmax(hi - lo, 0.2 * hi), 5);
    p->lo = fmax(0, p->step * floor(lo / p->step - 0.3));
    p->hi = p->step * ceil(hi / p->step + 0.3);
}

/* Sets the upper end of each panel's memory axis. Both panels have the same upper end, unless the
 * memory measured on this GPU is below a tenth of the published memory. */
static void scale_memory(struct figure *f)
{
    double most[N_PANELS] = { 0 };

    for (int i = 0; i < f->n; i++)
        most[f->point[i].panel] = fmax(most[f->point[i].panel], f->point[i].gib);
    if (most[CARD] >= 0.1 * most[STUDY])
        most[CARD] = most[STUDY] = fmax(most[CARD], most[STUDY]);
    for (int k = 0; k < N_PANELS; k++)
        f->p[k].mem =
            most[k] > 0 ? kvr_fig_step(most[k], 5) * ceil(1.02 * most[k] / kvr_fig_step(most[k], 5))
                        : 1;
}

/* Returns the number of characters of the longest tick label of the memory axis. */
static int longest_number(const struct panel *p)
{
    const double step = kvr_fig_step(p->mem, 5);
    int most = 0;

    for (int i = 0; i * step < p->mem * 1.001; i++) {
        char number[32];
        const int n = snprintf(number, sizeof number, "%g", i * step);

        most = n > most ? n : most;
    }
    return most;
}

static void lay_out(struct figure *f)
{
    const bool narrow = f->narrow, two = f->n_panel[STUDY] > 0;
    const double split = two ? 0.58 * f->width : f->width - 12;
    const double line = 1.35 * kvr_px_per_pt;
    double top, bottom, plot;

    f->p[CARD].label = "seconds of a rollout, measured";
    f->p[STUDY].label = "seconds of a video, published";
    scale_memory(f);
    top = line * (1.2 * f->font * f->n_title + 1.4 * f->small + 6);
    bottom = line * (f->small * (f->n_lines + 0.5) + f->small + f->font + 16);
    plot = narrow ? 300 : 370;
    f->height = top + bottom + plot + (narrow && two ? plot + line * 3 * f->font : 0);
    for (int k = 0; k < N_PANELS; k++) {
        struct panel *p = &f->p[k];
        const int n = longest_number(p);
        const double axis = line * (f->font + 2.4 * f->small) + 12 +
                            (n > 3 ? (n - 1.5) * 0.6 * f->small * kvr_px_per_pt : 0);

        fit(f, k);
        p->left = narrow || k == CARD ? axis : split + axis;
        p->right = narrow || k == STUDY ? f->width - 18 : split - 6;
        p->bottom = narrow && two && k == CARD ? bottom + plot + line * 3 * f->font : bottom;
        p->top = p->bottom + plot;
    }
}

static double x_of(const struct panel *p, double s)
{
    return p->left + (s - p->lo) / (p->hi - p->lo) * (p->right - p->left);
}

static double y_of(const struct panel *p, double g)
{
    return p->bottom + g / p->mem * (p->top - p->bottom);
}

static enum kvr_status lay_out_panel(struct figure *f, int panel)
{
    const struct panel *p = &f->p[panel];
    const int from = panel == CARD ? 0 : f->n_panel[CARD], n = f->n_panel[panel];
    double *x = calloc(2 * (size_t)n + 1, sizeof *x), *y = x ? x + n : NULL;
    struct kvr_label_field field = { .left = p->left + 4,
                                     .right = p->right - 2,
                                     .bottom = p->bottom + 2,
                                     .top = p->top - 2,
                                     .height = 1.17 * f->small * kvr_px_per_pt,
                                     .radius = 4.5,
                                     .n_points = n,
                                     .n_marks = n,
                                     .px = x,
                                     .py = y };

    if (!x)
        return kvr_fail(KVR_ENOMEM, "plot cost: out of memory");
    for (int i = 0; i < n; i++) {
        const struct point *q = &f->point[from + i];

        x[i] = x_of(p, q->s);
        y[i] = y_of(p, q->gib);
        f->at[from + i] = (struct kvr_label){
            .x = x[i], .y = y[i], .width = f->small * kvr_px_per_pt * (kvr_fig_ems(q->text) + 0.4)
        };
    }
    kvr_labels_place(&f->at[from], n, &field);
    free(x);
    return KVR_OK;
}

/* --- files ------------------------------------------------------------------------------- */

static void put_data(const struct figure *f, FILE *to)
{
    fputs("panel\tmethod\tpath\tseconds\tgib\tshape\tcolour\tconfirmed\n", to);
    for (int i = 0; i < f->n; i++) {
        const struct point *p = &f->point[i];

        fprintf(to, "%d\t", p->panel + 1);
        kvr_escape_tsv(to, p->text);
        fprintf(to, "\t%s\t%.9g\t%.9g\t%d\t%ld\t%d\n", shapes[p->shape].path, p->s, p->gib,
                shapes[p->shape].point_type, strtol(p->rgb + 1, NULL, 16), p->confirmed);
    }
}

static void put_label(const struct figure *f, int tag, const char *words, double x, double y,
                      double size, const char *rgb, FILE *to)
{
    fprintf(to, "set label %d ", tag);
    kvr_escape_gnuplot(to, words);
    fprintf(to, " at screen %.5f, %.5f left front font 'sans-serif,%.3g' textcolor rgb '%s'\n",
            x / f->width, y / f->height, size, rgb);
}

/* Writes the title, the legend of the drawn attention paths, and the captions. */
static void put_words(const struct figure *f, FILE *to)
{
    const double line = 1.35 * kvr_px_per_pt * f->small;
    double x = 10, y = f->height - 1.1 * f->font * kvr_px_per_pt - 6;

    for (int i = 0; i < f->n_title; i++, y -= 1.5 * f->font * kvr_px_per_pt)
        put_label(f, 1001 + i, f->title[i], x, y, 1.15 * f->font, "#222222", to);
    for (int k = 0; k < N_SHAPES; k++) {
        bool drawn = false;

        for (int i = 0; i < f->n; i++)
            drawn = drawn || f->point[i].shape == k;
        if (!drawn)
            continue;
        fprintf(to, "set label %d '' at screen %.5f, %.5f point pt %d ps 1 lc rgb '#555555'\n",
                1010 + k, (x + 5) / f->width, y / f->height, shapes[k].point_type);
        put_label(f, 1020 + k, k == PUBLISHED ? "published" : shapes[k].path, x + 14, y, f->small,
                  "#222222", to);
        x += 14 + (kvr_fig_ems(shapes[k].path) + 2) * f->small * kvr_px_per_pt;
    }
    if (!f->narrow)
        put_label(f, 1030, "colour: the method's family", x, y, f->small, "#222222", to);
    for (int i = 0; i < f->n_lines; i++)
        put_label(f, 1040 + i, f->line[i], 10, 8 + line * (f->n_lines - i - 0.5), f->small,
                  "#555555", to);
}

static void put_names(const struct figure *f, int panel, FILE *to)
{
    for (int i = 0; i < f->n; i++) {
        const struct kvr_label *l = &f->at[i];

        if (f->point[i].panel != panel)
            continue;
        put_label(f, 1 + i, f->point[i].text, l->left, l->bottom + 0.55 * f->small * kvr_px_per_pt,
                  f->small, f->point[i].rgb, to);
        if (l->leader)
            fprintf(to,
                    "set arrow %d from screen %.5f, %.5f to screen %.5f, %.5f nohead lw 0.6 lc rgb "
                    "'#9a9a9a'\n",
                    1 + i, l->x / f->width, l->y / f->height, l->end_x / f->width,
                    l->end_y / f->height);
    }
}

static void put_panel(const struct figure *f, int panel, FILE *to)
{
    const struct panel *p = &f->p[panel];

    fprintf(to,
            "set lmargin at screen %.5f\nset rmargin at screen %.5f\nset bmargin at screen %.5f\n"
            "set tmargin at screen %.5f\nset xrange [%.9g:%.9g]\nset xtics %.9g\n"
            "set yrange [0:%.9g]\nset ytics %.9g\nset xlabel '%s' font font textcolor rgb ink\n"
            "set ylabel 'peak memory (GiB)' font font textcolor rgb ink\n",
            p->left / f->width, p->right / f->width, p->bottom / f->height, p->top / f->height,
            p->lo, p->hi, p->step, p->mem, kvr_fig_step(p->mem, 5), p->label);
    put_names(f, panel, to);
    fprintf(to,
            "plot data using (column('panel') == %d ? column('seconds') : NaN):'gib':'shape':"
            "'colour' with points pt variable ps 1.1 lw 1.4 lc rgb variable\n"
            "unset label\nunset arrow\n",
            panel + 1);
}

static void put_script(const struct figure *f, unsigned formats, FILE *to)
{
    char font[32], small[32];

    snprintf(font, sizeof font, "%.4g", f->font);
    snprintf(small, sizeof small, "%.4g", f->small);
    kvr_statement_put(to, kvr_script_cost, KVR_WITH("font", font, "label", small, "stem", f->stem));
    for (int i = 0; i < KVR_N_PLOT_FORMATS; i++) {
        if (!kvr_script_output(to, formats, i, f->stem, f->width, f->height))
            continue;
        fputs("set multiplot\n", to);
        put_words(f, to);
        put_panel(f, CARD, to);
        if (f->n_panel[STUDY])
            put_panel(f, STUDY, to);
        fputs("unset multiplot\n", to);
    }
    fputs("unset output\n", to);
}

/* Writes the gnuplot script for the output formats in the bit mask `formats`. If `formats` is 0,
 * writes the script's data file instead. */
static enum kvr_status save(const struct figure *f, const char *dir, unsigned formats)
{
    char *text = NULL;
    size_t n = 0;
    FILE *to = kvr_text_open(&text, &n);
    enum kvr_status st;

    if (to && formats)
        put_script(f, formats, to);
    else if (to)
        put_data(f, to);
    if (!kvr_text_close(to, &text))
        return kvr_fail(KVR_ENOMEM, "plot cost: out of memory");
    st = kvr_script_save(dir, f->stem, formats ? ".gp" : ".tsv", text, n);
    free(text);
    return st;
}

/* Draws one figure from rows [f->from, f->to). If no row has both a runtime and a peak memory,
 * nothing is drawn. */
static enum kvr_status draw(struct figure *f, const char *out_dir, unsigned formats,
                            const struct kvr_plot_style *style, struct kvr_plot_result *r)
{
    char script[32];
    enum kvr_status st = add_points(f);

    if (st != KVR_OK || f->n == 0)
        return st;
    write_captions(f, style);
    lay_out(f);
    st = lay_out_panel(f, CARD);
    if (st == KVR_OK && f->n_panel[STUDY])
        st = lay_out_panel(f, STUDY);
    if (st == KVR_OK)
        st = kvr_mkdirs(out_dir);
    if (st == KVR_OK)
        st = save(f, out_dir, 0);
    if (st == KVR_OK)
        st = save(f, out_dir, formats);
    if (st != KVR_OK)
        return st;
    r->n_figures++;
    r->n_left_out -= f->n_panel[CARD];
    snprintf(script, sizeof script, "%s.gp", f->stem);
    return kvr_gnuplot_run(out_dir, script, &r->drawn, r->warning, sizeof r->warning);
}

enum kvr_status kvr_cost_plot(const struct kvr_table *rows, const char *out_dir, unsigned formats,
                              const struct kvr_plot_style *style, struct kvr_plot_result *r)
{
    enum kvr_status st = KVR_OK;

    *r = (struct kvr_plot_result){ .n_rows = rows->n_rows,
                                   .n_left_out = rows->n_rows,
                                   .stem = "cost" };
    for (int from = 0, to; st == KVR_OK && from < rows->n_rows; from = to) {
        char stem[24] = "cost";
        struct figure f = { .t = rows, .stem = stem, .from = from };

        for (to = from + 1; to < rows->n_rows &&
                            !strcmp(text(rows, from, "settings"), text(rows, to, "settings"));)
            to++;
        if (r->n_figures)
            snprintf(stem, sizeof stem, "cost-%d", r->n_figures + 1);
        f.to = to;
        f.narrow = kvr_fig_is_narrow(style);
        f.width = 96 * (style->width_in > 0 ? style->width_in : 1000.0 / 96);
        f.font = style->font_pt > 0 ? style->font_pt : style->width_in > 0 ? 8 : 10;
        f.small = fmax(7, 0.82 * f.font);
        st = draw(&f, out_dir, formats, style, r);
        free(f.point);
        free(f.at);
    }
    if (st == KVR_OK && r->n_figures == 0)
        st = kvr_fail(KVR_EINVAL,
                      "plot cost: nothing to draw: none of %d measured or published methods has "
                      "both a time and a peak memory",
                      rows->n_rows);
    return st;
}
