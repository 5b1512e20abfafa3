/* attend_cuda.cu - F32 attention with online softmax over tiles of dequantized keys and values.
 *
 * A CTA computes attention for QUERIES queries of one head. Each warp computes ROWS query rows. In
 * S = Q K^T, a lane computes the scores of one key of the tile. In P V, a lane computes every 32nd
 * channel of O, and shuffles broadcast the weights P. The same shared-memory buffer stores first
 * the tile's K, then the tile's V. If the scores are corrected for quantization errors of K, the
 * buffer stores the squared quantization scales of K in between. Its row stride is W + 1 floats,
 * where W is the padded head dimension, a multiple of 32. This odd stride lets 32 lanes read 32
 * different rows without bank conflicts. */
#include "harness/cache/attend_cuda.h"

#include "harness/cache/query_norm.cuh"
#include "harness/device/kernel.cuh"
#include "harness/device/mma.cuh"
#include "harness/device/vector.cuh"

using quad = kvr_vec<float, 4>;
enum { WARPS = 4, ROWS = 4, QUERIES = WARPS * ROWS, TILE = 32, THREADS = WARPS * 32 };

static __global__ void __launch_bounds__(THREADS)
    attend_begin(int64_t n_rows, int d, kvr_global<float> mx, kvr_global<float> sum,
                 kvr_global<float> acc)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i >= n_rows * d)
        return;
    acc[i] = 0;
    if (i < n_rows) {
        mx[i] = -INFINITY;
        sum[i] = 0;
    }
}

/* Returns the maximum of `start` and of the 32 values that the lanes of the warp pass as `v`.
 * Returns NaN if any of these numbers is NaN. `start` is the same in all lanes. */
static __device__ __forceinline__ float warp_max(float v, float start)
{
    const bool bad = __any_sync(~0u, v != v) || start != start;

    for (int h = 16; h; h /= 2) {
        const float other = __shfl_xor_sync(~0u, v, h);

        v = other > v ? other : v;
    }
    return bad ? NAN : v > start ? v : start;
}

static __device__ __forceinline__ float warp_sum(float v)
{
    for (int h = 16; h; h /= 2)
        v += __shfl_xor_sync(~0u, v, h);
    return v;
}

/* Loads n tokens of head h, from token t0 on, into a shared-memory tile with row stride W + 1. In
 * the tile, rows with index >= n and columns with index >= head_dim become zero. */
template <int W>
static __device__ __forceinline__ void load_tile(const struct kvr_attend_shape a,
                                                 kvr_global<const float> x, int64_t t0, int n,
                                                 int h, kvr_shared<float> tile)
{
    for (int i = (int)threadIdx.x; i < TILE * W; i += THREADS) {
        const int t = i / W, c = i % W;

        tile[t * (W + 1) + c] =
            t < n && c < a.head_dim ? (float)x[((t0 + t) * a.n_heads + h) * a.head_dim + c] : 0.0f;
    }
}

/* Returns log(sinh(`a`) / `a`) for `a` >= 0. The score correction `exact` sums this function over
 * the channels of a head (methods/corrections/exact.c). */
static __device__ __forceinline__ float log_sinhc(float a)
{
    if (a < 0.5f) {
        const float x = a * a;

        return x * (1.0f / 6 - x * (1.0f / 180 - x * (1.0f / 2835 - x * (1.0f / 37800))));
    }
    return a - logf(2 * a) + log1pf(-expf(-2 * a));
}

/* Each lane has the scores `p` of one key for ROWS queries. The function subtracts from `p` the
 * correction of the bias that the key's quantization error causes in softmax. The row stride of
 * `queries` is W floats. Row `lane` of `tile` is the key's squared quantization scales. */
