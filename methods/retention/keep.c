/* keep.c - the retention `keep`: retains the tokens with the highest scores, up to a budget.
 *
 * After every chunk, for all heads together or for each head, the retained tokens are
 *
 *     the first `sink` frames and `sink_tokens` tokens, the newest `recent` frames,
 *     and the highest-scoring other tokens within the budget.
 *
 * Evicted tokens never return. The budget in tokens is the option `tokens` if it is not 0, else
 * `share` times the number of written tokens if `share` is not 0, else `frames` times the tokens
 * per frame. The budget is multiplied by the layer's budget factor. The sink and recent tokens are
 * retained even if they exceed the budget. With unit=frame or unit=chunk, whole frames or chunks
 * are ranked by their mean score.
 *
 * With beyond=true, attention also reads retained tokens outside the attention window. With
 * beyond=false, attention reads only retained tokens within the window.
 *
 * With heads=adaptive (Ada-KV, arXiv:2407.11550; requires scope=head and unit=token), the H heads
 * of a layer share one budget, which is H times the budget per head. Each head first retains its
 * best tokens, up to `floor` times the budget per head. The remaining budget goes to the tokens
 * with the highest scores over all heads.
 *
 * `layers=last`: the last layer selects the retained tokens for all layers
 * (kvr_thin_needs.of_last).
 *
 * The policy has a state only if its score accumulates over chunks. The state contains the int32
 * indices of the n stored tokens, then their accumulators [n][G][floats per score]. G is the number
 * of heads with scope=head, and 1 with scope=layer. Every chunk computes a new state, which
 * replaces the old one when the chunk is stored. */
#include <stdlib.h>
#include <string.h>

#include "harness/core/rng.h"
#include "methods/kernels/salience_head.h"
#include "methods/kernels/share.h"
#include "methods/kernels/topk.h"
#include "methods/scores/score.h"

enum { LAYER, HEAD };
enum { TOKEN, FRAME, CHUNK };
enum { EACH, LAST };
enum { EVEN, ADAPTIVE };

struct keep_opts {
    int score, scope, unit;
    double frames, share;
    int tokens, sink, sink_tokens, recent, queries;
    bool beyond;
    int seed, pool; /* struct kvr_score_opts */
    double lambda;
    int layers, query;
    int weight, power; /* struct kvr_score_opts */
    char head[KVR_OPT_STRING_MAX];
    int heads;
    double floor;
};

#define SCORE(name) #name,
static const char *const score_names[] = {
#include "methods/scores/scores.def"
    NULL,
};
#undef SCORE
static const char *const scope_names[] = { "layer", "head", NULL };
static const char *const unit_names[] = { "token", "frame", "chunk", NULL };
static const char *const layers_names[] = { "each", "last", NULL };
static const char *const heads_names[] = { "even", "adaptive", NULL };
static const char *const query_names[] = { "spread", "newest", "frame", "chunk", NULL };
static const char *const weight_names[] = { "none",   "first",    "exponential", "polynomial",
                                            "convex", "gaussian", NULL };

