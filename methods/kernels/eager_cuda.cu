/* eager_cuda.cu - implements eager_ops.h on a CUDA device. Every operation is one kernel launch.
 * The CPU reference is eager_cpu.c.
 *
 * A thread of an elementwise or packing kernel processes 4 adjacent elements of a row if row
 * lengths are multiples of 4 and F32 addresses are 16-byte aligned. Otherwise the thread processes
 * 1 element. For an operation in place, x is NULL, and the kernel reads its operand from `out`. */
#include "harness/device/number.cuh"
#include "harness/device/vector.cuh"
#include "methods/kernels/eager_ops.h"
#include "methods/kernels/planes.cuh"

enum { THREADS = 128, WARPS = THREADS / 32 };

static __device__ __forceinline__ float rounded(float x, bool bf16)
{
    return bf16 ? kvr_round_bf16(x) : x;
}

static __device__ __forceinline__ float applied(int op, float x, float a, float b, bool bf16)
{
    float y;

    x = rounded(x, bf16);
    if (op == KVR_EAGER_ABS)
        y = fabsf(x);
    else if (op == KVR_EAGER_NEG)
        y = -x;
    else if (op == KVR_EAGER_ROUND)
        y = rintf(x);
    else if (op == KVR_EAGER_CLAMP)
        y = x > a ? (x > b ? b : x) : x == x ? a : x;
    else if (op == KVR_EAGER_ADD)
        y = x + a;
    else if (op == KVR_EAGER_SUB)
        y = x - a;
    else if (op == KVR_EAGER_MUL)
        y = x * a + 0.0f;
    else
        y = x / a;
    return rounded(y, bf16);
}

template <int N>
static __global__ void __launch_bounds__(THREADS)
    eager_map(int op, int64_t n, float a, float b, bool bf16, bool same,
              kvr_global<const kvr_vec<float, N>> x, kvr_global<kvr_vec<float, N>> out)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i >= n)
        return;
    kvr_vec<float, N> v;

    if (same)
        v = out[i];
    else
        v = x[i];
#pragma unroll
    for (int j = 0; j < N; j++)
        v.v[j] = applied(op, v.v[j], a, b, bf16);
    out[i] = v;
}

/* Returns the index of the group that contains channel c of token t. */
static __device__ __forceinline__ int64_t group_of(const struct kvr_eager_part &p, int64_t t,
                                                   int64_t c)
{
    return p.axis == KVR_AXIS_TOKENS ? (int64_t)((unsigned)t / (unsigned)p.group) * p.channels + c
           : p.axis == KVR_AXIS_CHANNELS ? (t * p.channels + c) / p.group
                                         : t;
}

static __device__ __forceinline__ float number_of(float x)
{
    return x;
}

static __device__ __forceinline__ float number_of(kvr_f16 x)
{
    return kvr_float_of(x);
}

/* Template parameters of eager_zip: a thread processes M elements, and the second operands, one per
 * group, have the type E. */
template <class E, int M> struct way {
    using G = E;
    static constexpr int N = M;
    using T = kvr_vec<float, M>;
};

/* Applies a binary operation to every element and the second operand of the element's group. Each
 * thread processes N channels of one token, and a CTA processes THREADS * N channels of the
 * token. */
template <class W>
static __global__ void __launch_bounds__(THREADS)
    eager_zip(int op, struct kvr_eager_part p, unsigned strips, bool bf16, bool same,
              kvr_global<const typename W::T> x, kvr_global<const typename W::G> g,
              kvr_global<typename W::T> out)
{
    enum { N = W::N };
    const int64_t row = blockIdx.x / strips, units = p.width / N;
    const int64_t c = (int64_t)(blockIdx.x % strips) * THREADS + threadIdx.x;

    if (c >= units)
        return;
    const int64_t i = row * units + c;
    typename W::T v;

    if (same)
        v = out[i];
    else
        v = x[i];
#pragma unroll
    for (int j = 0; j < N; j++)
        v.v[j] = applied(op, v.v[j],
                         rounded(number_of(g[group_of(p, p.t0 + row, p.c0 + c * N + j)]), bf16), 0,
                         bf16);
    out[i] = v;
}

