/* ternary_cuda.cu - encoder of the codec `ternary` on a CUDA device. Each thread encodes one group,
 * whose codes fill whole bytes of the bit plane, so no two threads write the same byte. Built with
 * -fmad=false. */
#include "methods/codecs/ternary/ternary.h"

#include "methods/kernels/planes.cuh"

enum { THREADS = 128 };

static __global__ void __launch_bounds__(THREADS)
    ternary_encode(struct ternary g, kvr_global<const float> x, kvr_global<kvr_f16> scales,
                   kvr_global<uint8_t> codes)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int64_t groups = (g.n_tok + g.group - 1) / g.group;
    const int64_t t = i / g.channels * g.group, c = i % g.channels;
    const struct kvr_planes planes = { g.n_tok, g.channels, 2 };

    if (t >= g.n_tok)
        return;
    const float s = ternary_scale(&g, x, t, c), scale = g.scaled || s != s ? s : 1.0f;

    scales[i] = kvr_half_of(scale);
    scales[groups * g.channels + i] = kvr_half_of(-scale);
    for (int64_t t8 = t / 8; t8 < (t + g.group) / 8 && 8 * t8 < g.n_tok; t8++) {
        unsigned code[8];

#pragma unroll
        for (int r = 0; r < 8; r++)
            code[r] =
                8 * t8 + r < g.n_tok ? ternary_code(&g, s, x[(8 * t8 + r) * g.channels + c]) : 0u;
        kvr_store8<uint8_t>(planes, t8, c, code, codes);
    }
}

void kvr_ternary_encode_cuda(struct kvr_stream *s, const struct ternary *g, const float *x,
                             void *codes, void *scales)
{
    const int64_t groups = (g->n_tok + g->group - 1) / g->group * g->channels;

    if (groups)
        KVR_LAUNCH(ternary_encode, kvr_blocks(groups, THREADS), THREADS, 0, s, *g, x,
                   (kvr_f16 *)scales, (uint8_t *)codes);
}
