/* query.c - read-only queries. */
#include "harness/store/sql.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BUSY_MS = 10000 };

/* SQLite authorizer, called while a statement is prepared. It allows only reading: no writes, no
 * ATTACH, no pragma that sets a value. */
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
    case SQLITE_PRAGMA: /* allowed: no argument, or table_info(TABLE) etc. */
        return !b || (a && strncmp(a, "table_", 6) == 0) ? SQLITE_OK : SQLITE_DENY;
    default:
        return SQLITE_DENY;
    }
}

/* Path as a URI with reserved characters escaped. NULL: no memory. */
static char *frozen_uri(const char *path)
{
    sqlite3_str *uri = sqlite3_str_new(NULL);

    sqlite3_str_appendall(uri, "file:");
    for (; *path; path++)
        if (*path == '%' || *path == '?' || *path == '#')
            sqlite3_str_appendf(uri, "%%%02X", (unsigned char)*path);
        else
            sqlite3_str_appendchar(uri, 1, *path);
    sqlite3_str_appendall(uri, "?immutable=1");
    return sqlite3_str_finish(uri);
}

/* Whether the database has a write-ahead log (WAL) that is not empty. */
static enum kvr_status find_wal(const char *path, bool *there)
{
    char *name = sqlite3_mprintf("%s-wal", path);
    struct stat sb;

    if (!name)
        return kvr_fail(KVR_ENOMEM, "store: out of memory");
    *there = stat(name, &sb) == 0 && sb.st_size > 0;
    sqlite3_free(name);
    return KVR_OK;
}

/* A WAL database needs two more files even for reading. If SQLite cannot create them, the database
 * is opened as immutable, provided that its WAL is empty. */
static enum kvr_status open_frozen(sqlite3 **db, const char *path)
{
    bool has_wal = false;
    char *uri;
    int rc;

    sqlite3_close(*db);
    *db = NULL;
    KVR_TRY(find_wal(path, &has_wal));
    if (has_wal)
        return kvr_fail(KVR_EIO,
                        "store: %s: the folder is read-only, and %s-wal has rows that are not in "
                        "the database yet; copy both files to a writable folder",
                        path, path);
    uri = frozen_uri(path);
    if (!uri)
        return kvr_fail(KVR_ENOMEM, "store: out of memory");
    rc = sqlite3_open_v2(uri, db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI,
                         NULL);
    sqlite3_free(uri);
    return rc == SQLITE_OK ? KVR_OK : kvr_sql_fail(*db, path, "opening");
}

static enum kvr_status check_readable(sqlite3 *db, const char *path)
{
    enum kvr_sql_form form = KVR_FORM_EMPTY;

    KVR_TRY(kvr_sql_check_version(db, path, &form, NULL));
    if (form == KVR_FORM_EMPTY)
        return kvr_fail(KVR_ESCHEMA, "store: %s: the file is empty, not a kvreel database", path);
    return form == KVR_FORM_OLDER ? kvr_sql_read_older(db, path) : KVR_OK;
}

enum kvr_status kvr_sql_open_readonly(sqlite3 **db, const char *path, bool *frozen)
{
    enum kvr_status st = KVR_OK;
    struct stat sb;
    int rc;

