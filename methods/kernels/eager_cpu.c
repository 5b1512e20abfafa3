/* eager_cpu.c - implements eager_ops.h by scalar loops, which are the reference for other
 * implementations. */
#include <math.h>
#include <string.h>

#include "methods/kernels/eager_ops.h"
#include "methods/kernels/pack.h"

enum { WORTH_A_TEAM = 1 << 17 /* elements */ };

static float rounded(float x, bool bf16)
{
    return bf16 ? kvr_bf16_to_f32(kvr_f32_to_bf16(x)) : x;
}

static float apply(enum kvr_eager_op op, float x, float a, float b, bool bf16)
{
    float y = 0;

    x = rounded(x, bf16);
    switch (op) {
    case KVR_EAGER_ABS:
        y = fabsf(x);
        break;
    case KVR_EAGER_NEG:
        y = -x;
        break;
    case KVR_EAGER_ROUND:
        y = rintf(x);
        break;
    case KVR_EAGER_CLAMP:
        y = x > a ? (x > b ? b : x) : x == x ? a : x;
        break;
    case KVR_EAGER_ADD:
        y = x + a;
        break;
    case KVR_EAGER_SUB:
        y = x - a;
        break;
    case KVR_EAGER_MUL:
        y = x * a + 0.0f;
        break;
    case KVR_EAGER_DIV:
        y = x / a;
        break;
    }
    return rounded(y, bf16);
}

static void map(struct kvr_dev *dev, enum kvr_eager_op op, int64_t n, float a, float b, bool bf16,
                const float *x, float *out)
{
    (void)dev;
#pragma omp parallel for schedule(static) if (n >= WORTH_A_TEAM)
    for (int64_t i = 0; i < n; i++)
        out[i] = apply(op, x[i], a, b, bf16);
}

static int64_t group_of(const struct kvr_eager_part *p, int64_t t, int64_t c)
{
    t += p->t0;
    c += p->c0;
    return p->axis == KVR_AXIS_TOKENS     ? t / p->group * p->channels + c
           : p->axis == KVR_AXIS_CHANNELS ? (t * p->channels + c) / p->group
                                          : t;
}

static void zip(struct kvr_dev *dev, enum kvr_eager_op op, const struct kvr_eager_part *p,
                bool bf16, const float *x, const float *g, float *out)
{
    (void)dev;
#pragma omp parallel for schedule(static) if (p->n * p->width >= WORTH_A_TEAM)
    for (int64_t t = 0; t < p->n; t++)
        for (int64_t c = 0; c < p->width; c++)
            out[t * p->width + c] =
                apply(op, x[t * p->width + c], rounded(g[group_of(p, t, c)], bf16), 0, bf16);
}

static void zip_half(struct kvr_dev *dev, enum kvr_eager_op op, const struct kvr_eager_part *p,
                     bool bf16, const float *x, const kvr_f16 *g, float *out)
{
    (void)dev;
#pragma omp parallel for schedule(static) if (p->n * p->width >= WORTH_A_TEAM)
    for (int64_t t = 0; t < p->n; t++)
        for (int64_t c = 0; c < p->width; c++)
            out[t * p->width + c] =
                apply(op, x[t * p->width + c], rounded(kvr_f16_to_f32(g[group_of(p, t, c)]), bf16),
                      0, bf16);
}

static float joined(float a, float b, bool most)
{
    if (!isfinite(a) || !isfinite(b))
        return NAN;
    return most ? (b > a ? b : a) : b < a ? b : a;
}

static void reduce(struct kvr_dev *dev, bool most, const struct kvr_eager_part *p, int64_t n_groups,
                   const float *x, float *out)
{
    const bool down = p->axis == KVR_AXIS_TOKENS;
    const int64_t step = down ? p->channels : 1;
    const int64_t size = p->axis == KVR_AXIS_TOKEN ? p->channels : p->group;

    (void)dev;
#pragma omp parallel for schedule(static) if (p->n * p->width >= WORTH_A_TEAM)
    for (int64_t g = 0; g < n_groups; g++) {
        const int64_t t = down ? g / p->channels * p->group : 0;
        const int64_t first = down ? t * p->channels + g % p->channels : g * size;
        const int64_t n = down && p->n - t < size ? p->n - t : size;
        float y = joined(x[first], x[first], most);

        for (int64_t i = 1; i < n; i++)
            y = joined(y, x[first + i * step], most);
        out[g] = y;
    }
}

static void pad(struct kvr_dev *dev, int64_t n, int64_t all, const float *x, float *out)
{
    (void)dev;
    memcpy(out, x, (size_t)n * sizeof *out);
    memset(out + n, 0, (size_t)(all - n) * sizeof *out);
}

static void half(struct kvr_dev *dev, int64_t n, kvr_f16 nan, const float *x, kvr_f16 *out)
{
    (void)dev;
    for (int64_t i = 0; i < n; i++)
        out[i] = isnan(x[i]) ? nan : kvr_f32_to_f16(x[i]);
}

static void pack(struct kvr_dev *dev, int64_t n_tok, int64_t channels, int bits, float plus,
                 const float *x, uint8_t *codes)
{
    (void)dev;
#pragma omp parallel for schedule(static) if (n_tok * channels >= WORTH_A_TEAM)
    for (int64_t t = 0; t < n_tok; t += 8) {
        const int64_t n = n_tok - t < 8 ? n_tok - t : 8;

        for (int64_t c = 0; c < channels; c++) {
            uint8_t code[8];

            for (int64_t i = 0; i < n; i++) {
                const float v = x[(t + i) * channels + c] + plus;

                code[i] = v > 0 ? (uint8_t)(int)v : 0;
            }
            kvr_pack(codes, n_tok, channels, bits, t, n, c, 1, code);
        }
    }
}

static void unpack(struct kvr_dev *dev, int64_t n_tok, int bits, const struct kvr_eager_part *p,
                   float minus, const uint8_t *codes, float *out)
{
    (void)dev;
#pragma omp parallel for schedule(static) if (p->n * p->width >= WORTH_A_TEAM)
    for (int64_t t = 0; t < p->n; t++)
        for (int64_t c = 0; c < p->width; c++) {
            uint8_t code;

            kvr_unpack_token(codes, n_tok, p->channels, bits, p->t0 + t, p->c0 + c, 1, &code);
            out[t * p->width + c] = (float)code - minus;
        }
}

static void butterfly(struct kvr_dev *dev, int64_t n, int d, int stride, bool bf16, float *x)
{
    (void)dev, (void)d; /* 2 stride divides d */
#pragma omp parallel for schedule(static) if (n >= WORTH_A_TEAM)
    for (int64_t at = 0; at < n; at += 2 * stride)
        for (int64_t i = at; i < at + stride; i++) {
            const float a = x[i], b = x[i + stride];

            x[i] = rounded(a + b, bf16);
            x[i + stride] = rounded(a - b, bf16);
        }
}

const struct kvr_eager_ops kvr_eager_cpu = {
    map, zip, zip_half, reduce, pad, half, pack, unpack, butterfly,
};

const struct kvr_eager_ops *kvr_eager_ops_of(const struct kvr_dev *dev)
{
    static const struct kvr_eager_ops *const kinds[KVR_N_BACKENDS] = {
        [KVR_CPU] = &kvr_eager_cpu,
        [KVR_CUDA] = &kvr_eager_cuda,
    };

    return kinds[dev ? kvr_dev_backend(dev) : KVR_CPU];
}
