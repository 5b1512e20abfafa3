/* workload.h - workloads, which are the sources of queries, keys and values for a KV cache.
 *
 * The workload `rollout` generates a video with the engine, `trace` replays recorded queries, keys
 * and values, and `synthetic` replays random ones with given statistics. A workload calls the
 * functions begin_pass, append, attend and end_pass of a KV cache, and returns times, memory use
 * and frames. */
#ifndef KVR_WORKLOAD_WORKLOAD_H
#define KVR_WORKLOAD_WORKLOAD_H

#include "harness/cache/cache.h"
#include "harness/engine/sampler.h"
#include "metrics/metric.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Selects the past that a chunk is conditioned on: the rollout's own earlier chunks, or those of a
 * BF16 rollout (the teacher). With a teacher, the errors of earlier chunks do not accumulate,
 * because the past contains none of the method's own latents. */
enum kvr_forcing {
    KVR_FORCING_NONE,
    KVR_FORCING_TEACHER, /* cache-update passes run on the teacher's chunks, so the method's KV
                          * cache stores the keys and values of the teacher's past */
    KVR_FORCING_STEP,    /* like KVR_FORCING_TEACHER; in addition, each denoising step starts from
                          * the x0 that the teacher predicted in the previous step */
    KVR_N_FORCINGS
};
extern const char *const kvr_forcing_names[]; /* NULL-terminated: "none", "teacher", "step" */

/* Callback that receives a finished chunk's latents x0 [n_frames, frame_elems] in host memory; the
 * pointer is valid only during the call. */
typedef enum kvr_status kvr_chunk_fn(void *ctx, int frame0, int n_frames, const float *x0);

/* The inputs of one rollout: prompt, seed, options of the KV cache, and callbacks. */
struct kvr_rollout_request {
    struct kvr_model *model;
    const char *prompt; /* made of words in the model's vocabulary; a model with random weights
                         * accepts any text, from which it seeds a random text embedding */
    /* Text embeddings [n_embeddings][text_len, text_dim], one per shot (shots.h), with zeros after
     * the last token. If `embedding` is NULL, the prompt's text is encoded instead. */
    const float *embedding;
    int n_embeddings;             /* 0 means 1 */
    enum kvr_on_switch on_switch; /* what happens to the KV cache when a new shot begins, that is,
                                   * when the prompt changes */
    double shot_offset;           /* number of frames by which the start of each new shot shifts the
                                   * time positions (RoPE) of its own and all later chunks */
    bool keep_latents;            /* whether to return kvr_rollout_result.latents, the input of a
                                   * VAE decoder (pixels.h); ignored if the model's latents are RGB
                                   * pixels */
    uint64_t seed;
    int latent_frames;
    int window_frames; /* 0 = all */
    int sink_frames;
    bool evict;
    enum kvr_path path;
    enum kvr_attend_as attend;
    int64_t staged_bytes;            /* see struct kvr_cache_shape */
    enum kvr_dtype exact;            /* KVR_BF16 */
    kvr_cache_observer_fn *observer; /* called in every kvr_cache_attend and kvr_cache_commit; NULL
                                      * in timed runs */
    void *observer_ctx;
    /* Callback for each finished chunk; its run time is part of the rollout's measured time. May be
     * NULL. */
    kvr_chunk_fn *chunk;
    void *chunk_ctx;
    bool phases; /* whether to record the time that each pass spends encoding, decoding and
                  * attending; false in timed runs */
    bool graphs; /* on CUDA: kvr_dit_set_graphs */
    /* For models with RGB latents only: given frames [n_given, latent_h, latent_w, 3] that start
     * the video. The number n_given must be a multiple of the frames per chunk and less than
     * latent_frames. The given frames are copied to the output unchanged. Chunks of given frames
     * are not denoised, but a cache-update pass stores their keys and values. If `given` is NULL,
     * the model generates all frames. */
    const uint8_t *given;
    int n_given;
    /* The video's first latent frame [frame_elems], encoded from an image (image.h). If `first` is
     * NULL, the model generates the first frame. `first` and `given` exclude each other, because
     * both set the start of the video. */
    const float *first;
    /* Random perturbation of the sampler's noise by kvr_noise_moved(), to measure how strongly the
     * video depends on small changes. jitter_draw selects the random stream (0: no perturbation).
     * jitter_magnitude is the standard deviation of the perturbation divided by that of the
     * noise. */
    int jitter_draw;
    double jitter_magnitude;
    /* `teacher` [chunks, steps, frames_per_chunk, frame_elems] is the result of
     * kvr_rollout_reference(): x0 of each chunk and denoising step. The array must outlive the
     * rollout, and is NULL with KVR_FORCING_NONE. */
    enum kvr_forcing forcing;
    const float *teacher;
};

