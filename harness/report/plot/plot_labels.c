/* plot_labels.c - selects the points of a scatter plot that have labels, and places the labels so
 * that they fit. labels.c chooses the positions. */
#include <math.h>
#include <stdlib.h>

#include "harness/report/plot/figure.h"
#include "harness/report/plot/script.h"

static enum kvr_status no_memory(void)
{
    return kvr_fail(KVR_ENOMEM, "plot: out of memory");
}

int kvr_fig_count_unnamed(const struct kvr_figure *f)
{
    int n = 0;

    for (int i = 0; i < f->n; i++)
        n += f->point[i].drawn && !f->point[i].named;
    return n;
}

/* Selects the points to label, and returns their number. If there are too many points, only the
 * corners of the Pareto front, the baseline and isolated points are labelled. */
static int choose_names(struct kvr_figure *f, int n_drawn, const double *px, const double *py)
{
    const double line = f->at.label * kvr_px_per_pt;
    const double area = (f->at.right - f->at.left) * (f->at.top - f->at.bottom);
    const int all_up_to = (int)(area / (61.0 * line * line));
    int n = 0;

    for (int i = 0; i < n_drawn; i++) {
        struct kvr_fig_point *p = &f->point[i];
        bool alone = true;

        /* x distances count a quarter, because names are wider than high. */
        for (int j = 0; j < n_drawn && alone; j++)
            alone = j == i || hypot((px[i] - px[j]) / 4.0, py[i] - py[j]) > line;
        p->named = n_drawn <= all_up_to || p->corner || p->baseline || alone;
        n += p->named;
    }
    return n;
}

static bool overlap(const struct kvr_label *a, const struct kvr_label *b, double height)
{
    double w = fmin(a->left + a->width, b->left + b->width) - fmax(a->left, b->left);
    double h = fmin(a->bottom, b->bottom) + height - fmax(a->bottom, b->bottom);

    return w > 1 && h > 0.1 * height;
}

/* Removes labels that overlap other labels or points. The first pass keeps the labels of the
 * baseline and of the Pareto front's corners. The second pass also removes these labels if they
 * overlap. */
static void drop_covered(struct kvr_figure *f, int n_drawn, const struct kvr_label_field *field)
{
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < n_drawn; i++) {
            struct kvr_fig_point *p = &f->point[i];
            const struct kvr_label *l = &f->label[i];
            bool covers = l->left < field->left - 1 || l->left + l->width > field->right + 1;

            if (!p->named || (pass == 0 && (p->corner || p->baseline)))
                continue;
            covers = covers || (pass == 0 && l->elsewhere);
            for (int j = 0; j < n_drawn && !covers; j++)
                covers = j != i && f->point[j].named && overlap(l, &f->label[j], field->height);
            for (int j = 0; j < field->n_points && !covers; j++)
                covers = j != i && field->px[j] > l->left - 2 &&
                         field->px[j] < l->left + l->width + 2 && field->py[j] > l->bottom &&
                         field->py[j] < l->bottom + field->height;
            p->named = !covers;
        }
}

/* Computes the positions of the selected labels. */
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

enum { TEXT_ROWS = 3, TEXT_COLUMNS = 64 };

/* Makes labels avoid the text at the line of the chaos floor. For this purpose, it appends points
 * on the text to px and py after the first `n`. Returns the new number of points. */
static int add_floor_text(const struct kvr_figure *f, int n, double *px, double *py)
{
    const double line = f->at.label * kvr_px_per_pt, graph = f->at.right - f->at.left;
    double floor, width, middle;
    const char *text = kvr_fig_floor(f, &floor);

    if (!text)
        return n;
    width = line * kvr_fig_ems(text);
    middle =
        kvr_fig_px(&f->y, floor, f->at.bottom, f->at.top) - 0.6 * 1.25 * f->at.font * kvr_px_per_pt;
    for (int i = 0; i < TEXT_ROWS * TEXT_COLUMNS; i++, n++) {
        px[n] = f->at.left + 0.99 * graph - width * (i % TEXT_COLUMNS) / (TEXT_COLUMNS - 1);
        py[n] = middle + (i / TEXT_COLUMNS - 1) * 0.5 * line;
    }
    return n;
}

/* Returns the pixel position of a value, clamped to the frame. */
static double within(const struct kvr_fig_axis *a, double v, double lo_px, double hi_px)
{
    return kvr_fig_px(a, fmin(fmax(v, a->lo), a->hi), lo_px, hi_px);
}

/* Adds the interval bars of the point at pixel (x, y) and returns their number. */
static int add_bars(const struct kvr_figure *f, const struct kvr_fig_point *p, double x, double y,
                    struct kvr_line *out)
{
    int n = 0;

    if (p->bar && p->y_hi > p->y_lo)
        out[n++] = (struct kvr_line){ x, within(&f->y, p->y_lo, f->at.bottom, f->at.top), x,
                                      within(&f->y, p->y_hi, f->at.bottom, f->at.top) };
    if (p->bar && p->x_hi > p->x_lo)
        out[n++] = (struct kvr_line){ within(&f->x, p->x_lo, f->at.left, f->at.right), y,
                                      within(&f->x, p->x_hi, f->at.left, f->at.right), y };
    return n;
}

