/* levels_cuda.cu - quantization by a codebook on a CUDA device; the CPU reference is levels.c.
 *
 * Codes and scales are bit-identical to the CPU's, because the operations and their order are the
 * same (built with -fmad=false). A first kernel computes scales, with one warp per group. A second
 * kernel computes codes; each thread encodes 8 tokens of one channel, because 8 codes fill whole
 * bytes of a bit plane. */
#include "harness/device/number.cuh"
#include "methods/codec.h"
#include "methods/kernels/planes.cuh"

enum { THREADS = 128, WARPS = THREADS / 32, MAX_LEVELS = 256 };

/* A codebook, and the shape of the block that it quantizes. */
struct coded {
    struct kvr_planes planes;
    int group;
    bool bf16;
    float top; /* the largest level */
    float level[MAX_LEVELS];
};

static __device__ __forceinline__ float rounded(float x, bool bf16)
{
    return bf16 ? kvr_round_bf16(x) : x;
}

static __global__ void __launch_bounds__(THREADS)
    levels_scales(int64_t groups, int group, float top, kvr_global<const float> x,
                  kvr_global<kvr_f16> scale)
{
    const int64_t g = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const int lane = (int)threadIdx.x % 32;
    int most = 0;

    if (g >= groups)
        return;
    for (int i = lane; i < group; i += 32) {
        const int u = (int)(__float_as_uint(x[g * group + i]) & 0x7fffffffu);

        most = u > most ? u : most;
    }
    most = __reduce_max_sync(~0u, most);
    if (!lane) {
        const kvr_f16 h = kvr_half_of(__uint_as_float((unsigned)most) / top);

        scale[g] = most >= 0x7f800000 ? (kvr_f16)0x7e00 : h < 0x7c00 ? h : (kvr_f16)0x7bff;
    }
}

/* A CTA encodes 8 tokens of a strip of THREADS channels. A token has `strips` strips. The bounds
 * between levels are in shared memory, as the levels are for the decoder: constant memory, which
 * holds kernel arguments, serves one address per cycle, but lanes read different levels. */
static __global__ void __launch_bounds__(THREADS)
    levels_encode(struct coded b, unsigned strips, kvr_global<const float> x,
                  kvr_global<const kvr_f16> scale, kvr_global<uint8_t> codes)
{
    KVR_SHARED(float, bound, MAX_LEVELS);
    const int64_t t8 = blockIdx.x / strips;
    const unsigned c = blockIdx.x % strips * THREADS + threadIdx.x;
    const unsigned channels = (unsigned)b.planes.channels, groups = channels / (unsigned)b.group;
    const unsigned group = c / (unsigned)b.group;
    unsigned code[8];

    for (int i = (int)threadIdx.x; i + 1 < 1 << b.planes.bits; i += THREADS)
        bound[i] = 0.5f * (b.level[i] + b.level[i + 1]);
    __syncthreads();
    if (c >= channels)
        return;
#pragma unroll
    for (int r = 0; r < 8; r++) {
        const int64_t t = 8 * t8 + r;

        code[r] = 0;
        if (t >= b.planes.n_tok)
            continue;
        const float s = kvr_float_of(scale[t * groups + group]);
        const float v = rounded(x[t * channels + c] / (s == 0 ? 1.0f : s), b.bf16);

        for (unsigned half = 1u << (b.planes.bits - 1); half; half /= 2)
            if (v > (float)bound[code[r] + half - 1])
                code[r] += half;
    }
    kvr_store8<uint8_t>(b.planes, t8, c, code, codes);
}

/* The tokens and channels that a kernel decodes: n tokens from token t0 on, and `width` channels
 * from channel `first` on. */
struct part {
    int64_t t0, n, first, width;
    int mode;
};

/* A CTA decodes 8 tokens of a strip of THREADS channels. The range has `strips` strips. */
static __global__ void __launch_bounds__(THREADS)
    levels_decode(struct coded b, struct part d, unsigned strips, kvr_global<const uint8_t> codes,
                  kvr_global<const kvr_f16> scale, kvr_global<float> out)
{
    KVR_SHARED(float, level, MAX_LEVELS);
    const int64_t t8 = d.t0 / 8 + blockIdx.x / strips;
    const unsigned c = blockIdx.x % strips * THREADS + threadIdx.x, at = (unsigned)d.first + c;
    const unsigned groups = (unsigned)b.planes.channels / (unsigned)b.group;
    const unsigned group = at / (unsigned)b.group;
    unsigned code[8];

    for (int i = (int)threadIdx.x; i < 1 << b.planes.bits; i += THREADS)
        level[i] = b.level[i];
    __syncthreads();
    if (c >= d.width)
        return;
    kvr_load8<uint8_t>(b.planes, t8, at, codes, code);
#pragma unroll
    for (int r = 0; r < 8; r++) {
        const int64_t t = 8 * t8 + r, to = (t - d.t0) * d.width + c;

        if (t < d.t0 || t >= d.t0 + d.n)
            continue;
        const float s = kvr_float_of(scale[t * groups + group]);
        const float v = rounded((float)level[code[r] & 255u] * s, b.bf16);

        out[to] = d.mode == KVR_DECODE_SET   ? v
                  : d.mode == KVR_DECODE_ADD ? out[to] + v
                                             : out[to] - v;
    }
}

static struct coded coded_of(const struct kvr_stage_job *job, struct kvr_layout *l)
{
    struct coded b = {};

    job->stage->layout(job, l);
    b.planes.n_tok = l->n_tok;
    b.planes.channels = (int64_t)job->shape.n_heads * job->shape.head_dim;
    b.planes.bits = l->bits;
    b.group = l->group;
    b.bf16 = job->compute == KVR_COMPUTE_BF16;
    for (int i = 0; i < 1 << l->bits; i++)
        b.level[i] = l->level[i];
    b.top = fmaxf(fabsf(b.level[0]), fabsf(b.level[(1 << l->bits) - 1]));
    return b;
}

static enum kvr_status encode(const struct kvr_stage_job *job, float *x, struct kvr_stage_data *out)
{
    struct kvr_stream *s = kvr_dev_stream(job->dev);
    struct kvr_layout l;
    const struct coded b = coded_of(job, &l);

    const unsigned strips = kvr_blocks(b.planes.channels, THREADS);

    if (!l.n_groups)
        return KVR_OK;
    KVR_LAUNCH(levels_scales, kvr_blocks(l.n_groups, WARPS), THREADS, 0, s, l.n_groups, l.group,
               b.top, x, (kvr_f16 *)out->meta.p);
    KVR_LAUNCH(levels_encode, kvr_blocks(l.n_tok, 8) * strips, THREADS, 0, s, b, strips, x,
               (const kvr_f16 *)out->meta.p, (uint8_t *)out->codes.p);
    return KVR_OK;
}

static void decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                   int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out)
{
    const int64_t d = job->shape.head_dim, width = nh * d;
    const int64_t runs = (t0 + n + 7) / 8 - t0 / 8;
    const unsigned strips = kvr_blocks(width, THREADS);
    const struct part part = { t0, n, h0 * d, width, mode };
    struct kvr_layout l;
    const struct coded b = coded_of(job, &l);

    if (n && width)
        KVR_LAUNCH(levels_decode, (unsigned)runs * strips, THREADS, 0, kvr_dev_stream(job->dev), b,
                   part, strips, (const uint8_t *)in->codes.p, (const kvr_f16 *)in->meta.p, out);
}

extern "C" const struct kvr_stage_ops kvr_levels_cuda = { NULL, encode, decode, NULL, NULL };
