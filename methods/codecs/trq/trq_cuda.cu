/* trq_cuda.cu - the stage `trq` (residuals between frames) on a CUDA device. Adjacent lanes encode
 * one group of channels at one position of every frame, in the order of frames. To decode one
 * element, a thread decodes the same position and channel of every frame from the block's first
 * frame, the anchor (trq.h), to the element's frame. Built with -fmad=false. */
#include "methods/codecs/trq/trq.h"

#include "harness/device/vector.cuh"

enum { THREADS = 64, PER_LANE = 8 };
static_assert(TRQ_MAX_GROUP <= 32 * PER_LANE, "a group fits into a warp");
using quad = kvr_vec<float, 4>;

/* Fits scale and zero point to a group in `span` adjacent lanes, where span is a power of 2. */
static __device__ __forceinline__ struct trq_fit fit_lanes(bool anchor, int bits, int span,
                                                           const float (&e)[PER_LANE])
{
    float lo = e[0], hi = e[0];
    int bad = 0;

#pragma unroll
    for (int i = 0; i < PER_LANE; i++) {
        bad |= (__float_as_uint(e[i]) & 0x7fffffffu) >= 0x7f800000u;
        lo = e[i] < lo ? e[i] : lo;
        hi = e[i] > hi ? e[i] : hi;
    }
    for (int by = 1; by < span; by *= 2) {
        const float low = __shfl_xor_sync(~0u, lo, by), high = __shfl_xor_sync(~0u, hi, by);

        bad |= __shfl_xor_sync(~0u, bad, by);
        lo = low < lo ? low : lo;
        hi = high > hi ? high : hi;
    }
    return trq_fit_range(anchor, bits, lo, hi, bad != 0);
}

/* Encodes one group at one position of all frames. Each of `span` adjacent lanes holds PER_LANE
 * adjacent channels. If the group has fewer, the last lanes repeat the group's last channels and
 * store nothing. V: vector type of the loads. */
template <class V>
static __global__ void __launch_bounds__(THREADS)
    trq_encode(struct trq g, int span, kvr_global<const V> x, kvr_global<uint16_t> scale,
               kvr_global<uint8_t> zero, kvr_global<uint8_t> codes)
{
    enum { PER_LOAD = sizeof(V) / sizeof(float) };
    const int lane = (int)threadIdx.x % span;
    const int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / span;
    const int64_t groups = g.channels / g.group, positions = g.unit < g.n_tok ? g.unit : g.n_tok;
    const bool stores = i < positions * groups && lane < g.group / PER_LANE;
    const int64_t group = i < positions * groups ? i : positions * groups - 1;
    const int64_t position = group / groups, at = group % groups * g.group;
    const int c = (lane < g.group / PER_LANE ? lane : g.group / PER_LANE - 1) * PER_LANE;
    float e[PER_LANE], r[PER_LANE] = {};

    /* All lanes execute the same shuffles. A lane whose position the last frame lacks repeats the
     * anchor and stores nothing. */
    for (int64_t t0 = 0; t0 < g.n_tok; t0 += g.unit) {
        const bool anchor = t0 == 0, there = stores && t0 + position < g.n_tok;
        const int64_t t = t0 + position < g.n_tok ? t0 + position : position;
        const int bits = anchor ? g.anchor : g.bits;

#pragma unroll
        for (int j = 0; j < PER_LANE; j += PER_LOAD) {
            const V v = x[(t * g.channels + at + c + j) / PER_LOAD];

#pragma unroll
            for (int k = 0; k < PER_LOAD; k++)
                e[j + k] = anchor ? v.v[k] : v.v[k] - r[j + k];
        }
        const struct trq_fit f = fit_lanes(anchor, bits, span, e);
        unsigned long long all = 0;

#pragma unroll
        for (int j = 0; j < PER_LANE; j++) {
            const unsigned q = trq_code(anchor, bits, &f, e[j]);

            all = all << bits | q;
            r[j] = trq_kept(trq_value(&g, anchor, &f, q, r[j]));
        }
        if (!there)
            continue;
        if (lane == 0)
            scale[t * groups + at / g.group] = (uint16_t)f.raw;
        if (lane == 0 && !anchor)
            zero[trq_zero_at(&g, t, at)] = (uint8_t)f.z;
        for (int b = 0; b < bits; b++) /* PER_LANE codes are `bits` bytes */
            codes[trq_codes_at(&g, t) + (at + c) / 8 * bits + b] =
                (uint8_t)(all >> 8 * (bits - 1 - b));
    }
}

static __global__ void __launch_bounds__(THREADS)
    trq_decode(struct trq g, struct kvr_part d, kvr_global<const uint8_t> codes,
               kvr_global<const uint16_t> scale, kvr_global<const uint8_t> zero,
               kvr_global<float> out)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, groups = g.channels / g.group;
    const int64_t token = d.t0 + i / d.width, c = d.first + i % d.width;
    float r = 0, v = 0;

    if (token >= d.t0 + d.n)
        return;
    if (g.fine) {
        const int64_t flags = (g.n_tok - (g.unit < g.n_tok ? g.unit : g.n_tok)) * groups;

        g.heads = 0;
        for (int64_t h = 0; h < g.channels / g.head_dim; h++)
            g.heads |= (uint64_t)(unsigned)zero[flags + h] << h;
    }
    for (int64_t t = token % g.unit; t <= token; t += g.unit) {
        const bool anchor = t < g.unit;
        const int bits = trq_bits(&g, anchor, c);
        const unsigned byte = codes[trq_byte_at(&g, t, c)];
        const unsigned q = byte >> (8 - bits - c * bits % 8) & ((1u << bits) - 1u);
        struct trq_fit f;

        f.s = cells_load(CELLS_BF16, scale[t * groups + c / g.group]);
        f.z = anchor ? 0.0f : (float)(unsigned)zero[trq_zero_at(&g, t, c)];
        v = trq_value(&g, anchor, &f, q, r);
        r = trq_kept(v);
    }
    kvr_part_put(d.mode, out, i, v);
}

static uint8_t *zeros_of(const struct trq *g, const void *params)
{
    return (uint8_t *)params + g->n_tok * (g->channels / g->group) * 2;
}

template <class V>
static void encode(struct kvr_stream *s, const struct trq *g, const void *x, void *codes,
                   void *params)
{
    const int64_t positions = g->unit < g->n_tok ? g->unit : g->n_tok;
    const int64_t n = positions * (g->channels / g->group);
    int span = 1;

    while (span * PER_LANE < g->group)
        span *= 2;
    if (n)
        KVR_LAUNCH(trq_encode<V>, kvr_blocks(n * span, THREADS), THREADS, 0, s, *g, span,
                   (const V *)x, (uint16_t *)params, zeros_of(g, params), (uint8_t *)codes);
}

void kvr_trq_encode_cuda(struct kvr_stream *s, const struct trq *g, const float *x, void *codes,
                         void *params)
{
    if (kvr_aligned(x, sizeof(quad)))
        encode<quad>(s, g, x, codes, params);
    else
        encode<kvr_vec<float, 1>>(s, g, x, codes, params);
}

void kvr_trq_decode_cuda(struct kvr_stream *s, const struct trq *g, const void *codes,
                         const void *params, const struct kvr_part *part, float *out)
{
    if (part->n && part->width)
        KVR_LAUNCH(trq_decode, kvr_blocks(part->n * part->width, THREADS), THREADS, 0, s, *g, *part,
                   (const uint8_t *)codes, (const uint16_t *)params,
                   (const uint8_t *)zeros_of(g, params), out);
}