template <int W>
static __device__ __forceinline__ void correct(int by_scales, int d, int lane,
                                               kvr_shared<float> queries, kvr_shared<float> tile,
                                               float (&p)[ROWS])
{
    float c[ROWS] = { 0 };

    for (int e = 0; e < d; e++) {
        const float s2 = tile[lane * (W + 1) + e];

#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const float q = queries[r * W + e];

            if (by_scales == KVR_BY_SCALES_TAYLOR)
                c[r] = fmaf(q * q, s2, c[r]);
            else
                c[r] += log_sinhc(0.5f * sqrtf(q * q * s2));
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        p[r] -= by_scales == KVR_BY_SCALES_TAYLOR ? c[r] / 24.0f : c[r];
}

/* Returns the bytes of shared memory that a CTA of attend_piece<j> needs. */
static size_t shared_bytes(int j)
{
    return (size_t)(QUERIES * 32 * j + TILE * (32 * j + 1)) * sizeof(float);
}

/* Parameters of the attention scores of n keys: the factor and the terms that convert the dot
 * product of a query and a key to a score. */
struct terms {
    float scale, log_m;
    int64_t n;
    bool by_row;
    int by_scales;
};

/* Online-softmax state of the queries of a warp. Lane i has channels i, i + 32, ... of every
 * query's accumulator O. All lanes have copies of every query's running maximum, softmax
 * denominator and `bias`, the term that is subtracted from all scores of the query. */
template <int J> struct piece_state {
    float top[ROWS], total[ROWS], bias[ROWS], out[ROWS][J];
};

/* Loads the softmax state of ROWS queries, from query `first` on. */
template <int J>
static __device__ __forceinline__ void
load_piece(const struct kvr_attend_shape &a, int64_t first, int h, int lane, bool by_row,
           kvr_global<const float> row_bias, kvr_global<float> mx, kvr_global<float> sum,
           kvr_global<float> acc, struct piece_state<J> &o)
{
    const int d = a.head_dim;

#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int64_t row = (first + r) * a.n_heads + h;
        const bool there = first + r < a.n_query;

        o.top[r] = there ? (float)mx[row] : 0.0f;
        o.total[r] = there ? (float)sum[row] : 0.0f;
        o.bias[r] = there && by_row ? (float)row_bias[row] : 0.0f;
#pragma unroll
        for (int j = 0; j < J; j++)
            o.out[r][j] = there && lane + 32 * j < d ? (float)acc[row * d + lane + 32 * j] : 0.0f;
    }
}

template <int J>
static __device__ __forceinline__ void store_piece(const struct kvr_attend_shape &a, int64_t first,
                                                   int h, int lane, const struct piece_state<J> &o,
                                                   kvr_global<float> mx, kvr_global<float> sum,
                                                   kvr_global<float> acc)
{
    const int d = a.head_dim;

#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int64_t row = (first + r) * a.n_heads + h;

        if (first + r >= a.n_query)
            continue;
        if (!lane) {
            mx[row] = o.top[r];
            sum[row] = o.total[r];
        }
#pragma unroll
        for (int j = 0; j < J; j++)
            if (lane + 32 * j < d)
                acc[row * d + lane + 32 * j] = o.out[r][j];
    }
}

/* Performs the online softmax and O += P V for a tile of m tokens. The scores `p` of a lane are
 * those of key `lane` of the tile, for ROWS queries. */
template <int J>
static __device__ __forceinline__ void add_values(kvr_shared<float> tile, int m, int lane,
                                                  float (&p)[ROWS], struct piece_state<J> &o)
{
    enum { W = 32 * J };

#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const float s = lane < m ? p[r] : -INFINITY, old = o.top[r];

        o.top[r] = warp_max(s, old);
        p[r] = expf(s - o.top[r]);
        /* If the running maximum has grown, the function rescales the softmax denominator and O. If
         * the maximum is NaN, the rescaling factor is NaN too. */
        const float rescale = o.top[r] == old ? 1.0f : expf(old - o.top[r]);

        o.total[r] *= rescale;
#pragma unroll
        for (int j = 0; j < J; j++)
            o.out[r][j] *= rescale;
        o.total[r] += warp_sum(p[r]);
    }
#pragma unroll 2
    for (int t = 0; t < m; t++) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const float weight = __shfl_sync(~0u, p[r], t);

#pragma unroll
            for (int j = 0; j < J; j++)
                o.out[r][j] = fmaf(weight, tile[t * (W + 1) + lane + 32 * j], o.out[r][j]);
        }
    }
}

