/* nuq_cuda.cu - decoder of the codec `nuq` on a CUDA device. Each thread decodes 8 tokens of one
 * channel. Built with -fmad=false. */
#include "methods/codecs/nuq/nuq.h"

#include "methods/kernels/planes.cuh"

enum { THREADS = 128 };

static __global__ void __launch_bounds__(THREADS)
    nuq_decode(struct nuq g, struct kvr_part d, kvr_global<const uint8_t> codes,
               kvr_global<const uint8_t> params, kvr_global<float> out)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int64_t t8 = d.t0 / 8 + i / d.width, c = i % d.width;
    const struct kvr_planes planes = { g.n_tok, g.channels, g.bits };
    unsigned code[8];

    if (8 * t8 >= d.t0 + d.n)
        return;
    kvr_load8<uint8_t>(planes, t8, d.first + c, codes, code);
    unsigned long long left = kvr_bytes8(code);
#pragma unroll 1
    for (int r = 0; r < 8; r++, left >>= 8) {
        const int64_t t = 8 * t8 + r, to = (t - d.t0) * d.width + c;

        if (t < d.t0 || t >= d.t0 + d.n)
            continue;
        const float v = nuq_value(&g, params, t, d.first + c, (unsigned)left & 255u);

        kvr_part_put(d.mode, out, to, v);
    }
}

void kvr_nuq_decode_cuda(struct kvr_stream *s, const struct nuq *g, const void *codes,
                         const void *params, const struct kvr_part *part, float *out)
{
    const int64_t runs = (part->t0 + part->n + 7) / 8 - part->t0 / 8;

    if (part->n && part->width)
        KVR_LAUNCH(nuq_decode, kvr_blocks(runs * part->width, THREADS), THREADS, 0, s, *g, *part,
                   (const uint8_t *)codes, (const uint8_t *)params, out);
}
