/* sql.c - thin helpers over SQLite. */
#include "harness/store/sql.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "harness/store/setting.h"
#include "harness/store/statement.h"

KVR_STATEMENT(cell);

static enum kvr_status status_of(sqlite3 *db)
{
    int rc = sqlite3_errcode(db);
    int os = sqlite3_system_errno(db) ? sqlite3_system_errno(db) : errno;

    switch (rc) {
    case SQLITE_OK: /* no SQLite error: sqlite3_mprintf() had no memory */
    case SQLITE_NOMEM:
        return KVR_ENOMEM;
    case SQLITE_FULL:
        return KVR_EFULL;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return KVR_EBUSY;
    case SQLITE_NOTADB:
        return KVR_ESCHEMA;
    case SQLITE_CORRUPT:
        return KVR_EFORMAT;
    case SQLITE_CONSTRAINT:
        return KVR_EINTERNAL;
    case SQLITE_IOERR: /* also a quota or file size limit */
        return os == ENOSPC || os == EDQUOT || os == EFBIG ? KVR_EFULL : KVR_EIO;
    default:
        return KVR_EIO;
    }
}

enum kvr_status kvr_sql_fail(sqlite3 *db, const char *path, const char *what)
{
    enum kvr_status st = db ? status_of(db) : KVR_ENOMEM;

    if (st == KVR_EFULL)
        return kvr_fail(st, "store: %s: %s: no space left on the disk (%s)", path, what,
                        sqlite3_errmsg(db));
    if (st == KVR_EBUSY)
        return kvr_fail(st,
                        "store: %s: %s: another process is writing to this database; try again "
                        "when that process has ended",
                        path, what);
    if (st == KVR_ESCHEMA)
        return kvr_fail(st, "store: %s: not a kvreel database (not even an SQLite file)", path);
    if (st == KVR_ENOMEM) /* sqlite3_errmsg() may describe a later failure */
        return kvr_fail(st, "store: %s: %s: out of memory", path, what);
    return kvr_fail(st, "store: %s: %s: %s", path, what, sqlite3_errmsg(db));
}

static enum kvr_status pragma_int(sqlite3 *db, const char *path, const char *sql, int64_t *out)
{
    sqlite3_stmt *q = NULL;

    if (sqlite3_prepare_v2(db, sql, -1, &q, NULL) != SQLITE_OK)
        return kvr_sql_fail(db, path, "reading");
    if (sqlite3_step(q) != SQLITE_ROW) {
        sqlite3_finalize(q);
        return kvr_sql_fail(db, path, "reading");
    }
    *out = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    return KVR_OK;
}

/* Whether the definition of table `cell` in the database is exactly this program's. */
static enum kvr_status same_cells(sqlite3 *db, const char *path, bool *same)
{
    char *columns = kvr_settings_sql(kvr_statement_cell);
    char *sql = columns ? sqlite3_mprintf("SELECT count(*) FROM main.sqlite_schema WHERE name = "
                                          "'cell' AND sql = 'CREATE TABLE cell' || %Q",
                                          columns)
                        : NULL;
    int64_t n = 0;
    enum kvr_status st =
        sql ? pragma_int(db, path, sql, &n) : kvr_fail(KVR_ENOMEM, "store: out of memory");

    sqlite3_free(sql);
    free(columns);
    *same = n == 1;
    return st;
}

/* Refuses a database with a generated column that is not a setting of this program. A later kvreel
 * wrote it, and this program would average over cells whose values of that setting differ. */
static enum kvr_status refuse_unknown(sqlite3 *db, const char *path)
{
    static const char sql[] = "SELECT name FROM pragma_table_xinfo('cell', 'main') WHERE hidden IN "
                              "(2, 3) AND name NOT IN ('run', 'made_of')";
    sqlite3_stmt *q = NULL;
    enum kvr_status st = KVR_OK;

