/* attend_tile.cuh - loads TILE keys or values of one head, and dequantizes them to BF16 in shared
 * memory. A dequantized value is computed by the formula in grid.h and rounded once to BF16. A span
 * is a run of cached tokens in one format. The tile's rows of tokens outside the span become 0.
 *
 * Four functions fill the tile. The function fetch_rows() copies unquantized BF16 rows into the
 * tile by cp.async. The function fetch_grids() copies codes and scales into a stage by cp.async.
 * The function decode() dequantizes the codes of the stage, or rounds unquantized rows, and stores
 * the BF16 result to the tile. The function put() overwrites the tile's dequantized outliers with
 * their exact values.
 *
 * Tile rows have 8 elements of padding, so that ldmatrix is free of bank conflicts. */
#ifndef KVR_CACHE_ATTEND_TILE_CUH
#define KVR_CACHE_ATTEND_TILE_CUH

#include "harness/cache/attend_mma.h"
#include "harness/device/mma.cuh"
#include "methods/codecs/grid/grid.h"
#include "methods/kernels/planes.cuh"

enum { MMA_WARPS = 4, MMA_THREADS = 32 * MMA_WARPS, TILE = KVR_ATTEND_MMA_TILE, MAX_GRIDS = 2 };

enum source_kind { ROWS_BF16, ROWS_F32, ROWS_ZERO, GRIDS };

/* Quantization grid of keys or values: codes, scales and group sizes. A group is a set of elements
 * that share one scale. Token groups extend over several tokens of one channel, and channel groups
 * over several channels of one token. Group sizes are powers of two. The host precomputes all
 * numbers that would require a division on the device. */
struct tile_grid {
    const uint8_t *codes;
    const kvr_f16 *scales;
    int64_t n_groups; /* number of quantization groups, each with one scale */
    int n_tok;
    int bits, axis;
    /* log2 of the group size, or 30 for one group per token, so that channel >> shift is 0 */
    int shift;
    int groups_per_head;  /* channel groups per token and head, or 0 if the grid has token groups */
    int groups_per_token; /* channel groups per token, over all heads */
    int n_scale_rows;     /* number of token groups per channel in the whole tensor */
    int n_scales;         /* maximum number of scales that a tile needs */
    bool asym;
    /* set_dequant() ANDs a group's FP16 parameter with the masks `zero` and `minimum`. The mask
     * `zero` is all ones if the parameter is a zero point, and 0 otherwise. The mask `minimum` is
     * all ones if the parameter is a minimum, and 0 otherwise. A symmetric grid has no such
     * parameters: the zero point of all its groups is 2^(bits - 1). Both 16-bit halves of `middle`
     * contain this zero point in FP16. For other grids, `middle` is 0. */
    unsigned zero, minimum, middle;
    /* Whether fetch_channel_scales() can copy eight consecutive FP16 scales as 16 aligned bytes.
     * False for token groups, whose scales fetch_token_scales() copies. */
    bool aligned_scales;
};

struct tile_source {
    enum source_kind kind;
    const void *rows;
    int n_grids;
    struct tile_grid grid[MAX_GRIDS];
    const kvr_f16 *value; /* values of the outliers, in ascending order of their flat element
                           * indices `index` */
    const int32_t *index;
    int n_exact;
    /* whether packed_values(), which dequantizes by FMAs on BF16 pairs, supports the source: a
     * single symmetric grid of 2 or 4 bits with token groups, and no outliers */
    bool packed;
};

/* Describes in *out a quantized or unquantized tensor of keys or values, in the form that kernels
 * read. Host only. Returns false if the kernels cannot dequantize the tensor. */
bool kvr_tile_source_of(const struct kvr_attend_mma_source *s, struct tile_source *out);

/* The span of tokens and the head that a tile belongs to. */
struct tile_bounds {
    int t0, end; /* the span consists of tokens [t0, end) */
    int n_heads, head_dim, h;
};

/* ---- stage layout ------------------------------------------------------------------------- */

