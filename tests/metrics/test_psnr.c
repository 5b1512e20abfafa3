/* test_psnr.c - PSNR compared with recorded values, its cap of 100 dB, and the checks of the metric
 * registry. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/metrics/cases.h"
#include "tests/suite.h"

/* The squared error is an exact integer; one division and one log10 in double leave a few
 * units in the last place of a number near 100. */
static const double tol_db = 1e-11;

START_TEST(recorded_values)
{
    const struct metric_case *mc = &metric_cases[_i];
    struct pair p = make_pair(mc->kind, mc->n, mc->height, mc->width);
    struct kvr_metric_value v;

    ck_assert_int_eq(kvr_metric_compute(kvr_metric_find("psnr"), &p.ref, &p.test, &v), KVR_OK);
    ck_assert_str_eq(v.missing, "");
    ck_assert_int_eq(v.n_series, mc->n);
    ck_assert_msg(fabs(v.value - mc->psnr) <= tol_db, "case %d: %.15g, recorded %.15g", _i, v.value,
                  mc->psnr);
    ck_assert_msg(fabs(v.series[0] - mc->psnr0) <= tol_db,
                  "case %d, frame 0: %.15g, recorded %.15g", _i, v.series[0], mc->psnr0);
    ck_assert(v.extra == 0.0);
    kvr_metric_value_free(&v);
    free_pair(&p);
}
END_TEST

START_TEST(identical_frames_neither_infinite_nor_lost)
{
    struct pair p = make_pair(CASE_SMOOTH, 4, 9, 11);
    struct kvr_metric_value v, ident;
    double whole;

    ck_assert_int_eq(kvr_metric_compute(kvr_metric_find("psnr"), &p.ref, &p.test, &v), KVR_OK);
    whole = v.value;
    kvr_metric_value_free(&v);

    memcpy(p.b, p.a, 9 * 11 * 3);
    ck_assert_int_eq(kvr_metric_compute(kvr_metric_find("psnr"), &p.ref, &p.test, &v), KVR_OK);
    ck_assert(v.series[0] == 100.0);
    ck_assert(v.extra == 1.0);
    /* One of four frames now has no error: PSNR rises by about 10 log10(4/3) = 1.25 dB. The noise
     * differs between frames, hence the range of 1.0 to 1.5 dB. */
    ck_assert_msg(v.value > whole + 1.0 && v.value < whole + 1.5, "%g after %g", v.value, whole);
    kvr_metric_value_free(&v);

    ck_assert_int_eq(
        kvr_metric_compute(kvr_metric_find("identical_frames"), &p.ref, &p.test, &ident), KVR_OK);
    ck_assert(ident.value == 1.0 && ident.series[0] == 1.0 && ident.series[1] == 0.0);
    kvr_metric_value_free(&ident);

    ck_assert_int_eq(kvr_metric_compute(kvr_metric_find("psnr"), &p.ref, &p.ref, &v), KVR_OK);
    ck_assert(v.value == 100.0 && v.extra == 4.0);
    kvr_metric_value_free(&v);
    free_pair(&p);
}
END_TEST

/* The per-block and the total sum of squared errors must not overflow at the largest possible
 * error. */
START_TEST(black_against_white_is_zero)
{
    int height = 200, width = 301;
    size_t m = (size_t)height * (size_t)width * 3;
    uint8_t *black = calloc(m, 1), *white = malloc(m);
    struct kvr_frames a = { 1, height, width, black }, b = { 1, height, width, white };
    struct kvr_metric_value v;

    ck_assert(black && white);
    memset(white, 255, m);
    ck_assert_int_eq(kvr_metric_compute(kvr_metric_find("psnr"), &a, &b, &v), KVR_OK);
    ck_assert_msg(fabs(v.value) <= tol_db, "%g", v.value);
    kvr_metric_value_free(&v);
    free(black);
    free(white);
}
END_TEST

START_TEST(shapes_must_agree)
{
    uint8_t px[5 * 3 * 4 * 3] = { 0 };
    struct kvr_frames a = { 5, 3, 4, px }, b = { 4, 3, 4, px }, none = { 0, 3, 4, px };
    struct kvr_metric_value v;

    for (int i = 0; kvr_metrics[i]; i++) {
        ck_assert_int_eq(kvr_metric_compute(kvr_metrics[i], &a, &b, &v), KVR_EINVAL);
        ck_assert_msg(strstr(kvr_error(), "5 frames of 4x3") && strstr(kvr_error(), "4 of 4x3"),
                      "%s", kvr_error());
        ck_assert_ptr_null(v.series);
        ck_assert_int_eq(kvr_metric_compute(kvr_metrics[i], &none, &none, &v), KVR_OK);
        ck_assert_str_eq(v.missing, "no frames to compare: the video has 0 frames of 4x3");
    }
}
END_TEST

static enum kvr_status nan_compute(const struct kvr_metric_input *in, struct kvr_metric_value *out)
{
    (void)in;
    out->series = calloc(1, sizeof *out->series);
    out->n_series = out->series != NULL;
    out->value = NAN;
    return KVR_OK;
}

static enum kvr_status high_compute(const struct kvr_metric_input *in, struct kvr_metric_value *out)
{
    (void)in;
    out->value = 1.5;
    return KVR_OK;
}

START_TEST(values_out_of_range_are_refused)
{
    const struct kvr_metric nan_metric = {
        .name = "n", .unit = "1", .hi = 1, .compute = nan_compute
    };
    const struct kvr_metric high_metric = {
        .name = "h", .unit = "1", .hi = 1, .compute = high_compute
    };
    uint8_t px[3] = { 0 };
    struct kvr_frames a = { 1, 1, 1, px };
    struct kvr_metric_value v;

    ck_assert_int_eq(kvr_metric_compute(&nan_metric, &a, &a, &v), KVR_ENAN);
    ck_assert_ptr_null(v.series);
    ck_assert_int_eq(kvr_metric_compute(&high_metric, &a, &a, &v), KVR_EINTERNAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "1.5"));
}
END_TEST

START_TEST(registry_is_well_formed)
{
    for (int i = 0; kvr_metrics[i]; i++) {
        const struct kvr_metric *m = kvr_metrics[i];

        ck_assert_ptr_eq(kvr_metric_find(m->name), m);
        ck_assert(m->title && m->unit && m->source && m->compute && m->version >= 1 &&
                  m->lo < m->hi);
        ck_assert(m->direction == 1 || m->direction == -1);
    }
    ck_assert_ptr_null(kvr_metric_find("psnrr"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("psnr");
    TCase *tc = tcase_create("psnr");

    tcase_add_loop_test(tc, recorded_values, 0, N_METRIC_CASES);
    tcase_add_test(tc, identical_frames_neither_infinite_nor_lost);
    tcase_add_test(tc, black_against_white_is_zero);
    tcase_add_test(tc, shapes_must_agree);
    tcase_add_test(tc, values_out_of_range_are_refused);
    tcase_add_test(tc, registry_is_well_formed);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
