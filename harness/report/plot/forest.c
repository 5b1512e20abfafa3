/* forest.c - see forest.h. */
#include "harness/report/plot/forest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/memtext.h"
#include "harness/core/path.h"
#include "harness/report/table/escape.h"
#include "harness/report/plot/figure.h"
#include "harness/report/plot/gnuplot.h"
#include "harness/report/plot/script.h"
#include "harness/store/statement.h"

KVR_SCRIPT(forest);

/* Colours of the verdicts, indexed by enum kvr_claim_verdict: three of Okabe and Ito's palette, and
 * greys for `futile` claims and claims without a verdict. */
static const char *const colours[KVR_N_CLAIM_VERDICTS] = { "#009E73", "#D55E00", "#0072B2",
                                                           "#8a8a8a", "#bbbbbb" };
/* Order of the verdicts in the figure, from the top. */
static const enum kvr_claim_verdict order[KVR_N_CLAIM_VERDICTS] = {
    KVR_CLAIM_HOLDS, KVR_CLAIM_EQUAL, KVR_CLAIM_NOT, KVR_CLAIM_FUTILE, KVR_CLAIM_OPEN
};

struct forest {
    const struct kvr_ledger *l;
    int n;
    const struct kvr_claim **claim; /* owned array [n], in the order of the rows from the top */
    double width, height, left, right, bottom, top, font, label; /* pixels; points */
    double reach; /* end of the axis, which ranges from -reach to reach; see to_axis() */
};

/* Returns the position on the axis of an estimate u, in margins. The axis is logarithmic on both
 * sides of 0. */
static double to_axis(double u)
{
    return copysign(log10(1 + fabs(u)), u);
}

static int rank_of(enum kvr_claim_verdict v)
{
    int i = 0;

    while (order[i] != v)
        i++;
    return i;
}

static int by_verdict(const void *a, const void *b)
{
    const struct kvr_claim *x = *(const struct kvr_claim *const *)a,
                           *y = *(const struct kvr_claim *const *)b;
    const double u = x->figure / x->margin, v = y->figure / y->margin;

    if (x->verdict != y->verdict)
        return rank_of(x->verdict) - rank_of(y->verdict);
    return u != v ? (u < v) - (u > v) : strcmp(x->id, y->id);
}

static enum kvr_status choose(struct forest *f)
{
    f->claim = calloc((size_t)f->l->n_claims + 1, sizeof(const struct kvr_claim *));
    if (!f->claim)
        return kvr_fail(KVR_ENOMEM, "forest: out of memory");
    for (int i = 0; i < f->l->n_claims; i++) {
        const struct kvr_claim *c = &f->l->claim[i];

        if (c->tested && c->margin > 0 && c->s.n >= KVR_SEQUENCE_MIN)
            f->claim[f->n++] = c;
    }
    if (f->n == 0)
        return kvr_fail(KVR_EINVAL,
                        "plot claims: the database has too few prompts for an interval of "
                        "any claim; `kvreel settle all` measures more");
    qsort(f->claim, (size_t)f->n, sizeof(const struct kvr_claim *), by_verdict);
    return KVR_OK;
}

/* Writes the text at the right of a row, such as "+0.031 ssim, n 16". */
static void figure_text(const struct kvr_claim *c, char *text, size_t n)
{
    snprintf(text, n, "%+.3g %.20s, n %d", c->figure, c->metric, c->s.n);
}

static double figure_font(const struct forest *f)
{
    return fmax(6.5, 0.85 * f->label);
}

/* Computes the layout. The unit of the axis is a claim's equivalence margin. The axis extends to
 * 1.3 times the largest estimate, but at least to 10 and at most to 10 000 margins. */
