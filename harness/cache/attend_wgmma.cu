/* attend_wgmma.cu - see attend_wgmma.h.
 *
 * A CTA computes attention for QUERIES = 128 queries of one head. A CTA has one producer warpgroup
 * and two consumer warpgroups. Each consumer group computes ROWS = 64 query rows. Tiles of KEYS
 * tokens pass through a shared-memory pipeline with two stages for K and two stages for V. The
 * mbarrier `full` of a stage signals that the stage's tile has arrived. The stage's mbarrier
 * `empty` counts the consumer warps that release the tile: eight, or sixteen if two CTAs share
 * tiles. One producer thread loads BF16 rows by TMA. Quantized rows are dequantized by all 128
 * producer threads into the same stages. Loaded and dequantized tiles have the same 128-byte
 * swizzle in shared memory, so the consumers do not distinguish them. The producer prefetches the
 * codes of the next tile while it dequantizes a tile.
 *
 * For quantized spans, two CTAs with adjacent queries of one head form a cluster. In the cluster,
 * CTA 0 dequantizes K, and CTA 1 dequantizes V. Each CTA copies its dequantized tile to the shared
 * memory of the other CTA (DSMEM). A stage may be refilled once the consumers of both CTAs have
 * released the stage. For this, the consumer warps of both CTAs arrive on the mbarrier `empty` of
 * CTA 0 for stages of K, and on that of CTA 1 for stages of V. DeepSeek's FlashMLA shares tiles in
 * a similar way. There, each of two CTAs converts half of an FP8 tile to BF16 and stores that half
 * to the shared memory of both CTAs (github.com/deepseek-ai/FlashMLA, deep dive into the FP8
 * decoding kernel on Hopper).
 *
 * For overlap within a consumer group, the group issues S = Q K^T of tile j together with O += P V
 * of tile j - 1, so that P V runs during the softmax of tile j. For overlap between the groups
 * (ping-pong), the two groups issue GEMMs in turns, so that one group's softmax overlaps with the
 * other group's GEMMs. Results are deterministic, because the order of every sum is fixed.
 *
 * The last, partial wave of CTAs is split along KV (split-KV, attend_split.h). The CTAs of the last
 * wave write partial results, which a second launch merges in a fixed order.
 *
 * The design follows FlashAttention-3 (Shah et al., arXiv 2407.08608). */
#include "harness/cache/attend_wgmma.h"

#include "harness/cache/attend_part.cuh"
#include "harness/cache/attend_queries.cuh"
#include "harness/cache/attend_tile.cuh"
#include "harness/cache/attend_wgmma_list.cuh"
#include "harness/cache/attend_wgmma_producer.cuh"
#include "harness/cache/query_norm.cuh"
#include "harness/device/hopper.cuh"
#include "harness/device/kernel.cuh"
#include "methods/codec.h"

/* ---- consumer groups ---------------------------------------------------------------------- */

/* Returns the swizzled byte offset of channel c of query row r in the Q tile of a consumer
 * group. */
static __device__ __forceinline__ int query_at(int r, int c)
{
    return c / KVR_TILE_COLUMNS * Q_PANEL + r * 128 + (c / 8 % 8 ^ r % 8) * 16 + c % 8 * 2;
}

/* Loads the Q tile of a consumer group as BF16 into shared memory. If io.norm is set, the function
 * applies RMSNorm and RoPE to the queries. Rows of the Q tile past the last query become zero. */
template <int FORM>
static __device__ __forceinline__ void load_queries(const struct kvr_attend_shape &a, int first,
                                                    int h, const struct kvr_attend_io &io,
                                                    kvr_shared<uint8_t> to)
{
    typedef struct kvr_vec<unsigned, 4> pairs;
    constexpr int D = form<FORM>::D;
    const int self = (int)threadIdx.x % KVR_WARPGROUP;

    /* if a span is quantized, kvr_attend_norm_cuda() has already applied RMSNorm and RoPE to Q in a
     * separate launch */
    if constexpr (!form<FORM>::CODED)
        if (io.norm.inverses) {
            load_normed<D, ROWS, KVR_WARPGROUP>(
                a, io.norm, io.q16, self, first, h, [&](int r, unsigned x) {
                    kvr_as<unsigned>(to + query_at(r, (int)threadIdx.x % (D / 2) * 2))[0] = x;
                });
            return;
        }
    load_rounded<D, ROWS, KVR_WARPGROUP, 8>(a, D, io, self, first, h, [&](int r, int c, pairs x) {
        kvr_as<pairs>(to + query_at(r, c))[0] = x;
    });
}

