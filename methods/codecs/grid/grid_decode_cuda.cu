/* grid_decode_cuda.cu - dequantizes the integer grids of grid.h on a CUDA device: one grid, one
 * grid followed by the inverse rotation, or a chain of two grids. The CPU reference is grid.c.
 *
 * Results are bit-identical to the CPU's, because every rounding is the same (built with
 * -fmad=false). The product of an 8-bit code and an FP16 scale is exact in F32. Therefore an FMA
 * that adds the group's minimum gives the same result as a multiplication and an addition. */
#include <type_traits>

#include "methods/codecs/grid/grid_variants.cuh"

/* Dequantizes byte j of `code` with the parameters `l`. The function converts the byte to float by
 * inserting it as the low byte of the bit pattern of 2^23, which gives the float 2^23 + byte. */
template <bool PLAIN>
static __device__ __forceinline__ float dequantize(const struct shape &g, unsigned code, int j,
                                                   const struct dequant &l)
{
    const float q = __uint_as_float(__byte_perm(code, 0x4b000000u, 0x7540u | (unsigned)j));

    if (PLAIN)
        return fmaf(q - (8388608 + g.middle), l.s, l.off);
    const float x = (q - 8388608 - l.z) * l.s;

    return rounded(rounded(x, g.bf16) + l.off, g.bf16);
}

/* The part of a block that a kernel dequantizes: n tokens from token t0 on, and `width` channels
 * from channel `first` on. */
struct part {
    int64_t t0, n, first, width;
    int mode;
};

/* Dequantizes channels c to c + V - 1 of tokens 8 * t8 to 8 * t8 + 7 of one grid. If `first`, the
 * function stores the results in x, and otherwise it adds the results to x. The caller uses only
 * x[begin] to x[end - 1]. */
template <class T, bool PLAIN>
static __device__ __forceinline__ void
add_dequantized(const struct shape &g, int begin, int end, int64_t t8, int64_t c,
                kvr_global<const T> codes, kvr_global<const kvr_f16> scales, bool first,
                values<T> (&x)[8])
{
    enum { V = sizeof(T) };
    unsigned code[8];

    /* The thread loads scales and codes before it uses them, so that load latencies overlap. */
    if (g.axis == KVR_AXIS_TOKENS) { /* in each channel, the 8 tokens are in the same group */
        const int64_t at = (int64_t)((unsigned)t8 * 8 / (unsigned)g.group) * g.planes.channels + c;
        const kvr_global<const kvr_vec<kvr_f16, V>> all = kvr_as<const kvr_vec<kvr_f16, V>>(scales);
        const kvr_vec<kvr_f16, V> scale = all[at / V];
        kvr_vec<kvr_f16, V> zero = {};
        struct dequant l[V];

        if (g.asym)
            zero = all[(g.n_groups + at) / V];
        kvr_load8(planes_of<T>(g), t8, c / V, codes, code);
#pragma unroll
        for (int j = 0; j < V; j++)
            l[j] = dequant_of<PLAIN>(g, scale.v[j], zero.v[j]);
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < V; j++) {
                const float v = dequantize<PLAIN>(g, code[i], j, l[j]);

                x[i].v[j] = first ? v : x[i].v[j] + v;
            }
        return;
    }
    const kvr_global<const kvr_f16> groups =
        scales + ((8 * t8 + begin) * g.per_token + (unsigned)c / (unsigned)g.width);
    const unsigned per = (unsigned)g.per_token;
    kvr_vec<kvr_f16, 8> scale = {}, zero = {};

    if (g.aligned_scales && end - begin == 8) {
        scale = kvr_as<const kvr_vec<kvr_f16, 8>>(groups)[0];
        if (g.asym)
            zero = kvr_as<const kvr_vec<kvr_f16, 8>>(groups + g.n_groups)[0];
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (i >= begin && i < end)
                scale.v[i] = groups[per * (unsigned)(i - begin)];
        if (g.asym) {
#pragma unroll
            for (int i = 0; i < 8; i++)
                if (i >= begin && i < end)
                    zero.v[i] = groups[g.n_groups + per * (unsigned)(i - begin)];
        }
    }
    kvr_load8(planes_of<T>(g), t8, c / V, codes, code);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const struct dequant l = dequant_of<PLAIN>(g, scale.v[i], zero.v[i]);

#pragma unroll
        for (int j = 0; j < V; j++) { /* all V channels of a token have the same scale */
            const float v = dequantize<PLAIN>(g, code[i], j, l);

            x[i].v[j] = first ? v : x[i].v[j] + v;
        }
    }
}

/* Type of a thread's output for V channels of one token: a vector of V floats, a vector of V / 2
 * words that contain two BF16 numbers each, or one BF16 number if V is 1. */
