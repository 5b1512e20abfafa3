/* shards.h - the tensors of one safetensors file, or of several named by an index.json.
 *
 *     struct kvr_shards s;
 *     KVR_TRY(kvr_shards_read(&s, &list, "diffusion_pytorch_model.safetensors.index.json"));
 *     kvr_shards_free(&s);
 *
 * The index is {"weight_map": {tensor: file}}. File names have no folder and are relative to the
 * index; each tensor must be in its named file. Tensors not in the index are ignored. */
#ifndef KVR_WEIGHTS_SHARDS_H
#define KVR_WEIGHTS_SHARDS_H

#include "harness/core/safetensors.h"
#include "harness/files/weights/weight.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_shards {
    struct kvr_st **files;
    char **names; /* file names without folder */
    int n;
};

/* The list `l` borrows from `s`, and l->where borrows `path`. On failure `s` and `l` are empty. */
enum kvr_status kvr_shards_read(struct kvr_shards *s, struct kvr_weight_list *l, const char *path);
/* Like kvr_shards_read, for a single file that is already open; takes ownership of `f`, also on
 * failure. */
enum kvr_status kvr_shards_read_one(struct kvr_shards *s, struct kvr_weight_list *l,
                                    const char *path, uint64_t n_bytes, struct kvr_st *f);
void kvr_shards_free(struct kvr_shards *s);

#ifdef __cplusplus
}
#endif
#endif
