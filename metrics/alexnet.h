/* alexnet.h - the convolutions of AlexNet, up to the five activations that LPIPS reads (taps).
 *
 *     KVR_TRY(kvr_alexnet_open(&net, weights));      borrows the file's memory
 *     if (kvr_alexnet_shape(h, w, shape))            false: the picture is too small
 *         ok = kvr_alexnet_run(&net, x, h, w, shape, tap);
 *
 * The file's tensors have torchvision's names, features.{0,3,6,8,10}.{weight,bias}. */
#ifndef KVR_METRICS_ALEXNET_H
#define KVR_METRICS_ALEXNET_H

#include "harness/core/safetensors.h"

enum { KVR_ALEXNET_TAPS = 5 };

struct kvr_alexnet {
    const float *weight[KVR_ALEXNET_TAPS]; /* [out, in, k, k] */
    const float *bias[KVR_ALEXNET_TAPS];   /* [out] */
};

struct kvr_alexnet_shape {
    int channels, height, width;
};

/* Opens the network. Fails with KVR_ENOTFOUND if a tensor is missing, and with KVR_EFORMAT if its
 * shape differs or its type is not F32. */
enum kvr_status kvr_alexnet_open(struct kvr_alexnet *net, const struct kvr_st *weights);

/* Sets shape[i] to the shape of activation i for an image [3, height, width]. Returns false if the
 * image is too small. */
bool kvr_alexnet_shape(int height, int width, struct kvr_alexnet_shape shape[KVR_ALEXNET_TAPS]);

/* Computes the activations of an image x [3, height, width]; writes activation i, of the shape
 * shape[i], to the caller's buffer tap[i]. Single-threaded. Returns false if memory runs out. */
bool kvr_alexnet_run(const struct kvr_alexnet *net, const float *x, int height, int width,
                     const struct kvr_alexnet_shape shape[KVR_ALEXNET_TAPS],
                     float *const tap[KVR_ALEXNET_TAPS]);

#endif
