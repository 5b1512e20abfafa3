/* ssim_gauss.c - SSIM as in its paper: luma, 11x11 Gaussian window, sigma 1.5.
 *
 * Luma is rounded to 8 bits, like the paper's images. The metric equals scikit-image's
 * structural_similarity(gaussian_weights=True, sigma=1.5, use_sample_covariance=False,
 * data_range=255) of luma. */
#include <stdio.h>
#include <stdlib.h>

#include "metrics/frames.h"
#include "metrics/gauss.h"

static bool of_frame(const struct kvr_metric_input *in, int i, double *value)
{
    const size_t n = kvr_frame_bytes(in->test) / 3;
    float *plane = malloc(2 * n * sizeof *plane);
    uint8_t *luma = malloc(n);
    struct kvr_gauss_means means;
    bool ok = plane && luma;

    for (int side = 0; ok && side < 2; side++) {
        kvr_luma(luma, kvr_frame_at(side ? in->test : in->ref, i), n);
        for (size_t k = 0; k < n; k++)
            plane[(size_t)side * n + k] = luma[k];
    }
    ok = ok && kvr_gauss_ssim(plane, plane + n, in->test->height, in->test->width, &means);
    if (ok)
        *value = means.ssim;
    free(plane);
    free(luma);
    return ok;
}

static enum kvr_status compute(const struct kvr_metric_input *in, struct kvr_metric_value *out)
{
    if (in->test->height < KVR_GAUSS_WINDOW || in->test->width < KVR_GAUSS_WINDOW) {
        snprintf(out->missing, sizeof out->missing,
                 "frames of %dx%d are smaller than the %dx%d window", in->test->width,
                 in->test->height, KVR_GAUSS_WINDOW, KVR_GAUSS_WINDOW);
        return KVR_OK;
    }
    return kvr_metric_per_frame(in, out, "ssim_gauss", 0, in->test->n, of_frame);
}

KVR_METRIC_AND_TRUTH(ssim_gauss, "ssim_gauss",
                     "SSIM, 11x11 Gaussian window (sigma 1.5), luma, without borders of 5 pixels",
                     .unit = "1", .direction = +1, .lo = -1.0, .hi = 1.0, .version = 1,
                     .source = "Wang et al. 2004, doi:10.1109/TIP.2003.819861", .compute = compute);
