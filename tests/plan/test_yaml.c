/* test_yaml.c - line and column numbers of nodes, and errors that name them. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/plan/yaml.h"
#include "tests/suite.h"

static enum kvr_status read_text(struct kvr_yaml **y, const char *text)
{
    return kvr_yaml_read_text(y, text, strlen(text), "a.yaml");
}

START_TEST(lines_and_columns)
{
    struct kvr_yaml *y;
    const struct kvr_yaml_node *root, *n;
    long long v = 0;
    const char *s = "";
    bool b = false;

    ck_assert_msg(read_text(&y, "# a comment\n"
                                "frames: 42\n"
                                "list:\n"
                                "  - one\n"
                                "  - {deep: true}\n"
                                "text: '42'\n") == KVR_OK,
                  "%s", kvr_error());
    root = kvr_yaml_root(y);
    ck_assert_int_eq(root->kind, KVR_YAML_MAP);
    ck_assert_int_eq(root->n, 3);
    n = kvr_yaml_get(root, "frames");
    ck_assert_int_eq(n->line, 2);
    ck_assert_int_eq(n->column, 9);
    ck_assert_int_eq(kvr_yaml_int(n, 0, 100, &v), KVR_OK);
    ck_assert_int_eq(v, 42);
    n = kvr_yaml_get(kvr_yaml_at(kvr_yaml_get(root, "list"), 1), "deep");
    ck_assert_int_eq(n->line, 5);
    ck_assert_int_eq(n->column, 12);
    ck_assert_int_eq(kvr_yaml_bool(n, &b), KVR_OK);
    ck_assert(b);
    n = kvr_yaml_get(root, "text");
    v = 0;
    /* a quoted number is accepted, because templating tools quote every value */
    ck_assert_int_eq(kvr_yaml_int(n, 0, 100, &v), KVR_OK);
    ck_assert_int_eq(v, 42);
    ck_assert_int_eq(kvr_yaml_string(n, &s), KVR_OK);
    ck_assert_str_eq(s, "42");
    ck_assert_ptr_null(kvr_yaml_get(root, "absent"));
    kvr_yaml_close(&y);
    ck_assert_ptr_null(y);
}
END_TEST

/* Only an error that the value causes is an error of the config. */
START_TEST(memory_is_not_the_configs_fault)
{
    struct kvr_yaml *y;
    const struct kvr_yaml_node *n;

    ck_assert_msg(read_text(&y, "model: nano\n") == KVR_OK, "%s", kvr_error());
    n = kvr_yaml_get(kvr_yaml_root(y), "model");
    ck_assert_int_eq(kvr_yaml_fail_from(n, kvr_fail(KVR_ENOTFOUND, "no such model")), KVR_EINVAL);
    ck_assert_str_eq(kvr_error(), "a.yaml:1:8: no such model");
    ck_assert_int_eq(kvr_yaml_fail_from(n, kvr_fail(KVR_ENOMEM, "out of memory")), KVR_ENOMEM);
    ck_assert_str_eq(kvr_error(), "out of memory");
    kvr_yaml_close(&y);
}
END_TEST

static const struct {
    const char *text, *message;
} refused[] = {
    { "a: 1\nb: 2\na: 3\n", "a.yaml:3:1: 'a' is given twice, first at line 1" },
    { "a: [1, 2\n", "a.yaml:2:1: " },
    { "a: !!python/object 3\n", "a.yaml:1:4: YAML tag '" },
    { "a: !x [1]\n", "a.yaml:1:4: YAML tag '" },
    { "a: \"x\\0y\"\n", "a.yaml:1:4: a value contains a NUL character" },
    { "a: 1\n---\nb: 2\n", "a.yaml:2:1: the file has a second YAML document" },
    { "a: *b\n", "a.yaml:1:4: alias *b refers to an unknown anchor" },
    { "a: &b [1, *b]\n", "a.yaml:1:11: alias *b is inside its own anchor" },
    { "[1, 2]: 3\n", "a.yaml:1:1: a key must be plain text" },
    { "{a: 1}: 3\n", "a.yaml:1:1: a key must be plain text" },
    { "[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]\n",
      "a.yaml:1:17: lists and maps are nested deeper than the limit of 16 levels" },
    { "a: \001\n", "a.yaml: control characters" },
    { "a: \xff\xfe\n", "a.yaml: " },
    { "a:\n\t- tab\n", "a.yaml:2:1: " },
};

START_TEST(refusals)
{
    struct kvr_yaml *y;

    ck_assert_int_eq(read_text(&y, refused[_i].text), KVR_EINVAL);
    ck_assert_ptr_null(y);
    ck_assert_msg(strncmp(kvr_error(), refused[_i].message, strlen(refused[_i].message)) == 0,
                  "'%s', expected '%s'", kvr_error(), refused[_i].message);
}
END_TEST

