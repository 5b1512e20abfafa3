/* grid_encode_cuda.cu - quantizes values to the integer grids of grid.h on a CUDA device. The CPU
 * reference is grid.c.
 *
 * The kernel grid_encode_tokens encodes groups of consecutive tokens of a channel, for every group
 * size; a thread reads the values of its group twice. The kernel grid_encode_16 encodes groups of
 * 16 tokens, for a single grid, a chain of two grids, or a grid after a rotation; a thread has the
 * values of its group in registers. The kernel grid_encode_token encodes groups that contain all
 * channels of a token. The kernel grid_encode_rows encodes groups of channels within a token.
 *
 * With `hadamard | sym(bits=4)` of F32 values, a kernel that fuses both stages encodes or decodes
 * with 4.6 bytes of memory traffic per element. One kernel per stage would need 20.6 to encode and
 * 12.6 to decode.
 *
 * Codes, scales and zero points are bit-identical to the CPU's, because every rounding is the same
 * (built with -fmad=false). Where the CPU divides by a group's scale, the functions of quotient.h
 * compute the same quotient from the reciprocal of the scale. To find the minimum and the maximum
 * of a group, the kernels compare floats as integers (order_of). Integers have a total order,
 * unlike floats with NaN and -0, so the order of the reduction does not affect the result. */
#include <type_traits>

#include "methods/codecs/grid/grid_rotated.cuh"
#include "methods/codecs/grid/grid_variants.cuh"

/* Type T of the code words of grid_encode_16 if no rotation precedes the grid. A code word has one
 * byte per channel, and a thread stores one code word to each row of a bit plane. With PLAIN
 * (grid_variants.cuh), a thread encodes four channels. Without PLAIN, a thread encodes only one
 * channel, which reduces the size of the machine code. */
template <bool PLAIN> struct codes_of {
    using type = uint32_t;
};
template <> struct codes_of<false> {
    using type = uint8_t;
};

enum {
    /* number of tokens whose values a thread of grid_encode_16 has in registers */
    REG_TOKENS = 16,
    /* maximum number of channels that a CTA of grid_encode_rows encodes, unless a group is wider */
    SPAN = 256,
    /* maximum number of groups that a CTA of grid_encode_rows encodes: a group has at least 8
     * channels, so each of 8 tokens has at most SPAN / 8 groups */
    GROUPS = 8 * SPAN / 8,
    TOKEN_UNITS = 512 /* maximum number of threads in a CTA of grid_encode_token */
};

/* Converts the results of quantize() for N channels to codes, and packs them into a 32-bit word,
 * one byte per code. */
template <int N>
static __device__ __forceinline__ unsigned pack_codes(const struct shape &g, const float (&v)[N])
{
    unsigned u = __float_as_uint(v[0]);

    if (N >= 2)
        u = __byte_perm(u, __float_as_uint(v[1 % N]), 0x0040);
    if (N == 4)
        u = __byte_perm(
            u, __byte_perm(__float_as_uint(v[2 % N]), __float_as_uint(v[3 % N]), 0x0040), 0x5410);
    return u ^ g.flip;
}

/* Encodes groups of g.group consecutive tokens of a channel. Each thread encodes one group, and
 * reads the group's values twice, the second time from the GPU's L1 or L2 cache. */
