/* encoder.h - the encoder of Wan 2.2's VAE, which encodes one image as a video's first latent
 * frame.
 *
 *     float z[48 * h * w];
 *     KVR_TRY(kvr_vae_encode_frame(dev, "Wan2.2_VAE.pth", h, w, image, z));
 *
 * The encoder first rearranges 2 x 2 pixels into 12 channels. Four levels of two residual blocks
 * follow, and each level except the last halves height and width. The last layers are a residual
 * block, attention, a residual block (tensors encoder.middle), a norm, a 3 x 3 x 3 causal
 * convolution (encoder.head) and a 1 x 1 convolution (conv1). The result is the mean of the latent
 * distribution, normalised per channel by the constants of vae_layout.h. Causal convolutions read
 * zeros before the video's first frame, and the temporal convolutions between levels are skipped
 * for that frame.
 *
 * The encoder computes a convolution with stride 2 as one with stride 1, and keeps only the output
 * pixels in odd rows and odd columns, counted from 0. Accumulation is F32. */
#ifndef KVR_VAE_ENCODER_H
#define KVR_VAE_ENCODER_H

#include "harness/device/mem.h"

/* Encodes image [16 latent_h, 16 latent_w, 3] in -1..1 to normalised latents z [48, latent_h,
 * latent_w], both in host memory. The file is open and weights are in memory only during the call.
 * Returns KVR_EFORMAT if the file has no Wan 2.2 encoder, or if a weight is missing or has a wrong
 * shape. Returns KVR_ENAN if a weight or a latent is not finite. */
enum kvr_status kvr_vae_encode_frame(struct kvr_dev *dev, const char *path, int latent_h,
                                     int latent_w, const float *image, float *z);

/* Memory use and floating-point operations of encoding one image. The weights of only one layer at
 * a time are in memory. The fields `frames`, `scores` and `layer` are in bytes. `frames` is the
 * size of the activations, and `scores` the size of the attention scores of all `n_threads` CPU
 * threads. */
struct kvr_vae_encoder_cost {
    size_t frames, scores;
    size_t layer; /* bytes of the largest layer's weights */
    double flop;  /* floating-point operations, excluding multiplications by the zero frames that
                   * causal convolutions read before the first frame */
};
/* Calculates the memory use and the floating-point operations of Wan 2.2's published encoder, whose
 * base width (number of output channels of the first level) is 160. Returns false unless `channels`
 * is 48, Wan 2.2's number of latent channels. */
bool kvr_vae_encoder_cost(int channels, int latent_h, int latent_w, int n_threads,
                          struct kvr_vae_encoder_cost *out);
/* Like kvr_vae_encoder_cost, for another base width. */
void kvr_vae_encoder_cost_of(int base, int latent_h, int latent_w, int n_threads,
                             struct kvr_vae_encoder_cost *out);

/* Returns the number of pixels per latent in height and in width, or 0 unless `channels` is 48. */
int kvr_vae_encoder_scale(int channels);

#endif
