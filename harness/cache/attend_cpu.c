/* attend_cpu.c - attention over spans with an online softmax.
 *
 * Keys and values are read in tiles: up to TILE tokens of one head, from one span or several
 * short ones. staged: all threads decode the tiles of a piece (PIECE tokens) into scratch, then
 * each (head, block of queries) attends to them. fused: each (head, run of queries) decodes the
 * tiles it attends to, in its own cache. Either way every query updates its own state
 *
 *     m' = max(m, max_j s_j),  l' = l e^(m-m') + sum_j e^(s_j-m'),
 *     o' = o e^(m-m') + sum_j e^(s_j-m') v_j
 *
 * The loops are those of attend_kernels.h, in F32. If the job says int8, tiles of coded tokens are
 * coded once more as bytes and go through the loops of attend_dot.h; what is held uncoded stays
 * F32, and both update the same states. */
#include "harness/cache/attend_dot.h"
#include "harness/cache/attend_impl.h"
#include "harness/cache/attend_kernels.h"

#include <math.h>
#include <string.h>

enum {
    TILE = KVR_ATTEND_TILE,
    PIECE = 512, /* tokens staged at once */
    TILES = PIECE / TILE,
    QBLOCK = 48,          /* queries multiplied at once */
    QRUN = 384,           /* queries that share a decoded tile on the fused path */
    PAD = KVR_ATTEND_PAD, /* value rows are padded to whole vectors */
    MAX_D = KVR_ATTEND_MAX_D,
    AHEAD = 8, /* tokens */
};

static int padded(int n)
{
    return (n + PAD - 1) / PAD * PAD;
}

/* A stretch of one span, and where in its tile it lies. */
struct part {
    const struct kvr_span *span;
    int64_t t0;
    int n, at;
};

/* All parts of a tile are in the same space: keys rotated or not, values rotated or not. */
struct tile {
    struct part part[TILE];
    int n_parts, n;
    bool rot_k, rot_v;
    bool bytes;  /* is staged as bytes */
    bool biased; /* some token has a multiplicity, or the last panel is not full */
    bool causal; /* of the queries' own tokens, one part alone */
};

/* One tile of one head, decoded, in panels (attend_kernels.h). */
struct staged {
    float *k;    /* [TILE / PAD][D][PAD] */
    float *v;    /* [padded D / PAD][tokens][PAD] */
    float *bias; /* [TILE]: log of the multiplicity; -INFINITY past the last token */
};

/* The same memory, staged as bytes (attend_dot.h). */
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

/* Rows of one KV head: its queries token by token, of each token all heads of the group. */
static int group_of(const struct kvr_attend_job *job)
{
    return job->group ? job->group : 1;
}

static int64_t rows_of(const struct kvr_attend_job *job)
{
    return job->n_query * group_of(job);
}

/* Row r of KV head h among the queries, [T,H,group]. */
static int64_t query_of(const struct kvr_attend_job *job, int h, int64_t r)
{
    const int g = group_of(job);

    return (r / g * job->n_heads + h) * g + r % g;
}

/* What the queries have come to; one row per (head, query). */
struct state {
    float *mx, *sum;      /* [H*T] */
    float *acc, *acc_rot; /* [H*T][padded D]: outputs in plain and in rotated space */
    float *q, *q_rot;     /* [H*T][D]: queries times 1/sqrt(D), plain and rotated */
    /* Codecs whose transform leads to the rotated space of keys and of values; NULL: none does. */
    const struct kvr_codec *k_space, *v_space;
    /* int8 alone: the same queries coded, and the vector mu of each head [H][D], by space. */
    struct kvr_dot_queries code, code_rot;
    float *mu, *mu_rot;
};

static bool coded(const struct kvr_span *s)
{
    return s->seg && s->seg->kind == KVR_SEG_CODED && !kvr_codec_is_exact(s->seg->k.codec);
}

static bool rotated(const struct kvr_span *s, bool values)
{
    const struct kvr_packed *p = s->seg ? values ? &s->seg->v : &s->seg->k : NULL;

    return p && p->codec && kvr_codec_rotated(p->codec);
}