    if (sqlite3_prepare_v2(db, sql, -1, &q, NULL) != SQLITE_OK)
        return kvr_sql_fail(db, path, "reading");
    while (st == KVR_OK && sqlite3_step(q) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(q, 0);
        bool known = false;

        for (int i = 0; name && i < KVR_N_SETTINGS; i++)
            known = known ||
                    (kvr_setting_rows[i].column && strcmp(kvr_setting_rows[i].column, name) == 0);
        if (!name)
            st = kvr_sql_fail(db, path, "reading");
        else if (!known)
            st = kvr_fail(KVR_ESCHEMA,
                          "store: %s: cells have the setting '%s', which this version of kvreel "
                          "does not know; use a later version",
                          path, name);
    }
    if (sqlite3_finalize(q) != SQLITE_OK && st == KVR_OK)
        st = kvr_sql_fail(db, path, "reading");
    return st;
}

enum kvr_status kvr_sql_check_version(sqlite3 *db, const char *path, enum kvr_sql_form *form,
                                      int64_t *out)
{
    int64_t app = 0, version = 0, n_tables = 0;
    bool same = false;
    enum kvr_status st;

    /* A savepoint gives a consistent view while another process creates the tables. */
    if (sqlite3_exec(db, "SAVEPOINT form", NULL, NULL, NULL) != SQLITE_OK)
        return kvr_sql_fail(db, path, "reading");
    st = pragma_int(db, path, "PRAGMA application_id", &app);
    if (st == KVR_OK)
        st = pragma_int(db, path, "PRAGMA user_version", &version);
    if (st == KVR_OK)
        st = pragma_int(db, path, "SELECT count(*) FROM sqlite_schema", &n_tables);
    if (sqlite3_exec(db, "RELEASE form", NULL, NULL, NULL) != SQLITE_OK && st == KVR_OK)
        st = kvr_sql_fail(db, path, "reading");
    KVR_TRY(st);
    *form = KVR_FORM_EMPTY;
    if (out)
        *out = version;
    if (app == 0 && version == 0 && n_tables == 0)
        return KVR_OK;
    if (app != KVR_STORE_APP_ID)
        return kvr_fail(KVR_ESCHEMA,
                        "store: %s: the file is an SQLite database, but not a kvreel database",
                        path);
    if (version < KVR_STORE_OLDEST || version > KVR_STORE_VERSION)
        return kvr_fail(KVR_ESCHEMA,
                        "store: %s: the schema version is %lld, but this kvreel reads %d to %d; "
                        "use another file, or the kvreel version that wrote it",
                        path, (long long)version, KVR_STORE_OLDEST, KVR_STORE_VERSION);
    KVR_TRY(same_cells(db, path, &same));
    *form = same && version == KVR_STORE_VERSION ? KVR_FORM_OURS : KVR_FORM_OLDER;
    return *form == KVR_FORM_OURS ? KVR_OK : refuse_unknown(db, path);
}

/* Checks the condition `where` in the definition of the view cells_wide by preparing a query of the
 * view: SQLite resolves the column names of the definition only in a query. */
static enum kvr_status check_where(sqlite3 *db, const char *where)
{
    sqlite3_stmt *q = NULL;
    const int rc = sqlite3_prepare_v2(db, "SELECT 1 FROM cells_wide", -1, &q, NULL);

    sqlite3_finalize(q);
    return rc == SQLITE_OK
               ? KVR_OK
               : kvr_fail(KVR_EINVAL,
                          "query: '%s' is not a valid SQL condition on the view cells_wide: %s",
                          where, sqlite3_errmsg(db));
}

