/* policy.h - which token is held by which codec, and which is not held at all.
 *
 * Two parts answer, in this order, by writing one byte per token:
 *
 *     tiers       token -> tier: an index into the plan's codecs (0 is the base)
 *     retention   tokens of tier 0 that are given up -> ZERO, POOLED or DROPPED
 *
 * A row of methods.def names them as text: tiers "saliency(important=0.2)", retention
 * "saliency(retained=0.45,fill=pooled)". Both may look at the layer's new keys and values and
 * keep a state per layer. A retention that gives up single tokens, of all heads or of each head by
 * itself, says so instead by one byte for every token it may keep (`thin`); what it may ask for
 * is in struct kvr_thin_needs.
 *
 * As intended, the map covers the tokens written so far; only the new chunk's keys and values
 * are given (older ones are coded already and are not decoded for a decision); all tokens of a
 * unit (frame or chunk) get the same byte unless the part says `unit = KVR_UNIT_TOKEN`, which
 * then decides for the new chunk's tokens alone. A token never gains fidelity: the cache moves
 * it down to tier 0 or gives it up, and ignores a wish to move it back.
 *
 * As the study ran it, the map covers the whole capacity, k and v are the complete dense
 * tensors, and every call decides afresh for every token. */
#ifndef KVR_METHODS_POLICY_H
#define KVR_METHODS_POLICY_H

#include "harness/device/mem.h"
#include "harness/core/opts.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_MAX_TIERS = 3 };

/* Besides tier indices, what a token's byte may be. */
enum {
    KVR_TOKEN_ZERO = 253,    /* decodes to zero, still counted by softmax: the study's pruning */
    KVR_TOKEN_POOLED = 254,  /* its frame is held as one mean token of multiplicity n */
    KVR_TOKEN_DROPPED = 255, /* gone */
};

enum kvr_unit { KVR_UNIT_CHUNK, KVR_UNIT_FRAME, KVR_UNIT_TOKEN };

struct kvr_policy_ctx {
    bool study;
    int layer, n_layers;
    int tokens_per_frame; /* S */
    int frames_per_chunk;
    int n_heads, head_dim; /* H, D */
    double beta;           /* this layer's budget factor (layer_budget) */

    int64_t n_tok;    /* length of the map: capacity (study), tokens written (intended) */
    int64_t n_active; /* tokens written so far; the last frame may be partial */
    int64_t new0;     /* first token whose k, v are given: 0 (study), the new chunk's (intended) */
    const float *k;   /* [n - new0, H, D], n = n_tok (study) or n_active; NULL when only */
    const float *v;   /* counts are wanted (`kvreel predict`): scores are then all equal */
    /* Both are memory of the device that `assign` is given; all else here, the map and what a
     * part remembers are the host's. */
    bool counts_only;      /* thin: no data, how many is all that matters */
    int64_t n_stored;      /* tokens stored so far: new0, or n_active when a chunk is stored anew */
    const float *all_keys; /* thin: [n_active,H,D], 0 where not held; NULL unless asked for */
    const float *all_values; /* the same of values */
    /* thin: [n_active][sets] how many tokens each stands for, where held; NULL unless asked for */
    const int32_t *weights;
    const struct kvr_columns *columns; /* thin: NULL when nobody attended, or unless asked for */
    /* thin: the new chunk's queries [n_active - new0, n_query_heads, D], memory as k's; NULL when
     * nobody attended, or unless asked for. */
    const float *q;
    int n_query_heads;
    /* thin: a number for each token of the whole video, from a run that saw all of it; NULL when
     * nobody told, or unless asked for. */
    const float *foretold;
    struct kvr_summaries *summaries; /* thin: to be filled; NULL unless asked for */
};

/* Tokens that a thinning retention makes, of the host: head `head` holds k and v in the place of
 * `token` from now on, coded like any other token, and `keep` decides of it at later chunks. What
 * was held there before must have been given up. Attention takes each for `weight` tokens of that
 * key. Heads ascend, within a head those of one weight follow one another, and of those tokens
 * ascend. */
