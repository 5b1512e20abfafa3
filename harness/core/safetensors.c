/* safetensors.c - reads a memory-mapped file into one validated table of tensors. */
#include "harness/core/safetensors.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/bytes.h"
#include "harness/core/join.h"
#include "harness/core/json.h"
#include "harness/core/mapped.h"

enum { LENGTH_BYTES = 8, HEADER_MAX = 100 * 1000 * 1000 };

struct entry {
    const char *name; /* name of the tensor, owned by the parsed header */
    enum kvr_dtype dtype;
    int n_dims;
    int64_t shape[KVR_MAX_DIMS];
    int64_t begin, end;      /* offsets in bytes from the start of the data section */
    int order;               /* index of the tensor in the header */
    _Atomic(void *) aligned; /* aligned copy of misaligned data, or NULL */
};

struct kvr_st {
    char *path;
    const unsigned char *bytes;
    size_t n_bytes;
    struct kvr_mapped file; /* map of the file, or {0} if the caller owns `bytes` */
    json_t *header;
    json_t *metadata; /* "__metadata__" in `header`, or NULL */
    int64_t data_start;
    struct entry *entries;        /* tensors, sorted by the offset of their data */
    const struct entry **by_name; /* the same tensors, sorted by name */
    int n_entries;
};

static enum kvr_status fail_entry(const struct kvr_st *f, const struct entry *e, const char *what)
{
    return kvr_fail(KVR_EFORMAT, "%s: tensor '%s': %s", f->path, e->name, what);
}

static enum kvr_status read_dtype(const struct kvr_st *f, json_t *spec, struct entry *e)
{
    json_t *v = json_object_get(spec, "dtype");
    char all[160] = "";

    if (json_is_string(v) && kvr_dtype_parse(json_string_value(v), &e->dtype))
        return KVR_OK;
    for (int i = 0; i < KVR_N_DTYPES; i++)
        kvr_join(all, sizeof all, kvr_dtype_name((enum kvr_dtype)i));
    if (!json_is_string(v))
        return kvr_fail(KVR_EFORMAT, "%s: tensor '%s': dtype is %s, need one of %s", f->path,
                        e->name, v ? "not a string" : "missing", all);
    return kvr_fail(
        KVR_EFORMAT,
        "%s: tensor '%s': unknown dtype '%.40s', need one of %s; convert the tensor first", f->path,
        e->name, json_string_value(v), all);
}

static enum kvr_status read_shape(const struct kvr_st *f, json_t *spec, struct entry *e)
{
    json_t *v = json_object_get(spec, "shape");
    size_t n = json_array_size(v);

    if (!json_is_array(v))
        return fail_entry(f, e,
                          v ? "shape is not an array of integers"
                            : "shape is missing, need an array of integers");
    if (n > KVR_MAX_DIMS)
        return kvr_fail(KVR_EFORMAT, "%s: tensor '%s' has %zu dimensions, at most %d are supported",
                        f->path, e->name, n, KVR_MAX_DIMS);
    e->n_dims = (int)n;
    for (size_t i = 0; i < n; i++) {
        json_t *x = json_array_get(v, i);

        if (!json_is_integer(x))
            return kvr_fail(
                KVR_EFORMAT,
                "%s: tensor '%s': shape[%zu] is not an integer, need an integer of at least 0",
                f->path, e->name, i);
        e->shape[i] = json_integer_value(x);
        if (e->shape[i] < 0)
            return kvr_fail(KVR_EFORMAT,
                            "%s: tensor '%s': shape[%zu] is %" PRId64 ", need at least 0", f->path,
                            e->name, i, e->shape[i]);
    }
    return KVR_OK;
}

/* Computes the size of a tensor's data in bytes. Returns false if the product of its nonzero
 * extents overflows, even if another extent is 0: callers may multiply the extents in any order. */
static bool size_of(const struct entry *e, int64_t *n_bytes)
{
    int64_t n = (int64_t)kvr_dtype_size(e->dtype);
    bool empty = false;

    for (int i = 0; i < e->n_dims; i++) {
        if (e->shape[i] == 0)
            empty = true;
        else if (__builtin_mul_overflow(n, e->shape[i], &n))
            return false;
    }
    *n_bytes = empty ? 0 : n;
    return true;
}

