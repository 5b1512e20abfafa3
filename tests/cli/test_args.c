/* test_args.c - the option parser: every form of an option and every error. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cli/args.h"
#include "tests/suite.h"

struct opts {
    const char *text, *with_default;
    int n, time_s;
    uint64_t seed;
    double x;
    bool flag, other;
    struct kvr_arg_list list;
};

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(struct opts, text, "text", 't', "TEXT", NULL, "a text"),
    KVR_ARG_TEXT(struct opts, with_default, "place", 0, "DIR", "here", "has a default"),
    KVR_ARG_INT(struct opts, n, "jobs", 'j', "N", "4", 0, 16, "a whole number"),
    KVR_ARG_U64(struct opts, seed, "seed", 0, "N", NULL, "64 bits"),
    KVR_ARG_REAL(struct opts, x, "limit", 0, "X", NULL, 0, 1, "a number"),
    KVR_ARG_TIME(struct opts, time_s, "time", 0, "TIME", "90", 0, 7200, "a time"),
    KVR_ARG_FLAG(struct opts, flag, "flag", 'f', "a flag"),
    KVR_ARG_FLAG(struct opts, other, "other", 'o', "another"),
    KVR_ARG_LIST(struct opts, list, "set", 's', "K=V", "many"),
    { 0 },
};

static const struct kvr_command command = {
    .name = "try",
    .summary = "for the test",
    .usage = "A [B]",
    .examples = "  kvreel try a\n",
    .args = args,
    .opts_size = sizeof(struct opts),
    .min_words = 1,
    .max_words = 2,
};

enum { MAX_WORDS = 32 };

static struct opts got;
static const char *words[MAX_WORDS + 1];
static struct kvr_call call;

/* Parses `line`, split at blanks, as the arguments that follow "kvreel try". */
static enum kvr_status parse(const char *line)
{
    static char buf[512];
    static char *argv[MAX_WORDS];
    int argc = 0;

    snprintf(buf, sizeof buf, "kvreel try %s", line);
    for (char *w = strtok(buf, " "); w; w = strtok(NULL, " "))
        argv[argc++] = w;
    return kvr_args_parse(&command, argc, argv, 2, &got, words, &call);
}

START_TEST(defaults_and_words)
{
    ck_assert_int_eq(parse("a"), KVR_OK);
    ck_assert_int_eq(got.n, 4);
    ck_assert_str_eq(got.with_default, "here");
    ck_assert_ptr_null(got.text);
    ck_assert(!got.flag);
    ck_assert_int_eq(call.n_words, 1);
    ck_assert_str_eq(call.words[0], "a");
    ck_assert_ptr_null(call.words[1]);
}
END_TEST

START_TEST(every_form)
{
    static const char *const lines[] = {
        "a --text=v --jobs=7 --flag",
        "--text v --jobs 7 a --flag",
        "-t v -j 7 -f a",
        "-tv -j7 a -f",
        "-fj7 a -tv",
    };

    ck_assert_int_eq(parse(lines[_i]), KVR_OK);
    ck_assert_str_eq(got.text, "v");
    ck_assert_int_eq(got.n, 7);
    ck_assert(got.flag);
    ck_assert(!got.other);
    ck_assert_str_eq(call.words[0], "a");
}
END_TEST

START_TEST(values_that_look_like_options)
{
    ck_assert_int_eq(parse("a --text --flag"), KVR_OK);
    ck_assert_str_eq(got.text, "--flag");
    ck_assert(!got.flag);
    ck_assert_int_eq(parse("a --text="), KVR_OK);
    ck_assert_str_eq(got.text, "");
    ck_assert_int_eq(parse("-- --flag -j"), KVR_OK);
    ck_assert(!got.flag);
    ck_assert_str_eq(call.words[0], "--flag");
    ck_assert_str_eq(call.words[1], "-j");
    ck_assert_int_eq(parse("-"), KVR_OK); /* a lone dash is an argument, not an option */
    ck_assert_str_eq(call.words[0], "-");
}
END_TEST

START_TEST(lists_grow)
{
    ck_assert_int_eq(parse("a -s x=1 --set=y=2 --set z=3"), KVR_OK);
    ck_assert_int_eq(got.list.n, 3);
    ck_assert_str_eq(got.list.v[1], "y=2");
    ck_assert_ptr_null(got.list.v[3]);
    ck_assert_int_eq(parse("a"), KVR_OK); /* the previous call leaves no values behind */
    ck_assert_int_eq(got.list.n, 0);
}
END_TEST

START_TEST(numbers)
{
    ck_assert_int_eq(parse("a --seed 18446744073709551615 --limit 0.25"), KVR_OK);
    ck_assert_uint_eq(got.seed, UINT64_MAX);
    ck_assert(got.x == 0.25); /* exact in binary */
}
END_TEST

