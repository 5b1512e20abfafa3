/* ranged_cuda.h - the launcher of the kernel of ranged_cuda.cu. */
#ifndef KVR_METHODS_RANGED_CUDA_H
#define KVR_METHODS_RANGED_CUDA_H

#include "harness/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ranged;
struct kvr_cells_part;

/* All of it device memory. Neither allocates nor waits. */
void kvr_ranged_decode_cuda(struct kvr_stream *s, const struct ranged *g, const uint8_t *codes,
                            const void *meta, const struct kvr_cells_part *part, float *out);

#ifdef __cplusplus
}
#endif
#endif
