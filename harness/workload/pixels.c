/* pixels.c - frame by frame. */
#include "harness/workload/pixels.h"

#include <stdlib.h>

#include "harness/core/clock.h"
#include "harness/engine/vae/decoder.h"

struct film {
    struct kvr_rollout_result *r;
    int at; /* the next frame */
    int64_t n_frame;
};

static enum kvr_status take(void *ctx, const float *y)
{
    struct film *f = ctx;
    bool finite;

    kvr_vae_bytes_of(y, f->n_frame, f->r->rgb + f->at * f->n_frame, &finite);
    f->r->finite = f->r->finite && finite;
    if (!finite)
        return kvr_fail(KVR_ENAN, "decoder: frame %d: a pixel is not finite", f->at);
    f->at++;
    return KVR_OK;
}

static enum kvr_status decode(struct kvr_decoder *v, const struct kvr_model *m, int latent_frames,
                              struct kvr_rollout_result *r)
{
    const int64_t n_latent = kvr_model_frame_elems(m);
    struct film film = { .r = r, .n_frame = (int64_t)r->height * r->width * 3 };

    for (int i = 0; i < latent_frames; i++)
        KVR_TRY(kvr_decoder_decode(v, r->latents + i * n_latent, take, &film));
    return KVR_OK;
}

enum kvr_status kvr_rollout_pixels(struct kvr_dev *dev, const struct kvr_model *m,
                                   int latent_frames, struct kvr_rollout_result *r, int64_t *ns)
{
    const struct kvr_model_config *c = kvr_model_config(m);
    const int64_t start = kvr_now_ns();
    struct kvr_decoder *v = NULL;
    enum kvr_status st;

    *ns = 0;
    if (!r->latents || !kvr_model_vae(m))
        return KVR_OK;
    KVR_TRY(kvr_decoder_open(&v, dev, kvr_model_decoder(m), kvr_model_vae(m), c->latent_h,
                             c->latent_w));
    st = c->in_dim == kvr_decoder_channels(v)
             ? KVR_OK
             : kvr_fail(KVR_EFORMAT, "%s: a decoder of %d channels, the latents have %d",
                        kvr_model_vae(m), kvr_decoder_channels(v), c->in_dim);
    r->n = kvr_vae_frames(latent_frames);
    r->height = kvr_decoder_scale(v) * c->latent_h;
    r->width = kvr_decoder_scale(v) * c->latent_w;
    if (st == KVR_OK) {
        r->rgb = calloc((size_t)r->n * (size_t)r->height * (size_t)r->width, 3);
        st = r->rgb ? KVR_OK : kvr_fail(KVR_ENOMEM, "decoder: no memory for %d frames", r->n);
    }
    if (st == KVR_OK)
        st = decode(v, m, latent_frames, r);
    kvr_decoder_close(&v);
    *ns = kvr_now_ns() - start;
    return st;
}
