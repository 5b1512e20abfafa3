/* saliency.c - the retention `saliency`: of the frames in tier 0, the coarse tier, retains the
 * frames with the highest saliency scores (FlowCache's pruning).
 *
 * Let `rem` be the number of frames in tier 0, `retained` the option of this name, and beta the
 * layer's budget factor (kvr_layer_budget). The rne(beta * retained * rem) frames with the highest
 * scores are retained, but at least one. The function rne rounds to the nearest integer, ties to
 * even. The other frames are evicted. If the method's tiers are `saliency`, the scores are those of
 * the tiers. Otherwise this file computes the scores with the default weights of the tiers
 * `saliency`.
 *
 * In the study's variant an evicted frame stays in the cache as zeros or as its mean (option
 * `fill`). Each time a chunk is stored, the policy selects again among all frames in tier 0,
 * including evicted ones. If the policy selects an evicted frame, the zeros or the mean are encoded
 * like values, and take as many bytes as any other frame. In the intended variant an evicted frame
 * is never selected again. It still counts in `rem`, so both variants retain the same number of
 * frames. */
#include "methods/kernels/saliency.h"
#include "methods/kernels/share.h"

enum { FILL_AUTO, FILL_ZERO, FILL_POOLED, FILL_DROP };

struct saliency_opts {
    double retained;
    int fill;
};

static const char *const fill_names[] = { "auto", "zero", "pooled", "drop", NULL };

static const struct kvr_opt options[] = {
    KVR_OPT_FLOAT(struct saliency_opts, retained, 0.45, 0, 1,
                  "fraction of the frames in tier 0 (old frames) that are kept; multiplied by the "
                  "layer's budget factor (option layer_budget)"),
    KVR_OPT_ENUM(
        struct saliency_opts, fill, FILL_AUTO, fill_names,
        "what replaces dropped frames: zeros (zero), the frame's mean (pooled), nothing (drop), "
        "or zeros in the @study version and nothing in the intended one (auto)"),
    { 0 },
};

static uint8_t fill_byte(const struct saliency_opts *o, bool study)
{
    switch (o->fill) {
    case FILL_ZERO:
        return KVR_TOKEN_ZERO;
    case FILL_POOLED:
        return KVR_TOKEN_POOLED;
    case FILL_DROP:
        return KVR_TOKEN_DROPPED;
    default:
        return study ? KVR_TOKEN_ZERO : KVR_TOKEN_DROPPED;
    }
}

/* Returns whether all tokens of the frame are in tier 0. */
static bool is_coarse(const struct kvr_policy_ctx *ctx, int64_t f, const uint8_t *map)
{
    const uint8_t *token = map + f * ctx->tokens_per_frame;

    for (int64_t t = 0; t < kvr_frame_tokens(ctx, f); t++)
        if (token[t])
            return false;
    return true;
}

static void give_up(const struct kvr_policy_ctx *ctx, const struct kvr_saliency *s, int64_t f,
                    uint8_t fill, uint8_t *map)
{
    kvr_frame_fill(ctx, f, fill, map);
    if (!ctx->study)
        s->level[f] = KVR_FRAME_GONE;
}

static void prune_frames(const struct saliency_opts *o, const struct kvr_policy_ctx *ctx,
                         const struct kvr_saliency *s, uint8_t *map)
{
    const uint8_t fill = fill_byte(o, ctx->study);
    int64_t rem = 0, m = 0, k;

    for (int64_t f = 0; f < s->n; f++) {
        if (!is_coarse(ctx, f, map))
            continue;
        rem++;
        if (!ctx->study && s->level[f] == KVR_FRAME_GONE)
            give_up(ctx, s, f, fill, map);
        else
            s->rank[m++] = (struct kvr_ranked){ s->score[f], (int32_t)f };
    }
    k = kvr_share(o->retained * ctx->beta * (double)rem, 1, rem);
    kvr_topk(s->rank, m);
    for (int64_t i = k; i < m; i++)
        give_up(ctx, s, s->rank[i].index, fill, map);
}

static enum kvr_status saliency_assign(const void *opts, const struct kvr_policy_ctx *ctx,
                                       struct kvr_dev *dev, struct kvr_policy_state *state,
                                       uint8_t *map)
{
    static const struct kvr_saliency_rule rule = { 0.7, 0.3, false };
    struct kvr_saliency s;

    if (kvr_frames(ctx) == 0)
        return KVR_OK;
    if (!kvr_saliency_take(ctx, state, &s))
        KVR_TRY(kvr_saliency_score(&rule, ctx, dev, state, &s));
    prune_frames(opts, ctx, &s, map);
    return KVR_OK;
}

/* Returns the side information in the study's format: 16 bytes per pooled frame, for the range of
 * tokens that the frame's mean replaces. The mean is a segment of the cache, which has its own
 * bytes. */
static size_t saliency_side_bytes(const void *opts, const struct kvr_study_counts *n)
{
    (void)opts;
    return 16 * (size_t)n->pooled_frames;
}

const struct kvr_retention kvr_retention_saliency = {
    .name = "saliency",
    .title = "drops the least salient frames of tier 0, the tier of old frames",
    .options = options,
    .opts_size = sizeof(struct saliency_opts),
    .unit = KVR_UNIT_FRAME,
    .assign = saliency_assign,
    .cuda = true,
    .study_side_bytes = saliency_side_bytes,
};
