/* spatial.c - the tiers `spatial`: positions of a frame whose values change over time (foreground)
 * and static positions (background) are two tiers. The option `mode` selects one of three rules:
 *
 *     a[f,s]     mean |V| over heads and channels at frame f and position s
 *     var[s]     population variance of a[f,s] over the frames f
 *
 *     topk       foreground is the share `target` of positions with the largest var[s]
 *     threshold  foreground are the positions with var[s] > `var`, but at least the share `min` and
 *                at most the share `max`, by largest var[s]
 *     hybrid     as threshold if the share of these positions is in [min, max], else as topk
 *
 * In the study's variant the variance is over all frames of the cache's capacity. Frames that are
 * not yet written are zeros, so the variance mainly measures magnitude. Every call computes the
 * mask again, and older tokens may change their tier. The study's format stores a mask of 1 byte
 * and an index of 8 bytes per token. In the intended variant the variance is over the frames of the
 * new chunk. The mask is computed once and applies only to tokens of this chunk. */
#include "methods/kernels/abs_sum.h"
#include "methods/kernels/policy_cuda.h"
#include "methods/kernels/share.h"
#include "methods/kernels/topk.h"
#include "methods/policy.h"

#include <string.h>

enum { BACKGROUND, FOREGROUND };
enum { TOPK, THRESHOLD, HYBRID };

struct spatial_opts {
    int mode;
    double var, min, max, target;
};

static const char *const mode_names[] = { "topk", "threshold", "hybrid", NULL };

static const struct kvr_opt options[] = {
    KVR_OPT_ENUM(struct spatial_opts, mode, HYBRID, mode_names,
                 "which positions are foreground: the fraction `target` with the largest variance "
                 "(topk), all with a variance above `var` (threshold), or as in threshold if that "
                 "gives a fraction in min..max, else as in topk (hybrid)"),
    KVR_OPT_FLOAT(struct spatial_opts, var, 0.02, 0, 1e30,
                  "for mode=threshold and mode=hybrid: a position is foreground if its mean |V| "
                  "(mean absolute value of the V channels) has a variance over frames above this"),
    KVR_OPT_FLOAT(struct spatial_opts, min, 0.45, 0, 1,
                  "minimum fraction of positions in the foreground; if fewer have a variance above "
                  "`var`, mode=hybrid uses topk"),
    KVR_OPT_FLOAT(struct spatial_opts, max, 0.85, 0, 1,
                  "maximum fraction of positions in the foreground; if more have a variance above "
                  "`var`, mode=hybrid uses topk"),
    KVR_OPT_FLOAT(struct spatial_opts, target, 0.65, 0, 1,
                  "fraction of positions in the foreground for mode=topk, and for mode=hybrid "
                  "where it uses topk"),
    { 0 },
};

static enum kvr_status spatial_check(const void *opts)
{
    const struct spatial_opts *o = opts;

    if (!(o->min <= o->max))
        return kvr_fail(KVR_EINVAL,
                        "fraction of positions in the foreground: min %g is greater than max %g",
                        o->min, o->max);
    return KVR_OK;
}

/* Sets rank[s] to { var[s], s } for each position s, from the values v [n_frames * S, channels].
 * The means a[f,s] and the variances var[s] are computed in double and rounded to float. Each
 * position is computed by one thread, so the result does not depend on the number of threads. */
static void variances(const float *v, int64_t n_frames, int64_t S, int64_t channels,
                      struct kvr_ranked *rank)
{
#pragma omp parallel for schedule(static)
    for (int64_t s = 0; s < S; s++) {
        double mean = 0, m2 = 0;

        /* Welford's algorithm: mean and variance of a[f,s] in one pass over the frames */
        for (int64_t f = 0; f < n_frames; f++) {
            const double sum = kvr_abs_sum(v + (f * S + s) * channels, channels);
            const double a = (float)(sum / (double)channels), d = a - mean;

            mean += d / (double)(f + 1);
            m2 += d * (a - mean);
        }
        rank[s] = (struct kvr_ranked){ (float)(m2 / (double)n_frames), (int32_t)s };
    }
}

/* Returns the number of foreground positions of a frame with S positions. `passing` is the number
 * of positions whose variance exceeds the option `var`. If variances are unknown, `passing` is -1,
 * and the result is that of mode topk. */
static int64_t n_foreground(const struct spatial_opts *o, int64_t S, int64_t passing)
{
    const int64_t lo = kvr_share(o->min * (double)S, 1, S);
    const int64_t hi = kvr_share(o->max * (double)S, lo, S);

    if (passing < 0 || o->mode == TOPK)
        return kvr_share(o->target * (double)S, lo, hi);
    if (o->mode == THRESHOLD)
        return passing < lo ? lo : passing > hi ? hi : passing;
    return passing >= lo && passing <= hi ? passing : kvr_share(o->target * (double)S, lo, hi);
}

/* Computes and sorts the positions' variances on the GPU, waits for the stream, and copies the
 * result to `rank` in host memory. */