static const struct kvr_opt options[] = {
    KVR_OPT_ENUM(struct keep_opts, score, 0, score_names,
                 "score by which tokens are ranked for eviction"),
    KVR_OPT_FLOAT(struct keep_opts, frames, 9, 0, 1e6,
                  "budget of kept tokens, in latent frames, including the newest chunk"),
    KVR_OPT_INT(struct keep_opts, tokens, 0, 0, 1 << 30,
                "budget of kept tokens, in tokens; if 0, the options `share` and `frames` set it"),
    KVR_OPT_FLOAT(struct keep_opts, share, 0, 0, 1,
                  "budget of kept tokens, as a fraction of all tokens written so far; if 0, the "
                  "option `frames` sets it"),
    KVR_OPT_INT(struct keep_opts, sink, 0, 0, 4096,
                "number of first latent frames that always stay in the cache (sink)"),
    KVR_OPT_INT(struct keep_opts, sink_tokens, 0, 0, 1 << 20,
                "number of first tokens that always stay in the cache (sink)"),
    KVR_OPT_INT(struct keep_opts, recent, 3, 0, 4096,
                "number of newest latent frames that always stay in the cache"),
    KVR_OPT_ENUM(struct keep_opts, unit, TOKEN, unit_names,
                 "what is kept or dropped as a whole: a token, a latent frame or a chunk"),
    KVR_OPT_ENUM(struct keep_opts, scope, LAYER, scope_names,
                 "whether all heads of a layer keep the same tokens (layer) or each head chooses "
                 "its own (head)"),
    KVR_OPT_BOOL(struct keep_opts, beyond, true,
                 "whether attention also reads kept tokens that are outside the attention window"),
    KVR_OPT_INT(struct keep_opts, queries, 50, 0, 1 << 20,
                "for query=spread and query=newest: number of queries per chunk whose attention "
                "scores the tokens; 0 means all queries"),
    KVR_OPT_INT(struct keep_opts, seed, 0, 0, 1 << 30,
                "seed of random scores (score=random) and of random weights (head=drawn)"),
    KVR_OPT_INT(struct keep_opts, pool, 1, 1, 255,
                "for score=attention_window and score=redundancy: odd window length in tokens; a "
                "token's score becomes the maximum score in the window centred on the token"),
    KVR_OPT_FLOAT(struct keep_opts, lambda, 0.07, 0, 1,
                  "for score=redundancy: weight of attention in the score; the weight of "
                  "redundancy is 1 minus this weight"),
    KVR_OPT_ENUM(struct keep_opts, layers, EACH, layers_names,
                 "whether each layer uses its own scores (each) or all layers use those of the "
                 "last layer (last)"),
    KVR_OPT_ENUM(struct keep_opts, query, KVR_QUERY_SPREAD, query_names,
                 "queries of the newest chunk that score tokens: `queries` evenly spaced ones "
                 "(spread), the last `queries` ones (newest), all of the newest frame (frame), or "
                 "all of the chunk (chunk)"),
    KVR_OPT_ENUM(struct keep_opts, weight, KVR_PLACE_NONE, weight_names,
                 "for score=redundancy: function of a token's position by which the token's score "
                 "is multiplied"),
    KVR_OPT_INT(struct keep_opts, power, 3, 1, 100,
                "for weight=polynomial and weight=convex: exponent of the function of the token's "
                "position"),
    KVR_OPT_STRING(struct keep_opts, head, KVR_SALIENCE_AUTO,
                   "for score=salience: weight file of the salience head, `auto` (bundled) or "
                   "`drawn` (random)"),
    KVR_OPT_ENUM(struct keep_opts, heads, EVEN, heads_names,
                 "for scope=head: each head has the same budget (even), or the heads of a layer "
                 "compete for a common budget (adaptive)"),
    KVR_OPT_FLOAT(struct keep_opts, floor, 0.2, 0, 1,
                  "for heads=adaptive: minimum budget of each head, as a fraction of its budget "
                  "with heads=even"),
    { 0 },
};

static enum kvr_status check(const void *opts)
{
    const struct keep_opts *o = opts;

    if (o->pool % 2 == 0)
        return kvr_fail(KVR_EINVAL, "pool %d: must be odd, since the window is centred on a token",
                        o->pool);
    if (!(o->frames > 0) && !o->tokens && !(o->share > 0))
        return kvr_fail(
            KVR_EINVAL,
            "the options frames, tokens and share are all 0; one of them must set the budget of "
            "kept tokens");
    if (o->heads == ADAPTIVE && (o->scope != HEAD || o->unit != TOKEN))
        return kvr_fail(KVR_EINVAL,
                        "heads=adaptive needs scope=head and unit=token, not scope=%s and unit=%s",
                        scope_names[o->scope], unit_names[o->unit]);
    return KVR_OK;
}

static bool reads_data(const struct kvr_score *s)
{
    return s->columns || s->keys || s->all_keys || s->queries || s->oracle_scores;
}

