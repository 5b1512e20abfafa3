/* attend_mma.cu - see attend_mma.h.
 *
 * A CTA computes attention for QUERIES queries of one head. Each warp computes ROWS query rows, as
 * two blocks of 16 rows. The main loop runs over tiles of TILE tokens. The next tile's codes are
 * loaded into shared memory by cp.async during the GEMMs and softmax of the current tile. A lane
 * holds rows g and g + 8 of the accumulators of a 16-row block, with g = lane / 4. In every 8
 * accumulator columns a lane holds columns 2 t and 2 t + 1, with t = lane % 4 (mma.cuh).
 *
 * The Taylor correction removes the bias that quantization errors of keys add to softmax weights.
 * An extra MMA of squared queries and squared quantization scales computes this correction.
 * Rounding to BF16 has a relative error of at most 2^-8. The rounding of each of the two MMA
 * operands contributes 2^-8, and squaring the already rounded query contributes 2 x 2^-8. The
 * relative error of the correction is therefore at most 2^-6. If the quantization error of a score
 * has standard deviation sigma, the score's correction is sigma^2 / 2. The correction's rounding
 * error is then at most sigma^2 / 128. For sigma < 12, it is less than a tenth of sigma, and thus
 * small compared with the score's own quantization error. */
#include "harness/cache/attend_mma.h"

#include "harness/cache/attend_mma_rows.cuh"
#include "harness/cache/attend_part.cuh"
#include "harness/cache/attend_tile.cuh"
#include "harness/cache/query_norm.cuh"

/* Maximum number of spans (runs of cached tokens in BF16) in a launch. */
enum { MAX_SPANS = KVR_ATTEND_ROWS_SPANS };

struct rows_list {
    const kvr_bf16 *k[MAX_SPANS], *v[MAX_SPANS];
    int t0[MAX_SPANS], end[MAX_SPANS];
    float log_m[MAX_SPANS];
    float scale;
    /* Whether the kernel subtracts row_bias, a term per query and head, from the scores. The launch
     * must then have one span, because changing to the next span overwrites the row's score bias.
     * It must not use split-KV, because a CTA indexes row_bias by rows of its softmax state. */
    bool biased;
    int at_tiles;
    struct cut cut;
};

/* Returns the number of tiles that contain tokens of the span. */
static __device__ __forceinline__ int tiles_of(const struct rows_list &l, int span)
{
    return (l.end[span] + TILE - 1) / TILE - l.t0[span] / TILE;
}

/* Indices of main-loop variables that are kept in shared memory to save registers. QUERY is the
 * CTA's first query. SLOT is the index of the CTA's partial result in split-KV, or -1 without
 * split-KV. LEFT is the number of tiles that the CTA has to process after the current span. */
enum { HEAD, QUERY, SLOT, LEFT, SPAN, N_WHERE };

/* Start of a CTA's tile range: the span of its first tile, and the first token of that tile. */
struct rows_position {
    int span, tile;
};

static __device__ __forceinline__ struct rows_position position_of(const struct rows_list &l,
                                                                   int tile)
{
    struct rows_position at = { 0, 0 };

    for (;; at.span++) {
        const int of = tiles_of(l, at.span);

        if (tile < of)
            break;
        tile -= of;
    }
    at.tile = (l.t0[at.span] / TILE + tile) * TILE;
    return at;
}

/* Loads the CTA's queries as BF16 into shared memory. If io.norm is set, the function applies
 * RMSNorm and RoPE to the queries. */
template <int W>
static __device__ __forceinline__ void
load_any(const struct kvr_attend_shape &a, const struct part &p, const struct kvr_attend_io &io,
         kvr_shared<kvr_bf16> queries)
{
    if (io.norm.inverses)
        load_normed<W, QUERIES, MMA_THREADS>(
            a, io.norm, io.q16, kvr_thread(), p.query, p.h, [&](int r, unsigned x) {
                kvr_as<unsigned>(queries + r * (W + 8) + kvr_thread() % (W / 2) * 2)[0] = x;
            });
    else
        load_queries<W>(a, p.query, p.h, io, queries);
}

/* Main-loop step for a tile of BF16 rows. The function waits for the tile, prefetches the next tile
 * if that tile begins before token `stop`, and computes attention over the current tile. */
