/* test_json.c - reading JSON: errors of the typed getters, invalid UTF-8, files, NaN, and byte
 * order marks. */
#include "harness/core/json.h"
#include "harness/core/utf8.h"
#include "tests/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char text[] = "{\"i\": 7, \"r\": 2.5, \"b\": true, \"s\": \"abc\", \"a\": [1, 2],\n"
                           " \"o\": {\"x\": 1}, \"n\": null, \"big\": 3000000000}";

static json_t *parse(void)
{
    json_t *o = json_loads(text, 0, NULL);

    ck_assert_ptr_nonnull(o);
    return o;
}

static void says(const char *what)
{
    ck_assert_msg(strstr(kvr_error(), what), "'%s' does not say '%s'", kvr_error(), what);
}

START_TEST(right_types)
{
    json_t *o = parse(), *x = NULL;
    const char *s = NULL;
    int64_t i = 0;
    double r = 0;
    bool b = false;
    int n = 0;

    ck_assert_int_eq(kvr_json_int(o, "f", "i", &i), KVR_OK);
    ck_assert_int_eq(i, 7);
    ck_assert_int_eq(kvr_json_real(o, "f", "r", &r), KVR_OK);
    ck_assert(r == 2.5);
    ck_assert_int_eq(kvr_json_real(o, "f", "i", &r), KVR_OK); /* an integer is a valid number */
    ck_assert(r == 7.0);
    ck_assert_int_eq(kvr_json_bool(o, "f", "b", &b), KVR_OK);
    ck_assert(b);
    ck_assert_int_eq(kvr_json_string(o, "f", "s", &s), KVR_OK);
    ck_assert_str_eq(s, "abc");
    ck_assert_int_eq(kvr_json_array(o, "f", "a", &x), KVR_OK);
    ck_assert_uint_eq(json_array_size(x), 2);
    ck_assert_int_eq(kvr_json_object(o, "f", "o", &x), KVR_OK);
    ck_assert_uint_eq(json_object_size(x), 1);
    ck_assert_int_eq(kvr_json_int_in(o, "f", "i", 7, 7, &n), KVR_OK);
    ck_assert_int_eq(n, 7);
    json_decref(o);
}
END_TEST

START_TEST(wrong_types_say_what_was_found)
{
    json_t *o = parse(), *x = NULL;
    const char *s = "kept";
    int64_t i = 5;
    double r = 5;
    bool b = true;
    int n = 5;

    ck_assert_int_eq(kvr_json_int(o, "f.json", "s", &i), KVR_EFORMAT);
    ck_assert_str_eq(kvr_error(), "f.json: s: expected integer, found string 'abc'");
    ck_assert_int_eq(kvr_json_int(o, "f", "r", &i), KVR_EFORMAT);
    says("found number 2.5");
    ck_assert_int_eq(kvr_json_real(o, "f", "n", &r), KVR_EFORMAT);
    says("expected number, found null");
    ck_assert_int_eq(kvr_json_bool(o, "f", "i", &b), KVR_EFORMAT);
    says("expected boolean, found integer 7");
    ck_assert_int_eq(kvr_json_string(o, "f", "a", &s), KVR_EFORMAT);
    says("expected string, found array");
    ck_assert_int_eq(kvr_json_array(o, "f", "o", &x), KVR_EFORMAT);
    says("expected array, found object");
    ck_assert_int_eq(kvr_json_object(o, "f", "b", &x), KVR_EFORMAT);
    says("expected object, found boolean true");
    ck_assert_int_eq(kvr_json_int_in(o, "f", "i", 8, 9, &n), KVR_EFORMAT);
    says("i: 7 is out of bounds, need 8..9");
    ck_assert_int_eq(kvr_json_int_in(o, "f", "i", 5, 6, &n), KVR_EFORMAT);
    says("i: 7 is out of bounds, need 5..6");
    ck_assert_int_eq(kvr_json_int_in_opt(o, "f", "big", 0, INT32_MAX, &n), KVR_EFORMAT);
    says("3000000000");
    ck_assert_int_eq(kvr_json_int(json_object_get(o, "a"), "f", "i", &i), KVR_EFORMAT);
    says("f: expected object with key i, found array");
    ck_assert_int_eq(kvr_json_int(NULL, "f", "i", &i), KVR_EFORMAT);
    says("found nothing");
    ck_assert(i == 5 && r == 5.0 && b && n == 5 && !x && strcmp(s, "kept") == 0);
    json_decref(o);
}
END_TEST

