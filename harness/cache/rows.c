/* rows.c - rows.h: loops on the CPU, launchers on CUDA. */
#include "harness/cache/rows.h"

#include <string.h>

#include "harness/cache/rows_cuda.h"
#include "methods/codecs/exact/exact_cuda.h"
#include "methods/kernels/policy_cuda.h"

void kvr_rows_gather(struct kvr_dev *dev, const float *x, size_t width, const int32_t *list,
                     int64_t n, int64_t tok0, float *out)
{
    if (kvr_dev_stream(dev)) {
        kvr_rows_move_cuda(kvr_dev_stream(dev), KVR_ROWS_GATHER, x, width, list, n, tok0, out);
        return;
    }
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++)
        memcpy(out + (size_t)i * width, x + (size_t)(list[i] - tok0) * width, width * sizeof *x);
}

void kvr_rows_scatter(struct kvr_dev *dev, const float *x, size_t width, const int32_t *list,
                      int64_t n, int64_t tok0, float *out)
{
    if (kvr_dev_stream(dev)) {
        kvr_rows_move_cuda(kvr_dev_stream(dev), KVR_ROWS_SCATTER, x, width, list, n, tok0, out);
        return;
    }
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++)
        memcpy(out + (size_t)(list[i] - tok0) * width, x + (size_t)i * width, width * sizeof *x);
}

void kvr_rows_repeat(struct kvr_dev *dev, const float *x, size_t width, int64_t n, float *out)
{
    if (kvr_dev_stream(dev)) {
        kvr_rows_move_cuda(kvr_dev_stream(dev), KVR_ROWS_REPEAT, x, width, NULL, n, 0, out);
        return;
    }
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++)
        memcpy(out + (size_t)i * width, x, width * sizeof *x);
}

void kvr_rows_mean(struct kvr_dev *dev, const float *x, size_t width, int64_t n, float *out)
{
    if (kvr_dev_stream(dev)) {
        kvr_pool_cuda(kvr_dev_stream(dev), x, n, (int64_t)width, out);
        return;
    }
#pragma omp parallel for schedule(static)
    for (size_t c = 0; c < width; c++) {
        double sum = 0;

        for (int64_t t = 0; t < n; t++)
            sum += x[(size_t)t * width + c];
        out[c] = (float)(sum / (double)n);
    }
}

void kvr_values_from_f32(struct kvr_dev *dev, void *to, enum kvr_dtype type, const float *from,
                         size_t n)
{
    const struct kvr_block_shape all = { (int64_t)n, 1, 1 };

    if (!kvr_dev_stream(dev))
        kvr_from_f32(to, type, from, n);
    else if (type == KVR_F32)
        kvr_dev_copy(dev, to, from, n * sizeof *from);
    else
        kvr_exact_encode_cuda(kvr_dev_stream(dev), &all, from, to);
}

void kvr_values_to_f32(struct kvr_dev *dev, float *to, const void *from, enum kvr_dtype type,
                       size_t n)
{
    const struct kvr_block_shape all = { (int64_t)n, 1, 1 };

    if (!kvr_dev_stream(dev))
        kvr_to_f32(to, from, type, n);
    else if (type == KVR_F32)
        kvr_dev_copy(dev, to, from, n * sizeof *to);
    else
        kvr_exact_decode_cuda(kvr_dev_stream(dev), &all, KVR_BF16, from, 0, (int64_t)n, 0, 1, to);
}

void kvr_values_round(struct kvr_dev *dev, enum kvr_dtype type, float *x, size_t n)
{
    if (type != KVR_BF16)
        return;
    if (kvr_dev_stream(dev)) {
        kvr_round_bf16_cuda(kvr_dev_stream(dev), x, (int64_t)n);
        return;
    }
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i++)
        x[i] = kvr_bf16_to_f32(kvr_f32_to_bf16(x[i]));
}
