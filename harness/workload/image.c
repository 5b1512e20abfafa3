/* image.c - see image.h. */
#include "harness/workload/image.h"

#include <stdlib.h>
#include <string.h>

#include "harness/engine/vae/encoder.h"

enum kvr_status kvr_image_open(struct kvr_image *image, const char *path)
{
    const struct kvr_frames *f = &image->video.frames;
    enum kvr_status st;

    memset(image, 0, sizeof *image);
    KVR_TRY(kvr_video_read(&image->video, path));
    st = f->n == 1 ? kvr_sha256_hex(f->rgb, (size_t)f->height * (size_t)f->width * 3, image->sha256)
                   : kvr_fail(KVR_EINVAL, "%s: the file has %d frames, need an image (one frame)",
                              path, f->n);
    if (st != KVR_OK)
        kvr_image_close(image);
    return st;
}

void kvr_image_close(struct kvr_image *image)
{
    kvr_video_free(&image->video);
    memset(image, 0, sizeof *image);
}

int kvr_image_scale(const struct kvr_model_config *c)
{
    return c->latent_is_rgb || c->is_lm || c->random_weights ? 0 : kvr_vae_encoder_scale(c->in_dim);
}

enum kvr_status kvr_image_check(int height, int width, const char *path,
                                const struct kvr_model_config *c)
{
    const int scale = kvr_image_scale(c);

    if (!scale)
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "%s: the model has latents of %d channels, but only models with Wan 2.2's latents "
            "(48 channels) and trained weights accept a first frame from an image",
            path, c->in_dim);
    if (height == scale * c->latent_h && width == scale * c->latent_w)
        return KVR_OK;
    return kvr_fail(KVR_EINVAL,
                    "%s: the image has %dx%d pixels (width x height), the model needs %dx%d; "
                    "convert it, for example: ffmpeg -i IMAGE -vf "
                    "scale=%d:%d:force_original_aspect_ratio=increase,crop=%d:%d first.png",
                    path, width, height, scale * c->latent_w, scale * c->latent_h,
                    scale * c->latent_w, scale * c->latent_h, scale * c->latent_w,
                    scale * c->latent_h);
}

enum kvr_status kvr_image_latent(const struct kvr_image *image, enum kvr_backend backend,
                                 const char *model_dir, const struct kvr_model_config *c, float *z)
{
    const struct kvr_frames *f = &image->video.frames;
    const size_t n = (size_t)f->height * (size_t)f->width * 3;
    struct kvr_model_paths p = { 0 };
    struct kvr_dev *dev = NULL;
    float *x = malloc(n * sizeof *x);
    enum kvr_status st = x ? KVR_OK : kvr_fail(KVR_ENOMEM, "image: out of memory");

    for (size_t i = 0; x && i < n; i++)
        x[i] = ((float)f->rgb[i] / 255.0f - 0.5f) / 0.5f;
    if (st == KVR_OK)
        st = kvr_model_paths(model_dir, c, KVR_DECODER_VAE, &p);
    if (st == KVR_OK)
        st = kvr_dev_open(&dev, backend);
    if (st == KVR_OK)
        st = kvr_vae_encode_frame(dev, p.vae, c->latent_h, c->latent_w, x, z);
    kvr_dev_close(&dev);
    kvr_model_paths_free(&p);
    free(x);
    return st;
}