/* Online-softmax state of a thread's two query rows, which are rows lane / 4 and lane / 4 + 8 of
 * its warp. `top` is the running row maximum m, `sum` is the thread's partial sum of the
 * denominator l, and `out` is the thread's columns of the O accumulator. */
template <int D> struct softmax_state {
    float top[2], sum[2];
    struct kvr_registers<float, D / 2> out;
};

/* Issues the GEMM S = Q K^T of a tile. */
template <int D>
static __device__ __forceinline__ void issue_scores(kvr_sums &s, kvr_matrix_desc q,
                                                    kvr_matrix_desc keys)
{
#pragma unroll
    for (int d = 0; d < D; d += 16) {
        const int panel = d / KVR_TILE_COLUMNS, bytes = d % KVR_TILE_COLUMNS * 2;

        kvr_wgmma(s, kvr_matrix_desc_advance(q, panel * Q_PANEL + bytes),
                  kvr_matrix_desc_advance(keys, panel * TILE_PANEL + bytes), d > 0);
    }
    kvr_wgmma_commit();
}

/* Issues the GEMM O += P V of a tile. */
template <int D>
static __device__ __forceinline__ void
issue_values(struct kvr_registers<float, D / 2> &out,
             struct kvr_registers<unsigned, KEYS / 4> &weights, kvr_matrix_desc values)
{
#pragma unroll
    for (int k = 0; k < KEYS; k += 16)
        kvr_wgmma_transposed(out, weights, k / 4, kvr_matrix_desc_advance(values, k * 128));
    kvr_wgmma_commit();
}

/* Sets the scores of keys [n, KEYS) of the tile to -infinity, because these keys are past the end
 * of the span. */
static __device__ __forceinline__ void mask_scores(kvr_sums &s, int lane, int n)
{
#pragma unroll
    for (int i = 0; i < KEYS / 8; i++)
#pragma unroll
        for (int j = 0; j < 2; j++)
            if (8 * i + lane % 4 * 2 + j >= n)
                s[4 * i + j] = s[4 * i + 2 + j] = -INFINITY;
}

/* Performs an online-softmax step: replaces the scores S by the unnormalized weights P, and updates
 * m and l. `rescale` receives e^(m_old - m_new) for each of the thread's two query rows. A NaN
 * score does not become the row maximum but makes l NaN. While all scores of a row are -infinity,
 * the function uses 0 as the row maximum, so that P is 0. */
template <int D>
static __device__ __forceinline__ void online_softmax(kvr_sums &s, float scale, float log_m,
                                                      struct softmax_state<D> &state,
                                                      float *rescale)
{
    const float log2e = 1.44269504f, factor = scale * log2e;
    float best[2] = { s[0], s[2] };

#pragma unroll
    for (int i = 0; i < KEYS / 8; i++)
#pragma unroll
        for (int r = 0; r < 2; r++)
            best[r] = fmaxf(best[r], fmaxf(s[4 * i + 2 * r], s[4 * i + 2 * r + 1]));
#pragma unroll
    for (int b = 1; b < 4; b *= 2)
#pragma unroll
        for (int r = 0; r < 2; r++)
            best[r] = fmaxf(best[r], __shfl_xor_sync(~0u, best[r], b));
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const float before = state.top[r], now = fmaxf(before, fmaf(best[r], scale, log_m));
        const float zero = now == -INFINITY ? 0.0f : now, shift = (log_m - zero) * log2e;
        float sum = 0;

        state.top[r] = now;
        rescale[r] = kvr_exp2((before - zero) * log2e);
#pragma unroll
        for (int i = 0; i < KEYS / 8; i++) {
            const float x = kvr_exp2(fmaf(s[4 * i + 2 * r], factor, shift));
            const float y = kvr_exp2(fmaf(s[4 * i + 2 * r + 1], factor, shift));

            s[4 * i + 2 * r] = x;
            s[4 * i + 2 * r + 1] = y;
            sum += x + y;
        }
        state.sum[r] = fmaf(state.sum[r], rescale[r], sum);
    }
}

