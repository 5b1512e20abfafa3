/* attend_int8.c - requantizes tiles of coded tokens to INT8, with the formulas of attend_dot.h. */
#include "harness/cache/attend_cpu.h"

#include <assert.h>
#include <string.h>

/* INT8 panels of a tile. They use the memory of the tile's F32 panels (struct staged). */
struct staged_bytes {
    uint8_t *k;
    int8_t *v;
    float *k_scale, *v_scale; /* [TILE], [padded D] */
};

static struct staged_bytes as_bytes(struct staged s, int d)
{
    return (struct staged_bytes){
        .k_scale = s.k,
        .k = (uint8_t *)(s.k + TILE),
        .v_scale = s.v,
        .v = (int8_t *)(s.v + padded(d)),
    };
}

size_t kvr_int8_floats(int head_dim, int n_heads, size_t rows)
{
    return rows * (3 + (size_t)kvr_round4(head_dim) / 4) + (size_t)(n_heads * head_dim);
}

float *kvr_int8_carve(float *base, int head_dim, int n_heads, size_t rows,
                      struct kvr_dot_queries *code, float **mu)
{
    *code = (struct kvr_dot_queries){
        .scale = base,
        .shift = base + rows,
        .mean = base + 2 * rows,
        .code = (int8_t *)(base + 3 * rows),
    };
    *mu = base + 3 * rows + rows * (size_t)kvr_round4(head_dim) / 4;
    return base + kvr_int8_floats(head_dim, n_heads, rows);
}

/* Computes mu of head h: the mean key of the first INT8 tile, separately for rotated and for
 * unrotated keys. Keys are quantized as k - mu, and q mu is added to the scores, so mu does not
 * change attention, apart from rounding. This mu is close to the mean of all keys, which makes k -
 * mu and its quantization error small. */
static void find_mu(const struct kvr_attend_job *job, const struct state *st, int h)
{
    const int d = job->head_dim;
    bool found[2] = { false, false };
    struct cursor c = { 0 };
    struct tile tile;
    float rows[TILE * MAX_D];

    memset(st->mu + h * d, 0, (size_t)d * sizeof(float));
    if (st->mu_rot)
        memset(st->mu_rot + h * d, 0, (size_t)d * sizeof(float));
    for (kvr_tile_next(job, h, &c, &tile); tile.n && !(found[0] && (found[1] || !st->mu_rot));
         kvr_tile_next(job, h, &c, &tile)) {
        float *mu = (tile.rot_k ? st->mu_rot : st->mu) + h * d;

        if (!tile.bytes || found[tile.rot_k])
            continue;
        assert(!tile.rot_k || st->mu_rot);
        kvr_tile_load(job, &tile, h, false, rows);
        for (int t = 0; t < tile.n; t++)
            for (int i = 0; i < d; i++)
                mu[i] += rows[t * d + i] / (float)tile.n;
        found[tile.rot_k] = true;
    }
}

static struct kvr_dot_queries queries_from(const struct kvr_dot_queries *q, int64_t at, int d)
{
    return (struct kvr_dot_queries){ q->code + at * kvr_round4(d), q->scale + at, q->shift + at,
                                     q->mean + at };
}

void kvr_int8_code_queries(const struct kvr_attend_job *job, const struct state *st)
{
    const int d = job->head_dim, m = (int)rows_of(job);

#pragma omp for schedule(static)
    for (int h = 0; h < job->n_heads; h++) {
        const int64_t at = (int64_t)h * m;
        const struct kvr_dot_queries plain = queries_from(&st->code, at, d);

        find_mu(job, st, h);
        kvr_dot_kernels()->pack_queries(st->q + at * d, st->mu + h * d, m, d, &plain);
        if (st->mu_rot) {
            const struct kvr_dot_queries rotated = queries_from(&st->code_rot, at, d);

            kvr_dot_kernels()->pack_queries(st->q_rot + at * d, st->mu_rot + h * d, m, d, &rotated);
        }
    }
}

void kvr_int8_stage_keys(const struct state *st, const struct tile *tile, int h, int d,
                         const float *rows, struct staged out)
{
    const struct staged_bytes as = as_bytes(out, d);

    kvr_dot_kernels()->pack_keys(rows, (tile->rot_k ? st->mu_rot : st->mu) + h * d, tile->n, d,
                                 as.k, as.k_scale);
}

void kvr_int8_stage_values(const struct tile *tile, int d, const float *rows, struct staged out)
{
    const struct staged_bytes as = as_bytes(out, d);

    kvr_dot_kernels()->pack_values(rows, tile->n, d, as.v, as.v_scale);
}

void kvr_int8_scores(const struct state *st, const struct tile *tile, struct staged kv, int64_t at,
                     int m, int d, int wide, float *s)
{
    const struct staged_bytes as = as_bytes(kv, d);

    kvr_dot_kernels()->scores(tile->rot_k ? &st->code_rot : &st->code, at, d, as.k, as.k_scale, s,
                              TILE, m, wide);
}

void kvr_int8_add_values(const struct tile *tile, struct staged kv, const uint8_t *p,
                         const float *weight, int m, int d, float *acc)
{
    const struct staged_bytes as = as_bytes(kv, d);

    kvr_dot_kernels()->add_values(p, weight, as.v, as.v_scale, acc, padded(d), tile->n, m,
                                  padded(d));
}
