/* plot_layout.c - computes positions and text sizes for a figure of a given width. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/report/table/escape.h"
#include "harness/report/plot/figure.h"
#include "harness/report/plot/palette.h"
#include "harness/report/plot/script.h"

const struct kvr_fig_shape kvr_fig_shapes[] = {
    { 2.5, 11, "under 2.5" },     { 3.5, 9, "2.5 to 3.5" }, { 4.5, 13, "3.5 to 4.5" },
    { 6.0, 5, "4.5 to 6" },       { 10.0, 15, "6 to 10" },  { INFINITY, 7, "10 or more" },
    { INFINITY, 2, "not known" },
};

/* smallest text size in a printed figure, in points */
static const double least_pt = 7.0;
static const double screen_in = 1000.0 / 96.0;
/* average width of a character of text in ems */
static const double advance = 0.53;

double kvr_fig_ems(const char *text)
{
    double sum = 0;

    for (const char *c = text; *c; c++)
        if (((unsigned char)*c & 0xc0) != 0x80)
            sum += strchr("Iijl.,:;'|! ", *c) ? 0.31
                   : strchr("frt()-/", *c)    ? 0.39
                   : *c == '_'                ? 0.50
                   : strchr("MWmw@%", *c)     ? 0.88
                   : *c >= 'A' && *c <= 'Z'   ? 0.69
                                              : 0.63;
    return sum;
}

int kvr_fig_wrap(const char *text, int most, char lines[][KVR_FIG_LINE_MAX], int n)
{
    int count = 0;

    most = most < 8 ? 8 : most > KVR_FIG_LINE_MAX - 8 ? KVR_FIG_LINE_MAX - 8 : most;
    while (*text && count < n) {
        int len = (int)strlen(text), cut = len;

        if (len > most) {
            for (cut = most; cut > most / 3 && text[cut] != ' '; cut--)
                ;
            if (text[cut] != ' ') /* a word longer than the line is cut between characters */
                for (cut = most; cut > 1 && ((unsigned char)text[cut] & 0xc0) == 0x80; cut--)
                    ;
        }
        snprintf(lines[count++], KVR_FIG_LINE_MAX, "%.*s", cut, text);
        text += cut;
        while (*text == ' ')
            text++;
    }
    return count;
}

static void add_key(struct kvr_figure *f, const char *text, int point_type, const char *rgb)
{
    if (f->n_key == KVR_FIG_MAX_KEY)
        return;
    snprintf(f->key[f->n_key].text, sizeof f->key[0].text, "%s", text);
    f->key[f->n_key].point_type = point_type;
    f->key[f->n_key++].rgb = rgb;
}

static void make_key(struct kvr_figure *f)
{
    bool line = false, study = false;
    int n = 0;

    f->n_key = 0;
    for (int i = 0; i < f->n; i++) {
        n += f->point[i].drawn && f->point[i].corner;
        study = study || (f->point[i].drawn && f->point[i].study);
    }
    line = n > 1;
    if (line)
        add_key(f, kvr_table_find(f->rows, "verdict") < 0 ? "Pareto front" : "front of the means",
                -1, "#9a9a9a");
    for (int k = 0; k < f->n_families; k++)
        for (int i = 0; i < f->n; i++)
            if (f->point[i].drawn && !f->point[i].baseline && f->point[i].family == k) {
                add_key(f, f->family[k], 7, kvr_family_colour(f->family[k]));
                break;
            }
    add_key(f, "bits per element", 0, "#222222");
    for (int k = 0; k < KVR_FIG_N_SHAPES; k++)
        for (int i = 0; i < f->n; i++)
            if (f->point[i].drawn && f->point[i].shape == k) {
                add_key(f, kvr_fig_shapes[k].title, kvr_fig_shapes[k].point_type, "#777777");
                break;
            }
    if (f->spec->x.of)
        add_key(f, "equal on both", -2, "#9a9a9a");
    if (study)
        add_key(f, "hollow: the study's", 6, "#777777");
}

int kvr_fig_key_rows(const struct kvr_figure *f)
{
    /* A heading at the end of a legend column moves to the next column and leaves one line
     * empty. */
    const int n = f->n_key + (f->at.key_columns > 1);

    return (n + f->at.key_columns - 1) / f->at.key_columns;
}

static double font_of(const struct kvr_plot_style *s)
{
    return s->font_pt > 0 ? s->font_pt : s->width_in > 0 ? 8.0 : 12.0;
}

static double width_of(const struct kvr_plot_style *s)
{
    return 96.0 * (s->width_in > 0 ? s->width_in : screen_in);
}

bool kvr_fig_is_narrow(const struct kvr_plot_style *s)
{
    return width_of(s) < 45 * font_of(s) * kvr_px_per_pt;
}

void kvr_fig_lay_out(struct kvr_figure *f)
{
    const struct kvr_plot_style *s = f->style;
    struct kvr_fig_layout *at = &f->at;
    const char *title = s->title ? s->title : f->spec->title;
    double em, key_px, key_width = 0, below = 0, plot_height;
    int longest = 0, widest = 3;
    char tick[32];

    make_key(f);
    at->width = width_of(s);
    at->font = font_of(s);
    at->label = fmax(least_pt, 0.75 * at->font);
    at->note = at->label;
    at->key = fmax(least_pt, 0.92 * at->font);
    at->title = 1.25 * at->font;
    at->mark = 0.375 * at->font * kvr_px_per_pt;
    em = at->font * kvr_px_per_pt;
    key_px = at->key * kvr_px_per_pt;
    for (int i = 0; i < f->n_key; i++)
        longest =
            kvr_escape_width(f->key[i].text) > longest ? kvr_escape_width(f->key[i].text) : longest;
    key_width = key_px * (1.9 + 0.58 * longest);
    at->key_below = kvr_fig_is_narrow(s);
    f->n_notes = 0;
    for (int i = 0; i < 2; i++)
        f->n_notes += kvr_fig_wrap(f->caption[i],
                                   (int)(0.96 * at->width / (advance * at->note * kvr_px_per_pt)),
                                   &f->note[f->n_notes], KVR_FIG_MAX_NOTES / 2);
    f->n_title = kvr_fig_wrap(title, (int)(0.96 * at->width / (0.56 * at->title * kvr_px_per_pt)),
                              f->title, 2);
    for (int i = 0; i < f->y.n_ticks; i++) {
        int n = snprintf(tick, sizeof tick, "%.6g", f->y.tick[i]);

        widest = n > widest ? n : widest;
    }
    at->left = em * (2.9 + 0.6 * widest);
    at->right = at->key_below ? at->width - 0.9 * em : at->width - key_width - 0.9 * em;
    at->key_columns = at->key_below ? (int)fmax(1, floor((at->width - em) / key_width)) : 1;
    at->key_column = at->key_below ? (at->width - em) / at->key_columns : key_width;
    plot_height = at->key_below ? 0.8 * (at->right - at->left) : 0.48 * at->width;
    at->bottom = 0.5 * em + f->n_notes * 1.36 * at->note * kvr_px_per_pt + 3.6 * em;
    if (at->key_below)
        below = kvr_fig_key_rows(f) * 1.45 * key_px + 0.5 * em;
    at->bottom += below;
    at->top = at->bottom + plot_height;
    at->height =
        at->top + (f->n_title ? (0.9 + 1.35 * f->n_title) * at->title * kvr_px_per_pt : 0.8 * em);
    at->key_top = at->key_below ? at->bottom - 3.6 * em : at->top - 0.5 * em;
}
