/* norm_cuda.cu - the stage `norm` on a CUDA device. A first kernel computes the norm of every
 * token; one thread adds the squares of a token in the same order as the CPU. A second kernel
 * divides every element by the norm, one element per thread. Built with -fmad=false. */
#include "methods/codecs/norm/norm.h"

enum { THREADS = 128, MEASURE_THREADS = 256, TOKENS = 32, CHUNK = 64, STRIDE = CHUNK + 1 };
enum { WARPS = MEASURE_THREADS / 32, ROWS = TOKENS / WARPS }; /* ROWS: rows that a warp loads */

/* A CTA computes the norms of TOKENS tokens. All warps load the next CHUNK channels, while warp 0,
 * with one token per lane, adds the squares of the previous CHUNK channels in channel order. */
static __global__ void __launch_bounds__(MEASURE_THREADS)
    norm_measure(struct norm g, kvr_global<const float> x, kvr_global<kvr_f16> norms)
{
    KVR_SHARED(float, tile, TOKENS *STRIDE);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int64_t t0 = (int64_t)blockIdx.x * TOKENS;
    float next[ROWS][2];
    double sum = 0;

    for (int64_t c0 = 0; c0 < g.channels + CHUNK; c0 += CHUNK) {
        const int64_t left = c0 ? g.channels - (c0 - CHUNK) : 0;
        const int n = left < CHUNK ? (int)left : CHUNK; /* channels of the tile */

#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const int64_t t = t0 + warp * ROWS + r, c = c0 + 32 * i + lane;

                next[r][i] = t < g.n_tok && c < g.channels ? (float)x[t * g.channels + c] : 0.0f;
            }
        if (warp == 0) {
#pragma unroll 8
            for (int c = 0; c < n; c++) {
                const double v = (double)(float)tile[lane * STRIDE + c];

                sum += v * v;
            }
        }
        __syncthreads();
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                tile[(warp * ROWS + r) * STRIDE + 32 * i + lane] = next[r][i];
        __syncthreads();
    }
    if (warp == 0 && t0 + lane < g.n_tok)
        norms[t0 + lane] = (kvr_f16)norm_store(sum);
}

/* A CTA divides a strip of THREADS channels of one token. A token has `strips` strips. */
static __global__ void __launch_bounds__(THREADS)
    norm_divide(struct norm g, unsigned strips, kvr_global<const kvr_f16> norms,
                kvr_global<float> x)
{
    const int64_t t = blockIdx.x / strips;
    const int64_t c = blockIdx.x % strips * THREADS + threadIdx.x, i = t * g.channels + c;

    if (c < g.channels)
        x[i] = (float)x[i] / norm_divisor(norm_value(norms[t]));
}

static __global__ void __launch_bounds__(THREADS)
    norm_decode(struct kvr_part d, unsigned strips, kvr_global<const kvr_f16> norms,
                kvr_global<float> out)
{
    const int64_t t = blockIdx.x / strips;
    const int64_t c = blockIdx.x % strips * THREADS + threadIdx.x, i = t * d.width + c;

    if (c < d.width)
        out[i] = (float)out[i] * norm_value(norms[d.t0 + t]);
}

void kvr_norm_encode_cuda(struct kvr_stream *s, const struct norm *g, float *x, void *norms)
{
    const unsigned strips = kvr_blocks(g->channels, THREADS);

    if (!g->n_tok)
        return;
    KVR_LAUNCH(norm_measure, kvr_blocks(g->n_tok, TOKENS), MEASURE_THREADS, 0, s, *g, x,
               (kvr_f16 *)norms);
    KVR_LAUNCH(norm_divide, (unsigned)g->n_tok * strips, THREADS, 0, s, *g, strips,
               (const kvr_f16 *)norms, x);
}

void kvr_norm_decode_cuda(struct kvr_stream *s, const struct norm *g, const void *codes,
                          const void *norms, const struct kvr_part *part, float *out)
{
    const unsigned strips = kvr_blocks(part->width, THREADS);

    (void)g, (void)codes;
    if (part->n && part->width)
        KVR_LAUNCH(norm_decode, (unsigned)part->n * strips, THREADS, 0, s, *part, strips,
                   (const kvr_f16 *)norms, out);
}
