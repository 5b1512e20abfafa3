/* alexnet.c - each convolution unrolls its input into columns, a strip of output rows at a time,
 * and is then a matrix product. */
#include "metrics/alexnet.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/onednn.h"

/* Floats of one strip of columns: about the size of a core's second-level cache. */
enum { STRIP_FLOATS = 1 << 18 };

static const struct layer {
    int index; /* in torchvision's `features` */
    int in, out, kernel, stride, pad;
    bool pool; /* 3x3 maximum, stride 2, of the input */
} layers[KVR_ALEXNET_TAPS] = {
    { 0, 3, 64, 11, 4, 2, false },    { 3, 64, 192, 5, 1, 2, true },
    { 6, 192, 384, 3, 1, 1, true },   { 8, 384, 256, 3, 1, 1, false },
    { 10, 256, 256, 3, 1, 1, false },
};

static enum kvr_status get(const struct kvr_st *f, const char *name, int n_dims,
                           const int64_t *shape, const float **out)
{
    struct kvr_tensor t;

    KVR_TRY(kvr_st_get_shaped(f, name, n_dims, shape, &t));
    if (t.dtype != KVR_F32)
        return kvr_fail(KVR_EFORMAT, "%s: tensor '%s' is %s, need F32", kvr_st_path(f), name,
                        kvr_dtype_name(t.dtype));
    *out = t.data;
    return KVR_OK;
}

enum kvr_status kvr_alexnet_open(struct kvr_alexnet *net, const struct kvr_st *weights)
{
    kvr_onednn_limit();
    for (int i = 0; i < KVR_ALEXNET_TAPS; i++) {
        const struct layer *l = &layers[i];
        const int64_t shape[] = { l->out, l->in, l->kernel, l->kernel };
        char name[64];

        snprintf(name, sizeof name, "features.%d.weight", l->index);
        KVR_TRY(get(weights, name, 4, shape, &net->weight[i]));
        snprintf(name, sizeof name, "features.%d.bias", l->index);
        KVR_TRY(get(weights, name, 1, shape, &net->bias[i]));
    }
    return KVR_OK;
}

static int pooled(int n)
{
    return n < 3 ? 0 : (n - 3) / 2 + 1;
}

static int convolved(int n, const struct layer *l)
{
    n += 2 * l->pad - l->kernel;
    return n < 0 ? 0 : n / l->stride + 1;
}

bool kvr_alexnet_shape(int height, int width, struct kvr_alexnet_shape shape[KVR_ALEXNET_TAPS])
{
    for (int i = 0; i < KVR_ALEXNET_TAPS; i++) {
        const struct layer *l = &layers[i];

        if (l->pool) {
            height = pooled(height);
            width = pooled(width);
        }
        height = height > 0 ? convolved(height, l) : 0;
        width = width > 0 ? convolved(width, l) : 0;
        if (height < 1 || width < 1)
            return false;
        shape[i] = (struct kvr_alexnet_shape){ l->out, height, width };
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

/* The first output whose tap at kx is at column `x` or after it; none below 0. */
static int first_at(const struct layer *l, int kx, int x)
{
    const int from = x + l->pad - kx;

    return from <= 0 ? 0 : (from + l->stride - 1) / l->stride;
}

/* One row of columns: what kernel position (c, ky, kx) sees for outputs of rows y0 .. y1. */
static void unroll(float *col, const float *x, const struct layer *l, int height, int width, int ky,
                   int kx, int y0, int y1, int out_width)
{
    int from = first_at(l, kx, 0), to = first_at(l, kx, width);

    from = from < out_width ? from : out_width;
    to = to < out_width ? to : out_width;
    for (int y = y0; y < y1; y++, col += out_width) {
        const int sy = y * l->stride + ky - l->pad;
        const bool inside = sy >= 0 && sy < height && from < to;
        const int n = inside ? to - from : 0, before = inside ? from : 0;

        memset(col, 0, (size_t)before * sizeof *col);
        memset(col + before + n, 0, (size_t)(out_width - before - n) * sizeof *col);
        if (n) {
            const float *in =
                x + (size_t)sy * (size_t)width + (size_t)(from * l->stride + kx - l->pad);

            for (int i = 0; i < n; i++)
                col[from + i] = in[(size_t)i * (size_t)l->stride];
        }
    }
}

/* Convolution, bias, ReLU. */
static void convolve(const struct layer *l, const float *weight, const float *bias, const float *x,
                     int height, int width, const struct kvr_alexnet_shape *out, float *y,
                     float *col, int strip)
{
    const int64_t k = (int64_t)l->in * l->kernel * l->kernel;
    const int64_t n = (int64_t)out->height * out->width;

    for (int y0 = 0; y0 < out->height; y0 += strip) {
        const int y1 = y0 + strip < out->height ? y0 + strip : out->height;
        const int64_t n_col = (int64_t)(y1 - y0) * out->width;
        float *p = col;

        for (int c = 0; c < l->in; c++)
            for (int ky = 0; ky < l->kernel; ky++)
                for (int kx = 0; kx < l->kernel; kx++, p += n_col)
                    unroll(p, x + (size_t)c * (size_t)height * (size_t)width, l, height, width, ky,
                           kx, y0, y1, out->width);
        dnnl_sgemm('N', 'N', l->out, n_col, k, 1.0f, weight, k, col, n_col, 0.0f,
                   y + (size_t)y0 * (size_t)out->width, n);
    }
    for (int c = 0; c < l->out; c++)
        for (int64_t i = 0; i < n; i++) {
            float v = y[(int64_t)c * n + i] + bias[c];

            y[(int64_t)c * n + i] = v > 0.0f ? v : 0.0f;
        }
}

static int strip_rows(const struct layer *l, const struct kvr_alexnet_shape *out)
{
    const int rows = STRIP_FLOATS / (l->in * l->kernel * l->kernel * out->width);

    return rows < 1 ? 1 : rows < out->height ? rows : out->height;
}

bool kvr_alexnet_run(const struct kvr_alexnet *net, const float *x, int height, int width,
                     const struct kvr_alexnet_shape shape[KVR_ALEXNET_TAPS],
                     float *const tap[KVR_ALEXNET_TAPS])
{
    struct kvr_alexnet_shape in = { 3, height, width };
    size_t col_floats = 0, pool_floats = 1;
    float *col, *pool;

    for (int i = 0; i < KVR_ALEXNET_TAPS; i++) {
        const struct layer *l = &layers[i];
        const size_t need = (size_t)l->in * (size_t)(l->kernel * l->kernel) *
                            (size_t)strip_rows(l, &shape[i]) * (size_t)shape[i].width;
        const size_t pooled_size = i && l->pool
                                       ? (size_t)l->in * (size_t)pooled(shape[i - 1].height) *
                                             (size_t)pooled(shape[i - 1].width)
                                       : 0;

        col_floats = need > col_floats ? need : col_floats;
        pool_floats = pooled_size > pool_floats ? pooled_size : pool_floats;
    }
    col = malloc(col_floats * sizeof *col);
    pool = malloc(pool_floats * sizeof *pool);
    for (int i = 0; col && pool && i < KVR_ALEXNET_TAPS; i++) {
        if (layers[i].pool) {
            max_pool(pool, x, &in);
            x = pool;
            in.height = pooled(in.height);
            in.width = pooled(in.width);
        }
        convolve(&layers[i], net->weight[i], net->bias[i], x, in.height, in.width, &shape[i],
                 tap[i], col, strip_rows(&layers[i], &shape[i]));
        x = tap[i];
        in = shape[i];
    }
    free(col);
    free(pool);
    return col && pool;
}
