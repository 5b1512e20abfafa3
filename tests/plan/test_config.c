/* test_config.c - the keys of a sweep file, and every error message. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/plan/config.h"
#include "harness/plan/find.h"
#include "tests/suite.h"

#define GOOD "model: nano\nsuite: moviegen-nano\nmethods: [BF16, RTN_INT4]\n"

START_TEST(defaults)
{
    struct kvr_config c;

    ck_assert_msg(kvr_config_read_text(&c, GOOD, "configs/x.yaml", NULL) == KVR_OK, "%s",
                  kvr_error());
    ck_assert_str_eq(c.name, "x");
    ck_assert_str_eq(c.db, "kvreel.db");
    ck_assert_str_eq(c.out, "out");
    ck_assert_int_eq(c.n_models, 1);
    ck_assert_str_eq(c.model[0].name, "nano");
    ck_assert_str_eq(c.model[0].dir, "models/nano");
    ck_assert_int_eq(c.n_suites, 1);
    ck_assert_int_ge(c.suite[0].n_prompts, 10);
    ck_assert_int_eq(c.n_methods, 2);
    ck_assert_int_eq(c.values[KVR_SET_frames].n, 0);
    ck_assert_int_eq(c.values[KVR_SET_window].n, 1);
    ck_assert_int_eq(c.values[KVR_SET_window].value[0], KVR_WINDOW_OF_MODEL);
    ck_assert_int_eq(c.values[KVR_SET_evict].value[0], 0);
    ck_assert_int_eq(c.set.repeats, 1);
    ck_assert_int_eq(c.set.threads, 1);
    ck_assert_int_eq(c.n_metrics, 2);
    kvr_config_free(&c);
}
END_TEST

START_TEST(everything)
{
    static const char text[] = "name: all\n"
                               "question: does it read?\n"
                               "model: models/nano\n"
                               "suite:\n"
                               "  - {suite: moviegen-nano, prompts: [mg03, mg01]}\n"
                               "  - storyeval-nano\n"
                               "prompts: 2\n"
                               "methods:\n"
                               "  - BF16\n"
                               "  - {method: RTN_INT4, options: {group: [16, 32], bits: [2, 4]}}\n"
                               "  - {method: RTN_INT4, options: {group: 64}, label: wide}\n"
                               "frames: [6, 42]\n"
                               "window: [model, 0, 9]\n"
                               "sink: [0, 3]\n"
                               "evict: [false, true]\n"
                               "path: staged\n"
                               "seed: [0, 100]\n"
                               "repeats: 2\nthreads: 2\ntimeout_s: 2m\n"
                               "metrics: psnr\ndb: a.db\nout: o\n";
    struct kvr_config c;

    ck_assert_msg(kvr_config_read_text(&c, text, "a.yaml", NULL) == KVR_OK, "%s", kvr_error());
    ck_assert_str_eq(c.name, "all");
    ck_assert_int_eq(c.suite[0].n_prompts, 2);
    ck_assert_str_eq(c.suite[0].prompt[0].id, "mg03");
    ck_assert_int_eq(c.suite[0].prompt[0].index, 2);
    ck_assert_int_eq(c.suite[1].n_prompts, 2);
    ck_assert_int_eq(c.n_methods, 6);
    ck_assert_str_eq(c.method[1].setting[0].value, "16");
    ck_assert_str_eq(c.method[1].setting[1].value, "2");
    ck_assert_str_eq(c.method[2].setting[1].value, "4");
    ck_assert_str_eq(c.method[4].setting[0].value, "32");
    ck_assert(c.method[4].expanded);
    ck_assert_str_eq(c.method[5].label, "wide");
    ck_assert(!c.method[5].expanded);
    ck_assert_int_eq(c.values[KVR_SET_frames].n * c.values[KVR_SET_window].n *
                         c.values[KVR_SET_sink].n * c.values[KVR_SET_evict].n *
                         c.values[KVR_SET_seed].n,
                     2 * 3 * 2 * 2 * 2);
    ck_assert_int_eq(c.n_metrics, 1);
    ck_assert_int_eq(c.set.timeout_s, 120);
    kvr_config_free(&c);
}
END_TEST

static const struct {
    const char *text, *message; /* message: how the error message begins */
} bad[] = {
    { "", "a.yaml: the config is empty" },
    { "- a\n", "a.yaml:1:1: expected a map of keys, found a list" },
    { GOOD "framez: 3\n", "a.yaml:4:1: 'framez' is not a known key; did you mean 'frames'?" },
    { GOOD "frames: many\n", "a.yaml:4:9: expected a whole number, got 'many'" },
    { GOOD "frames: 0\n", "a.yaml:4:9: 0 is out of range" },
    { GOOD "frames: [6, 6]\n", "a.yaml:4:13: frames: '6' is listed twice" },
    { GOOD "frames: []\n", "a.yaml:4:9: frames: need a list of 1..1000 values, got 0" },
    { GOOD "window: wide\n", "a.yaml:4:9: expected a whole number, got 'wide'" },
    { GOOD "evict: 1\n", "a.yaml:4:8: expected true or false, got '1'" },
    { GOOD "path: fast\n",
      "a.yaml:4:7: unknown path 'fast', need staged, fused, dense or decoded" },
    { GOOD "metrics: [psnr, sssim]\n",
      "a.yaml:4:17: unknown metric 'sssim'; did you mean 'ssim'?" },
    { GOOD "metrics: [psnr, psnr]\n", "a.yaml:4:17: metric 'psnr' is listed twice" },
    { GOOD "timeout_s: -1\n", "a.yaml:4:12: -1 is out of range" },
    { GOOD "timeout_s: 1.5\n", "a.yaml:4:12: '1.5': need a time such as 90s, 30m or 2h" },
    { GOOD "timeout_s: 200h\n", "a.yaml:4:12: 200h is out of range, need 1..604800 seconds" },
    { GOOD "repeats: {a: 1}\n", "a.yaml:4:10: expected a whole number, found a map" },
    { GOOD "prompts: [mg01, zz]\n", "a.yaml:4:17: suite 'moviegen-nano' has no prompt 'zz'" },
    { GOOD "prompts: 9999\n", "a.yaml:4:10: 9999 is out of range" },
    { GOOD "prompts: [{id: a, text: b}]\n", "a.yaml:4:10: use 'prompts' or 'suite', not both" },
    { "model: nano\nsuite: {suite: moviegen-nano, prompts: 1}\nmethods: BF16\nprompts: [mg02]\n",
      "a.yaml:4:10: 'prompts' would have no effect: each suite has its own 'prompts'" },
    { "model: nano\nmethods: BF16\nprompts: [a red disc]\n",
      "a.yaml:3:11: a prompt needs a map {id: NAME, text: TEXT}, found a single value" },
    { "model: nano\nmethods: BF16\nprompts: 3\n",
      "a.yaml:3:10: prompts: need a list of 1..10000 prompts {id, text}, found a single value" },
    { GOOD "db: [a]\n", "a.yaml:4:5: expected text, found a list" },
    { "suite: moviegen-nano\nmethods: BF16\n", "a.yaml:1:1: the sweep has no key 'model'" },
    { "model: nono\nsuite: moviegen-nano\nmethods: BF16\n",
      "a.yaml:1:8: model 'nono' not found in models/; did you mean 'nano'?" },
    { "model: no/where\nsuite: moviegen-nano\nmethods: BF16\n",
      "a.yaml:1:8: model not found at no/where/config.json" },
    { "model: nano\nsuite: moviegen-nana\nmethods: BF16\n",
      "a.yaml:2:8: suite 'moviegen-nana' not found in configs/suites/; did you mean "
      "'moviegen-nano'?" },
    { "model: nano\nmethods: BF16\n", "a.yaml:1:1: the sweep has neither 'suite' nor 'prompts'" },
    { "model: nano\nsuite: moviegen-nano\n", "a.yaml:1:1: the sweep has no key 'methods'" },
    { "model: nano\nprompts: [{id: a/b, text: x}]\nmethods: BF16\n",
      "a.yaml:2:16: id 'a/b' (3 characters): " },
    { "model: nano\nprompts: [{id: a}]\nmethods: BF16\n",
      "a.yaml:2:11: prompt 'a' has neither 'text' nor 'shots'" },
    { "model: nano\nprompts:\n- {id: a, text: x}\n- {id: a, text: y}\nmethods: BF16\n",
      "a.yaml:4:3: id 'a' is given twice, first at line 3" },
    { "model: nano\nsuite: moviegen-nano\nmethods:\n  - {method: A, optionz: {}}\n",
      "a.yaml:4:17: 'optionz' is not a known key; did you mean 'options'?" },
    { "model: nano\nsuite: moviegen-nano\nmethods:\n  - {options: {}}\n",
      "a.yaml:4:5: a method given as a map needs the key 'method'" },
    { "model: nano\nsuite: moviegen-nano\nmethods:\n  - {method: A, options: 3}\n",
      "a.yaml:4:26: options: need a map of at most 16 options" },
    { "model: nano\nsuite: moviegen-nano\nmethods:\n  - {method: A, options: {bits: [2, {}]}}\n",
      "a.yaml:4:37: expected text, found a map" },
    { "model: [nano, models/nano]\nsuite: moviegen-nano\nmethods: BF16\n",
      "a.yaml:1:15: model 'nano' is listed twice" },
};

