/* attend_wgmma_producer.cuh - the producer warpgroup of attend_wgmma.cu. One producer thread loads
 * BF16 rows by TMA into swizzled pipeline stages of K and V. All 128 producer threads dequantize
 * quantized rows into the same stages. */
#ifndef KVR_CACHE_ATTEND_WGMMA_PRODUCER_CUH
#define KVR_CACHE_ATTEND_WGMMA_PRODUCER_CUH

#include "harness/cache/attend_tile.cuh"
#include "harness/cache/attend_wgmma_list.cuh"

#include <type_traits>

/* ---- BF16 rows ---------------------------------------------------------------------------- */

template <int FORM>
static __device__ __forceinline__ void fetch(kvr_shared<uint8_t> to,
                                             const struct kvr_tensor_map &rows, int h, int t,
                                             kvr_shared<uint64_t> full)
{
    kvr_barrier_arrive_expect_tx(full, form<FORM>::TILE_BYTES);
#pragma unroll
    for (int p = 0; p < form<FORM>::PANELS; p++)
        kvr_tma_load(kvr_as<kvr_bf16>(to + p * TILE_PANEL), rows, p * KVR_TILE_COLUMNS, h, t, full);
}

/* Main loop of the producer thread that loads BF16 rows by TMA. The thread refills a stage once the
 * consumers have released the stage's previous tile. */
template <int FORM>
static __device__ __forceinline__ void produce(const struct span_list &l, const struct part &p,
                                               kvr_shared<uint8_t> shared)
{
    typedef form<FORM> of;
    const struct barriers b = barriers_at<FORM>(shared);
    struct tile_position s = position_of(l, p.first);

#pragma unroll 1
    for (int tile = 0; tile < p.n; tile++) {
        const int stage = tile % STAGES;
        const unsigned freed = (unsigned)(tile / STAGES + 1) % 2;

        kvr_barrier_wait(b.empty_k + stage, freed);
        fetch<FORM>(shared + of::AT_KEYS + stage * of::TILE_BYTES, l.of[0][s.span].map, p.h, s.t,
                    b.full_k + stage);
        kvr_barrier_wait(b.empty_v + stage, freed);
        fetch<FORM>(shared + of::AT_VALUES + stage * of::TILE_BYTES, l.of[1][s.span].map, p.h, s.t,
                    b.full_v + stage);
        step(l, s);
    }
}

/* ---- quantized rows ----------------------------------------------------------------------- */

/* A unit is the part of a tile that a producer thread dequantizes: the codes of UNIT tokens by 8
 * channels, with their FP16 scales. With one scale per channel, a unit has one vector of 8 scales
 * (N = 1). With one scale per token, a unit has two vectors of 8 scales (N = 2), one per token. If
 * the grid is asymmetric, `zero` contains a zero point or a minimum per scale. */
enum { UNIT = 16 };

template <int F, int N> struct unit {
    uint2 codes[UNIT / 8 * F];
    uint4 scale[N], zero[N];
};

/* Loads a struct unit: UNIT tokens from token `at` on, by 8 channels from channel c on, for head h
 * of a span of n tokens. For a unit past the end of the span, the function loads codes of the
 * span's first tokens. The producer later overwrites the rows of such a unit with zeros. If the
 * array of codes ends within the unit, the function repeats the last row of the array. */
template <int F, int N>
static __device__ __forceinline__ void load_unit(const struct kvr_attend_shape &a,
                                                 const struct coded_rows &g, int n, int h, int at,
                                                 int c, bool by_token, struct unit<F, N> &out)
{
    const unsigned channels = (unsigned)(a.n_heads * a.head_dim);
    const unsigned mine = (unsigned)(h * a.head_dim + c);
    const unsigned token = (unsigned)(g.t0 + (at < n ? at : 0)), row = token / 8 * F;
    const unsigned last = (unsigned)kvr_plane_rows(g.n_tok, F) - 1 - row;
    const kvr_global<const uint8_t> codes =
        kvr_global<const uint8_t>(g.codes) + (int64_t)((uint64_t)row * channels + mine);

#pragma unroll
    for (unsigned r = 0; r < UNIT / 8 * F; r++)
        out.codes[r] = kvr_as<const uint2>(codes + (int64_t)(channels * (r < last ? r : last)))[0];
    const uint64_t first = by_token ? token : (uint64_t)(token >> g.shift) * channels + mine;
    const kvr_global<const kvr_f16> scales = kvr_global<const kvr_f16>(g.scales) + (int64_t)first;

#pragma unroll
    for (int i = 0; i < N; i++) {
        const int to = i && by_token && token + 8 < (unsigned)g.n_tok ? 8 : 0;

        out.scale[i] = kvr_as<const uint4>(scales + to)[0];
        out.zero[i] = uint4{ 0, 0, 0, 0 };
        if (g.asym)
            out.zero[i] = kvr_as<const uint4>(scales + g.n_groups + to)[0];
    }
}

