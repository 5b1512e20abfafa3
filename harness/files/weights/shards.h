/* shards.h - the tensors of safetensors files: one, or several named by an index.json.
 *
 *     struct kvr_shards s;
 *     KVR_TRY(kvr_shards_read(&s, &list, "diffusion_pytorch_model.safetensors.index.json"));
 *     kvr_shards_free(&s);
 *
 * The index is {"weight_map": {tensor: file}}. A file is named without a folder and lies beside
 * the index; each tensor must be in the file that the index says. Tensors that the index does not
 * name are not the model's. */
#ifndef KVR_WEIGHTS_SHARDS_H
#define KVR_WEIGHTS_SHARDS_H

#include "harness/core/safetensors.h"
#include "harness/files/weights/weight.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_shards {
    struct kvr_st **files;
    char **names; /* of the files, without folder */
    int n;
};

/* The list borrows from `s`. On failure both are empty. list->where: `path`, borrowed. */
enum kvr_status kvr_shards_read(struct kvr_shards *s, struct kvr_weight_list *l, const char *path);
/* One file that is in memory already; takes `f`, whatever is returned. */
enum kvr_status kvr_shards_read_one(struct kvr_shards *s, struct kvr_weight_list *l,
                                    const char *path, uint64_t n_bytes, struct kvr_st *f);
void kvr_shards_free(struct kvr_shards *s);

#ifdef __cplusplus
}
#endif
#endif
