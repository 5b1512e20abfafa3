/* linear_cuda.cu - tiled GEMM kernels: an F32 kernel with FMAs, and a BF16 kernel with tensor
 * cores, which loads tiles through a 3-stage cp.async pipeline. */
#include "harness/engine/linear_cuda.h"

#include "harness/device/mma.cuh"
#include "harness/engine/gelu.cuh"
#include "harness/engine/product.cuh"

enum { TILE = 64 }; /* a CTA computes a tile of TILE x TILE elements of Y */

/* ---- F32 GEMM -------------------------------------------------------------------------------- */

enum { DEPTH = KVR_PRODUCT_DEPTH, QUADS = TILE / 4 };
/* Lines of quads (four floats) in shared memory have one quad of padding. A 16-byte store of a warp
 * is executed for 8 lanes at a time. With the padding, the quads of the 8 lanes are in different
 * banks. */
enum { LINE = QUADS + 1 };
enum { F32_THREADS = 64, QUADS_AT_ONCE = F32_THREADS / DEPTH };
static_assert(QUADS % QUADS_AT_ONCE == 0, "every thread fetches the same number of quads");

/* Loads four elements, in column k of rows [row, row + 4), of the matrix x [rows,width]. Elements
 * out of bounds are 0. */
static __device__ __forceinline__ struct kvr_quad gather(kvr_global<const float> x, int rows,
                                                         int width, int row, int k)
{
    struct kvr_quad q;

#pragma unroll
    for (int i = 0; i < 4; i++)
        q.v[i] = row + i < rows && k < width ? (float)x[(row + i) * width + k] : 0.0f;
    return q;
}

static __global__ void __launch_bounds__(F32_THREADS)
    linear_f32(int64_t m, int n, int k, kvr_global<const float> x, kvr_global<const float> w,
               bool biased, kvr_global<const float> bias, kvr_global<float> y)
{
    KVR_SHARED(struct kvr_quad, rows, DEPTH * LINE);
    KVR_SHARED(struct kvr_quad, columns, DEPTH * LINE);
    const int across = (n + TILE - 1) / TILE, tx = (int)threadIdx.x % 8, ty = (int)threadIdx.x / 8;
    const int64_t m0 = (int64_t)(blockIdx.x / (unsigned)across) * TILE;
    const int n0 = (int)(blockIdx.x % (unsigned)across) * TILE;
    const int rows_left = m - m0 < TILE ? (int)(m - m0) : TILE;
    const int columns_left = n - n0 < TILE ? n - n0 : TILE;
    float sum[8][8];

    x = x + m0 * k;
    w = w + (int64_t)n0 * k;
    kvr_product_begin(sum);
    for (int k0 = 0; k0 < k; k0 += DEPTH) {
        const int c = (int)threadIdx.x % DEPTH;

        __syncthreads(); /* waits until all threads have read the tiles, which change below */
#pragma unroll
        for (int iter = 0; iter < QUADS / QUADS_AT_ONCE; iter++) {
            const int q = (int)threadIdx.x / DEPTH + iter * QUADS_AT_ONCE;

            rows[c * LINE + q] = gather(x, rows_left, k, 4 * q, k0 + c);
            columns[c * LINE + q] = gather(w, columns_left, k, 4 * q, k0 + c);
        }
        __syncthreads();
        kvr_product_add<LINE, 8, LINE, 8>(sum, rows, ty, columns, tx);
    }
#pragma unroll
    for (int r = 0; r < 8; r++) {
        const int row = 4 * ty + r / 4 * 32 + r % 4;

#pragma unroll
        for (int j = 0; j < 8; j++) {
            const int at = 4 * tx + j / 4 * 32 + j % 4, column = n0 + at;

            if (row < rows_left && at < columns_left)
                y[(m0 + row) * n + column] = sum[r][j] + (biased ? (float)bias[column] : 0.0f);
        }
    }
}

/* ---- BF16 GEMM ------------------------------------------------------------------------------- */

