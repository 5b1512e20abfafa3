/* drawn.h - writes a decoder file with random weights, for models that serve to measure time and
 * memory only.
 *
 *     KVR_TRY(kvr_decoder_draw(KVR_DECODER_VAE, 16, 0, 1, "out/vae.safetensors"));
 *     KVR_TRY(kvr_decoder_open(&d, dev, KVR_DECODER_VAE, KVR_F32, "out/vae.safetensors", 60, 104));
 *
 * The tensors have the names and shapes of Wan's VAE or of taew2_1. The values of the tensors are
 * pseudorandom numbers from kvr_draw_tensor(), and the norms' gains are 1. Decoded frames are
 * noise, but decoding takes as much time and memory as with trained weights. */
#ifndef KVR_VAE_DRAWN_H
#define KVR_VAE_DRAWN_H

#include "harness/engine/model.h"

/* Writes the file `path` for a decoder with `channels` latent channels, 16 or 48. The VAE's base
 * width is `base`, or the published width if base is 0. Returns KVR_EUNSUPPORTED if no decoder of
 * this kind has this number of latent channels. Equal arguments give a file with equal bytes. */
enum kvr_status kvr_decoder_draw(enum kvr_decoder_kind kind, int channels, int base, uint64_t seed,
                                 const char *path);

#endif
