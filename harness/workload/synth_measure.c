/* synth_measure.c - measures a trace's statistics from its cache-update passes, and the agreement
 * of other passes with them. Sums are in double precision. */
#include "harness/workload/synth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sums over tokens of one channel x of one head's keys, values or queries. */
struct channel {
    /* Number of tokens, sums of x and of x^2. */
    double n, x, xx;
    /* Number of pairs, and sums of x0, x1 and their products. A pair has the values x0 and x1 of
     * the same spatial position in two consecutive frames. */
    double m, x0, x1, x01;
    double x00, x11;
};

struct look {
    const struct kvr_trace *t;
    const struct kvr_trace_info *info;
    struct channel *sum;  /* [L][side][H][D] */
    double *qk, *qq, *kk; /* [L][H]: sums of q k, q q, k k after subtracting channel means */
    /* [passes]: sums of products a b, a a and b b of a pass's keys a with the cache-update pass's
     * keys b, centred. */
    double *shared, *own, *theirs;
    float *value[KVR_SYNTH_SIDES]; /* [F*S][heads][D]: one call's tensors in F32 */
    float *clean;                  /* [F*S][Hkv][D]: keys of the chunk's cache-update pass */
};

static int heads_of(const struct look *k, int side)
{
    return side == KVR_SYNTH_Q ? k->info->layout.n_heads : k->info->layout.n_kv_heads;
}

static void add_pair(struct channel *c, double x0, double x1)
{
    c->m += 1;
    c->x0 += x0;
    c->x1 += x1;
    c->x01 += x0 * x1;
    c->x00 += x0 * x0;
    c->x11 += x1 * x1;
}

/* Adds a chunk's keys, values or queries. Only frames of the same chunk form pairs. */
static void add_side(struct look *k, int layer, int side, int n_frames)
{
    const struct kvr_trace_layout *l = &k->info->layout;
    const int H = l->n_heads, D = l->head_dim, S = l->tokens_per_frame, heads = heads_of(k, side);
    const int64_t frame = (int64_t)S * heads * D;

    for (int64_t t = 0; t < (int64_t)n_frames * S; t++)
        for (int h = 0; h < H; h++)
            for (int c = 0; c < D; c++) {
                const int64_t at = (t * heads + h / (H / heads)) * D + c;
                struct channel *sum = &k->sum[((layer * KVR_SYNTH_SIDES + side) * H + h) * D + c];
                const double x = (double)k->value[side][at];

                sum->n += 1;
                sum->x += x;
                sum->xx += x * x;
                if (t >= S)
                    add_pair(sum, (double)k->value[side][at - frame], x);
            }
}

static enum kvr_status read_call(struct look *k, int pass, int layer, bool all)
{
    struct kvr_trace_call c;
    enum kvr_status st;

    KVR_TRY(kvr_trace_call_open(&c, k->t, pass, layer));
    st = kvr_trace_call_check(&c, &(struct kvr_trace_report){ 0 });
    if (st == KVR_OK) {
        kvr_to_f32(k->value[KVR_SYNTH_K], c.k.data, c.k.dtype, (size_t)kvr_tensor_count(&c.k));
        if (all) {
            kvr_to_f32(k->value[KVR_SYNTH_V], c.v.data, c.v.dtype, (size_t)kvr_tensor_count(&c.v));
            kvr_to_f32(k->value[KVR_SYNTH_Q], c.q.data, c.q.dtype, (size_t)kvr_tensor_count(&c.q));
        }
    }
    kvr_trace_call_close(&c);
    return st;
}