    *db = NULL;
    if (frozen)
        *frozen = false;
    if (stat(path, &sb) == 0 && !S_ISREG(sb.st_mode)) /* SQLite would block on a FIFO */
        return kvr_fail(KVR_ESCHEMA, "store: %s: not a regular file, so it cannot be a database",
                        path);
    if (access(path, R_OK) != 0)
        return kvr_fail(errno == ENOENT ? KVR_ENOTFOUND : KVR_EIO,
                        "cannot read the database %s: %s", path, strerror(errno));
    rc = sqlite3_open_v2(path, db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc == SQLITE_OK) {
        sqlite3_busy_timeout(*db, BUSY_MS);
        rc = sqlite3_exec(*db, "SELECT 1 FROM sqlite_schema", NULL, NULL, NULL);
    }
    if (rc == SQLITE_CANTOPEN || rc == SQLITE_READONLY) {
        st = open_frozen(db, path);
        if (frozen)
            *frozen = st == KVR_OK;
    }
    if (st == KVR_OK)
        st = check_readable(*db, path);
    if (st == KVR_OK) /* a page cache of 131072 KiB reads faster than the default */
        sqlite3_exec(*db, "PRAGMA cache_size = -131072", NULL, NULL, NULL);
    if (st != KVR_OK) {
        sqlite3_close(*db);
        *db = NULL;
    }
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
            return kvr_fail(KVR_EINVAL,
                            "query: only statements that read are allowed, such as SELECT (%s)",
                            sqlite3_errmsg(db));
        if (sqlite3_errcode(db) == SQLITE_ERROR)
            return kvr_fail(KVR_EINVAL, "query: %s", sqlite3_errmsg(db));
        return kvr_sql_fail(db, path, "query");
    }
    if (!*q)
        return kvr_fail(KVR_EINVAL, "query: need an SQL statement, but the text has none");
    if (!sqlite3_stmt_readonly(*q))
        return kvr_fail(KVR_EINVAL,
                        "query: only statements that read are allowed, such as SELECT: '%.40s'",
                        skip_blank(sql));
    if (tail && *skip_blank(tail))
        return kvr_fail(KVR_EINVAL,
                        "query: only one statement is allowed; text after the first: '%.40s'",
                        skip_blank(tail));
    return KVR_OK;
}

static enum kvr_status read_value(sqlite3_stmt *q, int i, struct kvr_value *v)
{
    enum kvr_status st = KVR_OK;

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
        st = kvr_sql_text(q, i, &v->text);
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
    return st;
}