struct kvr_summaries {
    int64_t n, room;
    int32_t *token, *head, *weight; /* [n] */
    float *k, *v;                   /* [n,D]; nothing in them when only counts are wanted */
};
/* Copies k and v [D], which are not read when counts alone are wanted (NULL). KVR_ENOMEM. */
enum kvr_status kvr_summaries_add(struct kvr_summaries *s, int head, int64_t token, int64_t weight,
                                  int head_dim, const float *k, const float *v);
void kvr_summaries_free(struct kvr_summaries *s);

/* Per-layer memory of a part: what it saw before. Opaque; the part's own. */
struct kvr_policy_state {
    struct kvr_buf buf; /* KVR_MEM_META of kvr_dev_host(dev), grown by the part itself */
    /* What takes the place of `buf` once the chunk is stored; if that fails it is forgotten. */
    struct kvr_buf next;
    int64_t n_next;
    int64_t n;         /* the part's own use: frames the buffer speaks of */
    int64_t n_planned; /* the part's own use: frames when a plan was last made */
};

/* Side information that the study's format stores and section "byte accounting" counts. */
struct kvr_study_counts {
    int64_t capacity, active; /* tokens */
    int64_t stored;           /* tokens held by codecs */
    int64_t pooled_frames;
};

/* Fill in the map. On CUDA it waits for the device where it has to see keys and values: what is
 * stored, and so what is launched next, depends on the answer. */
typedef enum kvr_status kvr_assign_fn(const void *opts, const struct kvr_policy_ctx *ctx,
                                      struct kvr_dev *dev, struct kvr_policy_state *state,
                                      uint8_t *map);

/* What the queries of a chunk's clean pass gave each key: of `n_query` sampled queries the sum and
 * the largest of their weights p, query heads of one KV head summed and compared alike. Attention
 * that the method's own choice made necessary: its time is the method's. */
struct kvr_columns {
    int64_t n_query;
    const float *sum, *max; /* [n_active,H], of the host; 0 for what is not held */
};

/* Which of a chunk's queries are looked at. */
enum kvr_query_pick {
    KVR_QUERY_SPREAD, /* so many, evenly spread */
    KVR_QUERY_NEWEST, /* the newest so many */
    KVR_QUERY_FRAME,  /* those of the newest frame */
    KVR_QUERY_CHUNK,  /* all */
};

/* What a thinning retention asks for. */
struct kvr_thin_needs {
    bool by_head;        /* every head keeps tokens of its own */
    bool by_data;        /* which tokens stay depends on keys, values or attention */
    bool counts_by_data; /* how many do, too: anything from none to all */
    bool columns;        /* ctx->columns */
    int queries;         /* of so many queries of a chunk; 0: all */
    enum kvr_query_pick pick;
    bool of_last;       /* the last layer is asked, and what it keeps all layers keep */
    bool chunk_queries; /* ctx->q */
    bool foretold;      /* ctx->foretold: not causal */
    bool keys;          /* ctx->k: the new chunk's keys */
    bool values;        /* ctx->v: and values */
    bool all_keys;      /* ctx->all_keys */
    bool all_values;    /* ctx->all_values, beside all_keys */
    bool turns;         /* undoes the rotation of keys: that of a video's model (kernels/rope.h) */
    bool summaries;     /* ctx->summaries; only of a part by head */
    bool weights;       /* ctx->weights */
    bool beyond_window; /* what is kept stays visible when the cell's window has passed it */
};

/* keep [n_active][sets]: 1 where the token stays, sets being H for a part by head, else 1. It comes
 * as what the layer holds; the new chunk's tokens come as 1. Only a 1 may be changed, to 0. All
 * memory is the host's, `dev` too. */
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
    bool active_only; /* study: tokens beyond n_active are not coded at all (map: ZERO) */
    enum kvr_status (*check)(const void *opts);
    /* A tier for every token. Retention runs afterwards on the same map. */
    kvr_assign_fn *assign;
    bool cuda; /* assign copes with a CUDA device; else kvr_*_assign gives it copies on the host */
    size_t (*study_side_bytes)(const void *opts, const struct kvr_study_counts *n); /* NULL: 0 */
    /* As intended: so many chunks at the most change tier at once, and become one segment; NULL: a
     * chunk is a segment. Beside a retention that thins chunks move one by one. */
    int (*together)(const void *opts);
};