static __host__ __device__ __forceinline__ int stage_bytes(const struct tile_grid &g, int w)
{
    return 8 * g.bits * w + (g.asym ? 2 : 1) * 2 * g.n_scales;
}

/* ---- fetch -------------------------------------------------------------------------------- */

/* Issues cp.async copies of the tile's code planes into the stage, and returns their size in bytes.
 * A plane has 4, 2 or 1 bits of every code; 3-bit codes have a 2-bit and a 1-bit plane. The widest
 * plane is copied first. */
template <int W>
static __device__ __forceinline__ int fetch_planes(const struct tile_grid &g,
                                                   const struct tile_bounds &p, int tile,
                                                   kvr_shared<uint8_t> stage)
{
    enum { LINE = W / 16, STEP = MMA_THREADS / LINE };
    const int channels = p.n_heads * p.head_dim, self = kvr_thread();
    kvr_global<const uint8_t> from(g.codes);
    int at = 0;

    if (!(g.bits & (g.bits - 1)) &&
        /* fast path: the codes are in one plane, and the tile is full */
        tile + TILE <= g.n_tok) {
        const int r = self / LINE, c = self % LINE * 16;
        kvr_shared<uint8_t> to = stage + r * W + c;

        from = from + ((int64_t)((uint64_t)((unsigned)tile / 8 * (unsigned)g.bits + (unsigned)r) *
                                 (unsigned)channels) +
                       p.h * p.head_dim + c);
        if (c < p.head_dim)
#pragma unroll 1
            for (int i = r; i < 8 * g.bits; i += STEP, from = from + STEP * channels) {
                kvr_cp_async(kvr_as<uint4>(to), kvr_as<const uint4>(from), true);
                to = to + STEP * W;
            }
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
                kvr_cp_async(kvr_as<uint4>(stage + at + r * W + c),
                             kvr_as<const uint4>(from + p.h * p.head_dim + c +
                                                 (there ? (int64_t)(first + r) * channels : 0)),
                             there);
        }
        from = from + (int64_t)rows * channels;
        at += 8 * f * W;
    }
    return at;
}

/* Issues cp.async copies of the scales of 8 groups, and of the zero points or minima of these
 * groups. */
static __device__ __forceinline__ void fetch_eight(const struct tile_grid &g, int64_t at,
                                                   bool there, kvr_shared<kvr_f16> out)
{
    const kvr_global<const kvr_f16> from = kvr_global<const kvr_f16>(g.scales) + at;

    kvr_cp_async(kvr_as<uint4>(out), kvr_as<const uint4>(from), there);
    if (g.asym)
        kvr_cp_async(kvr_as<uint4>(out + g.n_scales), kvr_as<const uint4>(from + g.n_groups),
                     there);
}

/* Copies the scales of token groups, which have 8 or more tokens, into the stage. The stage has one
 * row of W scales per token group, one scale per channel of the padded head dimension W. */
template <int W>
static __device__ __forceinline__ void fetch_token_scales(const struct tile_grid &g,
                                                          const struct tile_bounds &p, int tile,
                                                          kvr_shared<kvr_f16> out)
{
    const int first = tile >> g.shift, rows = ((tile + TILE - 1) >> g.shift) - first + 1;
    const unsigned channels = (unsigned)(p.n_heads * p.head_dim);

#pragma unroll 1
    for (int i = kvr_thread(); i < rows * (W / 8); i += MMA_THREADS) {
        const int r = i / (W / 8), c = i % (W / 8) * 8;
        const bool there = first + r < g.n_scale_rows;

        if (c < p.head_dim)
            fetch_eight(g,
                        (int64_t)((uint64_t)(unsigned)(there ? first + r : 0) * channels) +
                            p.h * p.head_dim + c,
                        there, out + r * W + c);
    }
}

/* Copies the scales of TILE tokens into the stage as [TILE][groups_per_head]. A token has one scale
 * per group of channels, or a single scale (groups_per_token is 1). Aligned runs of eight scales
 * are copied by cp.async, other scales by loads and stores. */