static void lay_out(struct forest *f, const struct kvr_plot_style *style)
{
    const double row = 1.25;
    double names = 0, figures = 0, far = 10;
    char text[96];

    f->width = 96 * (style->width_in > 0 ? style->width_in : 1000.0 / 96);
    f->font = style->font_pt > 0 ? style->font_pt : style->width_in > 0 ? 8 : 10;
    f->label = fmax(7, 0.8 * f->font);
    for (int i = 0; i < f->n; i++) {
        names = fmax(names, kvr_fig_ems(f->claim[i]->id));
        figure_text(f->claim[i], text, sizeof text);
        figures = fmax(figures, kvr_fig_ems(text));
        far = fmax(far, fmin(1e4, 1.3 * fabs(f->claim[i]->figure / f->claim[i]->margin)));
    }
    f->reach = to_axis(far);
    f->left = (names + 1) * f->label * kvr_px_per_pt;
    f->right = (figures + 2) * figure_font(f) * kvr_px_per_pt;
    f->top = 4.2 * f->font * kvr_px_per_pt;
    f->bottom = 4.5 * f->font * kvr_px_per_pt;
    f->height = f->top + f->bottom + f->n * row * f->label * kvr_px_per_pt;
}

/* --- files ------------------------------------------------------------------------------ */

static void put_data(const struct forest *f, FILE *to)
{
    fputs("row\tid\tverdict\tcolour\tfigure\tlo\thi\tmargin\tpublished\tn\n", to);
    for (int i = 0; i < f->n; i++) {
        const struct kvr_claim *c = f->claim[i];
        /* an infinite end of the interval is drawn up to the frame */
        const double wide = 1e6 * c->margin;

        fprintf(to, "%d\t", i + 1);
        kvr_escape_tsv(to, c->id);
        fprintf(to, "\t%s\t%ld\t%.9g\t%.9g\t%.9g\t%.9g\t", kvr_claim_verdict_names[c->verdict],
                strtol(colours[c->verdict] + 1, NULL, 16), c->figure,
                isfinite(c->lo) ? c->lo : -wide, isfinite(c->hi) ? c->hi : wide, c->margin);
        if (isfinite(c->published))
            fprintf(to, "%.9g", c->published);
        else
            fputs("NaN", to);
        fprintf(to, "\t%d\n", c->s.n);
    }
}

static void put_ticks(const struct forest *f, FILE *to)
{
    fputs("set xtics ('0' 0", to);
    for (double u = 1; to_axis(u) <= f->reach; u *= 10)
        fprintf(to, ", '%g' s(%g), '-%g' s(-%g)", u, u, u, u);
    fputs(")\nset ytics (", to);
    for (int i = 0; i < f->n; i++) {
        fputs(i ? ", " : "", to);
        kvr_escape_gnuplot(to, f->claim[i]->id);
        fprintf(to, " %d", i + 1);
    }
    fputs(")\n", to);
}

static void put_figures(const struct forest *f, FILE *to)
{
    for (int i = 0; i < f->n; i++) {
        const struct kvr_claim *c = f->claim[i];
        char text[96];

        figure_text(c, text, sizeof text);
        fprintf(to, "set label %d ", i + 1);
        kvr_escape_gnuplot(to, text);
        fprintf(to,
                " at graph 1.01, first %d left font 'sans-serif,%.3g' textcolor rgb '#666666'\n",
                i + 1, figure_font(f));
    }
}

static void put_key(const struct forest *f, const char *title, FILE *to)
{
    double x = 0.02;

    fputs("set label 9001 ", to);
    kvr_escape_gnuplot(to, title);
    fprintf(to, " at screen 0.02, %.5f left font 'sans-serif,%.3g' textcolor rgb ink\n",
            1 - 1.4 * f->font * kvr_px_per_pt / f->height, 1.2 * f->font);
    for (int i = 0; i < KVR_N_CLAIM_VERDICTS; i++) {
        const enum kvr_claim_verdict v = order[i];
        char text[64];
        int n = 0;

        for (int k = 0; k < f->n; k++)
            n += f->claim[k]->verdict == v;
        if (n == 0)
            continue;
        snprintf(text, sizeof text, "%s %d",
                 v == KVR_CLAIM_OPEN ? "open" : kvr_claim_verdict_names[v], n);
        fprintf(to,
                "set label %d '%s' at screen %.4f, %.5f left font 'sans-serif,%.3g' textcolor rgb "
                "'%s'\n",
                9002 + i, text, x, 1 - 3.2 * f->font * kvr_px_per_pt / f->height, f->font,
                v == KVR_CLAIM_OPEN ? "#8a8a8a" : colours[v]);
        x += (kvr_fig_ems(text) + 2) * f->font * kvr_px_per_pt / f->width;
    }
    fprintf(to,
            "set label 9010 '| published    band: equal' at screen %.4f, %.5f left font "
            "'sans-serif,%.3g' textcolor rgb ink\n",
            x, 1 - 3.2 * f->font * kvr_px_per_pt / f->height, f->font);
}

