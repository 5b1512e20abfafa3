/* attend_columns.c - computes the sum and the maximum of every column (key) of the attention
 * weights.
 *
 * Two passes read all tiles of keys. The first pass computes the maximum score m and the softmax
 * denominator l of every query. The second pass accumulates the weights p = e^(s - m) / l of every
 * key. Values are not read. One thread processes all queries of a head in order, so the sums do not
 * depend on the number of threads. As in attention, the scores include the method's correction of
 * quantization bias and the logarithm of each token's multiplicity. */
#include "harness/cache/attend_cpu.h"
#include "harness/cache/attend_impl.h"

#include <math.h>
#include <string.h>

int64_t kvr_column_rows(const struct kvr_column_job *job)
{
    const int64_t T = job->attend->n_query;

    return job->queries > 0 && job->queries < T ? job->queries : T;
}

int64_t kvr_column_row(const struct kvr_column_job *job, int64_t i)
{
    const int64_t T = job->attend->n_query, n = kvr_column_rows(job);

    return job->newest ? T - n + i : i * T / n;
}

/* State of one thread. */
struct walk {
    const struct kvr_column_job *job;
    const struct kvr_attend_job *attend;
    const struct kvr_codec *k_space;
    int h;
    float *q, *q_rot; /* queries divided by sqrt(D), plain and rotated, [QBLOCK][D] */
    int64_t row[QBLOCK];
    int m; /* number of loaded queries */
    float mx[QBLOCK], sum[QBLOCK];
};

/* Loads up to QBLOCK of the n sampled query rows of the current KV head, from row `first` on. A
 * sampled token has one row for each query head that shares the KV head. */
static void load_queries(struct walk *w, int64_t first, int64_t n)
{
    const struct kvr_attend_job *a = w->attend;
    const int d = a->head_dim, g = group_of(a);
    const float scale = 1.0f / sqrtf((float)d);

    w->m = 0;
    for (int64_t i = first; i < n && w->m < QBLOCK; i++, w->m++) {
        const int64_t t = kvr_column_row(w->job, i / g);
        const float *q = a->q + query_of(a, w->h, t * g + i % g) * d;

        w->row[w->m] = t;
        for (int c = 0; c < d; c++)
            w->q[w->m * d + c] = q[c] * scale;
        memcpy(w->q_rot + w->m * d, w->q + w->m * d, (size_t)d * sizeof *q);
        if (w->k_space)
            kvr_codec_transform(w->k_space, NULL, KVR_QUERY_TO_SPACE, w->q_rot + w->m * d, 1,
                                kvr_space_head(a, w->h), 1, d);
    }
}

/* Computes s [m][TILE], the scores of the loaded queries with a tile of keys. The scores include
 * the correction of quantization bias and the logarithms of multiplicities. Scores of masked keys
 * are -infinity. */
static void scores(const struct walk *w, const struct tile *tile, float *s)
{
    const struct kvr_attend_kernels *f = kvr_attend_kernels();
    const int d = w->attend->head_dim, wide = padded(tile->n);
    const float *q = tile->rot_k ? w->q_rot : w->q;
    float rows[TILE * MAX_D], panel[TILE * MAX_D];

    kvr_tile_load(w->attend, tile, w->h, false, rows);
    f->pack_keys(rows, tile->n, d, panel);
    f->scores(q, d, panel, s, TILE, w->m, wide);
    if (w->attend->correction)
        kvr_tile_subtract_correction(w->attend, tile, w->h, q, w->m, s, TILE);
    for (int i = 0; i < w->m; i++)
        for (int p = 0; p < tile->n_parts; p++)
            for (int t = tile->part[p].at; t < tile->part[p].at + tile->part[p].n; t++)
                s[i * TILE + t] =
                    tile->causal && tile->part[p].t0 + t - tile->part[p].at > w->row[i]
                        ? -INFINITY
                        : s[i * TILE + t] + tile->part[p].span->log_m;
}

/* Sets *tile to the next tile of keys of the current head. Returns false after the last tile. */
static bool next_tile(const struct walk *w, struct cursor *c, struct tile *tile)
{
    kvr_tile_next(w->attend, w->h, c, tile);
    return tile->n > 0;
}

static void find_sums(struct walk *w)
{
    float s[QBLOCK * TILE];
    struct cursor c = { 0 };
    struct tile tile;

    for (int i = 0; i < w->m; i++) {
        w->mx[i] = -INFINITY;
        w->sum[i] = 0;
    }
    while (next_tile(w, &c, &tile)) {
        scores(w, &tile, s);
        for (int i = 0; i < w->m; i++) {
            const float old = w->mx[i];

            for (int t = 0; t < tile.n; t++)
                w->mx[i] = s[i * TILE + t] > w->mx[i] ? s[i * TILE + t] : w->mx[i];
            if (w->mx[i] == -INFINITY)
                continue;
            w->sum[i] *= old == -INFINITY ? 0.0f : expf(old - w->mx[i]);
            for (int t = 0; t < tile.n; t++)
                w->sum[i] += expf(s[i * TILE + t] - w->mx[i]);
        }
    }
}

/* Adds the attention weights of one token to its column sum, and updates its column maximum. The
 * token is token t of `part`, a run of tokens of one span. s[i * TILE] is the token's score with
 * query i. */
static void add_token(struct walk *w, const struct part *part, int t, const float *s)
{
    const int64_t token = kvr_column_token(w->job, part->span, part->t0 + t);
    float *sum = &w->job->sum[token * w->attend->n_heads + w->h];
    float *max = &w->job->max[token * w->attend->n_heads + w->h];

    for (int i = 0; i < w->m; i++) {
        const float p = expf(s[i * TILE] - w->mx[i]) / w->sum[i];

        *sum += p;
        if (p > *max)
            *max = p;
    }
}

static void add_columns(struct walk *w)
{
    float s[QBLOCK * TILE];
    struct cursor c = { 0 };
    struct tile tile;

    while (next_tile(w, &c, &tile)) {
        scores(w, &tile, s);
        for (int p = 0; p < tile.n_parts; p++)
            for (int t = 0; t < tile.part[p].n; t++)
                add_token(w, &tile.part[p], t, s + tile.part[p].at + t);
    }
}

enum kvr_status kvr_columns_cpu(const struct kvr_column_job *job,
                                struct kvr_attend_scratch *scratch)
{
    const struct kvr_attend_job *a = job->attend;
    const int64_t n = kvr_column_rows(job) * group_of(a);
    const struct kvr_codec *k_space = NULL;

    (void)scratch;
    for (int i = 0; i < a->n_spans; i++)
        if (kvr_span_rotated(&a->spans[i], false))
            k_space = a->spans[i].seg->k.codec;
#pragma omp parallel for schedule(static)
    for (int h = 0; h < a->n_heads; h++) {
        float q[QBLOCK * MAX_D], q_rot[QBLOCK * MAX_D];
        struct walk w = {
            .job = job, .attend = a, .k_space = k_space, .h = h, .q = q, .q_rot = q_rot
        };

        for (int64_t r = 0; r < n; r += w.m) {
            load_queries(&w, r, n);
            find_sums(&w);
            add_columns(&w);
        }
    }
    return KVR_OK;
}
