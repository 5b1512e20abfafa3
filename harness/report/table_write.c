/* table_write.c - a table as text, Markdown, CSV, JSON or LaTeX. */
#include "harness/report/table.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/escape.h"
#include "harness/report/table_latex.h"

static const char *const format_names[] = { "txt", "md", "csv", "json", "latex", "jsonl" };

enum kvr_status kvr_table_format_parse(const char *name, enum kvr_table_format *out)
{
    for (int i = 0; i < KVR_N_TABLE_FORMATS; i++)
        if (strcmp(name, format_names[i]) == 0) {
            *out = (enum kvr_table_format)i;
            return KVR_OK;
        }
    return kvr_fail(KVR_EINVAL, "format '%s': need txt, md, csv, json, latex or jsonl", name);
}

static const char *missing(enum kvr_table_format format)
{
    return format == KVR_TABLE_LATEX ? "--" : "-";
}

const char *kvr_table_shown(const struct kvr_table *t, int row, int c, enum kvr_table_format format,
                            char buf[KVR_SHOWN_MAX])
{
    const struct kvr_value *v = kvr_table_at(t, row, c);
    const struct kvr_column *col = &t->column[c];
    double scale = col->scale == 0.0 ? 1.0 : col->scale;
    double x = kvr_table_number(t, row, c) * scale;

    switch (v->type) {
    case KVR_VALUE_NULL:
        return missing(format);
    case KVR_VALUE_TEXT:
        return v->text;
    case KVR_VALUE_BLOB:
        snprintf(buf, KVR_SHOWN_MAX, "<%d bytes>", v->n_bytes);
        return buf;
    case KVR_VALUE_INT:
        if (scale == 1.0) {
            snprintf(buf, KVR_SHOWN_MAX, "%lld", (long long)v->i);
            return buf;
        }
        break;
    case KVR_VALUE_REAL:
        break;
    }
    if (!isfinite(x))
        return missing(format);
    if (col->digits < 0)
        snprintf(buf, KVR_SHOWN_MAX, "%.6g", x);
    else
        snprintf(buf, KVR_SHOWN_MAX, "%.*f", col->digits, x);
    return buf;
}

/* The head with its unit. malloc'd; NULL without memory. */
static char *head(const struct kvr_column *c)
{
    char *s = NULL;

    if (asprintf(&s, "%s%s%s", c->head ? c->head : c->name, c->unit ? " " : "",
                 c->unit ? c->unit : "") < 0)
        return NULL;
    return s;
}

/* Numbers are set flush right; a column with any text is not one of numbers. */
static bool is_right(const struct kvr_table *t, int c)
{
    bool any = false;

    for (int r = 0; r < t->n_rows; r++) {
        enum kvr_value_type type = kvr_table_at(t, r, c)->type;

        if (type == KVR_VALUE_TEXT || type == KVR_VALUE_BLOB)
            return false;
        any = any || type != KVR_VALUE_NULL;
    }
    return any;
}

struct layout {
    char **head; /* [n_columns] */
    int *width;  /* [n_columns], characters */
    bool *right; /* [n_columns] */
};

static void free_layout(struct layout *l, int n)
{
    for (int c = 0; l->head && c < n; c++)
        free(l->head[c]);
    free(l->head);
    free(l->width);
    free(l->right);
}

static enum kvr_status make_layout(struct layout *l, const struct kvr_table *t)
{
    size_t n = (size_t)t->n_columns + 1;
    char buf[KVR_SHOWN_MAX];

    *l = (struct layout){ calloc(n, sizeof *l->head), calloc(n, sizeof *l->width),
                          calloc(n, sizeof *l->right) };
    for (int c = 0; c < t->n_columns; c++) {
        if (l->head && l->width && l->right)
            l->head[c] = head(&t->column[c]);
        if (!l->head || !l->width || !l->right || !l->head[c]) {
            free_layout(l, t->n_columns);
            return kvr_fail(KVR_ENOMEM, "table: no memory for %d columns", t->n_columns);
        }
        l->right[c] = is_right(t, c);
        l->width[c] = kvr_escape_width(l->head[c]);
        for (int r = 0; r < t->n_rows; r++) {
            int w = kvr_escape_width(kvr_table_shown(t, r, c, KVR_TABLE_TEXT, buf));

            l->width[c] = w > l->width[c] ? w : l->width[c];
        }
    }
    return KVR_OK;
}

static void repeat(FILE *to, char c, int n)
{
    while (n-- > 0)
        fputc(c, to);
}

/* Trailing blanks are left out. */
static void text_cell(FILE *to, const struct layout *l, int c, bool last, const char *s)
{
    int pad = l->width[c] - kvr_escape_width(s);

    if (c > 0)
        fputs("  ", to);
    if (l->right[c])
        repeat(to, ' ', pad);
    kvr_escape_text(to, s);
    if (!l->right[c] && !last)
        repeat(to, ' ', pad);
    if (last)
        fputc('\n', to);
}

static void write_text(const struct kvr_table *t, const struct layout *l, FILE *to)
{
    char buf[KVR_SHOWN_MAX];
    int n = t->n_columns;

    if (t->title) {
        kvr_escape_text(to, t->title);
        fputs("\n\n", to);
    }
    for (int c = 0; c < n; c++)
        text_cell(to, l, c, c == n - 1, l->head[c]);
    for (int c = 0; c < n; c++) {
        repeat(to, '-', l->width[c]);
        fputs(c == n - 1 ? "\n" : "  ", to);
    }
    for (int r = 0; r < t->n_rows; r++)
        for (int c = 0; c < n; c++)
            text_cell(to, l, c, c == n - 1, kvr_table_shown(t, r, c, KVR_TABLE_TEXT, buf));
    if (t->note) {
        fputc('\n', to);
        kvr_escape_text(to, t->note);
        fputc('\n', to);
    }
}

