/* torch.c - lists the tensors of a PyTorch file: the pickle's objects describe them, and PyTorch
 * storages contain their elements. */
#include "harness/files/weights/torch.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/bytes.h"
#include "harness/files/weights/pickle.h"
#include "harness/files/weights/text.h"
#include "harness/files/weights/zip.h"

enum { MAX_DEPTH = 32, LEGACY_VERSION = 1001, KEY_ROOM = 512 };

/* A storage (the elements that tensors are views of) in a file of torch's legacy format. */
struct stored {
    const unsigned char *key;
    uint32_t n_key;
    const unsigned char *data; /* elements in the file; NULL: the file's key list lacks `key` */
    int64_t n;                 /* number of elements */
    enum kvr_dtype dtype;
};

struct reader {
    const char *where;
    const unsigned char *bytes;
    size_t n;
    struct kvr_pickle p;
    struct kvr_zipfile zip;
    const unsigned char *folder; /* prefix of the zip records' names, with its slash */
    size_t n_folder;
    struct stored *stored; /* [n_stored], sorted by key; NULL: not the legacy format */
    size_t n_stored;
    struct kvr_weight_list *list;
    char path[KVR_WEIGHT_NAME_MAX + 1]; /* dotted name of the object being visited */
    uint64_t visits, max_visits;
};

/* refuse(r, format, ...): fails with a message that begins with the file's path. */
#define refuse(r, ...) kvr_fail_prefix(kvr_fail(KVR_EFORMAT, __VA_ARGS__), "%s", (r)->where)

static const struct kvr_pk_node *item(const struct reader *r, uint32_t cell)
{
    return &r->p.nodes[r->p.cells[cell].node];
}

/* --- Storages ------------------------------------------------------------------------------ */

static int by_key(const void *a, const void *b)
{
    const struct stored *x = a, *y = b;

    if (x->n_key != y->n_key)
        return x->n_key < y->n_key ? -1 : 1;
    return memcmp(x->key, y->key, x->n_key);
}

/* refuse_storage(r, key, format, ...): like refuse(), and the message names the storage. */
#define refuse_storage(r, key, ...)                                                                \
    kvr_fail_prefix(kvr_fail(KVR_EFORMAT, __VA_ARGS__), "%s: storage '%s'", (r)->where,            \
                    kvr_printable((char[KVR_PRINTABLE]){ 0 }, (key)->text, (key)->n))

static bool storage_bytes(const struct kvr_pk_node *s, uint64_t *n)
{
    return !__builtin_mul_overflow((uint64_t)s->i, (uint64_t)kvr_dtype_size(s->dtype), n);
}

static enum kvr_status zip_storage(const struct reader *r, const struct kvr_pk_node *s,
                                   const unsigned char **data)
{
    const struct kvr_pk_node *key = &r->p.nodes[s->key];
    const struct kvr_zipfile_record *rec;
    char name[KEY_ROOM];
    uint64_t need;

    if (r->n_folder + 5 + key->n > sizeof name)
        return refuse_storage(
            r, key, "the name of this storage's ZIP record has %zu bytes, need at most %zu",
            r->n_folder + 5 + key->n, sizeof name);
    memcpy(name, r->folder, r->n_folder);
    memcpy(name + r->n_folder, "data/", 5);
    memcpy(name + r->n_folder + 5, key->text, key->n);
    rec = kvr_zipfile_find(&r->zip, name, r->n_folder + 5 + key->n);
    if (!rec)
        return refuse_storage(r, key, "the ZIP archive has no record of this storage");
    if (!storage_bytes(s, &need) || need != rec->n)
        return refuse_storage(r, key,
                              "the pickle declares %" PRId64 " elements of type %s, but "
                              "this storage's ZIP record has another size, %zu bytes",
                              s->i, kvr_dtype_name(s->dtype), rec->n);
    *data = rec->data;
    return KVR_OK;
}

static enum kvr_status legacy_storage(const struct reader *r, const struct kvr_pk_node *s,
                                      const unsigned char **data)
{
    const struct kvr_pk_node *key = &r->p.nodes[s->key];
    const struct stored want = { .key = key->text, .n_key = key->n };
    const struct stored *hit =
        r->n_stored ? bsearch(&want, r->stored, r->n_stored, sizeof *r->stored, by_key) : NULL;

    if (!hit || !hit->data)
        return refuse_storage(
            r, key, "a tensor uses this storage, but the file's list of storages lacks it");
    if (hit->n != s->i || hit->dtype != (enum kvr_dtype)s->dtype)
        return refuse_storage(
            r, key,
            "two tensors use this storage with different types or lengths: %" PRId64
            " elements of %s and %" PRId64 " elements of %s",
            (int64_t)hit->n, kvr_dtype_name(hit->dtype), s->i, kvr_dtype_name(s->dtype));
    *data = hit->data;
    return KVR_OK;
}

