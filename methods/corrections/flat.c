/* flat.c - the correction `flat`: one number per query and segment, the mean of the correction
 * `taylor` over the segment's keys. */
#include "methods/corrections/correction.h"

/* Computes moments[h][c]: the mean over keys j of s_jc^2, where s_jc is the scale of channel c. */
static void flat_prepare(const struct kvr_packed *k, const float *x, kvr_f16 *moments)
{
    const int d = k->shape.head_dim;

    (void)x;
#pragma omp parallel for schedule(static)
    for (int h = 0; h < k->shape.n_heads; h++) {
        double sum[KVR_CORRECTION_MAX_D] = { 0 };
        float s2[KVR_CORRECTION_MAX_D];

        for (int64_t t = 0; t < k->shape.n_tok; t++) {
            kvr_squared_scales(k, h, t, 1, s2);
            for (int c = 0; c < d; c++)
                sum[c] += s2[c];
        }
        for (int c = 0; c < d; c++)
            moments[h * d + c] = kvr_f32_to_f16((float)(sum[c] / (double)k->shape.n_tok));
    }
}

static void flat_apply(const struct kvr_correction_job *job)
{
    float s2[KVR_CORRECTION_MAX_D];

    kvr_to_f32(s2, job->moments + (size_t)job->h * (size_t)job->d, KVR_F16, (size_t)job->d);
    for (int i = 0; i < job->m; i++) {
        float c = 0;

        for (int e = 0; e < job->d; e++)
            c += job->q2[i * job->d + e] * s2[e];
        for (int j = 0; j < job->n; j++)
            job->s[i * job->stride + j] -= c / 24.0f;
    }
}

const struct kvr_correction kvr_correction_flat = {
    .name = "flat",
    .title =
        "subtracts from each score the mean, over a segment's keys, of what `taylor` subtracts",
    .moments = 1,
    .prepare = flat_prepare,
    .apply = flat_apply,
    .prepare_cuda = kvr_flat_prepare_cuda,
    .rows_cuda = kvr_flat_rows_cuda,
};
