/* check.h - the functions of the unit-test library Check that the tests of CUDA kernels use, for a
 * machine without Check. A check is one call of a START_TEST function, such as one iteration of a
 * loop test. Checks run in the calling process, without fork(). The Makefile compiles the tests of
 * the package (tools/device/pack.sh) with -Itools/device/check, so that they include this file
 * instead of the library's check.h. Environment variables select what a process runs
 * (tools/device/run.sh):
 *
 *     CK_RUN_CASE=NAME        run only this test case, as in Check
 *     KVR_TEST_LIST=1         run no check; print a line "case<TAB>checks" for each case
 *     KVR_TEST_PART=K/N       run only the checks of each case whose number modulo N is K
 *     KVR_TEST_FROM=I         skip the checks of each case with a number below I
 *     KVR_TEST_LIMIT_S=S      print "> NUMBER NAME" before and "< STATE MS" after every check; a check
 *                             that takes longer than S seconds ends the process with status 124
 *     KVR_TEST_FRESH=1        end the process with status 3 after a failure, because a failed kernel
 *                             may make the CUDA context unusable for later checks */
#ifndef KVR_DEVICE_CHECK_H
#define KVR_DEVICE_CHECK_H

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CK_NORMAL, SHIM_MAX = 64 };
enum fork_status { CK_FORK_GETENV, CK_NOFORK };

typedef struct {
    void (*run)(int _i);
    const char *name;
    int first, end;
} shim_test;
typedef struct {
    const char *name;
    int n;
    void (*setup)(void), (*teardown)(void); /* run before and after every check; may be NULL */
    shim_test test[SHIM_MAX];
} TCase;
typedef struct {
    const char *name;
    int n;
    TCase *tcase[SHIM_MAX];
} Suite;
typedef struct {
    Suite *suite;
    int n_failed;
} SRunner;

/* Target of the longjmp() by which a failed check ends, and the failure's message. The file that
 * defines SHIM_MAIN defines both variables. */
extern jmp_buf shim_back;
extern char shim_message[512];

#ifdef SHIM_MAIN
jmp_buf shim_back;
char shim_message[512];
#endif

