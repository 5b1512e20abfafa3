/* cache.c - determines which tokens a pass can see, computes attention over them, and stores
 * chunks. */
#include "harness/cache/cache.h"

#include <stdlib.h>
#include <string.h>

#include "harness/cache/cache_impl.h"
#include "harness/cache/mirror.h"
#include "harness/cache/rows.h"
#include "harness/core/clock.h"
#include "harness/core/isa.h"
#include "methods/codecs/mean/demean.h"

/* Whether the cache evicts tokens outside the attention window. The study's code (NAME@study) never
 * evicts, because its buffer has room for the whole rollout. */
static bool evicts(const struct kvr_cache *c)
{
    return c->shape.evict && !kvr_scheme_is_study(c->scheme);
}

static enum kvr_status check_shape(const struct kvr_cache_shape *s)
{
    if (s->n_layers < 1 || s->n_heads < 1 || s->head_dim < 1 || s->tokens_per_frame < 1 ||
        s->frames_per_chunk < 1 || s->capacity_frames < 1)
        return kvr_fail(
            KVR_EINVAL,
            "cache: n_layers is %d, n_heads is %d, head_dim is %d, tokens_per_frame is %d, "
            "frames_per_chunk is %d, capacity_frames is %d; each must be at least 1",
            s->n_layers, s->n_heads, s->head_dim, s->tokens_per_frame, s->frames_per_chunk,
            s->capacity_frames);
    if (s->n_kv_heads < 0 || s->n_heads % kvr_cache_kv_heads(s) != 0)
        return kvr_fail(KVR_EINVAL, "cache: %d query heads must be a multiple of %d KV heads",
                        s->n_heads, s->n_kv_heads);
    if (s->window_frames < 0 || s->sink_frames < 0)
        return kvr_fail(KVR_EINVAL,
                        "cache: window is %d frames, sink is %d frames: neither may be negative",
                        s->window_frames, s->sink_frames);
    if (s->window_frames && s->window_frames < (int64_t)s->frames_per_chunk + s->sink_frames)
        return kvr_fail(KVR_EINVAL,
                        "cache: a window of %d frames is smaller than the sink (%d frames) plus "
                        "one chunk (%d frames)",
                        s->window_frames, s->sink_frames, s->frames_per_chunk);
    if (s->exact != KVR_BF16 && s->exact != KVR_F32)
        return kvr_fail(KVR_EINVAL, "cache: the unquantized type is %s, need BF16 or F32",
                        kvr_dtype_name(s->exact));
    return KVR_OK;
}

static enum kvr_status alloc_buffers(struct kvr_cache *c)
{
    const struct kvr_cache_shape *s = &c->shape;
    const struct kvr_cache_sizes b =
        kvr_cache_sizes_of(c->scheme, s, c->path, kvr_dev_backend(c->dev));
    const struct kvr_attend_needs needs = kvr_cache_attend_needs(c->scheme, s, c->path);
    const struct {
        struct kvr_buf *buf;
        size_t n_bytes;
        bool host; /* whether the buffer is in host memory, where tier and retention policies read
                    * it */
    } all[] = {
        { &c->current_k, b.current, false },
        { &c->current_v, b.current, false },
        { &c->demeaned, b.demeaned, false },
        { &c->values_k, b.values, false },
        { &c->values_v, b.values, false },
        { &c->dense_k, b.dense, false },
        { &c->dense_v, b.dense, false },
        { &c->held, b.held, true },
        { &c->layer_scratch.map, b.map, true },
        { &c->layer_scratch.work, b.work, false },
        { &c->layer_scratch.gather, b.gather, false },
        { &c->layer_scratch.back, b.back, false },
        { &c->layer_scratch.keep, b.keep, true },
        { &c->layer_scratch.weights, b.weights, true },
        { &c->layer_scratch.rows, b.rows, false },
        { &c->layer_scratch.pick, b.pick, false },
        { &c->layer_scratch.pick_host, b.pick_host, true },
        { &c->layer_scratch.all_keys, b.all_keys, false },
        { &c->layer_scratch.all_values, b.all_values, false },
        { &c->columns, b.columns, true },
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        KVR_TRY(kvr_buf_alloc(all[i].buf, all[i].host ? kvr_dev_host(c->dev) : c->dev,
                              KVR_MEM_SCRATCH, all[i].n_bytes));
    return kvr_attend_reserve(&c->attend, c->dev, &needs);
}

/* Checks that the device supports attention over the data that the scheme stores. */
static enum kvr_status check_attention(const struct kvr_scheme *p, const struct kvr_cache_shape *s,
                                       enum kvr_path path, const struct kvr_dev *dev)
{
    const struct kvr_attend_needs needs = kvr_cache_attend_needs(p, s, path);
    enum kvr_status st = kvr_attend_check(&needs, kvr_dev_backend(dev));
    struct kvr_thin_needs thin;

