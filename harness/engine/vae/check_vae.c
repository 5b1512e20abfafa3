/* check_vae.c - see check_vae.h. */
#include "harness/engine/vae/check_vae.h"

#include <dirent.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/path.h"
#include "harness/device/names.h"
#include "harness/engine/check_report.h"
#include "harness/engine/model.h"
#include "harness/engine/vae/encoder.h"
#include "harness/engine/vae/vae.h"

/* Bounds of the relative L2 error and of the maximum absolute error of F32 outputs against the
 * recorded tensors. Decoding in F32 differs from decoding in F64 by a relative L2 error of 1e-6.
 * The decoder is always checked in F32, and also in BF16 if linear layers compute in BF16. */
static const struct kvr_tolerance parity = { 1e-5, 1e-4 };
/* Bound of the BF16 error, relative to the F32 error. The F32 error shows how much a decoder's
 * weights amplify rounding errors, and BF16 rounding is 2^16 times coarser. The measured BF16
 * errors of recorded clips are only a third of this bound, because BF16 convolutions still sum in
 * F32. */
static const double bf16_by_f32 = 0x1p16;
/* Bounds for 8-bit frames. Pixels are truncated to bytes, so a pixel near a whole number may differ
 * by one. */
static const struct kvr_tolerance bytes = { 1e-2, 1 };

enum { CLIP_NAME = 32, MAX_PARTS = 64 };

/* Output of a layer for one latent frame, which is compared with the recorded tensor `name`. */
struct part {
    char name[96];
    float *x; /* [channel, frame, y, x] */
    int n_frames, seen;
    int64_t channels, area;
};

struct clip {
    struct kvr_check_report *r;
    struct kvr_st *file;
    struct kvr_vae *v;
    char name[CLIP_NAME]; /* prefix of the clip's tensor names, "" or "a." */
    int latent;           /* index of the current latent frame */
    int n_frames, scale, h, w;
    float *frames; /* [n_frames, 3, H, W] */
    int seen;
    struct part part[MAX_PARTS];
    int n_parts;
    enum kvr_status st; /* first error of tap(), which returns none itself */
};

static int64_t frame_floats(const struct clip *c)
{
    return (int64_t)3 * c->scale * c->h * c->scale * c->w;
}

static enum kvr_status compare(struct clip *c, const char *part, const float *x, int64_t n,
                               const struct kvr_tolerance *tol)
{
    struct kvr_tensor golden;
    char name[96];

    snprintf(name, sizeof name, "%s%s", c->name, part);
    if (!kvr_st_has(c->file, name))
        return KVR_OK;
    KVR_TRY(kvr_st_get(c->file, name, &golden));
    return kvr_check_compare(c->r, name, x, n, &golden, tol);
}

/* Receives a decoded frame y [H, W, 3] and stores it as [3, H, W]. */
static enum kvr_status take(void *ctx, const float *y)
{
    struct clip *c = ctx;
    const int64_t area = frame_floats(c) / 3;
    float *to = c->frames + c->seen++ * 3 * area;

    if (c->seen > c->n_frames)
        return kvr_fail(KVR_EINTERNAL,
                        "check: the decoder returned more than the expected %d frames",
                        c->n_frames);
    for (int64_t i = 0; i < area; i++)
        for (int k = 0; k < 3; k++)
            to[k * area + i] = y[3 * i + k];
    return KVR_OK;
}

static struct part *part_of(struct clip *c, const char *name, int64_t n)
{
    struct kvr_tensor golden;
    struct part *p;

    for (int i = 0; i < c->n_parts; i++)
        if (strcmp(c->part[i].name, name) == 0)
            return &c->part[i];
    if (!kvr_st_has(c->file, name) || c->n_parts == MAX_PARTS ||
        kvr_st_get(c->file, name, &golden) != KVR_OK || golden.n_dims != 4 || golden.shape[1] < 1 ||
        n * golden.shape[1] != kvr_tensor_count(&golden))
        return NULL;
    p = &c->part[c->n_parts++];
    *p = (struct part){ .n_frames = (int)golden.shape[1],
                        .channels = golden.shape[0],
                        .area = golden.shape[2] * golden.shape[3],
                        .x = malloc((size_t)kvr_tensor_count(&golden) * sizeof *p->x) };
    snprintf(p->name, sizeof p->name, "%s", name);
    return p;
}

