/* attend_mma_rows.cuh - device functions of attend_mma.cu for the ROWS query rows of a warp: load
 * of Q, S by mma.sync, Taylor correction, online softmax, P V and epilogue. */
#ifndef KVR_CACHE_ATTEND_MMA_ROWS_CUH
#define KVR_CACHE_ATTEND_MMA_ROWS_CUH

#include "harness/cache/attend_mma.h"
#include "harness/cache/attend_part.cuh"
#include "harness/cache/attend_queries.cuh"
#include "harness/cache/attend_tile.cuh"

enum { ROWS = 32, QUERIES = MMA_WARPS * ROWS, BLOCKS = 2 };
static_assert((int)QUERIES == (int)PART_QUERIES, "a CTA computes PART_QUERIES queries");

/* Whether a main-loop step computes S for a whole tile of dequantized keys; otherwise it computes S
 * for half a tile. The accumulators of O and of a whole tile's S just fit into the registers of a
 * thread. In kernels that also dequantize, these accumulators fit on sm_90 only. The tests run the
 * kernels in a CPU emulator. The emulator uses whole-tile steps for tiles with odd indices and
 * half-tile steps for the other tiles, which tests both kinds of step. */
static __device__ __forceinline__ bool whole_tile(int tile)
{
#ifdef KVR_EMULATED
    return tile / TILE % 2;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1000
    return true;
#else
    return false;
#endif
}

/* Shape [rows][columns] of the shared-memory array that stores the squared quantization scales of a
 * tile's keys. To compute the Taylor correction, an MMA multiplies this array by squared query
 * elements. W is the head dimension, rounded up to 64 or 128. */
enum taylor_kind {
    TAYLOR_NO,
    /* [8][W]: one row per 8 tokens of the tile, which share one scale per channel */
    TAYLOR_OCTETS,
    /* [TILE][16]: one row per token and one column per channel group; the MMA multiplies a column
     * by the sum of the squared query elements in the channel group */
    TAYLOR_GROUPS,
    /* [TILE][W]: one row per token, with 0 for outliers, which have no quantization error */
    TAYLOR_ELEMENTS,
};
enum { GROUPS = 16, GROUP_STRIDE = GROUPS + 8 };

/* Indices of arrays with one element for keys and one element for values. */
enum { K, V };

struct span_job {
    struct tile_source of[2];
    int t0, end;
    float log_m, scale;
    enum taylor_kind taylor;
    bool biased;
    /* The members at_... are byte offsets in the CTA's shared memory, and n_shared is the size of
     * this memory in bytes. */
    int at_tiles, at_scales, at_norms, at_stage[2], n_shared;
    bool plain; /* K and V are both BF16 rows, whose tiles are double-buffered in shared memory */
};

/* Loads Q as BF16 into the shared-memory array [QUERIES][W + 8], where W is the head dimension,
 * rounded up to 64 or 128. Rows of Q past the last query become zero. */
template <int W>
static __device__ __forceinline__ void load_queries(const struct kvr_attend_shape &a, int first,
                                                    int h, const struct kvr_attend_io &io,
                                                    kvr_shared<kvr_bf16> out)
{
    typedef struct kvr_vec<unsigned, 2> pairs;

    load_rounded<W, QUERIES, MMA_THREADS, 4>(
        a, a.head_dim, io, kvr_thread(), first, h,
        [&](int r, int c, pairs x) { kvr_as<pairs>(out + r * (W + 8) + c)[0] = x; });
}

/* Zeroes the padding columns [head_dim, W) of shared-memory tiles, whose rows have W columns. A
 * kernel calls this function only once, because no later load writes the zeroed columns. */
template <int W>
static __device__ __forceinline__ void clear_rest(int head_dim, int n_rows,
                                                  kvr_shared<kvr_bf16> rows)
{
#pragma unroll 1
    for (int r = kvr_thread(); r < n_rows; r += MMA_THREADS)
#pragma unroll 1
        for (int c = head_dim; c < W; c += 4)
            kvr_as<uint2>(rows + r * (W + 8) + c)[0] = uint2{ 0, 0 };
}

/* Returns the number of channels per quantization group of the keys `k`, which must not have token
 * groups. If the keys have two grids, the result is that of the second grid, because its
 * quantization error is the error of the keys. */
