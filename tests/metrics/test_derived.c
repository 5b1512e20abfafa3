/* test_derived.c - values derived from a metric's frames (curves over chunks and prefixes, drift),
 * compared with values computed by hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "metrics/derived.h"
#include "tests/metrics/cases.h"
#include "tests/suite.h"

enum { N = 8, H = 4, W = 5, FRAME = H * W * 3 };

/* Four chunks of two frames. Chunks 0 and 1 equal the reference, chunk 2 is off by 2, chunk 3 by 4:
 * MSE 0, 0, 4, 16. */
static struct pair late_harm(void)
{
    struct pair p = make_pair(CASE_FLAT, N, H, W);

    memset(p.b, 100, 4 * FRAME);
    memset(p.b + 4 * FRAME, 102, 2 * FRAME);
    memset(p.b + 6 * FRAME, 104, 2 * FRAME);
    return p;
}

static double db(double mse)
{
    return 10.0 * log10(255.0 * 255.0 / mse);
}

static void derive(const char *name, const struct pair *p, int chunk, int step,
                   struct kvr_derived d[KVR_N_DERIVED])
{
    const struct kvr_metric *m = kvr_metric_find(name);
    const struct kvr_metric_input in = { .ref = &p->ref, .test = &p->test, .chunk = chunk };
    struct kvr_metric_value v;

    ck_assert_int_eq(kvr_metric_measure(m, &in, &v), KVR_OK);
    ck_assert_int_eq(kvr_metric_derive(m, &in, &v, step, d), KVR_OK);
    kvr_metric_value_free(&v);
}

static void close_to(double got, double want)
{
    /* 1e-12 covers the rounding of a power, a mean and a logarithm of numbers below 100. */
    ck_assert_msg(fabs(got - want) <= 1e-12 * (1.0 + fabs(want)), "%.15g, not %.15g", got, want);
}

START_TEST(psnr_is_pooled_as_squared_errors)
{
    struct pair p = late_harm();
    struct kvr_derived d[KVR_N_DERIVED];

    derive("psnr", &p, 2, 3, d);
    ck_assert_str_eq(d[0].name, "psnr.drift");
    ck_assert_int_eq(d[0].n_series, 4);
    close_to(d[0].series[0], 100.0);
    close_to(d[0].series[1], 100.0);
    close_to(d[0].series[2], db(4));
    close_to(d[0].series[3], db(16));
    close_to(d[0].value, db(16) - db(4)); /* drift counts from chunk 2, the first that differs */
    close_to(d[0].extra, 2);
    ck_assert_str_eq(d[1].name, "psnr.prefix");
    ck_assert_int_eq(d[1].n_series, 2); /* the prefixes have 3 and 6 frames */
    close_to(d[1].series[0], 100.0);
    close_to(d[1].value, db(8.0 / 6.0));
    close_to(d[1].extra, 6);
    ck_assert_str_eq(d[2].name, "psnr.p5");
    close_to(d[2].value, db(16));
    ck_assert_str_eq(d[3].name, "psnr.mean");
    close_to(d[3].value, (4 * 100.0 + 2 * db(4) + 2 * db(16)) / 8);
    ck_assert_str_eq(d[KVR_HARMONIC].name, "psnr.harmonic");
    close_to(d[KVR_HARMONIC].value, 8 / (4 / 101.0 + 2 / (1 + db(4)) + 2 / (1 + db(16))) - 1);
    ck_assert(d[KVR_HARMONIC].value < d[KVR_MEAN].value); /* bad frames weigh more */
    ck_assert_str_eq(d[KVR_WORST].name, "psnr.min");
    close_to(d[KVR_WORST].value, db(16));
    close_to(d[KVR_WORST].extra, 6); /* extra is the first of two equally bad frames */
    ck_assert_int_eq(d[KVR_WORST].n, N);
    kvr_derived_free(d);
    free_pair(&p);
}
END_TEST

/* In a rollout after given frames, even the first generated chunk attends to the cache. Drift
 * against the truth is therefore measured from chunk 0, even if chunk 0 equals the truth. The
 * series of psnr_truth.drift equals that of psnr.drift. */
START_TEST(against_the_truth_from_the_first_chunk)
{
    struct pair p = late_harm();
    struct kvr_derived d[KVR_N_DERIVED], e[KVR_N_DERIVED];

    derive("psnr_truth", &p, 2, 3, d);
    derive("psnr", &p, 2, 3, e);
    ck_assert_str_eq(d[KVR_DRIFT].name, "psnr_truth.drift");
    close_to(d[KVR_DRIFT].value, db(16) - 100.0);
    close_to(d[KVR_DRIFT].extra, 0);
    for (int i = 0; i < 4; i++)
        close_to(d[KVR_DRIFT].series[i], e[KVR_DRIFT].series[i]);
    ck_assert_str_eq(d[KVR_PREFIX].name, "psnr_truth.prefix");
    close_to(d[KVR_PREFIX].value, e[KVR_PREFIX].value);
    kvr_derived_free(d);
    kvr_derived_free(e);
    free_pair(&p);
}
END_TEST

