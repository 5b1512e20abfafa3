/* table.c - stores rows. table_write.c writes them as text. */
#include "harness/report/table/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/join.h"
#include "harness/report/table/functions.h"
#include "harness/store/setting.h"
#include "harness/store/statement.h"

static void free_column(struct kvr_column *c)
{
    free((char *)(uintptr_t)c->name);
    free((char *)(uintptr_t)c->head);
    free((char *)(uintptr_t)c->unit);
}

static char *copy(const char *s)
{
    return s ? strdup(s) : NULL;
}

/* Copies a column's description and the strings that it points to. If memory runs out, the function
 * returns false, and `to` owns the strings copied so far. */
static bool copy_column(struct kvr_column *to, const struct kvr_column *from)
{
    *to = *from;
    to->name = copy(from->name);
    to->head = copy(from->head);
    to->unit = copy(from->unit);
    return to->name && (to->head || !from->head) && (to->unit || !from->unit);
}

enum kvr_status kvr_table_open(struct kvr_table **out, int n_columns,
                               const struct kvr_column *columns)
{
    struct kvr_table *t = calloc(1, sizeof *t);

    *out = NULL;
    if (!t)
        return kvr_fail(KVR_ENOMEM, "table: out of memory");
    t->n_columns = n_columns;
    t->column = calloc((size_t)n_columns + 1, sizeof *t->column);
    for (int i = 0; i < n_columns; i++) {
        if (!t->column || !copy_column(&t->column[i], &columns[i])) {
            kvr_table_close(&t);
            return kvr_fail(KVR_ENOMEM, "table: out of memory while allocating %d columns",
                            n_columns);
        }
    }
    *out = t;
    return KVR_OK;
}

void kvr_table_close(struct kvr_table **pt)
{
    struct kvr_table *t = *pt;

    if (!t)
        return;
    for (int i = 0; i < t->n_rows * t->n_columns; i++)
        free((char *)(uintptr_t)t->cell[i].text);
    for (int i = 0; t->column && i < t->n_columns; i++)
        free_column(&t->column[i]);
    free(t->cell);
    free(t->column);
    free(t->title);
    free(t->note);
    free(t);
    *pt = NULL;
}

static enum kvr_status grow(struct kvr_table *t)
{
    int capacity = t->capacity ? 2 * t->capacity : 16;
    struct kvr_value *p =
        realloc(t->cell, (size_t)capacity * (size_t)(t->n_columns + 1) * sizeof *t->cell);

    if (!p)
        return kvr_fail(KVR_ENOMEM, "table: out of memory while allocating %d rows", capacity);
    t->cell = p;
    t->capacity = capacity;
    return KVR_OK;
}

enum kvr_status kvr_table_add(struct kvr_table *t, const struct kvr_value *row)
{
    struct kvr_value *to;

    if (t->n_rows == t->capacity)
        KVR_TRY(grow(t));
    to = t->cell + (size_t)t->n_rows * (size_t)t->n_columns;
    for (int i = 0; i < t->n_columns; i++) {
        bool bytes = row[i].type == KVR_VALUE_TEXT || row[i].type == KVR_VALUE_BLOB;

        to[i] = row[i];
        to[i].text = bytes ? strndup(row[i].text ? row[i].text : "", (size_t)row[i].n_bytes) : NULL;
        if (bytes && !to[i].text) {
            while (i-- > 0)
                free((char *)(uintptr_t)to[i].text);
            return kvr_fail(KVR_ENOMEM, "table: out of memory while allocating row %d", t->n_rows);
        }
        if (row[i].type == KVR_VALUE_TEXT) /* a displayed text ends at its first zero byte */
            to[i].n_bytes = (int)strlen(to[i].text);
    }
    t->n_rows++;
    return KVR_OK;
}

struct filler {
    struct kvr_table *t;
    const struct kvr_column *known;
    /* size of the table's texts and values in bytes, and its limit; most = 0: no limit */
    int64_t bytes, most;
    enum kvr_status st;
};

