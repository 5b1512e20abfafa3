/* chunk_discontinuity.c - frame-to-frame jumps at chunk borders.
 *
 *     d[i] = ||frame[i] - frame[i-1]||,  i = 1 .. n-1
 *     value = mean of the C-1 largest d / mean of all d,    C: number of chunks
 *     extra = mean of d at chunk borders / mean of d inside chunks
 *
 * This is Forcing-KV's definition with the norm of the frame difference instead of optical flow.
 * `value` assumes that the C-1 largest d are at the C-1 chunk borders; `extra` uses the actual
 * borders. A value of 1 means uniform motion. The series is d[i] / mean of all d. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "metrics/frames.h"

static bool of_frame(const struct kvr_metric_input *in, int i, double *value)
{
    *value = sqrt((double)kvr_sum_squared(kvr_frame_at(in->test, i), kvr_frame_at(in->test, i - 1),
                                          kvr_frame_bytes(in->test)));
    return true;
}

static int descending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x < y) - (x > y);
}

static double border_ratio(const double *d, const struct kvr_metric_input *in)
{
    double border = 0.0, inside = 0.0;
    int n_border = 0, n_inside = 0;

    for (int i = 1; i < in->test->n; i++) {
        if ((i + in->lead) % in->chunk == 0) {
            border += d[i];
            n_border++;
        } else {
            inside += d[i];
            n_inside++;
        }
    }
    return n_inside && inside > 0.0 ? border / n_border / (inside / n_inside) : NAN;
}

static enum kvr_status largest(const double *d, int n, int k, double *mean)
{
    double *sorted = malloc((size_t)n * sizeof *sorted), sum = 0.0;

    if (!sorted)
        return kvr_fail(KVR_ENOMEM, "chunk_discontinuity: out of memory while allocating %d frames",
                        n);
    for (int i = 1; i < n; i++)
        sorted[i - 1] = d[i];
    qsort(sorted, (size_t)n - 1, sizeof *sorted, descending);
    for (int i = 0; i < k; i++)
        sum += sorted[i];
    free(sorted);
    *mean = sum / k;
    return KVR_OK;
}

static enum kvr_status compute(const struct kvr_metric_input *in, struct kvr_metric_value *out)
{
    const int n = in->test->n, n_chunks = kvr_chunk_count(in);
    double top = 0.0, mean;

    if (n_chunks < 2) {
        snprintf(
            out->missing, sizeof out->missing, "%s",
            n_chunks == 0
                ? "the number of frames per chunk is unknown; set it with --chunk of kvreel compare"
                : "the video has one chunk, need at least two for a chunk border");
        return KVR_OK;
    }
    KVR_TRY(kvr_metric_per_frame(in, out, "chunk_discontinuity", 1, in->test->n, of_frame));
    mean = out->value;
    if (mean == 0.0) {
        snprintf(
            out->missing, sizeof out->missing,
            "all %d frames are equal, so the ratio to the mean frame difference, 0, is undefined",
            n);
        return KVR_OK;
    }
    KVR_TRY(largest(out->series, n, n_chunks - 1, &top));
    out->value = top / mean;
    out->extra = border_ratio(out->series, in);
    for (int i = 1; i < n; i++)
        out->series[i] /= mean;
    return KVR_OK;
}

const struct kvr_metric kvr_metric_chunk_discontinuity = {
    .name = "chunk_discontinuity",
    .title =
        "mean of the C - 1 largest differences of consecutive frames / mean of all differences (C: "
        "number of chunks)",
    .unit = "1",
    .direction = -1,
    .lo = 0.0,
    .hi = 1e6,
    .version = 1,
    .alone = true,
    .whole = true,
    .source = "after Forcing-KV, with frame differences instead of optical flow",
    .compute = compute,
};
