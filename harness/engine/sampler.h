/* sampler.h - the few-step sampler, which generates chunks of clean latents from noise.
 *
 * Each chunk x starts as noise. At each step of the schedule the network predicts x0. The next x is
 * (1 - sigma') x0 + sigma' eps with the next step's noise level sigma' and fresh noise eps. With
 * UniPC (unipc.h), the next x is instead computed without noise. After the last step, the
 * cache-update pass writes the chunk's keys and values to the KV cache. This pass is a forward on
 * the denoised x0 at the model's `context_timestep`, normally 0. If last_step is set, the forward
 * of the last denoising step writes these keys and values instead.
 *
 * If the sampler re-noises, the schedule selects the steps' noise levels from a table of 1000 noise
 * levels. The default table with shift s has u_i = 1 - i/1000, sigma_i = s u_i / (1 + (s-1) u_i)
 * and timestep_i = 1000 sigma_i. For the schedule lightx2v, u_i is 0.999 (1 - i/1000) instead, and
 * timestep_i is truncated to an integer. The file schedules.def lists the schedules.
 *
 * Hooks and noise functions receive pointers to host memory, and `latents` is host memory. */
#ifndef KVR_ENGINE_SAMPLER_H
#define KVR_ENGINE_SAMPLER_H

#include "harness/engine/dit.h"
#include "harness/engine/noise.h"
#include "harness/engine/ops.h" /* kvr_x0_from_flow, kvr_renoise */

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_schedule {
    int n_steps;
    float timestep[KVR_MAX_STEPS]; /* timestep of each step, an input of the network */
    float sigma[KVR_MAX_STEPS];    /* sigma of each step in x0 = x - sigma * flow */
    float renoise[KVR_MAX_STEPS];  /* noise level to which x0 of the previous step is re-noised */
    float table_timestep[1000], table_sigma[1000];
};
void kvr_schedule_make(struct kvr_schedule *s, const struct kvr_model_config *c);
/* Rounds the timesteps to BF16, for a network that computes in BF16. */
void kvr_schedule_round(struct kvr_schedule *s);
/* Returns the sigma of the table entry whose timestep is nearest to t, or of the first such entry
 * if several are equally near. */
float kvr_schedule_sigma(const struct kvr_schedule *s, float t);
/* Returns the index of the table entry whose sigma kvr_schedule_sigma returns. */
int kvr_schedule_index(const struct kvr_schedule *s, float t);

/* Selects what happens to the KV cache when the prompt changes. KEEP leaves the KV cache unchanged.
 * RECACHE recomputes the keys and values of the visible chunks by a cache-update pass with the new
 * prompt (LongLive, arXiv:2509.22622). RESET drops all chunks except the sink. */
enum kvr_on_switch { KVR_SWITCH_KEEP, KVR_SWITCH_RECACHE, KVR_SWITCH_RESET, KVR_N_SWITCHES };
extern const char *const kvr_switch_names[]; /* "keep", "recache", "reset", NULL */

/* A shot is a run of consecutive chunks that share a prompt. A cut is the first chunk of the second
 * or a later shot. */
struct kvr_shots {
    const int *of_chunk; /* [chunks]: shot index of each chunk; chunk 0 has index 0, and the index
                          * grows by 0 or 1 from chunk to chunk; NULL: one shot */
    double offset;       /* number of latent frames that each cut adds to the RoPE time positions of
                          * its own chunk and of all later chunks */
    enum kvr_on_switch on_switch;
    int sink_frames; /* number of sink frames that a reset retains */
};

struct kvr_sample_hooks {
    void *ctx;
    struct kvr_shots shots;
    /* Called before the first pass of a chunk; this hook may change the prompt. A NULL hook is not
     * called. */
    enum kvr_status (*chunk_begin)(void *ctx, int chunk);
    /* Called after each denoising step with the network's prediction x0 [F, frame_elems]. */
    enum kvr_status (*step)(void *ctx, int chunk, int step, const float *x0, int n_frames);
    /* Called after the last pass of a chunk, when x0 is final and the chunk is committed to the KV
     * cache. */
    enum kvr_status (*chunk_end)(void *ctx, int chunk, int frame0, int n_frames, const float *x0);
    /* Continues a recorded video of n_given frames, a multiple of frames_per_chunk. For each chunk
     * of these frames, `given` writes the recorded latents to x0 [F, frame_elems]. The recorded
     * chunks are not denoised; only the cache-update pass runs on them. */
    int n_given;
    enum kvr_status (*given)(void *ctx, int frame0, int n_frames, float *x0);
    /* The video's first latent frame [frame_elems] in host memory. This frame is the encoded image
     * that conditions Wan2.2-TI2V. `first` replaces frame 0 of the first chunk's sample before each
     * step, and frame 0 of the predicted x0 after each step. The network receives timestep 0 for
     * frame 0, and the step's timestep for the other frames. If `first` is NULL, frame 0 is
     * generated; `first` must be NULL if n_given > 0. */
    const float *first;
    /* Enables teacher forcing, where the teacher is a reference rollout. `forced` writes the
     * teacher's x0 for this chunk and step to the array x0 [F, frame_elems] in host memory. The
     * cache-update pass runs on the teacher's x0 of the last step, so that the next chunk is
     * conditioned on the teacher's chunk. If `every_step` is set, the next step's sample is also
     * computed from the teacher's x0. The other hooks and `latents` receive the rollout's own x0,
     * not the teacher's. If `forced` is NULL, teacher forcing is disabled. */
    enum kvr_status (*forced)(void *ctx, int chunk, int step, int n_frames, float *x0);
    bool every_step;
    /* Omits the cache-update pass: the KV cache stores the keys and values of the last denoising
     * step, whose input still has noise. For the recorded chunks of `given`, the cache-update pass
     * always runs. */
    bool last_step;
    /* If not NULL, noise_time records the device time of noise generation as phase 0 (phase.h). */
    struct kvr_phases *noise_time;
};

/* Resets the KV cache and generates one video. If `noise` is NULL, the device generates the noise
 * by kvr_noise_to, and noise_ctx is a const struct kvr_noise *. Both n_frames and hooks->n_given
 * must be multiples of frames_per_chunk. `latents` [n_frames, frame_elems] receives the video's
 * latents and may be NULL. For models with RGB latents, the last x0 of a chunk is clamped to
 * latent_range. Returns KVR_ENAN if the network's output is not finite, which the host checks after
 * every step. If a hook returns an error, kvr_sample stops and returns that error. */
enum kvr_status kvr_sample(struct kvr_dit *d, struct kvr_cache *cache, int n_frames,
                           kvr_noise_fn *noise, void *noise_ctx,
                           const struct kvr_sample_hooks *hooks, float *latents);

#ifdef __cplusplus
}
#endif
#endif