static enum kvr_status create_views(sqlite3 *db, const char *path, bool temp, const char *where)
{
    for (const struct kvr_store_view *v = kvr_store_views; v->name; v++) {
        const bool some = where && strcmp(v->name, "cells_wide") == 0;
        char *as = kvr_settings_sql(v->as);
        char *sql =
            !as    ? NULL
            : some ? sqlite3_mprintf("CREATE TEMP VIEW %s AS SELECT * FROM (%s\n) WHERE (%s\n)",
                                     v->name, as, where)
                   : sqlite3_mprintf("CREATE %s VIEW %s AS %s", temp ? "TEMP" : "", v->name, as);
        sqlite3_stmt *q = NULL;
        const char *tail = NULL;
        /* Only one statement is prepared; further text in `tail` is an error. */
        const int rc = sql ? sqlite3_prepare_v2(db, sql, -1, &q, &tail) : SQLITE_NOMEM;
        enum kvr_status st = KVR_OK;

        if (some && (rc == SQLITE_ERROR || (tail && *tail)))
            st = kvr_fail(
                KVR_EINVAL, "query: '%s' is not a valid SQL condition on the view cells_wide: %s",
                where, rc == SQLITE_OK ? "the SQL statement is incomplete" : sqlite3_errmsg(db));
        else if (rc != SQLITE_OK || sqlite3_step(q) != SQLITE_DONE)
            st = kvr_sql_fail(db, path, "creating the views");
        sqlite3_finalize(q);
        sqlite3_free(sql);
        free(as);
        KVR_TRY(st);
    }
    return where ? check_where(db, where) : KVR_OK;
}

enum kvr_status kvr_sql_create_views(sqlite3 *db, const char *path, bool for_this_connection)
{
    return create_views(db, path, for_this_connection, NULL);
}

enum kvr_status kvr_sql_create_views_where(sqlite3 *db, const char *path, const char *where)
{
    return create_views(db, path, true, where);
}

enum kvr_status kvr_sql_exec(struct kvr_store *s, const char *sql, const char *what)
{
    if (sqlite3_exec(s->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        return kvr_sql_fail(s->db, s->path, what);
    return KVR_OK;
}

enum kvr_status kvr_sql_end(struct kvr_store *s, enum kvr_status st, const char *what)
{
    if (st == KVR_OK)
        st = kvr_sql_exec(s, "COMMIT", what);
    if (st != KVR_OK && !sqlite3_get_autocommit(s->db)) /* SQLite has not rolled back */
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return st;
}

enum kvr_status kvr_sql_prepare(struct kvr_store *s, sqlite3_stmt **out, const char *sql)
{
    if (sqlite3_prepare_v2(s->db, sql, -1, out, NULL) != SQLITE_OK)
        return kvr_sql_fail(s->db, s->path, "preparing a statement");
    return KVR_OK;
}

void kvr_sql_bind(sqlite3_stmt *q, const char *types, ...)
{
    va_list ap;

    va_start(ap, types);
    for (int i = 1; *types; i++, types++) {
        double d;

        switch (*types) {
        case 't':
            sqlite3_bind_text(q, i, va_arg(ap, const char *), -1, SQLITE_STATIC);
            break;
        case 'i':
            sqlite3_bind_int64(q, i, va_arg(ap, int64_t));
            break;
        case 'x':
            (void)va_arg(ap, int64_t);
            sqlite3_bind_null(q, i);
            break;
        case 'd':
            d = va_arg(ap, double);
            if (isnan(d))
                sqlite3_bind_null(q, i);
            else
                sqlite3_bind_double(q, i, d);
            break;
        default:
            sqlite3_bind_null(q, i);
        }
    }
    va_end(ap);
}

enum kvr_status kvr_sql_text(sqlite3_stmt *q, int column, const char **out)
{
    const bool some = sqlite3_column_type(q, column) != SQLITE_NULL; /* NULL after a failure */

    *out = (const char *)sqlite3_column_text(q, column);
    return some && !*out ? kvr_fail(KVR_ENOMEM, "store: out of memory") : KVR_OK;
}

enum kvr_status kvr_sql_step(struct kvr_store *s, sqlite3_stmt *q, const char *what)
{
    enum kvr_status st = KVR_OK;

    if (sqlite3_step(q) != SQLITE_DONE)
        st = kvr_sql_fail(s->db, s->path, what);
    sqlite3_reset(q);
    sqlite3_clear_bindings(q);
    return st;
}
