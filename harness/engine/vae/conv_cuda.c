/* conv_cuda.c - convolutions on a CUDA device. They run by cuDNN if it is available and agrees with
 * kvreel's kernels, and otherwise by kvreel's kernels. In BF16, kvreel's kernels use tensor cores
 * if kvr_conv_mma_accepts() the shape.
 *
 * In F32, weights are grouped by frame tap, as [taps, out, kernel, kernel, in]. y is initialized to
 * the bias, and cuDNN adds one tap after the other. kvreel's kernel skips taps without a frame.
 *
 * In BF16, every cuDNN call rounds y to BF16. To round only once, one call sums all taps, whose
 * channels are concatenated. Therefore weights are [out, kernel, kernel, taps, in], and the taps'
 * rows are copied to a buffer [row, x, taps, in], at most BAND_ROWS rows (a band) at a time. A band
 * stays in the L2 cache: it takes 31 MB for three taps of 96 channels and a width of 832 pixels.
 * Tensor cores need multiples of 8 channels, so the 3 output channels of the head are padded.
 *
 * A convolution that upsamples its input also copies the upsampled rows to such bands, in F32 one
 * tap at a time.
 *
 * When a convolution is opened, a trial computes it by cuDNN and by kvreel's kernel from
 * pseudo-random frames. cuDNN is used if the results differ by no more than sums in different order
 * would. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/engine/vae/conv_aid_cuda.h"
#include "harness/engine/vae/conv_cudnn.h"
#include "harness/engine/vae/conv_impl.h"
#include "harness/engine/vae/conv_mma.h"
#include "harness/engine/vae/vae_cuda.h"

enum { BAND_ROWS = 64, MOST_TAPS = 3 };
#define WORKSPACE_BYTES ((size_t)256 << 20)

/* Tolerance for the difference between cuDNN and kvreel in F32, relative to the largest value. Two
 * F32 sums of N products in different order differ by about sqrt(N) 2^-24, which is 6e-6 for the
 * largest N here, 10,368. TF32 arithmetic would differ by 2e-4, and a mistake by 1. */
static const double agrees = 2e-5;
/* Tolerance in BF16. Results of reordered sums may round to neighbouring BF16 numbers, which differ
 * by 2^-7 relatively. */
static const double agrees_bf16 = 0x1p-7;

struct context {
    struct kvr_conv_context base;
    struct kvr_conv_cudnn *lib; /* NULL: not available */
    struct kvr_buf work, band;  /* cuDNN's workspace; interleaved rows of a band */
    struct kvr_buf wide;        /* result rows with padded channels */
    int n, n_own;               /* number of convolutions; number that use kvreel's kernels */
    char version[64], why[256]; /* why: first reason why a convolution does not use cuDNN */
    char library[512];          /* text for reports */
};

struct conv {
    struct kvr_conv base;
    struct kvr_buf w, bias;
    struct kvr_conv_cudnn_plan *plan; /* NULL: kvreel's kernel */
    /* way: index of cuDNN's algorithm; band: rows per band, or 0 if cuDNN reads the frames without
     * a copy */
    int way, band;
    int padded; /* output channels, rounded up to a multiple of 8 in BF16 */
};

static bool half(const struct kvr_conv_context *r)
{
    return r->type == KVR_BF16;
}

static size_t elem(const struct kvr_conv_context *r)
{
    return kvr_dtype_size(r->type);
}

static struct context *context_of(const struct conv *c)
{
    return (struct context *)c->base.context;
}

static struct kvr_stream *stream_of(const struct conv *c)
{
    struct kvr_stream *s = kvr_dev_stream(c->base.context->dev);

    return s;
}

static void context_close(struct kvr_conv_context *base)
{
    struct context *r = (struct context *)base;

    kvr_conv_cudnn_close(&r->lib);
    kvr_buf_free(&r->work);
    kvr_buf_free(&r->band);
    kvr_buf_free(&r->wide);
    free(r);
}

static enum kvr_status context_open(struct kvr_conv_context **out, struct kvr_dev *dev,
                                    enum kvr_dtype type)
{
    struct context *r = calloc(1, sizeof *r);
    enum kvr_status st;

