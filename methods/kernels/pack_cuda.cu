/* pack_cuda.cu - codes into planes and back: a thread has eight tokens of a channel. */
#include "methods/kernels/kernels_cuda.h"
#include "methods/kernels/planes.cuh"

enum { THREADS = 128 };

static __global__ void __launch_bounds__(THREADS)
    pack_planes(struct kvr_planes p, kvr_global<uint8_t> packed, kvr_global<const uint8_t> codes)
{
    const int64_t strips = (p.channels + THREADS - 1) / THREADS;
    const int64_t t8 = blockIdx.x / strips, c = blockIdx.x % strips * THREADS + threadIdx.x;
    uint64_t word = 0;

    if (c >= p.channels)
        return;
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (8 * t8 + i < p.n_tok)
            word |= (uint64_t)codes[(8 * t8 + i) * p.channels + c] << (8 * i);
    kvr_store8(p, t8, c, word, packed);
}

static __global__ void __launch_bounds__(THREADS)
    unpack_planes(struct kvr_planes p, kvr_global<const uint8_t> packed, kvr_global<uint8_t> codes)
{
    const int64_t strips = (p.channels + THREADS - 1) / THREADS;
    const int64_t t8 = blockIdx.x / strips, c = blockIdx.x % strips * THREADS + threadIdx.x;
    uint64_t word;

    if (c >= p.channels)
        return;
    word = kvr_load8(p, t8, c, packed);
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (8 * t8 + i < p.n_tok)
            codes[(8 * t8 + i) * p.channels + c] = (uint8_t)(word >> (8 * i));
}

static unsigned blocks(const struct kvr_planes *p)
{
    return (unsigned)((p->n_tok + 7) / 8 * ((p->channels + THREADS - 1) / THREADS));
}

void kvr_pack_cuda(struct kvr_stream *s, uint8_t *packed, int64_t n_tok, int64_t channels, int bits,
                   const uint8_t *codes)
{
    const struct kvr_planes p = { n_tok, channels, bits };

    if (blocks(&p))
        KVR_LAUNCH(pack_planes, blocks(&p), THREADS, 0, s, p, packed, codes);
}

void kvr_unpack_cuda(struct kvr_stream *s, const uint8_t *packed, int64_t n_tok, int64_t channels,
                     int bits, uint8_t *codes)
{
    const struct kvr_planes p = { n_tok, channels, bits };

    if (blocks(&p))
        KVR_LAUNCH(unpack_planes, blocks(&p), THREADS, 0, s, p, packed, codes);
}
