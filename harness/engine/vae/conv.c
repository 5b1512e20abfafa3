/* conv.c - convolutions of any device. */
#include "harness/engine/vae/conv_impl.h"

static const struct kvr_conv_kind *const kinds[KVR_N_BACKENDS] = {
    [KVR_CPU] = &kvr_conv_cpu,
    [KVR_CUDA] = &kvr_conv_cuda,
};

enum kvr_status kvr_conv_room_open(struct kvr_conv_room **out, struct kvr_dev *dev,
                                   enum kvr_dtype type)
{
    const struct kvr_conv_kind *kind = kinds[kvr_dev_backend(dev)];

    *out = NULL;
    KVR_TRY(kind->room_open(out, dev, type));
    (*out)->kind = kind;
    return KVR_OK;
}

void kvr_conv_room_close(struct kvr_conv_room **r)
{
    if (r && *r)
        (*r)->kind->room_close(*r);
    if (r)
        *r = NULL;
}

const char *kvr_conv_room_library(struct kvr_conv_room *r)
{
    return r->kind->library(r);
}

enum kvr_status kvr_conv_open(struct kvr_conv **out, struct kvr_conv_room *room,
                              const struct kvr_conv_shape *s, const float *weight,
                              const float *bias)
{
    *out = NULL;
    return room->kind->open(out, room, s, weight, bias);
}

void kvr_conv_close(struct kvr_conv **c)
{
    if (c && *c)
        (*c)->room->kind->close(*c);
    if (c)
        *c = NULL;
}

enum kvr_status kvr_conv_run(struct kvr_conv *c, const struct kvr_conv_frame *frames, void *y)
{
    return c->room->kind->run(c, frames, y);
}
