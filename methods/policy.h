/* policy.h - which codec holds each token, and which tokens are evicted.
 *
 * Two parts decide, in this order, by writing one byte per token:
 *
 *     tiers       token -> tier: an index into the scheme's codecs (0 is the base)
 *     retention   tokens of tier 0 to evict -> ZERO, POOLED or DROPPED
 *
 * A row of methods.def names them as text: tiers "saliency(important=0.2)", retention
 * "saliency(retained=0.45,fill=pooled)". Both may read the layer's new keys and values and keep
 * state per layer. A retention that evicts single tokens, for all heads or per head, implements
 * `thin` instead: one byte for every token it may keep. struct kvr_thin_needs lists the inputs it
 * can request.
 *
 * In the intended reading (the paper's) the map covers the tokens written so far. Only the new
 * chunk's keys and values are given, since older ones are already coded. All tokens of a unit
 * (frame or chunk) get the same byte, unless the part has `unit = KVR_UNIT_TOKEN`; it then decides
 * for the new chunk's tokens alone. A token never gains fidelity: the cache moves it down to tier 0
 * or evicts it, and ignores a move up.
 *
 * In the study's reading the map covers the whole capacity, k and v are the complete dense tensors,
 * and every call decides again for every token. */
#ifndef KVR_METHODS_POLICY_H
#define KVR_METHODS_POLICY_H

#include "harness/device/mem.h"
#include "harness/core/opts.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_MAX_TIERS = 3 };

/* Values of a token's byte other than a tier index. */
enum {
    KVR_TOKEN_ZERO = 253,    /* decodes to zero but stays in the softmax: the study's pruning */
    KVR_TOKEN_POOLED = 254,  /* its frame is stored as one mean token of multiplicity n */
    KVR_TOKEN_DROPPED = 255, /* evicted */
};

enum kvr_unit { KVR_UNIT_CHUNK, KVR_UNIT_FRAME, KVR_UNIT_TOKEN };

struct kvr_policy_ctx {
    bool study;
    int layer, n_layers;
    int tokens_per_frame; /* S */
    int frames_per_chunk;
    int n_heads, head_dim; /* H, D */
    double beta;           /* this layer's budget factor (layer_budget) */

    int64_t n_tok;    /* length of the map: capacity (study) or tokens written (intended) */
    int64_t n_active; /* tokens written so far; the last frame may be partial */
    int64_t new0;     /* first token whose k, v are given: 0 (study) or the new chunk's first
                       * (intended) */
    const float *k;   /* [n - new0, H, D], n = n_tok (study) or n_active; NULL when only */
    const float *v;   /* counts are needed (`kvreel predict`): all scores are then equal */
    /* k and v are memory of the device passed to `assign`; everything else here, the map and the
     * part's state are host memory. */
    bool cut;         /* the new chunk begins a shot: another prompt than the chunk before */
    bool counts_only; /* for `thin`: there is no data, only numbers of tokens are needed */
    int64_t n_stored; /* tokens stored so far: new0, or n_active when a chunk is stored again */
    /* For `thin`: keys [n_active - key0,H,D] of the tokens from key0 on, 0 for tokens that are not
     * stored; NULL unless requested. key0 is 0 unless key_frames is set. */
    const float *all_keys;
    int64_t key0;
    const float *all_values; /* values, in the form of all_keys */
    /* For `thin`: multiplicity of each stored token, [n_active][G]; NULL unless requested. */
    const int32_t *weights;
    const struct kvr_columns
        *columns; /* for `thin`; NULL before the first attention, or unless requested */
    /* For `thin`: the new chunk's queries [n_active - new0, n_query_heads, D], memory of the same
     * device as k; NULL before the first attention, or unless requested. */
    const float *q;
    int n_query_heads;
    /* For `thin`: an oracle score for each token of the whole video, from a complete earlier run;
     * NULL if there are no scores, or unless requested. */
    const float *oracle_scores;
    struct kvr_summaries *summaries; /* for `thin`: receives summary tokens; NULL unless
                                      * requested */
};

/* Summary tokens made by a thinning retention, host memory. From now on head `head` stores k and v
 * at the position of `token`; they are coded like any other token, and `keep` covers them at later
 * chunks. The token stored there before must have been evicted. Attention counts each summary as
 * `weight` tokens of that key. Order: by head, then weight, then token, ascending. */
struct kvr_summaries {
    int64_t n, capacity;
    int32_t *token, *head, *weight; /* [n] */
    float *k, *v;                   /* [n,D]; empty when only counts are needed */
};
/* Copies k and v [D]; both are NULL when only counts are needed. KVR_ENOMEM. */
enum kvr_status kvr_summaries_add(struct kvr_summaries *s, int head, int64_t token, int64_t weight,
                                  int head_dim, const float *k, const float *v);
