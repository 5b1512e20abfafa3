/* compare.h - shared by tests over every method: their number, and differences of outputs. */
#ifndef KVR_TESTS_CACHE_COMPARE_H
#define KVR_TESTS_CACHE_COMPARE_H

#include <check.h>
#include <math.h>

#include "harness/cache/cache.h"
#include "harness/core/rng.h"
#include "methods/method.h"

/* The largest difference; NaN when there is one. */
static inline double worst(const float *a, const float *b, size_t n)
{
    double w = 0;

    for (size_t i = 0; i < n; i++) {
        const double e = fabs((double)a[i] - b[i]);

        if (w == w && !(e <= w)) /* a NaN, once met, stays */
            w = e;
    }
    return w;
}

/* The narrowest heads, of `least` channels or more, that the method can be run with. */
static inline int head_dim_for(const char *spec, int n_heads, int least)
{
    struct kvr_scheme *p;
    int d = least;

    ck_assert_msg(kvr_scheme_open(&p, spec, NULL, 0) == KVR_OK, "%s", kvr_error());
    while (d <= 128 && kvr_scheme_check(p, n_heads, d) != KVR_OK)
        d *= 2;
    ck_assert_msg(d <= 128, "%s: %s", spec, kvr_error());
    kvr_scheme_close(&p);
    return d;
}

/* Does every head keep tokens of its own? Then there is no dense path. */
static inline bool keeps_by_head(const char *spec)
{
    struct kvr_thin_needs needs;
    struct kvr_scheme *p;

    ck_assert_msg(kvr_scheme_open(&p, spec, NULL, 0) == KVR_OK, "%s", kvr_error());
    kvr_retention_thins(&p->retention, &needs);
    kvr_scheme_close(&p);
    return needs.by_head;
}

/* Input of a non-causal method: a random score per token. */
static inline void set_random_salience(struct kvr_cache *c)
{
    static float table[1 << 14];

    kvr_uniform(table, sizeof table / sizeof *table, 1, KVR_RNG_TEST, 99, 0, 0);
    kvr_cache_set_salience(c, table);
}

static inline int n_methods(void)
{
    int n = 0;

    while (kvr_methods[n])
        n++;
    return n;
}

#endif
