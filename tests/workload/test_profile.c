/* test_profile.c - compares the profiling pass with numbers computed by hand. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "harness/workload/profile.h"
#include "tests/suite.h"

enum { H = 2, D = 4, S = 3, F = 3, N = F * S * H * D };

/* Adds a chunk in which all elements of K and V in frame f are +-value[f]. The frame's summary,
 * mean |K| + mean |V|, is then 2 |value[f]|. */
static enum kvr_status see(struct kvr_profile *p, int frame0, int layer, const float value[F])
{
    const struct kvr_pass pass = { .chunk = frame0 / F, .frame0 = frame0, .n_frames = F };
    float x[N];

    for (int i = 0; i < N; i++)
        x[i] = i % 2 ? value[i / (N / F)] : -value[i / (N / F)];
    return kvr_profile_add(p, &pass, layer, x, x);
}

static void see_three(struct kvr_profile *p, int layer, float grow, float fourth)
{
    const float first[F] = { 1, 1, 1 }, second[F] = { grow, grow, grow };
    const float third[F] = { fourth, 1, 1 };

    ck_assert_int_eq(see(p, 0, layer, first), KVR_OK);
    ck_assert_int_eq(see(p, 0, layer, second), KVR_OK);
    ck_assert_int_eq(see(p, 3, layer, third), KVR_OK);
}

/* The score is the mean change of the old frames over three passes. The changes in layer 0 are:
 * Pass 1 has 2 old frames of 3, without a previous pass to compare with: 1 + 1. Pass 2 has the same
 * frames with values 1.5 times as large: 0.5 + 0.5. Pass 3 has 4 old frames of 6. Frames are
 * aligned by age, so frames 0, 1 and 2 have no counterpart, and frame 3 is compared with frame 0 of
 * pass 2: 1 + 1 + 1 + |6 - 1.5| / 1.5 = 6. The mean is 9 / 8. In layer 1 all values are 1: (1 + 1 +
 * 0 + 0 + 1 + 1 + 1 + 0) / 8 = 5 / 8. */
START_TEST(worked_out_by_hand)
{
    struct kvr_profile *p;
    double score[2], beta[2];

    ck_assert_int_eq(kvr_profile_open(&p, 2, H, D, S, 6), KVR_OK);
    kvr_profile_begin(p);
    see_three(p, 0, 1.5f, 6);
    see_three(p, 1, 1, 1);
    ck_assert_int_eq(kvr_profile_budgets(p, 0.7, 1.3, score, beta), KVR_OK);
    ck_assert(score[0] == 9.0 / 8); /* exact: sums of small integers and halves */
    ck_assert(score[1] == 5.0 / 8);
    ck_assert(fabs(beta[0] - 1.3) <= 1e-15);
    ck_assert(fabs(beta[1] - 0.7) <= 1e-15);
    /* The second video must not be compared with frames of the first, so it adds the same changes,
     * and the mean stays the same. */
    kvr_profile_begin(p);
    see_three(p, 0, 1.5f, 6);
    ck_assert_int_eq(kvr_profile_budgets(p, 0.7, 1.3, score, beta), KVR_OK);
    ck_assert(score[0] == 9.0 / 8);
    kvr_profile_close(&p);
}
END_TEST

START_TEST(equal_scores_are_half_way)
{
    struct kvr_profile *p;
    double score[2], beta[2];

    ck_assert_int_eq(kvr_profile_open(&p, 2, H, D, S, 6), KVR_OK);
    kvr_profile_begin(p);
    see_three(p, 0, 1, 1);
    see_three(p, 1, 1, 1);
    ck_assert_int_eq(kvr_profile_budgets(p, 0.5, 2.5, score, beta), KVR_OK);
    ck_assert(beta[0] == 1.5 && beta[1] == 1.5);
    kvr_profile_close(&p);
}
END_TEST

START_TEST(what_cannot_be)
{
    const float ok[F] = { 1, 1, 1 }, bad[F] = { NAN, 1, 1 };
    double score[1], beta[1];
    struct kvr_profile *p;

    ck_assert_int_eq(kvr_profile_open(&p, 1, H, D, S, 6), KVR_OK);
    ck_assert_int_eq(kvr_profile_budgets(p, 0.7, 1.3, score, beta), KVR_EINVAL);
    ck_assert_int_eq(see(p, 6, 0, ok), KVR_EINTERNAL);
    ck_assert_int_eq(see(p, 0, 1, ok), KVR_EINTERNAL);
    ck_assert_int_eq(see(p, 0, 0, ok), KVR_OK);
    ck_assert_int_eq(see(p, 0, 0, bad), KVR_OK);
    ck_assert_int_eq(kvr_profile_budgets(p, 0.7, 1.3, score, beta), KVR_ENAN);
    kvr_profile_close(&p);
    kvr_profile_close(&p);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("profile");
    TCase *tc = tcase_create("profile");

    suite_add_tcase(s, tc);
    tcase_add_test(tc, worked_out_by_hand);
    tcase_add_test(tc, equal_scores_are_half_way);
    tcase_add_test(tc, what_cannot_be);
    return run_suite(s);
}
