/* rotate.c - the transform `rotate`: y = H S x / sqrt(B) for each block of B channels of a head,
 * where H is the Walsh-Hadamard matrix.
 *
 * S = diag(+-1) has random signs from a seed, or is the identity. The inverse is x = S H y /
 * sqrt(B). The transform is orthogonal, so queries are transformed like keys. With compute=bf16
 * every butterfly is rounded to BF16, as in `hadamard`. */
#include "methods/codecs/rotate/rotate.h"

#include <omp.h>

#include "methods/codecs/hadamard/fwht.h"
#include "methods/codecs/hadamard/fwht_cuda.h"

struct rotate_opts {
    int block, signs;
};

static const struct kvr_opt options[] = {
    KVR_OPT_INT(struct rotate_opts, block, 0, 0, KVR_FWHT_MAX,
                "channels per rotated block, a power of two; 0 means the whole head"),
    KVR_OPT_INT(struct rotate_opts, signs, 0, 0, 1 << 30,
                "seed of the random signs by which channels are multiplied before the rotation; 0 "
                "means no multiplication"),
    { 0 }
};

static int block_of(const struct kvr_stage_job *job)
{
    const struct rotate_opts *o = job->opts;

    return o->block ? o->block : job->shape.head_dim;
}

static uint32_t seed_of(const struct kvr_stage_job *job)
{
    return (uint32_t)((const struct rotate_opts *)job->opts)->signs;
}

static enum kvr_status check(const struct kvr_stage_job *job)
{
    const int b = block_of(job), d = job->shape.head_dim;

    if (b < 2 || b > KVR_FWHT_MAX || (b & (b - 1)) || d % b)
        return kvr_fail(
            KVR_EINVAL,
            "block is %d for head_dim %d: must be a power of two, 2..%d, that divides head_dim", b,
            d, KVR_FWHT_MAX);
    return KVR_OK;
}

static void change_signs(float *x, int64_t n, int d, uint32_t seed)
{
    const bool alone = omp_in_parallel() || n * d < 1 << 16;

    if (!seed)
        return;
#pragma omp parallel for schedule(static) if (!alone)
    for (int64_t t = 0; t < n; t++)
        for (int c = 0; c < d; c++) {
            uint32_t word;

            x[t * d + c] = KVR_ROTATE_BIT(seed, c, word) ? -x[t * d + c] : x[t * d + c];
        }
}

static void transform(const struct kvr_stage_job *job, enum kvr_transform_way way, float *x,
                      int64_t n, int h0, int nh)
{
    const int d = job->shape.head_dim, b = block_of(job);

    (void)h0;
    if (way != KVR_FROM_SPACE)
        change_signs(x, n * nh, d, seed_of(job));
    kvr_fwht(x, n * nh * (d / b), b, job->compute);
    if (way == KVR_FROM_SPACE)
        change_signs(x, n * nh, d, seed_of(job));
}

static void transform_cuda(const struct kvr_stage_job *job, enum kvr_transform_way way, float *x,
                           int64_t n, int h0, int nh)
{
    struct kvr_stream *s = kvr_dev_stream(job->dev);
    const int d = job->shape.head_dim, b = block_of(job);
    const bool signs = seed_of(job) && n * nh > 0;

    (void)h0;
    if (signs && way != KVR_FROM_SPACE)
        kvr_rotate_signs_cuda(s, x, n * nh, d, seed_of(job));
    kvr_fwht_cuda(s, x, n * nh * (d / b), b, job->compute);
    if (signs && way == KVR_FROM_SPACE)
        kvr_rotate_signs_cuda(s, x, n * nh, d, seed_of(job));
}

static const struct kvr_stage_ops cuda = { .transform = transform_cuda };

const struct kvr_stage kvr_stage_rotate = {
    .name = "rotate",
    .title = "Walsh-Hadamard transform of blocks of a head's channels, optionally after random "
             "sign changes",
    .kind = KVR_STAGE_TRANSFORM,
    .options = options,
    .opts_size = sizeof(struct rotate_opts),
    .deterministic = true,
    .check = check,
    .cpu = { .transform = transform },
    .cuda = &cuda,
};
