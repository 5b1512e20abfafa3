/* mean_cuda.h - launchers of the kernels of mean_cuda.cu; all of it device memory. */
#ifndef KVR_METHODS_MEAN_CUDA_H
#define KVR_METHODS_MEAN_CUDA_H

#include "methods/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

void kvr_mean_encode_cuda(struct kvr_stream *s, float *x, int64_t n, int64_t channels,
                          kvr_f16 *mean);
/* mean: that of the first of `width` channels. */
void kvr_mean_decode_cuda(struct kvr_stream *s, float *x, int64_t n, int64_t width,
                          const kvr_f16 *mean);
/* x [rows, d] -> x less the mean of its row. */
void kvr_demean_cuda(struct kvr_stream *s, float *x, int64_t rows, int d);

#ifdef __cplusplus
}
#endif
#endif