/* Every metric that compares with the baseline has a counterpart with the same properties that
 * compares with the truth. Metrics without a reference have no counterpart. */
START_TEST(every_comparison_has_a_truth_metric)
{
    int n = 0;

    for (int i = 0; kvr_metrics[i]; i++) {
        const struct kvr_metric *m = kvr_metrics[i], *t = kvr_metric_truth_of(m);

        ck_assert_msg((t != NULL) == !m->alone && !m->truth, "%s", m->name);
        if (!t)
            continue;
        ck_assert_ptr_eq(t, kvr_truth_metrics[n++]);
        ck_assert_ptr_eq(t, kvr_metric_find(t->name));
        ck_assert(t->truth && t->compute == m->compute && t->pool == m->pool);
        ck_assert(t->lo == m->lo && t->hi == m->hi && t->direction == m->direction);
        ck_assert_str_eq(t->unit, m->unit);
        ck_assert_int_eq(t->version, m->version);
        ck_assert_ptr_null(kvr_metric_truth_of(t));
    }
    ck_assert_ptr_null(kvr_truth_metrics[n]);
}
END_TEST

START_TEST(frames_without_a_value_are_skipped)
{
    struct pair p = late_harm();
    struct kvr_derived d[KVR_N_DERIVED];

    /* Frames 1 to 7 differ from the previous frame by 0, 0, 0, 2, 0, 2 and 0. */
    derive("temporal_flicker", &p, 2, 5, d);
    close_to(d[0].series[0], 1.0); /* frame 1 alone */
    close_to(d[0].series[2], 1.0 - 1.0 / 255);
    close_to(d[0].value, 0.0);
    close_to(d[1].value, 1.0 - 0.5 / 255);
    close_to(d[2].value, 1.0 - 2.0 / 255);
    close_to(d[KVR_WORST].value, 1.0 - 2.0 / 255);
    close_to(d[KVR_WORST].extra, 4); /* frame 4 is the worst; frame 0 has no previous frame */
    ck_assert_str_eq(d[3].name, "");
    /* The last third of eight frames is two frames, both of chunk 3. */
    ck_assert_str_eq(d[KVR_LAST].name, "temporal_flicker.last");
    close_to(d[KVR_LAST].value, 1.0 - 1.0 / 255);
    close_to(d[KVR_LAST].extra, 6);
    ck_assert_int_eq(d[KVR_LAST].n, 2);
    kvr_derived_free(d);
    free_pair(&p);
}
END_TEST

START_TEST(counts_are_summed)
{
    struct pair p = late_harm();
    struct kvr_derived d[KVR_N_DERIVED];

    derive("identical_frames", &p, 2, 5, d);
    close_to(d[0].series[0], 2);
    close_to(d[0].series[3], 0);
    close_to(d[1].value, 4);
    ck_assert_str_eq(d[2].name, "");
    ck_assert_str_eq(d[KVR_WORST].name, "");
    kvr_derived_free(d);
    free_pair(&p);
}
END_TEST

START_TEST(the_worst_is_the_largest_where_less_is_better)
{
    struct pair p = late_harm();
    struct kvr_derived d[KVR_N_DERIVED];

    derive("colour_drift", &p, 2, 5, d);
    close_to(d[2].value, 4 * sqrt(3));
    ck_assert_str_eq(d[KVR_WORST].name, "colour_drift.max");
    close_to(d[KVR_WORST].value, 4 * sqrt(3));
    close_to(d[KVR_WORST].extra, 6);
    close_to(d[0].value, 2 * sqrt(3)); /* drift is chunk 3 minus chunk 2 */
    /* no harmonic mean is derived where less is better: it would give good frames more weight */
    ck_assert_str_eq(d[KVR_HARMONIC].name, "");
    kvr_derived_free(d);
    free_pair(&p);
}
END_TEST

START_TEST(the_baseline_drifts_from_its_second_chunk)
{
    struct pair p = late_harm(), same = p;
    struct kvr_derived d[KVR_N_DERIVED];

    same.ref = p.test;
    derive("sharpness", &same, 2, 5, d);
    close_to(d[0].extra, 1);
    ck_assert_str_eq(d[0].missing, "");
    kvr_derived_free(d);
    free_pair(&p);
}
END_TEST

/* A VAE decodes the first latent frame to one frame and later ones to several, so the first chunk
 * is shorter. With chunks of 3 frames and a first chunk that lacks 2, the chunks are 0 | 1 2 3 | 4
 * 5 6 | 7. */