    if (!r)
        return kvr_fail(KVR_ENOMEM, "convolution: out of memory");
    r->base.dev = dev;
    r->base.type = type;
    st = kvr_conv_cudnn_open(&r->lib, kvr_dev_stream(dev), r->version, sizeof r->version);
    if (st == KVR_EUNSUPPORTED) {
        snprintf(r->why, sizeof r->why, "%s", kvr_error());
        st = KVR_OK;
    }
    if (st != KVR_OK) {
        context_close(&r->base);
        return st;
    }
    *out = &r->base;
    return KVR_OK;
}

static const char *library(struct kvr_conv_context *base)
{
    struct context *r = (struct context *)base;
    const char *type = half(base) ? ", BF16" : "";

    if (!r->lib)
        snprintf(r->library, sizeof r->library, "kvreel%s (%s)", type, r->why);
    else if (r->n_own)
        snprintf(r->library, sizeof r->library, "%s%s, %d of %d convolutions kvreel (%s)",
                 r->version, type, r->n_own, r->n, r->why);
    else
        snprintf(r->library, sizeof r->library, "%s%s", r->version, type);
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

/* Returns the number of weights of one frame tap. */
static int64_t n_tap(const struct kvr_conv_shape *s)
{
    return (int64_t)s->out * s->kernel * s->kernel * s->in;
}

static void store_f32(void *to, int64_t i, float v)
{
    ((float *)to)[i] = v;
}

static void store_bf16(void *to, int64_t i, float v)
{
    ((kvr_bf16 *)to)[i] = kvr_f32_to_bf16(v);
}

/* Reorders weights [out, in, taps, k, k] to [taps, out, k, k, in]. */
static void channels_last(const struct kvr_conv_shape *s, const float *from, float *to)
{
    const int64_t kk = (int64_t)s->kernel * s->kernel;
    const struct kvr_conv_strides by = { kk * s->in, s->out * kk * s->in, s->in, 1 };

    kvr_conv_pack(s, &by, from, store_f32, to);
}

/* Reorders weights [out, in, taps, k, k] to BF16 [padded, k, k, taps, in]. The weights of the last
 * padded - out output channels are 0. */
static void taps_last(const struct kvr_conv_shape *s, int padded, const float *from, kvr_bf16 *to)
{
    const struct kvr_conv_strides by = kvr_conv_taps_last(s);

    kvr_conv_pack(s, &by, from, store_bf16, to);
    memset(to + s->out * by.out, 0, (size_t)((padded - s->out) * by.out) * sizeof *to);
}

static enum kvr_status upload_bias(struct conv *c, const float *bias)
{
    struct kvr_dev *dev = c->base.context->dev;
    const size_t n = (size_t)c->padded * sizeof *bias;
    struct kvr_buf host = { 0 };
    float *to;
    enum kvr_status st;

    KVR_TRY(kvr_buf_alloc(&c->bias, dev, KVR_MEM_WEIGHTS, n));
    KVR_TRY(kvr_buf_alloc(&host, kvr_dev_host(dev), KVR_MEM_IO, n)); /* zeros */
    to = host.p;
    for (int i = 0; i < c->base.s.out; i++)
        to[i] = half(c->base.context) ? kvr_bf16_to_f32(kvr_f32_to_bf16(bias[i])) : bias[i];
    st = kvr_dev_put(dev, c->bias.p, to, n);
    kvr_buf_free(&host);
    return st;
}

static enum kvr_status upload(struct conv *c, const float *weight, const float *bias)
{
    const struct kvr_conv_shape *s = &c->base.s;
    struct kvr_dev *dev = c->base.context->dev;
    const size_t n =
        (size_t)(n_tap(s) / s->out * c->padded) * (size_t)s->taps * elem(c->base.context);
    struct kvr_buf host = { 0 };
    enum kvr_status st;

    KVR_TRY(upload_bias(c, bias));
    KVR_TRY(kvr_buf_alloc(&c->w, dev, KVR_MEM_WEIGHTS, n));
    KVR_TRY(kvr_buf_alloc_raw(&host, kvr_dev_host(dev), KVR_MEM_IO, n));
    if (half(c->base.context))
        taps_last(s, c->padded, weight, host.p);
    else
        channels_last(s, weight, host.p);
    st = kvr_dev_put(dev, c->w.p, host.p, n);
    kvr_buf_free(&host);
    return st;
}

/* ---- kernels ------------------------------------------------------------------------------- */

/* Runs kvreel's kernel for CUDA cores, which supports every shape and is the trials' reference. */
static void by_kernel(const struct conv *c, const struct kvr_conv_frame *frames, void *y)
{
    kvr_conv_cuda_run(stream_of(c), c->base.context->type, &c->base.s, frames, c->w.p, c->bias.p,
                      y);
}

/* Runs kvreel's fastest kernel for the convolution. */
static void by_own(const struct conv *c, const struct kvr_conv_frame *frames, void *y)
{
    if (half(c->base.context) && kvr_conv_mma_accepts(&c->base.s, frames))
        kvr_conv_mma_run(stream_of(c), &c->base.s, frames, c->w.p, c->bias.p, y);
    else
        by_kernel(c, frames, y);
}

/* Adds the contribution of one frame tap to y. */
static enum kvr_status add_tap(const struct conv *c, const struct kvr_conv_frame *frame,
                               const float *w, float *y)
{
    const struct kvr_conv_shape *s = &c->base.s;
    const int border = s->kernel / 2;
    struct context *r = context_of(c);

    if (c->band == 0)
        return kvr_conv_cudnn_run(c->plan, c->way, frame->p, w, y, r->work.p);
    for (int row = 0; row < s->height; row += c->band) {
        kvr_frame_rows_cuda(stream_of(c), KVR_F32, s, 1, frame, row - border, c->band + 2 * border,
                            r->band.p);
        KVR_TRY(kvr_conv_cudnn_run(c->plan, c->way, r->band.p, w,
                                   y + (int64_t)row * s->width * s->out, r->work.p));
    }
    return KVR_OK;
}

static enum kvr_status all_taps_f32(const struct conv *c, const struct kvr_conv_frame *frames,
                                    float *y)
{
    const struct kvr_conv_shape *s = &c->base.s;

    kvr_bias_rows_cuda(stream_of(c), KVR_F32, (int64_t)s->height * s->width, s->out, c->bias.p, y);
    for (int t = 0; t < s->taps; t++)
        if (frames[t].p)
            KVR_TRY(add_tap(c, &frames[t], (const float *)c->w.p + t * n_tap(s), y));
    return KVR_OK;
}

/* Computes rows [row, row + rows) of y from all frame taps. */
static enum kvr_status add_band(const struct conv *c, const struct kvr_conv_frame *frames, int row,
                                int rows, kvr_bf16 *y)
{
    const struct kvr_conv_shape *s = &c->base.s;
    const int64_t n_pixels = (int64_t)rows * s->width;
    const int border = s->kernel / 2;
    struct context *r = context_of(c);
    kvr_bf16 *own = y + (int64_t)row * s->width * s->out,
             *to = c->padded == s->out ? own : r->wide.p;
    const void *x = frames[0].p;

    if (c->band) {
        kvr_frame_rows_cuda(stream_of(c), KVR_BF16, s, s->taps, frames, row - border,
                            rows + 2 * border, r->band.p);
        x = r->band.p;
    }
    kvr_bias_rows_cuda(stream_of(c), KVR_BF16, n_pixels, c->padded, c->bias.p, to);
    KVR_TRY(kvr_conv_cudnn_run(c->plan, c->way, x, c->w.p, to, r->work.p));
    if (to != own)
        kvr_narrow_rows_cuda(stream_of(c), n_pixels, c->padded, s->out, to, own);
    return KVR_OK;
}

static enum kvr_status by_library(const struct conv *c, const struct kvr_conv_frame *frames,
                                  void *y)
{
    const int height = c->base.s.height, rows = c->band ? c->band : height;

    if (!half(c->base.context))
        return all_taps_f32(c, frames, y);
    for (int row = 0; row < height; row += rows)
        KVR_TRY(add_band(c, frames, row, rows, y));
    return KVR_OK;
}

/* Whether a frame has gaps between pixels. cuDNN reads only contiguous pixels in place. */
static bool is_strided(const struct conv *c, const struct kvr_conv_frame *frames)
{
    for (int t = 0; t < c->base.s.taps; t++)
        if (frames[t].p && frames[t].stride != c->base.s.in)
            return true;
    return false;
}

static enum kvr_status run(struct kvr_conv *base, const struct kvr_conv_frame *frames, void *y)
{
    const struct conv *c = (const struct conv *)base;

    enum kvr_status st = KVR_OK;

    if (!c->plan || (!c->band && is_strided(c, frames)))
        by_own(c, frames, y);
    else
        st = by_library(c, frames, y);
    /* cuDNN rejected a shape that it supported when the convolution was opened */
    return st == KVR_EUNSUPPORTED ? kvr_fail_prefix(KVR_EINTERNAL, "decoder") : st;
}

/* ---- comparison of cuDNN with kvreel's kernel ---------------------------------------------- */

/* A trial: pseudo-random frames `x`, kvreel's output `own`, and cuDNN's output `theirs`. `furthest`
 * has partial maxima of |theirs - own| and of the outputs' absolute values. */
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
    const size_t n_elem = elem(c->base.context);
    const size_t n_y = (size_t)s->height * (size_t)s->width * (size_t)s->out * n_elem;
    struct kvr_dev *dev = c->base.context->dev;

    KVR_TRY(kvr_buf_alloc(&t->x, dev, KVR_MEM_SCRATCH, (size_t)n * n_elem));
    KVR_TRY(kvr_buf_alloc(&t->own, dev, KVR_MEM_SCRATCH, n_y));
    KVR_TRY(kvr_buf_alloc(&t->theirs, dev, KVR_MEM_SCRATCH, n_y));
    KVR_TRY(kvr_buf_alloc(&t->furthest, dev, KVR_MEM_SCRATCH,
                          2 * (size_t)KVR_MAX_DIFFERENCE_PARTS * sizeof(float)));
    kvr_fill_random_cuda(stream_of(c), c->base.context->type, n, t->x.p);
    for (int i = 0; i < s->taps; i++)
        t->frames[i] = (struct kvr_conv_frame){ t->x.p, s->in };
    by_kernel(c, t->frames, t->own.p);
    return kvr_dev_sync(dev);
}