/* The kernel attend_piece<J> supports head dimensions up to 32 J. */
template <int J>
static __global__ void __launch_bounds__(THREADS, 4)
    attend_piece(struct kvr_attend_shape a, struct terms terms, kvr_global<const float> q,
                 kvr_global<const float> k, kvr_global<const float> v,
                 kvr_global<const float> row_bias, kvr_global<const float> s2, kvr_global<float> mx,
                 kvr_global<float> sum, kvr_global<float> acc)
{
    KVR_SHARED_DYNAMIC(float, shared);
    enum { W = 32 * J };
    const int d = a.head_dim, lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int h = (int)(blockIdx.x % (unsigned)a.n_heads);
    const int64_t first = blockIdx.x / (unsigned)a.n_heads * QUERIES + warp * ROWS;
    const kvr_shared<float> queries = shared + warp * ROWS * W, tile = shared + QUERIES * W;
    const int64_t n = terms.n;
    struct piece_state<J> o;

    for (int r = 0; r < ROWS; r++)
        for (int c = lane; c < d; c += 32)
            queries[r * W + c] = first + r < a.n_query
                                     ? q[((first + r) * a.n_heads + h) * d + c] * terms.scale
                                     : 0.0f;
    load_piece<J>(a, first, h, lane, terms.by_row, row_bias, mx, sum, acc, o);
    for (int64_t t0 = 0; t0 < n; t0 += TILE) {
        const int m = n - t0 < TILE ? (int)(n - t0) : TILE;
        float p[ROWS];

        __syncthreads(); /* waits until all threads have read the previous tile's values */
        load_tile<W>(a, k, t0, m, h, tile);
        __syncthreads();
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            p[r] = terms.log_m;
        for (int c = 0; c < d; c++) {
            const float key = tile[lane * (W + 1) + c];

#pragma unroll
            for (int r = 0; r < ROWS; r++)
                p[r] = fmaf(queries[r * W + c], key, p[r]);
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            p[r] -= o.bias[r];
        __syncthreads(); /* waits until all threads have read the tile's keys */
        if (terms.by_scales != KVR_BY_SCALES_NO) {
            load_tile<W>(a, s2, t0, m, h, tile);
            __syncthreads();
            correct<W>(terms.by_scales, d, lane, queries, tile, p);
            __syncthreads();
        }
        load_tile<W>(a, v, t0, m, h, tile);
        __syncthreads();
        add_values<J>(tile, m, lane, p, o);
    }
    store_piece<J>(a, first, h, lane, o, mx, sum, acc);
}

/* Each CTA applies RMSNorm and RoPE to the queries of one token. If HERE is true, q and out are the
 * same array. The kernel then accesses this array only through `out`, because both pointers are
 * __restrict__. */
template <bool HERE>
static __global__ void __launch_bounds__(THREADS)
    attend_norm(struct kvr_attend_shape a, const struct kvr_query_norm norm,
                kvr_global<const kvr_bf16> q, kvr_global<kvr_bf16> out)
{
    const int64_t t = blockIdx.x;
    const kvr_global<const float> inverses(norm.inverses), weight(norm.weight);
    const kvr_global<const double> cosines(norm.cosines), sines(norm.sines);
    const bool turns = norm.cosines;

    for (int c = 2 * (int)threadIdx.x; c < a.n_heads * a.head_dim; c += 2 * THREADS) {
        const int64_t at = t * a.n_heads * a.head_dim + c;
        const int64_t angle = (t * a.head_dim + c % a.head_dim) / 2;
        const unsigned two =
            HERE ? kvr_as<unsigned>(out + at)[0] : kvr_as<const unsigned>(q + at)[0];
        const struct query_pair pair = { two, inverses[t], turns ? (double)cosines[angle] : 0,
                                         turns ? (double)sines[angle] : 0 };

        kvr_as<unsigned>(out + at)[0] = normed(pair, turns, float2{ weight[c], weight[c + 1] });
    }
}

static __global__ void __launch_bounds__(THREADS)
    query_inverses(int64_t n, int parts, int width, float eps, kvr_global<const float> squares,
                   kvr_global<float> inverses)
{
    const int64_t t = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    float sum = 0;

    if (t >= n)
        return;
    for (int i = 0; i < parts; i++)
        sum += squares[t * parts + i];
    inverses[t] = 1.0f / sqrtf(sum / (float)width + eps);
}

/* Stores x as element i of the output, which is F32 or BF16. */
static __device__ __forceinline__ void put_out(const struct kvr_attend_io &io, int64_t i, float x)
{
    const kvr_global<float> out(io.out);
    const kvr_global<kvr_bf16> out16(io.out16);

    if (io.out)
        out[i] = x;
    else
        out16[i] = (kvr_bf16)kvr_bf16_pair(x, 0);
}

/* Merges two softmax states that were computed over different keys: io.state, and a second state
 * with the row maxima mx2, denominators sum2 and accumulators acc2. Each warp merges one query
 * row. */
static __global__ void __launch_bounds__(THREADS)
    attend_merge(int64_t n_rows, int d, const struct kvr_attend_io io, kvr_global<const float> mx2,
                 kvr_global<const float> sum2, kvr_global<const float> acc2)
{
    const kvr_global<float> mx(io.state.mx), sum(io.state.sum), acc(io.state.acc);
    const int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const int lane = (int)threadIdx.x % 32;
    float a, b, top, rescale_a, rescale_b;

    if (row >= n_rows)
        return;
    a = mx[row];
    b = mx2[row];
    top = a != a || b != b ? NAN : a > b ? a : b;
    rescale_a = a == top ? 1.0f : expf(a - top);
    rescale_b = b == top ? 1.0f : expf(b - top);
    const float all = sum[row] * rescale_a + sum2[row] * rescale_b, inv = 1.0f / all;
    const bool ends = io.out || io.out16;

    for (int c = lane; c < d; c += 32) {
        const float x = acc[row * d + c] * rescale_a + acc2[row * d + c] * rescale_b;

        if (ends)
            put_out(io, row * d + c, x * inv);
        else
            acc[row * d + c] = x;
    }
    __syncwarp(); /* lane 0 overwrites mx[row] and sum[row] after all lanes have read them */
    if (!lane && !ends) {
        mx[row] = top;
        sum[row] = all;
    }
}

static __global__ void __launch_bounds__(THREADS)
    attend_finish(int64_t n, int d, const struct kvr_attend_io io)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const kvr_global<const float> sum(io.state.sum), acc(io.state.acc);

    if (i < n)
        put_out(io, i, acc[i] * (1.0f / sum[i / d]));
}