template <int W>
static __device__ __forceinline__ void
attend_rows_tile(const struct kvr_attend_shape &a, const struct rows_list &l,
                 kvr_shared<uint8_t> shared, kvr_shared<int> where, int tile, int stop,
                 kvr_shared<float> rows, struct accumulator<W> &o)
{
    enum { SIZE = TILE * (W + 8) };
    const kvr_shared<kvr_bf16> both = kvr_as<kvr_bf16>(shared + kvr_zero() + l.at_tiles);
    const int odd = (int)((unsigned)tile / TILE % 2), self = kvr_thread();
    const kvr_shared<kvr_bf16> here = both + odd * 2 * SIZE;
    const kvr_shared<kvr_bf16> there = both + (odd ^ 1) * 2 * SIZE;
    const kvr_shared<const kvr_bf16> queries = kvr_as<const kvr_bf16>(shared);

    kvr_cp_async_wait<0>();
    /* waits until all threads' copies of this tile have arrived and all threads have read the
     * previous tile */
    __syncthreads();
    const int at = where[SPAN], h = where[HEAD];
    const struct tile_bounds bounds = { l.t0[at], l.end[at], a.n_heads, a.head_dim, h };

    if (tile + TILE < stop) {
        fetch_rows<W>(l.k[at], l.v[at], bounds, tile + TILE, there);
        kvr_cp_async_commit();
    }
    if (where[QUERY] + self / 32 * ROWS < a.n_query)
        attend_keys<W, TILE, false>(l.scale, TAYLOR_NO, bounds, self, tile, queries, queries, here,
                                    queries, here + SIZE, rows, o);
}

/* Attention over BF16 keys and values with D <= W, in a 2-stage cp.async pipeline. The pipeline
 * restarts at every span, so the load of a span's first tile overlaps with no computation. */
template <int W>
static __global__ void __launch_bounds__(MMA_THREADS, 2)
    attend_mma_rows(struct kvr_attend_shape a, const __grid_constant__ struct rows_list l,
                    const __grid_constant__ struct kvr_attend_io io,
                    kvr_global<const float> row_bias, kvr_global<float> parts)
{
    KVR_SHARED_DYNAMIC(uint8_t, shared);
    KVR_SHARED(float, rows, N_NUMBERS);
    KVR_SHARED(int, where, N_WHERE);
    enum { SIZE = TILE * (W + 8) };
    const struct part p = part_of(a, l.cut);
    struct accumulator<W> o;
    const struct rows_position begin = position_of(l, p.first);
    int span = begin.span, tile = begin.tile, n = p.n;

    if (!threadIdx.x) {
        where[HEAD] = p.h;
        where[QUERY] = p.query;
        where[SLOT] = p.slot;
    }
    load_any<W>(a, p, io, kvr_as<kvr_bf16>(shared));
    clear_rest<W>(a.head_dim, 4 * TILE, kvr_as<kvr_bf16>(shared + l.at_tiles));
    load_state<W>(rows_of_part(a, l.cut, p.slot, p.h, p.query, io, parts), a.head_dim,
                  p.slot < 0 && !io.begins, l.log_m[span], l.biased, row_bias, kvr_thread(), rows,
                  o);
#pragma unroll 1
    for (;;) {
        __syncthreads(); /* waits until all warps have read the previous span's tiles */
        const int there_are = (l.end[span] + TILE - 1 - tile) / TILE;
        const int mine = n < there_are ? n : there_are, stop = tile + mine * TILE;
        const kvr_shared<kvr_bf16> tiles = kvr_as<kvr_bf16>(shared + kvr_zero() + l.at_tiles);

        if (!kvr_thread()) {
            where[LEFT] = n - mine;
            where[SPAN] = span;
        }
        const struct tile_bounds begins = { l.t0[span], l.end[span], a.n_heads, a.head_dim,
                                            where[HEAD] };

        fetch_rows<W>(l.k[span], l.v[span], begins, tile,
                      tiles + (unsigned)tile / TILE % 2 * 2 * SIZE);
        kvr_cp_async_commit();
#pragma unroll 1
        do {
            attend_rows_tile<W>(a, l, shared, where, tile, stop, rows, o);
            tile += TILE;
        } while (tile < stop);
        n = where[LEFT];
        if (!n)
            break;
        span = where[SPAN] + 1;
        tile = l.t0[span] / TILE * TILE;
        /* each thread sets the score bias of one query row, which is added to all scores of the
         * row */
        rows[BIAS + kvr_thread()] = l.log_m[span];
    }
    store<W>(rows_of_part(a, l.cut, where[SLOT], where[HEAD], where[QUERY], io, parts), a.head_dim,
             where[SLOT] < 0 && (io.out || io.out16), io, kvr_thread(), rows, o);
}

