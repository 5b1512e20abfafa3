/* rows.h - gathers, scatters, repeats and averages rows of floats, on CPU or CUDA.
 *
 *     kvr_rows_gather(dev, x, width, list, n, tok0, out);     rows named by a list
 *
 * Every pointer points to memory of `dev`, and a row has `width` floats. The functions neither
 * allocate nor synchronise; a CUDA error is reported at the next kvr_dev_sync. CPU and CUDA give
 * identical bits, except for the payloads of NaNs. */
#ifndef KVR_CACHE_ROWS_H
#define KVR_CACHE_ROWS_H

#include "harness/core/dtype.h"
#include "harness/device/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Copies row list[i] - tok0 of x to row i of out, for i < n. `list` has int32 token indices, and
 * tok0 is the token index of the first row of x. */
void kvr_rows_gather(struct kvr_dev *dev, const float *x, size_t width, const int32_t *list,
                     int64_t n, int64_t tok0, float *out);
/* Copies row i of x to row list[i] - tok0 of out, for i < n. tok0 is the token index of the first
 * row of out. */
void kvr_rows_scatter(struct kvr_dev *dev, const float *x, size_t width, const int32_t *list,
                      int64_t n, int64_t tok0, float *out);
/* Copies the single row x to each of the n rows of out. */
void kvr_rows_repeat(struct kvr_dev *dev, const float *x, size_t width, int64_t n, float *out);
/* Mean of the n rows of x, accumulated in double in row order and rounded once to float. */
void kvr_rows_mean(struct kvr_dev *dev, const float *x, size_t width, int64_t n, float *out);

/* Converts n values from F32 to `type`, which is KVR_F32 or KVR_BF16, rounding to nearest even. */
void kvr_values_from_f32(struct kvr_dev *dev, void *to, enum kvr_dtype type, const float *from,
                         size_t n);
/* Converts n values of `type`, which is KVR_F32 or KVR_BF16, to F32. */
void kvr_values_to_f32(struct kvr_dev *dev, float *to, const void *from, enum kvr_dtype type,
                       size_t n);
/* Rounds x to `type`, in place. */
void kvr_values_round(struct kvr_dev *dev, enum kvr_dtype type, float *x, size_t n);

#ifdef __cplusplus
}
#endif
#endif
