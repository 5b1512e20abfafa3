/* conv_mma.h - the VAE decoder's BF16 convolutions on tensor cores, for sm_80 and later.
 *
 *     if (kvr_conv_mma_accepts(&shape, frames))
 *         kvr_conv_mma_run(stream, &shape, frames, w, bias, y);
 *     else
 *         kvr_conv_cuda_run(stream, KVR_BF16, &shape, frames, w, bias, y);
 *
 * kvr_conv_mma_run() computes the same convolution as kvr_conv_cuda_run() (vae_cuda.h) with type
 * KVR_BF16, and has the same arguments except `type`. Accumulation is F32 in a fixed order, so that
 * results are deterministic. */
#ifndef KVR_VAE_CONV_MMA_H
#define KVR_VAE_CONV_MMA_H

#include "harness/core/dtype.h"
#include "harness/device/stream.h"
#include "harness/engine/vae/conv.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Number of input channels per iteration of the main loop. */
enum { KVR_CONV_MMA_DEPTH = 32 };

/* Whether the kernel supports this shape and these frames. The number of input channels must be a
 * multiple of KVR_CONV_MMA_DEPTH. Every pixel of a frame must start at a multiple of 16 bytes, and
 * all frames must have the same `stride` between pixels. Indices of pixels and elements must fit 32
 * bits. The number of output channels is arbitrary. */
bool kvr_conv_mma_accepts(const struct kvr_conv_shape *c, const struct kvr_conv_frame *frames);
/* Launches the convolution with weights w [out, kernel, kernel, taps, in], which writes y [height,
 * width, out]. The address of w must be a multiple of 16 bytes, and that of y a multiple of 4
 * bytes. */
void kvr_conv_mma_run(struct kvr_stream *s, const struct kvr_conv_shape *c,
                      const struct kvr_conv_frame *frames, const kvr_bf16 *w, const float *bias,
                      kvr_bf16 *y);

#ifdef __cplusplus
}
#endif
#endif