static __device__ __forceinline__ int group_of(const struct tile_source &k, int head_dim)
{
    return head_dim / (k.n_grids > 1 ? k.grid[1].groups_per_head : k.grid[0].groups_per_head);
}

/* For every query row of the CTA and every channel group of the keys, computes the sum of the
 * squared query elements in the group. Stores the sums as [QUERIES][GROUP_STRIDE]. */
static __device__ __forceinline__ void load_norms(const struct kvr_attend_shape &a, int first,
                                                  int h, int group, const struct kvr_attend_io &io,
                                                  kvr_shared<kvr_bf16> out)
{
    const kvr_global<const float> q(io.q);
    const kvr_global<const kvr_bf16> q16(io.q16);

#pragma unroll 1
    for (int i = kvr_thread(); i < QUERIES * GROUPS; i += MMA_THREADS) {
        const int r = i / GROUPS, g = i % GROUPS;
        float sum = 0;

        if (first + r < a.n_query && g < a.head_dim / group)
#pragma unroll 1
            for (int c = g * group; c < (g + 1) * group; c++) {
                const int64_t at = ((int64_t)(first + r) * a.n_heads + h) * a.head_dim + c;
                const float x = io.q16 ? kvr_bf16_low((kvr_bf16)q16[at]) : (float)q[at];

                sum = fmaf(x, x, sum);
            }
        out[r * GROUP_STRIDE + g] = (kvr_bf16)kvr_bf16_pair(sum, 0);
    }
}

/* Computes the negative factor -s^2 / (24 sqrt(D)) for every quantization scale s of the tile's
 * keys, where D is the head dimension. An MMA in correct() multiplies the factors by squared query
 * elements and adds the products to Q K^T. Since the softmax later multiplies Q K^T by 1 / sqrt(D),
 * this subtracts the Taylor correction. */
template <int W, bool TOKENS>
static __device__ __forceinline__ void
load_scales(const struct span_job &j, const struct tile_bounds &p, int tile,
            kvr_shared<uint8_t> stage, kvr_shared<kvr_bf16> out)
{
    const bool second = j.of[K].n_grids > 1;
    const struct tile_grid &g = second ? j.of[K].grid[1] : j.of[K].grid[0];
    const kvr_shared<uint8_t> from = stage + (second ? stage_bytes(j.of[K].grid[0], W) : 0);
    const kvr_shared<kvr_f16> scales = kvr_as<kvr_f16>(from + 8 * g.bits * W);
    const float factor = j.scale * (-1.0f / 24.0f);

    if (j.taylor == TAYLOR_GROUPS) {
#pragma unroll 1
        for (int i = kvr_thread(); i < TILE * GROUPS; i += MMA_THREADS) {
            const int r = i / GROUPS, c = i % GROUPS;
            const float s =
                c < g.groups_per_head ? kvr_float_of(scales[r * g.groups_per_head + c]) : 0.0f;

            out[r * GROUP_STRIDE + c] = (kvr_bf16)kvr_bf16_pair(s * s * factor, 0);
        }
        return;
    }
    const int each = j.taylor == TAYLOR_OCTETS ? 8 : 1;

#pragma unroll 1
    for (int i = kvr_thread(); i < TILE / each * (W / 4); i += MMA_THREADS) {
        const int r = i / (W / 4), c = i % (W / 4) * 4;

        if (c >= p.head_dim)
            continue;
        struct dequant_params<4> l;

        load_dequant<W, TOKENS, 4>(g, tile, r * each, c, from, l);
        const uint2 pair = {
            kvr_bf16_pair(l.s[0] * l.s[0] * factor, l.s[1] * l.s[1] * factor),
            kvr_bf16_pair(l.s[2] * l.s[2] * factor, l.s[3] * l.s[3] * factor),
        };

        kvr_as<uint2>(out + r * (W + 8) + c)[0] = pair;
    }
}

/* Returns the row whose address this lane supplies to ldmatrix for an MMA A operand. ldmatrix
 * loads the four 8 x 8 matrices in the order top left, bottom left, top right, bottom right. */
static __device__ __forceinline__ int row_of_a(int lane)
{
    return lane / 8 % 2 * 8 + lane % 8;
}

