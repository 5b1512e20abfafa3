/* adaptive_sink.c - the retention `adaptive_sink`: a window with sink frames, in which a new frame
 * may replace the least similar sink frame (StreamDiffusionV2, models/wan/causal_model.py at
 * c5a0f20d).
 *
 * There are `sink` sink frames. The similarity of a new frame to sink frame i is
 *
 *     a_i = (cos(mean K_i, mean K_new) + cos(mean V_i, mean V_new)) / 2
 *
 * where the means are over the tokens of a frame, and the cosines are over the channels of all
 * heads. If the smallest a_i is below `threshold`, sink frame i is evicted and the new frame
 * becomes a sink frame. Otherwise the new frame enters the window of the newest `recent` frames.
 * The first `sink` frames are the initial sink frames. No sink frame is replaced before the window
 * is full, so the number of stored frames is known in advance.
 *
 * As in the original, keys are compared after RoPE, which makes frames that are far apart in time
 * less similar. The original generates one frame at a time and applies the rule in every forward
 * pass. Here the frames of a chunk are processed one by one when the chunk is stored. A frame does
 * not replace a frame of the same chunk.
 *
 * The policy state contains the sink frames before and after the newest chunk, with their mean keys
 * and values. The sink frames before the chunk are needed if the chunk is stored again. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/rng.h"
#include "methods/policy.h"

struct adaptive_opts {
    int sink, recent;
    double threshold;
};

static const struct kvr_opt options[] = {
    KVR_OPT_INT(struct adaptive_opts, sink, 3, 1, 4096,
                "number of sink frames, which stay in the cache unless newer frames replace them "
                "(option threshold); initially the video's first frames"),
    KVR_OPT_INT(struct adaptive_opts, recent, 3, 1, 4096,
                "number of newest latent frames that stay in the cache, besides sinks"),
    KVR_OPT_FLOAT(struct adaptive_opts, threshold, 0.2, -2, 2,
                  "cosine similarity below which a new frame replaces the sink frame that is least "
                  "similar to it; -2 means never"),
    { 0 },
};

static void needs(const void *opts, struct kvr_thin_needs *out)
{
    (void)opts;
    *out = (struct kvr_thin_needs){
        .by_data = true, .keys = true, .values = true, .beyond_window = true
    };
}

/* The sink frames at one point of the rollout. The policy state has two such sets: before and after
 * the newest chunk. Slot i has a frame index, or -1 if the slot is empty, and the frame's mean key
 * and mean value. */
struct set {
    int64_t *frames; /* number of frames written at that point of the rollout */
    int64_t *frame;  /* [sink] */
    float *mean;     /* [sink][2][H][D] */
};

static size_t mean_floats(const struct kvr_policy_ctx *ctx)
{
    return 2 * (size_t)ctx->n_heads * (size_t)ctx->head_dim;
}

static size_t set_bytes(const struct adaptive_opts *o, const struct kvr_policy_ctx *ctx)
{
    const size_t floats = (size_t)o->sink * mean_floats(ctx); /* even, so that the next set is
                                                               * aligned to 8 bytes */

    return (1 + (size_t)o->sink) * sizeof(int64_t) + floats * sizeof(float);
}

static struct set set_at(const struct adaptive_opts *o, const struct kvr_policy_ctx *ctx,
                         const struct kvr_policy_state *state, int i)
{
    int64_t *p = (int64_t *)((char *)state->buf.p + (size_t)i * set_bytes(o, ctx));

    return (struct set){ p, p + 1, (float *)(p + 1 + o->sink) };
}

static void forget(const struct adaptive_opts *o, const struct set *s, int64_t frames)
{
    *s->frames = frames;
    for (int i = 0; i < o->sink; i++)
        s->frame[i] = -1;
}

/* Sets *out to a copy of the sink frames before this chunk, which the caller updates. */
static enum kvr_status begin(const struct adaptive_opts *o, const struct kvr_policy_ctx *ctx,
                             struct kvr_dev *dev, struct kvr_policy_state *state, struct set *out)
{
    const int64_t frame0 = ctx->new0 / ctx->tokens_per_frame;
    struct set s[2];
    int from;

    if (!state->n) {
        KVR_TRY(kvr_buf_alloc(&state->buf, dev, KVR_MEM_META, 2 * set_bytes(o, ctx)));
        state->n = 1;
        for (int i = 0; i < 2; i++) {
            s[i] = set_at(o, ctx, state, i);
            forget(o, &s[i], i - 1);
        }
    }
    for (int i = 0; i < 2; i++)
        s[i] = set_at(o, ctx, state, i);
    from = *s[0].frames == frame0 ? 0 : 1;
    *out = s[1 - from];
    if (*s[from].frames == frame0)
        memcpy(out->frames, s[from].frames, set_bytes(o, ctx));
    else
        forget(o, out, frame0);
    *out->frames = ctx->n_active / ctx->tokens_per_frame;
    return KVR_OK;
}

