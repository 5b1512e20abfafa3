/* conv_aid_cuda.h - auxiliary kernels for cuDNN convolutions: bias, im2row of frames, removal of
 * channel padding, and comparison of results.
 *
 * All pointers are device pointers. Arrays passed as void pointers have elements of `type`, which
 * is KVR_F32 or KVR_BF16. */
#ifndef KVR_VAE_CONV_AID_CUDA_H
#define KVR_VAE_CONV_AID_CUDA_H

#include "harness/device/stream.h"
#include "harness/engine/vae/conv.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Copies bias [channels] to every pixel of y [n_pixels, channels]. */
void kvr_bias_rows_cuda(struct kvr_stream *s, enum kvr_dtype type, int64_t n_pixels, int channels,
                        const float *bias, void *y);
/* Upsamples the input frames of convolution c by the factor c.up, and copies their image rows
 * [first, first + rows) to out [rows, c.width, taps, c.in]. Image rows outside [0, c.height) and
 * frames that are NULL become zeros. `taps` is the number of frames to copy: c.taps in BF16, or 1
 * in F32, where a separate cuDNN call convolves each frame. */
void kvr_frame_rows_cuda(struct kvr_stream *s, enum kvr_dtype type, const struct kvr_conv_shape *c,
                         int taps, const struct kvr_conv_frame *frames, int first, int rows,
                         void *out);
/* Removes channel padding: copies the first `out` of the `padded` BF16 channels of every pixel. */
void kvr_narrow_rows_cuda(struct kvr_stream *s, int64_t n_pixels, int padded, int out,
                          const kvr_bf16 *from, kvr_bf16 *to);
/* Fills x [n] with deterministic pseudo-random numbers in [-1, 1). */
void kvr_fill_random_cuda(struct kvr_stream *s, enum kvr_dtype type, int64_t n, void *x);

/* Number of partial results that kvr_max_difference_cuda() writes. */
enum { KVR_MAX_DIFFERENCE_PARTS = 64 };
/* Divides the arrays a [n] and b [n] into KVR_MAX_DIFFERENCE_PARTS parts. Writes the largest |a -
 * b| and the largest |b| of every part to out [KVR_MAX_DIFFERENCE_PARTS, 2]. A NaN in a part makes
 * the part's results NaN. */
void kvr_max_difference_cuda(struct kvr_stream *s, enum kvr_dtype type, int64_t n, const void *a,
                             const void *b, float *out);

#ifdef __cplusplus
}
#endif
#endif
