/* replay.c - the retention `replay`: past frames are overwritten by copies of the first frames of
 * the video, in alternately ascending and descending order.
 *
 * Rolling Sink (arXiv:2602.07775, wan/modules/causal_model.py at d7fc0d9). The window has `frames`
 * frames, including the current chunk. The policy stores copies of the video's first R = frames -
 * (frames per chunk) frames. Let c be the index of the first frame of the chunk that is being
 * stored, and i that of the previous chunk. If c >= `frames`, the previous chunk is overwritten by
 * copies of these frames:
 *
 *     floor(i / R) even   i % R, i % R + 1, ..
 *     floor(i / R) odd    R - 1 - i % R, R - 2 - i % R, ..
 *
 * The keys of the copies are rotated by RoPE to the times of the frames that they overwrite.
 * Attention thus reads the current chunk, the chunk before it, and repetitions of the first R
 * frames. The indices in this table are clamped to 0 .. R - 1.
 *
 * The policy's state contains the copies in BF16. The rotation of RoPE by the frame's time is
 * removed from their keys. The bytes of the copies count as side information. */
#include <stdlib.h>
#include <string.h>

#include "harness/core/dtype.h"
#include "methods/kernels/rope.h"
#include "methods/policy.h"

struct replay_opts {
    int frames;
};

static const struct kvr_opt options[] = {
    KVR_OPT_INT(struct replay_opts, frames, 21, 2, 4096,
                "size of the window in latent frames, including the newest chunk"),
    { 0 },
};

static void needs(const void *opts, struct kvr_thin_needs *out)
{
    (void)opts;
    *out = (struct kvr_thin_needs){ .by_head = true,
                                    .all_keys = true,
                                    .all_values = true,
                                    .summaries = true,
                                    .beyond_window = true,
                                    .undoes_rope = true };
}

struct work {
    const struct kvr_policy_ctx *ctx;
    int64_t chunk, past;     /* frames per chunk; R, the number of copied frames */
    kvr_bf16 *k, *v;         /* [R S][H][D] */
    double *cosines, *sines; /* [D / 2] */
    float *raw;              /* [2 D] */
};

static enum kvr_status work_open(struct work *w, const struct kvr_policy_state *state)
{
    const size_t d = (size_t)w->ctx->head_dim, half = d / 2 + 1;
    const size_t n = (size_t)(w->past * w->ctx->tokens_per_frame * w->ctx->n_heads) * d;

    w->k = state->buf.p;
    w->v = w->k + n;
    w->cosines = malloc(2 * half * sizeof *w->cosines);
    w->raw = malloc(2 * d * sizeof *w->raw);
    if (!w->cosines || !w->raw)
        return kvr_fail(KVR_ENOMEM, "replay: out of memory while allocating %zu channels", d);
    w->sines = w->cosines + half;
    return KVR_OK;
}

static void set_time(const struct work *w, int64_t frame)
{
    kvr_rope_angles(w->ctx->head_dim, (int)frame, 0, 0, w->cosines, w->sines);
}

/* Copies frames [f, end) to w->k and w->v, and removes the rotation of RoPE by time from the
 * keys. */
static void remember(const struct work *w, int64_t f, int64_t end)
{
    const struct kvr_policy_ctx *ctx = w->ctx;
    const int64_t S = ctx->tokens_per_frame, H = ctx->n_heads, d = ctx->head_dim;

    for (; f < end; f++) {
        set_time(w, f);
        for (int64_t i = f * S * H; i < (f + 1) * S * H; i++) {
            kvr_rope_rotate(ctx->all_keys + i * d, (int)d, w->cosines, w->sines, true, w->raw);
            kvr_from_f32(w->k + i * d, KVR_BF16, w->raw, (size_t)d);
            kvr_from_f32(w->v + i * d, KVR_BF16, ctx->all_values + i * d, (size_t)d);
        }
    }
}

/* Returns the copied frame that overwrites frame f of the chunk that starts at frame `from`. */
static int64_t stand_in(const struct work *w, int64_t from, int64_t f)
{
    const int64_t in = from % w->past;
    const int64_t at = from / w->past % 2 ? w->past - in - 1 - (f - from) : in + (f - from);

    return at < 0 ? 0 : at < w->past ? at : w->past - 1;
}

static enum kvr_status store_head(const struct work *w, int h, int64_t from)
{
    const struct kvr_policy_ctx *ctx = w->ctx;
    const int64_t S = ctx->tokens_per_frame, d = ctx->head_dim;

    for (int64_t f = from; f < from + w->chunk; f++) {
        const int64_t first = stand_in(w, from, f) * S;

        if (!ctx->counts_only)
            set_time(w, f);
        for (int64_t s = 0; s < S; s++) {
            const int64_t at = ((first + s) * ctx->n_heads + h) * d;

            if (!ctx->counts_only) {
                kvr_to_f32(w->raw, w->k + at, KVR_BF16, (size_t)d);
                kvr_to_f32(w->raw + d, w->v + at, KVR_BF16, (size_t)d);
                kvr_rope_rotate(w->raw, (int)d, w->cosines, w->sines, false, w->raw);
            }
            KVR_TRY(kvr_summaries_add(ctx->summaries, h, f * S + s, 1, (int)d,
                                      ctx->counts_only ? NULL : w->raw, w->raw + d));
        }
    }
    return KVR_OK;
}

static enum kvr_status thin(const void *opts, const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                            struct kvr_policy_state *state, uint8_t *keep)
{
    const struct replay_opts *o = opts;
    const int64_t S = ctx->tokens_per_frame, chunk = ctx->frames_per_chunk;
    const int64_t frames = ctx->n_active / S, begin = ctx->new0 / S, past = o->frames - chunk;
    const size_t width = (size_t)(ctx->n_heads * ctx->head_dim);
    struct work w = { .ctx = ctx, .chunk = chunk, .past = past };
    enum kvr_status st;

    if (past < chunk)
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "replay: frames is %d, need at least %lld: two chunks of %lld latent frames", o->frames,
            2 * (long long)chunk, (long long)chunk);
    if (!state->n) {
        const size_t n = 2 * (size_t)(past * S) * width * sizeof(kvr_bf16);

        KVR_TRY(ctx->counts_only ? kvr_buf_alloc_raw(&state->buf, dev, KVR_MEM_META, n)
                                 : kvr_buf_alloc(&state->buf, dev, KVR_MEM_META, n));
        state->n = 1;
    }
    st = work_open(&w, state);
    if (st == KVR_OK && !ctx->counts_only)
        remember(&w, begin, frames < past ? frames : past);
    if (st == KVR_OK && frames > past)
        memset(keep, 0, (size_t)((frames - past) * S * ctx->n_heads));
    if (st == KVR_OK && begin >= o->frames) {
        memset(keep + (begin - chunk) * S * ctx->n_heads, 0, (size_t)(chunk * S * ctx->n_heads));
        for (int h = 0; h < ctx->n_heads && st == KVR_OK; h++)
            st = store_head(&w, h, begin - chunk);
    }
    free(w.cosines);
    free(w.raw);
    return st;
}

const struct kvr_retention kvr_retention_replay = {
    .name = "replay",
    .title = "a window whose past frames are overwritten by copies of the video's first frames",
    .options = options,
    .opts_size = sizeof(struct replay_opts),
    .unit = KVR_UNIT_TOKEN,
    .thin = thin,
    .needs = needs,
    .position = "in turn",
    .keeps_tokens = true,
    .cuda = true,
};
