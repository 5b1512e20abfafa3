/* encoder.h - the encoder of Wan 2.2's VAE for one image, which becomes the first latent frame.
 *
 *     float z[48 * h * w];
 *     KVR_TRY(kvr_vae_encode_frame(dev, "Wan2.2_VAE.pth", h, w, image, z));
 *
 * 2 x 2 pixels become 12 channels; four levels of two residual blocks follow, each but the last
 * halving height and width; then middle, head and conv1. The result is the normalised mean of
 * the latent distribution. A first frame has no past: causal convolutions read zeros before it,
 * and the temporal convolutions between levels are skipped.
 *
 * A convolution of stride 2 is computed at stride 1, keeping the odd pixels. Accumulation is
 * F32. */
#ifndef KVR_VAE_ENCODER_H
#define KVR_VAE_ENCODER_H

#include "harness/device/mem.h"

/* image [16 latent_h, 16 latent_w, 3] in -1..1 and z [48, latent_h, latent_w], normalised, are host
 * memory. Opens the file, encodes, frees everything. KVR_EFORMAT: the file has no Wan 2.2 encoder,
 * or a weight is missing or has another shape; KVR_ENAN: a weight or a latent is not finite. */
enum kvr_status kvr_vae_encode_frame(struct kvr_dev *dev, const char *path, int latent_h,
                                     int latent_w, const float *image, float *z);

/* Cost of encoding one image at the published base width, 160. Weights are in memory one layer at a
 * time. */
struct kvr_vae_encoder_cost {
    size_t frames, scores; /* bytes of activations, and of the attention scores of n_threads */
    size_t layer;          /* bytes of the largest layer's weights */
    double flop;           /* without products with the zero frames before the first */
};
/* False: no encoder for this number of latent channels. */
bool kvr_vae_encoder_cost(int channels, int latent_h, int latent_w, int n_threads,
                          struct kvr_vae_encoder_cost *out);
/* kvr_vae_encoder_cost for another base width. */
void kvr_vae_encoder_cost_of(int base, int latent_h, int latent_w, int n_threads,
                             struct kvr_vae_encoder_cost *out);

/* Pixels per latent along each side; 0: no encoder for this number of latent channels. */
int kvr_vae_encoder_scale(int channels);

#endif
