/* product_cuda.cu - see product_cuda.h.
 *
 * Persistent CTAs compute output tiles of 128 rows by 256 columns. A CTA has one producer warp
 * group and two consumer warpgroups. Each consumer group computes 64 rows of the tile. One
 * producer thread loads the operands, the input x [m,k] and the weights w [n,k], by TMA. A load
 * copies DEPTH = 64 columns of the tile's rows of x and w into one stage of a 4-stage shared-memory
 * pipeline with full and empty mbarriers. The producer already loads operands of the next tile
 * while the consumers are in the epilogue of the current tile.
 *
 * The two CTAs of a cluster compute vertically adjacent tiles, which use the same rows of w. Each
 * CTA multicasts half of these rows to both CTAs. Per load, a CTA thus reads 16 KiB of x and 16 KiB
 * of w from L2; without multicast, it would read 32 KiB of w. A stage is empty when both CTAs have
 * released the stage. If the number of tile rows is odd, the two CTAs of a cluster compute
 * horizontally adjacent tiles of the last tile row, without multicast. */
#include "harness/engine/product_cuda.h"

#include "harness/device/hopper.cuh"
#include "harness/device/kernel.cuh"

enum {
    PAIR = 2, /* CTAs per cluster */
    CONSUMERS = 2,
    THREADS = (1 + CONSUMERS) * KVR_WARPGROUP,
    ROWS = 128,
    COLUMNS = 256,
    /* A consumer group has HALVES accumulator tiles of 64 rows by 128 columns. */
    HALVES = COLUMNS / KVR_PRODUCT_BLOCK,
    DEPTH = KVR_TILE_COLUMNS,
    STAGES = 4,
    LINE = DEPTH * 2, /* bytes per row of an operand in a pipeline stage */
    OCTET = 8 * LINE,
    A_BYTES = ROWS * LINE,
    W_BYTES = COLUMNS * LINE,
    STAGE_BYTES = A_BYTES + W_BYTES,
    AT_BARRIERS = STAGES * STAGE_BYTES,
    N_SHARED = AT_BARRIERS + 2 * STAGES * 8,
    OF_PRODUCER = 24, /* registers per producer thread after setmaxnreg */
    OF_CONSUMER = 240,
};
static_assert(kvr_registers_fit(THREADS, OF_PRODUCER, OF_CONSUMER), "the launch's registers");

struct layer {
    struct kvr_tensor_map w;
    const float *bias;
    kvr_bf16 *y;
    float *squares;
    int n, columns;
    /* `blocks` is the number of sums of squares that the layer writes to `squares` per row, one per
     * KVR_PRODUCT_BLOCK columns. A subsequent RMSNorm reads these sums. `across` is the number of
     * column tiles of the layer's output. */
    int blocks, across;
};

/* Kernel parameter: the input x and the linear layers that one launch applies to x. */
struct work {
    struct kvr_tensor_map x;
    struct layer of[KVR_PRODUCT_LAYERS];
    const float *gate;
    int64_t gate_stride;
    /* `across` is the number of column tiles of all layers together. A cluster computes two tiles,
     * a tile pair, at a time. `tiles` is the number of tile pairs. */
    int m, k, tokens_per_frame, across, tiles;
    /* Number of tile pairs whose two tiles are vertically adjacent. These pairs have the indices 0
     * to `shared` - 1. For such a pair, each CTA of the cluster multicasts half of the weights to
     * both CTAs. */
    int shared;
};
static_assert(sizeof(struct work) <= 4096, "drivers before CUDA 12.1 accept 4096 bytes");

struct tile_position {
    int layer, m0, n0;
    bool shares;
};

/* Returns the layer, first row (m0) and first column (n0) of this CTA's output tile, which belongs
 * to the tile pair of index `tile`. If the pair has no tile for this CTA, m0 is past the last
 * row. */