static enum kvr_status read_offsets(const struct kvr_st *f, json_t *spec, struct entry *e)
{
    json_t *v = json_object_get(spec, "data_offsets");
    int64_t n_data = (int64_t)f->n_bytes - f->data_start;
    int64_t need;
    char shape[256];

    if (!v)
        return fail_entry(f, e, "data_offsets is missing, need [begin, end] in bytes");
    if (!json_is_array(v) || json_array_size(v) != 2 || !json_is_integer(json_array_get(v, 0)) ||
        !json_is_integer(json_array_get(v, 1)))
        return fail_entry(f, e, "data_offsets is not two integers, need [begin, end] in bytes");
    e->begin = json_integer_value(json_array_get(v, 0));
    e->end = json_integer_value(json_array_get(v, 1));
    if (e->begin < 0 || e->end < e->begin)
        return kvr_fail(KVR_EFORMAT,
                        "%s: tensor '%s': data_offsets [%" PRId64 ", %" PRId64
                        "] must be non-negative and ascending",
                        f->path, e->name, e->begin, e->end);
    if (e->end > n_data)
        return kvr_fail(KVR_EFORMAT,
                        "%s: tensor '%s': the data end at byte %" PRId64
                        " of the data section, which has only %" PRId64
                        " bytes (is the file truncated?)",
                        f->path, e->name, e->end, n_data);
    if (!size_of(e, &need))
        return kvr_fail(KVR_EFORMAT,
                        "%s: tensor '%s': the size of shape %s in bytes overflows 63 bits", f->path,
                        e->name, kvr_shape_text(e->shape, e->n_dims, shape, sizeof shape));
    if (e->end - e->begin != need)
        return kvr_fail(KVR_EFORMAT,
                        "%s: tensor '%s': data_offsets span %" PRId64
                        " bytes, but shape and dtype need %" PRId64,
                        f->path, e->name, e->end - e->begin, need);
    return KVR_OK;
}

static enum kvr_status read_entry(const struct kvr_st *f, json_t *spec, struct entry *e)
{
    if (!json_is_object(spec)) /* unknown keys are ignored, as in Hugging Face's reader */
        return fail_entry(f, e,
                          "the description in the header is not a JSON object with dtype, shape "
                          "and data_offsets");
    KVR_TRY(read_dtype(f, spec, e));
    KVR_TRY(read_shape(f, spec, e));
    return read_offsets(f, spec, e);
}

static enum kvr_status read_metadata(struct kvr_st *f, json_t *spec)
{
    const char *key;
    json_t *v;

    if (json_is_null(spec)) /* null counts as absent, as in Hugging Face's reader */
        return KVR_OK;
    if (!json_is_object(spec))
        return kvr_fail(KVR_EFORMAT, "%s: __metadata__ in the header is not a JSON object",
                        f->path);
    json_object_foreach(spec, key, v)
    {
        if (!json_is_string(v))
            return kvr_fail(KVR_EFORMAT, "%s: the value of '%.40s' in __metadata__ is not a string",
                            f->path, key);
    }
    f->metadata = spec;
    return KVR_OK;
}

static int order_by_data(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return x->order - y->order;
}

static int order_by_name(const void *a, const void *b)
{
    return strcmp((*(const struct entry *const *)a)->name, (*(const struct entry *const *)b)->name);
}

/* Checks that the data of successive tensors neither overlap nor leave gaps, and that they fill the
 * data section. */
static enum kvr_status check_tiling(const struct kvr_st *f)
{
    int64_t n_data = (int64_t)f->n_bytes - f->data_start;
    int64_t done = 0;

    for (int i = 0; i < f->n_entries; i++) {
        const struct entry *e = &f->entries[i];

        if (e->begin < done)
            return kvr_fail(KVR_EFORMAT,
                            "%s: tensor '%s' overlaps tensor '%s': its data begin at byte %" PRId64
                            ", before byte %" PRId64,
                            f->path, e->name, f->entries[i - 1].name, e->begin, done);
        if (e->begin > done)
            return kvr_fail(KVR_EFORMAT,
                            "%s: tensor '%s': a gap of %" PRId64
                            " bytes precedes the data, which must follow the previous tensor",
                            f->path, e->name, e->begin - done);
        done = e->end;
    }
    if (done == n_data)
        return KVR_OK;
    return kvr_fail(KVR_EFORMAT,
                    "%s: %" PRId64 " bytes after the last tensor '%s' belong to no tensor", f->path,
                    n_data - done, f->n_entries ? f->entries[f->n_entries - 1].name : "(none)");
}

