/* test_conform.c - built-in methods pass the checks of `kvreel plugin check`. Failing plug-ins,
 * which may crash, are tested by tests/cli/test_conform.sh. */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "harness/cache/conform.h"
#include "harness/device/mem.h"
#include "methods/method.h"
#include "tests/suite.h"

/* One method of each kind: unquantized, symmetric integers, integers with a zero point, separate
 * outliers, a Hadamard rotation, tiers, eviction, a residual codec, and mean pooling. */
static const char *const methods[] = {
    "BF16",           "RTN_INT4",       "KIVI_INT2",
    "QAQ_INT2",       "QUAROT_KV_INT4", "AGE_TIER_INT4",
    "ROLLING_WINDOW", "PRQ_INT2",       "FLOWCACHE_SOFT_PRUNE_INT4"
};
enum { N_METHODS = sizeof methods / sizeof *methods };

START_TEST(builtin_methods_pass_all_checks)
{
    struct kvr_conform c = { .method = methods[_i] };
    struct kvr_mem_stats mem;

    ck_assert_int_eq(kvr_dev_open(&c.dev, KVR_CPU), KVR_OK);
    ck_assert_msg(kvr_conform_shape(&c) == KVR_OK, "%s", kvr_error());
    for (const struct kvr_conform_check *k = kvr_conform_checks; k->name; k++) {
        const enum kvr_status st = k->run(&c);

        if (strcmp(k->name, "device") == 0)
            ck_assert_int_eq(st, KVR_EUNSUPPORTED); /* no device was passed */
        else
            ck_assert_msg(st == KVR_OK, "%s: %s: %s", methods[_i], k->name, kvr_error());
    }
    kvr_mem_stats(c.dev, &mem);
    ck_assert_uint_eq(mem.live_total, 0);
    kvr_dev_close(&c.dev);
}
END_TEST

START_TEST(study_versions_skip_the_bytes_check)
{
    struct kvr_conform c = { .method = "RTN_INT4@study" };

    ck_assert_int_eq(kvr_dev_open(&c.dev, KVR_CPU), KVR_OK);
    ck_assert_int_eq(kvr_conform_shape(&c), KVR_OK);
    for (const struct kvr_conform_check *k = kvr_conform_checks; k->name; k++)
        if (strcmp(k->name, "bytes") == 0)
            ck_assert_int_eq(k->run(&c), KVR_EUNSUPPORTED);
    kvr_dev_close(&c.dev);
    c.method = "NO_SUCH_METHOD";
    ck_assert_int_eq(kvr_conform_shape(&c), KVR_ENOTFOUND);
}
END_TEST

static int next_descriptor(void)
{
    const int fd = open("/dev/null", O_RDONLY);

    close(fd);
    return fd;
}

static void ignore(int sig)
{
    (void)sig;
}

/* The check "other input" starts a child process. A signal every millisecond, whose handler does
 * not restart system calls, must not make it fail. */
START_TEST(signals_do_not_fail_a_check)
{
    struct kvr_conform c = { .method = "RTN_INT4" };
    const struct sigaction on = { .sa_handler = ignore }, off = { .sa_handler = SIG_DFL };
    const struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = { 0 };
    const int before = next_descriptor();

    ck_assert_int_eq(kvr_dev_open(&c.dev, KVR_CPU), KVR_OK);
    ck_assert_int_eq(kvr_conform_shape(&c), KVR_OK);
    sigaction(SIGALRM, &on, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (const struct kvr_conform_check *k = kvr_conform_checks; k->name; k++)
        if (strcmp(k->name, "other input") == 0)
            for (int i = 0; i < 20; i++)
                ck_assert_msg(k->run(&c) == KVR_OK, "%s", kvr_error());
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &off, NULL);
    kvr_dev_close(&c.dev);
    ck_assert_int_eq(next_descriptor(), before);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("conform");
    TCase *tc = tcase_create("conform");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, builtin_methods_pass_all_checks, 0, N_METHODS);
    tcase_add_test(tc, study_versions_skip_the_bytes_check);
    tcase_add_test(tc, signals_do_not_fail_a_check);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
