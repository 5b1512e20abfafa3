/* cells_cuda.cu - CUDA kernels of the number formats in cells.h, whose layout cells.c documents.
 *
 * A CTA encodes several groups of adjacent channels for 8 tokens. First each thread computes the
 * scale and, in some formats, the minimum or zero point of one group of one token. Then each thread
 * encodes 8 tokens of one channel, which fill whole bytes of a bit plane. Built with -fmad=false.
 *
 * The kernels multiply by reciprocals instead of dividing per element. The reciprocal of a group's
 * scale is computed once per group and token. The reciprocal of the group size is a kernel
 * argument, cut.share. */
#include "methods/codecs/cells/cells.h"

#include "harness/device/vector.cuh"
#include "methods/kernels/planes.cuh"

enum { THREADS = 128, TILE = 128, MOST_FITS = 8 * TILE / 8 };
/* MOST_BLOCKS: the most CTAs that compute a block's largest magnitude, 4 per SM of an H100 */
enum { MOST_THREADS = 256, MOST_BLOCKS = 4 * 132 };
using quad = kvr_vec<float, 4>;

static __device__ __forceinline__ void put_number(kvr_global<uint8_t> params, size_t at, int number,
                                                  int64_t i, unsigned raw)
{
    const int size = (int)cells_size(number);

    for (int b = 0; b < size; b++)
        params[(int64_t)at + i * size + b] = (uint8_t)(raw >> (8 * b));
}

static __device__ __forceinline__ unsigned get_number(kvr_global<const uint8_t> params, size_t at,
                                                      int number, int64_t i)
{
    const int size = (int)cells_size(number);
    unsigned raw = 0;

    for (int b = 0; b < size; b++)
        raw |= (unsigned)params[(int64_t)at + i * size + b] << (8 * b);
    return raw;
}

static __device__ __forceinline__ bool has_most(const struct cells &c)
{
    return c.relative || c.scale == CELLS_BLOCK;
}

static __device__ __forceinline__ float most_of(const struct cells &c,
                                                kvr_global<const uint8_t> params)
{
    return has_most(c) ? __uint_as_float(get_number(params, 0, CELLS_F32, 0)) : 0;
}

static __global__ void cells_clear(kvr_global<int> most)
{
    most[0] = 0;
}

/* Computes the block's largest magnitude, as bits, from n vectors. Atomics on one address execute
 * one after the other, so a CTA reduces its elements and performs a single atomic. */
template <class V>
static __global__ void __launch_bounds__(MOST_THREADS)
    cells_most(int64_t n, kvr_global<const V> x, kvr_global<int> most)
{
    KVR_SHARED(int, of_warp, MOST_THREADS / 32);
    const int64_t step = (int64_t)gridDim.x * MOST_THREADS;
    int top = 0;

#pragma unroll 4
    for (int64_t i = (int64_t)blockIdx.x * MOST_THREADS + threadIdx.x; i < n; i += step) {
        const V v = x[i];

#pragma unroll
        for (int j = 0; j < (int)(sizeof v.v / sizeof *v.v); j++) {
            const int u = (int)(__float_as_uint(v.v[j]) & 0x7fffffffu);

            top = u > top ? u : top;
        }
    }
    top = __reduce_max_sync(~0u, top);
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = top;
    __syncthreads();
    if (threadIdx.x < 32) {
        const int u = threadIdx.x < MOST_THREADS / 32 ? (int)of_warp[threadIdx.x] : 0;

        top = __reduce_max_sync(~0u, u);
        if (threadIdx.x == 0)
            atomicMax(most + 0, top);
    }
}

/* Division of the channels into groups and tiles. `share` is 2^32 / group rounded up, where `group`
 * is the group size. Channel i belongs to group floor(i / group), which a kernel computes as the
 * high word of the 64-bit product i * share. Because share is rounded up, the product exceeds
 * i * 2^32 / group by less than i. The quotient is exact if this excess is less than 2^32 / group,
 * which holds for i < 2^24 because a group has at most 256 channels. */
struct cut {
    unsigned share, of_token; /* of_token: groups per token */
    /* A CTA encodes one tile, which is `groups` adjacent groups of channels for 8 tokens. `tiles`
     * is the number of tiles that the groups of 8 tokens are divided into. The last tile may have
     * fewer groups. */
    unsigned tiles, groups;
};

static struct cut cut_of(const struct cells &c)
{
    const unsigned group = (unsigned)c.group, groups = c.group > TILE ? 1 : TILE / group;

    return { 0xffffffffu / group + 1, (unsigned)(c.channels / c.group),
             kvr_blocks(c.channels, groups * group), groups };
}

/* Each kind of format has its own instance of the kernel, so that the kernel fits the instruction
 * cache. */
