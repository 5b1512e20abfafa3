/* norm.c - the shift `norm`: divides each token's vector by its L2 norm over all heads. The norm is
 * stored in FP16. The arithmetic is in norm.h, the kernels in norm_cuda.cu.
 *
 * OScaR (arXiv:2605.19660) divides keys by their norm before it quantizes them per channel.
 * Otherwise tokens with a large norm would determine the scales of their groups. The divisor is the
 * norm rounded to FP16. Decoding multiplies the quantization error by the norm. Corrections of
 * attention scores must therefore measure the error, because it does not follow from the scales. */
#include "methods/codecs/norm/norm.h"

static struct norm norm_of(const struct kvr_stage_job *job)
{
    return (struct norm){
        .n_tok = job->shape.n_tok,
        .channels = (int64_t)job->shape.n_heads * job->shape.head_dim,
    };
}

static void layout(const struct kvr_stage_job *job, struct kvr_layout *out)
{
    *out = (struct kvr_layout){ .bytes.meta = (size_t)job->shape.n_tok * sizeof(kvr_f16) };
}

static enum kvr_status encode(const struct kvr_stage_job *job, float *x, struct kvr_stage_data *out)
{
    const struct norm g = norm_of(job);
    kvr_f16 *norms = out->meta.p;

#pragma omp parallel for schedule(static)
    for (int64_t t = 0; t < g.n_tok; t++) {
        float *row = x + t * g.channels, by;
        double sum = 0;

        for (int64_t c = 0; c < g.channels; c++)
            sum += (double)row[c] * (double)row[c];
        norms[t] = (kvr_f16)norm_store(sum);
        by = norm_divisor(norm_value(norms[t]));
        for (int64_t c = 0; c < g.channels; c++)
            row[c] /= by;
    }
    return KVR_OK;
}

static void decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                   int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out)
{
    const int64_t width = (int64_t)nh * job->shape.head_dim;
    const kvr_f16 *norms = in->meta.p;

    (void)h0, (void)mode;
    for (int64_t t = 0; t < n; t++)
        for (int64_t c = 0; c < width; c++)
            out[t * width + c] *= norm_value(norms[t0 + t]);
}

static enum kvr_status encode_cuda(const struct kvr_stage_job *job, float *x,
                                   struct kvr_stage_data *out)
{
    const struct norm g = norm_of(job);

    kvr_norm_encode_cuda(kvr_dev_stream(job->dev), &g, x, out->meta.p);
    return KVR_OK;
}

KVR_DECODE_CUDA(norm)

static const struct kvr_stage_ops cuda = { .encode = encode_cuda, .decode = decode_cuda };

const struct kvr_stage kvr_stage_norm = {
    .name = "norm",
    .title = "divides each token by its L2 norm over all heads, stored in FP16",
    .kind = KVR_STAGE_SHIFT,
    .deterministic = true,
    .layout = layout,
    .noise = kvr_noise_measured,
    .cpu = { .encode = encode, .decode = decode },
    .cuda = &cuda,
};
