/* pace.h - measures throughput as papers report it: decoded video frames per second, where the time
 * includes VAE decoding.
 *
 *     KVR_TRY(kvr_pace_run(dev, scheme, &req, KVR_DECODER_TAEHV, "taew2_1.pth", 0, &p));
 *     fps = kvr_pace_fps(&p);
 *
 * In a sequential run, one thread and one stream denoise a chunk and decode its frames before the
 * next chunk is denoised. In an overlapped run (pixels.h), a chunk is decoded while the next chunk
 * is denoised. The measured time ends with the last decoded frame, and excludes loading weights and
 * text encoding. The weights of the decoder and of the transformer are in memory at the same
 * time. */
#ifndef KVR_WORKLOAD_PACE_H
#define KVR_WORKLOAD_PACE_H

#include "harness/workload/workload.h"

struct kvr_pace {
    int frames;        /* number of decoded pixel frames */
    int64_t wall_ns;   /* wall-clock time of the rollout, including decoding */
    int64_t decode_ns; /* part of wall_ns spent decoding; in an overlapped run, only the time after
                        * the last chunk was denoised */
    size_t peak_bytes; /* peak of the device memory allocated during the rollout, including weights
                        * and KV cache */
};

/* Runs the rollout `req` with the method `scheme`, and decodes its video with the decoder weights
 * in the file `path`. If overlap_threads is 0, the run is sequential; otherwise it is overlapped
 * (see above), and the decoder uses overlap_threads CPU threads. Wan's VAE computes in the data
 * type that kvr_model_decoder_compute() returns, and TAEHV in F32. Returns KVR_EFORMAT if the
 * decoder and the model differ in the number of latent channels. Returns KVR_ENAN if a pixel is not
 * finite. */
enum kvr_status kvr_pace_run(struct kvr_dev *dev, const struct kvr_scheme *scheme,
                             const struct kvr_rollout_request *req, enum kvr_decoder_kind kind,
                             const char *path, int overlap_threads, struct kvr_pace *out);

double kvr_pace_fps(const struct kvr_pace *p);

/* Returns the number of pixel frames that a decoder makes from latent_frames latent frames. */
int kvr_pace_frames(const struct kvr_model_config *c, int latent_frames);
/* Writes to `path` a decoder file with random weights (vae/drawn.h). The decoder has as many latent
 * channels as the model. */
enum kvr_status kvr_pace_draw(const struct kvr_model_config *c, enum kvr_decoder_kind kind,
                              const char *path);

#endif
