/* array.h - a tensor that owns its memory on a device.
 *
 *     struct kvr_array a = { 0 };
 *     KVR_TRY(kvr_array_alloc(&a, dev, KVR_MEM_ACT, KVR_F32, 2, (int64_t[]){ 3, 4 }));
 *     ... a.t.data ...
 *     kvr_array_free(&a); */
#ifndef KVR_DEVICE_ARRAY_H
#define KVR_DEVICE_ARRAY_H

#include "harness/core/tensor.h"
#include "harness/device/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_st;

struct kvr_array {
    struct kvr_tensor t;
    struct kvr_buf buf;
};

enum kvr_status kvr_array_alloc(struct kvr_array *a, struct kvr_dev *dev, enum kvr_mem_tag tag,
                                enum kvr_dtype dtype, int n_dims, const int64_t *shape);
void kvr_array_free(struct kvr_array *a);

/* Reads tensor `name` of a safetensors file (harness/core/safetensors.h) into a new F32 array in
 * host memory. The tensor may have any floating-point type and alignment. The tensor must have the
 * shape `shape` [n_dims], where -1 matches any extent. */
enum kvr_status kvr_array_read(struct kvr_array *a, struct kvr_dev *host, enum kvr_mem_tag tag,
                               const struct kvr_st *f, const char *name, int n_dims,
                               const int64_t *shape);

#ifdef __cplusplus
}
#endif
#endif
