/* resources.h - predicts memory and FLOPs of a video model's rollout in three phases: text encoder,
 * network and decoder.
 *
 *     struct kvr_model_config c;
 *     KVR_TRY(kvr_resources_config("wan-1.3b", 0, 0, &c));
 *     kvr_resources_of(&c, &prediction, window, KVR_DECODER_VAE, KVR_F32, &need);   prediction: kvr_predict
 *     kvr_model_config_free(&c);
 *
 * The three phases do not overlap: the text encoder finishes before the first cell, and the decoder
 * starts after the cache and the activations are freed. The memory of the phases is therefore
 * predicted separately, not summed. */
#ifndef KVR_PLAN_RESOURCES_H
#define KVR_PLAN_RESOURCES_H

#include "harness/cache/predict.h"
#include "harness/engine/model.h"

/* Reads the config of the model `name`, which is any name that kvr_geometry_find() accepts
 * (geometry.h). `height` and `width` are the video's size in pixels, or 0 for the model's default
 * size. KVR_ENOTFOUND: no such model. KVR_EFORMAT: the config lacks a key. KVR_EINVAL: the height
 * or width is not a multiple of a patch's size in pixels, which is the patch's size in latents
 * times the decoder's spatial compression factor. */
enum kvr_status kvr_resources_config(const char *name, int height, int width,
                                     struct kvr_model_config *c);
/* Parses a video size such as "480x832", height x width in pixels; both must be 1 to 8192. */
enum kvr_status kvr_resources_size(const char *text, int *height, int *width);
/* Sets g->tokens_per_frame to the number of tokens of a latent frame at the video size in config
 * `c`. */
void kvr_resources_resize(struct kvr_geometry *g, const struct kvr_model_config *c);

struct kvr_resources {
    /* Size of the text encoder UMT5-XXL in bytes, as a file and in memory. Both sizes are 0 if the
     * model has another text encoder or has none because its prompts are vocabulary ids
     * (n_vocabulary). */
    size_t text_file, text_bytes;
    double text_flop; /* FLOPs of encoding a prompt of text_len tokens */
    /* Bytes of the network's activations (`activations`), and peak bytes of cache, weights and
     * activations together (`peak`). */
    size_t activations, peak;
    double network_flop;
    /* Memory of the Wan decoder in bytes: its weights, the input frames that temporal convolutions
     * keep for the next latent frame, and its activations (struct kvr_vae_cost). All are 0 if no
     * Wan decoder fits the latents, for example if the latents are RGB pixels. */
    size_t decoder_weights, decoder_states, decoder_frames;
    double decoder_flop;
    int frames, height, width; /* number of frames of the decoded video in pixel space, and the
                                * height and width of a frame in pixels */
    size_t frames_file;        /* bytes of a cell's raw frames on disk */
};

/* Approximate sizes in bytes of a Wan model's files other than the network's weights (0: the model
 * has no such file). */
struct kvr_resources_files {
    int64_t encoder, tokenizer, decoder;
};
void kvr_resources_files_of(const struct kvr_model_config *c, enum kvr_decoder_kind decoder,
                            struct kvr_resources_files *out);

/* Predicts the memory and FLOPs of a rollout on one device. `p` is the result of kvr_predict() for
 * the cache. */
void kvr_resources_of(const struct kvr_model_config *c, const struct kvr_prediction *p, int window,
                      enum kvr_decoder_kind decoder, enum kvr_dtype decoder_compute,
                      struct kvr_resources *out);
/* Parses the names of a decoder and of its compute type. KVR_EINVAL: there is no such decoder or
 * type. KVR_EUNSUPPORTED: the decoder does not support this type. */
enum kvr_status kvr_resources_decoder(const char *decoder, const char *decoder_compute,
                                      enum kvr_decoder_kind *kind, enum kvr_dtype *type);

#endif