START_TEST(refusals)
{
    struct kvr_config c;
    enum kvr_status st = kvr_config_read_text(&c, bad[_i].text, "a.yaml", NULL);

    ck_assert_int_eq(st, KVR_EINVAL);
    ck_assert_ptr_null(c.doc);
    ck_assert_msg(strncmp(kvr_error(), bad[_i].message, strlen(bad[_i].message)) == 0,
                  "'%s', expected '%s'", kvr_error(), bad[_i].message);
}
END_TEST

START_TEST(overrides)
{
    static const char *const good[] = { "frames=[6, 9]", "methods=RTN_INT2", NULL };
    static const char *const wrong[] = { "framez=6", NULL };
    struct kvr_config c;

    ck_assert_msg(kvr_config_read_text(&c, GOOD, "a.yaml", good) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(c.values[KVR_SET_frames].n, 2);
    ck_assert_int_eq(c.n_methods, 1);
    kvr_config_free(&c);
    ck_assert_int_eq(kvr_config_read_text(&c, GOOD, "a.yaml", wrong), KVR_EINVAL);
    ck_assert_str_eq(kvr_error(), "framez=6: 'framez' is not a known key; did you mean 'frames'?");
}
END_TEST

static const char *const shipped[] = { "configs/demo.yaml", "configs/tiny.yaml" };

START_TEST(shipped_configs)
{
    struct kvr_config c;

    ck_assert_msg(kvr_config_read(&c, shipped[_i], NULL) == KVR_OK, "%s", kvr_error());
    ck_assert_str_ne(c.question, "");
    kvr_config_free(&c);
}
END_TEST

/* Names of suites and models are found next to the sweep file and in $KVREEL_DATA. */
START_TEST(data_folders)
{
    char **names, path[256];
    bool seen = false;

    ck_assert_int_eq(kvr_find_names(&kvr_find_suite, NULL, &names), KVR_OK);
    for (int i = 0; names[i]; i++) {
        seen = seen || strcmp(names[i], "moviegen-nano") == 0;
        ck_assert(i == 0 || strcmp(names[i - 1], names[i]) < 0);
    }
    ck_assert(seen);
    free(names);
    ck_assert_int_eq(kvr_find_path(&kvr_find_model, "nano", NULL, path, sizeof path), KVR_OK);
    ck_assert_str_eq(path, "models/nano");
    ck_assert_int_eq(kvr_find_path(&kvr_find_model, "nano", NULL, path, 4), KVR_ENOTFOUND);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config");
    TCase *tc = tcase_create("config");

    tcase_add_test(tc, defaults);
    tcase_add_test(tc, everything);
    tcase_add_loop_test(tc, refusals, 0, sizeof bad / sizeof *bad);
    tcase_add_test(tc, overrides);
    tcase_add_loop_test(tc, shipped_configs, 0, sizeof shipped / sizeof *shipped);
    tcase_add_test(tc, data_folders);
    suite_add_tcase(suite, tc);
    return run_suite_forked(suite);
}
