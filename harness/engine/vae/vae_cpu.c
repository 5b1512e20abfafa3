/* vae_cpu.c - the reference implementation of vae_ops.h on the CPU, and the selection of a device's
 * table of operations. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "harness/core/onednn.h"
#include "harness/core/onednn_guard.h"
#include "harness/engine/vae/vae_ops.h"

enum { QUERIES = 64 }; /* queries per call */

/* Returns element i of x as F32. The functions that use it are compiled once per type. */
static inline float get(enum kvr_dtype type, const void *x, int64_t i)
{
    return type == KVR_BF16 ? kvr_bf16_to_f32(((const kvr_bf16 *)x)[i]) : ((const float *)x)[i];
}

static inline void put(enum kvr_dtype type, void *x, int64_t i, float v)
{
    if (type == KVR_BF16)
        ((kvr_bf16 *)x)[i] = kvr_f32_to_bf16(v);
    else
        ((float *)x)[i] = v;
}

static inline void norm_as(enum kvr_dtype type, int64_t n, int channels, bool silu, const void *x,
                           const float *gamma, void *y)
{
    const float root = sqrtf((float)channels);

#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = i * channels;
        double sum = 0;
        float scale;

        for (int c = 0; c < channels; c++) {
            const double v = (double)get(type, x, at + c);

            sum += v * v;
        }
        scale = root / (float)fmax(sqrt(sum), 1e-12);
        for (int c = 0; c < channels; c++) {
            const float u = get(type, x, at + c) * scale * gamma[c];

            put(type, y, at + c, silu ? u / (1.0f + expf(-u)) : u);
        }
    }
}

static void norm(struct kvr_dev *dev, int64_t n, int channels, bool silu, const void *x,
                 const float *gamma, void *y)
{
    (void)dev;
    norm_as(KVR_F32, n, channels, silu, x, gamma, y);
}

static void norm_bf16(struct kvr_dev *dev, int64_t n, int channels, bool silu, const void *x,
                      const float *gamma, void *y)
{
    (void)dev;
    norm_as(KVR_BF16, n, channels, silu, x, gamma, y);
}

static inline void add_as(enum kvr_dtype type, int64_t n, const void *y, void *x)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++)
        put(type, x, i, get(type, x, i) + get(type, y, i));
}

static void add(struct kvr_dev *dev, int64_t n, const void *y, void *x)
{
    (void)dev;
    add_as(KVR_F32, n, y, x);
}

static void add_bf16(struct kvr_dev *dev, int64_t n, const void *y, void *x)
{
    (void)dev;
    add_as(KVR_BF16, n, y, x);
}

static void rectify(struct kvr_dev *dev, int64_t n, const float *y, float *x)
{
    (void)dev;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const float v = y ? x[i] + y[i] : x[i];

        x[i] = v < 0 ? 0.0f : v;
    }
}

static inline void spread_as(enum kvr_dtype type, int h, int w, int in, int out, int times,
                             int which, const void *from, void *to)
{
    const int repeats = out * times * 4 / in;

#pragma omp parallel for schedule(static)
    for (int y = 0; y < 2 * h; y++)
        for (int x = 0; x < 2 * w; x++) {
            const int64_t pixel = ((int64_t)(y / 2) * w + x / 2) * in;
            const int64_t row = ((int64_t)y * 2 * w + x) * out;
            const int channel = which * 4 + y % 2 * 2 + x % 2;

            for (int c = 0; c < out; c++)
                put(type, to, row + c,
                    get(type, to, row + c) +
                        get(type, from, pixel + (c * times * 4 + channel) / repeats));
        }
}

static void spread(struct kvr_dev *dev, int h, int w, int in, int out, int times, int which,
                   const void *from, void *to)
{
    (void)dev;
    spread_as(KVR_F32, h, w, in, out, times, which, from, to);
}

static void spread_bf16(struct kvr_dev *dev, int h, int w, int in, int out, int times, int which,
                        const void *from, void *to)
{
    (void)dev;
    spread_as(KVR_BF16, h, w, in, out, times, which, from, to);
}

static inline void unpatch_as(enum kvr_dtype type, int h, int w, const void *from, void *to)
{
#pragma omp parallel for schedule(static)
    for (int y = 0; y < 2 * h; y++)
        for (int x = 0; x < 2 * w; x++) {
            const int64_t pixel = ((int64_t)(y / 2) * w + x / 2) * 12;

            for (int c = 0; c < 3; c++)
                put(type, to, ((int64_t)y * 2 * w + x) * 3 + c,
                    get(type, from, pixel + (c * 2 + x % 2) * 2 + y % 2));
        }
}

static void unpatch(struct kvr_dev *dev, int h, int w, const void *from, void *to)
{
    (void)dev;
    unpatch_as(KVR_F32, h, w, from, to);
}

static void unpatch_bf16(struct kvr_dev *dev, int h, int w, const void *from, void *to)
{
    (void)dev;
    unpatch_as(KVR_BF16, h, w, from, to);
}

static void patch(struct kvr_dev *dev, int h, int w, const float *from, float *to)
{
    (void)dev;
#pragma omp parallel for schedule(static)
    for (int y = 0; y < 2 * h; y++)
        for (int x = 0; x < 2 * w; x++) {
            float *pixel = to + ((int64_t)(y / 2) * w + x / 2) * 12;

            for (int c = 0; c < 3; c++)
                pixel[(c * 2 + x % 2) * 2 + y % 2] = from[((int64_t)y * 2 * w + x) * 3 + c];
        }
}

