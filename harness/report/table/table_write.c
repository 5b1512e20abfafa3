/* table_write.c - writes a table as text, Markdown, CSV, JSON or LaTeX. */
#include "harness/report/table/table.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/table/escape.h"
#include "harness/report/table/table_cell.h"
#include "harness/report/table/table_latex.h"

enum { ENDS_MAX = 2 * KVR_SHOWN_MAX + 8 };

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

/* Returns the text of an interval after a number, such as " [0.91, 0.95]", or "" if there is no
 * interval. */
static const char *interval(const struct kvr_table *t, int row, int c, enum kvr_table_format format,
                            char buf[ENDS_MAX])
{
    char from[KVR_SHOWN_MAX], to[KVR_SHOWN_MAX];
    double lo, hi;

    if (!kvr_table_ends(t, row, c, &lo, &hi))
        return "";
    snprintf(buf, ENDS_MAX, " [%s, %s]", kvr_table_shown_number(&t->column[c], lo, format, from),
             kvr_table_shown_number(&t->column[c], hi, format, to));
    return buf;
}

/* Returns the column head with its unit. The caller frees it. NULL: out of memory. */
static char *head(const struct kvr_column *c, bool with_ends)
{
    char *s = NULL;

    if (asprintf(&s, "%s%s%s%s", c->head ? c->head : c->name, c->unit ? " " : "",
                 c->unit ? c->unit : "", with_ends ? " [from, to]" : "") < 0)
        return NULL;
    return s;
}

/* Returns whether a column is right-aligned. Columns that contain only numbers are
 * right-aligned. */
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

/* Arrays [n_columns] for the layout of a text table. If several columns are displayed as one, the
 * element of the leftmost column is used. */
struct layout {
    char **head;
    char *notes; /* notes of the table, each ending with a zero byte; an empty note is the end */
    /* characters of a column, and of its part before the interval */
    int *width, *number;
    bool *right;
};

static void free_layout(struct layout *l, int n)
{
    for (int c = 0; l->head && c < n; c++)
        free(l->head[c]);
    free(l->head);
    free(l->notes);
    free(l->width);
    free(l->number);
    free(l->right);
}

static int most(int a, int b)
{
    return a > b ? a : b;
}

/* Splits the notes of a table, which are lines, into texts that each end with a zero byte. */
static char *split_notes(const struct kvr_table *t)
{
    const char *note = t->note ? t->note : "";
    char *notes = calloc(strlen(note) + 2, 1);

    for (size_t i = 0; notes && note[i]; i++)
        notes[i] = note[i] == '\n' ? '\0' : note[i];
    return notes;
}

static enum kvr_status make_layout(struct layout *l, const struct kvr_table *t, bool with_ends)
{
    size_t n = (size_t)t->n_columns + 1;
    char buf[KVR_SHOWN_MAX], ends[ENDS_MAX];

    *l = (struct layout){ calloc(n, sizeof *l->head), split_notes(t), calloc(n, sizeof *l->width),
                          calloc(n, sizeof *l->number), calloc(n, sizeof *l->right) };
    if (!l->head || !l->notes || !l->width || !l->number || !l->right) {
        free_layout(l, t->n_columns);
        return kvr_fail(KVR_ENOMEM, "table: out of memory while allocating %d columns",
                        t->n_columns);
    }
    for (int c = 0; c < t->n_columns; c++) {
        int behind = 0;

        l->head[c] = head(&t->column[c], with_ends && kvr_table_span(t, c) > 1);
        if (!l->head[c]) {
            free_layout(l, t->n_columns);
            return kvr_fail(KVR_ENOMEM, "table: out of memory while allocating a column head");
        }
        l->right[c] = is_right(t, c);
        for (int r = 0; r < t->n_rows; r++) {
            l->number[c] =
                most(l->number[c], kvr_escape_width(kvr_table_shown(t, r, c, KVR_TABLE_TEXT, buf)));
            behind = most(behind, (int)strlen(interval(t, r, c, KVR_TABLE_TEXT, ends)));
        }
        l->width[c] = most(kvr_escape_width(l->head[c]), l->number[c] + behind);
        l->number[c] = l->width[c] - behind;
    }
    return KVR_OK;
}

static void repeat(FILE *to, char c, int n)
{
    while (n-- > 0)
        fputc(c, to);
}

/* Writes a cell. `s` is the value and `behind` the text of its interval. The intervals of all rows
 * are aligned. Trailing blanks are omitted. */
