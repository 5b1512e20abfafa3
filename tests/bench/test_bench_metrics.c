/* test_bench_metrics.c - every metric that needs no weights has a benchmark row. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/bench/bench_metrics.h"
#include "metrics/metric.h"
#include "tests/suite.h"

START_TEST(a_row_for_every_metric)
{
    struct kvr_bench_row rows[KVR_BENCH_METRICS_ROWS];
    struct kvr_dev *dev;
    int n, at = 0;

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_msg(kvr_bench_metrics(dev, 3, rows, &n) == KVR_OK, "%s", kvr_error());
    for (int i = 0; kvr_metrics[i]; i++) {
        char name[64];

        if (strcmp(kvr_metrics[i]->name, "prompt_score") == 0)
            continue; /* prompt_score accepts only frames of the bundled model's size */
        snprintf(name, sizeof name, "metric.%s", kvr_metrics[i]->name);
        if (strstr(name, "lpips") && at < n && strcmp(rows[at].name, name) != 0)
            continue; /* no weights here */
        ck_assert_int_lt(at, n);
        ck_assert_str_eq(rows[at].name, name);
        ck_assert(isfinite(rows[at].median) && rows[at].median > 0 && rows[at].ratio > 0);
        ck_assert(rows[at].cold > 0 && rows[at].warm > 0);
        ck_assert_int_eq(rows[at].n, 3);
        at++;
    }
    ck_assert_int_eq(at, n);
    ck_assert_int_eq(kvr_bench_metrics(dev, 2, rows, &n), KVR_EINVAL);
    kvr_dev_close(&dev);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("bench_metrics");
    TCase *tc = tcase_create("bench_metrics");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, a_row_for_every_metric);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
