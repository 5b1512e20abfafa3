/* part.h - what decoders of Wan's latents share. Private to harness/engine/vae. */
#ifndef KVR_VAE_PART_H
#define KVR_VAE_PART_H

#include "harness/device/array.h"
#include "harness/engine/vae/conv.h"
#include "harness/engine/vae/vae.h"
#include "harness/files/weights/weights.h"

/* A tensor in floats on the host's side of `dev`, -1 for any extent. KVR_ENAN, with name and place:
 * a value is not finite. */
enum kvr_status kvr_part_read(const struct kvr_weights *file, struct kvr_dev *dev, const char *name,
                              int n_dims, const int64_t *shape, struct kvr_array *out);

/* The convolution of LAYER.weight, LAYER.bias. `flat`: four dimensions, of an image's convolution. */
enum kvr_status kvr_part_conv(const struct kvr_weights *file, struct kvr_conv_room *room,
                              struct kvr_dev *dev, const char *layer, bool flat,
                              const struct kvr_conv_shape *s, struct kvr_conv **out);

/* Passes the device's frame rgb to the callback `frame` through the host buffer `host` [frame size]; `host` is
 * empty if the device's memory is the host's. `frame` NULL: does nothing. */
enum kvr_status kvr_part_give(struct kvr_dev *dev, const struct kvr_buf *host, const float *rgb,
                              kvr_vae_frame_fn *frame, void *ctx);

#endif
