/* vidkv_cuda.cu - decoder of the codec `vidkv` on a CUDA device. Each thread decodes one channel of
 * 8 tokens. Built with -fmad=false. */
#include "methods/codecs/vidkv/vidkv.h"

enum { THREADS = 128, TOKENS = 8 };

struct complex {
    float re, im;
};

/* Dequantizes a code q of `bits` bits to q s + m, with the scale s and the minimum m of the code's
 * group. The code q belongs to token t and to its channel with the index `at`; `all` is the number
 * of channels of a token. */
static __device__ __forceinline__ float vidkv_read(const struct vidkv &g,
                                                   kvr_global<const uint8_t> codes,
                                                   kvr_global<const kvr_f16> params, int64_t t,
                                                   int64_t at, int64_t all, int bits)
{
    const int per = 8 / bits;
    const unsigned q =
        (unsigned)codes[t / per * all + at] >> (t % per * bits) & ((1u << bits) - 1u);
    const int64_t i = t / g.group * all + at;

    return (float)q * kvr_float_of(params[i]) + kvr_float_of(params[vidkv_groups(&g) * all + i]);
}

/* Returns the number of easy channels (those with the smallest range of values, see vidkv.h) with
 * an index below c. Bit i % 32 of easy[i / 32] states whether channel i is easy. */
static __device__ __forceinline__ int rank_of(kvr_shared<unsigned> easy, int c)
{
    int rank = __popc(easy[c / 32] & ((1u << (c % 32)) - 1u));

    for (int w = 0; w < c / 32; w++)
        rank += __popc(easy[w]);
    return rank;
}

/* Decodes easy channel number j of TOKENS tokens: element j of the inverse DFT of the coefficients
 * X, which are complex numbers [TOKENS][easy]. Of the table, element i has the cosine and the sine
 * of the angle 2 pi i / easy. */
static __device__ __forceinline__ void inverse(const struct vidkv &g, int j,
                                               kvr_shared<struct complex> X,
                                               kvr_shared<struct complex> table,
                                               float (&sum)[TOKENS])
{
    int a = 0; /* f j % easy */

#pragma unroll
    for (int r = 0; r < TOKENS; r++)
        sum[r] = 0;
    for (int f = 0; f < g.easy; f++) {
        const struct complex turn = table[a];

#pragma unroll
        for (int r = 0; r < TOKENS; r++) {
            const struct complex v = X[r * g.easy + f];

            sum[r] += v.re * turn.re - v.im * turn.im;
        }
        a += j;
        a -= a >= g.easy ? g.easy : 0;
    }
#pragma unroll
    for (int r = 0; r < TOKENS; r++)
        sum[r] /= (float)g.easy;
}

/* A CTA decodes one head of TOKENS tokens: first the coefficients of the easy channels to shared
 * memory, then one channel per thread. */
static __global__ void __launch_bounds__(THREADS)
    vidkv_decode(struct vidkv g, struct kvr_part p, kvr_global<const uint8_t> codes,
                 kvr_global<const kvr_f16> params, kvr_global<const uint8_t> chosen,
                 kvr_global<float> out)
{
    KVR_SHARED(struct complex, X, TOKENS * VIDKV_MAX_EASY);
    KVR_SHARED(struct complex, table, VIDKV_MAX_EASY);
    KVR_SHARED(unsigned, easy, VIDKV_MAX_DIM / 32);
    const unsigned heads = (unsigned)(p.width / g.head_dim), head = blockIdx.x % heads;
    const int64_t h = p.first / g.head_dim + head,
                  t0 = p.t0 + (int64_t)(blockIdx.x / heads) * TOKENS;
    const int64_t left = p.t0 + p.n - t0;
    const int n = left < TOKENS ? (int)left : TOKENS, bytes = (g.head_dim + 7) / 8;

#pragma unroll 1
    for (int i = (int)threadIdx.x; i < (bytes + 3) / 4; i += THREADS)
        easy[i] = cells_get(chosen, 4 * i, bytes - 4 * i < 4 ? bytes - 4 * i : 4);
    for (int i = (int)threadIdx.x; i < g.easy; i += THREADS) {
        const struct complex turn = { g.cosine[i], g.sine[i] };

        table[i] = turn;
#pragma unroll 2
        for (int r = 0; r < TOKENS; r++) {
            struct complex v = { 0, 0 };

            if (r < n) {
                const int64_t at = (h * g.easy + i) * 2, all = vidkv_signs(&g);
                kvr_global<const uint8_t> signs = codes + vidkv_signs_at(&g);
                kvr_global<const kvr_f16> of = params + vidkv_sign_params_at(&g);

                v.re = vidkv_read(g, signs, of, t0 + r, at, all, 1);
                v.im = vidkv_read(g, signs, of, t0 + r, at + 1, all, 1);
            }
            X[r * g.easy + i] = v;
        }
    }
    __syncthreads();
    for (int c = (int)threadIdx.x; c < g.head_dim; c += THREADS) {
        const int j = rank_of(easy, c);
        const bool hard = !(easy[c / 32] >> (c % 32) & 1u);
        const int64_t at = h * (g.head_dim - g.easy) + c - j;
        const int64_t to = (t0 - p.t0) * p.width + (int64_t)head * g.head_dim + c;
        float v[TOKENS];

        if (hard) {
#pragma unroll 2
            for (int r = 0; r < n; r++)
                kvr_part_put(p.mode, out, to + r * p.width,
                             vidkv_read(g, codes, params, t0 + r, at, vidkv_hard(&g), 2));
            continue;
        }
        inverse(g, j, X, table, v);
#pragma unroll
        for (int r = 0; r < TOKENS; r++)
            if (r < n)
                kvr_part_put(p.mode, out, to + r * p.width, v[r]);
    }
}

void kvr_vidkv_decode_cuda(struct kvr_stream *s, const struct vidkv *g, const void *codes,
                           const void *params, const struct kvr_part *part, float *out)
{
    if (part->n && part->width)
        KVR_LAUNCH(vidkv_decode,
                   kvr_blocks(part->n, TOKENS) * (unsigned)(part->width / g->head_dim), THREADS, 0,
                   s, *g, *part, (const uint8_t *)codes, (const kvr_f16 *)params,
                   (const uint8_t *)((const kvr_f16 *)params + vidkv_bits_at(g)), out);
}
