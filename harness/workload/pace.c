/* pace.c - see pace.h. */
#include "harness/workload/pace.h"

#include <stdlib.h>

#include "harness/core/clock.h"
#include "harness/engine/vae/decoder.h"
#include "harness/engine/vae/drawn.h"
#include "harness/workload/pixels.h"

struct film {
    struct kvr_decoder *v;
    struct kvr_pace *p;
    int64_t n_latent, n_frame; /* number of values of a latent frame and of a pixel frame */
    uint8_t *rgb;              /* one decoded frame */
};

static enum kvr_status take(void *ctx, const float *y)
{
    struct film *f = ctx;
    bool finite;

    kvr_vae_bytes_of(y, f->n_frame, f->rgb, &finite);
    if (!finite)
        return kvr_fail(KVR_ENAN, "decoder: frame %d: a decoded pixel is NaN or infinite",
                        f->p->frames);
    f->p->frames++;
    return KVR_OK;
}

static enum kvr_status decode_chunk(void *ctx, int frame0, int n_frames, const float *x0)
{
    const int64_t start = kvr_now_ns();
    struct film *f = ctx;

    (void)frame0;
    for (int i = 0; i < n_frames; i++)
        KVR_TRY(kvr_decoder_decode(f->v, x0 + i * f->n_latent, take, f));
    f->p->decode_ns += kvr_now_ns() - start;
    return KVR_OK;
}

static enum kvr_status run(struct film *f, struct kvr_dev *dev, const struct kvr_scheme *scheme,
                           const struct kvr_rollout_request *req)
{
    const struct kvr_model_config *c = kvr_model_config(req->model);
    const int64_t side = kvr_decoder_scale(f->v);
    struct kvr_rollout_request own = kvr_rollout_bare(req);
    struct kvr_rollout_result r;

    f->n_latent = kvr_model_frame_elems(req->model);
    f->n_frame = side * c->latent_h * side * c->latent_w * 3;
    f->rgb = malloc((size_t)f->n_frame);
    if (!f->rgb)
        return kvr_fail(KVR_ENOMEM, "decoder: out of memory while allocating a frame");
    own.chunk = decode_chunk;
    own.chunk_ctx = f;
    KVR_TRY(kvr_rollout_run(dev, scheme, &own, NULL, NULL, &r));
    f->p->wall_ns = r.wall_ns;
    f->p->peak_bytes = r.mem.peak_total;
    kvr_rollout_result_free(&r);
    return KVR_OK;
}

/* Measures a rollout whose frames a second thread decodes. All decoded frames stay in memory until
 * the end, as in a benchmark run. */
static enum kvr_status run_overlapped(struct kvr_dev *dev, const struct kvr_scheme *scheme,
                                      const struct kvr_rollout_request *req,
                                      const struct kvr_pixels_file *file, int threads,
                                      struct kvr_pace *out)
{
    struct kvr_rollout_request own = kvr_rollout_bare(req);
    struct kvr_rollout_result r;
    struct kvr_pixels_done done;
    struct kvr_pixels *p;
    enum kvr_status st;

    KVR_TRY(
        kvr_pixels_start(&p, kvr_dev_backend(dev), req->model, file, req->latent_frames, threads));
    own.chunk = kvr_pixels_push;
    own.chunk_ctx = p;
    st = kvr_rollout_run(dev, scheme, &own, NULL, NULL, &r);
    st = kvr_pixels_finish(&p, st, &r, &done);
    if (st == KVR_OK)
        *out = (struct kvr_pace){ .frames = r.n,
                                  .wall_ns = r.wall_ns + done.tail_ns,
                                  .decode_ns = done.tail_ns,
                                  .peak_bytes = r.mem.peak_total + done.peak_bytes };
    kvr_rollout_result_free(&r);
    return st;
}

enum kvr_status kvr_pace_run(struct kvr_dev *dev, const struct kvr_scheme *scheme,
                             const struct kvr_rollout_request *req, enum kvr_decoder_kind kind,
                             const char *path, int overlap_threads, struct kvr_pace *out)
{
    const struct kvr_model_config *c = kvr_model_config(req->model);
    const enum kvr_dtype type =
        kind == KVR_DECODER_VAE ? kvr_model_decoder_compute(req->model) : KVR_F32;
    struct film f = { .p = out };
    enum kvr_status st;

    *out = (struct kvr_pace){ 0 };
    if (overlap_threads)
        return run_overlapped(dev, scheme, req, &(struct kvr_pixels_file){ kind, type, path },
                              overlap_threads, out);
    KVR_TRY(kvr_decoder_open(&f.v, dev, kind, type, path, c->latent_h, c->latent_w));
    st = c->in_dim == kvr_decoder_channels(f.v)
             ? run(&f, dev, scheme, req)
             : kvr_fail(KVR_EFORMAT,
                        "%s: the decoder takes latents of %d channels, but the model's latents "
                        "have %d; use a decoder for the model's latents",
                        path, kvr_decoder_channels(f.v), c->in_dim);
    kvr_decoder_close(&f.v);
    free(f.rgb);
    return st;
}

int kvr_pace_frames(const struct kvr_model_config *c, int latent_frames)
{
    return c->latent_is_rgb ? latent_frames : kvr_vae_frames(latent_frames);
}

enum kvr_status kvr_pace_draw(const struct kvr_model_config *c, enum kvr_decoder_kind kind,
                              const char *path)
{
    return kvr_decoder_draw(kind, c->in_dim, 0, c->weights_seed, path);
}

double kvr_pace_fps(const struct kvr_pace *p)
{
    return p->frames / (1e-9 * (double)p->wall_ns);
}
