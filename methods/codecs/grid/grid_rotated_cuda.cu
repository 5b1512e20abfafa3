/* grid_rotated_cuda.cu - Hadamard rotation and quantization of heads of 128 channels, in groups of
 * 16 tokens.
 *
 * A warp encodes 16 tokens of one head. A butterfly of the Hadamard transform combines two channels
 * whose indices differ in one bit, and a thread has only some of the 128 channels. Therefore the
 * transform has two phases, between which the lanes exchange channels. In the first phase (strides
 * 1 to 8), a thread has 16 adjacent channels of four tokens. In the second phase (strides 16 to
 * 64), a thread has every 16th channel of eight tokens, so the 16 tokens of a group belong to two
 * threads. The threads exchange values through the warp's shared memory: one 16-byte store and one
 * 16-byte load per four elements. The transform of fwht.cuh would need five warp shuffles per
 * element instead, one per bit of the lane index. The threads also exchange ranges, scales and
 * codes through this shared memory. Finally, each thread stores the codes of four channels, as in
 * grid_encode_16.
 *
 * All sums and products are rounded as in fwht.h and grid.h. */
#include "methods/codecs/grid/grid_rotated.cuh"

enum {
    D = 128,
    TOKENS = 16,
    WARPS = 4,
    WARP_SMEM = D * TOKENS / 4, /* size of a warp's shared memory, in units of 16 bytes */
    /* In a warp's shared memory, the 16-byte word at index AT_PARAMS + c % 4 * PARAM_STRIDE + c / 4
     * contains the quantization parameters of channel c. The stride is 34 instead of 32 words,
     * because code_groups would otherwise have bank conflicts when lanes load the parameters of
     * adjacent channels. */
    PARAM_STRIDE = 34,
    /* Number of 16-byte words from the codes of tokens 4 * i to 4 * i + 3 to the codes of the next
     * four tokens in a warp's shared memory. The stride is 34 instead of 32 words, because
     * otherwise the stores of lanes 0 to 15 and of lanes 16 to 31 in code_groups would be to the
     * same banks. */
    CODE_STRIDE = 34,
    /* Offset of the quantization parameters in a warp's shared memory, in units of 16 bytes. The
     * partial ranges of all channels precede the parameters, and the codes later overwrite the
     * partial ranges. */
    AT_PARAMS = 2 * D
};

using quad = kvr_vec<float, 4>;
using words = kvr_vec<unsigned, 4>;

/* Loads 16 BF16 channels of a token and converts them to float. */
static __device__ __forceinline__ void channels_of(kvr_global<const words> x, float (&v)[16])
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const words q = x[i];

#pragma unroll
        for (int j = 0; j < 4; j++) {
            v[8 * i + 2 * j] = kvr_bf16_low(q.v[j]);
            v[8 * i + 2 * j + 1] = kvr_bf16_high(q.v[j]);
        }
    }
}

template <int N> static __device__ __forceinline__ void butterflies(float (&v)[N])
{
#pragma unroll
    for (int h = 1; h < N; h *= 2)
#pragma unroll
        for (int i = 0; i < N; i++) {
            if (i & h)
                continue;
            const float a = v[i], b = v[i + h];

            v[i] = a + b;
            v[i + h] = a - b;
        }
}

/* Layout in shared memory of the values that lanes exchange between the two phases: the 16-byte
 * word with the index 4 * c + t contains channel c of tokens 4 * t to 4 * t + 3. A swizzle XORs the
 * low three bits of this index with c / 16 and with c / 2 % 4. The GPU executes 16-byte accesses to
 * shared memory for eight lanes at a time. In the first phase, these eight lanes store channels 16
 * apart; in the second phase, they load adjacent channels. Without the swizzle, both accesses would
 * have bank conflicts. */

/* First phase of the transform: computes the butterflies of strides 1 to 8. A thread transforms
 * channels 16 * p to 16 * p + 15 of tokens 4 * t to 4 * t + 3, relative to the first token and
 * channel of the warp. */
static __device__ __forceinline__ void butterfly_near(kvr_global<const words> from, unsigned row,
                                                      int n_valid, int p, int t,
                                                      kvr_shared<quad> smem)
{
    const int at = 64 * p + (t ^ p);
    float v[4][16];

    /* For a token past the end of the block, the thread loads the block's last token again, because
     * a duplicate does not change the minimum and maximum of a group. */
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int token = 4 * t + i < n_valid ? 4 * t + i : n_valid - 1;

        channels_of(from + row * (unsigned)token, v[i]);
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        butterflies(v[i]);
#pragma unroll
    for (int k = 0; k < 16; k++) {
        const int swizzle = 4 * (k & 1) ^ (k >> 1 & 3);

        smem[(at ^ swizzle) + 4 * (k & ~1)] = { { v[0][k], v[1][k], v[2][k], v[3][k] } };
    }
}

