/* sharpness.c - variance of the Laplacian of luma.
 *
 *     L = p(x-1,y) + p(x+1,y) + p(x,y-1) + p(x,y+1) - 4 p(x,y)
 *
 * The variance is over all pixels with four neighbours. Blur lowers it and noise raises it, so an
 * increase is not an improvement by itself. */
#include <stdio.h>
#include <stdlib.h>

#include "metrics/frames.h"
#include "metrics/kernels.h"

static bool of_frame(const struct kvr_metric_input *in, int i, double *value)
{
    const int h = in->test->height, w = in->test->width;
    uint8_t *luma = malloc((size_t)h * (size_t)w);
    int64_t sum = 0, squares = 0;
    double n = (double)(h - 2) * (w - 2), mean;

    if (!luma)
        return false;
    kvr_luma(luma, kvr_frame_at(in->test, i), (size_t)h * (size_t)w);
    for (int y = 1; y < h - 1; y++)
        kvr_metric_kernels()->laplacian(luma + (size_t)y * (size_t)w + 1, w, w - 2, &sum, &squares);
    free(luma);
    mean = (double)sum / n;
    *value = (double)squares / n - mean * mean;
    *value = *value > 0.0 ? *value : 0.0; /* < 0 by rounding if uniform */
    return true;
}

static enum kvr_status compute(const struct kvr_metric_input *in, struct kvr_metric_value *out)
{
    if (in->test->height < 3 || in->test->width < 3) {
        snprintf(out->missing, sizeof out->missing,
                 "frames of %dx%d have no pixel with four neighbours: need at least 3x3",
                 in->test->width, in->test->height);
        return KVR_OK;
    }
    return kvr_metric_per_frame(in, out, "sharpness", 0, in->test->n, of_frame);
}

const struct kvr_metric kvr_metric_sharpness = {
    .name = "sharpness",
    .title = "variance of the Laplacian of luma, mean over frames",
    .unit = "levels^2",
    .direction = +1,
    .lo = 0.0,
    .hi = 1020.0 * 1020.0,
    .version = 1,
    .alone = true,
    .source = "Pech-Pacheco et al. 2000, doi:10.1109/ICPR.2000.903548",
    .compute = compute,
};
