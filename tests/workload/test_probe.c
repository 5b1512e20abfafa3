/* test_probe.c - compares the probe with attention computed directly.
 *
 * The probe computes attention token by token. The direct computation in this test treats each
 * segment of m pooled or zero-filled tokens as one key with multiplicity m, and then divides its
 * weight by m. It computes corrections by their formulas, from the BF16 keys and values that the
 * test passed to the cache. */
#include <check.h>
#include <math.h>
#include <omp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/layer.h"
#include "harness/core/rng.h"
#include "harness/workload/probe.h"
#include "tests/suite.h"
#include "tests/threads.h"

enum {
    L = 2,
    H = 2,
    D = 32,
    W = H * D,
    S = 6,
    FRAMES = 3,
    CHUNK = S * FRAMES,
    CHUNKS = 6,
    PASSES = 3,
    TOKENS = CHUNK * CHUNKS,
    WINDOW = 12, /* frames: the current chunk and three past ones */
};

/* Results of one attention call for one head, summed over queries. Records of one age (in chunks)
 * have only delta, mass, top, tokens and the errors of K and V. */
struct record {
    int layer, head, pass, chunk, age; /* age in chunks; -1: all ages */
    double queries, delta, mass, jsd, top1, keys, on_zero, on_summary, lost;
    double out_se, only_k_se, only_v_se, out_energy;
    double tokens, k_se, k_energy, v_se, v_energy;
    double top, top_found;
};

struct direct {
    float k[L][TOKENS][W], v[L][TOKENS][W]; /* committed keys and values in BF16 */
    int n;
    struct record *record;
    struct kvr_probe *probe;
};

/* --- one attention call, computed directly ---------------------------------------------- */

/* A visible token. */
struct token {
    double k[D], v[D], bk[D], bv[D]; /* the method's keys and values, and those of BF16 */
    double p, bp;                    /* weights */
    /* 'c': coded, 'p': pooled, 'z': zero-filled, 'd': dropped (evicted), 'n': current chunk */
    char fate;
    int age;
};

static double hadamard(int r, int c)
{
    return (__builtin_popcount((unsigned)(r & c)) & 1 ? -1 : 1) / sqrt(D);
}

static void turn(const double *x, double *y)
{
    for (int r = 0; r < D; r++) {
        y[r] = 0;
        for (int c = 0; c < D; c++)
            y[r] += hadamard(r, c) * x[c];
    }
}

/* Returns the scheme's correction, an estimate of log E[exp(score error)], for token t of a
 * segment; q is the query divided by sqrt(D). */
static double correction(const struct kvr_scheme *scheme, const struct kvr_segment *s, int64_t t,
                         int h, const double *q)
{
    const char *kind = kvr_correction_names[scheme->opts.correction];
    double turned[D], c = 0;
    float s2[D];

    if (!strcmp(kind, "none") || s->kind != KVR_SEG_CODED || kvr_codec_is_raw(s->k.codec))
        return 0;
    if (kvr_codec_rotated(s->k.codec)) {
        turn(q, turned);
        q = turned;
    }
    if (!strcmp(kind, "energy")) {
        const kvr_f16 *m = s->moments.p;

        for (int e = 0; e < D; e++)
            c += q[e] * kvr_f16_to_f32(m[h * D + e]) +
                 0.5 * q[e] * q[e] * kvr_f16_to_f32(m[W + h * D + e]);
        return c;
    }
    kvr_squared_scales(&s->k, h, t, 1, s2);
    for (int e = 0; e < D; e++) {
        const double a = fabs(q[e]) * sqrt(s2[e]) / 2;

        if (!strcmp(kind, "taylor"))
            c += q[e] * q[e] * s2[e] / 24;
        else if (!strcmp(kind, "exact"))
            c += a > 1e-4 ? log(sinh(a) / a) : a * a / 6;
        else
            c += q[e] * q[e] * kvr_f16_to_f32(((const kvr_f16 *)s->moments.p)[h * D + e]) / 24;
    }
    return c;
}

static void fill(double *to, const float *from)
{
    for (int c = 0; c < D; c++)
        to[c] = from[c];
}

/* Sets out [D] to the key or value of head h in token i of `p`, with the rounding of the attention
 * path w->path. */
