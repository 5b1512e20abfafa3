/* fade.c - the retention `fade`: stores the past in a fixed number of frames by merging older
 * frames.
 *
 * FadeMem (arXiv:2606.10671, wan/modules/fademem_memory.py at 299ecef). Every frame of a stored
 * chunk becomes an entry, whose span is 1 frame. Let c_i be the time of entry i in frames, and G
 * the index of the frame after the chunk; the age of entry i is G - c_i. While there are more than
 * `slots` entries, two temporal neighbours are merged: the pair with the smallest difference d,
 * excluding the newest pair:
 *
 *     d = |(G - c_i)^fading - (G - c_(i+1))^fading|
 *     k, v <- (a x_a + b x_b) / (a + b)  at every position
 *
 * where x_a and x_b are the keys (or values) of the two entries, and a and b are the spans of the
 * entries raised to the power `weight`.
 *
 * The merged entry's time c is the rounded mean of both times, weighted by span, and its span is
 * the sum of both spans. The first frame is an anchor: if an entry is merged into it, only its span
 * changes.
 *
 * Before keys are merged, their RoPE rotation along time is undone, but not the one along rows and
 * columns. While there are fewer than `slots` entries or G is below 18, attention reads every entry
 * with keys rotated to its time c. From then on, FadeMem rotates queries to time 18, keys of the
 * anchor to 0, and keys of the newest three entries to 15, 16 and 17, the newest to 17. Every other
 * entry gets an assigned age g from 4 to 17, oldest entry first. FadeMem chooses the g for which
 * g^fading is nearest to (true age)^fading. A newer entry always gets a smaller age. Here queries
 * keep their true times, and keys are rotated so that their temporal distances from the query equal
 * those in FadeMem.
 *
 * The authors cache keys before RoPE. Here stored keys are rotated from their old to their new
 * time, which rounds them once per chunk. A token of an entry has multiplicity 1, as in the
 * original. If a chunk is stored again, its frames are not merged again.
 *
 * The policy state contains each entry's time, span and read time (the time to which its stored
 * keys are rotated). Entry i is stored at the token indices of frame i. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "methods/kernels/rope.h"
#include "methods/policy.h"

enum { MAX_SLOTS = 64, NEWEST = 3, NOW = 18, YOUNGEST = 4, OLDEST = 17 };

struct fade_opts {
    int slots;
    double fading, weight;
};

static const struct kvr_opt options[] = {
    KVR_OPT_INT(struct fade_opts, slots, 12, 5, MAX_SLOTS,
                "maximum number of stored entries; an entry is a frame, or several merged frames"),
    KVR_OPT_FLOAT(struct fade_opts, fading, 0.3, 0.01, 4,
                  "exponent p: the two neighbouring entries whose age^p differs least are merged"),
    KVR_OPT_FLOAT(struct fade_opts, weight, 0.5, 0, 4,
                  "exponent w: when entries are merged, an entry of n frames has the weight n^w"),
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

/* ---- merging rule -------------------------------------------------------------------------- */

struct entry {
    int64_t centre, span, read_time; /* time c; number of merged frames; time to which the stored
                                      * keys are rotated */
};

struct memory {
    int64_t end; /* number of frames of the rollout that were added to the entries */
    int64_t n;
    struct entry at[MAX_SLOTS + 1];
};

static double age_scale(const struct fade_opts *o, int64_t age)
{
    return pow((double)age, o->fading);
}

/* Returns the index of the older entry of the pair to merge. The newest pair is excluded. */
static int nearest_pair(const struct fade_opts *o, const struct memory *m, int64_t now)
{
    double least = INFINITY;
    int best = 0;

    for (int i = 0; i + 2 < m->n; i++) {
        const double d =
            fabs(age_scale(o, now - m->at[i].centre) - age_scale(o, now - m->at[i + 1].centre));

        if (d < least) {
            least = d;
            best = i;
        }
    }
    return best;
}

