/* workload.h - workloads: sources of K, V and Q.
 *
 * There are three kinds of workload: `rollout` (the engine generates a video), `trace` (recorded
 * tensors) and `synthetic` (tensors drawn with given statistics). A workload drives a cache through
 * begin_pass, append, attend, end_pass, and returns times, bytes and frames. */
#ifndef KVR_WORKLOAD_WORKLOAD_H
#define KVR_WORKLOAD_WORKLOAD_H

#include "harness/cache/cache.h"
#include "harness/engine/sampler.h"
#include "metrics/metric.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a chunk is conditioned on: the rollout's own earlier chunks, or a teacher's, so that a method's error is
 * measured without accumulated drift. */
enum kvr_forcing {
    KVR_FORCING_NONE,
    KVR_FORCING_TEACHER, /* every chunk is denoised with the teacher's earlier chunks in the
                          * method's cache, coded in clean passes */
    KVR_FORCING_STEP,    /* like TEACHER, and every denoising step starts from the teacher's
                          * previous step */
    KVR_N_FORCINGS
};
extern const char *const kvr_forcing_names[]; /* NULL-terminated: "none", "teacher", "step" */

/* Called with a finished chunk x0 [n_frames, frame_elems], in host memory, borrowed for the call. */
typedef enum kvr_status kvr_chunk_fn(void *ctx, int frame0, int n_frames, const float *x0);

/* One rollout: a prompt, a seed, a cache. */
struct kvr_rollout_request {
    struct kvr_model *model;
    const char *prompt; /* text, parsed with the model's vocabulary; any text if weights are random,
                           as the embedding is then drawn, too */
    /* Embeddings used instead of the prompt's text, one per shot (shots.h): [n_embeddings][text_len, text_dim],
     * zeros after the last token. NULL: the text is encoded. */
    const float *embedding;
    int n_embeddings;             /* 0: 1 */
    enum kvr_on_switch on_switch; /* action at a cut; default KVR_SWITCH_KEEP */
    double shot_offset;           /* frames that each cut adds to later time positions */
    bool keep_latents;            /* unless latents are RGB: for a decoder (pixels.h) */
    uint64_t seed;
    int latent_frames;
    int window_frames; /* 0 = all */
    int sink_frames;
    bool evict;
    enum kvr_path path;
    enum kvr_attend_as attend;
    int64_t staged_bytes;            /* see struct kvr_cache_shape */
    enum kvr_dtype exact;            /* KVR_BF16 */
    kvr_cache_observer_fn *observer; /* sees every call; NULL in timed runs */
    void *observer_ctx;
    /* Called with each finished chunk; its time is part of the rollout's. May be NULL. */
    kvr_chunk_fn *chunk;
    void *chunk_ctx;
    bool phases; /* record each pass's time by phase; not in a timed run */
    bool graphs; /* on CUDA: kvr_dit_set_graphs */
    /* Frames [n_given, latent_h, latent_w, 3] that open the video: whole chunks, fewer than latent_frames,
     * models with RGB latents only. They are the output's first frames, byte for byte; each of their chunks has
     * one clean pass. NULL: no frames are given. */
    const uint8_t *given;
    int n_given;
    /* The video's first latent frame [frame_elems], from an image (image.h); not with `given`.
     * NULL: generated. */
    const float *first;
    /* Perturbation of the noise (kvr_noise_moved); draw 0: the noise is not perturbed. */
    int jitter_draw;
    double jitter_magnitude;
    /* teacher: x0 of every chunk and step from kvr_rollout_reference(), [chunks, steps, frames_per_chunk,
     * frame_elems], borrowed; NULL with KVR_FORCING_NONE. */
    enum kvr_forcing forcing;
    const float *teacher;
};

/* One line of the bytes-over-time trace, taken at the end of each pass. */
struct kvr_pass_record {
    int chunk, index;
    int64_t t_ns; /* since the rollout began */
    struct kvr_cache_bytes bytes;
    size_t live_total; /* all tags */
    size_t live[KVR_N_MEM_TAGS];
    struct kvr_cache_times cache; /* of this pass alone, with `phases` */
    struct kvr_dit_times dit;
};

struct kvr_rollout_result {
    int n, height, width;
    uint8_t *rgb;   /* frames [n, height, width, 3], owned; NULL and n 0 if latents are not RGB:
                       a decoder makes frames from `latents` (pixels.h) */
    float *latents; /* [latent_frames, frame_elems], owned, with keep_latents */
    bool finite;    /* no NaN or infinity in any latent */
    int64_t wall_ns;
    int64_t noise_ns; /* part of wall_ns: noise generation on the device */
    struct kvr_dit_times dit;
    struct kvr_cache_times cache;
    struct kvr_graph_counts graphs;
    struct kvr_reuse_counts reuse;     /* skipped steps, if the method reuses features */
    struct kvr_cache_bytes bytes;      /* at the end */
    struct kvr_mem_stats mem;          /* peak since the rollout began, and each tag's bytes when it
                                        * was reached */
    size_t live_at_start, live_at_end; /* must be equal once caches are closed */
    int n_passes;
    struct kvr_pass_record *pass; /* owned */
    /* With a teacher: relative L2 error |x - r| / |r| of the rollout's latents x against the teacher's r, per
     * chunk and over all chunks. A chunk counts its final latents, with KVR_FORCING_STEP those of all steps.
     * NaN for given chunks and where r is 0. Without a teacher: NULL, 0. */
    int n_chunks;
    double *chunk_error; /* owned */
    double latent_error;
};

/* Called after each chunk; non-zero stops the rollout with KVR_EINTERRUPTED. */
typedef int kvr_progress_fn(void *ctx, int chunks_done, int n_chunks);

/* Generates one video with a cache of `scheme`. progress may be NULL. The caller owns *out, which
 * is empty on failure. KVR_EINVAL: an invalid request; KVR_ENOMEM, of the host or the device;
 * KVR_EINTERRUPTED. */
enum kvr_status kvr_rollout_run(struct kvr_dev *dev, const struct kvr_scheme *scheme,
                                const struct kvr_rollout_request *req, kvr_progress_fn *progress,
                                void *progress_ctx, struct kvr_rollout_result *out);
void kvr_rollout_result_free(struct kvr_rollout_result *r);

/* A copy of the request without latents, observer, chunk callback and phase times. */
struct kvr_rollout_request kvr_rollout_bare(const struct kvr_rollout_request *req);

/* Runs the request through a BF16 cache without forcing and returns x0 of every step; free() it.
 * Steps of given chunks are 0. Its time and memory are not reported: the next rollout resets the
 * device's counters. On failure *teacher is NULL. */
enum kvr_status kvr_rollout_reference(struct kvr_dev *dev, const struct kvr_rollout_request *req,
                                      float **teacher);

#ifdef __cplusplus
}
#endif
#endif
