/* test_bench_codec.c - the codec benchmark: its result rows, and the rejection of a codec with
 * wrong results. */
#include <check.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/bench/bench_codec.h"
#include "harness/core/clock.h"
#include "harness/core/isa.h"
#include "methods/plugin.h"
#include "tests/suite.h"

START_TEST(rows_are_complete)
{
    const struct kvr_block_shape shape = { 50, 2, 64 };
    struct kvr_bench_row rows[KVR_BENCH_CODEC_ROWS];
    struct kvr_mem_stats stats;
    struct kvr_dev *dev;
    int n = 0;

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_msg(kvr_bench_codec(dev, &shape, 5, rows, &n) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(n, omp_get_max_threads() > 1 ? 84 : 42);
    for (int i = 0; i < n; i++) {
        const char *what = i % 3 == 2 ? "dequantise." : "quantise.";

        ck_assert_msg(strncmp(rows[i].name, what, strlen(what)) == 0, "%s", rows[i].name);
        ck_assert_msg(strstr(rows[i].name, kvr_isa_name(kvr_isa())) != NULL, "%s", rows[i].name);
        ck_assert_int_eq(strstr(rows[i].name, ".bf16.") != NULL, i % 3 == 0);
        ck_assert_str_eq(rows[i].unit, "GB/s");
        ck_assert_str_eq(rows[i].reference, "memcpy");
        ck_assert_int_eq(rows[i].n, 5);
        ck_assert(rows[i].min > 0 && rows[i].min <= rows[i].median);
        ck_assert(rows[i].ratio > 0 && isfinite(rows[i].ratio));
        ck_assert(rows[i].cold > 0 && rows[i].warm > 0 && !rows[i].steady);
    }
    kvr_mem_stats(dev, &stats);
    ck_assert_uint_eq(stats.live_total, 0);
    kvr_dev_close(&dev);
}
END_TEST

static void load_memo(void)
{
    char path[4096];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);

    ck_assert_int_gt(n, 0);
    path[n] = 0;
    *strrchr(path, '/') = 0; /* bench */
    *strrchr(path, '/') = 0; /* tests */
    ck_assert_uint_lt(strlen(path), sizeof path - sizeof "/plugins/memo.so");
    strcat(path, "/plugins/memo.so");
    ck_assert_msg(kvr_plugin_load(path) == KVR_OK, "%s", kvr_error());
}

/* A codec that caches its first result passes a check before the timed rounds, because the input
 * has not changed yet. bench must detect it. */
START_TEST(what_remembers_is_found)
{
    static const struct kvr_bench_line honest = { "honest", "sym(bits=4)", KVR_K },
                                       cheat = { "cheat", "memo | sym(bits=4)", KVR_K };
    const struct kvr_block_shape shape = { 50, 2, 64 };
    struct kvr_bench_row rows[KVR_BENCH_LINE_ROWS];
    struct kvr_mem_stats stats;
    struct kvr_dev *dev;

    load_memo();
    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_msg(kvr_bench_codec_line(dev, &shape, 3, &honest, rows) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_bench_codec_line(dev, &shape, 3, &cheat, rows), KVR_ETOLERANCE);
    ck_assert_msg(strstr(kvr_error(), "cheat: token") != NULL, "%s", kvr_error());
    kvr_mem_stats(dev, &stats);
    ck_assert_uint_eq(stats.live_total, 0);
    kvr_dev_close(&dev);
}
END_TEST

START_TEST(rows_are_rotated)
{
    int x[] = { 1, 2, 3, 4, 5, 6 };
    static const int want[] = { 3, 4, 5, 6, 1, 2 };

    kvr_bench_rotate_rows(x, sizeof x, 2 * sizeof *x);
    ck_assert_mem_eq(x, want, sizeof x);
}
END_TEST

