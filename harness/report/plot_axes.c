/* plot_axes.c - where axes begin and end, and their ticks. */
#include <math.h>

#include "harness/report/figure.h"

static double forward(const struct kvr_fig_axis *a, double v)
{
    return a->spec->log ? log2(v) : v;
}

double kvr_fig_px(const struct kvr_fig_axis *a, double v, int lo_px, int hi_px)
{
    double u0 = forward(a, a->lo), u1 = forward(a, a->hi);

    return lo_px + (forward(a, v) - u0) / (u1 - u0) * (hi_px - lo_px);
}

double kvr_fig_value(const struct kvr_fig_axis *a, double px, int lo_px, int hi_px)
{
    double u0 = forward(a, a->lo), u1 = forward(a, a->hi);
    double u = u0 + (px - lo_px) / (hi_px - lo_px) * (u1 - u0);

    return a->spec->log ? exp2(u) : u;
}

static void add_tick(struct kvr_fig_axis *a, double v)
{
    if (v >= a->lo && v <= a->hi && a->n_ticks < KVR_FIG_MAX_TICKS)
        a->tick[a->n_ticks++] = v;
}

/* 1, 2 or 5 times a power of ten, so that five to ten ticks fit. */
static void linear_ticks(struct kvr_fig_axis *a)
{
    double raw = (a->hi - a->lo) / 8.0, p = pow(10.0, floor(log10(raw)));
    double step = raw <= p ? p : raw <= 2 * p ? 2 * p : raw <= 5 * p ? 5 * p : 10 * p;

    for (double k = ceil(a->lo / step - 1e-9); k * step <= a->hi * (1 + 1e-12); k++)
        add_tick(a, k == 0.0 ? 0.0 : k * step); /* no -0 */
}

/* Round numbers of a decade; the finer ones only where the axis is short. */
static void log_ticks(struct kvr_fig_axis *a)
{
    static const double fine[] = { 1, 1.5, 2, 3, 4, 5, 6, 8 };
    static const double coarse[] = { 1, 2, 5 };
    bool is_short = a->hi / a->lo <= 40.0;
    const double *digits = is_short ? fine : coarse;
    int n = is_short ? 8 : 3;

    for (double p = pow(10.0, floor(log10(a->lo))); p <= a->hi; p *= 10.0)
        for (int i = 0; i < n; i++)
            add_tick(a, digits[i] * p);
}

/* A margin keeps marks and names off the frame. Beyond the axis's own end (an SSIM of 1) only
 * a sliver is shown. */
static void fit(struct kvr_fig_axis *a, double lo, double hi)
{
    const struct kvr_plot_axis *s = a->spec;
    double margin;

    if (s->log) {
        margin = fmax(0.10 * log2(hi / lo), 0.2);
        a->lo = exp2(log2(lo) - margin);
        a->hi = exp2(log2(hi) + margin);
        log_ticks(a);
        return;
    }
    margin = fmax(0.08 * (hi - lo), fmax(1e-3 * fmax(fabs(lo), fabs(hi)), 1e-6));
    a->lo = lo - margin;
    a->hi = hi + margin;
    if (s->lo < s->hi) {
        a->lo = fmax(a->lo, s->lo - 0.4 * margin);
        a->hi = fmin(a->hi, s->hi + 0.4 * margin);
    }
    linear_ticks(a);
}

void kvr_fig_axes(struct kvr_figure *f)
{
    double x0 = INFINITY, x1 = -INFINITY, y0 = INFINITY, y1 = -INFINITY;

    for (int i = 0; i < f->n; i++) {
        if (!f->point[i].drawn)
            continue;
        x0 = fmin(x0, f->point[i].x);
        x1 = fmax(x1, f->point[i].x);
        y0 = fmin(y0, f->point[i].y);
        y1 = fmax(y1, f->point[i].y);
    }
    f->x = (struct kvr_fig_axis){ .spec = &f->spec->x };
    f->y = (struct kvr_fig_axis){ .spec = &f->spec->y };
    fit(&f->x, x0, x1);
    fit(&f->y, y0, y1);
}