/* Adds the products of each token's query and key, both centred by the chunk's channel means. */
static void add_toward(struct look *k, int layer, int64_t n_tok)
{
    const struct kvr_trace_layout *l = &k->info->layout;
    const int H = l->n_heads, D = l->head_dim, Hkv = l->n_kv_heads;

    for (int h = 0; h < H; h++)
        for (int c = 0; c < D; c++) {
            double mq = 0, mk = 0;

            for (int64_t t = 0; t < n_tok; t++) {
                mq += (double)k->value[KVR_SYNTH_Q][(t * H + h) * D + c] / (double)n_tok;
                mk += (double)k->value[KVR_SYNTH_K][(t * Hkv + h / (H / Hkv)) * D + c] /
                      (double)n_tok;
            }
            for (int64_t t = 0; t < n_tok; t++) {
                const double q = (double)k->value[KVR_SYNTH_Q][(t * H + h) * D + c] - mq;
                const double x =
                    (double)k->value[KVR_SYNTH_K][(t * Hkv + h / (H / Hkv)) * D + c] - mk;

                k->qk[layer * H + h] += q * x;
                k->qq[layer * H + h] += q * q;
                k->kk[layer * H + h] += x * x;
            }
        }
}

/* Adds the products of a denoising pass's keys with the cache-update pass's keys, centred by the
 * chunk's channel means. */
static void add_agreement(struct look *k, int index, int64_t n_tok)
{
    const struct kvr_trace_layout *l = &k->info->layout;
    const int64_t width = (int64_t)l->n_kv_heads * l->head_dim;

    for (int64_t c = 0; c < width; c++) {
        double ma = 0, mb = 0;

        for (int64_t t = 0; t < n_tok; t++) {
            ma += (double)k->value[KVR_SYNTH_K][t * width + c] / (double)n_tok;
            mb += (double)k->clean[t * width + c] / (double)n_tok;
        }
        for (int64_t t = 0; t < n_tok; t++) {
            const double a = (double)k->value[KVR_SYNTH_K][t * width + c] - ma;
            const double b = (double)k->clean[t * width + c] - mb;

            k->shared[index] += a * b;
            k->own[index] += a * a;
            k->theirs[index] += b * b;
        }
    }
}

/* Adds a chunk to all sums. `clean` is the index of the chunk's cache-update pass. */
static enum kvr_status add_chunk(struct look *k, int clean)
{
    const struct kvr_trace_layout *l = &k->info->layout;
    const struct kvr_trace_pass *p = &k->info->pass[clean];
    const int64_t n_tok = (int64_t)p->n_frames * l->tokens_per_frame;

    for (int layer = 0; layer < l->n_layers; layer++) {
        KVR_TRY(read_call(k, clean, layer, true));
        for (int side = 0; side < KVR_SYNTH_SIDES; side++)
            add_side(k, layer, side, p->n_frames);
        add_toward(k, layer, n_tok);
        memcpy(k->clean, k->value[KVR_SYNTH_K],
               (size_t)(n_tok * l->n_kv_heads * l->head_dim) * sizeof *k->clean);
        for (int i = 0; i < p->index; i++) {
            KVR_TRY(read_call(k, clean - p->index + i, layer, false));
            add_agreement(k, i, n_tok);
        }
    }
    return KVR_OK;
}

/* --- numbers ---------------------------------------------------------------------------- */

/* Returns the correlation xy / sqrt(xx yy), clamped to +-0.9999; 0 if a variance is 0. */
static float correlation(double xy, double xx, double yy)
{
    const double r = xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : 0;

    return (float)fmin(0.9999, fmax(-0.9999, r));
}

static void finish(const struct look *k, struct kvr_synth *out)
{
    const struct kvr_trace_layout *l = &k->info->layout;
    const int rows = l->n_layers * KVR_SYNTH_SIDES * l->n_heads, D = l->head_dim;

    for (int r = 0; r < rows; r++) {
        double xy = 0, xx = 0, yy = 0;

        for (int c = 0; c < D; c++) {
            const struct channel *s = &k->sum[r * D + c];
            const double mean = s->x / s->n;

            out->mean[r * D + c] = (float)mean;
            out->dev[r * D + c] = (float)sqrt(fmax(0, s->xx / s->n - mean * mean));
            if (s->m > 0) {
                xy += s->x01 - s->x0 * s->x1 / s->m;
                xx += s->x00 - s->x0 * s->x0 / s->m;
                yy += s->x11 - s->x1 * s->x1 / s->m;
            }
        }
        out->rho[r] = correlation(xy, xx, yy);
    }
    for (int i = 0; i < l->n_layers * l->n_heads; i++)
        out->toward[i] = correlation(k->qk[i], k->qq[i], k->kk[i]);
    for (int i = 0; i < out->n_passes; i++)
        out->agreement[i] =
            i == out->n_passes - 1 ? 1 : correlation(k->shared[i], k->own[i], k->theirs[i]);
}