struct kvr_retention {
    const char *name, *title;
    const struct kvr_opt *options;
    size_t opts_size;
    enum kvr_unit unit;
    enum kvr_status (*check)(const void *opts);
    /* Changes bytes of tier 0 only. NULL where `thin` is not. */
    kvr_assign_fn *assign;
    /* As intended only: gives up single tokens, of any tier. */
    kvr_thin_fn *thin;
    void (*needs)(const void *opts, struct kvr_thin_needs *out);
    bool cuda; /* assign copes with a CUDA device; else kvr_*_assign gives it copies on the host */
    size_t (*study_side_bytes)(const void *opts, const struct kvr_study_counts *n); /* NULL: 0 */
    /* A sentence when the options mislead on a model of this shape, heads of keys and values being
     * n_heads (all 0: of any), else NULL; may be NULL. */
    const char *(*warning)(const void *opts, int n_query_heads, int n_heads, int head_dim);
    const char *position; /* where keys are read, if not where they were made; NULL: there */
    bool keeps_tokens;    /* its state is keys and values that come back: bytes of the format */
};

/* Built-in parts: methods/tiers/tiers.def, methods/retention/retention.def. NULL-terminated. */
extern const struct kvr_tiers *const kvr_tiers_parts[];
extern const struct kvr_retention *const kvr_retention_parts[];
/* Those, then the parts of loaded plug-ins; NULL past the last. */
const struct kvr_tiers *kvr_tiers_at(int i);
const struct kvr_retention *kvr_retention_at(int i);

/* A part with its options, as named by a row. part == NULL: none ("", everything is tier 0 and
 * kept). opts are owned. */
struct kvr_tiers_use {
    const struct kvr_tiers *part;
    void *opts;
};
struct kvr_retention_use {
    const struct kvr_retention *part;
    void *opts;
};
/* Chunks that may become one segment: 1 without a part that says more. */
int kvr_tiers_together(const struct kvr_tiers_use *u);
enum kvr_status kvr_tiers_open(struct kvr_tiers_use *out, const char *text);
enum kvr_status kvr_retention_open(struct kvr_retention_use *out, const char *text);
/* Does the part thin, and what does it ask for? All false and 0 where it does not. */
bool kvr_retention_thins(const struct kvr_retention_use *u, struct kvr_thin_needs *out);
const char *kvr_retention_warning(const struct kvr_retention_use *u, int n_query_heads, int n_heads,
                                  int head_dim);
void kvr_tiers_close(struct kvr_tiers_use *u);
void kvr_retention_close(struct kvr_retention_use *u);

/* Ask the part (not NULL), which is given what it can read: a part without `cuda` gets copies of k
 * and v in memory of kvr_dev_host(dev), and that as its device. */
enum kvr_status kvr_tiers_assign(const struct kvr_tiers_use *u, const struct kvr_policy_ctx *ctx,
                                 struct kvr_dev *dev, struct kvr_policy_state *state, uint8_t *map);
enum kvr_status kvr_retention_assign(const struct kvr_retention_use *u,
                                     const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                                     struct kvr_policy_state *state, uint8_t *map);

enum kvr_status kvr_retention_thin(const struct kvr_retention_use *u,
                                   const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                                   struct kvr_policy_state *state, uint8_t *keep);

/* A layer's budget factor. `which`: "none" (1), "linear" (min + l/(L-1) (max-min), 1 when L is
 * 1), "falling" (the same from the last layer back), "moviegen" or "storyeval" (the profiled tables of the study, 30 layers; other depths take
 * the table at the same relative depth, linearly between entries), or a file of one number per
 * line and layer ('#' comments), as `kvreel profile` writes it. */
enum kvr_status kvr_layer_budget(const char *which, double min, double max, int layer, int n_layers,
                                 double *beta);
bool kvr_layer_budget_is_file(const char *which);

#ifdef __cplusplus
}
#endif
#endif
