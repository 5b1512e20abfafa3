/* colour_drift.c - drift of the mean colour from the first chunk.
 *
 *     c[i] = mean RGB of frame i,   c0 = mean of c over the first chunk
 *     series[i] = ||c[i] - c0||
 *     value = mean of series over the frames after the first chunk
 *     extra = mean of series over the last chunk
 *
 * The unit of series, value and extra is one level of an 8-bit channel (0..255). If the chunk size
 * is unknown, a chunk is one frame. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "metrics/frames.h"
#include "metrics/kernels.h"

static void mean_colour(double c[3], const struct kvr_frames *f, int i)
{
    const uint8_t *p = kvr_frame_at(f, i);
    const size_t n = kvr_frame_bytes(f) / 3;
    uint64_t sum[3];

    kvr_metric_kernels()->sum_colours(p, n, sum);
    for (int j = 0; j < 3; j++)
        c[j] = (double)sum[j] / (double)n;
}

static void distances(double *series, const double *colour, int n, int chunk)
{
    double c0[3] = { 0, 0, 0 };

    for (int i = 0; i < chunk; i++)
        for (int j = 0; j < 3; j++)
            c0[j] += colour[3 * i + j] / chunk;
    for (int i = 0; i < n; i++) {
        double s = 0.0;

        for (int j = 0; j < 3; j++)
            s += (colour[3 * i + j] - c0[j]) * (colour[3 * i + j] - c0[j]);
        series[i] = sqrt(s);
    }
}

static double mean_of(const double *p, int n)
{
    double s = 0.0;

    for (int i = 0; i < n; i++)
        s += p[i];
    return s / n;
}

static enum kvr_status compute(const struct kvr_metric_input *in, struct kvr_metric_value *out)
{
    const int n = in->test->n, n_chunks = kvr_chunk_count(in);
    const int chunk = n_chunks ? kvr_chunk_begin(in, 1) : 1;
    const int last = n_chunks ? kvr_chunk_begin(in, n_chunks - 1) : n - 1;
    double *colour;

    if (n <= chunk) {
        snprintf(out->missing, sizeof out->missing,
                 "the video has %d frames and its first chunk has %d; need at least one frame "
                 "after the first chunk",
                 n, chunk);
        return KVR_OK;
    }
    colour = malloc(3 * (size_t)n * sizeof *colour);
    out->series = malloc((size_t)n * sizeof *out->series);
    if (!colour || !out->series) {
        free(colour);
        return kvr_fail(KVR_ENOMEM, "colour_drift: out of memory while allocating %d frames", n);
    }
    out->n_series = n;
#pragma omp parallel for schedule(static)
    for (int i = 0; i < n; i++)
        mean_colour(colour + 3 * (size_t)i, in->test, i);
    distances(out->series, colour, n, chunk);
    free(colour);
    out->value = mean_of(out->series + chunk, n - chunk);
    out->extra = mean_of(out->series + last, n - last);
    return KVR_OK;
}

const struct kvr_metric kvr_metric_colour_drift = {
    .name = "colour_drift",
    .title = "distance of a frame's mean colour from the first chunk's, averaged over later frames",
    .unit = "levels",
    .direction = -1,
    .lo = 0.0,
    .hi = 442.0,
    .version = 1,
    .alone = true,
    .source = "kvreel",
    .compute = compute,
};
