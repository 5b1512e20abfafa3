/* rows_cuda_table.c - implements rows.h on a CUDA stream. */
#include "harness/cache/rows_cuda.h"
#include "harness/cache/rows_impl.h"
#include "methods/codecs/raw/raw_cuda.h"
#include "methods/kernels/policy_cuda.h"

static void gather(struct kvr_dev *dev, const float *x, size_t width, const int32_t *list,
                   int64_t n, int64_t tok0, float *out)
{
    kvr_rows_move_cuda(kvr_dev_stream(dev), KVR_ROWS_GATHER, x, width, list, n, tok0, out);
}

static void scatter(struct kvr_dev *dev, const float *x, size_t width, const int32_t *list,
                    int64_t n, int64_t tok0, float *out)
{
    kvr_rows_move_cuda(kvr_dev_stream(dev), KVR_ROWS_SCATTER, x, width, list, n, tok0, out);
}

static void repeat(struct kvr_dev *dev, const float *x, size_t width, int64_t n, float *out)
{
    kvr_rows_move_cuda(kvr_dev_stream(dev), KVR_ROWS_REPEAT, x, width, NULL, n, 0, out);
}

static void mean(struct kvr_dev *dev, const float *x, size_t width, int64_t n, float *out)
{
    kvr_pool_cuda(kvr_dev_stream(dev), x, n, (int64_t)width, out);
}

static void from_f32(struct kvr_dev *dev, void *to, enum kvr_dtype type, const float *from,
                     size_t n)
{
    const struct kvr_block_shape all = { (int64_t)n, 1, 1 };

    if (type == KVR_F32)
        kvr_dev_copy(dev, to, from, n * sizeof *from);
    else
        kvr_raw_encode_cuda(kvr_dev_stream(dev), &all, from, to);
}

static void to_f32(struct kvr_dev *dev, float *to, const void *from, enum kvr_dtype type, size_t n)
{
    const struct kvr_block_shape all = { (int64_t)n, 1, 1 };

    if (type == KVR_F32)
        kvr_dev_copy(dev, to, from, n * sizeof *to);
    else
        kvr_raw_decode_cuda(kvr_dev_stream(dev), &all, KVR_BF16, from, 0, (int64_t)n, 0, 1, to);
}

static void round_bf16(struct kvr_dev *dev, float *x, size_t n)
{
    kvr_round_bf16_cuda(kvr_dev_stream(dev), x, (int64_t)n);
}

const struct kvr_rows_kind kvr_rows_cuda = {
    .gather = gather,
    .scatter = scatter,
    .repeat = repeat,
    .mean = mean,
    .from_f32 = from_f32,
    .to_f32 = to_f32,
    .round_bf16 = round_bf16,
};
