/* mean_cuda.h - launchers of mean_cuda.cu; all pointers are device memory. */
#ifndef KVR_METHODS_MEAN_CUDA_H
#define KVR_METHODS_MEAN_CUDA_H

#include "methods/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

void kvr_mean_encode_cuda(struct kvr_stream *s, float *x, int64_t n, int64_t channels,
                          kvr_f16 *mean);
/* Adds the channel means `mean` [width] to each of the n rows of x [n, width]. */
void kvr_mean_decode_cuda(struct kvr_stream *s, float *x, int64_t n, int64_t width,
                          const kvr_f16 *mean);
/* Subtracts from every row of x [rows, d] the mean of that row. */
void kvr_demean_cuda(struct kvr_stream *s, float *x, int64_t rows, int d);

#ifdef __cplusplus
}
#endif
#endif
