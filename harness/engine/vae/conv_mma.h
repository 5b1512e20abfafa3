/* conv_mma.h - the decoder's convolutions in BF16 on tensor cores, by an own kernel for sm_80 and later.
 *
 *     if (kvr_conv_mma_takes(&shape, frames))
 *         kvr_conv_mma_run(stream, &shape, frames, w, bias, y);
 *     else
 *         kvr_conv_cuda_run(stream, KVR_BF16, &shape, frames, w, bias, y);
 *
 * Arguments and results are those of kvr_conv_cuda_run() in BF16 (vae_cuda.h). Sums are F32 in a fixed
 * order: the same input gives the same bytes every time. */
#ifndef KVR_VAE_CONV_MMA_H
#define KVR_VAE_CONV_MMA_H

#include "harness/core/dtype.h"
#include "harness/device/stream.h"
#include "harness/engine/vae/conv.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Input channels of one step of the main loop: c.in must be a multiple. */
enum { KVR_CONV_MMA_DEPTH = 32 };

/* Whether the kernel computes this shape from these frames: input channels are a multiple of
 * KVR_CONV_MMA_DEPTH, every pixel of a frame begins at a multiple of 16 bytes, and frames have one stride.
 * Any number of output channels will do. */
bool kvr_conv_mma_takes(const struct kvr_conv_shape *c, const struct kvr_conv_frame *frames);
/* w [out, kernel, kernel, taps, in], 16-byte aligned; y [height, width, out], 4-byte aligned. */
void kvr_conv_mma_run(struct kvr_stream *s, const struct kvr_conv_shape *c,
                      const struct kvr_conv_frame *frames, const kvr_bf16 *w, const float *bias,
                      kvr_bf16 *y);

#ifdef __cplusplus
}
#endif
#endif
