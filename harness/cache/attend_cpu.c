/* attend_cpu.c - attention over spans (runs of tokens) with online softmax.
 *
 * One team of threads runs a whole attention call. The functions divide their loops among the
 * threads of the team, with a barrier only where one thread reads results of another thread.
 *
 * Keys and values are read in tiles (attend_tiles.c). On the path `staged`, all threads decode the
 * tiles of a piece (PIECE tokens) into scratch. They then compute attention over these tiles, with
 * one task per head and block of queries. On the path `fused`, there is one task per head and run
 * of QRUN query rows. It decodes each tile into a buffer on its thread's stack, which stays in the
 * CPU cache. On both paths, the softmax state of a query is updated by
 *
 *     m' = max(m, max_j s_j),  l' = l e^(m-m') + sum_j e^(s_j-m'),
 *     o' = o e^(m-m') + sum_j e^(s_j-m') v_j
 *
 * with the F32 kernels of attend_kernels.h. If the job sets int8, tiles of coded tokens are
 * requantized to INT8 (attend_int8.c), and unquantized tokens stay F32. Both kinds of tiles update
 * the same softmax states. If the job sets bf16, all other matrix products have BF16 operands
 * (attend_cpu_bf16.c). */
#include "harness/cache/attend_cpu.h"
#include "harness/cache/attend_impl.h"

#include <math.h>
#include <string.h>

enum {
    PIECE = 512, /* number of tokens that are decoded at once on path `staged` */
    TILES = PIECE / TILE,
    QRUN = 384, /* maximum number of query rows that a thread processes at once on path `fused` */
};

static void stage(const struct kvr_attend_job *job, const struct state *st, const struct tile *tile,
                  int h, struct staged out)
{
    const struct kvr_attend_kernels *f = kvr_attend_kernels();
    const int d = job->head_dim;
    float rows[TILE * MAX_D];

    if (kvr_tile_bf16(job, tile)) {
        kvr_bf16_stage(job, tile, h, false, out);
        kvr_bf16_stage(job, tile, h, true, out);
    } else {
        kvr_tile_load(job, tile, h, false, rows);
        if (tile->bytes)
            kvr_int8_stage_keys(st, tile, h, d, rows, out);
        else
            f->pack_keys(rows, tile->n, d, out.k);
        kvr_tile_load(job, tile, h, true, rows);
        if (tile->bytes)
            kvr_int8_stage_values(tile, d, rows, out);
        else
            f->pack_values(rows, tile->n, d, out.v);
    }
    for (int i = 0; i < tile->n_parts; i++)
        for (int t = 0; t < tile->part[i].n; t++)
            out.bias[tile->part[i].at + t] = tile->part[i].span->log_m;
    for (int t = tile->n; t < TILE; t++) /* padding tokens have the weight e^-inf = 0 */
        out.bias[t] = -INFINITY;
}

/* Computes attention of m query rows of head h, from row `at` on, over one decoded tile, and
 * updates the softmax states of these rows. */
static void attend_tile(const struct kvr_attend_job *job, const struct state *st, int h, int64_t at,
                        int m, const struct tile *tile, struct staged kv)
{
    const struct kvr_attend_kernels *f = kvr_attend_kernels();
    const int d = job->head_dim, dp = padded(d), n = tile->n, wide = padded(n);
    const float *q = (tile->rot_k ? st->q_rot : st->q) + at * d;
    const float *bias = tile->biased ? kv.bias : NULL;
    float *acc = (tile->rot_v ? st->acc_rot : st->acc) + at * dp;
    const int64_t r0 = at - h * rows_of(job);
    float s[QBLOCK * TILE], rescale[QBLOCK], weight[QBLOCK];
    uint8_t p[QBLOCK * TILE];

    if (kvr_tile_after(job, st, tile, h, at, m))
        return;
    if (tile->bytes)
        kvr_int8_scores(st, tile, kv, at, m, d, wide, s);
    else
        f->scores(q, d, kv.k, s, TILE, m, wide);
    if (job->correction)
        kvr_tile_subtract_correction(job, tile, h, q, m, s, TILE);
    if (tile->causal)
        kvr_tile_mask_causal(job, tile, r0, m, s, TILE);
    if (tile->bytes)
        kvr_dot_kernels()->online_softmax(s, TILE, bias, m, wide, st->mx + at, st->sum + at,
                                          rescale, p, weight);
    else
        f->online_softmax(s, TILE, bias, m, wide, st->mx + at, st->sum + at, rescale);
    kvr_state_rescale(job, st, at, m, rescale);
    if (tile->bytes)
        kvr_int8_add_values(tile, kv, p, weight, m, d, acc);
    else
        f->add_values(s, TILE, kv.v, acc, dp, n, m, dp);
}

static size_t staged_floats(int head_dim)
{
    return (size_t)TILE * (size_t)(head_dim + padded(head_dim) + 1);
}

static struct staged staged_at(float *base, int head_dim)
{
    return (struct staged){
        .k = base,
        .v = base + TILE * head_dim,
        .bias = base + TILE * (head_dim + padded(head_dim)),
    };
}

