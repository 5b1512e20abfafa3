/* gguf.h - reads a GGUF file (version 2 or 3): typed metadata and tensors.
 *
 *     struct kvr_gguf *g;
 *     struct kvr_weight_list l;
 *     int64_t n_layers;
 *     KVR_TRY(kvr_gguf_read(&g, &l, "model.gguf", bytes, n));
 *     KVR_TRY(kvr_gguf_int(g, "llama.block_count", &n_layers));
 *     kvr_gguf_free(&g);
 *
 * A GGUF file is little-endian and begins with "GGUF", the version (u32), the number of tensors
 * (u64) and the number of metadata entries (u64). Each metadata entry is a key, a type (u32) and a
 * value. Each tensor descriptor is a name, the number of dimensions (u32), the extents (u64 each,
 * innermost dimension first), the element type (u32) and the offset of the tensor's data (u64).
 * Tensor data follow the descriptors. Their alignment in bytes is the value of the metadata key
 * general.alignment, by default 32. A string is its length (u64) and its bytes.
 *
 * A file is refused if a key or tensor name is empty, too long, duplicated or invalid UTF-8. Nested
 * arrays, unknown value types, and unknown or unsupported tensor types are refused. A tensor is
 * refused if its number of elements overflows, or if its row length is not a multiple of the number
 * of elements per block. A tensor is also refused if its data are misaligned, overlap another
 * tensor's data, or exceed the file. */
#ifndef KVR_WEIGHTS_GGUF_H
#define KVR_WEIGHTS_GGUF_H

#include "harness/files/weights/weight.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_gguf; /* the metadata */

/* Reads the metadata and lists the tensors of the file whose contents are the array `bytes` [n].
 * `where` is the file's name for error messages; `bytes` and `where` must outlive *out and `l`.
 * After an error *out is NULL and the list `l` is empty. */
enum kvr_status kvr_gguf_read(struct kvr_gguf **out, struct kvr_weight_list *l, const char *where,
                              const unsigned char *bytes, size_t n);
void kvr_gguf_free(struct kvr_gguf **g); /* accepts NULL */

struct kvr_gguf_string {
    const char *text; /* bytes of the string in the mapped file; they may be invalid UTF-8 and are
                       * not NUL-terminated */
    size_t n;
};

/* Reads the value of a metadata key whose type is any GGUF integer type. Returns KVR_ENOTFOUND if
 * the file lacks the key. Returns KVR_EFORMAT if the value is not an integer or does not fit
 * int64_t. After an error *out is unchanged. */
enum kvr_status kvr_gguf_int(const struct kvr_gguf *g, const char *key, int64_t *out);
/* Like kvr_gguf_int, for a key whose type is any integer or floating-point type. */
enum kvr_status kvr_gguf_real(const struct kvr_gguf *g, const char *key, double *out);
/* Like kvr_gguf_int, for a key of type bool. */
enum kvr_status kvr_gguf_bool(const struct kvr_gguf *g, const char *key, bool *out);
/* Like kvr_gguf_int, for a key of type string. The string points into the mapped file. */
enum kvr_status kvr_gguf_text(const struct kvr_gguf *g, const char *key,
                              struct kvr_gguf_string *out);
/* Sets *out to a new array of the *n values of a metadata key of array type; the caller frees the
 * array with free(). */
enum kvr_status kvr_gguf_texts(const struct kvr_gguf *g, const char *key,
                               struct kvr_gguf_string **out, size_t *n);
enum kvr_status kvr_gguf_reals(const struct kvr_gguf *g, const char *key, double **out, size_t *n);
bool kvr_gguf_has(const struct kvr_gguf *g, const char *key);

#ifdef __cplusplus
}
#endif
#endif
