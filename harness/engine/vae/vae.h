/* vae.h - the VAE decoders of Wan 2.1 and 2.2, which decode latent frames to RGB frames one by one.
 *
 *     KVR_TRY(kvr_vae_open(&v, dev, KVR_F32, "Wan2.1_VAE.pth", 60, 104));
 *     for (int f = 0; f < n; f++)
 *         KVR_TRY(kvr_vae_decode(v, latents + f * 16 * 60 * 104, frame, ctx));
 *     kvr_vae_close(&v);                                 1 frame, then 4 per latent frame
 *
 * The decoder stores the last two input frames of all 32 temporal convolutions. Decoding frame by
 * frame therefore gives the same result as decoding the whole clip. Two of these convolutions
 * double the frame rate; a clip's first latent frame bypasses both, so that it gives one frame.
 * When a layer outputs two frames, the first passes through all later layers before the second is
 * computed. Besides the stored input frames, only one frame per resolution is therefore in memory.
 *
 * Wan 2.2 has 48 latent channels, and decodes each latent to 16 x 16 pixels; Wan 2.1 has 16 latent
 * channels, and decodes each latent to 8 x 8 pixels. In Wan 2.2, each resolution level except the
 * last has a shortcut that adds the level's input, upsampled without weights (kvr_vae_ops.spread),
 * to the level's output. The last convolution of Wan 2.2 outputs 2 x 2 pixels per position.
 * kvr_vae_open() detects the version by the number of latent channels of the file's tensors
 * (vae_layout.h).
 *
 * In a BF16 decoder, frames, stored inputs, weights and biases have BF16 values, and each operation
 * rounds its result once. Attention scores, softmax weights and the norms' gains are F32. Latents
 * are denormalised in F32, then rounded to BF16.
 *
 * Accumulation is F32. Results do not depend on the number of threads; GPU and CPU results differ
 * by rounding. */
#ifndef KVR_VAE_VAE_H
#define KVR_VAE_VAE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "harness/core/dtype.h"
#include "harness/device/mem.h"

/* Number of latent channels, and pixels per latent in height and in width, of Wan 2.1 and of
 * TAEHV. */
enum { KVR_VAE_CHANNELS = 16, KVR_VAE_SCALE = 8 };
enum { KVR_VAE_TIMES = 4, KVR_VAE_STATES = 32 };

struct kvr_vae;

/* Opens a decoder of type KVR_F32 or KVR_BF16. The numbers of channels of its layers are read from
 * the shapes of the file's tensors. The encoder's tensors, if the file has them, are ignored.
 * Returns KVR_EFORMAT if a tensor is missing or has a wrong shape, and KVR_ENAN if a weight is not
 * finite. */
enum kvr_status kvr_vae_open(struct kvr_vae **out, struct kvr_dev *dev, enum kvr_dtype type,
                             const char *path, int latent_h, int latent_w);
void kvr_vae_close(struct kvr_vae **v);         /* accepts NULL */
void kvr_vae_reset(struct kvr_vae *v);          /* the next latent frame begins a new clip */
const char *kvr_vae_library(struct kvr_vae *v); /* kvr_conv_context_library */
int kvr_vae_channels(const struct kvr_vae *v);  /* number of channels of a latent frame */
int kvr_vae_scale(const struct kvr_vae *v);     /* pixels per latent in height and in width */

/* Callback that receives a decoded frame y [s * latent_h, s * latent_w, 3] before clamping to
 * -1..1, where s is kvr_vae_scale(), 8 or 16. The frame y is host memory, valid only during the
 * call. */
typedef enum kvr_status kvr_vae_frame_fn(void *ctx, const float *y);
/* Decodes the next latent frame z [channels, latent_h, latent_w] in host memory. The channels of z
 * are normalised with the constants of vae_layout.h, as in the output of the DiT. Calls `frame` for
 * each decoded frame. If `frame` returns a status other than KVR_OK, decoding ends and returns that
 * status. */
enum kvr_status kvr_vae_decode(struct kvr_vae *v, const float *z, kvr_vae_frame_fn *frame,
                               void *ctx);

/* Returns the number of RGB frames decoded from the first n_latent latent frames of a clip, which
 * is 1 + 4 (n_latent - 1). */
int kvr_vae_frames(int n_latent);
/* Converts y [n] to bytes: floor(255 (y / 2 + 1/2)), with y clamped to -1..1. NaN becomes 0. Sets
 * *finite to whether all elements of y are finite. */
void kvr_vae_bytes_of(const float *y, int64_t n, uint8_t *to, bool *finite);

/* Memory use and floating-point operations of a decoder, calculated from the shapes of its layers.
 * Frames, stored inputs and weights have the decoder's type. Biases and the norms' gains have 4
 * bytes each, because even a BF16 decoder stores them as F32.
 *
 * The fields `weights`, `states` and `frames` are in bytes. `weights` includes the biases and
 * gains. `states` is the size of the stored inputs of the temporal convolutions, and `frames` the
 * size of one frame per resolution and of the scratch frames. */
struct kvr_vae_cost {
    size_t weights, states, frames;
    double flop_first, flop_next; /* floating-point operations of the first latent frame, and of
                                   * each later latent frame */
};
/* Calculates the memory use and the floating-point operations of a VAE decoder. If no VAE has this
 * number of latent channels, returns false and sets *out to zeros. */
bool kvr_vae_cost(int channels, int base, int latent_h, int latent_w, enum kvr_dtype type,
                  struct kvr_vae_cost *out);

/* For tests: copies the stored input frames of temporal convolution i to host memory as F32. Sets
 * *n_frames to the number of stored frames (0 to 2), the first *n_frames elements of `frame` to
 * their copies [height, width, channels], oldest first, and *n_elems to the elements per frame. The
 * copies are valid until the next call of kvr_vae_state(). */
enum kvr_status kvr_vae_state(struct kvr_vae *v, int i, const float *frame[2], int *n_frames,
                              int64_t *n_elems);
/* For parity checks with other implementations, kvr_vae_tap() sets a callback, which is called for
 * the output of each layer and each residual block. The callback receives the output's name and an
 * F32 copy x [height, width, channels] of n elements in host memory. The names of the outputs run
 * from "conv2" to "head1" (vae_layout.h). If `fn` is NULL, kvr_vae_tap() removes the callback. */
typedef void kvr_vae_tap_fn(void *ctx, const char *name, const float *x, int64_t n);
void kvr_vae_tap(struct kvr_vae *v, kvr_vae_tap_fn *fn, void *ctx);

#endif