/* Template parameter FORM of the kernel for quantized spans: the padded head dimension W plus these
 * flags. With OVER_TOKENS_K or OVER_TOKENS_V, each scale of K or V is shared by several tokens of
 * one channel. Otherwise each scale is shared by several channels of one token, or by the whole
 * token. WITH_TAYLOR subtracts the Taylor correction (see the top of this file) from the scores.
 * WITH_CHAINS adds support for keys and values with two quantization grids, in which the second
 * grid quantizes the residual of the first. WITH_ROWS adds support for spans whose K or V is
 * unquantized. With ALL_PACKED both K and V have a single symmetric 2-bit or 4-bit grid and no
 * outliers. Shared memory contains one dequantized tile, and one staging buffer that receives the
 * next tile's codes. */
enum {
    OVER_TOKENS_K = 1,
    OVER_TOKENS_V = 2,
    WITH_TAYLOR = 4,
    WITH_CHAINS = 8,
    ALL_PACKED = 16,
    WITH_ROWS = 32,
    FORMS = 63
};

/* Returns the rows of the softmax state (running maxima, denominators, accumulators) that a CTA
 * updates in a launch without split-KV. */
static __device__ __forceinline__ struct rows_at
rows_of_block(const struct kvr_attend_shape &a, int query, int h, const struct kvr_attend_state &st)
{
    const int64_t left = a.n_query - query;

    return { (int64_t)query * a.n_heads + h,
             a.n_heads,
             (int)(left < QUERIES ? left : (int64_t)QUERIES),
             st.mx,
             st.sum,
             st.acc };
}

template <int FORM> struct coded_form {
    enum { W = FORM & ~FORMS, SIZE = TILE * (W + 8) };
    static constexpr bool corrected = FORM & WITH_TAYLOR, of_tokens_k = FORM & OVER_TOKENS_K;
    static constexpr int how = (FORM & ALL_PACKED ? HOW_PACKED : 0) |
                               (FORM & WITH_CHAINS ? HOW_CHAINS : 0) |
                               (FORM & WITH_ROWS ? HOW_ROWS : 0);
    static constexpr int how_k = how | (of_tokens_k ? HOW_TOKENS : 0);
    static constexpr int how_v = how | (FORM & OVER_TOKENS_V ? HOW_TOKENS : 0);
    /* Whether the kernel processes K and V by one loop instead of separate code, which reduces code
     * size. Only the rarely used kernels with a correction share code between K and V. */
    static constexpr bool alike = corrected && how_k == how_v;
};

/* Pointers to the start of the CTA's shared memory, and to its arrays: the dequantized tile's keys
 * and values, the squared scales of K, and the sums of q^2 per query and channel group. */
struct coded_tile {
    kvr_shared<uint8_t> here;
    kvr_shared<kvr_bf16> keys, values, scales, norms;
};

/* Issues cp.async copies of a tile's codes and scales into the shared-memory staging buffers of K
 * and V. */
template <int FORM>
static __device__ __forceinline__ void fetch_codes(const struct span_job &j,
                                                   const struct tile_bounds &bounds, int tile,
                                                   kvr_shared<uint8_t> here)
{
    typedef coded_form<FORM> of;

    if constexpr (of::alike) {
#pragma unroll 1
        for (int i = K; i <= V; i++)
            fetch_grids<of::W, of::how_k>(j.of[i], bounds, tile, here + j.at_stage[i]);
    } else {
        fetch_grids<of::W, of::how_k>(j.of[K], bounds, tile, here + j.at_stage[K]);
        fetch_grids<of::W, of::how_v>(j.of[V], bounds, tile, here + j.at_stage[V]);
    }
    kvr_cp_async_commit();
}

/* Waits for the codes of a tile, then dequantizes K and V. If the scores need the Taylor correction
 * (see the top of this file), the function also loads the squared scales of K. Outliers are stored
 * unquantized, and the function writes them over the dequantized values. `next` contains two
 * indices per thread: those of the first outlier of K and of V that the thread has not yet
 * processed. */
template <int FORM>
static __device__ __forceinline__ void
decode_tile(const struct span_job &j, const struct tile_bounds &bounds, int tile,
            const struct coded_tile &to, kvr_shared<int> next)
{
    typedef coded_form<FORM> of;
    enum { W = of::W, SIZE = of::SIZE };
    const kvr_shared<uint8_t> here = to.here;
    const kvr_shared<uint8_t> stage_k = here + j.at_stage[K], stage_v = here + j.at_stage[V];

    kvr_cp_async_wait<0>();
    /* waits until all codes have arrived and all threads have read the previous tile */
    __syncthreads();
    if constexpr (of::alike) {
#pragma unroll 1
        for (int i = K; i <= V; i++)
            decode<W, of::how_k>(j.of[i], bounds, tile, here + j.at_stage[i], to.keys + i * SIZE);
    } else {
        decode<W, of::how_k>(j.of[K], bounds, tile, stage_k, to.keys);
        decode<W, of::how_v>(j.of[V], bounds, tile, stage_v, to.values);
    }
    if (of::corrected && j.taylor)
        load_scales<W, of::of_tokens_k>(j, bounds, tile, stage_k, to.scales);
    if (!(of::how & HOW_PACKED) && (j.of[K].n_exact || j.of[V].n_exact)) {
        const int self = kvr_thread();

        __syncthreads();
        if (of::corrected && j.taylor)
            put<true>(j.of[K], bounds, tile, next[self], to.scales, W + 8);
#pragma unroll 1
        for (int i = K, at = self; i <= V; i++, at += MMA_THREADS)
            next[at] = put<false>(j.of[i], bounds, tile, next[at], to.keys + i * SIZE, W + 8);
    }
    __syncthreads();
}

