/* test_damage.c - damaged databases: changed content never passes as the original.
 *
 * Each trial damages a small database at random. It changes a bit, a byte or a run of bytes, swaps
 * two pages, truncates the file, or changes rows by SQL. If kvr_store_check() accepts the database,
 * every row must be the original one. Otherwise kvr_store_merge() must refuse it, and every cell
 * that fsck rescues must be the original one. KVR_DAMAGES sets the number of trials (make
 * damage-campaign). */
#include <check.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/core/sha256.h"
#include "harness/store/check.h"
#include "harness/store/merge.h"
#include "harness/store/plan.h"
#include "harness/store/checksum.h"
#include "tests/rows.h"
#include "tests/suite.h"

enum { N_CELLS = 24, PAGE = 4096, DEFAULT_DAMAGES = 60 };

static char dir[64], good[128], bad[128], saved[128], all[128];

static void set_up(void)
{
    strcpy(dir, "/tmp/kvreel-damage-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(good, sizeof good, "%s/good.db", dir);
    snprintf(bad, sizeof bad, "%s/bad.db", dir);
    snprintf(saved, sizeof saved, "%s/saved.db", dir);
    snprintf(all, sizeof all, "%s/all.db", dir);
}

static void remove_db(const char *path)
{
    static const char *const ends[] = { "", "-wal", "-shm", "-journal" };
    char name[160];

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        snprintf(name, sizeof name, "%s%s", path, ends[i]);
        remove(name);
    }
}

static void tear_down(void)
{
    remove_db(good);
    remove_db(bad);
    remove_db(saved);
    remove_db(all);
    rmdir(dir);
}

static void put_plan(struct kvr_store *s)
{
    struct kvr_planned cell[N_CELLS];
    char key[N_CELLS][40];
    struct kvr_plan plan = {
        .id = "sweep-1", .name = "a", .config = "a.yaml", .n = N_CELLS, .cell = cell
    };

    for (int i = 0; i < N_CELLS; i++) {
        snprintf(key[i], sizeof key[i], "%032x", 7919 * (i + 1));
        cell[i] = (struct kvr_planned){ .cell = key[i],
                                        .method = "M",
                                        .model = "nano",
                                        .suite = "s",
                                        .prompt_id = "p",
                                        .run_kind = "bench",
                                        .cost = 1e9 + i,
                                        .state = "planned" };
    }
    ck_assert_msg(kvr_store_plan(s, &plan) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_store_enough(s, plan.id, key[3], true), KVR_OK);
    ck_assert_int_eq(kvr_store_enough(s, plan.id, key[3], false), KVR_OK);
}

static void fill(void)
{
    struct kvr_session session = example_session();
    struct kvr_store *s;

    ck_assert_msg(kvr_store_open(&s, good) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_store_session(s, &session) == KVR_OK, "%s", kvr_error());
    put_plan(s);
    for (int i = 0; i < N_CELLS; i++) {
        static const double series[] = { 30.5, 31, 29.25, 28 };
        char key[40], method[24];
        struct kvr_row_metric m[] = {
            { .name = "psnr",
              .unit = "dB",
              .value = 30 + i / 7.0,
              .n = 4,
              .n_series = 4,
              .series = series },
            { .name = "ssim", .unit = "1", .value = 0.9 + i / 1000.0, .n = 4 }
        };
        struct kvr_row_pass pass[] = { { .chunk = 0, .t_ns = 10 + i, .tokens = 64 },
                                       { .chunk = 1, .t_ns = 90 + i, .tokens = 128 } };
        struct kvr_row_mem mem[] = { { "KV", 100 + i, 200, 0 }, { "ACT", 10, 20, 0 } };
        struct kvr_row r = example_row(key, "s0", KVR_OUT_OK);

        snprintf(key, sizeof key, "%032x", 7919 * (i + 1));
        snprintf(method, sizeof method, "METHOD_%d", i);
        r.method = r.name = method;
        r.wall_ns = 1000 + i;
        r.n_metrics = r.n_passes = r.n_mem = 2;
        r.metric = m;
        r.pass = pass;
        r.mem = mem;
        ck_assert_msg(kvr_store_put(s, &r) == KVR_OK, "%s", kvr_error());
    }
    kvr_store_close(&s);
}

/* Sets `hex` to the hash of the rows that the statements select for `key`, or to "" if SQLite
 * cannot read them. Uses SQLite directly, not the tested code. */