static enum kvr_status parse_header(struct kvr_st *f)
{
    unsigned long losses;
    json_error_t err;
    uint64_t len;
    const char *text;

    if (f->n_bytes < LENGTH_BYTES)
        return kvr_fail(KVR_EFORMAT,
                        "%s: the file has %zu bytes, need at least %d for a safetensors file",
                        f->path, f->n_bytes, LENGTH_BYTES);
    len = kvr_little_endian(f->bytes, LENGTH_BYTES);
    if (len > HEADER_MAX)
        return kvr_fail(KVR_EFORMAT,
                        "%s: the header has %" PRIu64
                        " bytes, at most %d bytes are allowed (is this a safetensors file?)",
                        f->path, len, HEADER_MAX);
    if (len > f->n_bytes - LENGTH_BYTES)
        return kvr_fail(
            KVR_EFORMAT,
            "%s: the header has %" PRIu64
            " bytes, but only %zu bytes follow (is the file truncated, or no safetensors file?)",
            f->path, len, f->n_bytes - LENGTH_BYTES);
    text = (const char *)f->bytes + LENGTH_BYTES;
    if (len == 0 || text[0] != '{')
        return kvr_fail(KVR_EFORMAT,
                        "%s: the header (%" PRIu64
                        " bytes) is not a JSON object that begins with '{'",
                        f->path, len);
    losses = kvr_json_losses();
    f->header = json_loadb(text, (size_t)len, JSON_REJECT_DUPLICATES, &err);
    if (kvr_json_losses() != losses)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating the header", f->path);
    if (!f->header)
        return kvr_fail(KVR_EFORMAT, "%s: invalid JSON at header byte %d: %s", f->path,
                        err.position, err.text);
    f->data_start = LENGTH_BYTES + (int64_t)len;
    return KVR_OK;
}

static enum kvr_status read_table(struct kvr_st *f)
{
    size_t n = json_object_size(f->header);
    const char *key;
    json_t *v;

    f->entries = calloc(n + 1, sizeof *f->entries);
    f->by_name = calloc(n + 1, sizeof *f->by_name);
    if (!f->entries || !f->by_name)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating the list of %zu tensors",
                        f->path, n);
    json_object_foreach(f->header, key, v)
    {
        struct entry *e = &f->entries[f->n_entries];

        if (strcmp(key, "__metadata__") == 0) {
            KVR_TRY(read_metadata(f, v));
            continue;
        }
        *e = (struct entry){ .name = key, .order = f->n_entries };
        KVR_TRY(read_entry(f, v, e));
        f->n_entries++;
    }
    qsort(f->entries, (size_t)f->n_entries, sizeof *f->entries, order_by_data);
    for (int i = 0; i < f->n_entries; i++)
        f->by_name[i] = &f->entries[i];
    qsort(f->by_name, (size_t)f->n_entries, sizeof *f->by_name, order_by_name);
    return check_tiling(f);
}

enum kvr_status kvr_st_open_memory(struct kvr_st **out, const void *bytes, size_t n,
                                   const char *name_for_messages)
{
    struct kvr_st *f = calloc(1, sizeof *f);
    enum kvr_status st;

    *out = NULL;
    if (f)
        f->path = strdup(name_for_messages);
    if (!f || !f->path) {
        free(f);
        return kvr_fail(KVR_ENOMEM, "%s: out of memory", name_for_messages);
    }
    f->bytes = bytes;
    f->n_bytes = n;
    st = parse_header(f);
    if (st == KVR_OK)
        st = read_table(f);
    if (st != KVR_OK)
        kvr_st_close(&f);
    *out = f;
    return st;
}

enum kvr_status kvr_st_open(struct kvr_st **out, const char *path)
{
    struct kvr_mapped file;
    enum kvr_status st;

    *out = NULL;
    KVR_TRY(kvr_mapped_open(&file, path));
    st = kvr_st_open_memory(out, file.bytes, file.n, path);
    if (st == KVR_OK)
        (*out)->file = file;
    else
        kvr_mapped_close(&file);
    return st;
}

