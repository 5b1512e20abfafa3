/* pixels.h - decodes a rollout's latents to RGB frames, either after the rollout, or chunk by chunk
 * while the next chunk is denoised.
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
 * The decoder uses a separate device handle, so that its memory does not count as the rollout's
 * memory. Time spent decoding after the rollout is not part of the rollout's time. An overlapped
 * decoder runs in a second thread, on CUDA with a second stream, and slows down the rollout. */
#ifndef KVR_WORKLOAD_PIXELS_H
#define KVR_WORKLOAD_PIXELS_H

#include "harness/workload/workload.h"

/* Decodes r->latents on `dev`, and sets r->rgb, r->n, r->height and r->width. If r has no latents
 * or the model has no decoder, `r` is unchanged. *ns receives the decoding time, which is 0 if
 * nothing was decoded. Returns KVR_ENAN if a pixel is not finite. */
enum kvr_status kvr_rollout_pixels(struct kvr_dev *dev, const struct kvr_model *m,
                                   int latent_frames, struct kvr_rollout_result *r, int64_t *ns);

struct kvr_pixels;

struct kvr_pixels_done {
    int64_t ns;        /* time to open the decoder plus tail_ns, the decoding time after the
                        * rollout */
    int64_t tail_ns;   /* time from the end of the rollout to the last decoded frame */
    size_t peak_bytes; /* peak number of bytes allocated through the decoder's device handle */
    bool device_full;  /* kvr_dev_was_full */
};

/* Weight file of a decoder that replaces the model's decoder. */
struct kvr_pixels_file {
    enum kvr_decoder_kind kind;
    enum kvr_dtype type;
    const char *path;
};
/* Starts the model's decoder, or the decoder in `file` if file is not NULL. The function waits
 * until the decoder is open. latent_frames is the number of latent frames of the whole rollout. `m`
 * and `file` must outlive the decoder, which uses n_threads CPU threads. */
enum kvr_status kvr_pixels_start(struct kvr_pixels **out, enum kvr_backend backend,
                                 const struct kvr_model *m, const struct kvr_pixels_file *file,
                                 int latent_frames, int n_threads);
/* Callback (kvr_chunk_fn) that passes a copy of a chunk's latents to the decoder. `ctx` is a struct
 * kvr_pixels *. */
enum kvr_status kvr_pixels_push(void *ctx, int frame0, int n_frames, const float *latents);
/* Waits until the last frame is decoded, and sets the fields of `r` as kvr_rollout_pixels does.
 * `rollout` is the status that kvr_rollout_run returned. If this status is an error, the decoder
 * stops at the next frame, and the function returns this status. Otherwise it returns the decoder's
 * status. */
enum kvr_status kvr_pixels_finish(struct kvr_pixels **p, enum kvr_status rollout,
                                  struct kvr_rollout_result *r, struct kvr_pixels_done *done);

#endif
