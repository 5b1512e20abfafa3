/* trq_cuda.h - launchers of the kernels of trq_cuda.cu. */
#ifndef KVR_METHODS_TRQ_CUDA_H
#define KVR_METHODS_TRQ_CUDA_H

#include "harness/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

struct trq;
struct kvr_cells_part;

/* All of it device memory. Neither allocates nor waits; what goes wrong shows at
 * kvr_stream_sync(). */
void kvr_trq_encode_cuda(struct kvr_stream *s, const struct trq *g, const float *x, uint8_t *codes,
                         void *meta);
void kvr_trq_decode_cuda(struct kvr_stream *s, const struct trq *g, const uint8_t *codes,
                         const void *meta, const struct kvr_cells_part *part, float *out);

#ifdef __cplusplus
}
#endif
#endif
