/* ops_cross_bf16.c - see ops_cross_bf16.h. */
#include "harness/engine/ops_cross_bf16.h"

#include <math.h>
#include <string.h>

#include "harness/cache/attend_bf16.h"
#include "harness/cache/attend_kernels.h"

enum {
    ROWS = KVR_BF16_ROWS,
    TILE = KVR_ATTEND_TILE,
    WIDE = KVR_BF16_GROUP * TILE, /* keys per softmax call */
    MAX_D = KVR_CROSS_BF16_WIDEST,
    WORTH_A_TEAM = 1 << 16 /* minimum number of query elements for several threads */
};

bool kvr_cross_tiles(const struct kvr_cross *c)
{
    return c->compute == KVR_BF16 && kvr_isa_has_tiles() &&
           c->head_dim >= KVR_CROSS_BF16_NARROWEST && c->head_dim <= KVR_CROSS_BF16_WIDEST;
}

static int padded_d(int d)
{
    return (d + KVR_ATTEND_PAD - 1) / KVR_ATTEND_PAD * KVR_ATTEND_PAD;
}

/* Returns the number of BF16 elements of one head's padded keys. */
static int64_t keys_of_head(int n, int d)
{
    return (int64_t)kvr_bf16_padded(n) * kvr_bf16_padded(d);
}

static int64_t values_of_head(int n, int d)
{
    return (int64_t)kvr_bf16_padded(n) * padded_d(d);
}

int64_t kvr_cross_bf16_k_floats(int n_keys, int n_heads, int head_dim)
{
    return n_heads * keys_of_head(n_keys, head_dim) / 2;
}

int64_t kvr_cross_bf16_v_floats(int n_keys, int n_heads, int head_dim)
{
    return n_heads * values_of_head(n_keys, head_dim) / 2;
}

void kvr_cross_bf16_pack(struct kvr_cross *c, const float *k, const float *v)
{
    const struct kvr_bf16_kernels *f = kvr_bf16_kernels();
    const int n = c->n_keys, d = c->head_dim;
    const int64_t width = (int64_t)c->n_heads * d;
    kvr_bf16 rows[TILE * MAX_D];

    for (int h = 0; h < c->n_heads; h++)
        for (int t = 0; t < n; t += TILE) {
            const int here = n - t < TILE ? n - t : TILE;
            kvr_bf16 *keys = (kvr_bf16 *)c->k + h * keys_of_head(n, d);
            kvr_bf16 *values = (kvr_bf16 *)c->v + h * values_of_head(n, d);

            for (int i = 0; i < here; i++)
                kvr_from_f32(rows + i * d, KVR_BF16, k + (t + i) * width + h * d, (size_t)d);
            f->pack_keys(rows, d, here, d, keys + (int64_t)t * kvr_bf16_padded(d));
            for (int i = 0; i < here; i++)
                kvr_from_f32(rows + i * d, KVR_BF16, v + (t + i) * width + h * d, (size_t)d);
            f->pack_values(rows, d, here, d, values + (int64_t)t * padded_d(d));
        }
}

/* Computes attention of m <= ROWS queries of head h. Rows of q and of out are `width` elements
 * apart. */
static void attend_rows(const struct kvr_cross *c, int h, int m, int64_t width, const float *q,
                        float *out)
{
    const struct kvr_bf16_kernels *f = kvr_bf16_kernels();
    const int n = c->n_keys, d = c->head_dim, deep = kvr_bf16_padded(n), dp = padded_d(d);
    const int wide = kvr_bf16_padded(d);
    const kvr_bf16 *keys = (const kvr_bf16 *)c->k + h * keys_of_head(n, d);
    const kvr_bf16 *values = (const kvr_bf16 *)c->v + h * values_of_head(n, d);
    const float scale = 1.0f / sqrtf((float)d);
    float s[ROWS * WIDE] __attribute__((aligned(64))), acc[ROWS * MAX_D], row[MAX_D];
    kvr_bf16 p[ROWS * WIDE] __attribute__((aligned(64)));
    kvr_bf16 q16[ROWS * MAX_D] __attribute__((aligned(64)));
    float max[ROWS], sum[ROWS], rescale[ROWS], bias[KVR_BF16_STEP];

    for (int i = 0; i < m; i++) {
        for (int x = 0; x < d; x++)
            row[x] = q[i * width + x] * scale;
        kvr_from_f32(q16 + i * wide, KVR_BF16, row, (size_t)d);
        memset(q16 + i * wide + d, 0, (size_t)(wide - d) * sizeof *q16);
        max[i] = -INFINITY;
        sum[i] = 0;
    }
    memset(acc, 0, (size_t)(m * dp) * sizeof *acc);
    /* only the last KVR_BF16_STEP keys may be padding, whose scores become -infinity */
    for (int j = 0; j < KVR_BF16_STEP; j++)
        bias[j] = deep - KVR_BF16_STEP + j < n ? 0 : -INFINITY;
    for (int t = 0; t < deep; t += WIDE) {
        const int here = deep - t < WIDE ? deep - t : WIDE;

        f->scores(q16, wide, d, keys + (int64_t)t * wide, s, WIDE, m, here);
        if (t + here == deep && n < deep)
            f->add_bias(s + here - KVR_BF16_STEP, WIDE, bias, m, KVR_BF16_STEP);
        f->online_softmax(s, WIDE, m, here, max, sum, rescale, p, WIDE);
        for (int i = 0; i < m; i++)
            if (rescale[i] != 1.0f)
                kvr_attend_kernels()->scale(acc + i * dp, dp, rescale[i]);
        f->add_values(p, WIDE, values + (int64_t)t * dp, (int64_t)TILE * dp, here, acc, dp, m, dp);
    }
    for (int i = 0; i < m; i++) {
        const float inv = 1.0f / sum[i];

        for (int x = 0; x < d; x++)
            out[i * width + x] = acc[i * dp + x] * inv;
    }
}

void kvr_cross_bf16_attend(const struct kvr_rows *r, const struct kvr_cross *c, const float *q,
                           float *out)
{
    const int64_t groups = (r->n + ROWS - 1) / ROWS;

#pragma omp parallel for schedule(static) collapse(2) if (r->n * r->d > WORTH_A_TEAM)
    for (int h = 0; h < c->n_heads; h++)
        for (int64_t g = 0; g < groups; g++) {
            const int64_t t = g * ROWS, at = t * r->d + (int64_t)h * c->head_dim;

            attend_rows(c, h, r->n - t < ROWS ? (int)(r->n - t) : ROWS, r->d, q + at, out + at);
        }
}
