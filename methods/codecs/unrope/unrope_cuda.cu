/* unrope_cuda.cu - the stage `unrope` on a CUDA device. Each thread rotates one channel pair of one
 * token in all heads. Built with -fmad=false. */
#include "methods/codecs/unrope/unrope.h"

enum { THREADS = 128 };

static __global__ void __launch_bounds__(THREADS)
    unrope_rotate(struct unrope g, struct kvr_part d, bool back, kvr_global<const int32_t> list,
                  kvr_global<float> x)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int pairs = g.d / 2, p = (int)(i % pairs);
    const int64_t t = i / pairs;
    double cosine, sine;

    if (t >= d.n)
        return;
    const int64_t token = g.list ? (int64_t)(int32_t)list[d.t0 + t] : g.tok0 + d.t0 + t;

    unrope_angle((double)unrope_position(&g, token, p) * g.rate[p], &cosine, &sine);
    for (int64_t at = t * d.width + 2 * p; at < (t + 1) * d.width; at += g.d) {
        float a = x[at], b = x[at + 1];

        unrope_pair(cosine, back ? -sine : sine, &a, &b);
        x[at] = a;
        x[at + 1] = b;
    }
}

void kvr_unrope_rotate_cuda(struct kvr_stream *s, const struct unrope *g,
                            const struct kvr_part *part, bool back, float *x)
{
    const int64_t n = part->n * (g->d / 2);

    if (n && part->width)
        KVR_LAUNCH(unrope_rotate, kvr_blocks(n, THREADS), THREADS, 0, s, *g, *part, back, g->list,
                   x);
}
