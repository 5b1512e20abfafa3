/* pace.h - frames per second including decoding, as papers report them.
 *
 *     KVR_TRY(kvr_pace_run(dev, scheme, &req, KVR_DECODER_TAEHV, "taew2_1.pth", 0, &p));
 *     fps = kvr_pace_fps(&p);
 *
 * Sequentially, one thread and stream denoises a chunk, decodes its frames to bytes, and continues.
 * Overlapped (pixels.h), a chunk is decoded while the next chunk is denoised, and the time ends
 * with the last frame. The time excludes loading weights and text encoding. Decoder and network are
 * in memory together. */
#ifndef KVR_WORKLOAD_PACE_H
#define KVR_WORKLOAD_PACE_H

#include "harness/workload/workload.h"

struct kvr_pace {
    int frames;        /* number of pixel frames */
    int64_t wall_ns;   /* wall time of the rollout, including decoding */
    int64_t decode_ns; /* part of wall_ns spent decoding; when overlapped, only decoding after the
                        * last chunk is denoised */
    size_t peak_bytes; /* peak of all tags together since the rollout began */
};

/* overlap_threads: the overlapped decoder's threads, 0: not overlapped. `path`: the decoder's weights. Wan's
 * VAE computes in kvr_model_decoder_compute(), TAEHV in F32. KVR_EFORMAT: the decoder's latents have another
 * number of channels; KVR_ENAN: a pixel is not finite. */
enum kvr_status kvr_pace_run(struct kvr_dev *dev, const struct kvr_scheme *scheme,
                             const struct kvr_rollout_request *req, enum kvr_decoder_kind kind,
                             const char *path, int overlap_threads, struct kvr_pace *out);

double kvr_pace_fps(const struct kvr_pace *p);

/* Pixel frames of a rollout with latent_frames. */
int kvr_pace_frames(const struct kvr_model_config *c, int latent_frames);
/* Writes a decoder file with random weights for the model's latents to `path` (vae/drawn.h). */
enum kvr_status kvr_pace_draw(const struct kvr_model_config *c, enum kvr_decoder_kind kind,
                              const char *path);

#endif