static __device__ __forceinline__ void fetch_channel_scales(const struct tile_grid &g,
                                                            const struct tile_bounds &p, int tile,
                                                            kvr_shared<kvr_f16> out)
{
    const int64_t first = (int64_t)((uint64_t)(unsigned)tile * (unsigned)g.groups_per_token) +
                          (g.groups_per_token > 1 ? p.h * g.groups_per_head : 0);

    if (g.aligned_scales && tile + TILE <= g.n_tok) {
        /* With one scale per token, the FP16 scales of the tile are contiguous. With channel
         * groups, a token has 8 or 16 FP16 scales per head, which one or two aligned 16-byte copies
         * load. */
        const int odd = g.groups_per_head / 16,
                  step = g.groups_per_token > 1 ? g.groups_per_token : 8;

#pragma unroll 1
        for (int i = kvr_thread(); i < TILE * g.groups_per_head / 8; i += MMA_THREADS)
            fetch_eight(g, first + ((i >> odd) * step + 8 * (i & odd)), true, out + 8 * i);
        return;
    }
    const kvr_global<const kvr_f16> scales(g.scales);

#pragma unroll 1
    for (int i = kvr_thread(); i < TILE * g.groups_per_head; i += MMA_THREADS) {
        const int r = (unsigned)i / (unsigned)g.groups_per_head;
        const bool there = tile + r < g.n_tok;
        const int64_t at = first + (int64_t)r * g.groups_per_token + (i - r * g.groups_per_head);

        out[i] = there ? (kvr_f16)scales[at] : (kvr_f16)0;
        if (g.asym)
            out[g.n_scales + i] = there ? (kvr_f16)scales[g.n_groups + at] : (kvr_f16)0;
    }
}

/* Issues cp.async copies of a tile's BF16 rows of K and of V. A thread copies the same 8 channels
 * of every STEP-th row. A thread therefore computes one address per tile and increments this
 * address from row to row. */
template <int W>
static __device__ __forceinline__ void fetch_rows(const kvr_bf16 *k, const kvr_bf16 *v,
                                                  const struct tile_bounds &p, int tile,
                                                  kvr_shared<kvr_bf16> rows)
{
    enum { STEP = MMA_THREADS / (W / 8), EACH = TILE / STEP, SIZE = TILE * (W + 8) };
    const kvr_global<const kvr_bf16> of_k(k), of_v(v);
    const int pitch = p.n_heads * p.head_dim, self = kvr_thread();
    const int first = self / (W / 8), c = self % (W / 8) * 8, t = tile + first;
    const kvr_shared<kvr_bf16> to = rows + first * (W + 8) + c;

    if (c >= p.head_dim)
        return;
    if (tile >= p.t0 && tile + TILE <= p.end) {
        const int64_t at =
            (int64_t)((uint64_t)(unsigned)t * (unsigned)pitch) + p.h * p.head_dim + c;
        const kvr_global<const kvr_bf16> from_k = of_k + at, from_v = of_v + at;

#pragma unroll
        for (int i = 0; i < EACH; i++) {
            kvr_cp_async(kvr_as<uint4>(to + i * STEP * (W + 8)),
                         kvr_as<const uint4>(from_k + (int64_t)pitch * (i * STEP)), true);
            kvr_cp_async(kvr_as<uint4>(to + SIZE + i * STEP * (W + 8)),
                         kvr_as<const uint4>(from_v + (int64_t)pitch * (i * STEP)), true);
        }
        return;
    }
#pragma unroll 1
    for (int i = 0; i < EACH; i++) {
        const bool there = t + i * STEP >= p.t0 && t + i * STEP < p.end;
        const int64_t at = (int64_t)(there ? t + i * STEP : p.t0) * pitch + p.h * p.head_dim + c;

        kvr_cp_async(kvr_as<uint4>(to + i * STEP * (W + 8)), kvr_as<const uint4>(of_k + at), there);
        kvr_cp_async(kvr_as<uint4>(to + SIZE + i * STEP * (W + 8)), kvr_as<const uint4>(of_v + at),
                     there);
    }
}

