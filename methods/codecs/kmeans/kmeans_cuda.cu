/* kmeans_cuda.cu - k-means on a CUDA device. The CPU reference is kmeans.c, which computes all sums
 * in the same order, so results are bit-identical. */
#include "harness/device/number.cuh"
#include "methods/codecs/kmeans/kmeans_cuda.h"

enum { THREADS = 128 };

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

/* Assigns every token to its nearest centroid. Each thread assigns one head of one token. */
static __global__ void __launch_bounds__(THREADS)
    kmeans_label(struct kvr_kmeans m, kvr_global<const float> x, kvr_global<const kvr_bf16> centres,
                 kvr_global<uint8_t> labels)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int h = (int)(i % m.n_heads);
    float norm = 0, best = 0;
    int at = 0;

    if (i >= m.n_tok * m.n_heads)
        return;
    for (int c = 0; c < m.d; c++)
        norm += x[i * m.d + c] * x[i * m.d + c];
    for (int k = 0; k < m.k; k++) {
        float dot = 0, size = 0;

        for (int c = 0; c < m.d; c++) {
            const float v = widened(centres[((int64_t)h * m.k + k) * m.d + c]);

            dot += x[i * m.d + c] * v;
            size += v * v;
        }
        float far = norm + size - 2 * dot;

        far = far < 0 ? 0 : far;
        if (k == 0 || far < best) {
            best = far;
            at = k;
        }
    }
    labels[i] = (uint8_t)at;
}

/* Sets every centroid to the mean of its tokens. Each thread computes one channel of one
 * centroid. */
static __global__ void __launch_bounds__(THREADS)
    kmeans_means(struct kvr_kmeans m, kvr_global<const float> x, kvr_global<const uint8_t> labels,
                 kvr_global<kvr_bf16> centres)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int c = (int)(i % m.d), k = (int)(i / m.d % m.k), h = (int)(i / m.d / m.k);
    double sum = 0;
    int64_t n = 0;

    if (h >= m.n_heads)
        return;
    for (int64_t t = 0; t < m.n_tok; t++)
        if (labels[t * m.n_heads + h] == k) {
            sum += (double)x[(t * m.n_heads + h) * m.d + c];
            n++;
        }
    if (n)
        centres[i] = kvr_bf16_of((float)(sum / (double)n));
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

    for (int stage = 0; stage < m->stages; stage++) {
        KVR_LAUNCH(kmeans_begin, some, THREADS, 0, s, *m, stage, (const float *)x, centres);
        for (int i = 0; i < m->iterations; i++) {
            KVR_LAUNCH(kmeans_label, kvr_blocks(rows, THREADS), THREADS, 0, s, *m, (const float *)x,
                       (const kvr_bf16 *)centres, labels);
            KVR_LAUNCH(kmeans_means, some, THREADS, 0, s, *m, (const float *)x,
                       (const uint8_t *)labels, centres);
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
