/* umt5.c - the UMT5 text encoder. It reads one weight matrix at a time. A matrix of the full-size
 * encoder takes 168 MB in F32, and its packed copy, or its copy on the device, another 168 MB. */
#include "harness/engine/text/umt5.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/engine/gemm.h"
#include "harness/engine/ops.h"
#include "harness/engine/text/umt5_ops.h"
#include "harness/files/weights/weights.h"

enum { MAX_LAYERS = 256, MAX_DISTANCE = 128, NAME_LEN = 96 };

struct kvr_umt5 {
    struct kvr_dev *dev;
    struct kvr_weights *file;
    struct kvr_gemm *gemm;
    const struct kvr_ops *ops;
    const struct kvr_umt5_ops *own;
    struct kvr_umt5_sizes s;
    kvr_umt5_tap_fn *tap;
    void *tap_ctx;
};

/* State of a call of kvr_umt5_encode(), with buffers for the tokens of all its texts. */
struct work {
    struct kvr_umt5 *e;
    const struct kvr_umt5_text *texts;
    int n_texts, longest; /* longest: number of tokens of the longest text */
    int64_t n;            /* number of tokens of all texts */
    int layer;            /* current layer, or -1 after the last layer */
    struct kvr_buf buf, scores;
    /* the layer's biases of relative positions 1 - longest .. longest - 1, [heads, 2 longest - 1] */
    struct kvr_buf near;
    float *x, *h;           /* [n, dim] */
    float *q, *k, *v, *ctx; /* [n, attention] */
    float *gate, *up;       /* feed-forward rows [n, ffn], in the memory of q */
};

/* --- opening ---------------------------------------------------------------------------- */

static enum kvr_status shape_of(const struct kvr_umt5 *e, const char *name, int n_dims,
                                int64_t *shape)
{
    const struct kvr_weight *w = kvr_weights_find(e->file, name);

    if (!w)
        return kvr_fail(KVR_EFORMAT, "%s: weight '%s' is missing", kvr_weights_path(e->file), name);
    if (w->n_dims != n_dims)
        return kvr_fail(KVR_EFORMAT, "%s: weight '%s' has %d dimensions, need %d",
                        kvr_weights_path(e->file), name, w->n_dims, n_dims);
    for (int i = 0; i < n_dims; i++) {
        if (w->shape[i] < 1 || w->shape[i] > 1 << 24)
            return kvr_fail(KVR_EFORMAT, "%s: weight '%s' has a dimension of %lld, need 1 to 2^24",
                            kvr_weights_path(e->file), name, (long long)w->shape[i]);
        shape[i] = w->shape[i];
    }
    return KVR_OK;
}

static enum kvr_status require_shape(const struct kvr_umt5 *e, int layer, const char *what,
                                     int n_dims, int64_t a, int64_t b)
{
    const int64_t want[2] = { a, b };
    int64_t have[2] = { 0, 0 };
    char name[NAME_LEN];

    snprintf(name, sizeof name, "blocks.%d.%s.weight", layer, what);
    KVR_TRY(shape_of(e, name, n_dims, have));
    if (memcmp(have, want, (size_t)n_dims * sizeof *have) == 0)
        return KVR_OK;
    return kvr_fail(KVR_EFORMAT, "%s: weight '%s' is %lld x %lld, need %lld x %lld",
                    kvr_weights_path(e->file), name, (long long)have[0], (long long)have[1],
                    (long long)want[0], (long long)want[1]);
}

static enum kvr_status check_layer(const struct kvr_umt5 *e, int i)
{
    const struct kvr_umt5_sizes *s = &e->s;

