/* tensor.h - a dtype, a shape and a pointer; row-major, the last index contiguous. */
#ifndef KVR_CORE_TENSOR_H
#define KVR_CORE_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#include "harness/core/dtype.h"
#include "harness/core/status.h"

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

/* Checks a file tensor's shape `have` against the needed one, where -1 matches any extent.
 * KVR_EFORMAT: "FILE: tensor 'NAME': shape [2, 3], need [2, -1]". */
enum kvr_status kvr_shape_check(const char *file, const char *name, int n_have, const int64_t *have,
                                int n_need, const int64_t *need);

#ifdef __cplusplus
}
#endif
#endif
