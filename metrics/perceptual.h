/* perceptual.h - common code of LPIPS and ST-LPIPS: conversion of pixels to network input, distance
 * of two activations, and a loop over frames.
 *
 *     x = (p / 127.5 - 1 - shift) / scale                   per channel
 *     d = mean over positions of sum_c w[c] (f[c] / (|f| + 1e-10) - g[c] / (|g| + 1e-10))^2 */
#ifndef KVR_METRICS_PERCEPTUAL_H
#define KVR_METRICS_PERCEPTUAL_H

#include <stdbool.h>
#include <stddef.h>

#include "metrics/metric.h"

/* Converts pixels rgb [n, 3] to network input x [3, n], by the first formula above. */
void kvr_perceptual_input(float *x, const uint8_t *rgb, size_t n);
/* Returns the distance d (second formula above) of the activations a and b [channels, n], which are
 * f and g in the formula. `head` [channels] are the weights w. `work` [3, n] is scratch memory. */
double kvr_perceptual_distance(const float *a, const float *b, const float *head, int channels,
                               size_t n, double *work);

/* Sets *value to the distance between the i-th frames of the two videos. Runs on one thread.
 * Returns false if memory runs out. */
typedef bool kvr_perceptual_fn(const void *net, const struct kvr_metric_input *in, int i,
                               double *value);
/* Sets out->series[i] to the distance that `fn` computes for frame i, and out->value to the mean of
 * all frames. Error messages give `name`. */
enum kvr_status kvr_perceptual_frames(const char *name, kvr_perceptual_fn *fn, const void *net,
                                      const struct kvr_metric_input *in,
                                      struct kvr_metric_value *out);

#endif
