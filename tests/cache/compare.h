/* compare.h - helpers for tests that run every method: number of methods, head width, largest
 * difference of two outputs. */
#ifndef KVR_TESTS_CACHE_COMPARE_H
#define KVR_TESTS_CACHE_COMPARE_H

#include <check.h>
#include <math.h>

#include "harness/cache/cache.h"
#include "harness/core/rng.h"
#include "methods/method.h"

/* Returns the largest absolute difference of a[n] and b[n], or NaN if one of the differences is
 * NaN. */
static inline double worst(const float *a, const float *b, size_t n)
{
    double w = 0;

    for (size_t i = 0; i < n; i++) {
        const double e = fabs((double)a[i] - b[i]);

        /* Once a difference is NaN, the result stays NaN. */
        if (w == w && !(e <= w))
            w = e;
    }
    return w;
}

/* Returns a head width that the method accepts: the first of `least`, 2 * least, 4 * least, ...
 * Fails the test if the method accepts none up to 128 channels. */
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

/* Returns whether the method selects tokens for each head separately. Attention cannot read such a
 * method's cache through a decoded copy of the visible tokens (KVR_PATH_DENSE), because each head
 * keeps different tokens. */
static inline bool keeps_by_head(const char *spec)
{
    struct kvr_thin_needs needs;
    struct kvr_scheme *p;

    ck_assert_msg(kvr_scheme_open(&p, spec, NULL, 0) == KVR_OK, "%s", kvr_error());
    kvr_retention_thins(&p->retention, &needs);
    kvr_scheme_close(&p);
    return needs.by_head;
}

/* Gives the cache random importance scores (salience) of all tokens. Non-causal methods need them
 * as input. */
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
