/* grid_variants.cuh - template parameters and arguments that grid_encode_cuda.cu and
 * grid_decode_cuda.cu share.
 *
 * Each thread processes sizeof(T) channels, because every channel has one byte in a row of a bit
 * plane. The type uint32_t requires that numbers of channels are multiples of four and that
 * addresses are aligned for vector access. With uint32_t, a thread accesses 16 bytes of values or 4
 * bytes of codes at a time. A warp accesses 512 contiguous bytes of values, or 128 contiguous bytes
 * of codes.
 *
 * Every kernel is compiled twice. With PLAIN, a kernel supports only F32 arithmetic, and no methods
 * named NAME@study. Without PLAIN, a kernel also supports BF16 arithmetic and methods named
 * NAME@study. */
#ifndef KVR_METHODS_GRID_VARIANTS_CUH
#define KVR_METHODS_GRID_VARIANTS_CUH

#include "methods/codecs/grid/grid_code.cuh"
#include "methods/codecs/grid/grid_cuda.h"

enum { THREADS = 128, WARPS = THREADS / 32 };

/* A chain of one or two grids. The second grid quantizes the residual of the first. */
struct chain {
    struct shape g[2];
    int n;
    bool rotate_bf16; /* whether the rotation uses BF16 arithmetic */
    bool round;       /* whether the decoder rounds its result to BF16 */
};

template <class T> using values = kvr_vec<float, sizeof(T)>;

/* Kernels have variants for one grid (ALONE), for one grid with a Hadamard rotation of each head by
 * one warp (ROTATED), and for a chain of two grids (PAIR). */
enum kind { ALONE, ROTATED, PAIR };
template <class Codes, enum kind K, bool Plain = true, class In = float> struct variant {
    using T = Codes;
    using X = In;
    static constexpr bool rotated = K == ROTATED, pair = K == PAIR, plain = Plain;
    /* Whether a thread keeps BF16 values in registers, and converts a value to float only when it
     * quantizes the value. */
    static constexpr bool raw = K == ALONE && sizeof(In) == 2;
};

/* Dequantization parameters of a group: a code q is dequantized to (q - z) * s + off, where s is
 * the scale and z the zero point. */
struct dequant {
    float s, z, off;
};

/* Returns the dequantization parameters of a group. Symmetric grids ignore `zero`, and their z is
 * 2^(b-1) for codes of b bits. In asymmetric grids of methods named NAME@study, `zero` is the zero
 * point z, and `off` is 0. In other asymmetric grids, `zero` is the group's minimum, which becomes
 * `off`, and z is 0. */
template <bool PLAIN>
static __device__ __forceinline__ struct dequant dequant_of(const struct shape &g, kvr_f16 scale,
                                                            kvr_f16 zero)
{
    struct dequant l = { kvr_float_of(scale), g.middle, 0 };

    if (g.asym) {
        l.z = !PLAIN && g.study ? kvr_float_of(zero) : 0;
        l.off = !PLAIN && g.study ? 0 : kvr_float_of(zero);
    }
    return l;
}

/* ---- host ---- */

static inline struct shape shape_of(const struct kvr_grid *g, const struct kvr_stage_job *job)
{
    const int64_t channels = (int64_t)job->shape.n_heads * job->shape.head_dim;
    const int64_t n = job->shape.n_tok;
    struct shape s;

    s.planes.n_tok = job->study ? (n + KVR_STUDY_BLOCK - 1) / KVR_STUDY_BLOCK * KVR_STUDY_BLOCK : n;
    s.planes.channels = channels;
    s.planes.bits = g->bits;
    s.n_tok = n;
    s.axis = g->axis;
    s.group = g->group;
    s.width = g->axis == KVR_AXIS_TOKEN ? channels : g->group;
    s.per_token = g->axis == KVR_AXIS_TOKENS ? 0 : channels / s.width;
    s.asym = g->asym;
    s.study = job->study;
    s.bf16 = job->compute == KVR_COMPUTE_BF16;
    s.n_groups = g->axis == KVR_AXIS_TOKENS ? (s.planes.n_tok + g->group - 1) / g->group * channels
                                            : s.planes.n_tok * s.per_token;
    s.inv_half_range = 1.0f / (float)(1 << (g->bits - 1));
    s.middle = g->asym ? 0 : (float)(1 << (g->bits - 1));
    s.q_max = g->asym ? (float)((1 << g->bits) - 1) : s.middle - 1;
    s.q_min = -s.middle;
    s.inv_q_max = 1.0f / s.q_max;
    s.aligned_scales = false;
    s.flip = g->asym ? 0 : 0x01010101u << (g->bits - 1);
    return s;
}

/* Returns whether a thread may access n channels at a time. The kernel accesses channels `first` to
 * `first` + `width` - 1. The integers `first` and `width`, the number of channels, and the width of
 * groups within a token must be multiples of n. The addresses of x, codes and scales must be
 * aligned to the size of n elements. */
static inline bool vectorizable(int n, const struct shape *g, int64_t first, int64_t width,
                                const void *x, const void *codes, const void *scales)
{
    const bool groups = g->axis == KVR_AXIS_TOKENS || g->width % n == 0;

    return groups && g->planes.channels % n == 0 && first % n == 0 && width % n == 0 &&
           kvr_aligned(x, (size_t)n * 4) && kvr_aligned(codes, (size_t)n) &&
           kvr_aligned(scales, (size_t)n * 2);
}

static inline struct chain chain_of_one(const struct kvr_grid *g, const struct kvr_stage_job *job)
{
    struct chain one = {};

    one.g[0] = shape_of(g, job);
    one.n = 1;
    return one;
}

static inline struct chain chain_of(const struct kvr_grid_chain *c)
{
    struct chain chain = {};

    chain.n = c->n;
    chain.rotate_bf16 = c->rotate_compute == KVR_COMPUTE_BF16;
    chain.round = c->round;
    for (int i = 0; i < c->n; i++)
        chain.g[i] = shape_of(&c->grid[i], &c->job[i]);
    return chain;
}

/* Buffers of the codes and scales of a value that is quantized once or twice. The second quantizer,
 * which encodes the residual of the first, has index 1; without it, its pointers are NULL. */
struct grid_buffers {
    void *codes[2], *scales[2];
};

static inline struct grid_buffers buffers_of(const struct kvr_stage_data *const data[2], int n)
{
    struct grid_buffers b = {};

    for (int i = 0; i < n; i++) {
        b.codes[i] = data[i]->codes.p;
        b.scales[i] = data[i]->meta.p;
    }
    return b;
}

static inline bool all_vectorizable(int n, const struct chain *c, int64_t first, int64_t width,
                                    const void *x, const struct grid_buffers *b)
{
    bool all = true;

    for (int i = 0; i < c->n; i++)
        all = all && vectorizable(n, &c->g[i], first, width, x, b->codes[i], b->scales[i]);
    return all;
}

/* Returns whether the kernels with template argument PLAIN can encode the chain c (a rotation and
 * one or two grids). They need F32 arithmetic, and they lack the study's variant of the codes,
 * which methods whose name ends in @study use. */
static inline bool plain(const struct chain *c)
{
    bool all = !c->rotate_bf16;

    for (int i = 0; i < c->n; i++)
        all = all && !c->g[i].study && !c->g[i].bf16;
    return all;
}

#endif
