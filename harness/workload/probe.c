/* probe.c - compares attention through the method's cache with attention through a BF16 copy of the
 * cache, in every attention call, and sums the differences. */
#include "harness/workload/probe_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/rng.h"

enum kvr_status kvr_probe_open(struct kvr_probe **out, const struct kvr_probe_opts *opts)
{
    struct kvr_probe *p;

    if (opts->n_passes < 1 || opts->every < 1)
        return kvr_fail(KVR_EINVAL,
                        "probe: each chunk has %d forward passes, and one in %d queries is "
                        "evaluated; both numbers must be at least 1",
                        opts->n_passes, opts->every);
    p = calloc(1, sizeof *p);
    if (!p)
        return kvr_fail(KVR_ENOMEM, "probe: out of memory");
    p->opts = *opts;
    *out = p;
    return KVR_OK;
}

void kvr_probe_close(struct kvr_probe **pp)
{
    struct kvr_probe *p = *pp;

    if (!p)
        return;
    for (int l = 0; p->shadow && l < p->shape.n_layers; l++)
        kvr_layer_close(&p->shadow[l]);
    free(p->shadow);
    kvr_layer_scratch_free(&p->scratch);
    kvr_scheme_close(&p->bf16);
    kvr_dev_close(&p->dev);
    free(p->call);
    free(p->by_age);
    free(p->channel);
    free(p->channel_tokens);
    free(p->token);
    free(p->counts);
    free(p);
    *pp = NULL;
}

/* --- setup, in the first attention call ------------------------------------------------- */

static enum kvr_status open_shadow(struct kvr_probe *p)
{
    const struct kvr_cache_shape *s = &p->shape;

    KVR_TRY(kvr_dev_open(&p->dev, KVR_CPU));
    KVR_TRY(kvr_scheme_open(&p->bf16, s->exact == KVR_F32 ? "F32" : "BF16", NULL, 0));
    for (int l = 0; l < s->n_layers; l++) {
        const struct kvr_layer_geometry geo = {
            .layer = l,
            .n_layers = s->n_layers,
            .n_heads = p->kv_heads,
            .head_dim = s->head_dim,
            .tokens_per_frame = s->tokens_per_frame,
            .frames_per_chunk = s->frames_per_chunk,
            .capacity = (int64_t)s->capacity_frames * s->tokens_per_frame,
        };
        KVR_TRY(kvr_layer_open(&p->shadow[l], p->dev, p->bf16, &geo, &p->scratch, false));
    }
    return KVR_OK;
}

static enum kvr_status set_up(struct kvr_probe *p, const struct kvr_cache_view *view)
{
    const struct kvr_cache_shape *s = view->shape;
    const int kv_heads = s->n_kv_heads ? s->n_kv_heads : s->n_heads;
    const size_t layers = (size_t)s->n_layers, width = (size_t)kv_heads * (size_t)s->head_dim;
    const size_t heads = layers * (size_t)s->n_heads;
    const size_t capacity = (size_t)s->capacity_frames * (size_t)s->tokens_per_frame;
    const int chunks = (s->capacity_frames + s->frames_per_chunk - 1) / s->frames_per_chunk;

    if (!kvr_dev_in_host(view->past->dev))
        return kvr_fail(KVR_EUNSUPPORTED,
                        "probe: the KV cache is in GPU memory, but a probe needs the cache in host "
                        "memory; use device cpu");
    if (s->head_dim > KVR_CORRECTION_MAX_D)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "probe: head_dim (channels per head) is %d, at most %d is supported",
                        s->head_dim, KVR_CORRECTION_MAX_D);
    p->n_chunks = chunks;
    p->kv_heads = kv_heads;
    p->group = s->n_heads / kv_heads;
    p->call = calloc(heads * (size_t)p->opts.n_passes * (size_t)chunks, sizeof *p->call);
    p->by_age = calloc(heads * (size_t)chunks, sizeof *p->by_age);
    p->channel = calloc(layers * 2 * width, sizeof *p->channel);
    p->channel_tokens = calloc(layers, sizeof *p->channel_tokens);
    p->token = calloc(layers * capacity, sizeof *p->token);
    p->counts = calloc(layers * (size_t)chunks, sizeof *p->counts);
    p->shadow = calloc(layers, sizeof *p->shadow);
    if (!p->call || !p->by_age || !p->channel || !p->channel_tokens || !p->token || !p->counts ||
        !p->shadow)
        return kvr_fail(KVR_ENOMEM,
                        "probe: out of memory while allocating %zu tokens of %zu layers", capacity,
                        layers);
    p->shape = *s;
    return open_shadow(p);
}

/* --- accumulation ----------------------------------------------------------------------- */

static void add_query(struct kvr_probe_sums *s, const struct kvr_probe_query *q)
{
    s->queries += 1;
    s->delta += q->mass[METHOD] - q->mass[BF16];
    s->mass += q->mass[BF16];
    s->jsd += q->jsd;
    s->out_se += q->out_se;
    s->out_k_se += q->k_se;
    s->out_v_se += q->v_se;
    s->out_energy += q->out_energy;
    s->top1 += q->top1;
    s->keys += q->keys;
    s->on_zero += q->on_zero;
    s->on_summary += q->on_summary;
    s->lost += q->lost;
    s->top_found += q->top_found;
    s->top += q->top;
}

