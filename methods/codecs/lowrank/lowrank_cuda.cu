/* lowrank_cuda.cu - decoder of the codec `lowrank` on a CUDA device. Each thread decodes one
 * element: the head's mean plus a weighted sum of its basis vectors. Built with -fmad=false. */
#include "methods/codecs/lowrank/lowrank.h"

enum { THREADS = 128 };

static __global__ void __launch_bounds__(THREADS)
    lowrank_decode(struct lowrank g, struct kvr_part p, kvr_global<const kvr_bf16> codes,
                   kvr_global<const kvr_bf16> basis, kvr_global<float> out)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int64_t t = p.t0 + i / p.width, channel = p.first + i % p.width;

    if (t >= p.t0 + p.n)
        return;
    const float v = lowrank_value(&g, codes, basis, t, (int)(channel / g.d), (int)(channel % g.d));

    kvr_part_put(p.mode, out, i, v);
}

void kvr_lowrank_decode_cuda(struct kvr_stream *s, const struct lowrank *g, const void *codes,
                             const void *basis, const struct kvr_part *part, float *out)
{
    if (part->n && part->width)
        KVR_LAUNCH(lowrank_decode, kvr_blocks(part->n * part->width, THREADS), THREADS, 0, s, *g,
                   *part, (const kvr_bf16 *)codes, (const kvr_bf16 *)basis, out);
}
