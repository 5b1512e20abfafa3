/* test_gauss.c - SSIM with a Gaussian window, over five scales, and as FFmpeg computes it, compared
 * with recorded values. The videos are those of cases.h, and luma is
 * y = (299 r + 587 g + 114 b + 500) // 1000.
 *
 *     ssim_gauss:  mean over frames of scikit-image 0.26.0's structural_similarity(y0, y1,
 *                  gaussian_weights=True, sigma=1.5, use_sample_covariance=False,
 *                  data_range=255), y as float64
 *     ssim_ffmpeg: 8x8 sums at multiples of 4, in numpy int64; tests/cli/test_ffmpeg_agreement.sh
 *                  runs FFmpeg itself
 *     ms_ssim:     numpy float64, np.convolve(..., 'valid') along both axes, np.pad(mode='edge')
 *                  before every halving */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "tests/metrics/cases.h"
#include "tests/suite.h"
#include "tests/threads.h"

static const struct recorded {
    const char *metric;
    enum case_kind kind;
    int n, height, width;
    double value;
} recorded[] = {
    { "ssim_gauss", CASE_NOISE, 3, 16, 20, 0.048012212216983 },
    { "ssim_gauss", CASE_SMOOTH, 4, 33, 29, 0.985168435008925 },
    { "ssim_gauss", CASE_FLAT, 2, 12, 12, 0.999563435332221 },
    { "ssim_gauss", CASE_FAINT, 5, 40, 64, 0.999999371655462 },
    { "ssim_ffmpeg", CASE_NOISE, 3, 16, 20, 0.0113824267679267 },
    { "ssim_ffmpeg", CASE_SMOOTH, 4, 33, 29, 0.985239934497496 },
    { "ssim_ffmpeg", CASE_FLAT, 2, 12, 12, 0.99956329974052 },
    { "ssim_ffmpeg", CASE_FAINT, 5, 40, 64, 0.99999980130485 },
    { "ms_ssim", CASE_NOISE, 1, 161, 176, 0.144076218793128 },
    { "ms_ssim", CASE_SMOOTH, 2, 170, 163, 0.99870543975728 },
    { "ms_ssim", CASE_FAINT, 1, 176, 192, 0.999999956253237 },
};
enum { N_RECORDED = sizeof recorded / sizeof recorded[0] };

/* In double, E[x^2] - E[x]^2 of values up to 65025 loses a few times 65025 * 2^-53, about 3e-11.
 * Relative to C2 = 58.5 that is about 1e-12 of SSIM in a flat picture. */
static const double tol = 1e-11;

static struct kvr_metric_value measure(const char *name, const struct pair *p)
{
    struct kvr_metric_value v;

    ck_assert_int_eq(kvr_metric_compute(kvr_metric_find(name), &p->ref, &p->test, &v), KVR_OK);
    return v;
}

START_TEST(recorded_values)
{
    const struct recorded *r = &recorded[_i];
    struct pair p = make_pair(r->kind, r->n, r->height, r->width);
    struct kvr_metric_value v = measure(r->metric, &p);

    ck_assert_str_eq(v.missing, "");
    ck_assert_int_eq(v.n_series, r->n);
    ck_assert_msg(fabs(v.value - r->value) <= tol, "%s: %.15g, recorded %.15g", r->metric, v.value,
                  r->value);
    kvr_metric_value_free(&v);
    free_pair(&p);
}
END_TEST

static const char *const names[] = { "ssim_gauss", "ssim_ffmpeg", "ms_ssim" };

START_TEST(one_for_the_same_and_symmetric)
{
    struct pair p = make_pair(CASE_SMOOTH, 2, 170, 165), back = p, same = p;
    struct kvr_metric_value v, w;

    back.ref = p.test;
    back.test = p.ref;
    same.test = p.ref;
    v = measure(names[_i], &same);
    ck_assert_msg(v.value == 1.0, "%s: %.17g", names[_i], v.value);
    kvr_metric_value_free(&v);
    v = measure(names[_i], &p);
    w = measure(names[_i], &back);
    ck_assert_msg(fabs(v.value - w.value) <= tol, "%s: %.15g, %.15g", names[_i], v.value, w.value);
    ck_assert(v.value < 1.0);
    kvr_metric_value_free(&v);
    kvr_metric_value_free(&w);
    free_pair(&p);
}
END_TEST

