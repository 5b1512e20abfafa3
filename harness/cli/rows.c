/* rows.c - tables on stdout. */
#include "harness/cli/rows.h"

#include <stdlib.h>
#include <string.h>

static void csv_cell(FILE *to, const char *s)
{
    if (!s)
        return;
    if (s[0] && !strpbrk(s, ",\"\r\n")) {
        fputs(s, to);
        return;
    }
    /* An empty text is quoted, so that it differs from a missing value. */
    fputc('"', to);
    for (; *s; s++) {
        if (*s == '"')
            fputc('"', to);
        fputc(*s, to);
    }
    fputc('"', to);
}

static void csv_row(const struct kvr_rows *r, const char *const *cells)
{
    for (int i = 0; i < r->n_columns; i++) {
        if (i)
            fputc(',', r->to);
        csv_cell(r->to, cells[i]);
    }
    fputs("\n", r->to);
}

static void keep(struct kvr_rows *r, const char *const *cells)
{
    if (r->failed)
        return;
    if (r->n_cells + r->n_columns > r->room) {
        int room = 2 * r->room + 16 * r->n_columns;
        char **bigger = realloc(r->cell, (size_t)room * sizeof *bigger);

        if (!bigger) {
            r->failed = true;
            return;
        }
        r->cell = bigger;
        r->room = room;
    }
    for (int i = 0; i < r->n_columns; i++) {
        r->cell[r->n_cells] = strdup(cells[i] ? cells[i] : "");
        if (!r->cell[r->n_cells]) {
            r->failed = true;
            return;
        }
        r->n_cells++;
    }
}

void kvr_rows_begin(struct kvr_rows *r, enum kvr_rows_format format, int n_columns,
                    const char *const *names)
{
    *r = (struct kvr_rows){ .format = format, .n_columns = n_columns, .to = stdout };
    if (n_columns > 0)
        kvr_rows_add(r, names);
}

void kvr_rows_add(struct kvr_rows *r, const char *const *cells)
{
    if (r->format == KVR_ROWS_CSV)
        csv_row(r, cells);
    else
        keep(r, cells);
}

/* Characters on the screen: UTF-8 continuation bytes do not count. */
static int width(const char *s)
{
    int n = 0;

    for (; *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static bool is_number(const char *s)
{
    char *end;

    if (!*s)
        return true;
    strtod(s, &end);
    return *end == '\0';
}

/* A column of numbers is set flush right. */
static bool right(const struct kvr_rows *r, int column)
{
    bool any = false;

    for (int i = r->n_columns + column; i < r->n_cells; i += r->n_columns) {
        if (!is_number(r->cell[i]))
            return false;
        any = any || r->cell[i][0];
    }
    return any;
}

static void pad(FILE *to, int n, char with)
{
    while (n-- > 0)
        fputc(with, to);
}

static void put(const struct kvr_rows *r, const char *s, int w, bool flush_right, bool last)
{
    int gap = w - width(s);

    if (flush_right)
        pad(r->to, gap, ' ');
    for (; *s; s++) {
        if (r->format == KVR_ROWS_MD && *s == '|')
            fputc('\\', r->to);
        fputc(*s == '\n' ? ' ' : *s, r->to);
    }
    if (!flush_right && !last)
        pad(r->to, gap, ' ');
}

static void rule(const struct kvr_rows *r, const int *w, const bool *flush)
{
    bool md = r->format == KVR_ROWS_MD;

    for (int c = 0; c < r->n_columns; c++) {
        fputs(md ? "|-" : c ? "  " : "", r->to);
        pad(r->to, w[c] - (md && flush[c] ? 1 : 0), '-');
        fputs(md ? flush[c] ? ":-" : "-" : "", r->to);
    }
    fputs(md ? "|\n" : "\n", r->to);
}

static void print(const struct kvr_rows *r, int *w, bool *flush)
{
    bool md = r->format == KVR_ROWS_MD;

    for (int c = 0; c < r->n_columns; c++) {
        flush[c] = right(r, c);
        w[c] = md ? 3 : 1;
        for (int i = c; i < r->n_cells; i += r->n_columns)
            if (width(r->cell[i]) > w[c])
                w[c] = width(r->cell[i]);
    }
    for (int i = 0; i < r->n_cells; i++) {
        int c = i % r->n_columns;
        bool last = c == r->n_columns - 1;

        fputs(md ? "| " : c ? "  " : "", r->to);
        put(r, r->cell[i], w[c], flush[c], last && !md);
        fputs(md ? last ? " |\n" : " " : last ? "\n" : "", r->to);
        if (i == r->n_columns - 1)
            rule(r, w, flush);
    }
}

enum kvr_status kvr_rows_end(struct kvr_rows *r)
{
    enum kvr_status st = KVR_OK;
    size_t n = r->n_columns > 0 ? (size_t)r->n_columns : 1;
    int *w = calloc(n, sizeof *w);
    bool *flush = calloc(n, sizeof *flush);

    if (r->failed || !w || !flush)
        st = kvr_fail(KVR_ENOMEM, "no memory for a table of %d cells", r->n_cells);
    else if (r->n_cells)
        print(r, w, flush);
    free(w);
    free(flush);
    kvr_rows_drop(r);
    return st;
}

void kvr_rows_drop(struct kvr_rows *r)
{
    for (int i = 0; i < r->n_cells; i++)
        free(r->cell[i]);
    free(r->cell);
    *r = (struct kvr_rows){ 0 };
}
