/* fwht_cuda.h - the launcher of kvr_fwht (fwht.h). */
#ifndef KVR_METHODS_FWHT_CUDA_H
#define KVR_METHODS_FWHT_CUDA_H

#include "harness/device/stream.h"
#include "methods/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* kvr_fwht on device memory; x lies on a multiple of 16 bytes. A NaN may have another payload. It
 * neither allocates nor waits; what goes wrong shows at kvr_stream_sync(). */
void kvr_fwht_cuda(struct kvr_stream *s, float *x, int64_t rows, int d, enum kvr_compute compute);

#ifdef __cplusplus
}
#endif
#endif