template <class W> struct output_of {
    enum { V = sizeof(typename W::T) };
    static constexpr bool narrow = sizeof(typename W::X) == 2, pairs = narrow && V > 1;
    using type = typename std::conditional<
        pairs, kvr_vec<unsigned, (V + 1) / 2>,
        typename std::conditional<narrow, kvr_bf16, kvr_vec<float, V>>::type>::type;
};

template <int V>
static __device__ __forceinline__ void store_as(kvr_vec<float, V> &to, const kvr_vec<float, V> &x)
{
    to = x;
}
template <int V, int P>
static __device__ __forceinline__ void store_as(kvr_vec<unsigned, P> &to,
                                                const kvr_vec<float, V> &x)
{
#pragma unroll
    for (int i = 0; i < P; i++)
        to.v[i] = kvr_bf16_pair(x.v[2 * i], x.v[2 * i + 1]);
}
static __device__ __forceinline__ void store_as(kvr_bf16 &to, const kvr_vec<float, 1> &x)
{
    to = (kvr_bf16)(kvr_bf16_pair(x.v[0], 0.0f) & 0xffffu);
}

/* Each thread dequantizes up to 8 tokens of sizeof(T) adjacent channels, one per byte of the code
 * word T. With a rotation, a second grid or BF16 output, the kernel requires the mode
 * KVR_DECODE_SET, which overwrites `out`. */
template <class W>
static __global__ void __launch_bounds__(THREADS, !W::plain || W::pair ? 5
                                                  : W::rotated         ? 6
                                                                       : 8)
    grid_decode(struct chain chain, struct part d, unsigned strips,
                kvr_global<const typename W::T> codes, kvr_global<const kvr_f16> scales,
                kvr_global<const typename W::T> codes_2, kvr_global<const kvr_f16> scales_2,
                kvr_global<typename output_of<W>::type> out)
{
    using T = typename W::T;
    enum { V = sizeof(T) };
    const int64_t units = d.width / V, t8 = d.t0 / 8 + blockIdx.x / strips;
    const int64_t at = (int64_t)(blockIdx.x % strips) * THREADS + threadIdx.x;
    const int begin = d.t0 > 8 * t8 ? (int)(d.t0 - 8 * t8) : 0;
    const int end = at_most(d.t0 + d.n - 8 * t8, 8);
    values<T> x[8] = {};

    if (at >= units)
        return;
    add_dequantized<T, W::plain>(chain.g[0], begin, end, t8, d.first + at * V, codes, scales, true,
                                 x);
    if (W::pair)
        add_dequantized<T, W::plain>(chain.g[1], begin, end, t8, d.first + at * V, codes_2,
                                     scales_2, false, x);
#pragma unroll
    for (int i = 0; i < 8; i++) {
#pragma unroll
        for (int j = 0; j < V; j++)
            x[i].v[j] = W::pair ? rounded(x[i].v[j], chain.round) : x[i].v[j];
    }
    if (W::rotated)
        kvr_fwht_warp<V, 8, false>(x, 32 * V, !W::plain && chain.rotate_bf16);
    const kvr_global<typename output_of<W>::type> to = out + ((8 * t8 - d.t0 + begin) * units + at);
    const unsigned row = (unsigned)units;

#pragma unroll
    for (int i = 0; i < 8; i++) {
        if (i < begin || i >= end)
            continue;
        if constexpr (!output_of<W>::narrow && !W::rotated && !W::pair)
            if (d.mode != KVR_DECODE_SET) {
                const values<T> old = to[row * (unsigned)(i - begin)];

#pragma unroll
                for (int j = 0; j < V; j++)
                    x[i].v[j] =
                        d.mode == KVR_DECODE_ADD ? old.v[j] + x[i].v[j] : old.v[j] - x[i].v[j];
            }
        typename output_of<W>::type all;

        store_as(all, x[i]);
        to[row * (unsigned)(i - begin)] = all;
    }
}

/* ---- host ---- */

template <class W>
static void decode(struct kvr_stream *s, struct chain c, const struct part &d,
                   const struct grid_buffers &b, typename W::X *out)
{
    using T = typename W::T;
    const unsigned strips = kvr_blocks(d.width / (int64_t)sizeof(T), THREADS);
    const int64_t runs = (d.t0 + d.n + 7) / 8 - d.t0 / 8;

    for (int i = 0; i < c.n; i++)
        c.g[i].aligned_scales =
            c.g[i].per_token == 1 && c.g[i].n_groups % 8 == 0 && kvr_aligned(b.scales[i], 16);
    KVR_LAUNCH(grid_decode<W>, (unsigned)runs * strips, THREADS, 0, s, c, d, strips,
               (const T *)b.codes[0], (const kvr_f16 *)b.scales[0], (const T *)b.codes[1],
               (const kvr_f16 *)b.scales[1], (typename output_of<W>::type *)out);
}