    KVR_TRY(require_shape(e, i, "norm1", 1, s->dim, 0));
    KVR_TRY(require_shape(e, i, "norm2", 1, s->dim, 0));
    KVR_TRY(require_shape(e, i, "attn.q", 2, s->attention, s->dim));
    KVR_TRY(require_shape(e, i, "attn.k", 2, s->attention, s->dim));
    KVR_TRY(require_shape(e, i, "attn.v", 2, s->attention, s->dim));
    KVR_TRY(require_shape(e, i, "attn.o", 2, s->dim, s->attention));
    KVR_TRY(require_shape(e, i, "pos_embedding.embedding", 2, s->n_buckets, s->n_heads));
    KVR_TRY(require_shape(e, i, "ffn.gate.0", 2, s->ffn, s->dim));
    KVR_TRY(require_shape(e, i, "ffn.fc1", 2, s->ffn, s->dim));
    return require_shape(e, i, "ffn.fc2", 2, s->dim, s->ffn);
}

static bool has_layer(const struct kvr_umt5 *e, int i)
{
    char name[NAME_LEN];

    snprintf(name, sizeof name, "blocks.%d.attn.q.weight", i);
    return kvr_weights_find(e->file, name) != NULL;
}

static enum kvr_status check_tensors(struct kvr_umt5 *e)
{
    struct kvr_umt5_sizes *s = &e->s;
    int64_t words[2], q[2], gate[2], table[2], norm[1];

    KVR_TRY(kvr_weights_check_names(e->file));
    KVR_TRY(shape_of(e, "token_embedding.weight", 2, words));
    KVR_TRY(shape_of(e, "blocks.0.attn.q.weight", 2, q));
    KVR_TRY(shape_of(e, "blocks.0.ffn.gate.0.weight", 2, gate));
    KVR_TRY(shape_of(e, "blocks.0.pos_embedding.embedding.weight", 2, table));
    KVR_TRY(shape_of(e, "norm.weight", 1, norm));
    *s = (struct kvr_umt5_sizes){ .vocabulary = (int)words[0],
                                  .dim = (int)words[1],
                                  .attention = (int)q[0],
                                  .ffn = (int)gate[0],
                                  .n_heads = (int)table[1],
                                  .n_buckets = (int)table[0] };
    while (s->n_layers < MAX_LAYERS && has_layer(e, s->n_layers))
        KVR_TRY(check_layer(e, s->n_layers++));
    if (norm[0] != s->dim)
        return kvr_fail(KVR_EFORMAT,
                        "%s: norm.weight has %lld values, need %d (the width of token_embedding)",
                        kvr_weights_path(e->file), (long long)norm[0], s->dim);
    if (s->attention % s->n_heads)
        return kvr_fail(
            KVR_EFORMAT,
            "%s: the %d attention heads must divide the %d rows of blocks.0.attn.q.weight",
            kvr_weights_path(e->file), s->n_heads, s->attention);
    /* kvr_umt5_bucket() divides by log(MAX_DISTANCE / (n_buckets / 4)), which must be positive. */
    if (s->n_buckets < 4 || s->n_buckets % 4 || s->n_buckets / 4 >= MAX_DISTANCE)
        return kvr_fail(KVR_EFORMAT,
                        "%s: blocks.0.pos_embedding has %d position buckets (rows), need a "
                        "positive multiple of 4 below %d",
                        kvr_weights_path(e->file), s->n_buckets, 4 * MAX_DISTANCE);
    if (e->own->max_head_dim && s->attention / s->n_heads > e->own->max_head_dim)
        return kvr_fail(KVR_EUNSUPPORTED, "%s: head_dim is %d, this device supports at most %d",
                        kvr_weights_path(e->file), s->attention / s->n_heads, e->own->max_head_dim);
    return KVR_OK;
}

enum kvr_status kvr_umt5_open(struct kvr_umt5 **out, struct kvr_dev *dev, const char *path)
{
    struct kvr_umt5 *e = calloc(1, sizeof *e);
    enum kvr_status st;

