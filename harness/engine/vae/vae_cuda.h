/* vae_cuda.h - kernels of the decoder on a CUDA stream.
 *
 * All pointers are device memory. void pointers are elements of `type`, KVR_F32 or KVR_BF16; BF16
 * results are rounded once. Accumulation is F32 in a fixed order: results are deterministic and
 * agree with the CPU up to rounding. */
#ifndef KVR_VAE_VAE_CUDA_H
#define KVR_VAE_VAE_CUDA_H

#include "harness/core/dtype.h"
#include "harness/device/stream.h"
#include "harness/engine/vae/conv.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A convolution as in conv.h: frames [taps], bias [out] F32, y [height, width, out]. w is F32
 * [taps, out, kernel, kernel, in] or BF16 [out, kernel, kernel, taps, in]. Frames that are NULL
 * come first and cost nothing. */
void kvr_conv_cuda_run(struct kvr_stream *s, enum kvr_dtype type, const struct kvr_conv_shape *c,
                       const struct kvr_conv_frame *frames, const void *w, const float *bias,
                       void *y);
/* kvr_vae_ops.norm and kvr_vae_ops.add on a CUDA stream. */
void kvr_pixel_norm_cuda(struct kvr_stream *s, enum kvr_dtype type, int64_t n, int channels,
                         bool silu, const void *x, const float *gamma, void *y);
void kvr_add_pixels_cuda(struct kvr_stream *s, enum kvr_dtype type, int64_t n, const void *y,
                         void *x);
/* kvr_vae_ops.rectify on a CUDA stream. */
void kvr_rectify_cuda(struct kvr_stream *s, int64_t n, const float *y, float *x);
/* kvr_vae_ops.spread and kvr_vae_ops.unpatch on a CUDA stream, bit-identical to the CPU. */
void kvr_spread_cuda(struct kvr_stream *s, enum kvr_dtype type, int h, int w, int in, int out,
                     int times, int which, const void *from, void *to);
void kvr_unpatch_cuda(struct kvr_stream *s, enum kvr_dtype type, int h, int w, const void *from,
                      void *to);
/* kvr_vae_ops.patch, halve and gather on a CUDA stream; patch and halve are bit-identical to the
 * CPU. */
void kvr_patch_cuda(struct kvr_stream *s, int h, int w, const float *from, float *to);
void kvr_halve_cuda(struct kvr_stream *s, int h, int w, int channels, const float *from, float *to);
void kvr_gather_cuda(struct kvr_stream *s, int h, int w, int in, int out, int times,
                     const float *from, float *to);
/* qkv [n, 3d] -> q [n,d], k [n,d] and transposed v [d,n], consecutive in `out`, F32. */
void kvr_split_qkv_cuda(struct kvr_stream *s, enum kvr_dtype type, int64_t n, int d,
                        const void *qkv, float *out);
/* to [n] BF16 = from [n], rounded */
void kvr_round_pixels_cuda(struct kvr_stream *s, int64_t n, const float *from, kvr_bf16 *to);
/* x = softmax(scale x), over rows of n. */
void kvr_softmax_cuda(struct kvr_stream *s, int64_t rows, int64_t n, float scale, float *x);

#ifdef __cplusplus
}
#endif
#endif
