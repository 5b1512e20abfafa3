/* safetensors.h - reads (memory-mapped and strict) and writes files of tensors in the safetensors
 * format.
 *
 *     struct kvr_st *f;
 *     KVR_TRY(kvr_st_open(&f, "dit.safetensors"));
 *     struct kvr_tensor w;
 *     KVR_TRY(kvr_st_get(f, "blocks.0.ffn.0.weight", &w));   borrowed until close
 *     kvr_st_close(&f);
 *
 * A file has 8 bytes of little-endian header length N, then N bytes of JSON {"name": {"dtype",
 * "shape", "data_offsets": [begin, end)}, "__metadata__": {str: str}}, then the data. The reader
 * refuses a file whose header is truncated, longer than 100 MB, or not a JSON object. Duplicate
 * tensor names and unknown dtypes are refused, while unknown keys of a tensor are ignored. Shapes
 * must not have negative, fractional or overflowing extents, or more than KVR_MAX_DIMS dimensions.
 * The data of all tensors must fill the rest of the file without overlaps, holes or trailing bytes.
 * The length of a tensor's data must match the tensor's shape and dtype. Error messages name the
 * file and the tensor. */
#ifndef KVR_CORE_SAFETENSORS_H
#define KVR_CORE_SAFETENSORS_H

#include <stdbool.h>

#include "harness/core/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_st;

/* Opens a safetensors file, maps it into memory and checks its header. */
enum kvr_status kvr_st_open(struct kvr_st **out, const char *path);
/* Like kvr_st_open, for a file whose content is already in memory, for fuzzing and tests. `bytes`
 * must remain valid until kvr_st_close. */
enum kvr_status kvr_st_open_memory(struct kvr_st **out, const void *bytes, size_t n,
                                   const char *name_for_messages);
/* Unmaps the file, whose tensors are then invalid, and sets *f to NULL. */
void kvr_st_close(struct kvr_st **f);

int kvr_st_count(const struct kvr_st *f);
const char *kvr_st_name(const struct kvr_st *f, int i); /* in data order */
const char *kvr_st_path(const struct kvr_st *f);
const char *kvr_st_metadata(const struct kvr_st *f, const char *key); /* NULL when absent */

/* Whether the file has a tensor of this name. */
bool kvr_st_has(const struct kvr_st *f, const char *name);
/* Finds a tensor by name. If there is none, fails with KVR_ENOTFOUND and a message that names the
 * file and the tensor. `out->data` is read-only. If the tensor's data is misaligned in the file,
 * because the program that wrote it did not pad the header, the first call copies the data to
 * aligned memory that `f` owns. */
enum kvr_status kvr_st_get(const struct kvr_st *f, const char *name, struct kvr_tensor *out);
/* Like kvr_st_get, but data may be misaligned, so the caller must read it as bytes. */
enum kvr_status kvr_st_view(const struct kvr_st *f, const char *name, struct kvr_tensor *out);
/* Like kvr_st_get with a required shape, where -1 matches any extent; the message of KVR_EFORMAT
 * gives the actual and the required shape. */
enum kvr_status kvr_st_get_shaped(const struct kvr_st *f, const char *name, int n_dims,
                                  const int64_t *shape, struct kvr_tensor *out);
/* Like kvr_st_view, with a check of the shape as in kvr_st_get_shaped. */
enum kvr_status kvr_st_view_shaped(const struct kvr_st *f, const char *name, int n_dims,
                                   const int64_t *shape, struct kvr_tensor *out);

/* Writes all tensors to a temporary file, syncs this file and renames it to `path`. `metadata` is
 * NULL or a list of alternating keys and values, terminated by NULL. After a failure `path` is
 * unchanged. To align the data, the file has the tensors in order of decreasing element size;
 * tensors of equal element size keep their order in `items`. */
struct kvr_st_item {
    const char *name;
    struct kvr_tensor t;
};
enum kvr_status kvr_st_write(const char *path, const struct kvr_st_item *items, int n_items,
                             const char *const *metadata);

#ifdef __cplusplus
}
#endif
#endif