static void text_cell(FILE *to, const struct layout *l, int c, bool last, const char *s,
                      const char *behind)
{
    const int left = l->right[c] ? l->number[c] - kvr_escape_width(s) : 0;
    const int rest = l->width[c] - left - kvr_escape_width(s) - (int)strlen(behind);

    if (c > 0)
        fputs("  ", to);
    repeat(to, ' ', left);
    kvr_escape_text(to, s);
    fputs(behind, to);
    if (last)
        fputc('\n', to);
    else
        repeat(to, ' ', rest);
}

static void head_cell(FILE *to, const struct layout *l, int c, bool last)
{
    const int pad = l->width[c] - kvr_escape_width(l->head[c]);

    if (c > 0)
        fputs("  ", to);
    if (l->right[c])
        repeat(to, ' ', pad);
    kvr_escape_text(to, l->head[c]);
    if (!l->right[c] && !last)
        repeat(to, ' ', pad);
    if (last)
        fputc('\n', to);
}

static void write_text(const struct kvr_table *t, const struct layout *l, FILE *to)
{
    char buf[KVR_SHOWN_MAX], ends[ENDS_MAX];
    const int n = t->n_columns;

    if (t->title) {
        kvr_escape_text(to, t->title);
        fputs("\n\n", to);
    }
    for (int c = 0, next; c < n; c = next) {
        next = c + kvr_table_span(t, c);
        head_cell(to, l, c, next == n);
    }
    for (int c = 0, next; c < n; c = next) {
        next = c + kvr_table_span(t, c);
        repeat(to, '-', l->width[c]);
        fputs(next == n ? "\n" : "  ", to);
    }
    for (int r = 0; r < t->n_rows; r++)
        for (int c = 0, next; c < n; c = next) {
            next = c + kvr_table_span(t, c);
            text_cell(to, l, c, next == n, kvr_table_shown(t, r, c, KVR_TABLE_TEXT, buf),
                      interval(t, r, c, KVR_TABLE_TEXT, ends));
        }
    for (const char *s = l->notes; *s; s += strlen(s) + 1) {
        fputs(s == l->notes ? "\n" : "", to);
        kvr_escape_text(to, s);
        fputc('\n', to);
    }
}

static void write_md(const struct kvr_table *t, const struct layout *l, FILE *to)
{
    char buf[KVR_SHOWN_MAX], ends[ENDS_MAX];

    if (t->title) {
        fputs("**", to);
        kvr_escape_md(to, t->title);
        fputs("**\n\n", to);
    }
    for (int c = 0; c < t->n_columns; c += kvr_table_span(t, c)) {
        fputs("| ", to);
        kvr_escape_md(to, l->head[c]);
        fputs(kvr_table_span(t, c) > 1 ? " [from, to] " : " ", to);
    }
    fputs("|\n", to);
    for (int c = 0; c < t->n_columns; c += kvr_table_span(t, c))
        fputs(l->right[c] ? "|---:" : "|---", to);
    fputs("|\n", to);
    for (int r = 0; r < t->n_rows; r++) {
        for (int c = 0; c < t->n_columns; c += kvr_table_span(t, c)) {
            fputs("| ", to);
            kvr_escape_md(to, kvr_table_shown(t, r, c, KVR_TABLE_MD, buf));
            /* an interval such as [0.91, 0.95] cannot become a link, because no "(" follows */
            fputs(interval(t, r, c, KVR_TABLE_MD, ends), to);
            fputc(' ', to);
        }
        fputs("|\n", to);
    }
    for (const char *s = l->notes; *s; s += strlen(s) + 1) { /* each note is a paragraph */
        fputc('\n', to);
        kvr_escape_md(to, s);
        fputc('\n', to);
    }
}

/* Writes a number with the fewest digits, 15 to 17, that restore the exact value. */
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

    KVR_TRY(make_layout(&l, t, format == KVR_TABLE_TEXT));
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
        kvr_table_write_latex(t, l.head, l.right, l.notes, to);
        break;
    case KVR_TABLE_TEXT:
    case KVR_N_TABLE_FORMATS:
        write_text(t, &l, to);
        break;
    }
    free_layout(&l, t->n_columns);
    if (fflush(to) != 0 || ferror(to))
        return kvr_fail(errno == ENOSPC ? KVR_EFULL : KVR_EIO, "%s: %s",
                        to == stdout ? "stdout" : "table",
                        errno ? strerror(errno) : "write failed");
    return KVR_OK;
}
