/* packkv_cuda.cu - decoder of the codec `packkv` on a CUDA device. Each thread decodes one element.
 * To find the element's code, the thread adds the code lengths of the preceding channels of the
 * head. Built with -fmad=false. */
#include "methods/codecs/packkv/packkv.h"

enum { THREADS = 128 };

static __global__ void __launch_bounds__(THREADS)
    packkv_decode(struct packkv g, struct kvr_part p, kvr_global<const uint8_t> codes,
                  kvr_global<const uint8_t> params, kvr_global<float> out)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int64_t t = p.t0 + i / p.width, channel = p.first + i % p.width;
    const int64_t h = channel / g.head_dim, c = channel % g.head_dim;
    const int64_t left = t - g.blocks * PACKKV_BLOCK;

    if (i >= p.n * p.width)
        return;
    if (left >= 0) {
        const unsigned raw = cells_get(codes, 2 * ((left * g.n_heads + h) * g.head_dim + c), 2);

        kvr_part_put(p.mode, out, i, cells_load(CELLS_BF16, raw));
        return;
    }
    const int slot = packkv_slot(&g, params, t);
    const int64_t round = packkv_round_at(&g, params, t / PACKKV_BLOCK, h, slot);
    const float s = cells_load(CELLS_F16, cells_get(params, packkv_scale_at(&g, t), 2));
    const float z = cells_load(CELLS_F16, cells_get(params, packkv_scale_at(&g, t) + 2, 2));
    int64_t bit = packkv_head_bits(&g);

    for (int64_t before = 0; before < c; before++)
        bit += (int64_t)packkv_length(&g, codes, round, before) * PACKKV_ROUND;
    kvr_part_put(
        p.mode, out, i,
        packkv_value(
            packkv_code(&g, codes, round, c, slot, bit, packkv_length(&g, codes, round, c)), s, z));
}

void kvr_packkv_decode_cuda(struct kvr_stream *s, const struct packkv *g, const void *codes,
                            const void *params, const struct kvr_part *part, float *out)
{
    if (part->n && part->width)
        KVR_LAUNCH(packkv_decode, kvr_blocks(part->n * part->width, THREADS), THREADS, 0, s, *g,
                   *part, (const uint8_t *)codes, (const uint8_t *)params, out);
}