static __device__ __forceinline__ float joined(float a, float b, bool most)
{
    if (!(fabsf(a) < INFINITY) || !(fabsf(b) < INFINITY))
        return NAN;
    return most ? (b > a ? b : a) : b < a ? b : a;
}

/* Computes the minimum or maximum of every group of p.group consecutive tokens of one channel. A
 * thread reduces one group. */
static __global__ void __launch_bounds__(THREADS)
    eager_reduce_tokens(bool most, struct kvr_eager_part p, unsigned strips,
                        kvr_global<const float> x, kvr_global<float> out)
{
    const int64_t block = blockIdx.x / strips, t0 = block * p.group;
    const int64_t c = (int64_t)(blockIdx.x % strips) * THREADS + threadIdx.x;
    const int n = (int)(p.n - t0 < p.group ? p.n - t0 : p.group);

    if (c >= p.channels)
        return;
    float y = joined(x[t0 * p.channels + c], 0.0f, true);

    y = y == y ? x[t0 * p.channels + c] : y;
    for (int i = 1; i < n; i++)
        y = joined(y, x[(t0 + i) * p.channels + c], most);
    out[block * p.channels + c] = y;
}

/* Computes the minimum or maximum of every group of `size` adjacent elements. A warp reduces one
 * group. */
static __global__ void __launch_bounds__(THREADS)
    eager_reduce_rows(bool most, int64_t size, int64_t n_groups, kvr_global<const float> x,
                      kvr_global<float> out)
{
    const int64_t g = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const int lane = (int)threadIdx.x % 32;

    if (g >= n_groups)
        return;
    float y = x[g * size];

    y = fabsf(y) < INFINITY ? y : NAN;
    for (int64_t i = lane; i < size; i += 32)
        y = joined(y, x[g * size + i], most);
#pragma unroll
    for (int h = 16; h; h /= 2)
        y = joined(y, __shfl_xor_sync(~0u, y, h), most);
    if (!lane)
        out[g] = y;
}

static __global__ void __launch_bounds__(THREADS)
    eager_pad(int64_t n, int64_t all, kvr_global<const float> x, kvr_global<float> out)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i >= all)
        return;
    float v = 0;

    if (i < n)
        v = x[i];
    out[i] = v;
}

static __global__ void __launch_bounds__(THREADS)
    eager_half(int64_t n, kvr_f16 nan, kvr_global<const float> x, kvr_global<kvr_f16> out)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i >= n)
        return;
    const float v = x[i];

    out[i] = v == v ? kvr_half_of(v) : nan;
}

/* Packs codes into bit planes. Each thread packs the codes of eight tokens for sizeof(T) adjacent
 * channels. T is the integer type in which planes.cuh stores these codes. */
template <class T>
static __global__ void __launch_bounds__(THREADS)
    eager_pack(struct kvr_planes p, unsigned strips, float plus,
               kvr_global<const kvr_vec<float, sizeof(T)>> x, kvr_global<T> codes)
{
    const int64_t t8 = blockIdx.x / strips;
    const int64_t c = (int64_t)(blockIdx.x % strips) * THREADS + threadIdx.x;
    unsigned code[8];

    if (c >= p.channels)
        return;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        code[i] = 0;
        if (8 * t8 + i >= p.n_tok)
            continue;
        const kvr_vec<float, sizeof(T)> v = x[(8 * t8 + i) * p.channels + c];

#pragma unroll
        for (int j = 0; j < (int)sizeof(T); j++) {
            const float q = v.v[j] + plus;

            code[i] |= (q > 0 ? (unsigned)(int)q : 0u) << 8 * j;
        }
    }
    kvr_store8(p, t8, c, code, codes);
}

template <class T>
static __global__ void __launch_bounds__(THREADS)
    eager_unpack(struct kvr_planes p, struct kvr_eager_part d, unsigned strips, float minus,
                 kvr_global<const T> codes, kvr_global<kvr_vec<float, sizeof(T)>> out)
{
    const int64_t t8 = d.t0 / 8 + blockIdx.x / strips, units = d.width / (int64_t)sizeof(T);
    const int64_t c = (int64_t)(blockIdx.x % strips) * THREADS + threadIdx.x;
    unsigned code[8];

    if (c >= units)
        return;
    kvr_load8(p, t8, d.c0 / (int64_t)sizeof(T) + c, codes, code);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int64_t t = 8 * t8 + i - d.t0;
        kvr_vec<float, sizeof(T)> v;

        if (t < 0 || t >= d.n)
            continue;
#pragma unroll
        for (int j = 0; j < (int)sizeof(T); j++)
            v.v[j] = (float)(code[i] >> 8 * j & 255u) - minus;
        out[t * units + c] = v;
    }
}

