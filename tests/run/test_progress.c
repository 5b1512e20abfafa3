/* test_progress.c - progress output: a bar on a terminal, lines elsewhere, and colour if the
 * environment allows it. */
#include <check.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/run/progress.h"
#include "tests/suite.h"

static const struct kvr_prompt_line prompt = { .id = "red" };

static struct kvr_cell cell(void)
{
    struct kvr_cell c = { .prompt = &prompt, .label = "RTN_INT4" };

    kvr_settings_defaults(&c.set);
    return c;
}

static void set(const char *name, const char *value)
{
    if (value)
        ck_assert_int_eq(setenv(name, value, 1), 0);
    else
        ck_assert_int_eq(unsetenv(name), 0);
}

/* Writes to `to` the progress of a sweep of three cells, after one cell succeeded and one timed
 * out. */
static void print_all(FILE *to)
{
    const struct kvr_verdict good = { .psnr = 30, .ssim = NAN, .wall_ns = 2000000000 };
    const struct kvr_verdict bad = {
        .outcome = KVR_OUT_TIMEOUT, .psnr = NAN, .ssim = NAN, .reason = "not finished after 2 s"
    };
    const struct kvr_cell c = cell();
    struct kvr_progress p;

    kvr_progress_begin(&p, to, 3, 1, 3000000000);
    kvr_progress_cell(&p, &c, &good);
    kvr_progress_cell(&p, &c, &bad);
    kvr_progress_end(&p);
}

/* Returns the progress that is written to a file, given three environment variables (NULL: unset).
 * The text is valid until the next call. */
static const char *progress_text(const char *no, const char *force, const char *term)
{
    static char text[4096];
    FILE *f = tmpfile();
    size_t n;

    ck_assert_ptr_nonnull(f);
    set("NO_COLOR", no);
    set("CLICOLOR_FORCE", force);
    set("TERM", term);
    print_all(f);
    rewind(f);
    n = fread(text, 1, sizeof text - 1, f);
    text[n] = 0;
    fclose(f);
    return text;
}

/* Returns the progress that is written to a pseudo-terminal; the text is valid until the next call.
 * O_NOCTTY prevents that it becomes this program's controlling terminal. */
static const char *shown(const char *no, const char *term)
{
    static char text[4096];
    const int us = posix_openpt(O_RDWR | O_NOCTTY);
    size_t n = 0;
    ssize_t got;
    FILE *f;
    int there;

    ck_assert_int_ge(us, 0);
    ck_assert(grantpt(us) == 0 && unlockpt(us) == 0);
    there = open(ptsname(us), O_RDWR | O_NOCTTY);
    f = there >= 0 ? fdopen(there, "w") : NULL;
    ck_assert_ptr_nonnull(f);
    set("NO_COLOR", no);
    set("CLICOLOR_FORCE", NULL);
    set("TERM", term);
    print_all(f);
    fclose(f);
    /* reads until fclose() has closed the other end */
    while ((got = read(us, text + n, sizeof text - 1 - n)) > 0)
        n += (size_t)got;
    ck_assert_int_gt(n, 0);
    text[n] = 0;
    close(us);
    return text;
}

START_TEST(lines_in_a_file)
{
    ck_assert_str_eq(progress_text(NULL, NULL, "xterm"),
                     "[1/3] red RTN_INT4: OK, 2.00 s, PSNR 30.00 dB\n"
                     "[2/3] red RTN_INT4: TIMEOUT: not finished after 2 s\n");
}
END_TEST

START_TEST(colour_follows_the_environment)
{
    static const char red[] = "\033[31mTIMEOUT\033[0m: not finished after 2 s\n";

    ck_assert_ptr_nonnull(strstr(progress_text(NULL, "1", "xterm"), red));
    ck_assert_ptr_null(strchr(progress_text(NULL, "0", "xterm"), '\033'));
    ck_assert_ptr_null(strchr(progress_text("1", "1", "xterm"), '\033'));
    /* an empty NO_COLOR counts as unset */
    ck_assert_ptr_nonnull(strstr(progress_text("", "1", "xterm"), red));
}
END_TEST

START_TEST(a_bar_on_a_terminal)
{
    const char *text = shown(NULL, "xterm");

    ck_assert_msg(strstr(text, "[##########....................] 1/3  0 failed  "), "%s", text);
    ck_assert_msg(strstr(text, "] 2/3  1 failed  ") && strstr(text, "s left"), "%s", text);
    ck_assert_ptr_null(strstr(text, "[1/3]")); /* no line per successful cell */
    ck_assert_ptr_nonnull(strstr(text, "\033[31mTIMEOUT\033[0m"));
    ck_assert_ptr_null(strstr(shown("1", "xterm"), "\033[31m"));
    ck_assert_ptr_null(strchr(shown(NULL, "dumb"), '\033'));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("progress");
    TCase *tc = tcase_create("progress");

    tcase_add_test(tc, lines_in_a_file);
    tcase_add_test(tc, colour_follows_the_environment);
    tcase_add_test(tc, a_bar_on_a_terminal);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
