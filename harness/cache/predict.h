/* predict.h - memory of a rollout's cache, predicted without running it.
 *
 *     struct kvr_prediction p;
 *     KVR_TRY(kvr_predict(scheme, &kvr_wan_1_3b, &(struct kvr_predict_run){ .latent_frames = 42 },
 *                         &p));
 *     ... p.nominal, p.peak ...
 *
 * Every layer commits the chunks of a rollout without data: policies select tokens and codecs
 * report sizes, but nothing is quantized. A size that depends on the data has bounds, nominal_min
 * and nominal_max, and an explanation, `depends`. */
#ifndef KVR_CACHE_PREDICT_H
#define KVR_CACHE_PREDICT_H

#include "harness/cache/cache.h"
#include "harness/cache/layer.h"

/* Dimensions of a model that determine the memory of its cache. */
struct kvr_geometry {
    char name[64];
    int n_layers, n_heads, head_dim;
    int tokens_per_frame, frames_per_chunk;
    int pixel_frames;  /* pixel frames that one latent frame decodes to; only the first latent frame
                        * decodes to a single pixel frame */
    int window_frames; /* attention window of the model itself, in latent frames, or 0 if the model
                        * has no window */
    int64_t n_params;  /* 0: unknown */
    int weight_bytes;  /* per parameter */
};

/* Wan 2.1 at 480x832, with chunks of three latent frames (Self-Forcing). */
extern const struct kvr_geometry kvr_wan_1_3b, kvr_wan_14b;
/* Wan2.2-TI2V-5B at 704x1280, with chunks of eight latent frames (LongLive 2.0). */
extern const struct kvr_geometry kvr_wan_5b;

struct kvr_prediction {
    int latent_frames;
    int64_t tokens;       /* per layer */
    size_t bf16, nominal; /* bytes of all layers at the end of the rollout: uncompressed in BF16,
                           * and in the packed format */

    bool data_dependent; /* `nominal` depends on the data, as the sentence `depends` explains */
    size_t nominal_min, nominal_max;
    const char *depends; /* explains how `nominal` depends on the data; if it does not, the pointer
                          * is NULL */

    /* Bytes of the cache at its peak, when a layer has been quantized again and its old segments
     * are not yet freed. In the study reading, these bytes include lists of the tokens of
     * non-contiguous frames, at 4 bytes per token. */
    struct kvr_layer_bytes at_peak;
    size_t scratch; /* scratch of the cache: the current chunk, values being quantized, and buffers
                     * of attention */
    size_t weights; /* 0: n_params is unknown */
    size_t peak;    /* sum of at_peak, scratch and weights; excludes activations, IO and the
                     * workspace of linear layers */
};

/* Settings of the run to predict; fields of 0 select path `staged`, F32 attention and the CPU
 * backend. */
struct kvr_predict_run {
    int latent_frames;
    enum kvr_path path;
    enum kvr_attend_as attend;
    enum kvr_backend backend;
    bool no_bounds; /* compute only bytes and peak, without bounds; data_dependent stays false */
    /* Called for every chunk of every layer; if it returns true, the prediction ends with
     * KVR_EINTERRUPTED. NULL disables the check. */
    bool (*stopped)(void);
};

/* Number of dry rollouts that this process has started; tests use it to limit the cost of
 * planning. */
int64_t kvr_predictions(void);

/* Predicts the cache's bytes, their bounds and the peak of a rollout, by committing every chunk of
 * every layer without data. */
enum kvr_status kvr_predict(const struct kvr_scheme *scheme, const struct kvr_geometry *geo,
                            const struct kvr_predict_run *run, struct kvr_prediction *out);

/* Predicts the cache's bytes and peak only, in negligible time even for a full-size model. If all
 * layers store the same number of bytes, only one layer is simulated, and the result equals that of
 * kvr_predict(). If a retention selects the tokens of each layer by that layer's data, only one
 * layer is simulated as well. Then `peak` adds the simulated layer's final size for every other
 * layer, while at_peak and scratch are those of one layer. */
enum kvr_status kvr_predict_peak(const struct kvr_scheme *scheme, const struct kvr_geometry *geo,
                                 const struct kvr_predict_run *run, struct kvr_prediction *out);

/* Sets *out to the number of latent frames of a video of n pixel frames. If no number of latent
 * frames gives n pixel frames, the message of KVR_EINVAL names the nearest valid n. */
enum kvr_status kvr_latent_frames(const struct kvr_geometry *geo, int n, int *out);

/* The study's peak memory: a constant plus the bytes of its cache, which depend on the integer type
 * of its code tensors. */
struct kvr_study_peak {
    const char *era;    /* "A", "B" or "C" */
    const char *stored; /* integer type in which the study's code of this era stores codes, such as
                         * "int16 codes"; for era B, why the peak cannot be computed */
    bool known;
    size_t resident;    /* bytes of codes, scales, masks and indices, stored as tensors */
    size_t non_kv;      /* all memory but the cache, at the peak of the first prompt */
    size_t left_over;   /* the previous prompt's video and latents, which the study's code still
                         * references */
    size_t peak;        /* the study's peak: resident + non_kv + left_over */
    size_t packed_peak; /* bytes of the packed format + non_kv + left_over */
};

/* Computes the study's peak memory for a scheme in the study reading, with the constants of
 * wan-1.3b at 42 latent frames. */
enum kvr_status kvr_predict_study_peak(const struct kvr_scheme *scheme, struct kvr_study_peak *out);

#endif