START_TEST(a_short_first_chunk)
{
    struct pair p = late_harm();
    const struct kvr_metric *m = kvr_metric_find("psnr");
    const struct kvr_metric_input in = { .ref = &p.ref, .test = &p.test, .chunk = 3, .lead = 2 };
    struct kvr_derived d[KVR_N_DERIVED];
    struct kvr_metric_value v;

    ck_assert_int_eq(kvr_metric_measure(m, &in, &v), KVR_OK);
    ck_assert_int_eq(kvr_metric_derive(m, &in, &v, 4, d), KVR_OK);
    ck_assert_int_eq(d[0].n_series, 4);
    close_to(d[0].series[1], 100.0);
    close_to(d[0].series[2], db((4 + 4 + 16) / 3.0));
    close_to(d[0].value, db(16) - db(8));
    close_to(d[0].extra, 2);
    kvr_derived_free(d);
    kvr_metric_value_free(&v);
    ck_assert_int_eq(kvr_metric_measure(kvr_metric_find("chunk_discontinuity"), &in, &v), KVR_OK);
    /* The video jumps by 2 before frames 4 and 6. Frame 4 is at a chunk border, like 1 and 7;
     * frames 2, 3, 5 and 6 are inside a chunk. */
    close_to(v.extra, (2 / 3.0) / (2 / 4.0));
    close_to(v.value, (4 / 3.0) / (4 / 7.0));
    ck_assert_int_eq(kvr_metric_derive(kvr_metric_find("chunk_discontinuity"), &in, &v, 4, d),
                     KVR_OK);
    ck_assert_str_eq(d[0].name, "chunk_discontinuity.drift");
    ck_assert(isnan(d[0].series[0])); /* frame 0 has no difference to a previous frame */
    ck_assert_str_eq(d[1].name, "");  /* no prefix value: a ratio is no mean of frames */
    ck_assert_str_eq(d[2].name, "");
    kvr_derived_free(d);
    kvr_metric_value_free(&v);
    ck_assert_int_eq(kvr_metric_measure(kvr_metric_find("colour_drift"), &in, &v), KVR_OK);
    close_to(v.extra, 4 * sqrt(3));
    kvr_metric_value_free(&v);
    free_pair(&p);
}
END_TEST

START_TEST(a_harmonic_mean_has_its_limit)
{
    double x[] = { 0.5, -1.0, 0.25, 0.5, 0.5, 0.5, 0.5, 0.5 };
    struct pair p = late_harm();
    const struct kvr_metric_value v = { .series = x, .n_series = 8 };
    const struct kvr_metric_input in = { .ref = &p.ref, .test = &p.test, .chunk = 2 };
    struct kvr_derived d[KVR_N_DERIVED];

    ck_assert_int_eq(kvr_metric_derive(kvr_metric_find("ssim"), &in, &v, 4, d), KVR_OK);
    ck_assert_str_eq(d[KVR_HARMONIC].missing,
                     "no harmonic mean: the value of frame 1 is -1, need more than -1");
    kvr_derived_free(d);
    x[1] = 0;
    ck_assert_int_eq(kvr_metric_derive(kvr_metric_find("ssim"), &in, &v, 4, d), KVR_OK);
    ck_assert_str_eq(d[KVR_HARMONIC].missing, "");
    close_to(d[KVR_HARMONIC].value, 8 / (6 / 1.5 + 1 + 1 / 1.25) - 1);
    kvr_derived_free(d);
    free_pair(&p);
}
END_TEST

START_TEST(reasons)
{
    struct pair p = late_harm();
    struct kvr_derived d[KVR_N_DERIVED];

    derive("psnr", &p, 0, 9, d);
    ck_assert_str_eq(
        d[0].missing,
        "the number of frames per chunk is unknown; set it with --chunk of kvreel compare");
    ck_assert_str_eq(d[1].missing,
                     "the video has 8 frames, need at least 9 for the shortest prefix");
    ck_assert(isnan(d[0].value) && isnan(d[1].value));
    kvr_derived_free(d);
    derive("psnr", &p, 8, 4, d);
    ck_assert_str_eq(
        d[0].missing,
        "drift compares two chunks, but only chunk 0 of the video can differ from the reference");
    kvr_derived_free(d);
    derive("ssim", &p, 2, 4, d); /* ssim is not defined for 4x5 pixels, so nothing is derived */
    ck_assert_str_eq(d[0].name, "");
    kvr_derived_free(d);
    free_pair(&p);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("derived");
    TCase *tc = tcase_create("derived");

    tcase_add_test(tc, psnr_is_pooled_as_squared_errors);
    tcase_add_test(tc, against_the_truth_from_the_first_chunk);
    tcase_add_test(tc, every_comparison_has_a_truth_metric);
    tcase_add_test(tc, frames_without_a_value_are_skipped);
    tcase_add_test(tc, counts_are_summed);
    tcase_add_test(tc, the_worst_is_the_largest_where_less_is_better);
    tcase_add_test(tc, the_baseline_drifts_from_its_second_chunk);
    tcase_add_test(tc, a_short_first_chunk);
    tcase_add_test(tc, a_harmonic_mean_has_its_limit);
    tcase_add_test(tc, reasons);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
