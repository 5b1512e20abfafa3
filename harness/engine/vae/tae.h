/* tae.h - TAEHV, a tiny decoder that decodes Wan 2.1's latent frames to RGB frames one by one.
 *
 *     KVR_TRY(kvr_tae_open(&t, dev, "taew2_1.pth", 60, 104));
 *     for (int f = 0; f < n; f++)
 *         KVR_TRY(kvr_tae_decode(t, latents + f * 16 * 60 * 104, frame, ctx));
 *     kvr_tae_close(&t);                          1 frame, then 4 per latent frame
 *
 * TAEHV is the Tiny AutoEncoder for Hunyuan Video (Ollin Boer Bohan, github.com/madebyollin/taehv,
 * 2025). With the weights taew2_1, TAEHV decodes Wan 2.1's normalised latents, as the DiT outputs
 * them. TAEHV has neither norms nor attention. Of its four resolutions, each of the first three has
 * three residual blocks. The first of a block's three convolutions reads the current frame and the
 * previous frame of the same resolution. After the three blocks of a resolution, height and width
 * double. The number of frames doubles only after the second and the third resolution. Of the four
 * frames decoded from a clip's first latent frame, only the last is output.
 *
 *     z <- 3 tanh(z / 3);  block: x <- relu(x + conv4(relu(conv2(relu(conv0([x, x before]))))))
 *
 * Accumulation is F32. Results do not depend on the number of threads; GPU and CPU results differ
 * by rounding. */
#ifndef KVR_VAE_TAE_H
#define KVR_VAE_TAE_H

#include "harness/engine/vae/vae.h"

enum { KVR_TAE_LEVELS = 4 };

struct kvr_tae;

/* Opens a TAEHV decoder. The numbers of channels of its layers are read from the shapes of the
 * file's tensors. The encoder's tensors, if the file has them, are ignored. Returns KVR_EFORMAT if
 * a tensor is missing or has a wrong shape, and KVR_ENAN if a weight is not finite. */
enum kvr_status kvr_tae_open(struct kvr_tae **out, struct kvr_dev *dev, const char *path,
                             int latent_h, int latent_w);
void kvr_tae_close(struct kvr_tae **t);         /* accepts NULL */
void kvr_tae_reset(struct kvr_tae *t);          /* the next latent frame begins a new clip */
const char *kvr_tae_library(struct kvr_tae *t); /* kvr_conv_context_library */

/* Decodes the next latent frame like kvr_vae_decode. TAEHV's output range 0..1 is scaled to -1..1
 * before `frame` is called. */
enum kvr_status kvr_tae_decode(struct kvr_tae *t, const float *z, kvr_vae_frame_fn *frame,
                               void *ctx);

/* Calculates the memory use and the floating-point operations of a TAEHV decoder with widths[i]
 * channels at resolution level i. */
extern const int kvr_tae_widths[KVR_TAE_LEVELS]; /* of taew2_1: 256, 128, 64, 64 */
void kvr_tae_cost(const int widths[KVR_TAE_LEVELS], int latent_h, int latent_w,
                  struct kvr_vae_cost *out);

#endif