static __device__ __forceinline__ struct tile_position position_of(const struct work &w, int tile)
{
    const int rank = (int)kvr_cluster_rank(), one = tile - w.shared;
    struct tile_position s = { 0, (tile / w.across * PAIR + rank) * ROWS, tile % w.across,
                               one < 0 };

    if (!s.shares) {
        s.m0 = w.shared / w.across * PAIR * ROWS;
        s.n0 = one * PAIR + rank;
        if (s.n0 >= w.across) {
            s.m0 += ROWS;
            s.n0 = w.across - 1;
        }
    }
#pragma unroll 1
    while (s.n0 >= w.of[s.layer].across)
        s.n0 -= w.of[s.layer++].across;
    s.n0 *= COLUMNS;
    return s;
}

/* Persistent schedule: a cluster computes the tile pairs of index first_tile(),
 * first_tile() + tile_step(), first_tile() + 2 * tile_step(), and so on. */
static __device__ __forceinline__ int first_tile()
{
    return kvr_block_x() / PAIR;
}
static __device__ __forceinline__ int tile_step()
{
    return (int)gridDim.x / PAIR;
}

/* Returns the address of the CTA's STAGES mbarriers `full`, which are followed by STAGES mbarriers
 * `empty`. */
static __device__ __forceinline__ kvr_shared<uint64_t> barriers_at(kvr_shared<uint8_t> shared)
{
    return kvr_as<uint64_t>(shared + AT_BARRIERS);
}

/* The producer's next load: its tile, its first operand column k0 and its sequence number i. */
struct fetch {
    int tile, k0;
    unsigned i;
    struct tile_position s;
};

static __device__ __forceinline__ struct fetch first_fetch(const struct work &w)
{
    const int tile = first_tile();

    return { tile, 0, 0, position_of(w, tile) };
}

static __device__ __forceinline__ void fetch_one(const struct work &w, kvr_shared<uint8_t> shared,
                                                 struct fetch &f)
{
    const int at = (int)(f.i % STAGES), rank = (int)kvr_cluster_rank();
    const kvr_shared<uint8_t> stage = shared + at * STAGE_BYTES;
    const kvr_shared<uint64_t> full = barriers_at(shared) + at;

    /* Load i waits until both CTAs have released load i - STAGES, which used the same stage. */
    kvr_barrier_wait_cluster(full + STAGES, (f.i / STAGES + 1) % 2);
    kvr_barrier_arrive_expect_tx(full, STAGE_BYTES);
    kvr_tma_load(kvr_as<kvr_bf16>(stage), w.x, f.k0, 0, f.s.m0, full);
#pragma unroll 1
    for (int h = 0; h < PAIR; h++) {
        const kvr_shared<kvr_bf16> to = kvr_as<kvr_bf16>(stage + (A_BYTES + h * (W_BYTES / PAIR)));
        const int n0 = f.s.n0 + h * (COLUMNS / PAIR);

        if (!f.s.shares)
            kvr_tma_load(to, w.of[f.s.layer].w, f.k0, 0, n0, full);
        else if (h == rank)
            kvr_tma_load_multicast(to, w.of[f.s.layer].w, f.k0, 0, n0, full);
    }
    f.i++;
    f.k0 += DEPTH;
    if (f.k0 >= w.k) {
        f.k0 = 0;
        f.tile += tile_step();
        f.s = position_of(w, f.tile);
    }
}

/* Main loop of the producer thread. */
[[maybe_unused]] static __device__ __forceinline__ void produce(const struct work &w,
                                                                kvr_shared<uint8_t> shared)
{
    struct fetch f = first_fetch(w);

#pragma unroll 1
    while (f.tile < w.tiles)
        fetch_one(w, shared, f);
}

/* ---- consumer groups ------------------------------------------------------------------------ */

/* Consumer release: this warp arrives on the mbarriers `empty` of both CTAs of the cluster, for the
 * stage of load i. */
static __device__ __forceinline__ void release(int lane, kvr_shared<uint64_t> full, unsigned i)
{
    if (lane < PAIR)
        kvr_remote_arrive(kvr_remote_of(full + (int)(STAGES + i % STAGES), (unsigned)lane));
}

