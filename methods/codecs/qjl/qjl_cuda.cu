/* qjl_cuda.cu - decoder of the codec `qjl` on a CUDA device. Each thread decodes one element, for
 * which the thread generates one column of the random projection S. Built with -fmad=false. */
#include "methods/codecs/qjl/qjl.h"

enum { THREADS = 128 };

static __global__ void __launch_bounds__(THREADS)
    qjl_decode(struct qjl g, struct kvr_part p, kvr_global<const uint8_t> codes,
               kvr_global<const kvr_f16> norm, kvr_global<float> out)
{
    const int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int64_t t = p.t0 + at / p.width, channel = p.first + at % p.width;
    const int64_t head = channel / g.head_dim;
    const int64_t row = t / 8 * g.n_heads * g.head_dim + head * g.head_dim;
    const int c = (int)(channel % g.head_dim);
    int sum = 0;

    if (at >= p.n * p.width)
        return;
    for (int i = 0; i < g.head_dim; i++) {
        const int s = qjl_number(g.seed, i, c);

        sum += (unsigned)codes[row + i] >> (t % 8) & 1u ? s : -s;
    }
    kvr_part_put(p.mode, out, at,
                 qjl_value(&g, cells_load(CELLS_F16, norm[t * g.n_heads + head]), sum));
}

void kvr_qjl_decode_cuda(struct kvr_stream *s, const struct qjl *g, const void *codes,
                         const void *norms, const struct kvr_part *part, float *out)
{
    if (part->n && part->width)
        KVR_LAUNCH(qjl_decode, kvr_blocks(part->n * part->width, THREADS), THREADS, 0, s, *g, *part,
                   (const uint8_t *)codes, (const kvr_f16 *)norms, out);
}
