/* probe_attention.c - computes attention for some queries with the method's cache and with BF16, in
 * double precision, and compares them. */
#include "harness/workload/probe_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/workload/probe_kernels.h"

enum { QUERIES = 4 };

/* Scratch of one thread for a block of m queries of one head. A cache has the index METHOD or
 * BF16. `wide` and `stride` are D and the number of keys, rounded up. */
struct block {
    const struct kvr_probe_head *x;
    int m;                   /* number of queries in the block */
    const int64_t *list;     /* [m]: indices of the queries in the chunk */
    double *q;               /* [m][D], scaled by 1/sqrt(D) */
    double *weight[N_SIDES]; /* [m][stride]: scores, replaced by attention weights */
    double *out[2][2];       /* [i][j]: [m][wide] outputs from weights of cache i, V of cache j */
    float *fq, *fq2;         /* [m][D]: inputs of the score correction (correction_queries) */
};

static bool block_alloc(struct block *b, const struct kvr_probe_head *x)
{
    const size_t d = (size_t)x->d;
    bool ok = true;

    *b = (struct block){ .x = x };
    b->q = malloc(QUERIES * d * sizeof *b->q);
    for (int side = 0; side < N_SIDES; side++) {
        b->weight[side] = malloc(QUERIES * (size_t)x->stride * sizeof(double));
        ok = ok && b->weight[side];
        for (int values = 0; values < N_SIDES; values++) {
            b->out[side][values] = malloc(QUERIES * (size_t)x->wide * sizeof(double));
            ok = ok && b->out[side][values];
        }
    }
    b->fq = malloc(2 * QUERIES * d * sizeof *b->fq);
    b->fq2 = b->fq ? b->fq + QUERIES * d : NULL;
    return ok && b->q && b->fq;
}

static void block_free(struct block *b)
{
    free(b->q);
    for (int side = 0; side < N_SIDES; side++) {
        free(b->weight[side]);
        free(b->out[side][METHOD]);
        free(b->out[side][BF16]);
    }
    free(b->fq);
}

static void load_queries(struct block *b)
{
    const struct kvr_probe_head *x = b->x;
    const double scale = 1 / sqrt(x->d);

    for (int i = 0; i < b->m; i++)
        for (int c = 0; c < x->d; c++)
            b->q[i * x->d + c] =
                x->view->q[(b->list[i] * x->view->shape->n_heads + x->hq) * x->d + c] * scale;
}

/* Computes fq and fq2, the inputs of the method's score correction: q in the codec's transformed
 * space, and its squares. */
static void correction_queries(struct block *b, const struct kvr_codec *codec, int h)
{
    const int d = b->x->d;

    for (int e = 0; e < b->m * d; e++)
        b->fq[e] = (float)b->q[e];
    kvr_codec_transform(codec, NULL, KVR_QUERY_TO_SPACE, b->fq, b->m, h, 1, d);
    for (int e = 0; e < b->m * d; e++)
        b->fq2[e] = b->fq[e] * b->fq[e];
}

/* Adds the score correction to the scores of tokens [begin, end) of a segment, which are all
 * visible. */
static void correct_run(struct block *b, const struct kvr_correction *c,
                        const struct kvr_segment *s, int64_t begin, int64_t end)
{
    const struct kvr_probe_head *x = b->x;
    float shift[QUERIES * KVR_CORRECTION_MAX_KEYS];

    for (int64_t t = begin; t < end; t += KVR_CORRECTION_MAX_KEYS) {
        const int n = end - t < KVR_CORRECTION_MAX_KEYS ? (int)(end - t) : KVR_CORRECTION_MAX_KEYS;

        memset(shift, 0, sizeof shift);
        c->apply(&(struct kvr_correction_job){
            .k = &s->k,
            .moments = s->moments.p,
            .t0 = t,
            .n = n,
            .h = x->h - s->head0,
            .q = b->fq,
            .q2 = b->fq2,
            .m = b->m,
            .d = x->d,
            .s = shift,
            .stride = KVR_CORRECTION_MAX_KEYS,
        });
        for (int j = 0; j < n; j++) {
            const int64_t at = kvr_probe_index_of(x->view->seen, kvr_segment_token(s, t + j));

            for (int i = 0; i < b->m; i++)
                b->weight[METHOD][i * x->stride + at] += shift[i * KVR_CORRECTION_MAX_KEYS + j];
        }
    }
}

