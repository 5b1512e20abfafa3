/* ops_exact.c - the sampler's arithmetic. The file is compiled without fused multiply-add
 * instructions, so that CPU and GPU compute the same bytes. */
#include "harness/engine/ops.h"

void kvr_x0_from_flow(int64_t n, const float *x, const float *flow, float sigma, float *x0)
{
    for (int64_t i = 0; i < n; i++)
        x0[i] = (float)((double)x[i] - (double)sigma * (double)flow[i]);
}

void kvr_renoise(int64_t n, const float *x0, const float *eps, float sigma, float *x)
{
    const float keep = 1.0f - sigma;

    for (int64_t i = 0; i < n; i++)
        x[i] = keep * x0[i] + sigma * eps[i];
}

void kvr_blend(int64_t n, const struct kvr_blend *b, float *out)
{
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;

        for (int j = 0; j < b->n; j++)
            sum += b->c[j] * (double)b->x[j][i];
        out[i] = (float)sum;
    }
}
