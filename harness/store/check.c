/* check.c - see check.h. */
#include "harness/store/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/path.h"
#include "harness/store/checksum.h"
#include "harness/store/sql.h"

struct check {
    sqlite3 *db;
    const char *path;
    kvr_problem_fn *fn;
    void *ctx;
    struct kvr_check_result *out;
    int64_t version; /* schema version of the database; 0: unreadable */
    bool no_memory;  /* memory ran out during the check */
};

static enum kvr_status no_memory(const struct check *c)
{
    return kvr_fail(KVR_ENOMEM, "store: %s: out of memory while checking this database", c->path);
}

static void report_problem(struct check *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void report_problem(struct check *c, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    c->out->problems++;
    if (c->fn)
        c->fn(c->ctx, text);
}

/* Runs a statement whose rows are problems, and reports each row; a statement that fails is
 * reported as a problem, too. */
static void each_row(struct check *c, const char *sql, const char *about)
{
    sqlite3_stmt *q = NULL;
    int rc = sqlite3_prepare_v2(c->db, sql, -1, &q, NULL);

    while (rc == SQLITE_OK || rc == SQLITE_ROW) {
        const char *text;

        rc = sqlite3_step(q);
        text = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(q, 0) : "ok";
        if (!text)
            c->no_memory = true;
        else if (strcmp(text, "ok") != 0)
            report_problem(c, "%s: %s", about, text);
    }
    if (rc == SQLITE_NOMEM)
        c->no_memory = true;
    else if (rc != SQLITE_DONE)
        report_problem(c, "%s: %s", about, sqlite3_errmsg(c->db));
    sqlite3_finalize(q);
}

/* Recomputes the generated columns of `cell` (settings and `run`), and compares them with the
 * stored values. */
static void check_made(struct check *c)
{
    enum kvr_status st = kvr_sql_create_cell(c->db, c->path, "temp.cell");

    if (st == KVR_OK)
        st = kvr_sql_copy_cells(c->db, c->path, "main", "cell", "temp");
    if (st == KVR_ENOMEM)
        c->no_memory = true;
    else if (st != KVR_OK)
        report_problem(c, "cells: %s", kvr_error());
    if (st != KVR_OK)
        return;
    each_row(c,
             "SELECT key || ' has column values that differ from the settings in the spec of this "
             "cell' FROM (SELECT * FROM main.cell "
             "EXCEPT SELECT * FROM temp.cell)",
             "cell");
    sqlite3_exec(c->db, "DROP TABLE temp.cell", NULL, NULL, NULL);
}

/* Compares the stored generated columns with the recomputed ones (temp.cell) if the database's
 * definition of `cell` is damaged or from another version. It compares only columns that this
 * program also has, except `run`, whose value depends on the version's list of settings. */
static void check_common(struct check *c)
{
    static const char common[] =
        "SELECT group_concat('\"' || name || '\"') FROM (SELECT name FROM "
        "pragma_table_xinfo('cell', "
        "'main') WHERE name <> 'run' AND name IN (SELECT name FROM pragma_table_xinfo('cell', "
        "'temp')) ORDER BY name)";
    sqlite3_stmt *q = NULL;
    char *sql = NULL;
    int rc = sqlite3_prepare_v2(c->db, common, -1, &q, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(q);
    if (rc == SQLITE_ROW) {
        const char *list;

        if (kvr_sql_text(q, 0, &list) == KVR_OK)
            sql = sqlite3_mprintf("SELECT key || ' has column values that differ from the settings "
                                  "in the spec of this cell' FROM "
                                  "(SELECT %s FROM main.cell EXCEPT SELECT %s FROM temp.cell)",
                                  list, list);
        if (!sql)
            rc = SQLITE_NOMEM;
    }
    sqlite3_finalize(q);
    if (sql)
        each_row(c, sql, "cell");
    else if (rc == SQLITE_NOMEM)
        c->no_memory = true;
    else
        report_problem(c, "cells: the columns of the table 'cell' cannot be read");
    sqlite3_free(sql);
}

/* Lists the readable keys of all cells, sessions or sweeps. It reads their table forwards and
 * backwards, to skip damage in between, and then the table of checksums. */
static enum kvr_status list_keys(struct check *c, enum kvr_checksum_what what)
{
    static const char *const from[] = { "SELECT %2$s FROM main.%1$s ORDER BY %2$s",
                                        "SELECT %2$s FROM main.%1$s ORDER BY %2$s DESC",
                                        "SELECT key FROM main.seal WHERE what = '%1$s'" };
    bool short_of_memory = false;

    if (sqlite3_exec(c->db,
                     "CREATE TEMP TABLE IF NOT EXISTS found(key TEXT PRIMARY KEY); DELETE "
                     "FROM temp.found",
                     NULL, NULL, NULL) != SQLITE_OK)
        return kvr_sql_fail(c->db, c->path, "checking the rows");
    for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
        sqlite3_stmt *q = NULL, *put = NULL;
        char sql[128];

        snprintf(sql, sizeof sql, from[i], kvr_checksum_tables[what][0][0],
                 kvr_checksum_tables[what][0][1]);
        if (sqlite3_prepare_v2(c->db, sql, -1, &q, NULL) == SQLITE_OK &&
            sqlite3_prepare_v2(c->db, "INSERT OR IGNORE INTO temp.found VALUES(?)", -1, &put,
                               NULL) == SQLITE_OK)
            while (sqlite3_step(q) == SQLITE_ROW) {
                kvr_sql_bind(put, "t", (const char *)sqlite3_column_text(q, 0));
                sqlite3_step(put);
                if (sqlite3_reset(put) == SQLITE_NOMEM)
                    short_of_memory = true;
            }
        /* Other errors mean unreadable rows, which walk() and the integrity check report. */
        if (sqlite3_finalize(q) == SQLITE_NOMEM)
            short_of_memory = true;
        sqlite3_finalize(put);
    }
    return short_of_memory ? no_memory(c) : KVR_OK;
}

typedef enum kvr_status whole_fn(struct check *c, enum kvr_checksum_what what, const char *key,
                                 void *ctx);

/* Verifies the checksum of every group (the rows of a cell, session or sweep), and calls `fn`,
 * unless NULL, for the intact groups. */
static enum kvr_status walk(struct check *c, enum kvr_checksum_what what, whole_fn *fn, void *ctx)
{
    int64_t *const good[] = { &c->out->cells, &c->out->sessions, &c->out->sweeps };
    int64_t *const lost[] = { &c->out->lost_cells, &c->out->lost_sessions, &c->out->lost_sweeps };
    struct kvr_checksums checksums = { .db = c->db, .path = c->path, .schema = "main" };
    sqlite3_stmt *q = NULL;
    enum kvr_status st = KVR_OK;

    if (c->version < kvr_checksum_since[what])
        return KVR_OK;
    KVR_TRY(list_keys(c, what));
    if (sqlite3_prepare_v2(c->db, "SELECT key FROM temp.found ORDER BY key", -1, &q, NULL) !=
        SQLITE_OK)
        return kvr_sql_fail(c->db, c->path, "checking the rows");
    while (st == KVR_OK && sqlite3_step(q) == SQLITE_ROW) {
        const char *key = (const char *)sqlite3_column_text(q, 0);

        st = key ? kvr_checksums_check(&checksums, what, key) : no_memory(c);
        if (st == KVR_OK) {
            ++*good[what];
            if (fn)
                st = fn(c, what, key, ctx);
        } else if (st != KVR_ENOMEM) {
            ++*lost[what];
            report_problem(c, "%s", kvr_error());
            st = KVR_OK;
        }
    }
    kvr_checksums_close(&checksums);
    return sqlite3_finalize(q) == SQLITE_NOMEM && st == KVR_OK ? no_memory(c) : st;
}

static bool has_checksums(struct check *c)
{
    const int rc = sqlite3_exec(c->db, "SELECT 1 FROM main.seal LIMIT 1", NULL, NULL, NULL);

    if (rc == SQLITE_NOMEM)
        c->no_memory = true;
    return rc == SQLITE_OK;
}

/* Opens the database read-only. An unreadable file is reported as a problem, and *open becomes
 * false. */
static enum kvr_status open_to_check(struct check *c, bool *open)
{
    enum kvr_status st = kvr_sql_open_readonly(&c->db, c->path, NULL);

    *open = st == KVR_OK;
    if (st == KVR_ENOTFOUND || st == KVR_ESCHEMA || st == KVR_ENOMEM)
        return st;
    if (st != KVR_OK)
        report_problem(c, "%s", kvr_error());
    else if (sqlite3_exec(c->db, "BEGIN", NULL, NULL, NULL) == SQLITE_NOMEM)
        c->no_memory = true; /* a read transaction, so that concurrent writers do not interfere */
    return KVR_OK;
}

static enum kvr_status check_open(struct check *c)
{
    enum kvr_sql_form form;
    enum kvr_status st = kvr_sql_check_version(c->db, c->path, &form, &c->version);

    each_row(c, "PRAGMA main.integrity_check(20)", "structure");
    each_row(
        c,
        "SELECT \"table\" || ' has a row that refers to a missing row of table ' || parent FROM "
        "pragma_foreign_key_check",
        "structure");
    KVR_TRY(st);
    if (form == KVR_FORM_OURS)
        check_made(c);
    else if (c->version >= KVR_STORE_CHECKSUMS)
        check_common(c);
    c->out->checksummed = has_checksums(c);
    if (!c->out->checksummed && !c->no_memory && c->version >= KVR_STORE_CHECKSUMS)
        report_problem(c, "structure: table seal, which has the checksums, cannot be read");
    for (int w = 0; st == KVR_OK && c->out->checksummed && w < KVR_N_CHECKSUMS; w++)
        st = walk(c, (enum kvr_checksum_what)w, NULL, NULL);
    return st == KVR_OK && c->no_memory ? no_memory(c) : st;
}

enum kvr_status kvr_store_check(const char *path, kvr_problem_fn *fn, void *ctx,
                                struct kvr_check_result *out)
{
    struct check c = { .path = path, .fn = fn, .ctx = ctx, .out = out };
    enum kvr_status st;
    bool open;

    memset(out, 0, sizeof *out);
    KVR_TRY(open_to_check(&c, &open));
    if (!open)
        return KVR_OK;
    st = check_open(&c);
    sqlite3_close(c.db);
    return st;
}

static void keep_first(void *ctx, const char *what)
{
    char *first = ctx;

    if (!first[0])
        snprintf(first, 512, "%s", what);
}

enum kvr_status kvr_store_check_intact(const char *path)
{
    struct kvr_check_result r;
    char first[512] = "";

    KVR_TRY(kvr_store_check(path, keep_first, first, &r));
    return r.problems ? kvr_fail(KVR_EFORMAT,
                                 "%s: the database is damaged: %s%s; `kvreel fsck %s -o NEW.db` "
                                 "saves the intact rows",
                                 path, first, r.problems > 1 ? " (and more)" : "", path)
                      : KVR_OK;
}

/* ------------------------------------------------------------- rescue */

/* Copies every row of query `from` by the INSERT `to`, over two connections, so that the damaged
 * database stays read-only. */
static enum kvr_status copy_each(sqlite3_stmt *from, sqlite3_stmt *to, sqlite3 *db,
                                 const char *path)
{
    int rc;

    while ((rc = sqlite3_step(from)) == SQLITE_ROW) {
        for (int c = 0; c < sqlite3_column_count(from); c++)
            if (sqlite3_bind_value(to, c + 1, sqlite3_column_value(from, c)) != SQLITE_OK)
                return kvr_sql_fail(db, path, "saving the intact rows");
        if (sqlite3_step(to) != SQLITE_DONE)
            return kvr_sql_fail(db, path, "saving the intact rows");
        sqlite3_reset(to);
    }
    return rc == SQLITE_DONE
               ? KVR_OK
               : kvr_sql_fail(sqlite3_db_handle(from), path, "saving the intact rows");
}

/* Copies the rows of a table that match `where`, an SQL condition such as "key = ?1". The copy
 * recomputes generated columns. */
static enum kvr_status copy_rows(struct check *c, struct kvr_store *to, const char *table,
                                 const char *where, const char *what, const char *key)
{
    static const char list[] =
        "SELECT group_concat('\"' || name || '\"'), group_concat('?') FROM (SELECT name FROM "
        "pragma_table_xinfo(?) WHERE hidden = 0 ORDER BY cid)";
    sqlite3_stmt *q = NULL, *get = NULL, *put = NULL;
    char *select = NULL, *insert = NULL;
    enum kvr_status st = KVR_OK;

    KVR_TRY(kvr_sql_prepare(to, &q, list));
    kvr_sql_bind(q, "t", table);
    if (sqlite3_step(q) == SQLITE_ROW) {
        const char *columns, *values;

        if (kvr_sql_text(q, 0, &columns) == KVR_OK && kvr_sql_text(q, 1, &values) == KVR_OK) {
            select = sqlite3_mprintf("SELECT %s FROM main.%s WHERE %s", columns, table, where);
            insert = sqlite3_mprintf("INSERT INTO main.%s(%s) VALUES(%s)", table, columns, values);
        }
    }
    sqlite3_finalize(q);
    if (!select || !insert)
        st = kvr_fail(KVR_ENOMEM, "fsck: out of memory");
    else if (sqlite3_prepare_v2(c->db, select, -1, &get, NULL) != SQLITE_OK)
        st = kvr_sql_fail(c->db, c->path, "saving the intact rows");
    if (st == KVR_OK)
        st = kvr_sql_prepare(to, &put, insert);
    if (st == KVR_OK) {
        kvr_sql_bind(get, "tt", key, what);
        st = copy_each(get, put, to->db, c->path);
    }
    sqlite3_finalize(get);
    sqlite3_finalize(put);
    sqlite3_free(select);
    sqlite3_free(insert);
    return st;
}

/* Copies the rows of a group with their stored checksum, and verifies the copied rows against it.
 */
static enum kvr_status save_group(struct check *c, enum kvr_checksum_what what, const char *key,
                                  void *ctx)
{
    struct kvr_store *to = ctx;

    for (int i = 0; kvr_checksum_tables[what][i][0]; i++) {
        char where[64];

        snprintf(where, sizeof where, "%s = ?1", kvr_checksum_tables[what][i][1]);
        KVR_TRY(copy_rows(c, to, kvr_checksum_tables[what][i][0], where, kvr_checksum_names[what],
                          key));
    }
    KVR_TRY(copy_rows(c, to, "seal", "key = ?1 AND what = ?2", kvr_checksum_names[what], key));
    return kvr_checksum_check(to, what, key);
}

/* Copies sessions first, since cells refer to them. A cell whose session is lost is copied, and the
 * loss is reported. */
static enum kvr_status save_all(struct check *c, struct kvr_store *to)
{
    enum kvr_status st;

    if (!c->out->checksummed)
        return kvr_fail(
            KVR_ESCHEMA,
            "fsck: %s: the database has no checksums, so damage cannot be detected; `kvreel merge` "
            "migrates a database of an earlier version",
            c->path);
    KVR_TRY(
        kvr_sql_exec(to, "PRAGMA foreign_keys = OFF; BEGIN IMMEDIATE", "saving the intact rows"));
    st = walk(c, KVR_CHECKSUM_SESSION, save_group, to);
    if (st == KVR_OK)
        st = walk(c, KVR_CHECKSUM_SWEEP, save_group, to);
    if (st == KVR_OK)
        st = walk(c, KVR_CHECKSUM_CELL, save_group, to);
    return kvr_sql_end(to, st, "saving the intact rows");
}

enum kvr_status kvr_store_rescue(const char *path, const char *to, kvr_problem_fn *fn, void *ctx,
                                 struct kvr_check_result *out)
{
    struct check c = { .path = path, .fn = fn, .ctx = ctx, .out = out };
    struct kvr_store *s = NULL;
    enum kvr_sql_form form;
    enum kvr_status st;
    bool open;

    memset(out, 0, sizeof *out);
    if (kvr_path_exists(to))
        return kvr_fail(KVR_EINVAL, "fsck: %s already exists; -o needs the name of a new file", to);
    KVR_TRY(open_to_check(&c, &open));
    if (!open)
        return KVR_OK;
    out->checksummed = has_checksums(&c);
    st = kvr_sql_check_version(c.db, path, &form, &c.version);
    if (st != KVR_OK)
        c.version = KVR_STORE_VERSION; /* unreadable: assume the current version */
    if (st != KVR_ENOMEM)
        st = c.no_memory ? no_memory(&c) : kvr_store_open(&s, to); /* creates empty tables */
    if (st == KVR_OK)
        st = save_all(&c, s);
    kvr_store_close(&s);
    sqlite3_close(c.db);
    if (st != KVR_OK)
        remove(to);
    return st;
}