/* Merges the time and span of entry i + 1 into entry i, and removes entry i + 1. */
static void merge_entries(struct memory *m, int i)
{
    struct entry *a = &m->at[i];
    const struct entry b = m->at[i + 1];

    if (i > 0)
        a->centre = (int64_t)rint((double)(a->span * a->centre + b.span * b.centre) /
                                  (double)(a->span + b.span));
    a->span += b.span;
    memmove(a + 1, a + 2, (size_t)(m->n - i - 2) * sizeof *a);
    m->n--;
}

/* Sets the read time of every entry, to which its keys are rotated, for the chunk that starts at
 * frame `now`. */
static void set_places(const struct fade_opts *o, struct memory *m, int64_t now)
{
    int64_t before = NOW;

    for (int i = 0; i < m->n; i++)
        m->at[i].read_time = m->at[i].centre;
    if (now < NOW || m->n < o->slots)
        return;
    m->at[0].read_time = now - NOW;
    for (int i = 0; i < NEWEST; i++)
        m->at[m->n - NEWEST + i].read_time = now - NEWEST + i;
    for (int64_t i = 1; i < m->n - NEWEST; i++) {
        const int64_t left = m->n - NEWEST - 1 - i, age = now - m->at[i].centre;
        const double own = age_scale(o, age < YOUNGEST ? YOUNGEST : age > OLDEST ? OLDEST : age);
        int64_t best = YOUNGEST + left;

        for (int64_t g = best; g < before; g++)
            if (fabs(age_scale(o, g) - own) < fabs(age_scale(o, best) - own))
                best = g;
        m->at[i].read_time = now - best;
        before = best;
    }
}

/* ---- one call ------------------------------------------------------------------------------ */

struct work {
    const struct fade_opts *o;
    const struct kvr_policy_ctx *ctx;
    float *k, *v;            /* keys and values of one head's entries: [slots + 1][S][D] */
    double *cosines, *sines; /* [D / 2] */
};

/* Rotates n keys by `frames` frames along the time axis of RoPE; a negative number rotates them
 * back. */
static void rotate_keys(const struct work *w, float *k, int64_t n, int64_t frames)
{
    const int d = w->ctx->head_dim;
    const bool back = frames < 0;

    kvr_rope_angles(d, (int)(back ? -frames : frames), 0, 0, w->cosines, w->sines);
    for (int64_t t = 0; t < n; t++)
        kvr_rope_rotate(k + t * d, d, w->cosines, w->sines, back, k + t * d);
}

/* Loads the keys and values of head h in cached frame `from` into entry i. Undoes the keys' RoPE
 * rotation to time `time`. */
static void load(const struct work *w, int h, int64_t from, int64_t time, int64_t i)
{
    const struct kvr_policy_ctx *ctx = w->ctx;
    const int64_t S = ctx->tokens_per_frame, d = ctx->head_dim;
    float *k = w->k + i * S * d, *v = w->v + i * S * d;

    for (int64_t s = 0; s < S; s++) {
        const int64_t at = ((from * S + s) * ctx->n_heads + h) * d;

        memcpy(k + s * d, ctx->all_keys + at, (size_t)d * sizeof *k);
        memcpy(v + s * d, ctx->all_values + at, (size_t)d * sizeof *v);
    }
    rotate_keys(w, k, S, -time);
}

/* Merges the keys and values of entry i + 1 into entry i, and moves later entries down by one. */
static void mix(const struct work *w, const struct memory *m, int64_t i)
{
    const int64_t each = (int64_t)w->ctx->tokens_per_frame * w->ctx->head_dim;
    const double a = pow((double)m->at[i].span, w->o->weight);
    const double b = pow((double)m->at[i + 1].span, w->o->weight);

    for (int64_t c = i * each; c < (i + 1) * each && i > 0; c++) {
        w->k[c] = (float)((a * w->k[c] + b * w->k[c + each]) / (a + b));
        w->v[c] = (float)((a * w->v[c] + b * w->v[c + each]) / (a + b));
    }
    memmove(w->k + (i + 1) * each, w->k + (i + 2) * each,
            (size_t)((m->n - i - 2) * each) * sizeof *w->k);
    memmove(w->v + (i + 1) * each, w->v + (i + 2) * each,
            (size_t)((m->n - i - 2) * each) * sizeof *w->v);
}

/* Adds frames [m->end, frames) to the entries one by one, and merges a pair whenever there are more
 * than `slots` entries. If w is NULL, only m is updated, without keys and values. */
