/* drawn.h - writes a decoder file with random weights, for models that measure cost only.
 *
 *     KVR_TRY(kvr_decoder_draw(KVR_DECODER_VAE, 16, 0, 1, "out/vae.safetensors"));
 *     KVR_TRY(kvr_decoder_open(&d, dev, KVR_DECODER_VAE, KVR_F32, "out/vae.safetensors", 60, 104));
 *
 * Tensors have the names and shapes of Wan's VAE or of taew2_1, with values by kvr_draw_tensor();
 * gains of norms are 1. The decoded frames are noise; time and memory equal those of the real
 * weights. */
#ifndef KVR_VAE_DRAWN_H
#define KVR_VAE_DRAWN_H

#include "harness/engine/model.h"

/* channels: channels of a latent frame, 16 or 48. base: base width of the VAE, 0: the published
 * width. KVR_EUNSUPPORTED: no such decoder. Deterministic. */
enum kvr_status kvr_decoder_draw(enum kvr_decoder_kind kind, int channels, int base, uint64_t seed,
                                 const char *path);

#endif
