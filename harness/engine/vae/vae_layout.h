/* vae_layout.h - the two decoders of Wan's, as rows of layers. Private to harness/engine/vae. */
#ifndef KVR_VAE_LAYOUT_H
#define KVR_VAE_LAYOUT_H

#include <stdbool.h>

/* Resolutions are levels 0..3, each of twice the height and width of the one before. */
enum { KVR_VAE_LEVELS = 4, KVR_VAE_BLOCKS = 14, KVR_VAE_UPS = 3 };

/* Channels are in units of the base width. */
struct kvr_vae_block_row {
    const char *name, *tap;
    int in, out, level;
};

/* From level i to i + 1. */
struct kvr_vae_up_row {
    const char *name, *tap;
    int in, out;
    bool doubles; /* frames in time, too */
};

struct kvr_vae_layout {
    const char *name;
    int channels; /* of latents */
    int patch;    /* pixels of a side that the head makes at once: 3 patch^2 channels */
    /* Around each level but the last: its input, repeated and laid out in time and space, is added to
     * what the level makes of it. */
    bool around;
    struct kvr_vae_block_row block[KVR_VAE_BLOCKS];
    struct kvr_vae_up_row up[KVR_VAE_UPS];
    int first_block[KVR_VAE_LEVELS + 1];
    int widest[KVR_VAE_LEVELS]; /* channels that a level's frame may have */
    const float *mean, *std;    /* [channels] */
};

extern const struct kvr_vae_layout kvr_vae_2_1, kvr_vae_2_2;

#endif
