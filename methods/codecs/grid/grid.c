/* grid.c - the stages `sym` and `asym` (integer quantization): options, layout, and threads on the
 * CPU. The loops are in grid_encode_isa.c and grid_decode_isa.c, the kernels in grid_encode_cuda.cu
 * and grid_decode_cuda.cu. */
#include "methods/codecs/grid/grid.h"

#include <omp.h>

#include "methods/codecs/grid/grid_cuda.h"
#include "methods/codecs/grid/grid_kernels.h"
#include "methods/kernels/pack.h"

enum { PARALLEL_FROM = 1 << 17 /* number of elements from which several threads are used */ };

enum kvr_status kvr_grid_check(const struct kvr_grid *g, int head_dim)
{
    if (g->axis == KVR_AXIS_TOKENS && g->group % 8)
        return kvr_fail(KVR_EINVAL, "group is %d tokens: must be a multiple of 8", g->group);
    if (g->axis == KVR_AXIS_CHANNELS && head_dim % g->group)
        return kvr_fail(KVR_EINVAL, "group is %d channels, but must divide head_dim %d", g->group,
                        head_dim);
    return KVR_OK;
}

static int64_t stored_tokens(const struct kvr_stage_job *job)
{
    const int64_t n = job->shape.n_tok;

    return job->study ? (n + KVR_STUDY_BLOCK - 1) / KVR_STUDY_BLOCK * KVR_STUDY_BLOCK : n;
}

static int64_t n_channels(const struct kvr_stage_job *job)
{
    return (int64_t)job->shape.n_heads * job->shape.head_dim;
}

static int64_t n_groups(const struct kvr_grid *g, const struct kvr_stage_job *job)
{
    const int64_t n = stored_tokens(job);

    switch (g->axis) {
    case KVR_AXIS_TOKENS:
        return (n + g->group - 1) / g->group * n_channels(job);
    case KVR_AXIS_CHANNELS:
        return n * n_channels(job) / g->group;
    default:
        return n;
    }
}

void kvr_grid_layout(const struct kvr_grid *g, const struct kvr_stage_job *job,
                     struct kvr_layout *out)
{
    const int64_t groups = n_groups(g, job);

    *out = (struct kvr_layout){
        .bytes = { .codes = kvr_pack_bytes(stored_tokens(job), n_channels(job), g->bits),
                   .meta = (size_t)groups * sizeof(kvr_f16) * (g->asym ? 2 : 1) },
        .unit_tokens = g->axis == KVR_AXIS_TOKENS ? g->group : 1,
        .form = KVR_FORM_INTEGER,
        .bits = g->bits,
        .n_tok = stored_tokens(job),
        .axis = g->axis,
        .group = g->group,
        .n_groups = groups,
        .zero = !g->asym     ? KVR_ZERO_MIDDLE
                : job->study ? KVR_ZERO_POINT
                             : KVR_ZERO_MINIMUM,
        .chains = true,
    };
}

struct kvr_grid_block kvr_grid_block_of(const struct kvr_grid *g, const struct kvr_stage_job *job,
                                        const struct kvr_stage_data *data)
{
    return (struct kvr_grid_block){
        .grid = *g,
        .study = job->study,
        .bf16 = job->compute == KVR_COMPUTE_BF16,
        .n_tok = job->shape.n_tok,
        .stored = stored_tokens(job),
        .channels = n_channels(job),
        .n_groups = n_groups(g, job),
        .codes = data->codes.p,
        .scales = data->meta.p,
    };
}

void kvr_grid_encode(const struct kvr_grid *g, const struct kvr_stage_job *job, const float *x,
                     struct kvr_stage_data *out)
{
    const struct kvr_grid_encoders *k = kvr_grid_encoders();
    const struct kvr_grid_block b = kvr_grid_block_of(g, job, out);

    if (g->axis == KVR_AXIS_TOKENS) {
        const int64_t blocks = (b.stored + g->group - 1) / g->group;
        const int64_t strips = (b.channels + KVR_GRID_STRIP - 1) / KVR_GRID_STRIP;

#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < blocks * strips; i++) {
            const int64_t t0 = i / strips * g->group, c0 = i % strips * KVR_GRID_STRIP;
            const int64_t left = b.channels - c0;
            const int m = left < KVR_GRID_STRIP ? (int)left : KVR_GRID_STRIP;
            const float *at = x + t0 * b.channels + c0;
            const bool wraps = left <= KVR_GRID_STRIP;
            const int64_t next = wraps ? g->group * b.channels - c0 : KVR_GRID_STRIP;
            struct kvr_grid_prefetch prefetch = kvr_grid_no_prefetch(at, b.channels);

            prefetch.p += i + 1 < blocks * strips ? next * (int64_t)sizeof *at : 0;
            k->tokens(&b, t0, c0, m, at, b.channels, NULL, 0, &prefetch);
        }
    } else {
#pragma omp parallel for schedule(static)
        for (int64_t t = 0; t < b.stored; t += KVR_GRID_ROWS)
            k->rows(&b, t, KVR_GRID_ROWS, x + t * b.channels);
    }
}

