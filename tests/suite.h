/* suite.h - run_suite(), which ends every test program: it runs the suite and returns the exit
 * status. */
#ifndef KVR_TESTS_SUITE_H
#define KVR_TESTS_SUITE_H

#include <check.h>
#include <stdbool.h>
#include <stdlib.h>

/* True in a build with sanitizers, where an emulated device takes ten times as long. Such a build
 * must still run every code path once. A test may loop over fewer parameter values there, but not
 * over fewer kernels, stages, policies or corrections. tests/cuda/test_kernels.c checks that all
 * kernels ran, and tests/some_methods.h selects methods that together have all parts. */
static inline bool sanitized(void)
{
#ifdef __SANITIZE_ADDRESS__
    return true;
#else
    return false;
#endif
}

static inline int run_in_mode(Suite *s, enum fork_status mode)
{
    SRunner *r = srunner_create(s);
    int failed;

    srunner_set_fork_status(r, mode);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Runs all tests in this process, because OpenMP's threads do not survive a fork. */
static inline int run_suite(Suite *s)
{
    return run_in_mode(s, CK_NOFORK);
}

/* Runs each test in its own process. */
static inline int run_suite_forked(Suite *s)
{
    return run_in_mode(s, CK_FORK_GETENV);
}

#endif