static void decode(const struct kvr_cache_view *w, const struct kvr_packed *p, int64_t i, int h,
                   double *out)
{
    float row[D];
    double turned[D];

    if (w->path == KVR_PATH_DENSE) {
        kvr_codec_decode(p, i, 1, h, 1, row);
        for (int c = 0; c < D; c++)
            row[c] = kvr_bf16_to_f32(kvr_f32_to_bf16(row[c]));
        fill(out, row);
        return;
    }
    kvr_codec_decode_rotated(p, i, 1, h, 1, row);
    fill(out, row);
    if (kvr_codec_rotated(p->codec)) {
        turn(out, turned);
        memcpy(out, turned, sizeof turned);
    }
}

/* Sets the attention weights of one query for all tokens in tok [n]: p with the method's cache, bp
 * with the BF16 cache. The last w->n_tok tokens are the current chunk. */
static void attention_weights(const struct kvr_cache_view *w, int h, const double *q,
                              struct token *tok, int64_t n)
{
    const int64_t first = w->seen->run[0][0], n_past = n - w->n_tok;
    const struct kvr_layer *l = w->past;
    struct kvr_span *spans = calloc((size_t)l->n + 1, sizeof *spans);
    const int n_spans = kvr_layer_spans(l, w->seen, NULL);
    double sum = 0, bsum = 0;

    ck_assert_int_le(n_spans, l->n); /* the visible tokens are contiguous */
    kvr_layer_spans(l, w->seen, spans);
    for (int64_t j = 0; j < n; j++) {
        double x = 0;

        for (int c = 0; c < D; c++)
            x += q[c] * tok[j].bk[c];
        bsum += tok[j].bp = exp(x);
        tok[j].p = 0;
        x = 0;
        for (int c = 0; c < D; c++)
            x += q[c] * tok[j].k[c];
        if (j >= n_past)
            sum += tok[j].p = exp(x);
    }
    for (int i = 0; i < n_spans; i++) {
        const struct kvr_segment *s = spans[i].seg;
        const bool one = s->kind != KVR_SEG_CODED;
        const int64_t begin = kvr_segment_lower(s, w->seen->run[0][0]);
        const int64_t end = kvr_segment_lower(s, w->seen->run[0][1]);

        for (int64_t t = begin; t < end; t++) {
            struct token *x = &tok[kvr_segment_token(s, t) - first];
            double score = one ? log((double)(end - begin)) : -correction(w->scheme, s, t, h, q);

            for (int c = 0; c < D; c++)
                score += q[c] * x->k[c];
            x->p = one ? exp(score) / (double)(end - begin) : exp(score);
            sum += x->p;
        }
    }
    for (int64_t j = 0; j < n; j++) {
        tok[j].p /= sum;
        tok[j].bp /= bsum;
    }
    free(spans);
}

/* Adds the terms of topk_recall: the past keys with the 32 largest BF16 weights, and how many of
 * them are among the method's 32 largest. Pooled tokens with the same mean have equal weights; the
 * factor 1 + 1e-12 ignores rounding, so that they tie. */
static void add_top(struct record *all, struct record *ages, const struct token *tok, int64_t n)
{
    for (int64_t j = 0; j < n && tok[j].fate != 'n'; j++) {
        int above = 0, above_bf16 = 0;

        for (int64_t i = 0; i < n && tok[i].fate != 'n'; i++) {
            above += tok[i].p > tok[j].p * (1 + 1e-12);
            above_bf16 += tok[i].bp > tok[j].bp;
        }
        if (above_bf16 >= 32)
            continue;
        all->top++;
        ages[tok[j].age].top++;
        all->top_found += above < 32 && tok[j].fate != 'd';
        ages[tok[j].age].top_found += above < 32 && tok[j].fate != 'd';
    }
}

