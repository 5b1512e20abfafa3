/* lowrank_cuda.h - the launcher of the kernel of lowrank_cuda.cu. */
#ifndef KVR_METHODS_LOWRANK_CUDA_H
#define KVR_METHODS_LOWRANK_CUDA_H

#include "harness/core/dtype.h"
#include "harness/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

struct lowrank;
struct kvr_cells_part;

/* All of it device memory. Neither allocates nor waits. */
void kvr_lowrank_decode_cuda(struct kvr_stream *s, const struct lowrank *g, const kvr_bf16 *codes,
                             const kvr_bf16 *meta, const struct kvr_cells_part *part, float *out);

#ifdef __cplusplus
}
#endif
#endif
