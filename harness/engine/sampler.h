/* sampler.h - the few-step sampler: noise in, clean chunks out.
 *
 * sigma_i = s u_i / (1 + (s-1) u_i), u_i = 1 - i/1000; timestep_i = 1000 sigma_i; what other
 * schedules make of it is in schedules.def.
 * For each chunk: x = noise. For each warped step: x0 from the network, then
 * x = (1 - sigma') x0 + sigma' eps with fresh eps, or the next sample by UniPC (unipc.h), which draws
 * nothing. Last, a clean pass over x0 at the context timestep writes the cache. Without it
 * (last_step) the last step's own forward does.
 *
 * Hooks and noise functions see and write memory of the host, and so are the latents. */
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
    float timestep[KVR_MAX_STEPS]; /* what the network is conditioned on */
    float sigma[KVR_MAX_STEPS];    /* of x0 = x - sigma flow */
    float renoise[KVR_MAX_STEPS];  /* of the noise that is added on the way to this step */
    float table_timestep[1000], table_sigma[1000];
};
void kvr_schedule_make(struct kvr_schedule *s, const struct kvr_model_config *c);
/* The timesteps as a network that computes in BF16 is given them. */
void kvr_schedule_round(struct kvr_schedule *s);
/* sigma of the table's entry nearest to t (first minimum). */
float kvr_schedule_sigma(const struct kvr_schedule *s, float t);
int kvr_schedule_index(const struct kvr_schedule *s, float t); /* that entry */

/* What a change of the prompt does to the cache: KEEP leaves it unchanged; RECACHE recomputes the visible chunks with a
 * clean pass under the new prompt (LongLive, arXiv:2509.22622); RESET drops all but the sink. */
enum kvr_on_switch { KVR_SWITCH_KEEP, KVR_SWITCH_RECACHE, KVR_SWITCH_RESET, KVR_N_SWITCHES };
extern const char *const kvr_switch_names[]; /* "keep", "recache", "reset", NULL */

/* Shots of a video: chunks that share a prompt. A cut is a chunk of another shot than its
 * predecessor. */
struct kvr_shots {
    const int *of_chunk; /* [chunks] from 0, ascending by at most 1; NULL: one shot */
    double offset;       /* frames that each cut adds to the time positions behind it */
    enum kvr_on_switch on_switch;
    int sink_frames; /* that a reset leaves */
};

struct kvr_sample_hooks {
    void *ctx;
    struct kvr_shots shots;
    /* Before a chunk's first pass; may change the prompt. NULL: nothing. */
    enum kvr_status (*chunk_begin)(void *ctx, int chunk);
    /* The network's x0 of one denoising step, [F, frame_elems]. */
    enum kvr_status (*step)(void *ctx, int chunk, int step, const float *x0, int n_frames);
    /* After the last pass: the chunk is final and committed. */
    enum kvr_status (*chunk_end)(void *ctx, int chunk, int frame0, int n_frames, const float *x0);
    /* A video that goes on from frames that are there: the first n_given frames, whole chunks, are
     * what `given` writes to x0 [F, frame_elems], in memory of the host. Such a chunk has its clean
     * pass alone; nothing is generated for it, and no noise is drawn. */
    int n_given;
    enum kvr_status (*given)(void *ctx, int frame0, int n_frames, float *x0);
    /* The video's first latent frame, given [frame_elems] in memory of the host, as Wan2.2-TI2V takes an
     * image. It replaces frame 0 of the sample before every step and at the end, at timestep 0; the other
     * frames have the step's. Not with n_given. NULL: it is generated. */
    const float *first;
    /* Teacher forcing: writes the x0 of a step that the rollout goes on from in place of its own,
     * in memory of the host. Of the last step the clean pass takes it, so that the next chunk goes
     * on from it; with `every_step` it is what is re-noised after the others, too. The other hooks
     * and `latents` still get the rollout's own. NULL: the rollout goes on from itself. */
    enum kvr_status (*forced)(void *ctx, int chunk, int step, int n_frames, float *x0);
    bool every_step;
    /* No clean pass: keys and values of a chunk's last denoising step stay, of an input that has
     * noise left. Chunks that are given have their clean pass all the same. */
    bool last_step;
    /* Its phase 0 takes the time of noise that is drawn without a function. NULL: not measured. */
    struct kvr_phases *noise_time;
};

/* A new video: the cache is reset first. noise NULL: noise_ctx is a const struct kvr_noise *, and the
 * device draws it (kvr_noise_to). n_frames, and hooks->n_given where there are hooks, must
 * be multiples of frames_per_chunk. latents
 * [n_frames, frame_elems] may be NULL. Models whose latents are RGB have the last x0 of a chunk
 * clamped to latent_range. KVR_ENAN when the network's output is not finite. What a hook returns
 * other than KVR_OK ends the run. */
enum kvr_status kvr_sample(struct kvr_dit *d, struct kvr_cache *cache, int n_frames,
                           kvr_noise_fn *noise, void *noise_ctx,
                           const struct kvr_sample_hooks *hooks, float *latents);

#ifdef __cplusplus
}
#endif
#endif