static void add_query(struct record *all, struct record *ages, const struct token *tok, int64_t n)
{
    double out[D] = { 0 }, bout[D] = { 0 }, kout[D] = { 0 }, vout[D] = { 0 };
    double squares = 0;
    int64_t top = 0, btop = 0;

    for (int64_t j = 0; j < n; j++) {
        const double p = tok[j].p, b = tok[j].bp, m = (p + b) / 2;

        all->jsd += (p > 0 ? p / 2 * log(p / m) : 0) + (b > 0 ? b / 2 * log(b / m) : 0);
        top = p > tok[top].p ? j : top;
        btop = b > tok[btop].bp ? j : btop;
        squares += b * b;
        for (int c = 0; c < D; c++) {
            out[c] += p * tok[j].v[c];
            bout[c] += b * tok[j].bv[c];
            kout[c] += p * tok[j].bv[c];
            vout[c] += b * tok[j].v[c];
        }
        if (tok[j].fate == 'n')
            continue;
        all->delta += p - b;
        all->mass += b;
        ages[tok[j].age].delta += p - b;
        ages[tok[j].age].mass += b;
        all->on_zero += tok[j].fate == 'z' ? p : 0;
        all->on_summary += tok[j].fate == 'p' ? p : 0;
        all->lost += tok[j].fate == 'd' ? b : 0;
    }
    add_top(all, ages, tok, n);
    all->queries++;
    all->keys += 1 / squares;
    /* pooled tokens with the same mean tie */
    all->top1 += tok[btop].p >= tok[top].p * (1 - 1e-12);
    for (int c = 0; c < D; c++) {
        all->out_se += (out[c] - bout[c]) * (out[c] - bout[c]) / D;
        all->only_k_se += (kout[c] - bout[c]) * (kout[c] - bout[c]) / D;
        all->only_v_se += (vout[c] - bout[c]) * (vout[c] - bout[c]) / D;
        all->out_energy += bout[c] * bout[c] / D;
    }
}

/* Fills tok with the visible tokens of head h: the method's keys and values (k, v) and those of the
 * BF16 cache (bk, bv). */
static void gather(const struct direct *d, const struct kvr_cache_view *w, int h, struct token *tok,
                   int64_t n_past)
{
    const int64_t first = n_past ? w->seen->run[0][0] : 0;

    for (int64_t j = 0; j < n_past; j++) {
        tok[j] = (struct token){ .fate = 'd', .age = w->pass->chunk - (int)((first + j) / CHUNK) };
        fill(tok[j].bk, d->k[w->layer][first + j] + h * D);
        fill(tok[j].bv, d->v[w->layer][first + j] + h * D);
    }
    for (int i = 0; i < w->past->n; i++) {
        const struct kvr_segment *s = &w->past->seg[i];

        for (int64_t t = 0; t < s->n_tok; t++) {
            const int64_t j = kvr_segment_token(s, t) - first;

            if (j < 0 || j >= n_past)
                continue;
            tok[j].fate = s->kind == KVR_SEG_CODED ? 'c' : s->kind == KVR_SEG_ZERO ? 'z' : 'p';
            if (s->kind == KVR_SEG_ZERO)
                continue;
            decode(w, &s->k, s->kind == KVR_SEG_CODED ? t : 0, h, tok[j].k);
            decode(w, &s->v, s->kind == KVR_SEG_CODED ? t : 0, h, tok[j].v);
        }
    }
    for (int64_t t = 0; t < w->n_tok; t++) {
        const kvr_bf16 *k = w->k, *v = w->v;
        struct token *x = &tok[n_past + t];

        *x = (struct token){ .fate = 'n' };
        for (int c = 0; c < D; c++) {
            x->k[c] = x->bk[c] = kvr_bf16_to_f32(k[t * W + h * D + c]);
            x->v[c] = x->bv[c] = kvr_bf16_to_f32(v[t * W + h * D + c]);
        }
    }
}

static void add_errors(struct record *r, const struct token *t)
{
    r->tokens++;
    for (int c = 0; c < D; c++) {
        r->k_se += (t->k[c] - t->bk[c]) * (t->k[c] - t->bk[c]);
        r->v_se += (t->v[c] - t->bv[c]) * (t->v[c] - t->bv[c]);
        r->k_energy += t->bk[c] * t->bk[c];
        r->v_energy += t->bv[c] * t->bv[c];
    }
}

static void look(struct direct *d, const struct kvr_cache_view *w, int h)
{
    const int64_t n_past = w->seen->n ? w->seen->run[0][1] - w->seen->run[0][0] : 0;
    const int64_t n = n_past + w->n_tok;
    struct token *tok = calloc((size_t)n, sizeof *tok);
    struct record all = {
        .layer = w->layer, .head = h, .pass = w->pass->index, .chunk = w->pass->chunk, .age = -1
    };
    struct record ages[CHUNKS];

    for (int a = 0; a < CHUNKS; a++) {
        ages[a] = all;
        ages[a].age = a;
    }
    ck_assert_int_le(w->seen->n, 1);
    gather(d, w, h, tok, n_past);
    for (int64_t j = 0; j < n_past; j++)
        if (tok[j].fate != 'd') {
            add_errors(&all, &tok[j]);
            add_errors(&ages[tok[j].age], &tok[j]);
        }
    for (int64_t t = 0; n_past && t < w->n_tok; t++) {
        double q[D];

        for (int c = 0; c < D; c++)
            q[c] = w->q[t * W + h * D + c] / sqrt(D);
        attention_weights(w, h, q, tok, n);
        add_query(&all, ages, tok, n);
    }
    d->record = realloc(d->record, (size_t)(d->n + 1 + CHUNKS) * sizeof *d->record);
    if (n_past)
        d->record[d->n++] = all;
    for (int a = 0; a < CHUNKS; a++) {
        bool any = false;

        for (int64_t j = 0; j < n_past; j++)
            any = any || tok[j].age == a;
        ages[a].queries = all.queries;
        if (any)
            d->record[d->n++] = ages[a];
    }
    free(tok);
}