/* Computes S = Q K^T for the warp's queries and for N keys of the tile. */
template <int W, int N>
static __device__ __forceinline__ void scores(int lane, kvr_shared<const kvr_bf16> q,
                                              kvr_shared<const kvr_bf16> k, float (*s)[N / 8][4])
{
    const kvr_shared<const kvr_bf16> a_row = q + row_of_a(lane) * (W + 8) + lane / 16 * 8;
    const kvr_shared<const kvr_bf16> b_row =
        k + (lane / 16 * 8 + lane % 8) * (W + 8) + lane / 8 % 2 * 8;

#pragma unroll
    for (int d = 0; d < W; d += 16) {
        unsigned a[BLOCKS][4];

#pragma unroll
        for (int m = 0; m < BLOCKS; m++)
            kvr_ldmatrix(a[m], a_row + m * 16 * (W + 8) + d);
#pragma unroll
        for (int n = 0; n < N / 16; n++) {
            unsigned b[4];

            kvr_ldmatrix(b, b_row + n * 16 * (W + 8) + d);
#pragma unroll
            for (int m = 0; m < BLOCKS; m++) {
                kvr_mma(s[m][2 * n], a[m], b);
                kvr_mma(s[m][2 * n + 1], a[m], b + 2);
            }
        }
    }
}

/* Subtracts the Taylor correction of N keys from S, by MMAs with the negative factors that
 * load_scales() computes. The array `a` contains Q, which the function squares. If `kind` is
 * TAYLOR_GROUPS, `a` instead contains the sums that load_norms() computes. `scales` has one row per
 * key or, for TAYLOR_OCTETS, one row per 8 tokens of the tile. The N keys start at key `from` of
 * the tile. */
template <int W, int N>
static __device__ __forceinline__ void
correct(enum taylor_kind kind, int lane, kvr_shared<const kvr_bf16> a,
        kvr_shared<const kvr_bf16> scales, int from, float (*s)[N / 8][4])
{
    const bool sums = kind == TAYLOR_GROUPS;
    const int stride = sums ? GROUP_STRIDE : W + 8, width = sums ? GROUPS : W;
    const kvr_shared<const kvr_bf16> a_row = a + row_of_a(lane) * stride + lane / 16 * 8;
    const kvr_shared<const kvr_bf16> b_row = scales + lane / 4 * stride + lane % 4 * 2;
    float octets[BLOCKS][4] = {};

#pragma unroll 1
    for (int d = 0; d < width; d += 16) {
        unsigned q2[BLOCKS][4];

#pragma unroll
        for (int m = 0; m < BLOCKS; m++) {
            kvr_ldmatrix(q2[m], a_row + m * 16 * stride + d);
#pragma unroll
            for (int i = 0; i < 4; i++)
                q2[m][i] = sums ? q2[m][i] : kvr_bf16_square(q2[m][i]);
        }
        if (kind == TAYLOR_OCTETS) {
            const unsigned b[2] = { kvr_as<const unsigned>(b_row + d)[0],
                                    kvr_as<const unsigned>(b_row + d + 8)[0] };

#pragma unroll
            for (int m = 0; m < BLOCKS; m++)
                kvr_mma(octets[m], q2[m], b);
            continue;
        }
#pragma unroll
        for (int n = 0; n < N / 8; n++) {
            const kvr_shared<const kvr_bf16> at = b_row + n * 8 * stride + d;
            const unsigned b[2] = { kvr_as<const unsigned>(at)[0],
                                    kvr_as<const unsigned>(at + 8)[0] };

#pragma unroll
            for (int m = 0; m < BLOCKS; m++)
                kvr_mma(s[m][n], q2[m], b);
        }
    }
    /* Each row of `scales` covers 8 tokens, so column n of `octets` is the correction of tokens
     * [8 n, 8 n + 8) of the tile. */
    if (kind != TAYLOR_OCTETS)
        return;
#pragma unroll
    for (int m = 0; m < BLOCKS; m++)
#pragma unroll
        for (int n = 0; n < N / 8; n++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const float c =
                    __shfl_sync(~0u, octets[m][2 * i + n % 2], (lane & ~3) | (from / 8 + n) / 2);

                s[m][n][2 * i] += c;
                s[m][n][2 * i + 1] += c;
            }
}

