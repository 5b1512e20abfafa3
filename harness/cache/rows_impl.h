/* rows_impl.h - the table of functions by which each backend (CPU, CUDA) implements rows.h, which
 * copies and averages rows of floats. Private to harness/cache. */
#ifndef KVR_CACHE_ROWS_IMPL_H
#define KVR_CACHE_ROWS_IMPL_H

#include "harness/cache/rows.h"

/* One backend's implementations of the functions of rows.h. `type` is KVR_F32 or KVR_BF16. */
struct kvr_rows_kind {
    void (*gather)(struct kvr_dev *dev, const float *x, size_t width, const int32_t *list,
                   int64_t n, int64_t tok0, float *out);
    void (*scatter)(struct kvr_dev *dev, const float *x, size_t width, const int32_t *list,
                    int64_t n, int64_t tok0, float *out);
    void (*repeat)(struct kvr_dev *dev, const float *x, size_t width, int64_t n, float *out);
    void (*mean)(struct kvr_dev *dev, const float *x, size_t width, int64_t n, float *out);
    void (*from_f32)(struct kvr_dev *dev, void *to, enum kvr_dtype type, const float *from,
                     size_t n);
    void (*to_f32)(struct kvr_dev *dev, float *to, const void *from, enum kvr_dtype type, size_t n);
    void (*round_bf16)(struct kvr_dev *dev, float *x, size_t n);
};
extern const struct kvr_rows_kind kvr_rows_cpu, kvr_rows_cuda;

#endif