/* Second phase of the transform: computes the butterflies of strides 16 to 64. A thread transforms
 * channels `a`, `a` + 16, ..., `a` + 112 of eight tokens: the first eight of the warp's tokens if
 * `half` is 0, the last eight if `half` is 1. With SURE, infinite results are correct; without
 * SURE, they may become NaN. The kernel sets SURE only for asymmetric grids. In a symmetric grid,
 * both infinity and NaN make the group's scale NaN and its codes minimal, so either value gives the
 * same encoded group. */
template <bool SURE>
static __device__ __forceinline__ void butterfly_far(kvr_shared<quad> smem, int a, int half,
                                                     float (&w)[8][8])
{
    const float norm = sqrtf((float)D), inv = 1 / norm;
    const int at = 4 * (a & ~1) + ((4 * (a & 1) + 2 * half) ^ (a >> 1 & 3));

#pragma unroll
    for (int m = 0; m < 8; m++)
#pragma unroll
        for (int q = 0; q < 2; q++) {
            const quad four = smem[(at ^ m ^ q) + 64 * m];

#pragma unroll
            for (int i = 0; i < 4; i++)
                w[m][4 * q + i] = four.v[i];
        }
#pragma unroll
    for (int t = 0; t < 8; t++) {
        float v[8];

#pragma unroll
        for (int m = 0; m < 8; m++)
            v[m] = w[m][t];
        butterflies(v);
#pragma unroll
        for (int m = 0; m < 8; m++)
            w[m][t] = v[m];
    }
#pragma unroll
    for (int i = 0; i < 64; i++) {
        const float v = w[i / 8][i % 8];

        w[i / 8][i % 8] = SURE ? kvr_quotient(v, norm, inv) : kvr_quotient_finite(v, norm, inv);
    }
}

/* The range of eight of a group's 16 tokens, as in struct bit_range. A symmetric grid needs only
 * two numbers: the largest magnitude of positive values, and the largest magnitude of negative
 * values. */
template <bool ASYM> using partial_range = kvr_vec<unsigned, ASYM ? 4 : 2>;

template <bool ASYM>
static __device__ __forceinline__ void store_partial(const float (&w)[8][8],
                                                     kvr_shared<partial_range<ASYM>> to)
{
#pragma unroll
    for (int m = 0; m < 8; m++) {
        const struct bit_range s = bit_range_of(w[m]);
        partial_range<ASYM> t = { { s.umax, (unsigned)s.smax } };

        if constexpr (ASYM)
            t.v[2] = s.umin;
        to[16 * m] = t;
    }
}

template <int N>
static __device__ __forceinline__ struct bit_range load_partial(const kvr_vec<unsigned, N> &t)
{
    return { N > 2 ? t.v[2 % N] : 0u, t.v[0], (int)t.v[1] };
}

/* Computes the quantization parameters of channels 4 * lane to 4 * lane + 3 from two partial ranges
 * per channel, which store_partial has stored in `smem`. Returns whether any of these groups needs
 * clipping (quant_params.clips). */
template <bool ASYM>
static __device__ __forceinline__ bool fit_groups(const struct shape &g, kvr_shared<quad> smem,
                                                  int lane, int64_t group,
                                                  kvr_global<kvr_vec<kvr_f16, 4>> scales)
{
    const kvr_shared<partial_range<ASYM>> partial = kvr_as<partial_range<ASYM>>(smem);
    kvr_vec<kvr_f16, 4> scale, zero;
    bool clips = false;

#pragma unroll
    for (int j = 0; j < 4; j++) {
        int low, high;

        range_of(merge(load_partial((partial_range<ASYM>)partial[4 * lane + j]),
                       load_partial((partial_range<ASYM>)partial[D + 4 * lane + j])),
                 low, high);
        const struct quant_params f = fit<true>(g, low, high);

        smem[AT_PARAMS + j * PARAM_STRIDE + lane] = { { f.s, f.inv, f.m, 0 } };
        scale.v[j] = f.scale;
        zero.v[j] = f.zero;
        clips = clips || f.clips;
    }
    scales[group] = scale;
    if (g.asym)
        scales[g.n_groups / 4 + group] = zero;
    return clips;
}

/* Quantizes eight tokens of eight channels, and writes the quantized integers to shared memory. The
 * kernel later copies them from shared memory to the encoded block. */
