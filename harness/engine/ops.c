/* ops.c - functions that all instruction-set variants of ops_isa.c share: layouts and RoPE
 * angles. */
#include "harness/engine/ops.h"

#include <math.h>

#include "harness/engine/ops_cross_bf16.h"

void kvr_time_sinusoid(float t, int n, float *out)
{
    const int half = n / 2;

    for (int k = 0; k < half; k++) {
        double angle = (double)t * pow(10000.0, -(double)k / half);

        out[k] = (float)cos(angle);
        out[half + k] = (float)sin(angle);
    }
}

static int64_t round_lanes(int n)
{
    return (n + KVR_OPS_LANES - 1) / KVR_OPS_LANES * KVR_OPS_LANES;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t kvr_cross_k_floats(int n_keys, int n_heads, int head_dim)
{
    return larger((int64_t)n_heads * head_dim * round_lanes(n_keys),
                  kvr_cross_bf16_k_floats(n_keys, n_heads, head_dim));
}

int64_t kvr_cross_v_floats(int n_keys, int n_heads, int head_dim)
{
    return larger((int64_t)n_heads * n_keys * round_lanes(head_dim),
                  kvr_cross_bf16_v_floats(n_keys, n_heads, head_dim));
}
