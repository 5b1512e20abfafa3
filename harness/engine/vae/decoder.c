/* decoder.c - dispatches decoding to the VAE or to the tiny decoder. */
#include "harness/engine/vae/decoder.h"

#include <stdlib.h>

#include "harness/engine/gemm.h"
#include "harness/engine/vae/tae.h"

int kvr_decoder_base(int channels)
{
    return channels == KVR_VAE_CHANNELS ? 96 : 256;
}

struct kvr_decoder {
    struct kvr_vae *vae; /* NULL if the tiny decoder `tae` is used */
    struct kvr_tae *tae;
};

enum kvr_status kvr_decoder_open(struct kvr_decoder **out, struct kvr_dev *dev,
                                 enum kvr_decoder_kind kind, enum kvr_dtype type, const char *path,
                                 int latent_h, int latent_w)
{
    struct kvr_decoder *d;
    enum kvr_status st;

    *out = NULL;
    if (kind == KVR_DECODER_TAEHV && type != KVR_F32)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "%s: decoder taehv supports only decoder_compute f32, not %s", path,
                        kvr_compute_word(type));
    d = calloc(1, sizeof *d);
    if (!d)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory", path);
    st = kind == KVR_DECODER_TAEHV ? kvr_tae_open(&d->tae, dev, path, latent_h, latent_w)
                                   : kvr_vae_open(&d->vae, dev, type, path, latent_h, latent_w);
    if (st != KVR_OK) {
        free(d);
        return st;
    }
    *out = d;
    return KVR_OK;
}

void kvr_decoder_close(struct kvr_decoder **d)
{
    if (!*d)
        return;
    kvr_vae_close(&(*d)->vae);
    kvr_tae_close(&(*d)->tae);
    free(*d);
    *d = NULL;
}

enum kvr_status kvr_decoder_decode(struct kvr_decoder *d, const float *z, kvr_vae_frame_fn *frame,
                                   void *ctx)
{
    return d->vae ? kvr_vae_decode(d->vae, z, frame, ctx) : kvr_tae_decode(d->tae, z, frame, ctx);
}

int kvr_decoder_channels(const struct kvr_decoder *d)
{
    return d->vae ? kvr_vae_channels(d->vae) : KVR_VAE_CHANNELS;
}

int kvr_decoder_scale(const struct kvr_decoder *d)
{
    return d->vae ? kvr_vae_scale(d->vae) : KVR_VAE_SCALE;
}

bool kvr_decoder_cost(enum kvr_decoder_kind kind, int channels, int latent_h, int latent_w,
                      enum kvr_dtype type, struct kvr_vae_cost *out)
{
    if (kind != KVR_DECODER_TAEHV)
        return kvr_vae_cost(channels, kvr_decoder_base(channels), latent_h, latent_w, type, out);
    *out = (struct kvr_vae_cost){ 0 };
    if (channels == KVR_VAE_CHANNELS)
        kvr_tae_cost(kvr_tae_widths, latent_h, latent_w, out);
    return channels == KVR_VAE_CHANNELS;
}

int kvr_decoder_scale_of(int channels)
{
    return channels == KVR_VAE_CHANNELS ? KVR_VAE_SCALE : 2 * KVR_VAE_SCALE;
}

int64_t kvr_decoder_file_bytes(enum kvr_decoder_kind kind, int channels)
{
    if (kind == KVR_DECODER_TAEHV)
        return 2 * (int64_t)11315539;
    return channels == KVR_VAE_CHANNELS ? 4 * (int64_t)126892531 : 4 * (int64_t)704688668;
}