template <bool CLIPS>
static __device__ __forceinline__ void code_groups(const struct shape &g, kvr_shared<quad> smem,
                                                   int a, int half, const float (&w)[8][8])
{
    const kvr_shared<unsigned> codes = kvr_as<unsigned>(smem);

#pragma unroll
    for (int m = 0; m < 8; m++) {
        const quad fit = smem[AT_PARAMS + a % 4 * PARAM_STRIDE + a / 4 + 4 * m];
        struct quant_params f;

        f.s = fit.v[0];
        f.inv = fit.v[1];
        f.m = g.asym ? fit.v[2] : 0.0f;
#pragma unroll
        for (int q = 0; q < 2; q++) {
            unsigned u[4];

#pragma unroll
            for (int i = 0; i < 4; i++)
                u[i] = __float_as_uint(quantize<true, CLIPS>(g, w[m][4 * q + i], f));
            codes[(2 * half + q) * 4 * CODE_STRIDE + 16 * m + a] = __byte_perm(
                __byte_perm(u[0], u[1], 0x0040), __byte_perm(u[2], u[3], 0x0040), 0x5410);
        }
    }
}

/* Transposes the 4 x 4 code bytes of four tokens and four channels. */
static __device__ __forceinline__ void transpose_4x4(const words &of, unsigned *code)
{
    const unsigned a = __byte_perm(of.v[0], of.v[1], 0x5140);
    const unsigned b = __byte_perm(of.v[2], of.v[3], 0x5140);
    const unsigned c = __byte_perm(of.v[0], of.v[1], 0x7362);
    const unsigned d = __byte_perm(of.v[2], of.v[3], 0x7362);

    code[0] = __byte_perm(a, b, 0x5410);
    code[1] = __byte_perm(a, b, 0x7632);
    code[2] = __byte_perm(c, d, 0x5410);
    code[3] = __byte_perm(c, d, 0x7632);
}

/* Rotates and encodes x; each warp encodes 16 tokens of one head. The kernel has one instance for
 * symmetric grids and one for asymmetric grids. */
template <bool ASYM>
static __global__ void __launch_bounds__(WARPS * 32, ASYM ? 4 : 5)
    grid_encode_rotated(struct shape g, unsigned strips, kvr_global<const words> x,
                        kvr_global<uint32_t> codes, kvr_global<kvr_vec<kvr_f16, 4>> scales)
{
    KVR_SHARED(quad, smem_all, WARPS * WARP_SMEM);
    const int heads = (int)(g.planes.channels / D);
    const int64_t t0 = (int64_t)(blockIdx.x / strips) * TOKENS;
    const int head = (int)(blockIdx.x % strips) * WARPS + (int)threadIdx.x / 32;
    const int n_valid = at_most(g.n_tok - t0, TOKENS);
    const kvr_shared<quad> smem = smem_all + (int)threadIdx.x / 32 * WARP_SMEM;
    float w[8][8];

    if (head >= heads)
        return;
    g.asym = ASYM;
    const int lane = (int)threadIdx.x % 32;
    const int64_t unit = head * (D / 4) + lane;

    butterfly_near(x + ((t0 * heads + head) * 16 + lane % 8 * 2), (unsigned)heads * 16, n_valid,
                   lane % 8, lane / 8, smem);
    __syncwarp();
    butterfly_far<ASYM>(smem, lane % 16, lane / 16, w);
    __syncwarp();
    store_partial<ASYM>(w, kvr_as<partial_range<ASYM>>(smem) + D * (lane / 16) + lane % 16);
    __syncwarp();
    const bool clips =
        fit_groups<ASYM>(g, smem, lane, t0 / TOKENS * heads * (D / 4) + unit, scales);

    __syncwarp();
    if (__any_sync(~0u, clips))
        code_groups<true>(g, smem, lane % 16, lane / 16, w);
    else
        code_groups<false>(g, smem, lane % 16, lane / 16, w);
    __syncwarp();
    unsigned code[TOKENS];

#pragma unroll
    for (int q = 0; q < 4; q++)
        transpose_4x4(kvr_as<words>(smem)[q * CODE_STRIDE + lane], code + 4 * q);
    if (n_valid == TOKENS && store_full<uint32_t>(g, t0, unit, code, codes))
        return;
    store_tail(g, n_valid, t0, unit, code, codes);
}

template <bool ASYM>
static void launch(struct kvr_stream *s, const struct shape &g, const void *x, void *codes,
                   void *scales)
{
    const unsigned strips = kvr_blocks(g.planes.channels / D, WARPS);

    KVR_LAUNCH(grid_encode_rotated<ASYM>, kvr_blocks(g.n_tok, TOKENS) * strips, WARPS * 32, 0, s, g,
               strips, (const words *)x, (uint32_t *)codes, (kvr_vec<kvr_f16, 4> *)scales);
}

void kvr_grid_encode_rotated(struct kvr_stream *s, const struct shape *g, const kvr_bf16 *x,
                             void *codes, void *scales)
{
    if (g->asym)
        launch<true>(s, *g, x, codes, scales);
    else
        launch<false>(s, *g, x, codes, scales);
}
