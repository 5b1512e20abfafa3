/* cube_cuda.cu - the stage `cube` on a CUDA device. A cube is a box of tokens that are adjacent in
 * frame, row and column (cube.h). Each thread encodes one channel of one cube, or decodes one
 * element. Sums are accumulated in the same order as on the CPU, so results are bit-identical.
 * Built with -fmad=false. */
#include "methods/codecs/cube/cube.h"

enum { THREADS = 128 };

static __global__ void __launch_bounds__(THREADS)
    cube_encode(struct cube g, kvr_global<float> x, kvr_global<uint8_t> mean)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int64_t at = i / g.channels, c = i % g.channels, size = g.frames * g.rows * g.cols;
    double sum = 0;
    int64_t n = 0;

    if (at >= g.deep * g.down * g.across)
        return;
    for (int64_t j = 0; j < size; j++) {
        const int64_t t = cube_token(&g, at, j);

        if (t >= 0) {
            sum += (double)(float)x[t * g.channels + c];
            n++;
        }
    }
    const unsigned raw = cube_mean(sum, n);
    const float off = cube_value(raw);

    mean[i] = (uint8_t)raw;
    for (int64_t j = 0; j < size; j++) {
        const int64_t t = cube_token(&g, at, j);

        if (t >= 0)
            x[t * g.channels + c] = (float)x[t * g.channels + c] - off;
    }
}

static __global__ void __launch_bounds__(THREADS)
    cube_decode(struct cube g, struct kvr_part d, kvr_global<const uint8_t> mean,
                kvr_global<float> out)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int64_t t = i / d.width, c = i % d.width;

    if (t < d.n)
        out[i] = (float)out[i] +
                 cube_value((unsigned)mean[cube_of(&g, d.t0 + t) * g.channels + d.first + c]);
}

void kvr_cube_encode_cuda(struct kvr_stream *s, const struct cube *g, float *x, void *means)
{
    const int64_t n = g->deep * g->down * g->across * g->channels;

    if (n)
        KVR_LAUNCH(cube_encode, kvr_blocks(n, THREADS), THREADS, 0, s, *g, x, (uint8_t *)means);
}

void kvr_cube_decode_cuda(struct kvr_stream *s, const struct cube *g, const void *codes,
                          const void *means, const struct kvr_part *part, float *out)
{
    (void)codes;
    if (part->n && part->width)
        KVR_LAUNCH(cube_decode, kvr_blocks(part->n * part->width, THREADS), THREADS, 0, s, *g,
                   *part, (const uint8_t *)means, out);
}
