/* conv_aid_cuda.h - what lies around a library's convolution, on a CUDA stream.
 *
 * Every pointer is device memory. */
#ifndef KVR_VAE_CONV_AID_CUDA_H
#define KVR_VAE_CONV_AID_CUDA_H

#include "harness/device/stream.h"
#include "harness/engine/vae/conv.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y [n_pixels, channels]: bias [channels] in every pixel. */
void kvr_bias_rows_cuda(struct kvr_stream *s, int64_t n_pixels, int channels, const float *bias,
                        float *y);
/* Writes rows [first, first + rows) of the input of convolution c into out [rows, c.width, c.in], upsampled
 * by c.up. Rows above 0 and from c.height on are zeros. */
void kvr_frame_rows_cuda(struct kvr_stream *s, const struct kvr_conv_shape *c,
                         const struct kvr_conv_frame *frame, int first, int rows, float *out);
/* x [n]: numbers within -1..1 that look like chance, and are the same every time. */
void kvr_any_numbers_cuda(struct kvr_stream *s, int64_t n, float *x);

/* Pairs that kvr_furthest_cuda writes. */
enum { KVR_FURTHEST = 64 };
/* out [KVR_FURTHEST, 2]: the greatest |a - b| and |b| of a part of a, b [n]; NaN where there is
 * one. */
void kvr_furthest_cuda(struct kvr_stream *s, int64_t n, const float *a, const float *b, float *out);

#ifdef __cplusplus
}
#endif
#endif
