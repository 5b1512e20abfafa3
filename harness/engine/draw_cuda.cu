/* draw_cuda.cu - the Philox4x32-10 random number generator of harness/core/rng.c as CUDA kernels.
 * Each thread generates four elements. */
#include "harness/engine/draw_cuda.h"

#include "harness/core/normal_pair.h"
#include "harness/device/kernel.cuh"

enum { THREADS = 256, ROUNDS = 10, BLOCK = 4 };

struct stream_of {
    uint32_t key[2], use, a, b;
};

static __device__ __forceinline__ void philox(uint32_t c[4], uint32_t k0, uint32_t k1)
{
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        const uint64_t p0 = 0xD2511F53ull * c[0], p1 = 0xCD9E8D57ull * c[2];
        const uint32_t c1 = c[1], c3 = c[3];

        c[0] = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c[1] = (uint32_t)p1;
        c[2] = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c[3] = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

static __device__ __forceinline__ void words(const struct stream_of &s, uint64_t block,
                                             uint32_t c[BLOCK])
{
    c[0] = (uint32_t)block;
    c[1] = s.use << 24 | ((uint32_t)(block >> 32) & 0xffffffu);
    c[2] = s.a;
    c[3] = s.b;
    philox(c, s.key[0], s.key[1]);
}

static __global__ void __launch_bounds__(THREADS)
    draw_uniform(struct stream_of s, float bound, float fill, int64_t n, kvr_global<float> to)
{
    const uint64_t block = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    uint32_t c[BLOCK];

    words(s, block, c);
#pragma unroll
    for (int i = 0; i < BLOCK; i++) {
        const int64_t at = (int64_t)(block * BLOCK) + i;

        if (at < n)
            to[at] = bound > 0 ? bound * (2.0f * ((float)(c[i] >> 8) * 0x1p-24f) - 1.0f) : fill;
    }
}

void kvr_draw_cuda(struct kvr_stream *s, uint64_t seed, const struct kvr_draw *d, int64_t n,
                   float *to)
{
    const struct stream_of from = {
        { (uint32_t)seed, (uint32_t)(seed >> 32) }, KVR_RNG_WEIGHTS, d->a, d->b
    };

    if (n > 0)
        KVR_LAUNCH(draw_uniform, kvr_blocks(n, (int64_t)THREADS * BLOCK), THREADS, 0, s, from,
                   d->bound, d->fill, n, to);
}

static __device__ __forceinline__ void four_normals(const struct stream_of &s, uint64_t block,
                                                    float x[BLOCK])
{
    uint32_t c[BLOCK];

    words(s, block, c);
    kvr_normal_pair(c[0], c[1], x);
    kvr_normal_pair(c[2], c[3], x + 2);
}

static __global__ void __launch_bounds__(THREADS)
    draw_normal(struct stream_of s, struct stream_of jitter, bool moved, double magnitude,
                double rescale, int64_t n, kvr_global<float> to)
{
    const uint64_t block = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    const int64_t first = (int64_t)(block * BLOCK);
    float x[BLOCK], eta[BLOCK];

    if (first >= n)
        return;
    four_normals(s, block, x);
    if (moved) {
        four_normals(jitter, block, eta);
        for (int i = 0; i < BLOCK; i++)
            x[i] = (float)(((double)x[i] + magnitude * (double)eta[i]) * rescale);
    }
#pragma unroll
    for (int i = 0; i < BLOCK; i++)
        if (first + i < n)
            to[first + i] = x[i];
}

void kvr_draw_normal_cuda(struct kvr_stream *s, const struct kvr_draw_normal *d, int64_t n,
                          float *to)
{
    const struct stream_of from = {
        { (uint32_t)d->seed, (uint32_t)(d->seed >> 32) }, (uint32_t)d->use, d->a, d->b
    };
    struct stream_of jitter = from;

    jitter.use = KVR_RNG_JITTER;
    jitter.b = d->eta_b;
    if (n > 0)
        KVR_LAUNCH(draw_normal, kvr_blocks(n, (int64_t)THREADS * BLOCK), THREADS, 0, s, from,
                   jitter, d->moved, d->magnitude, d->rescale, n, to);
}
