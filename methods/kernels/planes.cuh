/* planes.cuh - the planes of pack.h, eight tokens of some channels at a time.
 *
 * Eight tokens fill f rows of the plane of f-bit fields exactly, so in all `bits` bytes of a
 * channel: one thread's work, and the warp's bytes lie side by side. A thread has the channels
 * whose bytes are one T (uint8_t: one, uint32_t: four); the codes of token i travel in code[i], a
 * byte a channel, so that one shift and one mask take a field out of all of them. */
#ifndef KVR_METHODS_PLANES_CUH
#define KVR_METHODS_PLANES_CUH

#include "harness/device/kernel.cuh"

struct kvr_planes {
    int64_t n_tok, channels; /* of a kernel's planes: how many T a row has */
    int bits;
};

/* Rows that the plane of f-bit fields has, f = 1, 2, 4, 8. */
static __host__ __device__ __forceinline__ int64_t kvr_plane_rows(int64_t n_tok, int f)
{
    return (n_tok * f + 7) / 8;
}

/* The low f bits of every byte. */
static __device__ __forceinline__ unsigned kvr_fields(int f)
{
    return ((1u << f) - 1u) * 0x01010101u;
}

template <int F, class T>
static __device__ __forceinline__ int64_t store_plane(const struct kvr_planes p, int low,
                                                      int64_t t8, int64_t c,
                                                      const unsigned (&code)[8], int64_t plane,
                                                      kvr_global<T> packed)
{
    const int64_t rows = kvr_plane_rows(p.n_tok, F);
    const int64_t at = plane + t8 * F * p.channels + c;
    const unsigned row = (unsigned)p.channels;
    const int have = (int)(rows - t8 * F < F ? rows - t8 * F : F);

#pragma unroll
    for (int r = 0; r < F; r++) {
        unsigned bytes = 0;

#pragma unroll
        for (int i = 0; i < 8 / F; i++)
            bytes |= (code[r * (8 / F) + i] >> low & kvr_fields(F)) << (i * F);
        if (r < have)
            packed[at + r * row] = (T)bytes;
    }
    return plane + rows * p.channels;
}

template <int F, class T>
static __device__ __forceinline__ int64_t load_plane(const struct kvr_planes p, int low, int64_t t8,
                                                     int64_t c, unsigned (&code)[8], int64_t plane,
                                                     kvr_global<const T> packed)
{
    const int64_t rows = kvr_plane_rows(p.n_tok, F);
    const int64_t at = plane + t8 * F * p.channels + c;
    const unsigned row = (unsigned)p.channels;
    const int have = (int)(rows - t8 * F < F ? rows - t8 * F : F);

#pragma unroll
    for (int r = 0; r < F; r++) {
        const unsigned bytes = r < have ? (unsigned)packed[at + r * row] : 0u;

#pragma unroll
        for (int i = 0; i < 8 / F; i++)
            code[r * (8 / F) + i] |= (bytes >> (i * F) & kvr_fields(F)) << low;
    }
    return plane + rows * p.channels;
}

/* Tokens [8 t8, 8 t8 + 8) of the c-th T of a row; codes at or beyond n_tok have to be 0. */
template <class T>
static __device__ __forceinline__ void kvr_store8(const struct kvr_planes p, int64_t t8, int64_t c,
                                                  const unsigned (&code)[8], kvr_global<T> packed)
{
    int64_t plane = 0;
    int low = p.bits;

    if (p.bits & 8)
        plane = store_plane<8>(p, low -= 8, t8, c, code, plane, packed);
    if (p.bits & 4)
        plane = store_plane<4>(p, low -= 4, t8, c, code, plane, packed);
    if (p.bits & 2)
        plane = store_plane<2>(p, low -= 2, t8, c, code, plane, packed);
    if (p.bits & 1)
        store_plane<1>(p, low - 1, t8, c, code, plane, packed);
}

template <class T>
static __device__ __forceinline__ void kvr_load8(const struct kvr_planes p, int64_t t8, int64_t c,
                                                 kvr_global<const T> packed, unsigned (&code)[8])
{
    int64_t plane = 0;
    int low = p.bits;

#pragma unroll
    for (int i = 0; i < 8; i++)
        code[i] = 0;
    if (p.bits & 8)
        plane = load_plane<8>(p, low -= 8, t8, c, code, plane, packed);
    if (p.bits & 4)
        plane = load_plane<4>(p, low -= 4, t8, c, code, plane, packed);
    if (p.bits & 2)
        plane = load_plane<2>(p, low -= 2, t8, c, code, plane, packed);
    if (p.bits & 1)
        load_plane<1>(p, low - 1, t8, c, code, plane, packed);
}

/* The codes of a channel side by side, token i in byte i: a loop that is not unrolled takes the next
 * by shifting. */
static __device__ __forceinline__ unsigned long long kvr_bytes8(const unsigned (&code)[8])
{
    unsigned long long all = 0;

#pragma unroll
    for (int i = 0; i < 8; i++)
        all |= (unsigned long long)(code[i] & 255u) << 8 * i;
    return all;
}

#endif
