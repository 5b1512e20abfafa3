/* test_front.c - the rule of Pareto dominance on examples by hand, and that noise never adds
 * dominance. */
#include <check.h>
#include <math.h>
#include <stdbool.h>

#include "harness/report/stats/front.h"
#include "harness/report/stats/stats.h"
#include "tests/report/draws.h"
#include "tests/suite.h"

static const struct {
    struct kvr_gain g[2];
    enum kvr_dominance want;
    const char *what;
} cases[] = {
    { { { 1, 1, 0 }, { 1, 1, 0 } }, KVR_DOMINATES, "exact, better in both" },
    { { { 1, 1, 0 }, { 0, 0, 0 } }, KVR_DOMINATES, "exact, better and equal" },
    { { { 0, 0, 0 }, { 0, 0, 0 } }, KVR_DOMINATES_NOT, "equal" },
    { { { 1, 1, 0 }, { -1, -1, 0 } }, KVR_DOMINATES_NOT, "better and worse" },
    { { { 1, 1, 0 }, { -1, 1, 0 } }, KVR_DOMINANCE_UNDECIDED, "better, and perhaps worse" },
    { { { 1, 1, 0 }, { -1, 1, 1 } }, KVR_DOMINATES, "better, worse by no more than the margin" },
    { { { 1, 1, 0 }, { -2, -1.5, 1 } }, KVR_DOMINATES_NOT, "worse by more than the margin" },
    { { { 1, 1, 1 }, { -1, 1, 1 } }, KVR_DOMINATES_NOT, "better by no more than the margin" },
    { { { 0.5, 2, 1 }, { 0, 0, 0 } }, KVR_DOMINANCE_UNDECIDED, "perhaps better by the margin" },
    { { { -INFINITY, INFINITY, 9 }, { 1, 1, 0 } }, KVR_DOMINANCE_UNDECIDED, "nothing known" },
    { { { -INFINITY, INFINITY, 9 }, { -1, -1, 0 } }, KVR_DOMINATES_NOT, "but worse elsewhere" },
};

START_TEST(rule)
{
    ck_assert_msg(kvr_dominance(cases[_i].g, 2) == cases[_i].want, "%s", cases[_i].what);
}
END_TEST

enum { METHODS = 8, PROMPTS = 10 };

/* The rule that kvr_dominance() replaced: a method dominates if no objective is significantly worse
 * and one is significantly better. */
static enum kvr_dominance old_rule(const struct kvr_gain *g, int n)
{
    bool better = false;

    for (int k = 0; k < n; k++) {
        if (g[k].hi < 0)
            return KVR_DOMINATES_NOT;
        better = better || g[k].lo > 0;
    }
    return better ? KVR_DOMINATES : KVR_DOMINATES_NOT;
}

/* Counts the dominated pairs among methods with exact bytes and noisy quality. Quality is a random
 * mean plus `spread` times noise per prompt. */
static int count(enum kvr_dominance (*judge)(const struct kvr_gain *, int), uint32_t trial,
                 double spread, double margin)
{
    double bytes[METHODS], quality[METHODS], noise[METHODS][PROMPTS];
    int n = 0;

    draw(bytes, METHODS, NORMAL, 20, trial);
    draw(quality, METHODS, NORMAL, 21, trial);
    for (int i = 0; i < METHODS; i++)
        draw(noise[i], PROMPTS, trial % 2 ? NORMAL : EXPONENTIAL, 22 + (uint64_t)i, trial);
    for (int i = 0; i < METHODS; i++)
        for (int j = 0; j < METHODS; j++) {
            double d[PROMPTS], mean = 0;
            struct kvr_interval ci;

            for (int p = 0; p < PROMPTS; p++)
                mean += (noise[i][p] - noise[j][p]) / PROMPTS;
            for (int p = 0; p < PROMPTS; p++)
                d[p] = quality[i] - quality[j] + spread * (noise[i][p] - noise[j][p] - mean);
            ck_assert_int_eq(kvr_mean_interval(d, PROMPTS, 0.95, &ci), KVR_OK);
            if (i != j) {
                const struct kvr_gain g[2] = { { bytes[i] - bytes[j], bytes[i] - bytes[j], 0 },
                                               { ci.lo, ci.hi, margin } };

                n += judge(g, 2) == KVR_DOMINATES;
            }
        }
    return n;
}

