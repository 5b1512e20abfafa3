/* gauss.c - separable: rows are filtered once and kept for as long as a window needs them. In
 * double, because E[x^2] - E[x]^2 cancels. */
#include "metrics/gauss.h"

#include <math.h>
#include <stdlib.h>

#include "metrics/frames.h"

enum { WIN = KVR_GAUSS_WINDOW, MAPS = 5 }; /* x, y, xx, yy, xy */

#define C1 (0.01 * 255.0 * 0.01 * 255.0)
#define C2 (0.03 * 255.0 * 0.03 * 255.0)

struct work {
    double g[WIN];
    double *row;             /* [MAPS, width]: one row and its products */
    double *kept;            /* [WIN, MAPS, n_win]: the newest rows, filtered along x */
    double *sum;             /* [MAPS, n_win]: filtered along both */
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
    w->kept = w->row + MAPS * width;
    w->sum = w->kept + WIN * MAPS * n_win;
    w->ssim = w->sum + MAPS * n_win;
    w->contrast = w->ssim + n_win;
    return true;
}

static void filter_row(struct work *w, const float *a, const float *b, int width, int n_win, int y)
{
    double *restrict r = w->row;
    double *out = w->kept + (size_t)(y % WIN) * MAPS * (size_t)n_win;

    for (int x = 0; x < width; x++) {
        double p = (double)a[x], q = (double)b[x];

        r[x] = p;
        r[width + x] = q;
        r[2 * width + x] = p * p;
        r[3 * width + x] = q * q;
        r[4 * width + x] = p * q;
    }
    for (int m = 0; m < MAPS; m++) {
        const double *in = r + (size_t)m * (size_t)width;
        double *restrict o = out + (size_t)m * (size_t)n_win;

        for (int x = 0; x < n_win; x++) {
            double s = 0.0;

            for (int k = 0; k < WIN; k++)
                s += w->g[k] * in[x + k];
            o[x] = s;
        }
    }
}

/* The window whose last row is y. */
static void filter_column(struct work *w, int n_win, int y)
{
    double *restrict o = w->sum;
    const int n = MAPS * n_win;

    for (int x = 0; x < n; x++)
        o[x] = 0.0;
    for (int k = 0; k < WIN; k++) {
        const double *in = w->kept + (size_t)((y + 1 + k) % WIN) * (size_t)n;
        const double g = w->g[k];

        for (int x = 0; x < n; x++)
            o[x] += g * in[x];
    }
}

static void ssim_row(struct work *w, int n_win)
{
    const double *mx = w->sum, *my = mx + n_win, *xx = my + n_win, *yy = xx + n_win,
                 *xy = yy + n_win;
    double *restrict ssim = w->ssim, *restrict contrast = w->contrast;

    for (int x = 0; x < n_win; x++) {
        double sx = xx[x] - mx[x] * mx[x], sy = yy[x] - my[x] * my[x];
        double cs = (2.0 * (xy[x] - mx[x] * my[x]) + C2) / (sx + sy + C2);

        contrast[x] = cs;
        ssim[x] = cs * (2.0 * mx[x] * my[x] + C1) / (mx[x] * mx[x] + my[x] * my[x] + C1);
    }
}

bool kvr_gauss_ssim(const float *a, const float *b, int height, int width,
                    struct kvr_gauss_means *out)
{
    const int n_win = width - WIN + 1;
    const double n = (double)n_win * (height - WIN + 1);
    struct work w;

    if (!work_alloc(&w, (size_t)width, (size_t)n_win))
        return false;
    out->ssim = out->contrast = 0.0;
    for (int y = 0; y < height; y++) {
        filter_row(&w, a + (size_t)y * (size_t)width, b + (size_t)y * (size_t)width, width, n_win,
                   y);
        if (y < WIN - 1)
            continue;
        filter_column(&w, n_win, y);
        ssim_row(&w, n_win);
        out->ssim += kvr_sum(w.ssim, n_win);
        out->contrast += kvr_sum(w.contrast, n_win);
    }
    /* Rounding may leave identical planes an ulp above 1. */
    out->ssim = fmin(out->ssim / n, 1.0);
    out->contrast = fmin(out->contrast / n, 1.0);
    free(w.memory);
    return true;
}
