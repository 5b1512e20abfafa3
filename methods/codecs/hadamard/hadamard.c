/* hadamard.c - the transform `hadamard`: y = H x / sqrt(D) along each head's channels.
 *
 * Spreads a channel that is far larger than the others over all of them. It is its own
 * inverse. With compute=bf16 it runs as the study's did, in the tensor's own type: every
 * butterfly rounded to BF16. */
#include "methods/codecs/hadamard/fwht.h"
#include "methods/codecs/hadamard/fwht_cuda.h"

static enum kvr_status hadamard_check(const void *opts, int n_heads, int head_dim)
{
    (void)opts;
    (void)n_heads;
    if (head_dim < 2 || head_dim > KVR_FWHT_MAX || (head_dim & (head_dim - 1)))
        return kvr_fail(KVR_EINVAL, "head_dim %d: need a power of two, 2..%d", head_dim,
                        KVR_FWHT_MAX);
    return KVR_OK;
}

static enum kvr_status hadamard_encode(const struct kvr_stage_job *job, struct kvr_dev *dev,
                                       float *x, struct kvr_stage_data *out)
{
    (void)dev;
    (void)out;
    kvr_fwht(x, job->shape.n_tok * job->shape.n_heads, job->shape.head_dim, job->compute);
    return KVR_OK;
}

static void hadamard_decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                            int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                            float *out)
{
    (void)in;
    (void)t0;
    (void)h0;
    (void)mode;
    kvr_fwht(out, n * nh, job->shape.head_dim, job->compute);
}

static enum kvr_status hadamard_encode_cuda(const struct kvr_stage_job *job, struct kvr_dev *dev,
                                            float *x, struct kvr_stage_data *out)
{
    (void)out;
    kvr_fwht_cuda(kvr_dev_stream(dev), x, job->shape.n_tok * job->shape.n_heads,
                  job->shape.head_dim, job->compute);
    return KVR_OK;
}

static void hadamard_decode_cuda(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                                 int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                                 float *out)
{
    (void)in;
    (void)t0;
    (void)h0;
    (void)mode;
    kvr_fwht_cuda(kvr_dev_stream(job->dev), out, n * nh, job->shape.head_dim, job->compute);
}

static const struct kvr_stage_cuda cuda = {
    .encode = hadamard_encode_cuda,
    .decode = hadamard_decode_cuda,
};

const struct kvr_stage kvr_stage_hadamard = {
    .name = "hadamard",
    .title = "orthonormal Walsh-Hadamard transform of every head",
    .kind = KVR_STAGE_TRANSFORM,
    .deterministic = true,
    .idempotent = false, /* back and forth rounds, and the steps follow */
    .check = hadamard_check,
    .encode = hadamard_encode,
    .decode = hadamard_decode,
    .cuda = &cuda,
};
