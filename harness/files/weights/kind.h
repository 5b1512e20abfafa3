/* kind.h - identifies the kind of a weight file, its missing tensors and its size.
 *
 *     struct kvr_kind_report r;
 *     KVR_TRY(kvr_kind_detect(&r, w, 0));
 *     ... r.kind, r.missing[0 .. r.n_missing) ...
 *     kvr_kind_free(&r);
 *
 * Kinds and their required tensors are rows of kinds.def. */
#ifndef KVR_WEIGHTS_KIND_H
#define KVR_WEIGHTS_KIND_H

#include "harness/files/weights/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_kind_report {
    const char
        *kind;      /* "wan dit", "umt5 encoder", "wan vae", "taehv", "llama"; "tensors": unknown */
    int n_layers;   /* 0: the kind has no layers */
    char **missing; /* names of missing tensors, as kvreel spells them */
    int n_missing;
    int64_t n_params;     /* elements of the model's floating and quantized tensors */
    int64_t stored_bytes; /* size of these tensors in the file */
};

/* n_layers: number of layers in the model's configuration; 0: the number found in the file. */
enum kvr_status kvr_kind_detect(struct kvr_kind_report *r, const struct kvr_weights *w,
                                int n_layers);
void kvr_kind_free(struct kvr_kind_report *r);

/* Weight files of a folder: *.safetensors, *.safetensors.index.json, *.pt, *.pth, *.gguf, sorted by
 * name; shards named by an index are omitted. (*out)[*n] and its strings, which start with `dir`,
 * are malloc'd. KVR_ENOTFOUND: none. */
enum kvr_status kvr_weights_in_folder(char ***out, int *n, const char *dir);

#ifdef __cplusplus
}
#endif
#endif
