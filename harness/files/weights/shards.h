/* shards.h - lists the tensors of one safetensors file, or of the shards that an index.json names.
 *
 *     struct kvr_shards s;
 *     KVR_TRY(kvr_shards_read(&s, &list, "diffusion_pytorch_model.safetensors.index.json"));
 *     kvr_shards_free(&s);
 *
 * The index.json has the form {"weight_map": {tensor: file}}. A shard must be in the folder of its
 * index.json, and each tensor must be in the shard that index.json names. Tensors that index.json
 * does not name are ignored. */
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

/* Opens the shards that the index file `path` names, and adds their tensors to the list `l`. Both
 * `s` and `path` must outlive `l`. After an error `s` and the list `l` are empty. */
enum kvr_status kvr_shards_read(struct kvr_shards *s, struct kvr_weight_list *l, const char *path);
/* Like kvr_shards_read, for one safetensors file `f` that is already open. The function takes
 * ownership of `f`, even if the function fails. */
enum kvr_status kvr_shards_read_one(struct kvr_shards *s, struct kvr_weight_list *l,
                                    const char *path, uint64_t n_bytes, struct kvr_st *f);
void kvr_shards_free(struct kvr_shards *s);

#ifdef __cplusplus
}
#endif
#endif
