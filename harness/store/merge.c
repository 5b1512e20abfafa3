/* merge.c - attaches the database of a shard and copies the rows of its better attempts, table by
 * table.
 *
 * It reads the list of tables from the schema. Rows that refer to a cell are copied if the cell is
 * copied. A row of any other table is copied if the output database does not have its key. */
#include "harness/store/merge.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "harness/store/check.h"
#include "harness/store/checksum.h"
#include "harness/store/sql.h"

/* SQL rank of an attempt at a cell; the attempt with the larger rank is kept. Two attempts never
 * have equal ranks, because a rank contains the session and the attempt number. */
#define RANK(x)                                                                                    \
    "(CASE " x ".outcome WHEN 'OK' THEN 5 WHEN 'UNSUPPORTED' THEN 4 WHEN 'SKIPPED' THEN 2 WHEN "   \
    "'INTERRUPTED' THEN 1 ELSE 3 END, " x ".finished, " x ".session, " x ".attempt)"

static enum kvr_status number(struct kvr_store *s, const char *sql, int64_t *out)
{
    sqlite3_stmt *q;
    enum kvr_status st = KVR_OK;

    KVR_TRY(kvr_sql_prepare(s, &q, sql));
    if (sqlite3_step(q) == SQLITE_ROW)
        *out = sqlite3_column_int64(q, 0);
    else
        st = kvr_sql_fail(s->db, s->path, "merging");
    sqlite3_finalize(q);
    return st;
}

/* Validates the file before it is attached to an intact database. */
static enum kvr_status check_shard(const char *path, enum kvr_sql_form *form, bool *frozen)
{
    sqlite3 *db = NULL;
    enum kvr_status st = kvr_sql_open_readonly(&db, path, frozen);

    if (st == KVR_OK)
        st = kvr_sql_check_version(db, path, form, NULL);
    sqlite3_close(db);
    return st == KVR_OK ? kvr_store_check_intact(path) : st;
}

static enum kvr_status attach(struct kvr_store *s, const char *path)
{
    sqlite3_stmt *q;
    enum kvr_status st;

    KVR_TRY(kvr_sql_prepare(s, &q, "ATTACH ? AS shard"));
    kvr_sql_bind(q, "t", path);
    st = kvr_sql_step(s, q, "opening an input database");
    sqlite3_finalize(q);
    return st;
}

/* Databases of one version have identical table definitions. */
static enum kvr_status same_tables(struct kvr_store *s, const char *path)
{
    int64_t differ = 0;

    KVR_TRY(number(s,
                   "SELECT count(*) FROM (SELECT name, sql FROM main.sqlite_schema WHERE type = "
                   "'table' EXCEPT SELECT name, sql FROM shard.sqlite_schema)",
                   &differ));
    return differ ? kvr_fail(KVR_ESCHEMA,
                             "merge: %s: the definitions of %lld tables differ from those of this "
                             "kvreel version; use the kvreel version that wrote this database",
                             path, (long long)differ)
                  : KVR_OK;
}

/* Refuses a shard whose cells were timed on another GPU model than the cells of the output
 * database. */
static enum kvr_status same_card(struct kvr_store *s, const char *path)
{
    static const char sql[] = "WITH c AS (SELECT 1 AS here, spec FROM main.cell WHERE timing AND "
                              "outcome = 'OK' UNION ALL "
                              "SELECT 0, spec FROM shard.cell WHERE timing AND outcome = 'OK'), "
                              "d AS (SELECT DISTINCT here, json_extract(spec, '$.device') AS name "
                              "FROM c WHERE name IS NOT NULL) "
                              "SELECT a.name, b.name FROM d a JOIN d b ON a.here AND NOT b.here "
                              "AND a.name <> b.name LIMIT 1";
    const char *here = "", *there = "";
    enum kvr_status st = KVR_OK;
    sqlite3_stmt *q;

    if (s->any_card)
        return KVR_OK;
    KVR_TRY(kvr_sql_prepare(s, &q, sql));
    if (sqlite3_step(q) == SQLITE_ROW) {
        st = kvr_sql_text(q, 0, &here);
        if (st == KVR_OK)
            st = kvr_sql_text(q, 1, &there);
        if (st == KVR_OK)
            st = kvr_fail(
                KVR_EINVAL,
                "merge: %s: this database has cells timed on %s, but earlier inputs have "
                "cells timed on %s; merge databases of one GPU only, or allow several GPUs with "
                "--any-card",
                path, there, here);
    }
    if (sqlite3_finalize(q) != SQLITE_OK && st == KVR_OK)
        st = kvr_sql_fail(s->db, s->path, "merging");
    return st;
}