static void hash_rows(sqlite3 *db, const char *const *sql, const char *key,
                      char hex[KVR_SHA256_HEX])
{
    struct kvr_sha256 h;

    hex[0] = 0;
    ck_assert_int_eq(kvr_sha256_open(&h), KVR_OK);
    for (; *sql; sql++) {
        sqlite3_stmt *q = NULL;
        int rc = sqlite3_prepare_v2(db, *sql, -1, &q, NULL);

        if (rc == SQLITE_OK)
            sqlite3_bind_text(q, 1, key, -1, SQLITE_STATIC);
        while (rc == SQLITE_OK || rc == SQLITE_ROW) {
            rc = sqlite3_step(q);
            for (int c = 0; rc == SQLITE_ROW && c < sqlite3_column_count(q); c++) {
                const char *t = (const char *)sqlite3_column_text(q, c);

                kvr_sha256_add(&h, t ? t : "\1", t ? (size_t)sqlite3_column_bytes(q, c) + 1 : 2);
            }
        }
        sqlite3_finalize(q);
        if (rc != SQLITE_DONE) {
            kvr_sha256_close(&h, NULL);
            return;
        }
    }
    kvr_sha256_close(&h, hex);
}

static void hash_plan(sqlite3 *db, char hex[KVR_SHA256_HEX])
{
    static const char *const sql[] = { "SELECT * FROM sweep WHERE id = ?",
                                       "SELECT * FROM plan WHERE sweep = ? ORDER BY 1, 2", NULL };

    hash_rows(db, sql, "sweep-1", hex);
}

static void hash_cell(sqlite3 *db, const char *key, char hex[KVR_SHA256_HEX])
{
    static const char *const sql[] = {
        "SELECT * FROM cell WHERE key = ?",
        "SELECT * FROM metric WHERE cell = ? ORDER BY 1, 2",
        "SELECT * FROM series WHERE cell = ? ORDER BY 1, 2, 3",
        "SELECT * FROM pass WHERE cell = ? ORDER BY 1, 2",
        "SELECT * FROM mem WHERE cell = ? ORDER BY 1, 2",
        "SELECT cell, session, n, outcome, reason, log_tail, started, "
        "finished, wall_ns FROM attempt WHERE cell = ? ORDER BY 3",
        "SELECT * FROM session WHERE ? <> ''",
        NULL
    };

    hash_rows(db, sql, key, hex);
}

/* Sets `hex` to the hashes of all cells, followed by the plan's. Sets *count_ok to whether the
 * database has N_CELLS cells. */
static void hash_all(const char *path, char hex[N_CELLS + 1][KVR_SHA256_HEX], bool *count_ok)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *q = NULL;

    ck_assert_int_eq(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    for (int i = 0; i < N_CELLS; i++) {
        char key[40];

        snprintf(key, sizeof key, "%032x", 7919 * (i + 1));
        hash_cell(db, key, hex[i]);
    }
    hash_plan(db, hex[N_CELLS]);
    if (count_ok) {
        *count_ok =
            sqlite3_prepare_v2(db, "SELECT count(*) FROM cell", -1, &q, NULL) == SQLITE_OK &&
            sqlite3_step(q) == SQLITE_ROW && sqlite3_column_int(q, 0) == N_CELLS;
        sqlite3_finalize(q);
    }
    sqlite3_close(db);
}

static unsigned draw(unsigned *seed, unsigned below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (unsigned)(((unsigned long long)(*seed >> 4) * below) >> 28);
}

static void copy_good(void)
{
    char cmd[400];

    remove_db(bad);
    snprintf(cmd, sizeof cmd, "cp %s %s", good, bad);
    ck_assert_int_eq(system(cmd), 0);
}

/* Executes a random statement that changes rows. SQLite's own integrity check cannot detect such a
 * change; only kvreel's checksums can. */
static void damage_by_sql(unsigned *seed)
{
    static const char *const sql[] = {
        "UPDATE metric SET value = value + 1 WHERE cell = (SELECT min(cell) FROM metric)",
        "UPDATE cell SET wall_ns = wall_ns / 2 WHERE method = 'METHOD_3'",
        "UPDATE pass SET tokens = 1 WHERE rowid IN (SELECT 1)",
        "DELETE FROM series WHERE idx = 2",
        "UPDATE attempt SET reason = 'x' WHERE n = 1",
        "UPDATE session SET cpu_model = 'another'",
        "DELETE FROM mem WHERE tag = 'ACT'",
        "DELETE FROM cell WHERE method = 'METHOD_5'",
        "DELETE FROM seal WHERE what = 'session'",
        "DROP TABLE seal",
        "UPDATE pass SET tokens = tokens + 1 WHERE chunk = 1",
        "UPDATE plan SET state = 'enough' WHERE cell > '0000000000000000000000000000ffff'",
        "DELETE FROM plan WHERE cost = 1000000003",
        "UPDATE sweep SET cells = cells - 1",
    };
    sqlite3 *db;

    ck_assert_int_eq(sqlite3_open(bad, &db), SQLITE_OK);
    sqlite3_exec(db, sql[draw(seed, sizeof sql / sizeof *sql)], NULL, NULL, NULL);
    sqlite3_close(db);
}

