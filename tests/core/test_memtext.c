/* test_memtext.c - text printed to memory is either complete or reported as failed. */
#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/memtext.h"
#include "tests/allocator.h"
#include "tests/suite.h"

/* --- an allocation that fails once ------------------------------------------------------------ */

/* The next allocation of at least this many bytes fails; 0 fails none. */
static size_t refused;

#ifndef OTHERS_ALLOCATE
void *__libc_malloc(size_t n);
void *__libc_realloc(void *p, size_t n);

static bool refuse(size_t n)
{
    if (!refused || n < refused)
        return false;
    refused = 0;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t n)
{
    return refuse(n) ? NULL : __libc_malloc(n);
}

void *realloc(void *p, size_t n)
{
    return refuse(n) ? NULL : __libc_realloc(p, n);
}
#endif

/* --- tests -------------------------------------------------------------------------------- */

START_TEST(it_is_what_was_printed)
{
    char *text;
    size_t n;
    FILE *to = kvr_text_open(&text, &n);

    ck_assert_ptr_nonnull(to);
    ck_assert_int_eq(ftell(to), 0);
    fprintf(to, "%d and ", 7);
    ck_assert_int_eq(ftell(to), 6);
    for (int i = 0; i < 10000; i++)
        fputs("0123456789", to);
    fputc(0, to);
    ck_assert(kvr_text_close(to, &text));
    ck_assert_int_eq(n, 6 + 100000 + 1);
    ck_assert(memcmp(text, "7 and 0123456789", 16) == 0);
    ck_assert_str_eq(text + 6 + 99990, "0123456789");
    ck_assert_int_eq(text[n], 0);
    free(text);
}
END_TEST

START_TEST(nothing_is_a_text)
{
    char *text;
    size_t n;

    ck_assert(kvr_text_close(kvr_text_open(&text, &n), &text));
    ck_assert_str_eq(text, "");
    ck_assert_int_eq(n, 0);
    free(text);
    ck_assert(!kvr_text_close(NULL, &text));
    ck_assert_ptr_null(text);
}
END_TEST

/* After a failed allocation, glibc's stream loses text but reports success. kvr_text_close()
 * must report the failure. */
START_TEST(a_hole_is_told)
{
#ifndef OTHERS_ALLOCATE
    char *text;
    size_t n;
    FILE *to = kvr_text_open(&text, &n);

    ck_assert_ptr_nonnull(to);
    refused = 50000;
    for (int i = 0; i < 10000; i++)
        fputs("0123456789", to);
    ck_assert_int_eq(refused, 0);
    ck_assert(!kvr_text_close(to, &text));
    ck_assert_ptr_null(text);
#endif
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memtext");
    TCase *tc = tcase_create("memtext");

    tcase_add_test(tc, it_is_what_was_printed);
    tcase_add_test(tc, nothing_is_a_text);
    tcase_add_test(tc, a_hole_is_told);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
