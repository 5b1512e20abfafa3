/* test_opts.c - option tables: bounds, types, lists, text, and suggestions for misspelled names. */
#include "harness/core/opts.h"
#include "tests/suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct sample {
    int before;
    int bits;
    double clip;
    bool rotate;
    int axis;
    char file[KVR_OPT_STRING_MAX];
    int after;
};

static const char *const axis_names[] = { "token", "channel", "block", NULL };
static const struct kvr_opt table[] = {
    KVR_OPT_INT(struct sample, bits, 4, 2, 8, "bits per element"),
    KVR_OPT_FLOAT(struct sample, clip, 0.1, 0, 1, "share that is clipped"),
    KVR_OPT_BOOL(struct sample, rotate, true, "rotate first"),
    KVR_OPT_ENUM(struct sample, axis, 1, axis_names, "what shares a scale"),
    KVR_OPT_STRING(struct sample, file, "none", "a file"),
    { 0 },
};

static struct sample defaults(void)
{
    struct sample s;

    memset(&s, 0x77, sizeof s);
    kvr_opts_defaults(table, &s);
    return s;
}

START_TEST(defaults_fill_every_field_and_no_other)
{
    struct sample s = defaults();

    ck_assert_int_eq(s.before, 0x77777777);
    ck_assert_int_eq(s.bits, 4);
    ck_assert(s.clip == 0.1);
    ck_assert(s.rotate);
    ck_assert_int_eq(s.axis, 1);
    ck_assert_str_eq(s.file, "none");
    ck_assert_int_eq(s.after, 0x77777777);
    kvr_opts_defaults(NULL, NULL);
}
END_TEST

START_TEST(set_takes_what_is_in_bounds)
{
    struct sample s = defaults();

    ck_assert_int_eq(kvr_opts_set(table, &s, "bits", "2"), KVR_OK);
    ck_assert_int_eq(s.bits, 2);
    ck_assert_int_eq(kvr_opts_set(table, &s, "bits", "8"), KVR_OK);
    ck_assert_int_eq(s.bits, 8);
    ck_assert_int_eq(kvr_opts_set(table, &s, "clip", "0"), KVR_OK);
    ck_assert(s.clip == 0.0);
    ck_assert_int_eq(kvr_opts_set(table, &s, "clip", "1e-3"), KVR_OK);
    ck_assert(s.clip == 1e-3);
    ck_assert_int_eq(kvr_opts_set(table, &s, "rotate", "off"), KVR_OK);
    ck_assert(!s.rotate);
    ck_assert_int_eq(kvr_opts_set(table, &s, "rotate", "True"), KVR_OK);
    ck_assert(s.rotate);
    ck_assert_int_eq(kvr_opts_set(table, &s, "axis", "block"), KVR_OK);
    ck_assert_int_eq(s.axis, 2);
    ck_assert_int_eq(kvr_opts_set(table, &s, "file", "a b=c"), KVR_OK);
    ck_assert_str_eq(s.file, "a b=c");
    ck_assert_int_eq(s.before, 0x77777777);
    ck_assert_int_eq(s.after, 0x77777777);
}
END_TEST

static const struct {
    const char *name, *value;
    enum kvr_status st;
    const char *says[3];
} refused[] = {
    { "bits", "1", KVR_EINVAL, { "bits", "1", "2..8" } },
    { "bits", "9", KVR_EINVAL, { "bits", "9", "2..8" } },
    { "bits", "4.0", KVR_EINVAL, { "integer", "4.0", "2..8" } },
    { "bits", "", KVR_EINVAL, { "integer", "bits", "2..8" } },
    { "bits", "4x", KVR_EINVAL, { "integer", "4x", "2..8" } },
    { "bits", "99999999999999999999", KVR_EINVAL, { "bounds", "bits", "2..8" } },
    { "bits", "4294967300", KVR_EINVAL, { "bounds", "bits", "2..8" } },
    { "bits", "-9223372036854775809", KVR_EINVAL, { "bounds", "bits", "2..8" } },
    { "clip", "1.0001", KVR_EINVAL, { "clip", "1.0001", "0..1" } },
    { "clip", "-1", KVR_EINVAL, { "clip", "-1", "0..1" } },
    { "clip", "nan", KVR_EINVAL, { "clip", "nan", "not a number" } },
    { "clip", "inf", KVR_EINVAL, { "clip", "inf", "0..1" } },
    { "clip", "0.5 ", KVR_EINVAL, { "clip", "0.5 ", "0..1" } },
    { "clip", "half", KVR_EINVAL, { "clip", "half", "number" } },
    { "rotate", "maybe", KVR_EINVAL, { "rotate", "maybe", "true" } },
    { "rotate", "", KVR_EINVAL, { "rotate", "''", "true" } },
    { "axis", "chanel", KVR_EINVAL, { "axis", "did you mean 'channel'", "token" } },
    { "axis", "zzzzzz", KVR_EINVAL, { "axis", "zzzzzz", "token, channel, block" } },
    { "axis", "1", KVR_EINVAL, { "axis", "'1'", "token" } },
    { "bit", "4", KVR_ENOTFOUND, { "'bit'", "did you mean 'bits'", "" } },
    { "Bits", "4", KVR_ENOTFOUND, { "'Bits'", "did you mean 'bits'", "" } },
    { "frobnicate", "4", KVR_ENOTFOUND, { "frobnicate", "bits, clip, rotate", "" } },
    { "", "4", KVR_ENOTFOUND, { "''", "", "" } },
};

