/* perceptual.h - common code of LPIPS and ST-LPIPS: network input from pixels, distance of two
 * activations, and a loop over frames.
 *
 *     x = (p / 127.5 - 1 - shift) / scale                   per channel
 *     d = mean over positions of sum_c w[c] (f[c] / (|f| + 1e-10) - g[c] / (|g| + 1e-10))^2 */
#ifndef KVR_METRICS_PERCEPTUAL_H
#define KVR_METRICS_PERCEPTUAL_H

#include <stdbool.h>
#include <stddef.h>

#include "metrics/metric.h"

/* rgb [n, 3] -> x [3, n]. */
void kvr_perceptual_input(float *x, const uint8_t *rgb, size_t n);
/* a, b [channels, n], head [channels]; work [3, n]. */
double kvr_perceptual_distance(const float *a, const float *b, const float *head, int channels,
                               size_t n, double *work);

/* Distance between frame i of both videos, single-threaded. False: no memory. */
typedef bool kvr_perceptual_fn(const void *net, const struct kvr_metric_input *in, int i,
                               double *value);
/* Fills `out` with the distances of all frames and their mean; `name` is for messages. */
enum kvr_status kvr_perceptual_frames(const char *name, kvr_perceptual_fn *fn, const void *net,
                                      const struct kvr_metric_input *in,
                                      struct kvr_metric_value *out);

#endif
