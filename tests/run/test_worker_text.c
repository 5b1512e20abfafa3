/* test_worker_text.c - the answer of a worker that evaluated a language model: values that are not
 * numbers become metrics without a value. */
#include <check.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "harness/run/worker_text.h"
#include "harness/store/record.h"
#include "tests/suite.h"

START_TEST(not_a_number)
{
    static const struct kvr_text_bin bin = { .prefix = 8, .tokens = 4, .nll = 2, .mass = NAN };
    const struct kvr_text_result r = { .n_bins = 2, .bin = { bin, bin }, .all = bin };
    json_t *answer = json_pack("{s:[]}", "metrics");
    struct kvr_row_metric *m;
    bool seen = false;
    int n;

    ck_assert_msg(kvr_worker_text_answer(&r, answer) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_metrics_read(json_object_get(answer, "metrics"), "answer", &m, &n) == KVR_OK,
                  "%s", kvr_error());
    ck_assert_int_eq(n, 5);
    for (int i = 0; i < n; i++) {
        const bool mass = strcmp(m[i].name, "mass") == 0;

        seen = seen || mass;
        ck_assert_int_eq(m[i].n_series, 2);
        ck_assert_int_eq(isfinite(m[i].value), !mass);
        ck_assert_int_eq(m[i].missing != NULL, mass);
        ck_assert_int_eq(isfinite(m[i].series[1]), !mass);
    }
    ck_assert(seen);
    kvr_metrics_free(m, n);
    json_decref(answer);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("worker_text");
    TCase *tc = tcase_create("worker_text");

    tcase_add_test(tc, not_a_number);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