static enum kvr_status step_rows(sqlite3 *db, const char *path, sqlite3_stmt *q, kvr_row_fn *fn,
                                 void *ctx)
{
    int n = sqlite3_column_count(q), rc;
    struct kvr_value *row = calloc((size_t)n + 1, sizeof *row);
    const char **names = calloc((size_t)n + 1, sizeof *names);
    enum kvr_status st = KVR_OK;

    if (!row || !names) {
        st = kvr_fail(KVR_ENOMEM, "query: out of memory");
        goto end;
    }
    for (int i = 0; i < n && st == KVR_OK; i++) {
        names[i] = sqlite3_column_name(q, i);
        st = names[i] ? KVR_OK : kvr_fail(KVR_ENOMEM, "query: out of memory");
    }
    if (st != KVR_OK || fn(ctx, n, names, NULL))
        goto end;
    while ((rc = sqlite3_step(q)) == SQLITE_ROW) {
        for (int i = 0; i < n && st == KVR_OK; i++)
            st = read_value(q, i, &row[i]);
        if (st != KVR_OK || fn(ctx, n, names, row))
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

/* --- aggregate functions ------------------------------------------------------------------ */

struct numbers {
    double *x; /* from sqlite3_realloc64(), to count toward the memory limit */
    int n, capacity;
};

static void add_number(sqlite3_context *c, int n_args, sqlite3_value **arg)
{
    struct numbers *a = sqlite3_aggregate_context(c, sizeof *a);

    (void)n_args;
    if (a && a->n == a->capacity) {
        const int capacity = a->capacity ? 2 * a->capacity : 16;
        double *x = sqlite3_realloc64(a->x, (sqlite3_uint64)capacity * sizeof *x);

        if (x) {
            a->x = x;
            a->capacity = capacity;
        }
    }
    if (!a || a->n == a->capacity)
        sqlite3_result_error_nomem(c);
    else if (sqlite3_value_numeric_type(arg[0]) == SQLITE_INTEGER ||
             sqlite3_value_numeric_type(arg[0]) == SQLITE_FLOAT)
        a->x[a->n++] = sqlite3_value_double(arg[0]);
}

/* Computes the result of an aggregate function. SQLite also calls this after an error, to free the
 * memory. */
static void end_numbers(sqlite3_context *c)
{
    const struct kvr_query_function *f = sqlite3_user_data(c);
    struct numbers *a = sqlite3_aggregate_context(c, 0);
    const double y = a && a->n ? f->of(a->x, a->n) : NAN;

    if (a)
        sqlite3_free(a->x);
    if (isfinite(y))
        sqlite3_result_double(c, y);
    else
        sqlite3_result_null(c);
}

static enum kvr_status give_functions(sqlite3 *db, const char *path,
                                      const struct kvr_query_function *f)
{
    for (; f && f->name; f++)
        if (sqlite3_create_function_v2(db, f->name, 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC,
                                       (void *)(uintptr_t)f, NULL, add_number, end_numbers,
                                       NULL) != SQLITE_OK)
            return kvr_sql_fail(db, path, "query");
    return KVR_OK;
}

/* --- limits ------------------------------------------------------------------------------ */

struct deadline {
    struct timespec end;
    bool late;
};

static int is_late(void *ctx)
{
    struct deadline *w = ctx;
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    w->late = now.tv_sec > w->end.tv_sec ||
              (now.tv_sec == w->end.tv_sec && now.tv_nsec >= w->end.tv_nsec);
    return w->late;
}

static enum kvr_status explain(enum kvr_status st, const struct deadline *w,
                               const struct kvr_query_limits *limits)
{
    if (st != KVR_OK && w->late)
        return kvr_fail(KVR_EINVAL,
                        "query: not finished after %d s; raise this limit with --timeout",
                        limits->seconds);
    if (st == KVR_ENOMEM && limits->bytes)
        return kvr_fail(KVR_ENOMEM,
                        "query: the SQL statement needs more than the limit of %lld MiB of memory; "
                        "raise it with --memory",
                        (long long)(limits->bytes >> 20));
    return st;
}

enum kvr_status kvr_store_query_within(const char *path, const char *sql,
                                       const struct kvr_query_limits *limits, kvr_row_fn *fn,
                                       void *ctx)
{
    enum { STEPS = 10000 }; /* SQLite VM instructions between two checks of the time limit */
    struct deadline w = { 0 };
    sqlite3_int64 before = 0;
    sqlite3_stmt *q = NULL;
    sqlite3 *db;
    enum kvr_status st = kvr_sql_open_readonly(&db, path, NULL);

    if (st == KVR_OK)
        st = kvr_sql_create_views_where(db, path, limits->where);
    if (st == KVR_OK)
        st = give_functions(db, path, limits->functions);
    if (st == KVR_OK && limits->seconds > 0) {
        clock_gettime(CLOCK_MONOTONIC, &w.end);
        w.end.tv_sec += limits->seconds;
        sqlite3_progress_handler(db, STEPS, is_late, &w);
    }
    if (limits->bytes > 0)
        before = sqlite3_hard_heap_limit64(limits->bytes);
    if (st == KVR_OK) {
        sqlite3_set_authorizer(db, authorize, NULL);
        st = prepare(db, path, sql, &q);
    }
    if (st == KVR_OK)
        st = step_rows(db, path, q, fn, ctx);
    st = explain(st, &w, limits);
    sqlite3_finalize(q);
    sqlite3_close(db);
    if (limits->bytes > 0)
        sqlite3_hard_heap_limit64(before);
    return st;
}

enum kvr_status kvr_store_query(const char *path, const char *sql, kvr_row_fn *fn, void *ctx)
{
    static const struct kvr_query_limits none;

    return kvr_store_query_within(path, sql, &none, fn, ctx);
}

enum kvr_status kvr_store_condition(const char *path, const char *view, const char *where)
{
    const char *tail = NULL;
    sqlite3_stmt *q = NULL;
    sqlite3 *db;
    char *sql;
    int rc;
    enum kvr_status st = kvr_sql_open_readonly(&db, path, NULL);

    if (st == KVR_OK)
        st = kvr_sql_create_views_where(db, path, NULL);
    if (st == KVR_OK) {
        sql = sqlite3_mprintf("SELECT 1 FROM %s WHERE (%s\n)", view, where);
        rc = sql ? sqlite3_prepare_v2(db, sql, -1, &q, &tail) : SQLITE_NOMEM;
        if (rc == SQLITE_ERROR || (tail && *skip_blank(tail)))
            st = kvr_fail(KVR_EINVAL, "query: '%s' is not a valid SQL condition on the view %s: %s",
                          where, view,
                          rc == SQLITE_OK ? "the SQL statement is incomplete" : sqlite3_errmsg(db));
        else if (rc != SQLITE_OK)
            st = kvr_sql_fail(db, path, "query");
        sqlite3_free(sql);
    }
    sqlite3_finalize(q);
    sqlite3_close(db);
    return st;
}
