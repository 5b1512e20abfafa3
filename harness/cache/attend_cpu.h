/* attend_cpu.h - components of CPU attention: tiling of spans, decoding of tiles into panels in F32
 * or int8, and softmax states. Private to attend_*.c. */
#ifndef KVR_CACHE_ATTEND_CPU_H
#define KVR_CACHE_ATTEND_CPU_H

#include "harness/cache/attend.h"
#include "harness/cache/attend_bf16.h"
#include "harness/cache/attend_dot.h"
#include "harness/cache/attend_kernels.h"

enum {
    TILE = KVR_ATTEND_TILE,
    QBLOCK = 48,          /* query rows per block */
    PAD = KVR_ATTEND_PAD, /* rows of values are padded to a multiple of PAD floats */
    MAX_D = KVR_ATTEND_MAX_D,
};

static inline int padded(int n)
{
    return (n + PAD - 1) / PAD * PAD;
}

/* ---- tiles (attend_tiles.c) -------------------------------------------------------------- */

/* Tokens [t0, t0 + n) of one span, counted from the span's first token. They are tokens [at, at +
 * n) of the tile. */
struct part {
    const struct kvr_span *span;
    int64_t t0;
    int n, at;
};

/* A tile of up to TILE tokens from one or more spans; each element of part [n_parts] holds tokens
 * of one span. A codec may store rotated keys or values, that is, multiplied by an orthogonal
 * matrix (`hadamard`, `rotate`). Either all keys of a tile are rotated (`rot_k`), or none. The same
 * applies to the values (`rot_v`). */
struct tile {
    struct part part[TILE];
    int n_parts, n;
    bool rot_k, rot_v;
    bool bytes;  /* whether its keys and values are requantized to int8 (attend_dot.h) */
    bool biased; /* whether scores of the tile need a bias, because a token replaces several
                  * original tokens or the last panel is padded */
    bool causal; /* whether the tile's tokens belong to the current chunk and attention to this
                  * chunk is causal */
};

/* Where the next tile begins: at token t of span number `span` of the job (attention call). */
struct cursor {
    int span;
    int64_t t;
};

/* Sets *out to the next tile of head h, and advances the cursor. Spans that do not store head h are
 * skipped. If h is -1, every span must store all heads, and the tile applies to all of them. After
 * the last span the tile is empty (n is 0). */
void kvr_tile_next(const struct kvr_attend_job *job, int h, struct cursor *c, struct tile *out);
/* Decodes the tile's keys of head h to rows [n][D], or the tile's values if `values` is true. If
 * the codec stores them rotated, the decoded rows are rotated too. */
void kvr_tile_load(const struct kvr_attend_job *job, const struct tile *tile, int h, bool values,
                   float *rows);

/* Subtracts the correction job->correction from the scores s [m][stride] of the tile's quantized
 * keys. The queries q [m][D] must be rotated if these keys are rotated. */
void kvr_tile_subtract_correction(const struct kvr_attend_job *job, const struct tile *tile, int h,
                                  const float *q, int m, float *s, int stride);
/* Applies the causal mask: for each query row in [r0, r0 + m), sets the scores of the tokens after
 * the query's token to -infinity. */
void kvr_tile_mask_causal(const struct kvr_attend_job *job, const struct tile *tile, int64_t r0,
                          int m, float *s, int stride);

/* Whether a span has tokens of a codec other than `raw`. */
bool kvr_span_coded(const struct kvr_span *s);
/* Whether the codec of the span stores rotated keys, or rotated values if `values` is true. */
bool kvr_span_rotated(const struct kvr_span *s, bool values);

/* ---- queries ----------------------------------------------------------------------------- */

/* A query row is one token's query in one query head. The rows of a KV head are ordered by token;
 * each token has job->group rows, one per query head that shares the KV head. */
static inline int group_of(const struct kvr_attend_job *job)
{
    return job->group ? job->group : 1;
}

static inline int64_t rows_of(const struct kvr_attend_job *job)
{
    return job->n_query * group_of(job);
}

/* Index, in the queries [T,H,group], of query row r of KV head h. */
static inline int64_t query_of(const struct kvr_attend_job *job, int h, int64_t r)
{
    const int g = group_of(job);

    return (r / g * job->n_heads + h) * g + r % g;
}

