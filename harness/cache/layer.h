/* layer.h - stores and evicts the segments of one layer's KV cache, and quantizes them again.
 *
 * In the intended reading (the paper's variant of a method), kvr_layer_commit quantizes a chunk's
 * keys and values once, after the chunk's cache-update pass (on the denoised chunk, t = 0). The
 * chunk's tokens may later move to a coarser tier or be evicted; no token moves to a finer tier.
 * When single tokens of a segment are evicted, the remaining tokens are dequantized and quantized
 * again. Quantizing again does not change values that the codec stores exactly. In the study
 * reading (the variant in the study's code), kvr_layer_recode assigns tiers to all tokens of the
 * dequantized cache and quantizes all tokens again.
 *
 * The functions are independent of passes and attention, so that `kvreel codec`, `kvreel predict`
 * and rollouts share them. A layer without data (`dry`) only computes the sizes of what it would
 * store. */
#ifndef KVR_CACHE_LAYER_H
#define KVR_CACHE_LAYER_H

#include "harness/cache/segment.h"
#include "methods/method.h"

struct kvr_layer_geometry {
    int layer, n_layers;
    int n_heads, head_dim;
    int tokens_per_frame, frames_per_chunk;
    int64_t capacity; /* number of tokens of the whole rollout */
    bool alone; /* no other layer is stored, so a retention that selects tokens in the last layer
                 * for all layers selects them in this layer */
};

/* Working memory (KVR_MEM_SCRATCH) that the layers of a cache share; it grows on demand. Only
 * retentions that evict single tokens use the buffers from `keep` to `all_values`, and
 * `summaries`. */
struct kvr_layer_scratch {
    struct kvr_buf gather, work, map;
    struct kvr_buf keep;    /* whether each token is kept: [capacity][G], host memory, where G is H
                             * or 1 */
    struct kvr_buf weights; /* multiplicities of tokens: int32 [capacity][G], host memory, G as in
                             * `keep` */
    struct kvr_buf rows;    /* decoded rows of a segment: first keys, then values */
    struct kvr_buf pick,
        pick_host;             /* pick: int32 indices of the rows to gather; pick_host: host copy of
                                * `pick`, if `pick` is in device memory */
    struct kvr_buf all_keys;   /* keys of all tokens, [capacity,H,D], if the retention requests
                                * them */
    struct kvr_buf all_values; /* values of all tokens, [capacity,H,D], if the retention requests
                                * them */
    struct kvr_buf back;       /* CUDA only: decoded keys, from which a correction's moments are
                                * computed */
    struct kvr_summaries summaries; /* summary tokens by which the retention replaces evicted tokens
                                     * of the chunk being stored */
};
void kvr_layer_scratch_free(struct kvr_layer_scratch *s);

struct kvr_layer_bytes {
    size_t kv, meta; /* kv: bytes of quantized codes (tag KVR_MEM_KV); meta: bytes of side
                      * information (tag KVR_MEM_META) */
};

struct kvr_layer {
    struct kvr_dev *dev;
    const struct kvr_scheme *scheme;
    struct kvr_layer_geometry geo;
    double beta;                       /* budget factor */
    struct kvr_layer_scratch *scratch; /* borrowed */
    bool dry;
    struct kvr_segment *seg; /* segments in chunk order; in the study reading, in tier order */
    int n, cap;
    int64_t n_coded;         /* number of segments encoded so far; also the serial number of the
                              * newest segment */
    int64_t n_active;        /* tokens written so far */
    size_t study_side_bytes; /* bytes of masks and indices in the format of the study's code */
    struct kvr_varying varying;
    struct kvr_layer_bytes
        new_bytes; /* peak bytes during the last commit or recode, including replaced segments
                    * before they were freed */
    struct kvr_policy_state state[2]; /* states of the tier policy (index 0) and of the retention
                                       * policy (index 1) */
    const struct kvr_columns
        *columns;               /* attention that each token received in the pass being stored, or
                                 * NULL if it is unknown */
    const float *q;             /* queries of the pass being stored, [n,n_query_heads,D], or NULL if
                                 * they are unknown */
    int n_query_heads;          /* of q */
    const float *oracle_scores; /* [capacity], see kvr_cache_set_salience; NULL: no scores */
    bool cut;                   /* the next stored chunk begins a new shot */
};

/* Opens a layer that borrows dev, scheme and scratch. If `dry`, the layer computes sizes only and
 * stores no values. After KVR_ENOMEM, nothing is left to free. */