static void tap(void *ctx, const char *name, const float *x, int64_t n)
{
    struct clip *c = ctx;
    char full[96];
    struct part *p;

    snprintf(full, sizeof full, "%sf%d.%.40s", c->name, c->latent, name);
    p = part_of(c, full, n);
    if (!p || p->seen == p->n_frames || c->st != KVR_OK)
        return;
    if (!p->x) {
        c->st = kvr_fail(KVR_ENOMEM, "check: out of memory while allocating tensor '%s'", full);
        return;
    }
    for (int64_t i = 0; i < p->area; i++)
        for (int64_t k = 0; k < p->channels; k++)
            p->x[(k * p->n_frames + p->seen) * p->area + i] = x[i * p->channels + k];
    if (++p->seen == p->n_frames)
        c->st = compare(c, full + strlen(c->name), p->x, n * p->n_frames, &parity);
}

static enum kvr_status decode(struct clip *c, const float *z, int n)
{
    const int64_t elems = (int64_t)kvr_vae_channels(c->v) * c->h * c->w;

    kvr_vae_reset(c->v);
    c->seen = 0;
    for (c->latent = 0; c->latent < n; c->latent++)
        KVR_TRY(kvr_vae_decode(c->v, z + c->latent * elems, take, c));
    return c->st;
}

static float clamped(float y)
{
    const float c = y > -1.0f ? y < 1.0f ? y : 1.0f : y == y ? -1.0f : y;

    return 0.5f * c + 0.5f;
}

static enum kvr_status compare_clip(struct clip *c)
{
    const int64_t n = frame_floats(c), all = c->n_frames * n;
    /* three latent frames give 9 pixel frames */
    const int first = c->n_frames < 9 ? c->n_frames : 9;

    KVR_TRY(compare(c, "raw", c->frames, all, &parity));
    KVR_TRY(compare(c, "raw_first", c->frames, first * n, &parity));
    KVR_TRY(compare(c, "raw_second", c->frames + first * n, all - first * n, &parity));
    for (int64_t i = 0; i < all; i++)
        c->frames[i] = clamped(c->frames[i]);
    KVR_TRY(compare(c, "image", c->frames, all, &parity));
    for (int64_t i = 0; i < all; i++)
        c->frames[i] = (float)(int)(255.0f * c->frames[i]);
    return compare(c, "video_u8", c->frames, all, &bytes);
}

/* Returns the PSNR in dB of n pixel values in [-1, 1], which are mapped to [0, 1]. */
static double psnr(const float *x, const float *recorded, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++) {
        const double d = (double)clamped(x[i]) - (double)clamped(recorded[i]);

        sum += d * d;
    }
    return -10 * log10(sum / (double)n);
}

/* Decodes the whole clip again in BF16 and reports its PSNR. */
static enum kvr_status check_bf16(struct clip *c, struct kvr_dev *dev, const char *path,
                                  const struct kvr_tensor *z)
{
    const int64_t all = c->n_frames * frame_floats(c);
    struct kvr_check_entry *e;
    struct kvr_tensor raw;
    struct kvr_tolerance tol = { 0, INFINITY };
    char name[96];

    snprintf(name, sizeof name, "%sraw", c->name);
    if (!kvr_st_has(c->file, name))
        return KVR_OK;
    for (int i = 0; i < c->r->n; i++)
        if (strcmp(c->r->entries[i].name, name) == 0)
            tol.rel_l2 = bf16_by_f32 * c->r->entries[i].rel_l2;
    KVR_TRY(kvr_st_get(c->file, name, &raw));
    kvr_vae_close(&c->v);
    KVR_TRY(kvr_vae_open(&c->v, dev, KVR_BF16, path, c->h, c->w));
    KVR_TRY(decode(c, z->data, (int)z->shape[0]));
    snprintf(name, sizeof name, "%sraw in bf16", c->name);
    KVR_TRY(kvr_check_compare(c->r, name, c->frames, all, &raw, &tol));
    e = &c->r->entries[c->r->n - 1];
    if (e->status == KVR_CHECK_OK && raw.dtype == KVR_F32)
        snprintf(e->note, sizeof e->note,
                 "PSNR against the recorded F32 pixels: %.1f dB; decoder convolutions: %.85s",
                 psnr(c->frames, raw.data, all), kvr_vae_library(c->v));
    return KVR_OK;
}

