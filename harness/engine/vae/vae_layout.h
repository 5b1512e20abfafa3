/* vae_layout.h - layers of the VAE decoders of Wan 2.1 and 2.2, as tables. Private to
 * harness/engine/vae. */
#ifndef KVR_VAE_LAYOUT_H
#define KVR_VAE_LAYOUT_H

#include <stdbool.h>

/* Levels 0 to 3; each doubles the height and width of the previous one. */
enum { KVR_VAE_LEVELS = 4, KVR_VAE_BLOCKS = 14, KVR_VAE_UPS = 3 };

/* Channels in units of the base width. */
struct kvr_vae_block_row {
    const char *name, *tap;
    int in, out, level;
};

/* Upsampling from level i to i + 1. */
struct kvr_vae_up_row {
    const char *name, *tap;
    int in, out;
    bool doubles; /* also doubles the frame rate */
};

struct kvr_vae_layout {
    const char *name;
    int channels; /* latent channels */
    int patch;    /* the head outputs patch x patch pixels: 3 patch^2 channels */
    /* Each level but the last has a shortcut: its input, repeated and rearranged in time and space,
     * is added to its output. */
    bool around;
    struct kvr_vae_block_row block[KVR_VAE_BLOCKS];
    struct kvr_vae_up_row up[KVR_VAE_UPS];
    int first_block[KVR_VAE_LEVELS + 1];
    int widest[KVR_VAE_LEVELS]; /* maximum channels of a frame at this level */
    const float *mean, *std;    /* [channels] */
};

extern const struct kvr_vae_layout kvr_vae_2_1, kvr_vae_2_2;

#endif
