/* cache.c - segments per layer, what of them a pass may see, and when they are made. */
#include "harness/cache/cache.h"

#include <stdlib.h>
#include <string.h>

#include "harness/cache/attend.h"
#include "harness/core/clock.h"

struct layer {
    struct kvr_segment *seg; /* oldest first */
    int n, cap;
};

struct kvr_cache {
    struct kvr_dev *dev;
    const struct kvr_plan *plan;
    struct kvr_cache_shape shape;
    enum kvr_path path;

    struct layer *layer; /* [L] */
    struct kvr_span *spans;
    int spans_cap;

    bool in_pass;
    struct kvr_pass pass;
    int appended; /* layer whose k, v are in `current`; -1: none */

    struct kvr_buf current_k, current_v; /* [T,H,D] in shape.exact */
    struct kvr_buf values, work;         /* [T,H,D] F32: codec input and scratch */
    struct kvr_attend_scratch scratch;
    struct kvr_cache_times times;
};

void kvr_segment_free(struct kvr_segment *s)
{
    kvr_packed_free(&s->k);
    kvr_packed_free(&s->v);
}

static int64_t chunk_tokens(const struct kvr_cache *c)
{
    return (int64_t)c->shape.frames_per_chunk * c->shape.tokens_per_frame;
}

static enum kvr_status check_shape(const struct kvr_cache_shape *s)
{
    if (s->n_layers < 1 || s->n_heads < 1 || s->head_dim < 1 || s->tokens_per_frame < 1 ||
        s->frames_per_chunk < 1 || s->capacity_frames < 1)
        return kvr_fail(KVR_EINVAL, "cache: every extent must be at least 1");
    if (s->window_frames < 0 || s->sink_frames < 0)
        return kvr_fail(KVR_EINVAL, "cache: window %d, sink %d: must not be negative",
                        s->window_frames, s->sink_frames);
    if (s->window_frames && s->window_frames < s->frames_per_chunk + s->sink_frames)
        return kvr_fail(KVR_EINVAL,
                        "cache: window of %d frames cannot hold the sink (%d) and a chunk (%d)",
                        s->window_frames, s->sink_frames, s->frames_per_chunk);
    if (s->exact != KVR_BF16 && s->exact != KVR_F32)
        return kvr_fail(KVR_EINVAL, "cache: exact type %s, expected BF16 or F32",
                        kvr_dtype_name(s->exact));
    return KVR_OK;
}

enum kvr_status kvr_cache_open(struct kvr_cache **out, struct kvr_dev *dev,
                               const struct kvr_plan *plan, const struct kvr_cache_shape *shape,
                               enum kvr_path path)
{
    struct kvr_cache *c;
    enum kvr_status st;

    KVR_TRY(check_shape(shape));
    KVR_TRY(kvr_plan_check(plan, shape->n_heads, shape->head_dim));
    c = calloc(1, sizeof *c);
    if (!c)
        return kvr_fail(KVR_ENOMEM, "cache: no memory");
    c->dev = dev;
    c->plan = plan;
    c->shape = *shape;
    c->path = path;
    c->appended = -1;
    c->layer = calloc((size_t)shape->n_layers, sizeof *c->layer);
    if (!c->layer) {
        st = kvr_fail(KVR_ENOMEM, "cache: no memory");
        goto fail;
    }
    const size_t elems = (size_t)(chunk_tokens(c) * shape->n_heads * shape->head_dim);
    const size_t exact = elems * kvr_dtype_size(shape->exact);

    st = kvr_buf_alloc(&c->current_k, dev, KVR_MEM_SCRATCH, exact);
    if (st == KVR_OK)
        st = kvr_buf_alloc(&c->current_v, dev, KVR_MEM_SCRATCH, exact);
    if (st == KVR_OK)
        st = kvr_buf_alloc(&c->values, dev, KVR_MEM_SCRATCH, elems * sizeof(float));
    if (st == KVR_OK)
        st = kvr_buf_alloc(&c->work, dev, KVR_MEM_SCRATCH, elems * sizeof(float));
    if (st == KVR_OK)
        st = kvr_attend_reserve(&c->scratch, dev, shape->n_heads, shape->head_dim,
                                chunk_tokens(c));
    if (st != KVR_OK)
        goto fail;
    *out = c;
    return KVR_OK;
fail:
    kvr_cache_close(&c);
    return st;
}

