/* test_wait.c - kvr_store_wait(): the callback during a wait for another program's lock. */
#include <check.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness/store/store.h"
#include "tests/rows.h"
#include "tests/suite.h"

enum { CALLS = 4 };

struct calls {
    int n;
    int64_t waited_ms[CALLS], step_ms;
};

static bool count(void *ctx, int64_t waited_ms, int64_t step_ms)
{
    struct calls *c = ctx;

    c->waited_ms[c->n++] = waited_ms;
    c->step_ms = step_ms;
    return c->n < CALLS;
}

START_TEST(steps_of_a_wait)
{
    const struct kvr_session session = example_session();
    char dir[] = "/tmp/kvr_wait_XXXXXX", db[64], cmd[96];
    struct calls c = { 0 };
    struct kvr_store *s;
    sqlite3 *other;

    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(db, sizeof db, "%s/a.db", dir);
    ck_assert_msg(kvr_store_open(&s, db) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(sqlite3_open(db, &other), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    kvr_store_wait(s, count, &c);
    ck_assert_int_eq(kvr_store_session(s, &session), KVR_EBUSY);
    ck_assert_int_eq(c.n, CALLS);
    ck_assert_int_gt(c.step_ms, 0);
    for (int i = 0; i < CALLS; i++)
        ck_assert_int_eq(c.waited_ms[i], i * c.step_ms);
    sqlite3_close(other);
    ck_assert_msg(kvr_store_session(s, &session) == KVR_OK, "%s", kvr_error());
    kvr_store_close(&s);
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    ck_assert_int_eq(system(cmd), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("wait");
    TCase *tc = tcase_create("wait");

    tcase_add_test(tc, steps_of_a_wait);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
