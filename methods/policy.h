/* policy.h - policies, which decide with which codec each token is quantized, and which tokens are
 * evicted.
 *
 * A method has at most two policies. The tier policy runs first and assigns each token to a codec.
 * The retention policy then evicts tokens. A policy writes one byte per token into an array, the
 * map:
 *
 *     tiers       token -> tier: an index into the scheme's codecs (0 is the default tier)
 *     retention   tokens of tier 0 to evict -> ZERO, POOLED or DROPPED
 *
 * A method's row in methods.def names its policies as text, such as tiers "saliency(important=0.2)"
 * and retention "saliency(retained=0.45,fill=pooled)". A policy may read the layer's new keys and
 * values and keep a state per layer. A retention policy that evicts single tokens, for all heads or
 * per head, implements the function `thin` instead of `assign`. `thin` changes the array `keep`
 * instead of the map. struct kvr_thin_needs states which inputs `thin` requests.
 *
 * In the variant of a method that its paper describes (KVR_INTENDED), the map covers the tokens
 * written so far. Only the new chunk's keys and values are passed to the policy, since older keys
 * and values are already quantized. If the policy's field `unit` is KVR_UNIT_CHUNK or
 * KVR_UNIT_FRAME, all tokens of a chunk or frame get the same byte. With KVR_UNIT_TOKEN, the policy
 * decides for each token, and only for the new chunk's tokens. A stored token can only move to tier
 * 0 or be evicted; the cache ignores any other change of its byte.
 *
 * In the variant that reproduces the code of the 33-method study (KVR_STUDY), the map covers the
 * whole capacity of the cache. k and v are the decoded keys and values of all tokens, and each call
 * assigns every token anew. */
#ifndef KVR_METHODS_POLICY_H
#define KVR_METHODS_POLICY_H

#include "harness/device/mem.h"
#include "harness/core/opts.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_MAX_TIERS = 3 };

/* Values of a token's byte in the map that are not a tier index. */
enum {
    KVR_TOKEN_ZERO = 253,    /* key and value of the token decode to zeros, but the token stays in
                              * the softmax, as in the study's pruning */
    KVR_TOKEN_POOLED = 254,  /* the frame of this token is stored as one mean token, whose
                              * multiplicity is the number of the frame's tokens */
    KVR_TOKEN_DROPPED = 255, /* evicted */
};

enum kvr_unit { KVR_UNIT_CHUNK, KVR_UNIT_FRAME, KVR_UNIT_TOKEN };

struct kvr_policy_ctx {
    bool study; /* true: variant of the 33-method study; false: variant of the method's paper */
    int layer, n_layers;
    int tokens_per_frame; /* S */
    int frames_per_chunk;
    int n_heads, head_dim; /* H, D */
    double beta;           /* this layer's budget factor (kvr_layer_budget), by which each policy
                            * multiplies the fraction of tokens that it keeps */

    int64_t n_tok;    /* number of bytes in the map: the cache's capacity in tokens if `study` is
                       * set, else n_active */
    int64_t n_active; /* number of tokens written so far; the last frame may be partial */
    int64_t new0;     /* index of the first token in k and v: 0 if `study` is set, else the new
                       * chunk's first token */
    const float *k;   /* keys [n - new0, H, D] of tokens [new0, n), where n is n_tok if `study` is
                       * set, else n_active. NULL if only token counts are needed (`kvreel
                       * predict`); all tokens then get the same score. */
    const float *v;   /* values of the tokens of k, in the layout of k; NULL if k is NULL */
    /* k, v, all_keys, all_values and q are memory of the device that is passed to the policy. All
     * other pointers in this struct, the map and the policy's state are host memory. */
    bool cut;         /* the new chunk begins a shot: its prompt differs from that of the chunk
                       * before */
    bool counts_only; /* for `thin`: true if, as in `kvreel predict`, the caller needs only the
                       * number of kept tokens; all pointers to keys and values are then NULL */
    int64_t n_stored; /* number of tokens in the cache before this call: new0 for a new chunk,
                       * n_active if the newest chunk is stored a second time */
    /* For `thin`: keys [n_active - key0,H,D] of tokens [key0, n_active), with zeros for tokens that
     * are not stored. The pointer is NULL if the keys are not requested or if counts_only is set.
     * If kvr_thin_needs.key_frames is 0, key0 is 0. */
    const float *all_keys;
    int64_t key0;
    const float *all_values; /* values of the tokens of all_keys, in the layout of all_keys; NULL if
                              * not requested */
    /* For `thin`: multiplicity of each stored token (number of tokens that it replaces),
     * [n_active][G]; NULL if not requested. G is H if tokens are selected per head, else 1. */
    const int32_t *weights;
    const struct kvr_columns
        *columns; /* for `thin`: softmax weights that each key received from the new chunk's
                   * queries; NULL if not requested or not measured */
    /* For `thin`: queries [n_active - new0, n_query_heads, D] of the new chunk's tokens [new0,
     * n_active), in memory of the same device as k. The pointer is NULL if queries are not
     * requested, or if attention over the new chunk has not yet run. */
    const float *q;
    int n_query_heads;
    /* For `thin`: salience of each token of the whole video, measured from attention in a complete
     * earlier rollout (harness/workload/salience.h). The pointer is NULL if the salience is not
     * requested or was not measured. */
    const float *oracle_scores;
    struct kvr_summaries *summaries; /* for `thin`: list to which the retention policy appends
                                      * summary tokens; NULL if not requested */
};

