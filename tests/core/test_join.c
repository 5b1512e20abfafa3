/* test_join.c - tests kvr_join_all() and kvr_join_or(), which join names for messages. */
#include <check.h>
#include <string.h>

#include "harness/core/join.h"
#include "tests/suite.h"

static const char *const names[] = { "raw", "sym", "asym", NULL };

START_TEST(names_are_separated_by_commas)
{
    char buf[32];

    ck_assert_str_eq(kvr_join_all(buf, sizeof buf, names), "raw, sym, asym");
    ck_assert_str_eq(kvr_join_all(buf, sizeof buf, names + 3), "");
    ck_assert_str_eq(kvr_join_or(buf, sizeof buf, names), "raw, sym or asym");
    ck_assert_str_eq(kvr_join_or(buf, sizeof buf, names + 1), "sym or asym");
    ck_assert_str_eq(kvr_join_or(buf, sizeof buf, names + 2), "asym");
    ck_assert_str_eq(kvr_join_or(buf, sizeof buf, names + 3), "");
    ck_assert_str_eq(kvr_join_or(buf, 20, names), "raw, sym, ...");
}
END_TEST

/* For every buffer size n, the list is complete or ends in "...", and nothing is written past the
 * end. */
START_TEST(a_list_that_does_not_fit_is_cut)
{
    for (size_t n = 4; n <= 24; n++) {
        char buf[25];

        memset(buf, '#', sizeof buf);
        kvr_join_all(buf, n, names);
        ck_assert_uint_lt(strlen(buf), n);
        ck_assert_int_eq(buf[n], '#');
        ck_assert_msg(strcmp(buf, "raw, sym, asym") == 0 || strcmp(buf, "raw, sym, ...") == 0 ||
                          strcmp(buf, "raw, ...") == 0 || strcmp(buf, "...") == 0,
                      "%zu: '%s'", n, buf);
        if (n > strlen("raw, sym, asym") + 6)
            ck_assert_str_eq(buf, "raw, sym, asym");
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("join");
    TCase *tc = tcase_create("join");

    tcase_add_test(tc, names_are_separated_by_commas);
    tcase_add_test(tc, a_list_that_does_not_fit_is_cut);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