/* Sets the scores of tokens outside the span to -infinity. `t` is the token of the first column of
 * S. */
template <int N>
static __device__ __forceinline__ void mask_scores(int lane, int t, const struct tile_bounds &p,
                                                   float (*s)[N / 8][4])
{
#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int mine = t + 8 * n + lane % 4 * 2 + i;

            if (mine >= p.t0 && mine < p.end)
                continue;
#pragma unroll
            for (int m = 0; m < BLOCKS; m++)
                s[m][n][i] = s[m][n][2 + i] = -INFINITY;
        }
}

/* First half of the online softmax, which updates the row maxima. From the previous row maximum
 * `top`, the function computes the new row maximum `now` and the factor `rescale` for the
 * denominator l and for O. The function also computes `shift`: the softmax weight of an element x
 * of S is exp2(x * scale * log2(e) + shift). Element r of `now`, `rescale` and `shift` belongs to
 * row lane / 4 + 8 r of the warp. A NaN score does not become the row maximum but later makes l
 * NaN. While all scores of a row are -infinity, `rescale` and `shift` use 0 as the maximum. */
template <int N>
static __device__ __forceinline__ void
new_maxima(const float (*s)[N / 8][4], float scale, kvr_shared<const float> bias,
           kvr_shared<const float> top, float *now, float *rescale, float *shift)
{
    const float log2e = 1.44269504f;
    float best[2 * BLOCKS];

#pragma unroll
    for (int r = 0; r < 2 * BLOCKS; r++)
        best[r] = s[r / 2][0][2 * (r % 2)];
#pragma unroll
    for (int i = 1; i < N / 4; i++)
#pragma unroll
        for (int r = 0; r < 2 * BLOCKS; r++)
            best[r] = fmaxf(best[r], s[r / 2][i / 2][2 * (r % 2) + i % 2]);
#pragma unroll
    for (int b = 1; b < 4; b *= 2)
#pragma unroll
        for (int r = 0; r < 2 * BLOCKS; r++)
            best[r] = fmaxf(best[r], __shfl_xor_sync(~0u, best[r], b));
#pragma unroll
    for (int r = 0; r < 2 * BLOCKS; r++) {
        const float mine = bias[8 * r], before = top[8 * r];

        now[r] = fmaxf(before, fmaf(best[r], scale, mine));
        const float zero = now[r] == -INFINITY ? 0.0f : now[r];

        shift[r] = (mine - zero) * log2e;
        rescale[r] = kvr_exp2((before - zero) * log2e);
    }
}

/* Second half of the online softmax, which computes the weights P and O += P V, 16 tokens per step.
 * The exp2 of the next 16 tokens overlaps with the MMAs of the current 16 tokens. `sum` receives
 * the lane's partial row sums of P. */
template <int W, int N>
static __device__ __forceinline__ void add_values(int lane, float (*s)[N / 8][4], float scale,
                                                  const float *shift, kvr_shared<const kvr_bf16> v,
                                                  float *sum, float (*out)[W / 8][4])
{
    const kvr_shared<const kvr_bf16> row = v + row_of_a(lane) * (W + 8) + lane / 16 * 8;
    const float factor = scale * 1.44269504f;

#pragma unroll
    for (int t = 0; t < N / 16; t++) {
        unsigned p[BLOCKS][4];

#pragma unroll
        for (int n = 2 * t; n < 2 * t + 2; n++)
#pragma unroll
            for (int r = 0; r < 2 * BLOCKS; r++) {
                const float *of = s[r / 2][n] + 2 * (r % 2);
                const float a = kvr_exp2(fmaf(of[0], factor, shift[r]));
                const float b = kvr_exp2(fmaf(of[1], factor, shift[r]));

                sum[r] = (n ? sum[r] + a : a) + b;
                p[r / 2][2 * (n % 2) + r % 2] = kvr_bf16_pair(a, b);
            }
#pragma unroll
        for (int d = 0; d < W / 16; d++) {
            unsigned b[4];

            kvr_ldmatrix_transposed(b, row + t * 16 * (W + 8) + d * 16);
#pragma unroll
            for (int m = 0; m < BLOCKS; m++) {
                kvr_mma(out[m][2 * d], p[m], b);
                kvr_mma(out[m][2 * d + 1], p[m], b + 2);
            }
        }
    }
}