static enum kvr_status see(void *ctx, const struct kvr_cache_view *w)
{
    struct direct *d = ctx;
    const int64_t tok0 = (int64_t)w->pass->frame0 * S;

    KVR_TRY(kvr_probe_observe(d->probe, w));
    for (int h = 0; h < H; h++)
        look(d, w, h);
    if (w->pass->clean)
        for (int64_t t = 0; t < CHUNK; t++)
            for (int c = 0; c < W; c++) {
                d->k[w->layer][tok0 + t][c] = kvr_bf16_to_f32(((const kvr_bf16 *)w->k)[t * W + c]);
                d->v[w->layer][tok0 + t][c] = kvr_bf16_to_f32(((const kvr_bf16 *)w->v)[t * W + c]);
            }
    return KVR_OK;
}

/* --- a cache driven by random tensors --------------------------------------------------- */

/* Sets *set to options that make a method's effect large enough for the test. Returns the number of
 * options. */
static int settings_of(const char *method, const struct kvr_setting **set)
{
    /* with near=0 half of all tokens are merged */
    static const struct kvr_setting joins[] = { { "near", "0" } };

    *set = joins;
    return strcmp(method, "TEMPCACHE_LIKE") == 0;
}

static bool unasked; /* clean passes call kvr_cache_commit(), not kvr_cache_attend() */

/* Runs random keys, values and queries through a cache of `method`, with observer `fn`. The outputs
 * of attention go to outs [CHUNKS][PASSES][L][CHUNK][W], which may be NULL. */
static void drive(const char *method, enum kvr_path path, kvr_cache_observer_fn *fn, void *ctx,
                  float *outs)
{
    const struct kvr_cache_shape shape = {
        .n_layers = L,
        .n_heads = H,
        .head_dim = D,
        .tokens_per_frame = S,
        .frames_per_chunk = FRAMES,
        .capacity_frames = FRAMES * CHUNKS,
        .window_frames = WINDOW,
        .exact = KVR_BF16,
    };
    const size_t n = CHUNK * W;
    float *q = malloc(4 * n * sizeof *q), *k = q + n, *v = k + n, *out = v + n;
    struct kvr_cache *cache;
    const struct kvr_setting *set;
    const int n_set = settings_of(method, &set);
    struct kvr_scheme *scheme;
    struct kvr_dev *dev;

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_msg(kvr_scheme_open(&scheme, method, set, n_set) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_cache_open(&cache, dev, scheme, &shape, path) == KVR_OK, "%s", kvr_error());
    kvr_cache_observe(cache, fn, ctx);
    for (int c = 0; c < CHUNKS; c++)
        for (int i = 0; i < PASSES; i++) {
            const struct kvr_pass pass = { .chunk = c,
                                           .frame0 = c * FRAMES,
                                           .n_frames = FRAMES,
                                           .index = i,
                                           .clean = i == PASSES - 1 };

            ck_assert_int_eq(kvr_cache_begin_pass(cache, &pass), KVR_OK);
            for (int l = 0; l < L; l++) {
                const uint32_t id = (uint32_t)((c * PASSES + i) * L + l);

                kvr_normal(q, n, 1, KVR_RNG_TEST, id, 0, 0);
                kvr_normal(k, n, 1, KVR_RNG_TEST, id, 1, 0);
                kvr_normal(v, n, 1, KVR_RNG_TEST, id, 2, 0);
                /* Makes the data harder to quantize: larger scores, a channel with an offset, and
                 * outliers. */
                for (size_t e = 0; e < n; e++) {
                    q[e] *= 2;
                    k[e] += (e % D == 3 ? 1.5f : 0) + (e % 1009 == 7 ? 12 : 0);
                }
                ck_assert_int_eq(kvr_cache_append(cache, l, k, v), KVR_OK);
                ck_assert_msg((unasked && pass.clean
                                   ? kvr_cache_commit(cache, l)
                                   : kvr_cache_attend(cache, l, q, out)) == KVR_OK,
                              "%s: %s", method, kvr_error());
                if (outs)
                    memcpy(outs + id * n, out, n * sizeof *out);
            }
            ck_assert_int_eq(kvr_cache_end_pass(cache), KVR_OK);
        }
    kvr_cache_close(&cache);
    kvr_scheme_close(&scheme);
    kvr_dev_close(&dev);
    free(q);
}

