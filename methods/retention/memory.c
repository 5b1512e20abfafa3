/* memory.c - the retention `memory`: exponential moving averages of evicted tokens stay in the
 * cache.
 *
 * The cache stores the first `sink` frames, the newest `recent` frames, and averages of evicted
 * frames:
 *
 *     rule=sinks     Each sink frame S is a moving average: for an evicted frame E,
 *                    S <- rate E + (1 - rate) S  at every position
 *                    (Reward-Forcing, wan/modules/causal_model.py at 4317f5a: rate .001).
 *     rule=frames    Two average frames, long and short, follow the sink. Let m be the mean key and
 *                    value of the tokens just evicted, one vector per head. Both averages start as
 *                    m; then  long <- slow m + (1 - slow) long  and
 *                    short <- fast m + (1 - fast) short.  All positions of an average frame have
 *                    the same vector (MemRoPE, memrope_kvcache.py of NVIDIA/flashdreams at
 *                    802981a). The two frames after the sink are evicted first, to make room for
 *                    the average frames, and enter no average.
 *
 * Nothing is evicted before the number of stored frames exceeds `sink` + `recent`, plus 2 with
 * rule=frames. Averages are over keys before RoPE. The authors cache keys before RoPE and rotate
 * each key by its position in the cache when attention reads it. Here keys are stored after RoPE.
 * Before averaging, a key's RoPE rotation is undone (kernels/rope.h). At every chunk the keys of
 * the sink frames and of the average frames (rule=frames) are rotated to the times right before the
 * recent frames. The temporal distance between any two cached frames is therefore the same as in
 * the authors' code.
 *
 * If the number of frames per chunk is not `sink`, Reward-Forcing overwrites sink frames by evicted
 * frames instead of averaging. Here each evicted frame is averaged into one sink frame; consecutive
 * evicted frames update consecutive sink frames, cyclically.
 *
 * The policy state contains the averages, and the index of the oldest frame after the sink that was
 * not evicted. With rule=sinks, the averages are the keys and values of the sink frames. With
 * rule=frames, they are four vectors per head: key and value, long and short. Averages are F32, or
 * BF16 as in the original, which rounds every product and sum to BF16. With a rate of .001, most
 * updates of a BF16 average round to no change. If a chunk is stored again, evicted frames are not
 * averaged again. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/dtype.h"
#include "methods/kernels/rope.h"
#include "methods/policy.h"

enum { SINKS, FRAMES };
enum { F32, BF16 };

struct memory_opts {
    int rule, sink, recent;
    double rate, slow, fast;
    int state, row;
};

static const char *const rule_names[] = { "sinks", "frames", NULL };
static const char *const state_names[] = { "f32", "bf16", NULL };

static const struct kvr_opt options[] = {
    KVR_OPT_ENUM(struct memory_opts, rule, SINKS, rule_names,
                 "where moving averages of dropped frames are stored: in the sink frames (sinks) "
                 "or in two extra frames (frames)"),
    KVR_OPT_INT(struct memory_opts, sink, 3, 1, 4096,
                "number of first latent frames that stay in the cache (sink)"),
    KVR_OPT_INT(struct memory_opts, recent, 3, 1, 4096,
                "number of newest latent frames that stay in the cache, besides the current chunk"),
    KVR_OPT_FLOAT(struct memory_opts, rate, 0.001, 0, 1,
                  "for rule=sinks: weight of a newly dropped frame in the moving average that a "
                  "sink frame stores"),
    KVR_OPT_FLOAT(struct memory_opts, slow, 0.01, 0, 1,
                  "for rule=frames: weight of newly dropped tokens in the slowly changing moving "
                  "average, which the first extra frame stores"),
    KVR_OPT_FLOAT(struct memory_opts, fast, 0.1, 0, 1,
                  "for rule=frames: weight of newly dropped tokens in the fast changing moving "
                  "average, which the second extra frame stores"),
    KVR_OPT_ENUM(struct memory_opts, state, F32, state_names,
                 "data type in which the moving averages of dropped frames are stored"),
    KVR_OPT_INT(struct memory_opts, row, 0, 0, 1 << 20,
                "number of tokens per row of a latent frame, which must divide the frame's number "
                "of tokens; 0 chooses 52 for frames of 1560 tokens (Wan), otherwise the divisor "
                "that makes the frame most nearly square"),
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

/* ---- positions ----------------------------------------------------------------------------- */

