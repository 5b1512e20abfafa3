/* generate_wan.h - inputs of `kvreel generate` for a Wan model: prompt embeddings and a first
 * frame.
 *
 *     struct kvr_wan_input in;
 *     KVR_TRY(kvr_wan_input_open(&in, &from, dev, model, dir));
 *     req.embedding = in.embedding; req.n_embeddings = in.n_embeddings; req.first = in.first;
 *     ... kvr_rollout_run(...) ...
 *     kvr_wan_input_close(&in); */
#ifndef KVR_CLI_GENERATE_WAN_H
#define KVR_CLI_GENERATE_WAN_H

#include "harness/engine/model.h"

struct kvr_wan_source {
    const char *prompt;    /* one prompt, or shots (workload/shots.h) */
    const char *embedding; /* file of embeddings; NULL: the folder's encoder computes them */
    const char *name;      /* tensor in that file; NAME.1, NAME.2, ... for several shots */
    const char *image;     /* the first frame; NULL: generated */
    const char *device;    /* device name for the text encoder */
    const char *out;       /* folder for prompt.safetensors, the encoded prompt */
    int n_chunks;
};

struct kvr_wan_input {
    float *embedding; /* [n_embeddings, text_len, text_dim] */
    int n_embeddings;
    float *first; /* [frame_elems]; NULL: no image */
};

/* KVR_ENOTFOUND: neither an embedding file nor a text encoder. The image is encoded on a separate
 * device, freed before the return. On failure there is nothing to close. */
enum kvr_status kvr_wan_input_open(struct kvr_wan_input *in, const struct kvr_wan_source *from,
                                   const struct kvr_dev *dev, const struct kvr_model *model,
                                   const char *dir);
void kvr_wan_input_close(struct kvr_wan_input *in); /* accepts {0} */

/* KVR_EUNSUPPORTED: the latents are not RGB and `dir` has no decoder. KVR_EINVAL: the image has
 * another size. `image` may be NULL. Reads no weights. */
enum kvr_status kvr_wan_check(const struct kvr_model_config *c, const char *dir, const char *image);

#endif