/* Remove segments for which keep[] is false, holding the order. */
static void drop_segments(struct layer *l, const bool *keep)
{
    int n = 0;

    for (int i = 0; i < l->n; i++) {
        if (keep[i])
            l->seg[n++] = l->seg[i];
        else
            kvr_segment_free(&l->seg[i]);
    }
    l->n = n;
}

void kvr_cache_reset(struct kvr_cache *c)
{
    for (int i = 0; i < c->shape.n_layers; i++) {
        for (int j = 0; j < c->layer[i].n; j++)
            kvr_segment_free(&c->layer[i].seg[j]);
        c->layer[i].n = 0;
    }
    c->in_pass = false;
    c->appended = -1;
    c->pass = (struct kvr_pass){ 0 };
    c->times = (struct kvr_cache_times){ 0 };
}

void kvr_cache_close(struct kvr_cache **pc)
{
    struct kvr_cache *c = *pc;

    if (!c)
        return;
    if (c->layer) {
        kvr_cache_reset(c);
        for (int i = 0; i < c->shape.n_layers; i++)
            free(c->layer[i].seg);
    }
    free(c->layer);
    free(c->spans);
    kvr_buf_free(&c->current_k);
    kvr_buf_free(&c->current_v);
    kvr_buf_free(&c->values);
    kvr_buf_free(&c->work);
    kvr_attend_release(&c->scratch);
    free(c);
    *pc = NULL;
}

/* Frames [first, end) a pass may see besides the sink. */
static int window_begin(const struct kvr_cache *c)
{
    const int end = c->pass.frame0 + c->pass.n_frames;
    const int recent = c->shape.window_frames - c->shape.sink_frames;

    if (c->shape.window_frames == 0 || end <= c->shape.window_frames)
        return 0;
    return end - recent;
}

/* The visible runs of tokens [tok0, tok0 + n): at most two. Returns how many. */
static int visible_runs(const struct kvr_cache *c, int64_t tok0, int64_t n, int64_t run[2][2])
{
    const int64_t s = c->shape.tokens_per_frame;
    const int64_t sink_end = c->shape.window_frames ? c->shape.sink_frames * s : 0;
    const int64_t begin = window_begin(c) * s, end = tok0 + n;
    int k = 0;

    if (tok0 < sink_end && sink_end < begin) {
        run[k][0] = tok0;
        run[k++][1] = end < sink_end ? end : sink_end;
    } else if (tok0 < sink_end) { /* sink and window touch: one run */
        run[k][0] = tok0;
        run[k++][1] = end;
        return k;
    }
    if (end > begin) {
        run[k][0] = tok0 > begin ? tok0 : begin;
        run[k++][1] = end;
    }
    return k;
}

static void give_up_unseen(struct kvr_cache *c)
{
    int64_t run[2][2];

    for (int l = 0; l < c->shape.n_layers; l++) {
        struct layer *layer = &c->layer[l];
        int first = 0;

        for (; first < layer->n; first++) {
            const struct kvr_segment *s = &layer->seg[first];

            if (visible_runs(c, s->tok0, s->n_tok, run) == 0)
                break;
        }
        if (first == layer->n)
            continue;
        bool keep[layer->n];
        for (int i = 0; i < layer->n; i++)
            keep[i] = visible_runs(c, layer->seg[i].tok0, layer->seg[i].n_tok, run) > 0;
        drop_segments(layer, keep);
    }
}

enum kvr_status kvr_cache_begin_pass(struct kvr_cache *c, const struct kvr_pass *pass)
{
    if (c->in_pass)
        return kvr_fail(KVR_EINTERNAL, "cache: begin_pass inside a pass");
    if (pass->n_frames < 1 || pass->n_frames > c->shape.frames_per_chunk)
        return kvr_fail(KVR_EINVAL, "cache: chunk of %d frames, at most %d", pass->n_frames,
                        c->shape.frames_per_chunk);
    if (pass->frame0 < 0 || pass->frame0 + pass->n_frames > c->shape.capacity_frames)
        return kvr_fail(KVR_EINVAL, "cache: frames %d..%d beyond the capacity of %d", pass->frame0,
                        pass->frame0 + pass->n_frames - 1, c->shape.capacity_frames);
    c->pass = *pass;
    c->in_pass = true;
    c->appended = -1;
    if (c->shape.evict)
        give_up_unseen(c);
    return KVR_OK;
}

