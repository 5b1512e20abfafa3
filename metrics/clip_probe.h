/* clip_probe.h - a small network that classifies the content of a clip (models/nano/probe.py).
 *
 *     struct kvr_clip_probe p;
 *     KVR_TRY(kvr_clip_probe_open(&p, weights));          borrows the file's memory
 *     kvr_clip_probe_frame(&p, rgb, seen);                per frame: KVR_CLIP_SEEN features
 *     kvr_clip_probe_read(&p, seen, head, share);         of p.window frames: probability per class
 *
 * A frame x = byte / 127.5 - 1 passes through three convolutions with ReLU and stride 2. Two
 * parallel linear layers with ReLU, `look` and `place`, compute the frame's features from the last
 * convolution. Appearance is classified from the mean of the `look` features over frames. Motion is
 * classified from the `place` features of all frames, through a further linear layer, `path`. The
 * metadata of the network's file give the number of frames per clip. For each classifier head, the
 * metadata give the words of its classes, and the slots (positions in the prompt) of these
 * words. */
#ifndef KVR_METRICS_CLIP_PROBE_H
#define KVR_METRICS_CLIP_PROBE_H

#include "harness/core/safetensors.h"

enum {
    KVR_CLIP_SIZE = 48, /* frames of 48x48 */
    KVR_CLIP_SEEN = 64, /* 32 `look` features, then 32 `place` features */
    KVR_CLIP_HEADS = 5,
    KVR_CLIP_CLASSES = 16 /* maximum number of classes of a classifier head */
};

struct kvr_clip_head {
    const char *name;
    bool moves;  /* true if the head classifies motion, false if it classifies appearance */
    int slot[2]; /* one or two positions in the prompt at which the head's class words may occur;
                  * slot[1] is -1 if there is one position */
    int n_classes;
    char word[KVR_CLIP_CLASSES][32];
    const float *weight, *bias;
};

struct kvr_clip_probe {
    int window; /* number of frames of a clip */
    const float *conv[3], *conv_bias[3], *look, *look_bias, *place, *place_bias, *path, *path_bias;
    struct kvr_clip_head head[KVR_CLIP_HEADS];
};

/* Opens the network. Fails with KVR_ENOTFOUND if a tensor is missing, with KVR_EFORMAT if a tensor
 * has another shape or type or a metadata entry is invalid, and with KVR_ENAN if a weight is not
 * finite. */
enum kvr_status kvr_clip_probe_open(struct kvr_clip_probe *p, const struct kvr_st *weights);

/* Computes the features `seen` [KVR_CLIP_SEEN] of the frame `rgb` [48, 48, 3]. The function runs on
 * one thread and gives the same result on every machine. */
void kvr_clip_probe_frame(const struct kvr_clip_probe *p, const uint8_t *rgb, float *seen);

/* Sets `share` [n_classes] to the class probabilities of head h, which sum to 1. The input `seen`
 * [window, KVR_CLIP_SEEN] contains the features of the clip's frames. */
void kvr_clip_probe_read(const struct kvr_clip_probe *p, const float *seen, int h, float *share);

#endif
