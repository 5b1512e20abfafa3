/* linear_smoothness.c - linear predictability of frames from their neighbours:
 *
 *     (255 - mean |frame[i] - (frame[i-1] + frame[i+1]) / 2|) / 255
 *
 * VBench's motion smoothness compares frame[i] with a frame that a network (AMT) interpolates. The
 * linear interpolation here ignores motion, so fast smooth motion scores lower than in VBench. */
#include <stdio.h>

#include "metrics/frames.h"
#include "metrics/kernels.h"

static bool of_frame(const struct kvr_metric_input *in, int i, double *value)
{
    const size_t n = kvr_frame_bytes(in->test);
    const uint8_t *p = kvr_frame_at(in->test, i - 1), *q = kvr_frame_at(in->test, i),
                  *r = kvr_frame_at(in->test, i + 1);
    const uint64_t total = kvr_metric_kernels()->sum_bend(p, q, r, n);

    *value = (255.0 - 0.5 * (double)total / (double)n) / 255.0;
    return true;
}

static enum kvr_status compute(const struct kvr_metric_input *in, struct kvr_metric_value *out)
{
    if (in->test->n < 3) {
        snprintf(out->missing, sizeof out->missing,
                 "the video has %d frames, need at least 3 for a frame with two neighbours",
                 in->test->n);
        return KVR_OK;
    }
    return kvr_metric_per_frame(in, out, "linear_smoothness", 1, in->test->n - 1, of_frame);
}

const struct kvr_metric kvr_metric_linear_smoothness = {
    .name = "linear_smoothness",
    .title = "1 - mean absolute difference of a frame from the mean of its two neighbours / 255",
    .unit = "1",
    .direction = +1,
    .lo = 0.0,
    .hi = 1.0,
    .version = 1,
    .alone = true,
    .source = "after VBench motion_smoothness, arXiv:2311.17982, without its network",
    .compute = compute,
};
