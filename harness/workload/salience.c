/* salience.c - see salience.h. */
#include "harness/workload/salience.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { QUERIES = 50 };

struct kvr_salience {
    int n_layers, first, n_heads, n_kv_heads, head_dim, queries;
    int64_t chunk, capacity; /* number of tokens of a chunk and of the video */
    int64_t n;               /* number of tokens observed so far */
    float *q;                /* [layers][chunks][queries][Hq,D], scaled by 1/sqrt(D) */
    float *k;                /* [layers][capacity][H,D] */
    int64_t *n_rows;         /* [chunks]: number of stored queries */
};

static int64_t rows_of(const struct kvr_salience *s, int64_t n_tok)
{
    return s->queries && s->queries < n_tok ? s->queries : n_tok;
}

static int64_t chunks_of(const struct kvr_salience *s, int64_t n)
{
    return (n + s->chunk - 1) / s->chunk;
}

static float *queries_of(const struct kvr_salience *s, int layer, int64_t chunk)
{
    const int64_t at = (layer - s->first) * chunks_of(s, s->capacity) + chunk;

    return s->q + at * rows_of(s, s->chunk) * s->n_heads * s->head_dim;
}

static float *keys_of(const struct kvr_salience *s, int layer, int64_t token)
{
    return s->k + ((layer - s->first) * s->capacity + token) * s->n_kv_heads * s->head_dim;
}

enum kvr_status kvr_salience_open(struct kvr_salience **out, const struct kvr_cache_shape *shape,
                                  bool last_only, int queries)
{
    struct kvr_salience *s = calloc(1, sizeof *s);
    size_t layers, chunks;

    if (!s)
        return kvr_fail(KVR_ENOMEM, "salience: out of memory");
    *s = (struct kvr_salience){
        .n_layers = shape->n_layers,
        .first = last_only ? shape->n_layers - 1 : 0,
        .n_heads = shape->n_heads,
        .n_kv_heads = shape->n_kv_heads ? shape->n_kv_heads : shape->n_heads,
        .head_dim = shape->head_dim,
        .queries = queries,
        .chunk = (int64_t)shape->frames_per_chunk * shape->tokens_per_frame,
        .capacity = (int64_t)shape->capacity_frames * shape->tokens_per_frame,
    };
    layers = (size_t)(s->n_layers - s->first);
    chunks = (size_t)chunks_of(s, s->capacity);
    s->q = malloc(layers * chunks * (size_t)(rows_of(s, s->chunk) * s->n_heads * s->head_dim) *
                  sizeof *s->q);
    s->k = malloc(layers * (size_t)(s->capacity * s->n_kv_heads * s->head_dim) * sizeof *s->k);
    s->n_rows = calloc(chunks, sizeof *s->n_rows);
    if (!s->q || !s->k || !s->n_rows) {
        kvr_salience_close(&s);
        return kvr_fail(KVR_ENOMEM,
                        "salience: out of memory while allocating %d frames of %zu layers",
                        shape->capacity_frames, layers);
    }
    *out = s;
    return KVR_OK;
}

void kvr_salience_close(struct kvr_salience **s)
{
    if (!*s)
        return;
    free((*s)->q);
    free((*s)->k);
    free((*s)->n_rows);
    free(*s);
    *s = NULL;
}

enum kvr_status kvr_salience_observe(void *ctx, const struct kvr_cache_view *view)
{
    struct kvr_salience *s = ctx;
    const int64_t tok0 = (int64_t)view->pass->frame0 * view->shape->tokens_per_frame;
    const int64_t width = (int64_t)s->n_heads * s->head_dim;
    const int64_t chunk = tok0 / s->chunk, rows = view->q ? rows_of(s, view->n_tok) : 0;
    const float scale = 1.0f / sqrtf((float)s->head_dim);

    if (!view->pass->clean || view->layer < s->first)
        return KVR_OK;
    kvr_to_f32(keys_of(s, view->layer, tok0), view->k, view->shape->exact,
               (size_t)(view->n_tok * s->n_kv_heads * s->head_dim));
    for (int64_t i = 0; i < rows; i++) {
        const float *q = view->q + i * view->n_tok / rows * width;
        float *to = queries_of(s, view->layer, chunk) + i * width;

        for (int64_t c = 0; c < width; c++)
            to[c] = q[c] * scale;
    }
    s->n_rows[chunk] = rows;
    s->n = tok0 + view->n_tok > s->n ? tok0 + view->n_tok : s->n;
    return KVR_OK;
}

/* Maximum attention weights of each key for one query head: `up` over queries of earlier chunks,
 * `diag` over queries of the key's chunk, `low` over queries of later chunks. */
