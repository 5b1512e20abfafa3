/* array.c - allocates arrays whose shape fits into memory, and reads tensors of files. */
#include "harness/device/array.h"

#include <assert.h>
#include <stdbool.h>

#include "harness/core/safetensors.h"

enum kvr_status kvr_array_alloc(struct kvr_array *a, struct kvr_dev *dev, enum kvr_mem_tag tag,
                                enum kvr_dtype dtype, int n_dims, const int64_t *shape)
{
    int64_t n_bytes = (int64_t)kvr_dtype_size(dtype);
    bool empty = false;
    bool overflow = false;
    char text[256];

    assert(!a->buf.p && "initialize the kvr_array to zero, or free it, before allocating it");
    *a = (struct kvr_array){ 0 };
    if (n_dims < 0 || n_dims > KVR_MAX_DIMS)
        return kvr_fail(KVR_EINVAL, "array: %d dimensions requested, need 0..%d", n_dims,
                        KVR_MAX_DIMS);
    for (int i = 0; i < n_dims; i++) {
        if (shape[i] < 0)
            return kvr_fail(KVR_EINVAL, "array: a dimension of shape %s is negative",
                            kvr_shape_text(shape, n_dims, text, sizeof text));
        /* The product of the nonzero extents is checked for overflow even if another extent is 0,
         * because kvr_tensor_count() multiplies all extents. */
        if (shape[i] == 0)
            empty = true;
        else
            overflow |= __builtin_mul_overflow(n_bytes, shape[i], &n_bytes);
    }
    if (overflow)
        return kvr_fail(
            KVR_EINVAL,
            "array: the size in bytes of shape %s with elements of type %s overflows 63 bits",
            kvr_shape_text(shape, n_dims, text, sizeof text), kvr_dtype_name(dtype));
    KVR_TRY(kvr_buf_alloc(&a->buf, dev, tag, empty ? 0 : (size_t)n_bytes));
    a->t.data = a->buf.p;
    a->t.dtype = dtype;
    a->t.n_dims = n_dims;
    for (int i = 0; i < n_dims; i++)
        a->t.shape[i] = shape[i];
    return KVR_OK;
}

void kvr_array_free(struct kvr_array *a)
{
    kvr_buf_free(&a->buf);
    *a = (struct kvr_array){ 0 };
}

static bool is_floating(enum kvr_dtype t)
{
    return t == KVR_F32 || t == KVR_F64 || t == KVR_F16 || t == KVR_BF16 || t == KVR_F8_E4M3 ||
           t == KVR_F8_E5M2;
}

enum kvr_status kvr_array_read(struct kvr_array *a, struct kvr_dev *host, enum kvr_mem_tag tag,
                               const struct kvr_st *f, const char *name, int n_dims,
                               const int64_t *shape)
{
    struct kvr_tensor t;

    KVR_TRY(kvr_st_view_shaped(f, name, n_dims, shape, &t));
    if (!is_floating(t.dtype))
        return kvr_fail(KVR_EFORMAT,
                        "%s: tensor '%s' has type %s, need F32, F64, F16, BF16, F8_E4M3 or F8_E5M2",
                        kvr_st_path(f), name, kvr_dtype_name(t.dtype));
    KVR_TRY(kvr_array_alloc(a, host, tag, KVR_F32, t.n_dims, t.shape));
    kvr_to_f32(a->t.data, t.data, t.dtype, (size_t)kvr_tensor_count(&t));
    return KVR_OK;
}
