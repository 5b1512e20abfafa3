/* weight.h - one tensor of a file, wherever it lies, and the list that a reader of a format fills.
 *
 *     struct kvr_weight_list l = { .where = path, .file_bytes = n };
 *     KVR_TRY(kvr_weight_list_add(&l, name, n_name, &w));
 *     KVR_TRY(kvr_weight_list_finish(&l));
 *     kvr_weight_list_free(&l);
 *
 * Element (i0, i1, ...) of a plain tensor lies at data + (i0 stride0 + i1 stride1 + ...) x size.
 * Tensors of blocks (GGUF's quantised ones) are contiguous, and a block never crosses a row. */
#ifndef KVR_WEIGHTS_WEIGHT_H
#define KVR_WEIGHTS_WEIGHT_H

#include "harness/core/tensor.h"
#include "harness/files/weights/blocks.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_weight {
    const char *name;               /* keys from the root, joined by '.' */
    enum kvr_dtype dtype;           /* where blocks is NULL */
    const struct kvr_quant *blocks; /* NULL: plain */
    int n_dims;
    int64_t shape[KVR_MAX_DIMS];  /* the last index is contiguous */
    int64_t stride[KVR_MAX_DIMS]; /* elements, >= 0; of plain tensors */
    bool contiguous;              /* data[0 .. n_bytes) is the tensor, row by row */
    int64_t n;                    /* elements */
    int64_t n_bytes;              /* of n contiguous elements in the stored type */
    const unsigned char *data;    /* element 0; in the mapped file, little-endian, any alignment */
    const char *file;             /* NULL, or which of several files */
};

enum {
    KVR_WEIGHT_NAME_MAX = 1024,
    KVR_WEIGHTS_MAX = 1 << 16,
    /* A key that many tensors lie under costs the file once and the names every time. */
    KVR_WEIGHTS_NAME_BYTES = 8 << 20,
    /* Views may repeat what a file stores once, an expanded one without end. All tensors together
     * may be this many times the file. */
    KVR_WEIGHTS_EXPANSION = 8,
};

const char *kvr_weight_type(const struct kvr_weight *w); /* "F32", "BF16", "Q4_K", ... */

/* Elements [first, first + n) in row-major order as float. KVR_EUNSUPPORTED: a type that is not
 * floating. first and n are the caller's to keep inside, and for blocks multiples of their size. */
enum kvr_status kvr_weight_f32(const struct kvr_weight *w, int64_t first, int64_t n, float *to);
/* Elements [first, first + n) of a plain tensor in its stored type. */
void kvr_weight_copy(const struct kvr_weight *w, int64_t first, int64_t n, void *to);
/* Of the contiguous little-endian bytes in the stored type. hex: 65 characters. */
enum kvr_status kvr_weight_sha256(const struct kvr_weight *w, char *hex);
/* How many elements are NaN or infinite; 0 for types that have none. */
enum kvr_status kvr_weight_nonfinite(const struct kvr_weight *w, int64_t *n);

struct kvr_weight_list {
    const char *where;   /* borrowed, for messages */
    uint64_t file_bytes; /* what the expansion is measured against */
    struct kvr_weight *w;
    const struct kvr_weight **by_name;
    int n, cap;
    uint64_t total;      /* bytes of all tensors */
    uint64_t name_bytes; /* of all names */
};

/* Copies `w` and the name, and works out n, n_bytes and contiguous. Strides are taken as they
 * are; that all elements lie inside the file is the caller's promise. KVR_EFORMAT: a name that is
 * empty or too long (or all of them are), a shape that overflows, too many tensors, too large an
 * expansion. */
enum kvr_status kvr_weight_list_add(struct kvr_weight_list *l, const void *name, size_t n_name,
                                    const struct kvr_weight *w);
/* Sort for kvr_weight_list_find. KVR_EFORMAT: no tensors at all, or two of one name. */
enum kvr_status kvr_weight_list_finish(struct kvr_weight_list *l);
const struct kvr_weight *kvr_weight_list_find(const struct kvr_weight_list *l, const char *name);
void kvr_weight_list_free(struct kvr_weight_list *l);

/* Elements of a shape; false when a product overflows or an extent is negative. Zero extents do
 * not excuse the others. */
bool kvr_shape_count(const int64_t *shape, int n_dims, int64_t *n);

#ifdef __cplusplus
}
#endif
#endif
