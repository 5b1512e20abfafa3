/* psnr.c - peak signal-to-noise ratio: squared errors are pooled over all frames, then converted to
 * decibels once.
 *
 *     PSNR = 10 log10(255^2 / MSE),  MSE over every frame, pixel and channel
 *
 * A mean of per-frame decibels is infinite if one frame is identical; the pooled value is not. Two
 * identical videos have the value CAP_DB = 100. It corresponds to MSE 6.5e-6: one sample in 154,000
 * differs by one level. A video from a quantized KV cache that is not identical is below this cap.
 * The customary cap of 60 dB would hide differences between 8-bit methods. `extra` is the number of
 * identical frames. The per-frame series has the same cap. */
#include <math.h>
#include <stdlib.h>

#include "metrics/frames.h"

#define CAP_DB 100.0

static double decibels(uint64_t sse, double n_samples)
{
    double db;

    if (sse == 0)
        return CAP_DB;
    db = 10.0 * log10(255.0 * 255.0 * n_samples / (double)sse);
    return db < CAP_DB ? db : CAP_DB;
}

static enum kvr_status compute(const struct kvr_metric_input *in, struct kvr_metric_value *out)
{
    const struct kvr_frames *ref = in->ref;
    size_t frame = kvr_frame_bytes(ref);
    uint64_t total = 0;
    uint64_t *sse = malloc((size_t)ref->n * sizeof *sse);

    out->series = malloc((size_t)ref->n * sizeof *out->series);
    if (!sse || !out->series) {
        free(sse);
        return kvr_fail(KVR_ENOMEM, "psnr: out of memory while allocating %d frames", ref->n);
    }
    out->n_series = ref->n;
#pragma omp parallel for schedule(static)
    for (int i = 0; i < ref->n; i++)
        sse[i] = kvr_sum_squared(kvr_frame_at(ref, i), kvr_frame_at(in->test, i), frame);
    for (int i = 0; i < ref->n; i++) {
        total += sse[i];
        out->series[i] = decibels(sse[i], (double)frame);
        out->extra += sse[i] == 0;
    }
    out->value = decibels(total, (double)frame * ref->n);
    free(sse);
    return KVR_OK;
}

KVR_METRIC_AND_TRUTH(psnr, "psnr",
                     "PSNR of the MSE pooled over frames, 8-bit RGB, capped at 100 dB",
                     .unit = "dB", .direction = +1, .lo = 0.0, .hi = CAP_DB, .version = 1,
                     .usual = true, .pool = KVR_POOL_DB, .source = "10 log10(255^2 / MSE)",
                     .compute = compute);
