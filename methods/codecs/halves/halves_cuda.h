/* halves_cuda.h - launchers of the kernels of halves_cuda.cu. */
#ifndef KVR_METHODS_HALVES_CUDA_H
#define KVR_METHODS_HALVES_CUDA_H

#include "harness/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

struct halves;
struct kvr_cells_part;

/* All of it device memory. Neither allocates nor waits; what goes wrong shows at
 * kvr_stream_sync(). */
void kvr_halves_encode_cuda(struct kvr_stream *s, const struct halves *g, const float *x,
                            uint8_t *codes, float *meta);
void kvr_halves_decode_cuda(struct kvr_stream *s, const struct halves *g, const uint8_t *codes,
                            const float *meta, const struct kvr_cells_part *part, float *out);

#ifdef __cplusplus
}
#endif
#endif
