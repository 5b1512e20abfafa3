/* cache_spans.c - lists the spans (runs of tokens) over which a pass computes attention: coded
 * segments, or runs of an uncompressed copy. */
#include <stdlib.h>

#include "harness/cache/cache_impl.h"
#include "harness/cache/rows.h"

enum kvr_status kvr_cache_reserve_spans(struct kvr_cache *c, int n)
{
    struct kvr_span *p;

    if (n <= c->spans_cap)
        return KVR_OK;
    p = realloc(c->spans, (size_t)n * 2 * sizeof *p);
    if (!p)
        return kvr_fail(KVR_ENOMEM, "cache: out of memory while allocating %d token spans", n);
    c->spans = p;
    c->spans_cap = n * 2;
    return KVR_OK;
}

/* Moves n rows of x from row `from` to the earlier row `to`. Each copy has at most from - to rows,
 * so that its source and its target do not overlap. */
static void move_rows(struct kvr_dev *dev, float *x, size_t width, int64_t to, int64_t from,
                      int64_t n)
{
    const int64_t gap = from - to;

    for (int64_t i = 0, m; gap && i < n; i += m) {
        m = n - i < gap ? n - i : gap;
        kvr_dev_copy(dev, x + (size_t)(to + i) * width, x + (size_t)(from + i) * width,
                     (size_t)m * width * sizeof *x);
    }
}

/* Decodes the visible stored tokens to consecutive F32 rows of values_k and values_v. Returns the
 * number of tokens. */
static int64_t gather_dense(struct kvr_cache *c, const struct kvr_layer *l,
                            const struct kvr_visible *seen)
{
    const size_t width = (size_t)kvr_cache_kv_heads(&c->shape) * (size_t)c->shape.head_dim;
    float *k = c->values_k.p, *v = c->values_v.p;
    int64_t n = 0;

    for (int r = 0; r < seen->n; r++) {
        const int64_t begin = seen->run[r][0], m = seen->run[r][1] - begin, n0 = n;
        const uint8_t *held = c->held.p;

        kvr_layer_dense(l, begin, begin + m, k + (size_t)n0 * width, v + (size_t)n0 * width,
                        c->held.p);
        for (int64_t t = 0, end; t < m; t = end) {
            for (end = t; end < m && held[end] == held[t];)
                end++;
            if (!held[t])
                continue;
            move_rows(c->dev, k, width, n, n0 + t, end - t);
            move_rows(c->dev, v, width, n, n0 + t, end - t);
            n += end - t;
        }
    }
    return n;
}

static size_t token_elems(const struct kvr_cache *c)
{
    return (size_t)kvr_cache_kv_heads(&c->shape) * (size_t)c->shape.head_dim;
}

/* Returns tokens [from, to) of the uncompressed copy as a span. */
static struct kvr_span copied(const struct kvr_cache *c, int64_t from, int64_t to)
{
    const size_t at = (size_t)from * token_elems(c) * kvr_dtype_size(c->shape.exact);

    return (struct kvr_span){ .raw = { (char *)c->dense_k.p + at, (char *)c->dense_v.p + at,
                                       c->shape.exact },
                              .n = to - from };
}

/* Lists the spans of path `decoded`. The function first decodes the layer's cache to an
 * uncompressed copy. The copy has all past tokens. For NAME@study it has the cache's whole
 * capacity, as in the study's code. Each run of visible stored tokens in the copy is a span. */
static enum kvr_status decoded_spans(struct kvr_cache *c, const struct kvr_layer *l,
                                     const struct kvr_visible *seen, int *n_out)
{
    const int64_t all =
        kvr_scheme_is_study(c->scheme) ? kvr_cache_capacity_tokens(c) : kvr_cache_pass_begin(c);
    const size_t elems = (size_t)all * token_elems(c);
    const uint8_t *held = c->held.p;

    kvr_phase_begin(c->phases, KVR_CACHE_DENSE_DECODE);
    kvr_layer_dense(l, 0, all, c->values_k.p, c->values_v.p, c->held.p);
    kvr_values_from_f32(c->dev, c->dense_k.p, c->shape.exact, c->values_k.p, elems);
    kvr_values_from_f32(c->dev, c->dense_v.p, c->shape.exact, c->values_v.p, elems);
    kvr_phase_end(c->phases, KVR_CACHE_DENSE_DECODE);
    *n_out = 0;
    for (int r = 0; r < seen->n; r++)
        for (int64_t t = seen->run[r][0], end; t < seen->run[r][1]; t = end) {
            for (end = t; end < seen->run[r][1] && held[end] == held[t];)
                end++;
            if (!held[t])
                continue;
            KVR_TRY(kvr_cache_reserve_spans(c, *n_out + 2));
            c->spans[(*n_out)++] = copied(c, t, end);
        }
    return kvr_cache_reserve_spans(c, *n_out + 1);
}

struct kvr_span kvr_cache_chunk_span(struct kvr_cache *c, const void *k, const void *v)
{
    const int64_t begin = kvr_cache_pass_begin(c), n = kvr_cache_pass_tokens(c);
    const size_t bytes = (size_t)n * token_elems(c) * kvr_dtype_size(c->shape.exact);
    struct kvr_span s = { .raw = { k, v, c->shape.exact }, .n = n };

    if (c->path == KVR_PATH_DECODED) {
        s = copied(c, begin, begin + n);
        kvr_phase_begin(c->phases, KVR_CACHE_DENSE_DECODE);
        kvr_dev_copy(c->dev, (void *)s.raw.k, k, bytes);
        kvr_dev_copy(c->dev, (void *)s.raw.v, v, bytes);
        kvr_phase_end(c->phases, KVR_CACHE_DENSE_DECODE);
    }
    s.causal = c->shape.causal;
    return s;
}

enum kvr_status kvr_cache_past_spans(struct kvr_cache *c, const struct kvr_layer *l, int *n_out)
{
    const struct kvr_visible seen = kvr_cache_visible(c, kvr_cache_pass_begin(c));
    enum kvr_status st;

    if (kvr_codec_joint(c->scheme->k[0])) {
        kvr_phase_begin(c->phases, KVR_CACHE_DENSE_DECODE);
        st = kvr_layer_read_joint(l, &seen);
        kvr_phase_end(c->phases, KVR_CACHE_DENSE_DECODE);
        KVR_TRY(st);
    }
    if (c->path == KVR_PATH_DECODED)
        return decoded_spans(c, l, &seen, n_out);
    if (c->path != KVR_PATH_DENSE) {
        KVR_TRY(kvr_cache_reserve_spans(c, kvr_layer_spans(l, &seen, NULL) + 1));
        *n_out = kvr_layer_spans(l, &seen, c->spans);
        return KVR_OK;
    }
    KVR_TRY(kvr_cache_reserve_spans(c, 2));
    kvr_phase_begin(c->phases, KVR_CACHE_DENSE_DECODE);
    const int64_t n = gather_dense(c, l, &seen);
    const size_t elems = (size_t)(n * kvr_cache_kv_heads(&c->shape) * c->shape.head_dim);

    kvr_values_from_f32(c->dev, c->dense_k.p, c->shape.exact, c->values_k.p, elems);
    kvr_values_from_f32(c->dev, c->dense_v.p, c->shape.exact, c->values_v.p, elems);
    c->spans[0] =
        (struct kvr_span){ .raw = { c->dense_k.p, c->dense_v.p, c->shape.exact }, .n = n };
    *n_out = 1;
    kvr_phase_end(c->phases, KVR_CACHE_DENSE_DECODE);
    return KVR_OK;
}
