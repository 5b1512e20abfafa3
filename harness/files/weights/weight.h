/* weight.h - describes one tensor of a weight file, and defines the list of tensors that the reader
 * of each file format fills.
 *
 *     struct kvr_weight_list l = { .where = path, .file_bytes = n };
 *     KVR_TRY(kvr_weight_list_add(&l, name, n_name, &w));
 *     KVR_TRY(kvr_weight_list_finish(&l));
 *     kvr_weight_list_free(&l);
 *
 * A tensor is plain or block-quantized. All elements of a plain tensor have one type such as F32;
 * element (i0, i1, ...) is at data + (i0 * stride[0] + i1 * stride[1] + ...) * element size. A
 * block-quantized tensor (GGUF) is contiguous, and each row has a whole number of blocks. */
#ifndef KVR_WEIGHTS_WEIGHT_H
#define KVR_WEIGHTS_WEIGHT_H

#include "harness/core/tensor.h"
#include "harness/files/weights/blocks.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_weight {
    const char *name;               /* the tensor's name: dictionary keys from the root of the file,
                                     * joined by '.' */
    enum kvr_dtype dtype;           /* element type, if the tensor is not block-quantized */
    const struct kvr_quant *blocks; /* block format; NULL: not block-quantized */
    int n_dims;
    int64_t shape[KVR_MAX_DIMS];  /* extents of all dimensions, outermost dimension first */
    int64_t stride[KVR_MAX_DIMS]; /* strides of a plain tensor in elements, >= 0 */
    bool contiguous;              /* whether all elements are stored in row-major order without
                                   * gaps, from `data` on */
    int64_t n;                    /* elements */
    int64_t n_bytes;              /* size of all n elements in the stored type, without gaps */
    const unsigned char *data;    /* address of element 0 in the mapped file; elements are
                                   * little-endian and may be unaligned */
    const char *file;             /* name of the shard file with this tensor, or NULL if the weights
                                   * are one file */
};

enum {
    KVR_WEIGHT_NAME_MAX = 1024,
    KVR_WEIGHTS_MAX = 1 << 16,
    /* Limit of the total length of all tensor names. The total can exceed the file's size: a name
     * joins nested dictionary keys, and the file may store a key once for many names. */
    KVR_WEIGHTS_NAME_BYTES = 8 << 20,
    /* Limit of the total size of all tensors, as a multiple of the file's size. The total can
     * exceed the file's size because views share stored data, and an expanded view (stride 0) can
     * have any size. */
    KVR_WEIGHTS_EXPANSION = 8,
};

const char *kvr_weight_type(const struct kvr_weight *w); /* "F32", "BF16", "Q4_K", ... */

/* Converts elements [first, first + n), in row-major order, to float. The range must be within the
 * tensor. For a block-quantized tensor, first and n must be multiples of the number of elements per
 * block. Returns KVR_EUNSUPPORTED if the tensor has integer elements. */
enum kvr_status kvr_weight_f32(const struct kvr_weight *w, int64_t first, int64_t n, float *to);
/* Copies elements [first, first + n), in row-major order, in the stored type. The tensor must not
 * be block-quantized. */
void kvr_weight_copy(const struct kvr_weight *w, int64_t first, int64_t n, void *to);
/* Computes the SHA-256 of all elements in row-major order, as little-endian bytes of the stored
 * type. `hex` must have room for 65 characters. */
enum kvr_status kvr_weight_sha256(const struct kvr_weight *w, char *hex);
/* Counts the NaN and infinite elements. The count is 0 for types without NaN and infinity. */
enum kvr_status kvr_weight_nonfinite(const struct kvr_weight *w, int64_t *n);

struct kvr_weight_list {
    const char *where;   /* file name for error messages; borrowed */
    uint64_t file_bytes; /* size of the file in bytes; `total` is at most file_bytes *
                          * KVR_WEIGHTS_EXPANSION */
    struct kvr_weight *w;
    const struct kvr_weight **by_name;
    int n, cap;
    uint64_t total;      /* sum of n_bytes over all tensors */
    uint64_t name_bytes; /* total length of all names in bytes */
};

/* Appends a copy of `w` with the given name, and computes the copy's fields n, n_bytes and
 * contiguous. The caller must have checked that all elements of `w` are within the file. Returns
 * KVR_EFORMAT if the name is empty, the number of elements overflows, or one of the limits
 * KVR_WEIGHT_NAME_MAX and KVR_WEIGHTS_* is exceeded. */
enum kvr_status kvr_weight_list_add(struct kvr_weight_list *l, const void *name, size_t n_name,
                                    const struct kvr_weight *w);
/* Sorts the list for kvr_weight_list_find. Returns KVR_EFORMAT if the list is empty or two tensors
 * have the same name. */
enum kvr_status kvr_weight_list_finish(struct kvr_weight_list *l);
/* Finds a tensor by its name in a list sorted by kvr_weight_list_finish; returns NULL if there is
 * no such tensor. */
const struct kvr_weight *kvr_weight_list_find(const struct kvr_weight_list *l, const char *name);
void kvr_weight_list_free(struct kvr_weight_list *l);

/* Computes the number of elements of a shape. Returns false if an extent is negative or the product
 * of the nonzero extents overflows int64_t. */
bool kvr_shape_count(const int64_t *shape, int n_dims, int64_t *n);

#ifdef __cplusplus
}
#endif
#endif