    *out = NULL;
    if (!e)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory", path);
    e->dev = dev;
    e->ops = kvr_ops_of(dev);
    e->own = kvr_umt5_ops_of(dev);
    st = kvr_weights_open(&e->file, path);
    if (st == KVR_OK)
        st = check_tensors(e);
    if (st == KVR_OK)
        st = kvr_gemm_open(&e->gemm, dev);
    if (st != KVR_OK) {
        kvr_umt5_close(&e);
        return st;
    }
    *out = e;
    return KVR_OK;
}

void kvr_umt5_close(struct kvr_umt5 **e)
{
    if (!e || !*e)
        return;
    kvr_gemm_close(&(*e)->gemm);
    kvr_weights_close(&(*e)->file);
    free(*e);
    *e = NULL;
}

const struct kvr_umt5_sizes *kvr_umt5_sizes(const struct kvr_umt5 *e)
{
    return &e->s;
}

void kvr_umt5_tap(struct kvr_umt5 *e, kvr_umt5_tap_fn *fn, void *ctx)
{
    e->tap = fn;
    e->tap_ctx = ctx;
}

/* Passes data in device memory to the caller's function for intermediate results,
 * kvr_umt5_tap(). */
static enum kvr_status show(const struct work *w, const char *what, const float *data, int64_t n)
{
    struct kvr_buf host = { 0 };
    char name[NAME_LEN];
    enum kvr_status st = KVR_OK;

    if (!w->e->tap)
        return KVR_OK;
    if (!kvr_dev_in_host(w->e->dev)) {
        const size_t bytes = (size_t)n * sizeof *data;

        KVR_TRY(kvr_buf_alloc_raw(&host, kvr_dev_host(w->e->dev), KVR_MEM_IO, bytes));
        st = kvr_dev_get(w->e->dev, host.p, data, bytes);
        data = host.p;
    }
    if (w->layer >= 0)
        snprintf(name, sizeof name, "block%d.%s", w->layer, what);
    else
        snprintf(name, sizeof name, "%s", what);
    if (st == KVR_OK)
        w->e->tap(w->e->tap_ctx, name, data, n);
    kvr_buf_free(&host);
    return st;
}

/* --- weights ---------------------------------------------------------------------------- */

static enum kvr_status check_finite(const struct kvr_umt5 *e, const char *name, const float *x,
                                    int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return kvr_fail(KVR_ENAN,
                            "%s: weight '%s' contains %g at element %lld; weights must be finite",
                            kvr_weights_path(e->file), name, (double)x[i], (long long)i);
    return KVR_OK;
}

/* Reads a weight into host memory as F32, and releases its pages of the memory-mapped file. */
static enum kvr_status read_weight(const struct kvr_umt5 *e, const char *name, struct kvr_buf *to)
{
    const struct kvr_weight *t = kvr_weights_find(e->file, name);
    enum kvr_status st;

    KVR_TRY(
        kvr_buf_reserve(to, kvr_dev_host(e->dev), KVR_MEM_WEIGHTS, (size_t)t->n * sizeof(float)));
    st = kvr_weight_f32(t, 0, t->n, to->p);
    kvr_weights_forget(e->file, t);
    KVR_TRY(st);
    return check_finite(e, name, to->p, t->n);
}

/* Moves a weight to device memory. On a CPU the buffer is unchanged. */
static enum kvr_status upload(const struct kvr_umt5 *e, struct kvr_buf *b)
{
    struct kvr_buf there = { 0 };
    enum kvr_status st;

    if (kvr_dev_in_host(e->dev))
        return KVR_OK;
    KVR_TRY(kvr_buf_alloc(&there, e->dev, KVR_MEM_WEIGHTS, b->n_bytes));
    st = kvr_dev_put(e->dev, there.p, b->p, b->n_bytes);
    kvr_buf_free(b);
    *b = there;
    return st;
}

