/* test_lock.c - a file system that refuses or interrupts flock(): a run fails instead of going on
 * without its lock. This program replaces flock(). */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "harness/run/gpus.h"
#include "harness/store/lock.h"
#include "tests/suite.h"

static int refusal;     /* errno of flock(); 0: flock() succeeds */
static int interrupted; /* number of calls of flock() that fail with EINTR first */
static char dir[64], db[80];

int flock(int fd, int operation)
{
    (void)fd, (void)operation;
    errno = interrupted > 0 ? EINTR : refusal;
    if (interrupted > 0)
        interrupted--;
    return errno ? -1 : 0;
}

static void set_up(void)
{
    strcpy(dir, "/tmp/kvr_lock_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(db, sizeof db, "%s/a.db", dir);
    setenv("KVREEL_LOCKS", dir, 1);
}

static void tear_down(void)
{
    char cmd[96];

    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    ck_assert_int_eq(system(cmd), 0);
}

static const struct {
    int error;
    enum kvr_status store, gpu;
} refusals[] = {
    { 0, KVR_OK, KVR_OK },        { EWOULDBLOCK, KVR_EBUSY, KVR_OK }, { ENOLCK, KVR_EIO, KVR_EIO },
    { ENOSYS, KVR_EIO, KVR_EIO }, { EOPNOTSUPP, KVR_EIO, KVR_EIO },   { EBADF, KVR_EIO, KVR_EIO },
};

START_TEST(lock_of_a_database)
{
    const enum kvr_status want = refusals[_i].store;
    char path[96], who[256];
    bool held;
    int fd;

    refusal = refusals[_i].error;
    interrupted = 2;
    ck_assert_int_eq(kvr_store_lock(&fd, db), want);
    ck_assert_int_eq(fd >= 0, want == KVR_OK);
    if (want == KVR_EIO) {
        snprintf(path, sizeof path, "%s.lock: flock: %s", db, strerror(refusal));
        ck_assert_msg(strstr(kvr_error(), path) != NULL, "%s", kvr_error());
    }
    kvr_store_unlock(&fd);
    interrupted = 2;
    ck_assert_int_eq(kvr_store_locked(db, &held, who), KVR_OK);
    ck_assert_int_eq(held, want == KVR_EBUSY);
}
END_TEST

START_TEST(lock_of_a_gpu)
{
    static const char uuid[][KVR_UUID_LEN] = { "emulated-0" };
    struct kvr_gpus g;
    bool taken;
    int at;

    refusal = refusals[_i].error;
    interrupted = 2;
    kvr_gpus_open(&g, uuid, 1);
    ck_assert_int_eq(kvr_gpu_acquire(&g, &at, &taken), refusals[_i].gpu);
    ck_assert_int_eq(taken, refusal == 0);
    if (refusals[_i].gpu == KVR_EIO)
        ck_assert_msg(strstr(kvr_error(), strerror(refusal)) != NULL, "%s", kvr_error());
    kvr_gpus_close(&g);
}
END_TEST

int main(void)
{
    const int n = sizeof refusals / sizeof *refusals;
    Suite *s = suite_create("lock");
    TCase *tc = tcase_create("lock");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_loop_test(tc, lock_of_a_database, 0, n);
    tcase_add_loop_test(tc, lock_of_a_gpu, 0, n);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