/* Sets the tile's scores of keys past the end of the span to -infinity, then performs the
 * online-softmax step. */
template <int D>
static __device__ __forceinline__ void
softmax_of_tile(kvr_sums &s, const struct span_list &l, const struct tile_position &at, int lane,
                struct softmax_state<D> &state, float *rescale)
{
    if (at.t + KEYS > l.n[at.span])
        mask_scores(s, lane, l.n[at.span] - at.t);
    online_softmax<D>(s, l.scale, l.log_m[at.span], state, rescale);
}

template <int D>
static __device__ __forceinline__ void rescale_output(struct softmax_state<D> &state,
                                                      const float *rescale)
{
    if (!__any_sync(~0u, rescale[0] != 1.0f || rescale[1] != 1.0f))
        return; /* usually no row maximum has grown, and O needs no rescaling */
#pragma unroll
    for (int i = 0; i < D / 2; i++)
        state.out[i] *= rescale[i / 2 % 2];
}

static __device__ __forceinline__ void round_weights(kvr_sums &s,
                                                     struct kvr_registers<unsigned, KEYS / 4> &out)
{
#pragma unroll
    for (int i = 0; i < KEYS / 4; i++)
        out[i] = kvr_bf16_pair(s[2 * i], s[2 * i + 1]);
}

/* Consumer release: this warp has read a stage and arrives on the stage's mbarrier `empty`. In a
 * cluster, this is the mbarrier of the CTA that dequantized the tile, whose cluster rank is
 * `whose`. */
template <int FORM>
static __device__ __forceinline__ void release(int lane, kvr_shared<uint64_t> empty, unsigned whose)
{
    if (lane)
        return;
    if constexpr (form<FORM>::CODED)
        kvr_remote_arrive(kvr_remote_of(empty, whose));
    else
        kvr_barrier_arrive(empty);
}

/* Consumer wait: returns once the stage's tile has arrived in shared memory. */
template <int FORM>
static __device__ __forceinline__ void await(kvr_shared<uint64_t> full, unsigned parity)
{
    if constexpr (form<FORM>::CODED)
        kvr_barrier_wait_cluster(full, parity);
    else
        kvr_barrier_wait(full, parity);
}

/* Initializes the softmax state to m = -infinity, l = 0 and O = 0. */
template <int D> static __device__ __forceinline__ void clear_state(struct softmax_state<D> &state)
{
    state.top[0] = state.top[1] = -INFINITY;
    state.sum[0] = state.sum[1] = 0;
#pragma unroll
    for (int i = 0; i < D / 2; i++)
        state.out[i] = 0;
}

/* An attention call over many spans may need several launches. This function loads the softmax
 * state that the call's earlier launches stored. */
template <int D>
static __device__ __forceinline__ void load_state(const struct rows_at &r, int first, int lane,
                                                  struct softmax_state<D> &state)
{
#pragma unroll
    for (int j = 0; j < 2; j++) {
        const int i = first + 8 * j + lane / 4;
        const int64_t row = r.at + (int64_t)i * r.step;
        const kvr_global<float> from = r.acc + (row * D + lane % 4 * 2);

        if (i >= r.n)
            continue;
        state.top[j] = r.mx[row];
        if (lane % 4 == 0)
            state.sum[j] = r.sum[row];
#pragma unroll
        for (int n = 0; n < D / 8; n++) {
            const float2 x = kvr_as<float2>(from + 8 * n)[0];

            state.out[4 * n + 2 * j] = x.x;
            state.out[4 * n + 2 * j + 1] = x.y;
        }
    }
}

/* Epilogue of a consumer warp. If `ends` is true, the function divides the accumulator O by the
 * denominator l and writes the quotient, the output [T,H,D] for T queries and H heads. It writes
 * BF16 to io.out16 if this pointer is set, otherwise F32 to io.out. If `ends` is false, the
 * function writes the softmax state or, under split-KV, the partial result. */
