/* layer.h - what one layer has stored: segments, and how they come to be.
 *
 * As intended (`commit`): a chunk's keys and values are coded once, when its clean pass ends;
 * later a unit may move to a coarser tier or be given up, never back. Where single tokens are given
 * up the rest of their segment is decoded and coded again, which loses nothing of what is held
 * exactly.
 * As the study ran it (`recode`): the complete dense tensors are decided on and coded afresh.
 *
 * Independent of passes and attention, so that `kvreel codec` and `kvreel predict` use the same
 * code as a rollout. Without data (`dry`) only the bytes are worked out. */
#ifndef KVR_CACHE_LAYER_H
#define KVR_CACHE_LAYER_H

#include "harness/cache/segment.h"
#include "methods/method.h"

struct kvr_layer_geometry {
    int layer, n_layers;
    int n_heads, head_dim;
    int tokens_per_frame, frames_per_chunk;
    int64_t capacity; /* tokens of the whole rollout */
    bool alone; /* no other layer is there: it chooses for itself where the last would for all */
};

/* Working memory, shared by the layers of one cache; grows when needed, KVR_MEM_SCRATCH. */
struct kvr_layer_scratch {
    struct kvr_buf gather, work, map;
    struct kvr_buf keep;       /* thinning: [capacity][sets], of the host */
    struct kvr_buf weights;    /* thinning: int32 [capacity][sets], of the host */
    struct kvr_buf rows;       /* thinning: decoded rows, K then V */
    struct kvr_buf pick, told; /* thinning: int32 rows to gather; the host's, where that differs */
    struct kvr_buf all_keys;   /* thinning: [capacity,H,D], where the part asks for all keys */
    struct kvr_buf all_values; /* and where for all values */
    struct kvr_buf back;       /* CUDA: keys read back, for a correction's moments */
    struct kvr_summaries summaries; /* thinning: of the chunk that is being stored */
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
    struct kvr_segment *seg; /* chunk by chunk; in the study reading tier by tier */
    int n, cap;
    int64_t n_coded;         /* segments coded so far: the last serial */
    int64_t n_active;        /* tokens written so far */
    size_t study_side_bytes; /* masks and indices that the study's format counts */
    struct kvr_varying varying;
    struct kvr_layer_bytes made; /* by the last commit or recode, while what it replaced was held */
    struct kvr_policy_state state[2];  /* tiers; retention, when it is another part */
    const struct kvr_columns *columns; /* what the pass being stored attended to; NULL: not known */
    const float *q;        /* the queries it asked [n,n_query_heads,D]; NULL: not known */
    int n_query_heads;     /* of q */
    const float *foretold; /* [capacity]; NULL: nobody told */
    bool cut;              /* the chunk that is stored next begins a shot */
};

enum kvr_status kvr_layer_open(struct kvr_layer *l, struct kvr_dev *dev,
                               const struct kvr_scheme *scheme,
                               const struct kvr_layer_geometry *geo,
                               struct kvr_layer_scratch *scratch, bool dry);
void kvr_layer_close(struct kvr_layer *l);
void kvr_layer_reset(struct kvr_layer *l); /* a new video */

/* Tokens [tok0, tok0 + n), k, v [n,H,D] F32 (already rounded to the cache's type); NULL when
 * dry. Whatever was stored from tok0 on is replaced. On KVR_ENOMEM the layer is as before. */
enum kvr_status kvr_layer_commit(struct kvr_layer *l, const float *k, const float *v, int64_t tok0,
                                 int64_t n);

/* The same of BF16, where nothing but codecs looks at what is stored: then no floats are made of it. */
bool kvr_layer_only_codes(const struct kvr_layer *l);
enum kvr_status kvr_layer_commit_bf16(struct kvr_layer *l, const kvr_bf16 *k, const kvr_bf16 *v,
                                      int64_t tok0, int64_t n);

/* The scheme's last layer has just committed a chunk and chosen for all (kvr_thin_needs.of_last);
 * this one, which committed it too and keeps its scratch with that layer, gives up what that one
 * did. On KVR_ENOMEM the layer is as before. */
enum kvr_status kvr_layer_follow(struct kvr_layer *l);

/* The study: k, v [capacity,H,D] F32, of which n_active tokens are written. On KVR_ENOMEM what is
 * stored is as before; the policy may have scored already. */
enum kvr_status kvr_layer_recode(struct kvr_layer *l, const float *k, const float *v,
                                 int64_t n_active);

/* Give up segments of which nothing in `seen` is left. */
void kvr_layer_evict(struct kvr_layer *l, const struct kvr_visible *seen);

/* Decodes once what is coded as keys and values in one (methods/joint.h) and visible (NULL: all of it);
 * drop forgets it. To be called before such a layer is read: kvr_layer_dense() and spans have no status,
 * and where decoding fails they give NaN. */
enum kvr_status kvr_layer_read_joint(const struct kvr_layer *l, const struct kvr_visible *seen);
void kvr_layer_drop_joint(const struct kvr_layer *l);

/* Spans of what is stored and visible, in order; spans == NULL counts. Returns how many. */
int kvr_layer_spans(const struct kvr_layer *l, const struct kvr_visible *seen,
                    struct kvr_span *spans);

/* What a read gives for tokens [begin, end): k, v [end-begin,H,D], either NULL. Pooled tokens
 * are repeated; what is zero, dropped or not written is 0. `held` (may be NULL) [end-begin]
 * gets 1 for tokens that attention sees. */
void kvr_layer_dense(const struct kvr_layer *l, int64_t begin, int64_t end, float *k, float *v,
                     uint8_t *held);

/* Bytes a segment of so many heads and this key codec keeps for the scheme's correction. */
size_t kvr_layer_moments_bytes(const struct kvr_layer *l, const struct kvr_codec *k, int heads);

/* Format arithmetic and bytes held. Study: section "byte accounting" of its definition. */
size_t kvr_layer_nominal(const struct kvr_layer *l);
/* What a retention remembers of tokens that come back; nominal has it, what scores remember not. */
size_t kvr_layer_kept_beside(const struct kvr_layer *l);
void kvr_varying_add(struct kvr_varying *to, const struct kvr_varying *more);
size_t kvr_layer_resident(const struct kvr_layer *l, size_t *codes);
/* The same by tag, also of a dry layer: codes and side information that would be held. A dry
 * policy remembers as a real one does. */
struct kvr_layer_bytes kvr_layer_held(const struct kvr_layer *l);

#endif
