/* attend_queries.cuh - loads the queries of a CTA and rounds them to BF16 for tensor-core
 * attention. The loader in query_norm.cuh also applies RMSNorm and RoPE to the queries. */
#ifndef KVR_CACHE_ATTEND_QUERIES_CUH
#define KVR_CACHE_ATTEND_QUERIES_CUH

#include "harness/cache/attend_cuda.h"
#include "harness/device/kernel.cuh"
#include "harness/device/mma.cuh"
#include "harness/device/vector.cuh"

/* Loads ROWS queries of head h, from query `first` on, with TEAM threads. A thread loads N channels
 * at a time and passes them as N BF16 values to put(row, channel, x). Rows past the last query, and
 * channels from head_dim to WIDTH, are passed as zeros. */
template <int WIDTH, int ROWS, int TEAM, int N, class PUT>
static __device__ __forceinline__ void load_rounded(const struct kvr_attend_shape &a, int head_dim,
                                                    const struct kvr_attend_io &io, int self,
                                                    int first, int h, PUT put)
{
    typedef struct kvr_vec<unsigned, N / 2> pairs;
    const kvr_global<const float> q(io.q);
    const kvr_global<const kvr_bf16> q16(io.q16);

#pragma unroll 1
    for (int i = self; i < ROWS * (WIDTH / N); i += TEAM) {
        const int r = i / (WIDTH / N), c = i % (WIDTH / N) * N;
        const bool there = first + r < a.n_query && c < head_dim;
        const int64_t at = ((int64_t)(first + r) * a.n_heads + h) * head_dim + c;
        pairs x = {};

        if (there && io.q16) {
            x = kvr_as<const pairs>(q16 + at)[0];
        } else if (there) {
#pragma unroll
            for (int j = 0; j < N / 4; j++) {
                const float4 v = kvr_as<const float4>(q + at)[j];

                x.v[2 * j] = kvr_bf16_pair(v.x, v.y);
                x.v[2 * j + 1] = kvr_bf16_pair(v.z, v.w);
            }
        }
        put(r, c, x);
    }
}

#endif