static void take_in(const struct fade_opts *o, const struct work *w, int h, int64_t frames,
                    struct memory *m)
{
    for (int64_t f = m->end; f < frames; f++) {
        m->at[m->n] = (struct entry){ f, 1, f };
        if (w)
            load(w, h, f, f, m->n);
        m->n++;
        if (m->n <= o->slots)
            continue;
        const int i = nearest_pair(o, m, frames);

        if (w)
            mix(w, m, i);
        merge_entries(m, i);
    }
    m->end = frames;
}

static enum kvr_status store_head_memory(const struct work *w, int h, const struct memory *m)
{
    const struct kvr_policy_ctx *ctx = w->ctx;
    const int64_t S = ctx->tokens_per_frame, d = ctx->head_dim;

    for (int64_t i = 0; i < m->n; i++) {
        float *k = w->k + i * S * d;

        if (!ctx->counts_only)
            rotate_keys(w, k, S, m->at[i].read_time);
        for (int64_t s = 0; s < S; s++)
            KVR_TRY(kvr_summaries_add(ctx->summaries, h, i * S + s, 1, (int)d,
                                      ctx->counts_only ? NULL : k + s * d, w->v + (i * S + s) * d));
    }
    return KVR_OK;
}

/* Adds the chunk's frames to the entries before this chunk (*was), and appends the resulting
 * entries of head h to ctx->summaries. */
static enum kvr_status rewrite(const struct work *w, int h, const struct memory *was,
                               int64_t frames)
{
    struct memory m = *was;

    if (!w->ctx->counts_only)
        for (int64_t i = 0; i < m.n; i++)
            load(w, h, i, m.at[i].read_time, i);
    take_in(w->o, w->ctx->counts_only ? NULL : w, h, frames, &m);
    set_places(w->o, &m, frames);
    return store_head_memory(w, h, &m);
}

static enum kvr_status work_open(struct work *w)
{
    const size_t half = (size_t)(w->ctx->head_dim / 2) + 1;
    const size_t n =
        (size_t)(w->o->slots + 1) * (size_t)w->ctx->tokens_per_frame * (size_t)w->ctx->head_dim;

    w->cosines = malloc(2 * half * sizeof *w->cosines);
    w->k = malloc(2 * n * sizeof *w->k);
    if (!w->cosines || !w->k)
        return kvr_fail(KVR_ENOMEM, "fade: out of memory while allocating %d frames", w->o->slots);
    w->sines = w->cosines + half;
    w->v = w->k + n;
    return KVR_OK;
}

static enum kvr_status thin(const void *opts, const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                            struct kvr_policy_state *state, uint8_t *keep)
{
    const int64_t frames = ctx->n_active / ctx->tokens_per_frame;
    struct work w = { .o = opts, .ctx = ctx };
    struct memory *m;
    enum kvr_status st;

    if (frames <= w.o->slots)
        return KVR_OK;
    if (!state->n) {
        KVR_TRY(kvr_buf_alloc(&state->buf, dev, KVR_MEM_META, sizeof *m));
        m = state->buf.p;
        memset(m, 0, sizeof *m);
        take_in(w.o, NULL, 0, ctx->new0 / ctx->tokens_per_frame, m);
        set_places(w.o, m, 0);
        state->n = 1;
    }
    m = state->buf.p;
    st = work_open(&w);
    memset(keep, 0, (size_t)(frames * ctx->tokens_per_frame * ctx->n_heads));
    for (int h = 0; h < ctx->n_heads && st == KVR_OK; h++)
        st = rewrite(&w, h, m, frames);
    if (st == KVR_OK) {
        take_in(w.o, NULL, 0, frames, m);
        set_places(w.o, m, frames);
    }
    free(w.k);
    free(w.cosines);
    return st;
}

const struct kvr_retention kvr_retention_fade = {
    .name = "fade",
    .title = "stores the past in a fixed number of frames by merging older frames",
    .options = options,
    .opts_size = sizeof(struct fade_opts),
    .unit = KVR_UNIT_TOKEN,
    .thin = thin,
    .needs = needs,
    .position = "by age",
    .cuda = true,
};