void kvr_st_close(struct kvr_st **f)
{
    struct kvr_st *x = *f;

    if (!x)
        return;
    json_decref(x->header);
    for (int i = 0; x->entries && i < x->n_entries; i++)
        free(x->entries[i].aligned);
    free(x->entries);
    free(x->by_name);
    kvr_mapped_close(&x->file);
    free(x->path);
    free(x);
    *f = NULL;
}

int kvr_st_count(const struct kvr_st *f)
{
    return f->n_entries;
}

const char *kvr_st_name(const struct kvr_st *f, int i)
{
    return f->entries[i].name;
}

const char *kvr_st_path(const struct kvr_st *f)
{
    return f->path;
}

const char *kvr_st_metadata(const struct kvr_st *f, const char *key)
{
    return json_string_value(json_object_get(f->metadata, key));
}

static const struct entry *find(const struct kvr_st *f, const char *name)
{
    const struct entry key = { .name = name };
    const struct entry *const p = &key;
    const struct entry **hit =
        bsearch(&p, f->by_name, (size_t)f->n_entries, sizeof *f->by_name, order_by_name);

    return hit ? *hit : NULL;
}

bool kvr_st_has(const struct kvr_st *f, const char *name)
{
    return find(f, name) != NULL;
}

enum kvr_status kvr_st_view(const struct kvr_st *f, const char *name, struct kvr_tensor *out)
{
    const struct entry *e = find(f, name);

    *out = (struct kvr_tensor){ 0 };
    if (!e)
        return kvr_fail(KVR_ENOTFOUND,
                        "%s: tensor '%s' is missing; the file has %d tensors%s%.60s%s", f->path,
                        name, f->n_entries, f->n_entries ? ", the first is '" : "",
                        f->n_entries ? f->by_name[0]->name : "", f->n_entries ? "'" : "");
    out->data = (void *)(uintptr_t)(f->bytes + f->data_start + e->begin);
    out->dtype = e->dtype;
    out->n_dims = e->n_dims;
    memcpy(out->shape, e->shape, sizeof out->shape);
    return KVR_OK;
}

/* Sets t->data to an aligned copy of the tensor's data, which the first call makes. If two threads
 * copy a tensor concurrently, both use the copy that was stored first. */
static enum kvr_status align(struct entry *e, const char *path, struct kvr_tensor *t)
{
    const size_t n = (size_t)kvr_tensor_bytes(t);
    void *copy = atomic_load(&e->aligned), *first = NULL;

    if (!copy) {
        copy = malloc(n);
        if (!copy)
            return kvr_fail(
                KVR_ENOMEM,
                "%s: tensor '%s': out of memory while allocating an aligned copy of %zu bytes",
                path, e->name, n);
        memcpy(copy, t->data, n);
        if (!atomic_compare_exchange_strong(&e->aligned, &first, copy)) {
            free(copy);
            copy = first;
        }
    }
    t->data = copy;
    return KVR_OK;
}

enum kvr_status kvr_st_get(const struct kvr_st *f, const char *name, struct kvr_tensor *out)
{
    struct kvr_tensor t;

    *out = (struct kvr_tensor){ 0 };
    KVR_TRY(kvr_st_view(f, name, &t));
    if (kvr_tensor_bytes(&t) > 0 && (uintptr_t)t.data % kvr_dtype_size(t.dtype) != 0)
        KVR_TRY(align(&f->entries[find(f, name) - f->entries], f->path, &t));
    *out = t;
    return KVR_OK;
}

enum kvr_status kvr_st_view_shaped(const struct kvr_st *f, const char *name, int n_dims,
                                   const int64_t *shape, struct kvr_tensor *out)
{
    struct kvr_tensor t;

    *out = (struct kvr_tensor){ 0 };
    KVR_TRY(kvr_st_view(f, name, &t));
    KVR_TRY(kvr_shape_check(f->path, name, t.n_dims, t.shape, n_dims, shape));
    *out = t;
    return KVR_OK;
}

enum kvr_status kvr_st_get_shaped(const struct kvr_st *f, const char *name, int n_dims,
                                  const int64_t *shape, struct kvr_tensor *out)
{
    struct kvr_tensor t;

    *out = (struct kvr_tensor){ 0 };
    KVR_TRY(kvr_st_get(f, name, &t));
    KVR_TRY(kvr_shape_check(f->path, name, t.n_dims, t.shape, n_dims, shape));
    *out = t;
    return KVR_OK;
}
