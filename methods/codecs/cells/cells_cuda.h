/* cells_cuda.h - launchers of the kernels of cells_cuda.cu. */
#ifndef KVR_METHODS_CELLS_CUDA_H
#define KVR_METHODS_CELLS_CUDA_H

#include "harness/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cells;

/* Tokens [t0, t0 + n), channels [first, first + width); mode as enum kvr_decode_mode. */
struct kvr_cells_part {
    int64_t t0, n, first, width;
    int mode;
};

/* All of it device memory. Neither allocates nor waits; what goes wrong shows at
 * kvr_stream_sync(). */
void kvr_cells_encode_cuda(struct kvr_stream *s, const struct cells *c, const float *x,
                           uint8_t *codes, void *meta);
void kvr_cells_decode_cuda(struct kvr_stream *s, const struct cells *c, const uint8_t *codes,
                           const void *meta, const struct kvr_cells_part *part, float *out);

#ifdef __cplusplus
}
#endif
#endif
