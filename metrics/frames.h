/* frames.h - helpers shared by metrics: a loop over frames, sums of differences, luma.
 *
 *     return kvr_metric_per_frame(in, out, "sharpness", 0, in->test->n, of_frame);
 *
 * Each frame is computed by a single thread, so values do not depend on the number of threads. */
#ifndef KVR_METRICS_FRAMES_H
#define KVR_METRICS_FRAMES_H

#include <stddef.h>

#include "metrics/metric.h"

/* Computes the value of frame i; returns false if memory runs out. Called concurrently. */
typedef bool kvr_frame_fn(const struct kvr_metric_input *in, int i, double *value);

/* Fills series[first .. end) by `fn`, and sets `value` to their mean. The error message gives
 * `name`. */
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

/* Chunks of the test video, the last possibly partial; 0 if unknown. */
static inline int kvr_chunk_count(const struct kvr_metric_input *in)
{
    return in->chunk > 0 ? (in->test->n + in->lead + in->chunk - 1) / in->chunk : 0;
}

/* First frame of chunk c; for c past the last chunk, the number of frames. */
static inline int kvr_chunk_begin(const struct kvr_metric_input *in, int c)
{
    const int at = c * in->chunk - in->lead;

    return at < 0 ? 0 : at < in->test->n ? at : in->test->n;
}

/* Exact sums over n bytes. */
uint64_t kvr_sum_squared(const uint8_t *a, const uint8_t *b, size_t n);  /* (a - b)^2 */
uint64_t kvr_sum_absolute(const uint8_t *a, const uint8_t *b, size_t n); /* |a - b| */

/* Sum of doubles as four partial sums in fixed order, so that it vectorizes without
 * reassociation. */
double kvr_sum(const double *p, int n);

/* Luma of n pixels, ITU-R BT.601: (299 R + 587 G + 114 B) / 1000, rounded to 8 bits. */
void kvr_luma(uint8_t *y, const uint8_t *rgb, size_t n);

#endif
