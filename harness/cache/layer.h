/* layer.h - the stored segments of one layer, and how they are made.
 *
 * Intended (`commit`): a chunk's keys and values are coded once, at the end of its clean pass;
 * later a unit may move to a coarser tier or be evicted, never back. When single tokens are
 * evicted, the rest of their segment is decoded and coded again, which is lossless for exactly
 * stored values. Study (`recode`): the complete dense tensors are decided on and coded again.
 *
 * Independent of passes and attention, so that `kvreel codec` and `kvreel predict` share a
 * rollout's code. Without data (`dry`) only sizes are computed. */
#ifndef KVR_CACHE_LAYER_H
#define KVR_CACHE_LAYER_H

#include "harness/cache/segment.h"
#include "methods/method.h"

struct kvr_layer_geometry {
    int layer, n_layers;
    int n_heads, head_dim;
    int tokens_per_frame, frames_per_chunk;
    int64_t capacity; /* tokens of the whole rollout */
    bool
        alone; /* the only layer: it selects for itself where the last layer would select for all */
};

/* Working memory shared by the layers of a cache; grows on demand, KVR_MEM_SCRATCH. */
struct kvr_layer_scratch {
    struct kvr_buf gather, work, map;
    struct kvr_buf keep;    /* thinning: [capacity][G], host; G is H or 1 */
    struct kvr_buf weights; /* thinning: int32 [capacity][G], host */
    struct kvr_buf rows;    /* thinning: decoded rows, K then V */
    struct kvr_buf pick,
        pick_host;             /* thinning: int32 rows to gather; a separate host copy if needed */
    struct kvr_buf all_keys;   /* thinning: [capacity,H,D], if the part requests all keys */
    struct kvr_buf all_values; /* thinning: the same for all values */
    struct kvr_buf back;       /* CUDA: decoded keys, for a correction's moments */
    struct kvr_summaries summaries; /* thinning: summaries of the chunk being stored */
};
void kvr_layer_scratch_free(struct kvr_layer_scratch *s);

struct kvr_layer_bytes {
    size_t kv, meta; /* by tag */
};

struct kvr_layer {
    struct kvr_dev *dev;
    const struct kvr_scheme *scheme;
    struct kvr_layer_geometry geo;
    double beta;                       /* budget factor */
    struct kvr_layer_scratch *scratch; /* borrowed */
    bool dry;
    struct kvr_segment *seg; /* in chunk order; in the study reading in tier order */
    int n, cap;
    int64_t n_coded;         /* segments coded so far: the last serial */
    int64_t n_active;        /* tokens written so far */
    size_t study_side_bytes; /* masks and indices counted by the study's format */
    struct kvr_varying varying;
    struct kvr_layer_bytes
        new_bytes; /* by the last commit or recode, while the replaced segments still
                                  * existed */
    struct kvr_policy_state state[2]; /* tiers; retention, if it is another part */
    const struct kvr_columns
        *columns;               /* attention received in the pass being stored; NULL: unknown */
    const float *q;             /* its queries [n,n_query_heads,D]; NULL: unknown */
    int n_query_heads;          /* of q */
    const float *oracle_scores; /* [capacity] oracle scores; NULL: none */
    bool cut;                   /* the next stored chunk begins a shot */
};

/* Borrows dev, scheme and scratch. dry: sizes only, no values are stored. KVR_ENOMEM leaves nothing behind. */
enum kvr_status kvr_layer_open(struct kvr_layer *l, struct kvr_dev *dev,
                               const struct kvr_scheme *scheme,
                               const struct kvr_layer_geometry *geo,
                               struct kvr_layer_scratch *scratch, bool dry);
void kvr_layer_close(struct kvr_layer *l);
void kvr_layer_reset(struct kvr_layer *l); /* for a new video */

/* Tokens [tok0, tok0 + n), k, v [n,H,D] F32 (already rounded to the cache's type); NULL when dry.
 * Replaces everything stored from tok0 on. On KVR_ENOMEM the layer is unchanged. */
enum kvr_status kvr_layer_commit(struct kvr_layer *l, const float *k, const float *v, int64_t tok0,
                                 int64_t n);

/* The same in BF16, if only codecs read the values: avoids the conversion to F32. */
bool kvr_layer_only_codes(const struct kvr_layer *l);
enum kvr_status kvr_layer_commit_bf16(struct kvr_layer *l, const kvr_bf16 *k, const kvr_bf16 *v,
                                      int64_t tok0, int64_t n);

/* The scheme's last layer has committed a chunk and selected for all (kvr_thin_needs.of_last). This
 * layer, which has committed it as well and shares its scratch, evicts the same tokens. On
 * KVR_ENOMEM the layer is unchanged. */
enum kvr_status kvr_layer_evict_as_last(struct kvr_layer *l);

/* Study: k, v [capacity,H,D] F32, with n_active written tokens. On KVR_ENOMEM the stored
 * segments are unchanged; the policy may have scored already. */
enum kvr_status kvr_layer_recode(struct kvr_layer *l, const float *k, const float *v,
                                 int64_t n_active);

/* Evicts segments without a token in `seen`. */
void kvr_layer_evict(struct kvr_layer *l, const struct kvr_visible *seen);

/* Decodes jointly coded (methods/joint.h) visible segments (NULL: all); drop frees the values. Call
 * it before reading such a layer: kvr_layer_dense() and spans return no status and give NaN if
 * decoding fails. */
enum kvr_status kvr_layer_read_joint(const struct kvr_layer *l, const struct kvr_visible *seen);
void kvr_layer_drop_joint(const struct kvr_layer *l);

/* Spans of visible stored tokens, in order; spans == NULL only counts. Returns their number. */
int kvr_layer_spans(const struct kvr_layer *l, const struct kvr_visible *seen,
                    struct kvr_span *spans);

/* Decoded values of tokens [begin, end): k, v [end-begin,H,D], either NULL. Pooled tokens are
 * repeated; zero, dropped and unwritten tokens are 0. `held` (may be NULL) [end-begin] is set to 1
 * for tokens visible to attention. */
void kvr_layer_dense(const struct kvr_layer *l, int64_t begin, int64_t end, float *k, float *v,
                     uint8_t *held);

/* Bytes stored with a segment of this many heads for the scheme's correction. */
size_t kvr_layer_moments_bytes(const struct kvr_layer *l, const struct kvr_codec *k, int heads);

/* Size from format arithmetic. Study: see "byte accounting" in its definition. */
size_t kvr_layer_nominal(const struct kvr_layer *l);
/* State of a retention that holds returning tokens; included in nominal, unlike scores' memory. */
size_t kvr_layer_held_tokens_bytes(const struct kvr_layer *l);
void kvr_varying_add(struct kvr_varying *to, const struct kvr_varying *more);
size_t kvr_layer_resident(const struct kvr_layer *l, size_t *codes);
/* The same by tag, also for a dry layer: codes and side information that would be stored. Policies
 * keep the same state when dry. */
struct kvr_layer_bytes kvr_layer_held(const struct kvr_layer *l);

#endif
