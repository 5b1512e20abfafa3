/* query_norm.cuh - see query_norm.h. Results are rounded like those of the kernels rms_norm and
 * rms_rope in engine/ops_cuda.cu. */
#ifndef KVR_CACHE_QUERY_NORM_CUH
#define KVR_CACHE_QUERY_NORM_CUH

#include "harness/cache/attend_cuda.h"
#include "harness/device/kernel.cuh"
#include "harness/device/mma.cuh"

/* Two adjacent channels of a query as BF16, the query's RMSNorm factor, and the cosine and sine of
 * the RoPE rotation. */
struct query_pair {
    unsigned x;
    float inverse;
    double co, si;
};

static __device__ __forceinline__ unsigned normed(const struct query_pair &q, bool turns,
                                                  float2 weight)
{
    const float u = kvr_bf16_low(q.x) * q.inverse * weight.x;
    const float v = kvr_bf16_high(q.x) * q.inverse * weight.y;
    const double x = u, y = v;

    if (!turns)
        return kvr_bf16_pair(u, v);
    return kvr_bf16_pair((float)(x * q.co - y * q.si), (float)(x * q.si + y * q.co));
}

/* Loads ROWS queries of head h, from query `first` on, with TEAM threads, and applies RMSNorm and
 * RoPE to them. A thread processes one channel pair of every STEP-th row and passes the rounded
 * pair to put(row, pair). Rows past the last query are passed as zeros. A thread issues its loads
 * DEPTH iterations ahead, because the CTA has no other work that would hide the latency of the
 * loads. */
template <int WIDTH, int ROWS, int TEAM, class PUT>
static __device__ __forceinline__ void
load_normed(const struct kvr_attend_shape &a, const struct kvr_query_norm &n, const kvr_bf16 *q,
            int self, int first, int h, PUT put)
{
    enum { PAIRS = WIDTH / 2, STEP = TEAM / PAIRS, DEPTH = 8 };
    const int c = self % PAIRS * 2, channel = h * a.head_dim + c;
    const int64_t there_are = a.n_query - first;
    const int left = there_are < ROWS ? (int)there_are : (int)ROWS;
    const int end = c < a.head_dim ? left : 0, half = a.head_dim / 2;
    const unsigned pitch = (unsigned)(a.n_heads * a.head_dim);
    const bool turns = n.cosines;
    const kvr_global<const kvr_bf16> from =
        kvr_global<const kvr_bf16>(q) + ((int64_t)first * pitch + channel);
    const kvr_global<const float> inverses = kvr_global<const float>(n.inverses) + first;
    const kvr_global<const double> cosines =
        kvr_global<const double>(n.cosines) + ((int64_t)first * half + c / 2);
    const kvr_global<const double> sines =
        kvr_global<const double>(n.sines) + ((int64_t)first * half + c / 2);
    struct query_pair next[DEPTH] = {};
    float2 weight = { 0, 0 };

    if (end)
        weight = kvr_as<const float2>(kvr_global<const float>(n.weight) + channel)[0];
#pragma unroll 1
    for (int r = self / PAIRS - DEPTH * STEP; r < ROWS; r += STEP) {
        const int ahead = r + DEPTH * STEP;

        if (r >= 0)
            put(r, r < end ? normed(next[0], turns, weight) : 0u);
#pragma unroll
        for (int i = 1; i < DEPTH; i++)
            next[i - 1] = next[i];
        if (ahead >= end)
            continue;
        next[DEPTH - 1].x =
            kvr_as<const unsigned>(from + (int64_t)((uint64_t)(unsigned)ahead * pitch))[0];
        next[DEPTH - 1].inverse = inverses[ahead];
        if (turns) {
            next[DEPTH - 1].co = cosines[ahead * half];
            next[DEPTH - 1].si = sines[ahead * half];
        }
    }
}

#endif
