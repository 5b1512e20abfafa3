/* part.h - functions shared by the decoders and the encoder of Wan's latents. Private to
 * harness/engine/vae. */
#ifndef KVR_VAE_PART_H
#define KVR_VAE_PART_H

#include "harness/device/array.h"
#include "harness/engine/vae/conv.h"
#include "harness/engine/vae/vae.h"
#include "harness/files/weights/weights.h"

/* Reads the tensor `name` of the file as F32 into host memory, which kvr_dev_host(dev) allocates.
 * The tensor must have n_dims dimensions, and extent shape[i] in dimension i; a shape[i] of -1
 * allows any extent. Returns KVR_ENAN if a value is not finite; the error message names the tensor
 * and the element's index. */
enum kvr_status kvr_part_read(const struct kvr_weights *file, struct kvr_dev *dev, const char *name,
                              int n_dims, const int64_t *shape, struct kvr_array *out);

/* Opens a convolution with the tensors LAYER.weight and LAYER.bias of the file, where LAYER is the
 * argument `layer`. If `flat` is true, the weight tensor must have four dimensions, like the weight
 * of a 2D convolution. */
enum kvr_status kvr_part_conv(const struct kvr_weights *file, struct kvr_conv_context *context,
                              struct kvr_dev *dev, const char *layer, bool flat,
                              const struct kvr_conv_shape *s, struct kvr_conv **out);

/* Copies the n elements of x from device memory to host memory, and writes them as F32 to the start
 * of `to`. The buffer `to` must have kvr_part_fetch_bytes(type, n) bytes, since its end holds BF16
 * elements before conversion. */
enum kvr_status kvr_part_fetch(struct kvr_dev *dev, enum kvr_dtype type, int64_t n, const void *x,
                               void *to);
size_t kvr_part_fetch_bytes(enum kvr_dtype type, int64_t n);

/* Synchronizes the device, copies the decoded frame `rgb` [n] as F32 to the buffer `host`, and
 * calls `frame` with the copy. If host->p is NULL, `rgb` must be F32 in host memory and is not
 * copied. If `frame` is NULL, only the device is synchronized. */
enum kvr_status kvr_part_emit(struct kvr_dev *dev, enum kvr_dtype type, const struct kvr_buf *host,
                              int64_t n, const void *rgb, kvr_vae_frame_fn *frame, void *ctx);

#endif