    if (kvr_retention_thins(&p->retention, &thin) && thin.undoes_rope && s->causal)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "%s: rotates keys to new RoPE time positions, which is supported only for "
                        "video models, not for language models",
                        p->name);
    for (int t = 0; t < p->n_tiers && s->causal; t++)
        for (int i = 0; i < p->k[t]->n_stages; i++)
            if (p->k[t]->stage[i].stage->undoes_rope)
                return kvr_fail(
                    KVR_EUNSUPPORTED,
                    "%s: codec stage '%s' undoes RoPE on keys, which is supported only for video "
                    "models, not for language models",
                    p->name, p->k[t]->stage[i].stage->name);

    for (int t = 0; t < p->n_tiers && path == KVR_PATH_FUSED && st == KVR_OK; t++)
        st = kvr_attend_fuses(dev, p->k[t], p->v[t], needs.correction, kvr_cache_kv_heads(s),
                              s->head_dim);
    return st == KVR_OK ? st : kvr_fail_prefix(st, "%s", p->name);
}

enum kvr_status kvr_cache_open(struct kvr_cache **out, struct kvr_dev *dev,
                               const struct kvr_scheme *scheme, const struct kvr_cache_shape *shape,
                               enum kvr_path path)
{
    struct kvr_cache *c;
    enum kvr_status st = KVR_OK;

    KVR_TRY(check_shape(shape));
    KVR_TRY(kvr_scheme_check(scheme, kvr_cache_kv_heads(shape), shape->head_dim));
    if (kvr_path_copies(path) && scheme->opts.correction)
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "%s: corrects quantized keys, which path %s does not support, because it attends to an "
            "uncompressed copy of all tokens; use path staged or fused",
            scheme->name, kvr_path_names[path]);
    if (kvr_path_copies(path) && kvr_cache_attend_needs(scheme, shape, path).by_head)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "%s: each head keeps different tokens, so path %s cannot build one "
                        "tensor of all heads; use path staged or fused",
                        scheme->name, kvr_path_names[path]);
    if (shape->attend == KVR_ATTEND_INT8 && kvr_path_copies(path))
        return kvr_fail(KVR_EUNSUPPORTED,
                        "attend int8: path %s is not supported, because it attends to an "
                        "uncompressed copy of all tokens; use path staged or fused",
                        kvr_path_names[path]);
    KVR_TRY(check_attention(scheme, shape, path, dev));
    c = calloc(1, sizeof *c);
    if (!c)
        return kvr_fail(KVR_ENOMEM, "cache: out of memory");
    c->dev = dev;
    c->scheme = scheme;
    c->shape = *shape;
    c->path = path;
    c->appended = -1;
    c->layer = calloc((size_t)shape->n_layers, sizeof *c->layer);
    if (!c->layer)
        st = kvr_fail(KVR_ENOMEM, "cache: out of memory");
    for (int i = 0; i < shape->n_layers && st == KVR_OK; i++) {
        const struct kvr_layer_geometry geo = {
            .layer = i,
            .n_layers = shape->n_layers,
            .n_heads = kvr_cache_kv_heads(shape),
            .head_dim = shape->head_dim,
            .tokens_per_frame = shape->tokens_per_frame,
            .frames_per_chunk = shape->frames_per_chunk,
            .capacity = kvr_cache_capacity_tokens(c),
        };
        st = kvr_layer_open(&c->layer[i], dev, scheme, &geo, &c->layer_scratch, false);
    }
    if (st == KVR_OK)
        st = alloc_buffers(c);
    if (st == KVR_OK)
        st = kvr_phases_open(&c->phases, dev, KVR_CACHE_PHASES);
    if (st != KVR_OK) {
        kvr_cache_close(&c);
        return st;
    }
    *out = c;
    return KVR_OK;
}

