/* ssim_ffmpeg.c - SSIM as in FFmpeg's `ssim` filter (and x264), on RGB planes.
 *
 * Windows have 8x8 samples (2x2 blocks of 4x4) and begin at multiples of 4. Rows and columns beyond
 * the last whole block are excluded. With sums Sx, Sxx, ... over the n = 64 samples of a window:
 *
 *     SSIM = (2 Sx Sy + c1)(2 (n Sxy - Sx Sy) + c2)
 *          / ((Sx^2 + Sy^2 + c1)(n Sxx + n Syy - Sx^2 - Sy^2 + c2))
 *     c1 = round(0.01^2 255^2 n),   c2 = round(0.03^2 255^2 n (n - 1))
 *
 * The formula of the SSIM paper would give c1 the factor n^2. The filter uses n, so its c1 is 64
 * times smaller; this metric does the same. The value is the mean over windows, planes and frames,
 * the filter's "All". The filter uses single precision, this metric double. */
#include <stdio.h>
#include <stdlib.h>

#include "metrics/frames.h"

enum { BLOCK = 4, N = 64, C1 = 416, C2 = 235963 };

/* Sums of x, y, x^2 + y^2, xy over one block. */
struct sums {
    int32_t x, y, squares, xy;
};

/* Computes row[c * n_blocks + i], the sums of block i of channel c, from four rows of pixels. */
static void sum_blocks(struct sums *row, const uint8_t *a, const uint8_t *b, int n_blocks,
                       size_t stride)
{
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < n_blocks; i++) {
            struct sums s = { 0, 0, 0, 0 };

            for (int y = 0; y < BLOCK; y++)
                for (int x = 0; x < BLOCK; x++) {
                    size_t at = (size_t)y * stride + (size_t)(3 * (BLOCK * i + x) + c);
                    int32_t p = a[at], q = b[at];

                    s.x += p;
                    s.y += q;
                    s.squares += p * p + q * q;
                    s.xy += p * q;
                }
            row[c * n_blocks + i] = s;
        }
}

static double of_window(const struct sums *p, const struct sums *q)
{
    int32_t x = p[0].x + p[1].x + q[0].x + q[1].x, y = p[0].y + p[1].y + q[0].y + q[1].y;
    int32_t squares = p[0].squares + p[1].squares + q[0].squares + q[1].squares;
    int32_t xy = p[0].xy + p[1].xy + q[0].xy + q[1].xy;
    int32_t variances = N * squares - x * x - y * y, covariance = N * xy - x * y;

    return ((double)(2 * x * y + C1) * (double)(2 * covariance + C2)) /
           ((double)(x * x + y * y + C1) * (double)(variances + C2));
}

static bool of_frame(const struct kvr_metric_input *in, int i, double *value)
{
    const size_t stride = (size_t)in->test->width * 3;
    const uint8_t *a = kvr_frame_at(in->ref, i), *b = kvr_frame_at(in->test, i);
    const int w = in->test->width / BLOCK, h = in->test->height / BLOCK;
    struct sums *rows = malloc(2 * 3 * (size_t)w * sizeof *rows), *last = rows, *now;
    double total = 0.0;

    if (!rows)
        return false;
    now = rows + 3 * w;
    for (int y = 0; y < h; y++) {
        struct sums *other = last;

        last = now;
        now = other;
        sum_blocks(now, a + (size_t)(y * BLOCK) * stride, b + (size_t)(y * BLOCK) * stride, w,
                   stride);
        for (int c = 0; y > 0 && c < 3; c++)
            for (int x = 0; x + 1 < w; x++)
                total += of_window(last + c * w + x, now + c * w + x);
    }
    *value = total / (3.0 * (w - 1) * (h - 1));
    free(rows);
    return true;
}

static enum kvr_status compute(const struct kvr_metric_input *in, struct kvr_metric_value *out)
{
    if (in->test->height < 2 * BLOCK || in->test->width < 2 * BLOCK) {
        snprintf(out->missing, sizeof out->missing,
                 "frames of %dx%d are smaller than the 8x8 window", in->test->width,
                 in->test->height);
        return KVR_OK;
    }
    return kvr_metric_per_frame(in, out, "ssim_ffmpeg", 0, in->test->n, of_frame);
}

KVR_METRIC_AND_TRUTH(ssim_ffmpeg, "ssim_ffmpeg",
                     "SSIM, 8x8 windows every 4 samples, RGB planes: FFmpeg's ssim filter",
                     .unit = "1", .direction = +1, .lo = -1.0, .hi = 1.0, .version = 1,
                     .source = "FFmpeg's ssim filter", .compute = compute);
