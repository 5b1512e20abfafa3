/* test_alone.c - metrics that need no reference video: compared with numpy (float64), and in edge
 * cases. Also runs every metric on very small and odd video sizes. The measured videos are the
 * arrays `b` of cases.h, in chunks of 2 frames.
 *
 *     temporal_flicker:  mean(1 - mean(abs(diff(b, axis=0)), (1, 2, 3)) / 255)
 *     linear_smoothness: mean(1 - mean(abs(b[1:-1] - (b[:-2] + b[2:]) / 2), (1, 2, 3)) / 255)
 *     sharpness:         mean over frames of var(Laplacian of luma)
 *     chunk_discontinuity: d = norms of diff(b); mean(sort(d)[-(C-1):]) / mean(d), and the mean
 *                        of d at borders over that inside
 *     colour_drift:      norms of (mean colour - its mean over b[:2]); mean over b[2:], the last
 *                        chunk */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "metrics/derived.h"
#include "tests/metrics/cases.h"
#include "tests/suite.h"
#include "tests/threads.h"

enum { CHUNK = 2 };

static const struct recorded {
    const char *metric;
    enum case_kind kind;
    int n, height, width;
    double value, extra;
} recorded[] = {
    { "temporal_flicker", CASE_NOISE, 3, 16, 20, 0.653243464052288, 0 },
    { "temporal_flicker", CASE_SMOOTH, 4, 33, 29, 0.964382158296966, 0 },
    { "temporal_flicker", CASE_FAINT, 5, 40, 64, 0.976746578839869, 0 },
    { "linear_smoothness", CASE_NOISE, 3, 16, 20, 0.693864379084967, 0 },
    { "linear_smoothness", CASE_SMOOTH, 4, 33, 29, 0.969152990349745, 0 },
    { "linear_smoothness", CASE_FAINT, 5, 40, 64, 0.988233251633987, 0 },
    { "sharpness", CASE_NOISE, 3, 16, 20, 50819.8815455194, 0 },
    { "sharpness", CASE_SMOOTH, 4, 33, 29, 6108.55988275245, 0 },
    { "sharpness", CASE_FLAT, 2, 12, 12, 0, 0 },
    { "sharpness", CASE_FAINT, 5, 40, 64, 5372.3510133431, 0 },
    { "chunk_discontinuity", CASE_NOISE, 3, 16, 20, 1.00556709582618, 1.01119652377313 },
    { "chunk_discontinuity", CASE_SMOOTH, 4, 33, 29, 1.02737320822891, 0.979368781171367 },
    { "chunk_discontinuity", CASE_FAINT, 5, 40, 64, 1.00000077198597, 0.999999485343174 },
    { "colour_drift", CASE_NOISE, 3, 16, 20, 9.47143294291775, 9.47143294291775 },
    { "colour_drift", CASE_SMOOTH, 4, 33, 29, 0.998922762677029, 0.998922762677029 },
    { "colour_drift", CASE_FAINT, 5, 40, 64, 0.000524821428751135, 0.000478415965380378 },
};
enum { N_RECORDED = sizeof recorded / sizeof recorded[0] };

/* The sums over bytes are exact integers. The arithmetic after them rounds a few times, at values
 * up to 5e4; colour_drift also subtracts means near 128. */
static double tolerance(double value)
{
    return 1e-13 * fabs(value) + 1e-12;
}

static struct kvr_metric_value measure(const char *name, const struct pair *p, int chunk)
{
    const struct kvr_metric_input in = { .ref = &p->ref, .test = &p->test, .chunk = chunk };
    struct kvr_metric_value v;
    enum kvr_status st = kvr_metric_measure(kvr_metric_find(name), &in, &v);

    ck_assert_msg(st == KVR_OK, "%s", kvr_error());
    return v;
}

START_TEST(recorded_values)
{
    const struct recorded *r = &recorded[_i];
    struct pair p = make_pair(r->kind, r->n, r->height, r->width);
    struct kvr_metric_value v = measure(r->metric, &p, CHUNK);

    ck_assert_str_eq(v.missing, "");
    ck_assert_msg(fabs(v.value - r->value) <= tolerance(r->value), "%s: %.15g, recorded %.15g",
                  r->metric, v.value, r->value);
    ck_assert_msg(fabs(v.extra - r->extra) <= tolerance(r->extra),
                  "%s: extra %.15g, recorded %.15g", r->metric, v.extra, r->extra);
    for (int i = 0; i < v.first; i++)
        ck_assert(isnan(v.series[i]));
    kvr_metric_value_free(&v);
    free_pair(&p);
}
END_TEST

START_TEST(the_reference_has_no_effect)
{
    for (int i = 0; kvr_metrics[i]; i++) {
        struct pair p = make_pair(CASE_NOISE, 4, 32, 32), q = p;
        struct kvr_metric_value v, w;

        q.ref = p.test;
        v = measure(kvr_metrics[i]->name, &p, CHUNK);
        w = measure(kvr_metrics[i]->name, &q, CHUNK);
        if (!v.missing[0])
            ck_assert_msg((v.value == w.value) == kvr_metrics[i]->alone, "%s",
                          kvr_metrics[i]->name);
        kvr_metric_value_free(&v);
        kvr_metric_value_free(&w);
        free_pair(&p);
    }
}
END_TEST

