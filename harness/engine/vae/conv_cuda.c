/* conv_cuda.c - convolutions on a CUDA device, by cuDNN where it is there and agrees, else by an
 * own kernel.
 *
 * A tap's weights lie together, [taps, out, kernel, kernel, in]: the library adds one tap after the
 * other to what begins as the bias, and the own kernel leaves out those without a frame. A frame
 * that is doubled is laid out for the library some rows at a time.
 *
 * Before the library computes a convolution, it has computed that one once of numbers drawn, and
 * what came is as far from the own kernel's as sums in another order are. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness/engine/vae/conv_aid_cuda.h"
#include "harness/engine/vae/conv_cudnn.h"
#include "harness/engine/vae/conv_impl.h"
#include "harness/engine/vae/vae_cuda.h"

enum { BAND_ROWS = 64, MOST_TAPS = 3 };
#define WORKSPACE_BYTES ((size_t)256 << 20)

/* Two sums of N products in F32 are apart by about sqrt(N) 2^-24 of one, N up to 10,368 here: 4e-6 of the
 * largest. TF32 is off by 2e-4, and a mistake by 1. */
static const double agrees = 2e-5;

struct room {
    struct kvr_conv_room base;
    struct kvr_conv_cudnn *lib; /* NULL: not there */
    struct kvr_buf work, band;  /* its work space; rows of a doubled frame */
    int n, n_own;               /* convolutions; of them with kvreel's own kernel */
    char version[64], why[256]; /* why one is not, the first of them */
    char library[512];          /* what is said of it */
};

struct conv {
    struct kvr_conv base;
    struct kvr_buf w, bias;
    struct kvr_conv_cudnn_plan *plan; /* NULL: the own kernel computes it */
    int way, band;                    /* rows at a time; 0: all, where they lie */
};

static struct room *room_of(const struct conv *c)
{
    return (struct room *)c->base.room;
}

static struct kvr_stream *stream_of(const struct conv *c)
{
    struct kvr_stream *s = kvr_dev_stream(c->base.room->dev);

    return s;
}

static void room_close(struct kvr_conv_room *base)
{
    struct room *r = (struct room *)base;

    kvr_conv_cudnn_close(&r->lib);
    kvr_buf_free(&r->work);
    kvr_buf_free(&r->band);
    free(r);
}

static enum kvr_status room_open(struct kvr_conv_room **out, struct kvr_dev *dev)
{
    struct room *r = calloc(1, sizeof *r);
    enum kvr_status st;

    if (!r)
        return kvr_fail(KVR_ENOMEM, "convolution: no memory");
    r->base.dev = dev;
    st = kvr_conv_cudnn_open(&r->lib, kvr_dev_stream(dev), r->version, sizeof r->version);
    if (st == KVR_EUNSUPPORTED) {
        snprintf(r->why, sizeof r->why, "%s", kvr_error());
        st = KVR_OK;
    }
    if (st != KVR_OK) {
        room_close(&r->base);
        return st;
    }
    *out = &r->base;
    return KVR_OK;
}

static const char *library(struct kvr_conv_room *base)
{
    struct room *r = (struct room *)base;

    if (!r->lib)
        snprintf(r->library, sizeof r->library, "kvreel (%s)", r->why);
    else if (r->n_own)
        snprintf(r->library, sizeof r->library, "%s, %d of %d convolutions kvreel (%s)", r->version,
                 r->n_own, r->n, r->why);
    else
        snprintf(r->library, sizeof r->library, "%s", r->version);
    return r->library;
}

static void conv_close(struct kvr_conv *base)
{
    struct conv *c = (struct conv *)base;

    kvr_conv_cudnn_plan_close(&c->plan);
    kvr_buf_free(&c->w);
    kvr_buf_free(&c->bias);
    free(c);
}

/* Values of a tap. */
static int64_t n_tap(const struct kvr_conv_shape *s)
{
    return (int64_t)s->out * s->kernel * s->kernel * s->in;
}

/* [out, in, taps, k, k] -> [taps, out, k, k, in] */
static void channels_last(const struct kvr_conv_shape *s, const float *from, float *to)
{
    const int64_t kk = (int64_t)s->kernel * s->kernel;

    for (int64_t o = 0; o < s->out; o++)
        for (int64_t i = 0; i < s->in; i++)
            for (int64_t t = 0; t < s->taps; t++)
                for (int64_t a = 0; a < kk; a++)
                    to[((t * s->out + o) * kk + a) * s->in + i] =
                        from[((o * s->in + i) * s->taps + t) * kk + a];
}

static enum kvr_status upload(struct conv *c, const float *weight, const float *bias)
{
    const struct kvr_conv_shape *s = &c->base.s;
    struct kvr_dev *dev = c->base.room->dev;
    const size_t n_bias = (size_t)s->out * sizeof *bias;
    const size_t n = (size_t)n_tap(s) * (size_t)s->taps * sizeof *weight;
    struct kvr_buf host = { 0 };
    enum kvr_status st;