/* Computes the largest difference between the results of cuDNN and of kvreel's kernel, relative to
 * the largest value. The difference is NaN if a result has a NaN. */
static enum kvr_status distance(const struct trial *t, const struct conv *c, double *out)
{
    struct kvr_dev *dev = c->base.context->dev;
    float pair[KVR_MAX_DIFFERENCE_PARTS][2], d = 0, most = 0;

    KVR_TRY(by_library(c, t->frames, t->theirs.p));
    kvr_max_difference_cuda(stream_of(c), c->base.context->type,
                            (int64_t)(t->own.n_bytes / elem(c->base.context)), t->theirs.p,
                            t->own.p, t->furthest.p);
    KVR_TRY(kvr_dev_sync(dev));
    KVR_TRY(kvr_dev_get(dev, pair, t->furthest.p, sizeof pair));
    for (int i = 0; i < KVR_MAX_DIFFERENCE_PARTS; i++) {
        d = pair[i][0] > d || isnan(pair[i][0]) ? pair[i][0] : d;
        most = pair[i][1] > most || isnan(pair[i][1]) ? pair[i][1] : most;
    }
    *out = d > 0 || isnan(d) ? (double)d / (double)most : 0;
    return KVR_OK;
}

/* Whether cuDNN can read frames in place and write y in place. */
static bool in_place(const struct conv *c)
{
    const struct kvr_conv_shape *s = &c->base.s;

    return s->up == 1 && (!half(c->base.context) || (s->taps == 1 && c->padded == s->out));
}