START_TEST(times)
{
    static const struct {
        const char *line;
        int seconds;
    } cases[] = {
        { "a", 90 },
        { "a --time 5", 5 },
        { "a --time 5s", 5 },
        { "a --time=30m", 1800 },
        { "a --time 2h", 7200 },
        { "a --time 1.1h", 3960 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_int_eq(parse(cases[i].line), KVR_OK);
        ck_assert_int_eq(got.time_s, cases[i].seconds);
    }
}
END_TEST

START_TEST(refused)
{
    static const struct {
        const char *line, *says;
    } cases[] = {
        { "a --jbos 3", "did you mean --jobs?" },
        { "a --zzzzzzzz", "unknown option --zzzzzzzz" },
        { "a -z", "unknown option -z" },
        { "a --jobs", "--jobs needs a value: N" },
        { "a -j", "-j needs a value: N" },
        { "a --jobs=17", "'17' is not allowed, need a whole number from 0 to 16" },
        { "a --jobs=3x", "'3x'" },
        { "a --time 3x", "try: --time '3x': need a time such as 90s" },
        { "a --time 1.5s", "in whole seconds" },
        { "a --time 121m", "need a time from 0s to 2h" },
        { "a --time nan", "need a time from 0s to 2h" },
        { "a --jobs=", "''" },
        { "a --seed=-1", "'-1'" },
        { "a --seed=18446744073709551616", "need a whole number from 0 to 2^64 - 1" },
        { "a --limit=nan", "'nan'" },
        { "a --limit=1.5", "from 0 to 1" },
        { "a --flag=yes", "--flag takes no value" },
        { "a b c", "unexpected argument 'c'" },
        { "--flag", "usage: kvreel try A [B]" },
    };

    ck_assert_int_eq(parse(cases[_i].line), KVR_EINVAL);
    ck_assert_msg(strstr(kvr_error(), cases[_i].says), "%s: says \"%s\"", cases[_i].line,
                  kvr_error());
}
END_TEST

START_TEST(help_wins)
{
    /* --help is accepted although the required argument A is missing */
    ck_assert_int_eq(parse("--help"), KVR_OK);
    ck_assert(call.help);
    ck_assert_int_eq(parse("-fh"), KVR_OK);
    ck_assert(call.help);
    ck_assert_int_eq(parse("a"), KVR_OK);
    ck_assert(!call.help);
}
END_TEST

START_TEST(help_has_everything)
{
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);

    kvr_args_help(&command, f);
    fclose(f);
    ck_assert_int_eq(strncmp(text, "Examples:\n", 10), 0);
    for (const struct kvr_arg *a = args; a->name; a++)
        ck_assert_msg(strstr(text, a->help) && strstr(text, a->name), "no --%s", a->name);
    free(text);
}
END_TEST

/* --plugin and --cpu are options of every command; they may precede or follow the command's
 * name. */
START_TEST(common_options)
{
    static char *argv[] = {
        "kvreel", "--cpu=avx2", "--plugin", "a.so", "--cpu", "neon", "try", NULL
    };
    static char *unknown_first[] = { "kvreel", "--cpus", "avx2", NULL };
    static char *no_value[] = { "kvreel", "--cpu", NULL };
    struct kvr_call leading = { 0 };
    int at = 1;

    ck_assert_int_eq(kvr_args_leading(7, argv, &at, &leading), KVR_OK);
    ck_assert_int_eq(at, 6);
    ck_assert_str_eq(leading.cpu, "neon"); /* the last --cpu counts */
    ck_assert_int_eq(leading.plugins.n, 1);
    ck_assert_str_eq(leading.plugins.v[0], "a.so");
    at = 1;
    ck_assert_int_eq(kvr_args_leading(3, unknown_first, &at, &leading), KVR_OK);
    ck_assert_int_eq(at, 1);
    ck_assert_int_eq(kvr_args_leading(2, no_value, &at, &leading), KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "--cpu needs a value: NAME"));

    ck_assert_int_eq(parse("a --cpu portable --plugin b.so --jobs 3"), KVR_OK);
    ck_assert_str_eq(call.cpu, "portable");
    ck_assert_int_eq(call.plugins.n, 1);
    ck_assert_int_eq(got.n, 3);
    ck_assert_int_eq(parse("a"), KVR_OK);
    ck_assert_ptr_null(call.cpu);
    ck_assert_int_eq(parse("a --cp x"), KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "did you mean --cpu?"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("args");
    TCase *t = tcase_create("args");

    tcase_add_test(t, defaults_and_words);
    tcase_add_loop_test(t, every_form, 0, 5);
    tcase_add_test(t, values_that_look_like_options);
    tcase_add_test(t, lists_grow);
    tcase_add_test(t, numbers);
    tcase_add_test(t, times);
    tcase_add_loop_test(t, refused, 0, 15);
    tcase_add_test(t, help_wins);
    tcase_add_test(t, help_has_everything);
    tcase_add_test(t, common_options);
    suite_add_tcase(s, t);
    return run_suite(s);
}