template <bool PLAIN>
static __global__ void __launch_bounds__(THREADS)
    grid_encode_tokens(struct shape g, unsigned strips, kvr_global<const float> x,
                       kvr_global<uint8_t> codes, kvr_global<kvr_f16> scales)
{
    const int64_t channels = g.planes.channels, b = blockIdx.x / strips;
    const int64_t c = (int64_t)(blockIdx.x % strips) * THREADS + threadIdx.x;
    const int64_t t0 = b * g.group, n_stored = g.planes.n_tok;
    const int64_t end = t0 + g.group < n_stored ? t0 + g.group : n_stored;
    const int64_t have = end < g.n_tok ? end : g.n_tok;
    struct quant_params f;
    int low, high;

    if (c >= channels)
        return;
    low = high = order_of(have < end ? 0.0f : (float)x[t0 * channels + c]);
#pragma unroll 4
    for (int64_t t = t0; t < have; t++) {
        const int v = order_of(x[t * channels + c]);

        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    f = fit<PLAIN>(g, low, high);
    scales[b * channels + c] = f.scale;
    if (g.asym)
        scales[g.n_groups + b * channels + c] = f.zero;
    for (int64_t t = t0; t < end; t += 8) {
        unsigned code[8];

#pragma unroll
        for (int i = 0; i < 8; i++) {
            const float v[1] = { quantize<PLAIN>(
                g, t + i < have ? (float)x[(t + i) * channels + c] : 0.0f, f) };

            code[i] = t + i < end ? pack_codes<1>(g, v) : 0u;
        }
        kvr_store8(g.planes, t / 8, c, code, codes);
    }
}

/* Type of the V channels of one token that a thread has in registers: a vector of V floats, or a
 * vector of V / 2 words that contain two BF16 numbers each. */
template <class X, int V> struct row_of {
    using type = kvr_vec<float, V>;
};
template <int V> struct row_of<kvr_bf16, V> {
    using type = kvr_vec<unsigned, V / 2>;
};

template <int V> static __device__ __forceinline__ float value_at(const kvr_vec<float, V> &x, int j)
{
    float v = x.v[0];

#pragma unroll
    for (int n = 1; n < V; n++)
        v = j == n ? x.v[n] : v;
    return v;
}

template <int P>
static __device__ __forceinline__ float value_at(const kvr_vec<unsigned, P> &x, int j)
{
    const unsigned pair = x.v[j / 2];

    return j % 2 ? kvr_bf16_high(pair) : kvr_bf16_low(pair);
}

template <class X, int V>
static __device__ __forceinline__ void load_row(kvr_vec<float, V> &v, const kvr_vec<X, V> &x)
{
#pragma unroll
    for (int j = 0; j < V; j++)
        v.v[j] = to_float(x.v[j]);
}

template <int P>
static __device__ __forceinline__ void load_row(kvr_vec<unsigned, P> &v,
                                                const kvr_vec<unsigned, P> &x)
{
    v = x;
}

template <int V>
static __device__ __forceinline__ void store_residual(kvr_vec<float, V> &x, int j, float what)
{
    x.v[j] = what;
}

template <int P>
static __device__ __forceinline__ void store_residual(kvr_vec<unsigned, P> &, int, float)
{
}

/* Quantizes x, a group of 16 values from channel j of the thread's channels. The quantized integer
 * of token i becomes byte j of code[i]. If `next` (a second grid follows), the quantization
 * residual of x[i] replaces element j of v[i]. */
template <bool PLAIN, bool CLIPS, class Values>
static __device__ __forceinline__ void
encode_group(const struct shape &g, const struct quant_params &f, const struct dequant &l,
             unsigned selector, bool next, int n_valid, int j, const float (&x)[REG_TOKENS],
             Values (&v)[REG_TOKENS], unsigned (&code)[REG_TOKENS])
{
    const float z = PLAIN || !g.asym ? 0 : l.z;

#pragma unroll
    for (int i = 0; i < REG_TOKENS; i++) {
        const float q = quantize<PLAIN, CLIPS>(g, x[i], f);

        code[i] = j ? __byte_perm(code[i], __float_as_uint(q), selector) : __float_as_uint(q);
        /* the residual is not rounded to BF16, and values of padding tokens remain 0 */
        if (next && (PLAIN || i < n_valid))
            store_residual(v[i], PLAIN ? j : 0, x[i] - fmaf(q - ROUND - z, l.s, l.off));
    }
}

/* Computes the minimum and the maximum of channel j over N tokens, and maps them to integers by
 * order_of(). A BF16 register contains two channels, so the call for the even channel stores the
 * minima of both channels in `least` and their maxima in `most`. The call for the odd channel reads
 * `least` and `most`. */
template <int V, int N>
static __device__ __forceinline__ void range_at(const kvr_vec<float, V> (&v)[N], int j, unsigned &,
                                                unsigned &, int &low, int &high)
{
    float x[N];

#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] = v[i].v[j];
    range_of(bit_range_of(x), low, high);
}

template <int P, int N>
static __device__ __forceinline__ void range_at(const kvr_vec<unsigned, P> (&v)[N], int j,
                                                unsigned &least, unsigned &most, int &low,
                                                int &high)
{
    if (j % 2 == 0) {
        least = most = v[0].v[j / 2];
#pragma unroll
        for (int i = 1; i < N; i++) {
            least = kvr_bf16_choice<false>(least, v[i].v[j / 2]);
            most = kvr_bf16_choice<true>(most, v[i].v[j / 2]);
        }
    }
    low = order_of(j % 2 ? kvr_bf16_high(least) : kvr_bf16_low(least));
    high = order_of(j % 2 ? kvr_bf16_high(most) : kvr_bf16_low(most));
}

/* Quantizes the groups of tokens t0 to t0 + 15 in channels c * V to c * V + V - 1. Of the tokens in
 * v, the first n_valid are not padding. If `next`, each value in v is replaced by its quantization
 * residual, which a second grid then quantizes. Without PLAIN (grid_variants.cuh), the loop over
 * channels is not unrolled, which reduces the size of the machine code. Without PLAIN, a chain of
 * two grids requires V = 1, that is, one channel per thread. */
template <class T, bool PLAIN, class Held>
static __device__ __forceinline__ void
encode_groups(const struct shape &g, int64_t t0, int64_t c, bool next, Held (&v)[REG_TOKENS],
              kvr_global<T> codes, kvr_global<kvr_vec<kvr_f16, sizeof(T)>> scales)
{
    enum { V = sizeof(T) };
    const int64_t units = g.planes.channels / V, group = t0 / REG_TOKENS * units + c;
    const int n_stored = at_most(g.planes.n_tok - t0, REG_TOKENS);
    const int n_valid = at_most(g.n_tok - t0, REG_TOKENS);
    unsigned long long scale_bits = 0, zero_bits = 0;
    kvr_vec<kvr_f16, V> scale, zero;
    unsigned code[REG_TOKENS] = {}, least = 0, most = 0;

#pragma unroll(PLAIN ? V : 1)
    for (int j = 0; j < V; j++) {
        /* With this selector, __byte_perm(u, w, selector) is u with byte j replaced by the low byte
         * of w. */
        const unsigned selector = (0x3210u & ~(15u << 4 * j)) | 4u << 4 * j;
        float x[REG_TOKENS];
        int low, high;

#pragma unroll
        for (int i = 0; i < REG_TOKENS; i++)
            x[i] = value_at(v[i], j);
        if constexpr (PLAIN) {
            range_at(v, j, least, most, low, high);
        } else {
            low = high = order_of(x[0]);
#pragma unroll
            for (int i = 1; i < REG_TOKENS; i++) {
                const int o = i < n_stored ? order_of(x[i]) : low;

                low = o < low ? o : low;
                high = o > high ? o : high;
            }
        }
        const struct quant_params f = fit<PLAIN>(g, low, high);
        const struct dequant l = dequant_of<PLAIN>(g, f.scale, f.zero);

        scale_bits |= (unsigned long long)f.scale << 16 * j;
        zero_bits |= (unsigned long long)f.zero << 16 * j;
        if (PLAIN && !f.clips)
            encode_group<PLAIN, false>(g, f, l, selector, next, n_valid, j, x, v, code);
        else
            encode_group<PLAIN, true>(g, f, l, selector, next, n_valid, j, x, v, code);
    }
#pragma unroll
    for (int j = 0; j < V; j++) {
        scale.v[j] = (kvr_f16)(scale_bits >> 16 * j);
        zero.v[j] = (kvr_f16)(zero_bits >> 16 * j);
    }
    scales[group] = scale;
    if (g.asym)
        scales[g.n_groups / V + group] = zero;
    if (PLAIN && n_stored == REG_TOKENS && store_full<T>(g, t0, c, code, codes))
        return;
    store_tail(g, n_stored, t0, c, code, codes);
}

/* Encodes groups of 16 tokens. Each thread keeps 16 tokens of its channels in registers, so the
 * kernel reads x only once. */
template <class W>
static __global__ void __launch_bounds__(THREADS, W::pair || !W::plain ? 3
                                                  : W::raw             ? 6
                                                  : W::rotated         ? 5
                                                                       : 4)
    grid_encode_16(struct chain chain, unsigned strips,
                   kvr_global<const kvr_vec<typename W::X, sizeof(typename W::T)>> x,
                   kvr_global<typename W::T> codes,
                   kvr_global<kvr_vec<kvr_f16, sizeof(typename W::T)>> scales,
                   kvr_global<typename W::T> codes_2,
                   kvr_global<kvr_vec<kvr_f16, sizeof(typename W::T)>> scales_2)
{
    using T = typename W::T;
    enum { V = sizeof(T) };
    const int64_t units = chain.g[0].planes.channels / V,
                  t0 = (int64_t)(blockIdx.x / strips) * REG_TOKENS;
    const int64_t c = (int64_t)(blockIdx.x % strips) * THREADS + threadIdx.x;
    const int n_valid = at_most(chain.g[0].n_tok - t0, REG_TOKENS);
    using Held = typename row_of<typename std::conditional<W::raw, kvr_bf16, float>::type, V>::type;
    using Read = typename std::conditional<W::raw, Held, kvr_vec<typename W::X, V>>::type;
    const kvr_global<const Read> from = kvr_as<const Read>(x + (t0 * units + c));
    const unsigned row = (unsigned)units;
    Held v[REG_TOKENS];

    if (c >= units)
        return;
    if (n_valid == REG_TOKENS) { /* all 16 tokens exist, so the loads need no condition */
#pragma unroll
        for (int i = 0; i < REG_TOKENS; i++)
            load_row(v[i], (Read)from[row * (unsigned)i]);
    } else {
#pragma unroll
        for (int i = 0; i < REG_TOKENS; i++) {
            Read there = {};

            /* For a token past the end of the block, a PLAIN kernel loads the block's last token
             * again. This duplicate does not change the minimum and maximum of a group, and its
             * code is discarded. Other kernels use 0. */
            if (W::plain || i < n_valid)
                there = from[row * (unsigned)(W::plain && i >= n_valid ? n_valid - 1 : i)];
            load_row(v[i], there);
        }
    }
    if constexpr (W::rotated)
        kvr_fwht_warp<V, REG_TOKENS, false>(v, 32 * V, !W::plain && chain.rotate_bf16,
                                            !W::plain || chain.g[0].asym);
#pragma unroll 1
    for (int n = 0; n <= (int)W::pair; n++)
        encode_groups<T, W::plain>(chain.g[n], t0, c, W::pair && !n, v, n ? codes_2 : codes,
                                   n ? scales_2 : scales);
}

/* Computes the minimum and the maximum of each of 8 tokens over a thread's channels, and maps them
 * to integers as order_of() does. For BF16, only the upper 16 bits of each integer are valid (see
 * extend_order()). */
template <int V>
static __device__ __forceinline__ void ranges_of(const kvr_vec<float, V> (&v)[8], int (&low)[8],
                                                 int (&high)[8])
{
#pragma unroll
    for (int i = 0; i < 8; i++)
        range_of(bit_range_of(v[i].v), low[i], high[i]);
}

static __device__ __forceinline__ void ranges_of(const kvr_vec<unsigned, 2> (&v)[8], int (&low)[8],
                                                 int (&high)[8])
{

#pragma unroll
    for (int i = 0; i < 8; i += 2) {
        unsigned least[2], most[2];

#pragma unroll
        for (int k = 0; k < 2; k++) {
            least[k] = kvr_bf16_choice<false>(v[i + k].v[0], v[i + k].v[1]);
            most[k] = kvr_bf16_choice<true>(v[i + k].v[0], v[i + k].v[1]);
        }
        /* The low and the high half of the words least[k] and most[k] are the extremes of token i+k
         * over its even and its odd channels. Reduce them to one extreme per token: the low halves
         * of l and h belong to token i, and the high halves to token i+1. */
        const unsigned l = kvr_bf16_choice<false>(__byte_perm(least[0], least[1], 0x5410),
                                                  __byte_perm(least[0], least[1], 0x7632));
        const unsigned h = kvr_bf16_choice<true>(__byte_perm(most[0], most[1], 0x5410),
                                                 __byte_perm(most[0], most[1], 0x7632));

        low[i + 1] = (int)kvr_bf16_order(l);
        low[i] = (int)((unsigned)low[i + 1] << 16);
        high[i + 1] = (int)kvr_bf16_order(h);
        high[i] = (int)((unsigned)high[i + 1] << 16);
    }
}

/* Returns the integer to which order_of() maps a float or BF16 number of `size` bytes. For a float,
 * this is `order`. For BF16, only the upper 16 bits of `order` are valid, and the function replaces
 * the lower 16 bits. */
static __device__ __forceinline__ int extend_order(int order, size_t size)
{
    const int low = order < 0 ? 0xffff : 0;

    return size == 2 ? (order & ~0xffff) | low : order;
}

/* Quantizes 8 tokens of a thread's channels. If i >= n_stored, token i is past the last token that
 * is encoded, and code[i] is 0. */
template <bool PLAIN, bool CLIPS, class Params, class Held>
static __device__ __forceinline__ void code_tokens(const struct shape &g, int n_stored,
                                                   const Params &params, const Held (&v)[8],
                                                   unsigned (&code)[8])
{
#pragma unroll
    for (int i = 0; i < 8; i++) {
        code[i] = 0;
        if (i >= n_stored)
            continue;
        const struct quant_params f = params[i];
        float q[4];

#pragma unroll
        for (int j = 0; j < 4; j++)
            q[j] = quantize<PLAIN, CLIPS>(g, value_at(v[i], j), f);
        code[i] = pack_codes<4>(g, q);
    }
}

/* Computes the quantization parameters of the CTA's 8 tokens, one token per thread of warp 0. On
 * entry, low[8 w + i] and high[8 w + i] contain the minimum and the maximum of token i over the
 * channels of warp w. Returns whether any of these tokens needs clipping (quant_params.clips). */
template <class W>
static __device__ __forceinline__ int
fit_tokens(const struct shape &g, int64_t t0, int n_stored, int warps, kvr_shared<int> low,
           kvr_shared<int> high, kvr_shared<struct quant_params> params, kvr_global<kvr_f16> scales)
{
    struct quant_params f = {};

    if ((int)threadIdx.x < n_stored) {
        int least = low[threadIdx.x], most = high[threadIdx.x];

        for (int w = 1; w < warps; w++) {
            const int l = low[8 * w + (int)threadIdx.x], h = high[8 * w + (int)threadIdx.x];

            least = l < least ? l : least;
            most = h > most ? h : most;
        }
        f = fit<W::plain>(g, extend_order(least, sizeof(typename W::X)),
                          extend_order(most, sizeof(typename W::X)));
        params[threadIdx.x] = f;
        scales[t0 + threadIdx.x] = f.scale;
        if (g.asym)
            scales[g.n_groups + t0 + threadIdx.x] = f.zero;
    }
    return __any_sync(~0u, f.clips);
}

/* Encodes groups that contain all channels of a token. A CTA encodes 8 tokens. Each thread has
 * sizeof(T) channels of all 8 tokens in registers, and the CTA has enough warps for all
 * channels. */
template <class W>
static __global__ void __launch_bounds__(TOKEN_UNITS)
    grid_encode_token(struct shape g,
                      kvr_global<const kvr_vec<typename W::X, sizeof(typename W::T)>> x,
                      kvr_global<typename W::T> codes, kvr_global<kvr_f16> scales)
{
    using T = typename W::T;
    enum { V = sizeof(T) };
    KVR_SHARED(int, low, 8 * TOKEN_UNITS / 32);
    KVR_SHARED(int, high, 8 * TOKEN_UNITS / 32);
    KVR_SHARED(struct quant_params, params, 8);
    KVR_SHARED(int, clips, 1);
    const int64_t units = g.planes.channels / V, t0 = (int64_t)blockIdx.x * 8, c = threadIdx.x;
    const int n_stored = at_most(g.planes.n_tok - t0, 8);
    const int n_valid = at_most(g.n_tok - t0, 8);
    const int warp = (int)threadIdx.x / 32, warps = (int)blockDim.x / 32;
    using Held = typename row_of<typename W::X, V>::type;
    const kvr_global<const Held> from = kvr_as<const Held>(x);
    Held v[8];
    unsigned code[8];
    int lo[8], hi[8];

#pragma unroll
    for (int i = 0; i < 8; i++) {
        v[i] = {};
        if (i < n_valid && c < units)
            v[i] = from[(t0 + i) * units + c];
    }
    ranges_of(v, lo, hi);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        lo[i] = __reduce_min_sync(~0u, c < units ? lo[i] : 0x7fffffff);
        hi[i] = __reduce_max_sync(~0u, c < units ? hi[i] : -0x7fffffff - 1);
        if (threadIdx.x % 32 == 0) {
            low[8 * warp + i] = lo[i];
            high[8 * warp + i] = hi[i];
        }
    }
    __syncthreads();
    if (!warp) {
        const int any = fit_tokens<W>(g, t0, n_stored, warps, low, high, params, scales);

        if (!threadIdx.x)
            clips[0] = any;
    }
    __syncthreads();
    if (c >= units)
        return;
    if (W::plain && !clips[0])
        code_tokens<W::plain, false>(g, n_stored, params, v, code);
    else
        code_tokens<W::plain, true>(g, n_stored, params, v, code);
    kvr_store8(planes_of<T>(g), blockIdx.x, c, code, codes);
}