/* Summary tokens by which a retention policy replaces evicted tokens, in host memory. A summary has
 * a key k and a value v. It is stored for KV head `head` only, at the position of the evicted token
 * `token`. From then on the cache quantizes the summary like any other token, and later calls of
 * the retention policy's function `thin` may evict it. Attention treats a summary as `weight`
 * tokens with the same key and value. Summaries are sorted by head, then by weight, then by token,
 * in ascending order. */
struct kvr_summaries {
    int64_t n, capacity;
    int32_t *token, *head, *weight; /* [n] */
    float *k, *v;                   /* keys and values of the summaries, [n,D]; not allocated if
                                     * only token counts are needed */
};
/* Appends a summary token to s. The function copies k and v [D]; both are NULL if only token counts
 * are needed. Fails with KVR_ENOMEM if memory is short. */
enum kvr_status kvr_summaries_add(struct kvr_summaries *s, int head, int64_t token, int64_t weight,
                                  int head_dim, const float *k, const float *v);
void kvr_summaries_free(struct kvr_summaries *s);

/* State of a policy for one layer. Only the policy interprets its content. */
struct kvr_policy_state {
    struct kvr_buf buf; /* the policy's data for this layer, in host memory (kvr_dev_host(dev)) with
                         * tag KVR_MEM_META; the policy allocates it */
    /* If the policy sets `next`, the cache replaces `buf` by `next` and `n` by n_next once the
     * chunk is stored, and frees `next` if storing fails. */
    struct kvr_buf next;
    int64_t n_next;
    int64_t n;         /* private to the policy: number of frames or heads that `buf` describes */
    int64_t n_planned; /* private to the policy: number of frames at its last call (`saliency`), or
                        * first token of the chunk that determined the head classes
                        * (`head_classes`) */
};

/* Numbers of tokens and frames in a layer's cache, from which study_side_bytes computes the bytes
 * of the masks and indices that the study's code stores. These bytes count as bytes of the
 * cache. */
struct kvr_study_counts {
    int64_t capacity, active; /* number of tokens that the cache can store, and number of tokens
                               * written so far */
    int64_t stored;           /* number of tokens that the tiers' codecs encode */
    int64_t pooled_frames;
};

/* Function of a policy that writes each token's byte to `map`, which is host memory. If the
 * function launches CUDA kernels, it waits for their results. */
typedef enum kvr_status kvr_assign_fn(const void *opts, const struct kvr_policy_ctx *ctx,
                                      struct kvr_dev *dev, struct kvr_policy_state *state,
                                      uint8_t *map);

/* Attention that each key receives in the cache-update pass (clean pass) of a chunk: the sum and
 * the maximum of its softmax weights. The sum and the maximum are taken over `n_query` sampled
 * queries and over the query heads that share the key's KV head. Only the retention policy uses
 * these numbers, so the time to compute them counts as time of the method. */
struct kvr_columns {
    int64_t n_query;
    const float *sum, *max; /* sum and maximum of each key's softmax weights over the n_query
                             * queries, each [n_active,H] in host memory; 0 for tokens that are not
                             * stored */
};

/* Which queries of a chunk are sampled to measure the attention that keys receive. */
enum kvr_query_pick {
    KVR_QUERY_SPREAD, /* evenly spaced */
    KVR_QUERY_NEWEST, /* the newest ones */
    KVR_QUERY_FRAME,  /* all queries of the newest frame */
    KVR_QUERY_CHUNK,  /* all queries of the chunk */
};

/* Inputs and properties of the function `thin` of a retention policy, which evicts single
 * tokens. */
