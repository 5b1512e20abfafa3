/* decoder.h - decodes Wan's latents into RGB frames, by the model's VAE or by the tiny decoder
 * TAEHV.
 *
 *     KVR_TRY(kvr_decoder_open(&d, dev, KVR_DECODER_TAEHV, KVR_F32, "taew2_1.pth", 60, 104));
 *     for (int f = 0; f < n; f++)
 *         KVR_TRY(kvr_decoder_decode(d, latents + f * 16 * 60 * 104, frame, ctx));
 *     kvr_decoder_close(&d);                         1 frame, then 4 per latent frame */
#ifndef KVR_VAE_DECODER_H
#define KVR_VAE_DECODER_H

#include "harness/engine/model.h"
#include "harness/engine/vae/vae.h"

struct kvr_decoder;

/* Opens a decoder by kvr_vae_open or kvr_tae_open. Returns KVR_EUNSUPPORTED for TAEHV with a type
 * other than F32. */
enum kvr_status kvr_decoder_open(struct kvr_decoder **out, struct kvr_dev *dev,
                                 enum kvr_decoder_kind kind, enum kvr_dtype type, const char *path,
                                 int latent_h, int latent_w);
void kvr_decoder_close(struct kvr_decoder **d); /* accepts NULL */
/* Decodes the next latent frame z by kvr_vae_decode or kvr_tae_decode. */
enum kvr_status kvr_decoder_decode(struct kvr_decoder *d, const float *z, kvr_vae_frame_fn *frame,
                                   void *ctx);

int kvr_decoder_channels(const struct kvr_decoder *d); /* number of channels of a latent frame */
int kvr_decoder_scale(const struct kvr_decoder *d);    /* pixels per latent in height and in
                                                        * width */

/* Calculates the memory use and the floating-point operations of a decoder that has the layer
 * widths of the published weights. The VAE of Wan 2.1 has 16 latent channels, and the VAE of Wan
 * 2.2 has 48. TAEHV ignores `type`, because it supports only F32. Returns false if no decoder of
 * this kind has this number of latent channels. */
bool kvr_decoder_cost(enum kvr_decoder_kind kind, int channels, int latent_h, int latent_w,
                      enum kvr_dtype type, struct kvr_vae_cost *out);
/* Base width (number of output channels of the last level) of the published VAE decoder with
 * `channels` latent channels: 96 for Wan 2.1, and 256 for Wan 2.2. */
int kvr_decoder_base(int channels);
/* Pixels per latent in height and in width, for this number of latent channels. */
int kvr_decoder_scale_of(int channels);
/* Size in bytes of the decoder's published weight file. The files of Wan's VAEs are F32 and include
 * the encoder; the file taew2_1 is F16. */
int64_t kvr_decoder_file_bytes(enum kvr_decoder_kind kind, int channels);

#endif