static enum kvr_status open_clip(struct clip *c, struct kvr_dev *dev, const char *path,
                                 const struct kvr_tensor *z)
{
    char have[96];

    if (z->dtype != KVR_F32 || z->n_dims != 4 || z->shape[0] < 1 || z->shape[0] > 1024 ||
        z->shape[2] > 4096 || z->shape[3] > 4096)
        return kvr_fail(
            KVR_EFORMAT,
            "%s: tensor '%sz' has type %s and shape %s, need F32 [frames, channels, height, width] "
            "with 1..1024 frames and height and width at most 4096",
            kvr_st_path(c->file), c->name, kvr_dtype_name(z->dtype),
            kvr_shape_text(z->shape, z->n_dims, have, sizeof have));
    c->h = (int)z->shape[2];
    c->w = (int)z->shape[3];
    KVR_TRY(kvr_vae_open(&c->v, dev, KVR_F32, path, c->h, c->w));
    if (z->shape[1] != kvr_vae_channels(c->v))
        return kvr_fail(KVR_EFORMAT, "%s: tensor '%sz' has %lld channels, the decoder needs %d",
                        kvr_st_path(c->file), c->name, (long long)z->shape[1],
                        kvr_vae_channels(c->v));
    c->scale = kvr_vae_scale(c->v);
    c->n_frames = kvr_vae_frames((int)z->shape[0]);
    c->frames = malloc((size_t)(c->n_frames * frame_floats(c)) * sizeof *c->frames);
    return c->frames ? KVR_OK
                     : kvr_fail(KVR_ENOMEM, "check: out of memory while allocating %d frames",
                                c->n_frames);
}

static enum kvr_status check_clip(struct kvr_check_report *r, struct kvr_st *file,
                                  struct kvr_dev *dev, const char *path, const char *name,
                                  bool in_bf16)
{
    struct clip c = { .r = r, .file = file };
    struct kvr_tensor z;
    enum kvr_status st;

    snprintf(c.name, sizeof c.name, "%.*s", (int)(strlen(name) - 1), name);
    KVR_TRY(kvr_st_get(file, name, &z));
    st = open_clip(&c, dev, path, &z);
    if (st == KVR_OK) {
        st = decode(&c, z.data, 1);
        if (st == KVR_OK)
            st = compare(&c, "raw_one", c.frames, frame_floats(&c), &parity);
        kvr_vae_tap(c.v, tap, &c);
    }
    if (st == KVR_OK)
        st = decode(&c, z.data, (int)z.shape[0]);
    if (st == KVR_OK)
        st = compare_clip(&c);
    if (st == KVR_OK && in_bf16)
        st = check_bf16(&c, dev, path, &z);
    for (int i = 0; i < c.n_parts; i++)
        free(c.part[i].x);
    free(c.frames);
    kvr_vae_close(&c.v);
    return st;
}

/* Checks the encoder: encodes encoder.image [3, H, W], with values in [-1, 1], and compares the
 * result with encoder.latent [channels, h, w]. */
static enum kvr_status check_encoder(struct kvr_check_report *r, struct kvr_st *file,
                                     struct kvr_dev *dev, const char *path)
{
    static const char in[] = "encoder.image", out[] = "encoder.latent";
    struct kvr_tensor image, latent;
    char have[96], found[96];
    float *rgb, *z;
    int64_t n, area;
    int scale;
    enum kvr_status st;

