/* weights.h - a weight file in any supported format.
 *
 *     struct kvr_weights *w;
 *     struct kvr_array a = { 0 };
 *     KVR_TRY(kvr_weights_open(&w, "self_forcing_dmd.pt"));
 *     KVR_TRY(kvr_weights_read_f32(w, "blocks.0.ffn.0.bias", 1, (int64_t[]){ -1 }, dev,
 *                                  KVR_MEM_WEIGHTS, &a));
 *     kvr_array_free(&a);
 *     kvr_weights_close(&w);
 *
 * The format is detected from the content, not the name: torch (zip and legacy), safetensors, GGUF,
 * or the index.json of safetensors shards. The file stays mapped until close; pages become resident
 * when read. Errors state the reason: KVR_EFORMAT, KVR_EUNSUPPORTED, KVR_ENOTFOUND, KVR_EIO. A
 * reader may be used by several threads. */
#ifndef KVR_WEIGHTS_WEIGHTS_H
#define KVR_WEIGHTS_WEIGHTS_H

#include "harness/device/array.h"
#include "harness/files/weights/gguf.h"
#include "harness/files/weights/weight.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kvr_weights_format {
    KVR_WEIGHTS_TORCH_ZIP,
    KVR_WEIGHTS_TORCH_LEGACY,
    KVR_WEIGHTS_SAFETENSORS,
    KVR_WEIGHTS_SHARDS,
    KVR_WEIGHTS_GGUF,
};

struct kvr_weights;

enum kvr_status kvr_weights_open(struct kvr_weights **out, const char *path);
/* Opens weights in memory (fuzzing, tests), without shards. `bytes` must outlive the reader. */
enum kvr_status kvr_weights_open_memory(struct kvr_weights **out, const void *bytes, size_t n,
                                        const char *name_for_messages);
void kvr_weights_close(struct kvr_weights **w); /* accepts NULL */

enum kvr_weights_format kvr_weights_format(const struct kvr_weights *w);
/* "torch zip", "torch legacy", "safetensors", "safetensors shards", "GGUF" */
const char *kvr_weights_format_name(enum kvr_weights_format f);
const char *kvr_weights_path(const struct kvr_weights *w);
uint64_t kvr_weights_file_bytes(const struct kvr_weights *w);         /* total over all files */
const struct kvr_gguf *kvr_weights_gguf(const struct kvr_weights *w); /* NULL if not GGUF */

int kvr_weights_count(const struct kvr_weights *w);
const struct kvr_weight *kvr_weights_at(const struct kvr_weights *w, int i); /* in file order */

/* Finds a tensor by its name in the file, or by its model name (names.h) if it has one; NULL: no
 * such tensor. */
const struct kvr_weight *kvr_weights_find(const struct kvr_weights *w, const char *name);
/* Model name of tensor i: prefixes removed and renamed to kvreel's. NULL: it belongs to another
 * part of the file (a critic, an optimizer), or its name would not be unique. */
const char *kvr_weights_model_name(const struct kvr_weights *w, int i);
/* Number of tensors that share a model name with another tensor. A loader must refuse a file that
 * has any. */
int kvr_weights_collisions(const struct kvr_weights *w);
/* KVR_EFORMAT, with both names and the shared one, if two tensors share a model name. */
enum kvr_status kvr_weights_check_names(const struct kvr_weights *w);

/* Copies a tensor of any floating or block type into a new F32 array in host memory, accounted by
 * `dev`. shape [n_dims] is required; -1 matches any extent. KVR_ENOTFOUND: no such tensor;
 * KVR_EFORMAT: another shape, with both; KVR_EUNSUPPORTED: integers. On failure `out` stays
 * empty. */
enum kvr_status kvr_weights_read_f32(const struct kvr_weights *w, const char *name, int n_dims,
                                     const int64_t *shape, struct kvr_dev *dev,
                                     enum kvr_mem_tag tag, struct kvr_array *out);

/* Releases the resident pages of the tensor until it is read again. No effect for a file in
 * memory. */
void kvr_weights_forget(const struct kvr_weights *w, const struct kvr_weight *t);

#ifdef __cplusplus
}
#endif
#endif