    KVR_TRY(kvr_buf_alloc(&c->bias, dev, KVR_MEM_WEIGHTS, n_bias));
    KVR_TRY(kvr_dev_put(dev, c->bias.p, bias, n_bias));
    KVR_TRY(kvr_buf_alloc(&c->w, dev, KVR_MEM_WEIGHTS, n));
    KVR_TRY(kvr_buf_alloc_raw(&host, kvr_dev_host(dev), KVR_MEM_IO, n));
    channels_last(s, weight, host.p);
    st = kvr_dev_put(dev, c->w.p, host.p, n);
    kvr_buf_free(&host);
    return st;
}

/* ---- computing ----------------------------------------------------------------------------- */

static void by_kernel(const struct conv *c, const struct kvr_conv_frame *frames, float *y)
{
    kvr_conv_cuda_run(stream_of(c), &c->base.s, frames, c->w.p, c->bias.p, y);
}

/* y += of one tap. */
static enum kvr_status add_tap(const struct conv *c, const struct kvr_conv_frame *frame,
                               const float *w, float *y)
{
    const struct kvr_conv_shape *s = &c->base.s;
    const int border = s->kernel / 2;
    struct room *r = room_of(c);

    if (c->band == 0)
        return kvr_conv_cudnn_run(c->plan, c->way, frame->p, w, y, r->work.p);
    for (int row = 0; row < s->height; row += c->band) {
        kvr_frame_rows_cuda(stream_of(c), s, frame, row - border, c->band + 2 * border, r->band.p);
        KVR_TRY(kvr_conv_cudnn_run(c->plan, c->way, r->band.p, w,
                                   y + (int64_t)row * s->width * s->out, r->work.p));
    }
    return KVR_OK;
}

static enum kvr_status by_library(const struct conv *c, const struct kvr_conv_frame *frames,
                                  float *y)
{
    const struct kvr_conv_shape *s = &c->base.s;

    kvr_bias_rows_cuda(stream_of(c), (int64_t)s->height * s->width, s->out, c->bias.p, y);
    for (int t = 0; t < s->taps; t++)
        if (frames[t].p)
            KVR_TRY(add_tap(c, &frames[t], (const float *)c->w.p + t * n_tap(s), y));
    return KVR_OK;
}

/* The library reads pixels that follow each other, where it reads them in their place. */
static bool apart(const struct conv *c, const struct kvr_conv_frame *frames)
{
    for (int t = 0; t < c->base.s.taps; t++)
        if (frames[t].p && frames[t].stride != c->base.s.in)
            return true;
    return false;
}

static enum kvr_status run(struct kvr_conv *base, const struct kvr_conv_frame *frames, float *y)
{
    const struct conv *c = (const struct conv *)base;

    enum kvr_status st = KVR_OK;

    if (!c->plan || (!c->band && apart(c, frames)))
        by_kernel(c, frames, y);
    else
        st = by_library(c, frames, y);
    /* what it could at first it cannot be without */
    return st == KVR_EUNSUPPORTED ? kvr_fail_prefix(KVR_EINTERNAL, "decoder") : st;
}

/* ---- the library's agreement --------------------------------------------------------------- */

/* A frame of numbers drawn, and what either makes of it. */
struct trial {
    struct kvr_buf x, own, theirs, furthest;
    struct kvr_conv_frame frames[MOST_TAPS];
};

static void trial_close(struct trial *t)
{
    kvr_buf_free(&t->x);
    kvr_buf_free(&t->own);
    kvr_buf_free(&t->theirs);
    kvr_buf_free(&t->furthest);
}

static enum kvr_status trial_open(struct trial *t, const struct conv *c)
{
    const struct kvr_conv_shape *s = &c->base.s;
    const int64_t n = (int64_t)(s->height / s->up) * (s->width / s->up) * s->in;
    const size_t n_y = (size_t)s->height * (size_t)s->width * (size_t)s->out * sizeof(float);
    struct kvr_dev *dev = c->base.room->dev;

    KVR_TRY(kvr_buf_alloc(&t->x, dev, KVR_MEM_SCRATCH, (size_t)n * sizeof(float)));
    KVR_TRY(kvr_buf_alloc(&t->own, dev, KVR_MEM_SCRATCH, n_y));
    KVR_TRY(kvr_buf_alloc(&t->theirs, dev, KVR_MEM_SCRATCH, n_y));
    KVR_TRY(kvr_buf_alloc(&t->furthest, dev, KVR_MEM_SCRATCH,
                          2 * (size_t)KVR_FURTHEST * sizeof(float)));
    kvr_any_numbers_cuda(stream_of(c), n, t->x.p);
    for (int i = 0; i < s->taps; i++)
        t->frames[i] = (struct kvr_conv_frame){ t->x.p, s->in };
    by_kernel(c, t->frames, t->own.p);
    return kvr_dev_sync(dev);
}

/* How far the library's result is from the kernel's, in parts of its largest value; NaN where one
 * of them is. */
