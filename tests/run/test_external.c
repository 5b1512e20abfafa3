/* test_external.c - programs as metrics: what they are given, and every way they can fail. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/core/clock.h"
#include "harness/run/external.h"

static const struct failure {
    const char *command, *says;
} failures[] = {
    { "false", "false: ended with code 1" },
    { "/nonexistent/program x", "/nonexistent/program: could not be started" },
    { "sh -c 'kill -9 $$'", "sh: killed by signal 9 (SIGKILL)" },
    { "echo hello", "echo: printed no JSON" },
    { "true", "true: printed no JSON" },
    { "echo '[1, 2]'", "echo: printed JSON, but no object with scores" },
    { "echo '{}'", "echo: printed JSON, but no object with scores" },
    { "echo '{\"a\": \"high\"}'", "echo: 'a' is not a number" },
    { "echo '{\"a\": {\"b\": 1}}'", "echo: 'a' is not a number" },
    { "echo '{\"a\": 1, \"a\": 2}'", "echo: printed no JSON" },
    { "echo '{\"a\": NaN}'", "echo: printed no JSON" },
    { "echo '{\"a\": 1} {\"a\": 2}'", "echo: printed no JSON" },
    { "echo 'a", "a quote is not closed" },
    { "  ", "an empty command" },
    { "echo {reference}", "this cell has no {reference}" },
    { "head -c 2000000 /dev/zero", "head: " }, /* refused, or killed by a closed pipe */
};
enum { N_FAILURES = sizeof failures / sizeof failures[0] };

START_TEST(failures_say_why)
{
    const struct failure *f = &failures[_i];
    const struct kvr_external e = { .command = f->command, .timeout_s = 20 };
    json_t *out;

    ck_assert_msg(kvr_external_run(&e, &out) != KVR_OK, "%s", f->command);
    ck_assert_msg(strstr(kvr_error(), f->says) != NULL, "%s: %s", f->command, kvr_error());
    ck_assert_ptr_null(out);
}
END_TEST

START_TEST(words_quotes_and_placeholders)
{
    const struct kvr_external e = {
        .command = "sh -c 'test \"$1\" = \"a b\" && test \"$2\" = \"x=/v i/f.mp4,y\" && "
                   "test \"$3\" = \"\" && test \"$4\" = /r && echo \"{\\\"n\\\": $#}\"' sh \"a b\" "
                   "x={video},y '' {reference} q\\\"\\ r",
        .timeout_s = 20,
        .video = "/v i/f.mp4",
        .reference = "/r",
    };
    json_t *out;

    ck_assert_msg(kvr_external_run(&e, &out) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(json_integer_value(json_object_get(out, "n")), 5);
    json_decref(out);
}
END_TEST

/* A path with a quote or a command in it is a word like any other. */
START_TEST(paths_are_not_code)
{
    const struct kvr_external e = {
        .command = "sh -c 'test \"$1\" = \"$2\" && echo \"{\\\"ok\\\": 1}\"' sh {frames} {frames}",
        .timeout_s = 20,
        .frames = "'; echo $(false) \"{video}",
    };
    json_t *out;

    ck_assert_msg(kvr_external_run(&e, &out) == KVR_OK, "%s", kvr_error());
    json_decref(out);
}
END_TEST

START_TEST(null_is_let_through)
{
    const struct kvr_external e = { .command = "echo '{\"a\": null, \"b\": -1.5e3}'",
                                    .timeout_s = 20 };
    json_t *out;

    ck_assert_msg(kvr_external_run(&e, &out) == KVR_OK, "%s", kvr_error());
    ck_assert(json_is_null(json_object_get(out, "a")));
    ck_assert(json_number_value(json_object_get(out, "b")) == -1500);
    json_decref(out);
}
END_TEST

/* The program's own child holds the pipe open and would live on. */
START_TEST(a_timeout_takes_the_whole_group)
{
    char mark[] = "/tmp/kvreel-external-XXXXXX", command[256];
    struct kvr_external e = { .command = command, .timeout_s = 1 };
    int fd = mkstemp(mark);
    int64_t t0 = kvr_now_ns();
    json_t *out;

    ck_assert_int_ge(fd, 0);
    close(fd);
    snprintf(command, sizeof command, "sh -c '(sleep 2; rm %s) & wait'", mark);
    ck_assert_int_ne(kvr_external_run(&e, &out), KVR_OK);
    ck_assert_msg(strstr(kvr_error(), "sh: not done after 1 s") != NULL, "%s", kvr_error());
    ck_assert_int_lt(kvr_now_ns() - t0, (int64_t)10 * 1000000000);
    sleep(3); /* longer than the child would have taken */
    ck_assert_msg(access(mark, F_OK) == 0, "the program's child went on");
    unlink(mark);
}
END_TEST

/* A program that ends and leaves a child behind with the pipe: its answer counts at once. */
START_TEST(a_child_left_behind_is_not_waited_for)
{
    const struct kvr_external e = { .command = "sh -c 'sleep 60 & echo \"{\\\"a\\\": 2}\"'",
                                    .timeout_s = 30 };
    int64_t t0 = kvr_now_ns();
    json_t *out;

    ck_assert_msg(kvr_external_run(&e, &out) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(json_integer_value(json_object_get(out, "a")), 2);
    ck_assert_int_lt(kvr_now_ns() - t0, (int64_t)20 * 1000000000);
    json_decref(out);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("external");
    TCase *tc = tcase_create("external");
    SRunner *sr = srunner_create(s);
    int failed;

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, failures_say_why, 0, N_FAILURES);
    tcase_add_test(tc, words_quotes_and_placeholders);
    tcase_add_test(tc, paths_are_not_code);
    tcase_add_test(tc, null_is_let_through);
    tcase_add_test(tc, a_timeout_takes_the_whole_group);
    tcase_add_test(tc, a_child_left_behind_is_not_waited_for);
    suite_add_tcase(s, tc);
    srunner_set_fork_status(sr, CK_NOFORK);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
