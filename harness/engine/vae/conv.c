/* conv.c - dispatches convolutions to the implementation for the device. */
#include "harness/engine/vae/conv_impl.h"

static const struct kvr_conv_kind *const kinds[KVR_N_BACKENDS] = {
    [KVR_CPU] = &kvr_conv_cpu,
    [KVR_CUDA] = &kvr_conv_cuda,
};

enum kvr_status kvr_conv_context_open(struct kvr_conv_context **out, struct kvr_dev *dev,
                                      enum kvr_dtype type)
{
    const struct kvr_conv_kind *kind = kinds[kvr_dev_backend(dev)];

    *out = NULL;
    KVR_TRY(kind->context_open(out, dev, type));
    (*out)->kind = kind;
    return KVR_OK;
}

void kvr_conv_context_close(struct kvr_conv_context **r)
{
    if (r && *r)
        (*r)->kind->context_close(*r);
    if (r)
        *r = NULL;
}

const char *kvr_conv_context_library(struct kvr_conv_context *r)
{
    return r->kind->library(r);
}

enum kvr_status kvr_conv_open(struct kvr_conv **out, struct kvr_conv_context *context,
                              const struct kvr_conv_shape *s, const float *weight,
                              const float *bias)
{
    *out = NULL;
    return context->kind->open(out, context, s, weight, bias);
}

void kvr_conv_close(struct kvr_conv **c)
{
    if (c && *c)
        (*c)->context->kind->close(*c);
    if (c)
        *c = NULL;
}

enum kvr_status kvr_conv_run(struct kvr_conv *c, const struct kvr_conv_frame *frames, void *y)
{
    return c->context->kind->run(c, frames, y);
}
