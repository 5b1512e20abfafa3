/* attend_tile.cuh - TILE keys or values of one head, from whatever holds them to BF16 in shared
 * memory. What is decoded is what grid.h defines, rounded once. Tokens not of the span become 0.
 *
 *     fetch_rows     plain BF16 rows: asynchronous copies into the tile
 *     fetch_grids    codes and scales: asynchronous copies into a stage
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

/* What needs a division is worked out on the host: groups are powers of two. */
struct tile_grid {
    const uint8_t *codes;
    const kvr_f16 *meta;
    int64_t n_sets; /* as stored, and */
    int n_tok;
    int bits, axis;
    int shift;    /* log2 of the group; of a whole token, one that leaves 0 of any channel */
    int per;      /* sets that a token has of a head; TOKENS: 0 */
    int of_token; /* and of all heads: 1 of whole tokens */
    int lines;    /* TOKENS: rows of scales that there are */
    int scales;    /* scales that a tile meets, at most */
    float middle; /* of symmetric codes, else 0 */
    bool asym, study;
    bool eights; /* not TOKENS: scales lie so that eight are copied at once */
};

struct tile_source {
    enum source_kind kind;
    const void *rows;
    int n_grids;
    struct tile_grid grid[MAX_GRIDS];
    const kvr_f16 *value; /* held exactly, at the ascending flat indices `index` */
    const int32_t *index;
    int n_exact;
    bool packed; /* one grid over tokens, symmetric, of 2 or 4 bits: decoded two at a time */
};

/* Which tokens, of which head. */
struct tile_place {
    int t0, end; /* of the span */
    int n_heads, head_dim, h;
};

/* ---- the stage, by byte: of every grid its codes [8 bits][W], scales, zero points ------------- */

static __host__ __device__ __forceinline__ int stage_bytes(const struct tile_grid &g, int w)
{
    return 8 * g.bits * w + (g.asym ? 2 : 1) * 2 * g.scales;
}

/* ---- fetch -------------------------------------------------------------------------------- */

/* Planes of the tile that begins at token `tile`, from the widest on; what they take of the stage.
 */
template <int W>
static __device__ __forceinline__ int fetch_planes(const struct tile_grid &g,
                                                   const struct tile_place &p, int tile,
                                                   kvr_shared<uint8_t> stage)
{
    enum { LINE = W / 16, STEP = MMA_THREADS / LINE };
    const int channels = p.n_heads * p.head_dim, self = kvr_thread();
    kvr_global<const uint8_t> from(g.codes);
    int at = 0;

    if (!(g.bits & (g.bits - 1)) && tile + TILE <= g.n_tok) { /* one plane, and all of it there */
        const int r = self / LINE, c = self % LINE * 16;

        from = from + (int64_t)(tile / 8 * g.bits + r) * channels + p.h * p.head_dim + c;
        if (c < p.head_dim)
#pragma unroll 1
            for (int i = r; i < 8 * g.bits; i += STEP, from = from + STEP * channels)
                kvr_copy_begin(kvr_as<uint4>(stage + i * W + c), kvr_as<const uint4>(from), true);
        return 8 * g.bits * W;
    }
#pragma unroll 1
    for (int left = g.bits, f; left; left -= f) {
        f = 1 << (31 - __clz(left));
        const int rows = (int)kvr_plane_rows(g.n_tok, f), first = tile / 8 * f;

#pragma unroll 1
        for (int i = self; i < 8 * f * LINE; i += MMA_THREADS) {
            const int r = i / LINE, c = i % LINE * 16;
            const bool there = first + r < rows;

            if (c < p.head_dim)
                kvr_copy_begin(kvr_as<uint4>(stage + at + r * W + c),
                               kvr_as<const uint4>(from + p.h * p.head_dim + c +
                                                   (there ? (int64_t)(first + r) * channels : 0)),
                               there);
        }
        from = from + (int64_t)rows * channels;
        at += 8 * f * W;
    }
    return at;
}

