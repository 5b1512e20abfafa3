/* predict.h - what a rollout's cache would take, without running it.
 *
 *     struct kvr_prediction p;
 *     KVR_TRY(kvr_predict(scheme, &kvr_wan_1_3b, &(struct kvr_predict_run){ .latent_frames = 42 },
 *                         &p));
 *     ... p.nominal, p.peak ...
 *
 * Layers are driven chunk by chunk as a rollout drives them, but dry: policies decide, codecs
 * say what they would store, nothing is coded. Whatever depends on the data (exact outliers, a
 * mask cut by a threshold) is predicted at its cheapest and has bounds. */
#ifndef KVR_CACHE_PREDICT_H
#define KVR_CACHE_PREDICT_H

#include "harness/cache/cache.h"
#include "harness/cache/layer.h"

/* A model's sizes, as far as memory goes. */
struct kvr_geometry {
    char name[64];
    int n_layers, n_heads, head_dim;
    int tokens_per_frame, frames_per_chunk;
    int pixel_frames; /* pixel frames a latent frame after the first stands for; 1: all do */
    int64_t n_params; /* 0: not known */
    int weight_bytes; /* of one parameter */
};

/* Wan 2.1 at 480x832, three frames at a time (Self-Forcing). */
extern const struct kvr_geometry kvr_wan_1_3b, kvr_wan_14b;

struct kvr_prediction {
    int latent_frames;
    int64_t tokens;       /* of one layer */
    size_t bf16, nominal; /* all layers, at the end of the rollout */

    bool data_dependent; /* `nominal` is what the sentence `depends` says */
    size_t nominal_min, nominal_max;
    const char *depends; /* NULL: it does not */

    /* The instant the cache holds most: a layer has been coded anew, its old state still held.
     * In the study reading, lists of scored frames that lie apart (4 B a token) come on top. */
    struct kvr_layer_bytes at_peak;
    size_t scratch; /* of the cache: current chunk, values being coded, attention */
    size_t weights; /* 0: n_params is not known */
    size_t peak;    /* their sum. Not predicted: activations (ACT), files and frames (IO), and
                     * the work space of linear layers (a part of SCRATCH) */
};

/* How it would be run; zeros are path staged, F32 products, the CPU. */
struct kvr_predict_run {
    int latent_frames;
    enum kvr_path path;
    enum kvr_attend_as attend;
    enum kvr_backend backend;
    bool no_bounds; /* bytes and peak alone: data_dependent stays false */
    /* Asked at every chunk of every layer; true ends it with KVR_EINTERRUPTED. NULL: never. */
    bool (*stopped)(void);
};

/* Dry rollouts that this process has begun: what is dear in planning can be counted. */
int64_t kvr_predictions(void);

enum kvr_status kvr_predict(const struct kvr_scheme *scheme, const struct kvr_geometry *geo,
                            const struct kvr_predict_run *run, struct kvr_prediction *out);

/* Bytes and peak alone, at once for a full-size model, too. Where all layers hold the same, one is
 * followed and the numbers are those of kvr_predict(). Of a method that draws which tokens stay,
 * head by head, one is followed as well and the others hold what it holds in the end; at_peak and
 * scratch are then of that layer. */
enum kvr_status kvr_predict_peak(const struct kvr_scheme *scheme, const struct kvr_geometry *geo,
                                 const struct kvr_predict_run *run, struct kvr_prediction *out);

/* Latent frames of a video of n pixel frames. KVR_EINVAL names the nearest n that exist. */
enum kvr_status kvr_latent_frames(const struct kvr_geometry *geo, int n, int *out);

/* The study's peak memory: a constant and what its code held, by the type it stored codes in. */
struct kvr_study_peak {
    const char *era;    /* "A", "B" or "C" */
    const char *stored; /* "int16 codes", ...; era B: why there is nothing to compute */
    bool known;
    size_t resident;    /* codes, scales, masks and indices as tensors */
    size_t non_kv;      /* all else at the peak of the first prompt */
    size_t left_over;   /* previous prompt's video and latents, still referenced */
    size_t peak;        /* the sum */
    size_t packed_peak; /* non_kv and the packed format's own bytes */
};

/* For a scheme in the study reading; its constants are those of wan-1.3b at 42 latent frames. */
enum kvr_status kvr_predict_study_peak(const struct kvr_scheme *scheme, struct kvr_study_peak *out);

#endif