START_TEST(one_damaged_pixel_is_seen)
{
    struct pair p = make_pair(CASE_SMOOTH, 1, 170, 165);
    struct kvr_metric_value v;

    memcpy(p.b, p.a, 170 * 165 * 3);
    for (int c = 0; c < 3; c++)
        p.b[(80 * 165 + 80) * 3 + c] ^= 0x40;
    v = measure(names[_i], &p);
    ck_assert_msg(v.value < 1.0, "%s: %.17g", names[_i], v.value);
    kvr_metric_value_free(&v);
    free_pair(&p);
}
END_TEST

static const double black_on_white[] = { 6.5025 / 65031.5025, 416.0 / (16320.0 * 16320.0 + 416.0),
                                         0.292950478 }; /* 1e-4^0.1333 */

START_TEST(extremes_stay_in_range)
{
    const size_t m = 170 * 165 * 3;
    struct pair p = make_pair(CASE_FLAT, 1, 170, 165);
    struct kvr_metric_value v;

    memset(p.a, 0, m);
    memset(p.b, 255, m);
    v = measure(names[_i], &p);
    /* Only the means differ, so SSIM is its luminance term, C1 / (255^2 + C1) = 1e-4. ms_ssim has
     * this term at the coarsest of its five scales only, with the exponent 0.1333. FFmpeg's C1 is
     * 64 times smaller, so ssim_ffmpeg is, too. */
    ck_assert_msg(fabs(v.value - black_on_white[_i]) <= 1e-8, "%s: %.17g", names[_i], v.value);
    kvr_metric_value_free(&v);
    for (size_t i = 0; i < m; i++) { /* a checkerboard and its negative */
        p.a[i] = (i / 3 + i / (3 * 165)) % 2 ? 255 : 0;
        p.b[i] = (uint8_t)(255 - p.a[i]);
    }
    v = measure(names[_i], &p);
    ck_assert_msg(v.value >= -1.0 && v.value <= 0.0, "%s: %.17g", names[_i], v.value);
    kvr_metric_value_free(&v);
    free_pair(&p);
}
END_TEST

START_TEST(too_small_is_missing_with_the_sizes)
{
    static const struct {
        const char *name, *why;
        int least;
    } small[] = {
        { "ssim_gauss", "frames of 30x10 are smaller than the 11x11 window", 11 },
        { "ssim_ffmpeg", "frames of 30x7 are smaller than the 8x8 window", 8 },
        { "ms_ssim", "frames of 30x160 are too small for 5 scales: need at least 161x161", 161 },
    };

    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        struct pair p = make_pair(CASE_SMOOTH, 1, small[i].least - 1, 30);
        struct kvr_metric_value v = measure(small[i].name, &p);

        ck_assert_str_eq(v.missing, small[i].why);
        ck_assert_ptr_null(v.series);
        free_pair(&p);
        p = make_pair(CASE_SMOOTH, 1, small[i].least, small[i].least);
        v = measure(small[i].name, &p);
        ck_assert_str_eq(v.missing, "");
        kvr_metric_value_free(&v);
        free_pair(&p);
    }
}
END_TEST

START_TEST(same_bytes_for_any_thread_count)
{
    struct pair p = make_pair(CASE_SMOOTH, 5, 163, 170);
    int threads = omp_get_max_threads();
    struct kvr_metric_value one, three;

    omp_set_num_threads(1);
    one = measure(names[_i], &p);
    set_threads(3);
    three = measure(names[_i], &p);
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
    Suite *s = suite_create("gauss");
    TCase *tc = tcase_create("gauss");

    tcase_add_loop_test(tc, recorded_values, 0, N_RECORDED);
    tcase_add_loop_test(tc, one_for_the_same_and_symmetric, 0, 3);
    tcase_add_loop_test(tc, one_damaged_pixel_is_seen, 0, 3);
    tcase_add_loop_test(tc, extremes_stay_in_range, 0, 3);
    tcase_add_test(tc, too_small_is_missing_with_the_sizes);
    tcase_add_loop_test(tc, same_bytes_for_any_thread_count, 0, 3);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
