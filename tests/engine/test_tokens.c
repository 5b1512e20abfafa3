/* test_tokens.c - compares the cleaning of prompts, and their tokens, with the output of Wan's own
 * tokenizer. */
#include "harness/engine/text/tokens.h"

#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/json.h"
#include "harness/engine/text/clean.h"
#include "harness/engine/text/spiece.h"
#include "harness/engine/text/unicode.h"
#include "tests/suite.h"

#define FOLDER "tests/fixtures/wan_real"

static json_t *root, *cases;

static void load(void)
{
    ck_assert_msg(kvr_json_load(&root, FOLDER "/tokenizer.json") == KVR_OK, "%s", kvr_error());
    cases = json_object_get(root, "cases");
    ck_assert_uint_eq(json_array_size(cases), 60);
}

static void drop(void)
{
    json_decref(root);
}

static const char *text_of(const json_t *c, const char *key)
{
    return json_string_value(json_object_get(c, key));
}

START_TEST(cleaned_as_recorded)
{
    const json_t *c;
    size_t i;

    json_array_foreach(cases, i, c)
    {
        char *clean;

        ck_assert_msg(kvr_text_clean(text_of(c, "text"), &clean) == KVR_OK, "%s: %s",
                      text_of(c, "id"), kvr_error());
        ck_assert_msg(strcmp(clean, text_of(c, "cleaned")) == 0, "%s: '%s' for '%s'",
                      text_of(c, "id"), clean, text_of(c, "cleaned"));
        free(clean);
    }
}
END_TEST

static bool same_ids(const json_t *want, const int *ids, int n)
{
    if (json_array_size(want) != (size_t)n)
        return false;
    for (int i = 0; i < n; i++)
        if (json_integer_value(json_array_get(want, (size_t)i)) != ids[i])
            return false;
    return true;
}

/* The ids must equal SentencePiece's with runs of byte pieces replaced by <unk> (`bytes_to_unk`).
 * In 56 of 60 texts, they also equal Wan's; the other four texts spell special tokens literally. */
START_TEST(tokens_as_recorded)
{
    struct kvr_tokenizer *t;
    int agree = 0, ids[512], n;
    const json_t *c;
    size_t i;

    ck_assert_msg(kvr_tokenizer_open(&t, FOLDER) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_tokenizer_count(t), 1000);
    json_array_foreach(cases, i, c)
    {
        const json_t *padded = json_object_get(c, "ids_max16");

        ck_assert_msg(kvr_tokenize(t, text_of(c, "cleaned"), 512, ids, &n) == KVR_OK, "%s: %s",
                      text_of(c, "id"), kvr_error());
        ck_assert_msg(same_ids(json_object_get(c, "bytes_to_unk"), ids, n), "%s", text_of(c, "id"));
        if (!same_ids(json_object_get(c, "ids"), ids, n))
            continue;
        agree++;
        ck_assert_int_eq(kvr_tokenize(t, text_of(c, "text"), 16, ids, &n), KVR_OK);
        ck_assert_int_eq(n, json_integer_value(json_object_get(c, "tokens_max16")));
        for (int k = n; k < 16; k++)
            ids[k] = 0;
        ck_assert_msg(same_ids(padded, ids, 16), "%s: cut to 16", text_of(c, "id"));
    }
    ck_assert_int_eq(agree, 56);
    kvr_tokenizer_close(&t);
}
END_TEST

static const struct {
    const char *text, *clean;
} more[] = {
    { "a\xcc\x81\xcc\xa3", "\xe1\xba\xa1\xcc\x81" },            /* combining marks are sorted */
    { "\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab", "\xed\x95\x9c" }, /* Hangul */
    /* a full-width macron becomes a blank and a combining mark */
    { "\xef\xbf\xa3", "\xcc\x84" },
    { "\xe0\xa5\x98", "\xe0\xa4\x95\xe0\xa4\xbc" }, /* excluded from composition */
    { "&#x80;&#129;x&#xfdd0;y&#0;", "\xe2\x82\xac\xc2\x81xy\xef\xbf\xbd" },
    { "&notit; &NTILDE;&nosuch;&#;&", "\xc2\xacit; \xc3\x91&nosuch;&#;&" },
    /* HTML entities are decoded once by the repair and twice after it. From a line with '<' on, the
     * repair does not decode them. */
    { "<i> &amp;\n&amp;amp;", "<i> & &" },
    { "\x1b[1;31mred\x1b[0", "red[0" },
    { "cr\r\n\rlf", "cr lf" },
    /* text that is not mojibake of a known code page stays unchanged */
    { "\xc3\x83\xc2\xa9 but \xe4\xb8\x80", "\xc3\x83\xc2\xa9 but \xe4\xb8\x80" },
    { "caf\xc3\xa9", "caf\xc3\xa9" },
    { "", "" },
};

START_TEST(cleaned)
{
    char *clean;

    ck_assert_msg(kvr_text_clean(more[_i].text, &clean) == KVR_OK, "%s", kvr_error());
    ck_assert_str_eq(clean, more[_i].clean);
    free(clean);
}
END_TEST

START_TEST(no_utf8)
{
    static const char *const wrong[] = { "a\xff",    "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                         "\xe2\x82", "\x80" };
    char *clean;

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert_int_eq(kvr_text_clean(wrong[i], &clean), KVR_EFORMAT);
    ck_assert_int_eq(kvr_text_clean("ab\xff", &clean), KVR_EFORMAT);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "byte 2"));
}
END_TEST

START_TEST(refused)
{
    struct kvr_tokenizer *t;
    int ids[4], n;

    ck_assert_int_eq(kvr_tokenizer_open(&t, "tests/fixtures/no such"), KVR_ENOTFOUND);
    ck_assert_ptr_null(t);
    ck_assert_int_eq(kvr_tokenizer_open(&t, FOLDER "/tokenizer.json"), KVR_EFORMAT);
    ck_assert_int_eq(kvr_tokenizer_open(&t, FOLDER), KVR_OK);
    ck_assert_int_eq(kvr_tokenize(t, "x", 0, ids, &n), KVR_EINVAL);
    ck_assert_int_eq(kvr_tokenize(t, "the red ball", 1, ids, &n), KVR_OK);
    ck_assert(n == 1 && ids[0] == 1);
    kvr_tokenizer_close(&t);
    kvr_tokenizer_close(&t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tokens");
    TCase *tc = tcase_create("clean"), *pieces = tcase_create("pieces");
    struct kvr_spiece *library;

    tcase_add_unchecked_fixture(tc, load, drop);
    tcase_add_test(tc, cleaned_as_recorded);
    tcase_add_loop_test(tc, cleaned, 0, sizeof more / sizeof *more);
    tcase_add_test(tc, no_utf8);
    suite_add_tcase(s, tc);
    if (kvr_spiece_open(&library, FOLDER "/spiece.model") == KVR_EUNSUPPORTED) {
        printf("skip - tokens as recorded (%s)\n", kvr_error());
    } else {
        kvr_spiece_close(&library);
        tcase_add_unchecked_fixture(pieces, load, drop);
        tcase_add_test(pieces, tokens_as_recorded);
        tcase_add_test(pieces, refused);
    }
    suite_add_tcase(s, pieces);
    return run_suite(s);
}
