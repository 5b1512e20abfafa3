/* grid.c - the integer grids of grid.h on the CPU: bytes, and work dealt to threads. The loops are
 * grid_encode_isa.c and grid_decode_isa.c. */
#include "methods/codecs/grid/grid.h"

#include <omp.h>

#include "methods/codecs/grid/grid_kernels.h"
#include "methods/kernels/pack.h"

enum { PARALLEL_FROM = 1 << 17 /* elements worth waking other threads for */ };

const char *const kvr_axis_names[] = { "tokens", "channels", "token", NULL };

enum kvr_status kvr_grid_check(const struct kvr_grid *g, int n_heads, int head_dim)
{
    (void)n_heads;
    if (g->axis == KVR_AXIS_TOKENS && g->group % 8)
        return kvr_fail(KVR_EINVAL, "group %d tokens: must be a multiple of 8", g->group);
    if (g->axis == KVR_AXIS_CHANNELS && head_dim % g->group)
        return kvr_fail(KVR_EINVAL, "group %d channels does not divide head_dim %d", g->group,
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

int64_t kvr_grid_sets(const struct kvr_grid *g, const struct kvr_stage_job *job)
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

void kvr_grid_bytes(const struct kvr_grid *g, const struct kvr_stage_job *job,
                    struct kvr_stage_bytes *out)
{
    out->codes = kvr_pack_bytes(stored_tokens(job), n_channels(job), g->bits);
    out->meta = (size_t)kvr_grid_sets(g, job) * sizeof(kvr_f16) * (g->asym ? 2 : 1);
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
        .n_sets = kvr_grid_sets(g, job),
        .codes = data->codes.p,
        .meta = data->meta.p,
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

            k->tokens(&b, t0, c0, m, x + t0 * b.channels + c0, b.channels, NULL);
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
    /* Cut where blocks are, so that no block's steps are loaded twice. */
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

void kvr_grid_steps(const struct kvr_grid *g, const struct kvr_stage_job *job,
                    const struct kvr_stage_data *in, struct kvr_steps *out)
{
    static const enum kvr_steps_kind kind[] = {
        [KVR_AXIS_TOKENS] = KVR_STEPS_TOKENS,
        [KVR_AXIS_CHANNELS] = KVR_STEPS_CHANNELS,
        [KVR_AXIS_TOKEN] = KVR_STEPS_TOKEN,
    };

    out->kind = kind[g->axis];
    out->group = g->axis == KVR_AXIS_TOKEN ? 0 : g->group;
    out->step = in->meta.p;
    out->sign = job->study && !g->asym && g->bits == 2 ? KVR_NOISE_TERNARY : KVR_NOISE_DITHER;
}
