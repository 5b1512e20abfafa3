/* alexnet.c - runs AlexNet's convolution layers with the convolution of strips.h. */
#include "metrics/alexnet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/onednn.h"
#include "metrics/strips.h"

static const struct layer {
    int index; /* index in torchvision's `features` */
    struct kvr_strip_layer conv;
    bool pool; /* whether 3x3 max pooling with stride 2 precedes the layer */
} layers[KVR_ALEXNET_TAPS] = {
    { 0, { 3, 64, 11, 4, 2, true }, false },    { 3, { 64, 192, 5, 1, 2, true }, true },
    { 6, { 192, 384, 3, 1, 1, true }, true },   { 8, { 384, 256, 3, 1, 1, true }, false },
    { 10, { 256, 256, 3, 1, 1, true }, false },
};

static enum kvr_status get(const struct kvr_st *f, const char *name, int n_dims,
                           const int64_t *shape, const float **out)
{
    struct kvr_tensor t;

    KVR_TRY(kvr_st_get_shaped(f, name, n_dims, shape, &t));
    if (t.dtype != KVR_F32)
        return kvr_fail(KVR_EFORMAT, "%s: tensor '%s' has type %s, need F32", kvr_st_path(f), name,
                        kvr_dtype_name(t.dtype));
    *out = t.data;
    return KVR_OK;
}

enum kvr_status kvr_alexnet_open(struct kvr_alexnet *net, const struct kvr_st *weights)
{
    kvr_onednn_limit();
    for (int i = 0; i < KVR_ALEXNET_TAPS; i++) {
        const struct kvr_strip_layer *l = &layers[i].conv;
        const int64_t shape[] = { l->out, l->in, l->kernel, l->kernel };
        char name[64];

        snprintf(name, sizeof name, "features.%d.weight", layers[i].index);
        KVR_TRY(get(weights, name, 4, shape, &net->weight[i]));
        snprintf(name, sizeof name, "features.%d.bias", layers[i].index);
        KVR_TRY(get(weights, name, 1, shape, &net->bias[i]));
    }
    return KVR_OK;
}

static int pooled(int n)
{
    return n < 3 ? 0 : (n - 3) / 2 + 1;
}

bool kvr_alexnet_shape(int height, int width, struct kvr_alexnet_shape shape[KVR_ALEXNET_TAPS])
{
    for (int i = 0; i < KVR_ALEXNET_TAPS; i++) {
        const struct layer *l = &layers[i];

        if (l->pool) {
            height = pooled(height);
            width = pooled(width);
        }
        height = height > 0 ? kvr_strip_output_size(height, &l->conv) : 0;
        width = width > 0 ? kvr_strip_output_size(width, &l->conv) : 0;
        if (height < 1 || width < 1)
            return false;
        shape[i] = (struct kvr_alexnet_shape){ l->conv.out, height, width };
    }
    return true;
}

static void max_pool(float *out, const float *x, const struct kvr_alexnet_shape *s)
{
    const int h = pooled(s->height), w = pooled(s->width);

    for (int c = 0; c < s->channels; c++)
        for (int y = 0; y < h; y++)
            for (int i = 0; i < w; i++) {
                const float *p =
                    x + ((size_t)c * (size_t)s->height + (size_t)(2 * y)) * (size_t)s->width +
                    (size_t)(2 * i);
                float m = p[0];

                for (int dy = 0; dy < 3; dy++)
                    for (int dx = 0; dx < 3; dx++) {
                        float v = p[(size_t)dy * (size_t)s->width + (size_t)dx];

                        m = v > m ? v : m;
                    }
                *out++ = m;
            }
}

bool kvr_alexnet_run(const struct kvr_alexnet *net, const float *x, int height, int width,
                     const struct kvr_alexnet_shape shape[KVR_ALEXNET_TAPS],
                     float *const tap[KVR_ALEXNET_TAPS])
{
    struct kvr_alexnet_shape in = { 3, height, width };
    size_t col_floats = 0, pool_floats = 1;
    float *col, *pool;
    bool ok;

    for (int i = 0; i < KVR_ALEXNET_TAPS; i++) {
        const struct layer *l = &layers[i];
        const size_t need = kvr_strip_floats(&l->conv, shape[i].height, shape[i].width);
        const size_t pooled_size = i && l->pool
                                       ? (size_t)l->conv.in * (size_t)pooled(shape[i - 1].height) *
                                             (size_t)pooled(shape[i - 1].width)
                                       : 0;

        col_floats = need > col_floats ? need : col_floats;
        pool_floats = pooled_size > pool_floats ? pooled_size : pool_floats;
    }
    col = malloc(col_floats * sizeof *col);
    pool = malloc(pool_floats * sizeof *pool);
    ok = col && pool;
    for (int i = 0; ok && i < KVR_ALEXNET_TAPS; i++) {
        if (layers[i].pool) {
            max_pool(pool, x, &in);
            x = pool;
            in.height = pooled(in.height);
            in.width = pooled(in.width);
        }
        ok = kvr_strip_convolve(&layers[i].conv, net->weight[i], net->bias[i], x, in.height,
                                in.width, shape[i].height, shape[i].width, tap[i], col);
        x = tap[i];
        in = shape[i];
    }
    free(col);
    free(pool);
    return ok;
}