static void load(const struct kvr_attend_job *job, const struct part *p, int h, bool values,
                 float *out)
{
    const int d = job->head_dim;
    const struct kvr_span *s = p->span;

    if (s->seg && s->seg->kind == KVR_SEG_ZERO) {
        memset(out, 0, (size_t)(p->n * d) * sizeof *out);
    } else if (s->seg) {
        kvr_codec_decode_rotated(values ? &s->seg->v : &s->seg->k, s->t0 + p->t0, p->n, h, 1, out);
    } else {
        const size_t size = kvr_dtype_size(s->raw.dtype);
        const size_t row = (size_t)job->n_heads * (size_t)d * size; /* of all heads */
        const char *in = (const char *)(values ? s->raw.v : s->raw.k) +
                         (size_t)(s->t0 + p->t0) * row + (size_t)(h * d) * size;

        for (int t = 0; t < p->n; t++, in += row) {
            /* One head of each token: no hardware fetches such strides ahead. */
            if (t + AHEAD < p->n)
                for (size_t b = 0; b < (size_t)d * size; b += 64)
                    __builtin_prefetch(in + AHEAD * row + b);
            kvr_to_f32(out + t * d, in, s->raw.dtype, (size_t)d);
        }
    }
}

/* rows [n][D] of the tile's keys or values. */
static void load_tile(const struct kvr_attend_job *job, const struct tile *tile, int h, bool values,
                      float *rows)
{
    for (int i = 0; i < tile->n_parts; i++)
        load(job, &tile->part[i], h, values, rows + tile->part[i].at * job->head_dim);
}

static void stage(const struct kvr_attend_job *job, const struct state *st, const struct tile *tile,
                  int h, struct staged out)
{
    const struct kvr_attend_kernels *f = kvr_attend_kernels();
    const struct kvr_dot_kernels *b = kvr_dot_kernels();
    const int d = job->head_dim;
    const struct staged_bytes as = as_bytes(out, d);
    float rows[TILE * MAX_D];

    load_tile(job, tile, h, false, rows);
    if (tile->bytes)
        b->pack_keys(rows, (tile->rot_k ? st->mu_rot : st->mu) + h * d, tile->n, d, as.k,
                     as.k_scale);
    else
        f->pack_keys(rows, tile->n, d, out.k);
    load_tile(job, tile, h, true, rows);
    if (tile->bytes)
        b->pack_values(rows, tile->n, d, as.v, as.v_scale);
    else
        f->pack_values(rows, tile->n, d, out.v);
    for (int i = 0; i < tile->n_parts; i++)
        for (int t = 0; t < tile->part[i].n; t++)
            out.bias[tile->part[i].at + t] = tile->part[i].span->log_m;
    for (int t = tile->n; t < TILE; t++) /* lanes beyond the last token: e^-inf = 0 */
        out.bias[t] = -INFINITY;
}

/* Take the correction off the scores of coded keys; q [m][D] is in the tile's key space. */
static void correct(const struct kvr_attend_job *job, const struct tile *tile, int h,
                    const float *q, int m, float *s)
{
    const int d = job->head_dim;
    float q2[QBLOCK * MAX_D];

    for (int i = 0; i < m * d; i++)
        q2[i] = q[i] * q[i];
    for (int i = 0; i < tile->n_parts; i++) {
        const struct part *p = &tile->part[i];
        const struct kvr_segment *seg = p->span->seg;

        if (!coded(p->span))
            continue;
        job->correction->apply(&(struct kvr_correction_job){
            .k = &seg->k,
            .moments = seg->moments.p,
            .t0 = p->span->t0 + p->t0,
            .n = p->n,
            .h = h,
            .q = q,
            .q2 = q2,
            .m = m,
            .d = d,
            .s = s + p->at,
            .stride = TILE,
        });
    }
}

/* Take from rows [r0, r0 + m) the scores of tokens that come after their own. */
static void hide(const struct kvr_attend_job *job, const struct tile *tile, int64_t r0, int m,
                 float *s)
{
    for (int i = 0; i < m; i++) {
        const int64_t last = (r0 + i) / group_of(job) - tile->part[0].t0;

        for (int64_t j = last + 1; j < tile->n; j++)
            s[i * TILE + j] = -INFINITY;
    }
}

