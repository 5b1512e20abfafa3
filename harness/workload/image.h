/* image.h - the first frame of a video from an image file.
 *
 *     struct kvr_image image;
 *     KVR_TRY(kvr_image_open(&image, "first.png"));
 *     KVR_TRY(kvr_image_check(704, 1280, "first.png", config));
 *     KVR_TRY(kvr_image_latent(&image, KVR_CPU, "models/longlive-2", config, z));   [frame_elems]
 *     kvr_image_close(&image);
 *
 * The image has the size of the video: it is neither scaled nor cropped. */
#ifndef KVR_WORKLOAD_IMAGE_H
#define KVR_WORKLOAD_IMAGE_H

#include "harness/core/sha256.h"
#include "harness/engine/model.h"
#include "harness/files/media/media.h"

struct kvr_image {
    struct kvr_video video;      /* one frame */
    char sha256[KVR_SHA256_HEX]; /* hash of the image's RGB bytes, [height, width, 3] */
};

/* Reads raw frames (.safetensors) or any image that FFmpeg decodes. KVR_EINVAL: it has several
 * frames. On failure there is nothing to close. */
enum kvr_status kvr_image_open(struct kvr_image *image, const char *path);
void kvr_image_close(struct kvr_image *image); /* accepts {0} */

/* Pixels per latent along each side, if this model has an image encoder; 0: the model has no
 * encoder. */
int kvr_image_scale(const struct kvr_model_config *c);
/* KVR_EUNSUPPORTED: the model has no encoder; KVR_EINVAL: the image differs in size from the
 * model's videos. */
enum kvr_status kvr_image_check(int height, int width, const char *path,
                                const struct kvr_model_config *c);
/* Encodes the image to z [channels, latent_h, latent_w], normalised, with the encoder in the
 * model's folder, on a separate device. */
enum kvr_status kvr_image_latent(const struct kvr_image *image, enum kvr_backend backend,
                                 const char *model_dir, const struct kvr_model_config *c, float *z);

#endif
