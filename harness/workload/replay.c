/* replay.c - replays a trace pass by pass and layer by layer, with one call's tensors in memory. */
#include "harness/workload/replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/clock.h"
#include "harness/device/phase.h"
#include "harness/workload/replay_error.h"
#include "harness/workload/salience.h"

struct replay {
    struct kvr_dev *dev;
    const struct kvr_replay_request *req;
    const struct kvr_trace_info *info;
    struct kvr_cache_shape shape;
    struct kvr_cache *cache;
    struct kvr_buf on_dev;    /* device buffer that contains q, k, v and out */
    float *q, *k, *v, *out;   /* device memory: q, out [T,H,D]; k, v [T,Hkv,D] */
    struct kvr_buf in_host;   /* host copy of the device buffer; unused on the CPU */
    float *hq, *hk, *hv, *ho; /* host memory of q, k, v, out; on the CPU the same pointers */
    struct kvr_replay_errors *errors;
    struct kvr_replay_result *result;
    struct kvr_cache_times times; /* cumulative times at the end of the last pass */
    int64_t ns; /* total time of the cache's append, attend, commit, begin_pass and end_pass */
    float *oracle_scores; /* token salience for a non-causal method; NULL: causal method */
    int capacity, done;
    kvr_progress_fn *progress;
    void *progress_ctx;
};

static struct kvr_cache_shape cache_shape(const struct kvr_replay_request *req)
{
    const struct kvr_trace_layout *l = &kvr_trace_info(req->trace)->layout;

    return (struct kvr_cache_shape){
        .n_layers = req->n_layers ? req->n_layers : l->n_layers,
        .n_heads = l->n_heads,
        .head_dim = l->head_dim,
        .n_kv_heads = l->n_kv_heads == l->n_heads ? 0 : l->n_kv_heads,
        .causal = l->causal,
        .tokens_per_frame = l->tokens_per_frame,
        .frames_per_chunk = l->frames_per_chunk,
        .capacity_frames = req->frames,
        .window_frames = req->window_frames,
        .sink_frames = req->sink_frames,
        .evict = req->evict,
        .exact = KVR_BF16,
        .attend = req->attend,
        .staged_bytes = req->staged_bytes,
    };
}

static enum kvr_status check(const struct replay *r, const struct kvr_scheme *scheme)
{
    const struct kvr_trace_layout *l = &r->info->layout;

    if (scheme->opts.commit == KVR_COMMIT_LAST_STEP)
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "%s: option commit=last_step needs a rollout, but a replay reads a trace, which "
            "already contains cache-update passes; use a method with commit=clean_pass",
            scheme->name);
    if (r->req->frames < 1 || r->req->frames > r->info->n_frames ||
        (r->req->frames % l->frames_per_chunk != 0 && r->req->frames != r->info->n_frames))
        return kvr_fail(
            KVR_EINVAL,
            "replay: %d of the trace's %d frames requested, need a positive multiple of %d "
            "(one chunk), or all frames",
            r->req->frames, r->info->n_frames, l->frames_per_chunk);
    if (r->req->n_layers < 0 || r->req->n_layers > l->n_layers)
        return kvr_fail(
            KVR_EINVAL,
            "replay: %d layers requested, need 1..%d (the trace's layers), or 0 for all layers",
            r->req->n_layers, l->n_layers);
    return KVR_OK;
}

/* --- one call --------------------------------------------------------------------------- */

static enum kvr_status fetch(const struct replay *r, const struct kvr_trace_call *c,
                             const struct kvr_tensor *from, const char *name, float *host,
                             float *dev)
{
    const int64_t n = kvr_tensor_count(from);

    kvr_to_f32(host, from->data, from->dtype, (size_t)n);
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(host[i]))
            return kvr_fail(KVR_ENAN,
                            "%s: tensor '%s': element %lld is %g; elements must be finite",
                            kvr_st_path(c->file), name, (long long)i, (double)host[i]);
    return host == dev ? KVR_OK : kvr_dev_put(r->dev, dev, host, (size_t)n * sizeof *host);
}

/* Adds the time since `begin` to r->ns, after a device synchronization. */
static enum kvr_status timed(struct replay *r, int64_t begin)
{
    KVR_TRY(kvr_dev_sync(r->dev));
    r->ns += kvr_now_ns() - begin;
    return KVR_OK;
}

static enum kvr_status check_answer(const struct replay *r, const struct kvr_trace_pass *p,
                                    int layer, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(r->ho[i]))
            return kvr_fail(KVR_ENAN,
                            "replay: chunk %d, forward pass %d, layer %d: element %lld of the "
                            "attention output is %g, must be finite",
                            p->chunk, p->index, layer, (long long)i, (double)r->ho[i]);
    return KVR_OK;
}