static int64_t pass_tokens(const struct kvr_cache *c)
{
    return (int64_t)c->pass.n_frames * c->shape.tokens_per_frame;
}

enum kvr_status kvr_cache_append(struct kvr_cache *c, int layer, const float *k, const float *v)
{
    const size_t n = (size_t)(pass_tokens(c) * c->shape.n_heads * c->shape.head_dim);

    if (!c->in_pass || layer < 0 || layer >= c->shape.n_layers)
        return kvr_fail(KVR_EINTERNAL, "cache: append to layer %d outside a pass", layer);
    kvr_from_f32(c->current_k.p, c->shape.exact, k, n);
    kvr_from_f32(c->current_v.p, c->shape.exact, v, n);
    c->appended = layer;
    return KVR_OK;
}

/* Is this committed segment in the past of the current pass? */
static bool is_past(const struct kvr_cache *c, const struct kvr_segment *s)
{
    return s->chunk < c->pass.chunk;
}

static enum kvr_status reserve_spans(struct kvr_cache *c, int n)
{
    struct kvr_span *p;

    if (n <= c->spans_cap)
        return KVR_OK;
    p = realloc(c->spans, (size_t)n * 2 * sizeof *p);
    if (!p)
        return kvr_fail(KVR_ENOMEM, "cache: no memory for %d spans", n);
    c->spans = p;
    c->spans_cap = n * 2;
    return KVR_OK;
}

/* What this pass sees of a layer's committed segments, oldest first. */
static enum kvr_status past_spans(struct kvr_cache *c, const struct layer *l, bool own_chunk,
                                  int *n_out)
{
    int n = 0;

    KVR_TRY(reserve_spans(c, 2 * l->n + 1));
    for (int i = 0; i < l->n; i++) {
        const struct kvr_segment *s = &l->seg[i];
        int64_t run[2][2];
        int k;

        if (!is_past(c, s) && !(own_chunk && s->chunk == c->pass.chunk))
            continue;
        k = visible_runs(c, s->tok0, s->n_tok, run);
        for (int j = 0; j < k; j++)
            c->spans[n++] =
                (struct kvr_span){ s, run[j][0] - s->tok0, run[j][1] - run[j][0] };
    }
    *n_out = n;
    return KVR_OK;
}

/* Code the current chunk and put it at the end of the layer, in place of what an earlier
 * clean pass of this chunk left. */
static enum kvr_status commit(struct kvr_cache *c, struct layer *l)
{
    const struct kvr_block_shape shape = { pass_tokens(c), c->shape.n_heads, c->shape.head_dim };
    const size_t n = (size_t)(shape.n_tok * shape.n_heads * shape.head_dim);
    struct kvr_segment s = {
        .chunk = c->pass.chunk,
        .tok0 = (int64_t)c->pass.frame0 * c->shape.tokens_per_frame,
        .n_tok = shape.n_tok,
    };
    enum kvr_status st;

    if (l->n == l->cap) {
        int cap = l->cap ? l->cap * 2 : 16;
        struct kvr_segment *p = realloc(l->seg, (size_t)cap * sizeof *p);

        if (!p)
            return kvr_fail(KVR_ENOMEM, "cache: no memory for segments");
        l->seg = p;
        l->cap = cap;
    }
    kvr_to_f32(c->values.p, c->current_k.p, c->shape.exact, n);
    st = kvr_codec_encode(c->plan->k, c->dev, c->values.p, &shape, c->work.p, &s.k);
    if (st == KVR_OK) {
        kvr_to_f32(c->values.p, c->current_v.p, c->shape.exact, n);
        st = kvr_codec_encode(c->plan->v, c->dev, c->values.p, &shape, c->work.p, &s.v);
    }
    if (st != KVR_OK) {
        kvr_segment_free(&s);
        return st;
    }
    while (l->n && l->seg[l->n - 1].chunk >= c->pass.chunk)
        kvr_segment_free(&l->seg[--l->n]);
    l->seg[l->n++] = s;
    return KVR_OK;
}

