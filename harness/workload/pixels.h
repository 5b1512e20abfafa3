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
 * memory. If decoding starts after the rollout, the rollout's time does not include decoding. An
 * overlapped decoder runs in a second thread, on CUDA with a second stream, and slows down the
 * rollout. */
#ifndef KVR_WORKLOAD_PIXELS_H
#define KVR_WORKLOAD_PIXELS_H

#include "harness/workload/workload.h"

/* Decodes r->latents on `dev`, and sets r->rgb, r->n, r->height and r->width. If r->latents is NULL
 * or the model has no decoder, the function returns KVR_OK and leaves *r unchanged. *ns receives
 * the decoding time, which is 0 if nothing was decoded. Returns KVR_ENAN if a pixel is not
 * finite. */
enum kvr_status kvr_rollout_pixels(struct kvr_dev *dev, const struct kvr_model *m,
                                   int latent_frames, struct kvr_rollout_result *r, int64_t *ns);

struct kvr_pixels;

struct kvr_pixels_done {
    int64_t ns;        /* time to open the decoder, plus tail_ns */
    int64_t tail_ns;   /* time from the end of the rollout until the last frame is decoded */
    size_t peak_bytes; /* peak number of bytes allocated through the decoder's device handle */
    bool device_full;  /* kvr_dev_was_full */
};

/* Weight file and type of a decoder that is used instead of the model's decoder. */
struct kvr_pixels_file {
    enum kvr_decoder_kind kind;
    enum kvr_dtype type;
    const char *path;
};
/* Starts a thread that decodes with the weights in `file`, or with the model's decoder if `file` is
 * NULL. The function waits until the thread has loaded the weights. latent_frames is the number of
 * latent frames of the whole rollout. `m` and the path in `file` must outlive the thread, which
 * uses n_threads CPU threads. */
enum kvr_status kvr_pixels_start(struct kvr_pixels **out, enum kvr_backend backend,
                                 const struct kvr_model *m, const struct kvr_pixels_file *file,
                                 int latent_frames, int n_threads);
/* Callback (kvr_chunk_fn) that passes a copy of a chunk's latents to the decoder. `ctx` is a struct
 * kvr_pixels *. */
enum kvr_status kvr_pixels_push(void *ctx, int frame0, int n_frames, const float *latents);
/* The argument `rollout` is the status that kvr_rollout_run() returned. If it is KVR_OK, the
 * function waits until the last frame is decoded, sets the fields of `r` as kvr_rollout_pixels()
 * does, and returns the decoder's status. If it is an error, the function stops the decoder after
 * the present frame, leaves *r unchanged, and returns this error. */
enum kvr_status kvr_pixels_finish(struct kvr_pixels **p, enum kvr_status rollout,
                                  struct kvr_rollout_result *r, struct kvr_pixels_done *done);

#endif
