/* umt5_cuda.cu - see umt5_cuda.h. In the attention kernel, a warp computes the output for one query
 * of one head. The eight warps of a CTA share the tiles of K and V in shared memory. */
#include "harness/engine/text/umt5_cuda.h"

#include "harness/device/kernel.cuh"

enum { WARPS = 8, THREADS = 32 * WARPS, KEYS = 32 };

/* Returns the bytes of shared memory that a CTA of relative_attend<j> needs for one query per warp
 * and one tile of keys or values. */
static size_t shared_bytes(int j)
{
    return (size_t)(WARPS * 32 * j + KEYS * (32 * j + 1)) * sizeof(float);
}

/* Loads the vectors of tokens [t0, t0 + KEYS) of x, which is K or V, for one head into a
 * shared-memory tile of KEYS rows by W channels. The row stride of W + 1 floats avoids bank
 * conflicts when each lane reads its own row. The tile's rows past the last token and its channels
 * past the head dimension become zero. */
template <int W>
static __device__ __forceinline__ void fetch(const struct kvr_umt5_heads &a,
                                             kvr_global<const float> x, int head, int t0,
                                             kvr_shared<float> tile)
{
    for (int i = (int)threadIdx.x; i < KEYS * W; i += THREADS) {
        const int j = t0 + i / W, c = i % W;

        tile[i / W * (W + 1) + c] =
            j < a.n && c < a.head_dim ? x[((int64_t)j * a.n_heads + head) * a.head_dim + c] : 0.0f;
    }
}

/* The kernel relative_attend<J> supports head dimensions up to 32 J. A warp past the last query
 * computes the last query again and stores no result. */
template <int J>
static __global__ void __launch_bounds__(THREADS, 3)
    relative_attend(struct kvr_umt5_heads a, kvr_global<const float> q, kvr_global<const float> k,
                    kvr_global<const float> v, kvr_global<const float> bias, kvr_global<float> to)
{
    KVR_SHARED_DYNAMIC(float, shared);
    enum { W = 32 * J };
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int head = (int)(blockIdx.x % (unsigned)a.n_heads);
    const int own = (int)(blockIdx.x / (unsigned)a.n_heads) * WARPS + warp;
    const int i = own < a.n ? own : a.n - 1;
    const int64_t row = ((int64_t)i * a.n_heads + head) * a.head_dim;
    const int64_t near = (int64_t)head * (2 * a.span - 1) + a.span - 1 - i;
    const kvr_shared<float> query = shared + warp * W, tile = shared + WARPS * W;
    float most = -INFINITY, sum = 0, out[J];

    for (int c = lane; c < a.head_dim; c += 32)
        query[c] = q[row + c];
#pragma unroll
    for (int t = 0; t < J; t++)
        out[t] = 0;
    for (int t0 = 0; t0 < a.n; t0 += KEYS) {
        const int m = a.n - t0 < KEYS ? a.n - t0 : KEYS;
        float s = 0, top, p, all, old;

        __syncthreads(); /* waits until all threads have read the previous tile's values */
        fetch<W>(a, k, head, t0, tile);
        __syncthreads();
        for (int c = 0; c < a.head_dim; c++)
            s = fmaf(query[c], tile[lane * (W + 1) + c], s);
        s = lane < m ? s + bias[near + t0 + lane] : -INFINITY;
        __syncthreads(); /* waits until all threads have read the tile's keys */
        fetch<W>(a, v, head, t0, tile);
        __syncthreads();
        top = s;
        for (int h = 16; h; h /= 2)
            top = fmaxf(top, __shfl_xor_sync(~0u, top, h));
        top = fmaxf(top, most);
        p = all = lane < m ? expf(s - top) : 0.0f;
        for (int h = 16; h; h /= 2)
            all += __shfl_xor_sync(~0u, all, h);
        old = expf(most - top);
        sum = sum * old + all;
        most = top;
#pragma unroll
        for (int t = 0; t < J; t++)
            out[t] *= old;
        for (int j = 0; j < m; j++) {
            const float weight = __shfl_sync(~0u, p, j);

#pragma unroll
            for (int t = 0; t < J; t++)
                out[t] = fmaf(weight, tile[j * (W + 1) + lane + 32 * t], out[t]);
        }
    }
#pragma unroll
    for (int t = 0; t < J; t++)
        if (own < a.n && lane + 32 * t < a.head_dim)
            to[row + lane + 32 * t] = out[t] / sum;
}

static __global__ void __launch_bounds__(THREADS)
    multiply(int64_t n, kvr_global<const float> y, kvr_global<float> x)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < n)
        x[i] = x[i] * y[i];
}

template <int J> static void launch(struct kvr_stream *s, const struct kvr_umt5_heads *a)
{
    const unsigned blocks = kvr_blocks(a->n, WARPS) * (unsigned)a->n_heads;

    KVR_LAUNCH(relative_attend<J>, blocks, THREADS, shared_bytes(J), s, *a, a->q, a->k, a->v,
               a->bias, a->out);
}

void kvr_umt5_attend_cuda(struct kvr_stream *s, const struct kvr_umt5_heads *a)
{
    if (a->n < 1)
        return;
    if (a->head_dim <= 64)
        launch<2>(s, a);
    else if (a->head_dim <= 128)
        launch<4>(s, a);
    else
        launch<8>(s, a);
}

void kvr_multiply_cuda(struct kvr_stream *s, int64_t n, const float *y, float *x)
{
    if (n)
        KVR_LAUNCH(multiply, kvr_blocks(n, THREADS), THREADS, 0, s, n, y, x);
}