/* A lane's part of the O accumulator, in registers. Row r of the lane's accumulator is row lane / 4
 * + 8 r of the warp. */
template <int W> struct accumulator {
    float out[BLOCKS][W / 8][4];
};

/* Offsets of the rows' softmax state in the shared-memory array [3][QUERIES]: the score bias, the
 * denominator l and the running maximum m. Of the four lanes that share a query row, only the first
 * lane writes the row's state. A lane addresses the array from row lane / 4 of its warp, the first
 * of the lane's rows. The lane's other rows follow at multiples of 8 rows. */
enum { BIAS = 0, TOTAL = QUERIES, TOP = 2 * QUERIES, N_NUMBERS = 3 * QUERIES };

/* One main-loop step of a warp, which computes S, the online softmax and O += P V for tokens [t, t
 * + N). */
template <int W, int N, bool CORRECTED>
static __device__ __forceinline__ void
attend_keys(float scale, enum taylor_kind taylor, const struct tile_bounds &bounds, int self, int t,
            kvr_shared<const kvr_bf16> queries, kvr_shared<const kvr_bf16> norms,
            kvr_shared<const kvr_bf16> keys, kvr_shared<const kvr_bf16> scales,
            kvr_shared<const kvr_bf16> values, kvr_shared<float> rows, struct accumulator<W> &o)
{
    const int lane = self % 32, row = self / 32 * ROWS;
    const kvr_shared<float> numbers = rows + row + lane / 4;
    float s[BLOCKS][N / 8][4] = {};

    scores<W, N>(lane, queries + row * (W + 8), keys, s);
    if (CORRECTED && taylor)
        correct<W, N>(taylor, lane,
                      taylor == TAYLOR_GROUPS ? norms + row * GROUP_STRIDE
                                              : queries + row * (W + 8),
                      scales, t % TILE, s);
    if (t < bounds.t0 || t + N > bounds.end)
        mask_scores<N>(lane, t, bounds, s);
    float now[2 * BLOCKS], rescale[2 * BLOCKS], shift[2 * BLOCKS], sum[2 * BLOCKS];

    new_maxima<N>(s, scale, numbers + BIAS, numbers + TOP, now, rescale, shift);
    bool moved = false;

    __syncwarp(); /* waits until all lanes have read the previous row maxima */
    if (lane % 4 == 0)
#pragma unroll
        for (int r = 0; r < 2 * BLOCKS; r++)
            numbers[TOP + 8 * r] = now[r];

#pragma unroll
    for (int r = 0; r < 2 * BLOCKS; r++)
        moved |= rescale[r] != 1.0f;
    /* O is rescaled only if a row maximum has grown, which is rare after the first tiles */
    if (__any_sync(~0u, moved))
#pragma unroll
        for (int r = 0; r < 2 * BLOCKS; r++) {
            if (lane % 4 == 0)
                numbers[TOTAL + 8 * r] *= rescale[r];
#pragma unroll
            for (int n = 0; n < W / 8; n++) {
                o.out[r / 2][n][r % 2 * 2] *= rescale[r];
                o.out[r / 2][n][r % 2 * 2 + 1] *= rescale[r];
            }
        }
    add_values<W, N>(lane, s, scale, shift, values, sum, o.out);
#pragma unroll
    for (int b = 1; b < 4; b *= 2)
#pragma unroll
        for (int r = 0; r < 2 * BLOCKS; r++)
            sum[r] += __shfl_xor_sync(~0u, sum[r], b);
    if (lane % 4 == 0)
#pragma unroll
        for (int r = 0; r < 2 * BLOCKS; r++)
            numbers[TOTAL + 8 * r] += sum[r];
    __syncwarp(); /* makes the row's m and l visible to all four lanes that share the row */
}

/* If `seen` is true, loads the softmax state that earlier launches stored for the CTA's query rows,
 * otherwise initializes the state. The score bias of a row, which is added to all its scores, is
 * log_m. This is the logarithm of the number of original tokens that each attended token replaces.
 * If `biased` is true, `bias` has one number per query and head, which the function subtracts from
 * log_m. */