/* Ten levels of aliases to ten values each: 10^10 values in 200 bytes are refused. */
START_TEST(billion_laughs)
{
    struct kvr_yaml *y;
    char text[2000] = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n", line[200];

    for (int i = 1; i < 10; i++) {
        int n = snprintf(line, sizeof line, "a%d: &a%d [", i, i);

        for (int k = 0; k < 10; k++)
            n += snprintf(line + n, sizeof line - (size_t)n, "%s*a%d", k ? ", " : "", i - 1);
        snprintf(line + n, sizeof line - (size_t)n, "]\n");
        strcat(text, line);
    }
    ck_assert_int_eq(read_text(&y, text), KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "aliases are expanded"));
}
END_TEST

START_TEST(aliases_share)
{
    struct kvr_yaml *y;
    const struct kvr_yaml_node *n;

    ck_assert_msg(read_text(&y, "a: &x {k: [1, 2]}\nb: *x\n") == KVR_OK, "%s", kvr_error());
    n = kvr_yaml_get(kvr_yaml_root(y), "b");
    ck_assert_int_eq(n->line, 2);
    ck_assert_int_eq(kvr_yaml_count(kvr_yaml_get(n, "k")), 2);
    kvr_yaml_close(&y);
}
END_TEST

START_TEST(too_large)
{
    size_t n = KVR_YAML_MAX_BYTES + 10;
    char *text = malloc(n);
    struct kvr_yaml *y;

    memset(text, ' ', n);
    ck_assert_int_eq(kvr_yaml_read_text(&y, text, n, "big.yaml"), KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "big.yaml"));
    free(text);
    ck_assert_int_eq(kvr_yaml_read(&y, "no/such.yaml"), KVR_ENOTFOUND);
    ck_assert_int_eq(kvr_yaml_read(&y, "."), KVR_EFORMAT);
}
END_TEST

START_TEST(keys_and_types)
{
    static const char *const allowed[] = { "bits", "group", NULL };
    struct kvr_yaml *y;
    const struct kvr_yaml_node *root;
    long long v;
    bool b;

    ck_assert_int_eq(read_text(&y, "bits: 4\nbitz: 3\n"), KVR_OK);
    ck_assert_int_eq(kvr_yaml_keys(kvr_yaml_root(y), allowed), KVR_EINVAL);
    ck_assert_str_eq(kvr_error(), "a.yaml:2:1: 'bitz' is not a known key; did you mean 'bits'?");
    kvr_yaml_close(&y);

    ck_assert_int_eq(read_text(&y, "a: 12x\nb: 999999999999999999999\nc: yes\nd: [1]\ne: 5\nf:\n"),
                     KVR_OK);
    root = kvr_yaml_root(y);
    ck_assert_int_eq(kvr_yaml_int(kvr_yaml_get(root, "a"), 0, 9, &v), KVR_EINVAL);
    ck_assert_str_eq(kvr_error(), "a.yaml:1:4: expected a whole number, got '12x'");
    ck_assert_int_eq(kvr_yaml_int(kvr_yaml_get(root, "b"), 0, 9, &v), KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "a.yaml:2:4: "));
    ck_assert_ptr_nonnull(strstr(kvr_error(), "need 0..9"));
    ck_assert_int_eq(kvr_yaml_bool(kvr_yaml_get(root, "c"), &b), KVR_EINVAL);
    ck_assert_str_eq(kvr_error(), "a.yaml:3:4: expected true or false, got 'yes'");
    ck_assert_int_eq(kvr_yaml_int(kvr_yaml_get(root, "d"), 0, 9, &v), KVR_EINVAL);
    ck_assert_str_eq(kvr_error(), "a.yaml:4:4: expected a whole number, found a list");
    ck_assert_int_eq(kvr_yaml_int(kvr_yaml_get(root, "e"), 6, 9, &v), KVR_EINVAL);
    ck_assert_str_eq(kvr_error(), "a.yaml:5:4: 5 is out of range, need 6..9");
    {
        const char *s;

        ck_assert_int_eq(kvr_yaml_string(kvr_yaml_get(root, "f"), &s), KVR_EINVAL);
        ck_assert_ptr_nonnull(strstr(kvr_error(), "found an empty value"));
    }
    kvr_yaml_close(&y);
}
END_TEST