static void add_queries(struct kvr_probe *p, const struct kvr_probe_head *x, int n,
                        const struct kvr_probe_query *q, const double *by_age)
{
    const struct kvr_pass *pass = x->view->pass;
    struct kvr_probe_sums *call =
        kvr_probe_call(p, x->view->layer, x->hq, pass->index, pass->chunk);
    bool *present = calloc((size_t)p->n_chunks, sizeof *present);

    for (int64_t t = 0; present && t < x->n_past; t++)
        present[x->age[t]] = true;
    for (int i = 0; i < n; i++) {
        add_query(call, &q[i]);
        for (int a = 0; present && a < p->n_chunks; a++) {
            const double *w = by_age + ((int64_t)i * p->n_chunks + a) * KVR_PROBE_BY_AGE;
            struct kvr_probe_sums *s = kvr_probe_age(p, x->view->layer, x->hq, a);

            if (!present[a])
                continue;
            s->queries += 1;
            s->delta += w[METHOD] - w[BF16];
            s->mass += w[BF16];
            s->top_found += w[KVR_PROBE_FOUND];
            s->top += w[KVR_PROBE_TOP];
        }
    }
    free(present);
}

static void add_residual(struct kvr_probe *p, int n, const struct kvr_probe_query *q)
{
    double energy = 0, worst = 0;

    for (int i = 0; i < n; i++) {
        energy += q[i].energy / n;
        if (!(q[i].residual <= worst))
            worst = q[i].residual;
    }
    if (energy > 0 && !(worst / sqrt(energy) <= p->residual))
        p->residual = worst / sqrt(energy);
}

/* Adds the errors of the past keys and values that one query head reads. With grouped-query
 * attention, the errors of a KV head are added once for each of its query heads. */
static void add_errors(struct kvr_probe *p, const struct kvr_probe_head *x)
{
    const struct kvr_pass *pass = x->view->pass;
    const int l = x->view->layer, d = x->d, heads = p->kv_heads;
    struct kvr_probe_sums *call = kvr_probe_call(p, l, x->hq, pass->index, pass->chunk);
    const bool first = x->hq % p->group == 0; /* adds to `channel` once per KV head */

    for (int64_t t = 0; t < x->n_past; t++) {
        struct kvr_probe_sums *age = kvr_probe_age(p, l, x->hq, x->age[t]);
        double se[2] = { 0 }, energy[2] = { 0 };

        if (x->fate[t] == KVR_FATE_DROPPED)
            continue;
        for (int c = 0; c < d; c++) {
            const double k = x->kt[BF16][c * x->stride + t], v = x->v[BF16][t * x->wide + c];
            const double ek = x->kt[METHOD][c * x->stride + t] - k;
            const double ev = x->v[METHOD][t * x->wide + c] - v;

            se[0] += ek * ek;
            se[1] += ev * ev;
            energy[0] += k * k;
            energy[1] += v * v;
            if (!first)
                continue;
            p->channel[((int64_t)(l * 2) * heads + x->h) * d + c] += ek * ek;
            p->channel[((int64_t)(l * 2 + 1) * heads + x->h) * d + c] += ev * ev;
        }
        p->channel_tokens[l] += x->hq == 0;
        for (int i = 0; i < 2; i++) {
            struct kvr_probe_sums *s = i ? age : call;

            s->tokens += 1;
            s->elements += d;
            for (int j = 0; j < 2; j++) {
                s->se[j] += se[j];
                s->energy[j] += energy[j];
            }
        }
    }
}

/* --- number of times that tokens are encoded -------------------------------------------- */

static uint64_t mix(uint64_t hash, double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof bits);
    return (hash ^ bits) * 0x100000001b3u; /* FNV-1a over 64-bit words */
}

static void hash_head(const struct kvr_probe_head *x, uint64_t *hash)
{
    for (int64_t t = 0; t < x->n_past; t++)
        for (int c = 0; c < x->d; c++)
            hash[t] =
                mix(mix(hash[t], x->kt[METHOD][c * x->stride + t]), x->v[METHOD][t * x->wide + c]);
}

static void count_codings(struct kvr_probe *p, const struct kvr_probe_head *x, const uint64_t *hash)
{
    const int l = x->view->layer;
    const int64_t capacity = (int64_t)p->shape.capacity_frames * p->shape.tokens_per_frame;

    for (int64_t t = 0; t < x->n_past; t++) {
        struct kvr_probe_token *tok = &p->token[l * capacity + x->token[t]];
        struct kvr_probe_counts *sum = &p->counts[l * p->n_chunks + x->age[t]];

        if (x->fate[t] == KVR_FATE_DROPPED)
            continue;
        if (tok->seen && x->serial[t] && x->serial[t] != tok->serial)
            tok->recodes++;
        if (tok->seen && hash[t] != tok->hash)
            tok->changes++;
        if (x->serial[t])
            tok->serial = x->serial[t];
        tok->hash = hash[t];
        tok->seen = true;
        sum->tokens += 1;
        sum->recodes += tok->recodes;
        sum->changes += tok->changes;
    }
}

