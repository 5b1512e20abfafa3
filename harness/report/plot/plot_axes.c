/* plot_axes.c - computes the ranges and ticks of axes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/plot/figure.h"

static double forward(const struct kvr_fig_axis *a, double v)
{
    if (a->cap > 0)
        return -log10(fmax(1.0 - v, a->cap));
    return a->spec->log ? log2(v) : v;
}

double kvr_fig_px(const struct kvr_fig_axis *a, double v, double lo_px, double hi_px)
{
    double u0 = forward(a, a->lo), u1 = forward(a, a->hi);

    return lo_px + (forward(a, v) - u0) / (u1 - u0) * (hi_px - lo_px);
}

double kvr_fig_drawn(const struct kvr_fig_axis *a, double v)
{
    return a->cap > 0 ? forward(a, v) : v;
}

double kvr_fig_value(const struct kvr_fig_axis *a, double px, double lo_px, double hi_px)
{
    double u0 = forward(a, a->lo), u1 = forward(a, a->hi);
    double u = u0 + (px - lo_px) / (hi_px - lo_px) * (u1 - u0);

    return a->cap <= 0 && a->spec->log ? exp2(u) : u;
}

static void add_tick(struct kvr_fig_axis *a, double v)
{
    if (v >= a->lo && v <= a->hi && a->n_ticks < KVR_FIG_MAX_TICKS)
        a->tick[a->n_ticks++] = v;
}

double kvr_fig_step(double span, int n)
{
    const double raw = span / n, p = pow(10.0, floor(log10(raw)));

    return raw <= p ? p : raw <= 2 * p ? 2 * p : raw <= 5 * p ? 5 * p : 10 * p;
}

/* Adds five to ten ticks. */
static void linear_ticks(struct kvr_fig_axis *a)
{
    const double step = kvr_fig_step(a->hi - a->lo, 8);

    for (double k = ceil(a->lo / step - 1e-9); k * step <= a->hi * (1 + 1e-12); k++)
        add_tick(a, k == 0.0 ? 0.0 : k * step); /* avoids -0 */
}

/* Adds ticks at round numbers in each decade, and at more numbers if the axis spans few decades. */
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

/* Adds ticks to a stretched axis, which is logarithmic in 1 - value. From 1 downwards, these are
 * numbers such as 0.999 and 0.995, as many as fit. */
static void stretched_ticks(struct kvr_fig_axis *a)
{
    static const double nines[] = { 0.99999, 0.99998, 0.99995, 0.9999, 0.9998, 0.9995, 0.999,
                                    0.998,   0.995,   0.99,    0.98,   0.95,   0.9,    0.8,
                                    0.7,     0.5,     0.3,     0,      -0.5,   -1 };
    const double step = (forward(a, 1.0) - forward(a, a->lo)) / (a->narrow ? 5.5 : 11.0);
    double last = 1.0;

    add_tick(a, 1.0);
    for (size_t i = 0; i < sizeof nines / sizeof nines[0]; i++)
        if (forward(a, last) - forward(a, nines[i]) >= step && nines[i] >= a->lo) {
            add_tick(a, nines[i]);
            last = nines[i];
        }
}

/* Returns whether the axis is stretched near 1, that is, logarithmic in 1 - value. An axis is
 * stretched if the metric's maximum is 1 and most values below 1 exceed 0.9. */
static bool is_near_one(const struct kvr_plot_axis *s, const double *v, int n)
{
    int below = 0, near = 0;

    for (int i = 0; i < n; i++) {
        below += v[i] < 1.0;
        near += v[i] > 0.9 && v[i] < 1.0;
    }
    return s->lo < s->hi && s->hi == 1.0 && below > 0 && 2 * near > below;
}