void kvr_cache_reset(struct kvr_cache *c)
{
    for (int i = 0; i < c->shape.n_layers; i++)
        kvr_layer_reset(&c->layer[i]);
    c->in_pass = false;
    c->appended = -1;
    c->pass = (struct kvr_pass){ 0 };
    kvr_phases_reset(c->phases);
    c->observer_ns = 0;
}

void kvr_cache_close(struct kvr_cache **pc)
{
    struct kvr_cache *c = *pc;

    if (!c)
        return;
    for (int i = 0; c->layer && i < c->shape.n_layers; i++)
        kvr_layer_close(&c->layer[i]);
    free(c->layer);
    free(c->spans);
    kvr_layer_scratch_free(&c->layer_scratch);
    kvr_buf_free(&c->current_k);
    kvr_buf_free(&c->current_v);
    kvr_buf_free(&c->demeaned);
    kvr_buf_free(&c->values_k);
    kvr_buf_free(&c->values_v);
    kvr_buf_free(&c->dense_k);
    kvr_buf_free(&c->dense_v);
    kvr_buf_free(&c->held);
    kvr_buf_free(&c->columns);
    kvr_attend_release(&c->attend);
    kvr_phases_close(&c->phases);
    free(c);
    *pc = NULL;
}

/* Whether the method's retention, instead of the attention window, limits the cache. */
static bool beyond_window(const struct kvr_cache *c)
{
    struct kvr_thin_needs needs;

    return kvr_retention_thins(&c->scheme->retention, &needs) && needs.beyond_window;
}

/* Returns the tokens before `end` that are in the window of the current pass. The window consists
 * of the sink frames and of the newest window_frames - sink_frames frames, which include the
 * current chunk. */
static struct kvr_visible in_window(const struct kvr_cache *c, int64_t end)
{
    const int64_t s = c->shape.tokens_per_frame;
    const int last = c->pass.frame0 + c->pass.n_frames;
    struct kvr_visible seen = { 0 };
    int64_t begin = 0, sink = c->shape.sink_frames * s;

    if (c->shape.window_frames && last > c->shape.window_frames)
        begin = (last - (c->shape.window_frames - c->shape.sink_frames)) * s;
    if (begin <= sink) {
        begin = 0;
    } else if (sink > 0) {
        seen.run[seen.n][0] = 0;
        seen.run[seen.n++][1] = sink < end ? sink : end;
    }
    if (begin < end) {
        seen.run[seen.n][0] = begin;
        seen.run[seen.n++][1] = end;
    }
    return seen;
}

struct kvr_visible kvr_cache_visible(const struct kvr_cache *c, int64_t end)
{
    if (!beyond_window(c))
        return in_window(c, end);
    return (struct kvr_visible){ .n = end > 0, .run = { { 0, end } } };
}

bool kvr_cache_in_window(const struct kvr_cache *c, int frame0, int n, int frame)
{
    const int last = frame + c->shape.frames_per_chunk;
    const int newest = c->shape.window_frames - c->shape.sink_frames;

    return !c->shape.window_frames || last <= c->shape.window_frames ||
           frame0 < c->shape.sink_frames || frame0 + n > last - newest;
}

enum kvr_status kvr_cache_drop(struct kvr_cache *c, int frames)
{
    const int64_t end = (int64_t)frames * c->shape.tokens_per_frame;
    const struct kvr_visible seen = { .n = end > 0, .run = { { 0, end } } };

    if (c->in_pass || frames < 0)
        return kvr_fail(KVR_EINTERNAL, "cache: cannot drop all but the first %d frames: %s", frames,
                        c->in_pass ? "a pass is in progress" : "need at least 0 frames");
    for (int i = 0; i < c->shape.n_layers; i++) {
        if (frames)
            kvr_layer_evict(&c->layer[i], &seen);
        else
            kvr_layer_reset(&c->layer[i]);
    }
    return KVR_OK;
}

/* Whether a component of the method moves keys to another RoPE position. Such a component needs the
 * frame in which a key was computed. */
static bool turns_keys(const struct kvr_scheme *p)
{
    struct kvr_thin_needs thin;

    for (int t = 0; t < p->n_tiers; t++)
        for (int i = 0; i < p->k[t]->n_stages; i++)
            if (p->k[t]->stage[i].stage->undoes_rope)
                return true;
    return kvr_retention_thins(&p->retention, &thin) && thin.undoes_rope;
}

