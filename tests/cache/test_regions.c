/* test_regions.c - number of OpenMP parallel regions per pass of a layer, at the bundled model's
 * shape. Attention has one region and also decodes in it. Append and store have no region, because
 * at this shape the codec takes less time than waking a thread team. */
#include <check.h>
#include <dlfcn.h>
#include <omp.h>
#include <stdlib.h>

#include "harness/cache/cache.h"
#include "harness/core/rng.h"
#include "tests/suite.h"

enum { HEADS = 3, D = 64, FRAME = 36, FRAMES = 3, CHUNKS = 7, PASSES = 3 };
enum { TOKENS = FRAME * FRAMES, WIDTH = HEADS * D, THREADS = 2 };

#if defined(__GNUC__) && !defined(__clang__)
static int n_regions;

/* Overrides libgomp's GOMP_parallel and counts the parallel regions that start a thread team. */
void GOMP_parallel(void (*fn)(void *), void *data, unsigned n_threads, unsigned flags);

void GOMP_parallel(void (*fn)(void *), void *data, unsigned n_threads, unsigned flags)
{
    static void (*next)(void (*)(void *), void *, unsigned, unsigned);

    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "GOMP_parallel");
    if (n_threads != 1 && !omp_in_parallel() && omp_get_max_threads() > 1)
        n_regions++;
    next(fn, data, n_threads, flags);
}

struct region_case {
    const char *method;
    enum kvr_path path;
};
static const struct region_case cases[] = {
    { "BF16", KVR_PATH_STAGED },           { "RTN_INT4", KVR_PATH_STAGED },
    { "KIVI_INT2", KVR_PATH_STAGED },      { "KIVI_INT2", KVR_PATH_FUSED },
    { "QUAROT_KV_INT4", KVR_PATH_STAGED }, { "PRQ_INT4", KVR_PATH_STAGED },
    { "QAQ_INT4", KVR_PATH_STAGED },       { "RTN_INT4_RECENT2", KVR_PATH_STAGED },
    { "SINK_WINDOW", KVR_PATH_STAGED },
};
enum { N_CASES = (int)(sizeof cases / sizeof *cases) };

START_TEST(one_region)
{
    const struct region_case *t = &cases[_i];
    const struct kvr_cache_shape shape = { .n_layers = 1,
                                           .n_heads = HEADS,
                                           .head_dim = D,
                                           .tokens_per_frame = FRAME,
                                           .frames_per_chunk = FRAMES,
                                           .capacity_frames = FRAMES * CHUNKS,
                                           .exact = KVR_BF16 };
    const size_t n = (size_t)TOKENS * WIDTH;
    float *x = malloc(4 * n * sizeof *x);
    struct kvr_dev *dev;
    struct kvr_scheme *scheme;
    struct kvr_cache *cache;

    ck_assert_ptr_nonnull(x);
    kvr_normal(x, 3 * n, 1, KVR_RNG_TEST, 1, 0, 0);
    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_int_eq(kvr_scheme_open(&scheme, t->method, NULL, 0), KVR_OK);
    ck_assert_msg(kvr_cache_open(&cache, dev, scheme, &shape, t->path) == KVR_OK, "%s",
                  kvr_error());
    omp_set_num_threads(THREADS);
    for (int c = 0; c < CHUNKS; c++)
        for (int p = 0; p < PASSES; p++) {
            const struct kvr_pass pass = { .chunk = c,
                                           .frame0 = c * FRAMES,
                                           .n_frames = FRAMES,
                                           .index = p,
                                           .clean = p == PASSES - 1 };

            n_regions = 0;
            ck_assert_int_eq(kvr_cache_begin_pass(cache, &pass), KVR_OK);
            ck_assert_int_eq(kvr_cache_append(cache, 0, x + n, x + 2 * n), KVR_OK);
            ck_assert_int_eq(kvr_cache_attend(cache, 0, x, x + 3 * n), KVR_OK);
            ck_assert_int_eq(kvr_cache_end_pass(cache), KVR_OK);
            ck_assert_msg(n_regions == 1, "%s, chunk %d, pass %d: %d regions", t->method, c, p,
                          n_regions);
            ck_assert_int_eq(omp_get_max_threads(), THREADS);
        }
    kvr_cache_close(&cache);
    kvr_scheme_close(&scheme);
    kvr_dev_close(&dev);
    free(x);
}
END_TEST
#endif

int main(void)
{
    Suite *s = suite_create("regions");
    TCase *tc = tcase_create("regions");

#if defined(__GNUC__) && !defined(__clang__)
    tcase_add_loop_test(tc, one_region, 0, N_CASES);
#endif
    suite_add_tcase(s, tc);
    return run_suite(s);
}