template <int D>
static __device__ __forceinline__ void store(const struct rows_at &r,
                                             const struct kvr_attend_io &io, bool ends, int first,
                                             int lane, struct softmax_state<D> &state)
{
#pragma unroll
    for (int j = 0; j < 2; j++) {
        state.sum[j] += __shfl_xor_sync(~0u, state.sum[j], 1);
        state.sum[j] += __shfl_xor_sync(~0u, state.sum[j], 2);
    }
    if (ends) {
        const float by[2] = { 1.0f / state.sum[0], 1.0f / state.sum[1] };

#pragma unroll
        for (int i = 0; i < D / 2; i++)
            state.out[i] *= by[i / 2 % 2];
    }
    const kvr_global<float> acc = ends ? kvr_global<float>(io.out) : r.acc;

#pragma unroll
    for (int j = 0; j < 2; j++) {
        const int i = first + 8 * j + lane / 4;
        const int64_t row = r.at + (int64_t)i * r.step, at = row * D + lane % 4 * 2;

        if (i >= r.n)
            continue;
        if (ends && io.out16) {
            const kvr_global<kvr_bf16> to = kvr_global<kvr_bf16>(io.out16) + at;

#pragma unroll
            for (int n = 0; n < D / 8; n++)
                kvr_as<unsigned>(to + 8 * n)[0] =
                    kvr_bf16_pair(state.out[4 * n + 2 * j], state.out[4 * n + 2 * j + 1]);
            continue;
        }
        if (!ends && lane % 4 == 0) {
            r.mx[row] = state.top[j];
            r.sum[row] = state.sum[j];
        }
#pragma unroll
        for (int n = 0; n < D / 8; n++)
            kvr_as<float2>(acc + at + 8 * n)[0] =
                float2{ state.out[4 * n + 2 * j], state.out[4 * n + 2 * j + 1] };
    }
}

/* Returns once the mbarriers of all CTAs of the cluster are initialized. */
template <int FORM> static __device__ __forceinline__ void begin()
{
    if constexpr (form<FORM>::CODED) {
        kvr_cluster_arrive();
        kvr_cluster_wait();
    } else {
        __syncthreads();
    }
}

/* Keeps this CTA alive until the other CTA of its cluster has finished its accesses to this CTA's
 * shared memory. */
template <int FORM> static __device__ __forceinline__ void end()
{
    if constexpr (form<FORM>::CODED) {
        kvr_cluster_arrive();
        kvr_cluster_wait();
    }
}

/* Prologue of a consumer group: loads the queries and the softmax state of the group, and gives the
 * first turn of the ping-pong to group 0. */
template <int FORM>
static __device__ __forceinline__ void
begin_group(const struct kvr_attend_shape &a, const struct part &p, int group,
            const struct kvr_attend_io &io, const struct rows_at &rows, int first, int lane,
            kvr_shared<uint8_t> queries, struct softmax_state<form<FORM>::D> &state)
{
    constexpr int D = form<FORM>::D;

    load_queries<FORM>(a, p.query + group * ROWS, p.h, io, queries);
    kvr_fence_async(); /* the named barrier below makes the queries visible to the whole group */
    clear_state<D>(state);
    if (p.slot < 0 && !io.begins)
        load_state<D>(rows, first, lane, state);
    kvr_named_sync(GROUP_SYNC + group, KVR_WARPGROUP);
    if (group == CONSUMERS - 1) /* this arrival lets consumer group 0 issue its GEMMs first */
        kvr_named_arrive(PING_PONG, CONSUMERS * KVR_WARPGROUP);
}

/* Drains the pipeline: computes O += P V of the last tile. No softmax overlaps with this GEMM. */
template <int FORM>
static __device__ __forceinline__ void
finish_values(kvr_shared<uint64_t> full_v, kvr_matrix_desc values, int last,
              struct kvr_registers<float, form<FORM>::D / 2> &out,
              struct kvr_registers<unsigned, KEYS / 4> &weights)
{
    await<FORM>(full_v + last % STAGES, (unsigned)(last / STAGES) % 2);
    kvr_wgmma_fence(out, weights);
    issue_values<form<FORM>::D>(
        out, weights, kvr_matrix_desc_advance(values, last % STAGES * form<FORM>::TILE_BYTES));
    kvr_wgmma_wait<0>(out, weights);
}

/* Main loop of a consumer warpgroup. The index `group` of the consumer group is 0 or 1. In the
 * cluster, the CTA of rank of_keys produces K, and the CTA of rank of_values produces V. */
