/* ssim.c - structural similarity (Wang et al. 2004) with a 7x7 uniform window.
 *
 *     SSIM = (2 mx my + C1)(2 sxy + C2) / ((mx^2 + my^2 + C1)(sx^2 + sy^2 + C2))
 *
 *     C1 = (0.01 * 255)^2,  C2 = (0.03 * 255)^2
 *
 * mx and my are means over the window; sx^2, sy^2 and sxy are sample variances and covariance, with
 * denominator n - 1 = 48. SSIM is computed per RGB channel over all windows inside the frame. The
 * value of a frame is the mean over windows and channels; the metric is the mean over frames. It
 * equals scikit-image's structural_similarity(channel_axis=-1, data_range=255).
 *
 * The program computes SSIM from Sx, Sy, Sxx, Syy and Sxy, the sums of x, y, x^2, y^2 and xy over
 * the window's n = 49 samples. All terms such as n Sxy - Sx Sy are exact in 32-bit integers,
 * because 49^2 * 255^2 < 2^28:
 *
 *     SSIM = (2 Sx Sy + n^2 C1)(2 (n Sxy - Sx Sy) + n(n-1) C2)
 *          / ((Sx^2 + Sy^2 + n^2 C1)(n Sxx - Sx^2 + n Syy - Sy^2 + n(n-1) C2)) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metrics/frames.h"
#include "metrics/kernels.h"

enum { WIN = 7 };

/* Per-column sums over the last WIN rows. RGB is interleaved, so horizontal neighbours are 3
 * elements apart. */
struct columns {
    struct kvr_ssim_columns s;
    double *map; /* SSIM of one row of windows */
    void *memory;
};

static int columns_alloc(struct columns *c, size_t row)
{
    int32_t *p = malloc(row * (5 * sizeof(int32_t) + sizeof(double)));

    if (!p)
        return -1;
    c->memory = p;
    c->map = (double *)(void *)p;
    p += row * (sizeof(double) / sizeof(int32_t));
    c->s.x = p;
    c->s.y = p + row;
    c->s.xx = p + 2 * row;
    c->s.yy = p + 3 * row;
    c->s.xy = p + 4 * row;
    return 0;
}

static double frame_ssim(const uint8_t *a, const uint8_t *b, int height, int width,
                         struct columns *c)
{
    int row = 3 * width, n_win = 3 * (width - WIN + 1);
    const struct kvr_metric_kernels *k = kvr_metric_kernels();
    double total = 0.0;

    memset(c->s.x, 0, 5 * (size_t)row * sizeof *c->s.x);
    for (int y = 0; y < height; y++) {
        k->ssim_add(&c->s, a + (size_t)y * row, b + (size_t)y * row, row, +1);
        if (y >= WIN)
            k->ssim_add(&c->s, a + (size_t)(y - WIN) * row, b + (size_t)(y - WIN) * row, row, -1);
        if (y >= WIN - 1) {
            k->ssim_map(&c->s, n_win, c->map);
            total += kvr_sum(c->map, n_win);
        }
    }
    return total / ((double)n_win * (height - WIN + 1));
}

static enum kvr_status compute(const struct kvr_metric_input *in, struct kvr_metric_value *out)
{
    const struct kvr_frames *ref = in->ref;
    int failed = 0;

    if (ref->height < WIN || ref->width < WIN) {
        snprintf(out->missing, sizeof out->missing,
                 "frames of %dx%d are smaller than the %dx%d window", ref->width, ref->height, WIN,
                 WIN);
        return KVR_OK;
    }
    out->series = malloc((size_t)ref->n * sizeof *out->series);
    if (!out->series)
        return kvr_fail(KVR_ENOMEM, "ssim: out of memory while allocating %d frames", ref->n);
    out->n_series = ref->n;
#pragma omp parallel
    {
        struct columns c;
        int bad = columns_alloc(&c, 3 * (size_t)ref->width);

        if (bad) {
#pragma omp atomic write
            failed = 1;
        }
#pragma omp for schedule(static)
        for (int i = 0; i < ref->n; i++)
            if (!bad)
                out->series[i] = frame_ssim(kvr_frame_at(ref, i), kvr_frame_at(in->test, i),
                                            ref->height, ref->width, &c);
        if (!bad)
            free(c.memory);
    }
    if (failed)
        return kvr_fail(KVR_ENOMEM, "ssim: out of memory while allocating rows of %d pixels",
                        ref->width);
    for (int i = 0; i < ref->n; i++)
        out->value += out->series[i];
    out->value /= ref->n;
    return KVR_OK;
}

KVR_METRIC_AND_TRUTH(
    ssim, "ssim", "SSIM, 7x7 uniform window, RGB, sample covariance, without borders of 3 pixels",
    .unit = "1", .direction = +1, .lo = -1.0, .hi = 1.0, .version = 1, .usual = true,
    .source = "Wang et al. 2004, with scikit-image's defaults", .compute = compute);
