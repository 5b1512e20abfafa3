/* test_nested.c - repeats, reruns and seeds of a prompt do not count as independent samples. */
#include <check.h>
#include <math.h>

#include "harness/report/stats/nested.h"
#include "harness/report/stats/stats.h"
#include "tests/report/draws.h"
#include "tests/suite.h"

START_TEST(means_of_means)
{
    /* Prompt 1 has the values 1 and 3 in seed 1, and 6 in seed 2. Prompt 2 has the value 10 in seed
     * 9, and no value (NaN) in seed 8. */
    struct kvr_sample s[] = { { 2, 9, 10 }, { 1, 1, 3 }, { 1, 2, 6 }, { 2, 8, NAN }, { 1, 1, 1 } };
    struct kvr_sample again[] = { { 1, 2, 6 }, { 1, 1, 1 }, { 1, 1, 3 }, { 2, 9, 10 } };
    double x[2];

    ck_assert_int_eq(kvr_nest(s, 5, KVR_PER_SEED), 3);
    ck_assert(s[0].prompt == 1 && s[0].seed == 1 && s[0].x == 2 && s[1].x == 6 && s[2].x == 10);
    ck_assert_int_eq(kvr_nest(s, 3, KVR_PER_PROMPT), 2);
    kvr_nest_values(s, 2, x);
    ck_assert(x[0] == 4 && x[1] == 10); /* the mean of seed means, not 10 / 3 */
    ck_assert_int_eq(kvr_nest(again, 4, KVR_PER_PROMPT), 2);
    ck_assert(again[0].x == 4 && again[1].x == 10);
    ck_assert_int_eq(kvr_nest(s, 0, KVR_PER_PROMPT), 0);
}
END_TEST

START_TEST(pairs_by_seed)
{
    const struct kvr_sample a[] = { { 1, 1, 5 }, { 1, 2, 7 }, { 3, 1, 1 } };
    const struct kvr_sample b[] = { { 1, 2, 4 }, { 2, 1, 0 }, { 3, 1, 3 }, { 4, 1, 9 } };
    struct kvr_sample d[3];

    ck_assert_int_eq(kvr_nest_pairs(a, 3, b, 4, d), 2);
    ck_assert(d[0].prompt == 1 && d[0].seed == 2 && d[0].x == 3);
    ck_assert(d[1].prompt == 3 && d[1].x == -2);
}
END_TEST

/* Six prompts with three seeds each; the standard deviation over prompts is five times that over
 * seeds. The interval over prompts covers the mean. An interval that treats the 18 cells as
 * independent covers it only in about 70 %. */
START_TEST(nested_coverage)
{
    int nested = 0, flat = 0, trials = 2000;

    for (int t = 0; t < trials; t++) {
        double prompt[6], seed[18], cell[18], x[6];
        struct kvr_sample s[18];
        struct kvr_interval ci;
        int n;

        draw(prompt, 6, NORMAL, 17, (uint32_t)t);
        draw(seed, 18, NORMAL, 18, (uint32_t)t);
        for (int i = 0; i < 18; i++) {
            cell[i] = prompt[i / 3] + 0.2 * seed[i];
            s[i] = (struct kvr_sample){ i / 3, i, cell[i] };
        }
        n = kvr_nest(s, 18, KVR_PER_PROMPT);
        kvr_nest_values(s, n, x);
        ck_assert_int_eq(kvr_mean_interval(x, n, 0.95, &ci), KVR_OK);
        nested += ci.lo <= 0 && ci.hi >= 0;
        ck_assert_int_eq(kvr_mean_interval(cell, 18, 0.95, &ci), KVR_OK);
        flat += ci.lo <= 0 && ci.hi >= 0;
    }
    ck_assert_int_ge(nested, trials * 93 / 100);
    ck_assert_int_le(flat, trials * 80 / 100);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("nested");
    TCase *tc = tcase_create("nested");

    tcase_add_test(tc, means_of_means);
    tcase_add_test(tc, pairs_by_seed);
    tcase_add_test(tc, nested_coverage);
    suite_add_tcase(suite, tc);
    return run_suite_forked(suite);
}