/* Steps or zero points of one set for each group of 8 tokens or more: rows of W. */
template <int W>
static __device__ __forceinline__ void
fetch_token_scales(const struct tile_grid &g, const struct tile_place &p, int tile,
                  kvr_global<const kvr_f16> meta, kvr_shared<kvr_f16> out)
{
    const int first = tile >> g.shift, rows = ((tile + TILE - 1) >> g.shift) - first + 1;
    const int channels = p.n_heads * p.head_dim;

#pragma unroll 1
    for (int i = kvr_thread(); i < rows * (W / 8); i += MMA_THREADS) {
        const int r = i / (W / 8), c = i % (W / 8) * 8;
        const bool there = first + r < g.lines;

        if (c < p.head_dim)
            kvr_copy_begin(kvr_as<uint4>(out + r * W + c),
                           kvr_as<const uint4>(meta + (int64_t)(there ? first + r : 0) * channels +
                                               p.h * p.head_dim + c),
                           there);
    }
}

/* Of sets of channels, or of whole tokens: [TILE][per]. Where eight lie in a row in both memories
 * they are copied; the rest is read. */
static __device__ __forceinline__ void fetch_channel_scales(const struct tile_grid &g,
                                                           const struct tile_place &p, int tile,
                                                           kvr_global<const kvr_f16> meta,
                                                           kvr_shared<kvr_f16> out)
{
    const int64_t first = (int64_t)tile * g.of_token + (g.of_token > 1 ? p.h * g.per : 0);

    if (g.eights && tile + TILE <= g.n_tok) {
        /* Of whole tokens the tile's lie in one line. */
        const int eights = g.of_token > 1 ? g.per / 8 : TILE / 8;

#pragma unroll 1
        for (int i = kvr_thread(); i < TILE * g.per / 8; i += MMA_THREADS) {
            const int r = (unsigned)i / (unsigned)eights;

            kvr_copy_begin(
                kvr_as<uint4>(out + 8 * i),
                kvr_as<const uint4>(meta + first + (int64_t)r * g.of_token + 8 * (i - r * eights)),
                true);
        }
        return;
    }
#pragma unroll 1
    for (int i = kvr_thread(); i < TILE * g.per; i += MMA_THREADS) {
        const int r = (unsigned)i / (unsigned)g.per;

        out[i] = tile + r < g.n_tok
                     ? (kvr_f16)meta[first + (int64_t)r * g.of_token + (i - r * g.per)]
                     : (kvr_f16)0;
    }
}

template <int W>
static __device__ __forceinline__ void
fetch_scales(const struct tile_grid &g, const struct tile_place &p, int tile,
            kvr_global<const kvr_f16> meta, kvr_shared<kvr_f16> out)
{
    if (g.axis == KVR_AXIS_TOKENS)
        fetch_token_scales<W>(g, p, tile, meta, out);
    else
        fetch_channel_scales(g, p, tile, meta, out);
}

/* Begins to copy rows of BF16, into the tile itself. A thread has every STEP-th row, always the
 * same 8 channels: its address is multiplied out once for a tile, from row to row it is a sum. */
template <int W>
static __device__ __forceinline__ void fetch_rows(const struct tile_source &s,
                                                  const struct tile_place &p, int tile,
                                                  kvr_shared<kvr_bf16> rows)
{
    enum { STEP = MMA_THREADS / (W / 8), EACH = TILE / STEP };
    const kvr_global<const kvr_bf16> x((const kvr_bf16 *)s.rows);
    const int pitch = p.n_heads * p.head_dim, self = kvr_thread();
    const int first = self / (W / 8), c = self % (W / 8) * 8, t = tile + first;
    const kvr_shared<kvr_bf16> to = rows + first * (W + 8) + c;

    if (c >= p.head_dim)
        return;
    if (tile >= p.t0 && tile + TILE <= p.end) {
        const kvr_global<const kvr_bf16> from = x + ((int64_t)t * pitch + p.h * p.head_dim + c);

#pragma unroll
        for (int i = 0; i < EACH; i++)
            kvr_copy_begin(kvr_as<uint4>(to + i * STEP * (W + 8)),
                           kvr_as<const uint4>(from + (int64_t)pitch * (i * STEP)), true);
        return;
    }
#pragma unroll 1
    for (int i = 0; i < EACH; i++) {
        const bool there = t + i * STEP >= p.t0 && t + i * STEP < p.end;
        const int64_t at = (int64_t)(there ? t + i * STEP : p.t0) * pitch + p.h * p.head_dim + c;

        kvr_copy_begin(kvr_as<uint4>(to + i * STEP * (W + 8)), kvr_as<const uint4>(x + at), there);
    }
}

