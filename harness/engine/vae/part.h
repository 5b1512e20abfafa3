/* part.h - shared by the decoders of Wan's latents. Private to harness/engine/vae. */
#ifndef KVR_VAE_PART_H
#define KVR_VAE_PART_H

#include "harness/device/array.h"
#include "harness/engine/vae/conv.h"
#include "harness/engine/vae/vae.h"
#include "harness/files/weights/weights.h"

/* Reads a tensor as F32 into host memory of `dev`; -1 in the shape matches any extent. KVR_ENAN,
 * with tensor and position: a value is not finite. */
enum kvr_status kvr_part_read(const struct kvr_weights *file, struct kvr_dev *dev, const char *name,
                              int n_dims, const int64_t *shape, struct kvr_array *out);

/* Opens the convolution with LAYER.weight and LAYER.bias. `flat`: the weight has four dimensions,
 * as for convolutions of images. */
enum kvr_status kvr_part_conv(const struct kvr_weights *file, struct kvr_conv_context *context,
                              struct kvr_dev *dev, const char *layer, bool flat,
                              const struct kvr_conv_shape *s, struct kvr_conv **out);

/* Copies n elements x of the device to F32 at the start of `to`, host memory of
 * kvr_part_fetch_bytes(type, n) bytes. */
enum kvr_status kvr_part_fetch(struct kvr_dev *dev, enum kvr_dtype type, int64_t n, const void *x,
                               void *to);
size_t kvr_part_fetch_bytes(enum kvr_dtype type, int64_t n);

/* Converts the device's frame rgb [n] in the host buffer `host` [kvr_part_fetch_bytes] and calls
 * `frame` with it. `host` is empty if the frame is already F32 in host memory. `frame` NULL: does
 * nothing. */
enum kvr_status kvr_part_emit(struct kvr_dev *dev, enum kvr_dtype type, const struct kvr_buf *host,
                              int64_t n, const void *rgb, kvr_vae_frame_fn *frame, void *ctx);

#endif