static struct kvr_probe *open_probe(int every)
{
    const struct kvr_probe_opts opts = { .n_passes = PASSES, .every = every, .seed = 5 };
    struct kvr_probe *p;

    ck_assert_int_eq(kvr_probe_open(&p, &opts), KVR_OK);
    return p;
}

/* --- comparing rows --------------------------------------------------------------------- */

static bool covers(const struct kvr_probe_row *row, const struct record *r)
{
    return (row->layer < 0 || row->layer == r->layer) && (row->head < 0 || row->head == r->head) &&
           (row->pass < 0 || row->pass == r->pass) && (row->chunk < 0 || row->chunk == r->chunk) &&
           row->age == r->age;
}

/* Returns the directly computed value of a row's metric, and sets *n to the number of averaged
 * terms. If the metric is not computed directly, *n is -1. */
static double expected(const struct direct *d, const struct kvr_probe_row *row, double *n)
{
    struct record s = { 0 };

    for (int i = 0; i < d->n; i++) {
        const struct record *r = &d->record[i];

        if (!covers(row, r))
            continue;
        for (size_t k = offsetof(struct record, queries); k < sizeof s; k += sizeof(double))
            *(double *)((char *)&s + k) += *(const double *)((const char *)r + k);
    }
    const struct {
        const char *name;
        double value, n;
    } all[] = {
        { "delta_a", s.delta / s.queries, s.queries },
        { "mass_bf16", s.mass / s.queries, s.queries },
        { "jsd", s.jsd / s.queries, s.queries },
        { "attn_out_mse", s.out_se / s.queries, s.queries },
        { "attn_out_rel", sqrt(s.out_se / s.out_energy), s.queries },
        { "attn_out_rel_k", sqrt(s.only_k_se / s.out_energy), s.queries },
        { "attn_out_rel_v", sqrt(s.only_v_se / s.out_energy), s.queries },
        { "top1_agreement", s.top1 / s.queries, s.queries },
        { "topk_recall", s.top_found / s.top, s.top },
        { "keys_bf16", s.keys / s.queries, s.queries },
        { "mass_on_zero", s.on_zero / s.queries, s.queries },
        { "mass_on_summary", s.on_summary / s.queries, s.queries },
        { "mass_lost", s.lost / s.queries, s.queries },
        { "k_mse", s.k_se / s.tokens / D, s.tokens },
        { "k_rel_error", sqrt(s.k_se / s.k_energy), s.tokens },
        { "v_mse", s.v_se / s.tokens / D, s.tokens },
        { "v_rel_error", sqrt(s.v_se / s.v_energy), s.tokens },
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i].name, row->name)) {
            *n = all[i].n;
            return all[i].value;
        }
    *n = -1;
    return NAN;
}

struct comparison {
    const struct direct *d;
    int rows, at_full, wrong_n;
    double worst;
    char where[96];
};

static enum kvr_status compare(void *ctx, const struct kvr_probe_row *row)
{
    struct comparison *c = ctx;
    double n, err;
    const double want = expected(c->d, row, &n);

    if (n < 0) /* not computed directly */
        return KVR_OK;
    err = fabs(row->value - want);
    c->rows++;
    c->at_full += row->chunk >= 0 && row->head >= 0;
    c->wrong_n += !(n == (double)row->n);
    if (!(err <= c->worst)) {
        c->worst = err;
        snprintf(c->where, sizeof c->where, "%s layer %d head %d pass %d chunk %d age %d",
                 row->name, row->layer, row->head, row->pass, row->chunk, row->age);
    }
    return KVR_OK;
}