/* The past ends here: the logarithm of what its weights sum to, until finish() knows the rest. */
static void note_past(const struct kvr_attend_job *job, const struct state *st, int h, int64_t at,
                      int m)
{
    for (int i = 0; i < m; i++)
        job->past[query_of(job, h, at - h * rows_of(job) + i)] =
            st->mx[at + i] + logf(st->sum[at + i]);
}

/* Scores of m queries (from row `at`) against one tile, softmax update, weighted values. */
static void attend_tile(const struct kvr_attend_job *job, const struct state *st, int h, int64_t at,
                        int m, const struct tile *tile, struct staged kv)
{
    const struct kvr_attend_kernels *f = kvr_attend_kernels();
    const struct kvr_dot_kernels *b = kvr_dot_kernels();
    const int d = job->head_dim, dp = padded(d), n = tile->n, wide = padded(n);
    const struct staged_bytes as = as_bytes(kv, d);
    const float *q = (tile->rot_k ? st->q_rot : st->q) + at * d;
    const float *bias = tile->biased ? kv.bias : NULL;
    float *acc = (tile->rot_v ? st->acc_rot : st->acc) + at * dp;
    const int64_t r0 = at - h * rows_of(job);
    float s[QBLOCK * TILE], shrink[QBLOCK], weight[QBLOCK];
    uint8_t p[QBLOCK * TILE];

    if (tile->causal && job->past && tile->part[0].t0 == 0)
        note_past(job, st, h, at, m);
    if (tile->causal && tile->part[0].t0 > (r0 + m - 1) / group_of(job))
        return;
    if (tile->bytes)
        b->scores(tile->rot_k ? &st->code_rot : &st->code, at, d, as.k, as.k_scale, s, TILE, m,
                  wide);
    else
        f->scores(q, d, kv.k, s, TILE, m, wide);
    if (job->correction)
        correct(job, tile, h, q, m, s);
    if (tile->causal)
        hide(job, tile, r0, m, s);
    if (tile->bytes)
        b->soften(s, TILE, bias, m, wide, st->mx + at, st->sum + at, shrink, p, weight);
    else
        f->soften(s, TILE, bias, m, wide, st->mx + at, st->sum + at, shrink);
    for (int i = 0; i < m; i++) /* a new maximum: what was summed shrinks */
        if (shrink[i] != 1.0f) {
            f->scale(st->acc + (at + i) * dp, dp, shrink[i]);
            if (st->acc_rot)
                f->scale(st->acc_rot + (at + i) * dp, dp, shrink[i]);
        }
    if (tile->bytes)
        b->add_values(p, weight, as.v, as.v_scale, acc, dp, n, m, dp);
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

/* Floats of coded queries and of mu, in one space. */
static size_t code_floats(int head_dim, int n_heads, size_t rows)
{
    return rows * (3 + (size_t)kvr_round4(head_dim) / 4) + (size_t)(n_heads * head_dim);
}

static float *codes_at(float *base, int head_dim, int n_heads, size_t rows,
                       struct kvr_dot_queries *code, float **mu)
{
    *code = (struct kvr_dot_queries){
        .scale = base,
        .shift = base + rows,
        .mean = base + 2 * rows,
        .code = (int8_t *)(base + 3 * rows),
    };
    *mu = base + 3 * rows + rows * (size_t)kvr_round4(head_dim) / 4;
    return base + code_floats(head_dim, n_heads, rows);
}

static struct kvr_attend_bytes bytes(const struct kvr_attend_needs *n)
{
    const size_t rows = (size_t)n->n_heads * (size_t)n->max_query;
    const size_t spaces = n->rotated ? 2 : 1;
    const size_t per_row = 2 + spaces * (size_t)(padded(n->head_dim) + n->head_dim);
    const size_t coded = n->int8 ? spaces * code_floats(n->head_dim, n->n_heads, rows) : 0;

    return (struct kvr_attend_bytes){
        .tiles =
            n->staged ? (size_t)n->n_heads * TILES * staged_floats(n->head_dim) * sizeof(float) : 0,
        .state = (rows * per_row + coded) * sizeof(float),
    };
}

/* Where the next tile begins. */
struct cursor {
    int span;
    int64_t t;
};

/* The next tile, empty at the end. */
static void next_tile(const struct kvr_attend_job *job, struct cursor *c, struct tile *out)
{
    out->n = out->n_parts = 0;
    out->biased = false;
    while (c->span < job->n_spans && out->n < TILE) {
        const struct kvr_span *s = &job->spans[c->span];
        const int64_t left = s->n - c->t;
        const bool rk = rotated(s, false), rv = rotated(s, true);
        const bool bytes = job->int8 && coded(s);

        if (left <= 0) {
            c->span++;
            c->t = 0;
            continue;
        }
        if (out->n && (rk != out->rot_k || rv != out->rot_v || bytes != out->bytes ||
                       s->causal != out->causal))
            break;
        out->rot_k = rk;
        out->rot_v = rv;
        out->bytes = bytes;
        out->causal = s->causal;
        struct part *p = &out->part[out->n_parts++];

        *p = (struct part){ s, c->t, left < TILE - out->n ? (int)left : TILE - out->n, out->n };
        c->t += p->n;
        out->n += p->n;
        out->biased |= s->log_m != 0;
    }
    out->biased |= out->n % PAD != 0;
}

static void begin(const struct kvr_attend_job *job, const struct state *st)
{
    const int d = job->head_dim, dp = padded(d), heads = job->n_heads;
    const int64_t n = rows_of(job);
    const float scale = 1.0f / sqrtf((float)d);

#pragma omp parallel for schedule(static) collapse(2)
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
                                        1, h, 1, d);
            }
        }
}