/* Writes the mean key and the mean value of a new frame over its tokens to mean [2][H][D]. */
static void mean_of(const struct kvr_policy_ctx *ctx, int64_t frame, float *mean)
{
    const int S = ctx->tokens_per_frame;
    const int64_t width = (int64_t)ctx->n_heads * ctx->head_dim, first = frame * S - ctx->new0;

    for (int64_t c = 0; c < 2 * width; c++) {
        const float *x = c < width ? ctx->k + c : ctx->v + c - width;
        double sum = 0;

        for (int64_t s = 0; s < S; s++)
            sum += x[(first + s) * width];
        mean[c] = (float)(sum / S);
    }
}

static double cosine(const float *a, const float *b, size_t n)
{
    double ab = 0, aa = 0, bb = 0;

    for (size_t i = 0; i < n; i++) {
        ab += (double)a[i] * b[i];
        aa += (double)a[i] * a[i];
        bb += (double)b[i] * b[i];
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}

/* Returns a random similarity in [0, 1), for calls that have no keys and values (counts_only). */
static double drawn(const struct kvr_policy_ctx *ctx, int64_t frame, int slot)
{
    float u;

    kvr_uniform(&u, 1, 4, KVR_RNG_KEEP, (uint32_t)ctx->layer, (uint32_t)slot, (uint64_t)frame);
    return u;
}

/* Returns the index of the sink slot that the new frame replaces, or -1 if it replaces none. Empty
 * slots are used first. A sink frame of the current chunk is not replaced. */
static int slot_of(const struct adaptive_opts *o, const struct kvr_policy_ctx *ctx,
                   const struct set *s, int64_t frame, const float *mean)
{
    const size_t n = mean_floats(ctx) / 2;
    double least = o->threshold;
    int slot = -1;

    for (int i = 0; i < o->sink; i++)
        if (s->frame[i] < 0)
            return i;
    if (frame < o->sink + o->recent) /* the window fills first */
        return -1;
    for (int i = 0; i < o->sink; i++) {
        const float *its = s->mean + (size_t)i * 2 * n;
        const double like = ctx->counts_only
                                ? drawn(ctx, frame, i)
                                : (cosine(its, mean, n) + cosine(its + n, mean + n, n)) / 2;

        if (like < least && s->frame[i] < ctx->new0 / ctx->tokens_per_frame) {
            least = like;
            slot = i;
        }
    }
    return slot;
}

static bool is_sink(const struct adaptive_opts *o, const struct set *s, int64_t frame)
{
    for (int i = 0; i < o->sink; i++)
        if (s->frame[i] == frame)
            return true;
    return false;
}

static enum kvr_status thin(const void *opts, const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                            struct kvr_policy_state *state, uint8_t *keep)
{
    const struct adaptive_opts *o = opts;
    const int S = ctx->tokens_per_frame;
    const int64_t n = ctx->n_active / S;
    float *mean = malloc(mean_floats(ctx) * sizeof *mean);
    int64_t others = 0;
    struct set s = { 0 };
    enum kvr_status st =
        mean ? begin(o, ctx, dev, state, &s)
             : kvr_fail(KVR_ENOMEM, "adaptive_sink: out of memory while allocating the mean keys");

    for (int64_t f = ctx->new0 / S; f < n && st == KVR_OK; f++) {
        int slot;

        if (!ctx->counts_only)
            mean_of(ctx, f, mean);
        slot = slot_of(o, ctx, &s, f, mean);
        if (slot < 0)
            continue;
        if (s.frame[slot] >= 0)
            memset(keep + s.frame[slot] * S, 0, (size_t)S);
        s.frame[slot] = f;
        if (!ctx->counts_only)
            memcpy(s.mean + (size_t)slot * mean_floats(ctx), mean, mean_floats(ctx) * sizeof *mean);
    }
    for (int64_t f = n - 1; f >= 0 && st == KVR_OK; f--) { /* newest first */
        if (is_sink(o, &s, f))
            continue;
        if (keep[f * S] && others < o->recent)
            others++;
        else
            memset(keep + f * S, 0, (size_t)S);
    }
    free(mean);
    return st;
}

const struct kvr_retention kvr_retention_adaptive_sink = {
    .name = "adaptive_sink",
    .title = "newest frames and sinks; a new frame may replace the sink frame that is least "
             "similar to it",
    .options = options,
    .opts_size = sizeof(struct adaptive_opts),
    .unit = KVR_UNIT_TOKEN,
    .thin = thin,
    .needs = needs,
    .cuda = true,
};
