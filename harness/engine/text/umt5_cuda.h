/* umt5_cuda.h - kernels of the UMT5 text encoder on a CUDA stream. The shapes are those of
 * umt5_ops.h.
 *
 * Results are deterministic. CPU and GPU results differ by rounding, because the CPU and the GPU
 * add F32 values in different orders. */
#ifndef KVR_TEXT_UMT5_CUDA_H
#define KVR_TEXT_UMT5_CUDA_H

#include "harness/device/stream.h"
#include "harness/engine/text/umt5_ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* a->head_dim must not exceed KVR_UMT5_MAX_HEAD_DIM. */
void kvr_umt5_attend_cuda(struct kvr_stream *s, const struct kvr_umt5_heads *a);
void kvr_multiply_cuda(struct kvr_stream *s, int64_t n, const float *y, float *x);

#ifdef __cplusplus
}
#endif
#endif
