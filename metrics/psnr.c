/* psnr.c - peak signal-to-noise ratio: the squared error of all frames is pooled, then turned
 * into decibels once.
 *
 *     PSNR = 10 log10(255^2 / MSE),  MSE over every frame, pixel and channel
 *
 * A mean of per-frame decibels becomes infinite with one identical frame; the pooled one does
 * not, and two identical videos get the cap. CAP_DB 100 is MSE 6.5e-6, one sample in 154,000
 * off by one level: above what a quantised cache reaches on any clip that is not identical,
 * where the customary 60 dB would hide differences between 8-bit methods. `extra` counts the
 * frames that are identical; the per-frame series has the same cap. */
#include "metrics/metric.h"

#include <math.h>
#include <stdlib.h>

#define CAP_DB 100.0

/* Sum of squared differences. 255^2 * 32768 fits 32 bits, which keeps the inner loop in
 * vector registers. */
static uint64_t squared_error(const uint8_t *a, const uint8_t *b, size_t n)
{
    enum { BLOCK = 32768 };
    uint64_t total = 0;

    for (size_t i = 0; i < n; i += BLOCK) {
        size_t end = n - i < BLOCK ? n : i + BLOCK;
        uint32_t sum = 0;

        for (size_t j = i; j < end; j++) {
            int d = a[j] - b[j];
            sum += (uint32_t)(d * d);
        }
        total += sum;
    }
    return total;
}

static double decibels(uint64_t sse, double n_samples)
{
    double db;

    if (sse == 0)
        return CAP_DB;
    db = 10.0 * log10(255.0 * 255.0 * n_samples / (double)sse);
    return db < CAP_DB ? db : CAP_DB;
}

static enum kvr_status psnr_compute(const struct kvr_frames *ref, const struct kvr_frames *test,
                                    struct kvr_metric_value *out)
{
    size_t frame = (size_t)ref->height * (size_t)ref->width * 3;
    uint64_t total = 0;
    uint64_t *sse = malloc((size_t)ref->n * sizeof *sse);

    out->series = malloc((size_t)ref->n * sizeof *out->series);
    if (!sse || !out->series) {
        free(sse);
        return kvr_fail(KVR_ENOMEM, "psnr: no memory for %d frames", ref->n);
    }
    out->n_series = ref->n;
#pragma omp parallel for schedule(static)
    for (int i = 0; i < ref->n; i++)
        sse[i] = squared_error(ref->rgb + (size_t)i * frame, test->rgb + (size_t)i * frame, frame);
    for (int i = 0; i < ref->n; i++) {
        total += sse[i];
        out->series[i] = decibels(sse[i], (double)frame);
        out->extra += sse[i] == 0;
    }
    out->value = decibels(total, (double)frame * ref->n);
    free(sse);
    return KVR_OK;
}

const struct kvr_metric kvr_metric_psnr = {
    .name = "psnr",
    .title = "PSNR of the MSE pooled over frames, 8-bit RGB, capped at 100 dB",
    .unit = "dB",
    .direction = +1,
    .lo = 0.0,
    .hi = CAP_DB,
    .version = 1,
    .compute = psnr_compute,
};