/* Exchanges 32-bit words between an even lane t and lane t + 1, so that each lane can store 8
 * adjacent bytes. The even lane returns its own w, then the w of lane t + 1. The odd lane returns
 * the v of lane t, then its own v. */
static __device__ __forceinline__ uint2 exchange_pair(unsigned w, unsigned v, bool odd)
{
    const unsigned got = __shfl_xor_sync(~0u, odd ? w : v, 1);

    return odd ? uint2{ got, v } : uint2{ w, got };
}

static __device__ __forceinline__ float sum_of_four(float v)
{
    v += __shfl_xor_sync(~0u, v, 1);
    return v + __shfl_xor_sync(~0u, v, 2);
}

/* Returns GELU(u) in its tanh form, computed by the hardware's approximate exp2 and reciprocal. For
 * large negative u, exp2 overflows to infinity, so its reciprocal and the result are 0.
 * GELU(-infinity) is NaN. */
static __device__ __forceinline__ float gelu(float u)
{
    const float log2e = 1.4426950408889634f, a = -2.0f * 0.7978845608028654f * log2e;

    return u * kvr_reciprocal(1.0f + kvr_exp2(u * fmaf(a * 0.044715f * u, u, a)));
}

/* Four lanes share an accumulator row of KVR_PRODUCT_BLOCK columns, and each lane has 16 column
 * pairs of the row. Pair i of lane t consists of columns 8 i + 2 t and 8 i + 2 t + 1. */
enum { PAIRS = KVR_PRODUCT_BLOCK / 8 };

static __device__ __forceinline__ void store_squares(const struct layer &l, const unsigned *pair,
                                                     bool there, int64_t entry)
{
    float sum = 0;

#pragma unroll
    for (int i = 0; i < PAIRS; i++) { /* pairs past the layer's last column are 0 */
        const float low = kvr_bf16_low(pair[i]), high = kvr_bf16_high(pair[i]);

        sum = fmaf(high, high, fmaf(low, low, sum));
    }
    sum = sum_of_four(sum);
    if (there && kvr_thread() % 4 == 0)
        kvr_global<float>(l.squares)[entry] = sum;
}

/* Stores a lane's column pairs to a row of y, 8 bytes (four BF16 columns) at a time. The argument y
 * points to column n0 of the row, and the row has `columns` columns. */
template <bool WHOLE>
static __device__ __forceinline__ void store_row(kvr_global<kvr_bf16> y, const unsigned *pair,
                                                 int t, bool there, int n0, int columns)
{
    const int odd = t % 2;
    const kvr_global<uint2> to = kvr_as<uint2>(y + 8 * odd + 2 * (t - odd));

#pragma unroll
    for (int i = 0; i < PAIRS; i += 2) {
        const uint2 x = exchange_pair(pair[i], pair[i + 1], odd);

        if (WHOLE || (there && n0 + 8 * (i + odd) < columns))
            to[2 * i] = x;
    }
}

/* Epilogue for one row, of the KVR_PRODUCT_BLOCK columns that start at column n0. The thread has
 * accumulators of two rows, and r (0 or 1) selects the row. The row's accumulators are
 * sums[4 i + 2 r] and sums[4 i + 2 r + 1], for i < PAIRS. If WHOLE is true, the row and all columns
 * are in bounds and the layer has a bias. The function then checks neither bounds nor the bias
 * pointer. */
