/* part.c - see part.h. */
#include "harness/engine/vae/part.h"

#include <math.h>

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