enum kvr_status kvr_cache_begin_pass(struct kvr_cache *c, const struct kvr_pass *pass)
{
    if (c->in_pass)
        return kvr_fail(KVR_EINTERNAL,
                        "cache: begin_pass was called before end_pass of the previous pass");
    if (pass->n_frames < 1 || pass->n_frames > c->shape.frames_per_chunk)
        return kvr_fail(KVR_EINVAL,
                        "cache: a pass of %d frames was begun, need 1 to %d frames (one chunk)",
                        pass->n_frames, c->shape.frames_per_chunk);
    if (pass->frame0 < 0 || pass->frame0 > c->shape.capacity_frames - pass->n_frames)
        return kvr_fail(KVR_EINVAL,
                        "cache: a pass over frames %d to %lld was begun, but the cache has room "
                        "only for frames 0 to %d",
                        pass->frame0, (long long)pass->frame0 + pass->n_frames - 1,
                        c->shape.capacity_frames - 1);
    if (pass->shift != 0 && turns_keys(c->scheme))
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "%s: undoes RoPE, assuming that a key's time position is its frame number, but "
            "shot_offset shifts the positions after a prompt switch by %g frames; use "
            "shot_offset: 0",
            c->scheme->name, pass->shift);
    c->pass = *pass;
    c->in_pass = true;
    for (int i = 0; i < c->shape.n_layers; i++)
        c->layer[i].cut = pass->cut;
    c->appended = -1;
    if (evicts(c)) {
        const struct kvr_visible seen = kvr_cache_visible(c, kvr_cache_capacity_tokens(c));

        for (int i = 0; i < c->shape.n_layers; i++)
            kvr_layer_evict(&c->layer[i], &seen);
    }
    return KVR_OK;
}

enum kvr_status kvr_cache_append(struct kvr_cache *c, int layer, const float *k, const float *v)
{
    const size_t n =
        (size_t)(kvr_cache_pass_tokens(c) * kvr_cache_kv_heads(&c->shape) * c->shape.head_dim);

    if (!c->in_pass)
        return kvr_fail(KVR_EINTERNAL, "cache: append to layer %d was called before begin_pass",
                        layer);
    if (layer < 0 || layer >= c->shape.n_layers)
        return kvr_fail(KVR_EINTERNAL, "cache: append to layer %d: need a layer of 0..%d", layer,
                        c->shape.n_layers - 1);
    if (k)
        kvr_values_from_f32(c->dev, c->current_k.p, c->shape.exact, k, n);
    if (v)
        kvr_values_from_f32(c->dev, c->current_v.p, c->shape.exact, v, n);
    c->appended = layer;
    return KVR_OK;
}

bool kvr_cache_current(const struct kvr_cache *c, kvr_bf16 **k, kvr_bf16 **v)
{
    *k = c->current_k.p;
    *v = c->current_v.p;
    return c->in_pass && c->shape.exact == KVR_BF16;
}

/* Converts the current chunk's keys and values to F32, and stores them from token `at` of the
 * buffers values_k and values_v on. */
static void current_values(struct kvr_cache *c, int64_t at)
{
    const size_t width = (size_t)kvr_cache_kv_heads(&c->shape) * (size_t)c->shape.head_dim;
    const size_t n = (size_t)kvr_cache_pass_tokens(c) * width;

    kvr_values_to_f32(c->dev, (float *)c->values_k.p + (size_t)at * width, c->current_k.p,
                      c->shape.exact, n);
    kvr_values_to_f32(c->dev, (float *)c->values_v.p + (size_t)at * width, c->current_v.p,
                      c->shape.exact, n);
}

/* Stores a chunk as the study's code does: decodes the whole cache, inserts the chunk, and codes
 * all tokens again. */
static enum kvr_status recode(struct kvr_cache *c, struct kvr_layer *l)
{
    const int64_t end = kvr_cache_pass_begin(c) + kvr_cache_pass_tokens(c);
    const size_t n =
        (size_t)(kvr_cache_capacity_tokens(c) * kvr_cache_kv_heads(&c->shape) * c->shape.head_dim);

    kvr_phase_begin(c->phases, KVR_CACHE_STORE_DECODE);
    kvr_layer_dense(l, 0, kvr_cache_capacity_tokens(c), c->values_k.p, c->values_v.p, NULL);
    kvr_values_round(c->dev, c->shape.exact, c->values_k.p, n);
    kvr_values_round(c->dev, c->shape.exact, c->values_v.p, n);
    kvr_phase_end(c->phases, KVR_CACHE_STORE_DECODE);
    current_values(c, kvr_cache_pass_begin(c));
    return kvr_layer_recode(l, c->values_k.p, c->values_v.p, end > l->n_active ? end : l->n_active);
}

