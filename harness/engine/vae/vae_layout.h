/* vae_layout.h - tables of the layers of the VAE decoders of Wan 2.1 and 2.2. Private to
 * harness/engine/vae. */
#ifndef KVR_VAE_LAYOUT_H
#define KVR_VAE_LAYOUT_H

#include <stdbool.h>

/* A decoder has levels 0 to 3; frames of each level have twice the height and width of the previous
 * level. The base width of a decoder is the number of output channels of its last level. */
enum { KVR_VAE_LEVELS = 4, KVR_VAE_BLOCKS = 14, KVR_VAE_UPS = 3 };

/* A residual block at resolution level `level`. Its numbers of input and output channels are `in`
 * and `out` times the base width. */
struct kvr_vae_block_row {
    const char *name, *tap;
    int in, out, level;
};

/* The upsampling layer that follows a level; up[i] of struct kvr_vae_layout follows level i. Its
 * numbers of input and output channels are `in` and `out` times the base width. */
struct kvr_vae_up_row {
    const char *name, *tap;
    int in, out;
    bool doubles; /* whether the upsampling also doubles the frame rate */
};

struct kvr_vae_layout {
    const char *name;
    int channels; /* latent channels */
    int patch;    /* the head outputs patch x patch RGB pixels, as 3 patch^2 channels */
    /* Whether each level except the last has a shortcut, which adds the level's input, upsampled by
     * kvr_vae_ops.spread, to the level's output. */
    bool around;
    struct kvr_vae_block_row block[KVR_VAE_BLOCKS];
    struct kvr_vae_up_row up[KVR_VAE_UPS];
    int first_block[KVR_VAE_LEVELS + 1];
    int widest[KVR_VAE_LEVELS]; /* most channels at each level, as a multiple of the base width */
    const float *mean, *std;    /* mean and standard deviation of each latent channel [channels] */
};

extern const struct kvr_vae_layout kvr_vae_2_1, kvr_vae_2_2;

#endif
