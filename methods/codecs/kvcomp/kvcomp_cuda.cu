/* kvcomp_cuda.cu - decoder of the codec `kvcomp` on a CUDA device. Each thread decodes the bit
 * stream of one vector: one head of one token. Built with -fmad=false. */
#include "methods/codecs/kvcomp/kvcomp.h"

enum { THREADS = 64 };

static __global__ void __launch_bounds__(THREADS)
    kvcomp_decode(struct kvcomp g, struct kvr_part p, kvr_global<const uint8_t> codes,
                  kvr_global<const uint8_t> params, kvr_global<float> out)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, d = g.head_dim;
    const int64_t heads = p.width / d, t = p.t0 + i / heads, h = p.first / d + i % heads;
    const int64_t left = t - g.blocks * KVCOMP_BLOCK, to = (t - p.t0) * p.width + i % heads * d;
    int64_t at;

    if (t >= p.t0 + p.n)
        return;
    if (left >= 0) {
        for (int64_t c = 0; c < d; c++)
            kvr_part_put(
                p.mode, out, to + c,
                cells_load(CELLS_BF16, cells_get(codes, 2 * ((left * g.n_heads + h) * d + c), 2)));
        return;
    }
    const struct kvcomp_code k = kvcomp_open(params);
    int64_t bit = kvcomp_find(&g, params, t, h, &at);
    const float s = cells_load(CELLS_F16, cells_get(params, kvcomp_scale_at(&g, t), 2));
    const float z = cells_load(CELLS_F16, cells_get(params, kvcomp_scale_at(&g, t) + 2, 2));

    for (int64_t c = 0; c < d; c++)
        kvr_part_put(p.mode, out, to + c,
                     packkv_value((unsigned)kvcomp_next(&k, codes, at, &bit), s, z));
}

void kvr_kvcomp_decode_cuda(struct kvr_stream *s, const struct kvcomp *g, const void *codes,
                            const void *params, const struct kvr_part *part, float *out)
{
    if (part->n && part->width)
        KVR_LAUNCH(kvcomp_decode, kvr_blocks(part->n * (part->width / g->head_dim), THREADS),
                   THREADS, 0, s, *g, *part, (const uint8_t *)codes, (const uint8_t *)params, out);
}