/* Flags of the template parameter HOW, which selects the sources that a kernel supports. HOW_TOKENS
 * selects token groups (several tokens of one channel share a scale) instead of channel groups.
 * HOW_CHAINS adds chains of two grids, in which the second grid quantizes the residual. HOW_ROWS
 * adds unquantized rows. HOW_PACKED restricts the kernel to a single symmetric grid of 2 or 4 bits
 * with token groups. */
enum { HOW_CHANNELS = 0, HOW_TOKENS = 1, HOW_CHAINS = 2, HOW_PACKED = 4, HOW_ROWS = 8 };

/* Copies the codes and scales of a tile into the stage, for every quantization grid of K or V. For
 * every grid, the stage contains the codes, then the scales, then the zero points or minima. The 8
 * codes of 8 tokens and one channel occupy `bits` bytes, one in each of `bits` rows. A row has W
 * bytes, where W is the padded head dimension. The codes of a tile (64 tokens) therefore occupy
 * eight times as many rows. */
template <int W, int HOW>
static __device__ __forceinline__ void fetch_grids(const struct tile_source &s,
                                                   const struct tile_bounds &p, int tile,
                                                   kvr_shared<uint8_t> stage)
{
#pragma unroll 1
    for (int i = 0; i < (HOW & HOW_CHAINS ? s.n_grids : 1); i++) {
        const struct tile_grid &g = s.grid[i];
        const int at = fetch_planes<W>(g, p, tile, stage);

        if (HOW & HOW_TOKENS)
            fetch_token_scales<W>(g, p, tile, kvr_as<kvr_f16>(stage + at));
        else
            fetch_channel_scales(g, p, tile, kvr_as<kvr_f16>(stage + at));
        stage = stage + stage_bytes(g, W);
    }
}

/* ---- decode ------------------------------------------------------------------------------- */

/* Reads N = 1, 2 or 4 words of shared memory by one load. */
template <int N, class T>
static __device__ __forceinline__ void read_words(kvr_shared<T> at, unsigned *w)
{
    if (N == 4) {
        const uint4 x = kvr_as<uint4>(at)[0];

        w[0] = x.x;
        w[N > 1 ? 1 : 0] = x.y;
        w[N > 2 ? 2 : 0] = x.z;
        w[N > 2 ? 3 : 0] = x.w;
    } else if (N == 2) {
        const uint2 x = kvr_as<uint2>(at)[0];

        w[0] = x.x;
        w[N > 1 ? 1 : 0] = x.y;
    } else {
        w[0] = kvr_as<unsigned>(at)[0];
    }
}

/* Parameters that dequantize C channels by x = (y - off) s + m, with the group's scale s and
 * minimum m. The number y is the float 2^23 + q, made by inserting the code q into the low bits of
 * the float 2^23. `off` is 2^23 + z. Here, z is the group's zero point, the constant 2^(bits - 1)
 * for a symmetric grid, or 0 for a grid with minima. Hence y - off is exact. */
template <int C> struct dequant_params {
    float s[C], off[C], m[C];
};

/* Extracts a group's scale and its zero point or minimum, all FP16, from the low or the high halves
 * of the words `scale` and `zero`. */
static __device__ __forceinline__ void set_dequant(const struct tile_grid &g, unsigned scale,
                                                   unsigned zero, int high, float &s, float &off,
                                                   float &m)
{
    const float magic = 8388608.0f;
    const unsigned at = (zero & g.zero) | g.middle, least = zero & g.minimum;

    s = kvr_float_of((kvr_f16)(high ? scale >> 16 : scale & 0xffffu));
    off = magic + kvr_float_of((kvr_f16)(high ? at >> 16 : at & 0xffffu));
    m = kvr_float_of((kvr_f16)(high ? least >> 16 : least & 0xffffu));
}

/* Sets the dequantization parameters of C channels of one group. `at` points to the group's scale
 * in shared memory, and `zero` to the group's zero point or minimum. */
template <int C>
static __device__ __forceinline__ void
dequant_from(const struct tile_grid &g, kvr_shared<kvr_f16> at, kvr_shared<kvr_f16> zero,
             struct dequant_params<C> &l)
{
    const unsigned s = (kvr_f16)at[0], z = (kvr_f16)zero[0];

