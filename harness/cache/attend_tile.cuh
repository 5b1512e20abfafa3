/* attend_tile.cuh - TILE keys or values of one head, from whatever holds them to BF16 in shared
 * memory. What is decoded is what grid.h defines, rounded once. Tokens not of the span become 0.
 *
 *     fetch_rows     plain BF16 rows: asynchronous copies into the tile
 *     fetch_grids    codes and steps: asynchronous copies into a stage
 *     decode         from the stage, or from plain rows in global memory, into the tile
 *     put            elements held exactly overwrite what the grids made of them
 *
 * Rows of a tile are 8 elements longer than they need to be, so that 8 rows read at the same
 * columns meet all banks. */
#ifndef KVR_CACHE_ATTEND_TILE_CUH
#define KVR_CACHE_ATTEND_TILE_CUH

#include "harness/cache/attend_mma.h"
#include "harness/device/mma.cuh"
#include "methods/codecs/grid/grid.h"
#include "methods/kernels/planes.cuh"

enum { MMA_WARPS = 4, MMA_THREADS = 32 * MMA_WARPS, TILE = KVR_ATTEND_MMA_TILE, MAX_GRIDS = 2 };

enum source_kind { ROWS_BF16, ROWS_F32, ROWS_ZERO, GRIDS };

struct tile_grid {
    const uint8_t *codes;
    const kvr_f16 *meta;
    int64_t n_sets; /* as stored, and */
    int n_tok;
    int bits, axis, group; /* group: of a whole token, D */
    bool asym, study;
};

struct tile_source {
    enum source_kind kind;
    const void *rows;
    int n_grids;
    struct tile_grid grid[MAX_GRIDS];
    const kvr_f16 *value; /* held exactly, at the ascending flat indices `index` */
    const int32_t *index;
    int n_exact;
};

/* Which tokens, of which head. */
struct tile_place {
    int t0, end; /* of the span */
    int n_heads, head_dim, h;
};

/* ---- the stage, by byte: of every grid its codes [8 bits][W], steps, zero points ------------- */

/* Steps that a tile meets, at most; TOKENS: rows of W. */
static __host__ __device__ __forceinline__ int stage_steps(const struct tile_grid &g, int head_dim,
                                                           int w)
{
    const int rows = (TILE + g.group - 9) / g.group + 1;

    if (g.axis == KVR_AXIS_TOKENS)
        return rows * w;
    return g.axis == KVR_AXIS_CHANNELS ? TILE * (head_dim / g.group) : TILE;
}

static __host__ __device__ __forceinline__ int stage_bytes(const struct tile_grid &g, int head_dim,
                                                           int w)
{
    return 8 * g.bits * w + (g.asym ? 2 : 1) * 2 * stage_steps(g, head_dim, w);
}

/* ---- fetch -------------------------------------------------------------------------------- */

/* One plane of f-bit fields of the tile that begins at token `tile`. */
template <int W, int F>
static __device__ __forceinline__ void
fetch_plane(const struct tile_grid &g, const struct tile_place &p, int tile, int64_t &plane,
            kvr_global<const uint8_t> codes, int &at, kvr_shared<uint8_t> stage)
{
    const int64_t channels = (int64_t)p.n_heads * p.head_dim;
    const int rows = (int)kvr_plane_rows(g.n_tok, F), first = tile / 8 * F;

    if (!(g.bits & F))
        return;
    for (int i = kvr_thread(); i < 8 * F * (W / 16); i += MMA_THREADS) {
        const int r = i / (W / 16), c = i % (W / 16) * 16;
        const bool there = first + r < rows;
        const int64_t row = there ? plane + (first + r) * channels : 0;

        if (c < p.head_dim)
            kvr_copy_begin(kvr_as<uint4>(stage + at + r * W + c),
                           kvr_as<const uint4>(codes + row + p.h * p.head_dim + c), there);
    }
    plane += rows * channels;
    at += 8 * F * W;
}