static bool stores(const struct kvr_cache *c)
{
    return c->pass.clean || c->scheme->opts.commit == KVR_COMMIT_EVERY_PASS ||
           (kvr_scheme_is_study(c->scheme) && c->scheme->method->study_cadence != KVR_CLEAN_PASS);
}

bool kvr_cache_only_reads(const struct kvr_cache *c)
{
    return !stores(c) && !c->observer;
}

void kvr_cache_set_salience(struct kvr_cache *c, const float *table)
{
    for (int i = 0; i < c->shape.n_layers; i++)
        c->layer[i].oracle_scores = table ? table + i * kvr_cache_capacity_tokens(c) : NULL;
}

/* Drops from all layers the tokens that the retention dropped from the last layer, if the method
 * selects tokens in the last layer only. */
static enum kvr_status follow(struct kvr_cache *c, const struct kvr_layer *last)
{
    if (!kvr_scheme_last_chooses(c->scheme) || last != &c->layer[c->shape.n_layers - 1])
        return KVR_OK;
    for (int i = 0; i < c->shape.n_layers - 1; i++)
        KVR_TRY(kvr_layer_evict_as_last(&c->layer[i]));
    return KVR_OK;
}

static enum kvr_status store(struct kvr_cache *c, struct kvr_layer *l)
{
    struct kvr_thin_needs thin;
    enum kvr_status st;

    if (!stores(c))
        return KVR_OK;
    if (kvr_retention_thins(&c->scheme->retention, &thin) && thin.oracle_scores &&
        !l->oracle_scores)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "%s: needs the attention weights of the whole video in advance, which only "
                        "rollouts of video models and replays of traces provide",
                        c->scheme->name);
    if (kvr_scheme_is_study(c->scheme)) {
        kvr_phase_begin(c->phases, KVR_CACHE_STORE);
        st = recode(c, l);
    } else {
        kvr_phase_begin(c->phases, KVR_CACHE_STORE);
        if (c->shape.exact == KVR_BF16 && kvr_layer_only_codes(l)) {
            st = kvr_layer_commit_bf16(l, c->current_k.p, c->current_v.p, kvr_cache_pass_begin(c),
                                       kvr_cache_pass_tokens(c));
        } else {
            current_values(c, 0);
            st = kvr_layer_commit(l, c->values_k.p, c->values_v.p, kvr_cache_pass_begin(c),
                                  kvr_cache_pass_tokens(c));
        }
        if (st == KVR_OK)
            st = follow(c, l);
    }
    kvr_phase_end(c->phases, KVR_CACHE_STORE);
    return st;
}

static enum kvr_status show(struct kvr_cache *c, int layer, const float *q, const float *out)
{
    const struct kvr_visible seen = kvr_cache_visible(c, kvr_cache_pass_begin(c));
    const int64_t t0 = kvr_now_ns();
    const struct kvr_cache_view view = {
        .scheme = c->scheme,
        .shape = &c->shape,
        .path = c->path,
        .pass = &c->pass,
        .layer = layer,
        .past = &c->layer[layer],
        .seen = &seen,
        .n_tok = kvr_cache_pass_tokens(c),
        .k = c->current_k.p,
        .v = c->current_v.p,
        .q = q,
        .out = out,
    };
    enum kvr_status st;

    st = kvr_view_in_host(&view, c->observer, c->observer_ctx);
    c->observer_ns += kvr_now_ns() - t0;
    return st;
}

enum kvr_status kvr_cache_commit(struct kvr_cache *c, int layer)
{
    if (layer < 0 || c->appended != layer || !c->pass.clean)
        return kvr_fail(KVR_EINTERNAL,
                        "cache: commit of layer %d was called without an append to that layer in a "
                        "cache-update pass (a pass over clean latents)",
                        layer);
    c->appended = -1;
    if (c->observer)
        KVR_TRY(show(c, layer, NULL, NULL));
    return store(c, &c->layer[layer]);
}

enum kvr_status kvr_cache_collect_past_share(struct kvr_cache *c, float *past)
{
    if (past && !c->shape.causal)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "cache: the attention weights of past tokens can be summed only with "
                        "causal attention within a chunk, as in language models");
    c->past = past;
    return KVR_OK;
}