/* Rounds with drifting medians run to the maximum; steady rounds stop early, after the minimum. */
START_TEST(rounds_end_when_they_are_steady)
{
    double still[100], wandering[100];
    int n = 0, m = 0;

    for (int i = 0; i < 100; i++) {
        still[i] = 2 + (i % 3) * 0.01;
        wandering[i] = 2 + i * 0.1;
    }
    while (!kvr_bench_last(still, n, 100))
        n++;
    while (!kvr_bench_last(wandering, m, 100))
        m++;
    ck_assert_int_eq(n, KVR_BENCH_LEAST_ROUNDS); /* steady rounds end at the minimum */
    ck_assert_int_eq(m, 99);
    ck_assert(kvr_bench_steady(still, 40) && !kvr_bench_steady(wandering, 40));
    ck_assert(!kvr_bench_steady(still, KVR_BENCH_LEAST_ROUNDS - 1));
    still[3] = NAN;
    ck_assert(kvr_bench_last(still, 2, 3));
}
END_TEST

/* Reading is slower after kvr_bench_evict() has emptied the CPU's caches. The shortest of 9 times
 * is compared, because a busy machine lengthens some of them. */
START_TEST(what_is_cold_is_slower)
{
    enum { BYTES = 1 << 18, ROUNDS = 9 };
    volatile uint64_t *x = calloc(1, BYTES);
    int64_t cold = INT64_MAX, warm = INT64_MAX;
    uint64_t sum = 0;

    ck_assert_ptr_nonnull((void *)x);
    if (!kvr_bench_evict((void *)x, BYTES)) {
        free((void *)x);
        return;
    }
    for (int r = 0; r < ROUNDS; r++)
        for (int w = 0; w < 2; w++) {
            int64_t t0, *least = w ? &warm : &cold;

            if (!w)
                kvr_bench_evict((void *)x, BYTES);
            t0 = kvr_now_ns();
            for (size_t i = 0; i < BYTES / sizeof *x; i += 64 / sizeof *x)
                /* reads in an order that the prefetcher cannot predict */
                sum += x[i * 17 % (BYTES / sizeof *x)];
            t0 = kvr_now_ns() - t0;
            *least = t0 < *least ? t0 : *least;
        }
    ck_assert_uint_eq(sum, 0);
    ck_assert_msg(cold > warm, "%lld ns without caches, %lld with them", (long long)cold,
                  (long long)warm);
    ck_assert_int_eq(kvr_bench_evict_all(), KVR_OK);
    free((void *)x);
}
END_TEST

START_TEST(bad_shapes_and_failed_allocations)
{
    const struct kvr_block_shape odd = { 50, 2, 48 };
    struct kvr_bench_row rows[KVR_BENCH_CODEC_ROWS];
    struct kvr_mem_stats stats;
    struct kvr_dev *dev;
    int n = -1;

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_int_eq(kvr_bench_codec(dev, NULL, 2, rows, &n), KVR_EINVAL);
    ck_assert_int_eq(n, 0);
    ck_assert_int_eq(kvr_bench_codec(dev, &odd, 3, rows, &n), KVR_EINVAL);
    ck_assert_msg(strstr(kvr_error(), "48") != NULL, "%s", kvr_error());
    kvr_mem_fail_after(dev, 4);
    ck_assert_int_eq(kvr_bench_codec(dev, NULL, 3, rows, &n), KVR_ENOMEM);
    kvr_mem_stats(dev, &stats);
    ck_assert_uint_eq(stats.live_total, 0);
    kvr_dev_close(&dev);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("bench_codec");
    TCase *tc = tcase_create("bench_codec");

    suite_add_tcase(s, tc);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, rows_are_complete);
    tcase_add_test(tc, rows_are_rotated);
    tcase_add_test(tc, rounds_end_when_they_are_steady);
    tcase_add_test(tc, what_is_cold_is_slower);
    tcase_add_test(tc, what_remembers_is_found);
    tcase_add_test(tc, bad_shapes_and_failed_allocations);
    return run_suite(s);
}