/* One warp computes the minimum and the maximum of a group of `width` values, and maps them to
 * integers by order_of(). If `there` is false, the group belongs to a padding token, whose values
 * are 0. */
template <class T>
static __device__ __forceinline__ void range_of_group(kvr_global<const values<T>> x, int64_t at,
                                                      int width, bool there, int lane, int &low,
                                                      int &high)
{
    enum { V = sizeof(T) };
    int lo = 0x7fffffff, hi = -0x7fffffff - 1;

#pragma unroll 4
    for (int c = lane; c < width / V; c += 32) {
        values<T> x4 = {};

        if (there)
            x4 = x[at + c];
#pragma unroll
        for (int j = 0; j < V; j++) {
            const int v = order_of(x4.v[j]);

            lo = v < lo ? v : lo;
            hi = v > hi ? v : hi;
        }
    }
    low = __reduce_min_sync(~0u, lo);
    high = __reduce_max_sync(~0u, hi);
}

/* Encodes groups of channels within a token. A CTA encodes 8 tokens. In each token, it encodes as
 * many groups as fit into SPAN channels, or one group if a group has at least SPAN channels. One
 * warp computes the minimum and the maximum of each group, and one thread computes the quantization
 * parameters of each group. Then each thread quantizes a few adjacent channels of all 8 tokens. */
