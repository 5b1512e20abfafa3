/* test_status.c - messages may be arguments of the functions that replace them, and long messages
 * are cut. */
#include <check.h>
#include <string.h>

#include "harness/core/status.h"
#include "tests/suite.h"

START_TEST(messages_may_be_arguments)
{
    ck_assert_int_eq(kvr_fail(KVR_EIO, "disk"), KVR_EIO);
    ck_assert_int_eq(kvr_fail(KVR_EINVAL, "'%s' of %s", kvr_error(), "a.db"), KVR_EINVAL);
    ck_assert_str_eq(kvr_error(), "'disk' of a.db");
    ck_assert_int_eq(kvr_fail_prefix(KVR_EFORMAT, "line %d", 3), KVR_EFORMAT);
    ck_assert_str_eq(kvr_error(), "line 3: 'disk' of a.db");
    kvr_fail(KVR_EIO, "disk");
    kvr_fail_prefix(KVR_EIO, "A %s, B %s", kvr_error(), kvr_error());
    ck_assert_str_eq(kvr_error(), "A disk, B disk: disk");
}
END_TEST

START_TEST(long_messages_are_cut)
{
    char a[2001];

    memset(a, 'a', sizeof a - 1);
    a[sizeof a - 1] = 0;
    for (size_t n = 900; n < 1000; n++) {
        kvr_fail(KVR_EIO, "bc");
        kvr_fail_prefix(KVR_EIO, "%.*s", (int)n, a);
        ck_assert_uint_eq(strspn(kvr_error(), "a"), n < 959 ? n : 959);
        ck_assert_uint_eq(strlen(kvr_error()), n + 4 < 959 ? n + 4 : 959);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("status");
    TCase *tc = tcase_create("status");

    tcase_add_test(tc, messages_may_be_arguments);
    tcase_add_test(tc, long_messages_are_cut);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
