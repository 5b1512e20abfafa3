/* tensor.h - a tensor: element type, shape and pointer, in row-major order. */
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

/* A view: the tensor does not own the memory at `data`. */
struct kvr_tensor {
    void *data;
    enum kvr_dtype dtype;
    int n_dims;
    int64_t shape[KVR_MAX_DIMS];
};

int64_t kvr_tensor_count(const struct kvr_tensor *t); /* number of elements; 1 for a scalar */
size_t kvr_tensor_bytes(const struct kvr_tensor *t);
/* Writes the shape as text, such as "[3, 16, 6, 10]", to buf [n], and returns buf. The text is cut
 * to fit into buf, and is always zero-terminated. */
const char *kvr_shape_text(const int64_t *shape, int n_dims, char *buf, size_t n);

/* Checks the shape `have` of a tensor in a file against the shape `need`, in which -1 matches any
 * extent. The message of KVR_EFORMAT is "FILE: tensor 'NAME': shape [2, 3], need [2, -1]". */
enum kvr_status kvr_shape_check(const char *file, const char *name, int n_have, const int64_t *have,
                                int n_need, const int64_t *need);

#ifdef __cplusplus
}
#endif
#endif
