/* test_network.c - on a network file system, a database uses a rollback journal and an exclusive
 * lock instead of WAL. This program replaces statfs(). */
#include <check.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "harness/store/store.h"
#include "tests/suite.h"

static unsigned kind; /* type of the file system, as in statfs(2) */

int statfs(const char *path, struct statfs *out)
{
    (void)path;
    memset(out, 0, sizeof *out);
    out->f_type = (__typeof__(out->f_type))kind;
    return 0;
}

static const struct {
    unsigned kind;
    bool network;
} kinds[] = {
    { 0xEF53, false },     /* ext4 */
    { 0x58465342, false }, /* XFS */
    { 0x01021994, false }, /* tmpfs */
    { 0x6969, true },      /* NFS */
    { 0x0BD00BD0, true },  /* Lustre */
    { 0x47504653, true },  /* GPFS */
    { 0x19830326, true },  /* BeeGFS */
    { 0xFF534D42, true },  /* CIFS */
    { 0xFE534D42, true },  /* SMB2 */
};

/* Reads the open database over a second connection, like another program, and returns SQLite's
 * result code. It is SQLITE_BUSY if kvreel's lock is exclusive. */
static int read_beside(const char *path)
{
    sqlite3 *d;
    int rc;

    ck_assert_int_eq(sqlite3_open_v2(path, &d, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    rc = sqlite3_exec(d, "SELECT count(*) FROM session", NULL, NULL, NULL);
    sqlite3_close(d);
    return rc;
}

/* Returns bytes 18 and 19 of the file, which are equal: 1 for a rollback journal, 2 for WAL. */
static int journal_of(const char *path)
{
    unsigned char head[20] = { 0 };
    FILE *f = fopen(path, "rb");

    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fread(head, 1, sizeof head, f), sizeof head);
    fclose(f);
    ck_assert_int_eq(head[18], head[19]);
    return head[18];
}

START_TEST(the_journal_is_the_file_systems)
{
    char dir[] = "/tmp/kvr_network_XXXXXX", db[64], index[80], cmd[96];
    struct kvr_store *s;

    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(db, sizeof db, "%s/a.db", dir);
    snprintf(index, sizeof index, "%s-shm", db);
    kind = kinds[_i].kind;
    ck_assert_msg(kvr_store_open(&s, db) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(read_beside(db), kinds[_i].network ? SQLITE_BUSY : SQLITE_OK);
    ck_assert_int_eq(access(index, F_OK) == 0, !kinds[_i].network);
    kvr_store_close(&s);
    ck_assert_int_eq(journal_of(db), kinds[_i].network ? 1 : 2);
    ck_assert_int_eq(read_beside(db), SQLITE_OK);
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    ck_assert_int_eq(system(cmd), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("network");
    TCase *tc = tcase_create("network");

    tcase_add_loop_test(tc, the_journal_is_the_file_systems, 0, sizeof kinds / sizeof *kinds);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