/* Computes attention over a dequantized tile, at once if whole_tile() is true, otherwise over one
 * half of the tile after the other. */
template <int FORM>
static __device__ __forceinline__ void
attend_coded_tile(const struct span_job &j, const struct tile_bounds &bounds, int self, int tile,
                  kvr_shared<const kvr_bf16> queries, const struct coded_tile &in,
                  kvr_shared<float> rows, struct accumulator<coded_form<FORM>::W> &o)
{
    typedef coded_form<FORM> of;
    enum { W = of::W, HALF = TILE / 2 };
    const int scale_row = j.taylor == TAYLOR_GROUPS ? GROUP_STRIDE : W + 8;

    if (whole_tile(tile)) {
        attend_keys<W, TILE, of::corrected>(j.scale, j.taylor, bounds, self, tile, queries,
                                            in.norms, in.keys, in.scales, in.values, rows, o);
        return;
    }
#pragma unroll 1
    for (int at = 0; at < TILE; at += HALF)
        attend_keys<W, HALF, of::corrected>(
            j.scale, j.taylor, bounds, self, tile + at, queries, in.norms, in.keys + at * (W + 8),
            j.taylor == TAYLOR_OCTETS ? in.scales : in.scales + at * scale_row,
            in.values + at * (W + 8), rows, o);
}

template <int FORM>
static __global__ void __launch_bounds__(MMA_THREADS, 2)
    attend_mma_coded(struct kvr_attend_shape a, const __grid_constant__ struct span_job j,
                     const __grid_constant__ struct kvr_attend_io io,
                     kvr_global<const float> row_bias)
{
    KVR_SHARED_DYNAMIC(uint8_t, shared);
    KVR_SHARED(float, rows, N_NUMBERS);
    /* per thread, the indices of its first outliers of K and of V that are not yet processed */
    KVR_SHARED(int, next, 2 * MMA_THREADS);
    typedef coded_form<FORM> of;
    enum { W = of::W };
    const int h = (int)blockIdx.y, block = (int)blockIdx.x * QUERIES;
    const struct tile_bounds first = { j.t0, j.end, a.n_heads, a.head_dim, h };
    const kvr_shared<kvr_bf16> queries = kvr_as<kvr_bf16>(shared);
    const int begin = j.t0 / TILE * TILE;
    struct accumulator<W> o;

    load_queries<W>(a, block, h, io, queries);
    clear_rest<W>(a.head_dim, 2 * TILE, kvr_as<kvr_bf16>(shared + j.at_tiles));
    if (of::corrected && j.taylor == TAYLOR_GROUPS)
        load_norms(a, block, h, group_of(j.of[K], a.head_dim), io,
                   kvr_as<kvr_bf16>(shared + j.at_norms));
    else if (of::corrected && j.taylor)
        clear_rest<W>(a.head_dim, j.taylor == TAYLOR_OCTETS ? 8 : TILE,
                      kvr_as<kvr_bf16>(shared + j.at_scales));
    if (!(of::how & HOW_PACKED)) {
        next[threadIdx.x] = first_exact(j.of[K], first);
        next[MMA_THREADS + threadIdx.x] = first_exact(j.of[V], first);
    }
    load_state<W>(rows_of_block(a, block, h, io.state), a.head_dim, !io.begins, j.log_m, j.biased,
                  row_bias, kvr_thread(), rows, o);
    /* The first iteration is the prologue of the pipeline. It only fetches the codes of the first
     * tile. */
#pragma unroll 1
    for (int tile = begin - TILE; tile < j.end; tile += TILE) {
        const struct tile_bounds bounds = { j.t0, j.end, a.n_heads, a.head_dim, kvr_block_y() };
        const kvr_shared<uint8_t> here = shared + kvr_zero();
        const kvr_shared<kvr_bf16> keys = kvr_as<kvr_bf16>(here + j.at_tiles);
        const struct coded_tile at = { here, keys, keys + of::SIZE,
                                       kvr_as<kvr_bf16>(here + j.at_scales),
                                       kvr_as<kvr_bf16>(here + j.at_norms) };

        if (tile >= begin)
            decode_tile<FORM>(j, bounds, tile, at, next);
        if (tile + TILE < j.end)
            fetch_codes<FORM>(j, bounds, tile + TILE, here);
        if (tile < begin)
            continue;
        const int self = kvr_thread();

        if (kvr_block_x() * QUERIES + self / 32 * ROWS < a.n_query)
            attend_coded_tile<FORM>(j, bounds, self, tile, queries, at, rows, o);
    }
    store<W>(rows_of_block(a, kvr_block_x() * QUERIES, kvr_block_y(), io.state), a.head_dim, false,
             io, kvr_thread(), rows, o);
}

