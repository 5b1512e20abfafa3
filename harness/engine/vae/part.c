/* part.c - see part.h. */
#include "harness/engine/vae/part.h"

#include <math.h>
#include <stdio.h>

enum { NAME_LEN = 96 };

enum kvr_status kvr_part_read(const struct kvr_weights *file, struct kvr_dev *dev, const char *name,
                              int n_dims, const int64_t *shape, struct kvr_array *out)
{
    const float *x;

    KVR_TRY(
        kvr_weights_read_f32(file, name, n_dims, shape, kvr_dev_host(dev), KVR_MEM_WEIGHTS, out));
    x = out->t.data;
    for (int64_t i = 0; i < kvr_tensor_count(&out->t); i++)
        if (!isfinite(x[i])) {
            const double value = (double)x[i];

            kvr_array_free(out);
            return kvr_fail(KVR_ENAN,
                            "%s: weight '%s' contains %g at element %lld; weights must be finite",
                            kvr_weights_path(file), name, value, (long long)i);
        }
    return KVR_OK;
}

enum kvr_status kvr_part_conv(const struct kvr_weights *file, struct kvr_conv_context *context,
                              struct kvr_dev *dev, const char *layer, bool flat,
                              const struct kvr_conv_shape *s, struct kvr_conv **out)
{
    const int64_t deep[] = { s->out, s->in, s->taps, s->kernel, s->kernel };
    const int64_t image[] = { s->out, s->in, s->kernel, s->kernel };
    struct kvr_array weight = { 0 }, bias = { 0 };
    char name[NAME_LEN];
    enum kvr_status st;

    snprintf(name, sizeof name, "%s.weight", layer);
    st = kvr_part_read(file, dev, name, flat ? 4 : 5, flat ? image : deep, &weight);
    snprintf(name, sizeof name, "%s.bias", layer);
    if (st == KVR_OK)
        st = kvr_part_read(file, dev, name, 1, (int64_t[]){ s->out }, &bias);
    if (st == KVR_OK)
        st = kvr_conv_open(out, context, s, weight.t.data, bias.t.data);
    kvr_array_free(&weight);
    kvr_array_free(&bias);
    return st;
}

size_t kvr_part_fetch_bytes(enum kvr_dtype type, int64_t n)
{
    return (size_t)n * (sizeof(float) + (type == KVR_F32 ? 0 : kvr_dtype_size(type)));
}

enum kvr_status kvr_part_fetch(struct kvr_dev *dev, enum kvr_dtype type, int64_t n, const void *x,
                               void *to)
{
    void *from = type == KVR_F32 ? to : (float *)to + n;

    KVR_TRY(kvr_dev_get(dev, from, x, (size_t)n * kvr_dtype_size(type)));
    if (type != KVR_F32)
        kvr_to_f32(to, from, type, (size_t)n);
    return KVR_OK;
}

enum kvr_status kvr_part_emit(struct kvr_dev *dev, enum kvr_dtype type, const struct kvr_buf *host,
                              int64_t n, const void *rgb, kvr_vae_frame_fn *frame, void *ctx)
{
    KVR_TRY(kvr_dev_sync(dev));
    if (!frame)
        return KVR_OK;
    if (!host->p)
        return frame(ctx, rgb);
    KVR_TRY(kvr_part_fetch(dev, type, n, rgb, host->p));
    return frame(ctx, host->p);
}