template <class W>
static __global__ void __launch_bounds__(THREADS, 5)
    grid_encode_rows(struct shape g, int64_t span, unsigned spans,
                     kvr_global<const values<typename W::T>> x, kvr_global<typename W::T> codes,
                     kvr_global<kvr_f16> scales)
{
    using T = typename W::T;
    enum { V = sizeof(T) };
    KVR_SHARED(int, low, GROUPS);
    KVR_SHARED(int, high, GROUPS);
    KVR_SHARED(struct quant_params, params, GROUPS);
    const int64_t channels = g.planes.channels;
    const int64_t t8 = blockIdx.x / spans, first = (int64_t)(blockIdx.x % spans) * span;
    const int64_t last = channels - first < span ? channels : first + span;
    const int rows = at_most(g.planes.n_tok - 8 * t8, 8);
    /* k is the number of groups that the CTA encodes in each token */
    const int width = (int)g.width, k = (int)(last - first) / width;
    const int n = rows * k, lane = (int)threadIdx.x % 32;

    for (int i = (int)threadIdx.x / 32; i < n; i += WARPS) {
        const int64_t t = 8 * t8 + i / k, at = (t * channels + first + i % k * width) / V;
        int lo, hi;

        range_of_group<T>(x, at, width, t < g.n_tok, lane, lo, hi);
        if (!lane) {
            low[i] = lo;
            high[i] = hi;
        }
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < n; i += THREADS) {
        const struct quant_params f = fit<W::plain>(g, low[i], high[i]);
        const int64_t group = (8 * t8 + i / k) * g.per_token + first / width + i % k;

        params[i] = f;
        scales[group] = f.scale;
        if (g.asym)
            scales[g.n_groups + group] = f.zero;
    }
    __syncthreads();
    for (int64_t c = first / V + threadIdx.x; c < last / V; c += THREADS) {
        const int mine = (int)(c * V - first) / width;
        unsigned code[8];

#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int64_t t = 8 * t8 + i;
            values<T> x4 = {};
            float q[V];

            code[i] = 0;
            if (i >= rows)
                continue;
            if (t < g.n_tok)
                x4 = x[t * (channels / V) + c];
            const struct quant_params f = params[i * k + mine];

#pragma unroll
            for (int j = 0; j < V; j++)
                q[j] = quantize<W::plain>(g, x4.v[j], f);
            code[i] = pack_codes<V>(g, q);
        }
        kvr_store8(planes_of<T>(g), t8, c, code, codes);
    }
}