void kvr_grid_decode(const struct kvr_grid *g, const struct kvr_stage_job *job,
                     const struct kvr_stage_data *in, int64_t t0, int64_t n, int h0, int nh,
                     enum kvr_decode_mode mode, float *out)
{
    const struct kvr_grid_decoders *k = kvr_grid_decoders();
    const struct kvr_grid_block block = kvr_grid_block_of(g, job, in);
    const int64_t c0 = (int64_t)h0 * job->shape.head_dim;
    const int64_t width = (int64_t)nh * job->shape.head_dim;
    /* Each thread decodes complete groups, so that the scales of a group are loaded only once. */
    const int64_t cut = g->axis == KVR_AXIS_TOKENS ? g->group : KVR_GRID_ROWS;
    const int64_t first = t0 / cut, last = (t0 + n - 1) / cut;

    if (n * width < PARALLEL_FROM || omp_in_parallel()) {
        k->part(&block, t0, t0 + n, c0, width, mode, out, width);
        return;
    }
#pragma omp parallel for schedule(static)
    for (int64_t i = first; i <= last; i++) {
        const int64_t begin = i * cut > t0 ? i * cut : t0;
        const int64_t end = (i + 1) * cut < t0 + n ? (i + 1) * cut : t0 + n;

        k->part(&block, begin, end, c0, width, mode, out + (begin - t0) * width, width);
    }
}

/* ---- stages ------------------------------------------------------------------------------ */

struct grid_opts {
    int bits, axis, group;
};

static const struct kvr_opt options[] = {
    KVR_OPT_INT(struct grid_opts, bits, 4, 2, 8, "bits per stored element"),
    KVR_OPT_ENUM(struct grid_opts, axis, KVR_AXIS_TOKENS, kvr_axis_names,
                 "elements that share a scale: consecutive tokens of a channel (tokens), "
                 "consecutive channels of a token (channels), or a whole token (token)"),
    KVR_OPT_INT(struct grid_opts, group, 16, 8, KVR_GRID_MAX_GROUP,
                "number of elements that share a scale (unused for axis=token)"),
    { 0 }
};

/* The two stages. */
static const bool symmetric = false, asymmetric = true;

static struct kvr_grid grid_of(const struct kvr_stage_job *job)
{
    const struct grid_opts *o = job->opts;

    return (struct kvr_grid){
        .bits = o->bits,
        .axis = o->axis,
        .group = o->group,
        .asym = *(const bool *)job->stage->variant,
    };
}

static enum kvr_status check(const struct kvr_stage_job *job)
{
    const struct kvr_grid g = grid_of(job);

    return kvr_grid_check(&g, job->shape.head_dim);
}

static void layout(const struct kvr_stage_job *job, struct kvr_layout *out)
{
    const struct kvr_grid g = grid_of(job);

    kvr_grid_layout(&g, job, out);
}

static void noise(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                  struct kvr_coding_noise *out)
{
    const struct kvr_grid g = grid_of(job);

    out->kind = KVR_NOISE_UNIFORM;
    out->axis = g.axis;
    out->group = g.group;
    out->scale = in->meta.p;
    out->dead_zone = job->study && !g.asym && g.bits == 2;
}

static enum kvr_status encode(const struct kvr_stage_job *job, float *x, struct kvr_stage_data *out)
{
    const struct kvr_grid g = grid_of(job);

    kvr_grid_encode(&g, job, x, out);
    return KVR_OK;
}

static void decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                   int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out)
{
    const struct kvr_grid g = grid_of(job);

    kvr_grid_decode(&g, job, in, t0, n, h0, nh, mode, out);
}

static enum kvr_status encode_cuda(const struct kvr_stage_job *job, float *x,
                                   struct kvr_stage_data *out)
{
    const struct kvr_grid g = grid_of(job);

    kvr_grid_encode_cuda(kvr_dev_stream(job->dev), &g, job, x, out->codes.p, out->meta.p);
    return KVR_OK;
}

static void decode_cuda(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                        int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                        float *out)
{
    const struct kvr_grid g = grid_of(job);

    kvr_grid_decode_cuda(kvr_dev_stream(job->dev), &g, job, in->codes.p, in->meta.p, t0, n, h0, nh,
                         mode, out);
}

static const struct kvr_stage_ops cuda = { .encode = encode_cuda, .decode = decode_cuda };

const struct kvr_stage kvr_stage_sym = {
    .name = "sym",
    .title = "symmetric integers with an FP16 scale",
    .kind = KVR_STAGE_GRID,
    .options = options,
    .opts_size = sizeof(struct grid_opts),
    .variant = &symmetric,
    .deterministic = true,
    .idempotent = true,
    .check = check,
    .layout = layout,
    .noise = noise,
    .cpu = { .encode = encode, .decode = decode },
    .cuda = &cuda,
};

const struct kvr_stage kvr_stage_asym = {
    .name = "asym",
    .title = "asymmetric integers with an FP16 scale and minimum",
    .kind = KVR_STAGE_GRID,
    .options = options,
    .opts_size = sizeof(struct grid_opts),
    .variant = &asymmetric,
    .deterministic = true,
    /* The minimum is rounded down to FP16. If no value then has code 0, the decoded values have a
     * smaller range, and encoding them again changes the scale. */
    .idempotent = false,
    .check = check,
    .layout = layout,
    .noise = noise,
    .cpu = { .encode = encode, .decode = decode },
    .cuda = &cuda,
};
