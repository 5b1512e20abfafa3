/* vae.h - the VAE decoders of Wan 2.1 and 2.2: decode latent frames to RGB one by one.
 *
 *     KVR_TRY(kvr_vae_open(&v, dev, KVR_F32, "Wan2.1_VAE.pth", 60, 104));
 *     for (int f = 0; f < n; f++)
 *         KVR_TRY(kvr_vae_decode(v, latents + f * 16 * 60 * 104, frame, ctx));
 *     kvr_vae_close(&v);                                 1 frame, then 4 per latent frame
 *
 * Each of the 32 temporal convolutions keeps its last two inputs, so decoding frame by frame equals
 * decoding the whole clip. The two temporal convolutions that double the frame rate skip the first
 * latent frame. Of two new frames the first passes all later layers before the second, so memory
 * holds one frame per resolution besides the kept inputs.
 *
 * Wan 2.2 has 48 latent channels and a spatial factor of 16; Wan 2.1 has 16 and 8. In 2.2 each
 * level but the last has a shortcut that repeats its input, and the head outputs 2 x 2 pixels. The
 * tensors in the file tell the version (vae_layout.h).
 *
 * In BF16, frames, states, weights and biases are BF16, and each operation rounds its result once.
 * Attention scores and weights, factors of norms and the scaling of latents stay F32.
 *
 * Accumulation is F32. Results do not depend on the number of threads; device and CPU differ by
 * rounding. */
#ifndef KVR_VAE_VAE_H
#define KVR_VAE_VAE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "harness/core/dtype.h"
#include "harness/device/mem.h"

/* Latent channels and spatial factor of Wan 2.1 and of TAEHV. */
enum { KVR_VAE_CHANNELS = 16, KVR_VAE_SCALE = 8 };
enum { KVR_VAE_TIMES = 4, KVR_VAE_STATES = 32 };

struct kvr_vae;

/* type: KVR_F32 or KVR_BF16. The file may also contain the encoder. The base width comes from the
 * tensors. KVR_EFORMAT: a tensor is missing or has another shape; KVR_ENAN: a value is not
 * finite. */
enum kvr_status kvr_vae_open(struct kvr_vae **out, struct kvr_dev *dev, enum kvr_dtype type,
                             const char *path, int latent_h, int latent_w);
void kvr_vae_close(struct kvr_vae **v);         /* accepts NULL */
void kvr_vae_reset(struct kvr_vae *v);          /* the next frame is a clip's first */
const char *kvr_vae_library(struct kvr_vae *v); /* kvr_conv_context_library */
int kvr_vae_channels(const struct kvr_vae *v);  /* channels of a latent frame */
int kvr_vae_scale(const struct kvr_vae *v);     /* pixels per latent along each side */

/* y [scale latent_h, scale latent_w, 3], host memory, before clamping to -1..1; borrowed for the
 * call. */
typedef enum kvr_status kvr_vae_frame_fn(void *ctx, const float *y);
/* Decodes the next latent frame z [channels, latent_h, latent_w], host memory, normalised as by the
 * model. Calls `frame` for each decoded frame; a status other than KVR_OK ends decoding and is
 * returned. */
enum kvr_status kvr_vae_decode(struct kvr_vae *v, const float *z, kvr_vae_frame_fn *frame,
                               void *ctx);

/* Number of frames for n latent frames: 1 + 4 (n - 1). */
int kvr_vae_frames(int n_latent);
/* Converts y [n] to bytes: floor(255 (y / 2 + 1/2)), clamped. NaN gives 0 and sets *finite to
 * false. */
void kvr_vae_bytes_of(const float *y, int64_t n, uint8_t *to, bool *finite);

/* Cost of a decoder of these dimensions in F32 or BF16, from the arithmetic of its layers. Frames,
 * states and weights have the type; biases and factors of norms are F32. */
struct kvr_vae_cost {
    size_t weights, states, frames; /* bytes; `frames` are the activations of all resolutions, with
                                     * temporaries */
    double flop_first, flop_next;   /* operations for the first latent frame, and for each later
                                     * frame */
};
/* False, and all 0: no decoder for this number of latent channels. */
bool kvr_vae_cost(int channels, int base, int latent_h, int latent_w, enum kvr_dtype type,
                  struct kvr_vae_cost *out);

/* For tests: state i, frames in temporal order [n frames, height, width, channels], in host memory
 * until the next call. */
enum kvr_status kvr_vae_state(struct kvr_vae *v, int i, const float *frame[2], int *n_frames,
                              int64_t *n_elems);
/* Receives named results [height, width, channels] in order: "conv1", "middle0", ..., "up14",
 * "head1". NULL: off. */
typedef void kvr_vae_tap_fn(void *ctx, const char *name, const float *x, int64_t n);
void kvr_vae_tap(struct kvr_vae *v, kvr_vae_tap_fn *fn, void *ctx);

#endif