static __device__ __forceinline__ unsigned word_of(const uint4 &x, int i)
{
    return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w;
}

/* Returns the byte offset of row r, channels [c, c + 8) in a tile in shared memory. The row r must
 * be a multiple of 8, so that the 128-byte swizzle leaves the offset unchanged. */
static __device__ __forceinline__ int offset_of(int r, int c)
{
    return c / KVR_TILE_COLUMNS * TILE_PANEL + r * 128 + c % KVR_TILE_COLUMNS * 2;
}

/* Stores the 8 BF16 values in x[0..3] to row r + i of a tile with the 128-byte swizzle, where i is
 * below UNIT and `offset` is the result of offset_of() for row r. */
static __device__ __forceinline__ void store_row(kvr_shared<uint8_t> tile, int offset, int i,
                                                 const unsigned *x)
{
    kvr_as<uint4>(tile + ((offset ^ i % 8 * 16) + i * 128))[0] = uint4{ x[0], x[1], x[2], x[3] };
}

/* Parameters that dequantize a struct unit: `s` and `high` if packed_values() does it, else `l`. */
struct unit_scales {
    struct dequant_params<8> l;
    struct split_scales s;
    unsigned high; /* 0x43, the upper byte of the BF16 number 2^7, for packed_values() */
};

static __device__ __forceinline__ struct tile_grid kind_of_zero(const struct coded_rows &g)
{
    struct tile_grid of = {};

    of.zero = g.zero;
    of.minimum = g.minimum;
    of.middle = g.middle;
    return of;
}

template <int F, bool PACKED, bool BY_TOKEN, int N>
static __device__ __forceinline__ void
scale_unit(const struct coded_rows &g, const struct unit<F, N> &x, struct unit_scales &by)
{
    const struct tile_grid of = kind_of_zero(g);
    const unsigned two[4] = { x.scale[0].x, x.scale[0].y, x.scale[0].z, x.scale[0].w };

    if (PACKED)
        split(two, by.s);
    else if (!BY_TOKEN)
#pragma unroll
        for (int e = 0; e < 8; e++)
            set_dequant(of, word_of(x.scale[0], e / 2), word_of(x.zero[0], e / 2), e % 2, by.l.s[e],
                        by.l.off[e], by.l.m[e]);
}

/* Dequantizes tokens [FIRST, END) of the UNIT tokens by 8 channels in `x`, and stores the results
 * to shared memory as BF16. */
template <int F, bool PACKED, bool BY_TOKEN, int FIRST, int END, int N>
static __device__ __forceinline__ void
decode_unit(const struct coded_rows &g, const struct unit<F, N> &x, struct unit_scales &by,
            int offset, kvr_shared<uint8_t> to)
{
    const struct tile_grid of = kind_of_zero(g);
    struct dequant_params<8> &l = by.l;

#pragma unroll
    for (int i = FIRST; i < END; i++) {
        const int field = i % (8 / F) * F;
        const unsigned raw[2] = { x.codes[i / (8 / F)].x, x.codes[i / (8 / F)].y };
        const unsigned mask = ((1u << F) - 1u) * 0x01010101u;
        const unsigned codes[2] = { raw[0] >> field & mask, raw[1] >> field & mask };
        unsigned out[4];

        if (PACKED) {
            packed_values<F>(raw, i % (8 / F), by.s, out, by.high);
            store_row(to, offset, i, out);
            continue;
        }
        if (BY_TOKEN) {
            const int j = BY_TOKEN ? i / 8 : 0;

            set_dequant(of, word_of(x.scale[j], i % 8 / 2), word_of(x.zero[j], i % 8 / 2), i % 2,
                        l.s[0], l.off[0], l.m[0]);
#pragma unroll
            for (int e = 1; e < 8; e++) {
                l.s[e] = l.s[0];
                l.off[e] = l.off[0];
                l.m[e] = l.m[0];
            }
        }
#pragma unroll
        for (int e = 0; e < 4; e++)
            out[e] = kvr_bf16_pair(value_of<8>(l, codes, 2 * e), value_of<8>(l, codes, 2 * e + 1));
        store_row(to, offset, i, out);
    }
}

