/* tae.h - a tiny decoder of Wan 2.1's latents, TAEHV's: latent frames to RGB, one after the other.
 *
 *     KVR_TRY(kvr_tae_open(&t, dev, "taew2_1.pth", 60, 104));
 *     for (int f = 0; f < n; f++)
 *         KVR_TRY(kvr_tae_decode(t, latents + f * 16 * 60 * 104, frame, ctx));
 *     kvr_tae_close(&t);                          the first made 1 frame, the others 4 each
 *
 * Tiny AutoEncoder for Hunyuan Video (Ollin Boer Bohan, github.com/madebyollin/taehv, 2025), whose
 * weights taew2_1 take Wan 2.1's latents without mean and deviation. It has no norms and no attention:
 * nine blocks of three convolutions over a frame and its predecessor, three blocks per resolution. After
 * each three blocks the frame doubles in height and width, and the number of frames is multiplied by one,
 * two and two. The first latent frame of a clip yields only the last of its frames.
 *
 *     z <- 3 tanh(z / 3);  block: x <- relu(x + conv4(relu(conv2(relu(conv0([x, x before]))))))
 *
 * Sums are F32; results do not depend on the number of threads. On a device they differ from the
 * CPU's by roundings. */
#ifndef KVR_VAE_TAE_H
#define KVR_VAE_TAE_H

#include "harness/engine/vae/vae.h"

enum { KVR_TAE_LEVELS = 4 };

struct kvr_tae;

/* The file may hold the encoder, too. Widths come from the tensors. KVR_EFORMAT: one is missing or
 * of another shape; KVR_ENAN: one is not finite. */
enum kvr_status kvr_tae_open(struct kvr_tae **out, struct kvr_dev *dev, const char *path,
                             int latent_h, int latent_w);
void kvr_tae_close(struct kvr_tae **t);         /* copes with NULL */
void kvr_tae_reset(struct kvr_tae *t);          /* the next frame is a clip's first */
const char *kvr_tae_library(struct kvr_tae *t); /* kvr_conv_room_library */

/* As kvr_vae_decode: frames are in -1..1 before clamping, though TAEHV's own are in 0..1. */
enum kvr_status kvr_tae_decode(struct kvr_tae *t, const float *z, kvr_vae_frame_fn *frame,
                               void *ctx);

/* What one of these widths holds and takes, by the arithmetic of its layers. */
extern const int kvr_tae_widths[KVR_TAE_LEVELS]; /* of taew2_1: 256, 128, 64, 64 */
void kvr_tae_cost(const int widths[KVR_TAE_LEVELS], int latent_h, int latent_w,
                  struct kvr_vae_cost *out);

#endif