/* What of a grid source a kernel may meet: grids over tokens or over channels of a token, one or
 * more of them, or `packed` ones and nothing else; or rows that are not coded, too. */
enum { HOW_CHANNELS = 0, HOW_TOKENS = 1, HOW_CHAINS = 2, HOW_PACKED = 4, HOW_ROWS = 8 };

/* Begins to copy codes and scales, into the stage. */
template <int W, int HOW>
static __device__ __forceinline__ void fetch_grids(const struct tile_source &s,
                                                   const struct tile_place &p, int tile,
                                                   kvr_shared<uint8_t> stage)
{
    if (HOW & HOW_PACKED) {
        const struct tile_grid &g = s.grid[0];
        const int at = fetch_planes<W>(g, p, tile, stage);

        fetch_token_scales<W>(g, p, tile, kvr_global<const kvr_f16>(g.meta),
                             kvr_as<kvr_f16>(stage + at));
        return;
    }
    int from = 0; /* where the grid's stage begins */

#pragma unroll 1
    for (int i = 0; i < s.n_grids; i++) {
        const struct tile_grid &g = s.grid[i];
        const kvr_global<const kvr_f16> meta(g.meta);
        const kvr_shared<kvr_f16> scales =
            kvr_as<kvr_f16>(stage + from + fetch_planes<W>(g, p, tile, stage + from));

#pragma unroll 1
        for (int z = 0; z <= (g.asym ? 1 : 0); z++) /* scales, zero points */
            fetch_scales<W>(g, p, tile, meta + (z ? g.n_sets : 0), scales + (z ? g.scales : 0));
        from += stage_bytes(g, W);
    }
}

/* ---- decode ------------------------------------------------------------------------------- */

/* Four channels of a set: x = (q - off) s + m. `off` has 2^23 in it: so does a code that was made
 * a float by putting it into the last bits of 2^23, and the difference is exact. */
struct levels {
    float s[4], off[4], m[4];
};

static __device__ __forceinline__ void set_level(const struct tile_grid &g, unsigned scale,
                                                 unsigned zero, float &s, float &off, float &m)
{
    const float magic = 8388608.0f;
    const float z = g.asym ? kvr_float_of((kvr_f16)zero) : 0.0f;

    s = kvr_float_of((kvr_f16)scale);
    off = magic + (g.study ? z : g.middle);
    m = g.asym && !g.study ? z : 0.0f;
}

/* Where the scales of channels [c, c + 4) of the tile's token i are. Of groups of channels, which
 * are multiples of 4, and of whole tokens they are one. */
