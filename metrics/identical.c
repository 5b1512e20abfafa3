/* identical.c - number of byte-identical frames. The series is 1 for an identical frame, else 0. */
#include <string.h>

#include "metrics/frames.h"

static bool of_frame(const struct kvr_metric_input *in, int i, double *value)
{
    *value =
        memcmp(kvr_frame_at(in->ref, i), kvr_frame_at(in->test, i), kvr_frame_bytes(in->test)) == 0;
    return true;
}

static enum kvr_status compute(const struct kvr_metric_input *in, struct kvr_metric_value *out)
{
    KVR_TRY(kvr_metric_per_frame(in, out, "identical_frames", 0, in->test->n, of_frame));
    out->value = 0.0;
    for (int i = 0; i < out->n_series; i++)
        out->value += out->series[i];
    return KVR_OK;
}

KVR_METRIC_AND_TRUTH(identical, "identical_frames",
                     "number of frames that equal the reference's byte for byte", .unit = "frames",
                     .direction = +1, .lo = 0.0, .hi = 2147483647.0, .version = 1, .usual = true,
                     .pool = KVR_POOL_SUM, .source = "a count", .compute = compute);