void kvr_summaries_free(struct kvr_summaries *s);

/* State of a part for one layer, opaque to the cache. */
struct kvr_policy_state {
    struct kvr_buf buf; /* KVR_MEM_META of kvr_dev_host(dev), resized by the part */
    /* Replaces `buf` once the chunk is stored; discarded if storing fails. */
    struct kvr_buf next;
    int64_t n_next;
    int64_t n;         /* private to the part: frames covered by `buf` */
    int64_t n_planned; /* private to the part: frames at the last plan */
};

/* Counts for the side information of the study's formats (docs, "byte accounting"). */
struct kvr_study_counts {
    int64_t capacity, active; /* numbers of tokens: capacity, and written so far */
    int64_t stored;           /* tokens stored by codecs */
    int64_t pooled_frames;
};

/* Fills in the map. On CUDA the function synchronises if it reads keys and values, because the
 * storage layout depends on the map. */
typedef enum kvr_status kvr_assign_fn(const void *opts, const struct kvr_policy_ctx *ctx,
                                      struct kvr_dev *dev, struct kvr_policy_state *state,
                                      uint8_t *map);

/* Attention received by each key in a chunk's clean pass: sum and maximum of the softmax weights p
 * over `n_query` sampled queries; query heads of one KV head are combined. This attention is
 * computed only for the retention, so its time is charged to the method. */
struct kvr_columns {
    int64_t n_query;
    const float *sum, *max; /* [n_active,H], host memory; 0 for tokens that are not stored */
};

/* Which of a chunk's queries are sampled. */
enum kvr_query_pick {
    KVR_QUERY_SPREAD, /* evenly spaced */
    KVR_QUERY_NEWEST, /* the newest ones */
    KVR_QUERY_FRAME,  /* all queries of the newest frame */
    KVR_QUERY_CHUNK,  /* all queries of the chunk */
};

/* Inputs requested by a thinning retention. */
struct kvr_thin_needs {
    bool by_head;        /* tokens are selected per head */
    bool by_data;        /* the selection depends on keys, values or attention */
    bool counts_by_data; /* the number of kept tokens depends on the data, too */
    bool columns;        /* ctx->columns */
    int queries;         /* sampled queries per chunk; 0: all */
    enum kvr_query_pick pick;
    bool of_last;       /* the last layer selects for all layers */
    bool chunk_queries; /* ctx->q */
    bool oracle_scores; /* ctx->oracle_scores: not causal */
    bool keys;          /* ctx->k: the new chunk's keys */
    bool values;        /* ctx->v: the new chunk's values */
    bool all_keys;      /* ctx->all_keys */
    int key_frames;   /* all_keys without all_values: only of this many frames before the new chunk,
                       * and of the chunk; 0: of all frames */
    bool all_values;  /* ctx->all_values, together with all_keys */
    bool undoes_rope; /* undoes the keys' rotary embedding; needs a video model (kernels/rope.h) */
    bool summaries;   /* ctx->summaries; only with by_head */
    bool weights;     /* ctx->weights */
    bool beyond_window; /* kept tokens stay visible beyond the cell's window */
};

/* keep [n_active][G]: 1 if the token stays; G is H with by_head, else 1. On entry it is 1 for the
 * tokens that the layer stores and for the new chunk's tokens. The part may only change a 1 to 0.
 * All memory is the host's, including `dev`. */
typedef enum kvr_status kvr_thin_fn(const void *opts, const struct kvr_policy_ctx *ctx,
                                    struct kvr_dev *dev, struct kvr_policy_state *state,
                                    uint8_t *keep);

struct kvr_tiers {
    const char *name, *title;
    const struct kvr_opt *options;
    size_t opts_size;
    int n_tiers;
    const char *tier_names[KVR_MAX_TIERS]; /* "old", "recent", "important" */
    enum kvr_unit unit;
    bool active_only; /* in the study's reading, tokens beyond n_active are not coded; the part maps
                       * them to KVR_TOKEN_ZERO */
    enum kvr_status (*check)(const void *opts);
    /* Assigns a tier to every token. Retention runs afterwards on the same map. */
    kvr_assign_fn *assign;
    bool cuda; /* assign supports a CUDA device; else kvr_*_assign passes host copies */
    size_t (*study_side_bytes)(const void *opts, const struct kvr_study_counts *n); /* NULL: 0 */
    /* Number of chunks that change tier together and become one segment, in the intended reading;
     * NULL: one chunk per segment. With a thinning retention chunks move one at a time. */
    int (*together)(const void *opts);
};