void kvr_cache_observe(struct kvr_cache *c, kvr_cache_observer_fn *fn, void *ctx)
{
    c->observer = fn;
    c->observer_ctx = ctx;
}

/* Computes the sum and the maximum of the attention weights that each token receives from the
 * queries of the pass. The layer's retention selects tokens by them. Paths that copy the cache
 * (`dense`, `decoded`) also read the coded segments here, so that the selection does not depend on
 * the path. */
static enum kvr_status observe(struct kvr_cache *c, struct kvr_layer *l,
                               const struct kvr_attend_job *attended,
                               const struct kvr_thin_needs *needs, struct kvr_columns *out)
{
    const struct kvr_visible seen = kvr_cache_visible(c, kvr_cache_pass_begin(c));
    const size_t n = (size_t)((kvr_cache_pass_begin(c) + kvr_cache_pass_tokens(c)) *
                              kvr_cache_kv_heads(&c->shape));
    const struct kvr_span current = c->spans[attended->n_spans - 1];
    struct kvr_attend_job job = *attended;
    float *sum = c->columns.p, *max = sum + n;
    struct kvr_column_job columns = {
        .attend = &job,
        .queries = needs->pick == KVR_QUERY_FRAME   ? c->shape.tokens_per_frame
                   : needs->pick == KVR_QUERY_CHUNK ? 0
                                                    : needs->queries,
        .newest = needs->pick != KVR_QUERY_SPREAD,
        .current0 = kvr_cache_pass_begin(c),
        .sum = sum,
        .max = max,
    };

    if (kvr_path_copies(c->path)) {
        KVR_TRY(kvr_cache_reserve_spans(c, kvr_layer_spans(l, &seen, NULL) + 1));
        job.n_spans = kvr_layer_spans(l, &seen, c->spans);
        c->spans[job.n_spans++] = current;
        job.spans = c->spans;
    }
    job.int8 = false;
    memset(sum, 0, 2 * n * sizeof *sum);
    KVR_TRY(kvr_attend_columns(&columns, &c->attend));
    *out = (struct kvr_columns){ kvr_column_rows(&columns), sum, max };
    l->columns = out;
    return KVR_OK;
}

/* Queries and output of an attention call: q and out in F32, or, if these are NULL, q16 and out16
 * in BF16. */
struct seen_by {
    const float *q;
    float *out;
    const kvr_bf16 *q16;
    kvr_bf16 *out16;
    struct kvr_query_norm norm;
};

/* Returns the current chunk's keys as attention reads them. With option `current=demean`, each
 * key's mean over the channels of its head is subtracted. The keys are stored without this
 * subtraction. */
static const void *current_keys(struct kvr_cache *c)
{
    const int64_t rows = kvr_cache_pass_tokens(c) * kvr_cache_kv_heads(&c->shape);
    const size_t n = (size_t)(rows * c->shape.head_dim);

    if (c->scheme->opts.current != KVR_CURRENT_DEMEAN)
        return c->current_k.p;
    kvr_values_to_f32(c->dev, c->values_k.p, c->current_k.p, c->shape.exact, n);
    kvr_demean(c->dev, c->values_k.p, rows, c->shape.head_dim);
    kvr_values_from_f32(c->dev, c->demeaned.p, c->shape.exact, c->values_k.p, n);
    return c->demeaned.p;
}

static enum kvr_status attend(struct kvr_cache *c, int layer, const struct seen_by *by)
{
    struct kvr_thin_needs thin;
    struct kvr_columns columns;
    struct kvr_layer *l;
    enum kvr_status st;
    int n_spans;

    kvr_retention_thins(&c->scheme->retention, &thin);
    if (layer < 0 || c->appended != layer)
        return kvr_fail(KVR_EINTERNAL,
                        "cache: attention in layer %d was called before an append to that layer",
                        layer);
    l = &c->layer[layer];
    KVR_TRY(kvr_cache_past_spans(c, l, &n_spans));
    c->spans[n_spans++] = kvr_cache_chunk_span(c, current_keys(c), c->current_v.p);