/* Computes one stage of the Hadamard transform. A thread processes one butterfly: two elements at a
 * distance of 1 << shift. */
static __global__ void __launch_bounds__(THREADS)
    eager_butterfly(int64_t pairs, int shift, bool bf16, kvr_global<float> x)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, stride = (int64_t)1 << shift;
    const int64_t at = (i >> shift << (shift + 1)) + (i & (stride - 1));

    if (i >= pairs)
        return;
    const float a = x[at], b = x[at + stride];

    x[at] = rounded(a + b, bf16);
    x[at + stride] = rounded(a - b, bf16);
}

/* ---- host ---- */

template <int N>
static void launch_map(struct kvr_stream *s, int op, int64_t n, float a, float b, bool bf16,
                       const float *x, float *out)
{
    KVR_LAUNCH(eager_map<N>, kvr_blocks(n, THREADS), THREADS, 0, s, op, n, a, b, bf16, x == out,
               (const kvr_vec<float, N> *)(x == out ? NULL : x), (kvr_vec<float, N> *)out);
}

static void map(struct kvr_dev *dev, enum kvr_eager_op op, int64_t n, float a, float b, bool bf16,
                const float *x, float *out)
{
    struct kvr_stream *s = kvr_dev_stream(dev);

    if (!n)
        return;
    if (n % 4 == 0 && kvr_aligned(x, 16) && kvr_aligned(out, 16))
        launch_map<4>(s, op, n / 4, a, b, bf16, x, out);
    else
        launch_map<1>(s, op, n, a, b, bf16, x, out);
}

template <class W>
static void launch_zip(struct kvr_stream *s, int op, const struct kvr_eager_part *p, bool bf16,
                       const float *x, const typename W::G *g, float *out)
{
    using T = typename W::T;
    const unsigned strips = kvr_blocks(p->width / W::N, THREADS);

    KVR_LAUNCH(eager_zip<W>, (unsigned)p->n * strips, THREADS, 0, s, op, *p, strips, bf16, x == out,
               (const T *)(x == out ? NULL : x), g, (T *)out);
}

template <class G>
static void zip_by(struct kvr_dev *dev, int op, const struct kvr_eager_part *p, bool bf16,
                   const float *x, const G *g, float *out)
{
    struct kvr_stream *s = kvr_dev_stream(dev);

    if (!p->n || !p->width)
        return;
    if (p->width % 4 == 0 && kvr_aligned(x, 16) && kvr_aligned(out, 16))
        launch_zip<way<G, 4>>(s, op, p, bf16, x, g, out);
    else
        launch_zip<way<G, 1>>(s, op, p, bf16, x, g, out);
}

static void zip(struct kvr_dev *dev, enum kvr_eager_op op, const struct kvr_eager_part *p,
                bool bf16, const float *x, const float *g, float *out)
{
    zip_by(dev, op, p, bf16, x, g, out);
}

static void zip_half(struct kvr_dev *dev, enum kvr_eager_op op, const struct kvr_eager_part *p,
                     bool bf16, const float *x, const kvr_f16 *g, float *out)
{
    zip_by(dev, op, p, bf16, x, g, out);
}

static void reduce(struct kvr_dev *dev, bool most, const struct kvr_eager_part *p, int64_t n_groups,
                   const float *x, float *out)
{
    struct kvr_stream *s = kvr_dev_stream(dev);
    const unsigned strips = kvr_blocks(p->channels, THREADS);

    if (!n_groups)
        return;
    if (p->axis == KVR_AXIS_TOKENS)
        KVR_LAUNCH(eager_reduce_tokens, kvr_blocks(p->n, p->group) * strips, THREADS, 0, s, most,
                   *p, strips, x, out);
    else
        KVR_LAUNCH(eager_reduce_rows, kvr_blocks(n_groups, WARPS), THREADS, 0, s, most,
                   p->axis == KVR_AXIS_TOKEN ? p->channels : p->group, n_groups, x, out);
}