static void halve(struct kvr_dev *dev, int h, int w, int channels, const float *from, float *to)
{
    (void)dev;
#pragma omp parallel for schedule(static)
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            memcpy(to + ((int64_t)y * w + x) * channels,
                   from + ((int64_t)(2 * y + 1) * 2 * w + 2 * x + 1) * channels,
                   (size_t)channels * sizeof *to);
}

static void gather(struct kvr_dev *dev, int h, int w, int in, int out, int times, const float *from,
                   float *to)
{
    const int factor = times * 4, group = in * factor / out;

    (void)dev;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < (int64_t)h * w; i++) {
        const float *corner = from + (i / w * 4 * w + i % w * 2) * in;

        for (int o = 0; o < out; o++) {
            float sum = 0;

            for (int e = o * group; e < (o + 1) * group; e++)
                if (e % factor >= factor - 4)
                    sum += corner[((int64_t)(e % 4 / 2) * 2 * w + e % 2) * in + e / factor];
            to[i * out + o] += sum / (float)group;
        }
    }
}

/* Computes attention of the query pixels [first, first + m) over all n pixels, with output o [m,
 * d]. */
static dnnl_status_t attend_some(const float *qkv, int64_t n, int d, int64_t first, int64_t m,
                                 float *scores, float *o)
{
    const float scale = 1 / sqrtf((float)d);
    const int wide = 3 * d;
    dnnl_status_t st = kvr_dnnl_sgemm('N', 'T', m, n, d, scale, qkv + first * wide, wide, qkv + d,
                                      wide, 0.0f, scores, n);

    for (int64_t i = 0; i < m; i++) {
        float *s = scores + i * n, most = s[0], sum = 0;

        for (int64_t j = 1; j < n; j++)
            most = fmaxf(most, s[j]);
        for (int64_t j = 0; j < n; j++) {
            s[j] = expf(s[j] - most);
            sum += s[j];
        }
        for (int64_t j = 0; j < n; j++)
            s[j] /= sum;
    }
    if (st != dnnl_success)
        return st;
    return kvr_dnnl_sgemm('N', 'N', m, d, n, 1.0f, scores, n, qkv + 2 * d, wide, 0.0f, o, d);
}

static enum kvr_status attend(struct kvr_dev *dev, int threads, int64_t n, int d, const void *qkv,
                              float *scores, void *out)
{
    const int64_t blocks = (n + QUERIES - 1) / QUERIES;
    int worst = dnnl_success;

    (void)dev;
#pragma omp parallel for schedule(dynamic) num_threads(threads) reduction(max : worst)
    for (int64_t i = 0; i < blocks; i++) {
        const int64_t first = i * QUERIES, m = n - first < QUERIES ? n - first : QUERIES;
        const int st =
            (int)attend_some(qkv, n, d, first, m, scores + omp_get_thread_num() * QUERIES * n,
                             (float *)out + first * d);

        worst = st > worst ? st : worst;
    }
    return kvr_onednn_done(worst, "vae", "a product");
}

static int64_t score_floats(int threads, int64_t n, int d)
{
    (void)d;
    return threads * QUERIES * n;
}

/* Computes attention of BF16 pixels in F32. `scores` is followed by memory for the F32 queries,
 * keys and values, and for the F32 result. */
static enum kvr_status attend_bf16(struct kvr_dev *dev, int threads, int64_t n, int d,
                                   const void *qkv, float *scores, void *out)
{
    float *wide = scores + score_floats(threads, n, d), *result = wide + 3 * n * d;

    kvr_to_f32(wide, qkv, KVR_BF16, (size_t)(3 * n * d));
    KVR_TRY(attend(dev, threads, n, d, wide, scores, result));
    kvr_from_f32(out, KVR_BF16, result, (size_t)(n * d));
    return KVR_OK;
}

static int64_t score_floats_bf16(int threads, int64_t n, int d)
{
    return score_floats(threads, n, d) + 4 * n * d;
}

const struct kvr_vae_ops kvr_vae_ops_cpu = {
    .norm = norm,
    .add = add,
    .rectify = rectify,
    .spread = spread,
    .unpatch = unpatch,
    .patch = patch,
    .halve = halve,
    .gather = gather,
    .attend = attend,
    .score_floats = score_floats,
};

const struct kvr_vae_ops kvr_vae_ops_cpu_bf16 = {
    .norm = norm_bf16,
    .add = add_bf16,
    .spread = spread_bf16,
    .unpatch = unpatch_bf16,
    .attend = attend_bf16,
    .score_floats = score_floats_bf16,
};

const struct kvr_vae_ops *kvr_vae_ops_of(const struct kvr_dev *dev, enum kvr_dtype type)
{
    static const struct kvr_vae_ops *const tables[KVR_N_BACKENDS][2] = {
        [KVR_CPU] = { &kvr_vae_ops_cpu, &kvr_vae_ops_cpu_bf16 },
        [KVR_CUDA] = { &kvr_vae_ops_cuda, &kvr_vae_ops_cuda_bf16 },
    };

    return tables[kvr_dev_backend(dev)][type == KVR_BF16];
}
