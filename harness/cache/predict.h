/* predict.h - memory of a rollout's cache, predicted without running it.
 *
 *     struct kvr_prediction p;
 *     KVR_TRY(kvr_predict(scheme, &kvr_wan_1_3b, &(struct kvr_predict_run){ .latent_frames = 42 },
 *                         &p));
 *     ... p.nominal, p.peak ...
 *
 * Layers are driven chunk by chunk as in a rollout, but dry: policies decide, codecs report sizes,
 * and nothing is coded. Data-dependent sizes (outliers, thresholded masks) are predicted at their
 * minimum and have bounds. */
#ifndef KVR_CACHE_PREDICT_H
#define KVR_CACHE_PREDICT_H

#include "harness/cache/cache.h"
#include "harness/cache/layer.h"

/* Memory-relevant sizes of a model. */
struct kvr_geometry {
    char name[64];
    int n_layers, n_heads, head_dim;
    int tokens_per_frame, frames_per_chunk;
    int pixel_frames;  /* pixel frames per latent frame; the first latent frame is one pixel
                        * frame */
    int window_frames; /* the model's own window in latent frames; 0: all frames are visible */
    int64_t n_params;  /* 0: unknown */
    int weight_bytes;  /* per parameter */
};

/* Wan 2.1 at 480x832, three frames at a time (Self-Forcing). */
extern const struct kvr_geometry kvr_wan_1_3b, kvr_wan_14b;
/* Wan2.2-TI2V-5B at 704x1280, eight frames at a time (LongLive 2.0). */
extern const struct kvr_geometry kvr_wan_5b;

struct kvr_prediction {
    int latent_frames;
    int64_t tokens;       /* per layer */
    size_t bf16, nominal; /* all layers, at the end of the rollout */

    bool data_dependent; /* `nominal` is qualified by the sentence `depends` */
    size_t nominal_min, nominal_max;
    const char *depends; /* NULL: it does not depend on data */

    /* At the cache's peak: a layer has been coded again while its old state still exists. In the
     * study reading, lists of scattered frames (4 B per token) come on top. */
    struct kvr_layer_bytes at_peak;
    size_t scratch; /* scratch of the cache: current chunk, values being coded, attention */
    size_t weights; /* 0: n_params is unknown */
    size_t peak;    /* sum of at_peak, scratch and weights; excludes activations, IO and the
                     * workspace of linear layers */
};

/* Settings of the predicted run; zeros mean path staged, F32 attention, CPU. */
struct kvr_predict_run {
    int latent_frames;
    enum kvr_path path;
    enum kvr_attend_as attend;
    enum kvr_backend backend;
    bool no_bounds; /* only bytes and peak; data_dependent stays false */
    /* Polled at every chunk of every layer; true aborts with KVR_EINTERRUPTED. NULL: never. */
    bool (*stopped)(void);
};

/* Number of dry rollouts started by this process, for tests of planning cost. */
int64_t kvr_predictions(void);

/* Bytes, bits and error bounds of a rollout, by committing every chunk of every layer without data. */
enum kvr_status kvr_predict(const struct kvr_scheme *scheme, const struct kvr_geometry *geo,
                            const struct kvr_predict_run *run, struct kvr_prediction *out);

/* Bytes and peak only, in negligible time even for a full-size model. If all layers store the same,
 * one is simulated, and the result equals kvr_predict(). For a method that selects random tokens
 * per head one layer is simulated too, and the other layers are counted with that layer's final
 * size. at_peak and scratch are then those of the simulated layer. */
enum kvr_status kvr_predict_peak(const struct kvr_scheme *scheme, const struct kvr_geometry *geo,
                                 const struct kvr_predict_run *run, struct kvr_prediction *out);

/* Latent frames of a video of n pixel frames. KVR_EINVAL names the nearest valid n. */
enum kvr_status kvr_latent_frames(const struct kvr_geometry *geo, int n, int *out);

/* The study's peak memory: a constant plus its cache, which depends on the type in which it stored
 * codes. */
struct kvr_study_peak {
    const char *era;    /* "A", "B" or "C" */
    const char *stored; /* "int16 codes", ...; era B: why nothing can be computed */
    bool known;
    size_t resident;    /* codes, scales, masks and indices as tensors */
    size_t non_kv;      /* everything else at the peak of the first prompt */
    size_t left_over;   /* the previous prompt's video and latents, still referenced */
    size_t peak;        /* resident + non_kv + left_over */
    size_t packed_peak; /* the same sum with the packed format's bytes in place of `resident` */
};

/* For a scheme in the study reading; the constants are those of wan-1.3b at 42 latent frames. */
enum kvr_status kvr_predict_study_peak(const struct kvr_scheme *scheme, struct kvr_study_peak *out);

#endif