template <int W>
static __device__ __forceinline__ void
fetch_steps(const struct tile_grid &g, const struct tile_place &p, int tile,
            kvr_global<const kvr_f16> meta, kvr_shared<kvr_f16> out)
{
    const int64_t channels = (int64_t)p.n_heads * p.head_dim;
    const int first_channel = p.h * p.head_dim;

    if (g.axis == KVR_AXIS_TOKENS) {
        const int first = (int)((unsigned)tile / (unsigned)g.group);
        const int rows = (int)((unsigned)(tile + TILE - 1) / (unsigned)g.group) - first + 1;

        for (int i = kvr_thread(); i < rows * (W / 8); i += MMA_THREADS) {
            const int r = i / (W / 8), c = i % (W / 8) * 8;
            const int64_t set = (first + r) * channels;
            const bool there = set < g.n_sets;

            if (c < p.head_dim)
                kvr_copy_begin(kvr_as<uint4>(out + r * W + c),
                               kvr_as<const uint4>(meta + (there ? set : 0) + first_channel + c),
                               there);
        }
    } else {
        const int per = g.axis == KVR_AXIS_CHANNELS ? p.head_dim / g.group : 1;
        const int64_t of_token = g.axis == KVR_AXIS_CHANNELS ? channels / g.group : 1;

        for (int i = kvr_thread(); i < TILE * per; i += MMA_THREADS) {
            const int t = tile + i / per;
            const int64_t set = t * of_token + (of_token > 1 ? p.h * per : 0) + i % per;

            out[i] = t < g.n_tok ? (kvr_f16)meta[set] : (kvr_f16)0;
        }
    }
}

/* Begins to copy rows of BF16, into the tile itself. */
template <int W>
static __device__ __forceinline__ void fetch_rows(const struct tile_source &s,
                                                  const struct tile_place &p, int tile,
                                                  kvr_shared<kvr_bf16> rows)
{
    const kvr_global<const kvr_bf16> x((const kvr_bf16 *)s.rows);

#pragma unroll 4
    for (int i = kvr_thread(); i < TILE * (W / 8); i += MMA_THREADS) {
        const int r = i / (W / 8), c = i % (W / 8) * 8;
        const int t = tile + r;
        const bool there = t >= p.t0 && t < p.end;
        const int64_t at = ((int64_t)(there ? t : p.t0) * p.n_heads + p.h) * p.head_dim + c;

        if (c < p.head_dim)
            kvr_copy_begin(kvr_as<uint4>(rows + r * (W + 8) + c), kvr_as<const uint4>(x + at),
                           there);
    }
}

/* Begins to copy codes and steps, into the stage. */
template <int W>
static __device__ __forceinline__ void fetch_grids(const struct tile_source &s,
                                                   const struct tile_place &p, int tile,
                                                   kvr_shared<uint8_t> stage)
{
#pragma unroll
    for (int i = 0; i < MAX_GRIDS; i++) {
        if (i >= s.n_grids)
            return;
        const struct tile_grid &g = s.grid[i];
        const kvr_global<const uint8_t> codes(g.codes);
        const kvr_global<const kvr_f16> meta(g.meta);
        const int steps = stage_steps(g, p.head_dim, W);
        int64_t plane = 0;
        int at = i ? stage_bytes(s.grid[0], p.head_dim, W) : 0;

        fetch_plane<W, 8>(g, p, tile, plane, codes, at, stage);
        fetch_plane<W, 4>(g, p, tile, plane, codes, at, stage);
        fetch_plane<W, 2>(g, p, tile, plane, codes, at, stage);
        fetch_plane<W, 1>(g, p, tile, plane, codes, at, stage);
        fetch_steps<W>(g, p, tile, meta, kvr_as<kvr_f16>(stage + at));
        if (g.asym)
            fetch_steps<W>(g, p, tile, meta + g.n_sets, kvr_as<kvr_f16>(stage + at) + steps);
    }
}

/* ---- decode ------------------------------------------------------------------------------- */

/* Four channels of a set: x = (q - off) s + m. `off` has 2^23 in it: so does a code that was made
 * a float by putting it into the last bits of 2^23, and the difference is exact. */
struct levels {
    float s[4], off[4], m[4];
};

static __device__ __forceinline__ void set_level(const struct tile_grid &g, unsigned step,
                                                 unsigned zero, float &s, float &off, float &m)
{
    const float magic = 8388608.0f;
    const float z = g.asym ? kvr_float_of((kvr_f16)zero) : 0.0f;

    s = kvr_float_of((kvr_f16)step);
    off = magic + (!g.asym ? (float)(1 << (g.bits - 1)) : g.study ? z : 0.0f);
    m = g.asym && !g.study ? z : 0.0f;
}

/* Where the steps of channels [c, c + 4) of the tile's token i are. Of groups of channels, which
 * are multiples of 4, and of whole tokens they are one. */
