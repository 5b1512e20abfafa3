/* mean_cuda.h - launchers of mean_cuda.cu; all pointers are device memory. */
#ifndef KVR_METHODS_MEAN_CUDA_H
#define KVR_METHODS_MEAN_CUDA_H

#include "methods/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

void kvr_mean_encode_cuda(struct kvr_stream *s, float *x, int64_t n, int64_t channels,
                          kvr_f16 *mean);
/* mean: points to the mean of the first of `width` channels. */
void kvr_mean_decode_cuda(struct kvr_stream *s, float *x, int64_t n, int64_t width,
                          const kvr_f16 *mean);
/* x [rows, d]: subtracts each row's mean. */
void kvr_demean_cuda(struct kvr_stream *s, float *x, int64_t rows, int d);

#ifdef __cplusplus
}
#endif
#endif
