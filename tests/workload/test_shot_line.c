/* test_shot_line.c - prompts of several shots, written in one line. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "harness/workload/shots.h"
#include "tests/suite.h"

START_TEST(shots_are_told_apart)
{
    struct kvr_shot_line s;

    ck_assert_int_eq(
        kvr_shot_line_parse("@0: a dog; it runs ;@3:  the dog sleeps ; @7: @home", 8, &s), KVR_OK);
    ck_assert_int_eq(s.n, 3);
    ck_assert_str_eq(s.shot[0].text, "a dog; it runs");
    ck_assert_str_eq(s.shot[1].text, "the dog sleeps");
    ck_assert_str_eq(s.shot[2].text, "@home");
    for (int chunk = 0; chunk < 8; chunk++)
        ck_assert_int_eq(kvr_shot_at(&s, chunk), chunk < 3 ? 0 : chunk < 7 ? 1 : 2);
    kvr_shot_line_free(&s);
}
END_TEST

static const char *const ones[] = {
    "", "a dog", "a dog; @3: b", "@3: a dog; @5: b", "@0 a", "@x: a"
};

START_TEST(other_lines_are_one_shot)
{
    struct kvr_shot_line s;

    ck_assert_int_eq(kvr_shot_line_parse(ones[_i], 2, &s), KVR_OK);
    ck_assert_int_eq(s.n, 1);
    ck_assert_str_eq(s.shot[0].text, ones[_i]);
    ck_assert_int_eq(kvr_shot_at(&s, 1), 0);
    kvr_shot_line_free(&s);
}
END_TEST

static const struct {
    const char *line, *says;
} wrong[] = {
    { "@0: a; @0: b", "shot 2 begins at chunk 0" },
    { "@0: a; @4: b; @3: c", "must begin after shot 2, which begins at chunk 4" },
    { "@0: a; @8: b", "chunks 0..7" },
    { "@0: a; @2: ", "shot 2 has no text" },
    { "@0: ; @2: b", "shot 1 has no text" },
};

START_TEST(wrong_lines_say_where)
{
    struct kvr_shot_line s;

    ck_assert_int_eq(kvr_shot_line_parse(wrong[_i].line, 8, &s), KVR_EINVAL);
    ck_assert_msg(strstr(kvr_error(), wrong[_i].says), "%s", kvr_error());
    ck_assert_int_eq(s.n, 0);
}
END_TEST

START_TEST(there_is_a_most)
{
    char line[1024] = "@0: a";
    struct kvr_shot_line s;

    for (int i = 1; i <= KVR_MAX_SHOTS; i++) {
        ck_assert_int_eq(kvr_shot_line_parse(line, 0, &s), KVR_OK);
        kvr_shot_line_free(&s);
        snprintf(line + strlen(line), 16, "; @%d: a", i);
    }
    ck_assert_int_eq(kvr_shot_line_parse(line, 0, &s), KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "more than the limit of 32"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("shot line");
    TCase *tc = tcase_create("shot line");

    tcase_add_test(tc, shots_are_told_apart);
    tcase_add_loop_test(tc, other_lines_are_one_shot, 0, sizeof ones / sizeof *ones);
    tcase_add_loop_test(tc, wrong_lines_say_where, 0, sizeof wrong / sizeof *wrong);
    tcase_add_test(tc, there_is_a_most);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