    const struct kvr_attend_job job = {
        .n_heads = kvr_cache_kv_heads(&c->shape),
        .group = c->shape.n_heads / kvr_cache_kv_heads(&c->shape),
        .head_dim = c->shape.head_dim,
        .n_query = kvr_cache_pass_tokens(c),
        .q = by->q,
        .out = by->out,
        .q16 = by->q16,
        .out16 = by->out16,
        .norm = by->norm,
        .spans = c->spans,
        .n_spans = n_spans,
        .correction = kvr_correction_at(c->scheme->opts.correction),
        .fused = c->path == KVR_PATH_FUSED,
        .int8 = c->shape.attend == KVR_ATTEND_INT8,
        .bf16 = c->shape.bf16 && kvr_isa_has_tiles(),
        .tensor_cores = c->shape.exact == KVR_BF16,
        .phases = c->phases,
        .by_head = thin.by_head,
        .past = c->past ? c->past + layer * kvr_cache_pass_tokens(c) * c->shape.n_heads : NULL,
    };
    kvr_attend(&job, &c->attend);
    c->appended = -1;
    if (c->observer)
        KVR_TRY(show(c, layer, by->q, by->out));
    if (stores(c) &&
        kvr_retention_observes(&c->scheme->retention, &l->state[1], kvr_cache_pass_begin(c)) &&
        (!thin.of_last || layer == c->shape.n_layers - 1)) {
        kvr_phase_begin(c->phases, KVR_CACHE_STORE); /* selecting tokens counts as storage time */
        st = observe(c, l, &job, &thin, &columns);
        kvr_phase_end(c->phases, KVR_CACHE_STORE);
        KVR_TRY(st);
    }
    l->q = by->q;
    l->n_query_heads = c->shape.n_heads;
    st = store(c, l);
    l->columns = NULL;
    l->q = NULL;
    kvr_layer_drop_joint(l);
    return st;
}

enum kvr_status kvr_cache_attend(struct kvr_cache *c, int layer, const float *q, float *out)
{
    return attend(c, layer, &(struct seen_by){ .q = q, .out = out });
}

bool kvr_cache_attends_bf16(const struct kvr_cache *c)
{
    const struct kvr_attend_needs needs = kvr_cache_attend_needs(c->scheme, &c->shape, c->path);
    struct kvr_thin_needs thin;

    kvr_retention_thins(&c->scheme->retention, &thin);
    return !c->observer && !thin.chunk_queries &&
           kvr_attend_accepts_bf16(&needs, kvr_dev_backend(c->dev));
}

enum kvr_status kvr_cache_attend_bf16(struct kvr_cache *c, int layer, const kvr_bf16 *q,
                                      kvr_bf16 *out)
{
    return kvr_cache_attend_normed(c, layer, q, &(struct kvr_query_norm){ .inverses = NULL }, out);
}

enum kvr_status kvr_cache_attend_normed(struct kvr_cache *c, int layer, const kvr_bf16 *q,
                                        const struct kvr_query_norm *norm, kvr_bf16 *out)
{
    if (!kvr_cache_attends_bf16(c))
        return kvr_fail(KVR_EUNSUPPORTED,
                        "cache: %s: this cache attends in F32, so queries must be F32, not BF16",
                        c->scheme->name);
    return attend(c, layer, &(struct seen_by){ .q16 = q, .out16 = out, .norm = *norm });
}

enum kvr_status kvr_cache_end_pass(struct kvr_cache *c)
{
    if (!c->in_pass)
        return kvr_fail(KVR_EINTERNAL, "cache: end_pass was called without begin_pass");
    c->in_pass = false;
    return KVR_OK;
}

/* Returns the number of tokens that an uncompressed cache of this shape would store at this point
 * of the rollout. */
static int64_t reference_tokens(const struct kvr_cache *c)
{
    const int64_t active = c->layer[0].n_active, chunk = kvr_cache_chunk_tokens(c);
    const struct kvr_visible seen = in_window(c, kvr_cache_capacity_tokens(c));
    int64_t n = 0;

    if (kvr_scheme_is_study(c->scheme))
        return active ? kvr_cache_capacity_tokens(c) : 0;
    if (!evicts(c))
        return active;
    for (int64_t t = 0; t < active; t += chunk) { /* whole chunks are evicted at once */
        const int64_t end = t + chunk < active ? t + chunk : active;
        bool any = false;

        for (int r = 0; r < seen.n; r++)
            any |= seen.run[r][0] < end && t < seen.run[r][1];
        n += any ? end - t : 0;
    }
    return n;
}