/* Scales of UNIT tokens by 8 channels in two quantization grids: s[0] for the F-bit grid, s[1] for
 * the grid that quantizes the residual. */
struct chain_scales {
    float s[2][8];
    /* base[i] is the bit pattern of the float 2^(23 - 2 i), whose mantissa bit 2 i has weight 1.
     * dequant_of() ORs base[i] with a 2-bit or 4-bit code that is shifted left by 2 i bits. */
    unsigned base[8];
};

static __device__ __forceinline__ void scale_chain(unsigned one, const uint4 &first,
                                                   const uint4 &second, struct chain_scales &by)
{
#pragma unroll
    for (int e = 0; e < 8; e++) {
        const unsigned a = word_of(first, e / 2), b = word_of(second, e / 2);

        by.s[0][e] = kvr_float_of((kvr_f16)(e % 2 ? a >> 16 : a & 0xffffu));
        by.s[1][e] = kvr_float_of((kvr_f16)(e % 2 ? b >> 16 : b & 0xffffu));
        /* base[e] is computed from `one`, a run-time parameter that contains the bit pattern of
         * 1.0f. The compiler therefore cannot fold base[e] to a constant, and uses one LOP3
         * instruction to extract a code and to OR the code with base[e]. */
        by.base[e] = one + ((23u - 2 * (unsigned)e) << 23);
    }
}

/* Returns code - 2^(F - 1) as a float, for the code of token i and channel e in `x`. The codes of a
 * symmetric F-bit grid have the offset 2^(F - 1), so that the code 2^(F - 1) represents zero. */
template <int F>
static __device__ __forceinline__ float dequant_of(const struct unit<F, 1> &x, const unsigned *base,
                                                   int i, int e)
{
    const uint2 &row = x.codes[i / (8 / F)];
    const unsigned word = e / 4 ? row.y : row.x, half = e % 4 / 2 ? word >> 16 : word;
    const int at = e % 2 * 8 + i % (8 / F) * F; /* even, because F is 2 or 4 */
    /* A code in mantissa bits [at, at + F) of the float 2^(23 - at) adds exactly its value to the
     * float. */
    const unsigned bits = (half & ((1u << F) - 1u) << at) | base[at / 2];

    return __uint_as_float(bits) - (float)((1 << (23 - at)) + (1 << (F - 1)));
}

/* Dequantizes tokens [FIRST, END) of a tile of UNIT tokens by 8 channels, in which an element has
 * two codes. `x` has the codes of the F-bit grid, and `more` has the codes of the grid that
 * quantizes the residual of the F-bit grid. The products of code and scale of both grids are exact
 * in F32. The sum of the two products is rounded to F32, as on the CPU, and then to BF16. */
template <int F, int FIRST, int END>
static __device__ __forceinline__ void
decode_chained(const struct unit<F, 1> &x, const struct unit<MORE, 1> &more,
               const struct chain_scales &by, int offset, kvr_shared<uint8_t> to)
{
#pragma unroll
    for (int i = FIRST; i < END; i++) {
        float v[8];
        unsigned out[4];

#pragma unroll
        for (int e = 0; e < 8; e++)
            v[e] = fmaf(dequant_of<MORE>(more, by.base, i, e), by.s[1][e],
                        fmaf(dequant_of<F>(x, by.base, i, e), by.s[0][e], 0.0f));
#pragma unroll
        for (int e = 0; e < 4; e++)
            out[e] = kvr_bf16_pair(v[2 * e], v[2 * e + 1]);
        store_row(to, offset, i, out);
    }
}

/* The codes and scales of the UNIT tokens by 8 channels of a K or V tile that a producer thread
 * dequantizes. With residual quantization (two integer grids), `more` has the codes of the second
 * grid for the same elements. */