template <int FORM>
static __device__ __forceinline__ void
consume(const struct kvr_attend_shape &a, const struct span_list &l, const struct part &p,
        int group, kvr_shared<uint8_t> shared, const struct kvr_attend_io &io,
        kvr_global<float> parts, unsigned of_keys, unsigned of_values)
{
    typedef form<FORM> of;
    constexpr int D = of::D, AT_KEYS = of::AT_KEYS, AT_VALUES = of::AT_VALUES;
    constexpr int TILE_BYTES = of::TILE_BYTES;
    const struct barriers b = barriers_at<FORM>(shared);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x % KVR_WARPGROUP / 32;
    const int first = group * ROWS + 16 * warp;
    const kvr_shared<uint8_t> mine = shared + group * (of::PANELS * Q_PANEL);
    const kvr_matrix_desc queries = kvr_matrix_desc_at(kvr_as<const kvr_bf16>(mine), 0, OCTET);
    const kvr_matrix_desc keys =
        kvr_matrix_desc_at(kvr_as<const kvr_bf16>(shared + AT_KEYS), 0, OCTET);
    const kvr_matrix_desc values =
        kvr_matrix_desc_at(kvr_as<const kvr_bf16>(shared + AT_VALUES), TILE_PANEL, OCTET);
    struct kvr_registers<unsigned, KEYS / 4> weights;
    struct softmax_state<D> state;
    kvr_sums s;
    float rescale[2];
    struct tile_position at = position_of(l, p.first);
    const struct rows_at rows = rows_of_part(a, l.cut, p.slot, p.h, p.query, io, parts);

    begin_group<FORM>(a, p, group, io, rows, first, lane, mine, state);
    await<FORM>(b.full_k, 0);
    kvr_wgmma_fence(s);
    issue_scores<D>(s, queries, keys);
    kvr_wgmma_wait<0>(s);
    release<FORM>(lane, b.empty_k, of_keys);
    softmax_of_tile<D>(s, l, at, lane, state, rescale);
    rescale_output<D>(state, rescale);
    round_weights(s, weights);
#pragma unroll 1
    for (int tile = 1; tile < p.n; tile++) {
        const int stage = tile % STAGES, before = (tile - 1) % STAGES;

        step(l, at);
        await<FORM>(b.full_k + stage, (unsigned)(tile / STAGES) % 2);
        kvr_named_sync(PING_PONG + group, CONSUMERS * KVR_WARPGROUP);
        kvr_wgmma_fence(s, state.out, weights);
        issue_scores<D>(s, queries, kvr_matrix_desc_advance(keys, stage * TILE_BYTES));
        await<FORM>(b.full_v + before, (unsigned)((tile - 1) / STAGES) % 2);
        issue_values<D>(state.out, weights, kvr_matrix_desc_advance(values, before * TILE_BYTES));
        /* This arrival lets the other group issue its GEMMs. Group 1 omits it for its last tile,
         * because group 0 has no further tile and no longer waits. */
        if (tile + 1 < p.n || !group)
            kvr_named_arrive(PING_PONG + 1 - group, CONSUMERS * KVR_WARPGROUP);
        kvr_wgmma_wait<1>(s);
        release<FORM>(lane, b.empty_k + stage, of_keys);
        softmax_of_tile<D>(s, l, at, lane, state, rescale);
        /* A sum of weights is never negative, but the compiler does not know that. The branch
         * prevents the compiler from hoisting the wait for P V above the softmax, so that the
         * softmax overlaps with P V. A CTA of a pair that took the branch would leave without
         * end<FORM>(), and the other CTA would wait forever. */
        if (state.sum[0] + state.sum[1] < 0)
            return;
        kvr_wgmma_wait<0>(state.out, weights);
        release<FORM>(lane, b.empty_v + before, of_values);
        rescale_output<D>(state, rescale);
        round_weights(s, weights);
    }
    finish_values<FORM>(b.full_v, values, p.n - 1, state.out, weights);
    store<D>(rows, io, p.slot < 0 && (io.out || io.out16), first, lane, state);
    end<FORM>();
}

/* Compiled for an architecture without WGMMA, the kernel has an empty body and a launch bound of 32
 * threads. kvr_hopper_has() detects the empty kernel by its launch bound. */
