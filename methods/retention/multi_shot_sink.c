/* multi_shot_sink.c - the retention `multi_shot_sink`: a window with two sinks, the first frames of
 * the video and the first frames of the current shot (LongLive 2.0, arXiv:2605.18739,
 * wan_5b/modules/causal_model.py at 7860ad96).
 *
 * A chunk at which the prompt changes is a cut: it starts a shot. When this chunk is stored, its
 * first min(sink, frames per chunk) frames are pinned (not evicted before the next cut), and the
 * frames of the previous shot are no longer pinned. If the stored frames and the next chunk exceed
 * the window of `frames` frames, the oldest frames are evicted, except the video's first `sink`
 * frames and pinned frames. If the window has room for only the two sinks and one chunk, the newest
 * chunk itself is evicted. Without cuts this is a sliding window with a sink.
 *
 * The policy state contains the index of the first pinned frame before and after the newest chunk
 * was stored. The former is needed if the chunk is stored again. */
#include <string.h>

#include "methods/policy.h"

struct shot_opts {
    int frames, sink;
};

static const struct kvr_opt options[] = {
    KVR_OPT_INT(struct shot_opts, frames, 32, 1, 4096,
                "size of the window in latent frames, including the chunk being denoised"),
    KVR_OPT_INT(struct shot_opts, sink, 8, 0, 4096,
                "N: the first N frames of the video always stay in the cache, and so do the first "
                "N frames, at most, of the current shot"),
    { 0 },
};

static enum kvr_status check(const void *opts)
{
    const struct shot_opts *o = opts;

    if (2 * o->sink >= o->frames)
        return kvr_fail(
            KVR_EINVAL,
            "frames is %d, but must be at least %d: the window must hold two sinks of %d "
            "frames (option sink) and one newest frame; raise frames or lower sink",
            o->frames, 2 * o->sink + 1, o->sink);
    return KVR_OK;
}

static void needs(const void *opts, struct kvr_thin_needs *out)
{
    (void)opts;
    *out = (struct kvr_thin_needs){ .beyond_window = true };
}

struct pins {
    int64_t frame0;        /* first frame of the newest chunk, or -1 before the first chunk */
    int64_t before, after; /* first pinned frame before and after this chunk; -1: no pinned frame */
};

static enum kvr_status begin(const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                             struct kvr_policy_state *state, struct pins **out)
{
    const int64_t frame0 = ctx->new0 / ctx->tokens_per_frame;
    struct pins *p;

    if (!state->n) {
        KVR_TRY(kvr_buf_alloc(&state->buf, dev, KVR_MEM_META, sizeof *p));
        *(struct pins *)state->buf.p = (struct pins){ -1, -1, -1 };
        state->n = 1;
    }
    p = state->buf.p;
    if (p->frame0 != frame0) {
        p->before = p->after;
        p->frame0 = frame0;
    }
    p->after = ctx->cut ? frame0 : p->before;
    *out = p;
    return KVR_OK;
}

static enum kvr_status thin(const void *opts, const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                            struct kvr_policy_state *state, uint8_t *keep)
{
    const struct shot_opts *o = opts;
    const int S = ctx->tokens_per_frame, chunk = ctx->frames_per_chunk;
    const int pinned = o->sink < chunk ? o->sink : chunk;
    const int64_t n = ctx->n_active / S;
    int64_t over = -(int64_t)(o->frames - chunk);
    struct pins *p;

    KVR_TRY(begin(ctx, dev, state, &p));
    for (int64_t f = 0; f < n; f++)
        over += keep[f * S];
    for (int64_t f = o->sink; f < n && over > 0; f++) {
        const bool is_pinned = p->after >= 0 && f >= p->after && f < p->after + pinned;

        if (!keep[f * S] || is_pinned)
            continue;
        memset(keep + f * S, 0, (size_t)S);
        over--;
    }
    return KVR_OK;
}

const struct kvr_retention kvr_retention_multi_shot_sink = {
    .name = "multi_shot_sink",
    .title = "a window with the first frames of the video and of the current shot",
    .options = options,
    .opts_size = sizeof(struct shot_opts),
    .unit = KVR_UNIT_TOKEN,
    .check = check,
    .thin = thin,
    .needs = needs,
    .cuda = true,
};
