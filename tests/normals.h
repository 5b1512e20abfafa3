/* normals.h - kvr_normal() with a cache, for tests that use the same random data for every
 * method.
 *
 *     drawn_normals(x, n, 3, a, b);     as kvr_normal(x, n, 3, KVR_RNG_TEST, a, b, 0) */
#ifndef KVR_TESTS_NORMALS_H
#define KVR_TESTS_NORMALS_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/rng.h"

/* maximum number of cached streams; other streams are generated again at every call */
enum { MAX_DRAWN = 128 };

static inline void drawn_normals(float *x, size_t n, uint64_t seed, uint32_t a, uint32_t b)
{
    static struct {
        uint64_t seed;
        uint32_t a, b;
        size_t n;
        float *x;
    } drawn[MAX_DRAWN];
    static int n_drawn;
    int i = 0;

    while (i < n_drawn && (drawn[i].seed != seed || drawn[i].a != a || drawn[i].b != b))
        i++;
    if (i == MAX_DRAWN) {
        kvr_normal(x, n, seed, KVR_RNG_TEST, a, b, 0);
        return;
    }
    if (i == n_drawn) {
        drawn[i].seed = seed;
        drawn[i].a = a;
        drawn[n_drawn++].b = b;
    }
    if (drawn[i].n < n) { /* a longer stream begins with the numbers of the shorter one */
        free(drawn[i].x);
        drawn[i].x = malloc(n * sizeof *x);
        ck_assert_ptr_nonnull(drawn[i].x);
        kvr_normal(drawn[i].x, n, seed, KVR_RNG_TEST, a, b, 0);
        drawn[i].n = n;
    }
    memcpy(x, drawn[i].x, n * sizeof *x);
}

#endif