static enum kvr_status add_all_chunks(struct look *k, kvr_trace_progress_fn *progress, void *ctx)
{
    int seen = 0;

    for (int p = 0; p < k->info->n_passes; p++) {
        if (k->info->pass[p].clean && k->info->pass[p].queries) {
            KVR_TRY(add_chunk(k, p));
            seen++;
        }
        if (progress && progress(ctx, p + 1, k->info->n_passes))
            return kvr_fail(KVR_EINTERRUPTED,
                            "synth: stopped by the user after forward pass %d of %d", p + 1,
                            k->info->n_passes);
    }
    return seen ? KVR_OK
                : kvr_fail(KVR_EINVAL,
                           "%s: none of the trace's %d forward passes is a cache-update pass with "
                           "queries, from which the statistics are computed; use another trace",
                           kvr_trace_dir(k->t), k->info->n_passes);
}

static enum kvr_status open_look(struct look *k, struct kvr_synth *out)
{
    const struct kvr_trace_layout *l = &k->info->layout;
    const size_t rows = (size_t)l->n_layers * KVR_SYNTH_SIDES * (size_t)l->n_heads;
    const size_t D = (size_t)l->head_dim, heads = (size_t)(l->n_layers * l->n_heads);
    const size_t tokens = (size_t)l->frames_per_chunk * (size_t)l->tokens_per_frame;
    bool allocated = true;

    *out = (struct kvr_synth){ .n_layers = l->n_layers,
                               .n_heads = l->n_heads,
                               .head_dim = l->head_dim,
                               .n_passes = k->info->most_passes };
    out->mean = calloc(rows * D, sizeof *out->mean);
    out->dev = calloc(rows * D, sizeof *out->dev);
    out->rho = calloc(rows, sizeof *out->rho);
    out->toward = calloc(heads, sizeof *out->toward);
    k->sum = calloc(rows * D, sizeof *k->sum);
    k->qk = calloc(3 * heads, sizeof *k->qk);
    k->shared = calloc(3 * KVR_TRACE_MAX_PASSES, sizeof *k->shared);
    k->clean = malloc(tokens * (size_t)l->n_kv_heads * D * sizeof *k->clean);
    for (int i = 0; i < KVR_SYNTH_SIDES; i++) {
        k->value[i] = malloc(tokens * (size_t)heads_of(k, i) * D * sizeof *k->value[i]);
        allocated = allocated && k->value[i];
    }
    if (!allocated || !out->mean || !out->dev || !out->rho || !out->toward || !k->sum || !k->qk ||
        !k->shared || !k->clean)
        return kvr_fail(KVR_ENOMEM,
                        "synth: out of memory while allocating the statistics of %zu heads", heads);
    k->qq = k->qk + heads;
    k->kk = k->qq + heads;
    k->own = k->shared + KVR_TRACE_MAX_PASSES;
    k->theirs = k->own + KVR_TRACE_MAX_PASSES;
    return KVR_OK;
}

enum kvr_status kvr_synth_measure(struct kvr_synth *out, const struct kvr_trace *t,
                                  kvr_trace_progress_fn *progress, void *ctx)
{
    struct look k = { .t = t, .info = kvr_trace_info(t) };
    enum kvr_status st = open_look(&k, out);

    if (st == KVR_OK)
        st = add_all_chunks(&k, progress, ctx);
    if (st == KVR_OK)
        finish(&k, out);
    free(k.sum);
    free(k.qk);
    free(k.shared);
    free(k.clean);
    for (int i = 0; i < KVR_SYNTH_SIDES; i++)
        free(k.value[i]);
    if (st != KVR_OK)
        kvr_synth_free(out);
    return st;
}
