/* mean.c - two shifts: `mean` subtracts every channel's mean over the block's tokens and stores it
 * in FP16; `demean` subtracts, from each head of each token, its mean over the channels and does
 * not store it.
 *
 * `mean` rounds the mean to FP16 before it subtracts it, so that decoding adds exactly the same
 * value. Subtracting one mean from all keys would cancel in the softmax (SageAttention,
 * arXiv:2410.02367, section 4.2). Blocks have different means, so decoding must add them back.
 * LongLive-2 uses `demean`. If mean(k) is the mean of a head's key k over its D channels, `demean`
 * changes the score of k and a query q by -mean(k) sum_c q_c / sqrt(D). Nothing corrects this
 * change. */
#include "methods/codecs/mean/demean.h"
#include "methods/codecs/mean/mean_cuda.h"

static int64_t n_channels(const struct kvr_stage_job *job)
{
    return (int64_t)job->shape.n_heads * job->shape.head_dim;
}

static void mean_layout(const struct kvr_stage_job *job, struct kvr_layout *out)
{
    *out = (struct kvr_layout){ .bytes.meta = (size_t)n_channels(job) * sizeof(kvr_f16) };
}

static enum kvr_status mean_encode(const struct kvr_stage_job *job, float *x,
                                   struct kvr_stage_data *out)
{
    const int64_t n = job->shape.n_tok, channels = n_channels(job);
    kvr_f16 *mean = out->meta.p;

#pragma omp parallel for schedule(static)
    /* one thread sums a whole channel, so the summation order is fixed */
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0;
        float m;

        for (int64_t t = 0; t < n; t++)
            sum += (double)x[t * channels + c];
        m = (float)(sum / (double)n);
        m = m > 65504 ? 65504 : m < -65504 ? -65504 : m; /* NaN stays NaN */
        mean[c] = kvr_f32_to_f16(m);
        m = kvr_f16_to_f32(mean[c]);
        for (int64_t t = 0; t < n; t++)
            x[t * channels + c] -= m;
    }
    return KVR_OK;
}

static void mean_decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                        int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                        float *out)
{
    const int64_t d = job->shape.head_dim, width = nh * d;
    const kvr_f16 *mean = (const kvr_f16 *)in->meta.p + h0 * d;

    (void)t0, (void)mode;
    for (int64_t t = 0; t < n; t++)
        for (int64_t c = 0; c < width; c++)
            out[t * width + c] += kvr_f16_to_f32(mean[c]);
}

static enum kvr_status mean_encode_cuda(const struct kvr_stage_job *job, float *x,
                                        struct kvr_stage_data *out)
{
    kvr_mean_encode_cuda(kvr_dev_stream(job->dev), x, job->shape.n_tok, n_channels(job),
                         out->meta.p);
    return KVR_OK;
}

static void mean_decode_cuda(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                             int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                             float *out)
{
    const int64_t d = job->shape.head_dim;

    (void)t0, (void)mode;
    kvr_mean_decode_cuda(kvr_dev_stream(job->dev), out, n, nh * d,
                         (const kvr_f16 *)in->meta.p + h0 * d);
}

static const struct kvr_stage_ops mean_cuda = { .encode = mean_encode_cuda,
                                                .decode = mean_decode_cuda };

const struct kvr_stage kvr_stage_mean = {
    .name = "mean",
    .title = "subtracts the FP16 mean of every channel over the block",
    .kind = KVR_STAGE_SHIFT,
    .deterministic = true,
    .layout = mean_layout,
    .cpu = { .encode = mean_encode, .decode = mean_decode },
    .cuda = &mean_cuda,
};

static void demean_cpu(struct kvr_dev *dev, float *x, int64_t rows, int d)
{
    (void)dev;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        float sum = 0, m;

        for (int c = 0; c < d; c++)
            sum += x[r * d + c];
        m = sum / (float)d;
        for (int c = 0; c < d; c++)
            x[r * d + c] -= m;
    }
}

static void demean_on_stream(struct kvr_dev *dev, float *x, int64_t rows, int d)
{
    kvr_demean_cuda(kvr_dev_stream(dev), x, rows, d);
}

void kvr_demean(struct kvr_dev *dev, float *x, int64_t rows, int d)
{
    static void (*const on[KVR_N_BACKENDS])(struct kvr_dev *, float *, int64_t, int) = {
        [KVR_CPU] = demean_cpu,
        [KVR_CUDA] = demean_on_stream,
    };

    on[kvr_dev_backend(dev)](dev, x, rows, d);
}

static enum kvr_status demean_encode(const struct kvr_stage_job *job, float *x,
                                     struct kvr_stage_data *out)
{
    (void)out;
    demean_cpu(job->dev, x, job->shape.n_tok * job->shape.n_heads, job->shape.head_dim);
    return KVR_OK;
}

/* Nothing is restored. */
static void demean_decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                          int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                          float *out)
{
    (void)job, (void)in, (void)t0, (void)n, (void)h0, (void)nh, (void)mode, (void)out;
}

static void demean_noise(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                         struct kvr_coding_noise *out)
{
    (void)job, (void)in;
    out->kind = KVR_NOISE_MEASURED;
}

static enum kvr_status demean_encode_cuda(const struct kvr_stage_job *job, float *x,
                                          struct kvr_stage_data *out)
{
    (void)out;
    demean_on_stream(job->dev, x, job->shape.n_tok * job->shape.n_heads, job->shape.head_dim);
    return KVR_OK;
}

static const struct kvr_stage_ops demean_cuda = { .encode = demean_encode_cuda,
                                                  .decode = demean_decode };

const struct kvr_stage kvr_stage_demean = {
    .name = "demean",
    .title = "subtracts each head's mean over its channels, and does not store the mean",
    .kind = KVR_STAGE_SHIFT,
    .deterministic = true,
    .noise = demean_noise,
    .cpu = { .encode = demean_encode, .decode = demean_decode },
    .cuda = &demean_cuda,
};