template <int W>
static __device__ __forceinline__ void
load_state(const struct rows_at &at, int head_dim, bool seen, float log_m, bool biased,
           kvr_global<const float> bias, int self, kvr_shared<float> rows, struct accumulator<W> &o)
{
    const int lane = self % 32, first = self / 32 * ROWS;
    const kvr_shared<float> numbers = rows + first + lane / 4;

#pragma unroll
    for (int r = 0; r < 2 * BLOCKS; r++) {
        const int i = first + r * 8 + lane / 4;
        const int64_t row = at.at + (int64_t)i * at.step;
        const bool there = i < at.n, read = there && seen;

        if (lane % 4 == 0) {
            numbers[TOP + 8 * r] = read ? (float)at.mx[row] : there ? -INFINITY : 0.0f;
            numbers[TOTAL + 8 * r] = read ? (float)at.sum[row] : 0.0f;
            numbers[BIAS + 8 * r] = log_m - (there && biased ? (float)bias[row] : 0.0f);
        }
        const int columns = read ? head_dim : 0; /* a multiple of 16, as the loop requires */
        const kvr_global<const float> from = at.acc + ((read ? row * head_dim : 0) + lane % 4 * 2);

#pragma unroll
        for (int n = 0; n < W / 8; n++) {
            float2 x = { 0, 0 };

            if (n / 2 * 16 < columns)
                x = kvr_as<const float2>(from + 8 * n)[0];
            o.out[r / 2][n][r % 2 * 2] = x.x;
            o.out[r / 2][n][r % 2 * 2 + 1] = x.y;
        }
    }
}

/* Epilogue of a warp. If `ends` is true, the function divides the accumulator O by the denominator
 * l and writes the quotient, the output [T,H,D] for T queries and H heads. It writes BF16 to
 * io.out16 if this pointer is set, otherwise F32 to io.out. If `ends` is false, the function writes
 * the softmax state or, under split-KV, the partial result. */
template <int W>
static __device__ __forceinline__ void store(const struct rows_at &at, int head_dim, bool ends,
                                             const struct kvr_attend_io &io, int self,
                                             kvr_shared<float> rows, struct accumulator<W> &o)
{
    const int lane = self % 32, first = self / 32 * ROWS;
    const kvr_shared<float> numbers = rows + first + lane / 4;

    if (ends)
#pragma unroll
        for (int r = 0; r < 2 * BLOCKS; r++) {
            const float by = 1.0f / numbers[TOTAL + 8 * r];

#pragma unroll
            for (int n = 0; n < W / 8; n++) {
                o.out[r / 2][n][r % 2 * 2] *= by;
                o.out[r / 2][n][r % 2 * 2 + 1] *= by;
            }
        }
    const kvr_global<float> acc = ends ? kvr_global<float>(io.out) : at.acc;

#pragma unroll
    for (int r = 0; r < 2 * BLOCKS; r++) {
        const int i = first + r * 8 + lane / 4;
        const int64_t row = at.at + (int64_t)i * at.step, to = row * head_dim + lane % 4 * 2;

        if (i >= at.n)
            continue;
        if (ends && io.out16) {
            const kvr_global<kvr_bf16> rounded = kvr_global<kvr_bf16>(io.out16) + to;

#pragma unroll
            for (int n = 0; n < W / 8; n++)
                if (n / 2 * 16 < head_dim)
                    kvr_as<unsigned>(rounded + 8 * n)[0] =
                        kvr_bf16_pair(o.out[r / 2][n][r % 2 * 2], o.out[r / 2][n][r % 2 * 2 + 1]);
            continue;
        }
        if (!ends && lane % 4 == 0) {
            at.mx[row] = numbers[TOP + 8 * r];
            at.sum[row] = numbers[TOTAL + 8 * r];
        }
#pragma unroll
        for (int n = 0; n < W / 8; n++)
            if (n / 2 * 16 < head_dim)
                kvr_as<float2>(acc + to + 8 * n)[0] =
                    float2{ o.out[r / 2][n][r % 2 * 2], o.out[r / 2][n][r % 2 * 2 + 1] };
    }
}

#endif