static void correct(struct block *b)
{
    const struct kvr_probe_head *x = b->x;
    const struct kvr_correction *c = kvr_correction_at(x->view->scheme->opts.correction);
    const struct kvr_layer *l = x->layer[METHOD];
    const struct kvr_codec *space = NULL; /* codec whose transform was applied to fq */

    if (!c)
        return;
    for (int i = 0; i < l->n; i++) {
        const struct kvr_segment *s = &l->seg[i];

        if (s->kind != KVR_SEG_CODED || kvr_codec_is_raw(s->k.codec) ||
            !kvr_segment_has_head(s, x->h))
            continue;
        if (!space || !kvr_codec_same_space(space, s->k.codec)) {
            space = s->k.codec;
            correction_queries(b, space, x->h - s->head0);
        }
        for (int r = 0; r < x->view->seen->n; r++)
            correct_run(b, c, s, kvr_segment_lower(s, x->view->seen->run[r][0]),
                        kvr_segment_lower(s, x->view->seen->run[r][1]));
    }
}

/* Replaces the scores of n keys by softmax weights. Dropped past tokens have weight 0; fate NULL:
 * no token is dropped. Keys [end, n), which the query must not see, have weight 0. */
static void softmax(double *s, int64_t n, int64_t end, const uint8_t *fate, int64_t n_past)
{
    double top = -INFINITY, sum = 0;

    for (int64_t j = end; j < n; j++)
        s[j] = -INFINITY;
    for (int64_t j = 0; j < end; j++) {
        if (fate && j < n_past && fate[j] == KVR_FATE_DROPPED)
            s[j] = -INFINITY;
        top = s[j] > top ? s[j] : top;
    }
    for (int64_t j = 0; j < n; j++) {
        s[j] = exp(s[j] - top);
        sum += s[j];
    }
    for (int64_t j = 0; j < n; j++)
        s[j] /= sum;
}

static double half_kl(double p, double m)
{
    return p > 0 ? 0.5 * p * log(p / m) : 0;
}

/* Returns the KVR_PROBE_TOP_KEYS-th largest element of w [n]. For smaller n, it returns the
 * smallest element; for n = 0, it returns 0. Uses a min-heap of the largest elements so far. */
static double least_of_top(const double *w, int64_t n)
{
    double heap[KVR_PROBE_TOP_KEYS] = { 0 };
    int size = 0;

    for (int64_t j = 0; j < n; j++) {
        int i = 0;

        if (size < KVR_PROBE_TOP_KEYS) {
            for (i = size++; i > 0 && heap[(i - 1) / 2] > w[j]; i = (i - 1) / 2)
                heap[i] = heap[(i - 1) / 2];
        } else if (w[j] > heap[0]) {
            for (int c = 1; c < size; c = 2 * i + 1) {
                c += c + 1 < size && heap[c + 1] < heap[c];
                if (w[j] <= heap[c])
                    break;
                heap[i] = heap[c];
                i = c;
            }
        } else {
            continue;
        }
        heap[i] = w[j];
    }
    return heap[0];
}

/* Counts the past keys with the KVR_PROBE_TOP_KEYS largest BF16 weights, and those of them that are
 * also among the method's largest weights. A dropped key is not counted as one of the method's
 * keys. */
static void compare_top(const struct kvr_probe_head *x, const double *method, const double *bf16,
                        int ages, struct kvr_probe_query *out, double *by_age)
{
    const double most_method = least_of_top(method, x->n_past);
    const double most_bf16 = least_of_top(bf16, x->n_past);

    for (int64_t j = 0; j < x->n_past; j++) {
        const bool found = method[j] >= most_method && x->fate[j] != KVR_FATE_DROPPED;

        if (bf16[j] < most_bf16)
            continue;
        out->top += 1;
        out->top_found += found;
        if (x->age[j] >= 0 && x->age[j] < ages) {
            by_age[x->age[j] * KVR_PROBE_BY_AGE + KVR_PROBE_TOP] += 1;
            by_age[x->age[j] * KVR_PROBE_BY_AGE + KVR_PROBE_FOUND] += found;
        }
    }
}

static void compare_weights(const struct kvr_probe_head *x, const double *method,
                            const double *bf16, int ages, struct kvr_probe_query *out,
                            double *by_age)
{
    double squares = 0;
    int64_t best = 0;

    for (int64_t j = 0; j < x->n; j++) {
        const double m = 0.5 * (method[j] + bf16[j]);

        out->jsd += half_kl(method[j], m) + half_kl(bf16[j], m);
        squares += bf16[j] * bf16[j];
        best = bf16[j] > bf16[best] ? j : best;
        if (j >= x->n_past)
            continue;
        out->mass[METHOD] += method[j];
        out->mass[BF16] += bf16[j];
        if (x->age[j] >= 0 && x->age[j] < ages) {
            by_age[x->age[j] * KVR_PROBE_BY_AGE + METHOD] += method[j];
            by_age[x->age[j] * KVR_PROBE_BY_AGE + BF16] += bf16[j];
        }
        out->on_zero += x->fate[j] == KVR_FATE_ZERO ? method[j] : 0;
        out->on_summary += x->fate[j] == KVR_FATE_POOLED ? method[j] : 0;
        out->lost += x->fate[j] == KVR_FATE_DROPPED ? bf16[j] : 0;
    }
    compare_top(x, method, bf16, ages, out, by_age);
    out->keys = 1 / squares;
    out->top1 = 1;
    for (int64_t j = 0; j < x->n; j++)
        if (!(method[j] <= method[best]))
            out->top1 = 0;
}

