/* migrate.c - rebuilds the table `cell` if its columns differ from this program's, and creates
 * missing tables.
 *
 * Version 3 stored each setting in a column. Since version 4 the columns are generated from the
 * cell's spec. Version 5 added tables and the column `time_codes`, which is unknown for older
 * cells. It also added the outcome EXCLUDED, for cells that the config excludes (SKIPPED before).
 * Version 6 added the checksums of cells and sessions. Version 7 added those of plans and dropped
 * the unused table `metric_about`. Version 8 added the number of bits of blocks whose size depends
 * on the data; it is unknown for older cells. */
#include "harness/store/sql.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/path.h"
#include "harness/store/checksum.h"
#include "harness/store/setting.h"
#include "harness/store/statement.h"

KVR_STATEMENT(cell);

/* Copies a database's committed content, including transactions that are still in its write-ahead
 * log (WAL). */
enum kvr_status kvr_sql_copy_database(sqlite3 *from, const char *to_path)
{
    sqlite3 *to = NULL;
    sqlite3_backup *b = NULL;
    enum kvr_status st = KVR_OK;

    if (sqlite3_open_v2(to_path, &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) !=
            SQLITE_OK ||
        !(b = sqlite3_backup_init(to, "main", from, "main")) ||
        sqlite3_backup_step(b, -1) != SQLITE_DONE)
        st = kvr_sql_fail(to, to_path, "copying the database before it is changed");
    if (b && sqlite3_backup_finish(b) != SQLITE_OK && st == KVR_OK)
        st = kvr_sql_fail(to, to_path, "copying the database before it is changed");
    sqlite3_close(to);
    if (st != KVR_OK)
        remove(to_path);
    return st;
}

/* Name for the backup of a.db: "a.db.schema3" for schema version 3, with a number appended if that
 * file exists. */
static char *free_name(const char *path, int64_t version)
{
    char *name = sqlite3_mprintf("%s.schema%lld", path, version), *copy;

    for (int i = 2; name && kvr_path_exists(name); i++) {
        sqlite3_free(name);
        name = sqlite3_mprintf("%s.schema%lld-%d", path, version, i);
    }
    copy = name ? strdup(name) : NULL;
    sqlite3_free(name);
    return copy;
}

enum kvr_status kvr_sql_create_cell(sqlite3 *db, const char *path, const char *schema)
{
    char *columns = kvr_settings_sql(kvr_statement_cell);
    char *sql = columns ? sqlite3_mprintf("CREATE TABLE %s%s", schema, columns) : NULL;
    int rc = sql ? sqlite3_exec(db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;

    sqlite3_free(sql);
    free(columns);
    return rc == SQLITE_OK ? KVR_OK : kvr_sql_fail(db, path, "creating the table of cells");
}

static enum kvr_status has_table(sqlite3 *db, const char *path, const char *name, bool *yes)
{
    sqlite3_stmt *q = NULL;
    int rc = sqlite3_prepare_v2(
        db, "SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = ?", -1, &q, NULL);