struct most {
    float *up, *diag, *low; /* [n] */
    double *p;              /* [n]: weights of one query */
};

static void chunk_weights(const struct kvr_salience *s, int layer, int h, int64_t chunk,
                          const struct most *m)
{
    const int d = s->head_dim, kv = h / (s->n_heads / s->n_kv_heads);

    for (int64_t i = 0; i < s->n_rows[chunk]; i++) {
        const float *q = queries_of(s, layer, chunk) + (i * s->n_heads + h) * d;
        double top = -INFINITY, total = 0;

        for (int64_t j = 0; j < s->n; j++) {
            const float *k = keys_of(s, layer, j) + kv * d;
            double x = 0;

            for (int c = 0; c < d; c++)
                x += (double)q[c] * k[c];
            m->p[j] = x;
            top = x > top ? x : top;
        }
        for (int64_t j = 0; j < s->n; j++)
            total += m->p[j] = exp(m->p[j] - top);
        for (int64_t j = 0; j < s->n; j++) {
            const float p = (float)(m->p[j] / total);
            float *to = j / s->chunk > chunk ? m->up : j / s->chunk == chunk ? m->diag : m->low;

            to[j] = p > to[j] ? p : to[j];
        }
    }
}

/* Computes the score of each key j for one query head: the mean of the maxima up_j (except in the
 * first chunk), diag_j and low_j (except in the last chunk). */
static void score_head(const struct kvr_salience *s, int layer, int h, const struct most *m,
                       float *score)
{
    const int64_t chunks = chunks_of(s, s->n);

    memset(m->up, 0, 3 * (size_t)s->n * sizeof *m->up);
    for (int64_t c = 0; c < chunks; c++)
        chunk_weights(s, layer, h, c, m);
    for (int64_t j = 0; j < s->n; j++) {
        const bool first = j / s->chunk == 0, last = j / s->chunk == chunks - 1;
        /* Keys of the first chunk have up = 0, keys of the last chunk low = 0. */
        const float all = m->up[j] + m->diag[j] + m->low[j];

        score[j] = all / (float)(3 - first - last);
    }
}

static bool score_layer(const struct kvr_salience *s, int layer, float *table)
{
    const size_t n = (size_t)s->n;
    float *by_head = malloc((size_t)s->n_heads * n * sizeof *by_head);
    bool ok = by_head != NULL;

#pragma omp parallel for schedule(static) reduction(&& : ok)
    for (int h = 0; h < s->n_heads; h++) {
        struct most m = { .up = malloc(3 * n * sizeof *m.up), .p = malloc(n * sizeof *m.p) };

        ok = ok && by_head && m.up && m.p;
        if (ok) {
            m.diag = m.up + n;
            m.low = m.diag + n;
            score_head(s, layer, h, &m, by_head + (size_t)h * n);
        }
        free(m.up);
        free(m.p);
    }
    for (int h = 0; h < s->n_heads && ok; h++)
        for (size_t j = 0; j < n; j++)
            table[j] += by_head[(size_t)h * n + j] / (float)s->n_heads;
    free(by_head);
    return ok;
}

enum kvr_status kvr_salience_table(const struct kvr_salience *s, float **table)
{
    float *t = calloc((size_t)s->n_layers * (size_t)s->capacity, sizeof *t);
    bool ok = t != NULL;

    for (int i = s->first; i < s->n_layers && ok && s->n; i++)
        ok = score_layer(s, i, t + (size_t)i * (size_t)s->capacity);
    if (!ok) {
        free(t);
        return kvr_fail(KVR_ENOMEM, "salience: out of memory while allocating %lld tokens",
                        (long long)s->n);
    }
    *table = t;
    return KVR_OK;
}

enum kvr_status kvr_salience_measure(const struct kvr_scheme *scheme,
                                     const struct kvr_cache_shape *shape, kvr_salience_run_fn *run,
                                     void *ctx, float **table)
{
    struct kvr_scheme *bf16 = NULL;
    struct kvr_salience *s = NULL;
    struct kvr_thin_needs needs;
    enum kvr_status st;

    *table = NULL;
    if (!kvr_retention_thins(&scheme->retention, &needs) || !needs.oracle_scores)
        return KVR_OK;
    st = kvr_scheme_open(&bf16, kvr_reference_method, NULL, 0);
    if (st == KVR_OK)
        st = kvr_salience_open(&s, shape, needs.of_last, QUERIES);
    if (st == KVR_OK)
        st = run(ctx, bf16, kvr_salience_observe, s);
    if (st == KVR_OK)
        st = kvr_salience_table(s, table);
    kvr_salience_close(&s);
    kvr_scheme_close(&bf16);
    return st;
}