template <int W>
static __device__ __forceinline__ struct levels levels_of(const struct tile_grid &g,
                                                          const struct tile_place &p, int tile,
                                                          int i, int c, kvr_shared<uint8_t> stage)
{
    const kvr_shared<kvr_f16> steps = kvr_as<kvr_f16>(stage + 8 * g.bits * W);
    const int zeros = stage_steps(g, p.head_dim, W);
    struct levels l;

    if (g.axis == KVR_AXIS_TOKENS) {
        const int at =
            (int)(((unsigned)tile % (unsigned)g.group + (unsigned)i) / (unsigned)g.group) * W + c;
        const uint2 s = kvr_as<uint2>(steps + at)[0];
        const uint2 z = g.asym ? (uint2)kvr_as<uint2>(steps + zeros + at)[0] : s;

        set_level(g, s.x & 0xffffu, z.x & 0xffffu, l.s[0], l.off[0], l.m[0]);
        set_level(g, s.x >> 16, z.x >> 16, l.s[1], l.off[1], l.m[1]);
        set_level(g, s.y & 0xffffu, z.y & 0xffffu, l.s[2], l.off[2], l.m[2]);
        set_level(g, s.y >> 16, z.y >> 16, l.s[3], l.off[3], l.m[3]);
    } else {
        const int at = g.axis == KVR_AXIS_CHANNELS ? i * (p.head_dim / g.group) + c / g.group : i;

        set_level(g, (kvr_f16)steps[at], g.asym ? (kvr_f16)steps[zeros + at] : (kvr_f16)0, l.s[0],
                  l.off[0], l.m[0]);
#pragma unroll
        for (int e = 1; e < 4; e++) {
            l.s[e] = l.s[0];
            l.off[e] = l.off[0];
            l.m[e] = l.m[0];
        }
    }
    return l;
}

/* Fields of F bits of 8 tokens and four channels: into the bytes of codes[8], from bit `low` on. */
template <int W, int F>
static __device__ __forceinline__ void read_plane(int low, kvr_shared<uint8_t> at, unsigned *codes)
{
    const unsigned mask = ((1u << F) - 1u) * 0x01010101u;

#pragma unroll
    for (int r = 0; r < F; r++) {
        const unsigned raw = kvr_as<unsigned>(at + r * W)[0];

#pragma unroll
        for (int i = 0; i < 8 / F; i++)
            codes[r * (8 / F) + i] |= (raw >> (F * i) & mask) << low;
    }
}

/* Codes of the 8 tokens from 8 o on, channels [c, c + 4), one word per token. */
template <int W>
static __device__ __forceinline__ void read_codes(const struct tile_grid &g, int o, int c,
                                                  kvr_shared<uint8_t> stage, unsigned *codes)
{
    int at = c, low = g.bits;

#pragma unroll
    for (int i = 0; i < 8; i++)
        codes[i] = 0;
    if (g.bits == 4) { /* these two are most of what there is */
        read_plane<W, 4>(0, stage + at + o * 4 * W, codes);
        return;
    }
    if (g.bits == 2) {
        read_plane<W, 2>(0, stage + at + o * 2 * W, codes);
        return;
    }
    if (g.bits & 8) {
        read_plane<W, 8>(0, stage + at + o * 8 * W, codes);
        return;
    }
    if (g.bits & 4) {
        read_plane<W, 4>(low -= 4, stage + at + o * 4 * W, codes);
        at += 8 * 4 * W;
    }
    if (g.bits & 2) {
        read_plane<W, 2>(low -= 2, stage + at + o * 2 * W, codes);
        at += 8 * 2 * W;
    }
    if (g.bits & 1)
        read_plane<W, 1>(low - 1, stage + at + o * W, codes);
}

static __device__ __forceinline__ float value_of(const struct levels &l, unsigned codes, int e)
{
    const unsigned which = 0x7540u + (unsigned)e; /* byte e, 0, 0, 0x4b: 2^23 + byte */

    return fmaf(__uint_as_float(__byte_perm(codes, 0x4b000000u, which)) - l.off[e], l.s[e], l.m[e]);
}

template <int W>
static __device__ __forceinline__ void
decode_grids(const struct tile_source &s, const struct tile_place &p, int tile, int o, int c,
             kvr_shared<uint8_t> stage, kvr_shared<kvr_bf16> rows)
{
    const bool both = s.n_grids > 1;
    const kvr_shared<uint8_t> second = stage + stage_bytes(s.grid[0], p.head_dim, W);
    struct levels l[2];
    unsigned codes[2][8];

    read_codes<W>(s.grid[0], o, c, stage, codes[0]);
    l[0] = levels_of<W>(s.grid[0], p, tile, 8 * o, c, stage);
    l[1] = l[0];
    if (both) {
        read_codes<W>(s.grid[1], o, c, second, codes[1]);
        l[1] = levels_of<W>(s.grid[1], p, tile, 8 * o, c, second);
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int t = tile + 8 * o + i;
        const bool there = t >= p.t0 && t < p.end;
        float x[4];
        uint2 pair;

        if (s.grid[0].axis != KVR_AXIS_TOKENS)
            l[0] = levels_of<W>(s.grid[0], p, tile, 8 * o + i, c, stage);
#pragma unroll
        for (int e = 0; e < 4; e++)
            x[e] = value_of(l[0], codes[0][i], e);
        if (both) {
            if (s.grid[1].axis != KVR_AXIS_TOKENS)
                l[1] = levels_of<W>(s.grid[1], p, tile, 8 * o + i, c, second);
#pragma unroll
            for (int e = 0; e < 4; e++)
                x[e] += value_of(l[1], codes[1][i], e);
        }
        pair.x = there ? kvr_bf16_pair(x[0], x[1]) : 0u;
        pair.y = there ? kvr_bf16_pair(x[2], x[3]) : 0u;
        kvr_as<uint2>(rows + (8 * o + i) * (W + 8) + c)[0] = pair;
    }
}

