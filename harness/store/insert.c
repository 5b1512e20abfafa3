/* insert.c - see insert.h. */
#include "harness/store/insert.h"

#include "harness/store/sql.h"

/* Builds "INSERT INTO mem(cell, tag, ...) VALUES(?1, ?2, ...)" for a table; the caller frees it
 * with sqlite3_free(). NULL: out of memory. */
static char *statement(const char *table, const struct kvr_part *parts, int n_parts)
{
    sqlite3_str *columns = sqlite3_str_new(NULL), *values = sqlite3_str_new(NULL);
    char *c, *v, *sql = NULL;
    int n = 0;

    for (int i = 0; i < n_parts; i++)
        for (const struct kvr_field *f = kvr_fields; f->column; f++)
            if (f->record == parts[i].id) {
                sqlite3_str_appendf(columns, "%s%s", n ? ", " : "", f->column);
                sqlite3_str_appendf(values, "%s?%d", n ? ", " : "", n + 1);
                n++;
            }
    c = sqlite3_str_finish(columns);
    v = sqlite3_str_finish(values);
    if (c && v)
        sql = sqlite3_mprintf("INSERT INTO %s(%s) VALUES(%s)", table, c, v);
    sqlite3_free(c);
    sqlite3_free(v);
    return sql;
}

static void bind(sqlite3_stmt *q, int at, const struct kvr_value *v)
{
    switch (v->type) {
    case KVR_VALUE_TEXT:
        sqlite3_bind_text(q, at, v->text, v->n_bytes, SQLITE_STATIC);
        break;
    case KVR_VALUE_INT:
        sqlite3_bind_int64(q, at, v->i);
        break;
    case KVR_VALUE_REAL:
        sqlite3_bind_double(q, at, v->r);
        break;
    default:
        sqlite3_bind_null(q, at);
    }
}

static void bind_parts(sqlite3_stmt *q, const struct kvr_part *parts, int n_parts, size_t moved)
{
    int at = 0;

    for (int i = 0; i < n_parts; i++) {
        const char *item = parts[i].item;

        if (i == n_parts - 1)
            item += moved;
        for (const struct kvr_field *f = kvr_fields; f->column; f++)
            if (f->record == parts[i].id) {
                const struct kvr_value v = kvr_field_value(f, item);

                bind(q, ++at, &v);
            }
    }
}

enum kvr_status kvr_insert_counted(struct kvr_store *s, const char *table,
                                   const struct kvr_part *parts, int n_parts, size_t step, int n,
                                   int *nth, const char *what)
{
    char *sql = n > 0 ? statement(table, parts, n_parts) : NULL;
    sqlite3_stmt *q;
    enum kvr_status st;

    if (n <= 0)
        return KVR_OK;
    if (!sql)
        return kvr_fail(KVR_ENOMEM, "store: out of memory");
    st = kvr_sql_prepare(s, &q, sql);
    sqlite3_free(sql);
    KVR_TRY(st);
    for (int i = 0; st == KVR_OK && i < n; i++) {
        *nth = i;
        bind_parts(q, parts, n_parts, step * (size_t)i);
        st = kvr_sql_step(s, q, what);
    }
    sqlite3_finalize(q);
    return st;
}

enum kvr_status kvr_insert(struct kvr_store *s, const char *table, const struct kvr_part *parts,
                           int n_parts, size_t step, int n, const char *what)
{
    int nth;

    return kvr_insert_counted(s, table, parts, n_parts, step, n, &nth, what);
}