/* Frame i is flat with level 50 floor(i / 2): the level jumps by 50 before every second frame. */
START_TEST(a_jump_at_every_border)
{
    struct pair p = make_pair(CASE_FLAT, 6, 4, 5);
    struct kvr_metric_value v;

    for (int i = 0; i < 6; i++)
        memset(p.b + i * 4 * 5 * 3, i / 2 * 50, 4 * 5 * 3);
    v = measure("chunk_discontinuity", &p, 2);
    /* Two of the five frame differences are d, the other three are 0. `value` is the mean of the
     * two largest over the mean of all, d / (2 d / 5). `extra` divides by the mean inside chunks,
     * which is 0, so `extra` is NaN. */
    ck_assert_msg(fabs(v.value - 2.5) <= 1e-15 && isnan(v.extra), "%g %g", v.value, v.extra);
    kvr_metric_value_free(&v);
    v = measure("colour_drift", &p, 2);
    ck_assert_msg(fabs(v.value - 75 * sqrt(3)) <= 1e-12 && fabs(v.extra - 100 * sqrt(3)) <= 1e-12,
                  "%g %g", v.value, v.extra);
    kvr_metric_value_free(&v);
    v = measure("temporal_flicker", &p, 2);
    ck_assert_msg(fabs(v.value - (1 - 20.0 / 255)) <= 1e-15, "%g", v.value);
    kvr_metric_value_free(&v);
    free_pair(&p);
}
END_TEST

START_TEST(missing_values_have_a_reason)
{
    struct pair one = make_pair(CASE_SMOOTH, 1, 8, 8), two = make_pair(CASE_SMOOTH, 2, 8, 8);
    struct pair still = make_pair(CASE_FLAT, 4, 8, 8);
    struct kvr_metric_value v;

    v = measure("temporal_flicker", &one, 1);
    ck_assert_str_eq(v.missing, "the video has one frame, need at least two");
    v = measure("linear_smoothness", &two, 1);
    ck_assert_str_eq(v.missing,
                     "the video has 2 frames, need at least 3 for a frame with two neighbours");
    v = measure("chunk_discontinuity", &two, 0);
    ck_assert_str_eq(
        v.missing,
        "the number of frames per chunk is unknown; set it with --chunk of kvreel compare");
    v = measure("chunk_discontinuity", &two, 2);
    ck_assert_str_eq(v.missing, "the video has one chunk, need at least two for a chunk border");
    v = measure("chunk_discontinuity", &still, 2);
    ck_assert_str_eq(
        v.missing,
        "all 4 frames are equal, so the ratio to the mean frame difference, 0, is undefined");
    ck_assert_ptr_null(v.series);
    v = measure("colour_drift", &two, 2);
    ck_assert_str_eq(v.missing, "the video has 2 frames and its first chunk has 2; need at least "
                                "one frame after the first chunk");
    free_pair(&one);
    free_pair(&two);
    free_pair(&still);
}
END_TEST

/* No video size may crash a metric. A metric or a derived value is finite, or `missing` states why
 * there is none. Sanitizers detect reads out of bounds. */
START_TEST(extreme_sizes)
{
    static const int sizes[][3] = { { 1, 1, 1 },   { 2, 1, 1 },  { 3, 1, 1 }, { 1, 3, 2 },
                                    { 2, 2, 3 },   { 3, 3, 3 },  { 1, 7, 8 }, { 2, 9, 1 },
                                    { 3, 1, 200 }, { 5, 13, 17 } };

    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int chunk = 0; chunk < 5; chunk++)
            for (int i = 0; kvr_metrics[i]; i++) {
                struct pair p = make_pair(CASE_NOISE, sizes[s][0], sizes[s][1], sizes[s][2]);
                const struct kvr_metric_input in = { .ref = &p.ref,
                                                     .test = &p.test,
                                                     .chunk = chunk };
                struct kvr_metric_value v = measure(kvr_metrics[i]->name, &p, chunk);
                struct kvr_derived d[KVR_N_DERIVED];

                ck_assert(v.missing[0] || isfinite(v.value));
                ck_assert_int_eq(kvr_metric_derive(kvr_metrics[i], &in, &v, 2, d), KVR_OK);
                for (int k = 0; k < KVR_N_DERIVED; k++)
                    if (d[k].name[0])
                        ck_assert_msg(d[k].missing[0] ? isnan(d[k].value) : isfinite(d[k].value),
                                      "%s", d[k].name);
                kvr_derived_free(d);
                kvr_metric_value_free(&v);
                free_pair(&p);
            }
}
END_TEST

START_TEST(same_bytes_for_any_thread_count)
{
    struct pair p = make_pair(CASE_SMOOTH, 7, 23, 31);
    int threads = omp_get_max_threads();

    for (int i = 0; kvr_metrics[i]; i++) {
        struct kvr_metric_value one, three;

        omp_set_num_threads(1);
        one = measure(kvr_metrics[i]->name, &p, 3);
        set_threads(3);
        three = measure(kvr_metrics[i]->name, &p, 3);
        ck_assert_msg(one.missing[0] || (one.value == three.value &&
                                         memcmp(one.series, three.series,
                                                (size_t)one.n_series * sizeof(double)) == 0),
                      "%s", kvr_metrics[i]->name);
        kvr_metric_value_free(&one);
        kvr_metric_value_free(&three);
    }
    omp_set_num_threads(threads);
    free_pair(&p);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("alone");
    TCase *tc = tcase_create("alone");

    tcase_add_loop_test(tc, recorded_values, 0, N_RECORDED);
    tcase_add_test(tc, the_reference_has_no_effect);
    tcase_add_test(tc, a_jump_at_every_border);
    tcase_add_test(tc, missing_values_have_a_reason);
    tcase_add_test(tc, extreme_sizes);
    tcase_add_test(tc, same_bytes_for_any_thread_count);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
