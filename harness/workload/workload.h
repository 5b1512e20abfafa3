/* workload.h - where K, V and Q come from.
 *
 * Three kinds behind one interface: `rollout` (the engine generates a video), `trace`
 * (recorded tensors), `synthetic`. A workload drives a cache through begin_pass, append,
 * attend, end_pass, and tells what came of it. */
#ifndef KVR_WORKLOAD_WORKLOAD_H
#define KVR_WORKLOAD_WORKLOAD_H

#include "harness/cache/cache.h"
#include "harness/engine/sampler.h"
#include "metrics/metric.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a rollout goes on from: from its own chunks, or from those of a teacher, so that what is
 * measured is the error that a method puts in, without what earlier errors led to. */
enum kvr_forcing {
    KVR_FORCING_NONE,
    KVR_FORCING_TEACHER, /* every chunk is denoised under the teacher's earlier chunks, which the
                          * method's cache holds as its clean passes leave them */
    KVR_FORCING_STEP,    /* and every denoising step begins from the teacher's step before */
    KVR_N_FORCINGS
};
extern const char *const kvr_forcing_names[]; /* NULL-terminated: "none", "teacher", "step" */

/* A finished chunk x0 [n_frames, frame_elems], of the host, until it returns. */
typedef enum kvr_status kvr_chunk_fn(void *ctx, int frame0, int n_frames, const float *x0);

/* One rollout: a prompt, a seed, a cache. */
struct kvr_rollout_request {
    struct kvr_model *model;
    const char *prompt; /* text, parsed with the model's vocabulary; of a model with random
                           weights, any text: its embedding is drawn, too */
    /* Embeddings used instead of the prompt's text, one per shot (shots.h): [n_embeddings][text_len, text_dim],
     * zeros after the last token. NULL: the text is encoded. */
    const float *embedding;
    int n_embeddings;             /* 0: 1 */
    enum kvr_on_switch on_switch; /* what a cut does to the cache: KVR_SWITCH_KEEP */
    double shot_offset;           /* frames that each cut adds to time positions */
    bool keep_latents;            /* if they are not RGB, for a decoder (pixels.h) */
    uint64_t seed;
    int latent_frames;
    int window_frames; /* 0 = all */
    int sink_frames;
    bool evict;
    enum kvr_path path;
    enum kvr_attend_as attend;
    int64_t staged_bytes;      /* see struct kvr_cache_shape */
    enum kvr_dtype exact;      /* KVR_BF16 */
    kvr_cache_watch_fn *watch; /* sees every call; NULL in timed runs */
    void *watch_ctx;
    /* Gets each chunk's latents x0 [n_frames, frame_elems], the host's, when the chunk is done; inside the
     * rollout's time. May be NULL. */
    kvr_chunk_fn *chunk;
    void *chunk_ctx;
    bool phases; /* keep each pass's time by phase; not in a timed run */
    bool graphs; /* on CUDA: kvr_dit_set_graphs */
    /* The video goes on from these: frames [n_given, latent_h, latent_w, 3], whole chunks, fewer
     * than latent_frames. Models of RGB latents only. They are the output's first frames, byte
     * for byte, and enter the cache by one clean pass each. NULL: 0. */
    const uint8_t *given;
    int n_given;
    /* The video's first latent frame [frame_elems], of an image (image.h); not with `given`. NULL: it is
     * generated. */
    const float *first;
    /* All noise moved a little, as kvr_noise_moved() does; draw 0: not moved. */
    int jitter_draw;
    double jitter_magnitude;
    /* With KVR_FORCING_NONE there is no teacher; else its x0 of every chunk and step, of
     * kvr_rollout_reference(): [chunks, steps, frames_per_chunk, frame_elems]. Borrowed. */
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
    struct kvr_cache_times cache; /* of this pass alone, if asked for */
    struct kvr_dit_times dit;
};

struct kvr_rollout_result {
    int n, height, width;
    uint8_t *rgb;   /* frames [n, height, width, 3], owned; NULL, and n 0, where the model's latents
                       are not RGB: a decoder makes them of `latents` (pixels.h) */
    float *latents; /* [latent_frames, frame_elems], owned, if asked for */
    bool finite;    /* no NaN or infinity in any latent */
    int64_t wall_ns;
    int64_t noise_ns; /* of that, drawing the sampler's noise on the device */
    struct kvr_dit_times dit;
    struct kvr_cache_times cache;
    struct kvr_graph_counts graphs;
    struct kvr_reuse_counts reuse;     /* steps skipped, where the method reuses features */
    struct kvr_cache_bytes bytes;      /* at the end */
    struct kvr_mem_stats mem;          /* peak since the rollout began, and by tag at its instant */
    size_t live_at_start, live_at_end; /* must agree once caches are closed */
    int n_passes;
    struct kvr_pass_record *pass; /* owned */
    /* With a teacher: |x - r| / |r| of the rollout's latents x and the teacher's r. By chunk its
     * final ones, with KVR_FORCING_STEP those of all its steps; and over all chunks. NaN for given
     * chunks, and where r is 0. Without a teacher: NULL, 0. */
    int n_chunks;
    double *chunk_error; /* owned */
    double latent_error;
};

/* Called after each chunk; non-zero stops the rollout with KVR_EINTERRUPTED. */
typedef int kvr_progress_fn(void *ctx, int chunks_done, int n_chunks);

enum kvr_status kvr_rollout_run(struct kvr_dev *dev, const struct kvr_scheme *scheme,
                                const struct kvr_rollout_request *req, kvr_progress_fn *progress,
                                void *progress_ctx, struct kvr_rollout_result *out);
void kvr_rollout_result_free(struct kvr_rollout_result *r);

/* The request without latents, watcher, chunk callback and times by phase. */
struct kvr_rollout_request kvr_rollout_bare(const struct kvr_rollout_request *req);

/* A teacher: x0 of every step of the rollout through a BF16 cache that `req` asks for, its forcing,
 * watcher and phases left aside; the caller frees it. Steps of given chunks are 0. What it took is
 * in no result: the device's counts begin anew with the next rollout. On failure *teacher is NULL.
 */
enum kvr_status kvr_rollout_reference(struct kvr_dev *dev, const struct kvr_rollout_request *req,
                                      float **teacher);

#ifdef __cplusplus
}
#endif
#endif
