/* conv_mma.h - the decoder's BF16 convolutions on tensor cores, sm_80 and later.
 *
 *     if (kvr_conv_mma_accepts(&shape, frames))
 *         kvr_conv_mma_run(stream, &shape, frames, w, bias, y);
 *     else
 *         kvr_conv_cuda_run(stream, KVR_BF16, &shape, frames, w, bias, y);
 *
 * Arguments and results are those of kvr_conv_cuda_run() in BF16 (vae_cuda.h). F32 accumulation in
 * a fixed order: results are deterministic. */
#ifndef KVR_VAE_CONV_MMA_H
#define KVR_VAE_CONV_MMA_H

#include "harness/core/dtype.h"
#include "harness/device/stream.h"
#include "harness/engine/vae/conv.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Input channels per step of the main loop. */
enum { KVR_CONV_MMA_DEPTH = 32 };

/* Whether the kernel supports this shape and these frames: input channels a multiple of
 * KVR_CONV_MMA_DEPTH, every pixel 16-byte aligned, all frames with the same stride; any number of
 * output channels. */
bool kvr_conv_mma_accepts(const struct kvr_conv_shape *c, const struct kvr_conv_frame *frames);
/* w [out, kernel, kernel, taps, in], 16-byte aligned; y [height, width, out], 4-byte aligned. */
void kvr_conv_mma_run(struct kvr_stream *s, const struct kvr_conv_shape *c,
                      const struct kvr_conv_frame *frames, const kvr_bf16 *w, const float *bias,
                      kvr_bf16 *y);

#ifdef __cplusplus
}
#endif
#endif
