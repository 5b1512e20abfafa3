/* decoder.h - what makes frames of Wan's latents, by name: the model's own decoder or a tiny one.
 *
 *     KVR_TRY(kvr_decoder_open(&d, dev, KVR_DECODER_TAEHV, "taew2_1.pth", 60, 104));
 *     for (int f = 0; f < n; f++)
 *         KVR_TRY(kvr_decoder_decode(d, latents + f * 16 * 60 * 104, frame, ctx));
 *     kvr_decoder_close(&d);                         the first made 1 frame, the others 4 each
 */
#ifndef KVR_VAE_DECODER_H
#define KVR_VAE_DECODER_H

#include "harness/engine/model.h"
#include "harness/engine/vae/vae.h"

struct kvr_decoder;

/* As kvr_vae_open and kvr_tae_open. */
enum kvr_status kvr_decoder_open(struct kvr_decoder **out, struct kvr_dev *dev,
                                 enum kvr_decoder_kind kind, const char *path, int latent_h,
                                 int latent_w);
void kvr_decoder_close(struct kvr_decoder **d); /* copes with NULL */
/* kvr_vae_decode */
enum kvr_status kvr_decoder_decode(struct kvr_decoder *d, const float *z, kvr_vae_frame_fn *frame,
                                   void *ctx);

/* What one of the real widths holds and takes: Wan 2.1's own decoder, and taew2_1. */
void kvr_decoder_cost(enum kvr_decoder_kind kind, int latent_h, int latent_w,
                      struct kvr_vae_cost *out);
/* Bytes of the file as it is published, encoder and all: F32, and F16. */
int64_t kvr_decoder_file_bytes(enum kvr_decoder_kind kind);

#endif
