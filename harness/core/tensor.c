/* tensor.c - shapes. */
#include "harness/core/tensor.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

int64_t kvr_tensor_count(const struct kvr_tensor *t)
{
    int64_t n = 1;

    for (int i = 0; i < t->n_dims; i++)
        n *= t->shape[i];
    return n;
}

size_t kvr_tensor_bytes(const struct kvr_tensor *t)
{
    return (size_t)kvr_tensor_count(t) * kvr_dtype_size(t->dtype);
}

const char *kvr_shape_text(const int64_t *shape, int n_dims, char *buf, size_t n)
{
    size_t used = 0;

    if (n == 0)
        return buf;
    buf[0] = '\0';
    for (int i = -1; i <= n_dims && used < n; i++) {
        int got;

        if (i < 0)
            got = snprintf(buf + used, n - used, "[");
        else if (i == n_dims)
            got = snprintf(buf + used, n - used, "]");
        else
            got = snprintf(buf + used, n - used, "%s%" PRId64, i ? ", " : "", shape[i]);
        if (got < 0)
            break;
        used += (size_t)got;
    }
    return buf;
}

enum kvr_status kvr_array_alloc(struct kvr_array *a, struct kvr_dev *dev, enum kvr_mem_tag tag,
                                enum kvr_dtype dtype, int n_dims, const int64_t *shape)
{
    int64_t n_bytes = (int64_t)kvr_dtype_size(dtype);
    bool empty = false;
    bool overflow = false;
    char text[256];

    assert(!a->buf.p && "the array still holds memory");
    *a = (struct kvr_array){ 0 };
    if (n_dims < 0 || n_dims > KVR_MAX_DIMS)
        return kvr_fail(KVR_EINVAL, "array: %d dimensions, need 0..%d", n_dims, KVR_MAX_DIMS);
    for (int i = 0; i < n_dims; i++) {
        if (shape[i] < 0)
            return kvr_fail(KVR_EINVAL, "array: negative extent in shape %s",
                            kvr_shape_text(shape, n_dims, text, sizeof text));
        /* An extent of 0 does not excuse the others: kvr_tensor_count multiplies them all. */
        if (shape[i] == 0)
            empty = true;
        else
            overflow |= __builtin_mul_overflow(n_bytes, shape[i], &n_bytes);
    }
    if (overflow)
        return kvr_fail(KVR_EINVAL, "array: shape %s of %s overflows",
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