static int fill(void *ctx, int n, const char *const *names, const struct kvr_value *row)
{
    struct filler *f = ctx;

    if (!row) {
        struct kvr_column *columns = calloc((size_t)n + 1, sizeof *columns);

        if (!columns) {
            f->st = kvr_fail(KVR_ENOMEM, "table: out of memory while allocating %d columns", n);
            return 1;
        }
        for (int i = 0; i < n; i++) {
            columns[i] = (struct kvr_column){ .name = names[i], .digits = -1 };
            for (const struct kvr_column *k = f->known; k && k->name; k++)
                if (strcmp(k->name, names[i]) == 0)
                    columns[i] = *k;
        }
        f->st = kvr_table_open(&f->t, n, columns);
        free(columns);
        return f->st != KVR_OK;
    }
    for (int i = 0; i < n; i++)
        f->bytes += (int64_t)sizeof *row + row[i].n_bytes;
    f->st =
        f->most && f->bytes > f->most
            ? kvr_fail(
                  KVR_ENOMEM,
                  "query: the result needs more than the limit of %lld MiB; raise it with --memory",
                  (long long)(f->most >> 20))
            : kvr_table_add(f->t, row);
    return f->st != KVR_OK;
}

static enum kvr_status run_filler(struct kvr_table **out, struct filler *f, const char *db_path,
                                  const char *sql, const struct kvr_query_limits *limits)
{
    struct kvr_query_limits with = *limits;
    char *text = sql ? kvr_settings_sql(sql) : NULL;
    enum kvr_status st;

    with.functions = kvr_report_functions;
    st = text ? kvr_store_query_within(db_path, text, &with, fill, f)
              : kvr_fail(KVR_ENOMEM, "report: out of memory");
    free(text);
    *out = NULL;
    if (st == KVR_OK)
        st = f->st;
    if (st != KVR_OK) {
        kvr_table_close(&f->t);
        return st;
    }
    *out = f->t;
    return KVR_OK;
}

enum kvr_status kvr_table_query(struct kvr_table **out, const char *db_path, const char *sql,
                                const struct kvr_column *known)
{
    return kvr_table_query_with(out, db_path, sql, NULL, known);
}

enum kvr_status kvr_table_query_with(struct kvr_table **out, const char *db_path, const char *sql,
                                     const char *const *with, const struct kvr_column *known)
{
    static const struct kvr_query_limits none;
    struct filler f = { .known = known, .st = KVR_OK };
    char *filled = with ? kvr_statement_fill(sql, with) : NULL;
    enum kvr_status st = run_filler(out, &f, db_path, with ? filled : sql, &none);

    free(filled);
    return st;
}

enum kvr_status kvr_table_query_within(struct kvr_table **out, const char *db_path, const char *sql,
                                       const struct kvr_query_limits *limits)
{
    struct filler f = { .st = KVR_OK, .most = limits->bytes };

    return run_filler(out, &f, db_path, sql, limits);
}

/* Returns whether a column of this name contains bytes: *_bytes, or a column of the database table
 * `mem`. */
static bool has_bytes(const char *name)
{
    static const char *const of_mem[] = { "at_peak", "tag_peak", "live_end" };
    const size_t n = strlen(name);

    for (size_t i = 0; i < sizeof of_mem / sizeof *of_mem; i++)
        if (strcmp(name, of_mem[i]) == 0)
            return true;
    return n > 6 && strcmp(name + n - 6, "_bytes") == 0;
}

enum kvr_status kvr_table_mib(struct kvr_table *t)
{
    for (int c = 0; c < t->n_columns; c++) {
        struct kvr_column *col = &t->column[c];

        if (!has_bytes(col->name) || col->unit)
            continue;
        col->unit = strdup("(MiB)");
        if (!col->unit)
            return kvr_fail(KVR_ENOMEM, "table: out of memory while allocating a column header");
        col->scale = 1.0 / (1024.0 * 1024.0);
    }
    return KVR_OK;
}

int kvr_table_find(const struct kvr_table *t, const char *name)
{
    for (int i = 0; i < t->n_columns; i++)
        if (strcmp(t->column[i].name, name) == 0)
            return i;
    return -1;
}

enum kvr_status kvr_table_set(struct kvr_table *t, int row, int column, struct kvr_value v)
{
    struct kvr_value *to = &t->cell[(size_t)row * (size_t)t->n_columns + (size_t)column];

    if (v.text) {
        v.text = strdup(v.text);
        if (!v.text)
            return kvr_fail(KVR_ENOMEM, "table: out of memory");
    }
    free((char *)(uintptr_t)to->text);
    *to = v;
    return KVR_OK;
}

const struct kvr_value *kvr_table_at(const struct kvr_table *t, int row, int column)
{
    return &t->cell[(size_t)row * (size_t)t->n_columns + (size_t)column];
}

