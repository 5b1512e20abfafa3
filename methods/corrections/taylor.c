/* taylor.c - the correction `taylor` of the score of query q and key j: 1/24 sum_c q_c^2 s_jc^2,
 * where s_jc is the scale of key j in channel c. Keys or channels that share a scale are evaluated
 * together. */
#include "methods/corrections/correction.h"

static float dot(const float *a, const float *b, int n)
{
    float lane[16] = { 0 }, sum = 0;
    int i = 0;

    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++)
            lane[j] += a[i + j] * b[i + j];
    for (int j = 0; j < 16; j++)
        sum += lane[j];
    for (; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* For one scale per channel and group of `group` consecutive tokens: computes one correction per
 * query and group. */
static void apply_by_rows(const struct kvr_correction_job *job, int64_t group)
{
    float s2[KVR_CORRECTION_MAX_D];

    for (int j = 0; j < job->n;) {
        const int64_t t = job->t0 + j, left = group - t % group;
        const int run = left < job->n - j ? (int)left : job->n - j;

        kvr_squared_scales(job->k, job->h, t, 1, s2);
        for (int i = 0; i < job->m; i++) {
            const float c = dot(job->q2 + i * job->d, s2, job->d) / 24.0f;
            float *row = job->s + i * job->stride + j;

            for (int r = 0; r < run; r++)
                row[r] -= c;
        }
        j += run;
    }
}

/* For one scale s_jg per key j and group g of channels: the correction is 1/24 sum_g |q_g|^2
 * s_jg^2, where q_g is the query in the channels of group g. The inner loop is over keys, because
 * there are few groups and many keys. */
static void apply_by_groups(const struct kvr_correction_job *job,
                            const struct kvr_coding_noise *noise)
{
    enum { KEYS = KVR_CORRECTION_MAX_KEYS };
    const int per = noise->group, groups = job->d / per, n = job->n;
    const int64_t row = (int64_t)job->k->shape.n_heads * groups;
    float s2[KVR_CORRECTION_MAX_D][KEYS], each[KVR_CORRECTION_MAX_D];

    for (int j = 0; j < n; j++) {
        if (noise->kind == KVR_NOISE_SCALES)
            kvr_squared_scales(job->k, job->h, job->t0 + j, 1, each);
        for (int g = 0; g < groups; g++) {
            const int64_t at = (job->t0 + j) * row + (int64_t)job->h * groups + g;
            const float s = noise->kind == KVR_NOISE_SCALES ? 0 : kvr_f16_to_f32(noise->scale[at]);

            s2[g][j] = noise->kind == KVR_NOISE_SCALES ? each[g * per] : s * s;
        }
    }
    for (int i = 0; i < job->m; i++) {
        float c[KEYS] = { 0 };

        for (int g = 0; g < groups; g++) {
            float norm2 = 0;

            for (int k = 0; k < per; k++)
                norm2 += job->q2[i * job->d + g * per + k];
            for (int j = 0; j < n; j++)
                c[j] += norm2 * s2[g][j];
        }
        for (int j = 0; j < n; j++)
            job->s[i * job->stride + j] -= c[j] / 24.0f;
    }
}

static void taylor_apply(const struct kvr_correction_job *job)
{
    struct kvr_coding_noise noise;

    kvr_codec_noise(job->k, &noise);
    if (noise.kind == KVR_NOISE_NONE)
        return;
    if ((noise.kind != KVR_NOISE_UNIFORM && noise.kind != KVR_NOISE_SCALES) ||
        noise.n_exact) /* every key has its own scales */
        apply_by_rows(job, 1);
    else if (noise.axis == KVR_AXIS_TOKENS)
        apply_by_rows(job, noise.group);
    else if (noise.axis == KVR_AXIS_CHANNELS)
        apply_by_groups(job, &noise);
    else
        apply_by_rows(job, 1);
}

const struct kvr_correction kvr_correction_taylor = {
    .name = "taylor",
    .title =
        "subtracts the second-order bias of uniformly distributed key errors: sum over channels of "
        "(query * scale)^2 / 24",
    .apply = taylor_apply,
    .by_scales = KVR_BY_SCALES_TAYLOR,
};
