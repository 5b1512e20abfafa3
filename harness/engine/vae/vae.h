/* vae.h - the decoders of Wan 2.1 and 2.2: latent frames to RGB, one after the other.
 *
 *     KVR_TRY(kvr_vae_open(&v, dev, KVR_F32, "Wan2.1_VAE.pth", 60, 104));
 *     for (int f = 0; f < n; f++)
 *         KVR_TRY(kvr_vae_decode(v, latents + f * 16 * 60 * 104, frame, ctx));
 *     kvr_vae_close(&v);                                 the first made 1 frame, the others 4 each
 *
 * Each of the 32 convolutions over time keeps its last two inputs, so decoding frame by frame equals
 * decoding the whole clip. The two that double the frames skip the first latent frame. A doubled frame
 * passes all later layers before its twin does: at any time there
 * is one frame of each resolution, beside those states.
 *
 * Wan 2.2's has 48 channels of latents and sixteen pixels of a side for each where 2.1's has 16 and
 * eight. Around each level but the last goes what entered it, repeated; and the head makes 2 x 2 pixels
 * at once. Which it is the tensors say (vae_layout.h).
 *
 * In BF16, frames, states, weights and biases are BF16, and each operation rounds its results once.
 * Attention's scores and probabilities, norms' factors and the latents' scaling stay F32.
 *
 * Sums are F32; results do not depend on the number of threads. On a device they differ from the
 * CPU's by roundings. */
#ifndef KVR_VAE_VAE_H
#define KVR_VAE_VAE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "harness/core/dtype.h"
#include "harness/device/mem.h"

/* Of Wan 2.1's, and of the tiny one. */
enum { KVR_VAE_CHANNELS = 16, KVR_VAE_SCALE = 8 };
enum { KVR_VAE_TIMES = 4, KVR_VAE_STATES = 32 };

struct kvr_vae;

/* type: KVR_F32 or KVR_BF16. The file may hold the encoder, too. The base width comes from the tensors. KVR_EFORMAT: one is
 * missing or of another shape; KVR_ENAN: one is not finite. */
enum kvr_status kvr_vae_open(struct kvr_vae **out, struct kvr_dev *dev, enum kvr_dtype type,
                             const char *path, int latent_h, int latent_w);
void kvr_vae_close(struct kvr_vae **v);         /* copes with NULL */
void kvr_vae_reset(struct kvr_vae *v);          /* the next frame is a clip's first */
const char *kvr_vae_library(struct kvr_vae *v); /* kvr_conv_room_library */
int kvr_vae_channels(const struct kvr_vae *v);  /* of a latent frame */
int kvr_vae_scale(const struct kvr_vae *v);     /* pixels of a side for one of the latents */

/* y [scale latent_h, scale latent_w, 3] of the host, before clamping to -1..1; borrowed until it returns.
 */
typedef enum kvr_status kvr_vae_frame_fn(void *ctx, const float *y);
/* The next latent frame z [channels, latent_h, latent_w] of the host, normalised as the model makes it.
 * What `frame` returns other than KVR_OK ends it. */
enum kvr_status kvr_vae_decode(struct kvr_vae *v, const float *z, kvr_vae_frame_fn *frame,
                               void *ctx);

/* How many frames come of n latent ones: 1 + 4 (n - 1). */
int kvr_vae_frames(int n_latent);
/* y [n] as bytes: floor(255 (y / 2 + 1/2)), clamped; NaN is 0 and *finite false. */
void kvr_vae_bytes_of(const float *y, int64_t n, uint8_t *to, bool *finite);

/* What one of these dimensions holds and takes in F32 or BF16, by the arithmetic of its layers: frames,
 * states and weights have the type, biases and norms' factors are F32. */
struct kvr_vae_cost {
    size_t weights, states, frames; /* bytes; frames: of all resolutions, and what lies between */
    double flop_first, flop_next;   /* of the first latent frame, of each later one */
};
/* False, and all 0: no decoder takes latents of so many channels. */
bool kvr_vae_cost(int channels, int base, int latent_h, int latent_w, enum kvr_dtype type,
                  struct kvr_vae_cost *out);

/* For tests. A state in the order of use: [n frames, height, width, channels], oldest first; of the
 * host, until the next call. */
enum kvr_status kvr_vae_state(struct kvr_vae *v, int i, const float *frame[2], int *n_frames,
                              int64_t *n_elems);
/* Called with named results [height, width, channels] as they come: "conv1", "middle0", ...,
 * "up14", "head1". NULL: off. */
typedef void kvr_vae_tap_fn(void *ctx, const char *name, const float *x, int64_t n);
void kvr_vae_tap(struct kvr_vae *v, kvr_vae_tap_fn *fn, void *ctx);

#endif