static enum kvr_status attend(struct replay *r, const struct kvr_trace_pass *p, int layer,
                              const struct kvr_trace_call *c)
{
    const int64_t n = c->n_tok * r->info->layout.n_heads * r->info->layout.head_dim;
    int64_t begin;

    KVR_TRY(fetch(r, c, &c->q, "q", r->hq, r->q));
    begin = kvr_now_ns();
    KVR_TRY(kvr_cache_append(r->cache, layer, r->k, r->v));
    KVR_TRY(kvr_cache_attend(r->cache, layer, r->q, r->out));
    KVR_TRY(timed(r, begin));
    if (r->ho != r->out)
        KVR_TRY(kvr_dev_get(r->dev, r->ho, r->out, (size_t)n * sizeof *r->ho));
    KVR_TRY(check_answer(r, p, layer, n));
    return kvr_replay_errors_add(r->errors, p, layer, c, r->hq, r->hk, r->hv, r->ho);
}

static enum kvr_status store(struct replay *r, const struct kvr_trace_pass *p, int layer)
{
    const int64_t begin = kvr_now_ns();

    KVR_TRY(kvr_cache_append(r->cache, layer, r->k, r->v));
    KVR_TRY(kvr_cache_commit(r->cache, layer));
    KVR_TRY(timed(r, begin));
    return kvr_replay_errors_add(r->errors, p, layer, NULL, NULL, r->hk, r->hv, NULL);
}

static enum kvr_status one_call(struct replay *r, int pass, int layer)
{
    const struct kvr_trace_pass *p = &r->info->pass[pass];
    struct kvr_trace_call c;
    enum kvr_status st;

    KVR_TRY(kvr_trace_call_open(&c, r->req->trace, pass, layer));
    st = fetch(r, &c, &c.k, "k", r->hk, r->k);
    if (st == KVR_OK)
        st = fetch(r, &c, &c.v, "v", r->hv, r->v);
    if (st == KVR_OK)
        st = p->queries ? attend(r, p, layer, &c) : store(r, p, layer);
    kvr_trace_call_close(&c);
    return st;
}

/* --- passes ----------------------------------------------------------------------------- */

static enum kvr_status record(struct replay *r, const struct kvr_trace_pass *p)
{
    struct kvr_pass_record *to = &r->result->cost.pass[r->result->cost.n_passes++];
    const struct kvr_cache_times before = r->times;
    struct kvr_mem_stats mem;

    kvr_mem_stats(r->dev, &mem);
    to->chunk = p->chunk;
    to->index = p->index;
    to->t_ns = r->ns;
    to->live_total = mem.live_total;
    memcpy(to->live, mem.live, sizeof to->live);
    kvr_cache_bytes(r->cache, &to->bytes);
    if (!r->req->phases)
        return KVR_OK;
    KVR_TRY(kvr_cache_times(r->cache, &r->times));
    to->cache = (struct kvr_cache_times){
        .encode_ns = r->times.encode_ns - before.encode_ns,
        .decode_ns = r->times.decode_ns - before.decode_ns,
        .attend_ns = r->times.attend_ns - before.attend_ns,
    };
    return KVR_OK;
}

static enum kvr_status one_pass(struct replay *r, int pass)
{
    const struct kvr_trace_pass *p = &r->info->pass[pass];
    const struct kvr_pass as = { .chunk = p->chunk,
                                 .frame0 = p->frame0,
                                 .n_frames = p->n_frames,
                                 .index = p->index,
                                 .clean = p->clean };
    int64_t begin = kvr_now_ns();

    KVR_TRY(kvr_cache_begin_pass(r->cache, &as));
    KVR_TRY(timed(r, begin));
    KVR_TRY(kvr_replay_errors_begin(r->errors, &as));
    for (int l = 0; l < r->shape.n_layers; l++)
        KVR_TRY(one_call(r, pass, l));
    begin = kvr_now_ns();
    KVR_TRY(kvr_cache_end_pass(r->cache));
    KVR_TRY(timed(r, begin));
    KVR_TRY(kvr_replay_errors_end(r->errors));
    return record(r, p);
}

static enum kvr_status replay_passes(struct replay *r)
{
    const int n_chunks = r->result->cost.n_chunks;

    for (int i = 0; i < r->capacity; i++) {
        KVR_TRY(one_pass(r, i));
        if (i + 1 < r->capacity && r->info->pass[i + 1].chunk == r->info->pass[i].chunk)
            continue;
        r->done++;
        if (r->progress && r->progress(r->progress_ctx, r->done, n_chunks))
            return kvr_fail(KVR_EINTERRUPTED, "replay: stopped by the user after chunk %d of %d",
                            r->done, n_chunks);
    }
    r->result->cost.wall_ns = r->ns;
    kvr_cache_bytes(r->cache, &r->result->cost.bytes);
    kvr_mem_stats(r->dev, &r->result->cost.mem);
    kvr_replay_errors_result(r->errors, r->result);
    return kvr_cache_times(r->cache, &r->result->cost.cache);
}

/* --- the replay ------------------------------------------------------------------------- */