template <int E, bool WHOLE>
static __device__ __forceinline__ void finish_row(const struct work &w, const struct layer &l,
                                                  kvr_sums &sums, int r, int row, int n0)
{
    const int t = kvr_thread() % 4;
    const int count = l.n - n0 < KVR_PRODUCT_BLOCK ? l.n - n0 : KVR_PRODUCT_BLOCK;
    const bool there = WHOLE || row < w.m, biased = WHOLE || l.bias, gated = w.gate != NULL;
    const kvr_global<kvr_bf16> y =
        kvr_global<kvr_bf16>(l.y) + ((int64_t)(there ? row : 0) * l.columns + n0);
    const kvr_global<const float> bias =
        kvr_global<const float>(l.bias) + (biased ? n0 + 2 * t : 0);
    const kvr_global<const float> gate =
        kvr_global<const float>(w.gate) +
        (gated ? (there ? row : 0) / w.tokens_per_frame * w.gate_stride + n0 + 2 * t : 0);
    unsigned pair[PAIRS];
    float2 b[PAIRS], g[PAIRS];

#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        const bool column = WHOLE || 8 * i < count;

        pair[i] = 0;
        b[i] = float2{ 0, 0 };
        if (E == KVR_PRODUCT_RESIDUAL && there && column)
            pair[i] = kvr_as<unsigned>(y + 2 * t)[4 * i];
        if (biased && column)
            b[i] = kvr_as<const float2>(bias)[4 * i];
        g[i] = float2{ 1, 1 };
    }
    if (E == KVR_PRODUCT_RESIDUAL && gated)
#pragma unroll
        for (int i = 0; i < PAIRS; i++)
            if (WHOLE || 8 * i < count)
                g[i] = kvr_as<const float2>(gate)[4 * i];
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        float low = sums[4 * i + 2 * r] + b[i].x, high = sums[4 * i + 2 * r + 1] + b[i].y;

        if (E == KVR_PRODUCT_GELU) {
            low = gelu(low);
            high = gelu(high);
        }
        if (E == KVR_PRODUCT_RESIDUAL) {
            /* Rounds the linear layer's result to BF16 before the residual addition. The sum is
             * then the same as if the layer stored its result and another kernel added it. */
            const unsigned y = kvr_bf16_pair(low, high);

            low = fmaf(kvr_bf16_low(y), g[i].x, kvr_bf16_low(pair[i]));
            high = fmaf(kvr_bf16_high(y), g[i].y, kvr_bf16_high(pair[i]));
        }
        pair[i] = kvr_bf16_pair(low, high);
        if (!WHOLE && 8 * i >= count)
            pair[i] = 0;
    }
    if (l.squares)
        store_squares(l, pair, there, (int64_t)row * l.blocks + n0 / KVR_PRODUCT_BLOCK);
    if (E == KVR_PRODUCT_RESIDUAL)
        /* waits until neighbouring lanes have read the elements of y that this lane overwrites */
        __syncwarp();
    store_row<WHOLE>(y, pair, t, there, n0, l.columns);
}

/* Epilogue for the two rows of y whose accumulators a thread has, `row` and row + 8. `last` is the
 * last row that the thread's warp computes. If `last` is in bounds, all rows of the warp are. */
template <int E>
static __device__ __forceinline__ void finish(const struct work &w, const struct layer &l,
                                              kvr_sums &sums, int row, int last, int n0)
{
    if (last < w.m && n0 + KVR_PRODUCT_BLOCK <= l.n && l.bias) {
#pragma unroll
        for (int r = 0; r < 2; r++)
            finish_row<E, true>(w, l, sums, r, row + 8 * r, n0);
    } else {
#pragma unroll 1 /* not unrolled, to limit code size: most warps take the branch above */
        for (int r = 0; r < 2; r++) {
            finish_row<E, false>(w, l, sums, 0, row + 8 * r, n0);
#pragma unroll
            for (int i = 0; i < 2 * PAIRS; i++)
                sums[i / 2 * 4 + i % 2] = sums[i / 2 * 4 + 2 + i % 2];
        }
    }
}