/* Tile rows of 32 BF16 elements have 8 elements of padding, so that ldmatrix is free of bank
 * conflicts. */
enum { STRIDE = KVR_LINEAR_CUDA_DEPTH + 8, STAGES = 3, BF16_THREADS = 128, CHUNK = 8 };

static __device__ __forceinline__ float value(float v)
{
    return v;
}
static __device__ __forceinline__ float value(kvr_bf16 v)
{
    return __uint_as_float((unsigned)v << 16);
}

/* Copies the F32 or BF16 matrix x to BF16 rows of `padded` columns. The padding columns become
 * zero. */
template <class T>
static __global__ void __launch_bounds__(256)
    linear_round(int64_t n, int k, int padded, kvr_global<const T> x, kvr_global<kvr_bf16> out)
{
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;

    if (i < n) {
        const int c = (int)(i % padded);
        const float v = c < k ? value((T)x[i / padded * k + c]) : 0.0f;

        out[i] = kvr_bf16_of(v);
    }
}

/* Issues cp.async copies of columns [k0, k0 + 32) of TILE rows of x, from row `first` on, to the
 * shared-memory tile `to`. Tile rows past the last row of x become zero. */
static __device__ __forceinline__ void fetch(kvr_shared<kvr_bf16> to, kvr_global<const kvr_bf16> x,
                                             int64_t rows, int width, int64_t first, int k0)
{
    enum { PIECES = KVR_LINEAR_CUDA_DEPTH / CHUNK };
    static_assert(TILE * PIECES % BF16_THREADS == 0,
                  "every thread fetches the same number of pieces");

#pragma unroll
    for (int iter = 0; iter < TILE * PIECES / BF16_THREADS; iter++) {
        const int i = (int)threadIdx.x + iter * BF16_THREADS;
        const int r = i / PIECES, c = i % PIECES * CHUNK;
        const bool there = first + r < rows;

        kvr_cp_async(kvr_as<uint4>(to + (r * STRIDE + c)),
                     kvr_as<const uint4>(x + ((there ? first + r : 0) * width + k0 + c)), there);
    }
}

/* Epilogues of the result x W^T + bias. FLOATS stores the result as F32, GELU stores the result's
 * GELU as BF16, and ROUNDED stores the result as BF16. ADDED multiplies the result by a gate vector
 * (struct gating), if there is one, and adds it to the BF16 matrix y. */
enum end { FLOATS, GELU, ROUNDED, ADDED };
template <enum end> struct ended {
    typedef kvr_bf16 type;
};
template <> struct ended<FLOATS> {
    typedef float type;
};
template <enum end> static __device__ __forceinline__ float end_of(float v)
{
    return v;
}
template <> __device__ __forceinline__ float end_of<GELU>(float v)
{
    return kvr_gelu_of(v);
}
static __device__ __forceinline__ void put(kvr_global<float> y, int64_t at, float v)
{
    y[at] = v;
}
static __device__ __forceinline__ void put(kvr_global<kvr_bf16> y, int64_t at, float v)
{
    y[at] = kvr_bf16_of(v);
}

/* Layout of the gates (kvr_linear_gate), with which added() multiplies a linear layer's result
 * before the residual addition. Each frame has one gate vector, with a float per output channel.
 * The vectors of successive frames start `stride` floats apart. */
struct gating {
    bool gated;
    int tokens_per_frame;
    int64_t stride;
};
/* Returns the index in the gate array at which the gate vector for row `row` of Y starts, or 0
 * without gates. */
static __device__ __forceinline__ int64_t gate_of(struct gating how, int64_t row)
{
    return how.gated ? row / how.tokens_per_frame * how.stride : 0;
}
static __device__ __forceinline__ float added(struct gating how, kvr_global<const float> gate,
                                              int64_t at, float v, float sum)
{
    v = kvr_round_bf16(v);
    return how.gated ? fmaf(v, gate[at], sum) : sum + v;
}

