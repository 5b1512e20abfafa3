/* ternary.c - the stage `ternary`: every element decodes to -s, 0 or s, where s is the mean
 * magnitude of a group of tokens of a channel. The arithmetic is in ternary.h. The stored format is
 * that of 2-bit `asym`.
 *
 * VidKV stores values in this way (arXiv:2503.16257, vidkv_quant.py at 0e55c39). Its code decodes
 * to -1, 0 or 1 without the scale, which is scaled=false here. Elements in the dead zone around 0
 * decode to 0, so errors are correlated with the elements. Corrections of attention scores must
 * therefore measure the error, because it does not follow from s. */
#include "methods/codecs/ternary/ternary.h"

#include "methods/codecs/grid/grid_cuda.h"
#include "methods/kernels/pack.h"

enum { MAX_GROUP = 256 };

struct ternary_opts {
    int group;
    double dead;
    bool scaled;
};
static const struct kvr_opt options[] = {
    KVR_OPT_INT(struct ternary_opts, group, 32, 8, MAX_GROUP,
                "number of consecutive tokens that share a channel's scale, a multiple of 8"),
    KVR_OPT_FLOAT(
        struct ternary_opts, dead, 0.5, 0, 100,
        "half-width of the dead zone around 0, in multiples of the group's mean magnitude"),
    KVR_OPT_BOOL(
        struct ternary_opts, scaled, true,
        "whether decoding multiplies by the scale s; if false, elements decode to -1, 0 or 1"),
    { 0 }
};

static struct ternary ternary_of(const struct kvr_stage_job *job)
{
    const struct ternary_opts *o = job->opts;

    return (struct ternary){
        .group = o->group,
        .dead = (float)o->dead,
        .scaled = o->scaled,
        .n_tok = job->shape.n_tok,
        .channels = (int64_t)job->shape.n_heads * job->shape.head_dim,
    };
}

/* Returns the settings of the 2-bit `asym` quantizer, whose decoder decodes the block. */
static struct kvr_grid grid_of(const struct kvr_stage_job *job)
{
    return (struct kvr_grid){ .bits = 2,
                              .axis = KVR_AXIS_TOKENS,
                              .group = ((const struct ternary_opts *)job->opts)->group,
                              .asym = true };
}

static struct kvr_stage_job plain(const struct kvr_stage_job *job)
{
    struct kvr_stage_job as = *job;

    as.study = false;
    as.compute = KVR_COMPUTE_F32;
    return as;
}

static enum kvr_status check(const struct kvr_stage_job *job)
{
    const struct kvr_grid g = grid_of(job);

    return kvr_grid_check(&g, job->shape.head_dim);
}

static void layout(const struct kvr_stage_job *job, struct kvr_layout *out)
{
    const struct kvr_stage_job as = plain(job);
    const struct kvr_grid g = grid_of(job);

    kvr_grid_layout(&g, &as, out);
    out->chains = false;
    out->form = KVR_FORM_OWN;
}

static enum kvr_status encode(const struct kvr_stage_job *job, float *x, struct kvr_stage_data *out)
{
    const struct ternary g = ternary_of(job);
    const int64_t groups = (g.n_tok + g.group - 1) / g.group;
    kvr_f16 *scales = out->meta.p, *minima = scales + groups * g.channels;

#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < groups; i++)
        for (int64_t c = 0; c < g.channels; c++) {
            const int64_t left = g.n_tok - i * g.group, n = left < g.group ? left : g.group;
            const float s = ternary_scale(&g, x, i * g.group, c);
            const float scale = g.scaled || s != s ? s : 1;
            uint8_t codes[MAX_GROUP];

            scales[i * g.channels + c] = kvr_f32_to_f16(scale);
            minima[i * g.channels + c] = kvr_f32_to_f16(-scale);
            for (int64_t r = 0; r < n; r++)
                codes[r] = (uint8_t)ternary_code(&g, s, x[(i * g.group + r) * g.channels + c]);
            kvr_pack(out->codes.p, g.n_tok, g.channels, 2, i * g.group, n, c, 1, codes);
        }
    return KVR_OK;
}

static void decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                   int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out)
{
    const struct kvr_stage_job as = plain(job);
    const struct kvr_grid g = grid_of(job);

    kvr_grid_decode(&g, &as, in, t0, n, h0, nh, mode, out);
}

static void decode_cuda(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                        int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                        float *out)
{
    const struct kvr_stage_job as = plain(job);
    const struct kvr_grid g = grid_of(job);

    kvr_grid_decode_cuda(kvr_dev_stream(job->dev), &g, &as, in->codes.p, in->meta.p, t0, n, h0, nh,
                         mode, out);
}

KVR_ENCODE_CUDA(ternary)
static const struct kvr_stage_ops cuda = { .encode = encode_cuda, .decode = decode_cuda };

const struct kvr_stage kvr_stage_ternary = {
    KVR_CODED_STAGE(ternary),
    .title = "stores each element as -s, 0 or s, where s is the mean magnitude of a group of a "
             "channel's tokens",
    .check = check,
    .noise = kvr_noise_measured,
};
