/* vidkv_cuda.cu - decoder of the codec `vidkv` on a CUDA device. Each thread decodes one element.
 * Built with -fmad=false. */
#include "methods/codecs/vidkv/vidkv.h"

enum { THREADS = 128 };

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

static __global__ void __launch_bounds__(THREADS)
    vidkv_decode(struct vidkv g, struct kvr_part p, kvr_global<const uint8_t> codes,
                 kvr_global<const kvr_f16> params, kvr_global<const uint8_t> chosen,
                 kvr_global<float> out)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int64_t t = p.t0 + i / p.width, channel = p.first + i % p.width;
    const int64_t h = channel / g.head_dim;
    const int c = (int)(channel % g.head_dim), n_hard = g.head_dim - g.easy;
    /* number of easy channels (those with the smallest range of values, see vidkv.h) with an index
     * below c */
    int before = 0;

    if (i >= p.n * p.width)
        return;
    for (int j = 0; j < c; j++)
        before += (int)((unsigned)chosen[j / 8] >> (j % 8) & 1u);
    if (!((unsigned)chosen[c / 8] >> (c % 8) & 1u)) {
        kvr_part_put(p.mode, out, i,
                     vidkv_read(g, codes, params, t, h * n_hard + c - before, vidkv_hard(&g), 2));
        return;
    }
    float sum = 0;

    for (int f = 0; f < g.easy; f++) {
        const int a = f * before % g.easy;
        const int64_t at = (h * g.easy + f) * 2, all = vidkv_signs(&g);
        const float re = vidkv_read(g, codes + vidkv_signs_at(&g),
                                    params + vidkv_sign_params_at(&g), t, at, all, 1);
        const float im = vidkv_read(g, codes + vidkv_signs_at(&g),
                                    params + vidkv_sign_params_at(&g), t, at + 1, all, 1);

        sum += re * g.cosine[a] - im * g.sine[a];
    }
    kvr_part_put(p.mode, out, i, sum / (float)g.easy);
}

void kvr_vidkv_decode_cuda(struct kvr_stream *s, const struct vidkv *g, const void *codes,
                           const void *params, const struct kvr_part *part, float *out)
{
    if (part->n && part->width)
        KVR_LAUNCH(vidkv_decode, kvr_blocks(part->n * part->width, THREADS), THREADS, 0, s, *g,
                   *part, (const uint8_t *)codes, (const kvr_f16 *)params,
                   (const uint8_t *)((const kvr_f16 *)params + vidkv_bits_at(g)), out);
}