static enum kvr_status distance(const struct trial *t, const struct conv *c, double *out)
{
    struct kvr_dev *dev = c->base.room->dev;
    float pair[KVR_FURTHEST][2], d = 0, most = 0;

    KVR_TRY(by_library(c, t->frames, t->theirs.p));
    kvr_furthest_cuda(stream_of(c), (int64_t)(t->own.n_bytes / sizeof(float)), t->theirs.p,
                      t->own.p, t->furthest.p);
    KVR_TRY(kvr_dev_sync(dev));
    KVR_TRY(kvr_dev_get(dev, pair, t->furthest.p, sizeof pair));
    for (int i = 0; i < KVR_FURTHEST; i++) {
        d = pair[i][0] > d || isnan(pair[i][0]) ? pair[i][0] : d;
        most = pair[i][1] > most || isnan(pair[i][1]) ? pair[i][1] : most;
    }
    *out = d > 0 || isnan(d) ? (double)d / (double)most : 0;
    return KVR_OK;
}

/* Rows of a doubled frame: bands are all as large. */
static int band_of(const struct kvr_conv_shape *s)
{
    int rows = s->height < BAND_ROWS ? s->height : BAND_ROWS;

    if (s->up == 1)
        return 0;
    while (s->height % rows)
        rows--;
    return rows;
}

static enum kvr_status plan(struct conv *c)
{
    const struct kvr_conv_shape *s = &c->base.s;
    const int border = s->kernel / 2;
    struct kvr_conv_cudnn_shape shape = { .in = s->in,
                                          .out = s->out,
                                          .kernel = s->kernel,
                                          .rows_in = s->height,
                                          .rows_out = s->height,
                                          .width = s->width };
    struct room *r = room_of(c);

    c->band = band_of(s);
    if (c->band) {
        shape.rows_out = c->band;
        shape.rows_in = c->band + 2 * border;
        KVR_TRY(kvr_buf_reserve(&r->band, r->base.dev, KVR_MEM_SCRATCH,
                                (size_t)shape.rows_in * (size_t)s->width * (size_t)s->in *
                                    sizeof(float)));
    }
    return kvr_conv_cudnn_plan_open(&c->plan, r->lib, &shape, WORKSPACE_BYTES);
}

/* The first of its ways that agrees. KVR_EUNSUPPORTED: none does. */
static enum kvr_status choose(struct conv *c, const struct trial *t)
{
    const struct kvr_conv_shape *s = &c->base.s;
    struct room *r = room_of(c);
    double off = 0;

    for (c->way = 0; c->way < kvr_conv_cudnn_ways(c->plan); c->way++) {
        enum kvr_status st = kvr_buf_reserve(&r->work, r->base.dev, KVR_MEM_SCRATCH,
                                             kvr_conv_cudnn_bytes(c->plan, c->way));

        if (st == KVR_OK)
            st = distance(t, c, &off);
        if (st != KVR_OK && st != KVR_EUNSUPPORTED)
            return st;
        if (st == KVR_OK && off <= agrees)
            return KVR_OK;
        if (st == KVR_OK)
            kvr_fail(KVR_EUNSUPPORTED,
                     "cuDNN: convolution of %d to %d channels, %d x %d, differs from kvreel's own "
                     "kernel by %g of "
                     "the largest output; at most %g is allowed",
                     s->in, s->out, s->kernel, s->kernel, off, agrees);
    }
    return KVR_EUNSUPPORTED;
}

/* By the library, if it can and agrees; what it cannot is no failure. */
static enum kvr_status try_library(struct conv *c)
{
    struct room *r = room_of(c);
    struct trial t = { 0 };
    enum kvr_status st;

    r->n++;
    if (!r->lib)
        return KVR_OK;
    st = plan(c);
    if (st == KVR_OK)
        st = trial_open(&t, c);
    if (st == KVR_OK)
        st = choose(c, &t);
    trial_close(&t);
    if (st != KVR_EUNSUPPORTED)
        return st;
    if (r->n_own++ == 0)
        snprintf(r->why, sizeof r->why, "%s", kvr_error());
    kvr_conv_cudnn_plan_close(&c->plan);
    return KVR_OK;
}

static enum kvr_status conv_open(struct kvr_conv **out, struct kvr_conv_room *room,
                                 const struct kvr_conv_shape *s, const float *weight,
                                 const float *bias)
{
    struct conv *c = calloc(1, sizeof *c);
    enum kvr_status st;

    if (!c)
        return kvr_fail(KVR_ENOMEM, "convolution: no memory");
    c->base = (struct kvr_conv){ .room = room, .s = *s };
    st = upload(c, weight, bias);
    if (st == KVR_OK)
        st = try_library(c);
    if (st != KVR_OK) {
        conv_close(&c->base);
        return st;
    }
    *out = &c->base;
    return KVR_OK;
}

const struct kvr_conv_kind kvr_conv_cuda = {
    .room_open = room_open,
    .room_close = room_close,
    .library = library,
    .open = conv_open,
    .close = conv_close,
    .run = run,
};