static const struct {
    const char *method;
    enum kvr_path path;
} cases[] = {
    { "BF16", KVR_PATH_STAGED },
    { "RTN_INT2", KVR_PATH_STAGED },
    { "RTN_INT2", KVR_PATH_DENSE },
    { "RTN_INT2@study", KVR_PATH_STAGED },
    { "KIVI_INT2", KVR_PATH_STAGED },
    { "KIVI_INT2@study", KVR_PATH_DENSE },
    { "KIVI_INT2+taylor", KVR_PATH_STAGED },
    { "KIVI_INT2+taylor", KVR_PATH_FUSED },
    { "KIVI_INT2+flat", KVR_PATH_STAGED },
    { "KIVI_INT2+exact", KVR_PATH_STAGED },
    { "KIVI_INT2+energy", KVR_PATH_STAGED },
    { "KIVI_INT2@study+taylor", KVR_PATH_STAGED },
    { "QUAROT_KV_INT2", KVR_PATH_STAGED },
    { "QUAROT_KV_INT2", KVR_PATH_DENSE },
    { "QUAROT_KV_INT2+taylor", KVR_PATH_STAGED },
    { "QUAROT_KV_INT2+energy", KVR_PATH_STAGED },
    { "QAQ_INT2+taylor", KVR_PATH_STAGED },
    { "PRQ_INT2+exact", KVR_PATH_STAGED },
    { "RTN_INT4_RECENT2", KVR_PATH_STAGED },
    { "AGE_TIER_INT2", KVR_PATH_STAGED },
    { "SPATIAL_MIXED_FG_QUAROT_KV_INT4_BG_RTN_INT2+taylor", KVR_PATH_STAGED },
    { "FLOWCACHE_PRUNE_INT2", KVR_PATH_STAGED },
    { "FLOWCACHE_PRUNE_INT2@study", KVR_PATH_STAGED },
    { "FLOWCACHE_PRUNE_INT2@study", KVR_PATH_DENSE },
    { "FLOWCACHE_PRUNE_INT2+taylor", KVR_PATH_STAGED },
    { "FLOWCACHE_SOFT_PRUNE_INT2", KVR_PATH_STAGED },
    { "FLOWCACHE_SOFT_PRUNE_INT2", KVR_PATH_DENSE },
    { "FLOWCACHE_SOFT_PRUNE_INT2@study", KVR_PATH_STAGED },
};
enum { N_CASES = sizeof cases / sizeof *cases };

/* Probe and direct computation use double. Only the probe's correction is evaluated in F32, as in
 * attention. A correction of at most 3 has an absolute error of 6e-7, which is also the relative
 * error of the attention weight. Differences due to the order of sums are much smaller. */
static const double tolerance = 1e-6;

START_TEST(agrees_with_direct_computation)
{
    struct direct *d = calloc(1, sizeof *d);
    struct comparison c = { .d = d };
    int full = 0;

    d->probe = open_probe(1);
    drive(cases[_i].method, cases[_i].path, see, d, NULL);
    kvr_probe_rows(d->probe, compare, &c);
    for (int i = 0; i < d->n; i++)
        full += d->record[i].age < 0;
    ck_assert_int_eq(full, L * H * PASSES * (CHUNKS - 1));
    ck_assert_int_eq(c.at_full, full);
    ck_assert_int_gt(c.rows, full);
    ck_assert_int_eq(c.wrong_n, 0);
    ck_assert_msg(c.worst <= tolerance, "%s %s: %g at %s", cases[_i].method,
                  kvr_path_names[cases[_i].path], c.worst, c.where);

    /* F32 attention differs from double by a few 1e-6: sums of 72 terms of order 1. */
    ck_assert_double_le(kvr_probe_residual(d->probe), 2e-5);

    /* Control: the comparison must detect a change of one head's delta_a by 1e-5. */
    d->record[0].delta += 1e-5 * d->record[0].queries;
    c.worst = 0;
    kvr_probe_rows(d->probe, compare, &c);
    ck_assert(!(c.worst <= tolerance));
    kvr_probe_close(&d->probe);
    free(d->record);
    free(d);
}
END_TEST

/* --- properties that hold for any numbers ----------------------------------------------- */

struct wanted {
    const char *name;
    int age;
    double value;
    int64_t n;
};

static enum kvr_status keep(void *ctx, const struct kvr_probe_row *row)
{
    struct wanted *w = ctx;

    if (!strcmp(row->name, w->name) && row->layer < 0 && row->pass < 0 && row->chunk < 0 &&
        row->age == w->age) {
        w->value = row->value;
        w->n = row->n;
    }
    return KVR_OK;
}