/* ---- host --------------------------------------------------------------------------------- */

static int width_of(int head_dim)
{
    return head_dim <= 64 ? 64 : 128;
}

static int log2_of(int64_t n)
{
    int shift = 0;

    while ((int64_t)1 << shift < n)
        shift++;
    return shift;
}

/* Describes in *out the quantization grid of stage i of a codec pipeline. Returns false if the
 * kernels cannot dequantize that grid. */
static bool grid_of(const struct kvr_packed *p, int i, bool chain, struct tile_grid *out)
{
    const int d = p->shape.head_dim;
    struct kvr_layout l;

    kvr_codec_layout(p->codec, i, &p->shape, &l);
    if (l.form != KVR_FORM_INTEGER)
        return false;
    /* A codec with BF16 arithmetic and one grid rounds code * scale to BF16 before it adds the
     * group's minimum. The attention kernels dequantize by an FMA, which cannot reproduce this
     * rounding. They therefore do not support a grid with minima in such a codec. */
    if (l.zero == KVR_ZERO_MINIMUM && !chain && p->codec->compute == KVR_COMPUTE_BF16)
        return false;
    *out = {};
    out->codes = (const uint8_t *)p->stage[i].codes.p;
    out->scales = (const kvr_f16 *)p->stage[i].meta.p;
    out->asym = l.zero != KVR_ZERO_MIDDLE;
    out->zero = l.zero == KVR_ZERO_POINT ? ~0u : 0u;
    out->minimum = l.zero == KVR_ZERO_MINIMUM ? ~0u : 0u;
    out->middle = out->asym ? 0u : 0x10001u * kvr_f32_to_f16((float)(1 << (l.bits - 1)));
    out->n_tok = (int)l.n_tok;
    out->bits = l.bits;
    out->axis = l.axis;
    out->n_groups = l.n_groups;
    if (l.axis == KVR_AXIS_TOKEN) {
        /* One scale s covers all channels of a token. The Taylor correction of a head is therefore
         * s^2 / 24 times the sum of q^2 over the head's channels. */
        out->shift = 30;
        out->groups_per_head = out->groups_per_token = 1;
        out->n_scales = TILE;
    } else {
        out->shift = log2_of(l.group);
        if (l.group != 1 << out->shift || l.group < 8)
            return false;
    }
    if (l.axis == KVR_AXIS_TOKENS) {
        out->n_scale_rows = (int)(l.n_groups / ((int64_t)p->shape.n_heads * d));
        out->n_scales = ((TILE + (int)l.group - 9) / (int)l.group + 1) * width_of(d);
    }
    if (l.axis == KVR_AXIS_CHANNELS) {
        out->groups_per_head = d / (int)l.group;
        out->groups_per_token = p->shape.n_heads * out->groups_per_head;
        out->n_scales = TILE * out->groups_per_head;
    }
    out->aligned_scales = l.axis != KVR_AXIS_TOKENS && (uintptr_t)out->scales % 16 == 0 &&
                          (!out->asym || out->n_groups % 8 == 0) &&
                          (out->groups_per_token == 1 || out->groups_per_head % 8 == 0);
    return true;
}

/* Whether a kernel with the flag OVER_TOKENS_K or OVER_TOKENS_V can read the keys or values `s`.
 * Such a kernel reads quantized tensors in which several tokens of a channel share a scale. It also
 * reads unquantized tensors, because they have no scales. */
static bool over_tokens(const struct tile_source &s)
{
    return s.kind != GRIDS || s.grid[0].axis == KVR_AXIS_TOKENS;
}