/* ---- host ---- */

template <class W>
static void encode_16(struct kvr_stream *s, const struct chain &c, const void *x,
                      const struct grid_buffers &b)
{
    using T = typename W::T;
    using scales = kvr_vec<kvr_f16, sizeof(T)>;
    const unsigned strips = kvr_blocks(c.g[0].planes.channels / (int64_t)sizeof(T), THREADS);

    KVR_LAUNCH(grid_encode_16<W>, kvr_blocks(c.g[0].planes.n_tok, REG_TOKENS) * strips, THREADS, 0,
               s, c, strips, (const kvr_vec<typename W::X, sizeof(T)> *)x, (T *)b.codes[0],
               (scales *)b.scales[0], (T *)b.codes[1], (scales *)b.scales[1]);
}

template <class W>
static void encode_token(struct kvr_stream *s, const struct shape &g, const void *x,
                         const struct grid_buffers &b)
{
    using T = typename W::T;
    const unsigned units = (unsigned)(g.planes.channels / (int64_t)sizeof(T));

    KVR_LAUNCH(grid_encode_token<W>, kvr_blocks(g.planes.n_tok, 8), (units + 31) / 32 * 32, 0, s, g,
               (const kvr_vec<typename W::X, sizeof(T)> *)x, (T *)b.codes[0],
               (kvr_f16 *)b.scales[0]);
}

