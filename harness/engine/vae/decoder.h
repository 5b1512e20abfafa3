/* decoder.h - what makes frames of Wan's latents, by name: the model's own decoder or a tiny one.
 *
 *     KVR_TRY(kvr_decoder_open(&d, dev, KVR_DECODER_TAEHV, KVR_F32, "taew2_1.pth", 60, 104));
 *     for (int f = 0; f < n; f++)
 *         KVR_TRY(kvr_decoder_decode(d, latents + f * 16 * 60 * 104, frame, ctx));
 *     kvr_decoder_close(&d);                         the first made 1 frame, the others 4 each
 */
#ifndef KVR_VAE_DECODER_H
#define KVR_VAE_DECODER_H

#include "harness/engine/model.h"
#include "harness/engine/vae/vae.h"

struct kvr_decoder;

/* As kvr_vae_open and kvr_tae_open. KVR_EUNSUPPORTED: TAEHV computes in F32 only. */
enum kvr_status kvr_decoder_open(struct kvr_decoder **out, struct kvr_dev *dev,
                                 enum kvr_decoder_kind kind, enum kvr_dtype type, const char *path,
                                 int latent_h, int latent_w);
void kvr_decoder_close(struct kvr_decoder **d); /* copes with NULL */
/* kvr_vae_decode */
enum kvr_status kvr_decoder_decode(struct kvr_decoder *d, const float *z, kvr_vae_frame_fn *frame,
                                   void *ctx);

const char *kvr_decoder_library(struct kvr_decoder *d); /* kvr_conv_room_library */
int kvr_decoder_channels(const struct kvr_decoder *d);  /* of a latent frame */
int kvr_decoder_scale(const struct kvr_decoder *d); /* pixels of a side for one of the latents */

/* What one of the real widths holds and takes: the own decoder of latents of so many channels (Wan 2.1's
 * 16, 2.2's 48), and taew2_1, which computes in F32 whatever the type. False: there is none. */
bool kvr_decoder_cost(enum kvr_decoder_kind kind, int channels, int latent_h, int latent_w,
                      enum kvr_dtype type, struct kvr_vae_cost *out);
/* Base width of the real VAE: 96 of Wan 2.1, 256 of 2.2. */
int kvr_decoder_base(int channels);
/* Pixels of a side, likewise. */
int kvr_decoder_scale_of(int channels);
/* Bytes of the file as it is published, encoder and all: F32, and F16. */
int64_t kvr_decoder_file_bytes(enum kvr_decoder_kind kind, int channels);

#endif
