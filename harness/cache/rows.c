/* rows.c - dispatches the functions of rows.h to the implementation for the device. */
#include "harness/cache/rows_impl.h"

static const struct kvr_rows_kind *kind_of(const struct kvr_dev *dev)
{
    static const struct kvr_rows_kind *const kinds[KVR_N_BACKENDS] = {
        [KVR_CPU] = &kvr_rows_cpu,
        [KVR_CUDA] = &kvr_rows_cuda,
    };

    return kinds[kvr_dev_backend(dev)];
}

void kvr_rows_gather(struct kvr_dev *dev, const float *x, size_t width, const int32_t *list,
                     int64_t n, int64_t tok0, float *out)
{
    kind_of(dev)->gather(dev, x, width, list, n, tok0, out);
}

void kvr_rows_scatter(struct kvr_dev *dev, const float *x, size_t width, const int32_t *list,
                      int64_t n, int64_t tok0, float *out)
{
    kind_of(dev)->scatter(dev, x, width, list, n, tok0, out);
}

void kvr_rows_repeat(struct kvr_dev *dev, const float *x, size_t width, int64_t n, float *out)
{
    kind_of(dev)->repeat(dev, x, width, n, out);
}

void kvr_rows_mean(struct kvr_dev *dev, const float *x, size_t width, int64_t n, float *out)
{
    kind_of(dev)->mean(dev, x, width, n, out);
}

void kvr_values_from_f32(struct kvr_dev *dev, void *to, enum kvr_dtype type, const float *from,
                         size_t n)
{
    kind_of(dev)->from_f32(dev, to, type, from, n);
}

void kvr_values_to_f32(struct kvr_dev *dev, float *to, const void *from, enum kvr_dtype type,
                       size_t n)
{
    kind_of(dev)->to_f32(dev, to, from, type, n);
}

void kvr_values_round(struct kvr_dev *dev, enum kvr_dtype type, float *x, size_t n)
{
    if (type == KVR_BF16)
        kind_of(dev)->round_bf16(dev, x, n);
}
