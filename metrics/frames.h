/* frames.h - helpers of metrics: a loop over frames, sums of differences, and luma.
 *
 *     return kvr_metric_per_frame(in, out, "sharpness", 0, in->test->n, of_frame);
 *
 * The value of a frame is computed by one thread, so it does not depend on the number of
 * threads. */
#ifndef KVR_METRICS_FRAMES_H
#define KVR_METRICS_FRAMES_H

#include <stddef.h>

#include "metrics/metric.h"

/* A function that sets *value to the metric's value of frame i, and returns false if memory runs
 * out. kvr_metric_per_frame calls it from several threads concurrently. */
typedef bool kvr_frame_fn(const struct kvr_metric_input *in, int i, double *value);

/* Sets out->series[i] to the value of `fn` for each frame i in [first, end), and out->value to the
 * mean of these values. Error messages begin with `name`. */
enum kvr_status kvr_metric_per_frame(const struct kvr_metric_input *in,
                                     struct kvr_metric_value *out, const char *name, int first,
                                     int end, kvr_frame_fn *fn);

static inline const uint8_t *kvr_frame_at(const struct kvr_frames *f, int i)
{
    return f->rgb + (size_t)i * (size_t)f->height * (size_t)f->width * 3;
}

static inline size_t kvr_frame_bytes(const struct kvr_frames *f)
{
    return (size_t)f->height * (size_t)f->width * 3;
}

/* Returns the number of chunks of the test video, including a partial last chunk, or 0 if the chunk
 * length is unknown. */
static inline int kvr_chunk_count(const struct kvr_metric_input *in)
{
    return in->chunk > 0 ? (in->test->n + in->lead + in->chunk - 1) / in->chunk : 0;
}

/* Returns the index of the first frame of chunk c, or the number of frames if c is past the last
 * chunk. */
static inline int kvr_chunk_begin(const struct kvr_metric_input *in, int c)
{
    const int at = c * in->chunk - in->lead;

    return at < 0 ? 0 : at < in->test->n ? at : in->test->n;
}

/* Returns the sum of (a[i] - b[i])^2 over n bytes. */
uint64_t kvr_sum_squared(const uint8_t *a, const uint8_t *b, size_t n);
/* Returns the sum of |a[i] - b[i]| over n bytes. */
uint64_t kvr_sum_absolute(const uint8_t *a, const uint8_t *b, size_t n);

/* Adds n doubles as four partial sums in a fixed order, so that the loop vectorizes without
 * reassociation. */
double kvr_sum(const double *p, int n);

/* Computes the luma of n pixels by ITU-R BT.601, (299 R + 587 G + 114 B) / 1000, rounded to 8
 * bits. */
void kvr_luma(uint8_t *y, const uint8_t *rgb, size_t n);

#endif
