/* test_nano.c - reproduces the bundled model's recorded rollout frame by frame. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "harness/engine/check.h"
#include "tests/suite.h"

/* The bundled model, and the weights that its training started from, if they are next to the
 * checkout. */
static const char *const folders[] = { "models/nano", "../shared/models/nano_start" };

START_TEST(recorded_rollout_is_reproduced)
{
    char path[256];
    struct kvr_check_report r;

    snprintf(path, sizeof path, "%s/golden.safetensors", folders[_i]);
    if (_i > 0 && access(path, R_OK) != 0) {
        printf("skipped: %s is not there\n", path);
        return;
    }
    ck_assert_msg(kvr_golden_check(&r, folders[_i], NULL) == KVR_OK, "%s", kvr_error());
    ck_assert_int_ge(r.n, 2);
    for (int i = 0; i < r.n; i++)
        ck_assert_msg(r.entries[i].status == KVR_CHECK_OK, "%s: %s: relative L2 %g; %s",
                      folders[_i], r.entries[i].name, r.entries[i].rel_l2, r.entries[i].note);
    ck_assert(r.ok);
    kvr_check_report_free(&r);
}
END_TEST

START_TEST(a_folder_without_a_recording_says_so)
{
    struct kvr_check_report r;

    ck_assert_int_eq(kvr_golden_check(&r, "tests/fixtures/wan_tiny", NULL), KVR_ENOTFOUND);
    ck_assert_int_eq(r.n, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("nano");
    TCase *tc = tcase_create("golden");

    tcase_set_timeout(tc, 0);
    tcase_add_loop_test(tc, recorded_rollout_is_reproduced, 0, sizeof folders / sizeof *folders);
    tcase_add_test(tc, a_folder_without_a_recording_says_so);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
