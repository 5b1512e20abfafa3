/* draw_cuda.h - the draw of draw.h on a CUDA stream: the same bytes. */
#ifndef KVR_ENGINE_DRAW_CUDA_H
#define KVR_ENGINE_DRAW_CUDA_H

#include "harness/device/stream.h"
#include "harness/engine/draw.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Elements [0, n) of a tensor to `to`, device memory. Nothing waits. */
void kvr_draw_cuda(struct kvr_stream *s, uint64_t seed, const struct kvr_draw *d, int64_t n,
                   float *to);

#ifdef __cplusplus
}
#endif
#endif