/* Main loop of a consumer warpgroup. */
template <int E>
static __device__ __forceinline__ void consume(const struct work &w, int group,
                                               kvr_shared<uint8_t> shared)
{
    const kvr_shared<uint64_t> full = barriers_at(shared);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x % KVR_WARPGROUP / 32;
    const kvr_matrix_desc a = kvr_matrix_desc_at(
        kvr_as<const kvr_bf16>(shared + group * (A_BYTES / CONSUMERS)), 0, OCTET);
    const kvr_matrix_desc b =
        kvr_matrix_desc_at(kvr_as<const kvr_bf16>(shared + A_BYTES), 0, OCTET);
    kvr_sums sums[HALVES];
    unsigned i = 0;

#pragma unroll 1
    for (int tile = first_tile(); tile < w.tiles; tile += tile_step()) {
        kvr_wgmma_fence(sums[0], sums[1]);
#pragma unroll 1
        for (int k0 = 0; k0 < w.k; k0 += DEPTH, i++) {
            const int stage = (int)(i % STAGES * STAGE_BYTES);
            const kvr_matrix_desc of_a = kvr_matrix_desc_advance(a, stage),
                                  of_b = kvr_matrix_desc_advance(b, stage);

            kvr_barrier_wait(full + (int)(i % STAGES), i / STAGES % 2);
#pragma unroll
            for (int c = 0; c < LINE; c += 32)
#pragma unroll
                for (int h = 0; h < HALVES; h++)
                    kvr_wgmma(sums[h], kvr_matrix_desc_advance(of_a, c),
                              kvr_matrix_desc_advance(of_b, h * (W_BYTES / HALVES) + c),
                              k0 + c > 0);
            kvr_wgmma_commit();
            kvr_wgmma_wait<1>();
            if (k0)
                release(lane, full, i - 1);
        }
        kvr_wgmma_wait<0>(sums[0], sums[1]);
        release(lane, full, i - 1);
        const struct tile_position s = position_of(w, tile);
        const struct layer &l = w.of[s.layer];
        const int first = s.m0 + group * (ROWS / CONSUMERS) + 16 * warp;

        /* This loop is not unrolled, to limit code size. */
#pragma unroll 1
        for (int n0 = s.n0; n0 < s.n0 + COLUMNS && n0 < l.columns; n0 += KVR_PRODUCT_BLOCK) {
            finish<E>(w, l, sums[0], first + lane / 4, first + 15, n0);
#pragma unroll
            for (int j = 0; j < KVR_PRODUCT_BLOCK / 2; j++)
                sums[0][j] = sums[1][j];
        }
    }
}

/* Waits until all threads of both CTAs of the cluster have arrived at the cluster barrier. */
static __device__ __forceinline__ void meet()
{
    kvr_cluster_arrive();
    kvr_cluster_wait();
}

/* Compiled for an architecture without WGMMA, the kernel is empty and has a launch bound of 32
 * threads. kvr_hopper_has() reads the launch bound to find out whether the loaded kernel is
 * empty. */
template <int END>
static __global__ void __launch_bounds__(KVR_HAS_WGMMA ? THREADS : 32, 1)
    linear_wgmma(const __grid_constant__ struct work w)
{
#if KVR_HAS_WGMMA
    KVR_SHARED_TILES(uint8_t, shared);
    /* `group` is the index of the thread's warpgroup. The shuffle tells the compiler that `group`
     * is uniform across the warp. */
    const int group = __shfl_sync(~0u, (int)threadIdx.x / KVR_WARPGROUP, 0);

    if (!threadIdx.x) {
        const kvr_shared<uint64_t> full = barriers_at(shared);

        for (int i = 0; i < STAGES; i++) {
            kvr_barrier_init(full + i, 1);
            kvr_barrier_init(full + (STAGES + i), PAIR * CONSUMERS * KVR_WARPGROUP / 32);
        }
        kvr_fence_async();
    }
    meet();
    if (group == 0) {
        kvr_setmaxnreg_dec<OF_PRODUCER>();
        if (!threadIdx.x)
            produce(w, shared);
    } else {
        kvr_setmaxnreg_inc<OF_CONSUMER>();
        consume<END>(w, group - 1, shared);
    }
    /* keeps this CTA alive while the other CTA of the cluster may still multicast to its shared
     * memory */
    meet();
#endif
}

/* ---- host ----------------------------------------------------------------------------------- */

bool kvr_product_supported(const struct kvr_stream *s)
{
    return kvr_hopper_has<linear_wgmma<KVR_PRODUCT_STORE>>(s, THREADS);
}

