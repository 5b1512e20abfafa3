/* kind.h - what a file of weights is, what it lacks and what it needs in memory.
 *
 *     struct kvr_kind_report r;
 *     KVR_TRY(kvr_kind_look(&r, w, 0));
 *     ... r.kind, r.missing[0 .. r.n_missing) ...
 *     kvr_kind_free(&r);
 *
 * The kinds and the tensors that each needs are rows of kinds.def. */
#ifndef KVR_WEIGHTS_KIND_H
#define KVR_WEIGHTS_KIND_H

#include "harness/files/weights/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_kind_report {
    const char
        *kind; /* "wan dit", "umt5 encoder", "wan vae", "taehv", "llama", or "tensors": unknown */
    int n_layers;   /* 0: the kind has none */
    char **missing; /* model names */
    int n_missing;
    int64_t n_params;     /* elements of the model's floating and quantised tensors */
    int64_t stored_bytes; /* of these, as the file holds them */
};

/* n_layers: as many as a configuration says; 0: as many as the file shows. */
enum kvr_status kvr_kind_look(struct kvr_kind_report *r, const struct kvr_weights *w, int n_layers);
void kvr_kind_free(struct kvr_kind_report *r);

/* The weight files of a folder: *.safetensors, *.safetensors.index.json, *.pt, *.pth, *.gguf, by
 * name; shards that an index of the folder names are left to the index. (*out)[*n] is malloc'd, as
 * are its strings, which begin with `dir`. KVR_ENOTFOUND: there is none. */
enum kvr_status kvr_weights_in_folder(char ***out, int *n, const char *dir);

#ifdef __cplusplus
}
#endif
#endif
