/* saliency.c - the tiers `saliency`: recent frames, salient older frames and all other frames are
 * three tiers (FlowCache).
 *
 * Let n be the number of frames, and beta the layer's budget factor (kvr_layer_budget). The
 * function rne rounds to the nearest integer, ties to even. The options `recent` and `important`
 * set the sizes of the tiers of the same names, which have at least one frame each. The tier
 * `recent` has the newest rne(min(recent * beta, 1) * n) frames. Let n_old be the number of older
 * frames: rne(important * beta * n_old) of these, with the highest scores, are in the tier
 * `important`. All others are in `old`, the coarse tier. The header methods/kernels/saliency.h
 * defines the score in the study's and the intended variant. With important=0 (the method HYBRID)
 * no frame is scored, and the tier `important` is empty.
 *
 * The tiers are assigned each time a chunk is stored. In the study's variant a frame may move from
 * the tier `old` back to `important`, although the codec of `old` has already reduced the precision
 * of its values. In the intended variant a frame that was in the tier `old` stays there. */
#include "methods/kernels/saliency.h"
#include "methods/kernels/share.h"

#include <string.h>

enum { OLD, RECENT, IMPORTANT };
enum { EVERY_CALL, ON_GROWTH };

struct saliency_opts {
    double recent, important, delta_weight, recency_weight;
    int refresh;
};

static const char *const refresh_names[] = { "every_call", "on_growth", NULL };

static const struct kvr_opt options[] = {
    KVR_OPT_FLOAT(struct saliency_opts, recent, 0.25, 0, 1,
                  "fraction of the frames that is in the tier `recent` (the newest frames); "
                  "multiplied by the layer's budget factor"),
    KVR_OPT_FLOAT(struct saliency_opts, important, 0, 0, 1,
                  "fraction of the older frames that is in the tier `important` (the frames of "
                  "highest saliency); multiplied by the layer's budget factor; 0 means none"),
    KVR_OPT_FLOAT(struct saliency_opts, delta_weight, 0.7, 0, 1e6,
                  "weight of a frame's change from the previous frame in its saliency score"),
    KVR_OPT_FLOAT(struct saliency_opts, recency_weight, 0.3, 0, 1e6,
                  "weight of a frame's recency in its saliency score"),
    KVR_OPT_ENUM(struct saliency_opts, refresh, EVERY_CALL, refresh_names,
                 "when the @study version computes saliency scores: each time tiers are assigned "
                 "(every_call) or only when the cache has grown (on_growth)"),
    { 0 },
};

/* Assigns tiers to n frames: the last n_recent frames are recent, the k other frames with the
 * highest scores are important. `s` contains the scores; it is NULL if no frame is scored, and k is
 * then 0. */
static void plan(const struct kvr_policy_ctx *ctx, const struct kvr_saliency *s, int64_t n,
                 int64_t n_recent, int64_t k, uint8_t *map)
{
    const bool once = !ctx->study && s; /* frames that were in the tier OLD stay there */
    int64_t m = 0;

    memset(map, KVR_TOKEN_ZERO, (size_t)ctx->n_tok);
    for (int64_t f = 0; f < n; f++) {
        const bool fine = !once || s->level[f] == KVR_FRAME_FINE;

        kvr_frame_fill(ctx, f, fine && f >= n - n_recent ? RECENT : OLD, map);
        if (s && fine && f < n - n_recent)
            s->rank[m++] = (struct kvr_ranked){ s->score[f], (int32_t)f };
    }
    if (!s)
        return;
    kvr_topk(s->rank, m);
    for (int64_t i = 0; i < m && i < k; i++)
        kvr_frame_fill(ctx, s->rank[i].index, IMPORTANT, map);
    for (int64_t f = 0; f < n && once; f++)
        if (map[f * ctx->tokens_per_frame] == OLD && s->level[f] == KVR_FRAME_FINE)
            s->level[f] = KVR_FRAME_COARSE;
}

static enum kvr_status saliency_assign(const void *opts, const struct kvr_policy_ctx *ctx,
                                       struct kvr_dev *dev, struct kvr_policy_state *state,
                                       uint8_t *map)
{
    const struct saliency_opts *o = opts;
    const struct kvr_saliency_rule rule = { o->delta_weight, o->recency_weight,
                                            o->refresh == EVERY_CALL };
    const int64_t n = kvr_frames(ctx);
    const double share = o->recent * ctx->beta < 1 ? o->recent * ctx->beta : 1;
    const int64_t n_recent = kvr_share(share * (double)n, 1, n), n_old = n - n_recent;
    struct kvr_saliency s;

    if (!(o->important > 0) || n == 0) {
        plan(ctx, NULL, n, n_recent, 0, map);
        return KVR_OK;
    }
    KVR_TRY(kvr_saliency_score(&rule, ctx, dev, state, &s));
    plan(ctx, &s, n, n_recent, kvr_share(o->important * ctx->beta * (double)n_old, 1, n_old), map);
    kvr_saliency_publish(state);
    return KVR_OK;
}

/* Returns the bytes of side information in the study's format. With important=0 (the method
 * HYBRID), the format has a mask, with 1 byte for each token that the cache can store, and an
 * 8-byte index per written token. Otherwise it has an 8-byte index per stored token. */
static size_t saliency_side_bytes(const void *opts, const struct kvr_study_counts *n)
{
    const struct saliency_opts *o = opts;

    if (o->important > 0)
        return 8 * (size_t)n->stored;
    return (size_t)n->capacity + 8 * (size_t)n->active;
}

const struct kvr_tiers kvr_tiers_saliency = {
    .name = "saliency",
    .title = "newest frames, most salient frames and other frames in separate tiers",
    .options = options,
    .opts_size = sizeof(struct saliency_opts),
    .n_tiers = 3,
    .tier_names = { "old", "recent", "important" },
    .unit = KVR_UNIT_FRAME,
    .active_only = true,
    .assign = saliency_assign,
    .cuda = true,
    .study_side_bytes = saliency_side_bytes,
};
