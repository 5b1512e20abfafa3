/* test_lpips.c - compares LPIPS with the authors' package (lpips 0.1.4 in torch, float64) on
 * weights that C and Python generate identically. Also tests missing and wrong weights.
 *
 *     layer i:  weight = (mix(n, 2 i + 1) - 0.5) * s[i]    s = 0.2, 0.1, 0.1, 0.07, 0.08
 *               bias   = (mix(n, 2 i + 2) - 0.5) * 0.1     head = mix(n, 20 + i)
 *     lpips.LPIPS(pretrained=False, net='alex', pnet_rand=True)(a / 127.5 - 1, b / 127.5 - 1) */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/core/safetensors.h"
#include "tests/metrics/cases.h"
#include "tests/metrics/drawn.h"
#include "tests/threads.h"

enum { LAYERS = 5, N_TENSORS = 3 * LAYERS };

static const struct {
    int index, out, in, kernel;
    float scale;
} layers[LAYERS] = {
    { 0, 64, 3, 11, 0.2f },    { 3, 192, 64, 5, 0.1f },    { 6, 384, 192, 3, 0.1f },
    { 8, 256, 384, 3, 0.07f }, { 10, 256, 256, 3, 0.08f },
};

static char path[] = "/tmp/kvreel-lpips-XXXXXX";

/* Writes all tensors except tensor number `drop`. */
static void write_weights(int drop)
{
    struct kvr_st_item items[N_TENSORS];
    char names[N_TENSORS][32];

    for (int i = 0; i < LAYERS; i++) {
        const int64_t w[] = { layers[i].out, layers[i].in, layers[i].kernel, layers[i].kernel };
        const int64_t h[] = { 1, layers[i].out, 1, 1 };
        uint32_t seed = (uint32_t)(2 * i + 1);

        snprintf(names[3 * i], 32, "features.%d.weight", layers[i].index);
        snprintf(names[3 * i + 1], 32, "features.%d.bias", layers[i].index);
        snprintf(names[3 * i + 2], 32, "lin%d.model.1.weight", i);
        items[3 * i] = drawn(names[3 * i], 4, w, seed, 0.5f, layers[i].scale);
        items[3 * i + 1] = drawn(names[3 * i + 1], 1, w, seed + 1, 0.5f, 0.1f);
        items[3 * i + 2] = drawn(names[3 * i + 2], 4, h, (uint32_t)(20 + i), 0.0f, 1.0f);
    }
    if (drop >= 0) {
        struct kvr_st_item gone = items[drop];

        items[drop] = items[N_TENSORS - 1];
        items[N_TENSORS - 1] = gone;
    }
    ck_assert_int_eq(kvr_st_write(path, items, N_TENSORS - (drop >= 0), NULL), KVR_OK);
    for (int i = 0; i < N_TENSORS; i++)
        free(items[i].t.data);
}

static void make_weights(void)
{
    write_weights(-1);
}

static enum kvr_status measure(const struct pair *p, const char *weights,
                               struct kvr_metric_value *v)
{
    const struct kvr_metric_input in = { .ref = &p->ref,
                                         .test = &p->test,
                                         .lpips_weights = weights };

    return kvr_metric_measure(kvr_metric_find("lpips"), &in, v);
}

static const struct recorded {
    enum case_kind kind;
    int n, height, width;
    double value, first;
} recorded[] = {
    { CASE_NOISE, 1, 64, 96, 0.938452799139929, 0.938452799139929 },
    { CASE_SMOOTH, 2, 63, 71, 0.00515889655277033, 0.00503076098110008 },
    { CASE_FAINT, 1, 96, 130, 5.71829806773669e-08, 5.71829806773669e-08 },
    { CASE_FLAT, 1, 70, 64, 0.0256331524880948, 0.0256331524880948 },
};
enum { N_RECORDED = sizeof recorded / sizeof recorded[0] };

/* Sums of up to 3456 products in float have an error of about sqrt(3456) 2^-24 = 4e-6 of an
 * activation. The distance is the square of differences nearly as large as the activations, so its
 * relative error is near 1e-5. In CASE_FAINT the differences are only 1e-4 of the activations.
 * Their relative error is then 4e-2, and only the absolute tolerance of 1e-8 is wide enough. */
static double tolerance(double value)
{
    return 1e-5 * value + 1e-8;
}

