/* resources.h - what a rollout of a video model takes from prompt to pixels, by arithmetic, phase by
 * phase.
 *
 *     struct kvr_model_config c;
 *     KVR_TRY(kvr_resources_config("wan-1.3b", 0, 0, &c));
 *     kvr_resources_of(&c, &prediction, window, KVR_DECODER_VAE, KVR_F32, &need);   of kvr_predict
 *     kvr_model_config_free(&c);
 *
 * The three phases do not overlap: the encoder is done with before the first cell, the decoder
 * begins when cache and activations are gone. */
#ifndef KVR_PLAN_RESOURCES_H
#define KVR_PLAN_RESOURCES_H

#include "harness/cache/predict.h"
#include "harness/engine/model.h"

/* Of wan-1.3b, wan-14b, wan-5b, a model or a file, as kvr_geometry_find has them. height and width in
 * pixels, 0: its own. KVR_ENOTFOUND, KVR_EFORMAT: no such thing, or it does not say all of it;
 * KVR_EINVAL: a size that is not whole patches of the latent. */
enum kvr_status kvr_resources_config(const char *name, int height, int width,
                                     struct kvr_model_config *c);
/* "480x832": height x width in pixels, each a multiple of 16. */
enum kvr_status kvr_resources_size(const char *text, int *height, int *width);
/* That geometry with frames of this size. */
void kvr_resources_resize(struct kvr_geometry *g, const struct kvr_model_config *c);

struct kvr_resources {
    /* The text encoder, UMT5-XXL; 0 for a model that reads another's embeddings, or words. */
    size_t text_file, text_bytes;
    double text_flop; /* of a prompt with text_len tokens */
    /* The network: `peak` is the sum of the prediction's and of the activations. */
    size_t activations, peak;
    double network_flop;
    /* The decoder of Wan's latents; 0 where latents are RGB, or of another shape. */
    size_t decoder_weights, decoder_states, decoder_frames;
    double decoder_flop;
    int frames, height, width; /* of pixels */
    size_t frames_file;        /* a cell's raw frames */
};

/* About so many bytes has each file of Wan 2.1 beside the network's; 0: not Wan's. */
struct kvr_resources_files {
    int64_t encoder, tokenizer, decoder;
};
void kvr_resources_files_of(const struct kvr_model_config *c, enum kvr_decoder_kind decoder,
                            struct kvr_resources_files *out);

void kvr_resources_of(const struct kvr_model_config *c, const struct kvr_prediction *p, int window,
                      enum kvr_decoder_kind decoder, enum kvr_dtype decoder_compute,
                      struct kvr_resources *out);
/* The decoder by its words: KVR_EINVAL, KVR_EUNSUPPORTED: no such decoder, or not in this type. */
enum kvr_status kvr_resources_decoder(const char *decoder, const char *decoder_compute,
                                      enum kvr_decoder_kind *kind, enum kvr_dtype *type);

#endif
