/* sampler.h - the few-step sampler: noise in, clean chunks out.
 *
 * sigma_i = s u_i / (1 + (s-1) u_i), u_i = 1 - i/1000; timestep_i = 1000 sigma_i; schedules.def defines the
 * other schedules.
 *
 * For each chunk: x = noise. For each warped step: x0 from the network, then x = (1 - sigma') x0 + sigma' eps
 * with fresh eps, or a UniPC step (unipc.h) without noise. A final clean pass over x0 at the context timestep
 * writes the cache; with last_step, the last step's own forward writes it.
 *
 * Hooks, noise functions and latents use host memory. */
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
    float timestep[KVR_MAX_STEPS]; /* timestep that conditions the network */
    float sigma[KVR_MAX_STEPS];    /* sigma in x0 = x - sigma flow */
    float renoise[KVR_MAX_STEPS];  /* sigma of the noise added on the way to this step */
    float table_timestep[1000], table_sigma[1000];
};
void kvr_schedule_make(struct kvr_schedule *s, const struct kvr_model_config *c);
/* Rounds the timesteps to BF16, for a network that computes in BF16. */
void kvr_schedule_round(struct kvr_schedule *s);
/* sigma of the table's entry nearest to t (first minimum). */
float kvr_schedule_sigma(const struct kvr_schedule *s, float t);
int kvr_schedule_index(const struct kvr_schedule *s, float t); /* index of that entry */

/* Action on the cache when the prompt changes. KEEP leaves it unchanged; RECACHE recomputes the
 * visible chunks by a clean pass under the new prompt (LongLive, arXiv:2509.22622); RESET drops all
 * but the sink. */
enum kvr_on_switch { KVR_SWITCH_KEEP, KVR_SWITCH_RECACHE, KVR_SWITCH_RESET, KVR_N_SWITCHES };
extern const char *const kvr_switch_names[]; /* "keep", "recache", "reset", NULL */

/* Shots of a video: chunks that share a prompt. A cut is a chunk whose shot differs from its
 * predecessor's. */
struct kvr_shots {
    const int *of_chunk; /* [chunks] from 0, ascending by at most 1; NULL: one shot */
    double offset;       /* frames that each cut adds to later time positions */
    enum kvr_on_switch on_switch;
    int sink_frames; /* frames kept by a reset */
};

struct kvr_sample_hooks {
    void *ctx;
    struct kvr_shots shots;
    /* Called before a chunk's first pass; may change the prompt. NULL: not called. */
    enum kvr_status (*chunk_begin)(void *ctx, int chunk);
    /* Called with the network's x0 of a denoising step, [F, frame_elems]. */
    enum kvr_status (*step)(void *ctx, int chunk, int step, const float *x0, int n_frames);
    /* Called after the last pass, when the chunk is final and committed. */
    enum kvr_status (*chunk_end)(void *ctx, int chunk, int frame0, int n_frames, const float *x0);
    /* Continues a recorded video: `given` writes the latents x0 [F, frame_elems] of the first n_given frames
     * (whole chunks), in host memory. Such a chunk has a clean pass only: no denoising and no noise. */
    int n_given;
    enum kvr_status (*given)(void *ctx, int frame0, int n_frames, float *x0);
    /* The video's first latent frame [frame_elems], in host memory, as Wan2.2-TI2V conditions on an image. It
     * replaces frame 0 of the sample before every step and at the end, and frame 0 has timestep 0;
     * the other frames have the step's timestep. Must be NULL if n_given > 0. NULL: frame 0 is
     * generated. */
    const float *first;
    /* Teacher forcing: writes the teacher's x0 of a step to host memory. The clean pass caches the teacher's x0
     * of the last step, so the next chunk is conditioned on it; with `every_step` the other steps also re-noise
     * the teacher's x0. The other hooks and `latents` still get the rollout's own x0. NULL: no forcing. */
    enum kvr_status (*forced)(void *ctx, int chunk, int step, int n_frames, float *x0);
    bool every_step;
    /* No clean pass: the cache keeps the keys and values of the last denoising step, whose input
     * still has noise. Given chunks always have a clean pass. */
    bool last_step;
    /* Phase 0 times the device's noise generation (noise NULL). NULL: not timed. */
    struct kvr_phases *noise_time;
};

/* Generates one video, after resetting the cache. noise NULL: noise_ctx is a const struct kvr_noise *, and the
 * device draws the noise (kvr_noise_to). n_frames and hooks->n_given must be multiples of frames_per_chunk.
 * latents [n_frames, frame_elems] may be NULL. For models with RGB latents the last x0 of a chunk is clamped to
 * latent_range. KVR_ENAN: the network's output is not finite. A hook's error ends the run. */
enum kvr_status kvr_sample(struct kvr_dit *d, struct kvr_cache *cache, int n_frames,
                           kvr_noise_fn *noise, void *noise_ctx,
                           const struct kvr_sample_hooks *hooks, float *latents);

#ifdef __cplusplus
}
#endif
#endif
