/* layer.h - the stored segments of one layer, and how they are made.
 *
 * In the paper's reading, kvr_layer_commit codes a chunk's keys and values once, at the end of the
 * chunk's clean pass. Later its tokens may move to a coarser tier or be evicted; no token moves
 * back. When single tokens are evicted, the rest of their segment is decoded and coded again, which
 * is lossless for exactly stored values. In the study's reading, kvr_layer_recode assigns tiers to
 * all tokens of the decoded cache and codes all of them again.
 *
 * The functions are independent of passes and attention, so that `kvreel codec` and `kvreel
 * predict` share a rollout's code. A layer without data (`dry`) only computes sizes. */
#ifndef KVR_CACHE_LAYER_H
#define KVR_CACHE_LAYER_H

#include "harness/cache/segment.h"
#include "methods/method.h"

struct kvr_layer_geometry {
    int layer, n_layers;
    int n_heads, head_dim;
    int tokens_per_frame, frames_per_chunk;
    int64_t capacity; /* tokens of the whole rollout */
    bool alone; /* no other layer is stored: a retention whose last layer selects for all layers
                * selects here */
};

/* Working memory (KVR_MEM_SCRATCH) shared by the layers of a cache; it grows on demand. The buffers
 * from `keep` to `all_values`, and `summaries`, are used by retentions that evict single tokens. */
struct kvr_layer_scratch {
    struct kvr_buf gather, work, map;
    struct kvr_buf keep;    /* whether each token stays: [capacity][G], host memory; G is H or 1 */
    struct kvr_buf weights; /* multiplicities of tokens: int32 [capacity][G], host memory */
    struct kvr_buf rows;    /* decoded rows, K then V */
    struct kvr_buf pick,
        pick_host;             /* int32 indices of rows to gather; a separate host copy if needed */
    struct kvr_buf all_keys;   /* all keys, [capacity,H,D], if the retention requests them */
    struct kvr_buf all_values; /* all values, [capacity,H,D], if the retention requests them */
    struct kvr_buf back;       /* CUDA only: decoded keys, for a correction's moments */
    struct kvr_summaries summaries; /* tokens by which the retention replaces tokens of the chunk
                                     * being stored */
};
void kvr_layer_scratch_free(struct kvr_layer_scratch *s);

struct kvr_layer_bytes {
    size_t kv, meta; /* bytes with tags KVR_MEM_KV and KVR_MEM_META */
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
    int64_t n_coded;         /* number of segments coded so far, which is the serial number of the
                              * newest segment */
    int64_t n_active;        /* tokens written so far */
    size_t study_side_bytes; /* masks and indices counted by the study's format */
    struct kvr_varying varying;
    struct kvr_layer_bytes
        new_bytes; /* by the last commit or recode, while the replaced segments still
                                  * existed */
    struct kvr_policy_state state[2]; /* tiers; retention, if it is another part */
    const struct kvr_columns
        *columns;               /* attention that each token received in the pass being stored;
                                 * NULL: unknown */
    const float *q;             /* queries of that pass, [n,n_query_heads,D]; NULL: unknown */
    int n_query_heads;          /* of q */
    const float *oracle_scores; /* [capacity], see kvr_cache_set_salience; NULL: no scores */
    bool cut;                   /* the next stored chunk begins a shot */
};

/* Borrows dev, scheme and scratch. dry: sizes only, no values are stored. KVR_ENOMEM leaves nothing behind. */
enum kvr_status kvr_layer_open(struct kvr_layer *l, struct kvr_dev *dev,
                               const struct kvr_scheme *scheme,
                               const struct kvr_layer_geometry *geo,
                               struct kvr_layer_scratch *scratch, bool dry);
void kvr_layer_close(struct kvr_layer *l);
void kvr_layer_reset(struct kvr_layer *l); /* for a new video */

/* Codes tokens [tok0, tok0 + n): k, v [n,H,D] F32 (already rounded to the cache's type), NULL when
 * dry. They replace all stored tokens from tok0 on. On KVR_ENOMEM the layer is unchanged. */
enum kvr_status kvr_layer_commit(struct kvr_layer *l, const float *k, const float *v, int64_t tok0,
                                 int64_t n);

/* kvr_layer_commit_bf16 is kvr_layer_commit for BF16 values, without a conversion to F32. It must
 * be called only if kvr_layer_only_codes returns true: no other part than codecs reads the
 * values. */
bool kvr_layer_only_codes(const struct kvr_layer *l);
enum kvr_status kvr_layer_commit_bf16(struct kvr_layer *l, const kvr_bf16 *k, const kvr_bf16 *v,
                                      int64_t tok0, int64_t n);

/* The scheme's last layer has committed a chunk and selected for all (kvr_thin_needs.of_last). This
 * layer, which has committed it as well and shares its scratch, evicts the same tokens. On
 * KVR_ENOMEM the layer is unchanged. */
enum kvr_status kvr_layer_evict_as_last(struct kvr_layer *l);

/* Codes all tokens again, as the study's reading does after a pass: k, v [capacity,H,D] F32, with
 * n_active written tokens. On KVR_ENOMEM the stored segments are unchanged, but a policy may have
 * updated its scores. */
enum kvr_status kvr_layer_recode(struct kvr_layer *l, const float *k, const float *v,
                                 int64_t n_active);

/* Evicts segments without a token in `seen`. */
void kvr_layer_evict(struct kvr_layer *l, const struct kvr_visible *seen);

/* Decodes jointly coded (methods/joint.h) visible segments (`seen` NULL: all segments);
 * kvr_layer_drop_joint frees the decoded values. Must be called before such a layer is read:
 * kvr_layer_dense() and spans return no status and give NaN if decoding fails. */
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

/* Bytes by the arithmetic of the packed format. For the study's reading see "byte accounting" in
 * the function's definition. */
size_t kvr_layer_nominal(const struct kvr_layer *l);
/* Bytes of the tokens that a retention holds because they may return. kvr_layer_nominal includes
 * these bytes, but not the memory of scores. */
size_t kvr_layer_held_tokens_bytes(const struct kvr_layer *l);
void kvr_varying_add(struct kvr_varying *to, const struct kvr_varying *more);
size_t kvr_layer_resident(const struct kvr_layer *l, size_t *codes);
/* Bytes that the layer holds, by tag; for a dry layer, codes and side information that would be
 * stored. Policies keep the same state when dry. */
struct kvr_layer_bytes kvr_layer_held(const struct kvr_layer *l);

#endif