/* mu of head h: the mean of the first tile that is staged as bytes, in each space. Any vector
 * would do; this one is near the mean of all keys. */
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
    for (next_tile(job, &c, &tile); tile.n && !(found[0] && (found[1] || !st->mu_rot));
         next_tile(job, &c, &tile)) {
        float *mu = (tile.rot_k ? st->mu_rot : st->mu) + h * d;

        if (!tile.bytes || found[tile.rot_k])
            continue;
        load_tile(job, &tile, h, false, rows);
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

static void code_queries(const struct kvr_attend_job *job, const struct state *st)
{
    const int d = job->head_dim, m = (int)rows_of(job);

#pragma omp parallel for schedule(static)
    for (int h = 0; h < job->n_heads; h++) {
        const int64_t at = (int64_t)h * m;
        const struct kvr_dot_queries plain = queries_from(&st->code, at, d);

        find_mu(job, st, h);
        kvr_dot_kernels()->pack_queries(st->q + at * d, st->mu + h * d, m, d, &plain);
        if (st->mu_rot) {
            const struct kvr_dot_queries turned = queries_from(&st->code_rot, at, d);

            kvr_dot_kernels()->pack_queries(st->q_rot + at * d, st->mu_rot + h * d, m, d, &turned);
        }
    }
}

static void finish(const struct kvr_attend_job *job, const struct state *st)
{
    const int d = job->head_dim, dp = padded(d), heads = job->n_heads;
    const int64_t n = rows_of(job);

#pragma omp parallel for schedule(static) collapse(2)
    for (int h = 0; h < heads; h++)
        for (int64_t r = 0; r < n; r++) {
            const int64_t at = h * n + r, to = query_of(job, h, r);
            const float inv = 1.0f / st->sum[at];
            float *acc = st->acc + at * dp;

            if (st->acc_rot) { /* back from rotated space, once per output */
                float *rot = st->acc_rot + at * dp;

                if (st->v_space)
                    kvr_codec_transform(st->v_space, NULL, KVR_FROM_SPACE, rot, 1, h, 1, d);
                for (int c = 0; c < d; c++)
                    acc[c] += rot[c];
            }
            for (int c = 0; c < d; c++)
                job->out[to * d + c] = acc[c] * inv;
            if (job->past)
                job->past[to] = expf(job->past[to] - st->mx[at]) * inv;
        }
}

static void attend_run(const struct kvr_attend_job *job, const struct state *st, int h, int64_t r0,
                       int64_t r1, const struct tile *tile, struct staged kv)
{
    for (int64_t r = r0; r < r1; r += QBLOCK)
        attend_tile(job, st, h, h * rows_of(job) + r, r1 - r < QBLOCK ? (int)(r1 - r) : QBLOCK,
                    tile, kv);
}

static void run_staged(const struct kvr_attend_job *job, const struct state *st, float *tiles)
{
    const int heads = job->n_heads, d = job->head_dim;
    const int64_t n = rows_of(job);
    const int blocks = (int)((n + QBLOCK - 1) / QBLOCK);
    struct tile tile[TILES];
    struct cursor c = { 0 };

    for (;;) {
        int n_tiles = 0;

        while (n_tiles < TILES) {
            next_tile(job, &c, &tile[n_tiles]);
            if (tile[n_tiles].n == 0)
                break;
            n_tiles++;
        }
        if (!n_tiles)
            return;
        kvr_phase_begin(job->phases, KVR_ATTEND_DECODE);
#pragma omp parallel for schedule(static) collapse(2)
        for (int h = 0; h < heads; h++)
            for (int i = 0; i < n_tiles; i++)
                stage(job, st, &tile[i], h,
                      staged_at(tiles + (size_t)(h * TILES + i) * staged_floats(d), d));
        kvr_phase_end(job->phases, KVR_ATTEND_DECODE);
#pragma omp parallel for schedule(dynamic) collapse(2)
        for (int h = 0; h < heads; h++)
            for (int b = 0; b < blocks; b++) {
                const int64_t r0 = (int64_t)b * QBLOCK, r1 = r0 + QBLOCK < n ? r0 + QBLOCK : n;

                for (int i = 0; i < n_tiles; i++)
                    attend_run(job, st, h, r0, r1, &tile[i],
                               staged_at(tiles + (size_t)(h * TILES + i) * staged_floats(d), d));
            }
    }
}

static void run_fused(const struct kvr_attend_job *job, const struct state *st)
{
    const int heads = job->n_heads, d = job->head_dim;
    const int64_t n = rows_of(job);
    const int runs = (int)((n + QRUN - 1) / QRUN);

#pragma omp parallel for schedule(dynamic) collapse(2)
    for (int h = 0; h < heads; h++)
        for (int i = 0; i < runs; i++) {
            const int64_t r0 = (int64_t)i * QRUN, r1 = r0 + QRUN < n ? r0 + QRUN : n;
            float own[TILE * (MAX_D + MAX_D + 1)] __attribute__((aligned(64)));
            struct staged kv = staged_at(own, d);
            struct cursor c = { 0 };
            struct tile tile;

            for (next_tile(job, &c, &tile); tile.n; next_tile(job, &c, &tile)) {
                stage(job, st, &tile, h, kv);
                attend_run(job, st, h, r0, r1, &tile, kv);
            }
        }
}

static void run(const struct kvr_attend_job *job, struct kvr_attend_scratch *s)
{
    const size_t rows = (size_t)job->n_heads * (size_t)rows_of(job);
    const size_t d = (size_t)job->head_dim, dp = (size_t)padded(job->head_dim);
    struct state st = { .mx = s->state.p };
    bool any_rotated;

    for (int i = 0; i < job->n_spans; i++) {
        if (rotated(&job->spans[i], false))
            st.k_space = job->spans[i].seg->k.codec;
        if (rotated(&job->spans[i], true))
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
        float *end = codes_at((any_rotated ? st.q_rot : st.q) + rows * d, job->head_dim,
                              job->n_heads, rows, &st.code, &st.mu);

        if (any_rotated)
            codes_at(end, job->head_dim, job->n_heads, rows, &st.code_rot, &st.mu_rot);
    }
    begin(job, &st);
    if (job->int8)
        code_queries(job, &st);
    if (job->fused)
        run_fused(job, &st);
    else
        run_staged(job, &st, s->tiles.p);
    finish(job, &st);
}

const struct kvr_attend_kind kvr_attend_cpu = { .bytes = bytes, .run = run };