static double overall(const struct kvr_probe *p, const char *name, int age)
{
    struct wanted w = { name, age, NAN, 0 };

    kvr_probe_rows(p, keep, &w);
    return w.value;
}

static struct kvr_probe *probed(const char *method, int every)
{
    struct kvr_probe *p = open_probe(every);

    drive(method, KVR_PATH_STAGED, kvr_probe_observe, p, NULL);
    return p;
}

START_TEST(bf16_is_no_different_from_itself)
{
    static const char *const zero[] = { "delta_a",      "jsd",       "attn_out_mse",
                                        "mass_on_zero", "mass_lost", "k_mse",
                                        "v_rel_error",  "recodes",   "value_changes" };
    struct kvr_probe *p;

    unasked = _i;
    p = probed("BF16", 1);
    unasked = false;
    for (size_t i = 0; i < sizeof zero / sizeof *zero; i++)
        ck_assert_msg(overall(p, zero[i], -1) == 0, "%s: %g", zero[i], overall(p, zero[i], -1));
    ck_assert(overall(p, "top1_agreement", -1) == 1);
    ck_assert(overall(p, "mass_bf16", -1) > 0.5);
    kvr_probe_close(&p);
}
END_TEST

/* The probe reports separately the attention mass on dropped, zeroed and pooled tokens. */
START_TEST(fates_are_told_apart)
{
    struct kvr_probe *gone = probed("FLOWCACHE_PRUNE_INT2", 1);
    struct kvr_probe *zero = probed("FLOWCACHE_PRUNE_INT2@study", 1);
    struct kvr_probe *mean = probed("FLOWCACHE_SOFT_PRUNE_INT2", 1);

    ck_assert(overall(gone, "mass_lost", -1) > 0.01 && overall(gone, "mass_on_zero", -1) == 0);
    ck_assert(overall(zero, "mass_on_zero", -1) > 0.01 && overall(zero, "mass_lost", -1) == 0);
    ck_assert(overall(mean, "mass_on_summary", -1) > 0.01 && overall(mean, "mass_lost", -1) == 0);
    ck_assert(overall(gone, "mass_on_summary", -1) + overall(zero, "mass_on_summary", -1) == 0);
    kvr_probe_close(&gone);
    kvr_probe_close(&zero);
    kvr_probe_close(&mean);
}
END_TEST

/* A token that TEMPCACHE_LIKE has merged from several tokens must have its multiplicity in the
 * probe's attention too. Otherwise the probe's output would differ from the method's (residual). */
START_TEST(weights_are_attended_to)
{
    struct kvr_probe *p = probed("TEMPCACHE_LIKE", 1);

    ck_assert(overall(p, "mass_on_summary", -1) >= 0.1);
    ck_assert_double_le(kvr_probe_residual(p), 2e-5);
    kvr_probe_close(&p);
}
END_TEST

/* RTN_INT4 never encodes a token again. RTN_INT4@study encodes all cached tokens again in every
 * pass. Tokens of age a have then been encoded again (a - 1) P + i times in pass i (0 to P - 1) of
 * a chunk. The mean over i is (a - 1) P + (P - 1) / 2. RTN_INT4_REFRESH@study does so in clean
 * passes only, which gives a - 1. */
START_TEST(codings_are_counted)
{
    struct kvr_probe *as_intended = probed("RTN_INT4", 1), *every = probed("RTN_INT4@study", 1);
    struct kvr_probe *clean = probed("RTN_INT4_REFRESH@study", 1);
    struct kvr_probe *copied = probed("BF16@study", 1), *aged = probed("AGE_TIER_INT2", 1);

    for (int a = 1; a <= 3; a++) {
        ck_assert(overall(as_intended, "recodes", a) == 0);
        ck_assert_double_eq_tol(overall(every, "recodes", a), (a - 1) * PASSES + 0.5 * (PASSES - 1),
                                1e-12);
        ck_assert_double_eq_tol(overall(clean, "recodes", a), a - 1, 1e-12);
        ck_assert(overall(copied, "recodes", a) == overall(every, "recodes", a));
    }
    ck_assert(isnan(overall(every, "recodes", 4))); /* outside the window */
    ck_assert(overall(as_intended, "value_changes", -1) == 0);
    ck_assert(overall(copied, "value_changes", -1) == 0); /* BF16 writes the same values again */
    /* AGE_TIER_INT2 encodes a token again when it moves to the older tier, at most once. */
    ck_assert(overall(aged, "recodes", -1) > 0 && overall(aged, "recodes", -1) <= 1);
    ck_assert(overall(aged, "value_changes", -1) == overall(aged, "recodes", -1));
    kvr_probe_close(&as_intended);
    kvr_probe_close(&every);
    kvr_probe_close(&clean);
    kvr_probe_close(&copied);
    kvr_probe_close(&aged);
}
END_TEST