static void put_number(char *out, size_t n, double x)
{
    snprintf(out, n, "%.5g", x);
}

static void put_script(const struct forest *f, unsigned formats, const char *title, FILE *to)
{
    static const char plot[] =
        "x(name) = in(column(name) / column('margin'))\n"
        "plot data using (x('lo')):'row':(x('hi') - x('lo')):(0):'colour' with vectors nohead lw "
        "1.4 "
        "lc rgb variable, \\\n"
        "     data using (x('figure')):'row':'colour' with points pt 7 ps 0.8 lc rgb variable, \\\n"
        "     data using (x('published')):(column('row') - 0.36):(0):(0.72) with vectors nohead lw "
        "1.8 lc rgb ink\n";
    char left[32], right[32], bottom[32], top[32], reach[32], rows[32], font[32], label[32];
    bool first = true;

    put_number(left, sizeof left, f->left / f->width);
    put_number(right, sizeof right, 1 - f->right / f->width);
    put_number(bottom, sizeof bottom, f->bottom / f->height);
    put_number(top, sizeof top, 1 - f->top / f->height);
    put_number(reach, sizeof reach, f->reach);
    put_number(rows, sizeof rows, f->n);
    put_number(font, sizeof font, f->font);
    put_number(label, sizeof label, f->label);
    kvr_statement_put(to, kvr_script_forest,
                      KVR_WITH("left", left, "right", right, "bottom", bottom, "top", top, "reach",
                               reach, "rows", rows, "font", font, "label", label));
    put_ticks(f, to);
    put_figures(f, to);
    put_key(f, title, to);
    for (int i = 0; i < KVR_N_PLOT_FORMATS; i++) {
        if (!kvr_script_output(to, formats, i, "claims", f->width, f->height))
            continue;
        fputs(first ? plot : "replot\n", to);
        first = false;
    }
    fputs("unset output\n", to);
}

static enum kvr_status write_files(const struct forest *f, const char *dir, unsigned formats,
                                   const char *title)
{
    char *text = NULL;
    size_t n = 0;
    FILE *to = kvr_text_open(&text, &n);
    enum kvr_status st;

    if (to)
        put_data(f, to);
    if (!kvr_text_close(to, &text))
        return kvr_fail(KVR_ENOMEM, "forest: out of memory");
    st = kvr_script_save(dir, "claims", ".tsv", text, n);
    free(text);
    KVR_TRY(st);
    to = kvr_text_open(&text, &n);
    if (to)
        put_script(f, formats, title, to);
    if (!kvr_text_close(to, &text))
        return kvr_fail(KVR_ENOMEM, "forest: out of memory");
    st = kvr_script_save(dir, "claims", ".gp", text, n);
    free(text);
    return st;
}

enum kvr_status kvr_forest(const struct kvr_ledger *l, const char *out_dir, unsigned formats,
                           const struct kvr_plot_style *style, struct kvr_plot_result *r)
{
    struct forest f = { .l = l };
    enum kvr_status st = choose(&f);

    *r = (struct kvr_plot_result){ .n_rows = l->n_tested,
                                   .n_left_out = l->n_tested - f.n,
                                   .stem = "claims" };
    if (st == KVR_OK) {
        lay_out(&f, style);
        st = kvr_mkdirs(out_dir);
    }
    if (st == KVR_OK)
        st = write_files(&f, out_dir, formats,
                         style->title ? style->title
                                      : "Claims of papers about KV caches, tested here");
    if (st == KVR_OK) {
        r->n_figures = 1;
        st = kvr_gnuplot_run(out_dir, "claims.gp", &r->drawn, r->warning, sizeof r->warning);
    }
    free(f.claim);
    return st;
}
