/* predict.h - memory of a rollout's KV cache, predicted without running the model.
 *
 *     struct kvr_prediction p;
 *     KVR_TRY(kvr_predict(scheme, &kvr_wan_1_3b, &(struct kvr_predict_run){ .latent_frames = 42 },
 *                         &p));
 *     ... p.nominal, p.peak ...
 *
 * The prediction simulates a rollout with dry layers (layer.h), which compute sizes but store no
 * keys and values. Policies select tokens and codecs report sizes, but nothing is quantized. If the
 * size depends on the data, nominal_min and nominal_max are bounds of the size, and `depends`
 * explains the dependence. */
#ifndef KVR_CACHE_PREDICT_H
#define KVR_CACHE_PREDICT_H

#include "harness/cache/cache.h"
#include "harness/cache/layer.h"

/* Dimensions of a model that determine the memory of its cache. */
struct kvr_geometry {
    char name[64];
    int n_layers, n_heads, head_dim;
    int tokens_per_frame, frames_per_chunk;
    int pixel_frames;  /* number of pixel frames that a latent frame decodes to, except the first
                        * latent frame, which decodes to one */
    int window_frames; /* length of the model's own attention window in latent frames; 0 means no
                        * window */
    int64_t n_params;  /* 0: unknown */
    int weight_bytes;  /* per parameter */
};

/* The models Wan 2.1 1.3B and 14B at 480x832 pixels, with chunks of three latent frames
 * (Self-Forcing). */
extern const struct kvr_geometry kvr_wan_1_3b, kvr_wan_14b;
/* Wan2.2-TI2V-5B at 704x1280 pixels, with chunks of eight latent frames (LongLive 2.0). */
extern const struct kvr_geometry kvr_wan_5b;

struct kvr_prediction {
    int latent_frames;
    int64_t tokens;       /* per layer */
    size_t bf16, nominal; /* cache bytes of all layers at the end of the rollout; `bf16`: without
                           * compression, `nominal`: in the packed format */

    bool data_dependent; /* whether `nominal` depends on the keys and values */
    size_t nominal_min, nominal_max;
    const char *depends; /* sentence that explains how `nominal` depends on the data; NULL if
                          * data_dependent is false */

    /* Bytes of the cache at its peak. The peak occurs while a layer stores a chunk, because new
     * segments are allocated before the segments that they replace are freed. `meta` includes the
     * token lists of segments whose tokens are not contiguous, with 4 bytes per token. */
    struct kvr_layer_bytes at_peak;
    size_t scratch; /* bytes of the cache's scratch buffers, for the current chunk, quantization and
                     * attention */
    size_t weights; /* bytes of the model's parameters; 0 if n_params is unknown */
    size_t peak;    /* sum of at_peak, scratch and weights; excludes activations, the
                     * workspace of linear layers, and buffers of noise, frames and files */
};

/* Settings of the run to predict. Only latent_frames is required. The defaults (0) of the other
 * fields select the CPU, F32 attention, and path `staged`, which dequantizes a bounded number of
 * tokens at a time. */
struct kvr_predict_run {
    int latent_frames;
    enum kvr_path path;
    enum kvr_attend_as attend;
    enum kvr_backend backend;
    bool no_bounds; /* whether not to compute bounds; nominal_min and nominal_max then equal
                     * `nominal`, and data_dependent is false */
    bool bounds;    /* whether kvr_predict_peak() computes bounds, too */
    /* Called for every chunk of every layer, to let the caller stop the prediction: if the callback
     * returns true, the prediction ends with KVR_EINTERRUPTED. May be NULL. */
    bool (*stopped)(void);
};

/* Number of rollouts that this process has simulated for predictions. Tests check that planning an
 * experiment does not simulate more rollouts than necessary. */
int64_t kvr_predictions(void);

/* Predicts the bytes of a rollout's cache, the bounds of these bytes, and the memory peak. Always
 * simulates all layers, unlike kvr_predict_peak. */
enum kvr_status kvr_predict(const struct kvr_scheme *scheme, const struct kvr_geometry *geo,
                            const struct kvr_predict_run *run, struct kvr_prediction *out);

/* Like kvr_predict, but with bounds only if run->bounds is true, and faster if simulating a single
 * layer suffices. If all layers store the same number of bytes, only one layer is simulated, and
 * the result equals that of kvr_predict(). If each layer selects the tokens to evict from its own
 * keys, values or attention weights, the sizes of layers can differ. In this case, too, only one
 * layer is simulated, and the result is an estimate: `peak` is the peak of the simulated layer plus
 * n_layers - 1 times its nominal bytes at the end of the rollout. The bounds are n_layers times
 * those of the simulated layer. The field at_peak covers only the simulated layer. */
enum kvr_status kvr_predict_peak(const struct kvr_scheme *scheme, const struct kvr_geometry *geo,
                                 const struct kvr_predict_run *run, struct kvr_prediction *out);

/* Sets *out to the number of latent frames of a video of n pixel frames. If no number of latent
 * frames gives n pixel frames, the function fails with KVR_EINVAL, and its message gives the
 * nearest possible numbers of pixel frames. */
enum kvr_status kvr_latent_frames(const struct kvr_geometry *geo, int n, int *out);

/* Peak memory that the study (the paper with 33 methods, docs/glossary.md) reports for a method: a
 * constant plus the bytes of the cache. The study's code stored each quantization code unpacked, as
 * one integer. The integer type depends on the era (A, B or C), the period in which the study ran
 * the method. The code of era B is unpublished, so its peaks are not known. */
struct kvr_study_peak {
    const char *era;    /* "A", "B" or "C" */
    const char *stored; /* text that says how the study's code of this era stored the cache, such as
                         * "codes stored as int16, in buffers for all frames"; for era "B", the text
                         * says that this code is unpublished */
    bool known;         /* whether the peak is known */
    size_t resident;    /* bytes of the cache in the tensors of the study's code (codes, scales,
                         * masks and indices); 0 if `known` is false */
    size_t non_kv;      /* peak bytes of the study's BF16 run on its first prompt, minus the bytes
                         * of its cache */
    size_t left_over;   /* bytes of the previous prompt's video and latents, which the study's code
                         * does not free before the next prompt */
    size_t peak;        /* peak in bytes that the study reports: resident + non_kv + left_over; 0 if
                         * `known` is false */
    size_t packed_peak; /* peak in bytes if the cache were stored in the packed format: nominal
                         * bytes of the cache + non_kv */
};

/* Computes the peak memory that the study reports for a method. As in the study, the model is Wan
 * 2.1 1.3B, and a video has 42 latent frames. `scheme` must be a method opened as NAME@study, the
 * variant that reproduces the study's code. */
enum kvr_status kvr_predict_study_peak(const struct kvr_scheme *scheme, struct kvr_study_peak *out);

#endif
