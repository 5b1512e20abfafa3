/* drawn.h - a decoder's file with random weights, for models that are there for their cost.
 *
 *     KVR_TRY(kvr_decoder_draw(KVR_DECODER_VAE, 16, 0, 1, "out/vae.safetensors"));
 *     KVR_TRY(kvr_decoder_open(&d, dev, KVR_DECODER_VAE, KVR_F32, "out/vae.safetensors", 60, 104));
 *
 * Tensors have the names and shapes of Wan's VAE or of taew2_1, and values of kvr_draw_tensor(); gains of
 * norms are 1. The frames show nothing; time and memory are those of the real weights. */
#ifndef KVR_VAE_DRAWN_H
#define KVR_VAE_DRAWN_H

#include "harness/engine/model.h"

/* `channels` of a latent frame: 16 or 48; `base`: the VAE's width, 0: the real one. KVR_EUNSUPPORTED: no such
 * decoder. The same arguments give the same bytes. */
enum kvr_status kvr_decoder_draw(enum kvr_decoder_kind kind, int channels, int base, uint64_t seed,
                                 const char *path);

#endif
