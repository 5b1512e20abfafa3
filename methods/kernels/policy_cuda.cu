/* policy_cuda.cu - statistics and rankings for tiers and retention policies on a CUDA device
 * (policy_cuda.h). */
#include "methods/kernels/policy_cuda.h"

#include "harness/device/kernel.cuh"

enum {
    THREADS = 256,
    LANES = 8,
    ROWS = THREADS / LANES,
    WARPS = THREADS / 32,
    POOL = 64,
    SUMMARY_THREADS = 512,
    SUMMARY_ROWS = SUMMARY_THREADS / LANES
};

/* Returns one of the 8 partial sums of |x| that abs_sum.h defines: the sum over every eighth
 * element from index threadIdx.x % 8 on. Every addition depends on the previous addition, so a
 * thread issues AHEAD loads before AHEAD additions to hide the latency of the loads. */
static __device__ __forceinline__ double lane_sum(kvr_global<const float> x, int64_t at, int64_t n)
{
    enum { AHEAD = 16 };
    int64_t i = threadIdx.x % LANES;
    double sum = 0;

    for (; i + (AHEAD - 1) * LANES < n; i += AHEAD * LANES) {
        float v[AHEAD];

#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            v[j] = x[at + i + j * LANES];
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            sum += fabsf(v[j]);
    }
    for (; i < n; i += LANES)
        sum += fabsf(x[at + i]);
    return sum;
}

/* Adds the partial sums lanes[8 * row] to lanes[8 * row + 7], in this order, and returns the
 * result. */
static __device__ __forceinline__ double lanes_of(kvr_shared<double> lanes, int row)
{
    double sum = 0;

    for (int l = 0; l < LANES; l++)
        sum += lanes[row * LANES + l];
    return sum;
}

/* Returns the mean |x| of tokens [t0, t1) of head h. Only the result of thread 0 is valid. */
static __device__ double mean_abs(const struct kvr_frames_of f, kvr_global<const float> x,
                                  int64_t t0, int64_t t1, int h, kvr_shared<double> lanes,
                                  kvr_shared<double> rows)
{
    const int row = (int)threadIdx.x / LANES;
    double sum = 0;

    for (int64_t t = t0; t < t1; t += SUMMARY_ROWS) {
        const int n = t1 - t < SUMMARY_ROWS ? (int)(t1 - t) : SUMMARY_ROWS;

        if (row < n)
            lanes[threadIdx.x] = lane_sum(x, ((t + row) * f.n_heads + h) * f.head_dim, f.head_dim);
        __syncthreads();
        if ((int)threadIdx.x < n)
            rows[threadIdx.x] = lanes_of(lanes, (int)threadIdx.x);
        __syncthreads();
        for (int i = 0; i < n && threadIdx.x == 0; i++)
            sum += rows[i];
    }
    return sum / ((double)(t1 - t0) * f.head_dim);
}

/* Computes mean |k| plus mean |v| of every frame and head. Each CTA summarizes one head of one
 * frame. */
static __global__ void __launch_bounds__(SUMMARY_THREADS)
    frame_summary(struct kvr_frames_of f, kvr_global<const float> k, kvr_global<const float> v,
                  kvr_global<float> summary)
{
    KVR_SHARED(double, lanes, SUMMARY_THREADS);
    KVR_SHARED(double, rows, SUMMARY_ROWS);
    const int64_t frame = blockIdx.x / (unsigned)f.n_heads;
    const int h = (int)(blockIdx.x % (unsigned)f.n_heads);
    const int64_t begin = frame * f.tokens_per_frame - f.skip, end = begin + f.tokens_per_frame;
    const int64_t t0 = begin > 0 ? begin : 0, t1 = end < f.n_tok ? end : f.n_tok;
    const float mk = (float)mean_abs(f, k, t0, t1, h, lanes, rows);
    const float mv = (float)mean_abs(f, v, t0, t1, h, lanes, rows);

    if (threadIdx.x == 0)
        summary[frame * f.n_heads + h] = mk + mv;
}

/* For every token position of a frame, computes the variance over frames of mean |v|, the mean
 * magnitude of the value channels of the token at this position. Each position has LANES threads,
 * and the first of these threads accumulates the variance by Welford's algorithm. */