    set_dequant(g, s, z, 0, l.s[0], l.off[0], l.m[0]);
#pragma unroll
    for (int e = 1; e < C; e++) {
        l.s[e] = l.s[0];
        l.off[e] = l.off[0];
        l.m[e] = l.m[0];
    }
}

/* Loads the dequantization parameters of channels [c, c + C) for token i of the tile. If TOKENS is
 * false, the scales are per channel group or per token. The C channels then share one scale,
 * because the size of a channel group is a multiple of C. */
template <int W, bool TOKENS, int C>
static __device__ __forceinline__ void load_dequant(const struct tile_grid &g, int tile, int i,
                                                    int c, kvr_shared<uint8_t> stage,
                                                    struct dequant_params<C> &l)
{
    const kvr_shared<kvr_f16> scales = kvr_as<kvr_f16>(stage + 8 * g.bits * W);

    if (TOKENS) {
        const int at = (((tile + i) >> g.shift) - (tile >> g.shift)) * W + c;
        unsigned s[C / 2], z[C / 2];

        read_words<C / 2>(scales + at, s);
        read_words<C / 2>(scales + at + (g.asym ? g.n_scales : 0), z);
#pragma unroll
        for (int e = 0; e < C; e++)
            set_dequant(g, s[e / 2], z[e / 2], e % 2, l.s[e], l.off[e], l.m[e]);
    } else {
        const kvr_shared<kvr_f16> at = scales + i * g.groups_per_head + (c >> g.shift);

        dequant_from<C>(g, at, at + (g.asym ? g.n_scales : 0), l);
    }
}

/* Packed codes are stored in planes. A plane of 8 tokens and C channels holds F consecutive bits of
 * every code. This function reads one plane and unpacks its bits to one byte per code. */
template <int W, int F, int C>
static __device__ __forceinline__ void read_plane(kvr_shared<uint8_t> at, unsigned (*codes)[C / 4])
{
    const unsigned mask = ((1u << F) - 1u) * 0x01010101u;

#pragma unroll
    for (int r = 0; r < F; r++) {
        unsigned raw[C / 4];

        read_words<C / 4>(at + r * W, raw);
#pragma unroll
        for (int i = 0; i < 8 / F; i++)
#pragma unroll
            for (int w = 0; w < C / 4; w++)
                codes[r * (8 / F) + i][w] = raw[w] >> (F * i) & mask;
    }
}

/* Reads the codes of 8 tokens and C channels: tokens [8 o, 8 o + 8) of the tile and channels [c, c
 * + C). The function unpacks every code to one byte. If the code width is not a power of two, the
 * bits of a code are in several planes. The widest plane has the code's high bits. */
template <int W, int C>
static __device__ __forceinline__ void read_codes(const struct tile_grid &g, int o, int c,
                                                  kvr_shared<uint8_t> stage,
                                                  unsigned (*codes)[C / 4])
{
    stage = stage + c;
    if (g.bits == 4) { /* the most common code widths, 4 and 2 bits, are tested first */
        read_plane<W, 4, C>(stage + o * 4 * W, codes);
        return;
    }
    if (g.bits == 2) {
        read_plane<W, 2, C>(stage + o * 2 * W, codes);
        return;
    }
    if (g.bits == 8) {
        read_plane<W, 8, C>(stage + o * 8 * W, codes);
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int w = 0; w < C / 4; w++)
            codes[i][w] = 0;
#pragma unroll 1
    for (int f = 4; f; f /= 2) {
        const unsigned mask = ((1u << f) - 1u) * 0x01010101u;

        if (!(g.bits & f))
            continue;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            unsigned raw[C / 4];

            read_words<C / 4>(stage + (o * f + (i * f >> 3)) * W, raw);
#pragma unroll
            for (int w = 0; w < C / 4; w++)
                codes[i][w] = codes[i][w] << f | (raw[w] >> (i * f & 7) & mask);
        }
        stage = stage + 8 * f * W;
    }
}

