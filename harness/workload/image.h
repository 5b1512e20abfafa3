/* image.h - reads and encodes an image file that becomes the first frame of a video.
 *
 *     struct kvr_image image;
 *     KVR_TRY(kvr_image_open(&image, "first.png"));
 *     KVR_TRY(kvr_image_check(704, 1280, "first.png", config));
 *     KVR_TRY(kvr_image_latent(&image, KVR_CPU, "models/longlive-2", config, z));   [frame_elems]
 *     kvr_image_close(&image);
 *
 * The image must have the size of the video's frames, since it is neither scaled nor cropped. */
#ifndef KVR_WORKLOAD_IMAGE_H
#define KVR_WORKLOAD_IMAGE_H

#include "harness/core/sha256.h"
#include "harness/engine/model.h"
#include "harness/files/media/media.h"

struct kvr_image {
    struct kvr_video video;      /* one frame */
    char sha256[KVR_SHA256_HEX]; /* hash of the image's RGB bytes, [height, width, 3] */
};

/* Reads a file of raw frames (.safetensors) or any image that FFmpeg decodes. Returns KVR_EINVAL if
 * the file has several frames. After an error the caller need not call kvr_image_close(). */
enum kvr_status kvr_image_open(struct kvr_image *image, const char *path);
void kvr_image_close(struct kvr_image *image); /* accepts {0} */

/* Returns the VAE's spatial downscaling factor (pixels per latent position, in height and in
 * width), or 0 if the model has no image encoder. */
int kvr_image_scale(const struct kvr_model_config *c);
/* Returns KVR_EUNSUPPORTED if the model has no image encoder, and KVR_EINVAL if the image does not
 * have the size of the model's videos. */
enum kvr_status kvr_image_check(int height, int width, const char *path,
                                const struct kvr_model_config *c);
/* Encodes the image to normalised latents z [channels, latent_h, latent_w] with the VAE encoder in
 * the model's folder. The encoder uses a separate device handle, which is closed before the
 * function returns. */
enum kvr_status kvr_image_latent(const struct kvr_image *image, enum kvr_backend backend,
                                 const char *model_dir, const struct kvr_model_config *c, float *z);

#endif
