/* heads.c - see heads.h. */
#include "harness/workload/heads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/layer.h"
#include "methods/kernels/share.h"
#include "methods/kernels/topk.h"

const char *const kvr_head_rule_names[] = { "forcing", "dummy", "pyramid", NULL };

/* Attention weights of one head, summed over queries, by the frame of the key. `first` is the
 * weight of frame 0, `past` that of the other frames before the chunk. `near` is that of the chunk
 * and the frame before it. `all` is the weight of all keys. */
struct sums {
    double first, past, near, all;
};

struct kvr_heads {
    int n_layers, n_heads, queries, max_frames;
    struct sums *sum; /* [L][H] */
    double *score;    /* [L][H][max_frames]: sums of q k / sqrt(D), by distance in frames */
    double *n_scores; /* [L][H][max_frames]: number of terms in each element of `score` */
    int64_t n_seen;
    float *keys; /* [n,H,D]: keys of one attention call, past tokens first */
    double *weight;
    size_t capacity, weights_capacity;
};

enum kvr_status kvr_heads_open(struct kvr_heads **out, int n_layers, int n_heads, int queries,
                               int max_frames)
{
    const size_t n = (size_t)n_layers * (size_t)n_heads;
    struct kvr_heads *p = calloc(1, sizeof *p);

    if (!p)
        return kvr_fail(KVR_ENOMEM, "heads: out of memory");
    *p = (struct kvr_heads){
        .n_layers = n_layers,
        .n_heads = n_heads,
        .queries = queries,
        .max_frames = max_frames,
        .sum = calloc(n, sizeof *p->sum),
        .score = calloc(n * (size_t)max_frames, sizeof *p->score),
        .n_scores = calloc(n * (size_t)max_frames, sizeof *p->n_scores),
    };
    if (!p->sum || !p->score || !p->n_scores) {
        kvr_heads_close(&p);
        return kvr_fail(KVR_ENOMEM, "heads: out of memory while allocating %d layers of %d heads",
                        n_layers, n_heads);
    }
    *out = p;
    return KVR_OK;
}

void kvr_heads_close(struct kvr_heads **p)
{
    if (!*p)
        return;
    free((*p)->sum);
    free((*p)->score);
    free((*p)->n_scores);
    free((*p)->keys);
    free((*p)->weight);
    free(*p);
    *p = NULL;
}

/* ---- attention weights of a call ----------------------------------------------------------- */

/* The n keys of one attention call. The first n_past keys are of past tokens, the others of the
 * current chunk. */
struct seen {
    const struct kvr_cache_view *view;
    const float *keys;
    int64_t n, n_past;
    int64_t run[2][2]; /* `runs` ranges [begin, end) of visible past tokens, in key order */
    int runs;
};

/* Returns the latent frame that the i-th key belongs to. */
static int frame_of(const struct seen *s, int64_t i)
{
    const int S = s->view->shape->tokens_per_frame;

    for (int r = 0; r < s->runs; r++) {
        const int64_t n = s->run[r][1] - s->run[r][0];

        if (i < n)
            return (int)((s->run[r][0] + i) / S);
        i -= n;
    }
    return s->view->pass->frame0 + (int)(i / S);
}

static enum kvr_status make_room(struct kvr_heads *p, const struct kvr_cache_view *view, int64_t n)
{
    const size_t width = (size_t)view->shape->n_heads * (size_t)view->shape->head_dim;
    const size_t values = (size_t)n * width, weights = (size_t)(n * p->n_heads);

    if (values > p->capacity) {
        free(p->keys);
        p->keys = malloc(values * sizeof *p->keys);
        p->capacity = p->keys ? values : 0;
    }
    if (weights > p->weights_capacity) {
        free(p->weight);
        p->weight = malloc(weights * sizeof *p->weight);
        p->weights_capacity = p->weight ? weights : 0;
    }
    return p->keys && p->weight
               ? KVR_OK
               : kvr_fail(KVR_ENOMEM, "heads: out of memory while allocating %lld keys",
                          (long long)n);
}

static enum kvr_status read_keys(struct kvr_heads *p, const struct kvr_cache_view *view,
                                 struct seen *s)
{
    const size_t width = (size_t)view->shape->n_heads * (size_t)view->shape->head_dim;
    float *at;

    *s = (struct seen){ .view = view, .runs = view->seen->n };
    for (int r = 0; r < s->runs; r++) {
        memcpy(s->run[r], view->seen->run[r], sizeof s->run[r]);
        s->n_past += s->run[r][1] - s->run[r][0];
    }
    s->n = s->n_past + view->n_tok;
    KVR_TRY(make_room(p, view, s->n));
    at = p->keys;
    for (int r = 0; r < s->runs; r++) {
        kvr_layer_dense(view->past, s->run[r][0], s->run[r][1], at, NULL, NULL);
        at += (size_t)(s->run[r][1] - s->run[r][0]) * width;
    }
    kvr_to_f32(at, view->k, view->shape->exact, (size_t)view->n_tok * width);
    s->keys = p->keys;
    return KVR_OK;
}

