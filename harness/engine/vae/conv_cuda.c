/* conv_cuda.c - convolutions on a CUDA device, by an own kernel: what is summed lies as [taps,
 * kernel, kernel, in], so that taps without a frame are left out and neighbours in memory are read
 * together. */
#include <stdlib.h>

#include "harness/engine/vae/conv_impl.h"
#include "harness/engine/vae/vae_cuda.h"

struct conv {
    struct kvr_conv base;
    struct kvr_buf w, bias;
};

static enum kvr_status room_open(struct kvr_conv_room **out, struct kvr_dev *dev)
{
    struct kvr_conv_room *r = calloc(1, sizeof *r);

    if (!r)
        return kvr_fail(KVR_ENOMEM, "convolution: no memory");
    r->dev = dev;
    *out = r;
    return KVR_OK;
}

static void room_close(struct kvr_conv_room *r)
{
    free(r);
}

static void conv_close(struct kvr_conv *base)
{
    struct conv *c = (struct conv *)base;

    kvr_buf_free(&c->w);
    kvr_buf_free(&c->bias);
    free(c);
}

/* [out, in, taps, k, k] -> [out, taps, k, k, in] */
static void channels_last(const struct kvr_conv_shape *s, const float *from, float *to)
{
    const int64_t around = (int64_t)s->taps * s->kernel * s->kernel;

    for (int64_t o = 0; o < s->out; o++)
        for (int64_t i = 0; i < s->in; i++)
            for (int64_t a = 0; a < around; a++)
                to[(o * around + a) * s->in + i] = from[(o * s->in + i) * around + a];
}

static enum kvr_status upload(struct conv *c, const float *weight, const float *bias)
{
    const struct kvr_conv_shape *s = &c->base.s;
    struct kvr_dev *dev = c->base.room->dev;
    const size_t n_bias = (size_t)s->out * sizeof *bias;
    const size_t n = n_bias * (size_t)s->in * (size_t)(s->taps * s->kernel * s->kernel);
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
    if (st != KVR_OK) {
        conv_close(&c->base);
        return st;
    }
    *out = &c->base;
    return KVR_OK;
}

static enum kvr_status run(struct kvr_conv *base, const struct kvr_conv_frame *frames, float *y)
{
    const struct conv *c = (const struct conv *)base;

    kvr_conv_cuda_run(kvr_dev_stream(base->room->dev), &base->s, frames, c->w.p, c->bias.p, y);
    return KVR_OK;
}

const struct kvr_conv_kind kvr_conv_cuda = {
    .room_open = room_open,
    .room_close = room_close,
    .open = conv_open,
    .close = conv_close,
    .run = run,
};
