/* kivi.c - the stage `kivi`: asymmetric integer quantization of complete blocks of `residual`
 * tokens; the remaining tokens are stored in BF16 (KIVI, arXiv:2402.02750).
 *
 * Blocks start at multiples of `residual` tokens of the rollout (origin_tokens). Complete blocks
 * are quantized as in `asym`. The tokens after a chunk's last complete block stay in BF16 until the
 * next chunk completes the block. For this the cache passes complete blocks and remaining tokens to
 * the stage separately. If a caller passes at least `residual` tokens at once, all are quantized,
 * even if their number is not a multiple of `residual`.
 *
 * Quantized tokens are stored in the format of `asym`, BF16 tokens in that of `raw`. */
#include "methods/codecs/grid/grid.h"
#include "methods/codecs/grid/grid_cuda.h"
#include "methods/bounce.h"
#include "methods/codecs/raw/raw_cuda.h"

struct kivi_opts {
    int bits, axis, group, residual;
};

static const struct kvr_opt options[] = {
    KVR_OPT_INT(struct kivi_opts, bits, 2, 2, 8, "bits per stored element"),
    KVR_OPT_ENUM(struct kivi_opts, axis, KVR_AXIS_TOKENS, kvr_axis_names,
                 "elements that share a scale and a minimum: consecutive tokens of a channel "
                 "(tokens), consecutive channels of a token (channels), or a whole token (token)"),
    KVR_OPT_INT(struct kivi_opts, group, 32, 8, KVR_GRID_MAX_GROUP,
                "number of elements per group (unused for axis=token)"),
    KVR_OPT_INT(
        struct kivi_opts, residual, 128, 8, 1 << 16,
        "number of tokens per quantized block; the tokens after the last complete block stay BF16"),
    { 0 }
};

static const struct kivi_opts *opts_of(const struct kvr_stage_job *job)
{
    return job->opts;
}

static struct kvr_grid grid_of(const struct kvr_stage_job *job)
{
    const struct kivi_opts *o = opts_of(job);

    return (struct kvr_grid){ .bits = o->bits, .axis = o->axis, .group = o->group, .asym = true };
}

/* Returns whether a block has too few tokens to be quantized. */
static bool keeps_residual_window(const struct kvr_stage_job *job)
{
    return job->shape.n_tok > 0 && job->shape.n_tok < opts_of(job)->residual;
}

static enum kvr_status check(const struct kvr_stage_job *job)
{
    const struct kivi_opts *o = opts_of(job);
    const struct kvr_grid g = grid_of(job);

    if (o->axis == KVR_AXIS_TOKENS && o->residual % o->group)
        return kvr_fail(KVR_EINVAL, "residual is %d tokens: must be a multiple of group, %d tokens",
                        o->residual, o->group);
    return kvr_grid_check(&g, job->shape.head_dim);
}

static void layout(const struct kvr_stage_job *job, struct kvr_layout *out)
{
    const struct kvr_block_shape *s = &job->shape;
    const struct kvr_grid g = grid_of(job);

    if (keeps_residual_window(job))
        *out = (struct kvr_layout){
            .bytes.codes = (size_t)(s->n_tok * s->n_heads * s->head_dim) * sizeof(kvr_bf16),
            .form = KVR_FORM_RAW,
            .type = KVR_BF16,
            .n_tok = s->n_tok,
        };
    else
        kvr_grid_layout(&g, job, out);
    out->unit_tokens = opts_of(job)->residual;
    out->origin_tokens = opts_of(job)->residual;
}

static void noise(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                  struct kvr_coding_noise *out)
{
    const struct kvr_grid g = grid_of(job);

    out->kind = keeps_residual_window(job) ? KVR_NOISE_NONE : KVR_NOISE_UNIFORM;
    out->axis = g.axis;
    out->group = g.group;
    out->scale = keeps_residual_window(job) ? NULL : in->meta.p;
}

static enum kvr_status encode(const struct kvr_stage_job *job, float *x, struct kvr_stage_data *out)
{
    const struct kvr_block_shape *s = &job->shape;
    const struct kvr_grid g = grid_of(job);

    if (keeps_residual_window(job))
        kvr_from_f32(out->codes.p, KVR_BF16, x, (size_t)(s->n_tok * s->n_heads * s->head_dim));
    else
        kvr_grid_encode(&g, job, x, out);
    return KVR_OK;
}

/* Decodes a BF16 block: sets `out`, adds to it or subtracts from it, according to `mode`. */
static void decode_raw(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                       int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out)
{
    const struct kvr_block_shape *s = &job->shape;
    const int64_t width = (int64_t)nh * s->head_dim;

    for (int64_t t = t0; t < t0 + n; t++, out += width) {
        const kvr_bf16 *from =
            (const kvr_bf16 *)in->codes.p + (t * s->n_heads + h0) * (int64_t)s->head_dim;

        for (int64_t i = 0; i < width; i++) {
            const float x = kvr_bf16_to_f32(from[i]);

            out[i] = mode == KVR_DECODE_SET ? x : mode == KVR_DECODE_ADD ? out[i] + x : out[i] - x;
        }
    }
}

static void decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                   int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out)
{
    const struct kvr_grid g = grid_of(job);

    if (keeps_residual_window(job))
        decode_raw(job, in, t0, n, h0, nh, mode, out);
    else
        kvr_grid_decode(&g, job, in, t0, n, h0, nh, mode, out);
}

static enum kvr_status encode_cuda(const struct kvr_stage_job *job, float *x,
                                   struct kvr_stage_data *out)
{
    struct kvr_stream *s = kvr_dev_stream(job->dev);
    const struct kvr_grid g = grid_of(job);

    if (keeps_residual_window(job))
        kvr_raw_encode_cuda(s, &job->shape, x, out->codes.p);
    else
        kvr_grid_encode_cuda(s, &g, job, x, out->codes.p, out->meta.p);
    return KVR_OK;
}

/* For a BF16 block, only the mode KVR_DECODE_SET has a kernel; in other modes the host decodes. */
static void decode_cuda(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                        int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                        float *out)
{
    struct kvr_stream *s = kvr_dev_stream(job->dev);
    const struct kvr_grid g = grid_of(job);

    if (!keeps_residual_window(job))
        kvr_grid_decode_cuda(s, &g, job, in->codes.p, in->meta.p, t0, n, h0, nh, mode, out);
    else if (mode == KVR_DECODE_SET)
        kvr_raw_decode_cuda(s, &job->shape, KVR_BF16, in->codes.p, t0, n, h0, nh, out);
    else
        kvr_bounce_decode(job, in, t0, n, h0, nh, mode, out);
}

static const struct kvr_stage_ops cuda = { .encode = encode_cuda, .decode = decode_cuda };

const struct kvr_stage kvr_stage_kivi = {
    .name = "kivi",
    .title = "asymmetric integers for complete blocks of `residual` tokens; the remaining tokens "
             "stay BF16",
    .kind = KVR_STAGE_GRID,
    .options = options,
    .opts_size = sizeof(struct kivi_opts),
    .deterministic = true,
    .check = check,
    .layout = layout,
    .noise = noise,
    .cpu = { .encode = encode, .decode = decode },
    .cuda = &cuda,
};
