/* temporal_flicker.c - frame-to-frame stability, as in VBench's temporal flickering:
 *
 *     (255 - mean |frame[i] - frame[i-1]|) / 255,   mean over pixels, channels and pairs
 *
 * A still picture has the value 1. VBench excludes clips with strong motion, this metric does not;
 * compare its values only between videos of the same prompt. */
#include <stdio.h>

#include "metrics/frames.h"

static bool of_frame(const struct kvr_metric_input *in, int i, double *value)
{
    const size_t n = kvr_frame_bytes(in->test);
    uint64_t sum = kvr_sum_absolute(kvr_frame_at(in->test, i), kvr_frame_at(in->test, i - 1), n);

    *value = (255.0 - (double)sum / (double)n) / 255.0;
    return true;
}

static enum kvr_status compute(const struct kvr_metric_input *in, struct kvr_metric_value *out)
{
    if (in->test->n < 2) {
        snprintf(out->missing, sizeof out->missing, "the video has one frame, need at least two");
        return KVR_OK;
    }
    return kvr_metric_per_frame(in, out, "temporal_flicker", 1, in->test->n, of_frame);
}

const struct kvr_metric kvr_metric_temporal_flicker = {
    .name = "temporal_flicker",
    .title = "1 - mean absolute difference of neighbouring frames / 255 (1: still)",
    .unit = "1",
    .direction = +1,
    .lo = 0.0,
    .hi = 1.0,
    .version = 1,
    .alone = true,
    .source = "VBench temporal_flickering, arXiv:2311.17982",
    .compute = compute,
};
