/* kmeans_cuda.cu - k-means on a CUDA device. The CPU reference is kmeans.c, which computes all sums
 * in the same order, so results are bit-identical. */
#include "harness/device/number.cuh"
#include "harness/device/vector.cuh"
#include "methods/codecs/kmeans/kmeans_cuda.h"

enum { THREADS = 128 };
using quad = kvr_vec<float, 4>;

static __device__ __forceinline__ float widened(kvr_bf16 h)
{
    return __uint_as_float((unsigned)h << 16);
}

/* Initializes each centroid of stage `stage` with the residual x of a pseudorandom token. Stage 0
 * clusters the input, and each later stage clusters the residual of the stage before it. */
static __global__ void __launch_bounds__(THREADS)
    kmeans_begin(struct kvr_kmeans m, int stage, kvr_global<const float> x,
                 kvr_global<kvr_bf16> centres)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int c = (int)(i % m.d), k = (int)(i / m.d % m.k), h = (int)(i / m.d / m.k);
    uint32_t word;

    if (h >= m.n_heads)
        return;
    const int64_t t = KVR_KMEANS_TOKEN(&m, stage, h, k, word);

    centres[i] = kvr_bf16_of(x[(t * m.n_heads + h) * m.d + c]);
}

/* A tile in shared memory has CHUNK channels of SIDE tokens, then of SIDE centroids. Element
 * [channel][row] is at channel * STRIDE + row. */
enum { SIDE = 64, CHUNK = 32, STRIDE = 2 * SIDE + 4 };
/* A thread computes the distances of PER_X tokens from PER_V centroids. */
enum { PER_X = 4, PER_V = 8, X_THREADS = SIDE / PER_X, V_THREADS = SIDE / PER_V };
static_assert(X_THREADS * V_THREADS == THREADS && 2 * SIDE == THREADS, "one thread per tile row");

/* Loads channels [c0, c0 + CHUNK) of the tokens from t0 on and of the centroids from k0 on. Rows
 * and channels that do not exist become 0. A warp loads 8 channels of 4 rows, which are 4 sectors,
 * and stores them to 32 banks. */
static __device__ __forceinline__ void load_tile(const struct kvr_kmeans &m, int h, int64_t t0,
                                                 int k0, int c0, kvr_global<const float> x,
                                                 kvr_global<const kvr_bf16> centres,
                                                 kvr_shared<float> tile)
{
    const int in = (int)threadIdx.x % 4 + (int)threadIdx.x / 32 * 4, c8 = (int)threadIdx.x / 4 % 8;

#pragma unroll
    for (int r0 = 0; r0 < SIDE; r0 += THREADS / 8) {
        const int r = r0 + in, k = k0 + r;
        const int64_t t = t0 + r;

#pragma unroll
        for (int i = 0; i < CHUNK; i += 8) {
            const int c = c0 + i + c8;
            const bool there = c < m.d;

            tile[(i + c8) * STRIDE + r] =
                there && t < m.n_tok ? (float)x[(t * m.n_heads + h) * m.d + c] : 0.0f;
            tile[(i + c8) * STRIDE + SIDE + r] =
                there && k < m.k ? widened(centres[((int64_t)h * m.k + k) * m.d + c]) : 0.0f;
        }
    }
}

/* Adds, for each of the thread's pairs of token and centroid, the products of n channels of the
 * tile. Also adds to `square` the squares of tile row threadIdx.x. */
static __device__ __forceinline__ void add_products(kvr_shared<float> tile, int n,
                                                    float (&dot)[PER_X][PER_V], float &square)
{
    const int x0 = (int)threadIdx.x % X_THREADS * PER_X;
    const int v0 = SIDE + (int)threadIdx.x / X_THREADS * PER_V;

#pragma unroll 4
    for (int c = 0; c < n; c++) {
        const quad x = kvr_as<quad>(tile + (c * STRIDE + x0))[0];
        const quad v[2] = { kvr_as<quad>(tile + (c * STRIDE + v0))[0],
                            kvr_as<quad>(tile + (c * STRIDE + v0 + 4))[0] };
        const float own = tile[c * STRIDE + (int)threadIdx.x];

        square += own * own;
#pragma unroll
        for (int i = 0; i < PER_X; i++)
#pragma unroll
            for (int j = 0; j < PER_V; j++)
                dot[i][j] += x.v[i] * v[j / 4].v[j % 4];
    }
}