struct kvr_thin_needs {
    bool by_head;        /* the retention policy may keep different tokens for each head */
    bool by_data;        /* which tokens are kept depends on keys, values or attention */
    bool counts_by_data; /* not only the choice but also the number of kept tokens depends on keys,
                          * values or attention */
    bool columns;        /* requests ctx->columns, the attention that each key received */
    int queries;         /* number of queries sampled per chunk to measure attention; 0: all
                          * queries */
    enum kvr_query_pick pick;
    bool of_last;       /* the last layer selects the kept tokens for all layers */
    bool chunk_queries; /* requests ctx->q, the queries of the new chunk */
    bool oracle_scores; /* requests ctx->oracle_scores; the method is then not causal */
    bool keys;          /* requests ctx->k, the keys of the new chunk */
    bool values;        /* requests ctx->v, the values of the new chunk */
    bool all_keys;      /* requests ctx->all_keys, keys of older chunks and of the new chunk */
    int key_frames;     /* if all_keys is requested without all_values: number of frames before the
                         * new chunk whose keys are needed; 0 requests all frames */
    bool all_values;    /* requests ctx->all_values; only together with all_keys */
    bool undoes_rope;   /* the retention policy applies the inverse RoPE to keys; supported only for
                         * the RoPE of video models (kernels/rope.h) */
    bool summaries;     /* requests ctx->summaries; only together with by_head */
    bool weights;       /* requests ctx->weights, the multiplicity of each stored token */
    bool beyond_window; /* attention also reads kept tokens that are outside the local attention
                         * window */
};

/* Function of a retention policy that evicts tokens: it changes their elements of keep
 * [n_active][G] from 1 to 0. G is H if by_head is set, else 1. On entry, keep is 1 for all tokens
 * that the layer stores and for the new chunk's tokens. The function must not change a 0 to 1. All
 * pointers are host memory, and `dev` is the host. */
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
    bool active_only; /* if true, the study's variant does not quantize token slots that are not yet
                       * written (indices >= n_active), whatever their bytes in the map */
    enum kvr_status (*check)(const void *opts);
    /* Assigns a tier to every token. The retention policy runs afterwards on the same map. */
    kvr_assign_fn *assign;
    bool cuda; /* true if `assign` can read k and v in CUDA memory; otherwise kvr_tiers_assign
                * passes copies in host memory */
    size_t (*study_side_bytes)(const void *opts, const struct kvr_study_counts *n); /* NULL: 0 */
    /* Returns the number of consecutive chunks that are assigned to another tier at the same time
     * and quantized as one segment, in the variant of the method's paper. If `together` is NULL, or
     * if the retention policy evicts single tokens, the cache assigns and quantizes each chunk
     * alone. */
    int (*together)(const void *opts);
};

struct kvr_retention {
    const char *name, *title;
    const struct kvr_opt *options;
    size_t opts_size;
    enum kvr_unit unit;
    enum kvr_status (*check)(const void *opts);
    /* Evicts tokens of tier 0, the default tier, by setting their bytes in the map to
     * KVR_TOKEN_ZERO, KVR_TOKEN_POOLED or KVR_TOKEN_DROPPED. `assign` must be NULL if `thin` is
     * set. */
    kvr_assign_fn *assign;
    /* Evicts single tokens of any tier. The variant that reproduces the 33-method study does not
     * call `thin`. */
    kvr_thin_fn *thin;
    void (*needs)(const void *opts, struct kvr_thin_needs *out);
    /* Whether `thin` will read ctx->columns for the chunk that begins at token new0, given the
     * layer's `state`. If `thin` will not read ctx->columns, the cache does not compute them for
     * this chunk. If `observes` is NULL, `thin` always reads ctx->columns. */
    bool (*observes)(const void *opts, const struct kvr_policy_state *state, int64_t new0);
    bool cuda; /* true if `assign` can read k and v in CUDA memory; otherwise kvr_retention_assign
                * passes copies in host memory */
    size_t (*study_side_bytes)(const void *opts, const struct kvr_study_counts *n); /* NULL: 0 */
    /* Returns a warning if results with these options are easily misinterpreted, else NULL. The
     * warning may depend on the model's shape; n_heads is the number of KV heads. If all three
     * shape arguments are 0, the shape is unknown. May be NULL. */
    const char *(*warning)(const void *opts, int n_query_heads, int n_heads, int head_dim);
    const char *position; /* name of the rule by which keys are rotated to new RoPE positions, such
                           * as "by age"; NULL if keys stay at the positions of their tokens */
    bool keeps_tokens;    /* whether the state stores keys and values that may return to the cache;
                           * if so, its bytes count as stored bytes of the method */
};