static void pad(struct kvr_dev *dev, int64_t n, int64_t all, const float *x, float *out)
{
    KVR_LAUNCH(eager_pad, kvr_blocks(all, THREADS), THREADS, 0, kvr_dev_stream(dev), n, all, x,
               out);
}

static void half_of(struct kvr_dev *dev, int64_t n, kvr_f16 nan, const float *x, kvr_f16 *out)
{
    if (n)
        KVR_LAUNCH(eager_half, kvr_blocks(n, THREADS), THREADS, 0, kvr_dev_stream(dev), n, nan, x,
                   out);
}

/* Returns whether threads may process four channels at a time: the numbers of channels and the
 * first channel's index are multiples of 4, and addresses are aligned. */
static bool by_four(int64_t channels, int64_t c0, int64_t width, const void *x, const void *codes)
{
    return channels % 4 == 0 && c0 % 4 == 0 && width % 4 == 0 && kvr_aligned(x, 16) &&
           kvr_aligned(codes, 4);
}

template <class T>
static void launch_pack(struct kvr_stream *s, int64_t n_tok, int64_t channels, int bits, float plus,
                        const float *x, uint8_t *codes)
{
    const struct kvr_planes p = { n_tok, channels / (int64_t)sizeof(T), bits };
    const unsigned strips = kvr_blocks(p.channels, THREADS);

    KVR_LAUNCH(eager_pack<T>, kvr_blocks(n_tok, 8) * strips, THREADS, 0, s, p, strips, plus,
               (const kvr_vec<float, sizeof(T)> *)x, (T *)codes);
}

static void pack(struct kvr_dev *dev, int64_t n_tok, int64_t channels, int bits, float plus,
                 const float *x, uint8_t *codes)
{
    struct kvr_stream *s = kvr_dev_stream(dev);

    if (!n_tok || !channels)
        return;
    if (by_four(channels, 0, channels, x, codes))
        launch_pack<uint32_t>(s, n_tok, channels, bits, plus, x, codes);
    else
        launch_pack<uint8_t>(s, n_tok, channels, bits, plus, x, codes);
}

template <class T>
static void launch_unpack(struct kvr_stream *s, int64_t n_tok, int bits,
                          const struct kvr_eager_part *d, float minus, const uint8_t *codes,
                          float *out)
{
    const struct kvr_planes p = { n_tok, d->channels / (int64_t)sizeof(T), bits };
    const unsigned strips = kvr_blocks(d->width / (int64_t)sizeof(T), THREADS);
    const int64_t runs = (d->t0 + d->n + 7) / 8 - d->t0 / 8;

    KVR_LAUNCH(eager_unpack<T>, (unsigned)runs * strips, THREADS, 0, s, p, *d, strips, minus,
               (const T *)codes, (kvr_vec<float, sizeof(T)> *)out);
}

static void unpack(struct kvr_dev *dev, int64_t n_tok, int bits, const struct kvr_eager_part *p,
                   float minus, const uint8_t *codes, float *out)
{
    struct kvr_stream *s = kvr_dev_stream(dev);

    if (!p->n || !p->width)
        return;
    if (by_four(p->channels, p->c0, p->width, out, codes))
        launch_unpack<uint32_t>(s, n_tok, bits, p, minus, codes, out);
    else
        launch_unpack<uint8_t>(s, n_tok, bits, p, minus, codes, out);
}

static void butterfly(struct kvr_dev *dev, int64_t n, int d, int stride, bool bf16, float *x)
{
    int shift = 0;

    (void)d;
    while (1 << shift < stride)
        shift++;
    if (n)
        KVR_LAUNCH(eager_butterfly, kvr_blocks(n / 2, THREADS), THREADS, 0, kvr_dev_stream(dev),
                   n / 2, shift, bf16, x);
}

const struct kvr_eager_ops kvr_eager_cuda = {
    map, zip, zip_half, reduce, pad, half_of, pack, unpack, butterfly,
};