/* With constant means and growing noise, the number of dominated pairs never increases. */
START_TEST(noise_makes_no_dominance)
{
    const double margin = 0.1 * (_i % 3);
    int first = 0, last = 0;

    for (uint32_t trial = 0; trial < 60; trial++) {
        int before = METHODS * METHODS;

        for (double spread = 0.01; spread < 100; spread *= 3) {
            int now = count(kvr_dominance, trial + 60 * (uint32_t)_i, spread, margin);

            ck_assert_msg(now <= before, "spread %g: %d pairs dominate, %d before", spread, now,
                          before);
            first += spread <= 0.01 ? now : 0;
            before = last = now;
        }
    }
    /* with the least noise there is dominance, which noise can remove */
    ck_assert_int_gt(first, 60);
    ck_assert_int_eq(last, 0);
}
END_TEST

START_TEST(noise_made_dominance)
{
    int less = 0, more = 0;

    for (uint32_t trial = 0; trial < 60; trial++) {
        less += count(old_rule, trial, 0.01, 0);
        more += count(old_rule, trial, 10, 0);
    }
    ck_assert_int_gt(more, less + 60);
}
END_TEST

/* Methods 0 and 1 have the same bytes. The quality of method 0 is higher by 1 on average of six
 * prompts, with a standard deviation of sqrt(6), so the standard error of the mean is 1. A
 * resampled mean difference is below 0 with probability Phi(-1) = 15.9 %; then method 1 is on the
 * front instead of 0. The tolerance covers the standard deviation of 2000 resamples, 0.8 %, and
 * that a mean of six values is not quite normal. */
START_TEST(membership)
{
    /* bytes and quality of each method; more is better */
    const double value[] = { 1, 3, 1, 2, 9, 1.5, 0, 1 };
    const double z[] = { -1.2, -0.9, -0.6, 0.6, 0.9, 1.2 };
    const double margin[] = { 0, 0 };
    double by_prompt[4 * 2 * 6], p[4], q[4], square = 0;
    const struct kvr_front f = { .n_methods = 4,
                                 .n_objectives = 2,
                                 .n_prompts = 6,
                                 .value = value,
                                 .by_prompt = by_prompt,
                                 .margin = margin };

    for (int i = 0; i < 6; i++)
        square += z[i] * z[i] / 5;
    for (int i = 0; i < 48; i++)
        by_prompt[i] = NAN;
    for (int i = 0; i < 6; i++) {
        by_prompt[6 + i] = 3 + sqrt(6 / square) * z[i];
        by_prompt[18 + i] = 2;
    }
    ck_assert_int_eq(kvr_front_membership(&f, 1, p), KVR_OK);
    ck_assert_msg(fabs(p[1] - 0.159) <= 0.03, "the worse is on the front in %g", p[1]);
    ck_assert_double_le(fabs(p[0] + p[1] - 1), 1e-9);
    /* method 2 has the most of the first objective, method 3 the least of both */
    ck_assert(fabs(p[2] - 1) <= 1e-9 && p[3] == 0);
    ck_assert_int_eq(kvr_front_membership(&f, 1, q), KVR_OK);
    for (int i = 0; i < 4; i++)
        ck_assert_double_eq(p[i], q[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("front");
    TCase *tc = tcase_create("front");

    tcase_add_loop_test(tc, rule, 0, sizeof cases / sizeof *cases);
    tcase_add_loop_test(tc, noise_makes_no_dominance, 0, 3);
    tcase_add_test(tc, noise_made_dominance);
    tcase_add_test(tc, membership);
    tcase_set_timeout(tc, 120);
    suite_add_tcase(suite, tc);
    return run_suite_forked(suite);
}