template <int C>
static __device__ __forceinline__ float value_of(const struct dequant_params<C> &l,
                                                 const unsigned *codes, int e)
{
    /* __byte_perm() combines the byte of code e with the bytes 0, 0 and 0x4b, which gives the float
     * 2^23 + code. */
    const unsigned which = 0x7540u + (unsigned)e % 4;

    return fmaf(__uint_as_float(__byte_perm(codes[e / 4], 0x4b000000u, which)) - l.off[e], l.s[e],
                l.m[e]);
}

/* Stores C BF16 values by one store instruction. */
template <int C>
static __device__ __forceinline__ void store_values(kvr_shared<kvr_bf16> to, const unsigned *x)
{
    if (C == 8)
        kvr_as<uint4>(to)[0] = uint4{ x[0], x[1], x[C > 4 ? 2 : 0], x[C > 4 ? 3 : 0] };
    else
        kvr_as<uint2>(to)[0] = uint2{ x[0], x[1] };
}

/* Dequantizes 8 tokens and C channels of keys or values that have a single quantization grid. */
template <int W, bool TOKENS, int C>
static __device__ __forceinline__ void decode_grid(const struct tile_grid &g, int tile, int o,
                                                   int c, kvr_shared<uint8_t> stage,
                                                   kvr_shared<kvr_bf16> to)
{
    kvr_shared<kvr_f16> at =
        kvr_as<kvr_f16>(stage + 8 * g.bits * W) + (8 * o * g.groups_per_head + (c >> g.shift));
    kvr_shared<kvr_f16> zero = at + (g.asym ? g.n_scales : 0);
    struct dequant_params<C> l;
    unsigned codes[8][C / 4];

    read_codes<W, C>(g, o, c, stage, codes);
    if (TOKENS)
        load_dequant<W, true, C>(g, tile, 8 * o, c, stage, l);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        unsigned x[C / 2];

        if (!TOKENS) { /* the next token's scales follow groups_per_head elements later */
            dequant_from<C>(g, at, zero, l);
            at = at + g.groups_per_head;
            zero = zero + g.groups_per_head;
        }
#pragma unroll
        for (int e = 0; e < C / 2; e++)
            x[e] =
                kvr_bf16_pair(value_of<C>(l, codes[i], 2 * e), value_of<C>(l, codes[i], 2 * e + 1));
        store_values<C>(to + i * (W + 8), x);
    }
}

/* Dequantizes 8 tokens and 4 channels of keys or values with a chain of two grids. The second grid
 * quantizes the residual of the first. The dequantized values of the grids are added in F32, in the
 * order of the grids. */
template <int W, bool TOKENS>
static __device__ __forceinline__ void decode_chain(const struct tile_source &s, int tile, int o,
                                                    int c, kvr_shared<uint8_t> stage,
                                                    kvr_shared<kvr_bf16> to)
{
    float x[8][4];

#pragma unroll
    for (int i = 0; i < 32; i++)
        x[i / 4][i % 4] = -0.0f; /* -0.0f + x equals x for every x, also for -0 */
#pragma unroll 1
    for (int n = 0; n < s.n_grids; n++) {
        const struct tile_grid &g = s.grid[n];
        struct dequant_params<4> l;
        unsigned codes[8][1];

        read_codes<W, 4>(g, o, c, stage, codes);
        if (TOKENS)
            load_dequant<W, true, 4>(g, tile, 8 * o, c, stage, l);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            if (!TOKENS)
                load_dequant<W, false, 4>(g, tile, 8 * o + i, c, stage, l);
#pragma unroll
            for (int e = 0; e < 4; e++)
                x[i][e] += value_of<4>(l, codes[i], e);
        }
        stage = stage + stage_bytes(g, W);
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        kvr_as<uint2>(to + i * (W + 8))[0] =
            uint2{ kvr_bf16_pair(x[i][0], x[i][1]), kvr_bf16_pair(x[i][2], x[i][3]) };
}

/* Scales of 8 channels, each split into a sum hi + lo of two BF16 numbers for packed_values(). */
struct split_scales {
    unsigned hi[4], lo[4];
};