START_TEST(missing_is_an_error_or_a_default)
{
    json_t *o = parse();
    int64_t i = 5;
    int n = 6;

    ck_assert_int_eq(kvr_json_int(o, "f", "gone", &i), KVR_EFORMAT);
    ck_assert_str_eq(kvr_error(), "f: key gone is missing, need integer");
    ck_assert_int_eq(kvr_json_int_opt(o, "f", "gone", &i), KVR_OK);
    ck_assert_int_eq(kvr_json_int_opt(o, "f", "n", &i), KVR_OK); /* a null counts as missing */
    ck_assert_int_eq(kvr_json_int_in_opt(o, "f", "gone", 0, 1, &n), KVR_OK);
    ck_assert(i == 5 && n == 6);
    ck_assert_int_eq(kvr_json_int_opt(o, "f", "i", &i), KVR_OK);
    ck_assert_int_eq(i, 7);
    json_decref(o);
}
END_TEST

/* kvr_json_words() converts a message to a JSON string. File contents and names in the message may
 * have arbitrary bytes: each byte that is not part of valid UTF-8 becomes U+FFFD. */
START_TEST(words)
{
#define WHAT "\xef\xbf\xbd"
    static const char *const cases[][2] = {
        { "", "" },
        { "fr\xc3\xbchling \xf0\x9f\x8e\xac", "fr\xc3\xbchling \xf0\x9f\x8e\xac" },
        { "found '\xff\xfe'", "found '" WHAT WHAT "'" },
        /* ends in the middle of a character */
        { "cut \xe2\x82", "cut " WHAT WHAT },
        /* An overlong encoding and a surrogate. */
        { "\xc0\xaf\xed\xa0\x80", WHAT WHAT WHAT WHAT WHAT },
        { "\xf4\x90\x80\x80.", WHAT WHAT WHAT WHAT "." },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *j = kvr_json_words(cases[i][0]);

        ck_assert_ptr_nonnull(j);
        ck_assert_str_eq(json_string_value(j), cases[i][1]);
        ck_assert_int_eq(kvr_utf8_is(cases[i][0]), strcmp(cases[i][0], cases[i][1]) == 0);
        json_decref(j);
    }
}
END_TEST

/* Lengths are respected: a character that is cut off at n is malformed, a NUL is a character. */
START_TEST(utf8_of_n_bytes)
{
    static const char euro[] = "a\xe2\x82\xac\0b\xff";
    uint32_t c;

    for (size_t n = 0; n < sizeof euro; n++)
        ck_assert_int_eq(kvr_utf8_is_n(euro, n), n < 2 || (n >= 4 && n < 7));
    ck_assert_int_eq(kvr_utf8_read(euro, 0, &c), 0);
    ck_assert_int_eq(kvr_utf8_length(""), 1);
    ck_assert_int_eq(kvr_utf8_length("\xe2\x82"), 0);
    ck_assert_int_eq(kvr_utf8_length("\xe2\x82\xac"), 3);
    ck_assert_int_eq(kvr_utf8_length("\xf0\x9f\x8e\xac..."), 4);
}
END_TEST

static enum kvr_status load_text(const char *content, json_t **o, char path[64])
{
    enum kvr_status st;
    int fd;
    FILE *f;

    strcpy(path, "/tmp/kvreel-json-XXXXXX");
    fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    f = fdopen(fd, "w");
    ck_assert_ptr_nonnull(f);
    fputs(content, f);
    ck_assert_int_eq(fclose(f), 0);
    st = kvr_json_load(o, path);
    unlink(path);
    return st;
}

START_TEST(files)
{
    char path[64], place[96];
    json_t *o;

    ck_assert_int_eq(load_text(text, &o, path), KVR_OK);
    ck_assert_uint_eq(json_object_size(o), 8);
    json_decref(o);
    ck_assert_int_eq(load_text("{\n\"a\": 1,\n\"b\" 2}", &o, path), KVR_EFORMAT);
    ck_assert_ptr_null(o);
    snprintf(place, sizeof place, "%s:3:", path);
    says(place);
    ck_assert_int_eq(load_text("{\"a\": 1, \"a\": 1}", &o, path), KVR_EFORMAT);
    says("duplicate");
    ck_assert_int_eq(load_text("", &o, path), KVR_EFORMAT);
    ck_assert_int_eq(kvr_json_load(&o, path), KVR_ENOTFOUND);
    says(path);
    ck_assert_int_eq(kvr_json_load(&o, "/"), KVR_EFORMAT);
    ck_assert_ptr_null(o);
}
END_TEST

/* Python's json module writes NaN and Infinity, which JSON does not allow. kvr_json_load() accepts
 * these tokens, and a getter of numbers refuses them. Inside strings they are ordinary text. */