/* --- Tensors ------------------------------------------------------------------------------- */

/* refuse_tensor(r, format, ...): like refuse(), and the message names the tensor. */
#define refuse_tensor(r, ...)                                                                      \
    kvr_fail_prefix(kvr_fail(KVR_EFORMAT, __VA_ARGS__), "%s: tensor '%s'", (r)->where,             \
                    kvr_shown_string((char[KVR_PRINTABLE]){ 0 }, (r)->path))

static void copy_ints(const struct reader *r, const struct kvr_pk_node *tuple, int64_t *to)
{
    uint32_t cell = tuple->first;

    for (uint32_t i = 0; i < tuple->n; i++, cell = r->p.cells[cell].next)
        to[i] = item(r, cell)->i;
}

/* The last element must be in the storage: offset + sum (shape - 1) stride < n. */
static enum kvr_status check_extent(const struct reader *r, const struct kvr_weight *w,
                                    int64_t offset, int64_t n_stored)
{
    int64_t last = offset, n, step;
    char shape[96];

    if (offset < 0)
        return refuse_tensor(
            r, "the tensor's offset in the storage is %" PRId64 ", need at least 0", offset);
    for (int d = 0; d < w->n_dims; d++)
        if (w->shape[d] < 0 || w->stride[d] < 0)
            return refuse_tensor(
                r, "dimension %d has size %" PRId64 " and stride %" PRId64 ", need at least 0 each",
                d, w->shape[d], w->stride[d]);
    if (!kvr_shape_count(w->shape, w->n_dims, &n))
        return refuse_tensor(r, "shape %s: the number of elements overflows 63 bits",
                             kvr_shape_text(w->shape, w->n_dims, shape, sizeof shape));
    if (n == 0)
        return offset <= n_stored ? KVR_OK
                                  : refuse_tensor(r,
                                                  "the tensor's offset %" PRId64
                                                  " is beyond the storage's %" PRId64 " elements",
                                                  offset, n_stored);
    for (int d = 0; d < w->n_dims; d++)
        if (__builtin_mul_overflow(w->shape[d] - 1, w->stride[d], &step) ||
            __builtin_add_overflow(last, step, &last))
            return refuse_tensor(r, "shape %s: the index of the last element overflows 63 bits",
                                 kvr_shape_text(w->shape, w->n_dims, shape, sizeof shape));
    if (last >= n_stored)
        return refuse_tensor(r,
                             "the last element has index %" PRId64
                             ", but the storage has only %" PRId64 " elements",
                             last, n_stored);
    return KVR_OK;
}

static enum kvr_status add_tensor(struct reader *r, const struct kvr_pk_node *t)
{
    uint32_t cell = t->first;
    const struct kvr_pk_node *storage = item(r, cell), *offset, *shape, *stride;
    struct kvr_weight w = { .dtype = (enum kvr_dtype)storage->dtype };

    cell = r->p.cells[cell].next;
    offset = item(r, cell);
    cell = r->p.cells[cell].next;
    shape = item(r, cell);
    stride = item(r, r->p.cells[cell].next);
    if (shape->n != stride->n)
        return refuse_tensor(r, "the tensor has %u dimensions, but %u strides", shape->n,
                             stride->n);
    assert(shape->n <= KVR_MAX_DIMS); /* kvr_pickle_read checked it */
    w.n_dims = (int)shape->n;
    copy_ints(r, shape, w.shape);
    copy_ints(r, stride, w.stride);
    KVR_TRY(r->stored ? legacy_storage(r, storage, &w.data) : zip_storage(r, storage, &w.data));
    KVR_TRY(check_extent(r, &w, offset->i, storage->i));
    w.data += (uint64_t)offset->i * kvr_dtype_size(w.dtype);
    return kvr_weight_list_add(r->list, r->path, strlen(r->path), &w);
}

/* --- The graph ----------------------------------------------------------------------------- */

static enum kvr_status visit(struct reader *r, const struct kvr_pk_node *x, size_t n_path,
                             int depth);