static enum kvr_status linear(struct work *w, const char *what, int n, int k, const float *x,
                              float *y)
{
    struct kvr_umt5 *e = w->e;
    struct kvr_linear *l = NULL;
    struct kvr_buf weight = { 0 };
    char name[NAME_LEN];
    enum kvr_status st;

    snprintf(name, sizeof name, "blocks.%d.%s.weight", w->layer, what);
    st = read_weight(e, name, &weight);
    if (st == KVR_OK)
        st = kvr_linear_open(&l, e->gemm, n, k, weight.p, NULL);
    kvr_buf_free(&weight);
    if (st == KVR_OK) {
        const struct kvr_linear *layer = l;

        st = kvr_linear_run(e->gemm, w->n, x, 1, &layer, &y);
    }
    kvr_linear_close(&l);
    return st;
}

/* --- a layer ---------------------------------------------------------------------------- */

static enum kvr_status rms_norm(struct work *w, const char *name, const float *x, float *y)
{
    struct kvr_buf weight = { 0 };
    enum kvr_status st = read_weight(w->e, name, &weight);

    if (st == KVR_OK)
        st = upload(w->e, &weight);
    if (st == KVR_OK)
        w->e->own->norm(w->e->dev, w->n, w->e->s.dim, x, weight.p, y);
    kvr_buf_free(&weight);
    return st;
}

int kvr_umt5_bucket(int d, int n_buckets)
{
    const int half = n_buckets / 2, exact = half / 2, base = d > 0 ? half : 0;
    const int distance = d < 0 ? -d : d;
    int far;

    if (distance < exact)
        return base + distance;
    /* computed in F32 as in training, so that every distance has the same bucket as there */
    far = exact + (int)(logf((float)distance / (float)exact) /
                        (float)log((double)MAX_DISTANCE / exact) * (float)(half - exact));
    return base + (far < half - 1 ? far : half - 1);
}

/* The layer's table has a bias for each bucket of relative positions and head. This function
 * expands the table to one row per head, indexed by relative position. All texts of the call use
 * these rows. */
static enum kvr_status spread(struct work *w)
{
    const struct kvr_umt5_sizes *s = &w->e->s;
    const int64_t span = w->longest, width = 2 * span - 1;
    struct kvr_buf table = { 0 };
    char name[NAME_LEN];
    enum kvr_status st;

    snprintf(name, sizeof name, "blocks.%d.pos_embedding.embedding.weight", w->layer);
    st = kvr_buf_alloc_raw(&w->near, kvr_dev_host(w->e->dev), KVR_MEM_WEIGHTS,
                           (size_t)(width * s->n_heads) * sizeof(float));
    if (st == KVR_OK)
        st = read_weight(w->e, name, &table);
    for (int64_t d = 0; d < (st == KVR_OK ? width : 0); d++) {
        const int bucket = kvr_umt5_bucket((int)(d - span + 1), s->n_buckets);
        const float *row = (const float *)table.p + (int64_t)bucket * s->n_heads;

        for (int h = 0; h < s->n_heads; h++)
            ((float *)w->near.p)[h * width + d] = row[h];
    }
    kvr_buf_free(&table);
    return st == KVR_OK ? upload(w->e, &w->near) : st;
}

static enum kvr_status attend_all(struct work *w)
{
    const struct kvr_umt5_sizes *s = &w->e->s;
    enum kvr_status st = spread(w);
    int64_t at = 0;

    for (int t = 0; t < (st == KVR_OK ? w->n_texts : 0); at += w->texts[t++].n) {
        const int64_t first = at * s->attention;
        const struct kvr_umt5_heads a = { .q = w->q + first,
                                          .k = w->k + first,
                                          .v = w->v + first,
                                          .bias = w->near.p,
                                          .scores = w->scores.p,
                                          .out = w->ctx + first,
                                          .n = w->texts[t].n,
                                          .n_heads = s->n_heads,
                                          .head_dim = s->attention / s->n_heads,
                                          .span = w->longest };

        w->e->own->attend(w->e->dev, &a);
    }
    kvr_buf_free(&w->near);
    return st;
}

/* x += y */
static void add(struct work *w, const float *y, float *x)
{
    w->e->ops->add(w->e->dev, &(struct kvr_rows){ w->n, w->e->s.dim, 1 }, y, NULL, 0, x);
}