static void point(const struct replay *r, struct kvr_buf *buf, float **q, float **k, float **v,
                  float **out)
{
    const struct kvr_trace_layout *l = &r->info->layout;
    const size_t n =
        (size_t)l->frames_per_chunk * (size_t)l->tokens_per_frame * (size_t)l->head_dim;

    *q = buf->p;
    *out = *q + n * (size_t)l->n_heads;
    *k = *out + n * (size_t)l->n_heads;
    *v = *k + n * (size_t)l->n_kv_heads;
}

static enum kvr_status open_buffers(struct replay *r)
{
    const struct kvr_trace_layout *l = &r->info->layout;
    const size_t n = (size_t)l->frames_per_chunk * (size_t)l->tokens_per_frame *
                     (size_t)l->head_dim * 2 * (size_t)(l->n_heads + l->n_kv_heads);

    KVR_TRY(kvr_buf_alloc(&r->on_dev, r->dev, KVR_MEM_ACT, n * sizeof(float)));
    point(r, &r->on_dev, &r->q, &r->k, &r->v, &r->out);
    if (kvr_dev_in_host(r->dev)) {
        point(r, &r->on_dev, &r->hq, &r->hk, &r->hv, &r->ho);
        return KVR_OK;
    }
    KVR_TRY(kvr_buf_alloc(&r->in_host, kvr_dev_host(r->dev), KVR_MEM_IO, n * sizeof(float)));
    point(r, &r->in_host, &r->hq, &r->hk, &r->hv, &r->ho);
    return KVR_OK;
}

static enum kvr_status open_all(struct replay *r, const struct kvr_scheme *scheme)
{
    struct kvr_rollout_result *cost = &r->result->cost;

    while (r->capacity < r->info->n_passes && r->info->pass[r->capacity].frame0 < r->req->frames)
        r->capacity++;
    cost->n_chunks = r->info->pass[r->capacity - 1].chunk + 1;
    cost->pass = calloc((size_t)r->capacity, sizeof *cost->pass);
    r->result->chunk = calloc((size_t)cost->n_chunks, sizeof *r->result->chunk);
    if (!cost->pass || !r->result->chunk)
        return kvr_fail(KVR_ENOMEM, "replay: out of memory while allocating %d passes",
                        r->capacity);
    kvr_phases_forget(r->dev);
    KVR_TRY(open_buffers(r));
    KVR_TRY(kvr_cache_open(&r->cache, r->dev, scheme, &r->shape, r->req->path));
    kvr_cache_observe(r->cache, r->req->observer, r->req->observer_ctx);
    kvr_cache_set_salience(r->cache, r->oracle_scores);
    return kvr_replay_errors_open(&r->errors, &r->shape, cost->n_chunks, r->req->compare);
}

/* Replays the trace of ctx (struct replay *) with method BF16. The observer records queries and
 * keys, from which salience.h computes the token salience that a non-causal method needs. */
static enum kvr_status replay_bf16(void *ctx, const struct kvr_scheme *bf16,
                                   kvr_cache_observer_fn *observer, void *observer_ctx)
{
    const struct replay *r = ctx;
    struct kvr_replay_request bare = *r->req;
    struct kvr_replay_result result;

    bare.compare = false;
    bare.phases = false;
    bare.attend = KVR_ATTEND_FLOAT;
    bare.observer = observer;
    bare.observer_ctx = observer_ctx;
    KVR_TRY(kvr_replay_run(r->dev, bf16, &bare, NULL, NULL, &result));
    kvr_replay_result_free(&result);
    return KVR_OK;
}

enum kvr_status kvr_replay_run(struct kvr_dev *dev, const struct kvr_scheme *scheme,
                               const struct kvr_replay_request *req, kvr_progress_fn *progress,
                               void *progress_ctx, struct kvr_replay_result *out)
{
    struct replay r = { .dev = dev,
                        .req = req,
                        .info = kvr_trace_info(req->trace),
                        .result = out,
                        .progress = progress,
                        .progress_ctx = progress_ctx };
    struct kvr_mem_stats mem;
    enum kvr_status st;

    memset(out, 0, sizeof *out);
    KVR_TRY(check(&r, scheme));
    r.shape = cache_shape(req);
    KVR_TRY(kvr_salience_measure(scheme, &r.shape, replay_bf16, &r, &r.oracle_scores));
    kvr_mem_reset_peak(dev);
    kvr_mem_stats(dev, &mem);
    out->cost.live_at_start = mem.live_total;
    out->cost.finite = true;
    st = open_all(&r, scheme);
    if (st == KVR_OK)
        st = replay_passes(&r);
    kvr_replay_errors_close(&r.errors);
    kvr_cache_close(&r.cache);
    kvr_buf_free(&r.on_dev);
    kvr_buf_free(&r.in_host);
    free(r.oracle_scores);
    kvr_mem_stats(dev, &mem);
    out->cost.live_at_end = mem.live_total;
    if (st != KVR_OK)
        kvr_replay_result_free(out);
    return st;
}

void kvr_replay_result_free(struct kvr_replay_result *r)
{
    free(r->chunk);
    kvr_rollout_result_free(&r->cost);
    memset(r, 0, sizeof *r);
}
