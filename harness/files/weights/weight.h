/* weight.h - one tensor of a file in any format, and the list filled by the readers.
 *
 *     struct kvr_weight_list l = { .where = path, .file_bytes = n };
 *     KVR_TRY(kvr_weight_list_add(&l, name, n_name, &w));
 *     KVR_TRY(kvr_weight_list_finish(&l));
 *     kvr_weight_list_free(&l);
 *
 * Element (i0, i1, ...) of a plain tensor is at data + (i0 stride0 + i1 stride1 + ...) x size.
 * Block-quantized tensors (GGUF) are contiguous, and a block never crosses a row. */
#ifndef KVR_WEIGHTS_WEIGHT_H
#define KVR_WEIGHTS_WEIGHT_H

#include "harness/core/tensor.h"
#include "harness/files/weights/blocks.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_weight {
    const char *name;               /* keys from the root, joined by '.' */
    enum kvr_dtype dtype;           /* type of a plain tensor (blocks NULL) */
    const struct kvr_quant *blocks; /* block format; NULL: a plain tensor */
    int n_dims;
    int64_t shape[KVR_MAX_DIMS];  /* the last index is contiguous */
    int64_t stride[KVR_MAX_DIMS]; /* elements, >= 0; plain tensors only */
    bool contiguous;              /* data[0 .. n_bytes) is the tensor in row-major order */
    int64_t n;                    /* elements */
    int64_t n_bytes;              /* size of n contiguous elements of the stored type */
    const unsigned char *data;    /* element 0; in the mapped file, little-endian, any alignment */
    const char *file;             /* name of the file, if there are several; else NULL */
};

enum {
    KVR_WEIGHT_NAME_MAX = 1024,
    KVR_WEIGHTS_MAX = 1 << 16,
    /* Limit of all names: a long key shared by many tensors is stored once in the file but repeated
     * in their names. */
    KVR_WEIGHTS_NAME_BYTES = 8 << 20,
    /* Limit of the bytes of all tensors, as a multiple of the file's size. Views share stored data,
     * and an expanded view (stride 0) can be of any size. */
    KVR_WEIGHTS_EXPANSION = 8,
};

const char *kvr_weight_type(const struct kvr_weight *w); /* "F32", "BF16", "Q4_K", ... */

/* Converts elements [first, first + n), in row-major order, to float. KVR_EUNSUPPORTED: not a
 * floating type. first and n must be in range, and multiples of the block size for blocks. */
enum kvr_status kvr_weight_f32(const struct kvr_weight *w, int64_t first, int64_t n, float *to);
/* Copies elements [first, first + n) of a plain tensor in its stored type. */
void kvr_weight_copy(const struct kvr_weight *w, int64_t first, int64_t n, void *to);
/* Hash of the contiguous little-endian bytes of the stored type. hex: 65 characters. */
enum kvr_status kvr_weight_sha256(const struct kvr_weight *w, char *hex);
/* Number of NaN or infinite elements; 0 for types without them. */
enum kvr_status kvr_weight_nonfinite(const struct kvr_weight *w, int64_t *n);

struct kvr_weight_list {
    const char *where;   /* borrowed, used in messages */
    uint64_t file_bytes; /* reference for the expansion limit */
    struct kvr_weight *w;
    const struct kvr_weight **by_name;
    int n, cap;
    uint64_t total;      /* size of all tensors */
    uint64_t name_bytes; /* size of all names */
};

/* Copies `w` and the name, and computes n, n_bytes and contiguous. The caller guarantees that all
 * elements are within the file. KVR_EFORMAT: a name that is empty or too long (or all names
 * together are too long), a shape that overflows, too many tensors, or too large an expansion. */
enum kvr_status kvr_weight_list_add(struct kvr_weight_list *l, const void *name, size_t n_name,
                                    const struct kvr_weight *w);
/* Sorts the list for kvr_weight_list_find. KVR_EFORMAT: no tensors, or duplicate names. */
enum kvr_status kvr_weight_list_finish(struct kvr_weight_list *l);
const struct kvr_weight *kvr_weight_list_find(const struct kvr_weight_list *l, const char *name);
void kvr_weight_list_free(struct kvr_weight_list *l);

/* Number of elements of a shape; false if a product overflows or an extent is negative, even if
 * another extent is 0. */
bool kvr_shape_count(const int64_t *shape, int n_dims, int64_t *n);

#ifdef __cplusplus
}
#endif
#endif
