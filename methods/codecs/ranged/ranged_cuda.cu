/* ranged_cuda.cu - decoder of the codec `ranged` (entropy-coded) on a CUDA device. Each thread
 * decodes one channel of one segment of RANGED_SEGMENT tokens. Built with -fmad=false. */
#include "methods/codecs/ranged/ranged.h"

enum { THREADS = 64 };

static __global__ void __launch_bounds__(THREADS)
    ranged_decode(struct ranged g, struct kvr_part p, kvr_global<const uint8_t> codes,
                  kvr_global<const uint8_t> params, kvr_global<float> out)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int64_t segment = p.t0 / RANGED_SEGMENT + i / p.width, c = i % p.width;
    const int64_t begin = segment * RANGED_SEGMENT, channel = p.first + c;
    const int64_t at = segment * g.channels + channel;

    if (begin >= p.t0 + p.n)
        return;
    const int64_t from = at ? (int64_t)cells_get(params, 4 * (at - 1), 4) : 0;
    const int64_t end = (int64_t)cells_get(params, 4 * at, 4);
    struct ranged_reader r = ranged_open(codes, from, end - from);

    for (int64_t t = begin; t < p.t0 + p.n && t < begin + RANGED_SEGMENT; t++) {
        const int symbol = ranged_next(&g, codes, params, channel, &r);
        const int64_t to = (t - p.t0) * p.width + c;

        if (t < p.t0)
            continue;
        const float v = ranged_value(
            &g, symbol, cells_load(CELLS_BF16, cells_get(params, ranged_size_at(&g, t), 2)));

        kvr_part_put(p.mode, out, to, v);
    }
}

void kvr_ranged_decode_cuda(struct kvr_stream *s, const struct ranged *g, const void *codes,
                            const void *params, const struct kvr_part *part, float *out)
{
    const int64_t last = (part->t0 + part->n - 1) / RANGED_SEGMENT;
    const int64_t segments = last - part->t0 / RANGED_SEGMENT + 1;

    if (part->n && part->width)
        KVR_LAUNCH(ranged_decode, kvr_blocks(segments * part->width, THREADS), THREADS, 0, s, *g,
                   *part, (const uint8_t *)codes, (const uint8_t *)params, out);
}
