/* test_regex.c - kvr_regex agrees with the C library's regexec(), and needs less than a second also
 * for patterns for which regexec() needs seconds. */
#include "harness/core/regex.h"

#include <regex.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/suite.h"

static bool ours(const char *pattern, const char *text)
{
    struct kvr_regex *r;
    bool yes;

    ck_assert_msg(kvr_regex_open(&r, pattern) == KVR_OK, "%s: %s", pattern, kvr_error());
    yes = kvr_regex_matches(r, text);
    ck_assert_msg(kvr_regex_matches(r, text) == yes, "%s: another answer the second time", pattern);
    kvr_regex_close(&r);
    return yes;
}

START_TEST(by_hand)
{
    ck_assert(ours("^RTN", "RTN_INT4"));
    ck_assert(!ours("^RTN", "xRTN"));
    ck_assert(ours("INT4$", "RTN_INT4"));
    ck_assert(ours("(INT4|INT2)@study", "KIVI_INT2@study"));
    ck_assert(!ours("^(INT4|INT2)$", "INT3"));
    ck_assert(ours("^(a|b|c|)$", ""));
    ck_assert(ours("a[^0-9]+b", "xxa--b"));
    ck_assert(!ours("a[^0-9]+b", "a1b"));
    ck_assert(ours("^[[:alpha:]_]+[[:digit:]]$", "RTN_INT4"));
    ck_assert(ours("a\\+b", "a+b"));
    ck_assert(ours("[]a]", "]"));
    ck_assert(ours("^(ab)*$", "ababab"));
    ck_assert(!ours("^(ab)*$", "ababa"));
    ck_assert(ours("", ""));
}
END_TEST

START_TEST(refused)
{
    static const char *const bad[] = { "(",    ")",     "a)",         "[a",  "*a", "a|*",
                                       "a{2}", "[z-a]", "[[:nope:]]", "a\\", "\\w" };
    struct kvr_regex *r;
    char deep[200], wide[1200];

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(kvr_regex_open(&r, bad[i]) == KVR_EINVAL && !r, "%s", bad[i]);
    memset(deep, '(', 100);
    memset(deep + 100, ')', 99);
    deep[199] = 0;
    ck_assert_int_eq(kvr_regex_open(&r, deep), KVR_EINVAL);
    memset(wide, 'a', sizeof wide - 1);
    wide[sizeof wide - 1] = 0;
    ck_assert_int_eq(kvr_regex_open(&r, wide), KVR_EINVAL);
}
END_TEST

/* The number of alternatives is bounded only by the length of the expression. */
START_TEST(many_alternatives)
{
    char pattern[1001] = "^(";

    for (int i = 0; i < 220; i++)
        sprintf(pattern + strlen(pattern), "%s%dx", i ? "|" : "", i);
    pattern[strlen(pattern) - 1] = 0; /* the last alternative is 219 */
    strcat(pattern, ")$");
    ck_assert(ours(pattern, "0x"));
    ck_assert(ours(pattern, "110x"));
    ck_assert(ours(pattern, "219"));
    ck_assert(!ours(pattern, "219x"));
    ck_assert(!ours(pattern, "x"));
    ck_assert(ours("^(a|b(c|d)*|e+|(f|g|)h)+$", "abcdeehfh"));
    ck_assert(!ours("^(a|b(c|d)*|e+|(f|g|)h)+$", "abcdeehfg"));
}
END_TEST

/* A backtracking matcher would take hours for a*a*...b and ((a+)+)+$. */
START_TEST(bounded)
{
    char pattern[401] = "", text[2001];
    const clock_t begin = clock();

    for (int i = 0; i < 200; i++)
        strcat(pattern, "a*");
    memset(text, 'a', 2000);
    text[2000] = 0;
    strcpy(pattern + 398, "b");
    ck_assert(!ours(pattern, text));
    ck_assert(
        !ours("^((a+)+)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"));
    ck_assert_double_lt((double)(clock() - begin) / CLOCKS_PER_SEC, 1);
}
END_TEST

/* Random short patterns give the same result as the C library. */
START_TEST(as_posix)
{
    static const char *const pieces[] = { "a",     "b",     ".", "[ab]", "[^a]", "(a|b)",
                                          "(ab|)", "(a*b)", "^", "$",    "|",    "c" };
    static const char *const marks[] = { "", "", "", "*", "+", "?" };
    uint32_t x = 12345;
    int tried = 0, matched = 0;

    for (int i = 0; i < 4000; i++) {
        char pattern[128] = "", text[16];
        regex_t posix;

        for (int k = 0; k < 5; k++) {
            x = x * 1664525 + 1013904223;
            const char *piece = pieces[(x >> 8) % 12];

            strcat(pattern, piece);
            if (!strchr("^$|", piece[0]))
                strcat(pattern, marks[(x >> 16) % 6]);
        }
        if (strstr(pattern, "|^") || strstr(pattern, "||") ||
            regcomp(&posix, pattern, REG_EXTENDED | REG_NOSUB) != 0)
            continue;
        for (int t = 0; t < 8; t++) {
            const int n = t;

            for (int k = 0; k < n; k++) {
                x = x * 1664525 + 1013904223;
                text[k] = "abc"[(x >> 10) % 3];
            }
            text[n] = 0;
            const bool want = regexec(&posix, text, 0, NULL, 0) == 0;

            ck_assert_msg(ours(pattern, text) == want, "'%s' in '%s': POSIX says %d", pattern, text,
                          want);
            tried++;
            matched += want;
        }
        regfree(&posix);
    }
    ck_assert_int_gt(tried, 10000);
    ck_assert_int_gt(matched, 1000);
    ck_assert_int_lt(matched, tried);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("regex");
    TCase *tc = tcase_create("regex");

    tcase_add_test(tc, by_hand);
    tcase_add_test(tc, refused);
    tcase_add_test(tc, many_alternatives);
    tcase_add_test(tc, bounded);
    tcase_add_test(tc, as_posix);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
