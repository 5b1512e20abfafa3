/* weights.h - reads weight files of all supported formats.
 *
 *     struct kvr_weights *w;
 *     struct kvr_array a = { 0 };
 *     KVR_TRY(kvr_weights_open(&w, "self_forcing_dmd.pt"));
 *     KVR_TRY(kvr_weights_read_f32(w, "blocks.0.ffn.0.bias", 1, (int64_t[]){ -1 }, dev,
 *                                  KVR_MEM_WEIGHTS, &a));
 *     kvr_array_free(&a);
 *     kvr_weights_close(&w);
 *
 * Supported formats are PyTorch (zip or legacy), safetensors, GGUF, and the index.json of
 * safetensors shards. A file's format is detected from its content, not from its name. The file
 * stays mapped until kvr_weights_close, and its pages become resident when they are first read.
 * Opening a file can fail with KVR_EFORMAT, KVR_EUNSUPPORTED, KVR_ENOTFOUND or KVR_EIO. Several
 * threads may read from one struct kvr_weights concurrently. */
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
/* Opens a weight file whose contents are in memory, for fuzzing and tests. An index.json of shards
 * is not supported. `bytes` must stay valid until kvr_weights_close. */
enum kvr_status kvr_weights_open_memory(struct kvr_weights **out, const void *bytes, size_t n,
                                        const char *name_for_messages);
void kvr_weights_close(struct kvr_weights **w); /* accepts NULL */

enum kvr_weights_format kvr_weights_format(const struct kvr_weights *w);
/* Returns the name of a file format, which is "torch zip", "torch legacy", "safetensors",
 * "safetensors shards" or "GGUF". */
const char *kvr_weights_format_name(enum kvr_weights_format f);
const char *kvr_weights_path(const struct kvr_weights *w);
uint64_t kvr_weights_file_bytes(const struct kvr_weights *w);         /* total over all files */
const struct kvr_gguf *kvr_weights_gguf(const struct kvr_weights *w); /* NULL if not GGUF */

int kvr_weights_count(const struct kvr_weights *w);
const struct kvr_weight *kvr_weights_at(const struct kvr_weights *w, int i); /* in file order */

/* Finds a tensor by its name in the file or by kvreel's name for it (names.h); returns NULL if
 * there is no such tensor. */
const struct kvr_weight *kvr_weights_find(const struct kvr_weights *w, const char *name);
/* Returns the model name of tensor i, which is kvreel's name for this tensor (names.h). Returns
 * NULL if the tensor is not part of the model, such as a tensor of a critic or an optimizer state.
 * Several tensors of a faulty file can have the same model name. */
const char *kvr_weights_model_name(const struct kvr_weights *w, int i);
/* Returns the number of tensors that have the same model name (kvr_weights_model_name) as another
 * tensor. Code that loads a model must refuse the file if this number is not 0. */
int kvr_weights_collisions(const struct kvr_weights *w);
/* Returns KVR_EFORMAT if two tensors have the same model name. The message names both tensors. */
enum kvr_status kvr_weights_check_names(const struct kvr_weights *w);

/* Converts a tensor of any floating-point or block-quantized type into a new F32 array in host
 * memory. The memory statistics of device `dev` count the array under the tag `tag`. The tensor
 * must have n_dims dimensions, and dimension i must have the extent shape[i], where -1 matches any
 * extent. Returns KVR_ENOTFOUND if there is no such tensor, and KVR_EFORMAT if its shape differs.
 * Returns KVR_EUNSUPPORTED if the tensor's elements are integers. After an error `out` is empty. */
enum kvr_status kvr_weights_read_f32(const struct kvr_weights *w, const char *name, int n_dims,
                                     const int64_t *shape, struct kvr_dev *dev,
                                     enum kvr_mem_tag tag, struct kvr_array *out);

/* Releases the memory pages of a tensor; reading the tensor again loads them from the file. The
 * call has no effect on weights opened by kvr_weights_open_memory. */
void kvr_weights_forget(const struct kvr_weights *w, const struct kvr_weight *t);

#ifdef __cplusplus
}
#endif
#endif