static void needs(const void *opts, struct kvr_thin_needs *out)
{
    const struct keep_opts *o = opts;
    const struct kvr_score *s = kvr_scores[o->score];

    *out = (struct kvr_thin_needs){
        .by_head = o->scope == HEAD,
        .by_data = reads_data(s),
        .counts_by_data = o->heads == ADAPTIVE && reads_data(s),
        .columns = s->columns,
        .queries = o->queries,
        .pick = (enum kvr_query_pick)o->query,
        .of_last = o->layers == LAST,
        .chunk_queries = s->head || s->queries,
        .oracle_scores = s->oracle_scores,
        .keys = s->keys,
        .values = s->head,
        .all_keys = s->all_keys,
        .all_values = s->all_values,
        .undoes_rope = s->undoes_rope,
        .beyond_window = o->beyond,
    };
}

/* ---- state --------------------------------------------------------------------------------- */

/* Returns the bytes of the state for n stored tokens. A token has one set of accumulators per head
 * with scope=head, and one set with scope=layer. */
static size_t state_bytes(const struct kvr_score *s, int sets, int64_t n)
{
    return s->memory ? (size_t)n * (sizeof(int32_t) + (size_t)(sets * s->memory) * sizeof(float))
                     : 0;
}

static int32_t *state_tokens(const struct kvr_buf *b)
{
    return b->p;
}

static float *state_floats(const struct kvr_buf *b, int64_t n)
{
    return (float *)((int32_t *)b->p + n);
}

/* ---- one call ------------------------------------------------------------------------------ */

struct work {
    const struct keep_opts *o;
    const struct kvr_score *scorer;
    const struct kvr_policy_ctx *ctx;
    int sets;
    uint8_t *keep;
    int64_t n;      /* number of tokens that at least one head stores, including the new chunk */
    int32_t *token; /* [n] */
    float *memory;  /* [n][sets][scorer->memory] score accumulators of the tokens */
    int32_t *head_tokens; /* [n] indices of the tokens that the current head stores */
    float *head_memory;   /* [n][scorer->memory], their score accumulators */
    float *score, *scratch;
    struct kvr_ranked *rank;
    struct kvr_salience_head *head;
};

static void work_free(struct work *w)
{
    free(w->token);
    free(w->memory);
    free(w->head_tokens);
    free(w->head_memory);
    free(w->score);
    free(w->scratch);
    free(w->rank);
    kvr_salience_head_close(&w->head);
}

static bool held_by_any(const struct work *w, int64_t t)
{
    for (int s = 0; s < w->sets; s++)
        if (w->keep[t * w->sets + s])
            return true;
    return false;
}

static enum kvr_status work_open(struct work *w)
{
    const size_t d = (size_t)w->ctx->head_dim;
    size_t n;

    for (int64_t t = 0; t < w->ctx->n_active; t++)
        w->n += held_by_any(w, t);
    n = (size_t)w->n + 1;
    w->token = malloc(n * sizeof *w->token);
    w->memory = calloc(n * (size_t)(w->sets * KVR_SCORE_MAX_MEMORY), sizeof *w->memory);
    w->head_tokens = malloc(n * sizeof *w->head_tokens);
    w->head_memory = malloc(n * KVR_SCORE_MAX_MEMORY * sizeof *w->head_memory);
    w->score = malloc(n * sizeof *w->score);
    w->scratch = malloc((n + d * (d + 1)) * sizeof *w->scratch);
    w->rank = malloc(n * sizeof *w->rank);
    if (!w->token || !w->memory || !w->head_tokens || !w->head_memory || !w->score || !w->scratch ||
        !w->rank)
        return kvr_fail(KVR_ENOMEM, "keep: out of memory while allocating %lld tokens",
                        (long long)w->n);
    w->n = 0;
    for (int64_t t = 0; t < w->ctx->n_active; t++)
        if (held_by_any(w, t))
            w->token[w->n++] = (int32_t)t;
    return KVR_OK;
}