template <int W, bool TOKENS>
static __device__ __forceinline__ struct levels levels_of(const struct tile_grid &g, int tile,
                                                          int i, int c, kvr_shared<uint8_t> stage)
{
    const kvr_shared<kvr_f16> scales = kvr_as<kvr_f16>(stage + 8 * g.bits * W);
    struct levels l;

    if (TOKENS) {
        const int at = (((tile + i) >> g.shift) - (tile >> g.shift)) * W + c;
        const uint2 s = kvr_as<uint2>(scales + at)[0];
        uint2 z = s;

        if (g.asym)
            z = kvr_as<uint2>(scales + g.scales + at)[0];
        set_level(g, s.x & 0xffffu, z.x & 0xffffu, l.s[0], l.off[0], l.m[0]);
        set_level(g, s.x >> 16, z.x >> 16, l.s[1], l.off[1], l.m[1]);
        set_level(g, s.y & 0xffffu, z.y & 0xffffu, l.s[2], l.off[2], l.m[2]);
        set_level(g, s.y >> 16, z.y >> 16, l.s[3], l.off[3], l.m[3]);
    } else {
        const int at = i * g.per + (c >> g.shift);

        set_level(g, (kvr_f16)scales[at], g.asym ? (kvr_f16)scales[g.scales + at] : (kvr_f16)0, l.s[0],
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

/* The octet's 8 tokens and four channels, of any grids. */
template <int W, bool TOKENS, bool CHAINS>
static __device__ __forceinline__ void decode_grids(const struct tile_source &s, int tile, int o,
                                                    int c, kvr_shared<uint8_t> stage,
                                                    kvr_shared<kvr_bf16> to)
{
    const bool both = CHAINS && s.n_grids > 1;
    const kvr_shared<uint8_t> second = stage + (both ? stage_bytes(s.grid[0], W) : 0);
    struct levels l[CHAINS ? 2 : 1];
    unsigned codes[CHAINS ? 2 : 1][8];

    read_codes<W>(s.grid[0], o, c, stage, codes[0]);
    if (TOKENS)
        l[0] = levels_of<W, true>(s.grid[0], tile, 8 * o, c, stage);
    if (both) {
        read_codes<W>(s.grid[1], o, c, second, codes[CHAINS]);
        if (TOKENS)
            l[CHAINS] = levels_of<W, true>(s.grid[1], tile, 8 * o, c, second);
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float x[4];

        if (!TOKENS)
            l[0] = levels_of<W, false>(s.grid[0], tile, 8 * o + i, c, stage);
#pragma unroll
        for (int e = 0; e < 4; e++)
            x[e] = value_of(l[0], codes[0][i], e);
        if (both) {
            if (!TOKENS)
                l[CHAINS] = levels_of<W, false>(s.grid[1], tile, 8 * o + i, c, second);
#pragma unroll
            for (int e = 0; e < 4; e++)
                x[e] += value_of(l[CHAINS], codes[CHAINS][i], e);
        }
        kvr_as<uint2>(to + i * (W + 8))[0] =
            uint2{ kvr_bf16_pair(x[0], x[1]), kvr_bf16_pair(x[2], x[3]) };
    }
}

/* The same of a symmetric grid over tokens of F = 2 or 4 bits alone, in pairs of BF16. A code in
 * the last bits of 2^7 is a BF16, the middle taken off leaves d, |d| <= 8, and a scale is FP16, of
 * 11 bits: s = hi + lo, hi its BF16, lo at most two bits. So d lo is exact, and d hi + d lo = d s
 * is rounded once, to what one product in F32 rounds to. */
template <int W, int F>
static __device__ __forceinline__ void decode_packed(const struct tile_grid &g, int tile, int o,
                                                     int c, kvr_shared<uint8_t> stage,
                                                     kvr_shared<kvr_bf16> to)
{
    const unsigned ones = 0x3f803f80u;                          /* 1, 1 */
    const unsigned middle = F == 4 ? 0xc308c308u : 0xc302c302u; /* -(2^7 + 2^(F - 1)), twice */
    const unsigned mask = ((1u << F) - 1u) * 0x01010101u;
    const kvr_shared<kvr_f16> scales = kvr_as<kvr_f16>(stage + 8 * F * W);
    const uint2 scale =
        kvr_as<uint2>(scales + (((tile + 8 * o) >> g.shift) - (tile >> g.shift)) * W + c)[0];
    const unsigned two[2] = { scale.x, scale.y };
    unsigned hi[2], lo[2];

#pragma unroll
    for (int e = 0; e < 2; e++) {
        const float a = kvr_float_of((kvr_f16)(two[e] & 0xffffu));
        const float b = kvr_float_of((kvr_f16)(two[e] >> 16));

        hi[e] = kvr_bf16_pair(a, b);
        const float ha = __uint_as_float(hi[e] << 16), hb = __uint_as_float(hi[e] & 0xffff0000u);

        lo[e] = kvr_bf16_pair(a == ha ? 0.0f : a - ha, b == hb ? 0.0f : b - hb); /* of infinity 0 */
    }
#pragma unroll
    for (int r = 0; r < F; r++) {
        const unsigned raw = kvr_as<unsigned>(stage + (o * F + r) * W + c)[0];

#pragma unroll
        for (int i = 0; i < 8 / F; i++) {
            const unsigned q = raw >> (F * i) & mask;
            unsigned x[2];

#pragma unroll
            for (int e = 0; e < 2; e++) {
                const unsigned code = __byte_perm(q, 0x43u, e ? 0x4342u : 0x4140u);
                const unsigned d = kvr_bf16_fma(code, ones, middle);

                x[e] = kvr_bf16_fma(d, hi[e], kvr_bf16_fma(d, lo[e], 0u));
            }
            kvr_as<uint2>(to + (r * (8 / F) + i) * (W + 8))[0] = uint2{ x[0], x[1] };
        }
    }
}

/* Tokens that are not of the span become 0. */
template <int W>
static __device__ __forceinline__ void clear_outside(const struct tile_place &p, int tile, int o,
                                                     kvr_shared<kvr_bf16> to)
{
#pragma unroll 1
    for (int i = 0; i < 8; i++)
        if (tile + 8 * o + i < p.t0 || tile + 8 * o + i >= p.end)
            kvr_as<uint2>(to + i * (W + 8))[0] = uint2{ 0, 0 };
}

/* Rows that nothing stages: from global memory. */
template <int W>
static __device__ __forceinline__ void decode_rows(const struct tile_source &s,
                                                   const struct tile_place &p, int tile, int o,
                                                   int c, kvr_shared<kvr_bf16> rows)
{
    const kvr_global<const float> f32((const float *)s.rows);
    const kvr_global<const kvr_bf16> bf16((const kvr_bf16 *)s.rows);

#pragma unroll 1
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

/* A thread's octets, always the same four channels. */
template <int W, int F>
static __device__ __forceinline__ void
decode_all_packed(const struct tile_grid &g, const struct tile_place &p, int tile,
                  kvr_shared<uint8_t> stage, kvr_shared<kvr_bf16> rows)
{
    const int self = kvr_thread(), c = self % (W / 4) * 4;

    if (c >= p.head_dim)
        return;
#pragma unroll 1
    for (int o = self / (W / 4); o < TILE / 8; o += MMA_THREADS / (W / 4))
        decode_packed<W, F>(g, tile, o, c, stage, rows + 8 * o * (W + 8) + c);
}

/* What was fetched, and has arrived, to the tile. */
template <int W, int HOW>
static __device__ __forceinline__ void decode(const struct tile_source &s,
                                              const struct tile_place &p, int tile,
                                              kvr_shared<uint8_t> stage, kvr_shared<kvr_bf16> rows)
{
    const bool ragged = tile < p.t0 || tile + TILE > p.end;

    if (HOW & HOW_PACKED) {
        if (s.grid[0].bits == 4)
            decode_all_packed<W, 4>(s.grid[0], p, tile, stage, rows);
        else
            decode_all_packed<W, 2>(s.grid[0], p, tile, stage, rows);
        if (!ragged)
            return;
    }
#pragma unroll 1
    for (int i = kvr_thread(); i < TILE / 8 * (W / 4); i += MMA_THREADS) {
        const int o = i / (W / 4), c = i % (W / 4) * 4;

        if (c >= p.head_dim)
            continue;
        if (HOW & HOW_ROWS && s.kind != GRIDS)
            decode_rows<W>(s, p, tile, o, c, rows);
        else if (!(HOW & HOW_PACKED))
            decode_grids<W, (HOW & HOW_TOKENS) != 0, (HOW & HOW_CHAINS) != 0>(
                s, tile, o, c, stage, rows + 8 * o * (W + 8) + c);
        if (ragged)
            clear_outside<W>(p, tile, o, rows + 8 * o * (W + 8) + c);
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