static __global__ void __launch_bounds__(THREADS)
    position_variance(kvr_global<const float> v, int64_t n_frames, int64_t positions,
                      int64_t channels, kvr_global<struct kvr_ranked> rank)
{
    KVR_SHARED(double, lanes, THREADS);
    const int row = (int)threadIdx.x / LANES;
    const int64_t p = (int64_t)blockIdx.x * ROWS + row;
    double mean = 0, m2 = 0;

    for (int64_t f = 0; f < n_frames; f++) {
        if (p < positions)
            lanes[threadIdx.x] = lane_sum(v, (f * positions + p) * channels, channels);
        __syncthreads();
        if (p < positions && threadIdx.x % LANES == 0) {
            const double a = (float)(lanes_of(lanes, row) / (double)channels), d = a - mean;

            mean += d / (double)(f + 1);
            m2 += d * (a - mean);
        }
        __syncthreads();
    }
    if (p < positions && threadIdx.x % LANES == 0) {
        const struct kvr_ranked r = { (float)(m2 / (double)n_frames), (int32_t)p };

        rank[p] = r;
    }
}

/* Returns whether item `a` precedes item `b` in the order of topk.h. Items whose score is NaN come
 * first, then items with higher scores precede items with lower scores. Of two items with equal
 * scores, the item with the lower index precedes. */
static __device__ __forceinline__ bool better(const struct kvr_ranked a, const struct kvr_ranked b)
{
    const bool nan_a = a.score != a.score, nan_b = b.score != b.score;

    if (nan_a != nan_b)
        return nan_a;
    if (!nan_a && a.score != b.score)
        return a.score > b.score;
    return a.index < b.index;
}

/* Stores every item at its rank, which is the number of items that precede the item. The order is
 * total, so no two items have the same rank. */
static __global__ void __launch_bounds__(THREADS)
    topk_place(kvr_global<const struct kvr_ranked> item, int64_t n,
               kvr_global<struct kvr_ranked> sorted)
{
    KVR_SHARED(struct kvr_ranked, tile, THREADS);
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    struct kvr_ranked mine = { 0, 0 };
    int64_t rank = 0;

    if (i < n)
        mine = item[i];
    for (int64_t first = 0; first < n; first += THREADS) {
        const int m = n - first < THREADS ? (int)(n - first) : THREADS;

        if ((int)threadIdx.x < m)
            tile[threadIdx.x] = item[first + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < m; j++)
            rank += better(tile[j], mine);
        __syncthreads();
    }
    if (i < n)
        sorted[rank] = mine;
}

/* Computes the mean of each channel over n tokens. A CTA processes 32 channels. All warps load the
 * next POOL tokens, while warp 0, with one channel per lane, adds the previous POOL tokens in token
 * order. */
static __global__ void __launch_bounds__(THREADS)
    pool_mean(kvr_global<const float> x, int64_t n, int64_t width, kvr_global<float> mean)
{
    KVR_SHARED(float, tile, POOL * 32);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int64_t c = (int64_t)blockIdx.x * 32 + lane;
    float mine[POOL / WARPS];
    double sum = 0;

    for (int64_t next = 0; next < n + POOL; next += POOL) {
        const int64_t before = next - POOL, left = n - before;

#pragma unroll
        for (int i = 0; i < POOL / WARPS; i++) {
            const int64_t t = next + i * WARPS + warp;

            mine[i] = t < n && c < width ? (float)x[t * width + c] : 0.0f;
        }
        for (int i = 0; i < POOL && i < left && before >= 0 && warp == 0; i++)
            sum += tile[i * 32 + lane];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < POOL / WARPS; i++)
            tile[(i * WARPS + warp) * 32 + lane] = mine[i];
        __syncthreads();
    }
    if (warp == 0 && c < width)
        mean[c] = (float)(sum / (double)n);
}

void kvr_frame_summary_cuda(struct kvr_stream *s, const struct kvr_frames_of *f, const float *k,
                            const float *v, float *summary)
{
    const int64_t frames = (f->n_tok + f->skip + f->tokens_per_frame - 1) / f->tokens_per_frame;

    if (f->n_tok)
        KVR_LAUNCH(frame_summary, (unsigned)(frames * f->n_heads), SUMMARY_THREADS, 0, s, *f, k, v,
                   summary);
}

void kvr_position_variance_cuda(struct kvr_stream *s, const float *v, int64_t n_frames,
                                int64_t positions, int64_t channels, struct kvr_ranked *rank)
{
    if (positions)
        KVR_LAUNCH(position_variance, kvr_blocks(positions, ROWS), THREADS, 0, s, v, n_frames,
                   positions, channels, rank);
}

void kvr_topk_cuda(struct kvr_stream *s, const struct kvr_ranked *item, int64_t n,
                   struct kvr_ranked *sorted)
{
    if (n)
        KVR_LAUNCH(topk_place, kvr_blocks(n, THREADS), THREADS, 0, s, item, n, sorted);
}

void kvr_pool_cuda(struct kvr_stream *s, const float *x, int64_t n, int64_t width, float *mean)
{
    if (n && width)
        KVR_LAUNCH(pool_mean, kvr_blocks(width, 32), THREADS, 0, s, x, n, width, mean);
}
