/* pixels.c - decodes latents to pixels frame by frame, optionally in a thread. */
#include "harness/workload/pixels.h"

#include <errno.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/clock.h"
#include "harness/engine/vae/decoder.h"

/* A decoder and its output frames. */
struct film {
    struct kvr_decoder *v;
    int64_t n_latent, n_frame; /* values of a latent frame; bytes of a pixel frame */
    int n, height, width, at;  /* n: number of pixel frames; at: frames decoded so far */
    uint8_t *rgb;
    bool finite;
};

static struct kvr_pixels_file own_file(const struct kvr_model *m)
{
    return (struct kvr_pixels_file){ kvr_model_decoder(m), kvr_model_decoder_compute(m),
                                     kvr_model_vae(m) };
}

static enum kvr_status film_open(struct film *f, struct kvr_dev *dev, const struct kvr_model *m,
                                 const struct kvr_pixels_file *file, int latent_frames)
{
    const struct kvr_model_config *c = kvr_model_config(m);

    *f = (struct film){ .n_latent = kvr_model_frame_elems(m), .finite = true };
    KVR_TRY(
        kvr_decoder_open(&f->v, dev, file->kind, file->type, file->path, c->latent_h, c->latent_w));
    if (c->in_dim != kvr_decoder_channels(f->v))
        return kvr_fail(
            KVR_EFORMAT,
            "%s: the decoder takes latents of %d channels, but the model's latents have %d; use a "
            "decoder for the model's latents",
            file->path, kvr_decoder_channels(f->v), c->in_dim);
    f->n = kvr_vae_frames(latent_frames);
    f->height = kvr_decoder_scale(f->v) * c->latent_h;
    f->width = kvr_decoder_scale(f->v) * c->latent_w;
    f->n_frame = (int64_t)f->height * f->width * 3;
    f->rgb = calloc((size_t)f->n, (size_t)f->n_frame);
    return f->rgb ? KVR_OK
                  : kvr_fail(KVR_ENOMEM, "decoder: out of memory while allocating %d frames", f->n);
}

static void film_close(struct film *f)
{
    kvr_decoder_close(&f->v);
    free(f->rgb);
    f->rgb = NULL;
}

/* Passes the decoded frames to the rollout's result, which then owns them. */
static void film_hand_over(struct film *f, struct kvr_rollout_result *r)
{
    r->rgb = f->rgb;
    r->n = f->n;
    r->height = f->height;
    r->width = f->width;
    r->finite = r->finite && f->finite;
    f->rgb = NULL;
}

static enum kvr_status take(void *ctx, const float *y)
{
    struct film *f = ctx;
    bool finite;

    kvr_vae_bytes_of(y, f->n_frame, f->rgb + f->at * f->n_frame, &finite);
    f->finite = f->finite && finite;
    if (!finite)
        return kvr_fail(KVR_ENAN, "decoder: frame %d: a decoded pixel is NaN or infinite", f->at);
    f->at++;
    return KVR_OK;
}

static enum kvr_status film_decode(struct film *f, const float *latents)
{
    return kvr_decoder_decode(f->v, latents, take, f);
}

enum kvr_status kvr_rollout_pixels(struct kvr_dev *dev, const struct kvr_model *m,
                                   int latent_frames, struct kvr_rollout_result *r, int64_t *ns)
{
    const struct kvr_pixels_file file = own_file(m);
    const int64_t start = kvr_now_ns();
    struct film f;
    enum kvr_status st;

    *ns = 0;
    if (!r->latents || !file.path)
        return KVR_OK;
    st = film_open(&f, dev, m, &file, latent_frames);
    for (int i = 0; st == KVR_OK && i < latent_frames; i++)
        st = film_decode(&f, r->latents + i * f.n_latent);
    if (f.rgb)
        film_hand_over(&f, r);
    film_close(&f);
    *ns = kvr_now_ns() - start;
    return st;
}

/* ---- chunk by chunk ------------------------------------------------------------------------- */

struct kvr_pixels {
    const struct kvr_model *m;
    struct kvr_pixels_file file;
    enum kvr_backend backend;
    int latent_frames, n_threads;
    struct film film;
    int64_t open_ns;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Guarded by the lock. */
    float *latents; /* [latent_frames, n_latent]: queue of the decoding thread */
    int n_given;    /* number of latent frames pushed so far */
    bool ready, stop, device_full;
    size_t peak_bytes;
    enum kvr_status st; /* result of the decoding thread; its message is below */
    char message[512];
};

static void keep_status(struct kvr_pixels *p, enum kvr_status st)
{
    p->st = st;
    if (st != KVR_OK)
        snprintf(p->message, sizeof p->message, "%s", kvr_error());
}