START_TEST(set_refuses_and_changes_nothing)
{
    struct sample s = defaults();
    struct sample before = s;

    ck_assert_int_eq(kvr_opts_set(table, &s, refused[_i].name, refused[_i].value), refused[_i].st);
    ck_assert_int_eq(memcmp(&s, &before, sizeof s), 0);
    for (int i = 0; i < 3; i++)
        ck_assert_msg(strstr(kvr_error(), refused[_i].says[i]), "'%s' does not say '%s'",
                      kvr_error(), refused[_i].says[i]);
}
END_TEST

START_TEST(string_of_exactly_the_field_fits)
{
    struct sample s = defaults();
    char text[KVR_OPT_STRING_MAX + 1];

    memset(text, 'x', sizeof text);
    text[KVR_OPT_STRING_MAX] = '\0';
    ck_assert_int_eq(kvr_opts_set(table, &s, "file", text), KVR_EINVAL);
    ck_assert_str_eq(s.file, "none");
    text[KVR_OPT_STRING_MAX - 1] = '\0';
    ck_assert_int_eq(kvr_opts_set(table, &s, "file", text), KVR_OK);
    ck_assert_str_eq(s.file, text);
    ck_assert_int_eq(s.after, 0x77777777);
}
END_TEST

START_TEST(equal_options_are_equal_bytes)
{
    struct sample a = defaults(), b = a;

    ck_assert_int_eq(kvr_opts_set(table, &a, "file", "a long name, then a short one"), KVR_OK);
    ck_assert_int_eq(kvr_opts_set(table, &a, "file", "none"), KVR_OK);
    ck_assert_int_eq(memcmp(&a, &b, sizeof a), 0);
}
END_TEST

START_TEST(lists)
{
    struct sample s = defaults();
    struct sample before;

    ck_assert_int_eq(kvr_opts_parse(table, &s, " bits = 2 ,axis=token,  file = a=b "), KVR_OK);
    ck_assert_int_eq(s.bits, 2);
    ck_assert_int_eq(s.axis, 0);
    ck_assert_str_eq(s.file, "a=b");
    before = s;
    ck_assert_int_eq(kvr_opts_parse(table, &s, ""), KVR_OK);
    ck_assert_int_eq(kvr_opts_parse(table, &s, "  \t"), KVR_OK);
    ck_assert_int_eq(kvr_opts_parse(table, &s, "bits=3,clip=7"), KVR_EINVAL);
    ck_assert_int_eq(kvr_opts_parse(table, &s, "bits=3,,clip=0"), KVR_EINVAL);
    ck_assert_int_eq(kvr_opts_parse(table, &s, "bits=3,"), KVR_EINVAL);
    ck_assert_int_eq(kvr_opts_parse(table, &s, "bits"), KVR_EINVAL);
    ck_assert_int_eq(kvr_opts_parse(table, &s, "=3"), KVR_ENOTFOUND);
    ck_assert_int_eq(kvr_opts_parse(NULL, NULL, "bits=3"), KVR_ENOTFOUND);
    ck_assert_int_eq(kvr_opts_parse(NULL, NULL, ""), KVR_OK);
    /* An invalid list changes no option. */
    ck_assert_int_eq(memcmp(&s, &before, sizeof s), 0);
}
END_TEST

