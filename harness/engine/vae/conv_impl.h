/* conv_impl.h - function table of the convolutions' backends. Private to harness/engine/vae. */
#ifndef KVR_VAE_CONV_IMPL_H
#define KVR_VAE_CONV_IMPL_H

#include "harness/engine/vae/conv.h"

/* The functions of conv.h for one backend. `close` accepts a partially opened object. */
struct kvr_conv_kind {
    enum kvr_status (*room_open)(struct kvr_conv_room **out, struct kvr_dev *dev,
                                 enum kvr_dtype type);
    void (*room_close)(struct kvr_conv_room *r);
    const char *(*library)(struct kvr_conv_room *r);
    enum kvr_status (*open)(struct kvr_conv **out, struct kvr_conv_room *room,
                            const struct kvr_conv_shape *s, const float *weight, const float *bias);
    void (*close)(struct kvr_conv *c);
    enum kvr_status (*run)(struct kvr_conv *c, const struct kvr_conv_frame *frames, void *y);
};
extern const struct kvr_conv_kind kvr_conv_cpu, kvr_conv_cuda;

/* First member of each backend's struct. */
struct kvr_conv_room {
    const struct kvr_conv_kind *kind;
    struct kvr_dev *dev;
    enum kvr_dtype type; /* type of frames: KVR_F32 or KVR_BF16 */
};

struct kvr_conv {
    struct kvr_conv_room *room;
    struct kvr_conv_shape s;
};

#endif
