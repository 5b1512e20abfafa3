/* safetensors_write.c - writes tensors.
 *
 * Tensors with wide elements come first, and the header is padded with blanks to a multiple of 8
 * bytes. Therefore every tensor is aligned in the memory-mapped file. Tensors with elements of
 * equal width keep their order, so that equal input gives equal files. */
#include "harness/core/safetensors.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/json.h"
#include "harness/core/outfile.h"

enum { HEADER_ALIGN = 8, WIDEST = 8 };

/* Computes the size of a tensor's data in bytes. Returns false if an extent is negative or the size
 * overflows. */
static bool checked_bytes(const struct kvr_tensor *t, int64_t *n_bytes)
{
    bool empty = false;
    int64_t n = (int64_t)kvr_dtype_size(t->dtype);

    for (int i = 0; i < t->n_dims; i++) {
        if (t->shape[i] < 0)
            return false;
        if (t->shape[i] == 0)
            empty = true;
        else if (__builtin_mul_overflow(n, t->shape[i], &n))
            return false;
    }
    *n_bytes = empty ? 0 : n;
    return true;
}

static json_t *describe(const struct kvr_tensor *t, int64_t begin, int64_t end)
{
    json_t *shape = json_array();

    for (int i = 0; i < t->n_dims; i++)
        json_array_append_new(shape, json_integer(t->shape[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", kvr_dtype_name(t->dtype), "shape", shape,
                     "data_offsets", (json_int_t)begin, (json_int_t)end);
}

static enum kvr_status set_text(const char *path, json_t *o, const char *key, const char *text)
{
    if (!text)
        return kvr_fail(KVR_EINVAL, "%s: metadata key '%s' has no value", path, key);
    if (json_object_get(o, key))
        return kvr_fail(KVR_EINVAL, "%s: metadata key '%s' is given twice", path, key);
    if (json_object_set_new(o, key, json_string(text)) != 0)
        return kvr_fail(KVR_EINVAL, "%s: metadata key '%s' or its value is not UTF-8 text", path,
                        key);
    return KVR_OK;
}

static enum kvr_status add_metadata(const char *path, json_t *header, const char *const *metadata)
{
    json_t *o = json_object();
    enum kvr_status st = KVR_OK;

    for (int i = 0; st == KVR_OK && metadata && metadata[i]; i += 2)
        st = set_text(path, o, metadata[i], metadata[i + 1]);
    if (st == KVR_OK && json_object_size(o) > 0)
        json_object_set(header, "__metadata__", o);
    json_decref(o);
    return st;
}

static enum kvr_status add_item(const char *path, json_t *header, const struct kvr_st_item *item,
                                int64_t *end)
{
    int64_t begin = *end, n_bytes;
    char text[256];

    if (strcmp(item->name, "__metadata__") == 0)
        return kvr_fail(KVR_EINVAL, "%s: tensor name '%s' is reserved for metadata", path,
                        item->name);
    if (json_object_get(header, item->name))
        return kvr_fail(KVR_EINVAL, "%s: two tensors have the name '%s'", path, item->name);
    if (!checked_bytes(&item->t, &n_bytes) || __builtin_add_overflow(begin, n_bytes, end))
        return kvr_fail(KVR_EINVAL,
                        "%s: tensor '%s': the shape %s has a negative dimension, or the file's "
                        "size overflows 63 bits",
                        path, item->name,
                        kvr_shape_text(item->t.shape, item->t.n_dims, text, sizeof text));
    if (json_object_set_new(header, item->name, describe(&item->t, begin, *end)) != 0)
        return kvr_fail(KVR_EINVAL, "%s: tensor name '%s' is not UTF-8 text", path, item->name);
    return KVR_OK;
}

/* Returns the tensors sorted by element size: first 8 bytes, then 4, 2 and 1. */
static const struct kvr_st_item **order(const struct kvr_st_item *items, int n_items)
{
    const struct kvr_st_item **out = calloc((size_t)n_items + 1, sizeof *out);
    int n = 0;

    for (size_t size = WIDEST; out && size > 0; size /= 2) {
        for (int i = 0; i < n_items; i++) {
            if (kvr_dtype_size(items[i].t.dtype) == size)
                out[n++] = &items[i];
        }
    }
    return out;
}

static enum kvr_status make_header(const char *path, const struct kvr_st_item *const *items,
                                   const char *const *metadata, char **text)
{
    json_t *header = json_object();
    enum kvr_status st = add_metadata(path, header, metadata);
    int64_t end = 0;

    *text = NULL;
    for (; *items && st == KVR_OK; items++)
        st = add_item(path, header, *items, &end);
    if (st == KVR_OK) {
        *text = kvr_json_text(header, JSON_COMPACT);
        if (!*text)
            st = kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating the header", path);
    }
    json_decref(header);
    return st;
}

static enum kvr_status write_all(struct kvr_out *o, const char *header,
                                 const struct kvr_st_item *const *items)
{
    size_t len = strlen(header);
    size_t pad = (HEADER_ALIGN - len % HEADER_ALIGN) % HEADER_ALIGN;
    uint64_t total = len + pad;
    unsigned char le[8];

    for (int i = 0; i < 8; i++)
        le[i] = (unsigned char)(total >> (8 * i));
    KVR_TRY(kvr_out_write(o, le, sizeof le));
    KVR_TRY(kvr_out_write(o, header, len));
    KVR_TRY(kvr_out_write(o, "        ", pad));
    for (; *items; items++)
        KVR_TRY(kvr_out_write(o, (*items)->t.data, kvr_tensor_bytes(&(*items)->t)));
    return KVR_OK;
}

static enum kvr_status check_items(const char *path, const struct kvr_st_item *items, int n_items)
{
    for (int i = 0; i < n_items; i++) {
        if ((unsigned)items[i].t.dtype >= KVR_N_DTYPES)
            return kvr_fail(KVR_EINVAL, "%s: tensor '%s': unknown dtype %d, need 0..%d", path,
                            items[i].name, (int)items[i].t.dtype, KVR_N_DTYPES - 1);
        if (items[i].t.n_dims < 0 || items[i].t.n_dims > KVR_MAX_DIMS)
            return kvr_fail(KVR_EINVAL, "%s: tensor '%s' has %d dimensions, need 0..%d", path,
                            items[i].name, items[i].t.n_dims, KVR_MAX_DIMS);
    }
    return KVR_OK;
}

enum kvr_status kvr_st_write(const char *path, const struct kvr_st_item *items, int n_items,
                             const char *const *metadata)
{
    const struct kvr_st_item **ordered;
    struct kvr_out *o = NULL;
    enum kvr_status st;
    char *header = NULL;

    KVR_TRY(check_items(path, items, n_items));
    ordered = order(items, n_items);
    if (!ordered)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating %d tensors", path, n_items);
    st = make_header(path, ordered, metadata, &header);
    if (st == KVR_OK)
        st = kvr_out_open(&o, path);
    if (st == KVR_OK)
        st = write_all(o, header, ordered);
    if (st == KVR_OK)
        st = kvr_out_commit(&o);
    kvr_out_drop(&o);
    free(header);
    free(ordered);
    return st;
}