/* Adds the product of one pipeline stage's A tile (rows of x) and B tile (rows of w) to a warp's
 * 32 x 32 accumulators. The accumulators begin at row wm and column wn of the tile of Y, so the
 * warp's operands begin at row wm of the A tile and at row wn of the B tile. */
static __device__ __forceinline__ void multiply_stage(kvr_shared<kvr_bf16> a_tile,
                                                      kvr_shared<kvr_bf16> b_tile, int lane, int wm,
                                                      int wn, float (&sum)[2][4][4])
{
#pragma unroll
    for (int c = 0; c < KVR_LINEAR_CUDA_DEPTH; c += 16) {
        unsigned a[2][4], b[2][4];

#pragma unroll
        for (int i = 0; i < 2; i++) {
            kvr_ldmatrix(a[i], a_tile + ((wm + 16 * i + lane % 16) * STRIDE + c + lane / 16 * 8));
            kvr_ldmatrix(b[i], b_tile + ((wn + 16 * i + lane / 16 * 8 + lane % 8) * STRIDE + c +
                                         lane / 8 % 2 * 8));
        }
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                kvr_mma(sum[i][j], a[i], b[j / 2] + j % 2 * 2);
    }
}

/* BF16 GEMM with the epilogue E. A row of y has `columns` elements. The epilogue GELU sets columns
 * [n, columns) of y to zero. */
template <enum end E>
static __global__ void __launch_bounds__(BF16_THREADS)
    linear_bf16(int64_t m, int n, int k, kvr_global<const kvr_bf16> x, kvr_global<const kvr_bf16> w,
                bool biased, kvr_global<const float> bias, struct gating how,
                kvr_global<const float> gate, int columns, kvr_global<typename ended<E>::type> y)
{
    enum { PART = TILE * STRIDE };
    KVR_SHARED(uint4, shared, STAGES * 2 * PART / CHUNK);
    const kvr_shared<kvr_bf16> tiles = kvr_as<kvr_bf16>(shared);
    const int across = (n + TILE - 1) / TILE, lane = (int)threadIdx.x % 32;
    const int warp = (int)threadIdx.x / 32, wm = warp / 2 * 32, wn = warp % 2 * 32;
    const int64_t m0 = (int64_t)(blockIdx.x / (unsigned)across) * TILE;
    const int n0 = (int)(blockIdx.x % (unsigned)across) * TILE;
    const int steps = k / KVR_LINEAR_CUDA_DEPTH;
    float sum[2][4][4];

#pragma unroll
    for (int i = 0; i < 32; i++)
        sum[i / 16][i / 4 % 4][i % 4] = 0;
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < steps) {
            fetch(tiles + 2 * s * PART, x, m, k, m0, s * KVR_LINEAR_CUDA_DEPTH);
            fetch(tiles + (2 * s + 1) * PART, w, n, k, n0, s * KVR_LINEAR_CUDA_DEPTH);
        }
        kvr_cp_async_commit();
    }
    for (int s = 0; s < steps; s++) {
        const kvr_shared<kvr_bf16> a_tile = tiles + s % STAGES * 2 * PART, b_tile = a_tile + PART;
        const int next = s + STAGES - 1, at = next % STAGES * 2 * PART;

        kvr_cp_async_wait<STAGES - 2>();
        /* waits until all threads' copies of step s have arrived, and all threads have read the
         * tiles of step s - 1, which the copies below overwrite */
        __syncthreads();
        if (next < steps) {
            fetch(tiles + at, x, m, k, m0, next * KVR_LINEAR_CUDA_DEPTH);
            fetch(tiles + (at + PART), w, n, k, n0, next * KVR_LINEAR_CUDA_DEPTH);
        }
        kvr_cp_async_commit();
        multiply_stage(a_tile, b_tile, lane, wm, wn, sum);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) { /* this thread's rows */
        const int64_t row = m0 + wm + 8 * i + lane / 4;
        const int64_t gates = E == ADDED ? gate_of(how, row) : 0;

#pragma unroll
        for (int j = 0; j < 8; j++) {
            const int column = n0 + wn + j / 2 * 8 + lane % 4 * 2 + j % 2;

            if (row < m && column < n) {
                const int64_t at = row * columns + column;
                const float v = sum[i / 2][j / 2][i % 2 * 2 + j % 2];
                float ended = end_of<E>(v + (biased ? (float)bias[column] : 0.0f));

                if constexpr (E == ADDED)
                    ended = added(how, gate, gates + column, ended, value((kvr_bf16)y[at]));
                put(y, at, ended);
            } else if (E == GELU && row < m && column < columns)
                put(y, row * columns + column, 0);
        }
    }
}

