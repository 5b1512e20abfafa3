/* exact.c - the correction `exact` of the score of query q and key j: sum_c log(sinh(a_c) / a_c),
 * where a_c = q_c s_jc / 2, q_c is the query in channel c, and s_jc is the scale of key j in
 * channel c. It is the exact bias if the quantization error of key j in channel c is uniform
 * between -s_jc / 2 and s_jc / 2. It is meant for diagnosis, because each score costs D
 * logarithms. */
#include <math.h>

#include "methods/corrections/correction.h"

/* Returns log(sinh(a) / a) for a >= 0. Below 0.5 it uses a series, whose error is below 5e-8.
 * Otherwise it uses a form that neither overflows nor cancels. */
static float log_sinhc(float a)
{
    if (a < 0.5f) {
        const float x = a * a;

        return x * (1.0f / 6 - x * (1.0f / 180 - x * (1.0f / 2835 - x * (1.0f / 37800))));
    }
    return a - logf(2 * a) + log1pf(-expf(-2 * a));
}

static void exact_apply(const struct kvr_correction_job *job)
{
    float s2[KVR_CORRECTION_MAX_D];

    for (int j = 0; j < job->n; j++) {
        kvr_squared_scales(job->k, job->h, job->t0 + j, 1, s2);
        for (int i = 0; i < job->m; i++) {
            float c = 0;

            for (int e = 0; e < job->d; e++)
                c += log_sinhc(0.5f * sqrtf(job->q2[i * job->d + e] * s2[e]));
            job->s[i * job->stride + j] -= c;
        }
    }
}

const struct kvr_correction kvr_correction_exact = {
    .name = "exact",
    .title = "subtracts the exact bias of uniformly distributed key errors: sum over channels of "
             "log(sinh(a) / a), a = query * scale / 2",
    .apply = exact_apply,
    .by_scales = KVR_BY_SCALES_EXACT,
};