/* Cosines and sines of the RoPE angles at one position. */
struct angles {
    int head_dim;
    double *cosines, *sines; /* [D/2] each; one allocation, which starts at `cosines` */
};

static enum kvr_status angles_open(struct angles *a, int head_dim)
{
    const size_t n = (size_t)(head_dim / 2) + 1;

    a->head_dim = head_dim;
    a->cosines = malloc(2 * n * sizeof *a->cosines);
    a->sines = a->cosines ? a->cosines + n : NULL;
    return a->cosines
               ? KVR_OK
               : kvr_fail(KVR_ENOMEM,
                          "memory: out of memory while allocating RoPE angles of %d channels",
                          head_dim);
}

static void set_place(const struct angles *a, int64_t frame, int row, int col)
{
    kvr_rope_angles(a->head_dim, (int)frame, row, col, a->cosines, a->sines);
}

static void rotate(const struct angles *a, const float *from, bool back, float *to)
{
    kvr_rope_rotate(from, a->head_dim, a->cosines, a->sines, back, to);
}

/* ---- averages ------------------------------------------------------------------------------ */

static float rounded(float x)
{
    return kvr_bf16_to_f32(kvr_f32_to_bf16(x));
}

/* Average vectors of d elements, stored as F32 or BF16. */
struct means {
    void *at;
    bool bf16;
    int d;
};

static size_t vector_bytes(const struct memory_opts *o, int d)
{
    return (size_t)d * (o->state == BF16 ? sizeof(kvr_bf16) : sizeof(float));
}

static void *vector_at(const struct means *m, int64_t i)
{
    return (char *)m->at + (size_t)(i * m->d) * (m->bf16 ? sizeof(kvr_bf16) : sizeof(float));
}

static void load(const struct means *m, int64_t i, float *x)
{
    kvr_to_f32(x, vector_at(m, i), m->bf16 ? KVR_BF16 : KVR_F32, (size_t)m->d);
}

static void store_mean(const struct means *m, int64_t i, const float *x)
{
    kvr_from_f32(vector_at(m, i), m->bf16 ? KVR_BF16 : KVR_F32, x, (size_t)m->d);
}

/* Sets average i to rate * x + (1 - rate) * (average i). The array work [D] is scratch memory. */
static void update_mean(const struct means *m, int64_t i, const float *x, double rate, float *work)
{
    load(m, i, work);
    for (int c = 0; c < m->d; c++)
        work[c] = m->bf16
                      ? rounded((float)rate * rounded(x[c])) + rounded((float)(1 - rate) * work[c])
                      : (float)(rate * x[c] + (1 - rate) * work[c]);
    store_mean(m, i, work);
}

/* ---- one call ------------------------------------------------------------------------------ */

struct header {
    int64_t end; /* frames before `end`, except sink frames, were evicted; 0 before the first
                  * eviction */
};

struct work {
    const struct memory_opts *o;
    const struct kvr_policy_ctx *ctx;
    struct header *head;
    struct means means; /* averages [H][sink S][k, v] with rule=sinks, [H][long, short][k, v] with
                         * rule=frames */
    struct angles angles;
    float *raw;   /* [3 D]: a key, a value, scratch of update_mean() */
    double *sums; /* rule=frames: [H][k, v][D] sums over the frames that this chunk evicts */
    int64_t end;  /* frames before `end`, except sink frames, are not in the cache after this
                   * chunk */
    /* `first` is the new time of the first sink frame, after this chunk. `before` is its previous
     * time, to which its stored keys are rotated. */
    int64_t first, before;
    int row; /* rule=frames: number of tokens per row of a latent frame */
};