/* A CTA of attend_columns has KEYS keys, one per thread, and PASS queries at a time. */
enum { KEYS = 64, PASS = 8 };

/* Returns the bytes of shared memory that a CTA of attend_columns needs: PASS queries and KEYS keys
 * of d channels. */
static size_t columns_bytes(int d)
{
    return (size_t)(PASS * d + KEYS * (d + 1)) * sizeof(float);
}

/* Computes the scores `p` of one key for PASS queries. Element [channel][query] of `queries` is
 * scaled; `s2` has the key's squared quantization scales. */
static __device__ __forceinline__ void column_scores(const struct terms &terms, int d,
                                                     kvr_shared<float> queries,
                                                     kvr_shared<float> key,
                                                     kvr_global<const float> s2, float (&p)[PASS])
{
    float c[PASS] = {};

#pragma unroll
    for (int r = 0; r < PASS; r++)
        p[r] = terms.log_m;
    for (int e = 0; e < d; e++) {
        const float v = key[e];
        const quad x[2] = { kvr_as<quad>(queries + e * PASS)[0],
                            kvr_as<quad>(queries + (e * PASS + 4))[0] };

#pragma unroll
        for (int r = 0; r < PASS; r++)
            p[r] = fmaf(x[r / 4].v[r % 4], v, p[r]);
        if (terms.by_scales == KVR_BY_SCALES_NO)
            continue;
        const float scale2 = s2[e];

#pragma unroll
        for (int r = 0; r < PASS; r++) {
            const float y = x[r / 4].v[r % 4];

            if (terms.by_scales == KVR_BY_SCALES_TAYLOR)
                c[r] = fmaf(y * y, scale2, c[r]);
            else
                c[r] += log_sinhc(0.5f * sqrtf(y * y * scale2));
        }
    }
#pragma unroll
    for (int r = 0; r < PASS; r++)
        p[r] -= terms.by_scales == KVR_BY_SCALES_TAYLOR ? c[r] / 24.0f : c[r];
}