START_TEST(recorded_values)
{
    const struct recorded *r = &recorded[_i];
    struct pair p = make_pair(r->kind, r->n, r->height, r->width);
    struct kvr_metric_value v;

    ck_assert_int_eq(measure(&p, path, &v), KVR_OK);
    ck_assert_str_eq(v.missing, "");
    ck_assert_msg(fabs(v.value - r->value) <= tolerance(r->value), "%.15g, recorded %.15g", v.value,
                  r->value);
    ck_assert_msg(fabs(v.series[0] - r->first) <= tolerance(r->first),
                  "frame 0: %.15g, recorded %.15g", v.series[0], r->first);
    kvr_metric_value_free(&v);
    free_pair(&p);
}
END_TEST

START_TEST(zero_for_the_same_and_symmetric)
{
    struct pair p = make_pair(CASE_SMOOTH, 1, 70, 65), back = p, same = p;
    struct kvr_metric_value v, w;

    back.ref = p.test;
    back.test = p.ref;
    same.test = p.ref;
    ck_assert_int_eq(measure(&same, path, &v), KVR_OK);
    ck_assert(v.value == 0.0);
    kvr_metric_value_free(&v);
    ck_assert_int_eq(measure(&p, path, &v), KVR_OK);
    ck_assert_int_eq(measure(&back, path, &w), KVR_OK);
    ck_assert(fabs(v.value - w.value) <= 1e-12 && v.value > 0.0);
    kvr_metric_value_free(&v);
    kvr_metric_value_free(&w);
    free_pair(&p);
}
END_TEST

/* 31 pixels is the smallest side that leaves a pixel after the two max poolings; 30 leaves none. */
START_TEST(extreme_sizes)
{
    static const int size[] = { 1, 30, 31 };

    for (int i = 0; i < 3; i++) {
        struct pair p = make_pair(CASE_SMOOTH, 1, size[i], 40);
        struct kvr_metric_value v;

        ck_assert_int_eq(measure(&p, path, &v), KVR_OK);
        ck_assert_msg((v.missing[0] == 0) == (size[i] == 31), "%d: %s", size[i], v.missing);
        kvr_metric_value_free(&v);
        free_pair(&p);
    }
}
END_TEST

START_TEST(without_weights_missing)
{
    struct pair p = make_pair(CASE_SMOOTH, 1, 64, 64);
    struct kvr_metric_value v;

    ck_assert_int_eq(measure(&p, NULL, &v), KVR_OK);
    ck_assert_ptr_nonnull(strstr(v.missing, "alexnet.safetensors"));
    ck_assert_int_eq(measure(&p, "/nonexistent/alexnet.safetensors", &v), KVR_ENOTFOUND);
    free_pair(&p);
}
END_TEST

START_TEST(a_missing_tensor_is_an_error)
{
    struct pair p = make_pair(CASE_SMOOTH, 1, 64, 64);
    struct kvr_metric_value v;

    write_weights(7); /* features.6.bias */
    ck_assert_int_eq(measure(&p, path, &v), KVR_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "features.6.bias"));
    write_weights(2);
    ck_assert_int_eq(measure(&p, path, &v), KVR_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "lin0.model.1.weight"));
    write_weights(-1);
    free_pair(&p);
}
END_TEST

START_TEST(same_bytes_for_any_thread_count)
{
    struct pair p = make_pair(CASE_SMOOTH, 3, 64, 80);
    int threads = omp_get_max_threads();
    struct kvr_metric_value one, three;

    omp_set_num_threads(1);
    ck_assert_int_eq(measure(&p, path, &one), KVR_OK);
    set_threads(3);
    ck_assert_int_eq(measure(&p, path, &three), KVR_OK);
    omp_set_num_threads(threads);
    ck_assert(one.value == three.value);
    ck_assert(memcmp(one.series, three.series, 3 * sizeof(double)) == 0);
    kvr_metric_value_free(&one);
    kvr_metric_value_free(&three);
    free_pair(&p);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("lpips");
    TCase *tc = tcase_create("lpips");
    SRunner *sr = srunner_create(s);
    int failed, fd = mkstemp(path);

    if (fd < 0)
        return EXIT_FAILURE;
    close(fd);
    tcase_set_timeout(tc, 120);
    tcase_add_unchecked_fixture(tc, make_weights, NULL);
    tcase_add_loop_test(tc, recorded_values, 0, N_RECORDED);
    tcase_add_test(tc, zero_for_the_same_and_symmetric);
    tcase_add_test(tc, extreme_sizes);
    tcase_add_test(tc, without_weights_missing);
    tcase_add_test(tc, a_missing_tensor_is_an_error);
    tcase_add_test(tc, same_bytes_for_any_thread_count);
    suite_add_tcase(s, tc);
    srunner_set_fork_status(sr, CK_NOFORK); /* a forked child would lose OpenMP's threads */
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    unlink(path);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