struct kvr_retention {
    const char *name, *title;
    const struct kvr_opt *options;
    size_t opts_size;
    enum kvr_unit unit;
    enum kvr_status (*check)(const void *opts);
    /* Changes only bytes that are 0 (tier 0). NULL if `thin` is set. */
    kvr_assign_fn *assign;
    /* Evicts single tokens of any tier; used in the intended reading only. */
    kvr_thin_fn *thin;
    void (*needs)(const void *opts, struct kvr_thin_needs *out);
    /* Whether `thin` will read ctx->columns for the chunk that begins at token new0; `state` is the
     * layer's. If not, that attention is not computed. NULL: `thin` always reads it. */
    bool (*observes)(const void *opts, const struct kvr_policy_state *state, int64_t new0);
    bool cuda; /* assign supports a CUDA device; else kvr_*_assign passes host copies */
    size_t (*study_side_bytes)(const void *opts, const struct kvr_study_counts *n); /* NULL: 0 */
    /* A warning if the options mislead on a model of this shape (all 0: any shape), else NULL.
     * n_heads counts KV heads. May be NULL. */
    const char *(*warning)(const void *opts, int n_query_heads, int n_heads, int head_dim);
    const char *position; /* position at which keys are read, if it differs from where they were
                           * made; NULL: unchanged */
    bool keeps_tokens;    /* its state holds keys and values that return to the cache: counted as
                           * format bytes */
};

/* Built-in parts: methods/tiers/tiers.def, methods/retention/retention.def. NULL-terminated. */
extern const struct kvr_tiers *const kvr_tiers_parts[];
extern const struct kvr_retention *const kvr_retention_parts[];
/* Built-in parts, then those of loaded plug-ins; NULL past the last. */
const struct kvr_tiers *kvr_tiers_at(int i);
const struct kvr_retention *kvr_retention_at(int i);

/* A part with its options, as named by a row. part NULL: there is no such part, and all tokens are
 * kept in tier 0. Owns opts. */
struct kvr_tiers_use {
    const struct kvr_tiers *part;
    void *opts;
};
struct kvr_retention_use {
    const struct kvr_retention *part;
    void *opts;
};
/* Chunks that may become one segment; 1 by default. */
int kvr_tiers_max_chunks(const struct kvr_tiers_use *u);
enum kvr_status kvr_tiers_open(struct kvr_tiers_use *out, const char *text);
enum kvr_status kvr_retention_open(struct kvr_retention_use *out, const char *text);
/* Whether the part thins, and its requested inputs (all false and 0 if it does not). */
bool kvr_retention_thins(const struct kvr_retention_use *u, struct kvr_thin_needs *out);
/* Whether the part reads the attention of the chunk that begins at token new0. */
bool kvr_retention_observes(const struct kvr_retention_use *u, const struct kvr_policy_state *state,
                            int64_t new0);
/* First token of ctx->all_keys. */
int64_t kvr_thin_key0(const struct kvr_thin_needs *n, int64_t new0, int tokens_per_frame);
const char *kvr_retention_warning(const struct kvr_retention_use *u, int n_query_heads, int n_heads,
                                  int head_dim);
void kvr_tiers_close(struct kvr_tiers_use *u);
void kvr_retention_close(struct kvr_retention_use *u);

/* Call the function of the part, which must not be NULL. A part without `cuda` receives copies of k
 * and v in memory of kvr_dev_host(dev), and that device. */
enum kvr_status kvr_tiers_assign(const struct kvr_tiers_use *u, const struct kvr_policy_ctx *ctx,
                                 struct kvr_dev *dev, struct kvr_policy_state *state, uint8_t *map);
enum kvr_status kvr_retention_assign(const struct kvr_retention_use *u,
                                     const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                                     struct kvr_policy_state *state, uint8_t *map);

enum kvr_status kvr_retention_thin(const struct kvr_retention_use *u,
                                   const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                                   struct kvr_policy_state *state, uint8_t *keep);

/* Budget factor of a layer. `which` is
 * - "none": 1;
 * - "linear": min + l/(L-1) (max-min), 1 for L = 1;
 * - "falling": linear from the last layer to the first;
 * - "moviegen" or "storyeval": the study's profiled tables for 30 layers, linearly interpolated by
 *   relative depth for other L;
 * - a file with one number per line and layer ('#' starts a comment), as from `kvreel profile`. */
enum kvr_status kvr_layer_budget(const char *which, double min, double max, int layer, int n_layers,
                                 double *beta);
bool kvr_layer_budget_is_file(const char *which);

#ifdef __cplusplus
}
#endif
#endif
