/* pixels.h - decodes a rollout's latents to frames: after the rollout, or chunk by chunk while the
 * next chunk is denoised.
 *
 *     KVR_TRY(kvr_rollout_run(dev, scheme, &req, ..., &r));       req.keep_latents
 *     kvr_model_shed(model);                                      frees the network
 *     KVR_TRY(kvr_rollout_pixels(dev2, model, req.latent_frames, &r, &decode_ns));
 *
 *     KVR_TRY(kvr_pixels_start(&p, KVR_CUDA, model, NULL, req.latent_frames, n_threads));
 *     req.chunk = kvr_pixels_push;
 *     req.chunk_ctx = p;
 *     st = kvr_rollout_run(dev, scheme, &req, ..., &r);
 *     st = kvr_pixels_finish(&p, st, &r, &done);                  r has the same frames
 *
 * The decoder has its own device, so its memory and, after the rollout, its time are not counted
 * for the rollout. Overlapped, it runs in a second thread, on CUDA with a second stream, and the
 * rollout's time includes the slowdown. */
#ifndef KVR_WORKLOAD_PIXELS_H
#define KVR_WORKLOAD_PIXELS_H

#include "harness/workload/workload.h"

/* Decodes r->latents on `dev` into r->rgb, n, height and width; no effect without latents or decoder. KVR_ENAN:
 * a pixel is not finite. *ns: the time, 0 if nothing was decoded. */
enum kvr_status kvr_rollout_pixels(struct kvr_dev *dev, const struct kvr_model *m,
                                   int latent_frames, struct kvr_rollout_result *r, int64_t *ns);

struct kvr_pixels;

struct kvr_pixels_done {
    int64_t ns;        /* opening the decoder, plus tail_ns */
    int64_t tail_ns;   /* from the rollout's end to the last frame */
    size_t peak_bytes; /* peak of the decoder's device, all tags */
    bool device_full;  /* kvr_dev_was_full */
};

/* A decoder other than the model's own. */
struct kvr_pixels_file {
    enum kvr_decoder_kind kind;
    enum kvr_dtype type;
    const char *path;
};
/* Starts the model's decoder, or the one in `file`, and returns when it is ready for latent_frames frames.
 * Model and file must outlive it. n_threads: CPU threads of the decoder. */
enum kvr_status kvr_pixels_start(struct kvr_pixels **out, enum kvr_backend backend,
                                 const struct kvr_model *m, const struct kvr_pixels_file *file,
                                 int latent_frames, int n_threads);
/* A kvr_chunk_fn; ctx is a struct kvr_pixels *. Copies the latents. */
enum kvr_status kvr_pixels_push(void *ctx, int frame0, int n_frames, const float *latents);
/* Waits for the last frame. `rollout` is the rollout's status: if it failed, the decoder stops at
 * the next frame, and that status is returned. Otherwise r gets the frames as from
 * kvr_rollout_pixels, or the decoder's error is returned. */
enum kvr_status kvr_pixels_finish(struct kvr_pixels **p, enum kvr_status rollout,
                                  struct kvr_rollout_result *r, struct kvr_pixels_done *done);

#endif
