/* layer.h - stores, requantizes and evicts the segments of one layer's KV cache. A segment is a set
 * of tokens encoded by one codec.
 *
 * The variant NAME of a method is the method as its own paper describes it. In this variant,
 * kvr_layer_commit quantizes a chunk's keys and values once, after the cache-update pass (the
 * forward pass on the denoised chunk, t = 0). A tier is a class of tokens with its own codec. Later
 * commits may evict tokens. They may also move tokens to a tier whose codec stores fewer bytes, or
 * to the base tier (tier 0). When single tokens of a segment are evicted, the remaining tokens are
 * dequantized and quantized again. Quantizing again does not change values that the codec stores
 * exactly. The variant NAME@study reproduces the code of the 33-method study. In this variant,
 * kvr_layer_recode assigns tiers to all tokens of the dequantized cache and quantizes all tokens
 * again.
 *
 * The functions of layer.h run no forward pass and no attention, so `kvreel codec`, `kvreel
 * predict` and rollouts can all call them. A layer without data (`dry`) only computes the sizes of
 * what it would store. */
#ifndef KVR_CACHE_LAYER_H
#define KVR_CACHE_LAYER_H

#include "harness/cache/segment.h"
#include "methods/method.h"

struct kvr_layer_geometry {
    int layer, n_layers;
    int n_heads, head_dim;
    int tokens_per_frame, frames_per_chunk;
    int64_t capacity; /* number of tokens of the whole rollout */
    bool alone;       /* whether this layer is the only layer that is stored. If so, retention
                       * policies that select tokens in the last layer for all layers select them
                       * in this layer. */
};

/* Working memory (KVR_MEM_SCRATCH) that the layers of a cache share; it grows on demand. Only
 * retention policies that evict single tokens use the buffers from `keep` to `all_values`, and
 * `summaries`. */
struct kvr_layer_scratch {
    struct kvr_buf gather, work, map;
    struct kvr_buf keep;    /* [capacity][G] in host memory: 1 for a token to keep, 0 for a token to
                             * evict; G is H if tokens are selected per head, and otherwise 1 */
    struct kvr_buf weights; /* int32 [capacity][G] in host memory, with the same G as `keep`: number
                             * of original tokens that each token replaces */
    struct kvr_buf rows;    /* decoded keys of a segment, then its decoded values, for
                             * requantization after tokens were evicted */
    struct kvr_buf pick,
        pick_host;             /* `pick`: int32 indices of the rows to gather from K and V; a row is
                                * one token of one head; `pick_host`: host copy of `pick`, if `pick`
                                * is in device memory */
    struct kvr_buf all_keys;   /* F32 keys of past tokens (decoded) and of the new chunk, for a
                                * retention policy that reads both (kvr_policy_ctx.all_keys) */
    struct kvr_buf all_values; /* F32 values (V) of the tokens whose keys are in all_keys, for a
                                * retention policy that reads V (kvr_policy_ctx.all_values) */
    struct kvr_buf back;       /* CUDA only: decoded keys, from which the moments (key statistics)
                                * of the score correction are computed */
    struct kvr_summaries summaries; /* summary tokens by which the retention policy replaces evicted
                                     * tokens during the current commit */
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
    struct kvr_segment *seg; /* the layer's segments [n], ordered by chunk; for the variant
                              * NAME@study, ordered by tier */
    int n, cap;
    int64_t n_coded;         /* number of segments encoded so far; also the serial number of the
                              * newest segment */
    int64_t n_active;        /* number of tokens written so far */
    size_t study_side_bytes; /* for the variant NAME@study only: bytes of the masks and token
                              * indices that the code of the 33-method study stores */
    struct kvr_varying varying;
    struct kvr_layer_bytes
        new_bytes; /* bytes of the segments that the last commit or recode created. The memory peak
                    * includes both these bytes and the replaced segments, which are freed only
                    * afterwards. */
    struct kvr_policy_state state[2]; /* states of the tier policy (index 0) and of the retention
                                       * policy (index 1) */
    const struct kvr_columns
        *columns;               /* sums and maxima of each token's softmax weights, over all queries
                                 * of the current pass or a subset that the retention policy
                                 * requests; NULL if they were not computed */
    const float *q;             /* F32 queries of the current pass, [tokens of the
                                 * pass,n_query_heads,D]; NULL if not available */
    int n_query_heads;          /* of q */
    const float *oracle_scores; /* [capacity]: scores of the tokens, computed from an earlier run
                                 * (kvr_cache_set_salience); NULL: no scores */
    bool cut;                   /* whether the next stored chunk begins a new shot (a prompt
                                 * switch) */
};

/* Opens a layer that borrows dev, scheme and scratch. If `dry`, the layer computes sizes only and
 * stores no values. After a failure, the layer owns no memory. */
enum kvr_status kvr_layer_open(struct kvr_layer *l, struct kvr_dev *dev,
                               const struct kvr_scheme *scheme,
                               const struct kvr_layer_geometry *geo,
                               struct kvr_layer_scratch *scratch, bool dry);
void kvr_layer_close(struct kvr_layer *l);
void kvr_layer_reset(struct kvr_layer *l); /* evicts all tokens and resets the policy states, for a
                                            * new video */