static void compare_outputs(const struct block *b, int i, struct kvr_probe_query *out)
{
    const struct kvr_probe_head *x = b->x;
    const float *actual =
        x->view->out + (b->list[i] * x->view->shape->n_heads + x->hq) * (int64_t)x->d;
    const int64_t at = (int64_t)i * x->wide;

    for (int c = 0; c < x->d; c++) {
        const double method = b->out[METHOD][METHOD][at + c], bf16 = b->out[BF16][BF16][at + c];
        const double e = method - bf16, r = fabs(actual[c] - method);
        const double ek = b->out[METHOD][BF16][at + c] - bf16;
        const double ev = b->out[BF16][METHOD][at + c] - bf16;

        out->out_se += e * e / x->d;
        out->k_se += ek * ek / x->d;
        out->v_se += ev * ev / x->d;
        out->out_energy += bf16 * bf16 / x->d;
        out->energy += method * method / x->d;
        if (!(r <= out->residual)) /* keeps NaN */
            out->residual = r;
    }
}

static void weigh_block(struct block *b, int ages, struct kvr_probe_query *out, double *by_age)
{
    const struct kvr_probe_head *x = b->x;

    load_queries(b);
    for (int side = 0; side < N_SIDES; side++) {
        memset(b->weight[side], 0, QUERIES * (size_t)x->stride * sizeof(double));
        kvr_probe_kernels()->mul(b->q, x->d, b->m, x->kt[side], x->stride, x->d, x->stride,
                                 b->weight[side], x->stride);
    }
    correct(b);
    for (int i = 0; i < b->m; i++)
        for (int64_t j = 0; j < x->n_past; j++)
            b->weight[METHOD][i * x->stride + j] += x->log_m[j];
    for (int side = 0; side < N_SIDES; side++) {
        for (int i = 0; i < b->m; i++)
            softmax(b->weight[side] + i * x->stride, x->n,
                    x->view->shape->causal ? x->n_past + b->list[i] + 1 : x->n,
                    side == METHOD ? x->fate : NULL, x->n_past);
        for (int values = 0; values < N_SIDES; values++) {
            memset(b->out[side][values], 0, QUERIES * (size_t)x->wide * sizeof(double));
            kvr_probe_kernels()->mul(b->weight[side], x->stride, b->m, x->v[values], x->wide, x->n,
                                     x->wide, b->out[side][values], x->wide);
        }
    }
    for (int i = 0; i < b->m; i++) {
        out[i] = (struct kvr_probe_query){ 0 };
        compare_weights(x, b->weight[METHOD] + i * x->stride, b->weight[BF16] + i * x->stride, ages,
                        &out[i], by_age + (int64_t)i * ages * KVR_PROBE_BY_AGE);
        compare_outputs(b, i, &out[i]);
    }
}

enum kvr_status kvr_probe_attention(const struct kvr_probe_head *x, const int64_t *list, int n,
                                    int ages, struct kvr_probe_query *out, double *by_age)
{
    const int n_blocks = (n + QUERIES - 1) / QUERIES;
    bool ok = true;

    memset(by_age, 0, (size_t)n * (size_t)ages * KVR_PROBE_BY_AGE * sizeof *by_age);
#pragma omp parallel reduction(&& : ok)
    {
        struct block b;
        const bool allocated = block_alloc(&b, x);

        ok = ok && allocated;
#pragma omp for schedule(static)
        for (int k = 0; k < n_blocks; k++) {
            const int first = k * QUERIES;

            if (!allocated)
                continue;
            b.m = n - first < QUERIES ? n - first : QUERIES;
            b.list = list + first;
            weigh_block(&b, ages, out + first, by_age + (int64_t)first * ages * KVR_PROBE_BY_AGE);
        }
        block_free(&b);
    }
    return ok ? KVR_OK
              : kvr_fail(KVR_ENOMEM, "probe: out of memory while allocating %lld keys",
                         (long long)x->n);
}