static const float *key(const struct work *w, int64_t token, int h)
{
    return w->ctx->all_keys + (token * w->ctx->n_heads + h) * w->ctx->head_dim;
}

static const float *value(const struct work *w, int64_t token, int h)
{
    return w->ctx->all_values + (token * w->ctx->n_heads + h) * w->ctx->head_dim;
}

/* Returns the maximum number of stored frames after the first eviction. */
static int64_t budget_frames_of(const struct memory_opts *o)
{
    return o->sink + (o->rule == FRAMES ? 2 : 0) + o->recent;
}

static enum kvr_status open_state(const struct memory_opts *o, const struct kvr_policy_ctx *ctx,
                                  struct kvr_dev *dev, struct kvr_policy_state *state)
{
    const size_t vectors =
        2 * (size_t)ctx->n_heads *
        (o->rule == FRAMES ? 2 : (size_t)o->sink * (size_t)ctx->tokens_per_frame);
    const size_t n = sizeof(struct header) + vectors * vector_bytes(o, ctx->head_dim);

    KVR_TRY(kvr_buf_alloc(&state->buf, dev, KVR_MEM_META, n));
    memset(state->buf.p, 0, n);
    state->n = 1;
    return KVR_OK;
}

/* ---- rule sinks ---------------------------------------------------------------------------- */

/* Initializes the averages with the sink frames, whose keys are rotated back to time 0. */
static void begin_sinks(const struct work *w)
{
    const int64_t n = (int64_t)w->o->sink * w->ctx->tokens_per_frame;

    for (int64_t t = 0; t < n; t++) {
        set_place(&w->angles, t / w->ctx->tokens_per_frame, 0, 0);
        for (int h = 0; h < w->ctx->n_heads; h++) {
            rotate(&w->angles, key(w, t, h), true, w->raw);
            store_mean(&w->means, 2 * (h * n + t), w->raw);
            store_mean(&w->means, 2 * (h * n + t) + 1, value(w, t, h));
        }
    }
}

static void fold_frame(const struct work *w, int64_t frame)
{
    const int S = w->ctx->tokens_per_frame, d = w->ctx->head_dim;
    const int64_t n = (int64_t)w->o->sink * S, slot = (frame - w->o->sink) % w->o->sink;

    set_place(&w->angles, frame, 0, 0);
    for (int64_t s = 0; s < S; s++)
        for (int h = 0; h < w->ctx->n_heads; h++) {
            const int64_t at = 2 * (h * n + slot * S + s), t = frame * S + s;

            rotate(&w->angles, key(w, t, h), true, w->raw);
            update_mean(&w->means, at, w->raw, w->o->rate, w->raw + 2 * d);
            update_mean(&w->means, at + 1, value(w, t, h), w->o->rate, w->raw + 2 * d);
        }
}

static void learn_sinks(const struct work *w)
{
    if (!w->head->end)
        begin_sinks(w);
    for (int64_t f = w->head->end ? w->head->end : w->o->sink; f < w->end; f++)
        fold_frame(w, f);
}

static enum kvr_status hold_sinks(const struct work *w)
{
    const int S = w->ctx->tokens_per_frame, d = w->ctx->head_dim;
    const int64_t n = (int64_t)w->o->sink * S;
    const bool empty = w->ctx->counts_only;

