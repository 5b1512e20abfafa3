/* vae_cuda.h - kernels of the VAE on a CUDA stream.
 *
 * All pointers are device pointers. Arrays passed as void pointers have elements of `type`, which
 * is KVR_F32 or KVR_BF16. Kernels accumulate in F32 in a fixed order, and round each BF16 result
 * once. Results are therefore deterministic and differ from the CPU's only by rounding. */
#ifndef KVR_VAE_VAE_CUDA_H
#define KVR_VAE_VAE_CUDA_H

#include "harness/core/dtype.h"
#include "harness/device/stream.h"
#include "harness/engine/vae/conv.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Largest output frame of a convolution: kvr_conv_cuda_run() packs a pixel's row and column into 15
 * and 16 bits. */
enum { KVR_CONV_MOST_HEIGHT = 1 << 15, KVR_CONV_MOST_WIDTH = 1 << 16 };
/* Computes a convolution of shape `c` (conv.h) over c->taps consecutive frames, adds the F32 bias
 * [out], and writes y [height, width, out]. The weights w are F32 [taps, out, kernel, kernel, in]
 * or BF16 [out, kernel, kernel, taps, in]. Frames before the start of the clip are NULL and precede
 * the other frames. They count as zeros, so the kernel skips them. */
void kvr_conv_cuda_run(struct kvr_stream *s, enum kvr_dtype type, const struct kvr_conv_shape *c,
                       const struct kvr_conv_frame *frames, const void *w, const float *bias,
                       void *y);
/* CUDA versions of kvr_vae_ops.norm and kvr_vae_ops.add. */
void kvr_pixel_norm_cuda(struct kvr_stream *s, enum kvr_dtype type, int64_t n, int channels,
                         bool silu, const void *x, const float *gamma, void *y);
void kvr_add_pixels_cuda(struct kvr_stream *s, enum kvr_dtype type, int64_t n, const void *y,
                         void *x);
/* CUDA version of kvr_vae_ops.rectify. */
void kvr_rectify_cuda(struct kvr_stream *s, int64_t n, const float *y, float *x);
/* CUDA versions of kvr_vae_ops.spread and kvr_vae_ops.unpatch. Their results are bit-identical to
 * those of the CPU versions. */
void kvr_spread_cuda(struct kvr_stream *s, enum kvr_dtype type, int h, int w, int in, int out,
                     int times, int which, const void *from, void *to);
void kvr_unpatch_cuda(struct kvr_stream *s, enum kvr_dtype type, int h, int w, const void *from,
                      void *to);
/* CUDA versions of kvr_vae_ops.patch, kvr_vae_ops.halve and kvr_vae_ops.gather. The results of
 * `patch` and `halve` are bit-identical to those of the CPU versions. */
void kvr_patch_cuda(struct kvr_stream *s, int h, int w, const float *from, float *to);
void kvr_halve_cuda(struct kvr_stream *s, int h, int w, int channels, const float *from, float *to);
void kvr_gather_cuda(struct kvr_stream *s, int h, int w, int in, int out, int times,
                     const float *from, float *to);
/* Splits qkv [n, 3d] into q [n,d], k [n,d] and the transpose [d,n] of v, and writes them as F32 one
 * after the other to `out`. */
void kvr_split_qkv_cuda(struct kvr_stream *s, enum kvr_dtype type, int64_t n, int d,
                        const void *qkv, float *out);
/* Rounds the F32 array `from` [n] to the BF16 array `to` [n]. */
void kvr_round_pixels_cuda(struct kvr_stream *s, int64_t n, const float *from, kvr_bf16 *to);
/* Replaces each row of x [rows,n] by softmax(`scale` * row). */
void kvr_softmax_cuda(struct kvr_stream *s, int64_t rows, int64_t n, float scale, float *x);

#ifdef __cplusplus
}
#endif
#endif