static bool coded_source(const struct kvr_packed *p, struct tile_source *out)
{
    const struct kvr_codec *c = p->codec;
    struct kvr_layout l;
    int i = 0;

    kvr_codec_layout(c, 0, &p->shape, &l);
    if (l.form == KVR_FORM_RAW) {
        out->kind = l.type == KVR_F32 ? ROWS_F32 : ROWS_BF16;
        out->rows = p->stage[0].codes.p;
        return l.type == KVR_F32 || l.type == KVR_BF16;
    }
    out->kind = GRIDS;
    if (kvr_codec_rotated(c))
        kvr_codec_layout(c, ++i, &p->shape, &l);
    if (l.form == KVR_FORM_ENTRIES) {
        out->value = (const kvr_f16 *)p->stage[i].codes.p;
        out->index = (const int32_t *)p->stage[i].meta.p;
        out->n_exact = (int)p->stage[i].n_entries;
        i++;
    }
    if (c->n_stages - i < 1 || c->n_stages - i > MAX_GRIDS)
        return false;
    out->n_grids = c->n_stages - i;
    for (int g = 0; g < out->n_grids; g++)
        if (!grid_of(p, i + g, out->n_grids > 1, &out->grid[g]))
            return false;
    out->packed = out->n_grids == 1 && !out->n_exact && out->grid[0].axis == KVR_AXIS_TOKENS &&
                  !out->grid[0].asym && (out->grid[0].bits == 2 || out->grid[0].bits == 4);
    return out->n_grids == 1 ||
           (out->grid[0].axis == KVR_AXIS_TOKENS) == (out->grid[1].axis == KVR_AXIS_TOKENS);
}

bool kvr_tile_source_of(const struct kvr_attend_mma_source *s, struct tile_source *out)
{
    *out = {};
    if (s->packed)
        return coded_source(s->packed, out);
    out->rows = s->raw;
    out->kind = !s->raw ? ROWS_ZERO : s->dtype == KVR_BF16 ? ROWS_BF16 : ROWS_F32;
    return !s->raw ||
           ((s->dtype == KVR_BF16 || s->dtype == KVR_F32) && (uintptr_t)s->raw % 16 == 0);
}

static enum taylor_kind taylor_of(const struct tile_source *k)
{
    if (k->kind != GRIDS)
        return TAYLOR_NO;
    if (k->n_exact)
        return TAYLOR_ELEMENTS;
    return k->grid[k->n_grids - 1].axis == KVR_AXIS_TOKENS ? TAYLOR_OCTETS : TAYLOR_GROUPS;
}

static int stage_of(const struct tile_source *s, int w)
{
    int n = 0;

    for (int i = 0; i < s->n_grids; i++)
        n += stage_bytes(s->grid[i], w);
    return n;
}

/* Upper bound in bytes of the static shared memory of every kernel in this file. */
enum { STATIC_SHARED = N_NUMBERS * (int)sizeof(float) + 2 * MMA_THREADS * (int)sizeof(int) };

/* Computes the shared-memory layout for a span. Returns false if the kernels do not support the
 * span. Spans of BF16 rows have their own kernel, with a 2-stage pipeline in shared memory. If
 * head_dim is above 64, two CTAs of this BF16 kernel fit on an SM of sm_90, but only one on sm_80.
 * On sm_86, sm_89 and sm_120 the pipeline then exceeds the shared-memory limit of a CTA, so that
 * the kernel for quantized spans reads the BF16 rows. If only K or only V of a span is quantized,
 * the kernel for quantized spans also reads the unquantized tensor. */
static bool job_of(size_t shared, const struct kvr_attend_shape *a,
                   const struct kvr_attend_mma_span *span, struct span_job *j)
{
    const int w = width_of(a->head_dim), row = (w + 8) * (int)sizeof(kvr_bf16);
    int scales = 0;

    *j = {};
    if (a->head_dim < 16 || a->head_dim > KVR_ATTEND_MMA_MAX_D || a->head_dim % 16 ||
        !kvr_tile_source_of(&span->k, &j->of[K]) || !kvr_tile_source_of(&span->v, &j->of[V]))
        return false;
    if ((j->of[K].n_grids > 1 || j->of[V].n_grids > 1) &&
        !(over_tokens(j->of[K]) && over_tokens(j->of[V])))
        return false;
    j->t0 = (int)span->t0;
    j->end = (int)(span->t0 + span->n);
    j->log_m = span->log_m;
    j->scale = 1.0f / sqrtf((float)a->head_dim);
    j->biased = span->row_bias != NULL;
    j->taylor = span->taylor ? taylor_of(&j->of[K]) : TAYLOR_NO;
    if (j->taylor == TAYLOR_OCTETS)
        scales = 8 * row;
    if (j->taylor == TAYLOR_ELEMENTS)
        scales = TILE * row;
    if (j->taylor == TAYLOR_GROUPS)
        scales = TILE * GROUP_STRIDE * (int)sizeof(kvr_bf16);
    j->at_tiles = QUERIES * row;
    j->plain = j->of[K].kind == ROWS_BF16 && j->of[V].kind == ROWS_BF16 &&
               (size_t)(j->at_tiles + 4 * TILE * row + STATIC_SHARED) <= shared;
    j->at_scales = j->at_tiles + (j->plain ? 4 : 2) * TILE * row;
    j->at_norms = j->at_scales + scales;
    j->at_stage[K] =
        j->at_norms +
        (j->taylor == TAYLOR_GROUPS ? QUERIES * GROUP_STRIDE * (int)sizeof(kvr_bf16) : 0);
    j->at_stage[V] = j->at_stage[K] + stage_of(&j->of[K], w);
    j->n_shared = j->at_stage[V] + stage_of(&j->of[V], w);
    return (size_t)(j->n_shared + STATIC_SHARED) <= shared;
}