/* Splits each of 8 FP16 scales into two BF16 numbers: hi is the scale rounded to BF16, and lo is
 * the rest, scale - hi. Each of the four words of `two` has the scales of two adjacent channels. */
static __device__ __forceinline__ void split(const unsigned *two, struct split_scales &s)
{
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const float a = kvr_float_of((kvr_f16)(two[e] & 0xffffu));
        const float b = kvr_float_of((kvr_f16)(two[e] >> 16));

        s.hi[e] = kvr_bf16_pair(a, b);
        const float ha = __uint_as_float(s.hi[e] << 16);
        const float hb = __uint_as_float(s.hi[e] & 0xffff0000u);

        /* If a scale equals its hi, lo is 0 without a subtraction, because infinity - infinity
         * would be NaN. */
        s.lo[e] = kvr_bf16_pair(a == ha ? 0.0f : a - ha, b == hb ? 0.0f : b - hb);
    }
}

/* Dequantizes the codes of 8 channels of one token to four BF16 pairs. The grid is symmetric and
 * has F = 2 or 4 bits per code. Bits [F i, F i + F) of each byte of the two words in `raw` are one
 * code. A code in the low bits of the BF16 number 2^7 gives exactly 2^7 + code. Subtracting 2^7 and
 * the grid's middle 2^(F - 1) gives d = code - 2^(F - 1), with |d| <= 8. Let hi be the FP16 scale s
 * rounded to BF16, and lo = s - hi. s has 11 significand bits and hi has 8, so |lo| is at most 4
 * units in the last place of s. Therefore lo has at most two significand bits. Hence the product d
 * lo is exact in BF16, and the FMA d hi + d lo gives d s, rounded once to BF16. The argument `high`
 * is 0x43, the upper byte of the BF16 number 2^7. The PRMT instruction reads `high` from a
 * per-thread register, because its immediate operand is the selector. The compiler may place a
 * constant in a uniform register, from which it must first be copied. To avoid the copy, a caller
 * can pass `high` as a run-time value. */
template <int F>
static __device__ __forceinline__ void packed_values(const unsigned *raw, int i,
                                                     const struct split_scales &s, unsigned *x,
                                                     unsigned high = 0x43u)
{
    const unsigned ones = 0x3f803f80u; /* the BF16 pair (1, 1) */
    /* a BF16 pair of two numbers -(2^7 + 2^(F - 1)); the FMA adds them to 2^7 + code, which gives
     * code - 2^(F - 1) */
    const unsigned middle = F == 4 ? 0xc308c308u : 0xc302c302u;
    const unsigned mask = ((1u << F) - 1u) * 0x01010101u;

#pragma unroll
    for (int e = 0; e < 4; e++) {
        const unsigned q = raw[e / 2] >> (F * i) & mask;
        const unsigned code = __byte_perm(q, high, e % 2 ? 0x4342u : 0x4140u);
        const unsigned d = kvr_bf16_fma(code, ones, middle);

        x[e] = kvr_bf16_fma(d, s.hi[e], kvr_bf16_fma(d, s.lo[e], 0u));
    }
}

/* Dequantizes 8 tokens and 8 channels of a symmetric grid with F bits per code. Each call of
 * packed_values() dequantizes 8 channels of one token. */
template <int W, int F>
static __device__ __forceinline__ void decode_packed(const struct tile_grid &g, int tile, int o,
                                                     int c, kvr_shared<uint8_t> stage,
                                                     kvr_shared<kvr_bf16> to)
{
    const kvr_shared<kvr_f16> scales = kvr_as<kvr_f16>(stage + 8 * F * W);
    struct split_scales s;
    unsigned two[4];

    read_words<4>(scales + (((tile + 8 * o) >> g.shift) - (tile >> g.shift)) * W + c, two);
    split(two, s);
#pragma unroll
    for (int r = 0; r < F; r++) {
        unsigned raw[2];

        read_words<2>(stage + (o * F + r) * W + c, raw);
#pragma unroll
        for (int i = 0; i < 8 / F; i++) {
            unsigned x[4];

            packed_values<F>(raw, i, s, x);
            store_values<8>(to + (r * (8 / F) + i) * (W + 8), x);
        }
    }
}