/* Copies the score accumulators of older tokens from the state. Token indices ascend in w->token
 * and in the state. */
static void recall(struct work *w, const struct kvr_policy_state *state)
{
    const size_t each = (size_t)(w->sets * w->scorer->memory);
    const int32_t *token = state_tokens(&state->buf);
    const float *floats = state_floats(&state->buf, state->n);
    int64_t j = 0;

    for (int64_t i = 0; i < w->n && w->token[i] < w->ctx->new0; i++) {
        while (j < state->n && token[j] < w->token[i])
            j++;
        if (j < state->n && token[j] == w->token[i])
            memcpy(w->memory + (size_t)i * each, floats + (size_t)j * each, each * sizeof(float));
    }
}

static enum kvr_status remember(const struct work *w, struct kvr_dev *dev,
                                struct kvr_policy_state *state)
{
    const size_t each = (size_t)(w->sets * w->scorer->memory);
    int64_t n = 0, j = 0;

    for (int64_t i = 0; i < w->n; i++)
        n += held_by_any(w, w->token[i]);
    KVR_TRY(kvr_buf_alloc(&state->next, dev, KVR_MEM_META, state_bytes(w->scorer, w->sets, n)));
    state->n_next = n;
    for (int64_t i = 0; i < w->n; i++) {
        if (!held_by_any(w, w->token[i]))
            continue;
        state_tokens(&state->next)[j] = w->token[i];
        memcpy(state_floats(&state->next, n) + (size_t)j * each, w->memory + (size_t)i * each,
               each * sizeof(float));
        j++;
    }
    return KVR_OK;
}

/* ---- selection ----------------------------------------------------------------------------- */

static int64_t budget_of(const struct work *w)
{
    const struct keep_opts *o = w->o;
    const double S = w->ctx->tokens_per_frame;
    const double n = o->tokens      ? o->tokens
                     : o->share > 0 ? o->share * (double)w->ctx->n_active
                                    : o->frames * S;

    return kvr_share(n * w->ctx->beta, 0, w->ctx->n_active);
}

static bool is_protected(const struct work *w, int64_t t)
{
    const int64_t S = w->ctx->tokens_per_frame;

    return t < w->o->sink * S + w->o->sink_tokens || t >= w->ctx->n_active - w->o->recent * S;
}

/* Returns the number of tokens in a unit of eviction (a token, frame or chunk). */
static int64_t unit_tokens(const struct work *w)
{
    const int64_t S = w->ctx->tokens_per_frame;

    return w->o->unit == TOKEN ? 1 : w->o->unit == FRAME ? S : S * w->ctx->frames_per_chunk;
}

/* Returns the index in w->head_tokens [n] of the first token of the next unit of eviction after
 * token w->head_tokens[i]. Returns n if that token is in the last unit. */
static int64_t unit_end(const struct work *w, int64_t i, int64_t n)
{
    const int64_t unit = unit_tokens(w), next = (w->head_tokens[i] / unit + 1) * unit;

    do
        i++;
    while (i < n && w->head_tokens[i] < next);
    return i;
}

/* Considers the units of eviction in descending order of mean score. Retains a unit's unprotected
 * tokens if they fit into the rest of a budget of `left` tokens, else evicts them. */
static void choose(const struct work *w, int set, int64_t n, int64_t left)
{
    int64_t n_units = 0;

    /* A unit's score is the mean over its unprotected tokens. Its index in w->rank is the index of
     * its first token in w->head_tokens. */
    for (int64_t i = 0, end; i < n; i = end) {
        double sum = 0;
        int64_t rated = 0;

        end = unit_end(w, i, n);
        for (int64_t j = i; j < end; j++)
            if (!is_protected(w, w->head_tokens[j])) {
                sum += w->score[j];
                rated++;
            }
        if (rated)
            w->rank[n_units++] = (struct kvr_ranked){ (float)(sum / (double)rated), (int32_t)i };
    }
    /* units of one token have the same size, so the best `left` units need no order */
    if (w->o->unit == TOKEN)
        kvr_best(w->rank, n_units, left < n_units ? left : n_units);
    else
        kvr_topk(w->rank, n_units);
    for (int64_t u = 0; u < n_units; u++) {
        const int64_t i = w->rank[u].index, end = unit_end(w, i, n);
        int64_t size = 0;

        for (int64_t j = i; j < end; j++)
            size += !is_protected(w, w->head_tokens[j]);
        if (size <= left) {
            left -= size;
            continue;
        }
        for (int64_t j = i; j < end; j++)
            if (!is_protected(w, w->head_tokens[j]))
                w->keep[(int64_t)w->head_tokens[j] * w->sets + set] = 0;
    }
}