bool kvr_attend_mma_accepts(size_t shared, const struct kvr_attend_shape *a,
                            const struct kvr_attend_mma_span *span)
{
    struct span_job j;

    return job_of(shared, a, span, &j);
}

size_t kvr_attend_mma_shared_bytes(size_t shared, const struct kvr_attend_shape *a,
                                   const struct kvr_attend_mma_span *span)
{
    struct span_job j;

    return job_of(shared, a, span, &j) ? (size_t)(j.n_shared + STATIC_SHARED) : 0;
}

/* Arguments of the functions launch() and launch_...(). */
struct call {
    struct kvr_stream *s;
    dim3 blocks;
    struct kvr_attend_shape a;
    struct kvr_attend_io io;
    const float *row_bias;
    /* if not NULL, receives the number of resident CTAs per SM, and no kernel is launched */
    int *at_once;
};

template <int FORM> static void launch_coded(const struct call &c, const struct span_job &j)
{
    if (c.at_once)
        *c.at_once =
            KVR_CTAS_PER_SM(attend_mma_coded<FORM>, MMA_THREADS, j.n_shared, STATIC_SHARED, c.s);
    else
        KVR_LAUNCH(attend_mma_coded<FORM>, c.blocks, MMA_THREADS, j.n_shared, c.s, c.a, j, c.io,
                   c.row_bias);
}

template <int FORM> static void launch_axes(const struct call &c, const struct span_job &j)
{
    const bool k = over_tokens(j.of[K]), v = over_tokens(j.of[V]);

    if (k && v)
        launch_coded<FORM + OVER_TOKENS_K + OVER_TOKENS_V>(c, j);
    else if (k)
        launch_coded<FORM + OVER_TOKENS_K>(c, j);
    else if (v)
        launch_coded<FORM + OVER_TOKENS_V>(c, j);
    else
        launch_coded<FORM>(c, j);
}

/* Launches the kernel for a quantized span with head_dim above 64. Common codecs have specialized
 * kernels without unused branches. Spans with only K or only V quantized use a general kernel,
 * which is instantiated for each combination of OVER_TOKENS_K and OVER_TOKENS_V. */
static void launch_wide(const struct call &c, const struct span_job &j)
{
    constexpr int tokens = 128 + OVER_TOKENS_K + OVER_TOKENS_V;
    const bool chains = j.of[K].n_grids > 1 || j.of[V].n_grids > 1;

    if (j.of[K].kind != GRIDS || j.of[V].kind != GRIDS)
        launch_axes<128 + WITH_TAYLOR + WITH_CHAINS + WITH_ROWS>(c, j);
    else if (j.of[K].packed && j.of[V].packed && j.taylor)
        launch_coded<tokens + ALL_PACKED + WITH_TAYLOR>(c, j);
    else if (j.of[K].packed && j.of[V].packed)
        launch_coded<tokens + ALL_PACKED>(c, j);
    else if (chains && j.taylor)
        launch_coded<tokens + WITH_CHAINS + WITH_TAYLOR>(c, j);
    else if (chains)
        launch_coded<tokens + WITH_CHAINS>(c, j);
    else if (j.taylor)
        launch_axes<128 + WITH_TAYLOR>(c, j);
    else
        launch_axes<128>(c, j);
}

/* Launches one kernel for all BF16 spans of the list `l`. `j` describes any one of these spans: all
 * of them have the same shared-memory layout and the same score scale. */