static enum kvr_status rank_on_cuda(const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                                    int64_t n_frames, struct kvr_ranked *rank)
{
    const int64_t S = ctx->tokens_per_frame, channels = (int64_t)ctx->n_heads * ctx->head_dim;
    const size_t bytes = (size_t)S * sizeof *rank;
    struct kvr_buf work = { 0 };
    enum kvr_status st;

    KVR_TRY(kvr_buf_alloc(&work, dev, KVR_MEM_SCRATCH, 2 * bytes));
    struct kvr_ranked *found = work.p, *sorted = found + S;

    kvr_position_variance_cuda(kvr_dev_stream(dev), ctx->v, n_frames, S, channels, found);
    kvr_topk_cuda(kvr_dev_stream(dev), found, S, sorted);
    st = kvr_dev_sync(dev);
    if (st == KVR_OK)
        st = kvr_dev_get(dev, rank, sorted, bytes);
    kvr_buf_free(&work);
    return st;
}

static enum kvr_status rank_on_cpu(const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                                   int64_t n_frames, struct kvr_ranked *rank)
{
    (void)dev;
    variances(ctx->v, n_frames, ctx->tokens_per_frame, (int64_t)ctx->n_heads * ctx->head_dim, rank);
    kvr_topk(rank, ctx->tokens_per_frame);
    return KVR_OK;
}

typedef enum kvr_status rank_fn(const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                                int64_t n_frames, struct kvr_ranked *rank);

/* Sets rank [S] to the variance and index of each of the S positions, largest variance first. */
static enum kvr_status rank_positions(const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                                      int64_t n_frames, struct kvr_ranked *rank)
{
    static rank_fn *const on[KVR_N_BACKENDS] = {
        [KVR_CPU] = rank_on_cpu,
        [KVR_CUDA] = rank_on_cuda,
    };

    return on[kvr_dev_backend(dev)](ctx, dev, n_frames, rank);
}

/* Sets mask [S] to the tier of each of the S positions, from the values ctx->v of n_frames frames.
 * If ctx->v is NULL because only token counts are needed, the first positions of a frame are
 * foreground, as many as in mode topk. `rank` [S] is scratch. */
static enum kvr_status make_mask(const struct spatial_opts *o, const struct kvr_policy_ctx *ctx,
                                 struct kvr_dev *dev, int64_t n_frames, struct kvr_ranked *rank,
                                 uint8_t *mask)
{
    const int64_t S = ctx->tokens_per_frame;
    int64_t passing = ctx->v ? 0 : -1, n;

    for (int64_t s = 0; s < S; s++)
        rank[s] = (struct kvr_ranked){ 0, (int32_t)s };
    if (ctx->v)
        KVR_TRY(rank_positions(ctx, dev, n_frames, rank)); /* largest variance first */
    for (int64_t s = 0; s < S && ctx->v; s++)
        passing += rank[s].score > (float)o->var;
    n = n_foreground(o, S, passing);
    memset(mask, BACKGROUND, (size_t)S);
    for (int64_t i = 0; i < n; i++)
        mask[rank[i].index] = FOREGROUND;
    return KVR_OK;
}

static enum kvr_status spatial_assign(const void *opts, const struct kvr_policy_ctx *ctx,
                                      struct kvr_dev *dev, struct kvr_policy_state *state,
                                      uint8_t *map)
{
    const int64_t S = ctx->tokens_per_frame;
    const int64_t n_frames = (ctx->n_tok - ctx->new0) / S;
    const int64_t at_once = ctx->study ? n_frames : ctx->frames_per_chunk; /* for counting only */
    const size_t rank_bytes = (size_t)S * sizeof(struct kvr_ranked);
    uint8_t *out = map + ctx->new0;
    struct kvr_buf work = { 0 };
    enum kvr_status st;
    uint8_t *mask;

    (void)state;
    memset(out, FOREGROUND, (size_t)(ctx->n_tok - ctx->new0));
    if (n_frames < 2 || (!ctx->v && at_once < 2))
        return KVR_OK;
    KVR_TRY(kvr_buf_alloc(&work, kvr_dev_host(dev), KVR_MEM_SCRATCH, rank_bytes + (size_t)S));
    mask = (uint8_t *)work.p + rank_bytes;
    st = make_mask(opts, ctx, dev, n_frames, work.p, mask);
    for (int64_t f = 0; f < n_frames && st == KVR_OK; f++)
        memcpy(out + f * S, mask, (size_t)S);
    kvr_buf_free(&work);
    return st;
}

static size_t spatial_side_bytes(const void *opts, const struct kvr_study_counts *n)
{
    (void)opts;
    return 9 * (size_t)n->capacity;
}

const struct kvr_tiers kvr_tiers_spatial = {
    .name = "spatial",
    .title =
        "a tier of frame positions that change over time (foreground), and one of static positions",
    .options = options,
    .opts_size = sizeof(struct spatial_opts),
    .n_tiers = 2,
    .tier_names = { "background", "foreground" },
    .unit = KVR_UNIT_TOKEN,
    .check = spatial_check,
    .assign = spatial_assign,
    .cuda = true,
    .study_side_bytes = spatial_side_bytes,
};