    if (!kvr_st_has(file, in) || !kvr_st_has(file, out))
        return KVR_OK;
    KVR_TRY(kvr_st_get(file, in, &image));
    KVR_TRY(kvr_st_get(file, out, &latent));
    scale = latent.n_dims == 3 && latent.shape[0] <= 1024
                ? kvr_vae_encoder_scale((int)latent.shape[0])
                : 0;
    if (!scale || image.dtype != KVR_F32 || image.n_dims != 3 || image.shape[0] != 3 ||
        image.shape[1] != scale * latent.shape[1] || image.shape[2] != scale * latent.shape[2] ||
        image.shape[1] > 65536 || image.shape[2] > 65536)
        return kvr_fail(KVR_EFORMAT,
                        "%s: tensor '%s' is %s %s and tensor '%s' has shape %s, need an F32 image "
                        "[3, 16 h, 16 w] and latents [48, h, w]",
                        kvr_st_path(file), in, kvr_dtype_name(image.dtype),
                        kvr_shape_text(image.shape, image.n_dims, have, sizeof have), out,
                        kvr_shape_text(latent.shape, latent.n_dims, found, sizeof found));
    n = kvr_tensor_count(&latent);
    area = image.shape[1] * image.shape[2];
    rgb = malloc((size_t)(3 * area + n) * sizeof *rgb);
    if (!rgb)
        return kvr_fail(KVR_ENOMEM, "check: out of memory while allocating the encoder's image");
    z = rgb + 3 * area;
    for (int64_t i = 0; i < area; i++)
        for (int c = 0; c < 3; c++)
            rgb[3 * i + c] = ((const float *)image.data)[c * area + i];
    st = kvr_vae_encode_frame(dev, path, (int)latent.shape[1], (int)latent.shape[2], rgb, z);
    if (st == KVR_OK)
        st = kvr_check_compare(r, out, z, n, &latent, &parity);
    free(rgb);
    return st;
}

static bool is_latents(const char *name)
{
    const size_t n = strlen(name);

    return n && n < CLIP_NAME && name[n - 1] == 'z' && (n == 1 || name[n - 2] == '.');
}

static int is_decoder(const struct dirent *d)
{
    return fnmatch("Wan2.*VAE*.pth", d->d_name, 0) == 0;
}

/* Sets *path to the first file Wan2.*VAE*.pth in `dir`, if there is one. */
static void find_other(const char *dir, char **path)
{
    struct dirent **all = NULL;
    const int n = scandir(dir, &all, is_decoder, alphasort);
    char *found = n > 0 ? kvr_path_join(dir, all[0]->d_name) : NULL;

    if (found) {
        free(*path);
        *path = found;
    }
    for (int i = 0; i < n; i++)
        free(all[i]);
    free(all);
}

static enum kvr_status check_file(struct kvr_check_report *r, const char *dir, const char *golden,
                                  const struct kvr_check_how *how)
{
    static const struct kvr_model_config latents = { .latent_is_rgb = false };
    struct kvr_model_paths p;
    struct kvr_dev *dev = NULL;
    struct kvr_st *file = NULL;
    enum kvr_status st;

    KVR_TRY(kvr_model_paths(dir, &latents, KVR_DECODER_VAE, &p));
    if (!kvr_path_exists(p.vae))
        find_other(dir, &p.vae);
    if (!kvr_path_exists(p.vae)) {
        st = kvr_check_note(r, "vae_golden.safetensors", KVR_CHECK_NOT_BUILT,
                            "the folder has no VAE file, for example Wan2.1_VAE.pth");
        kvr_model_paths_free(&p);
        return st;
    }
    st = kvr_dev_open_named(&dev, how && how->device ? how->device : "cpu");
    if (st == KVR_OK)
        st = kvr_st_open(&file, golden);
    for (int i = 0; st == KVR_OK && i < kvr_st_count(file); i++)
        if (is_latents(kvr_st_name(file, i)))
            st = check_clip(r, file, dev, p.vae, kvr_st_name(file, i),
                            how && how->compute == KVR_BF16);
    if (st == KVR_OK)
        st = check_encoder(r, file, dev, p.vae);
    kvr_st_close(&file);
    kvr_dev_close(&dev);
    kvr_model_paths_free(&p);
    return st;
}

enum kvr_status kvr_check_vae(struct kvr_check_report *r, const char *dir,
                              const struct kvr_check_how *how)
{
    return kvr_check_golden(r, dir, "vae_golden.safetensors", how, check_file);
}