    for (int h = 0; h < w->ctx->n_heads; h++)
        for (int64_t t = 0; t < n; t++) {
            if (!empty && t % S == 0)
                set_place(&w->angles, w->first + t / S, 0, 0);
            if (!empty) {
                load(&w->means, 2 * (h * n + t), w->raw);
                load(&w->means, 2 * (h * n + t) + 1, w->raw + d);
                rotate(&w->angles, w->raw, false, w->raw);
            }
            KVR_TRY(kvr_summaries_add(w->ctx->summaries, h, t, 1, d, empty ? NULL : w->raw,
                                      w->raw + d));
        }
    return KVR_OK;
}

/* ---- rule frames --------------------------------------------------------------------------- */

/* Updates both averages of every head with the mean over the frames that this chunk evicts. */
static void learn_frames(const struct work *w)
{
    const int S = w->ctx->tokens_per_frame, d = w->ctx->head_dim, H = w->ctx->n_heads;
    const int row = w->row;
    const int64_t begin = w->head->end ? w->head->end : w->o->sink + 2;

    if (begin >= w->end)
        return;
    assert(row > 0); /* kvr_frame_row() */
    memset(w->sums, 0, 2 * (size_t)(H * d) * sizeof *w->sums);
    for (int64_t t = begin * S; t < w->end * S; t++) {
        set_place(&w->angles, t / S, (int)(t % S) / row, (int)(t % S) % row);
        for (int h = 0; h < H; h++) {
            rotate(&w->angles, key(w, t, h), true, w->raw);
            for (int c = 0; c < d; c++) {
                w->sums[2 * h * d + c] += w->raw[c];
                w->sums[(2 * h + 1) * d + c] += value(w, t, h)[c];
            }
        }
    }
    for (int i = 0; i < 2 * H; i++) {
        const int64_t at = 4 * (i / 2) + i % 2; /* index of the long average of head i / 2 (key if i
                                                 * is even, else value); the short average has index
                                                 * at + 2 */

        for (int c = 0; c < d; c++)
            w->raw[c] = (float)(w->sums[i * d + c] / (double)((w->end - begin) * S));
        if (!w->head->end) {
            store_mean(&w->means, at, w->raw);
            store_mean(&w->means, at + 2, w->raw);
            continue;
        }
        update_mean(&w->means, at, w->raw, w->o->slow, w->raw + 2 * d);
        update_mean(&w->means, at + 2, w->raw, w->o->fast, w->raw + 2 * d);
    }
}

/* Returns the RoPE angles of position i of the two average frames, 0 <= i < 2 S. All heads use the
 * same angles. */
static struct angles angles_at(const struct work *w, double *positions, int64_t i)
{
    const int64_t half = w->ctx->head_dim / 2;

    return (struct angles){ w->ctx->head_dim, positions + 2 * half * i,
                            positions + 2 * half * i + half };
}

static void set_positions(const struct work *w, double *positions)
{
    const int S = w->ctx->tokens_per_frame, row = w->row;

    assert(row > 0);
    for (int i = 0; i < 2 * S; i++) {
        const struct angles a = angles_at(w, positions, i);

        set_place(&a, w->first + w->o->sink + i / S, i % S / row, i % S % row);
    }
}

/* Appends head h's sink frames, rotated to their new times, and two average frames to
 * ctx->summaries. All tokens of an average frame have the same average, with its key rotated to the
 * token's position. `positions` has the RoPE angles of the average frames, or is NULL for calls
 * without keys and values (counts_only). */
static enum kvr_status hold_head(const struct work *w, int h, double *positions)
{
    const int S = w->ctx->tokens_per_frame, d = w->ctx->head_dim;
    const int64_t n_sink = (int64_t)w->o->sink * S;