enum kvr_status kvr_layer_open(struct kvr_layer *l, struct kvr_dev *dev,
                               const struct kvr_scheme *scheme,
                               const struct kvr_layer_geometry *geo,
                               struct kvr_layer_scratch *scratch, bool dry);
void kvr_layer_close(struct kvr_layer *l);
void kvr_layer_reset(struct kvr_layer *l); /* for a new video */

/* Quantizes and stores tokens [tok0, tok0 + n). k and v [n,H,D] are F32, already rounded to the
 * cache's type, or NULL for a dry layer. The new tokens replace all stored tokens with an index of
 * tok0 or more. On KVR_ENOMEM the layer is unchanged. */
enum kvr_status kvr_layer_commit(struct kvr_layer *l, const float *k, const float *v, int64_t tok0,
                                 int64_t n);

/* Whether codecs are the only readers of committed values, that is, no policy or correction reads
 * them. */
bool kvr_layer_only_codes(const struct kvr_layer *l);
/* Like kvr_layer_commit, but reads k and v as BF16 without a conversion to F32. Must be called only
 * if kvr_layer_only_codes returns true. */
enum kvr_status kvr_layer_commit_bf16(struct kvr_layer *l, const kvr_bf16 *k, const kvr_bf16 *v,
                                      int64_t tok0, int64_t n);

/* For a retention that selects in the scheme's last layer for all layers (kvr_thin_needs.of_last),
 * evicts the tokens that the last layer has evicted. This layer and the last layer must have
 * committed the same chunk, and they must share their scratch. On KVR_ENOMEM the layer is
 * unchanged. */
enum kvr_status kvr_layer_evict_as_last(struct kvr_layer *l);

/* Quantizes the first n_active tokens of k and v, F32 [capacity,H,D], and replaces all stored
 * segments, as the study reading does after every pass. On KVR_ENOMEM the stored segments are
 * unchanged, but a policy may have updated its scores. */
enum kvr_status kvr_layer_recode(struct kvr_layer *l, const float *k, const float *v,
                                 int64_t n_active);

/* Evicts every segment that has no token visible in `seen`. */
void kvr_layer_evict(struct kvr_layer *l, const struct kvr_visible *seen);

/* Decodes the visible segments whose keys and values are encoded jointly (methods/joint.h); if
 * `seen` is NULL, decodes all such segments. Must be called before kvr_layer_dense() or attention
 * reads the layer, because neither returns a decoding error. For a segment that could not be
 * decoded, the decoded values are NaN. */
enum kvr_status kvr_layer_read_joint(const struct kvr_layer *l, const struct kvr_visible *seen);
/* Frees the values that kvr_layer_read_joint has decoded. */
void kvr_layer_drop_joint(const struct kvr_layer *l);

/* Writes the spans of visible stored tokens in order; with spans == NULL, only counts them. Returns
 * their number. */
int kvr_layer_spans(const struct kvr_layer *l, const struct kvr_visible *seen,
                    struct kvr_span *spans);

/* Decodes tokens [begin, end) to k, v [end-begin,H,D]; k or v may be NULL. A pooled token is
 * repeated for all tokens that it stands for. For zeroed, evicted and not yet written tokens, k and
 * v are 0. If `held` [end-begin] is not NULL, held[i] is set to 1 if attention can see token begin
 * + i. */
void kvr_layer_dense(const struct kvr_layer *l, int64_t begin, int64_t end, float *k, float *v,
                     uint8_t *held);

/* Bytes of moments that a segment with this many heads stores for the scheme's correction. */
size_t kvr_layer_moments_bytes(const struct kvr_layer *l, const struct kvr_codec *k, int heads);

/* Nominal bytes of the layer: its computed size in the packed format. */
size_t kvr_layer_nominal(const struct kvr_layer *l);
/* Bytes of the hidden tokens that a retention keeps because they may become visible again.
 * kvr_layer_nominal includes these bytes, but not the memory of the retention's scores. */
size_t kvr_layer_held_tokens_bytes(const struct kvr_layer *l);
/* Adds the sums `more` over blocks of data-dependent size to `to`; to->most_bits becomes the larger
 * of the two. */
void kvr_varying_add(struct kvr_varying *to, const struct kvr_varying *more);
/* Allocated bytes of the layer's segments and of the policies' states; *codes receives the bytes of
 * the quantized codes, without side information. */
size_t kvr_layer_resident(const struct kvr_layer *l, size_t *codes);
/* Allocated bytes of the layer by tag; for a dry layer, the bytes of codes and side information
 * that it would allocate. The state of a policy has the same size whether the layer is dry or
 * not. */
struct kvr_layer_bytes kvr_layer_held(const struct kvr_layer *l);

#endif