/* Each thread computes the column sum and the column maximum of P for one key of one head. */
static __global__ void __launch_bounds__(KEYS)
    attend_columns(struct kvr_attend_shape a, struct terms terms, kvr_global<const float> q,
                   kvr_global<const float> k, kvr_global<const float> row_bias,
                   kvr_global<const float> s2, kvr_global<const float> mx,
                   kvr_global<const float> sum, kvr_global<float> out)
{
    KVR_SHARED_DYNAMIC(float, queries);
    const int d = a.head_dim, me = (int)threadIdx.x, warp = me / 32, lane = me % 32;
    const kvr_shared<float> tile = queries + PASS * d;
    const int64_t h = blockIdx.x % (unsigned)a.n_heads;
    const int64_t t0 = (int64_t)(blockIdx.x / (unsigned)a.n_heads) * KEYS;
    const int64_t at = (t0 + me) * a.n_heads + h;
    const int n = terms.n - t0 < KEYS ? (int)(terms.n - t0) : KEYS;
    float total = 0, top = 0;

    for (int r = warp; r < n; r += KEYS / 32)
        for (int c = lane; c < d; c += 32)
            tile[r * (d + 1) + c] = (float)k[((t0 + r) * a.n_heads + h) * d + c];
    for (int64_t r0 = 0; r0 < a.n_query; r0 += PASS) {
        const int rows = a.n_query - r0 < PASS ? (int)(a.n_query - r0) : PASS;
        float p[PASS];

        __syncthreads();
        for (int r = warp; r < PASS; r += KEYS / 32)
            for (int c = lane; c < d; c += 32)
                queries[c * PASS + r] =
                    r < rows ? q[((r0 + r) * a.n_heads + h) * d + c] * terms.scale : 0.0f;
        __syncthreads();
        if (me >= n)
            continue;
        column_scores(terms, d, queries, tile + me * (d + 1), s2 + at * d, p);
#pragma unroll
        for (int r = 0; r < PASS; r++)
            if (r < rows) {
                const int64_t row = (r0 + r) * a.n_heads + h;
                const float score = terms.by_row ? p[r] - row_bias[row] : p[r];
                const float weight = expf(score - mx[row]) / sum[row];

                total += weight;
                top = weight > top ? weight : top;
            }
    }
    if (me < n) {
        out[2 * at] = total;
        out[2 * at + 1] = top;
    }
}

static int64_t rows_of(const struct kvr_attend_shape *a)
{
    return a->n_query * a->n_heads;
}

void kvr_attend_begin_cuda(struct kvr_stream *s, const struct kvr_attend_shape *a,
                           const struct kvr_attend_state *st)
{
    if (rows_of(a))
        KVR_LAUNCH(attend_begin, kvr_blocks(rows_of(a) * a->head_dim, THREADS), THREADS, 0, s,
                   rows_of(a), a->head_dim, st->mx, st->sum, st->acc);
}

void kvr_attend_piece_cuda(struct kvr_stream *s, const struct kvr_attend_shape *a, const float *q,
                           const struct kvr_attend_piece *p, const struct kvr_attend_state *st)
{
    const int d = a->head_dim;
    const unsigned blocks = (unsigned)((a->n_query + QUERIES - 1) / QUERIES * a->n_heads);
    const struct terms t = { 1.0f / sqrtf((float)d), p->log_m, p->n, p->row_bias != NULL,
                             (int)p->by_scales };

    if (!blocks || !p->n)
        return;
    if (d <= 32)
        KVR_LAUNCH(attend_piece<1>, blocks, THREADS, shared_bytes(1), s, *a, t, q, p->k, p->v,
                   p->row_bias, p->s2, st->mx, st->sum, st->acc);
    else if (d <= 64)
        KVR_LAUNCH(attend_piece<2>, blocks, THREADS, shared_bytes(2), s, *a, t, q, p->k, p->v,
                   p->row_bias, p->s2, st->mx, st->sum, st->acc);
    else if (d <= 128)
        KVR_LAUNCH(attend_piece<4>, blocks, THREADS, shared_bytes(4), s, *a, t, q, p->k, p->v,
                   p->row_bias, p->s2, st->mx, st->sum, st->acc);
    else
        KVR_LAUNCH(attend_piece<8>, blocks, THREADS, shared_bytes(8), s, *a, t, q, p->k, p->v,
                   p->row_bias, p->s2, st->mx, st->sum, st->acc);
}