/* Returns the number of rows per band, which is the same for all bands, or 0 without bands. */
static int band_of(const struct conv *c)
{
    const int height = c->base.s.height;
    int rows = height < BAND_ROWS ? height : BAND_ROWS;

    if (in_place(c))
        return 0;
    while (height % rows)
        rows--;
    return rows;
}

static enum kvr_status make_bands(struct conv *c, int rows_in)
{
    const struct kvr_conv_shape *s = &c->base.s;
    struct context *r = context_of(c);
    const size_t taps = half(&r->base) ? (size_t)s->taps : 1;
    const size_t width = (size_t)s->width * elem(&r->base);

    KVR_TRY(kvr_buf_reserve(&r->band, r->base.dev, KVR_MEM_SCRATCH,
                            (size_t)rows_in * width * taps * (size_t)s->in));
    if (c->padded == s->out)
        return KVR_OK;
    return kvr_buf_reserve(&r->wide, r->base.dev, KVR_MEM_SCRATCH,
                           (size_t)c->band * width * (size_t)c->padded);
}

static enum kvr_status plan(struct conv *c)
{
    const struct kvr_conv_shape *s = &c->base.s;
    const int border = s->kernel / 2;
    struct context *r = context_of(c);
    struct kvr_conv_cudnn_shape shape = { .type = r->base.type,
                                          .in = half(&r->base) ? s->taps * s->in : s->in,
                                          .out = c->padded,
                                          .kernel = s->kernel,
                                          .rows_in = s->height,
                                          .rows_out = s->height,
                                          .width = s->width };

