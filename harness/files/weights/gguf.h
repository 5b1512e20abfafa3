/* gguf.h - reads a GGUF file (version 2 or 3): typed metadata and tensors.
 *
 *     struct kvr_gguf *g;
 *     struct kvr_weight_list l;
 *     int64_t n_layers;
 *     KVR_TRY(kvr_gguf_read(&g, &l, "model.gguf", bytes, n));
 *     KVR_TRY(kvr_gguf_int(g, "llama.block_count", &n_layers));
 *     kvr_gguf_free(&g);
 *
 * Layout, little-endian: "GGUF", version u32, number of tensors u64, number of metadata u64.
 * Metadata follow: key, type u32, value. Then tensors: name, number of dimensions u32, extents u64
 * (the contiguous one first), type u32, offset u64. Data are aligned to general.alignment (32). A
 * string is a u64 length and its bytes.
 *
 * Refused:
 * - keys or names that are not UTF-8, empty, too long or duplicated;
 * - nested arrays, unknown value types, unknown or unsupported tensor types;
 * - extents that overflow or do not fill blocks;
 * - data that is misaligned, overlaps or exceeds the file. */
#ifndef KVR_WEIGHTS_GGUF_H
#define KVR_WEIGHTS_GGUF_H

#include "harness/files/weights/weight.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_gguf; /* the metadata */

/* `bytes` and `where` must outlive *out and `l`. On failure *out is NULL and `l` is empty. */
enum kvr_status kvr_gguf_read(struct kvr_gguf **out, struct kvr_weight_list *l, const char *where,
                              const unsigned char *bytes, size_t n);
void kvr_gguf_free(struct kvr_gguf **g); /* accepts NULL */

struct kvr_gguf_string {
    const char *text; /* in the file, not terminated, any bytes */
    size_t n;
};

/* KVR_ENOTFOUND: no such key; KVR_EFORMAT: another type, or an integer beyond int64. `out` is then
 * unchanged. _int accepts any integer type, _real any number. */
enum kvr_status kvr_gguf_int(const struct kvr_gguf *g, const char *key, int64_t *out);
enum kvr_status kvr_gguf_real(const struct kvr_gguf *g, const char *key, double *out);
enum kvr_status kvr_gguf_bool(const struct kvr_gguf *g, const char *key, bool *out);
enum kvr_status kvr_gguf_text(const struct kvr_gguf *g, const char *key,
                              struct kvr_gguf_string *out);
/* Arrays. *out is malloc'd, [*n]; the caller frees it. */
enum kvr_status kvr_gguf_texts(const struct kvr_gguf *g, const char *key,
                               struct kvr_gguf_string **out, size_t *n);
enum kvr_status kvr_gguf_reals(const struct kvr_gguf *g, const char *key, double **out, size_t *n);
bool kvr_gguf_has(const struct kvr_gguf *g, const char *key);

#ifdef __cplusplus
}
#endif
#endif
