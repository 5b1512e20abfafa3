/* test_settle.c - how many prompts per suite a claim gets next, and which claims are chosen. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "harness/settle/settle.h"
#include "tests/suite.h"

START_TEST(next_prompts)
{
    /* Without results, a claim gets at least twelve prompts in all, a multiple of three per
     * suite. */
    ck_assert_int_eq(kvr_settle_next(NAN, 0, 0, 2, 180), 6);
    ck_assert_int_eq(kvr_settle_next(NAN, 0, 0, 1, 180), 12);
    ck_assert_int_eq(kvr_settle_next(NAN, 0, 0, 5, 180), 3);
    /* Twelve prompts gave only ten samples, because two were excluded: their BF16 reruns give two
     * different videos. Three more prompts per suite are added. */
    ck_assert_int_eq(kvr_settle_next(NAN, 10, 6, 2, 180), 9);
    /* 16 of 18 prompts gave samples, so 20 samples need 9 x 20 / 16 = 11.25, rounded to 12, prompts
     * per suite. A round at most doubles the number of prompts. */
    ck_assert_int_eq(kvr_settle_next(20, 16, 9, 2, 180), 12);
    ck_assert_int_eq(kvr_settle_next(1000, 16, 9, 2, 180), 18);
    ck_assert_int_eq(kvr_settle_next(INFINITY, 12, 6, 2, 180), 12);
    /* Each round adds prompts, up to the number of prompts in a suite. */
    ck_assert_int_eq(kvr_settle_next(13, 12, 6, 2, 180), 9);
    ck_assert_int_eq(kvr_settle_next(1000, 300, 150, 2, 180), 180);
    ck_assert_int_eq(kvr_settle_next(1000, 360, 180, 2, 180), 180);
    ck_assert_int_eq(kvr_settle_next(1000, 40, 40, 1, 40), 40);
}
END_TEST

START_TEST(goal)
{
    ck_assert_double_eq(kvr_settle_goal(100, 360), 100);
    ck_assert_double_eq(kvr_settle_goal(5831, 360), KVR_CLAIMS_FUTILE_AFTER);
    ck_assert_double_eq(kvr_settle_goal(INFINITY, 360), KVR_CLAIMS_FUTILE_AFTER);
    ck_assert_double_eq(kvr_settle_goal(21, 20), 21);
    ck_assert(isnan(kvr_settle_goal(NAN, 360)));
}
END_TEST

START_TEST(chosen_claims)
{
    struct kvr_claim claim[3] = { { .id = "one" }, { .id = "two" }, { .id = "three" } };
    struct kvr_ledger l = { .claim = claim, .n_claims = 3 };

    ck_assert_int_eq(kvr_settle_choose(&l, NULL), KVR_OK);
    ck_assert(!claim[0].hidden && !claim[1].hidden && !claim[2].hidden);
    ck_assert_int_eq(kvr_settle_choose(&l, (const char *const[]){ "two", NULL }), KVR_OK);
    ck_assert(claim[0].hidden && !claim[1].hidden && claim[2].hidden);
    ck_assert_int_eq(kvr_settle_choose(&l, (const char *const[]){ "thre", NULL }), KVR_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "did you mean 'three'?"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("settle");
    TCase *tc = tcase_create("settle");

    tcase_add_test(tc, next_prompts);
    tcase_add_test(tc, goal);
    tcase_add_test(tc, chosen_claims);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