/* Assigns random scores, for calls that have no data to compute scores from (counts_only). With
 * heads=even, the number of retained tokens is the same as with real scores. */
static void draw(const struct work *w, int set, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        kvr_uniform(&w->score[i], 1, 0, KVR_RNG_KEEP, (uint32_t)w->ctx->layer, (uint32_t)set,
                    (uint64_t)w->head_tokens[i]);
}

static void rate(const struct work *w, int set, int64_t n, int64_t first_new)
{
    const struct kvr_score_opts opts = {
        .seed = w->o->seed,
        .pool = w->o->pool,
        .lambda = w->o->lambda,
        .weight = (enum kvr_place_weight)w->o->weight,
        .power = w->o->power,
    };
    const struct kvr_score_job job = {
        .ctx = w->ctx,
        .opts = &opts,
        .h0 = w->o->scope == HEAD ? set : 0,
        .n_heads = w->o->scope == HEAD ? 1 : w->ctx->n_heads,
        .n = n,
        .first_new = first_new,
        .token = w->head_tokens,
        .memory = w->head_memory,
        .score = w->score,
        .work = w->scratch,
        .head = w->head,
    };

    if (w->ctx->counts_only && reads_data(w->scorer))
        draw(w, set, n);
    else
        w->scorer->rate(&job);
}

/* Number of tokens in w->head_tokens, and how many of them are protected from eviction. */
struct head_counts {
    int64_t n, n_protected;
};

static struct head_counts rate_set(const struct work *w, int set)
{
    const int m = w->scorer->memory, each = w->sets * m;
    int64_t first_new = 0, at = 0;
    struct head_counts h = { 0 };

    for (int64_t i = 0; i < w->n; i++) {
        if (!w->keep[(int64_t)w->token[i] * w->sets + set])
            continue;
        memcpy(w->head_memory + h.n * m, w->memory + i * each + set * m, (size_t)m * sizeof(float));
        w->head_tokens[h.n++] = w->token[i];
        first_new += w->token[i] < w->ctx->new0;
        h.n_protected += is_protected(w, w->token[i]);
    }
    rate(w, set, h.n, first_new);
    for (int64_t i = 0; i < w->n; i++) /* copy the updated score accumulators back */
        if (w->keep[(int64_t)w->token[i] * w->sets + set])
            memcpy(w->memory + i * each + set * m, w->head_memory + at++ * m,
                   (size_t)m * sizeof(float));
    return h;
}

static void thin_set(const struct work *w, int set)
{
    const int64_t budget = budget_of(w);
    const struct head_counts h = rate_set(w, set);

    if (h.n > budget)
        choose(w, set, h.n, budget > h.n_protected ? budget - h.n_protected : 0);
}

/* ---- budget shared by all heads ------------------------------------------------------------ */

/* A token that may be evicted from head `set`. */
struct candidate {
    int32_t token, set;
};

/* Retains the protected tokens and best other tokens of each head, up to `floor` times the budget
 * per head. Writes the scores of the remaining tokens of all heads to `rank`, with each token's
 * index in `all`, and returns the number of these tokens. *left receives the layer's remaining
 * budget in tokens, which is negative if protected tokens exceed it. */