/* Computes the input of the label placement for n_drawn points. It consists of the labels' widths,
 * the points in pixels (`px`, `py`), the interval bars, and the lines of the front. */
static void put_marks(struct kvr_figure *f, int n_drawn, double *px, double *py,
                      struct kvr_line *lines, struct kvr_line *bars, struct kvr_label_field *field)
{
    int last = -1;

    for (int i = 0; i < n_drawn; i++) {
        const struct kvr_fig_point *p = &f->point[i];

        px[i] = kvr_fig_px(&f->x, p->x, f->at.left, f->at.right);
        py[i] = kvr_fig_px(&f->y, p->y, f->at.bottom, f->at.top);
        f->label[i] = (struct kvr_label){ .x = px[i],
                                          .y = py[i],
                                          /* includes a gap to the next label in the same row */
                                          .width = f->at.label * kvr_px_per_pt *
                                                   (kvr_fig_ems(p->text) + 0.7) };
        field->n_bars += add_bars(f, p, px[i], py[i], &bars[field->n_bars]);
        if (!p->corner)
            continue;
        /* adds the horizontal and the vertical line between the last two corners of the Pareto
         * front */
        if (last >= 0) {
            bool down_first = f->spec->x.better > 0;
            double cx = down_first ? px[last] : px[i], cy = down_first ? py[i] : py[last];

            lines[field->n_lines++] = (struct kvr_line){ px[last], py[last], cx, cy };
            lines[field->n_lines++] = (struct kvr_line){ cx, cy, px[i], py[i] };
        }
        last = i;
    }
}

enum { TRY_ALL_UP_TO = 30 };

/* Adds labels to the points from `from` to `to` - 1 and places all labels again. If one does not
 * fit, the function restores the former labels. */
static enum kvr_status try_names(struct kvr_figure *f, int n_drawn, int from, int to,
                                 const struct kvr_label_field *field)
{
    bool named[TRY_ALL_UP_TO];
    struct kvr_label labels[TRY_ALL_UP_TO];
    int n = 0;
    enum kvr_status st;

    for (int i = 0; i < n_drawn; i++) {
        named[i] = f->point[i].named;
        labels[i] = f->label[i];
        f->point[i].named = named[i] || (i >= from && i < to);
        n += f->point[i].named;
    }
    st = place_named(f, n_drawn, n, field);
    if (st == KVR_OK)
        drop_covered(f, n_drawn, field);
    for (int i = 0; i < n_drawn; i++)
        n -= f->point[i].named;
    for (int i = 0; n > 0 && i < n_drawn; i++) {
        f->point[i].named = named[i];
        f->label[i] = labels[i];
    }
    return st;
}

/* In a figure of at most TRY_ALL_UP_TO points, adds labels to the points without one. If not all
 * labels fit, the function adds one after the other, as many as fit. */
static enum kvr_status name_rest(struct kvr_figure *f, int n_drawn,
                                 const struct kvr_label_field *field)
{
    enum kvr_status st = KVR_OK;

    if (n_drawn > TRY_ALL_UP_TO || !kvr_fig_count_unnamed(f))
        return KVR_OK;
    st = try_names(f, n_drawn, 0, n_drawn, field);
    for (int i = 0; st == KVR_OK && i < n_drawn; i++)
        if (!f->point[i].named)
            st = try_names(f, n_drawn, i, i + 1, field);
    return st;
}

enum kvr_status kvr_fig_place_labels(struct kvr_figure *f)
{
    struct kvr_label_field field = { .left = f->at.left + 4,
                                     .right = f->at.right - 2,
                                     .bottom = f->at.bottom + 2,
                                     .top = f->at.top - 2,
                                     .height = 1.17 * f->at.label * kvr_px_per_pt,
                                     .radius = f->at.mark };
    size_t n = (size_t)f->n;
    double *px = calloc(n + TEXT_ROWS * TEXT_COLUMNS, sizeof *px);
    double *py = calloc(n + TEXT_ROWS * TEXT_COLUMNS, sizeof *py);
    struct kvr_line *lines = calloc(2 * n, sizeof *lines), *bars = calloc(2 * n, sizeof *bars);
    struct kvr_label *labels = calloc(n, sizeof *labels);
    int n_drawn = 0;
    enum kvr_status st;

    free(f->label);
    f->label = labels;
    if (!px || !py || !lines || !bars || !labels) {
        free(px);
        free(py);
        free(lines);
        free(bars);
        return no_memory();
    }
    while (n_drawn < f->n && f->point[n_drawn].drawn)
        n_drawn++;
    put_marks(f, n_drawn, px, py, lines, bars, &field);
    field.n_marks = n_drawn;
    field.n_points = add_floor_text(f, n_drawn, px, py);
    field.px = px;
    field.py = py;
    field.lines = lines;
    field.bars = bars;
    st = place_named(f, n_drawn, choose_names(f, n_drawn, px, py), &field);
    if (st == KVR_OK)
        drop_covered(f, n_drawn, &field);
    if (st == KVR_OK)
        st = name_rest(f, n_drawn, &field);
    free(px);
    free(py);
    free(lines);
    free(bars);
    return st;
}
