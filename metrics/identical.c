/* identical.c - how many frames are the same, byte for byte. The series is 1 for such a frame. */
#include "metrics/metric.h"

#include <stdlib.h>
#include <string.h>

static enum kvr_status identical_compute(const struct kvr_frames *ref,
                                         const struct kvr_frames *test,
                                         struct kvr_metric_value *out)
{
    size_t frame = (size_t)ref->height * (size_t)ref->width * 3;

    out->series = malloc((size_t)ref->n * sizeof *out->series);
    if (!out->series)
        return kvr_fail(KVR_ENOMEM, "identical_frames: no memory for %d frames", ref->n);
    out->n_series = ref->n;
    for (int i = 0; i < ref->n; i++) {
        size_t at = (size_t)i * frame;

        out->series[i] = memcmp(ref->rgb + at, test->rgb + at, frame) == 0;
        out->value += out->series[i];
    }
    return KVR_OK;
}

const struct kvr_metric kvr_metric_identical = {
    .name = "identical_frames",
    .title = "frames equal to the reference byte for byte",
    .unit = "frames",
    .direction = +1,
    .lo = 0.0,
    .hi = 2147483647.0,
    .version = 1,
    .compute = identical_compute,
};