/* Memory use and times of one forward pass of the model, recorded at the end of the pass. */
struct kvr_pass_record {
    int chunk, index;
    int64_t t_ns; /* end of the pass, in nanoseconds since the rollout began */
    struct kvr_cache_bytes bytes;
    size_t live_total; /* all tags */
    size_t live[KVR_N_MEM_TAGS];
    struct kvr_cache_times cache; /* time of this pass spent encoding, decoding and attending;
                                   * recorded only if kvr_rollout_request.phases is set */
    struct kvr_dit_times dit;
};

struct kvr_rollout_result {
    int n, height, width;
    uint8_t *rgb;   /* video frames [n, height, width, 3], owned; if the latents are not RGB and
                     * must be decoded (pixels.h), rgb is NULL and n is 0 */
    float *latents; /* latents [latent_frames, frame_elems] of the video, owned, or NULL if the
                     * request does not set keep_latents */
    bool finite;    /* whether all latents of the video are finite */
    int64_t wall_ns;
    int64_t noise_ns; /* device time of noise generation, which is part of wall_ns */
    struct kvr_dit_times dit;
    struct kvr_cache_times cache;
    struct kvr_graph_counts graphs;
    struct kvr_reuse_counts reuse;     /* numbers of denoising steps whose features were compared
                                        * with those of the previous step, and of steps that were
                                        * skipped because the features had changed little */
    struct kvr_cache_bytes bytes;      /* at the end */
    struct kvr_mem_stats mem;          /* peak of allocated memory since the rollout began, in total
                                        * and per category (enum kvr_mem_tag) */
    size_t live_at_start, live_at_end; /* bytes allocated before the rollout began, and after it
                                        * freed its memory; a difference is a memory leak */
    int n_passes;
    struct kvr_pass_record *pass; /* owned */
    /* The relative L2 error |x - r| / |r| of the rollout's latents x against the teacher's latents
     * r, per chunk and over all chunks. The error is that of a chunk's final latents or, with
     * KVR_FORCING_STEP, of the latents of all steps. The error is NaN for chunks that the model did
     * not generate (given frames) and for chunks whose r is 0. Without a teacher, chunk_error is
     * NULL and latent_error is 0. */
    int n_chunks;
    double *chunk_error; /* owned */
    double latent_error;
};

/* Callback after each chunk. If it returns a nonzero value, the rollout ends with
 * KVR_EINTERRUPTED. */
typedef int kvr_progress_fn(void *ctx, int chunks_done, int n_chunks);

/* Generates one video with a KV cache that the method `scheme` compresses. `progress` may be NULL.
 * The caller frees *out by kvr_rollout_result_free; after an error *out is empty. Returns
 * KVR_EINVAL for an invalid request, and KVR_ENOMEM if host or device memory is exhausted. */
enum kvr_status kvr_rollout_run(struct kvr_dev *dev, const struct kvr_scheme *scheme,
                                const struct kvr_rollout_request *req, kvr_progress_fn *progress,
                                void *progress_ctx, struct kvr_rollout_result *out);
void kvr_rollout_result_free(struct kvr_rollout_result *r);

/* Returns a copy of the request without the options that only add work to a rollout: keep_latents
 * and phases are false, and the callbacks `observer` and `chunk` are NULL. */
struct kvr_rollout_request kvr_rollout_bare(const struct kvr_rollout_request *req);

/* Runs the rollout `req` with a BF16 KV cache and KVR_FORCING_NONE. *teacher receives x0 of each
 * chunk and denoising step, in the layout of kvr_rollout_request.teacher; the caller frees it with
 * free(). For chunks of given frames, x0 is 0. The time and memory of this run are not part of a
 * later rollout's result, because every rollout resets the device's counters. After an error
 * *teacher is NULL. */
enum kvr_status kvr_rollout_reference(struct kvr_dev *dev, const struct kvr_rollout_request *req,
                                      float **teacher);

#ifdef __cplusplus
}
#endif
#endif