template <class W>
static void encode_rows(struct kvr_stream *s, const struct shape &g, const float *x,
                        const struct grid_buffers &b)
{
    const int64_t span = g.width < SPAN ? SPAN / g.width * g.width : g.width;
    const unsigned spans = kvr_blocks(g.planes.channels, span);
    using T = typename W::T;

    KVR_LAUNCH(grid_encode_rows<W>, kvr_blocks(g.planes.n_tok, 8) * spans, THREADS, 0, s, g, span,
               spans, (const values<T> *)x, (T *)b.codes[0], (kvr_f16 *)b.scales[0]);
}

template <bool PLAIN>
static void encode_tokens(struct kvr_stream *s, const struct shape &g, const float *x,
                          const struct grid_buffers &b)
{
    const unsigned strips = kvr_blocks(g.planes.channels, THREADS);

    KVR_LAUNCH(grid_encode_tokens<PLAIN>, kvr_blocks(g.planes.n_tok, g.group) * strips, THREADS, 0,
               s, g, strips, x, (uint8_t *)b.codes[0], (kvr_f16 *)b.scales[0]);
}

template <bool PLAIN>
static void encode_alone(struct kvr_stream *s, const struct chain &one, const float *x,
                         const struct grid_buffers &b)
{
    const struct shape &g = one.g[0];
    const bool wide = all_vectorizable(4, &one, 0, g.planes.channels, x, &b);

    if (g.axis == KVR_AXIS_TOKEN && wide && g.planes.channels <= 4 * TOKEN_UNITS)
        encode_token<variant<uint32_t, ALONE, PLAIN>>(s, g, x, b);
    else if (g.axis != KVR_AXIS_TOKENS && wide)
        encode_rows<variant<uint32_t, ALONE, PLAIN>>(s, g, x, b);
    else if (g.axis != KVR_AXIS_TOKENS)
        encode_rows<variant<uint8_t, ALONE, PLAIN>>(s, g, x, b);
    /* without PLAIN, a thread of grid_encode_16 loads one channel at a time, so alignment is not
     * needed */
    else if (g.group == REG_TOKENS && (wide || !PLAIN))
        encode_16<variant<typename codes_of<PLAIN>::type, ALONE, PLAIN>>(s, one, x, b);
    else
        encode_tokens<PLAIN>(s, g, x, b);
}

