/* gauss.c - SSIM over a Gaussian window, by a separable filter. A ring buffer stores the last WIN
 * image rows after the filter along x. Sums are in double, because the variance E[x^2] - E[x]^2
 * loses precision by cancellation. */
#include "metrics/gauss.h"

#include <math.h>
#include <stdlib.h>

#include "metrics/frames.h"
#include "metrics/kernels.h"

enum { WIN = KVR_GAUSS_WINDOW, MAPS = 5 }; /* MAPS: x, y, xx, yy, xy */

/* The five maps are the planes x and y and their pixelwise products xx, yy and xy. n_win is the
 * number of windows per row. */
struct work {
    double g[WIN];
    double *row;             /* [MAPS, width]: one row of the maps */
    double *ring;            /* [WIN, MAPS, n_win]: last WIN rows of the maps, filtered along x */
    double *sum;             /* [MAPS, n_win]: one row of the maps, filtered along x and y */
    double *ssim, *contrast; /* [n_win] */
    void *memory;
};

static bool work_alloc(struct work *w, size_t width, size_t n_win)
{
    double total = 0.0, *p = malloc((MAPS * width + (WIN * MAPS + MAPS + 2) * n_win) * sizeof *p);

    if (!p)
        return false;
    for (int i = 0; i < WIN; i++)
        total += w->g[i] = exp(-(i - WIN / 2) * (i - WIN / 2) / (2.0 * 1.5 * 1.5));
    for (int i = 0; i < WIN; i++)
        w->g[i] /= total;
    w->memory = w->row = p;
    w->ring = w->row + MAPS * width;
    w->sum = w->ring + WIN * MAPS * n_win;
    w->ssim = w->sum + MAPS * n_win;
    w->contrast = w->ssim + n_win;
    return true;
}

static void filter_row(const struct kvr_metric_kernels *k, struct work *w, const float *a,
                       const float *b, int width, int n_win, int y)
{
    double *out = w->ring + (size_t)(y % WIN) * MAPS * (size_t)n_win;

    k->gauss_products(a, b, width, w->row);
    for (int m = 0; m < MAPS; m++)
        k->gauss_along(w->g, w->row + (size_t)m * (size_t)width, n_win,
                       out + (size_t)m * (size_t)n_win);
}

/* Filters rows y - WIN + 1 .. y along y. */
static void filter_column(const struct kvr_metric_kernels *k, struct work *w, int n_win, int y)
{
    const double *rows[WIN];
    const int n = MAPS * n_win;

    for (int i = 0; i < WIN; i++)
        rows[i] = w->ring + (size_t)((y + 1 + i) % WIN) * (size_t)n;
    k->gauss_across(w->g, rows, n, w->sum);
}

bool kvr_gauss_ssim(const float *a, const float *b, int height, int width,
                    struct kvr_gauss_means *out)
{
    const int n_win = width - WIN + 1;
    const double n = (double)n_win * (height - WIN + 1);
    const struct kvr_metric_kernels *k = kvr_metric_kernels();
    struct work w;

    if (!work_alloc(&w, (size_t)width, (size_t)n_win))
        return false;
    out->ssim = out->contrast = 0.0;
    for (int y = 0; y < height; y++) {
        filter_row(k, &w, a + (size_t)y * (size_t)width, b + (size_t)y * (size_t)width, width,
                   n_win, y);
        if (y < WIN - 1)
            continue;
        filter_column(k, &w, n_win, y);
        k->gauss_map(w.sum, n_win, w.ssim, w.contrast);
        out->ssim += kvr_sum(w.ssim, n_win);
        out->contrast += kvr_sum(w.contrast, n_win);
    }
    /* Clamps to 1, because rounding can make the SSIM of identical planes slightly larger. */
    out->ssim = fmin(out->ssim / n, 1.0);
    out->contrast = fmin(out->contrast / n, 1.0);
    free(w.memory);
    return true;
}
