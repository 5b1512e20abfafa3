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
    PAD = KVR_ATTEND_PAD, /* value rows are padded to whole vectors */
    MAX_D = KVR_ATTEND_MAX_D,
};

static inline int padded(int n)
{
    return (n + PAD - 1) / PAD * PAD;
}

/* ---- tiles (attend_tiles.c) -------------------------------------------------------------- */

/* A range of one span, and its position in the tile. */
struct part {
    const struct kvr_span *span;
    int64_t t0;
    int n, at;
};

/* A tile. Its parts share one space: all keys rotated or none, all values rotated or none. */
struct tile {
    struct part part[TILE];
    int n_parts, n;
    bool rot_k, rot_v;
    bool bytes;  /* staged in int8 */
    bool biased; /* some token has a multiplicity, or the last panel is partial */
    bool causal; /* the queries' own tokens; a single part */
};

/* Position of the next tile. */
struct cursor {
    int span;
    int64_t t;
};

/* The next tile of head h (-1: of all heads, if every span has all heads); empty at the end. */
void kvr_tile_next(const struct kvr_attend_job *job, int h, struct cursor *c, struct tile *out);
/* Decodes the tile's keys or values of head h: rows [n][D], in the tile's space. */
void kvr_tile_load(const struct kvr_attend_job *job, const struct tile *tile, int h, bool values,
                   float *rows);

/* Subtracts the correction from the scores s [m][stride] of coded keys; q [m][D] in the tile's key
 * space. */
void kvr_tile_subtract_correction(const struct kvr_attend_job *job, const struct tile *tile, int h,
                                  const float *q, int m, float *s, int stride);
/* Causal mask: sets scores of rows [r0, r0 + m) to -infinity for later tokens. */
void kvr_tile_mask_causal(const struct kvr_attend_job *job, const struct tile *tile, int64_t r0,
                          int m, float *s, int stride);

bool kvr_span_coded(const struct kvr_span *s);
bool kvr_span_rotated(const struct kvr_span *s, bool values);

/* ---- queries ----------------------------------------------------------------------------- */

/* Query rows of one KV head: token by token, all heads of the group for each token. */
static inline int group_of(const struct kvr_attend_job *job)
{
    return job->group ? job->group : 1;
}

static inline int64_t rows_of(const struct kvr_attend_job *job)
{
    return job->n_query * group_of(job);
}

/* Index of row r of KV head h in the queries [T,H,group]. */
static inline int64_t query_of(const struct kvr_attend_job *job, int h, int64_t r)
{
    const int g = group_of(job);

    return (r / g * job->n_heads + h) * g + r % g;
}

/* Softmax states; one row per (head, query). */
struct state {
    float *mx, *sum;      /* [H*T] */
    float *acc, *acc_rot; /* [H*T][padded D]: outputs in plain and in rotated space */
    float *q, *q_rot;     /* [H*T][D]: queries times 1/sqrt(D), plain and rotated */
    /* Codecs whose transform defines the rotated space of keys and of values; NULL: nothing is
     * rotated. */
    const struct kvr_codec *k_space, *v_space;
    /* int8 only, per space: quantized queries, and each head's mean key mu [H][D]. */
    struct kvr_dot_queries code, code_rot;
    float *mu, *mu_rot;
};

/* Whether all tokens of the causal tile come after rows [at, at + m). At the first causal tile,
 * also records the rows' sums of weights over the past if the job needs them. */
bool kvr_tile_after(const struct kvr_attend_job *job, const struct state *st,
                    const struct tile *tile, int h, int64_t at, int m);
/* Rescales the outputs of m rows from `at` on to their new maximum. */
void kvr_state_rescale(const struct kvr_attend_job *job, const struct state *st, int64_t at, int m,
                       const float *rescale);

/* ---- a tile in panels ------------------------------------------------------------------- */

/* One decoded tile of one head, in panels (attend_kernels.h). */
struct staged {
    float *k;    /* [TILE / PAD][D][PAD] */
    float *v;    /* [padded D / PAD][tokens][PAD] */
    float *bias; /* [TILE]: log of the multiplicity; -INFINITY past the last token */
};

/* Whether the tile's panels are BF16 (attend_bf16.h), in the same memory: tiles of a job with
 * `bf16` that are not staged in int8 (attend_cpu_bf16.c). */
bool kvr_tile_bf16(const struct kvr_attend_job *job, const struct tile *tile);
void kvr_bf16_stage(const struct kvr_attend_job *job, const struct tile *tile, int h, bool values,
                    struct staged out);
/* Number of the n staged tiles that one softmax takes. */
int kvr_bf16_tiles_per_softmax(const struct kvr_attend_job *job, const struct tile *tile, int n);
/* Attends from m <= KVR_BF16_ROWS queries, from row `at` on, to n tiles, `next` floats apart. */
void kvr_bf16_attend(const struct kvr_attend_job *job, const struct state *st, int h, int64_t at,
                     int m, const struct tile *tile, int n, struct staged kv, size_t next);

/* int8 panels (attend_int8.c, attend_dot.h). `at` is the first query row, m the number of rows. */

/* Floats needed for quantized queries and mu in one space; `rows` over all heads. */
size_t kvr_int8_floats(int head_dim, int n_heads, size_t rows);
/* Assigns the memory of the quantized queries and of mu from `base` on; returns the end of that
 * memory. */
float *kvr_int8_carve(float *base, int head_dim, int n_heads, size_t rows,
                      struct kvr_dot_queries *code, float **mu);
/* Computes mu and quantizes the queries in every space. Called by all threads of a team. */
void kvr_int8_code_queries(const struct kvr_attend_job *job, const struct state *st);

/* Packs keys or values of a tile, rows [n][D], into `out`. */
void kvr_int8_stage_keys(const struct state *st, const struct tile *tile, int h, int d,
                         const float *rows, struct staged out);
void kvr_int8_stage_values(const struct tile *tile, int d, const float *rows, struct staged out);
/* Computes the first `wide` columns of the scores s [m][TILE]. */
void kvr_int8_scores(const struct state *st, const struct tile *tile, struct staged kv, int64_t at,
                     int m, int d, int wide, float *s);
/* acc [m][padded D] += p values (kvr_dot_kernels.online_softmax). */
void kvr_int8_add_values(const struct tile *tile, struct staged kv, const uint8_t *p,
                         const float *weight, int m, int d, float *acc);

#endif
