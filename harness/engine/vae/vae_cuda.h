/* vae_cuda.h - the decoder's own kernels on a CUDA stream.
 *
 * Every pointer is device memory. void pointers are elements of `type`, KVR_F32 or KVR_BF16; results
 * in BF16 are rounded once. Sums are F32 in a fixed order, another than on the CPU: results
 * agree to roundings, and the same input gives the same bytes every time. */
#ifndef KVR_VAE_VAE_CUDA_H
#define KVR_VAE_VAE_CUDA_H

#include "harness/core/dtype.h"
#include "harness/device/stream.h"
#include "harness/engine/vae/conv.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A convolution of conv.h: frames [taps], bias [out] in F32, y [height, width, out]. w in F32 is [taps,
 * out, kernel, kernel, in], in BF16 [out, kernel, kernel, taps, in]. Taps without a frame come first
 * and cost nothing. */
void kvr_conv_cuda_run(struct kvr_stream *s, enum kvr_dtype type, const struct kvr_conv_shape *c,
                       const struct kvr_conv_frame *frames, const void *w, const float *bias,
                       void *y);
/* kvr_vae_ops.norm, kvr_vae_ops.add */
void kvr_pixel_norm_cuda(struct kvr_stream *s, enum kvr_dtype type, int64_t n, int channels,
                         bool silu, const void *x, const float *gamma, void *y);
void kvr_add_pixels_cuda(struct kvr_stream *s, enum kvr_dtype type, int64_t n, const void *y,
                         void *x);
/* kvr_vae_ops.rectify */
void kvr_rectify_cuda(struct kvr_stream *s, int64_t n, const float *y, float *x);
/* kvr_vae_ops.spread, kvr_vae_ops.unpatch: the CPU's bytes. */
void kvr_spread_cuda(struct kvr_stream *s, enum kvr_dtype type, int h, int w, int in, int out,
                     int times, int which, const void *from, void *to);
void kvr_unpatch_cuda(struct kvr_stream *s, enum kvr_dtype type, int h, int w, const void *from,
                      void *to);
/* kvr_vae_ops.patch, kvr_vae_ops.halve: the CPU's bytes; kvr_vae_ops.gather. */
void kvr_patch_cuda(struct kvr_stream *s, int h, int w, const float *from, float *to);
void kvr_halve_cuda(struct kvr_stream *s, int h, int w, int channels, const float *from, float *to);
void kvr_gather_cuda(struct kvr_stream *s, int h, int w, int in, int out, int times,
                     const float *from, float *to);
/* qkv [n, 3d] -> q [n,d], k [n,d] and v transposed, [d,n], one behind the other in F32. */
void kvr_split_qkv_cuda(struct kvr_stream *s, enum kvr_dtype type, int64_t n, int d,
                        const void *qkv, float *out);
/* to [n], BF16 <- from [n] */
void kvr_round_pixels_cuda(struct kvr_stream *s, int64_t n, const float *from, kvr_bf16 *to);
/* Rows of n: x = softmax(scale x). */
void kvr_softmax_cuda(struct kvr_stream *s, int64_t rows, int64_t n, float scale, float *x);

#ifdef __cplusplus
}
#endif
#endif