static void damage(unsigned *seed)
{
    unsigned char page[PAGE], other[PAGE];
    const unsigned kind = draw(seed, 6);
    struct stat sb;
    long n, at;
    FILE *f;

    copy_good();
    if (kind == 5) {
        damage_by_sql(seed);
        return;
    }
    ck_assert_int_eq(stat(bad, &sb), 0);
    n = sb.st_size / PAGE;
    f = fopen(bad, "r+b");
    ck_assert_ptr_nonnull(f);
    at = (long)draw(seed, (unsigned)sb.st_size);
    if (kind <= 1) { /* changes a byte, or one bit of it */
        int c;

        fseek(f, at, SEEK_SET);
        c = fgetc(f);
        fseek(f, at, SEEK_SET);
        fputc(kind ? c ^ (1 << draw(seed, 8)) : (int)draw(seed, 256), f);
    } else if (kind == 2) { /* a run */
        fseek(f, at, SEEK_SET);
        for (unsigned i = draw(seed, 64) + 2; i > 0; i--)
            fputc((int)draw(seed, 256), f);
    } else if (kind == 3) { /* swaps two pages */
        const long a = 1 + (long)draw(seed, (unsigned)n - 1),
                   b = 1 + (long)draw(seed, (unsigned)n - 1);

        fseek(f, a * PAGE, SEEK_SET);
        ck_assert_uint_eq(fread(page, 1, PAGE, f), PAGE);
        fseek(f, b * PAGE, SEEK_SET);
        ck_assert_uint_eq(fread(other, 1, PAGE, f), PAGE);
        fseek(f, b * PAGE, SEEK_SET);
        fwrite(page, 1, PAGE, f);
        fseek(f, a * PAGE, SEEK_SET);
        fwrite(other, 1, PAGE, f);
    } else { /* truncates the file */
        ck_assert_int_eq(ftruncate(fileno(f), at), 0);
    }
    fclose(f);
}

/* Returns the number of cells in the rescued database, 0 if it has no session. Each cell must have
 * its original content. */
static int count_saved(const char (*before)[KVR_SHA256_HEX], const char (*after)[KVR_SHA256_HEX],
                       int damage_at)
{
    int n = 0;

    for (int i = 0; i < N_CELLS; i++) {
        sqlite3 *db;
        sqlite3_stmt *q;
        char key[40];

        snprintf(key, sizeof key, "%032x", 7919 * (i + 1));
        ck_assert_int_eq(sqlite3_open(saved, &db), SQLITE_OK);
        ck_assert_int_eq(
            sqlite3_prepare_v2(db, "SELECT 1 FROM cell, session WHERE key = ?", -1, &q, NULL),
            SQLITE_OK);
        sqlite3_bind_text(q, 1, key, -1, SQLITE_STATIC);
        if (sqlite3_step(q) == SQLITE_ROW) {
            ck_assert_msg(strcmp(before[i], after[i]) == 0,
                          "damage %d: cell %d was saved as another", damage_at, i);
            n++;
        }
        sqlite3_finalize(q);
        sqlite3_close(db);
    }
    return n;
}

