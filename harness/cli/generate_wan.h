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
    const char *prompt;    /* text of one prompt, or of several shots (workload/shots.h) */
    const char *embedding; /* file of embeddings (NULL: the model folder's text encoder encodes
                            * `prompt`) */
    const char *name;      /* name of the prompt's tensor in `embedding`; if the prompt has several
                            * shots, their tensors are called NAME.1, NAME.2, ... */
    const char *image;     /* image file with the first frame (NULL: the model generates the first
                            * frame) */
    const char *device;    /* name of the device that runs the text encoder */
    const char *out;       /* folder in which the encoded prompt is stored as prompt.safetensors */
    int n_chunks;
};

struct kvr_wan_input {
    float *embedding; /* [n_embeddings, text_len, text_dim] */
    int n_embeddings;
    float *first; /* latents of the image, [kvr_model_frame_elems()]; NULL: no image */
};

/* Reads the prompt's embeddings from the file from->embedding, or computes them with the text
 * encoder of the model folder `dir`. Encodes the image from->image to latents, unless it is NULL.
 * The image encoder opens its own device, whose memory is freed before the function returns.
 * KVR_ENOTFOUND: there is neither an embedding file nor a text encoder. On failure the caller has
 * nothing to close. */
enum kvr_status kvr_wan_input_open(struct kvr_wan_input *in, const struct kvr_wan_source *from,
                                   const struct kvr_dev *dev, const struct kvr_model *model,
                                   const char *dir);
void kvr_wan_input_close(struct kvr_wan_input *in); /* accepts {0} */

/* Checks, without reading weights, that the model in the folder `dir` can generate a video,
 * starting from the file `image` if that is not NULL. KVR_EUNSUPPORTED: the latents are not RGB and
 * `dir` has no decoder. KVR_EINVAL: the image does not have the video's size. */
enum kvr_status kvr_wan_check(const struct kvr_model_config *c, const char *dir, const char *image);

#endif