template <int FORM>
static __global__ void __launch_bounds__(KVR_HAS_WGMMA ? THREADS : 32, 1)
    attend_list(struct kvr_attend_shape a, const __grid_constant__ struct span_list l,
                const __grid_constant__ struct kvr_attend_io io, kvr_global<float> parts)
{
#if KVR_HAS_WGMMA
    typedef form<FORM> of;
    KVR_SHARED_TILES(uint8_t, shared);
    /* The shuffle tells the compiler that `group` is uniform across the warp. */
    const int group = __shfl_sync(~0u, (int)threadIdx.x / KVR_WARPGROUP, 0);
    const struct part p = part_of(a, l.cut);
    const bool pair = of::CODED && p.paired && kvr_cluster_blocks() > 1;

    if (!threadIdx.x) {
        const struct barriers b = barriers_at<FORM>(shared);
        const unsigned readers = (1 + pair) * CONSUMERS * KVR_WARPGROUP / 32;

        for (int i = 0; i < STAGES; i++) {
            kvr_barrier_init(b.full_k + i, of::CODED ? KVR_WARPGROUP / 32 : 1);
            kvr_barrier_init(b.full_v + i, of::CODED ? KVR_WARPGROUP / 32 : 1);
            kvr_barrier_init(b.empty_k + i, readers);
            kvr_barrier_init(b.empty_v + i, readers);
        }
        kvr_fence_async();
    }
    begin<FORM>();
    if (group == 0) {
        kvr_setmaxnreg_dec<of::OF_PRODUCER>();
        if constexpr (of::CODED)
            produce_coded<FORM>(a, l, p, pair, shared);
        else if (!threadIdx.x)
            produce<FORM>(l, p, shared);
        end<FORM>();
        return;
    }
    kvr_setmaxnreg_inc<of::OF_CONSUMER>();
    const unsigned rank = of::CODED ? kvr_cluster_rank() : 0;

    consume<FORM>(a, l, p, group - 1, shared, io, parts, pair ? 0 : rank, pair ? 1 : rank);
#endif
}

/* ---- host --------------------------------------------------------------------------------- */

static const void *rows_of(const struct kvr_attend_mma_source *s)
{
    const struct kvr_packed *p = s->packed;
    struct kvr_layout layout;

    if (!p)
        return s->dtype == KVR_BF16 ? s->raw : NULL;
    if (!kvr_codec_is_raw(p->codec))
        return NULL;
    kvr_codec_layout(p->codec, 0, &p->shape, &layout);
    return layout.type == KVR_BF16 ? p->stage[0].codes.p : NULL;
}

static bool aligned(const void *p)
{
    return (uintptr_t)p % 16 == 0;
}

/* Whether the producer can dequantize this quantization grid. If `whole_tokens` is true, the
 * producer requires one scale per token. Otherwise it requires token groups, in which one scale
 * covers several tokens of one channel. */
static bool is_read(const struct tile_grid *g, bool whole_tokens)
{
    if ((g->bits != 2 && g->bits != 4) || !aligned(g->codes) || !aligned(g->scales) ||
        g->n_groups % 8)
        return false;
    /* With one scale per token, the producer reads the scales of 8 tokens by one load. With token
     * groups, a thread dequantizes UNIT tokens with one scale per channel, so these tokens must be
     * in the same group. */
    return whole_tokens ? g->axis == KVR_AXIS_TOKEN && g->n_tok % 8 == 0
                        : g->axis == KVR_AXIS_TOKENS && 1 << g->shift >= UNIT;
}

/* Returns the number of quantization grids of keys or values, and describes the grids in *out.
 * Returns 0 for unquantized tensors, for tensors with outliers, and for grids that the kernels
 * cannot dequantize. */
static int grids_of(const struct kvr_attend_mma_source *s, struct tile_source *out)
{
    return s->packed && !kvr_codec_is_raw(s->packed->codec) && kvr_tile_source_of(s, out) &&
                   out->kind == GRIDS && !out->n_exact
               ? out->n_grids
               : 0;
}

/* Whether `s` describes tokens that are quantized twice (PRQ): by a symmetric grid with token
 * groups, and then the residual by another such grid, which must have MORE = 4 bits per code. */
static bool is_chain(const struct tile_source *s)
{
    return is_read(&s->grid[0], false) && is_read(&s->grid[1], false) && !s->grid[0].asym &&
           !s->grid[1].asym && s->grid[1].bits == MORE;
}

