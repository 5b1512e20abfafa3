/* query.c - reading, and nothing but reading. */
#include "harness/store/sql.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUSY_MS = 10000 };

/* What a reading statement may do. Everything else - writing, ATTACH, PRAGMA that sets - is
 * refused when the statement is prepared. */
static int authorize(void *ctx, int action, const char *a, const char *b, const char *c,
                     const char *d)
{
    (void)ctx, (void)a, (void)c, (void)d;
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_FUNCTION:
        return b && strcmp(b, "load_extension") == 0 ? SQLITE_DENY : SQLITE_OK;
    case SQLITE_PRAGMA: /* reading ones: no argument, or a table's name */
        return !b || (a && strncmp(a, "table_", 6) == 0) ? SQLITE_OK : SQLITE_DENY;
    default:
        return SQLITE_DENY;
    }
}

static enum kvr_status open_readonly(sqlite3 **db, const char *path)
{
    enum kvr_sql_form form = KVR_FORM_EMPTY;
    enum kvr_status st;

    *db = NULL;
    if (access(path, R_OK) != 0)
        return kvr_fail(errno == ENOENT ? KVR_ENOTFOUND : KVR_EIO, "no database at %s: %s", path,
                        strerror(errno));
    if (sqlite3_open_v2(path, db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        return kvr_sql_fail(*db, path, "opening");
    sqlite3_busy_timeout(*db, BUSY_MS);
    st = kvr_sql_check_version(*db, path, &form, NULL);
    if (st == KVR_OK && form == KVR_FORM_EMPTY)
        st = kvr_fail(KVR_ESCHEMA, "store: %s: empty, not a kvreel database", path);
    if (st == KVR_OK && form == KVR_FORM_OLDER)
        st = kvr_sql_read_older(*db, path);
    if (st == KVR_OK)
        st = kvr_sql_create_views(*db, path, true);
    return st;
}

static const char *skip_blank(const char *s)
{
    while (isspace((unsigned char)*s) || *s == ';')
        s++;
    return s;
}

static enum kvr_status prepare(sqlite3 *db, const char *path, const char *sql, sqlite3_stmt **q)
{
    const char *tail = NULL;

    if (sqlite3_prepare_v2(db, sql, -1, q, &tail) != SQLITE_OK) {
        if (sqlite3_errcode(db) == SQLITE_AUTH)
            return kvr_fail(KVR_EINVAL, "query: only reading statements are allowed (%s)",
                            sqlite3_errmsg(db));
        if (sqlite3_errcode(db) == SQLITE_ERROR)
            return kvr_fail(KVR_EINVAL, "query: %s", sqlite3_errmsg(db));
        return kvr_sql_fail(db, path, "query");
    }
    if (!*q)
        return kvr_fail(KVR_EINVAL, "query: no statement");
    if (!sqlite3_stmt_readonly(*q))
        return kvr_fail(KVR_EINVAL, "query: only reading statements are allowed");
    if (tail && *skip_blank(tail))
        return kvr_fail(KVR_EINVAL, "query: one statement at a time; what follows it: '%.40s'",
                        skip_blank(tail));
    return KVR_OK;
}

static void read_value(sqlite3_stmt *q, int i, struct kvr_value *v)
{
    memset(v, 0, sizeof *v);
    switch (sqlite3_column_type(q, i)) {
    case SQLITE_INTEGER:
        v->type = KVR_VALUE_INT;
        v->i = sqlite3_column_int64(q, i);
        v->r = (double)v->i;
        break;
    case SQLITE_FLOAT:
        v->type = KVR_VALUE_REAL;
        v->r = sqlite3_column_double(q, i);
        break;
    case SQLITE_TEXT:
        v->type = KVR_VALUE_TEXT;
        v->text = (const char *)sqlite3_column_text(q, i);
        v->n_bytes = sqlite3_column_bytes(q, i);
        break;
    case SQLITE_BLOB:
        v->type = KVR_VALUE_BLOB;
        v->text = sqlite3_column_blob(q, i);
        v->n_bytes = sqlite3_column_bytes(q, i);
        break;
    default:
        v->type = KVR_VALUE_NULL;
    }
}

static enum kvr_status walk(sqlite3 *db, const char *path, sqlite3_stmt *q, kvr_row_fn *fn,
                            void *ctx)
{
    int n = sqlite3_column_count(q), rc;
    struct kvr_value *row = calloc((size_t)n + 1, sizeof *row);
    const char **names = calloc((size_t)n + 1, sizeof *names);
    enum kvr_status st = KVR_OK;

    if (!row || !names) {
        st = kvr_fail(KVR_ENOMEM, "query: no memory");
        goto end;
    }
    for (int i = 0; i < n; i++)
        names[i] = sqlite3_column_name(q, i);
    if (fn(ctx, n, names, NULL))
        goto end;
    while ((rc = sqlite3_step(q)) == SQLITE_ROW) {
        for (int i = 0; i < n; i++)
            read_value(q, i, &row[i]);
        if (fn(ctx, n, names, row))
            goto end;
    }
    if (rc != SQLITE_DONE)
        st = sqlite3_errcode(db) == SQLITE_ERROR
                 ? kvr_fail(KVR_EINVAL, "query: %s", sqlite3_errmsg(db))
                 : kvr_sql_fail(db, path, "query");
end:
    free(row);
    free(names);
    return st;
}

enum kvr_status kvr_store_query(const char *path, const char *sql, kvr_row_fn *fn, void *ctx)
{
    sqlite3 *db;
    sqlite3_stmt *q = NULL;
    enum kvr_status st = open_readonly(&db, path);

    if (st == KVR_OK) {
        sqlite3_set_authorizer(db, authorize, NULL);
        st = prepare(db, path, sql, &q);
    }
    if (st == KVR_OK)
        st = walk(db, path, q, fn, ctx);
    sqlite3_finalize(q);
    sqlite3_close(db);
    return st;
}