#define START_TEST(test)                                                                           \
    static void test##_run(int _i)                                                                 \
    {                                                                                              \
        (void)_i;
#define END_TEST }

#define ck_abort_msg(...)                                                                          \
    do {                                                                                           \
        int at_ = snprintf(shim_message, sizeof shim_message, "%s:%d: ", __FILE__, __LINE__);      \
                                                                                                   \
        snprintf(shim_message + at_, sizeof shim_message - (size_t)at_, __VA_ARGS__);              \
        longjmp(shim_back, 1);                                                                     \
    } while (0)
#define ck_assert_msg(yes, ...)                                                                    \
    do {                                                                                           \
        if (!(yes))                                                                                \
            ck_abort_msg(__VA_ARGS__);                                                             \
    } while (0)
#define ck_assert(yes) ck_assert_msg(yes, "'%s' failed", #yes)
#define ck_assert_int_eq(a, b) ck_assert((a) == (b))
#define ck_assert_int_ne(a, b) ck_assert((a) != (b))
#define ck_assert_int_lt(a, b) ck_assert((a) < (b))
#define ck_assert_int_le(a, b) ck_assert((a) <= (b))
#define ck_assert_int_gt(a, b) ck_assert((a) > (b))
#define ck_assert_int_ge(a, b) ck_assert((a) >= (b))
#define ck_assert_uint_eq(a, b) ck_assert((a) == (b))
#define ck_assert_uint_ne(a, b) ck_assert((a) != (b))
#define ck_assert_uint_lt(a, b) ck_assert((a) < (b))
#define ck_assert_uint_le(a, b) ck_assert((a) <= (b))
#define ck_assert_uint_gt(a, b) ck_assert((a) > (b))
#define ck_assert_uint_ge(a, b) ck_assert((a) >= (b))
#define ck_assert_float_eq(a, b) ck_assert((a) == (b))
#define ck_assert_float_ne(a, b) ck_assert((a) != (b))
#define ck_assert_float_lt(a, b) ck_assert((a) < (b))
#define ck_assert_float_le(a, b) ck_assert((a) <= (b))
#define ck_assert_float_gt(a, b) ck_assert((a) > (b))
#define ck_assert_float_ge(a, b) ck_assert((a) >= (b))
#define ck_assert_float_eq_tol(a, b, tol) ck_assert(fabsf((a) - (b)) <= (tol))
#define ck_assert_double_eq(a, b) ck_assert((a) == (b))
#define ck_assert_double_ne(a, b) ck_assert((a) != (b))
#define ck_assert_double_lt(a, b) ck_assert((a) < (b))
#define ck_assert_double_le(a, b) ck_assert((a) <= (b))
#define ck_assert_double_gt(a, b) ck_assert((a) > (b))
#define ck_assert_double_ge(a, b) ck_assert((a) >= (b))
#define ck_assert_ptr_eq(a, b) ck_assert((a) == (b))
#define ck_assert_ptr_ne(a, b) ck_assert((a) != (b))
#define ck_assert_ptr_null(p) ck_assert((p) == NULL)
#define ck_assert_ptr_nonnull(p) ck_assert((p) != NULL)
#define ck_assert_str_eq(a, b) ck_assert(!strcmp(a, b))
#define ck_assert_str_ne(a, b) ck_assert(strcmp(a, b) != 0)
#define ck_assert_mem_eq(a, b, n) ck_assert(!memcmp(a, b, n))

static inline void *shim_alloc(size_t n)
{
    void *p = calloc(1, n);

    if (!p)
        abort();
    return p;
}

static inline Suite *suite_create(const char *name)
{
    Suite *s = (Suite *)shim_alloc(sizeof *s);

    s->name = name;
    return s;
}

static inline TCase *tcase_create(const char *name)
{
    TCase *t = (TCase *)shim_alloc(sizeof *t);

    t->name = name;
    return t;
}

static inline void shim_add(TCase *t, void (*run)(int), const char *name, int first, int end)
{
    if (t->n == SHIM_MAX)
        abort();
    t->test[t->n++] = (shim_test){ run, name, first, end };
}
#define tcase_add_test(t, test) shim_add(t, test##_run, #test, 0, 1)
#define tcase_add_loop_test(t, test, first, end) shim_add(t, test##_run, #test, first, end)
#define tcase_set_timeout(t, seconds) ((void)(t))

static inline void tcase_add_checked_fixture(TCase *t, void (*setup)(void), void (*teardown)(void))
{
    t->setup = setup;
    t->teardown = teardown;
}

static inline void suite_add_tcase(Suite *s, TCase *t)
{
    if (s->n == SHIM_MAX)
        abort();
    s->tcase[s->n++] = t;
}

static inline SRunner *srunner_create(Suite *s)
{
    SRunner *r = (SRunner *)shim_alloc(sizeof *r);

    r->suite = s;
    return r;
}
#define srunner_set_fork_status(r, how) ((void)(r), (void)(how))

static inline double shim_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static inline int shim_number(const char *name, int otherwise)
{
    const char *s = getenv(name);

    return s && *s ? atoi(s) : otherwise;
}

/* Handler of SIGALRM: reports that the current check exceeds its time limit, and ends the process. */
static inline void shim_too_long(int sig)
{
    static const char line[] = "< timeout 0\n";

    (void)sig;
    _exit(write(STDOUT_FILENO, line, sizeof line - 1) < 0 ? 125 : 124);
}

static inline void shim_begin(int limit_s, int number, const char *name, int i)
{
    if (!limit_s)
        return;
    printf("> %d %s:%d\n", number, name, i);
    fflush(stdout);
    alarm((unsigned)limit_s);
}

static inline void shim_end(int limit_s, const char *state, double ms)
{
    if (!limit_s)
        return;
    alarm(0);
    printf("< %s %.1f\n", state, ms);
    fflush(stdout);
}

static inline void srunner_run_all(SRunner *r, int mode)
{
    const char *only = getenv("CK_RUN_CASE"), *part = getenv("KVR_TEST_PART");
    const int limit_s = shim_number("KVR_TEST_LIMIT_S", 0), from = shim_number("KVR_TEST_FROM", 0);
    int part_k = 0, part_n = 1;
    volatile int n = 0, failed;

    (void)mode;
    if (part && (sscanf(part, "%d/%d", &part_k, &part_n) != 2 || part_n < 1))
        abort();
    if (limit_s)
        signal(SIGALRM, shim_too_long);
    for (volatile int c = 0; c < r->suite->n; c++) {
        volatile int number = 0;

        if (only && *only && strcmp(only, r->suite->tcase[c]->name) != 0)
            continue;
        for (volatile int t = 0; t < r->suite->tcase[c]->n; t++) {
            const shim_test *test = &r->suite->tcase[c]->test[t];

            for (volatile int i = test->first; i < test->end; i++, number++) {
                const double at = shim_ms();

                if (getenv("KVR_TEST_LIST") || number < from || number % part_n != part_k)
                    continue;
                n++;
                shim_begin(limit_s, number, test->name, i);
                if (r->suite->tcase[c]->setup)
                    r->suite->tcase[c]->setup();
                if (!setjmp(shim_back)) {
                    test->run(i);
                    failed = 0;
                } else {
                    failed = 1;
                }
                if (r->suite->tcase[c]->teardown)
                    r->suite->tcase[c]->teardown();
                if (!failed) {
                    shim_end(limit_s, "pass", shim_ms() - at);
                    continue;
                }
                r->n_failed++;
                printf("%s:%s:%d: %s\n", r->suite->tcase[c]->name, test->name, i, shim_message);
                shim_end(limit_s, "fail", shim_ms() - at);
                if (getenv("KVR_TEST_FRESH"))
                    exit(3); /* runs atexit handlers, which print the executed kernels */
            }
        }
        if (getenv("KVR_TEST_LIST"))
            printf("%s\t%d\n", r->suite->tcase[c]->name, number);
    }
    printf("%d%%: Checks: %d, Failures: %d, Errors: 0\n", n ? (n - r->n_failed) * 100 / n : 0, n,
           r->n_failed);
}

static inline int srunner_ntests_failed(const SRunner *r)
{
    return r->n_failed;
}

static inline void srunner_free(SRunner *r)
{
    for (int i = 0; i < r->suite->n; i++)
        free(r->suite->tcase[i]);
    free(r->suite);
    free(r);
}

#endif