template <int W>
static void launch_rows(const struct call &c, const struct span_job &j, struct rows_list &l,
                        float *parts, size_t n_floats)
{
    const struct kvr_attend_split split = kvr_attend_split_for(&c.a, l.cut.n_tiles, n_floats);
    const unsigned blocks = (unsigned)(split.n_whole + split.n_cut * split.parts);

    if (c.at_once) {
        *c.at_once =
            KVR_CTAS_PER_SM(attend_mma_rows<W>, MMA_THREADS, j.n_shared, STATIC_SHARED, c.s);
        return;
    }
    l.scale = j.scale;
    l.biased = j.biased;
    l.at_tiles = j.at_tiles;
    l.cut = cut_of(&split, l.cut.n_tiles);
    KVR_LAUNCH(attend_mma_rows<W>, blocks, MMA_THREADS, j.n_shared, c.s, c.a, l, c.io, c.row_bias,
               parts);
    kvr_attend_parts_cuda(c.s, &c.a, &split, parts, &c.io);
}

static void add_rows(struct rows_list &l, int at, const struct span_job &j)
{
    l.k[at] = (const kvr_bf16 *)j.of[K].rows;
    l.v[at] = (const kvr_bf16 *)j.of[V].rows;
    l.t0[at] = j.t0;
    l.end[at] = j.end;
    l.log_m[at] = j.log_m;
    l.cut.n_tiles += (j.end + TILE - 1) / TILE - j.t0 / TILE;
}

/* Launches the kernel for one span. The kernel for quantized spans writes only the softmax state,
 * so the caller launches a second kernel that writes the output. */
static void launch(const struct call &c, const struct span_job &j)
{
    const bool wide = width_of(c.a.head_dim) == 128;
    struct rows_list one = {};

    if (j.plain)
        add_rows(one, 0, j);
    if (j.plain && wide)
        launch_rows<128>(c, j, one, NULL, 0);
    else if (j.plain)
        launch_rows<64>(c, j, one, NULL, 0);
    else if (wide)
        launch_wide(c, j);
    else
        launch_axes<64 + WITH_TAYLOR + WITH_CHAINS + WITH_ROWS>(c, j);
}

bool kvr_attend_rows_accepts(size_t shared, const struct kvr_attend_shape *a,
                             const struct kvr_attend_mma_span *span)
{
    struct span_job j;

    return !span->row_bias && job_of(shared, a, span, &j) && j.plain;
}

void kvr_attend_rows_cuda(struct kvr_stream *s, const struct kvr_attend_shape *a,
                          const struct kvr_attend_io *io, const struct kvr_attend_mma_span *span,
                          int n_spans, float *parts, size_t n_floats)
{
    const bool wide = width_of(a->head_dim) == 128;
    struct call c = { s, dim3(1), *a, *io, NULL, NULL };
    struct rows_list l = {};
    struct span_job j, last = {};
    int n = 0;

    if (!a->n_query || !a->n_heads)
        return;
    for (int i = 0; i < n_spans; i++) {
        if (!span[i].n || !job_of(kvr_stream_block_shared(s), a, &span[i], &j))
            continue;
        /* a later launch processes the remaining spans and writes the output, so this launch writes
         * only the softmax state */
        if (n == MAX_SPANS) {
            c.io = kvr_attend_io_partial(&c.io);
            if (wide)
                launch_rows<128>(c, last, l, parts, n_floats);
            else
                launch_rows<64>(c, last, l, parts, n_floats);
            c.io = *io;
            c.io.begins = false;
            l = {};
            n = 0;
        }
        add_rows(l, n++, j);
        last = j;
    }
    if (!n)
        kvr_attend_separate_passes_cuda(s, a, io);
    else if (wide)
        launch_rows<128>(c, last, l, parts, n_floats);
    else
        launch_rows<64>(c, last, l, parts, n_floats);
}

void kvr_attend_mma_cuda(struct kvr_stream *s, const struct kvr_attend_shape *a,
                         const struct kvr_attend_io *io, const struct kvr_attend_mma_span *span)
{
    const dim3 blocks((unsigned)((a->n_query + QUERIES - 1) / QUERIES), (unsigned)a->n_heads);
    struct call c = { s, blocks, *a, *io, span->row_bias, NULL };
    struct kvr_attend_io rest = *io;
    struct span_job j;
    bool done = false;

    if (a->n_query && a->n_heads && span->n && job_of(kvr_stream_block_shared(s), a, span, &j)) {
        if (io->norm.inverses && !j.plain)
            c.io = kvr_attend_norm_cuda(s, a, io);
        launch(c, j);
        done = j.plain;
        rest.begins = false;
    }
    if (!done)
        kvr_attend_separate_passes_cuda(s, a, &rest);
}

int kvr_attend_mma_blocks(struct kvr_stream *s, const struct kvr_attend_shape *a,
                          const struct kvr_attend_mma_span *span)
{
    int at_once = 0;
    const struct call c = { s, dim3(1), *a, {}, NULL, &at_once };
    struct span_job j;

    if (job_of(kvr_stream_block_shared(s), a, span, &j))
        launch(c, j);
    return at_once;
}
