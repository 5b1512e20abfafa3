/* halves_cuda.cu - the stage `halves` (quantization in FP16 arithmetic, see halves.h) on a CUDA
 * device. Each thread encodes one group, whose codes fill whole bytes of every bit plane. Built
 * with -fmad=false. */
#include "methods/codecs/halves/halves.h"

#include "methods/kernels/planes.cuh"

enum { THREADS = 128 };

static __device__ __forceinline__ struct kvr_planes planes_of(const struct halves &g)
{
    const struct kvr_planes p = { g.padded, g.channels, g.bits };

    return p;
}

static __global__ void __launch_bounds__(THREADS)
    halves_encode(struct halves g, kvr_global<const float> x, kvr_global<float> scales,
                  kvr_global<uint8_t> codes)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, groups = g.padded / g.group;
    const int64_t t = i / g.channels * g.group, c = i % g.channels;

    if (t >= g.padded)
        return;
    const struct halves_fit f = halves_fit(&g, x, t, c);

    scales[i] = f.s;
    scales[groups * g.channels + i] = f.m;
    for (int64_t t8 = t / 8; t8 < (t + g.group) / 8; t8++) {
        unsigned code[8];

#pragma unroll
        for (int r = 0; r < 8; r++) {
            const float v = 8 * t8 + r < g.n_tok ? (float)x[(8 * t8 + r) * g.channels + c] : 0.0f;

            code[r] = halves_code(&g, &f, v);
        }
        kvr_store8<uint8_t>(planes_of(g), t8, c, code, codes);
    }
}

static __global__ void __launch_bounds__(THREADS)
    halves_decode(struct halves g, struct kvr_part d, kvr_global<const uint8_t> codes,
                  kvr_global<const float> scales, kvr_global<float> out)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int64_t t8 = d.t0 / 8 + i / d.width, c = i % d.width, groups = g.padded / g.group;
    unsigned code[8];

    if (8 * t8 >= d.t0 + d.n)
        return;
    kvr_load8<uint8_t>(planes_of(g), t8, d.first + c, codes, code);
    const int64_t at = 8 * t8 / g.group * g.channels + d.first + c;
    struct halves_fit f;

    f.s = scales[at];
    f.m = scales[groups * g.channels + at];
#pragma unroll
    for (int r = 0; r < 8; r++) {
        const int64_t t = 8 * t8 + r, to = (t - d.t0) * d.width + c;
        const float v = halves_value(&f, code[r]);

        if (t < d.t0 || t >= d.t0 + d.n)
            continue;
        kvr_part_put(d.mode, out, to, v);
    }
}

void kvr_halves_encode_cuda(struct kvr_stream *s, const struct halves *g, const float *x,
                            void *codes, void *scales)
{
    const int64_t groups = g->padded / g->group * g->channels;

    if (groups)
        KVR_LAUNCH(halves_encode, kvr_blocks(groups, THREADS), THREADS, 0, s, *g, x,
                   (float *)scales, (uint8_t *)codes);
}

void kvr_halves_decode_cuda(struct kvr_stream *s, const struct halves *g, const void *codes,
                            const void *scales, const struct kvr_part *part, float *out)
{
    const int64_t runs = (part->t0 + part->n + 7) / 8 - part->t0 / 8;

    if (part->n && part->width)
        KVR_LAUNCH(halves_decode, kvr_blocks(runs * part->width, THREADS), THREADS, 0, s, *g, *part,
                   (const uint8_t *)codes, (const float *)scales, out);
}
