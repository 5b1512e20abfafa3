/* conv_aid_cuda.h - kernels around cuDNN's convolutions: bias, im2row of frames, channel padding,
 * checks.
 *
 * Every pointer is device memory. void pointers are elements of `type`, KVR_F32 or KVR_BF16. */
#ifndef KVR_VAE_CONV_AID_CUDA_H
#define KVR_VAE_CONV_AID_CUDA_H

#include "harness/device/stream.h"
#include "harness/engine/vae/conv.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y [n_pixels, channels] = bias [channels] in every pixel. */
void kvr_bias_rows_cuda(struct kvr_stream *s, enum kvr_dtype type, int64_t n_pixels, int channels,
                        const float *bias, void *y);
/* Writes rows [first, first + rows) of the input of convolution c into out [rows, c.width, taps, c.in],
 * upsampled by c.up. Rows above 0 and from c.height on are zeros, as are frames that are NULL. `taps`
 * is 1 or c.taps. */
void kvr_frame_rows_cuda(struct kvr_stream *s, enum kvr_dtype type, const struct kvr_conv_shape *c,
                         int taps, const struct kvr_conv_frame *frames, int first, int rows,
                         void *out);
/* Copies the first `out` of `padded` BF16 channels of each pixel. */
void kvr_narrow_rows_cuda(struct kvr_stream *s, int64_t n_pixels, int padded, int out,
                          const kvr_bf16 *from, kvr_bf16 *to);
/* x [n]: deterministic pseudo-random numbers in -1..1. */
void kvr_fill_random_cuda(struct kvr_stream *s, enum kvr_dtype type, int64_t n, void *x);

/* Number of pairs that kvr_max_difference_cuda writes. */
enum { KVR_MAX_DIFFERENCE_PARTS = 64 };
/* out [KVR_MAX_DIFFERENCE_PARTS, 2]: the largest |a - b| and |b| over a part of a, b [n]; NaN if
 * that part has a NaN. */
void kvr_max_difference_cuda(struct kvr_stream *s, enum kvr_dtype type, int64_t n, const void *a,
                             const void *b, float *out);

#ifdef __cplusplus
}
#endif
#endif