    if (positions)
        set_place(&w->angles, w->first - w->before, 0, 0);
    for (int64_t t = 0; t < n_sink; t++) {
        if (positions)
            rotate(&w->angles, key(w, t, h), false, w->raw);
        KVR_TRY(kvr_summaries_add(w->ctx->summaries, h, t, 1, d, positions ? w->raw : NULL,
                                  positions ? value(w, t, h) : NULL));
    }
    for (int64_t i = 0; i < 2L * S; i++) {
        if (positions) {
            const struct angles a = angles_at(w, positions, i);

            load(&w->means, 4 * h + 2 * (i / S), w->raw);
            load(&w->means, 4 * h + 2 * (i / S) + 1, w->raw + d);
            rotate(&a, w->raw, false, w->raw);
        }
        KVR_TRY(kvr_summaries_add(w->ctx->summaries, h, n_sink + i, 1, d, positions ? w->raw : NULL,
                                  w->raw + d));
    }
    return KVR_OK;
}

static enum kvr_status hold_frames(const struct work *w)
{
    const size_t n = 2 * (size_t)w->ctx->tokens_per_frame * 2 * (size_t)(w->ctx->head_dim / 2);
    double *positions = NULL;
    enum kvr_status st = KVR_OK;

    if (!w->ctx->counts_only) {
        positions = malloc((n + 1) * sizeof *positions);
        if (!positions)
            return kvr_fail(KVR_ENOMEM,
                            "memory: out of memory while allocating RoPE angles of %d channels",
                            w->ctx->head_dim);
        set_positions(w, positions);
    }
    for (int h = 0; h < w->ctx->n_heads && st == KVR_OK; h++)
        st = hold_head(w, h, positions);
    free(positions);
    return st;
}

static enum kvr_status work_open(struct work *w, const struct kvr_policy_state *state)
{
    const struct kvr_policy_ctx *ctx = w->ctx;
    const int64_t frames = ctx->n_active / ctx->tokens_per_frame,
                  budget_frames = budget_frames_of(w->o);
    const int64_t stored = ctx->n_stored / ctx->tokens_per_frame;
    const size_t d = (size_t)ctx->head_dim;

    w->head = state->buf.p;
    w->means = (struct means){ w->head + 1, w->o->state == BF16, ctx->head_dim };
    w->end = frames - w->o->recent;
    w->first = frames - budget_frames;
    w->before = stored > budget_frames ? stored - budget_frames : 0;
    w->raw = malloc(3 * d * sizeof *w->raw);
    w->sums = malloc(2 * (size_t)ctx->n_heads * d * sizeof *w->sums);
    if (!w->raw || !w->sums)
        return kvr_fail(KVR_ENOMEM, "memory: out of memory while allocating %d heads",
                        ctx->n_heads);
    return angles_open(&w->angles, ctx->head_dim);
}

static enum kvr_status thin(const void *opts, const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                            struct kvr_policy_state *state, uint8_t *keep)
{
    const struct memory_opts *o = opts;
    struct work w = { .o = o, .ctx = ctx };
    enum kvr_status st;

    if (o->rule == FRAMES)
        KVR_TRY(kvr_frame_row("memory", ctx->tokens_per_frame, o->row, &w.row));
    if (ctx->n_active / ctx->tokens_per_frame <= budget_frames_of(o))
        return KVR_OK;
    if (!state->n)
        KVR_TRY(open_state(o, ctx, dev, state));
    st = work_open(&w, state);
    if (st == KVR_OK) {
        memset(keep, 0, (size_t)(w.end * ctx->tokens_per_frame * ctx->n_heads));
        if (!ctx->counts_only)
            (o->rule == SINKS ? learn_sinks : learn_frames)(&w);
        w.head->end = w.end > w.head->end ? w.end : w.head->end;
        st = (o->rule == SINKS ? hold_sinks : hold_frames)(&w);
    }
    free(w.raw);
    free(w.sums);
    free(w.angles.cosines);
    return st;
}

const struct kvr_retention kvr_retention_memory = {
    .name = "memory",
    .title = "keeps sinks, the newest frames and running means of dropped frames",
    .options = options,
    .opts_size = sizeof(struct memory_opts),
    .unit = KVR_UNIT_TOKEN,
    .thin = thin,
    .needs = needs,
    .position = "in cache",
    .cuda = true,
};