    c->band = band_of(c);
    if (c->band) {
        shape.rows_out = c->band;
        shape.rows_in = c->band + 2 * border;
        KVR_TRY(make_bands(c, shape.rows_in));
    }
    return kvr_conv_cudnn_plan_open(&c->plan, r->lib, &shape, WORKSPACE_BYTES);
}

/* Chooses the first algorithm of cuDNN that agrees with kvreel's kernel. Returns KVR_EUNSUPPORTED
 * if no algorithm agrees. */
static enum kvr_status choose(struct conv *c, const struct trial *t)
{
    const struct kvr_conv_shape *s = &c->base.s;
    struct context *r = context_of(c);
    const double most = half(&r->base) ? agrees_bf16 : agrees;
    double off = 0;

    for (c->way = 0; c->way < kvr_conv_cudnn_ways(c->plan); c->way++) {
        enum kvr_status st = kvr_buf_reserve(&r->work, r->base.dev, KVR_MEM_SCRATCH,
                                             kvr_conv_cudnn_bytes(c->plan, c->way));

        if (st == KVR_OK)
            st = distance(t, c, &off);
        if (st != KVR_OK && st != KVR_EUNSUPPORTED)
            return st;
        if (st == KVR_OK && off <= most)
            return KVR_OK;
        if (st == KVR_OK)
            kvr_fail(
                KVR_EUNSUPPORTED,
                "cuDNN: the convolution of %d to %d channels with %d x %d filters differs from "
                "kvreel's own kernel by %g of the largest output; at most %g is allowed",
                s->in, s->out, s->kernel, s->kernel, off, most);
    }
    return KVR_EUNSUPPORTED;
}

/* Uses cuDNN if it supports the shape and agrees with kvreel's kernel. Otherwise the convolution
 * uses kvreel's kernel, without an error. */
static enum kvr_status try_library(struct conv *c)
{
    struct context *r = context_of(c);
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

static enum kvr_status conv_open(struct kvr_conv **out, struct kvr_conv_context *context,
                                 const struct kvr_conv_shape *s, const float *weight,
                                 const float *bias)
{
    struct conv *c;
    enum kvr_status st;

    if (s->height > KVR_CONV_MOST_HEIGHT || s->width > KVR_CONV_MOST_WIDTH)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "convolution: a frame of %d x %d pixels (height x width), on a GPU at most "
                        "%d x %d; use --device cpu",
                        s->height, s->width, KVR_CONV_MOST_HEIGHT, KVR_CONV_MOST_WIDTH);
    c = calloc(1, sizeof *c);
    if (!c)
        return kvr_fail(KVR_ENOMEM, "convolution: out of memory");
    c->base = (struct kvr_conv){ .context = context, .s = *s };
    c->padded = half(context) ? (s->out + 7) / 8 * 8 : s->out;
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
    .context_open = context_open,
    .context_close = context_close,
    .library = library,
    .open = conv_open,
    .close = conv_close,
    .run = run,
};