static struct kvr_attend_bytes bytes(const struct kvr_attend_needs *n)
{
    const size_t rows = (size_t)n->n_heads * (size_t)n->max_query;
    const size_t spaces = n->rotated ? 2 : 1;
    const size_t per_row = 2 + spaces * (size_t)(padded(n->head_dim) + n->head_dim);
    const size_t coded = n->int8 ? spaces * kvr_int8_floats(n->head_dim, n->n_heads, rows) : 0;

    return (struct kvr_attend_bytes){
        .tiles =
            n->staged ? (size_t)n->n_heads * TILES * staged_floats(n->head_dim) * sizeof(float) : 0,
        .state = (rows * per_row + coded) * sizeof(float),
    };
}

static void begin(const struct kvr_attend_job *job, const struct state *st)
{
    const int d = job->head_dim, dp = padded(d), heads = job->n_heads;
    const int64_t n = rows_of(job);
    const float scale = 1.0f / sqrtf((float)d);

#pragma omp for schedule(static) collapse(2)
    for (int h = 0; h < heads; h++)
        for (int64_t r = 0; r < n; r++) {
            const int64_t at = h * n + r;

            st->mx[at] = -INFINITY;
            st->sum[at] = 0;
            memset(st->acc + at * dp, 0, (size_t)dp * sizeof(float));
            for (int c = 0; c < d; c++)
                st->q[at * d + c] = job->q[query_of(job, h, r) * d + c] * scale;
            if (st->acc_rot) {
                memset(st->acc_rot + at * dp, 0, (size_t)dp * sizeof(float));
                memcpy(st->q_rot + at * d, st->q + at * d, (size_t)d * sizeof(float));
                if (st->k_space)
                    kvr_codec_transform(st->k_space, NULL, KVR_QUERY_TO_SPACE, st->q_rot + at * d,
                                        1, kvr_space_head(job, h), 1, d);
            }
        }
}

static void finish(const struct kvr_attend_job *job, const struct state *st)
{
    const int d = job->head_dim, dp = padded(d), heads = job->n_heads;
    const int64_t n = rows_of(job);

#pragma omp for schedule(static) collapse(2) nowait
    for (int h = 0; h < heads; h++)
        for (int64_t r = 0; r < n; r++) {
            const int64_t at = h * n + r, to = query_of(job, h, r);
            const float inv = 1.0f / st->sum[at];
            float *acc = st->acc + at * dp;

            if (st->acc_rot) { /* adds the output over rotated values, after rotating it back */
                float *rot = st->acc_rot + at * dp;

                if (st->v_space)
                    kvr_codec_transform(st->v_space, NULL, KVR_FROM_SPACE, rot, 1,
                                        kvr_space_head(job, h), 1, d);
                for (int c = 0; c < d; c++)
                    acc[c] += rot[c];
            }
            for (int c = 0; c < d; c++)
                job->out[to * d + c] = acc[c] * inv;
            if (job->past)
                job->past[to] = expf(job->past[to] - st->mx[at]) * inv;
        }
}

/* Computes attention of query rows [r0, r1) of head h over n staged tiles. */
static void attend_run(const struct kvr_attend_job *job, const struct state *st, int h, int64_t r0,
                       int64_t r1, const struct tile *tile, int n, float *staged)
{
    const int64_t first = h * rows_of(job);
    const size_t next = staged_floats(job->head_dim);
    int together = 1;

    for (int i = 0; i < n; i += together) {
        const struct staged kv = staged_at(staged + (size_t)i * next, job->head_dim);
        const int most = kvr_tile_bf16(job, &tile[i]) ? KVR_BF16_ROWS : QBLOCK;

        together = kvr_bf16_tiles_per_softmax(job, tile + i, n - i);
        for (int64_t r = r0; r < r1; r += most) {
            const int m = r1 - r < most ? (int)(r1 - r) : most;

            if (kvr_tile_bf16(job, &tile[i]))
                kvr_bf16_attend(job, st, h, first + r, m, tile + i, together, kv, next);
            else
                attend_tile(job, st, h, first + r, m, tile + i, kv);
        }
    }
}

/* Writes the next tiles of head h, or of all heads if h is -1, to the array `tile` [most]. Returns
 * the number of these tiles, which is less than `most` only at the end. */
static int next_tiles(const struct kvr_attend_job *job, int h, struct cursor *c, struct tile *tile,
                      int most)
{
    int n = 0;

    for (; n < most; n++) {
        kvr_tile_next(job, h, c, &tile[n]);
        if (tile[n].n == 0)
            break;
    }
    return n;
}

