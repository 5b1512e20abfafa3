/* tae.h - TAEHV, a tiny decoder of Wan 2.1's latents: decodes latent frames to RGB one by one.
 *
 *     KVR_TRY(kvr_tae_open(&t, dev, "taew2_1.pth", 60, 104));
 *     for (int f = 0; f < n; f++)
 *         KVR_TRY(kvr_tae_decode(t, latents + f * 16 * 60 * 104, frame, ctx));
 *     kvr_tae_close(&t);                          1 frame, then 4 per latent frame
 *
 * Tiny AutoEncoder for Hunyuan Video (Ollin Boer Bohan, github.com/madebyollin/taehv, 2025). Its
 * weights taew2_1 decode Wan 2.1's latents, without scaling by mean and deviation. It has neither
 * norms nor attention: nine blocks of three convolutions over a frame and its predecessor, three
 * blocks per resolution. After every third block height and width double, and the number of frames
 * is multiplied by 1, 2 and 2. The first latent frame of a clip yields only the last of its frames.
 *
 *     z <- 3 tanh(z / 3);  block: x <- relu(x + conv4(relu(conv2(relu(conv0([x, x before]))))))
 *
 * Accumulation is F32. Results do not depend on the number of threads; device and CPU differ by
 * rounding. */
#ifndef KVR_VAE_TAE_H
#define KVR_VAE_TAE_H

#include "harness/engine/vae/vae.h"

enum { KVR_TAE_LEVELS = 4 };

struct kvr_tae;

/* The file may also contain the encoder. Widths come from the tensors. KVR_EFORMAT: a tensor is
 * missing or has another shape; KVR_ENAN: a value is not finite. */
enum kvr_status kvr_tae_open(struct kvr_tae **out, struct kvr_dev *dev, const char *path,
                             int latent_h, int latent_w);
void kvr_tae_close(struct kvr_tae **t);         /* accepts NULL */
void kvr_tae_reset(struct kvr_tae *t);          /* the next frame is a clip's first */
const char *kvr_tae_library(struct kvr_tae *t); /* kvr_conv_context_library */

/* Like kvr_vae_decode: frames before clamping are scaled to -1..1, from TAEHV's 0..1. */
enum kvr_status kvr_tae_decode(struct kvr_tae *t, const float *z, kvr_vae_frame_fn *frame,
                               void *ctx);

/* Cost at these widths, from the arithmetic of the layers. */
extern const int kvr_tae_widths[KVR_TAE_LEVELS]; /* of taew2_1: 256, 128, 64, 64 */
void kvr_tae_cost(const int widths[KVR_TAE_LEVELS], int latent_h, int latent_w,
                  struct kvr_vae_cost *out);

#endif