enum kvr_status kvr_cache_attend(struct kvr_cache *c, int layer, const float *q, float *out)
{
    struct layer *l;
    int n_spans;

    if (layer < 0 || c->appended != layer)
        return kvr_fail(KVR_EINTERNAL, "cache: attend to layer %d before its append", layer);
    l = &c->layer[layer];
    KVR_TRY(past_spans(c, l, false, &n_spans));
    c->spans[n_spans++] = (struct kvr_span){ NULL, 0, pass_tokens(c) };

    const struct kvr_attend_job job = {
        .n_heads = c->shape.n_heads,
        .head_dim = c->shape.head_dim,
        .n_query = pass_tokens(c),
        .q = q,
        .out = out,
        .spans = c->spans,
        .n_spans = n_spans,
        .current = { c->current_k.p, c->current_v.p, c->shape.exact },
        .decode_ns = &c->times.decode_ns,
        .attend_ns = &c->times.attend_ns,
    };
    kvr_attend_staged(&job, &c->scratch);
    if (c->pass.clean) {
        const int64_t t0 = kvr_now_ns();

        KVR_TRY(commit(c, l));
        c->times.encode_ns += kvr_now_ns() - t0;
    }
    c->appended = -1;
    return KVR_OK;
}

enum kvr_status kvr_cache_end_pass(struct kvr_cache *c)
{
    if (!c->in_pass)
        return kvr_fail(KVR_EINTERNAL, "cache: end_pass outside a pass");
    c->in_pass = false;
    return KVR_OK;
}

void kvr_cache_bytes(const struct kvr_cache *c, struct kvr_cache_bytes *out)
{
    *out = (struct kvr_cache_bytes){ 0 };
    for (int i = 0; i < c->shape.n_layers; i++)
        for (int j = 0; j < c->layer[i].n; j++) {
            const struct kvr_segment *s = &c->layer[i].seg[j];
            const int64_t elems = s->n_tok * c->shape.n_heads * c->shape.head_dim;

            if (i == 0)
                out->tokens += s->n_tok;
            out->bf16 += 2 * (size_t)elems * sizeof(kvr_bf16);
            out->nominal += kvr_codec_bytes(s->k.codec, &s->k.shape, kvr_packed_n_exact(&s->k)) +
                            kvr_codec_bytes(s->v.codec, &s->v.shape, kvr_packed_n_exact(&s->v));
            out->resident += kvr_packed_bytes(&s->k) + kvr_packed_bytes(&s->v);
            for (int t = 0; t < KVR_MAX_STAGES; t++)
                out->resident_kv += s->k.stage[t].codes.n_bytes + s->v.stage[t].codes.n_bytes;
        }
}

int64_t kvr_cache_read(const struct kvr_cache *c, int layer, float *k, float *v)
{
    const size_t width = (size_t)c->shape.n_heads * (size_t)c->shape.head_dim;
    const struct layer *l = &c->layer[layer];
    int64_t total = 0;

    for (int i = 0; i < l->n; i++) {
        const struct kvr_segment *s = &l->seg[i];
        int64_t run[2][2];
        int n;

        if (s->chunk > c->pass.chunk)
            continue;
        n = visible_runs(c, s->tok0, s->n_tok, run);
        for (int j = 0; j < n; j++) {
            const int64_t t0 = run[j][0] - s->tok0, m = run[j][1] - run[j][0];

            if (k)
                kvr_codec_decode(&s->k, t0, m, 0, c->shape.n_heads, k + (size_t)total * width);
            if (v)
                kvr_codec_decode(&s->v, t0, m, 0, c->shape.n_heads, v + (size_t)total * width);
            total += m;
        }
    }
    return total;
}

void kvr_cache_times(const struct kvr_cache *c, struct kvr_cache_times *out)
{
    *out = c->times;
}
