/* resources.h - predicts memory and FLOPs of a video model's rollout, from prompt to pixels, by
 * phase.
 *
 *     struct kvr_model_config c;
 *     KVR_TRY(kvr_resources_config("wan-1.3b", 0, 0, &c));
 *     kvr_resources_of(&c, &prediction, window, KVR_DECODER_VAE, KVR_F32, &need);   prediction: kvr_predict
 *     kvr_model_config_free(&c);
 *
 * The three phases do not overlap: the text encoder finishes before the first cell, and the decoder
 * starts after the cache and the activations are freed. */
#ifndef KVR_PLAN_RESOURCES_H
#define KVR_PLAN_RESOURCES_H

#include "harness/cache/predict.h"
#include "harness/engine/model.h"

/* Config of wan-1.3b, wan-14b, wan-5b, a model folder or a file, as in kvr_geometry_find. height
 * and width in pixels, 0: the model's own. KVR_ENOTFOUND; KVR_EFORMAT: the file lacks a key;
 * KVR_EINVAL: a size that is not a whole number of latent patches. */
enum kvr_status kvr_resources_config(const char *name, int height, int width,
                                     struct kvr_model_config *c);
/* Parses "480x832": height x width in pixels, each a multiple of 16. */
enum kvr_status kvr_resources_size(const char *text, int *height, int *width);
/* Sets the geometry to this frame size. */
void kvr_resources_resize(struct kvr_geometry *g, const struct kvr_model_config *c);

struct kvr_resources {
    /* Text encoder, UMT5-XXL; 0 for a model with another encoder or with a vocabulary. */
    size_t text_file, text_bytes;
    double text_flop; /* for a prompt of text_len tokens */
    /* Network; `peak` is the predicted peak plus the activations. */
    size_t activations, peak;
    double network_flop;
    /* Decoder of Wan's latents; 0 if latents are RGB or have another shape. */
    size_t decoder_weights, decoder_states, decoder_frames;
    double decoder_flop;
    int frames, height, width; /* of the decoded video: pixel frames, and size in pixels */
    size_t frames_file;        /* size of a cell's raw frames */
};

/* Approximate sizes of Wan 2.1's files besides the network's; 0: not a Wan model. */
struct kvr_resources_files {
    int64_t encoder, tokenizer, decoder;
};
void kvr_resources_files_of(const struct kvr_model_config *c, enum kvr_decoder_kind decoder,
                            struct kvr_resources_files *out);

/* Predicts memory and arithmetic of a rollout on one device; `p` is the prediction for the cache
 * alone. */
void kvr_resources_of(const struct kvr_model_config *c, const struct kvr_prediction *p, int window,
                      enum kvr_decoder_kind decoder, enum kvr_dtype decoder_compute,
                      struct kvr_resources *out);
/* Parses the decoder's name and type. KVR_EINVAL: no such decoder or type; KVR_EUNSUPPORTED: the
 * decoder does not compute in this type. */
enum kvr_status kvr_resources_decoder(const char *decoder, const char *decoder_compute,
                                      enum kvr_decoder_kind *kind, enum kvr_dtype *type);

#endif