static void write_md(const struct kvr_table *t, const struct layout *l, FILE *to)
{
    char buf[KVR_SHOWN_MAX];

    if (t->title) {
        fputs("**", to);
        kvr_escape_md(to, t->title);
        fputs("**\n\n", to);
    }
    for (int c = 0; c < t->n_columns; c++) {
        fputs("| ", to);
        kvr_escape_md(to, l->head[c]);
        fputc(' ', to);
    }
    fputs("|\n", to);
    for (int c = 0; c < t->n_columns; c++)
        fputs(l->right[c] ? "|---:" : "|---", to);
    fputs("|\n", to);
    for (int r = 0; r < t->n_rows; r++) {
        for (int c = 0; c < t->n_columns; c++) {
            fputs("| ", to);
            kvr_escape_md(to, kvr_table_shown(t, r, c, KVR_TABLE_MD, buf));
            fputc(' ', to);
        }
        fputs("|\n", to);
    }
    if (t->note) {
        fputc('\n', to);
        kvr_escape_md(to, t->note);
        fputc('\n', to);
    }
}

/* The shortest of 15 to 17 digits that reads back as the same number. */
static void put_real(FILE *to, double x)
{
    char buf[40];

    for (int digits = 15; digits <= 17; digits++) {
        snprintf(buf, sizeof buf, "%.*g", digits, x);
        if (strtod(buf, NULL) == x)
            break;
    }
    fputs(buf, to);
}

static void csv_value(FILE *to, const struct kvr_value *v)
{
    switch (v->type) {
    case KVR_VALUE_NULL:
        break;
    case KVR_VALUE_INT:
        fprintf(to, "%lld", (long long)v->i);
        break;
    case KVR_VALUE_REAL:
        if (isfinite(v->r))
            put_real(to, v->r);
        break;
    case KVR_VALUE_TEXT:
        kvr_escape_csv(to, v->text);
        break;
    case KVR_VALUE_BLOB:
        fprintf(to, "<%d bytes>", v->n_bytes);
        break;
    }
}

static void write_csv(const struct kvr_table *t, FILE *to)
{
    for (int c = 0; c < t->n_columns; c++) {
        if (c > 0)
            fputc(',', to);
        kvr_escape_csv(to, t->column[c].name);
    }
    fputc('\n', to);
    for (int r = 0; r < t->n_rows; r++) {
        for (int c = 0; c < t->n_columns; c++) {
            if (c > 0)
                fputc(',', to);
            csv_value(to, kvr_table_at(t, r, c));
        }
        fputc('\n', to);
    }
}

static void json_value(FILE *to, const struct kvr_value *v)
{
    switch (v->type) {
    case KVR_VALUE_INT:
        fprintf(to, "%lld", (long long)v->i);
        return;
    case KVR_VALUE_REAL:
        if (isfinite(v->r)) {
            put_real(to, v->r);
            return;
        }
        break;
    case KVR_VALUE_TEXT:
        kvr_escape_json(to, v->text);
        return;
    case KVR_VALUE_BLOB:
        fprintf(to, "\"<%d bytes>\"", v->n_bytes);
        return;
    case KVR_VALUE_NULL:
        break;
    }
    fputs("null", to);
}

static void json_row(const struct kvr_table *t, int r, FILE *to)
{
    fputc('{', to);
    for (int c = 0; c < t->n_columns; c++) {
        if (c > 0)
            fputs(", ", to);
        kvr_escape_json(to, t->column[c].name);
        fputs(": ", to);
        json_value(to, kvr_table_at(t, r, c));
    }
    fputc('}', to);
}

static void write_json(const struct kvr_table *t, FILE *to)
{
    fputc('[', to);
    for (int r = 0; r < t->n_rows; r++) {
        fputs(r ? ",\n " : "\n ", to);
        json_row(t, r, to);
    }
    fputs(t->n_rows ? "\n]\n" : "]\n", to);
}

static void write_jsonl(const struct kvr_table *t, FILE *to)
{
    for (int r = 0; r < t->n_rows; r++) {
        json_row(t, r, to);
        fputc('\n', to);
    }
}

enum kvr_status kvr_table_write(const struct kvr_table *t, enum kvr_table_format format, FILE *to)
{
    struct layout l;

    KVR_TRY(make_layout(&l, t));
    errno = 0;
    switch (format) {
    case KVR_TABLE_MD:
        write_md(t, &l, to);
        break;
    case KVR_TABLE_CSV:
        write_csv(t, to);
        break;
    case KVR_TABLE_JSON:
        write_json(t, to);
        break;
    case KVR_TABLE_JSONL:
        write_jsonl(t, to);
        break;
    case KVR_TABLE_LATEX:
        kvr_table_write_latex(t, l.head, l.right, to);
        break;
    case KVR_TABLE_TEXT:
    case KVR_N_TABLE_FORMATS:
        write_text(t, &l, to);
        break;
    }
    free_layout(&l, t->n_columns);
    if (fflush(to) != 0 || ferror(to))
        return kvr_fail(errno == ENOSPC ? KVR_EFULL : KVR_EIO, "table: cannot write: %s",
                        strerror(errno));
    return KVR_OK;
}
