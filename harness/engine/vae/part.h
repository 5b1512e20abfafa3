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

/* n elements x of the device as floats of the host: `to` has kvr_part_fetch_bytes(type, n) bytes, and
 * the floats are at its start. */
enum kvr_status kvr_part_fetch(struct kvr_dev *dev, enum kvr_dtype type, int64_t n, const void *x,
                               void *to);
size_t kvr_part_fetch_bytes(enum kvr_dtype type, int64_t n);

/* Passes the device's frame rgb [n] to the callback `frame` through the host buffer `host`
 * [kvr_part_fetch_bytes]; `host` is empty if the frame is F32 in the host's memory. `frame` NULL: does
 * nothing. */
enum kvr_status kvr_part_give(struct kvr_dev *dev, enum kvr_dtype type, const struct kvr_buf *host,
                              int64_t n, const void *rgb, kvr_vae_frame_fn *frame, void *ctx);

#endif
