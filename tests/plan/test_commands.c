/* test_commands.c - external programs as metrics of a sweep. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/plan/config.h"
#include "tests/suite.h"

#define GOOD                                                                                       \
    "model: nano\nprompts: [{id: a, text: a large red disc drifts right over a plain blue "        \
    "background}]\nmethods: [BF16]\n"

static void read_good(struct kvr_config *c, const char *metrics)
{
    char text[2048];

    snprintf(text, sizeof text, GOOD "metrics:\n%s", metrics);
    ck_assert_msg(kvr_config_read_text(c, text, "a.yaml", NULL) == KVR_OK, "%s", kvr_error());
}

START_TEST(a_command_with_all_keys)
{
    struct kvr_config c;

    read_good(&c, "  - sharpness\n"
                  "  - command: a/b/score.py --in {video}\n"
                  "    scores: [mean, worst]\n"
                  "    unit: '1'\n"
                  "    timeout_s: 5m\n"
                  "    sandbox: none\n"
                  "  - {command: true, name: other, sandbox: best}\n");
    ck_assert_int_eq(c.n_metrics, 1);
    ck_assert_int_eq(c.n_commands, 2);
    ck_assert_str_eq(c.command[0].name, "score_py");
    ck_assert_str_eq(c.command[0].command, "a/b/score.py --in {video}");
    ck_assert_int_eq(c.command[0].n_scores, 2);
    ck_assert_str_eq(c.command[0].score[1], "worst");
    ck_assert_str_eq(c.command[0].unit, "1");
    ck_assert_int_eq(c.command[0].timeout_s, 300);
    ck_assert_str_eq(c.command[0].sandbox, "none");
    ck_assert_str_eq(c.command[1].name, "other");
    ck_assert_ptr_null(c.command[1].sandbox);
    ck_assert_str_eq(c.command[1].unit, "unknown");
    ck_assert_int_eq(c.command[1].timeout_s, 60);
    kvr_config_free(&c);
}
END_TEST

START_TEST(commands_alone_keep_the_usual_metrics)
{
    struct kvr_config c;

    read_good(&c, "  command: score\n");
    ck_assert_int_eq(c.n_metrics, 2);
    ck_assert_str_eq(c.metric[0]->name, "psnr");
    ck_assert_int_eq(c.n_commands, 1);
    kvr_config_free(&c);
}
END_TEST

START_TEST(json_has_what_a_worker_needs)
{
    struct kvr_config c;
    json_t *list;

    read_good(&c, "  - {command: score, scores: a}\n");
    list = kvr_config_commands_json(c.command, c.n_commands);
    ck_assert_int_eq(json_array_size(list), 1);
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(list, 0), "name")), "score");
    ck_assert_int_eq(json_array_size(json_object_get(json_array_get(list, 0), "scores")), 1);
    /* The JSON of a command without a sandbox must not contain "sandbox". Otherwise cells that were
     * scored before sandboxes existed would get new keys. */
    ck_assert_ptr_null(json_object_get(json_array_get(list, 0), "sandbox"));
    json_decref(list);
    kvr_config_free(&c);
}
END_TEST

static const struct refused {
    const char *metrics, *says;
} refused[] = {
    { "  - {name: x}\n", "a.yaml:5:5: a metric command needs the key 'command'" },
    { "  - {command: ' '}\n", "'command' is empty" },
    { "  - {command: x, name: psnr}\n", "'psnr' is the name of a built-in metric" },
    { "  - {command: x, name: a.b}\n",
      "name 'a.b': a metric command or score needs a name of 1..63 letters" },
    { "  - {command: x}\n  - {command: x}\n", "two metric commands have the name 'x'" },
    { "  - {command: x, scores: [a, a]}\n", "'a' is listed twice" },
    { "  - {command: x, timeout_s: 0}\n", "timeout_s" },
    { "  - {command: x, sandbox: bwrap}\n", "sandbox 'bwrap': expected best or none" },
    { "  - {command: x, scores: [sandbox]}\n", "'sandbox' is reserved" },
    { "  - {comand: x}\n", "comand" },
    { "  - {command: x, scores: []}\n", "scores: need a list of 1.." },
};
enum { N_REFUSED = sizeof refused / sizeof refused[0] };

START_TEST(what_is_refused_says_where)
{
    struct kvr_config c;
    char text[2048];

    snprintf(text, sizeof text, GOOD "metrics:\n%s", refused[_i].metrics);
    ck_assert_int_eq(kvr_config_read_text(&c, text, "a.yaml", NULL), KVR_EINVAL);
    ck_assert_msg(strncmp(kvr_error(), "a.yaml:", 7) == 0, "%s", kvr_error());
    if (strcmp(refused[_i].says, "timeout_s") != 0)
        ck_assert_msg(strstr(kvr_error(), refused[_i].says) != NULL, "%s", kvr_error());
}
END_TEST

int main(void)
{
    Suite *s = suite_create("commands");
    TCase *tc = tcase_create("commands");

    tcase_add_test(tc, a_command_with_all_keys);
    tcase_add_test(tc, commands_alone_keep_the_usual_metrics);
    tcase_add_test(tc, json_has_what_a_worker_needs);
    tcase_add_loop_test(tc, what_is_refused_says_where, 0, N_REFUSED);
    suite_add_tcase(s, tc);
    return run_suite_forked(s);
}
