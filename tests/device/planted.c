/* planted.c - a test program whose tests pass, fail, hang, crash and exit.
 * tests/cli/test_device_check.sh runs it to test the runner of device checks. */
#include <check.h>
#include <signal.h>
#include <unistd.h>

#include "tests/suite.h"

START_TEST(passes)
{
    ck_assert_int_lt(_i, 100);
}
END_TEST

START_TEST(third_fails)
{
    ck_assert_msg(_i != 2, "is \"two\"");
}
END_TEST

START_TEST(fourth_hangs)
{
    while (_i == 3)
        pause();
}
END_TEST

START_TEST(second_crashes)
{
    if (_i == 1)
        raise(SIGSEGV);
}
END_TEST

START_TEST(first_ends)
{
    if (_i == 0)
        _exit(9);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("planted");
    TCase *good = tcase_create("good"), *bad = tcase_create("bad things");

    tcase_add_loop_test(good, passes, 0, 20);
    tcase_add_loop_test(bad, third_fails, 0, 6);
    tcase_add_loop_test(bad, fourth_hangs, 0, 6);
    tcase_add_loop_test(bad, second_crashes, 0, 6);
    tcase_add_loop_test(bad, first_ends, 0, 6);
    suite_add_tcase(s, good);
    suite_add_tcase(s, bad);
    return run_suite(s);
}