START_TEST(text_reads_back)
{
    static const double values[] = { 0, 1, 0.1, 1.0 / 3, 1e-300, 0.5, 0x1.fffffffffffffp-1 };
    struct sample s = defaults(), t;
    char buf[300];

    ck_assert_str_eq(kvr_opts_text(&table[1], &s, buf, sizeof buf), "0.1");
    ck_assert_str_eq(kvr_opts_text(&table[2], &s, buf, sizeof buf), "true");
    ck_assert_str_eq(kvr_opts_text(&table[3], &s, buf, sizeof buf), "channel");
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        s.clip = values[i];
        t = defaults();
        for (const struct kvr_opt *o = table; o->name; o++)
            ck_assert_int_eq(
                kvr_opts_set(table, &t, o->name, kvr_opts_text(o, &s, buf, sizeof buf)), KVR_OK);
        ck_assert_int_eq(memcmp(&s, &t, sizeof s), 0);
    }
    ck_assert_str_eq(kvr_opts_text(&table[3], &s, buf, 3), "ch");
}
END_TEST

START_TEST(find)
{
    ck_assert_ptr_eq(kvr_opts_find(table, "axis"), &table[3]);
    ck_assert_ptr_null(kvr_opts_find(table, "axi"));
    ck_assert_ptr_null(kvr_opts_find(NULL, "axis"));
}
END_TEST

START_TEST(nearest_names)
{
    static const char *const names[] = { "RTN_INT2", "RTN_INT4", "RTN_K2_V4", "bf16", NULL };
    static const char *const none[] = { NULL };
    char longest[500];

    ck_assert_str_eq(kvr_nearest("rtn_int4", names), "RTN_INT4");
    /* In a tie, the first name is suggested. */
    ck_assert_str_eq(kvr_nearest("RTN_INT5", names), "RTN_INT2");
    /* A transposition is one edit. */
    ck_assert_str_eq(kvr_nearest("RTN_IN4T", names), "RTN_INT4");
    ck_assert_str_eq(kvr_nearest("fb16", names), "bf16");
    ck_assert_str_eq(kvr_nearest("RTNK2V4", names), "RTN_K2_V4");
    ck_assert_ptr_null(kvr_nearest("quarot", names));
    /* The distance is two edits, and four letters allow 4 / 3 = 1. */
    ck_assert_ptr_null(kvr_nearest("bf", names));
    ck_assert_ptr_null(kvr_nearest("wan", (const char *const[]){ "nano", NULL }));
    ck_assert_ptr_null(kvr_nearest("cat", (const char *const[]){ "cyan", NULL }));
    ck_assert_str_eq(kvr_nearest("sur", (const char *const[]){ "sure", NULL }), "sure");
    ck_assert_ptr_null(kvr_nearest("bf16", none));
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    ck_assert_ptr_null(kvr_nearest(longest, names));
}
END_TEST

START_TEST(a_name_of_a_list)
{
    static const char *const names[] = { "keep", "recache", "reset", NULL };
    int i = -1;

    ck_assert_int_eq(kvr_name_parse(&i, names, "x: --y", "reset"), KVR_OK);
    ck_assert_int_eq(i, 2);
    ck_assert_int_eq(kvr_name_parse(&i, names, "x: --y", "drop"), KVR_EINVAL);
    ck_assert_str_eq(kvr_error(), "x: --y 'drop': need keep, recache or reset");
    ck_assert_int_eq(kvr_name_parse(&i, names, "x: --y", "rest"), KVR_EINVAL);
    ck_assert_str_eq(kvr_error(),
                     "x: --y 'rest': need keep, recache or reset; did you mean 'reset'?");
    ck_assert_int_eq(i, 2);
}
END_TEST

START_TEST(a_call_spells_every_option_out)
{
    static const struct kvr_opt nothing[] = { { 0 } };
    const struct sample s = defaults();
    char buf[128], small[12];

    ck_assert_str_eq(kvr_opts_call("part", table, &s, buf, sizeof buf),
                     "part(bits=4,clip=0.1,rotate=true,axis=channel,file=none)");
    ck_assert_str_eq(kvr_opts_call("part", nothing, &s, buf, sizeof buf), "part");
    ck_assert_str_eq(kvr_opts_call("part", NULL, NULL, buf, sizeof buf), "part");
    ck_assert_str_eq(kvr_opts_call("part", table, &s, small, sizeof small), "part(bits=4");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("opts");
    TCase *tc = tcase_create("opts");

    tcase_add_test(tc, defaults_fill_every_field_and_no_other);
    tcase_add_test(tc, set_takes_what_is_in_bounds);
    tcase_add_loop_test(tc, set_refuses_and_changes_nothing, 0, sizeof refused / sizeof *refused);
    tcase_add_test(tc, string_of_exactly_the_field_fits);
    tcase_add_test(tc, equal_options_are_equal_bytes);
    tcase_add_test(tc, lists);
    tcase_add_test(tc, text_reads_back);
    tcase_add_test(tc, find);
    tcase_add_test(tc, nearest_names);
    tcase_add_test(tc, a_name_of_a_list);
    tcase_add_test(tc, a_call_spells_every_option_out);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
