/* energy.c - the correction `energy`, which subtracts the same term from all scores of a query and
 * a segment: q . (mean k^ - mean k) + 1/2 sum_c q_c^2 (var_c k^ - var_c k), where k are the
 * segment's keys, k^ the decoded keys and c channels.
 *
 * Quantization changes the segment's sum Z of e^score to Z^. If the scores are Gaussian over the
 * keys, log(Z^/Z) is the change of their mean plus half the change of their variance. This holds
 * for any codec. The term approximates the covariance of the keys as diagonal. */
#include <math.h>

#include "methods/corrections/correction.h"

/* Rounds to FP16; finite values are clamped to +-65504. NaN becomes 0x7e00, because the sign of a
 * computed NaN depends on the instruction set. */
static kvr_f16 finite_f16(double x)
{
    if (isnan(x))
        return 0x7e00;
    if (isfinite(x))
        x = x > 65504 ? 65504 : x < -65504 ? -65504 : x;
    return kvr_f32_to_f16((float)x);
}

/* Computes moments[0][h][c], the change of channel c's mean by quantization, and moments[1][h][c],
 * the change of its variance. */
static void energy_prepare(const struct kvr_packed *k, const float *x, kvr_f16 *moments)
{
    const int d = k->shape.head_dim, heads = k->shape.n_heads;
    const int64_t n = k->shape.n_tok;

#pragma omp parallel for schedule(static)
    for (int h = 0; h < heads; h++) {
        double s[4][KVR_CORRECTION_MAX_D] = { { 0 } }; /* sums of the keys and of their squares,
                                                        * then the same for decoded keys */
        float back[KVR_CORRECTION_MAX_D];

        for (int64_t t = 0; t < n; t++) {
            const float *row = x + (t * heads + h) * d;

            kvr_codec_decode_rotated(k, t, 1, h, 1, back);
            for (int c = 0; c < d; c++) {
                s[0][c] += row[c];
                s[1][c] += (double)row[c] * row[c];
                s[2][c] += back[c];
                s[3][c] += (double)back[c] * back[c];
            }
        }
        for (int c = 0; c < d; c++) {
            const double m0 = s[0][c] / (double)n, m1 = s[2][c] / (double)n;
            const double v0 = s[1][c] / (double)n - m0 * m0, v1 = s[3][c] / (double)n - m1 * m1;

            moments[h * d + c] = finite_f16(m1 - m0);
            moments[(heads + h) * d + c] = finite_f16(v1 - v0);
        }
    }
}

static void energy_apply(const struct kvr_correction_job *job)
{
    const size_t at = (size_t)job->h * (size_t)job->d;
    const size_t second = (size_t)job->k->shape.n_heads * (size_t)job->d;
    float a[KVR_CORRECTION_MAX_D], b[KVR_CORRECTION_MAX_D];

    kvr_to_f32(a, job->moments + at, KVR_F16, (size_t)job->d);
    kvr_to_f32(b, job->moments + second + at, KVR_F16, (size_t)job->d);
    for (int i = 0; i < job->m; i++) {
        const float *q = job->q + i * job->d, *q2 = job->q2 + i * job->d;
        float c = 0;

        for (int e = 0; e < job->d; e++)
            c += q[e] * a[e] + 0.5f * q2[e] * b[e];
        for (int j = 0; j < job->n; j++)
            job->s[i * job->stride + j] -= c;
    }
}

const struct kvr_correction kvr_correction_energy = {
    .name = "energy",
    .title = "restores the mean and the variance that a segment's attention scores have with "
             "unquantized keys; for any codec",
    .measures = true,
    .moments = 2,
    .prepare = energy_prepare,
    .apply = energy_apply,
    .prepare_cuda = kvr_energy_prepare_cuda,
    .rows_cuda = kvr_energy_rows_cuda,
};
