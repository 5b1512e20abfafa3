/* trig.c - the score `trig`: expected attention from future queries, computed per RoPE pair from
 * the mean query (after TriAttention, arXiv:2604.04921).
 *
 * RoPE treats two channels, the RoPE pair p, as a complex number and multiplies it by e^(i w_p x).
 * Here w_p is the frequency of the pair, and x the token's frame, row or column. Before RoPE, pair
 * p of the queries has the mean Q_p and the mean magnitude L_p. After RoPE, pair p of a key is K_p,
 * with the complex conjugate K_p*. The mean query at position x and the key have the dot product
 * sum over p of Re(Q_p e^(i w_p x) K_p*). The score is
 *
 *     score = sum over p of  Re(Q_p T_p K_p*) + (L_p - |Q_p|) |K_p|
 *
 * where T_p is the mean of e^(i w_p x) over the positions of future queries. If pair p encodes
 * time, these are the frames 1, 2, 4, .. 64 after the newest one. If it encodes rows or columns,
 * these are all rows or columns of a frame. The second term accounts for the part of the queries
 * that cancels in the mean Q_p.
 *
 * The paper, about language models, calibrates Q and L on texts and averages over future positions
 * 1, 2, 4, .. 65536 tokens ahead. It does not define T for rows and columns. Here Q and L are
 * computed from the newest chunk's queries. If several heads are scored together, the score is the
 * sum over these heads. */
#include <math.h>

#include "methods/kernels/rope.h"
#include "methods/scores/score.h"

enum { MAX_PAIRS = 512, FURTHEST = 64 };

struct query {
    double re[MAX_PAIRS], im[MAX_PAIRS], size[MAX_PAIRS];
};

/* Computes Q_p = out->re[p] + i out->im[p] and L_p = out->size[p] over the new chunk's queries in
 * all query heads that share KV head h. The inverse RoPE is applied to the queries first. `row` is
 * the number of tokens per row of a frame. */
static void take_means(const struct kvr_policy_ctx *ctx, int h, int row, struct query *out)
{
    const int d = ctx->head_dim, per = ctx->n_query_heads / ctx->n_heads, S = ctx->tokens_per_frame;
    const int64_t n = ctx->n_active - ctx->new0;
    double cosines[MAX_PAIRS], sines[MAX_PAIRS];

    *out = (struct query){ 0 };
    for (int64_t r = 0; r < n; r++) {
        const int64_t t = ctx->new0 + r;
        const int at = (int)(t % S);

        kvr_rope_angles(d, (int)(t / S), at / row, at % row, cosines, sines);
        for (int i = 0; i < per; i++) {
            const float *q = ctx->q + (r * ctx->n_query_heads + (int64_t)h * per + i) * d;

            for (int p = 0; p < d / 2; p++) {
                const double a = q[2 * p], b = q[2 * p + 1];

                out->re[p] += (a * cosines[p] + b * sines[p]) / (double)(n * per);
                out->im[p] += (b * cosines[p] - a * sines[p]) / (double)(n * per);
                out->size[p] += sqrt(a * a + b * b) / (double)(n * per);
            }
        }
    }
}

/* Adds one of the n terms of the mean T_p = re[p] + i im[p], e^(i w_p x) / n, for pairs [first,
 * end). `position` is { frame, row, column }. */
static void add_position(int d, const int position[3], int first, int end, int n, double *re,
                         double *im)
{
    double cosines[MAX_PAIRS], sines[MAX_PAIRS];

    kvr_rope_angles(d, position[0], position[1], position[2], cosines, sines);
    for (int p = first; p < end; p++) {
        re[p] += cosines[p] / n;
        im[p] += sines[p] / n;
    }
}

/* Computes T_p = re[p] + i im[p] for all RoPE pairs p. A pair encodes only time, the row or the
 * column (kernels/rope.h), so the mean is over positions along this axis. */
static void take_places(const struct kvr_policy_ctx *ctx, int row, double *re, double *im)
{
    const int d = ctx->head_dim, half = d / 2, side = half / 3, S = ctx->tokens_per_frame;
    const int newest = (int)((ctx->n_active - 1) / S);
    int n_times = 0;

    for (int p = 0; p < half; p++)
        re[p] = im[p] = 0;
    for (int f = 1; f <= FURTHEST; f *= 2)
        n_times++;
    for (int f = 1; f <= FURTHEST; f *= 2)
        add_position(d, (const int[]){ newest + f, 0, 0 }, 0, half - 2 * side, n_times, re, im);
    for (int y = 0; y < S / row; y++)
        add_position(d, (const int[]){ 0, y, 0 }, half - 2 * side, half - side, S / row, re, im);
    for (int x = 0; x < row; x++)
        add_position(d, (const int[]){ 0, 0, x }, half - side, half, row, re, im);
}

/* Replaces Q_p by Q_p T_p, and L_p by L_p - |Q_p|, the factors of the score's two terms. */
static void look_ahead(struct query *q, int pairs, const double *re, const double *im)
{
    for (int p = 0; p < pairs; p++) {
        const double a = q->re[p], b = q->im[p];

        q->size[p] -= sqrt(a * a + b * b);
        q->re[p] = a * re[p] - b * im[p];
        q->im[p] = a * im[p] + b * re[p];
    }
}

static double expected_score(const struct query *q, int pairs, const float *k)
{
    double sum = 0;

    for (int p = 0; p < pairs; p++) {
        const double a = k[2 * p], b = k[2 * p + 1];

        sum += q->re[p] * a + q->im[p] * b + q->size[p] * sqrt(a * a + b * b);
    }
    return sum;
}

static void rate(const struct kvr_score_job *job)
{
    const struct kvr_policy_ctx *ctx = job->ctx;
    const int d = ctx->head_dim;
    double re[MAX_PAIRS], im[MAX_PAIRS];
    struct query q;
    int row;

    for (int64_t i = 0; i < job->n; i++)
        job->score[i] = 0;
    if (!ctx->q || !ctx->all_keys || d > 2 * MAX_PAIRS ||
        kvr_frame_row("keep", ctx->tokens_per_frame, 0, &row) != KVR_OK)
        return; /* without queries all scores are 0, so the oldest tokens are retained */
    take_places(ctx, row, re, im);
    for (int h = job->h0; h < job->h0 + job->n_heads; h++) {
        take_means(ctx, h, row, &q);
        look_ahead(&q, d / 2, re, im);
        for (int64_t i = 0; i < job->n; i++)
            job->score[i] += (float)expected_score(
                &q, d / 2, ctx->all_keys + (job->token[i] * (int64_t)ctx->n_heads + h) * d);
    }
}

const struct kvr_score kvr_score_trig = {
    .name = "trig",
    .title = "tokens with the largest expected attention from the mean query before RoPE",
    .all_keys = true,
    .queries = true,
    .undoes_rope = true,
    .rate = rate,
};
