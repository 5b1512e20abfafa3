/* cache_impl.h - the state of a KV cache, shared by the files that implement cache.h.
 *
 *     KVR_TRY(kvr_cache_past_spans(c, layer, &n));
 *     c->spans[n++] = kvr_cache_chunk_span(c, k, v); */
#ifndef KVR_CACHE_CACHE_IMPL_H
#define KVR_CACHE_CACHE_IMPL_H

#include "harness/cache/cache_sizes.h"
#include "harness/cache/layer.h"

/* Timed phases of the KV cache, after the phases of attention. KVR_CACHE_STORE includes
 * KVR_CACHE_STORE_DECODE. */
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

    struct kvr_buf current_k, current_v; /* [T,H,D] in shape.exact */
    /* [T,H,D] in shape.exact: keys of the current chunk minus their channel mean, for methods that
     * subtract it. */
    struct kvr_buf demeaned;
    struct kvr_buf values_k, values_v; /* F32 [T,H,D]; [capacity,H,D] for the study reading */
    struct kvr_buf dense_k, dense_v;   /* path dense: [capacity,H,D] in shape.exact */
    struct kvr_buf held;               /* path dense: bytes [capacity], 1 for a stored token */
    struct kvr_buf columns; /* sums, then maxima, of attention weights [capacity,H]; host memory */
    struct kvr_attend_scratch attend;
    struct kvr_phases *phases;
    int64_t observer_ns;
    kvr_cache_observer_fn *observer;
    void *observer_ctx;
    float *past; /* output for the attention mass on past tokens; NULL: not needed */
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

/* Fills c->spans with the layer's spans for this pass, before the current chunk; leaves room for
 * one more. */
enum kvr_status kvr_cache_past_spans(struct kvr_cache *c, const struct kvr_layer *l, int *n_out);

/* Returns the current chunk as a span. On path decoded the chunk is first copied into the
 * uncompressed copy, and the span refers to that copy. */
struct kvr_span kvr_cache_chunk_span(struct kvr_cache *c, const void *k, const void *v);

#endif
