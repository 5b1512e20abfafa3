/* decoder.c - one of two. */
#include "harness/engine/vae/decoder.h"

#include <stdlib.h>

#include "harness/engine/vae/tae.h"

enum { VAE_BASE = 96 };

struct kvr_decoder {
    struct kvr_vae *vae; /* NULL: the other */
    struct kvr_tae *tae;
};

enum kvr_status kvr_decoder_open(struct kvr_decoder **out, struct kvr_dev *dev,
                                 enum kvr_decoder_kind kind, const char *path, int latent_h,
                                 int latent_w)
{
    struct kvr_decoder *d = calloc(1, sizeof *d);
    enum kvr_status st;

    *out = NULL;
    if (!d)
        return kvr_fail(KVR_ENOMEM, "%s: no memory", path);
    st = kind == KVR_DECODER_TAEHV ? kvr_tae_open(&d->tae, dev, path, latent_h, latent_w)
                                   : kvr_vae_open(&d->vae, dev, path, latent_h, latent_w);
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

void kvr_decoder_cost(enum kvr_decoder_kind kind, int latent_h, int latent_w,
                      struct kvr_vae_cost *out)
{
    if (kind == KVR_DECODER_TAEHV)
        kvr_tae_cost(kvr_tae_widths, latent_h, latent_w, out);
    else
        kvr_vae_cost(VAE_BASE, latent_h, latent_w, out);
}

int64_t kvr_decoder_file_bytes(enum kvr_decoder_kind kind)
{
    return kind == KVR_DECODER_TAEHV ? 2 * (int64_t)11315539 : 4 * (int64_t)126892531;
}
