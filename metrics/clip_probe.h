/* clip_probe.h - a small network that classifies the content of a clip (models/nano/probe.py).
 *
 *     struct kvr_clip_probe p;
 *     KVR_TRY(kvr_clip_probe_open(&p, weights));          borrows the file's memory
 *     kvr_clip_probe_frame(&p, rgb, seen);                per frame: KVR_CLIP_SEEN features
 *     kvr_clip_probe_read(&p, seen, head, share);         of p.window frames: probability per class
 *
 * Per frame: x = byte / 127.5 - 1; three convolutions with ReLU, stride 2; then `look` and `place`,
 * linear with ReLU. Motion is classified from the `place` features of all frames, appearance from
 * their mean `look`. The file's metadata give the number of frames and, for each head, the prompt
 * slots and the words of its classes. */
#ifndef KVR_METRICS_CLIP_PROBE_H
#define KVR_METRICS_CLIP_PROBE_H

#include "harness/core/safetensors.h"

enum {
    KVR_CLIP_SIZE = 48, /* frames of 48x48 */
    KVR_CLIP_SEEN = 64, /* look [32], place [32] */
    KVR_CLIP_HEADS = 5,
    KVR_CLIP_CLASSES = 16 /* maximum number of classes per head */
};

struct kvr_clip_head {
    const char *name;
    bool moves;  /* uses `place` instead of `look` */
    int slot[2]; /* prompt slots that the head classifies; -1: unused */
    int n_classes;
    char word[KVR_CLIP_CLASSES][32];
    const float *weight, *bias;
};

struct kvr_clip_probe {
    int window; /* number of frames in a clip */
    const float *conv[3], *conv_bias[3], *look, *look_bias, *place, *place_bias, *path, *path_bias;
    struct kvr_clip_head head[KVR_CLIP_HEADS];
};

/* KVR_ENOTFOUND, KVR_EFORMAT: a tensor or entry is missing or has another shape. */
enum kvr_status kvr_clip_probe_open(struct kvr_clip_probe *p, const struct kvr_st *weights);

/* rgb [48, 48, 3] -> seen [KVR_CLIP_SEEN]. Single-threaded; identical on every machine. */
void kvr_clip_probe_frame(const struct kvr_clip_probe *p, const uint8_t *rgb, float *seen);

/* seen [window, KVR_CLIP_SEEN] -> share [n_classes] of head h, summing to 1. */
void kvr_clip_probe_read(const struct kvr_clip_probe *p, const float *seen, int h, float *share);

#endif