static bool can_layer(const struct kvr_product *p, const struct kvr_product_layer *l)
{
    return l->n > 0 && l->n % 8 == 0 && l->columns % 8 == 0 && l->columns >= l->n &&
           (p->end != KVR_PRODUCT_RESIDUAL || l->columns == l->n) &&
           (!l->squares || kvr_product_blocks(l->columns) == kvr_product_blocks(l->n)) &&
           l->columns < INT32_MAX - COLUMNS && p->m < INT32_MAX / l->columns &&
           kvr_aligned(l->w, 16) && kvr_aligned(l->y, 16) && kvr_aligned(l->bias, 8) &&
           kvr_aligned(l->squares, 8);
}

bool kvr_product_accepts(const struct kvr_product *p)
{
    if (p->m < 0 || p->m >= INT32_MAX - ROWS || p->k <= 0 || p->k % 32 ||
        p->k >= INT32_MAX - DEPTH || p->tokens_per_frame <= 0 || !kvr_aligned(p->x, 16) ||
        p->n_layers < 1 || p->n_layers > KVR_PRODUCT_LAYERS || !kvr_aligned(p->gate, 8) ||
        p->gate_stride % 2)
        return false;
    for (int i = 0; i < p->n_layers; i++)
        if (!can_layer(p, &p->layer[i]))
            return false;
    return true;
}

/* Creates the tensor map of a BF16 matrix x [n,k], with TMA boxes of of_tile rows by
 * KVR_TILE_COLUMNS columns. */
static bool map_rows(struct kvr_tensor_map *out, const kvr_bf16 *x, int64_t n, int k, int of_tile)
{
    return kvr_tensor_map_of(out, x, n, 1, k, of_tile, KVR_SWIZZLE_128);
}

template <int END> static void launch(struct kvr_stream *s, const struct work &w, int blocks)
{
    const int pairs = blocks / PAIR > 1 ? blocks / PAIR : 1;

    KVR_LAUNCH_CLUSTERS(linear_wgmma<END>, PAIR,
                        (unsigned)(PAIR * (w.tiles < pairs ? w.tiles : pairs)), THREADS, N_SHARED,
                        s, w);
}

bool kvr_product_cuda(struct kvr_stream *s, const struct kvr_product *p)
{
    const int blocks = p->most_blocks ? p->most_blocks : kvr_stream_n_sm(s);
    const int rows = (int)((p->m + ROWS - 1) / ROWS); /* number of tile rows */
    struct work w = {};

    if (!p->m)
        return true;
    if (!map_rows(&w.x, p->x, p->m, p->k, ROWS))
        return false;
    for (int i = 0; i < p->n_layers; i++) {
        const struct kvr_product_layer *l = &p->layer[i];

        if (!map_rows(&w.of[i].w, l->w, l->n, p->k, COLUMNS / PAIR))
            return false;
        w.of[i].bias = l->bias;
        w.of[i].y = l->y;
        w.of[i].squares = l->squares;
        w.of[i].n = l->n;
        w.of[i].columns = l->columns;
        w.of[i].blocks = kvr_product_blocks(l->n);
        w.of[i].across = (l->columns + COLUMNS - 1) / COLUMNS;
        w.across += w.of[i].across;
    }
    w.gate = p->gate;
    w.gate_stride = p->gate_stride;
    w.m = (int)p->m;
    w.k = p->k;
    w.tokens_per_frame = p->tokens_per_frame;
    w.shared = rows / PAIR * w.across;
    w.tiles = w.shared + rows % PAIR * (w.across + PAIR - 1) / PAIR;
    if (p->end == KVR_PRODUCT_GELU)
        launch<KVR_PRODUCT_GELU>(s, w, blocks);
    else if (p->end == KVR_PRODUCT_RESIDUAL)
        launch<KVR_PRODUCT_RESIDUAL>(s, w, blocks);
    else
        launch<KVR_PRODUCT_STORE>(s, w, blocks);
    return true;
}