double kvr_table_number(const struct kvr_table *t, int row, int column)
{
    const struct kvr_value *v = column < 0 ? NULL : kvr_table_at(t, row, column);

    if (v && v->type == KVR_VALUE_INT)
        return (double)v->i;
    if (v && v->type == KVR_VALUE_REAL)
        return v->r;
    return NAN;
}

const char *kvr_table_text(const struct kvr_table *t, int row, int column)
{
    const struct kvr_value *v = column < 0 ? NULL : kvr_table_at(t, row, column);

    return v && v->type == KVR_VALUE_TEXT ? v->text : "";
}

static bool same(const struct kvr_value *a, const struct kvr_value *b)
{
    if (a->type != b->type)
        return false;
    switch (a->type) {
    case KVR_VALUE_INT:
        return a->i == b->i;
    case KVR_VALUE_REAL:
        return a->r == b->r;
    case KVR_VALUE_TEXT:
    case KVR_VALUE_BLOB:
        return a->n_bytes == b->n_bytes && strcmp(a->text, b->text) == 0;
    case KVR_VALUE_NULL:
        break;
    }
    return true;
}

static void drop_column(struct kvr_table *t, int c)
{
    struct kvr_value *to = t->cell;

    for (int i = 0; i < t->n_rows * t->n_columns; i++) {
        if (i % t->n_columns == c)
            free((char *)(uintptr_t)t->cell[i].text);
        else
            *to++ = t->cell[i];
    }
    free_column(&t->column[c]);
    memmove(t->column + c, t->column + c + 1, (size_t)(t->n_columns - c - 1) * sizeof *t->column);
    t->n_columns--;
}

enum kvr_status kvr_table_note(struct kvr_table *t, const char *text)
{
    char *note = NULL;

    if (!text[0])
        return KVR_OK;
    if (asprintf(&note, "%s%s%s", t->note ? t->note : "", t->note ? "\n" : "", text) < 0)
        return kvr_fail(KVR_ENOMEM, "table: out of memory while allocating a footnote");
    for (char *s = note + strlen(note) - strlen(text); *s; s++)
        *s = *s == '\n' ? ' ' : *s;
    free(t->note);
    t->note = note;
    return KVR_OK;
}

void kvr_table_drop(struct kvr_table *t, const char *name)
{
    const int c = kvr_table_find(t, name);

    if (c >= 0)
        drop_column(t, c);
}

void kvr_table_drop_empty(struct kvr_table *t, const char *const *names)
{
    for (; *names; names++) {
        const int c = kvr_table_find(t, *names);
        bool empty = c >= 0;

        for (int r = 0; empty && r < t->n_rows; r++)
            empty = kvr_table_at(t, r, c)->type == KVR_VALUE_NULL;
        if (empty)
            drop_column(t, c);
    }
}

/* Writes the name and the value of a column to buf [n], such as "frames 42". Returns false if the
 * value is missing or need not be named (kvr_setting_is_omitted). */
static bool folded(const char *column, const struct kvr_value *v, char *buf, size_t n)
{
    const char *name = kvr_setting_sweep_name(column);

    if (v->type == KVR_VALUE_INT)
        snprintf(buf, n, "%s %lld", name, (long long)v->i);
    else if (v->type == KVR_VALUE_REAL)
        snprintf(buf, n, "%s %.6g", name, v->r);
    else
        snprintf(buf, n, "%s %s", name, v->text ? v->text : "-");
    return v->type != KVR_VALUE_NULL && !kvr_setting_is_omitted(column, buf + strlen(name) + 1);
}

enum kvr_status kvr_table_fold(struct kvr_table *t, const char *const *names)
{
    char note[2048] = "", text[256];

    for (; *names && t->n_rows > 0; names++) {
        const int c = kvr_table_find(t, *names);
        bool all = c >= 0;

        for (int r = 1; all && r < t->n_rows; r++)
            all = same(kvr_table_at(t, 0, c), kvr_table_at(t, r, c));
        if (!all) {
            if (c >= 0)
                t->column[c].groups = true;
            continue;
        }
        if (folded(*names, kvr_table_at(t, 0, c), text, sizeof text))
            kvr_join(note, sizeof note, text);
        drop_column(t, c);
    }
    return note[0] ? kvr_table_note(t, note) : KVR_OK;
}