/* Softmax states, with one row per head and query. */
struct state {
    float *mx, *sum;      /* [H*T] */
    float *acc, *acc_rot; /* [H*T][padded D]: output accumulated over values that are not rotated
                           * (`acc`) and over rotated values (`acc_rot`) */
    float *q, *q_rot;     /* [H*T][D]: queries times 1/sqrt(D); `q_rot` is rotated like the rotated
                           * keys */
    /* `k_space` is a codec that rotates keys; NULL: no span has rotated keys. `v_space` is a codec
     * that rotates values; NULL: no span has rotated values. */
    const struct kvr_codec *k_space, *v_space;
    /* For int8 attention: the quantized queries, and the mean key mu [H][D] of each head. `code`
     * and `mu` are used for keys that are not rotated, `code_rot` and `mu_rot` for rotated keys. */
    struct kvr_dot_queries code, code_rot;
    float *mu, *mu_rot;
};

/* Whether the causal mask hides all tokens of the tile from query rows [at, at + m). If job->past
 * is not NULL, the call for the first causal tile also writes there, per row, the logarithm of the
 * sum of e^score over past chunks. */
bool kvr_tile_after(const struct kvr_attend_job *job, const struct state *st,
                    const struct tile *tile, int h, int64_t at, int m);
/* Multiplies the accumulated output of query row at + i, for each i < m, by rescale[i], which the
 * online softmax has computed. */
void kvr_state_rescale(const struct kvr_attend_job *job, const struct state *st, int64_t at, int m,
                       const float *rescale);

/* One decoded tile of one head, packed into panels (attend_kernels.h). */
struct staged {
    float *k;    /* [TILE / PAD][D][PAD] */
    float *v;    /* [padded D / PAD][tokens][PAD] */
    float *bias; /* [TILE]: log of the number of original tokens that each token replaces; -INFINITY
                  * past the last token */
};

/* Whether the panels of the tile are BF16 (attend_bf16.h); BF16 panels use the memory of the F32
 * panels. A tile has BF16 panels if job->bf16 is set, head_dim is at least 16, and the tile is not
 * requantized to int8. */
bool kvr_tile_bf16(const struct kvr_attend_job *job, const struct tile *tile);
/* Decodes the tile's keys of head h, or the tile's values if `values` is true, and packs them into
 * BF16 panels. */
void kvr_bf16_stage(const struct kvr_attend_job *job, const struct tile *tile, int h, bool values,
                    struct staged out);
/* Returns how many of the tiles tile[0], tile[1], ... tile[n - 1] one softmax call can process
 * together. The result is at least 1. */
int kvr_bf16_tiles_per_softmax(const struct kvr_attend_job *job, const struct tile *tile, int n);
/* Computes the attention of query rows [at, at + m) to n decoded tiles; m is at most KVR_BF16_ROWS.
 * The panels of successive tiles are `next` floats apart. */
void kvr_bf16_attend(const struct kvr_attend_job *job, const struct state *st, int h, int64_t at,
                     int m, const struct tile *tile, int n, struct staged kv, size_t next);

/* The functions below compute attention to int8 panels (attend_int8.c, attend_dot.h). `at` is the
 * first query row, and m is the number of query rows. */

/* Returns the size, in floats, of the memory for the quantized queries and the mean keys mu.
 * Rotated keys need separate memory of this size. `rows` is the number of query rows of all
 * heads. */
size_t kvr_int8_floats(int head_dim, int n_heads, size_t rows);
/* Divides the memory at `base` into the arrays of *code and the array *mu. Returns the end of these
 * arrays. */
float *kvr_int8_carve(float *base, int head_dim, int n_heads, size_t rows,
                      struct kvr_dot_queries *code, float **mu);
/* Computes mu, the mean key of the first int8 tile, for each head, and quantizes the queries. Both
 * are done once for keys that are not rotated and once for rotated keys. All threads of an OpenMP
 * team must call this function. */
void kvr_int8_code_queries(const struct kvr_attend_job *job, const struct state *st);

/* Quantizes the key rows [n][D] of a tile and packs them into `out`. */
void kvr_int8_stage_keys(const struct state *st, const struct tile *tile, int h, int d,
                         const float *rows, struct staged out);
/* Quantizes the value rows [n][D] of a tile and packs them into `out`. */
void kvr_int8_stage_values(const struct tile *tile, int d, const float *rows, struct staged out);
/* Computes the scores s [m][TILE] of query rows [at, at + m) for the tile's first `wide` keys,
 * including the padding. */
void kvr_int8_scores(const struct state *st, const struct tile *tile, struct staged kv, int64_t at,
                     int m, int d, int wide, float *s);
/* Adds the products of softmax weights and the tile's values to acc [m][padded D]. The weights are
 * the codes `p` and their quantization steps `weight`, as written by
 * kvr_dot_kernels.online_softmax. */
void kvr_int8_add_values(const struct tile *tile, struct staged kv, const uint8_t *p,
                         const float *weight, int m, int d, float *acc);

#endif
