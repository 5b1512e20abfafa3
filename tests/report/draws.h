/* draws.h - random samples from several distributions with mean 0, for simulations that test the
 * statistics. */
#ifndef KVR_TESTS_STATS_DRAWS_H
#define KVR_TESTS_STATS_DRAWS_H

#include <math.h>

#include "harness/core/rng.h"

enum draws { NORMAL, LAPLACE, EXPONENTIAL, LOGNORMAL_HALF, LOGNORMAL, N_DRAWS };

enum { DRAWS_MAX = 64 };

static const char *const draws_name[N_DRAWS] = { "normal", "Laplace", "exponential",
                                                 "lognormal (sigma 0.5)", "lognormal (sigma 1)" };

/* Fills x [n] with a random sample of size n <= DRAWS_MAX from distribution `kind`. `seed` and the
 * number `trial` of the simulation determine the sample. In the order of enum draws, the
 * distributions have skewness 0, 0, 2, 1.75 and 6.18. */
static inline void draw(double *x, int n, enum draws kind, uint64_t seed, uint32_t trial)
{
    float z[2 * DRAWS_MAX];

    if (kind == LAPLACE || kind == EXPONENTIAL)
        kvr_uniform(z, 2 * DRAWS_MAX, seed, KVR_RNG_TEST, trial, (uint32_t)n, 0);
    else
        kvr_normal(z, DRAWS_MAX, seed, KVR_RNG_TEST, trial, (uint32_t)n, 0);
    for (int i = 0; i < n; i++) {
        double e = -log1p(-(double)z[i]); /* if z[i] is uniform in [0, 1), e is exponentially
                                           * distributed */

        switch (kind) {
        case LAPLACE:
            x[i] = e + log1p(-(double)z[DRAWS_MAX + i]);
            break;
        case EXPONENTIAL:
            x[i] = e - 1;
            break;
        case LOGNORMAL_HALF:
            x[i] = exp(0.5 * z[i]) - exp(0.125);
            break;
        case LOGNORMAL:
            x[i] = exp(z[i]) - exp(0.5);
            break;
        default:
            x[i] = z[i];
        }
    }
}

#endif
