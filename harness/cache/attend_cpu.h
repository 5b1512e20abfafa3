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

/* A run of tokens of one span, and its position in the tile. */
struct part {
    const struct kvr_span *span;
    int64_t t0;
    int n, at;
};

/* A tile of tokens, which come from one or more spans (`part`). All keys of a tile are rotated, or
 * none of them; all values of a tile are rotated, or none of them. */
struct tile {
    struct part part[TILE];
    int n_parts, n;
    bool rot_k, rot_v;
    bool bytes;  /* staged in int8 */
    bool biased; /* whether scores of the tile need a bias, because a token replaces several
                  * original tokens or the last panel is padded */
    bool causal; /* whether the tokens of the tile belong to the causal span, which is the current
                  * chunk under a causal mask */
};

/* Where the next tile begins: at token t of span number `span` of the job (attention call). */
struct cursor {
    int span;
    int64_t t;
};

/* Sets *out to the next tile of the spans that store head h. If h is -1, every span must store all
 * heads, and the tile is for all heads. After the last span the tile is empty. */
void kvr_tile_next(const struct kvr_attend_job *job, int h, struct cursor *c, struct tile *out);
/* Decodes the tile's keys of head h to rows [n][D], or the tile's values if `values` is true. If
 * the codec rotates keys or values, the rows stay rotated. */
void kvr_tile_load(const struct kvr_attend_job *job, const struct tile *tile, int h, bool values,
                   float *rows);

/* Subtracts the correction from the scores s [m][stride] of quantized keys. The queries q [m][D]
 * must be rotated if the tile's keys are rotated. */
void kvr_tile_subtract_correction(const struct kvr_attend_job *job, const struct tile *tile, int h,
                                  const float *q, int m, float *s, int stride);
/* Applies the causal mask: for each query row in [r0, r0 + m), sets the scores of the tokens after
 * the query's token to -infinity. */
void kvr_tile_mask_causal(const struct kvr_attend_job *job, const struct tile *tile, int64_t r0,
                          int m, float *s, int stride);

/* Whether a span has tokens of a codec other than `raw`. */
bool kvr_span_coded(const struct kvr_span *s);
/* Whether the span's keys (its values if `values` is true) are stored in rotated space. */
bool kvr_span_rotated(const struct kvr_span *s, bool values);

/* ---- queries ----------------------------------------------------------------------------- */

/* The query rows of one KV head are ordered by token; a token has one row per query head of the
 * group. */
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
    float *acc, *acc_rot; /* outputs accumulated over plain and over rotated values, [H*T][padded
                           * D] */
    float *q, *q_rot;     /* queries times 1/sqrt(D), plain and rotated, [H*T][D] */
    /* k_space: codec whose transform rotates keys; v_space: codec whose transform rotates values.
     * Each is NULL if no span has rotated keys or values, respectively. */
    const struct kvr_codec *k_space, *v_space;
    /* Int8 attention only: quantized queries, and each head's mean key mu [H][D]. `code` and `mu`
     * are for plain keys, `code_rot` and `mu_rot` for rotated keys. */
    struct kvr_dot_queries code, code_rot;
    float *mu, *mu_rot;
};

/* Whether all tokens of the causal tile come after the tokens of query rows [at, at + m). If
 * job->past is not NULL, the call for the first causal tile also saves the rows' sums of softmax
 * weights over past chunks. */
bool kvr_tile_after(const struct kvr_attend_job *job, const struct state *st,
                    const struct tile *tile, int h, int64_t at, int m);
/* Multiplies the accumulated outputs of m rows, from row `at` on, by the factors `rescale` of the
 * online softmax. */
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
 * panels. If the attention call has the flag job->bf16 and head_dim is at least 16, every tile has
 * BF16 panels unless it is quantized to int8. */
bool kvr_tile_bf16(const struct kvr_attend_job *job, const struct tile *tile);
/* Decodes the tile's keys of head h, or the tile's values if `values` is true, and packs them into
 * BF16 panels. */
void kvr_bf16_stage(const struct kvr_attend_job *job, const struct tile *tile, int h, bool values,
                    struct staged out);
/* Number of tiles, counted from tile[0], that one softmax call can process together; at most n. */
int kvr_bf16_tiles_per_softmax(const struct kvr_attend_job *job, const struct tile *tile, int n);
/* Computes attention of m <= KVR_BF16_ROWS query rows, from row `at` on, to n decoded tiles. The
 * panels of successive tiles are `next` floats apart. */
void kvr_bf16_attend(const struct kvr_attend_job *job, const struct state *st, int h, int64_t at,
                     int m, const struct tile *tile, int n, struct staged kv, size_t next);

/* The functions below compute attention to int8 panels (attend_int8.c, attend_dot.h). `at` is the
 * first query row, and m is the number of query rows. */

/* Number of floats that the quantized queries and the mean keys mu need, for plain or for rotated
 * keys; `rows` counts the query rows of all heads. */
size_t kvr_int8_floats(int head_dim, int n_heads, size_t rows);
/* Sets the pointers in `code` and *mu to consecutive arrays from `base` on. Returns the end of
 * these arrays. */
float *kvr_int8_carve(float *base, int head_dim, int n_heads, size_t rows,
                      struct kvr_dot_queries *code, float **mu);
/* Computes the mean key mu of each head and quantizes the queries, for plain and for rotated keys.
 * All threads of an OpenMP team must call this function. */
void kvr_int8_code_queries(const struct kvr_attend_job *job, const struct state *st);

/* Quantizes the key rows [n][D] of a tile and packs them into `out`. */
void kvr_int8_stage_keys(const struct state *st, const struct tile *tile, int h, int d,
                         const float *rows, struct staged out);
/* Quantizes the value rows [n][D] of a tile and packs them into `out`. */
void kvr_int8_stage_values(const struct tile *tile, int d, const float *rows, struct staged out);
/* Computes the first `wide` columns of the scores s [m][TILE] for the m query rows from `at` on. */
void kvr_int8_scores(const struct state *st, const struct tile *tile, struct staged kv, int64_t at,
                     int m, int d, int wide, float *s);
/* acc [m][padded D] += p values, with p as written by kvr_dot_kernels.online_softmax. */
void kvr_int8_add_values(const struct tile *tile, struct staged kv, const uint8_t *p,
                         const float *weight, int m, int d, float *acc);

#endif
