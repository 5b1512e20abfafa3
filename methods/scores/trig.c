/* trig.c - expected attention from mean queries, by RoPE pair (after TriAttention,
 * arXiv:2604.04921).
 *
 * Before RoPE, pair p of the queries has the mean Q_p, a complex number, and the mean magnitude
 * L_p. A query of that mean at another position has the product Re(Q_p e^(i w_p position) K_p*)
 * with pair K_p of a rotated key, so
 *
 *     score = sum over p of  Re(Q_p T_p K_p*) + (L_p - |Q_p|) |K_p|
 *
 * where T_p is the mean of e^(i w_p position) over future positions: frames 1, 2, 4, .. 64 after
 * the newest, every row and every column. The second term covers the part of the queries without a
 * preferred direction.
 *
 * The authors calibrate Q and L on texts, with distances 1, 2, 4, .. 65536 tokens; here they come
 * from the newest chunk. How they treat rows and columns is not known. With several heads the score
 * is their sum. */
#include <math.h>

#include "methods/kernels/rope.h"
#include "methods/scores/score.h"

enum { MAX_PAIRS = 512, FURTHEST = 64 };

struct query {
    double re[MAX_PAIRS], im[MAX_PAIRS], size[MAX_PAIRS];
};

/* Takes the means over the new chunk's queries of KV head h, rotated back. */
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

/* Adds e^(i w position) of pairs [first, end) at one position to the means over n positions. */
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

/* T_p: times, rows and columns have separate pairs (kernels/rope.h). */
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

/* Q_p <- Q_p T_p; size <- L_p - |Q_p|. */
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
        return; /* without queries all scores are 0, and the oldest tokens remain */
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
    .title = "expected attention from mean queries before rotation",
    .all_keys = true,
    .queries = true,
    .undoes_rope = true,
    .rate = rate,
};