static struct part part_of(const struct kvr_stage_job *job, int64_t t0, int64_t n, int h0, int nh,
                           enum kvr_decode_mode mode)
{
    const int64_t d = job->shape.head_dim;

    return { t0, n, h0 * d, nh * d, mode };
}

/* The output type Out is float or kvr_bf16. */
template <enum kind K, bool PLAIN, class Out>
static void decode_by(struct kvr_stream *s, const struct chain &c, const struct part &d,
                      const struct grid_buffers &b, Out *out)
{
    if (!d.n || !d.width)
        return;
    if (all_vectorizable(4, &c, d.first, d.width, out, &b))
        decode<variant<uint32_t, K, PLAIN, Out>>(s, c, d, b, out);
    else
        decode<variant<uint8_t, K, PLAIN, Out>>(s, c, d, b, out);
}

template <bool PLAIN, class Out>
static void decode_rotated(struct kvr_stream *s, int head_dim, const struct chain &c,
                           const struct part &d, const struct grid_buffers &b, Out *out)
{
    if (head_dim == 32)
        decode<variant<uint8_t, ROTATED, PLAIN, Out>>(s, c, d, b, out);
    else if (head_dim == 64)
        decode<variant<uint16_t, ROTATED, PLAIN, Out>>(s, c, d, b, out);
    else
        decode<variant<uint32_t, ROTATED, PLAIN, Out>>(s, c, d, b, out);
}

void kvr_grid_decode_cuda(struct kvr_stream *s, const struct kvr_grid *g,
                          const struct kvr_stage_job *job, const void *codes, const void *scales,
                          int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                          float *out)
{
    const struct chain one = chain_of_one(g, job);
    const struct grid_buffers b = { { (void *)codes }, { (void *)scales } };

    if (plain(&one))
        decode_by<ALONE, true>(s, one, part_of(job, t0, n, h0, nh, mode), b, out);
    else
        decode_by<ALONE, false>(s, one, part_of(job, t0, n, h0, nh, mode), b, out);
}

template <class Out>
static bool decode_chain(struct kvr_stream *s, const struct kvr_grid_chain *c,
                         const struct kvr_stage_data *const data[2], int64_t t0, int64_t n, int h0,
                         int nh, Out *out)
{
    const struct chain chain = chain_of(c);
    const struct grid_buffers b = buffers_of(data, c->n);
    const struct part d = part_of(&c->job[0], t0, n, h0, nh, KVR_DECODE_SET);
    const int dim = c->job[0].shape.head_dim;

    if (!c->rotate) {
        const bool of_plain = plain(&chain);

        if (c->n == 1 && of_plain)
            decode_by<ALONE, true>(s, chain, d, b, out);
        else if (c->n == 1)
            decode_by<ALONE, false>(s, chain, d, b, out);
        else if (of_plain)
            decode_by<PAIR, true>(s, chain, d, b, out);
        else
            decode_by<PAIR, false>(s, chain, d, b, out);
        return true;
    }
    if (c->n > 1 || dim < 32 || dim > 128 ||
        !all_vectorizable(dim / 32, &chain, d.first, d.width, out, &b))
        return false;
    if (!n || !d.width)
        return true;
    if (plain(&chain))
        decode_rotated<true>(s, dim, chain, d, b, out);
    else
        decode_rotated<false>(s, dim, chain, d, b, out);
    return true;
}

bool kvr_chain_decode_cuda(struct kvr_stream *s, const struct kvr_grid_chain *c,
                           const struct kvr_stage_data *const data[2], int64_t t0, int64_t n,
                           int h0, int nh, float *out)
{
    return decode_chain(s, c, data, t0, n, h0, nh, out);
}

bool kvr_chain_decode_bf16_cuda(struct kvr_stream *s, const struct kvr_grid_chain *c,
                                const struct kvr_stage_data *const data[2], int64_t t0, int64_t n,
                                int h0, int nh, kvr_bf16 *out)
{
    return decode_chain(s, c, data, t0, n, h0, nh, out);
}

bool kvr_chain_decodes_bf16(const struct kvr_grid_chain *c)
{
    const int d = c->job[0].shape.head_dim;
    const struct kvr_grid *g = &c->grid[0];

    if (!c->rotate)
        return true;
    return c->n == 1 && (d == 32 || d == 64 || d == 128) &&
           (g->axis != KVR_AXIS_CHANNELS || g->group % (d / 32) == 0);
}