/* Rows that nothing stages: from global memory. */
template <int W>
static __device__ __forceinline__ void decode_rows(const struct tile_source &s,
                                                   const struct tile_place &p, int tile, int o,
                                                   int c, kvr_shared<kvr_bf16> rows)
{
    const kvr_global<const float> f32((const float *)s.rows);
    const kvr_global<const kvr_bf16> bf16((const kvr_bf16 *)s.rows);

#pragma unroll 4
    for (int i = 0; i < 8; i++) {
        const int t = tile + 8 * o + i;
        const int64_t at = ((int64_t)t * p.n_heads + p.h) * p.head_dim + c;
        const bool there = t >= p.t0 && t < p.end;
        uint2 pair = { 0, 0 };

        if (there && s.kind == ROWS_BF16)
            pair = kvr_as<const uint2>(bf16 + at)[0];
        if (there && s.kind == ROWS_F32) {
            const float4 v = kvr_as<const float4>(f32 + at)[0];

            pair.x = kvr_bf16_pair(v.x, v.y);
            pair.y = kvr_bf16_pair(v.z, v.w);
        }
        kvr_as<uint2>(rows + (8 * o + i) * (W + 8) + c)[0] = pair;
    }
}

/* What was fetched, and has arrived, to the tile. */
template <int W>
static __device__ __forceinline__ void decode(const struct tile_source &s,
                                              const struct tile_place &p, int tile,
                                              kvr_shared<uint8_t> stage, kvr_shared<kvr_bf16> rows)
{
#pragma unroll 1
    for (int i = kvr_thread(); i < TILE / 8 * (W / 4); i += MMA_THREADS) {
        const int o = i / (W / 4), c = i % (W / 4) * 4;

        if (c >= p.head_dim)
            continue;
        if (s.kind == GRIDS)
            decode_grids<W>(s, p, tile, o, c, stage, rows);
        else
            decode_rows<W>(s, p, tile, o, c, rows);
    }
}

/* ---- elements held exactly ------------------------------------------------------------------ */

/* The first entry of this thread, which has every MMA_THREADS-th, that is not before the span. */
static __device__ __forceinline__ int first_exact(const struct tile_source &s,
                                                  const struct tile_place &p)
{
    const int want = p.t0 * p.n_heads * p.head_dim;
    const kvr_global<const int32_t> index(s.index);
    int lo = 0, n = s.n_exact;

    while (n > 0) {
        const int half = n / 2;
        const bool below = (int32_t)index[lo + half] < want;

        lo = below ? lo + half + 1 : lo;
        n = below ? n - half - 1 : half;
    }
    return lo + (kvr_thread() - lo % MMA_THREADS + MMA_THREADS) % MMA_THREADS;
}

/* Entries of the tile, from `next` on, which moves behind them: their values into `rows`, or a 0
 * for each; rows of `stride`. */
template <bool ZEROS>
static __device__ __forceinline__ int put(const struct tile_source &s, const struct tile_place &p,
                                          int tile, int next, kvr_shared<kvr_bf16> rows, int stride)
{
    const int channels = p.n_heads * p.head_dim; /* flat indices are int32 */
    const int end = tile + TILE < p.end ? tile + TILE : p.end;
    const kvr_global<const int32_t> index(s.index);
    const kvr_global<const kvr_f16> value(s.value);

    for (; next < s.n_exact; next += MMA_THREADS) {
        const int flat = index[next];
        const int t = flat / channels, c = flat % channels - p.h * p.head_dim;

        if (t >= end)
            break;
        if (t >= p.t0 && c >= 0 && c < p.head_dim)
            rows[(t - tile) * stride + c] =
                ZEROS ? (kvr_bf16)0 : (kvr_bf16)kvr_bf16_pair(kvr_float_of(value[next]), 0);
    }
    return next;
}

#endif