static void fit_stretched(struct kvr_fig_axis *a, const double *v, int n, double lo)
{
    double most = -INFINITY;

    for (int i = 0; i < n; i++)
        if (v[i] < 1.0)
            most = fmax(most, v[i]);
    a->cap = fmax(1e-7, 0.6 * (1.0 - most));
    a->lo = fmax(1.0 - 1.25 * (1.0 - lo), a->spec->lo - 0.1);
    a->hi = 1.0;
    stretched_ticks(a);
}

/* Sets the range of the axis to [lo, hi] and a margin for marks and labels. Beyond the metric's
 * limit, such as an SSIM of 1, the margin is smaller. */
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

/* Fits the axis to the values v [n] and to the ends of their error bars, ends [2 n]. At either end,
 * error bars extend a linear axis by at most 0.6 times the range of the values. Without this limit,
 * wide intervals, for example of two prompts, would compress the points. */
void kvr_fig_fit(struct kvr_fig_axis *a, const double *v, const double *ends, int n)
{
    double lo = INFINITY, hi = -INFINITY, reach, lo_end, hi_end;

    for (int i = 0; i < n; i++) {
        lo = fmin(lo, v[i]);
        hi = fmax(hi, v[i]);
    }
    lo_end = lo;
    hi_end = hi;
    for (int i = 0; i < 2 * n; i++)
        if (isfinite(ends[i]) && (!a->spec->log || ends[i] > 0)) {
            double e =
                a->spec->lo < a->spec->hi ? fmin(fmax(ends[i], a->spec->lo), a->spec->hi) : ends[i];

            lo_end = fmin(lo_end, e);
            hi_end = fmax(hi_end, e);
        }
    reach = 0.6 * (hi - lo);
    if (!a->spec->log) {
        lo_end = fmax(lo_end, lo - reach);
        hi_end = fmin(hi_end, hi + reach);
    }
    if (is_near_one(a->spec, v, n))
        fit_stretched(a, v, n, lo_end);
    else
        fit(a, lo_end, hi_end);
}

enum kvr_status kvr_fig_axes(struct kvr_figure *f)
{
    double *x = calloc(2 * (size_t)f->n + 1, sizeof *x), *y = calloc((size_t)f->n + 1, sizeof *y);
    double *x_ends = calloc(4 * (size_t)f->n + 1, sizeof *x_ends);
    double *y_ends = calloc(2 * (size_t)f->n + 1, sizeof *y_ends);
    enum kvr_status st =
        x && y && x_ends && y_ends ? KVR_OK : kvr_fail(KVR_ENOMEM, "plot: out of memory");
    int n = 0;

    f->x = (struct kvr_fig_axis){ .spec = &f->spec->x };
    f->y = (struct kvr_fig_axis){ .spec = &f->spec->y };
    f->x.narrow = kvr_fig_is_narrow(f->style);
    for (int i = 0; st == KVR_OK && i < f->n; i++) {
        const struct kvr_fig_point *p = &f->point[i];

        if (!p->drawn)
            continue;
        x[n] = p->x;
        y[n] = p->y;
        x_ends[2 * n] = p->bar ? p->x_lo : NAN;
        x_ends[2 * n + 1] = p->bar ? p->x_hi : NAN;
        y_ends[2 * n] = p->bar ? p->y_lo : NAN;
        y_ends[2 * n++ + 1] = p->bar ? p->y_hi : NAN;
    }
    /* Both axes show the same metric, so they get the same range. */
    if (n && f->spec->x.of && f->spec->y.of) {
        memcpy(x + n, y, (size_t)n * sizeof *x);
        memcpy(x_ends + 2 * n, y_ends, 2 * (size_t)n * sizeof *x_ends);
        kvr_fig_fit(&f->x, x, x_ends, 2 * n);
        f->y = f->x;
        f->y.spec = &f->spec->y;
    } else if (n) {
        kvr_fig_fit(&f->x, x, x_ends, n);
        kvr_fig_fit(&f->y, y, y_ends, n);
    }
    free(x);
    free(y);
    free(x_ends);
    free(y_ends);
    return st;
}
