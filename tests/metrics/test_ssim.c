/* test_ssim.c - SSIM compared with recorded values of scikit-image; its edge cases and symmetry. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "tests/metrics/cases.h"
#include "tests/suite.h"
#include "tests/threads.h"

/* scikit-image filters in double. Its running window sums have an error of about 1e-11 for values
 * up to 65025, relative to C2 = 58.5 in the denominator. kvreel's sums are exact integers. */
static const double tol = 1e-10;

START_TEST(recorded_values)
{
    const struct metric_case *mc = &metric_cases[_i];
    struct pair p = make_pair(mc->kind, mc->n, mc->height, mc->width);
    struct kvr_metric_value v, w;

    ck_assert_int_eq(kvr_metric_compute(kvr_metric_find("ssim"), &p.ref, &p.test, &v), KVR_OK);
    ck_assert_str_eq(v.missing, "");
    ck_assert_int_eq(v.n_series, mc->n);
    ck_assert_msg(fabs(v.value - mc->ssim) <= tol, "case %d: %.15g, recorded %.15g", _i, v.value,
                  mc->ssim);
    ck_assert_msg(fabs(v.series[0] - mc->ssim_first) <= tol,
                  "case %d, first: %.15g, recorded %.15g", _i, v.series[0], mc->ssim_first);
    ck_assert_msg(fabs(v.series[mc->n - 1] - mc->ssim_last) <= tol,
                  "case %d, last: %.15g, recorded %.15g", _i, v.series[mc->n - 1], mc->ssim_last);

    ck_assert_int_eq(kvr_metric_compute(kvr_metric_find("ssim"), &p.test, &p.ref, &w), KVR_OK);
    ck_assert_msg(fabs(v.value - w.value) <= tol, "not symmetric: %.15g, %.15g", v.value, w.value);
    kvr_metric_value_free(&v);
    kvr_metric_value_free(&w);
    free_pair(&p);
}
END_TEST

START_TEST(one_damaged_byte_is_seen)
{
    struct pair p = make_pair(CASE_SMOOTH, 2, 20, 20);
    struct kvr_metric_value v;

    memcpy(p.b, p.a, 2 * 20 * 20 * 3);
    ck_assert_int_eq(kvr_metric_compute(kvr_metric_find("ssim"), &p.ref, &p.test, &v), KVR_OK);
    ck_assert(v.value == 1.0 && v.series[1] == 1.0);
    kvr_metric_value_free(&v);

    p.b[(20 * 20 + 10 * 20 + 10) * 3] ^= 0x10;
    ck_assert_int_eq(kvr_metric_compute(kvr_metric_find("ssim"), &p.ref, &p.test, &v), KVR_OK);
    ck_assert(v.series[0] == 1.0);
    ck_assert(v.series[1] < 1.0 && v.value < 1.0);
    kvr_metric_value_free(&v);
    free_pair(&p);
}
END_TEST

/* The integer sums of a 7x7 window must hold up to (49 * 255)^2 and twice that number. */
START_TEST(extremes_do_not_overflow)
{
    size_t m = 8 * 8 * 3;
    uint8_t white[8 * 8 * 3], black[8 * 8 * 3] = { 0 }, checks[8 * 8 * 3];
    struct kvr_frames w = { 1, 8, 8, white }, b = { 1, 8, 8, black }, c = { 1, 8, 8, checks };
    struct kvr_metric_value v;
    double c1 = 0.01 * 255 * 0.01 * 255;

    memset(white, 255, m);
    for (size_t i = 0; i < m; i++)
        checks[i] = (i / 3 + i / 24) % 2 ? 255 : 0;
    ck_assert_int_eq(kvr_metric_compute(kvr_metric_find("ssim"), &w, &w, &v), KVR_OK);
    ck_assert(v.value == 1.0);
    kvr_metric_value_free(&v);
    /* Flat 255 against flat 0: the variances are 0, so SSIM is C1 / (255^2 + C1). */
    ck_assert_int_eq(kvr_metric_compute(kvr_metric_find("ssim"), &w, &b, &v), KVR_OK);
    ck_assert_msg(fabs(v.value - c1 / (255.0 * 255.0 + c1)) <= tol, "%.15g", v.value);
    kvr_metric_value_free(&v);
    ck_assert_int_eq(kvr_metric_compute(kvr_metric_find("ssim"), &c, &c, &v), KVR_OK);
    ck_assert(v.value == 1.0);
    kvr_metric_value_free(&v);
}
END_TEST

START_TEST(frames_smaller_than_the_window)
{
    struct pair p = make_pair(CASE_SMOOTH, 2, 6, 40);
    struct kvr_metric_value v;

    ck_assert_int_eq(kvr_metric_compute(kvr_metric_find("ssim"), &p.ref, &p.test, &v), KVR_OK);
    ck_assert_str_eq(v.missing, "frames of 40x6 are smaller than the 7x7 window");
    ck_assert_int_eq(v.n_series, 0);
    kvr_metric_value_free(&v);
    free_pair(&p);
}
END_TEST

START_TEST(same_bytes_for_any_thread_count)
{
    struct pair p = make_pair(CASE_NOISE, 5, 23, 31);
    struct kvr_metric_value one, three;
    int threads = omp_get_max_threads();

    omp_set_num_threads(1);
    ck_assert_int_eq(kvr_metric_compute(kvr_metric_find("ssim"), &p.ref, &p.test, &one), KVR_OK);
    set_threads(3);
    ck_assert_int_eq(kvr_metric_compute(kvr_metric_find("ssim"), &p.ref, &p.test, &three), KVR_OK);
    omp_set_num_threads(threads);
    ck_assert(one.value == three.value);
    ck_assert(memcmp(one.series, three.series, 5 * sizeof(double)) == 0);
    kvr_metric_value_free(&one);
    kvr_metric_value_free(&three);
    free_pair(&p);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ssim");
    TCase *tc = tcase_create("ssim");

    tcase_add_loop_test(tc, recorded_values, 0, N_METRIC_CASES);
    tcase_add_test(tc, one_damaged_byte_is_seen);
    tcase_add_test(tc, extremes_do_not_overflow);
    tcase_add_test(tc, frames_smaller_than_the_window);
    tcase_add_test(tc, same_bytes_for_any_thread_count);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