START_TEST(nothing_changes_unseen)
{
    const char *wanted = getenv("KVR_DAMAGES");
    const int n = wanted ? atoi(wanted) : DEFAULT_DAMAGES;
    char before[N_CELLS + 1][KVR_SHA256_HEX], after[N_CELLS + 1][KVR_SHA256_HEX];
    int found = 0, refused = 0, harmless = 0, cells_saved = 0;
    unsigned seed = 20260101;

    fill();
    hash_all(good, before, NULL);
    for (int k = 0; k < n; k++) {
        struct kvr_check_result r = { 0 };
        struct kvr_store *s;
        struct kvr_merge m;
        enum kvr_status st;
        bool whole = true, count_ok;

        damage(&seed);
        st = kvr_store_check(bad, NULL, NULL, &r);
        if (st == KVR_OK && r.problems == 0) { /* an accepted database must be the original */
            hash_all(bad, after, &count_ok);
            for (int i = 0; i <= N_CELLS; i++)
                whole = whole && strcmp(before[i], after[i]) == 0;
            ck_assert_msg(whole && count_ok, "damage %d changed content unseen", k);
            harmless++;
            continue;
        }
        found++;
        remove_db(all);
        ck_assert_int_eq(kvr_store_open(&s, all), KVR_OK);
        st = kvr_store_merge(s, bad, &m);
        kvr_store_close(&s);
        ck_assert_msg(st != KVR_OK, "damage %d was merged", k);
        refused++;
        remove_db(saved);
        if (kvr_store_rescue(bad, saved, NULL, NULL, &r) != KVR_OK || r.cells == 0)
            continue;
        hash_all(saved, after, NULL);
        cells_saved += count_saved((const char(*)[KVR_SHA256_HEX])before,
                                   (const char(*)[KVR_SHA256_HEX])after, k);
    }
    printf(
        "damaged databases: %d; found %d, harmless %d, changed content unseen 0, unsound merged 0 "
        "of %d; cells saved %d\n",
        n, found, harmless, refused, cells_saved);
    ck_assert_int_gt(found, 0);
    ck_assert_int_gt(cells_saved, 0);
}
END_TEST

/* Damage in a table without checksums would go undetected. So a new table must have checksums, or
 * be added to the exceptions in this test. */
START_TEST(every_table_has_checksums_or_is_listed)
{
    /* rows of `running` are transient, and `seal` contains the checksums */
    static const char *const others[] = { "running", "seal" };
    sqlite3 *db;
    sqlite3_stmt *q;

    fill();
    ck_assert_int_eq(sqlite3_open(good, &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_prepare_v2(db,
                                        "SELECT name FROM sqlite_schema WHERE type = 'table' AND "
                                        "name NOT LIKE 'sqlite_%'",
                                        -1, &q, NULL),
                     SQLITE_OK);
    while (sqlite3_step(q) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(q, 0);
        bool known = false;

        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            known = known || strcmp(others[i], name) == 0;
        for (int w = 0; w < KVR_N_CHECKSUMS; w++)
            for (int i = 0; kvr_checksum_tables[w][i][0]; i++)
                known = known || strcmp(kvr_checksum_tables[w][i][0], name) == 0;
        ck_assert_msg(known, "the table %s is in no checksum", name);
    }
    sqlite3_finalize(q);
    sqlite3_close(db);
}
END_TEST

/* A changed plan is detected and not overwritten. */
START_TEST(plans_are_sealed)
{
    static const char *const sql[] = {
        "UPDATE plan SET state = 'excluded' WHERE cost = 1000000003",
        "UPDATE plan SET method = 'N' WHERE cost = 1000000003",
        "DELETE FROM plan WHERE cost = 1000000003",
        "UPDATE sweep SET cells = cells - 1",
        "DELETE FROM plan; DELETE FROM sweep",
    };
    struct kvr_check_result r;
    struct kvr_store *s;
    sqlite3 *db;

    fill();
    ck_assert_int_eq(kvr_store_check(good, NULL, NULL, &r), KVR_OK);
    ck_assert(r.problems == 0 && r.sweeps == 1 && r.lost_sweeps == 0);
    copy_good();
    ck_assert_int_eq(sqlite3_open(bad, &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db, sql[_i], NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    ck_assert_int_eq(kvr_store_check(bad, NULL, NULL, &r), KVR_OK);
    ck_assert(r.problems == 1 && r.lost_sweeps == 1 && r.lost_cells == 0);
    ck_assert_int_eq(kvr_store_check_intact(bad), KVR_EFORMAT);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "sweep sweep-1"));
    ck_assert_int_eq(kvr_store_open(&s, bad), KVR_OK);
    ck_assert_int_eq(kvr_store_enough(s, "sweep-1", "x", true), KVR_EFORMAT);
    kvr_store_close(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("damage");
    TCase *tc = tcase_create("damage");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_set_timeout(tc, 1800);
    tcase_add_test(tc, nothing_changes_unseen);
    tcase_add_test(tc, every_table_has_checksums_or_is_listed);
    tcase_add_loop_test(tc, plans_are_sealed, 0, 5);
    suite_add_tcase(suite, tc);
    return run_suite_forked(suite);
}