/* Returns a number that encodes the span's format. Adding head_dim to the number gives FORM, the
 * template parameter of the kernel for this span. The result is 0 for BF16 rows. For quantized
 * spans the result is the number of bits per code, plus TOKEN_VALUES if V has one scale per token
 * (KIVI), or plus CHAIN if a second grid quantizes the residual (PRQ). Returns -1 if the kernel
 * does not support the span. */
static int kind_of(const struct kvr_attend_shape *a, const struct kvr_attend_mma_span *span)
{
    const void *raw_k = rows_of(&span->k), *raw_v = rows_of(&span->v);
    struct tile_source k, v;
    int n;

    if ((a->head_dim != 64 && a->head_dim != 128) || span->row_bias)
        return -1;
    if (raw_k || raw_v)
        return raw_k && raw_v && aligned(raw_k) && aligned(raw_v) ? 0 : -1;
    if (a->head_dim != 128 || span->t0 % UNIT || span->taylor)
        return -1;
    n = grids_of(&span->k, &k);
    if (!n || grids_of(&span->v, &v) != n || k.grid[0].bits != v.grid[0].bits)
        return -1;
    if (n == 2)
        return is_chain(&k) && is_chain(&v) ? k.grid[0].bits + CHAIN : -1;
    if (!is_read(&k.grid[0], false))
        return -1;
    if (is_read(&v.grid[0], false) && k.packed && v.packed)
        return k.grid[0].bits;
    return is_read(&v.grid[0], true) ? k.grid[0].bits + TOKEN_VALUES : -1;
}

bool kvr_attend_list_accepts(const struct kvr_attend_shape *a,
                             const struct kvr_attend_mma_span *span)
{
    return kind_of(a, span) >= 0;
}

bool kvr_attend_list_supported(const struct kvr_stream *s)
{
    return kvr_hopper_has<attend_list<128>>(s, THREADS);
}

/* Creates the tensor map of the span's BF16 rows. TMA fills rows past the end of the span with
 * zeros. */
static bool map_rows(struct kvr_tensor_map *out, const struct kvr_attend_shape *a,
                     const struct kvr_attend_mma_source *s, const struct kvr_attend_mma_span *span)
{
    const kvr_bf16 *rows = (const kvr_bf16 *)rows_of(s);

    return kvr_tensor_map_of(out, rows + span->t0 * a->n_heads * a->head_dim, span->n, a->n_heads,
                             a->head_dim, KEYS, KVR_SWIZZLE_128);
}

static void code_rows(struct coded_rows *out, const struct kvr_attend_mma_source *s, int64_t t0)
{
    struct tile_source of;

    kvr_tile_source_of(s, &of);
    for (int i = 0; i < of.n_grids; i++) {
        const struct tile_grid &g = of.grid[i];

        out[i] = { g.codes, g.scales, g.n_groups, g.n_tok,  (int)t0,
                   g.shift, g.zero,   g.minimum,  g.middle, g.asym };
    }
}

/* Arguments of a launch. Before the launch, the caller appends spans to `list`. All quantized spans
 * in `list` have the same format, and `kind` is the number that kind_of() returns for this format.
 * `kind` is 0 if no span is quantized. */
struct call {
    struct kvr_stream *s;
    const struct kvr_attend_shape *a;
    struct kvr_attend_io io;
    float *parts;
    size_t n_floats;
    int n, kind;
    struct span_list list;
};

/* Launches the kernel. For quantized spans, CTAs 2 i and 2 i + 1 form a cluster and usually compute
 * adjacent query blocks of a head over the same KV tiles. If a head has an odd number of query
 * blocks, its last block has no neighbor: the block's CTA dequantizes both K and V, and shares no
 * tiles. Split-KV divides the KV tiles of some query blocks over several CTAs. If the number of
 * divided query blocks is odd, or that of the others, some cluster would have one CTA of each kind,
 * with different KV tiles. The launch then uses no clusters. */
template <int FORM> static void launch_form(const struct call &c, unsigned n_blocks)
{
    const bool even = c.list.cut.n_whole % 2 == 0 && c.list.cut.n_cut % 2 == 0;
    const bool pairs = form<FORM>::CODED && c.a->n_query > QUERIES && even;

    KVR_LAUNCH_CLUSTERS(attend_list<FORM>, pairs ? 2 : 1, n_blocks, THREADS, form<FORM>::N_SHARED,
                        c.s, *c.a, c.list, c.io, c.parts);
}