/* Built-in policies: methods/tiers/tiers.def, methods/retention/retention.def. NULL-terminated. */
extern const struct kvr_tiers *const kvr_tiers_parts[];
extern const struct kvr_retention *const kvr_retention_parts[];
/* The i-th policy, counted from 0, or NULL if there are at most i policies: built-in policies
 * first, then those of loaded plug-ins. */
const struct kvr_tiers *kvr_tiers_at(int i);
const struct kvr_retention *kvr_retention_at(int i);

/* A policy (tiers or retention) of a method, and its options, which the struct owns. `part` is NULL
 * if the method has no such policy: without tiers all tokens are in tier 0, and without retention
 * all tokens are kept. */
struct kvr_tiers_use {
    const struct kvr_tiers *part;
    void *opts;
};
struct kvr_retention_use {
    const struct kvr_retention *part;
    void *opts;
};
/* Maximum number of chunks that are quantized as one segment: the result of the tier policy's
 * function `together`, or 1 if that pointer is NULL. */
int kvr_tiers_max_chunks(const struct kvr_tiers_use *u);
/* Opens the tier policy that a text such as "sinks(frames=1)" names. A text that is NULL or empty
 * stands for a method without tiers. */
enum kvr_status kvr_tiers_open(struct kvr_tiers_use *out, const char *text);
/* Opens the retention policy that a text such as "keep(score=random)" names. A text that is NULL or
 * empty stands for a method without retention. */
enum kvr_status kvr_retention_open(struct kvr_retention_use *out, const char *text);
/* Whether the retention policy implements `thin`. Sets *out to the inputs that `thin` requests, or
 * to zeros if there is no `thin`. */
bool kvr_retention_thins(const struct kvr_retention_use *u, struct kvr_thin_needs *out);
/* Whether the retention policy reads the softmax weights that keys receive (struct kvr_columns)
 * from queries of the chunk that begins at token new0. */
bool kvr_retention_observes(const struct kvr_retention_use *u, const struct kvr_policy_state *state,
                            int64_t new0);
/* Returns ctx->key0, the index of the first token in ctx->all_keys, for a new chunk that begins at
 * token new0. */
int64_t kvr_thin_key0(const struct kvr_thin_needs *n, int64_t new0, int tokens_per_frame);
/* Returns the warning about the options of the retention policy for a model of this shape, or NULL
 * if there is none. */
const char *kvr_retention_warning(const struct kvr_retention_use *u, int n_query_heads, int n_heads,
                                  int head_dim);
void kvr_tiers_close(struct kvr_tiers_use *u);
void kvr_retention_close(struct kvr_retention_use *u);

/* Calls the tier policy's function `assign`; the pointer `assign` must not be NULL. If the policy's
 * field `cuda` is false, `assign` receives copies of k and v in host memory, and kvr_dev_host(dev)
 * as its device. */
enum kvr_status kvr_tiers_assign(const struct kvr_tiers_use *u, const struct kvr_policy_ctx *ctx,
                                 struct kvr_dev *dev, struct kvr_policy_state *state, uint8_t *map);
/* Calls the retention policy's function `assign`; the pointer `assign` must not be NULL. If the
 * policy's field `cuda` is false, `assign` receives copies of k and v in host memory, and
 * kvr_dev_host(dev) as its device. */
enum kvr_status kvr_retention_assign(const struct kvr_retention_use *u,
                                     const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                                     struct kvr_policy_state *state, uint8_t *map);
/* Calls the retention policy's function `thin`, which evicts single tokens; the pointer `thin` must
 * not be NULL. */
enum kvr_status kvr_retention_thin(const struct kvr_retention_use *u,
                                   const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                                   struct kvr_policy_state *state, uint8_t *keep);

/* Sets *beta to the budget factor of a layer, by which a policy multiplies the fraction of tokens
 * that it keeps in this layer. `which` selects the rule. "none" gives 1. "linear" rises linearly
 * from min in layer 0 to max in layer n_layers - 1. "falling" falls linearly from max in layer 0 to
 * min in the last layer. "moviegen" and "storyeval" are factors that the 33-method study measured
 * for the 30 layers of Wan2.1-T2V-1.3B on prompts of these two data sets. If n_layers is not 30,
 * these factors are interpolated linearly at relative depth layer / (n_layers - 1). If n_layers is
 * 1, all of these rules give 1. Any other `which` is the path of a text file with one factor per
 * line for each layer, which `kvreel profile` can write; '#' starts a comment. */
enum kvr_status kvr_layer_budget(const char *which, double min, double max, int layer, int n_layers,
                                 double *beta);
/* Returns whether `which` is the path of a file and not the name of a rule. */
bool kvr_layer_budget_is_file(const char *which);

#ifdef __cplusplus
}
#endif
#endif