void kvr_grid_encode_cuda(struct kvr_stream *s, const struct kvr_grid *g,
                          const struct kvr_stage_job *job, const float *x, void *codes,
                          void *scales)
{
    const struct chain one = chain_of_one(g, job);
    const struct grid_buffers b = { { codes }, { scales } };

    if (!one.g[0].planes.n_tok || !one.g[0].planes.channels)
        return;
    if (plain(&one))
        encode_alone<true>(s, one, x, b);
    else
        encode_alone<false>(s, one, x, b);
}

/* Both overloads rotate and encode heads of 128 channels: the first one for F32 values x, the
 * second one for BF16 values x. */
template <bool PLAIN>
static void encode_rotated(struct kvr_stream *s, const struct chain &chain, const float *x,
                           const struct grid_buffers &b)
{
    encode_16<variant<uint32_t, ROTATED, PLAIN>>(s, chain, x, b);
}

template <bool PLAIN>
static void encode_rotated(struct kvr_stream *s, const struct chain &chain, const kvr_bf16 *x,
                           const struct grid_buffers &b)
{
    kvr_grid_encode_rotated(s, &chain.g[0], x, b.codes[0], b.scales[0]);
}

/* Launches the kernel that encodes a chain: one grid, or a grid and a second one for its residual.
 * X is the type of the input values. `rotated` is the head dimension if a rotation precedes the
 * grid, otherwise 0. */