void kvr_store_any_card(struct kvr_store *s)
{
    s->any_card = true;
}

/* Compares the attempts at cells that both databases have. */
static enum kvr_status choose(struct kvr_store *s, struct kvr_merge *out)
{
    static const char better[] =
        "CREATE TEMP TABLE incoming AS SELECT b.key, a.key IS NOT NULL AS known FROM shard.cell b "
        "LEFT JOIN main.cell a ON a.key = b.key WHERE a.key IS NULL OR " RANK("b") " > " RANK("a");

    KVR_TRY(kvr_sql_exec(s, "DROP TABLE IF EXISTS temp.incoming", "merging"));
    KVR_TRY(kvr_sql_exec(s, better, "merging"));
    KVR_TRY(number(s, "SELECT count(*) FROM shard.cell", &out->cells));
    KVR_TRY(number(s, "SELECT count(*) FROM temp.incoming WHERE NOT known", &out->added));
    return number(s, "SELECT count(*) FROM temp.incoming WHERE known", &out->replaced);
}

/* Copies a table's stored columns; SQLite recomputes the generated columns. */
static enum kvr_status copy_table(struct kvr_store *s, const char *name, const char *cell_column)
{
    static const char list[] = "SELECT group_concat('\"' || name || '\"') FROM (SELECT name FROM "
                               "pragma_table_xinfo(?, 'main') WHERE hidden = 0 ORDER BY cid)";
    sqlite3_stmt *q;
    const char *columns;
    char *sql;
    enum kvr_status st;

    KVR_TRY(kvr_sql_prepare(s, &q, list));
    kvr_sql_bind(q, "t", name);
    columns = sqlite3_step(q) == SQLITE_ROW ? (const char *)sqlite3_column_text(q, 0) : NULL;
    if (!columns) {
        st = kvr_sql_fail(s->db, s->path, "reading a table's columns");
        sqlite3_finalize(q);
        return st;
    }
    sql = cell_column
              ? sqlite3_mprintf("INSERT INTO main.\"%w\"(%s) SELECT %s FROM shard.\"%w\" WHERE "
                                "\"%w\" IN (SELECT key FROM temp.incoming)",
                                name, columns, columns, name, cell_column)
              : sqlite3_mprintf("INSERT OR IGNORE INTO main.\"%w\"(%s) SELECT %s FROM shard.\"%w\"",
                                name, columns, columns, name);
    sqlite3_finalize(q);
    st = sql ? kvr_sql_exec(s, sql, "merging") : KVR_ENOMEM;
    sqlite3_free(sql);
    return st == KVR_ENOMEM ? kvr_fail(st, "merge: out of memory") : st;
}

/* Copies all tables except `session` and `cell`, which are copied first because other rows refer to
 * them. */
static enum kvr_status copy_others(struct kvr_store *s)
{
    static const char sql[] =
        "SELECT t.name, (SELECT f.\"from\" FROM pragma_foreign_key_list(t.name) f WHERE "
        "f.\"table\" = 'cell') FROM main.sqlite_schema t WHERE t.type = 'table' AND t.name NOT IN "
        "('session', 'cell', 'seal', 'running') AND t.name NOT LIKE 'sqlite_%'";
    const char *name, *column;
    sqlite3_stmt *q;
    enum kvr_status st = KVR_OK;

    KVR_TRY(kvr_sql_prepare(s, &q, sql));
    while (st == KVR_OK && sqlite3_step(q) == SQLITE_ROW) {
        st = kvr_sql_text(q, 0, &name);
        if (st == KVR_OK)
            st = kvr_sql_text(q, 1, &column);
        if (st == KVR_OK)
            st = copy_table(s, name, column);
    }
    if (sqlite3_finalize(q) != SQLITE_OK && st == KVR_OK)
        st = kvr_sql_fail(s->db, s->path, "merging");
    return st;
}

/* Marks a planned cell as 'enough' (not run, because the sweep's stop rule was met) if the shard
 * marks it so. A cell that is marked in any input is thus marked in the output, in any merge
 * order. */
static enum kvr_status join_plans(struct kvr_store *s)
{
    return kvr_sql_exec(s,
                        "UPDATE main.plan SET state = 'enough' WHERE state = 'planned' AND "
                        "(sweep, cell) IN (SELECT sweep, cell FROM shard.plan WHERE state = "
                        "'enough')",
                        "merging");
}

/* Visits the key of every cell, session and sweep of the shard. Before the copy, it verifies the
 * rows that the output database already has under this key; after the copy, it writes their
 * checksum. */
