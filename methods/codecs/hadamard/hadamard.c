/* hadamard.c - the transform `hadamard`: y = H x / sqrt(D) for the D channels of a head, where H is
 * the Walsh-Hadamard matrix.
 *
 * The transform spreads a channel of large magnitude over all channels. It is its own inverse. With
 * compute=bf16 every butterfly is rounded to BF16, as in the study. */
#include "methods/codecs/hadamard/fwht.h"
#include "methods/codecs/hadamard/fwht_cuda.h"

static enum kvr_status check(const struct kvr_stage_job *job)
{
    const int d = job->shape.head_dim;

    if (d < 2 || d > KVR_FWHT_MAX || (d & (d - 1)))
        return kvr_fail(KVR_EINVAL,
                        "head_dim (channels per head) is %d: must be a power of two, 2..%d", d,
                        KVR_FWHT_MAX);
    return KVR_OK;
}

static void layout(const struct kvr_stage_job *job, struct kvr_layout *out)
{
    (void)job;
    *out = (struct kvr_layout){ .form = KVR_FORM_WALSH };
}

/* H / sqrt(D) is symmetric and orthogonal, so one function transforms values, transforms queries
 * and inverts the transform (enum kvr_transform_way). */
static void transform(const struct kvr_stage_job *job, enum kvr_transform_way way, float *x,
                      int64_t n, int h0, int nh)
{
    (void)way, (void)h0;
    kvr_fwht(x, n * nh, job->shape.head_dim, job->compute);
}

static void transform_cuda(const struct kvr_stage_job *job, enum kvr_transform_way way, float *x,
                           int64_t n, int h0, int nh)
{
    (void)way, (void)h0;
    kvr_fwht_cuda(kvr_dev_stream(job->dev), x, n * nh, job->shape.head_dim, job->compute);
}

static const struct kvr_stage_ops cuda = { .transform = transform_cuda };

const struct kvr_stage kvr_stage_hadamard = {
    .name = "hadamard",
    .title = "orthonormal Walsh-Hadamard transform of every head",
    .kind = KVR_STAGE_TRANSFORM,
    .deterministic = true,
    .idempotent = false, /* rounding in the transforms changes the scales */
    .check = check,
    .layout = layout,
    .cpu = { .transform = transform },
    .cuda = &cuda,
};