/* Waits until latent frame i is pushed; false: the rollout has ended without it. */
static bool wait_for(struct kvr_pixels *p, int i)
{
    bool more;

    pthread_mutex_lock(&p->lock);
    while (!p->stop && p->n_given <= i)
        pthread_cond_wait(&p->changed, &p->lock);
    more = !p->stop;
    pthread_mutex_unlock(&p->lock);
    return more;
}

static void set_ready(struct kvr_pixels *p, enum kvr_status st)
{
    pthread_mutex_lock(&p->lock);
    keep_status(p, st);
    p->ready = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

/* Main function of the decoding thread, which opens and closes its own device. */
static void *decode_frames(void *ctx)
{
    struct kvr_pixels *p = ctx;
    const int64_t start = kvr_now_ns();
    struct kvr_mem_stats mem = { 0 };
    struct kvr_dev *dev = NULL;
    enum kvr_status st;

    omp_set_num_threads(p->n_threads);
    st = kvr_dev_open(&dev, p->backend);
    if (st == KVR_OK)
        st = film_open(&p->film, dev, p->m, &p->file, p->latent_frames);
    p->open_ns = kvr_now_ns() - start;
    set_ready(p, st);
    for (int i = 0; st == KVR_OK && i < p->latent_frames && wait_for(p, i); i++)
        st = film_decode(&p->film, p->latents + i * p->film.n_latent);
    kvr_decoder_close(&p->film.v);
    pthread_mutex_lock(&p->lock);
    keep_status(p, st);
    p->device_full = dev && kvr_dev_was_full(dev);
    if (dev)
        kvr_mem_stats(dev, &mem);
    p->peak_bytes = mem.peak_total;
    pthread_mutex_unlock(&p->lock);
    kvr_dev_close(&dev);
    return NULL;
}

static void destroy(struct kvr_pixels *p)
{
    film_close(&p->film);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p->latents);
    free(p);
}

static enum kvr_status wait_finished(struct kvr_pixels *p)
{
    pthread_join(p->thread, NULL);
    return p->st == KVR_OK ? KVR_OK : kvr_fail(p->st, "%s", p->message);
}

enum kvr_status kvr_pixels_start(struct kvr_pixels **out, enum kvr_backend backend,
                                 const struct kvr_model *m, const struct kvr_pixels_file *file,
                                 int latent_frames, int n_threads)
{
    struct kvr_pixels *p = calloc(1, sizeof *p);
    enum kvr_status st;
    int rc;

    *out = NULL;
    if (!p)
        return kvr_fail(KVR_ENOMEM, "decoder: out of memory");
    *p = (struct kvr_pixels){ .m = m,
                              .file = file ? *file : own_file(m),
                              .backend = backend,
                              .latent_frames = latent_frames,
                              .n_threads = n_threads,
                              .latents = malloc((size_t)latent_frames *
                                                (size_t)kvr_model_frame_elems(m) * sizeof(float)) };
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    rc = p->latents ? pthread_create(&p->thread, NULL, decode_frames, p) : ENOMEM;
    if (rc) {
        destroy(p);
        return kvr_fail(KVR_ENOMEM,
                        "decoder: cannot start the thread that decodes %d latent frames: %s",
                        latent_frames, strerror(rc));
    }
    pthread_mutex_lock(&p->lock);
    while (!p->ready)
        pthread_cond_wait(&p->changed, &p->lock);
    st = p->st;
    pthread_mutex_unlock(&p->lock);
    if (st != KVR_OK) {
        st = wait_finished(p);
        destroy(p);
        return st;
    }
    *out = p;
    return KVR_OK;
}

enum kvr_status kvr_pixels_push(void *ctx, int frame0, int n_frames, const float *latents)
{
    struct kvr_pixels *p = ctx;
    const size_t n = (size_t)kvr_model_frame_elems(p->m);

    memcpy(p->latents + (size_t)frame0 * n, latents, (size_t)n_frames * n * sizeof *latents);
    pthread_mutex_lock(&p->lock);
    p->n_given = frame0 + n_frames;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return KVR_OK;
}

enum kvr_status kvr_pixels_finish(struct kvr_pixels **pp, enum kvr_status rollout,
                                  struct kvr_rollout_result *r, struct kvr_pixels_done *done)
{
    const int64_t start = kvr_now_ns();
    struct kvr_pixels *p = *pp;
    enum kvr_status st;

    *pp = NULL;
    pthread_mutex_lock(&p->lock);
    p->stop = rollout != KVR_OK;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    if (rollout == KVR_OK) {
        st = wait_finished(p);
    } else {
        pthread_join(p->thread, NULL); /* wait_finished() would replace the rollout's message */
        st = rollout;
    }
    *done = (struct kvr_pixels_done){ .tail_ns = kvr_now_ns() - start,
                                      .peak_bytes = p->peak_bytes,
                                      .device_full = p->device_full };
    done->ns = p->open_ns + done->tail_ns;
    if (rollout == KVR_OK && p->film.rgb)
        film_hand_over(&p->film, r);
    destroy(p);
    return st;
}