START_TEST(numbers_of_python)
{
    static const char content[] = "{\"n\": NaN, \"p\":Infinity, \"m\": [-Infinity],\n"
                                  "\"t\": \"NaN, \\\"Infinity\", \"x\": 1, \"k NaN\": 2}";
    char path[64], place[96];
    double r = 5;
    const char *s = "kept";
    json_t *o;

    ck_assert_msg(load_text(content, &o, path) == KVR_OK, "%s", kvr_error());
    ck_assert_str_eq(kvr_json_not_finite(json_object_get(o, "n")), "NaN");
    ck_assert_str_eq(kvr_json_not_finite(json_object_get(o, "p")), "Infinity");
    ck_assert_str_eq(kvr_json_not_finite(json_array_get(json_object_get(o, "m"), 0)), "-Infinity");
    ck_assert_ptr_null(kvr_json_not_finite(json_object_get(o, "t")));
    ck_assert_ptr_null(kvr_json_not_finite(json_object_get(o, "x")));
    ck_assert_ptr_null(kvr_json_not_finite(NULL));
    ck_assert_str_eq(json_string_value(json_object_get(o, "t")), "NaN, \"Infinity");
    ck_assert_int_eq(json_integer_value(json_object_get(o, "k NaN")), 2);
    ck_assert_int_eq(kvr_json_real(o, "f", "n", &r), KVR_EFORMAT);
    says("n: expected number, found NaN");
    ck_assert_int_eq(kvr_json_string(o, "f", "p", &s), KVR_EFORMAT);
    says("found Infinity");
    ck_assert(r == 5);
    json_decref(o);
    ck_assert_int_eq(load_text("{\"a\": -Infinity,\n \"b\": NaN, nan}", &o, path), KVR_EFORMAT);
    snprintf(place, sizeof place, "%s:2:", path);
    /* The line and column in the error message are those of the file, although kvr_json_load()
     * replaces NaN and Infinity before parsing. */
    says(place);
    says(":14: ");
    ck_assert_int_eq(load_text("{\"a\": NaNs}", &o, path), KVR_EFORMAT);
    ck_assert_int_eq(load_text("{NaN: 1}", &o, path), KVR_EFORMAT); /* a key, not a value */
    ck_assert_int_eq(load_text("{\"a\": 1, -Infinity\n: 1}", &o, path), KVR_EFORMAT);
}
END_TEST

/* kvr_json_load() represents NaN and Infinity by strings, which therefore may not be values in a
 * document, in any spelling. Other strings with the character DEL are ordinary text. */
START_TEST(strings_like_nan)
{
    static const char *const bad[] = {
        "[\"\\u007f\"]",
        "[\"\x7f\"]",
        "[\"\\u007Finfin\"]",
        "[\"\\u007f\\u0069nfin\" ]",
        "[\"\\u007f\\u002dinfin\"]",
    };
    static const char *const good[] = {
        "{\"\\u007f\": 1}",
        "[\"\\u007fx\"]",
        "[\"\\u007finfi\"]",
        "[\"\\u007finfinx\"]",
        "[\"\\\\u007f\"]",
        "[\"\\u007f\\u007f\"]",
        "[\"\"]",
    };
    char path[64], place[96];
    json_t *o;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_msg(load_text(bad[i], &o, path) == KVR_EFORMAT && !o, "%s", bad[i]);
        snprintf(place, sizeof place, "%s:1:2: the string \"\\u007f", path);
        says(place);
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ck_assert_msg(load_text(good[i], &o, path) == KVR_OK, "%s: %s", good[i], kvr_error());
        ck_assert_ptr_null(kvr_json_not_finite(json_array_get(o, 0)));
        json_decref(o);
    }
}
END_TEST

START_TEST(byte_order_marks)
{
    static const struct {
        const char *text, *says; /* expected error message, or NULL if the file is valid */
    } cases[] = {
        { "\xef\xbb\xbf{\"a\": 1}", NULL },
        { "\xff\xfe{", "UTF-16 text (it begins with the byte order mark FF FE): save it as UTF-8" },
        { "\xfe\xff", "byte order mark FE FF" },
        { "\xef\xbb{}", ":1:" },
        { "\xef\xbb\xbf", ":1:" },
    };
    char path[64];
    json_t *o;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const enum kvr_status st = load_text(cases[i].text, &o, path);

        ck_assert_msg((st == KVR_OK) == !cases[i].says, "case %zu: %s", i, kvr_error());
        if (cases[i].says)
            says(cases[i].says);
        json_decref(o);
    }
    ck_assert_int_eq(kvr_json_parse(&o, cases[0].text, strlen(cases[0].text), "m"), KVR_OK);
    ck_assert_int_eq(json_integer_value(json_object_get(o, "a")), 1);
    json_decref(o);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("json");
    TCase *tc = tcase_create("json");

    tcase_add_test(tc, right_types);
    tcase_add_test(tc, wrong_types_say_what_was_found);
    tcase_add_test(tc, missing_is_an_error_or_a_default);
    tcase_add_test(tc, words);
    tcase_add_test(tc, utf8_of_n_bytes);
    tcase_add_test(tc, files);
    tcase_add_test(tc, numbers_of_python);
    tcase_add_test(tc, strings_like_nan);
    tcase_add_test(tc, byte_order_marks);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