/* Adds the attention scores and weights of one query of head h to the sums. w [n]: scratch. */
static void see_query(struct kvr_heads *p, const struct seen *s, int h, int64_t row, double *w)
{
    const struct kvr_cache_view *v = s->view;
    const int d = v->shape->head_dim, H = v->shape->n_heads, S = v->shape->tokens_per_frame;
    const size_t head = (size_t)v->layer * (size_t)p->n_heads + (size_t)h;
    const float *q = v->q + (row * H + h) * d;
    const int now = v->pass->frame0 + (int)(row / S);
    struct sums *sum = &p->sum[head];
    double top = -INFINITY, total = 0;

    for (int64_t i = 0; i < s->n; i++) {
        const float *k = s->keys + (i * H + h) * d;
        double x = 0;

        for (int c = 0; c < d; c++)
            x += (double)q[c] * k[c];
        w[i] = x / sqrt(d);
        top = w[i] > top ? w[i] : top;
    }
    for (int64_t i = 0; i < s->n_past; i++) {
        const int back = now - frame_of(s, i);

        if (back > 0 && back < p->max_frames) {
            p->score[head * (size_t)p->max_frames + (size_t)back] += w[i];
            p->n_scores[head * (size_t)p->max_frames + (size_t)back]++;
        }
    }
    for (int64_t i = 0; i < s->n; i++) {
        w[i] = exp(w[i] - top);
        total += w[i];
    }
    for (int64_t i = 0; i < s->n; i++) {
        const int f = frame_of(s, i);
        const double x = w[i] / total;

        sum->all += x;
        if (f == 0)
            sum->first += x;
        else if (f < v->pass->frame0)
            sum->past += x;
        if (f > 0 && f >= v->pass->frame0 - 1)
            sum->near += x;
    }
}

enum kvr_status kvr_heads_observe(void *ctx, const struct kvr_cache_view *view)
{
    struct kvr_heads *p = ctx;
    const int64_t n = p->queries && p->queries < view->n_tok ? p->queries : view->n_tok;
    struct seen s;

    if (view->layer >= p->n_layers)
        return kvr_fail(KVR_EINTERNAL,
                        "heads: the cache has layer %d, but the model has layers 0..%d",
                        view->layer, p->n_layers - 1);
    if (view->shape->n_heads != p->n_heads ||
        (view->shape->n_kv_heads && view->shape->n_kv_heads != p->n_heads))
        return kvr_fail(
            KVR_EINTERNAL, "heads: the cache has %d query heads and %d KV heads, need %d of each",
            view->shape->n_heads,
            view->shape->n_kv_heads ? view->shape->n_kv_heads : view->shape->n_heads, p->n_heads);
    if (!view->q || !view->pass->clean || view->pass->frame0 == 0)
        return KVR_OK;
    KVR_TRY(read_keys(p, view, &s));
#pragma omp parallel for schedule(static)
    for (int h = 0; h < p->n_heads; h++)
        for (int64_t i = 0; i < n; i++)
            see_query(p, &s, h, (2 * i + 1) * view->n_tok / (2 * n), p->weight + h * s.n);
    p->n_seen++;
    return KVR_OK;
}

/* ---- classes ------------------------------------------------------------------------------- */

static void classify_forcing(const struct sums *s, double alpha, char *class, double *measure)
{
    const double beyond = s->all - s->first;

    *measure = beyond > 0 ? s->near / beyond : 1;
    *class = *measure >= alpha ? 's' : 'd';
}

static enum kvr_status classify_dummy(const struct kvr_heads *p, double share, char *class,
                                      double *measure)
{
    const int n = p->n_layers * p->n_heads;
    const int64_t left_out = kvr_share(share * n, 0, n);
    struct kvr_ranked *rank = malloc((size_t)n * sizeof *rank);
    double first = 1e-30, past = 1e-30;

    if (!rank)
        return kvr_fail(KVR_ENOMEM, "heads: out of memory while allocating %d heads", n);
    for (int i = 0; i < n; i++) {
        first = fmax(first, p->sum[i].first);
        past = fmax(past, p->sum[i].past);
    }
    for (int i = 0; i < n; i++) {
        const double a = p->sum[i].first / first, b = p->sum[i].past / past;

        measure[i] = fmax(a, b);
        class[i] = a > b ? 'f' : 'n';
        rank[i] = (struct kvr_ranked){ (float)-measure[i], i };
    }
    kvr_topk(rank, n);
    for (int64_t i = 0; i < left_out; i++)
        class[rank[i].index] = 'x';
    free(rank);
    return KVR_OK;
}

static void pyramid(const struct kvr_heads *p, int head, double rate, char *class, double *measure)
{
    const double *sum = p->score + (size_t)head * (size_t)p->max_frames;
    const double *n = p->n_scores + (size_t)head * (size_t)p->max_frames;
    double mean = 0, last = 0;
    int seen = 0, changes = 0;

    for (int d = 1; d < p->max_frames; d++)
        if (n[d] > 0) {
            mean += sum[d] / n[d];
            seen++;
        }
    mean /= seen ? seen : 1;
    for (int d = 1; d < p->max_frames; d++) {
        const double x = n[d] > 0 ? sum[d] / n[d] - mean : 0;

        changes += x * last < 0;
        last = x != 0 ? x : last;
    }
    *measure = seen > 1 ? (double)changes / (seen - 1) : 0;
    *class = *measure >= rate ? 'w' : mean > 0 ? 'a' : 'v';
}

enum kvr_status kvr_heads_classify(const struct kvr_heads *p, const struct kvr_head_rule_opts *o,
                                   char *class, double *measure)
{
    if (!p->n_seen)
        return kvr_fail(
            KVR_EINVAL,
            "heads: no forward pass attends to cached tokens, since all passes belong to "
            "the first chunk; raise --frames to at least two chunks");
    if (o->rule == KVR_HEADS_DUMMY)
        return classify_dummy(p, o->dummy, class, measure);
    for (int i = 0; i < p->n_layers * p->n_heads; i++) {
        if (o->rule == KVR_HEADS_FORCING)
            classify_forcing(&p->sum[i], o->alpha, &class[i], &measure[i]);
        else
            pyramid(p, i, o->rate, &class[i], &measure[i]);
    }
    return KVR_OK;
}