/* --- one attention call ----------------------------------------------------------------- */

/* Chooses every opts.every-th query of the chunk, starting at a random query. Returns the number of
 * chosen queries. */
static int choose_queries(const struct kvr_probe *p, const struct kvr_cache_view *view,
                          int64_t *list)
{
    const struct kvr_pass *pass = view->pass;
    int n = 0;
    float u;

    kvr_uniform(&u, 1, p->opts.seed, KVR_RNG_PROBE, (uint32_t)view->layer,
                (uint32_t)(pass->chunk * p->opts.n_passes + pass->index), 0);
    for (int64_t t = (int64_t)(u * (float)p->opts.every); t < view->n_tok; t += p->opts.every)
        list[n++] = t;
    return n;
}

/* Working memory of one attention call. */
struct work {
    int64_t *list;
    struct kvr_probe_query *query;
    double *by_age;
    uint64_t *hash;
};

static void work_free(struct work *w)
{
    free(w->list);
    free(w->query);
    free(w->by_age);
    free(w->hash);
}

static enum kvr_status probe_heads(struct kvr_probe *p, struct kvr_probe_head *x, struct work *w)
{
    const int n = choose_queries(p, x->view, w->list);

    for (int h = 0; h < p->kv_heads; h++) {
        kvr_probe_head_read(x, h);
        for (int g = 0; g < p->group; g++, x->hq++) {
            KVR_TRY(kvr_probe_attention(x, w->list, n, p->n_chunks, w->query, w->by_age));
            add_queries(p, x, n, w->query, w->by_age);
            add_residual(p, n, w->query);
            add_errors(p, x);
        }
        hash_head(x, w->hash);
    }
    count_codings(p, x, w->hash);
    return KVR_OK;
}

static enum kvr_status probe_call(struct kvr_probe *p, const struct kvr_cache_view *view)
{
    struct kvr_probe_head x;
    struct work w = { 0 };
    enum kvr_status st;

    KVR_TRY(kvr_probe_head_open(&x, view, &p->shadow[view->layer]));
    if (x.n_past > 0) {
        const size_t n = (size_t)view->n_tok;

        w.list = calloc(n, sizeof *w.list);
        w.query = calloc(n, sizeof *w.query);
        w.by_age = calloc(n * (size_t)p->n_chunks * KVR_PROBE_BY_AGE, sizeof *w.by_age);
        w.hash = calloc((size_t)x.n_past, sizeof *w.hash);
        st = w.list && w.query && w.by_age && w.hash
                 ? probe_heads(p, &x, &w)
                 : kvr_fail(KVR_ENOMEM, "probe: out of memory while allocating %zu queries", n);
        work_free(&w);
    } else {
        st = KVR_OK;
    }
    kvr_probe_head_close(&x);
    return st;
}

/* Stores the chunk's final keys and values in the BF16 copy of the cache. */
static enum kvr_status commit(struct kvr_probe *p, const struct kvr_cache_view *view)
{
    const struct kvr_cache_shape *s = &p->shape;
    const size_t n = (size_t)(view->n_tok * p->kv_heads * s->head_dim);
    float *kv = malloc(2 * n * sizeof *kv);
    enum kvr_status st;

    if (!kv)
        return kvr_fail(KVR_ENOMEM, "probe: out of memory while allocating a chunk");
    kvr_to_f32(kv, view->k, s->exact, n);
    kvr_to_f32(kv + n, view->v, s->exact, n);
    st = kvr_layer_commit(&p->shadow[view->layer], kv, kv + n,
                          (int64_t)view->pass->frame0 * s->tokens_per_frame, view->n_tok);
    free(kv);
    return st;
}

enum kvr_status kvr_probe_observe(void *ctx, const struct kvr_cache_view *view)
{
    struct kvr_probe *p = ctx;

    if (!p->shape.n_layers)
        KVR_TRY(set_up(p, view));
    if (view->pass->index < 0 || view->pass->index >= p->opts.n_passes || view->pass->chunk < 0 ||
        view->pass->chunk >= p->n_chunks)
        return kvr_fail(KVR_EINTERNAL,
                        "probe: pass index %d of chunk %d is out of range, since the probe was "
                        "opened for %d passes per chunk and %d chunks",
                        view->pass->index, view->pass->chunk, p->opts.n_passes, p->n_chunks);
    kvr_layer_evict(&p->shadow[view->layer], view->seen);
    if (view->q)
        KVR_TRY(probe_call(p, view));
    return view->pass->clean ? commit(p, view) : KVR_OK;
}

double kvr_probe_residual(const struct kvr_probe *p)
{
    return p->residual;
}
