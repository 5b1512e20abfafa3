/* norm_cuda.cu - the stage `norm` on a CUDA device. A first kernel computes the norm of every
 * token, one token per thread, and adds squares in the same order as the CPU. A second kernel
 * divides every element by the norm, one element per thread. Built with -fmad=false. */
#include "methods/codecs/norm/norm.h"

enum { THREADS = 128 };

static __global__ void __launch_bounds__(THREADS)
    norm_measure(struct norm g, kvr_global<const float> x, kvr_global<kvr_f16> norms)
{
    const int64_t t = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    double sum = 0;

    if (t >= g.n_tok)
        return;
    for (int64_t c = 0; c < g.channels; c++)
        sum += (double)(float)x[t * g.channels + c] * (double)(float)x[t * g.channels + c];
    norms[t] = (kvr_f16)norm_store(sum);
}

static __global__ void __launch_bounds__(THREADS)
    norm_divide(struct norm g, kvr_global<const kvr_f16> norms, kvr_global<float> x)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < g.n_tok * g.channels)
        x[i] = (float)x[i] / norm_divisor(norm_value(norms[i / g.channels]));
}

static __global__ void __launch_bounds__(THREADS)
    norm_decode(struct kvr_part d, kvr_global<const kvr_f16> norms, kvr_global<float> out)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < d.n * d.width)
        out[i] = (float)out[i] * norm_value(norms[d.t0 + i / d.width]);
}

void kvr_norm_encode_cuda(struct kvr_stream *s, const struct norm *g, float *x, void *norms)
{
    if (!g->n_tok)
        return;
    KVR_LAUNCH(norm_measure, kvr_blocks(g->n_tok, THREADS), THREADS, 0, s, *g, x, (kvr_f16 *)norms);
    KVR_LAUNCH(norm_divide, kvr_blocks(g->n_tok * g->channels, THREADS), THREADS, 0, s, *g,
               (const kvr_f16 *)norms, x);
}

void kvr_norm_decode_cuda(struct kvr_stream *s, const struct norm *g, const void *codes,
                          const void *norms, const struct kvr_part *part, float *out)
{
    (void)g, (void)codes;
    if (part->n && part->width)
        KVR_LAUNCH(norm_decode, kvr_blocks(part->n * part->width, THREADS), THREADS, 0, s, *part,
                   (const kvr_f16 *)norms, out);
}