/* Launches the kernel for the spans that add_span() has appended to c->list. The first launch of an
 * attention call initializes the softmax state, and the last launch writes the output. */
static void launch(struct call *c, bool last)
{
    const struct kvr_attend_io io = c->io;
    struct kvr_attend_split split;
    unsigned n_blocks;

    if (!last)
        c->io = kvr_attend_io_partial(&io);
    split = kvr_attend_split_for(c->a, c->list.cut.n_tiles, c->n_floats);
    c->list.cut = cut_of(&split, c->list.cut.n_tiles);
    n_blocks = (unsigned)(split.n_whole + split.n_cut * split.parts);
    if (c->a->head_dim == 64)
        launch_form<64>(*c, n_blocks);
    else if (!c->kind)
        launch_form<128>(*c, n_blocks);
    else if (c->kind == 4)
        launch_form<128 + 4>(*c, n_blocks);
    else if (c->kind == 2)
        launch_form<128 + 2>(*c, n_blocks);
    else if (c->kind == 4 + CHAIN)
        launch_form<128 + 4 + CHAIN>(*c, n_blocks);
    else if (c->kind == 2 + CHAIN)
        launch_form<128 + 2 + CHAIN>(*c, n_blocks);
    else if (c->kind == 4 + TOKEN_VALUES)
        launch_form<128 + 4 + TOKEN_VALUES>(*c, n_blocks);
    else
        launch_form<128 + 2 + TOKEN_VALUES>(*c, n_blocks);
    kvr_attend_parts_cuda(c->s, c->a, &split, c->parts, &c->io);
    c->io = io;
    c->io.begins = false;
    c->n = c->kind = c->list.cut.n_tiles = 0;
    c->list.coded = 0;
}

/* Appends a span to the launch. Returns false if the driver cannot create a tensor map for the
 * span. */
static bool add_span(struct call *c, const struct kvr_attend_mma_span *span, int kind)
{
    struct span_list *l = &c->list;
    union rows k, v;

    if (kind) {
        code_rows(k.coded, &span->k, span->t0);
        code_rows(v.coded, &span->v, span->t0);
        l->coded |= 1u << c->n;
        c->kind = kind;
    } else if (!map_rows(&k.map, c->a, &span->k, span) || !map_rows(&v.map, c->a, &span->v, span)) {
        return false;
    }
    l->of[0][c->n] = k;
    l->of[1][c->n] = v;
    l->n[c->n] = (int)span->n;
    l->log_m[c->n++] = span->log_m;
    l->cut.n_tiles += (int)((span->n + KEYS - 1) / KEYS);
    return true;
}

void kvr_attend_list_cuda(struct kvr_stream *s, const struct kvr_attend_shape *a,
                          const struct kvr_attend_io *io, const struct kvr_attend_mma_span *span,
                          int n_spans, float *parts, size_t n_floats)
{
    struct call c = {};

    if (!a->n_query || !a->n_heads)
        return;
    c.s = s;
    c.a = a;
    c.io = *io;
    c.parts = parts;
    c.n_floats = n_floats;
    c.list.scale = 1.0f / sqrtf((float)a->head_dim);
    c.list.one = 0x3f800000;
    for (int i = 0; i < n_spans && c.io.norm.inverses; i++)
        if (span[i].n && kind_of(a, &span[i]))
            c.io = kvr_attend_norm_cuda(s, a, &c.io);
    for (int i = 0; i < n_spans; i++) {
        const int kind = kind_of(a, &span[i]);

        if (!span[i].n)
            continue;
        if (c.n == MAX_SPANS || (kind && c.kind && kind != c.kind))
            launch(&c, false);
        if (!add_span(&c, &span[i], kind)) {
            const struct kvr_attend_io some = kvr_attend_io_partial(&c.io);

            kvr_attend_mma_cuda(s, a, &some, &span[i]);
            c.io.begins = false;
        }
    }
    if (c.n)
        launch(&c, true);
    else
        kvr_attend_separate_passes_cuda(s, a, &c.io);
}
