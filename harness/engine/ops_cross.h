/* ops_cross.h - cross-attention over a packed prompt on the CPU. Only ops_isa.c includes it.
 *
 * The prompt is short, so all scores of a group of query tokens fit on the stack, and an online
 * softmax is not needed. Keys are stored transposed, [D, keys], so that one SIMD vector has the
 * scores of adjacent keys. If layers compute in BF16 and the CPU has AMX, ops_cross_bf16.h replaces
 * this code. */
#ifndef KVR_ENGINE_OPS_CROSS_H
#define KVR_ENGINE_OPS_CROSS_H

#include <math.h>

#include "harness/engine/ops.h"
#include "harness/engine/ops_cross_bf16.h"
#include "harness/engine/ops_lanes.h"

/* Number of output columns that block_product computes at a time. */
enum { WIDE = VECS * W };
_Static_assert(KVR_OPS_LANES % WIDE == 0, "rows are padded to whole blocks");

static inline int padded(int n)
{
    return (n + KVR_OPS_LANES - 1) / KVR_OPS_LANES * KVR_OPS_LANES;
}

static inline void cross_pack(struct kvr_dev *dev, struct kvr_cross *c, const float *k,
                              const float *v)
{
    const int kp = padded(c->n_keys), dp = padded(c->head_dim);
    const int d = c->n_heads * c->head_dim;

    (void)dev;
    if (kvr_cross_tiles(c)) {
        kvr_cross_bf16_pack(c, k, v);
        return;
    }
    for (int h = 0; h < c->n_heads; h++) {
        for (int i = 0; i < c->head_dim; i++)
            for (int j = 0; j < kp; j++)
                c->k[((int64_t)h * c->head_dim + i) * kp + j] =
                    j < c->n_keys ? k[(int64_t)j * d + h * c->head_dim + i] : 0.0f;
        for (int j = 0; j < c->n_keys; j++)
            for (int i = 0; i < dp; i++)
                c->v[((int64_t)h * c->n_keys + j) * dp + i] =
                    i < c->head_dim ? v[(int64_t)j * d + h * c->head_dim + i] : 0.0f;
    }
}

/* Maximum number of rows of columns()'s operand b that are copied into a contiguous tile. Without
 * the copy, rows at the stride of b would map to the same sets of the CPU's cache. */
enum { TILE = 512 };

static inline void copy_tile(float *tile, const float *b, int64_t b_stride, int n)
{
    for (int i = 0; i < n; i++)
        for (int v = 0; v < VECS; v++)
            store(tile + i * WIDE + v * W, load(b + i * b_stride + v * W));
}

/* Computes out[r][l] = sum_i a[r][i] * tile[i][l] for `rows` rows of a; if `more` is true, the sum
 * is added to out[r][l]. The function is inlined with a constant `rows`, so that the accumulators
 * stay in registers. */
INLINE void block_product(int rows, int n, const float *a, int64_t a_stride, const float *tile,
                          float *out, int64_t out_stride, bool more)
{
    vec acc[QUERIES][VECS];

#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < VECS; v++)
            acc[r][v] = more ? load(out + r * out_stride + v * W) : spread(0);
    for (int i = 0; i < n; i++, tile += WIDE) {
        vec line[VECS];

        for (int v = 0; v < VECS; v++)
            line[v] = load(tile + v * W);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < VECS; v++)
                acc[r][v] += a[r * a_stride + i] * line[v];
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < VECS; v++)
            store(out + r * out_stride + v * W, acc[r][v]);
}

/* Computes the matrix product out [m, WIDE] = a [m, n] b [n, WIDE]. Rows of a, b and out are
 * a_stride, b_stride and out_stride floats apart. Tiles of at most TILE rows of b are processed one
 * after the other. */
static inline void columns(int m, int n, const float *a, int64_t a_stride, const float *b,
                           int64_t b_stride, float *out, int64_t out_stride)
{
    float tile[TILE * WIDE] __attribute__((aligned(64)));

    for (int i = 0; i < n; i += TILE) {
        const int now = n - i < TILE ? n - i : TILE;
        int t = 0;

        copy_tile(tile, b + i * b_stride, b_stride, now);
        for (; t + QUERIES <= m; t += QUERIES)
            block_product(QUERIES, now, a + t * a_stride + i, a_stride, tile, out + t * out_stride,
                          out_stride, i > 0);
        for (; t < m; t++)
            block_product(1, now, a + t * a_stride + i, a_stride, tile, out + t * out_stride,
                          out_stride, i > 0);
    }
}

