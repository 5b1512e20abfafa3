/* test_bench_attention.c - `kvreel bench attention --shape`: the number of queries that it
 * computes, and its result rows. */
#include <string.h>

#include "harness/bench/bench_attention.h"
#include "harness/device/dev.h"
#include "tests/suite.h"

START_TEST(large_shapes_compute_a_subset_of_queries)
{
    static const struct {
        int queries, keys, heads, d, want;
    } cases[] = {
        { 108, 756, 3, 64, 108 },      { 192, 4800, 12, 128, 192 }, { 1560, 9360, 2, 128, 1560 },
        { 4680, 65520, 12, 128, 120 }, { 4673, 65422, 12, 128, 1 }, /* 4673 is a prime */
        { 1, 1 << 20, 256, 256, 1 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int got = kvr_bench_attention_queries(cases[i].queries, cases[i].keys, cases[i].heads,
                                                    cases[i].d);

        ck_assert_msg(got == cases[i].want, "%d of %d queries, not %d", got, cases[i].queries,
                      cases[i].want);
        ck_assert_int_eq(cases[i].keys % got, 0);
    }
}
END_TEST

START_TEST(a_shape_has_a_row_for_every_path_and_method)
{
    struct kvr_bench_row rows[KVR_BENCH_ATTENTION_ROWS];
    struct kvr_dev *dev;
    int n = 0, bytes = 0;

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_msg(kvr_bench_attention_at(dev, "16x64x2x32", 3, 0, rows, &n) == KVR_OK, "%s",
                  kvr_error());
    kvr_dev_close(&dev);
    for (int i = 0; i < n; i++) {
        ck_assert_msg(strstr(rows[i].name, ".16x64") != NULL, "%s", rows[i].name);
        ck_assert_msg(rows[i].median > 0 && rows[i].error >= 0, "%s", rows[i].name);
        ck_assert_msg(rows[i].cold > 0 && rows[i].warm > 0, "%s", rows[i].name);
        bytes += strncmp(rows[i].name, "attention.int8.", strlen("attention.int8.")) == 0;
    }
    ck_assert_int_gt(bytes, 0);
    ck_assert_int_gt(n, bytes);
}
END_TEST

/* A benchmark stops measuring when its time limit has passed, but not before its third round.
 * Shapes of any size therefore get result rows, which are marked `out_of_time`. */
START_TEST(rounds_end_at_the_time_limit)
{
    struct kvr_bench_row rows[KVR_BENCH_ATTENTION_ROWS];
    struct kvr_dev *dev;
    int n = 0;

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_msg(kvr_bench_attention_at(dev, "16x64x2x32", 400, 1e-9, rows, &n) == KVR_OK, "%s",
                  kvr_error());
    kvr_dev_close(&dev);
    ck_assert_int_gt(n, 0);
    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(rows[i].n, 3);
        ck_assert(rows[i].out_of_time && !rows[i].steady);
        ck_assert_msg(rows[i].cold > 0 && rows[i].warm > 0, "%s", rows[i].name);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("bench attention");
    TCase *t = tcase_create("bench attention");

    suite_add_tcase(s, t);
    tcase_add_test(t, large_shapes_compute_a_subset_of_queries);
    tcase_add_test(t, a_shape_has_a_row_for_every_path_and_method);
    tcase_add_test(t, rounds_end_at_the_time_limit);
    return run_suite(s);
}
