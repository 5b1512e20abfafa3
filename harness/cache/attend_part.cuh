/* attend_part.cuh - assigns queries and KV tiles to the CTAs of a split-KV launch (attend_split.h),
 * and locates the memory to which a CTA writes its result. */
#ifndef KVR_CACHE_ATTEND_PART_CUH
#define KVR_CACHE_ATTEND_PART_CUH

#include "harness/cache/attend_cuda.h"
#include "harness/cache/attend_split.h"
#include "harness/device/kernel.cuh"

enum { PART_QUERIES = KVR_ATTEND_SPLIT_QUERIES };

/* Split-KV partition of a launch. Each of the first n_whole CTAs processes all n_tiles KV tiles for
 * one query block. The remaining CTAs process n_cut query blocks. For each of these query blocks,
 * the KV tiles are split into parts of `tiles` tiles, with one CTA per part. */
struct cut {
    int n_tiles, n_whole, n_cut, tiles;
};

static inline struct cut cut_of(const struct kvr_attend_split *s, int n_tiles)
{
    return { n_tiles, (int)s->n_whole, (int)s->n_cut, (int)s->tiles };
}

/* A CTA processes KV tiles [first, first + n) of head h for PART_QUERIES queries, from query index
 * `query` on. */
struct part {
    int first, n, h, query;
    /* -1 if the CTA processes all KV tiles and writes the softmax state or the output; if the query
     * block is split, the index of the CTA's partial result in the array of all partial results */
    int slot;
    /* Whether the CTA belongs to a pair 2 i, 2 i + 1 of CTAs that compute adjacent query blocks of
     * one head over the same KV tiles. */
    bool paired;
};

/* A block of PART_QUERIES queries of one head. The lowest block numbers belong to pairs of adjacent
 * blocks, head by head. If the number of query blocks per head is odd, the unpaired last block of
 * every head has a number after those of all pairs. */
struct piece {
    int h, query;
    bool paired;
};

static __device__ __forceinline__ struct piece piece_of(const struct kvr_attend_shape &a, int i)
{
    const int row = (int)((a.n_query + PART_QUERIES - 1) / PART_QUERIES), even = row & ~1;

    if (i < even * a.n_heads)
        return { i / even, i % even * PART_QUERIES, true };
    return { i - even * a.n_heads, even * PART_QUERIES, false };
}

static __device__ __forceinline__ struct part part_of(const struct kvr_attend_shape &a,
                                                      const struct cut &c)
{
    const int b = (int)blockIdx.x;
    const bool whole = b < c.n_whole;
    const struct piece piece = piece_of(a, whole ? b : c.n_whole + (b - c.n_whole) % c.n_cut);
    struct part p = { 0, c.n_tiles, piece.h, piece.query, -1, piece.paired };

    if (whole)
        return p;
    p.slot = b - c.n_whole;
    p.first = p.slot / c.n_cut * c.tiles;
    p.n = c.n_tiles - p.first < c.tiles ? c.n_tiles - p.first : c.tiles;
    return p;
}

/* Location of a CTA's query rows in the arrays mx, sum and acc of a softmax state or of a partial
 * result. Query row i of the CTA, 0 <= i < n, is row `at` + i * `step` of these arrays. The
 * structure stores row indices instead of row addresses, because the compiler would keep a
 * precomputed address in a register during the main loop. On sm_100 no register is free for the
 * address. */
struct rows_at {
    int64_t at;
    int step, n;
    kvr_global<float> mx, sum, acc;
};

static __device__ __forceinline__ struct rows_at
rows_of_part(const struct kvr_attend_shape &a, const struct cut &c, int slot, int h, int query,
             const struct kvr_attend_io &io, kvr_global<float> parts)
{
    const int left = (int)(a.n_query - query), n = left < PART_QUERIES ? left : (int)PART_QUERIES;
    const bool whole = slot < 0;
    const kvr_global<float> mx(io.state.mx), sum(io.state.sum), acc(io.state.acc);
    const int64_t n_rows = (int64_t)(gridDim.x - (unsigned)c.n_whole) * PART_QUERIES;

    return { whole ? (int64_t)query * a.n_heads + h : (int64_t)slot * PART_QUERIES,
             whole ? a.n_heads : 1,
             n,
             whole ? mx : parts,
             (whole ? sum : parts) + (whole ? 0 : n_rows),
             (whole ? acc : parts) + (whole ? 0 : 2 * n_rows) };
}

#endif
