/* cache_impl.h - the state of a KV cache, shared by the files that implement cache.h.
 *
 *     KVR_TRY(kvr_cache_past_spans(c, layer, &n));
 *     c->spans[n++] = kvr_cache_chunk_span(c, k, v); */
#ifndef KVR_CACHE_CACHE_IMPL_H
#define KVR_CACHE_CACHE_IMPL_H

#include "harness/cache/cache_sizes.h"
#include "harness/cache/layer.h"

/* Timed phases of the KV cache. Their numbers continue the numbers of attention's phases
 * (attend.h). KVR_CACHE_STORE includes KVR_CACHE_STORE_DECODE. */
enum {
    KVR_CACHE_STORE = KVR_ATTEND_PHASES,
    KVR_CACHE_STORE_DECODE,
    KVR_CACHE_DENSE_DECODE,
    KVR_CACHE_PHASES
};

struct kvr_cache {
    struct kvr_dev *dev;
    const struct kvr_scheme *scheme;
    struct kvr_cache_shape shape;
    enum kvr_path path;

    struct kvr_layer *layer; /* [L] */
    struct kvr_layer_scratch layer_scratch;
    struct kvr_span *spans;
    int spans_cap;

    bool in_pass;
    struct kvr_pass pass;
    int appended; /* layer whose K and V are in current_k and current_v; -1: none */

    struct kvr_buf current_k, current_v; /* keys and values of the current chunk, [T,H,D] of type
                                          * shape.exact */
    /* keys of the current chunk, each minus its mean over the D channels, [T,H,D] of type
     * shape.exact; used only by methods with the option current=demean */
    struct kvr_buf demeaned;
    struct kvr_buf values_k, values_v; /* K and V converted to F32: [T,H,D], or [capacity,H,D] on
                                        * paths `dense` and `decoded` and for NAME@study variants */
    struct kvr_buf dense_k, dense_v;   /* only for paths `dense` and `decoded`: decoded copy of the
                                        * cache, [capacity,H,D] of type shape.exact */
    struct kvr_buf held;               /* only for paths `dense` and `decoded`: one byte per token,
                                        * [capacity]: 1 if the token takes part in attention,
                                        * otherwise 0 */
    struct kvr_buf columns; /* two F32 arrays of up to [capacity,H] in host memory: each token's
                             * softmax weights, summed over the queries, and their maximum over the
                             * queries */
    struct kvr_attend_scratch attend;
    struct kvr_phases *phases;
    int64_t observer_ns;
    kvr_cache_observer_fn *observer;
    void *observer_ctx;
    float *past; /* [L,T,H]: receives the sum of each query's softmax weights over past tokens;
                  * NULL: not computed */
};

static inline int64_t kvr_cache_chunk_tokens(const struct kvr_cache *c)
{
    return (int64_t)c->shape.frames_per_chunk * c->shape.tokens_per_frame;
}

static inline int64_t kvr_cache_capacity_tokens(const struct kvr_cache *c)
{
    return (int64_t)c->shape.capacity_frames * c->shape.tokens_per_frame;
}

static inline int64_t kvr_cache_pass_begin(const struct kvr_cache *c)
{
    return (int64_t)c->pass.frame0 * c->shape.tokens_per_frame;
}

static inline int64_t kvr_cache_pass_tokens(const struct kvr_cache *c)
{
    return (int64_t)c->pass.n_frames * c->shape.tokens_per_frame;
}

/* Returns the token ranges before `end` that are visible to the current pass. Tokens in the ranges
 * may have been evicted. */
struct kvr_visible kvr_cache_visible(const struct kvr_cache *c, int64_t end);

/* Enlarges c->spans to at least n elements. */
enum kvr_status kvr_cache_reserve_spans(struct kvr_cache *c, int n);

/* Fills c->spans with the layer's past tokens that are visible to this pass, as spans (runs of
 * tokens, segment.h), and sets *n_out to the number of spans. The array has room for one more span,
 * that of the current chunk. */
enum kvr_status kvr_cache_past_spans(struct kvr_cache *c, const struct kvr_layer *l, int *n_out);

/* Returns the current chunk as a span. On path `decoded`, the chunk is first copied into the
 * uncompressed copy of the cache (dense_k, dense_v), and the span refers to that copy. */
struct kvr_span kvr_cache_chunk_span(struct kvr_cache *c, const void *k, const void *v);

#endif