    if (rc == SQLITE_OK) {
        kvr_sql_bind(q, "t", name);
        *yes = sqlite3_step(q) == SQLITE_ROW;
        rc = sqlite3_finalize(q);
    }
    return rc == SQLITE_OK ? KVR_OK : kvr_sql_fail(db, path, "looking for a table");
}

enum kvr_status kvr_sql_create_since_5(sqlite3 *db, const char *path, const char *schema)
{
    for (int i = 0; kvr_store_since_5[i][0]; i++) {
        bool there = false;
        char *sql;
        int rc;

        KVR_TRY(has_table(db, path, kvr_store_since_5[i][0], &there));
        if (there)
            continue;
        sql = sqlite3_mprintf("CREATE TABLE %s%s%s", schema, kvr_store_since_5[i][0],
                              kvr_store_since_5[i][1]);
        rc = sql ? sqlite3_exec(db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
        sqlite3_free(sql);
        if (rc != SQLITE_OK)
            return kvr_sql_fail(db, path, "creating the tables");
    }
    return KVR_OK;
}

enum kvr_status kvr_sql_create_cell_indexes(sqlite3 *db, const char *path, const char *schema)
{
    for (int i = 0; kvr_store_cell_index[i][0]; i++) {
        char *sql = sqlite3_mprintf("CREATE INDEX %s%s ON %s", schema, kvr_store_cell_index[i][0],
                                    kvr_store_cell_index[i][1]);
        const int rc = sql ? sqlite3_exec(db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;

        sqlite3_free(sql);
        if (rc != SQLITE_OK)
            return kvr_sql_fail(db, path, "indexing the cells");
    }
    return KVR_OK;
}

/* Sets the outcome EXCLUDED for cells that the config excludes. Up to version 4 their outcome was
 * SKIPPED, like that of cells whose baseline failed. */
static enum kvr_status say_excluded(sqlite3 *db, const char *path, const char *schema)
{
    char *sql = sqlite3_mprintf("UPDATE %s.cell SET outcome = 'EXCLUDED', verdict_codes = "
                                "'EXCLUDED' WHERE outcome = 'SKIPPED' AND reason LIKE "
                                "'excluded: %%'",
                                schema);
    const int rc = sql ? sqlite3_exec(db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;

    sqlite3_free(sql);
    return rc == SQLITE_OK ? KVR_OK : kvr_sql_fail(db, path, "migrating the excluded cells");
}

/* Copies the stored columns of `cell` that both the old and the new table have. */
enum kvr_status kvr_sql_copy_cells(sqlite3 *db, const char *path, const char *from_schema,
                                   const char *from, const char *to_schema)
{
    static const char common[] =
        "SELECT group_concat(name, ', ') FROM (SELECT name FROM pragma_table_xinfo('cell', ?1) "
        "WHERE hidden = 0 AND name IN (SELECT name FROM pragma_table_xinfo(?3, ?2)) ORDER BY cid)";
    sqlite3_stmt *q = NULL;
    char *sql = NULL;
    enum kvr_status st = KVR_OK;

    if (sqlite3_prepare_v2(db, common, -1, &q, NULL) != SQLITE_OK)
        return kvr_sql_fail(db, path, "reading the columns of cells");
    kvr_sql_bind(q, "ttt", to_schema, from_schema, from);
    if (sqlite3_step(q) == SQLITE_ROW) {
        const char *columns;

        if (kvr_sql_text(q, 0, &columns) == KVR_OK)
            sql = sqlite3_mprintf("INSERT INTO %s.cell(%s) SELECT %s FROM %s.%s", to_schema,
                                  columns, columns, from_schema, from);
    }
    sqlite3_finalize(q);
    if (!sql)
        st = kvr_fail(KVR_ENOMEM, "store: out of memory");
    else if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        st = kvr_sql_fail(db, path, "migrating the cells of an earlier schema version");
    sqlite3_free(sql);
    return st == KVR_OK ? say_excluded(db, path, to_schema) : st;
}

static enum kvr_status drop_views(struct kvr_store *s)
{
    static const char list[] =
        "SELECT group_concat('DROP VIEW \"' || name || '\"', ';') FROM sqlite_schema WHERE type = "
        "'view'";
    const char *text = NULL;
    sqlite3_stmt *q;
    char *sql = NULL;
    enum kvr_status st = KVR_OK;

    KVR_TRY(kvr_sql_prepare(s, &q, list));
    if (sqlite3_step(q) == SQLITE_ROW)
        st = kvr_sql_text(q, 0, &text);
    if (text && !(sql = sqlite3_mprintf("%s", text)))
        st = kvr_fail(KVR_ENOMEM, "store: out of memory");
    if (sqlite3_finalize(q) != SQLITE_OK && st == KVR_OK)
        st = kvr_sql_fail(s->db, s->path, "listing the views");
    if (st == KVR_OK && sql)
        st = kvr_sql_exec(s, sql, "dropping the views");
    sqlite3_free(sql);
    return st;
}

static enum kvr_status rebuild(struct kvr_store *s, int64_t from)
{
    bool sealed = false;
    char version[64];

