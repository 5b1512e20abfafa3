/* umt5_cuda_table.c - the text encoder's table of operations on a CUDA device, with the launchers
 * of umt5_cuda.h. */
#include "harness/engine/ops_cuda.h"
#include "harness/engine/text/umt5_cuda.h"

static void norm(struct kvr_dev *dev, int64_t n, int d, const float *x, const float *weight,
                 float *y)
{
    kvr_dev_copy(dev, y, x, (size_t)(n * d) * sizeof *y);
    kvr_rms_norm_cuda(kvr_dev_stream(dev), &(struct kvr_rows){ n, d, 1 }, weight, 1e-6, y);
}

static void attend(struct kvr_dev *dev, const struct kvr_umt5_heads *a)
{
    kvr_umt5_attend_cuda(kvr_dev_stream(dev), a);
}

static void multiply(struct kvr_dev *dev, int64_t n, const float *y, float *x)
{
    kvr_multiply_cuda(kvr_dev_stream(dev), n, y, x);
}

const struct kvr_umt5_ops kvr_umt5_ops_cuda = {
    .norm = norm,
    .attend = attend,
    .multiply = multiply,
    .max_head_dim = KVR_UMT5_MAX_HEAD_DIM,
};
