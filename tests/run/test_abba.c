/* test_abba.c - time ratios of consecutive runs in ABBA order, on a simulated machine with a known
 * ratio and drift; the random order (ABBA or BAAB) and failures. */
#include <math.h>
#include <stdlib.h>

#include "harness/core/rng.h"
#include "harness/report/stats/stats.h"
#include "harness/run/abba.h"
#include "tests/suite.h"

enum { BLOCKS = 8, RUNS = 4 * BLOCKS };
static const double planted = 1.05, drift = 0.10;

/* A simulated machine whose run times grow linearly: the last run takes 1 + drift times the first
 * run's time. `noise` is the relative standard deviation of a time. */
struct machine {
    int n, fails_at;
    double drift, noise;
    uint64_t seed;
    int64_t ns[RUNS];
    bool method[RUNS];
};

static enum kvr_status run(void *ctx, bool method, int64_t *ns)
{
    struct machine *m = ctx;
    float z;

    if (m->n == m->fails_at)
        return kvr_fail(KVR_EIO, "planted failure");
    kvr_normal(&z, 1, m->seed, KVR_RNG_TEST, 0, 0, (uint64_t)m->n);
    *ns = (int64_t)(1e9 * (1 + m->drift * m->n / (RUNS - 1)) * (method ? planted : 1) *
                    (1 + m->noise * (double)z));
    m->method[m->n] = method;
    m->ns[m->n++] = *ns;
    return KVR_OK;
}

static struct kvr_abba measured(struct machine *m, uint64_t seed)
{
    struct kvr_abba t;

    ck_assert_int_eq(kvr_abba_open(&t, BLOCKS), KVR_OK);
    ck_assert_int_eq(kvr_abba_run(&t, seed, run, m), KVR_OK);
    ck_assert_int_eq(m->n, RUNS);
    return t;
}

/* Without noise, the drift between consecutive runs is 0.1 / 31, so each pair's ratio has a
 * relative error of about 3e-3. In a block the errors of the two pairs cancel except for about (0.1
 * / 31)^2 = 1e-5. */
START_TEST(drift_cancels)
{
    struct machine m = { .fails_at = -1, .drift = drift };
    struct kvr_abba t = measured(&m, (uint64_t)_i);
    double least = INFINITY, most = 0;

    for (int i = 0; i < t.n_pairs; i++) {
        least = fmin(least, t.pair[i]);
        most = fmax(most, t.pair[i]);
    }
    ck_assert_msg(fabs(t.ratio - planted) <= 1e-4, "%.6f", t.ratio);
    ck_assert_msg(most - least > 0.004, "the planted drift is not in the pairs: %g", most - least);
    kvr_abba_free(&t);
}
END_TEST

/* Control: compares the first reference run with the last method run, as a sweep does that runs
 * method after method. The ratio of these distant runs contains the drift. */
START_TEST(far_runs_keep_the_drift)
{
    struct machine m = { .fails_at = -1, .drift = drift };
    struct kvr_abba t = measured(&m, 1);
    int first = 0, last = RUNS - 1;

    while (m.method[first])
        first++;
    while (!m.method[last])
        last--;
    ck_assert_double_gt(fabs((double)m.ns[last] / (double)m.ns[first] - planted), 0.08);
    kvr_abba_free(&t);
}
END_TEST

/* With 1 % noise, the interval of the pairs' mean ratio must contain the true ratio, 1.05, in about
 * 95 % of 200 sessions. In nearly all sessions it must exclude 1. */
START_TEST(interval_covers)
{
    int covers = 0, tells = 0;

    for (int s = 0; s < 200; s++) {
        struct machine m = { .fails_at = -1, .drift = drift, .noise = 0.01, .seed = (uint64_t)s };
        struct kvr_abba t = measured(&m, (uint64_t)s);
        struct kvr_interval ci;

        ck_assert_int_eq(kvr_mean_interval(t.pair, t.n_pairs, 0.95, &ci), KVR_OK);
        covers += ci.lo <= planted && planted <= ci.hi;
        tells += ci.lo > 1;
        kvr_abba_free(&t);
    }
    /* 190 are expected; 184 are 1.9 standard deviations fewer. The seeds are fixed. */
    ck_assert_msg(covers >= 184, "%d of 200 cover", covers);
    ck_assert_msg(tells >= 196, "%d of 200 exclude 1", tells);
}
END_TEST

START_TEST(order_is_drawn)
{
    int method_first = 0, same = 0;

    for (int s = 0; s < 40; s++) {
        struct machine a = { .fails_at = -1 }, b = a;
        struct kvr_abba t = measured(&a, (uint64_t)s), u = measured(&b, (uint64_t)s);

        for (int i = 0; i < RUNS; i += 4) {
            ck_assert(a.method[i] == a.method[i + 3] && a.method[i + 1] == a.method[i + 2]);
            ck_assert(a.method[i] != a.method[i + 1]);
            method_first += a.method[i];
            same += a.method[i] == b.method[i];
        }
        kvr_abba_free(&t);
        kvr_abba_free(&u);
    }
    ck_assert_int_eq(same, 40 * BLOCKS);
    ck_assert_msg(method_first > 120 && method_first < 200, "%d of 320", method_first);
}
END_TEST

static enum kvr_status stands_still(void *ctx, bool method, int64_t *ns)
{
    (void)ctx;
    *ns = method ? 5 : 0;
    return KVR_OK;
}

START_TEST(failures)
{
    struct machine m = { .fails_at = 5 };
    struct kvr_abba t;

    ck_assert_int_eq(kvr_abba_open(&t, BLOCKS), KVR_OK);
    ck_assert_int_eq(kvr_abba_run(&t, 1, run, &m), KVR_EIO);
    ck_assert(isnan(t.ratio));
    ck_assert_int_eq(kvr_abba_run(&t, 1, stands_still, NULL), KVR_EINVAL);
    kvr_abba_free(&t);
    kvr_abba_free(&t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("abba");
    TCase *tc = tcase_create("abba");

    tcase_add_loop_test(tc, drift_cancels, 0, 4);
    tcase_add_test(tc, far_runs_keep_the_drift);
    tcase_add_test(tc, interval_covers);
    tcase_add_test(tc, order_is_drawn);
    tcase_add_test(tc, failures);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