/* Returns the nearest of the centroids that V_THREADS threads found for token `t` of the tile. Row
 * i of the tile has the distances that thread i found, and then the centroids' indices. */
static __device__ __forceinline__ int nearest_of(kvr_shared<float> tile, int t)
{
    float least = tile[t];
    int nearest = (int)(float)tile[SIDE + t];

    for (int i = 1; i < V_THREADS; i++) {
        const float far = tile[i * STRIDE + t];
        const int k = (int)(float)tile[i * STRIDE + SIDE + t];

        if (far < least || (far == least && k < nearest)) {
            least = far;
            nearest = k;
        }
    }
    return nearest;
}

/* Assigns every token to its nearest centroid. A CTA assigns one head of SIDE tokens, and compares
 * the tokens with SIDE centroids at a time. Each sum over channels is in one thread, in the CPU's
 * order. */
static __global__ void __launch_bounds__(THREADS)
    kmeans_label(struct kvr_kmeans m, kvr_global<const float> x, kvr_global<const kvr_bf16> centres,
                 kvr_global<uint8_t> labels)
{
    KVR_SHARED(quad, quads, CHUNK * STRIDE / 4);
    KVR_SHARED(float, squares, THREADS);
    const kvr_shared<float> tile = kvr_as<float>(quads + 0);
    const int h = (int)(blockIdx.x % (unsigned)m.n_heads), me = (int)threadIdx.x;
    const int64_t t0 = (int64_t)(blockIdx.x / (unsigned)m.n_heads) * SIDE;
    const int x0 = me % X_THREADS * PER_X, v0 = me / X_THREADS * PER_V;
    float best[PER_X];
    int at[PER_X] = {};

#pragma unroll
    for (int i = 0; i < PER_X; i++)
        best[i] = INFINITY;
    for (int k0 = 0; k0 < m.k; k0 += SIDE) {
        float dot[PER_X][PER_V] = {}, square = 0;

        for (int c0 = 0; c0 < m.d; c0 += CHUNK) {
            load_tile(m, h, t0, k0, c0, x, centres, tile);
            __syncthreads();
            add_products(tile, m.d - c0 < CHUNK ? m.d - c0 : CHUNK, dot, square);
            __syncthreads();
        }
        squares[me] = square;
        __syncthreads();
#pragma unroll
        for (int j = 0; j < PER_V; j++) {
            const int k = k0 + v0 + j;

#pragma unroll
            for (int i = 0; i < PER_X; i++) {
                float far = (float)squares[x0 + i] + (float)squares[SIDE + v0 + j] - 2 * dot[i][j];

                /* If the first distance is NaN, the CPU selects the first centroid. */
                far = far < 0 ? 0 : k == 0 && far != far ? -1 : far;
                if (k < m.k && far < best[i]) {
                    best[i] = far;
                    at[i] = k;
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < PER_X; i++) {
        tile[me / X_THREADS * STRIDE + x0 + i] = best[i];
        tile[me / X_THREADS * STRIDE + SIDE + x0 + i] = (float)at[i];
    }
    __syncthreads();
    if (me < SIDE && t0 + me < m.n_tok)
        labels[(t0 + me) * m.n_heads + h] = (uint8_t)nearest_of(tile, me);
}

/* Sets every centroid to the mean of its tokens. A CTA computes THREADS channels of one centroid,
 * one channel per thread. For each SPAN tokens, the CTA compares the labels and keeps the result as
 * one bit per token, then adds the tokens whose bit is 1, in token order. */
static __global__ void __launch_bounds__(THREADS)
    kmeans_means(struct kvr_kmeans m, unsigned strips, kvr_global<const float> x,
                 kvr_global<const uint8_t> labels, kvr_global<kvr_bf16> centres)
{
    enum { SPAN = 1024, WORDS = SPAN / 32 };
    KVR_SHARED(unsigned, mine, WORDS);
    const int c = (int)(blockIdx.x % strips * THREADS + threadIdx.x);
    const int64_t row = blockIdx.x / strips;
    const int k = (int)(row % m.k), h = (int)(row / m.k);
    double sum = 0;
    int64_t n = 0;

    for (int64_t t0 = 0; t0 < m.n_tok; t0 += SPAN) {
#pragma unroll
        for (int i = 0; i < SPAN / THREADS; i++) {
            const int64_t t = t0 + i * THREADS + threadIdx.x;
            const int label = t < m.n_tok ? (int)labels[t * m.n_heads + h] : -1;
            const unsigned bits = __ballot_sync(~0u, label == k);

            if (threadIdx.x % 32 == 0)
                mine[i * (THREADS / 32) + threadIdx.x / 32] = bits;
        }
        __syncthreads();
        for (int w = 0; w < WORDS; w++)
            for (unsigned left = mine[w]; left; left &= left - 1) {
                const int64_t t = t0 + 32 * w + __ffs((int)left) - 1;

                if (c < m.d)
                    sum += (double)(float)x[(t * m.n_heads + h) * m.d + c];
                n++;
            }
        __syncthreads();
    }
    if (n && c < m.d)
        centres[row * m.d + c] = kvr_bf16_of((float)(sum / (double)n));
}

static __global__ void __launch_bounds__(THREADS)
    kmeans_take(struct kvr_kmeans m, kvr_global<const uint8_t> labels,
                kvr_global<const kvr_bf16> centres, kvr_global<float> x)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, row = i / m.d;
    const int h = (int)(row % m.n_heads), c = (int)(i % m.d);

    if (row >= m.n_tok * m.n_heads)
        return;
    const float left =
        (float)x[i] - widened(centres[((int64_t)h * m.k + (int)labels[row]) * m.d + c]);

    x[i] = m.bf16 ? kvr_round_bf16(left) : left;
}

static __global__ void __launch_bounds__(THREADS)
    kmeans_decode(struct kvr_kmeans m, kvr_global<const uint8_t> labels,
                  kvr_global<const kvr_bf16> centres, int64_t t0, int64_t n, int h0, int nh,
                  kvr_global<float> out)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, row = i / m.d;
    const int64_t t = t0 + row / nh;
    const int h = h0 + (int)(row % nh), c = (int)(i % m.d);

    if (row >= n * nh)
        return;
    float v = out[i];

    for (int s = 0; s < m.stages; s++) {
        const int label = (int)labels[((int64_t)s * m.n_tok + t) * m.n_heads + h];

        v += widened(centres[(((int64_t)s * m.n_heads + h) * m.k + label) * m.d + c]);
    }
    out[i] = v;
}

void kvr_kmeans_encode_cuda(struct kvr_stream *s, const struct kvr_kmeans *m, float *x,
                            uint8_t *labels, kvr_bf16 *centres)
{
    const int64_t rows = m->n_tok * m->n_heads, channels = (int64_t)m->n_heads * m->k * m->d;
    const unsigned all = kvr_blocks(rows * m->d, THREADS), some = kvr_blocks(channels, THREADS);
    const unsigned strips = kvr_blocks(m->d, THREADS);

    for (int stage = 0; stage < m->stages; stage++) {
        KVR_LAUNCH(kmeans_begin, some, THREADS, 0, s, *m, stage, (const float *)x, centres);
        for (int i = 0; i < m->iterations; i++) {
            KVR_LAUNCH(kmeans_label, kvr_blocks(m->n_tok, SIDE) * (unsigned)m->n_heads, THREADS, 0,
                       s, *m, (const float *)x, (const kvr_bf16 *)centres, labels);
            KVR_LAUNCH(kmeans_means, (unsigned)(m->n_heads * m->k) * strips, THREADS, 0, s, *m,
                       strips, (const float *)x, (const uint8_t *)labels, centres);
        }
        KVR_LAUNCH(kmeans_take, all, THREADS, 0, s, *m, (const uint8_t *)labels,
                   (const kvr_bf16 *)centres, x);
        labels += rows;
        centres += channels;
    }
}

void kvr_kmeans_decode_cuda(struct kvr_stream *s, const struct kvr_kmeans *m, const uint8_t *labels,
                            const kvr_bf16 *centres, int64_t t0, int64_t n, int h0, int nh,
                            float *out)
{
    if (n && nh)
        KVR_LAUNCH(kmeans_decode, kvr_blocks(n * nh * m->d, THREADS), THREADS, 0, s, *m, labels,
                   centres, t0, n, h0, nh, out);
}