void kvr_attend_columns_cuda(struct kvr_stream *s, const struct kvr_attend_shape *a, const float *q,
                             const struct kvr_attend_piece *p, const struct kvr_attend_state *st,
                             float *out)
{
    const struct terms t = { 1.0f / sqrtf((float)a->head_dim), p->log_m, p->n, p->row_bias != NULL,
                             (int)p->by_scales };

    if (p->n)
        KVR_LAUNCH(attend_columns, kvr_blocks(p->n, KEYS) * (unsigned)a->n_heads, KEYS,
                   columns_bytes(a->head_dim), s, *a, t, q, p->k, p->row_bias, p->s2, st->mx,
                   st->sum, out);
}

void kvr_attend_merge_cuda(struct kvr_stream *s, const struct kvr_attend_shape *a,
                           const struct kvr_attend_state *into, const struct kvr_attend_state *from)
{
    struct kvr_attend_io io = {};

    io.state = *into;
    kvr_attend_merge_end_cuda(s, a, &io, from);
}

void kvr_attend_merge_end_cuda(struct kvr_stream *s, const struct kvr_attend_shape *a,
                               const struct kvr_attend_io *io, const struct kvr_attend_state *from)
{
    if (rows_of(a))
        KVR_LAUNCH(attend_merge, kvr_blocks(rows_of(a), WARPS), THREADS, 0, s, rows_of(a),
                   a->head_dim, *io, from->mx, from->sum, from->acc);
}

void kvr_attend_finish_cuda(struct kvr_stream *s, const struct kvr_attend_shape *a,
                            const struct kvr_attend_state *st, float *out)
{
    struct kvr_attend_io io = {};

    io.state = *st;
    io.out = out;
    kvr_attend_separate_passes_cuda(s, a, &io);
}

void kvr_query_inverses_cuda(struct kvr_stream *s, int64_t n, const float *squares, int parts,
                             int width, double eps, float *inverses)
{
    if (n)
        KVR_LAUNCH(query_inverses, kvr_blocks(n, THREADS), THREADS, 0, s, n, parts, width,
                   (float)eps, squares, inverses);
}

struct kvr_attend_io kvr_attend_norm_cuda(struct kvr_stream *s, const struct kvr_attend_shape *a,
                                          const struct kvr_attend_io *io)
{
    struct kvr_attend_io rest = *io;
    const kvr_bf16 *const nothing = NULL;

    rest.norm = {};
    rest.q16 = io->out16;
    if (rows_of(a) && io->q16 == io->out16)
        KVR_LAUNCH(attend_norm<true>, (unsigned)a->n_query, THREADS, 0, s, *a, io->norm, nothing,
                   io->out16);
    else if (rows_of(a))
        KVR_LAUNCH(attend_norm<false>, (unsigned)a->n_query, THREADS, 0, s, *a, io->norm, io->q16,
                   io->out16);
    return rest;
}

void kvr_attend_separate_passes_cuda(struct kvr_stream *s, const struct kvr_attend_shape *a,
                                     const struct kvr_attend_io *io)
{
    const int64_t n = rows_of(a) * a->head_dim;

    if (io->begins)
        kvr_attend_begin_cuda(s, a, &io->state);
    if (n && kvr_attend_is_last(io))
        KVR_LAUNCH(attend_finish, kvr_blocks(n, THREADS), THREADS, 0, s, n, a->head_dim, *io);
}