/* Computes attention of heads [h0, h1), which share their spans, on the path `staged`. */
static void run_staged(const struct kvr_attend_job *job, const struct state *st, float *tiles,
                       int h0, int h1)
{
    const int d = job->head_dim, block = job->bf16 ? KVR_BF16_ROWS : QBLOCK;
    const int64_t n = rows_of(job);
    const int blocks = (int)((n + block - 1) / block);
    const size_t next = staged_floats(d);
    struct tile tile[TILES];
    struct cursor c = { 0 };

    for (;;) {
        const int n_tiles = next_tiles(job, job->by_head ? h0 : -1, &c, tile, TILES);

        if (!n_tiles)
            return;
#pragma omp master
        kvr_phase_begin(job->phases, KVR_ATTEND_DECODE);
#pragma omp for schedule(static) collapse(2)
        for (int h = h0; h < h1; h++)
            for (int i = 0; i < n_tiles; i++)
                stage(job, st, &tile[i], h, staged_at(tiles + (size_t)(h * TILES + i) * next, d));
#pragma omp master
        kvr_phase_end(job->phases, KVR_ATTEND_DECODE);
#pragma omp for schedule(dynamic) collapse(2)
        for (int h = h0; h < h1; h++)
            for (int b = 0; b < blocks; b++) {
                const int64_t r0 = (int64_t)b * block, r1 = r0 + block < n ? r0 + block : n;

                attend_run(job, st, h, r0, r1, tile, n_tiles, tiles + (size_t)(h * TILES) * next);
            }
    }
}

/* Number of floats of the buffer on a thread's stack for decoded tiles. It has room for one tile of
 * MAX_D channels, or for several tiles with fewer channels. */
enum { OWN = TILE * (MAX_D + MAX_D + 1) };

static void run_fused(const struct kvr_attend_job *job, const struct state *st)
{
    const int heads = job->n_heads, d = job->head_dim;
    const int64_t n = rows_of(job);
    const int runs = (int)((n + QRUN - 1) / QRUN);
    const size_t next = staged_floats(d), n_fit = OWN / next;
    const int most = !job->bf16 ? 1 : n_fit < KVR_BF16_GROUP ? (int)n_fit : KVR_BF16_GROUP;

#pragma omp for schedule(dynamic) collapse(2)
    for (int h = 0; h < heads; h++)
        for (int i = 0; i < runs; i++) {
            const int64_t r0 = (int64_t)i * QRUN, r1 = r0 + QRUN < n ? r0 + QRUN : n;
            float own[OWN] __attribute__((aligned(64)));
            struct cursor c = { 0 };
            struct tile tile[KVR_BF16_GROUP];
            int n_tiles;

            while ((n_tiles = next_tiles(job, h, &c, tile, most)) > 0) {
                for (int t = 0; t < n_tiles; t++)
                    stage(job, st, &tile[t], h, staged_at(own + (size_t)t * next, d));
                attend_run(job, st, h, r0, r1, tile, n_tiles, own);
            }
        }
}

/* Whether a call has enough work for several threads: 2 MFLOP in F32, or 4 MFLOP in BF16. One
 * thread computes this work in 16 to 30 us. The barriers of a call on two threads take half of that
 * time, 8 to 15 us. */
static bool worth_a_team(const struct kvr_attend_job *job)
{
    const int64_t rows = job->n_heads * rows_of(job);
    int64_t tokens = 0;

    for (int i = 0; i < job->n_spans; i++)
        tokens += job->spans[i].n;
    return 4 * rows * tokens * job->head_dim >= (job->bf16 ? 1 << 22 : 1 << 21);
}

static void run(const struct kvr_attend_job *job, struct kvr_attend_scratch *s)
{
    const size_t rows = (size_t)job->n_heads * (size_t)rows_of(job);
    const size_t d = (size_t)job->head_dim, dp = (size_t)padded(job->head_dim);
    struct state st = { .mx = s->state.p };
    bool any_rotated;

    for (int i = 0; i < job->n_spans; i++) {
        if (kvr_span_rotated(&job->spans[i], false))
            st.k_space = job->spans[i].seg->k.codec;
        if (kvr_span_rotated(&job->spans[i], true))
            st.v_space = job->spans[i].seg->v.codec;
    }
    any_rotated = st.k_space || st.v_space;
    st.sum = st.mx + rows;
    st.acc = st.sum + rows;
    st.q = st.acc + rows * dp;
    if (any_rotated) {
        st.acc_rot = st.q + rows * d;
        st.q_rot = st.acc_rot + rows * dp;
    }
    if (job->int8) {
        float *end = kvr_int8_carve((any_rotated ? st.q_rot : st.q) + rows * d, job->head_dim,
                                    job->n_heads, rows, &st.code, &st.mu);

        if (any_rotated)
            kvr_int8_carve(end, job->head_dim, job->n_heads, rows, &st.code_rot, &st.mu_rot);
    }
#pragma omp parallel if (worth_a_team(job))
    {
        begin(job, &st);
        if (job->int8)
            kvr_int8_code_queries(job, &st);
        if (job->fused)
            run_fused(job, &st);
        else if (!job->by_head)
            run_staged(job, &st, s->tiles.p, 0, job->n_heads);
        else
            for (int h = 0; h < job->n_heads; h++)
                run_staged(job, &st, s->tiles.p, h, h + 1);
        finish(job, &st);
    }
}

const struct kvr_attend_kind kvr_attend_cpu = { .bytes = bytes,
                                                .run = run,
                                                .columns = kvr_columns_cpu };
