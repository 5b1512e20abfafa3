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
            return kvr_fail(KVR_ENAN, "%s: weight '%s' holds %g at element %lld",
                            kvr_weights_path(file), name, value, (long long)i);
        }
    return KVR_OK;
}

enum kvr_status kvr_part_conv(const struct kvr_weights *file, struct kvr_conv_room *room,
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
        st = kvr_conv_open(out, room, s, weight.t.data, bias.t.data);
    kvr_array_free(&weight);
    kvr_array_free(&bias);
    return st;
}

enum kvr_status kvr_part_give(struct kvr_dev *dev, const struct kvr_buf *host, const float *rgb,
                              kvr_vae_frame_fn *frame, void *ctx)
{
    KVR_TRY(kvr_dev_sync(dev));
    if (!frame)
        return KVR_OK;
    if (!kvr_dev_in_host(dev)) {
        KVR_TRY(kvr_dev_get(dev, host->p, rgb, host->n_bytes));
        rgb = host->p;
    }
    return frame(ctx, rgb);
}
