/* planes.cuh - packs codes into the bit planes of pack.h on a CUDA device, eight tokens at a time.
 *
 * In a plane of f-bit fields, the codes of eight tokens fill f rows, with one byte per channel in
 * each row. In all planes of a `bits`-bit code together, the codes of eight tokens fill `bits`
 * bytes per channel. One thread packs eight tokens, and the threads of a warp access contiguous
 * bytes. A thread packs sizeof(T) channels: one for uint8_t, four for uint32_t. The array element
 * code[i] contains the codes of token i, one byte per channel. Therefore one shift and one mask
 * extract a field for all channels of a thread. */
#ifndef KVR_METHODS_PLANES_CUH
#define KVR_METHODS_PLANES_CUH

#include "harness/device/kernel.cuh"

struct kvr_planes {
    /* in kernels, `channels` counts elements of type T; an element packs sizeof(T) one-byte
     * channels */
    int64_t n_tok, channels;
    int bits;
};

/* Returns the number of rows that the codes of n_tok tokens fill in a plane of f-bit fields, where
 * f is 1, 2, 4 or 8. */
static __host__ __device__ __forceinline__ int64_t kvr_plane_rows(int64_t n_tok, int f)
{
    return (n_tok * f + 7) / 8;
}

/* Returns a mask of the low f bits of every byte. */
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

/* Stores the codes of the eight tokens from index 8 * t8 on, for the sizeof(T) channels from index
 * c * sizeof(T) on. The codes of tokens with an index of p.n_tok or more must be 0. */
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

/* Packs the codes of eight tokens of one channel into a 64-bit word, one byte per token. A loop can
 * then select a token by a shift, and need not be unrolled. */
static __device__ __forceinline__ unsigned long long kvr_bytes8(const unsigned (&code)[8])
{
    unsigned long long all = 0;

#pragma unroll
    for (int i = 0; i < 8; i++)
        all |= (unsigned long long)(code[i] & 255u) << 8 * i;
    return all;
}

#endif