/* Visits the object x, which a container has under the key `key`, after appending ".key" to the
 * dotted name r->path. */
static enum kvr_status visit_under(struct reader *r, const void *key, size_t n_key, size_t n_path,
                                   const struct kvr_pk_node *x, int depth)
{
    size_t dot = n_path > 0;

    if (n_path + dot + n_key > KVR_WEIGHT_NAME_MAX)
        return refuse(r, "a tensor's name has %zu bytes, need at most %d", n_path + dot + n_key,
                      KVR_WEIGHT_NAME_MAX);
    memcpy(r->path + n_path, ".", dot);
    memcpy(r->path + n_path + dot, key, n_key);
    n_path += dot + n_key;
    r->path[n_path] = 0;
    return visit(r, x, n_path, depth);
}

static enum kvr_status visit_dict(struct reader *r, const struct kvr_pk_node *x, size_t n_path,
                                  int depth)
{
    uint32_t cell = x->first;

    for (uint32_t i = 0; i < x->n; i += 2) {
        const struct kvr_pk_node *key = item(r, cell);
        char number[24];

        cell = r->p.cells[cell].next;
        snprintf(number, sizeof number, "%" PRId64, key->kind == KVR_PK_INT ? key->i : 0);
        KVR_TRY(key->kind == KVR_PK_INT
                    ? visit_under(r, number, strlen(number), n_path, item(r, cell), depth)
                    : visit_under(r, key->text, key->n, n_path, item(r, cell), depth));
        cell = r->p.cells[cell].next;
    }
    return KVR_OK;
}

static enum kvr_status visit_items(struct reader *r, const struct kvr_pk_node *x, size_t n_path,
                                   int depth)
{
    uint32_t cell = x->first;
    char number[24];

    for (uint32_t i = 0; i < x->n; i++, cell = r->p.cells[cell].next) {
        snprintf(number, sizeof number, "%u", i);
        KVR_TRY(visit_under(r, number, strlen(number), n_path, item(r, cell), depth));
    }
    return KVR_OK;
}

static enum kvr_status visit(struct reader *r, const struct kvr_pk_node *x, size_t n_path,
                             int depth)
{
    if (++r->visits > r->max_visits)
        return refuse(r,
                      "shared lists and dicts expand to more than %" PRIu64
                      " objects; this limit is 1000 plus 4 times the pickle's number of objects",
                      r->max_visits);
    switch (x->kind) {
    case KVR_PK_TENSOR:
        return add_tensor(r, x);
    case KVR_PK_TUPLE:
    case KVR_PK_LIST:
    case KVR_PK_DICT:
        break;
    case KVR_PK_STORAGE:
        return refuse(r, "the file contains a storage outside a tensor: save tensors only");
    case KVR_PK_GLOBAL:
        return refuse(
            r, "the file contains the name of a type or function as a value: save tensors only");
    default:
        return KVR_OK;
    }
    if (depth >= MAX_DEPTH)
        return kvr_fail(KVR_EFORMAT, "%s: containers are nested deeper than %d levels, the limit",
                        r->where, MAX_DEPTH);
    return x->kind == KVR_PK_DICT ? visit_dict(r, x, n_path, depth + 1)
                                  : visit_items(r, x, n_path, depth + 1);
}

/* Lists all tensors by visiting the object graph from its root. A container referenced twice is
 * visited twice, so the limit on visits is 1000 + 4 times the number of objects. */
static enum kvr_status visit_all(struct reader *r)
{
    r->max_visits = 1000 + 4 * (uint64_t)r->p.n_nodes;
    KVR_TRY(visit(r, &r->p.nodes[r->p.root], 0, 0));
    return kvr_weight_list_finish(r->list);
}

/* --- Zip ----------------------------------------------------------------------------------- */

static bool ends_with(const struct kvr_zipfile_record *rec, const char *tail)
{
    size_t n = strlen(tail);

    return rec->n_name >= n && memcmp(rec->name + rec->n_name - n, tail, n) == 0;
}

static enum kvr_status find_folder(struct reader *r, const struct kvr_zipfile_record **pickle)
{
    *pickle = NULL;
    for (size_t i = 0; i < r->zip.n; i++) {
        if (ends_with(&r->zip.records[i], "/constants.pkl"))
            return refuse(r, "the file is a TorchScript archive, which contains code: save the "
                             "model's state_dict() instead");
        if (!ends_with(&r->zip.records[i], "/data.pkl"))
            continue;
        if (*pickle)
            return refuse(r, "zip: the archive has more than one data.pkl, need exactly one");
        *pickle = &r->zip.records[i];
    }
    if (!*pickle)
        return refuse(r, "zip: the archive has no data.pkl, so torch.save did not write this file");
    r->folder = (*pickle)->name;
    r->n_folder = (*pickle)->n_name - strlen("data.pkl");
    return KVR_OK;
}

