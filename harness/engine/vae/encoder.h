/* encoder.h - the encoder of Wan 2.2's VAE for one frame: an image to the first latent frame.
 *
 *     float z[48 * h * w];
 *     KVR_TRY(kvr_vae_encode_frame(dev, "Wan2.2_VAE.pth", h, w, image, z));
 *
 * 2 x 2 pixels become 12 channels; four levels of two residual blocks follow, each but the last halving
 * height and width; then middle, head and conv1. The mean of the latent distribution, normalised, is the
 * result. A clip's first frame has no past: every causal convolution sees zeros before it, and the
 * convolutions over time between levels are skipped.
 *
 * A convolution of stride 2 runs at stride 1, and its odd pixels are kept. Sums are F32. */
#ifndef KVR_VAE_ENCODER_H
#define KVR_VAE_ENCODER_H

#include "harness/device/mem.h"

/* image [16 latent_h, 16 latent_w, 3] in -1..1 and z [48, latent_h, latent_w], as the model has it, are
 * memory of the host. Opens the file, encodes, and frees all. KVR_EFORMAT: the file has no encoder of
 * Wan 2.2, or a weight is missing or of another shape; KVR_ENAN: a weight or a latent is not finite. */
enum kvr_status kvr_vae_encode_frame(struct kvr_dev *dev, const char *path, int latent_h,
                                     int latent_w, const float *image, float *z);

/* What one image takes with the base width of Wan's own file (160). Layers' weights are held one at a time. */
struct kvr_vae_encoder_cost {
    size_t frames, scores; /* activations; the attention's scores of n_threads */
    size_t layer;          /* weights of the largest layer */
    double flop;           /* products with frames before the first, all zeros, are not counted */
};
/* false: latents of so many channels have no encoder here. */
bool kvr_vae_encoder_cost(int channels, int latent_h, int latent_w, int n_threads,
                          struct kvr_vae_encoder_cost *out);
/* Of another base width. */
void kvr_vae_encoder_cost_of(int base, int latent_h, int latent_w, int n_threads,
                             struct kvr_vae_encoder_cost *out);

/* Pixels of a side that one latent covers; 0: latents of so many channels have no encoder here. */
int kvr_vae_encoder_scale(int channels);

#endif