START_TEST(overrides)
{
    struct kvr_yaml *y;
    long long v = 0;

    ck_assert_int_eq(read_text(&y, "a: 1\n"), KVR_OK);
    ck_assert_int_eq(kvr_yaml_override(y, "a=7"), KVR_OK);
    ck_assert_int_eq(kvr_yaml_override(y, "b=[x, 'y']"), KVR_OK);
    ck_assert_int_eq(kvr_yaml_int(kvr_yaml_get(kvr_yaml_root(y), "a"), 0, 9, &v), KVR_OK);
    ck_assert_int_eq(v, 7);
    ck_assert_int_eq(kvr_yaml_count(kvr_yaml_get(kvr_yaml_root(y), "b")), 2);
    ck_assert_int_eq(kvr_yaml_override(y, "noequals"), KVR_EINVAL);
    ck_assert_int_eq(kvr_yaml_override(y, "c="), KVR_EINVAL);
    ck_assert_int_eq(kvr_yaml_override(y, "c=[1"), KVR_EINVAL);
    ck_assert_int_eq(kvr_yaml_override(y, "a=x"), KVR_OK);
    ck_assert_int_eq(kvr_yaml_int(kvr_yaml_get(kvr_yaml_root(y), "a"), 0, 9, &v), KVR_EINVAL);
    ck_assert_str_eq(kvr_error(), "a=x: expected a whole number, got 'x'");
    kvr_yaml_close(&y);
}
END_TEST

/* A quoted value is accepted as a number or truth value if it would be one without its quotes. */
START_TEST(quoted_values)
{
    static const struct {
        const char *text;
        int number, flag; /* -1: refused */
    } cases[] = {
        { "a: '15'", 15, -1 },     { "a: \"15\"", 15, -1 }, { "a: 'true'", -1, 1 },
        { "a: \"false\"", -1, 0 }, { "a: ' 15x'", -1, -1 }, { "a: ''", -1, -1 },
        { "a: '1.5'", -1, -1 },    { "a: 'True'", -1, -1 }, { "a: '1..3'", -1, -1 },
        { "a: |-\n  15", 15, -1 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kvr_yaml *y;
        const struct kvr_yaml_node *n;
        long long v = -1;
        bool b = false;
        bool is_int, is_bool;

        ck_assert_msg(read_text(&y, cases[i].text) == KVR_OK, "%s", kvr_error());
        n = kvr_yaml_get(kvr_yaml_root(y), "a");
        is_int = kvr_yaml_int(n, 0, 100, &v) == KVR_OK;
        is_bool = kvr_yaml_bool(n, &b) == KVR_OK;
        ck_assert_msg(is_int == (cases[i].number >= 0) && (!is_int || v == cases[i].number), "%s",
                      cases[i].text);
        ck_assert_msg(is_bool == (cases[i].flag >= 0) && (!is_bool || b == cases[i].flag), "%s",
                      cases[i].text);
        kvr_yaml_close(&y);
    }
}
END_TEST

START_TEST(extensions)
{
    static const char *const allowed[] = { "frames", "prompts", NULL };
    struct kvr_yaml *y;

    ck_assert_int_eq(read_text(&y, "x-common: &f [3, 6]\nx-: 1\nx-lists: {a: &p [b]}\n"
                                   "frames: *f\nprompts: *p\n"),
                     KVR_OK);
    ck_assert_msg(kvr_yaml_keys(kvr_yaml_root(y), allowed) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_yaml_count(kvr_yaml_get(kvr_yaml_root(y), "frames")), 2);
    kvr_yaml_close(&y);
    ck_assert_int_eq(read_text(&y, "frames: 3\nxcommon: 1\n"), KVR_OK);
    ck_assert_int_eq(kvr_yaml_keys(kvr_yaml_root(y), allowed), KVR_EINVAL);
    kvr_yaml_close(&y);
}
END_TEST

/* Every prefix of a document and every flipped bit gives a tree or an error message, never a
 * crash. */
START_TEST(damage)
{
    static const char good[] =
        "a: &x {k: [1, 'two', \"three\"]}\nb: *x\nc:\n  - d: |\n      text\n";
    char bad[sizeof good];
    struct kvr_yaml *y;
    int refused_ones = 0;

    for (size_t i = 0; i < sizeof good - 1; i++)
        for (int flip = -1; flip < 8; flip++) {
            size_t n = flip < 0 ? i : sizeof good - 1;

            memcpy(bad, good, sizeof good);
            if (flip >= 0)
                bad[i] = (char)(bad[i] ^ (1 << flip));
            if (kvr_yaml_read_text(&y, bad, n, "a.yaml") != KVR_OK) {
                ck_assert_ptr_null(y);
                ck_assert(strncmp(kvr_error(), "a.yaml:", 7) == 0);
                refused_ones++;
            }
            kvr_yaml_close(&y);
        }
    ck_assert_int_gt(refused_ones, 50);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("yaml");
    TCase *tc = tcase_create("yaml");

    tcase_add_test(tc, lines_and_columns);
    tcase_add_test(tc, memory_is_not_the_configs_fault);
    tcase_add_loop_test(tc, refusals, 0, sizeof refused / sizeof *refused);
    tcase_add_test(tc, billion_laughs);
    tcase_add_test(tc, aliases_share);
    tcase_add_test(tc, too_large);
    tcase_add_test(tc, keys_and_types);
    tcase_add_test(tc, overrides);
    tcase_add_test(tc, quoted_values);
    tcase_add_test(tc, extensions);
    tcase_add_test(tc, damage);
    suite_add_tcase(suite, tc);
    return run_suite_forked(suite);
}