void kvr_cache_bytes(const struct kvr_cache *c, struct kvr_cache_bytes *out)
{
    const size_t width = (size_t)kvr_cache_kv_heads(&c->shape) * (size_t)c->shape.head_dim;

    *out = (struct kvr_cache_bytes){ .tokens = reference_tokens(c) };
    out->bf16 = 2 * (size_t)out->tokens * width * sizeof(kvr_bf16) * (size_t)c->shape.n_layers;
    for (int i = 0; i < c->shape.n_layers; i++) {
        size_t codes;

        out->nominal += kvr_layer_nominal(&c->layer[i]);
        out->resident += kvr_layer_resident(&c->layer[i], &codes);
        out->resident_kv += codes;
        kvr_varying_add(&out->varying, &c->layer[i].varying);
    }
}

enum { READ_BLOCK = 512 }; /* tokens */

/* Copies rows [a, b) of a block of keys or values to the host. */
static enum kvr_status get_rows(const struct kvr_cache *c, const struct kvr_buf *values, int64_t a,
                                int64_t b, float *to)
{
    const size_t width = (size_t)kvr_cache_kv_heads(&c->shape) * (size_t)c->shape.head_dim;

    return kvr_dev_get(c->dev, to, (const float *)values->p + (size_t)a * width,
                       (size_t)(b - a) * width * sizeof *to);
}

/* Copies the stored tokens of [begin, end), a range of at most READ_BLOCK tokens, to consecutive
 * rows on the host, and adds their number to *n. The tokens are decoded together, because one
 * synchronization with the device takes longer than decoding one token. */
static enum kvr_status read_block(const struct kvr_cache *c, const struct kvr_layer *l,
                                  int64_t begin, int64_t end, float *k, float *v, int64_t *n)
{
    const size_t width = (size_t)kvr_cache_kv_heads(&c->shape) * (size_t)c->shape.head_dim;
    const int64_t m = end - begin;
    uint8_t held[READ_BLOCK];

    kvr_layer_dense(l, begin, end, k ? c->values_k.p : NULL, v ? c->values_v.p : NULL, held);
    for (int64_t a = 0, b; a < m; a = b) {
        for (b = a + 1; b < m && held[b] == held[a];)
            b++;
        if (!held[a])
            continue;
        if (k)
            KVR_TRY(get_rows(c, &c->values_k, a, b, k + (size_t)*n * width));
        if (v)
            KVR_TRY(get_rows(c, &c->values_v, a, b, v + (size_t)*n * width));
        *n += b - a;
    }
    return KVR_OK;
}

enum kvr_status kvr_cache_read(const struct kvr_cache *c, int layer, float *k, float *v, int64_t *n)
{
    const struct kvr_layer *l = &c->layer[layer];
    const struct kvr_visible seen = kvr_cache_visible(
        c, l->n_active < kvr_cache_capacity_tokens(c) ? l->n_active : kvr_cache_capacity_tokens(c));
    /* Maximum number of tokens per read_block(): READ_BLOCK, but at most one chunk, because
     * values_k and values_v have room for one chunk. */
    const int64_t step =
        kvr_cache_chunk_tokens(c) < READ_BLOCK ? kvr_cache_chunk_tokens(c) : READ_BLOCK;
    enum kvr_status st = KVR_OK;

    *n = 0;
    if (k || v)
        KVR_TRY(kvr_layer_read_joint(l, &seen));
    for (int r = 0; st == KVR_OK && r < seen.n; r++)
        for (int64_t t = seen.run[r][0], end; st == KVR_OK && t < seen.run[r][1]; t = end) {
            end = t + step < seen.run[r][1] ? t + step : seen.run[r][1];
            st = read_block(c, l, t, end, k, v, n);
        }
    kvr_layer_drop_joint(l);
    if (st != KVR_OK)
        *n = 0;
    return st;
}

enum kvr_status kvr_cache_times(const struct kvr_cache *c, struct kvr_cache_times *out)
{
    int64_t ns[KVR_CACHE_PHASES];

    KVR_TRY(kvr_phases_read(c->phases, ns));
    *out = (struct kvr_cache_times){
        .encode_ns = ns[KVR_CACHE_STORE] - ns[KVR_CACHE_STORE_DECODE],
        .decode_ns =
            ns[KVR_ATTEND_DECODE] + ns[KVR_CACHE_STORE_DECODE] + ns[KVR_CACHE_DENSE_DECODE],
        .attend_ns = ns[KVR_ATTEND_PHASE] - ns[KVR_ATTEND_DECODE],
        .observer_ns = c->observer_ns,
    };
    return KVR_OK;
}
