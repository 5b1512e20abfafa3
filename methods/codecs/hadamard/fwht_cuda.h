/* fwht_cuda.h - launcher of kvr_fwht (fwht.h). */
#ifndef KVR_METHODS_FWHT_CUDA_H
#define KVR_METHODS_FWHT_CUDA_H

#include "harness/device/stream.h"
#include "methods/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Transforms x as kvr_fwht does, but in device memory; x is 16-byte aligned. NaN payloads may
 * differ. The function neither allocates memory nor synchronises; kvr_stream_sync() returns
 * errors. */
void kvr_fwht_cuda(struct kvr_stream *s, float *x, int64_t rows, int d, enum kvr_compute compute);

#ifdef __cplusplus
}
#endif
#endif