static enum kvr_status attention(struct work *w)
{
    const struct kvr_umt5_sizes *s = &w->e->s;
    const int64_t n = w->n;
    char name[NAME_LEN];

    snprintf(name, sizeof name, "blocks.%d.norm1.weight", w->layer);
    KVR_TRY(rms_norm(w, name, w->x, w->h));
    KVR_TRY(show(w, "norm1", w->h, n * s->dim));
    KVR_TRY(linear(w, "attn.q", s->attention, s->dim, w->h, w->q));
    KVR_TRY(linear(w, "attn.k", s->attention, s->dim, w->h, w->k));
    KVR_TRY(linear(w, "attn.v", s->attention, s->dim, w->h, w->v));
    KVR_TRY(show(w, "q", w->q, n * s->attention));
    KVR_TRY(show(w, "k", w->k, n * s->attention));
    KVR_TRY(show(w, "v", w->v, n * s->attention));
    KVR_TRY(attend_all(w));
    KVR_TRY(show(w, "attn_ctx", w->ctx, n * s->attention));
    KVR_TRY(linear(w, "attn.o", s->dim, s->attention, w->ctx, w->h));
    KVR_TRY(show(w, "attn_out", w->h, n * s->dim));
    add(w, w->h, w->x);
    return KVR_OK;
}

static enum kvr_status feed_forward(struct work *w)
{
    const struct kvr_umt5_sizes *s = &w->e->s;
    const int64_t n = w->n;
    char name[NAME_LEN];

    snprintf(name, sizeof name, "blocks.%d.norm2.weight", w->layer);
    KVR_TRY(rms_norm(w, name, w->x, w->h));
    KVR_TRY(show(w, "norm2", w->h, n * s->dim));
    KVR_TRY(linear(w, "ffn.gate.0", s->ffn, s->dim, w->h, w->gate));
    w->e->ops->gelu(w->e->dev, n * s->ffn, w->gate);
    KVR_TRY(show(w, "ffn_gate", w->gate, n * s->ffn));
    KVR_TRY(linear(w, "ffn.fc1", s->ffn, s->dim, w->h, w->up));
    KVR_TRY(show(w, "ffn_fc1", w->up, n * s->ffn));
    w->e->own->multiply(w->e->dev, n * s->ffn, w->gate, w->up);
    KVR_TRY(linear(w, "ffn.fc2", s->dim, s->ffn, w->up, w->h));
    KVR_TRY(show(w, "ffn_out", w->h, n * s->dim));
    add(w, w->h, w->x);
    return KVR_OK;
}

/* --- the encoder ------------------------------------------------------------------------ */

static size_t buffer_floats(const struct kvr_umt5_sizes *s, int64_t n)
{
    const size_t wide = (size_t)(2 * s->ffn > 4 * s->attention ? 2 * s->ffn : 4 * s->attention);

    return (size_t)n * (2 * (size_t)s->dim + wide);
}

/* Allocates the buffers of a call of kvr_umt5_encode(). The attention layer's q, k, v and ctx share
 * memory with the feed-forward layer's gate and up. */
static enum kvr_status open_work(struct work *w)
{
    const size_t threads = kvr_dev_in_host(w->e->dev) ? (size_t)omp_get_max_threads() : 0;
    const struct kvr_umt5_sizes *s = &w->e->s;
    const int64_t n = w->n;

    KVR_TRY(kvr_buf_alloc(&w->buf, w->e->dev, KVR_MEM_ACT, buffer_floats(s, n) * sizeof(float)));
    KVR_TRY(kvr_buf_alloc(&w->scores, w->e->dev, KVR_MEM_ACT,
                          threads * (size_t)w->longest * sizeof(float)));
    w->x = w->buf.p;
    w->h = w->x + n * s->dim;
    w->q = w->gate = w->h + n * s->dim;
    w->k = w->q + n * s->attention;
    w->v = w->k + n * s->attention;
    w->ctx = w->v + n * s->attention;
    w->up = w->gate + n * s->ffn;
    return KVR_OK;
}