/* Among 8 tokens of the tile, zeroes C channels of every token outside the span. */
template <int W, int C>
static __device__ __forceinline__ void clear_outside(const struct tile_bounds &p, int tile, int o,
                                                     kvr_shared<kvr_bf16> to)
{
#pragma unroll 1
    for (int i = 0; i < 8; i++)
        if (tile + 8 * o + i < p.t0 || tile + 8 * o + i >= p.end)
#pragma unroll
            for (int e = 0; e < C; e += 4)
                kvr_as<uint2>(to + i * (W + 8) + e)[0] = uint2{ 0, 0 };
}

/* Loads 8 tokens and 4 channels of unquantized rows from global memory, and stores them to the tile
 * as BF16. */
template <int W>
static __device__ __forceinline__ void decode_rows(const struct tile_source &s,
                                                   const struct tile_bounds &p, int tile, int o,
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

/* Dequantizes the codes in the stage and stores the tile. In each iteration a thread dequantizes 8
 * tokens by C channels. With a padded head dimension W = 128 and C = 8, the 128 threads dequantize
 * the tile of 64 tokens in one iteration. */
template <int W, int HOW>
static __device__ __forceinline__ void decode(const struct tile_source &s,
                                              const struct tile_bounds &p, int tile,
                                              kvr_shared<uint8_t> stage, kvr_shared<kvr_bf16> rows)
{
    enum {
        C = HOW & (HOW_CHAINS | HOW_ROWS) ? 4 : 8,
        EACH = W / C,
        N = TILE / 8 * EACH,
        ROUNDS = (N + MMA_THREADS - 1) / MMA_THREADS
    };
    const bool ragged = tile < p.t0 || tile + TILE > p.end;
    int i = kvr_thread();

#pragma unroll 1
    for (int round = 0; round < ROUNDS; round++, i += MMA_THREADS) {
        const int o = i / EACH, c = i % EACH * C;
        const kvr_shared<kvr_bf16> to = rows + 8 * o * (W + 8) + c;

        if ((N % MMA_THREADS && i >= N) || c >= p.head_dim)
            continue;
        if (HOW & HOW_ROWS && s.kind != GRIDS)
            decode_rows<W>(s, p, tile, o, c, rows);
        else if (HOW & HOW_PACKED && s.grid[0].bits == 4)
            decode_packed<W, 4>(s.grid[0], tile, o, c, stage, to);
        else if (HOW & HOW_PACKED)
            decode_packed<W, 2>(s.grid[0], tile, o, c, stage, to);
        else if (HOW & HOW_CHAINS)
            decode_chain<W, (HOW & HOW_TOKENS) != 0>(s, tile, o, c, stage, to);
        else
            decode_grid<W, (HOW & HOW_TOKENS) != 0, C>(s.grid[0], tile, o, c, stage, to);
        if (ragged)
            clear_outside<W, C>(p, tile, o, to);
    }
}

/* ---- outliers ------------------------------------------------------------------------------- */

/* Returns the index of this thread's first outlier at or after the start of the span. Outliers are
 * distributed over threads: a thread processes every MMA_THREADS-th outlier. */
static __device__ __forceinline__ int first_exact(const struct tile_source &s,
                                                  const struct tile_bounds &p)
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

/* Writes those outliers of the tile that are assigned to this thread to the tile `rows`, whose row
 * stride is `stride`. `next` is the thread's first outlier that is not yet processed, an index into
 * s.index. If ZEROS is true, `rows` contains the tile's squared scales for the Taylor correction.
 * The function then writes 0, because outliers have no quantization error. Returns the new value of
 * `next`. */
template <bool ZEROS>
static __device__ __forceinline__ int put(const struct tile_source &s, const struct tile_bounds &p,
                                          int tile, int next, kvr_shared<kvr_bf16> rows, int stride)
{
    const int channels = p.n_heads * p.head_dim; /* int suffices, since flat element indices are
                                                  * int32 */
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
