/* conv_impl.h - function table that each backend of the VAE's convolutions provides. Private to
 * harness/engine/vae. */
#ifndef KVR_VAE_CONV_IMPL_H
#define KVR_VAE_CONV_IMPL_H

#include "harness/engine/vae/conv.h"

/* The functions of conv.h for one backend. `close` accepts a partially opened object. */
struct kvr_conv_kind {
    enum kvr_status (*context_open)(struct kvr_conv_context **out, struct kvr_dev *dev,
                                    enum kvr_dtype type);
    void (*context_close)(struct kvr_conv_context *r);
    const char *(*library)(struct kvr_conv_context *r);
    enum kvr_status (*open)(struct kvr_conv **out, struct kvr_conv_context *context,
                            const struct kvr_conv_shape *s, const float *weight, const float *bias);
    void (*close)(struct kvr_conv *c);
    enum kvr_status (*run)(struct kvr_conv *c, const struct kvr_conv_frame *frames, void *y);
};
extern const struct kvr_conv_kind kvr_conv_cpu, kvr_conv_cuda;

/* Base structs, which each backend embeds as the first members of its own structs. */
struct kvr_conv_context {
    const struct kvr_conv_kind *kind;
    struct kvr_dev *dev;
    enum kvr_dtype type; /* type of frames: KVR_F32 or KVR_BF16 */
};

struct kvr_conv {
    struct kvr_conv_context *context;
    struct kvr_conv_shape s;
};

/* Strides of packed weights in elements, for the output channel, the frame (tap), the pixel of the
 * kernel x kernel window, and the input channel. */
struct kvr_conv_strides {
    int64_t out, tap, pixel, in;
};

/* Returns the strides, in elements, of weights packed as [out, kernel, kernel, taps, in]. */
static inline struct kvr_conv_strides kvr_conv_taps_last(const struct kvr_conv_shape *s)
{
    const int64_t pixel = (int64_t)s->taps * s->in;

    return (struct kvr_conv_strides){ s->kernel * s->kernel * pixel, s->in, pixel, 1 };
}

/* Converts weights `from` [out, in, taps, kernel, kernel] to the layout with strides `by`. The
 * callback store(to, i, v) writes the value v to element i of the array `to`. */
static inline void kvr_conv_pack(const struct kvr_conv_shape *s, const struct kvr_conv_strides *by,
                                 const float *from, void (*store)(void *to, int64_t i, float v),
                                 void *to)
{
    const int n_pixels = s->kernel * s->kernel;

    for (int64_t o = 0; o < s->out; o++)
        for (int64_t i = 0; i < s->in; i++)
            for (int64_t t = 0; t < s->taps; t++)
                for (int64_t a = 0; a < n_pixels; a++)
                    store(to, o * by->out + t * by->tap + a * by->pixel + i * by->in, *from++);
}

#endif
