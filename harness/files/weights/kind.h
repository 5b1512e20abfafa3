/* kind.h - identifies the kind of network in a weight file, the tensors that the file lacks, and
 * the network's size.
 *
 *     struct kvr_kind_report r;
 *     KVR_TRY(kvr_kind_detect(&r, w, 0));
 *     ... r.kind, r.missing[0 .. r.n_missing) ...
 *     kvr_kind_free(&r);
 *
 * The known kinds of network and their required tensors are listed in kinds.def. */
#ifndef KVR_WEIGHTS_KIND_H
#define KVR_WEIGHTS_KIND_H

#include "harness/files/weights/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_kind_report {
    const char *kind; /* kind of network, which is "wan dit", "umt5 encoder", "wan vae", "taehv",
                       * "llama", or "tensors" if the kind is unknown */
    int n_layers;     /* number of layers, or 0 for a kind of network without numbered layers */
    char **missing;   /* kvreel's names of the tensors that the file lacks */
    int n_missing;
    int64_t n_params;     /* total number of elements in the model's floating-point and quantized
                           * tensors */
    int64_t stored_bytes; /* size of the model's tensors in the file, in bytes */
};

/* Identifies the network in the weight file `w`. The argument n_layers is the number of layers in
 * the model's configuration; if it is 0, the layers that the file contains are counted instead. */
enum kvr_status kvr_kind_detect(struct kvr_kind_report *r, const struct kvr_weights *w,
                                int n_layers);
void kvr_kind_free(struct kvr_kind_report *r);

/* Lists the weight files of a folder (*.safetensors, *.safetensors.index.json, *.pt, *.pth and
 * *.gguf), sorted by name. Shards that an index.json names are omitted. *out receives an array of
 * *n paths that start with `dir`; the caller frees the array and each path with free(). Returns
 * KVR_ENOTFOUND if the folder has no weight files. */
enum kvr_status kvr_weights_in_folder(char ***out, int *n, const char *dir);

#ifdef __cplusplus
}
#endif
#endif