struct rows {
    int n;
    struct kvr_probe_row row[8192];
};

static enum kvr_status collect(void *ctx, const struct kvr_probe_row *row)
{
    struct rows *r = ctx;

    ck_assert_int_lt(r->n, 8192);
    memset(&r->row[r->n], 0, sizeof r->row[0]);
    r->row[r->n].layer = row->layer;
    r->row[r->n].value = row->value;
    r->row[r->n++].n = row->n;
    return KVR_OK;
}

/* With the same seed, the probe evaluates the same queries and returns the same bits for any number
 * of threads. */
START_TEST(a_subsample_is_reproducible)
{
    struct rows *a = calloc(2, sizeof *a), *b = a + 1;
    struct kvr_probe *p;
    struct wanted w = { "jsd", -1, NAN, 0 };
    double all;

    omp_set_num_threads(1);
    p = probed("KIVI_INT2+taylor", 5);
    kvr_probe_rows(p, collect, a);
    kvr_probe_rows(p, keep, &w);
    kvr_probe_close(&p);
    set_threads(3);
    p = probed("KIVI_INT2+taylor", 5);
    kvr_probe_rows(p, collect, b);
    kvr_probe_close(&p);
    ck_assert_int_eq(a->n, b->n);
    ck_assert_mem_eq(a->row, b->row, (size_t)a->n * sizeof a->row[0]);

    /* With every = 5, the probe evaluates 3 or 4 of the 18 queries of a call, depending on the
     * random first query. Both numbers must occur. */
    const int calls = L * H * PASSES * (CHUNKS - 1);

    ck_assert_int_gt(w.n, 3 * calls);
    ck_assert_int_lt(w.n, 4 * calls);
    p = probed("KIVI_INT2+taylor", 1);
    all = overall(p, "jsd", -1);
    kvr_probe_close(&p);
    ck_assert(w.value != all && fabs(w.value - all) <= 0.2 * all);
    free(a);
}
END_TEST

/* With a probe, attention returns the same bytes as without. */
START_TEST(the_probe_only_looks)
{
    const size_t n = (size_t)CHUNKS * PASSES * L * CHUNK * W;
    float *bare = malloc(n * sizeof *bare), *watched = malloc(n * sizeof *watched);
    struct kvr_probe *p = open_probe(1);

    drive("FLOWCACHE_SOFT_PRUNE_INT2@study", KVR_PATH_STAGED, NULL, NULL, bare);
    drive("FLOWCACHE_SOFT_PRUNE_INT2@study", KVR_PATH_STAGED, kvr_probe_observe, p, watched);
    ck_assert_mem_eq(bare, watched, n * sizeof *bare);
    kvr_probe_close(&p);
    free(bare);
    free(watched);
}
END_TEST

/* A probe that has seen nothing returns no rows. Impossible settings are refused. */
START_TEST(edges)
{
    struct kvr_probe_opts none = { .n_passes = 1, .every = 0 };
    struct rows *r = calloc(1, sizeof *r);
    struct kvr_probe *p;

    ck_assert_int_eq(kvr_probe_open(&p, &none), KVR_EINVAL);
    p = open_probe(1);
    ck_assert_int_eq(kvr_probe_rows(p, collect, r), KVR_OK);
    ck_assert_int_eq(r->n, 0);
    kvr_probe_close(&p);
    ck_assert_ptr_null(p);
    kvr_probe_close(&p);
    free(r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("probe");
    TCase *tc = tcase_create("probe");

    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, agrees_with_direct_computation, 0, N_CASES);
    tcase_add_loop_test(tc, bf16_is_no_different_from_itself, 0, 2);
    tcase_add_test(tc, fates_are_told_apart);
    tcase_add_test(tc, weights_are_attended_to);
    tcase_add_test(tc, codings_are_counted);
    tcase_add_test(tc, a_subsample_is_reproducible);
    tcase_add_test(tc, the_probe_only_looks);
    tcase_add_test(tc, edges);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