template <bool PLAIN, class X>
static void encode_chain(struct kvr_stream *s, const struct chain &chain, int rotated,
                         const void *x, const struct grid_buffers &b)
{
    using T = typename codes_of<PLAIN>::type;

    if (rotated == 32)
        encode_16<variant<uint8_t, ROTATED, PLAIN, X>>(s, chain, x, b);
    else if (rotated == 64)
        encode_16<variant<uint16_t, ROTATED, PLAIN, X>>(s, chain, x, b);
    else if (rotated)
        encode_rotated<PLAIN>(s, chain, (const X *)x, b);
    else if (chain.n == 2)
        encode_16<variant<T, PAIR, PLAIN, X>>(s, chain, x, b);
    else
        encode_16<variant<T, ALONE, PLAIN, X>>(s, chain, x, b);
}

bool kvr_chain_encode_cuda(struct kvr_stream *s, const struct kvr_grid_chain *c,
                           const struct kvr_values *x, const struct kvr_stage_data *const data[2])
{
    const struct chain chain = chain_of(c);
    const struct grid_buffers b = buffers_of(data, c->n);
    const int d = c->job[0].shape.head_dim, few = c->rotate ? d / 32 : 4;
    const int64_t channels = chain.g[0].planes.channels;
    const bool token = c->n == 1 && !c->rotate && c->grid[0].axis == KVR_AXIS_TOKEN && x->bf16 &&
                       channels <= 4 * TOKEN_UNITS;

    for (int i = 0; i < c->n && !token; i++)
        if (c->grid[i].axis != KVR_AXIS_TOKENS || c->grid[i].group != REG_TOKENS)
            return false;
    if ((c->rotate && (c->n > 1 || d < 32 || d > 128)) || (x->bf16 && !plain(&chain)) ||
        !all_vectorizable(few, &chain, 0, channels, x->p, &b))
        return false;
    if (!chain.g[0].planes.n_tok || !channels)
        return true;
    if (token)
        encode_token<variant<uint32_t, ALONE, true, kvr_bf16>>(s, chain.g[0], x->p, b);
    else if (x->bf16)
        encode_chain<true, kvr_bf16>(s, chain, c->rotate ? d : 0, x->p, b);
    else if (plain(&chain))
        encode_chain<true, float>(s, chain, c->rotate ? d : 0, x->p, b);
    else
        encode_chain<false, float>(s, chain, c->rotate ? d : 0, x->p, b);
    return true;
}