template <int FORM> struct octets {
    typedef form<FORM> of;
    enum { F = of::F, LINE = of::D / 8 };
    static_assert(!of::CODED || KEYS / UNIT * LINE == KVR_WARPGROUP, "a unit each");
    struct unit<F, 1 + of::MIXED> x;
    struct unit<of::CHAINED ? MORE : 1, 1> more;

    __device__ __forceinline__ void load(const struct kvr_attend_shape &a,
                                         const struct span_list &l, struct tile_position s,
                                         int values, int h)
    {
        const int self = kvr_thread();
        const union rows &rows = l.of[values][s.span];
        const int t = s.t + self / LINE * UNIT, c = self % LINE * 8;

        load_unit(a, rows.coded[0], l.n[s.span], h, t, c, of::MIXED && values, x);
        if constexpr (of::CHAINED)
            load_unit(a, rows.coded[1], l.n[s.span], h, t, c, false, more);
    }
};

/* Quantization scales of the codes in a struct octets. */
template <int FORM> struct octet_scales {
    typename std::conditional<form<FORM>::CHAINED, struct chain_scales, struct unit_scales>::type
        by;
};

/* Dequantizes tokens [FIRST, END) of the UNIT tokens whose codes `o` contains. A call with FIRST =
 * 0 also computes the scales, which later calls for the same `o` reuse. */
template <int FORM, int FIRST, int END>
static __device__ __forceinline__ void
decode_octets(const struct span_list &l, const struct coded_rows &g, const struct octets<FORM> &o,
              int values, struct octet_scales<FORM> &scales, int offset, kvr_shared<uint8_t> to)
{
    typedef form<FORM> of;
    constexpr int F = of::F;
    auto &by = scales.by;

    if constexpr (of::CHAINED) {
        if (!FIRST)
            scale_chain(l.one, o.x.scale[0], o.more.scale[0], by);
        decode_chained<F, FIRST, END>(o.x, o.more, by, offset, to);
    } else if (of::MIXED && values) {
        decode_unit<F, false, true, FIRST, END>(g, o.x, by, offset, to);
    } else {
        if (!FIRST)
            scale_unit<F, !of::MIXED, false>(g, o.x, by);
        decode_unit<F, !of::MIXED, false, FIRST, END>(g, o.x, by, offset, to);
    }
}

/* Publishes the tile rows that this warp has dequantized: the warp arrives on `full`. In a pair of
 * CTAs, the warp also copies these rows to the other CTA. A warp's rows are contiguous in every
 * panel of 64 columns. */
template <int FORM>
static __device__ __forceinline__ void publish(kvr_shared<uint8_t> tile, kvr_shared<uint64_t> full,
                                               bool pair, unsigned other)
{
    typedef form<FORM> of;
    enum { WARPS = KVR_WARPGROUP / 32, SHARE = TILE_PANEL / WARPS };
    const int self = kvr_thread();

    kvr_fence_async();
    __syncwarp();
    if (self % 32)
        return;
    kvr_barrier_arrive(full);
    if (!pair)
        return;
    const kvr_remote<uint64_t> its_full = kvr_remote_of(full, other);

    kvr_remote_arrive_expect_tx(its_full, of::PANELS * SHARE);
#pragma unroll
    for (int p = 0; p < of::PANELS; p++) {
        const kvr_shared<uint8_t> mine = tile + (p * TILE_PANEL + self / 32 * SHARE);

        kvr_remote_copy(kvr_remote_of(mine, other), mine, SHARE, its_full);
    }
}

/* Loads a tile of an unquantized span by TMA, in a launch that also has quantized spans. In a pair
 * of CTAs, the load is a multicast to both CTAs. One lane of each of the four warps arrives on
 * the mbarrier `full`, after all lanes of its warp have waited for the stage's `empty` mbarrier.
 * Without the __syncwarp(), a slow lane could fall two phases of `empty` behind. Its parity wait
 * would then block, although the phase that the lane waits for has completed. */
template <int FORM>
static __device__ __forceinline__ void
fetch_multicast(kvr_shared<uint8_t> to, const struct kvr_tensor_map &rows, int h, int t,
                kvr_shared<uint64_t> full, bool pair, unsigned other)
{
    const int self = kvr_thread();

    __syncwarp();
    if (self % 32)
        return;
    if (pair)
        kvr_remote_arrive_expect_tx(kvr_remote_of(full, other), self ? 0 : form<FORM>::TILE_BYTES);
    if (self) {
        kvr_barrier_arrive(full);
        return;
    }
    if (!pair) {
        fetch<FORM>(to, rows, h, t, full);
        return;
    }
    kvr_barrier_arrive_expect_tx(full, form<FORM>::TILE_BYTES);
#pragma unroll
    for (int p = 0; p < form<FORM>::PANELS; p++)
        kvr_tma_load_multicast(kvr_as<kvr_bf16>(to + p * TILE_PANEL), rows, p * KVR_TILE_COLUMNS, h,
                               t, full);
}