static enum kvr_status check_byte_order(const struct reader *r)
{
    static const char tail[] = "byteorder";
    const struct kvr_zipfile_record *rec;
    char name[KEY_ROOM];

    if (r->n_folder + sizeof tail > sizeof name)
        return refuse(r, "zip: the name of the archive's folder has %zu bytes, need at most %zu",
                      r->n_folder, sizeof name - sizeof tail);
    memcpy(name, r->folder, r->n_folder);
    memcpy(name + r->n_folder, tail, sizeof tail - 1);
    rec = kvr_zipfile_find(&r->zip, name, r->n_folder + sizeof tail - 1);
    if (rec && (rec->n != 6 || memcmp(rec->data, "little", 6) != 0))
        return refuse(
            r, "the file was written on a big-endian machine: only little-endian files are read");
    return KVR_OK;
}

static enum kvr_status read_zip(struct reader *r)
{
    const struct kvr_zipfile_record *rec;
    size_t used;

    KVR_TRY(kvr_zipfile_read(&r->zip, r->where, r->bytes, r->n));
    KVR_TRY(find_folder(r, &rec));
    KVR_TRY(check_byte_order(r));
    KVR_TRY(kvr_pickle_read(&r->p, r->where, rec->data, rec->n, &used));
    return visit_all(r);
}

/* --- Legacy -------------------------------------------------------------------------------- */

static enum kvr_status next_pickle(struct reader *r, size_t *at, struct kvr_pickle *p)
{
    size_t used;

    KVR_TRY(kvr_pickle_read(p, r->where, r->bytes + *at, r->n - *at, &used));
    *at += used;
    return KVR_OK;
}

static enum kvr_status check_magic(const struct reader *r, const struct kvr_pickle *p)
{
    static const unsigned char magic[10] = { 0x6c, 0xfc, 0x9c, 0x46, 0xf9,
                                             0x20, 0x6a, 0xa8, 0x50, 0x19 };
    const struct kvr_pk_node *x = &p->nodes[p->root];

    if (x->kind != KVR_PK_LONG || x->n != sizeof magic || memcmp(x->text, magic, sizeof magic) != 0)
        return refuse(r, "the file is a pickle without torch's magic number, so torch.save did not "
                         "write this file");
    return KVR_OK;
}

static enum kvr_status check_version(const struct reader *r, const struct kvr_pickle *p)
{
    const struct kvr_pk_node *x = &p->nodes[p->root];

    if (x->kind != KVR_PK_INT || x->i != LEGACY_VERSION)
        return x->kind == KVR_PK_INT
                   ? refuse(r, "torch.save's legacy format: the version is %" PRId64 ", need %d",
                            x->i, LEGACY_VERSION)
                   : refuse(r, "torch.save's legacy format: the version is not an integer, need %d",
                            LEGACY_VERSION);
    return KVR_OK;
}

static enum kvr_status check_machine(const struct reader *r, const struct kvr_pickle *p)
{
    const struct kvr_pk_node *x = kvr_pickle_get(p, &p->nodes[p->root], "little_endian");

    if (!x || x->kind != KVR_PK_BOOL || x->i != 1)
        return refuse(
            r, "torch.save's legacy format: the file does not state that it is little-endian");
    return KVR_OK;
}

/* Reads one of the three pickles that precede the model in the legacy format, and calls `check` on
 * it. They contain the magic number, the version and the writing machine's byte order. */
static enum kvr_status read_small(struct reader *r, size_t *at,
                                  enum kvr_status (*check)(const struct reader *,
                                                           const struct kvr_pickle *))
{
    struct kvr_pickle p;
    enum kvr_status st;

    KVR_TRY(next_pickle(r, at, &p));
    st = check(r, &p);
    kvr_pickle_free(&p);
    return st;
}

/* Lists the storages that the tensors of the model's pickle name, without duplicates. Each tensor
 * names its storage's key, type and length. */
static enum kvr_status collect_storages(struct reader *r)
{
    size_t n = 0;