/* Quantizes and stores tokens [tok0, tok0 + n). k and v [n,H,D] are F32; the caller has rounded
 * their elements to the cache's type of uncompressed tokens (kvr_cache_shape.exact). For a dry
 * layer, k and v are NULL. The new tokens replace all stored tokens with an index of tok0 or more.
 * On KVR_ENOMEM the layer is unchanged. */
enum kvr_status kvr_layer_commit(struct kvr_layer *l, const float *k, const float *v, int64_t tok0,
                                 int64_t n);

/* Whether kvr_layer_commit encodes k and v independently of each other and reads them for no other
 * purpose. This is so if the method has no tiers, no retention, no joint codec and no correction
 * that stores moments (statistics of the keys). */
bool kvr_layer_only_codes(const struct kvr_layer *l);
/* Like kvr_layer_commit, but reads k and v as BF16 without a conversion to F32. Must be called only
 * if kvr_layer_only_codes returns true. */
enum kvr_status kvr_layer_commit_bf16(struct kvr_layer *l, const kvr_bf16 *k, const kvr_bf16 *v,
                                      int64_t tok0, int64_t n);

/* Evicts from this layer the tokens that the retention policy evicted from the last layer. Called
 * only if the policy selects tokens in the last layer for all layers (kvr_thin_needs.of_last). Both
 * layers must have committed the same chunk and must share their scratch. On KVR_ENOMEM this layer
 * is unchanged. */
enum kvr_status kvr_layer_evict_as_last(struct kvr_layer *l);

/* Quantizes the whole cache again, as the code of the 33-method study does: replaces all stored
 * segments by new segments that encode k and v, F32 [capacity,H,D]. n_active is the number of
 * tokens written so far. Some methods of the study quantize only the n_active written tokens, and
 * other methods quantize all `capacity` tokens. On KVR_ENOMEM the stored segments are unchanged,
 * but a policy may have updated its scores. */
enum kvr_status kvr_layer_recode(struct kvr_layer *l, const float *k, const float *v,
                                 int64_t n_active);

/* Evicts every segment that has no visible token. `seen` lists the visible tokens (segment.h). */
void kvr_layer_evict(struct kvr_layer *l, const struct kvr_visible *seen);

/* Decodes every segment that has a visible token (`seen`) and a joint codec, which decodes keys and
 * values together (methods/joint.h). If `seen` is NULL, decodes all segments with a joint codec.
 * Must be called before kvr_layer_dense() or attention reads the layer, because neither returns a
 * decoding error. If decoding a segment fails, its decoded keys and values are NaN. */
enum kvr_status kvr_layer_read_joint(const struct kvr_layer *l, const struct kvr_visible *seen);
/* Frees the keys and values that kvr_layer_read_joint has decoded. */
void kvr_layer_drop_joint(const struct kvr_layer *l);

/* Lists in `spans` the stored tokens that are visible (`seen`): one span (segment.h) for each
 * segment and run of `seen` that have tokens in common. Returns the number of spans. If `spans` is
 * NULL, only counts the spans. */
int kvr_layer_spans(const struct kvr_layer *l, const struct kvr_visible *seen,
                    struct kvr_span *spans);

/* Decodes tokens [begin, end) to k, v [end-begin,H,D]; k or v may be NULL. A pooled token is
 * repeated for all tokens that it stands for. For tokens that are stored as zeros (KVR_SEG_ZERO),
 * evicted or not yet written, k and v are 0. If `held` [end-begin] is not NULL, held[i] is set to 1
 * if token begin + i takes part in attention, and otherwise to 0. Tokens stored as zeros take part
 * in attention. */
void kvr_layer_dense(const struct kvr_layer *l, int64_t begin, int64_t end, float *k, float *v,
                     uint8_t *held);

/* Bytes of the moments (statistics of the keys) that a segment with `heads` heads stores for the
 * method's score correction. */
size_t kvr_layer_moments_bytes(const struct kvr_layer *l, const struct kvr_codec *k, int heads);

/* Nominal bytes of the layer: its computed size in the packed format. */
size_t kvr_layer_nominal(const struct kvr_layer *l);
/* Bytes of evicted tokens that the retention policy stores in its own state, because these tokens
 * may return to the cache. kvr_layer_nominal includes these bytes, but not other states of
 * policies, such as scores. */
size_t kvr_layer_held_tokens_bytes(const struct kvr_layer *l);
/* Adds the numbers of elements and bytes in `more` to those in `to`, and sets to->most_bits to the
 * larger most_bits of `to` and `more`. Both structs describe encoded blocks whose size depends on
 * the data. */
void kvr_varying_add(struct kvr_varying *to, const struct kvr_varying *more);
/* Allocated bytes of the layer's segments and of the states of its policies. *codes receives the
 * bytes of the quantized codes alone. */
size_t kvr_layer_resident(const struct kvr_layer *l, size_t *codes);
/* Allocated bytes of the layer by memory tag. For a dry layer (without data), these are the bytes
 * of codes and side information that the layer would allocate. The state of a policy has the same
 * size whether the layer is dry or not. */
struct kvr_layer_bytes kvr_layer_held(const struct kvr_layer *l);

#endif