static __device__ __forceinline__ bool is_coded(const struct span_list &l, struct tile_position s)
{
    return l.coded >> s.span & 1;
}

/* Main loop of all 128 producer threads for quantized spans. A step dequantizes one tile of K or of
 * V. A single CTA alternates between K and V. In a pair of CTAs, CTA 0 dequantizes K for both CTAs,
 * and CTA 1 dequantizes V. In a step, a thread dequantizes EARLY tokens, issues the loads of the
 * next step, and dequantizes the remaining tokens. The loads are in flight while the thread
 * dequantizes the remaining tokens and waits for an empty stage. Without the calls of __syncwarp()
 * around the loads, the compiler would sink the loads below all stores. For a 2-bit grid with a
 * residual grid, EARLY is 9, because the kernel would spill registers with EARLY = 8. */
template <int FORM>
static __device__ __forceinline__ void
produce_coded(const struct kvr_attend_shape &a, const struct span_list &l, const struct part &p,
              bool pair, kvr_shared<uint8_t> shared)
{
    typedef form<FORM> of;
    enum { EARLY = of::CHAINED && of::F == 2 ? 9 : of::CHAINED || of::MIXED ? 8 : 4 };
    const struct barriers b = barriers_at<FORM>(shared);
    const unsigned rank = kvr_cluster_rank(), other = pair ? rank ^ 1u : rank;
    const int n_steps = pair ? p.n : 2 * p.n, self = kvr_thread(), line = of::D / 8;
    const int row = self / line * UNIT, offset = offset_of(row, self % line * 8);
    struct octets<FORM> here, next;
    struct tile_position s = position_of(l, p.first);
    /* The argument `high` of packed_values() is 0x43, the upper byte of the BF16 number 2^7. The
     * instruction PRMT needs `high` in a per-thread register. Without __shfl_sync(), the compiler
     * would compute `high` in a uniform register. */
    const unsigned high = of::CHAINED ? 0 : __shfl_sync(~0u, (l.one >> 24) + 4, 0);
    const unsigned zeros[4] = { 0, 0, 0, 0 };
    int values = pair ? (int)rank : 0;
    unsigned tile = 0;

    if (is_coded(l, s))
        next.load(a, l, s, values, p.h);
#pragma unroll 1
    for (int i = 0; i < n_steps; i++) {
        const unsigned stage = tile % STAGES, freed = (tile / STAGES + 1) % 2;
        const int which = values * STAGES + (int)stage, left = l.n[s.span] - s.t;
        /* full_k, full_v, empty_k, empty_v are adjacent: full + 2 * STAGES is empty_k or empty_v */
        const kvr_shared<uint64_t> full = b.full_k + which;
        const kvr_shared<uint8_t> to = shared + of::AT_KEYS + which * of::TILE_BYTES;
        const struct tile_position now = s;
        const int of_now = values;

        if (pair || values) {
            step(l, s);
            tile++;
        }
        values = pair ? values : !values;
        const bool more = i + 1 < n_steps && is_coded(l, s);

        kvr_barrier_wait_cluster(full + 2 * STAGES, freed);
        if (!is_coded(l, now)) {
            if (more)
                next.load(a, l, s, values, p.h);
            fetch_multicast<FORM>(to, l.of[of_now][now.span].map, p.h, now.t, full, pair, other);
            continue;
        }
        const struct coded_rows &g = l.of[of_now][now.span].coded[0];
        struct octet_scales<FORM> by;

        if constexpr (!of::CHAINED)
            by.by.high = high;
        here = next;
        decode_octets<FORM, 0, EARLY>(l, g, here, of_now, by, offset, to);
        __syncwarp();
        if (more)
            next.load(a, l, s, values, p.h);
        __syncwarp();
        decode_octets<FORM, EARLY, UNIT>(l, g, here, of_now, by, offset, to);
        if (left < KEYS) /* zero the tile's rows past the span */
#pragma unroll 1
            for (int r = left > row ? left : row; r < row + UNIT; r++)
                store_row(to, offset, r - row, zeros);
        publish<FORM>(to, full, pair, other);
    }
}

#endif