/* Copies the token embeddings of all texts to w->x on the device. They are first read into the host
 * buffer `out`. */
static enum kvr_status look_up(struct work *w, float *out)
{
    const struct kvr_weight *t = kvr_weights_find(w->e->file, "token_embedding.weight");
    const struct kvr_umt5_sizes *s = &w->e->s;
    float *x = out;

    for (int i = 0; i < w->n_texts; i++)
        for (int j = 0; j < w->texts[i].n; j++, x += s->dim)
            KVR_TRY(kvr_weight_f32(t, (int64_t)w->texts[i].ids[j] * s->dim, s->dim, x));
    kvr_weights_forget(w->e->file, t);
    return kvr_dev_put(w->e->dev, w->x, out, (size_t)(w->n * s->dim) * sizeof *out);
}

static enum kvr_status encode(struct work *w, float *out)
{
    const int64_t n = w->n * w->e->s.dim;

    KVR_TRY(look_up(w, out));
    for (w->layer = 0; w->layer < w->e->s.n_layers; w->layer++) {
        KVR_TRY(attention(w));
        KVR_TRY(feed_forward(w));
        KVR_TRY(show(w, "out", w->x, n));
    }
    w->layer = -1;
    KVR_TRY(rms_norm(w, "norm.weight", w->x, w->h));
    KVR_TRY(show(w, "out", w->h, n));
    KVR_TRY(kvr_dev_sync(w->e->dev));
    KVR_TRY(kvr_dev_get(w->e->dev, out, w->h, (size_t)n * sizeof *out));
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(out[i]))
            return kvr_fail(KVR_ENAN,
                            "%s: token %lld: the text encoder's output is %g at value %lld of the "
                            "token, need a finite number",
                            kvr_weights_path(w->e->file), (long long)(i / w->e->s.dim),
                            (double)out[i], (long long)(i % w->e->s.dim));
    return KVR_OK;
}

static enum kvr_status measure(struct work *w)
{
    for (int i = 0; i < w->n_texts; i++) {
        const struct kvr_umt5_text *t = &w->texts[i];

        if (t->n < 1)
            return kvr_fail(KVR_EINVAL, "umt5: text %d has %d tokens, need at least 1", i, t->n);
        for (int j = 0; j < t->n; j++)
            if (t->ids[j] < 0 || t->ids[j] >= w->e->s.vocabulary)
                return kvr_fail(
                    KVR_EINVAL,
                    "umt5: text %d token %d has id %d, which is not in the vocabulary: need 0..%d",
                    i, j, t->ids[j], w->e->s.vocabulary - 1);
        w->n += t->n;
        w->longest = t->n > w->longest ? t->n : w->longest;
    }
    return KVR_OK;
}

enum kvr_status kvr_umt5_encode(struct kvr_umt5 *e, const struct kvr_umt5_text *texts, int n_texts,
                                float *out)
{
    struct work w = { .e = e, .texts = texts, .n_texts = n_texts };
    enum kvr_status st = measure(&w);

    if (st != KVR_OK || n_texts == 0)
        return st;
    st = open_work(&w);
    if (st == KVR_OK)
        st = encode(&w, out);
    kvr_buf_free(&w.near);
    kvr_buf_free(&w.scores);
    kvr_buf_free(&w.buf);
    kvr_gemm_free_scratch(e->gemm);
    return st;
}

size_t kvr_umt5_bytes(const struct kvr_umt5_sizes *s, int64_t n_tokens, int longest, int threads)
{
    const size_t wide = (size_t)(s->ffn > s->attention ? s->ffn : s->attention);

    /* the largest matrix counts twice: unpacked and packed */
    return (buffer_floats(s, n_tokens) + (size_t)threads * (size_t)longest +
            2 * wide * (size_t)s->dim) *
           sizeof(float);
}
