/* umt5_cpu.c - the reference implementation of umt5_ops.h on the CPU, and the selection of a
 * device's table of operations. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "harness/engine/text/umt5_ops.h"

static const double eps = 1e-6;

static void norm(struct kvr_dev *dev, int64_t n, int d, const float *x, const float *weight,
                 float *y)
{
    (void)dev;
#pragma omp parallel for
    for (int64_t i = 0; i < n; i++) {
        const float *row = x + i * d;
        double sum = 0;
        float scale;

        for (int c = 0; c < d; c++)
            sum += (double)row[c] * (double)row[c];
        scale = (float)(1 / sqrt(sum / d + eps));
        for (int c = 0; c < d; c++)
            y[i * d + c] = row[c] * scale * weight[c];
    }
}

/* Computes attention of one query of one head. `scores` [n] is scratch. */
static void attend_one(const struct kvr_umt5_heads *a, int head, int i, float *scores)
{
    const int D = a->head_dim, width = a->n_heads * D;
    const float *q = a->q + (int64_t)i * width + head * D;
    const float *bias = a->bias + (int64_t)head * (2 * a->span - 1) + a->span - 1 - i;
    float *out = a->out + (int64_t)i * width + head * D;
    float most = -INFINITY, sum = 0;

    for (int j = 0; j < a->n; j++) {
        const float *k = a->k + (int64_t)j * width + head * D;
        float s = 0;

        for (int c = 0; c < D; c++)
            s += q[c] * k[c];
        s += bias[j];
        scores[j] = s;
        most = fmaxf(most, s);
    }
    for (int j = 0; j < a->n; j++) {
        scores[j] = expf(scores[j] - most);
        sum += scores[j];
    }
    memset(out, 0, (size_t)D * sizeof *out);
    for (int j = 0; j < a->n; j++) {
        const float *v = a->v + (int64_t)j * width + head * D, p = scores[j] / sum;

        for (int c = 0; c < D; c++)
            out[c] += p * v[c];
    }
}

static void attend(struct kvr_dev *dev, const struct kvr_umt5_heads *a)
{
    (void)dev;
#pragma omp parallel for schedule(static)
    for (int u = 0; u < a->n * a->n_heads; u++)
        attend_one(a, u / a->n, u % a->n, a->scores + (int64_t)omp_get_thread_num() * a->n);
}

static void multiply(struct kvr_dev *dev, int64_t n, const float *y, float *x)
{
    (void)dev;
    for (int64_t i = 0; i < n; i++)
        x[i] *= y[i];
}

const struct kvr_umt5_ops kvr_umt5_ops_cpu = {
    .norm = norm,
    .attend = attend,
    .multiply = multiply,
};

const struct kvr_umt5_ops *kvr_umt5_ops_of(const struct kvr_dev *dev)
{
    static const struct kvr_umt5_ops *const tables[KVR_N_BACKENDS] = {
        [KVR_CPU] = &kvr_umt5_ops_cpu,
        [KVR_CUDA] = &kvr_umt5_ops_cuda,
    };

    return tables[kvr_dev_backend(dev)];
}
