/* strips.h - convolutions of images [channels, height, width] as matrix products (im2col), computed
 * for one strip of output rows at a time.
 *
 *     int oh = kvr_strip_output_size(h, &l), strip = kvr_strip_rows(&l, oh, ow);
 *     float *col = malloc(kvr_strip_floats(&l, oh, ow) * sizeof *col);
 *     ok = kvr_strip_convolve(&l, weight, bias, x, h, w, oh, ow, y, col); y [out, oh, ow]
 *
 * Single-threaded. Zero padding. */
#ifndef KVR_METRICS_STRIPS_H
#define KVR_METRICS_STRIPS_H

#include <stdbool.h>
#include <stddef.h>

struct kvr_strip_layer {
    int in, out, kernel, stride, pad;
    bool relu;
};

/* Returns the output height (or width) for an input height (or width) of n pixels, or 0 if the
 * kernel does not fit. */
int kvr_strip_output_size(int n, const struct kvr_strip_layer *l);
/* Returns the number of floats of the buffer `col`, which contains one strip of im2col columns. */
size_t kvr_strip_floats(const struct kvr_strip_layer *l, int out_height, int out_width);
/* Convolves x [in, height, width] with weight [out, in, kernel, kernel] and bias [out]. Returns
 * false if oneDNN runs out of memory. */
bool kvr_strip_convolve(const struct kvr_strip_layer *l, const float *weight, const float *bias,
                        const float *x, int height, int width, int out_height, int out_width,
                        float *y, float *col);

#endif