static int64_t rank_rest(const struct work *w, struct kvr_ranked *rank, struct candidate *all,
                         int64_t *left)
{
    const int64_t budget = budget_of(w), least = kvr_share(w->o->floor * (double)budget, 0, budget);
    int64_t n = 0, n_all = 0;

    *left = w->sets * budget;
    for (int s = 0; s < w->sets; s++) {
        const struct head_counts h = rate_set(w, s);
        int64_t n_candidates = 0, own = least > h.n_protected ? least - h.n_protected : 0;

        for (int64_t i = 0; i < h.n; i++) {
            if (is_protected(w, w->head_tokens[i]))
                continue;
            rank[n + n_candidates++] = (struct kvr_ranked){ w->score[i], (int32_t)n_all };
            all[n_all++] = (struct candidate){ w->head_tokens[i], s };
        }
        own = own < n_candidates ? own : n_candidates;
        kvr_best(rank + n, n_candidates, own);
        memmove(rank + n, rank + n + own, (size_t)(n_candidates - own) * sizeof *rank);
        n += n_candidates - own;
        *left -= h.n_protected + own;
    }
    return n;
}

static enum kvr_status thin_together(const struct work *w)
{
    const size_t most = (size_t)w->n * (size_t)w->sets + 1;
    struct kvr_ranked *rank = malloc(most * sizeof *rank);
    struct candidate *all = calloc(most, sizeof *all);
    int64_t left, n;
    enum kvr_status st = KVR_OK;

    if (!rank || !all) {
        st = kvr_fail(KVR_ENOMEM,
                      "keep: out of memory while allocating ranks of %zu tokens over all heads",
                      most);
        goto done;
    }
    n = rank_rest(w, rank, all, &left);
    left = left < 0 ? 0 : left < n ? left : n;
    kvr_best(rank, n, left);
    for (int64_t r = left; r < n; r++) {
        const struct candidate *c = &all[rank[r].index];

        w->keep[(int64_t)c->token * w->sets + c->set] = 0;
    }
done:
    free(rank);
    free(all);
    return st;
}

static enum kvr_status thin(const void *opts, const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                            struct kvr_policy_state *state, uint8_t *keep)
{
    const struct keep_opts *o = opts;
    struct work w = {
        .o = o,
        .scorer = kvr_scores[o->score],
        .ctx = ctx,
        .sets = o->scope == HEAD ? ctx->n_heads : 1,
        .keep = keep,
    };
    enum kvr_status st = work_open(&w);

    if (st == KVR_OK && w.scorer->head && ctx->q)
        st = kvr_salience_head_open(&w.head, o->head, ctx->n_query_heads, ctx->n_heads,
                                    ctx->head_dim, o->seed);
    if (st == KVR_OK && w.scorer->memory)
        recall(&w, state);
    if (o->heads == ADAPTIVE && st == KVR_OK)
        st = thin_together(&w);
    for (int s = 0; o->heads == EVEN && s < w.sets && st == KVR_OK; s++)
        thin_set(&w, s);
    if (st == KVR_OK && w.scorer->memory)
        st = remember(&w, dev, state);
    work_free(&w);
    return st;
}

static const char *warning(const void *opts, int n_query_heads, int n_heads, int head_dim)
{
    const struct keep_opts *o = opts;

    if (kvr_scores[o->score]->oracle_scores)
        return "not causal: this score uses the attention of a complete BF16 rollout of the same "
               "prompt, so its result is an upper bound for causal scores";
    return kvr_scores[o->score]->head && n_heads &&
                   kvr_salience_head_drawn(o->head, n_query_heads, n_heads, head_dim)
               ? "no salience head was trained for this model's shape, so its weights are random "
                 "and tokens are chosen by chance; -O head=FILE loads trained weights"
               : NULL;
}

const struct kvr_retention kvr_retention_keep = {
    .name = "keep",
    .title = "retains the tokens with the highest scores, within a budget",
    .options = options,
    .opts_size = sizeof(struct keep_opts),
    .unit = KVR_UNIT_TOKEN,
    .check = check,
    .thin = thin,
    .needs = needs,
    .cuda = true,
    .warning = warning,
};