template <int KIND>
static __global__ void __launch_bounds__(THREADS, 6)
    cells_encode(struct cells c, struct cut cut, kvr_global<const float> x,
                 kvr_global<uint8_t> params, kvr_global<uint8_t> codes)
{
    KVR_SHARED(struct cells_fit, group_fit, MOST_FITS);
    const unsigned tile = blockIdx.x % cut.tiles, left = cut.of_token - tile * cut.groups;
    const int groups = (int)(left < cut.groups ? left : cut.groups), width = groups * c.group;
    const int64_t t8 = blockIdx.x / cut.tiles, first = (int64_t)(tile * cut.groups) * c.group;
    const int64_t set = 8 * t8 * cut.of_token + tile * cut.groups;
    const struct kvr_planes planes = { c.n_tok, c.channels, c.bits };
    const float most = most_of(c, params);

    if (c.kind != KIND) /* lets the compiler assume that c.kind is KIND */
        return;
    for (int i = (int)threadIdx.x; i < 8 * groups; i += THREADS) {
        const int r = i % 8, g = i / 8;
        const int64_t t = 8 * t8 + r;

        if (t >= c.n_tok)
            continue;
        const struct cells_fit f = cells_fit(&c, x, t * c.channels + first + g * c.group, most);

        put_number(params, c.scale_at, c.scale, set + r * cut.of_token + g, f.raw);
        put_number(params, c.second_at, c.second, set + r * cut.of_token + g, f.z);
        group_fit[i] = f;
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < width; i += THREADS) {
        const int group = (int)__umulhi((unsigned)i, cut.share);
        unsigned long long codes8 = 0;
        unsigned code[8];

#pragma unroll 1
        for (int r = 0; r < 8 && 8 * t8 + r < c.n_tok; r++) {
            const struct cells_fit f = group_fit[8 * group + r];
            const float v = x[(8 * t8 + r) * c.channels + first + i];

            codes8 |= (unsigned long long)cells_code(&c, &f, v) << 8 * r;
        }
#pragma unroll
        for (int r = 0; r < 8; r++)
            code[r] = (unsigned)(codes8 >> 8 * r) & 255u;
        kvr_store8<uint8_t>(planes, t8, first + i, code, codes);
    }
}

static __global__ void __launch_bounds__(THREADS)
    cells_decode(struct cells c, struct kvr_part d, struct cut cut, unsigned strips,
                 kvr_global<const uint8_t> codes, kvr_global<const uint8_t> params,
                 kvr_global<float> out)
{
    const int64_t t8 = d.t0 / 8 + blockIdx.x / strips;
    const int64_t at = (int64_t)(blockIdx.x % strips) * THREADS + threadIdx.x;
    const struct kvr_planes planes = { c.n_tok, c.channels, c.bits };
    const unsigned group = __umulhi((unsigned)(d.first + at), cut.share);
    const float most = most_of(c, params);
    unsigned code[8];

    if (at >= d.width)
        return;
    kvr_load8<uint8_t>(planes, t8, d.first + at, codes, code);
    unsigned long long left = kvr_bytes8(code);
#pragma unroll 1
    for (int r = 0; r < 8; r++, left >>= 8) {
        const int64_t t = 8 * t8 + r, to = (t - d.t0) * d.width + at, g = t * cut.of_token + group;
        struct cells_fit f;

        if (t < d.t0 || t >= d.t0 + d.n)
            continue;
        cells_read(&c, get_number(params, c.scale_at, c.scale, g),
                   get_number(params, c.second_at, c.second, g), most, &f);
        const float v =
            d.mode == KVR_DECODE_SCALES ? f.s : cells_value(&c, &f, (unsigned)left & 255u);

        kvr_part_put(d.mode == KVR_DECODE_SCALES ? (int)KVR_DECODE_SET : d.mode, out, to, v);
    }
}

template <int KIND>
static void encode(struct kvr_stream *s, const struct cells &c, const float *x, void *codes,
                   void *params)
{
    const struct cut cut = cut_of(c);

    KVR_LAUNCH(cells_encode<KIND>, kvr_blocks(c.n_tok, 8) * cut.tiles, THREADS, 0, s, c, cut, x,
               (uint8_t *)params, (uint8_t *)codes);
}

template <class V> static void most(struct kvr_stream *s, int64_t n, const void *x, void *params)
{
    const unsigned blocks = kvr_blocks(n, MOST_THREADS);

    KVR_LAUNCH(cells_most<V>, blocks < MOST_BLOCKS ? blocks : (unsigned)MOST_BLOCKS, MOST_THREADS,
               0, s, n, (const V *)x, (int *)params);
}

void kvr_cells_encode_cuda(struct kvr_stream *s, const struct cells *c, const float *x, void *codes,
                           void *params)
{
    const int64_t n = c->n_tok * c->channels;

    if (c->relative || c->scale == CELLS_BLOCK) {
        KVR_LAUNCH(cells_clear, 1, 1, 0, s, (int *)params);
        if (n % 4 == 0 && kvr_aligned(x, sizeof(quad)))
            most<quad>(s, n / 4, x, params);
        else
            most<kvr_vec<float, 1>>(s, n, x, params);
    }
    if (n && c->kind == CELLS_INTS)
        encode<CELLS_INTS>(s, *c, x, codes, params);
    else if (n && c->kind == CELLS_FLOATS)
        encode<CELLS_FLOATS>(s, *c, x, codes, params);
    else if (n)
        encode<CELLS_LEVELS>(s, *c, x, codes, params);
}

void kvr_cells_decode_cuda(struct kvr_stream *s, const struct cells *c, const void *codes,
                           const void *params, const struct kvr_part *part, float *out)
{
    const int64_t runs = (part->t0 + part->n + 7) / 8 - part->t0 / 8;
    const unsigned strips = kvr_blocks(part->width, THREADS);

    if (part->n && part->width)
        KVR_LAUNCH(cells_decode, (unsigned)runs * strips, THREADS, 0, s, *c, *part, cut_of(*c),
                   strips, (const uint8_t *)codes, (const uint8_t *)params, out);
}
