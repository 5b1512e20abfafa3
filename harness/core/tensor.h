/* tensor.h - a dtype, a shape and a pointer; row-major, the last index contiguous. */
#ifndef KVR_CORE_TENSOR_H
#define KVR_CORE_TENSOR_H

#include "harness/core/dtype.h"
#include "harness/core/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_MAX_DIMS = 8 };

/* Borrowed view: owns nothing. */
struct kvr_tensor {
    void *data;
    enum kvr_dtype dtype;
    int n_dims;
    int64_t shape[KVR_MAX_DIMS];
};

int64_t kvr_tensor_count(const struct kvr_tensor *t); /* elements; 1 for a scalar */
size_t kvr_tensor_bytes(const struct kvr_tensor *t);
/* "[3, 16, 6, 10]" into buf, always terminated; returns buf. */
const char *kvr_shape_text(const int64_t *shape, int n_dims, char *buf, size_t n);

/* A tensor that owns its memory. */
struct kvr_array {
    struct kvr_tensor t;
    struct kvr_buf buf;
};

enum kvr_status kvr_array_alloc(struct kvr_array *a, struct kvr_dev *dev, enum kvr_mem_tag tag,
                                enum kvr_dtype dtype, int n_dims, const int64_t *shape);
void kvr_array_free(struct kvr_array *a);

#ifdef __cplusplus
}
#endif
#endif