    r->stored = calloc((size_t)r->p.n_nodes + 1, sizeof *r->stored);
    if (!r->stored)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating its storages", r->where);
    for (uint32_t i = 0; i < r->p.n_nodes; i++) {
        const struct kvr_pk_node *s = &r->p.nodes[i], *key = &r->p.nodes[s->key];

        if (s->kind == KVR_PK_STORAGE)
            r->stored[n++] = (struct stored){ key->text, key->n, NULL, s->i, s->dtype };
    }
    qsort(r->stored, n, sizeof *r->stored, by_key);
    for (size_t i = 0; i < n; i++)
        if (r->n_stored == 0 || by_key(&r->stored[r->n_stored - 1], &r->stored[i]) != 0)
            r->stored[r->n_stored++] = r->stored[i];
    return KVR_OK;
}

static enum kvr_status place_storage(struct reader *r, const struct kvr_pk_node *key, size_t *at)
{
    const struct stored want = { .key = key->text, .n_key = key->n };
    struct stored *s;
    uint64_t n, need;

    if (key->kind != KVR_PK_STR)
        return refuse(
            r,
            "torch.save's legacy format: the list of storages contains a key that is not a string");
    s = r->n_stored ? bsearch(&want, r->stored, r->n_stored, sizeof *r->stored, by_key) : NULL;
    if (!s || s->data)
        return refuse_storage(r, key,
                              s ? "the file lists this storage twice"
                                : "the file lists this storage, but no tensor uses it");
    if (r->n - *at < 8)
        return refuse_storage(r, key, "the file ends before this storage (truncated?)");
    n = kvr_little_endian(r->bytes + *at, 8);
    *at += 8;
    if (n != (uint64_t)s->n)
        return refuse_storage(r, key,
                              "this storage's header declares %" PRIu64
                              " elements, but the pickle declares %" PRId64,
                              n, (int64_t)s->n);
    if (__builtin_mul_overflow(n, (uint64_t)kvr_dtype_size(s->dtype), &need) || need > r->n - *at)
        return refuse_storage(
            r, key, "the storage of %" PRIu64 " elements of %s ends beyond the file (truncated?)",
            n, kvr_dtype_name(s->dtype));
    s->data = r->bytes + *at;
    *at += need;
    return KVR_OK;
}

static enum kvr_status place_storages(struct reader *r, size_t *at)
{
    struct kvr_pickle keys;
    enum kvr_status st;
    uint32_t cell;

    KVR_TRY(next_pickle(r, at, &keys));
    st = keys.nodes[keys.root].kind == KVR_PK_LIST
             ? KVR_OK
             : refuse(r, "torch.save's legacy format: the list of storages is missing");
    cell = keys.nodes[keys.root].first;
    for (uint32_t i = 0; st == KVR_OK && i < keys.nodes[keys.root].n; i++) {
        st = place_storage(r, &keys.nodes[keys.cells[cell].node], at);
        cell = keys.cells[cell].next;
    }
    kvr_pickle_free(&keys);
    if (st == KVR_OK && *at != r->n)
        st = refuse(r, "torch.save's legacy format: %zu bytes follow the last storage, need 0",
                    r->n - *at);
    return st;
}

static enum kvr_status read_legacy(struct reader *r)
{
    size_t at = 0;

    KVR_TRY(read_small(r, &at, check_magic));
    KVR_TRY(read_small(r, &at, check_version));
    KVR_TRY(read_small(r, &at, check_machine));
    KVR_TRY(next_pickle(r, &at, &r->p));
    KVR_TRY(collect_storages(r));
    KVR_TRY(place_storages(r, &at));
    return visit_all(r);
}

enum kvr_status kvr_torch_read(struct kvr_weight_list *l, bool *legacy, const char *where,
                               const unsigned char *bytes, size_t n)
{
    struct reader *r = calloc(1, sizeof *r);
    enum kvr_status st;

    *l = (struct kvr_weight_list){ .where = where, .file_bytes = n };
    if (!r)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory", where);
    r->where = where;
    r->bytes = bytes;
    r->n = n;
    r->list = l;
    *legacy = !(n >= 2 && bytes[0] == 'P' && bytes[1] == 'K');
    st = *legacy ? read_legacy(r) : read_zip(r);
    kvr_pickle_free(&r->p);
    kvr_zipfile_free(&r->zip);
    free(r->stored);
    free(r);
    if (st != KVR_OK)
        kvr_weight_list_free(l);
    return st;
}
