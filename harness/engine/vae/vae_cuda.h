/* vae_cuda.h - the decoder's own kernels on a CUDA stream.
 *
 * Every pointer is device memory. Sums are F32 in a fixed order, another than on the CPU: results
 * agree to roundings, and the same input gives the same bytes every time. */
#ifndef KVR_VAE_VAE_CUDA_H
#define KVR_VAE_VAE_CUDA_H

#include "harness/device/stream.h"
#include "harness/engine/vae/conv.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A convolution of conv.h: frames [taps], w [taps, out, kernel, kernel, in], bias [out], y [height,
 * width, out]. Taps without a frame come first and cost nothing. */
void kvr_conv_cuda_run(struct kvr_stream *s, const struct kvr_conv_shape *c,
                       const struct kvr_conv_frame *frames, const float *w, const float *bias,
                       float *y);
/* kvr_vae_ops.norm */
void kvr_pixel_norm_cuda(struct kvr_stream *s, int64_t n, int channels, bool silu, const float *x,
                         const float *gamma, float *y);
/* kvr_vae_ops.rectify */
void kvr_rectify_cuda(struct kvr_stream *s, int64_t n, const float *y, float *x);
/* kvr_vae_ops.spread, kvr_vae_ops.unpatch: the CPU's bytes. */
void kvr_spread_cuda(struct kvr_stream *s, int h, int w, int in, int out, int times, int which,
                     const float *from, float *to);
void kvr_unpatch_cuda(struct kvr_stream *s, int h, int w, const float *from, float *to);
/* kvr_vae_ops.patch, kvr_vae_ops.halve: the CPU's bytes; kvr_vae_ops.gather. */
void kvr_patch_cuda(struct kvr_stream *s, int h, int w, const float *from, float *to);
void kvr_halve_cuda(struct kvr_stream *s, int h, int w, int channels, const float *from, float *to);
void kvr_gather_cuda(struct kvr_stream *s, int h, int w, int in, int out, int times,
                     const float *from, float *to);
/* qkv [n, 3d] -> q [n,d], k [n,d] and v turned, [d,n], one behind the other. */
void kvr_split_qkv_cuda(struct kvr_stream *s, int64_t n, int d, const float *qkv, float *out);
/* Rows of n: x = softmax(scale x). */
void kvr_softmax_cuda(struct kvr_stream *s, int64_t rows, int64_t n, float scale, float *x);

#ifdef __cplusplus
}
#endif
#endif
