/* vae_cpu.c - the definition of vae_ops.h, and which table a device has. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "harness/core/onednn.h"
#include "harness/core/onednn_guard.h"
#include "harness/engine/vae/vae_ops.h"

enum { QUERIES = 64 }; /* at a time */

static void norm(struct kvr_dev *dev, int64_t n, int channels, bool silu, const float *x,
                 const float *gamma, float *y)
{
    const float root = sqrtf((float)channels);

    (void)dev;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const float *from = x + i * channels;
        float *to = y + i * channels;
        double sum = 0;
        float scale;

        for (int c = 0; c < channels; c++)
            sum += (double)from[c] * (double)from[c];
        scale = root / (float)fmax(sqrt(sum), 1e-12);
        for (int c = 0; c < channels; c++) {
            const float u = from[c] * scale * gamma[c];

            to[c] = silu ? u / (1.0f + expf(-u)) : u;
        }
    }
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

static void spread(struct kvr_dev *dev, int h, int w, int in, int out, int times, int which,
                   const float *from, float *to)
{
    const int repeats = out * times * 4 / in;

    (void)dev;
#pragma omp parallel for schedule(static)
    for (int y = 0; y < 2 * h; y++)
        for (int x = 0; x < 2 * w; x++) {
            const float *pixel = from + ((int64_t)(y / 2) * w + x / 2) * in;
            const int place = which * 4 + y % 2 * 2 + x % 2;
            float *row = to + ((int64_t)y * 2 * w + x) * out;

            for (int c = 0; c < out; c++)
                row[c] += pixel[(c * times * 4 + place) / repeats];
        }
}

static void unpatch(struct kvr_dev *dev, int h, int w, const float *from, float *to)
{
    (void)dev;
#pragma omp parallel for schedule(static)
    for (int y = 0; y < 2 * h; y++)
        for (int x = 0; x < 2 * w; x++) {
            const float *pixel = from + ((int64_t)(y / 2) * w + x / 2) * 12;

            for (int c = 0; c < 3; c++)
                to[((int64_t)y * 2 * w + x) * 3 + c] = pixel[(c * 2 + x % 2) * 2 + y % 2];
        }
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

/* Queries [first, first + m) over all n pixels; o [m, d] with rows of d. */
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

static enum kvr_status attend(struct kvr_dev *dev, int threads, int64_t n, int d, const float *qkv,
                              float *scores, float *out)
{
    const int64_t blocks = (n + QUERIES - 1) / QUERIES;
    int worst = dnnl_success;

    (void)dev;
#pragma omp parallel for schedule(dynamic) num_threads(threads) reduction(max : worst)
    for (int64_t i = 0; i < blocks; i++) {
        const int64_t first = i * QUERIES, m = n - first < QUERIES ? n - first : QUERIES;
        const int st = (int)attend_some(
            qkv, n, d, first, m, scores + omp_get_thread_num() * QUERIES * n, out + first * d);

        worst = st > worst ? st : worst;
    }
    return kvr_onednn_done(worst, "vae", "a product");
}

static int64_t score_floats(int threads, int64_t n)
{
    return threads * QUERIES * n;
}

const struct kvr_vae_ops kvr_vae_ops_cpu = {
    .norm = norm,
    .rectify = rectify,
    .spread = spread,
    .unpatch = unpatch,
    .patch = patch,
    .halve = halve,
    .gather = gather,
    .attend = attend,
    .score_floats = score_floats,
};

const struct kvr_vae_ops *kvr_vae_ops_of(const struct kvr_dev *dev)
{
    static const struct kvr_vae_ops *const tables[KVR_N_BACKENDS] = {
        [KVR_CPU] = &kvr_vae_ops_cpu,
        [KVR_CUDA] = &kvr_vae_ops_cuda,
    };

    return tables[kvr_dev_backend(dev)];
}