    KVR_TRY(has_table(s->db, s->path, "seal", &sealed));
    KVR_TRY(drop_views(s));
    KVR_TRY(kvr_sql_exec(s, "ALTER TABLE cell RENAME TO cell_before",
                         "migrating the table `cell` to this version"));
    KVR_TRY(kvr_sql_create_cell(s->db, s->path, "cell"));
    KVR_TRY(kvr_sql_copy_cells(s->db, s->path, "main", "cell_before", "main"));
    KVR_TRY(kvr_sql_exec(s,
                         "UPDATE attempt SET outcome = 'EXCLUDED' WHERE outcome = 'SKIPPED' AND "
                         "reason LIKE 'excluded: %'",
                         "migrating the excluded cells"));
    KVR_TRY(kvr_sql_exec(s, "DROP TABLE cell_before; DROP TABLE IF EXISTS metric_about",
                         "migrating the table `cell` to this version"));
    if (sealed)
        KVR_TRY(kvr_sql_exec(s, "ALTER TABLE seal RENAME TO seal_before",
                             "migrating the table of checksums"));
    KVR_TRY(kvr_sql_create_since_5(s->db, s->path, ""));
    /* Existing checksums are kept, so that damage stays visible. */
    if (sealed)
        KVR_TRY(kvr_sql_exec(s,
                             "INSERT INTO seal(what, key, sha256) SELECT what, key, sha256 FROM "
                             "seal_before; DROP TABLE seal_before",
                             "migrating the table of checksums"));
    KVR_TRY(kvr_sql_create_cell_indexes(s->db, s->path, ""));
    KVR_TRY(kvr_sql_create_views(s->db, s->path, false));
    KVR_TRY(kvr_checksum_add_missing(s, from));
    sqlite3_snprintf(sizeof version, version, "PRAGMA user_version = %d", KVR_STORE_VERSION);
    return kvr_sql_exec(s, version, "migrating the table `cell` to this version");
}

/* Migrates the tables from schema `version`. With legacy_alter_table, renaming `cell` does not
 * change the references from other tables. */
enum kvr_status kvr_sql_migrate(struct kvr_store *s, int64_t version)
{
    enum kvr_status st;

    s->copy = free_name(s->path, version);
    if (!s->copy)
        return kvr_fail(KVR_ENOMEM, "store: out of memory");
    KVR_TRY(kvr_sql_copy_database(s->db, s->copy));
    KVR_TRY(kvr_sql_exec(s, "PRAGMA foreign_keys = OFF; PRAGMA legacy_alter_table = ON",
                         "migrating the database"));
    st = kvr_sql_exec(s, "BEGIN IMMEDIATE", "migrating the table `cell` to this version");
    if (st == KVR_OK)
        st = rebuild(s, version);
    if (st == KVR_OK)
        st = kvr_sql_exec(s, "COMMIT", "migrating the table `cell` to this version");
    if (!sqlite3_get_autocommit(s->db))
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    if (st != KVR_OK)
        remove(s->copy);
    KVR_TRY(st);
    return kvr_sql_exec(s, "PRAGMA foreign_keys = ON; PRAGMA legacy_alter_table = OFF",
                        "migrating the database");
}

enum kvr_status kvr_sql_read_older(sqlite3 *db, const char *path)
{
    KVR_TRY(kvr_sql_create_cell(db, path, "temp.cell"));
    KVR_TRY(kvr_sql_copy_cells(db, path, "main", "cell", "temp"));
    KVR_TRY(kvr_sql_create_since_5(db, path, "temp."));
    return kvr_sql_create_cell_indexes(db, path, "temp.");
}
