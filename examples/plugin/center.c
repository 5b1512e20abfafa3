/* center.c - a method out of tree: take each channel's mean off before the grid is fitted.
 *
 * Keys often have channels that sit far from zero and vary little; a symmetric grid then spends
 * its levels on the offset. SageAttention (arXiv:2410.02367, section 4.2) subtracts the mean of K
 * over the tokens, which softmax does not notice. Here the mean is that of one coded block, so
 * it differs from block to block and has to be put back: 2 bytes a channel and block.
 *
 * Stored: meta = mean [H,D] FP16. What is subtracted is the FP16 number, so that decoding adds
 * what coding took off. */
#include "methods/plugin.h"

struct center_opts {
    double share; /* of the mean: 0 leaves the data alone */
};

static const struct kvr_opt options[] = {
    KVR_OPT_FLOAT(struct center_opts, share, 1, 0, 1, "how much of the mean is taken off"), { 0 }
};

static void center_layout(const struct kvr_stage_job *job, struct kvr_layout *out)
{
    out->bytes.meta = (size_t)job->shape.n_heads * (size_t)job->shape.head_dim * sizeof(kvr_f16);
}

/* x [T,H,D] -> x - mean; `out->meta` has been allocated from center_layout(). */
static enum kvr_status center_encode(const struct kvr_stage_job *job, float *x,
                                     struct kvr_stage_data *out)
{
    const double share = ((const struct center_opts *)job->opts)->share;
    const int64_t n = job->shape.n_tok, width = (int64_t)job->shape.n_heads * job->shape.head_dim;
    kvr_f16 *mean = out->meta.p;

#pragma omp parallel for schedule(static)
    for (int64_t c = 0; c < width; c++) { /* one thread per channel: the same sum every time */
        double sum = 0;
        float m;

        for (int64_t t = 0; t < n; t++)
            sum += (double)x[t * width + c];
        m = (float)(share * sum / (double)n);
        m = m > 65504 ? 65504 : m < -65504 ? -65504 : m; /* FP16; NaN stays, and is noticed */
        mean[c] = kvr_f32_to_f16(m);
        m = kvr_f16_to_f32(mean[c]);
        for (int64_t t = 0; t < n; t++)
            x[t * width + c] -= m;
    }
    return KVR_OK;
}

/* out [n,nh,D] holds heads h0..h0+nh of any n tokens: the mean is the same for all of them. */
static void center_decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                          int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                          float *out)
{
    const int64_t d = job->shape.head_dim, width = nh * d;
    const kvr_f16 *mean = (const kvr_f16 *)in->meta.p + h0 * d;

    (void)t0;
    (void)mode; /* KVR_DECODE_SET; only grids add or subtract */
    for (int64_t t = 0; t < n; t++)
        for (int64_t c = 0; c < width; c++)
            out[t * width + c] += kvr_f16_to_f32(mean[c]);
}

static const struct kvr_stage center = {
    .name = "center",
    .title = "the mean of every channel, taken off and kept",
    .kind = KVR_STAGE_SHIFT,
    .options = options,
    .opts_size = sizeof(struct center_opts),
    .deterministic = true,
    .layout = center_layout,
    .cpu = { .encode = center_encode, .decode = center_decode },
};

static const struct kvr_method centered_int4 = {
    .name = "CENTERED_INT4",
    .family = "CENTERED",
    .title = "keys without their mean, then round to nearest, 4 bits",
    .paper = "arXiv:2410.02367 (the smoothing of K)",
    .k = "center | sym(bits=4)",
    .v = "sym(bits=4)",
};

static const struct kvr_stage *const stages[] = { &center, NULL };
static const struct kvr_method *const methods[] = { &centered_int4, NULL };
KVR_PLUGIN(.name = "center", .version = "1.0", .stages = stages, .methods = methods);