/* Computes the softmax of n scores in place; s has padded(n) elements. One NaN score makes all n
 * weights NaN, because their common divisor becomes NaN. */
INLINE void softmax_row(float *s, int n, float scale)
{
    const int whole = (n + W - 1) / W * W;
    vec top, sum = { 0 };
    float best, inv;

    for (int j = n; j < whole; j++)
        s[j] = s[0];
    top = load(s);
    for (int j = W; j < whole; j += W)
        top = at_least(load(s + j), top);
    best = top[0];
    for (int l = 1; l < W; l++)
        best = top[l] > best ? top[l] : best;
    for (int j = 0; j < whole; j += W)
        store(s + j, exp_fast((load(s + j) - best) * scale));
    for (int j = n; j < whole; j++)
        s[j] = 0;
    for (int j = 0; j < whole; j += W)
        sum += load(s + j);
    inv = 1.0f / sum_of(sum);
    for (int j = 0; j < whole; j += W)
        store(s + j, load(s + j) * inv);
}

/* A block has QUERIES query tokens. The blocks of a group share each copied tile of keys or values.
 * A group has at most GROUP blocks and at most SCORES attention scores, which are on the stack. */
enum { GROUP = 4, SCORES = QUERIES * (KVR_OPS_MAX_TEXT + KVR_OPS_LANES) };

/* Stride between rows of scores, in floats. Padding by KVR_OPS_LANES floats avoids strides that are
 * powers of two, at which rows would map to the same sets of the CPU's cache. */
static inline int score_stride(const struct kvr_cross *c)
{
    return padded(c->n_keys) + KVR_OPS_LANES;
}

static inline int group_tokens(const struct kvr_cross *c)
{
    const int n_fit = SCORES / (QUERIES * score_stride(c));

    return QUERIES * (n_fit < GROUP ? n_fit : GROUP);
}

/* Computes cross-attention of m query tokens in head h. */
static inline void attend_group(int m, const struct kvr_cross *c, int h, int d, const float *q,
                                float *out)
{
    const int kp = padded(c->n_keys), dp = padded(c->head_dim), stride = score_stride(c);
    const float *k = c->k + (int64_t)h * c->head_dim * kp;
    const float *v = c->v + (int64_t)h * c->n_keys * dp;
    const float scale = 1.0f / sqrtf((float)c->head_dim);
    float score[SCORES], acc[GROUP * QUERIES * WIDE];

    q += (int64_t)h * c->head_dim;
    out += (int64_t)h * c->head_dim;
    for (int j = 0; j < kp; j += WIDE)
        columns(m, c->head_dim, q, d, k + j, kp, score + j, stride);
    for (int t = 0; t < m; t++)
        softmax_row(score + t * stride, c->n_keys, scale);
    for (int i = 0; i < c->head_dim; i += WIDE) {
        const int width = c->head_dim - i < WIDE ? c->head_dim - i : WIDE;

        columns(m, c->n_keys, score, stride, v + i, dp, acc, WIDE);
        for (int t = 0; t < m; t++)
            memcpy(out + (int64_t)t * d + i, acc + t * WIDE, (size_t)width * sizeof *out);
    }
}

static inline void cross_attend(struct kvr_dev *dev, const struct kvr_rows *r,
                                const struct kvr_cross *c, const struct kvr_cross_work *work,
                                const float *q, float *out)
{
    const int per = group_tokens(c);
    const int64_t groups = (r->n + per - 1) / per;

    (void)dev;
    (void)work;
    if (kvr_cross_tiles(c)) {
        kvr_cross_bf16_attend(r, c, q, out);
        return;
    }
    /* The loop over heads is the outer loop, so that the keys and values of one head stay in a
     * core's private cache. */
#pragma omp parallel for schedule(static) collapse(2) if (r->n * r->d > WORTH_A_TEAM)
    for (int h = 0; h < c->n_heads; h++)
        for (int64_t g = 0; g < groups; g++) {
            const int64_t t = g * per;

            attend_group(r->n - t < per ? (int)(r->n - t) : per, c, h, r->d, q + t * r->d,
                         out + t * r->d);
        }
}

#endif