/* ---- launchers --------------------------------------------------------------------------------
 */

static unsigned blocks_of(int64_t m, int n)
{
    return (unsigned)((m + TILE - 1) / TILE * ((n + TILE - 1) / TILE));
}

void kvr_linear_f32_cuda(struct kvr_stream *s, int64_t m, int n, int k, const float *x,
                         const float *w, const float *bias, float *y)
{
    const bool biased = bias != NULL;

    if (blocks_of(m, n))
        KVR_LAUNCH(linear_f32, blocks_of(m, n), F32_THREADS, 0, s, m, n, k, x, w, biased, bias, y);
}

template <enum end E>
static void product(struct kvr_stream *s, int64_t m, int n, int padded, const kvr_bf16 *x,
                    const kvr_bf16 *w, const float *bias, const struct kvr_linear_gate *gate,
                    int columns, typename ended<E>::type *y)
{
    const bool biased = bias != NULL;
    const float *gates = gate ? gate->gate : NULL;
    const struct gating how = { gates != NULL, gate ? gate->tokens_per_frame : 1,
                                gate ? gate->stride : 0 };

    if (blocks_of(m, n))
        KVR_LAUNCH(linear_bf16<E>, blocks_of(m, n), BF16_THREADS, 0, s, m, n, padded, x, w, biased,
                   bias, how, gates, columns, y);
}

void kvr_linear_bf16_cuda(struct kvr_stream *s, int64_t m, int n, int padded, const kvr_bf16 *x,
                          const kvr_bf16 *w, const float *bias, float *y)
{
    product<FLOATS>(s, m, n, padded, x, w, bias, NULL, n, y);
}

void kvr_linear_gelu_cuda(struct kvr_stream *s, int64_t m, int n, int padded, const kvr_bf16 *x,
                          const kvr_bf16 *w, const float *bias, kvr_bf16 *y)
{
    product<GELU>(s, m, n, padded, x, w, bias, NULL, kvr_linear_padded(n), y);
}

void kvr_linear_rounded_cuda(struct kvr_stream *s, int64_t m, int n, int padded, const kvr_bf16 *x,
                             const kvr_bf16 *w, const float *bias, kvr_bf16 *y)
{
    product<ROUNDED>(s, m, n, padded, x, w, bias, NULL, n, y);
}

void kvr_linear_added_cuda(struct kvr_stream *s, int64_t m, int n, int padded, const kvr_bf16 *x,
                           const kvr_bf16 *w, const float *bias, const struct kvr_linear_gate *gate,
                           kvr_bf16 *sum)
{
    product<ADDED>(s, m, n, padded, x, w, bias, gate, n, sum);
}

template <class T>
static void rows_rounded(struct kvr_stream *s, int64_t m, int k, int padded, const T *x,
                         kvr_bf16 *out)
{
    const int64_t n = m * padded;

    if (n)
        KVR_LAUNCH(linear_round<T>, kvr_blocks(n, 256), 256, 0, s, n, k, padded, x, out);
}

void kvr_linear_round_cuda(struct kvr_stream *s, int64_t m, int k, int padded, const float *x,
                           kvr_bf16 *out)
{
    rows_rounded(s, m, k, padded, x, out);
}

void kvr_linear_pad_cuda(struct kvr_stream *s, int64_t m, int k, int padded, const kvr_bf16 *x,
                         kvr_bf16 *out)
{
    rows_rounded(s, m, k, padded, x, out);
}
