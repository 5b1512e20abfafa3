/* ms_ssim.c - multi-scale SSIM (Wang, Simoncelli, Bovik 2003) of luma.
 *
 *     MS-SSIM = SSIM_5^0.1333 * CS_1^0.0448 * CS_2^0.2856 * CS_3^0.3001 * CS_4^0.2363
 *
 * CS_j (contrast and structure) and SSIM_j are means over the 11x11 Gaussian windows of scale j.
 * Scale j + 1 averages 2x2 pixels of scale j; for odd sizes the last row or column is repeated. A
 * negative mean is replaced by 0, since its power is not real. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "metrics/frames.h"
#include "metrics/gauss.h"

enum { SCALES = 5 };
static const double weight[SCALES] = { 0.0448, 0.2856, 0.3001, 0.2363, 0.1333 };

/* Averages 2x2 pixels in place: an output overwrites only pixels that no later output reads. */
static void halve(float *p, int height, int width)
{
    const int h = (height + 1) / 2, w = (width + 1) / 2;

    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            size_t up = (size_t)(2 * y) * (size_t)width;
            size_t down = 2 * y + 1 < height ? up + (size_t)width : up;
            size_t left = (size_t)(2 * x), right = 2 * x + 1 < width ? left + 1 : left;

            p[(size_t)y * (size_t)w + (size_t)x] =
                0.25f * (p[up + left] + p[up + right] + p[down + left] + p[down + right]);
        }
}

static bool over_scales(float *a, float *b, int height, int width, double *value)
{
    double product = 1.0;

    for (int s = 0; s < SCALES; s++) {
        struct kvr_gauss_means means;

        if (!kvr_gauss_ssim(a, b, height, width, &means))
            return false;
        product *= pow(fmax(s < SCALES - 1 ? means.contrast : means.ssim, 0.0), weight[s]);
        halve(a, height, width);
        halve(b, height, width);
        height = (height + 1) / 2;
        width = (width + 1) / 2;
    }
    *value = product;
    return true;
}

static bool of_frame(const struct kvr_metric_input *in, int i, double *value)
{
    const size_t n = kvr_frame_bytes(in->test) / 3;
    float *plane = malloc(2 * n * sizeof *plane);
    uint8_t *luma = malloc(n);
    bool ok = plane && luma;

    for (int side = 0; ok && side < 2; side++) {
        kvr_luma(luma, kvr_frame_at(side ? in->test : in->ref, i), n);
        for (size_t k = 0; k < n; k++)
            plane[(size_t)side * n + k] = luma[k];
    }
    ok = ok && over_scales(plane, plane + n, in->test->height, in->test->width, value);
    free(plane);
    free(luma);
    return ok;
}

static enum kvr_status compute(const struct kvr_metric_input *in, struct kvr_metric_value *out)
{
    /* The smallest height and width that are at least the window's size after four halvings, each
     * rounded up. */
    const int least = (KVR_GAUSS_WINDOW - 1) * (1 << (SCALES - 1)) + 1;

    if (in->test->height < least || in->test->width < least) {
        snprintf(out->missing, sizeof out->missing,
                 "frames of %dx%d are too small for %d scales: need at least %dx%d",
                 in->test->width, in->test->height, SCALES, least, least);
        return KVR_OK;
    }
    return kvr_metric_per_frame(in, out, "ms_ssim", 0, in->test->n, of_frame);
}

KVR_METRIC_AND_TRUTH(ms_ssim, "ms_ssim", "multi-scale SSIM, 5 scales, 11x11 Gaussian window, luma",
                     .unit = "1", .direction = +1, .lo = 0.0, .hi = 1.0, .version = 1,
                     .source = "Wang, Simoncelli, Bovik 2003, doi:10.1109/ACSSC.2003.1292216",
                     .compute = compute);