static enum kvr_status each_group(struct kvr_store *s, bool after)
{
    enum kvr_status st = KVR_OK;

    for (int w = 0; st == KVR_OK && w < KVR_N_CHECKSUMS; w++) {
        char sql[64];
        sqlite3_stmt *q;
        int rc = SQLITE_DONE;

        snprintf(sql, sizeof sql, "SELECT %s FROM shard.%s", kvr_checksum_tables[w][0][1],
                 kvr_checksum_tables[w][0][0]);
        st = kvr_sql_prepare(s, &q, sql);
        while (st == KVR_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) {
            const char *key;

            st = kvr_sql_text(q, 0, &key);
            if (st == KVR_OK)
                st = after ? kvr_checksum_write(s, (enum kvr_checksum_what)w, key)
                           : kvr_checksum_check(s, (enum kvr_checksum_what)w, key);
        }
        if (st == KVR_OK && rc != SQLITE_DONE)
            st = kvr_sql_fail(s->db, s->path, "merging");
        sqlite3_finalize(q);
    }
    return st;
}

static enum kvr_status copy_all(struct kvr_store *s, struct kvr_merge *out)
{
    KVR_TRY(each_group(s, false));
    KVR_TRY(choose(s, out));
    KVR_TRY(copy_table(s, "session", NULL));
    KVR_TRY(kvr_sql_exec(s,
                         "DELETE FROM main.cell WHERE key IN (SELECT key FROM temp.incoming WHERE "
                         "known)",
                         "merging"));
    KVR_TRY(copy_table(s, "cell", "key"));
    KVR_TRY(copy_others(s));
    KVR_TRY(join_plans(s));
    return each_group(s, true);
}

static enum kvr_status merge_attached(struct kvr_store *s, const char *shard, struct kvr_merge *out)
{
    enum kvr_status st = same_tables(s, shard);

    if (st == KVR_OK)
        st = same_card(s, shard);
    if (st == KVR_OK)
        st = kvr_sql_exec(s, "BEGIN IMMEDIATE", "merging");
    if (st == KVR_OK)
        st = copy_all(s, out);
    if (st == KVR_OK)
        st = kvr_sql_exec(s, "COMMIT", "merging");
    if (!sqlite3_get_autocommit(s->db))
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_exec(s->db, "DROP TABLE IF EXISTS temp.incoming", NULL, NULL, NULL);
    return st;
}

static enum kvr_status copy_file(const char *from, const char *to)
{
    sqlite3 *db = NULL;
    enum kvr_status st = kvr_sql_open_readonly(&db, from, NULL);

    if (st == KVR_OK)
        st = kvr_sql_copy_database(db, to);
    sqlite3_close(db);
    return st;
}

/* Merges a temporary copy of the shard, if the shard has an earlier schema version or cannot be
 * attached in place. The shard itself is unchanged. */
static enum kvr_status merge_copy(struct kvr_store *s, const char *shard, struct kvr_merge *out)
{
    char *path = sqlite3_mprintf("%s.shard-%lld", s->path, (long long)getpid());
    struct kvr_store *copy = NULL;
    enum kvr_status st =
        path ? copy_file(shard, path) : kvr_fail(KVR_ENOMEM, "merge: out of memory");

    if (st == KVR_OK)
        st = kvr_store_open(&copy, path);
    if (copy && copy->copy)
        remove(copy->copy);
    kvr_store_close(&copy);
    if (st == KVR_OK)
        st = attach(s, path);
    if (st == KVR_OK)
        st = merge_attached(s, shard, out);
    sqlite3_exec(s->db, "DETACH shard", NULL, NULL, NULL);
    if (path)
        kvr_store_remove(path);
    sqlite3_free(path);
    return st;
}

enum kvr_status kvr_store_merge(struct kvr_store *s, const char *shard, struct kvr_merge *out)
{
    enum kvr_sql_form form = KVR_FORM_EMPTY;
    bool frozen = false;
    enum kvr_status st;

    memset(out, 0, sizeof *out);
    KVR_TRY(check_shard(shard, &form, &frozen));
    if (form == KVR_FORM_OLDER || frozen)
        return merge_copy(s, shard, out);
    KVR_TRY(attach(s, shard));
    st = merge_attached(s, shard, out);
    sqlite3_exec(s->db, "DETACH shard", NULL, NULL, NULL);
    return st;
}

enum kvr_status kvr_store_conflicts(struct kvr_store *s, int64_t *n)
{
    return number(s, "SELECT count(*) FROM conflict", n);
}
