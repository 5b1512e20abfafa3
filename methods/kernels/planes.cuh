/* planes.cuh - the planes of pack.h, eight tokens of one channel at a time.
 *
 * Eight tokens fill f rows of the plane of f-bit fields exactly, so in all `bits` bytes of a
 * channel: one thread's work, and the warp's bytes lie side by side. Codes travel as one 64-bit
 * word, token i in byte i. */
#ifndef KVR_METHODS_PLANES_CUH
#define KVR_METHODS_PLANES_CUH

#include "harness/cuda/kernel.cuh"

struct kvr_planes {
    int64_t n_tok, channels;
    int bits;
};

/* Rows that the plane of f-bit fields has, f = 1, 2, 4, 8. */
static __host__ __device__ __forceinline__ int64_t kvr_plane_rows(int64_t n_tok, int f)
{
    return (n_tok * f + 7) / 8;
}

template <int F>
static __device__ __forceinline__ int64_t store_plane(const struct kvr_planes p, int low,
                                                      int64_t t8, int64_t c, uint64_t codes,
                                                      int64_t plane, kvr_global<uint8_t> packed)
{
    const int64_t rows = kvr_plane_rows(p.n_tok, F);

#pragma unroll
    for (int r = 0; r < F; r++) {
        unsigned byte = 0;

#pragma unroll
        for (int i = 0; i < 8 / F; i++)
            byte |=
                (((unsigned)(codes >> (8 * (r * (8 / F) + i))) & 255u) >> low & ((1u << F) - 1u))
                << (i * F);
        if (t8 * F + r < rows)
            packed[plane + (t8 * F + r) * p.channels + c] = (uint8_t)byte;
    }
    return plane + rows * p.channels;
}

template <int F>
static __device__ __forceinline__ int64_t load_plane(const struct kvr_planes p, int low, int64_t t8,
                                                     int64_t c, uint64_t &codes, int64_t plane,
                                                     kvr_global<const uint8_t> packed)
{
    const int64_t rows = kvr_plane_rows(p.n_tok, F);

#pragma unroll
    for (int r = 0; r < F; r++) {
        const unsigned byte =
            t8 * F + r < rows ? (unsigned)packed[plane + (t8 * F + r) * p.channels + c] : 0u;

#pragma unroll
        for (int i = 0; i < 8 / F; i++)
            codes |= (uint64_t)((byte >> (i * F) & ((1u << F) - 1u)) << low)
                     << (8 * (r * (8 / F) + i));
    }
    return plane + rows * p.channels;
}

/* Tokens [8 t8, 8 t8 + 8) of channel c; those at or beyond n_tok have to be 0. */
static __device__ __forceinline__ void kvr_store8(const struct kvr_planes p, int64_t t8, int64_t c,
                                                  uint64_t codes, kvr_global<uint8_t> packed)
{
    int64_t plane = 0;
    int low = p.bits;

    if (p.bits & 8)
        plane = store_plane<8>(p, low -= 8, t8, c, codes, plane, packed);
    if (p.bits & 4)
        plane = store_plane<4>(p, low -= 4, t8, c, codes, plane, packed);
    if (p.bits & 2)
        plane = store_plane<2>(p, low -= 2, t8, c, codes, plane, packed);
    if (p.bits & 1)
        store_plane<1>(p, low - 1, t8, c, codes, plane, packed);
}

static __device__ __forceinline__ uint64_t kvr_load8(const struct kvr_planes p, int64_t t8,
                                                     int64_t c, kvr_global<const uint8_t> packed)
{
    uint64_t codes = 0;
    int64_t plane = 0;
    int low = p.bits;

    if (p.bits & 8)
        plane = load_plane<8>(p, low -= 8, t8, c, codes, plane, packed);
    if (p.bits & 4)
        plane = load_plane<4>(p, low -= 4, t8, c, codes, plane, packed);
    if (p.bits & 2)
        plane = load_plane<2>(p, low -= 2, t8, c, codes, plane, packed);
    if (p.bits & 1)
        load_plane<1>(p, low - 1, t8, c, codes, plane, packed);
    return codes;
}

#endif
