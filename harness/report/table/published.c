/* published.c - reads comma-separated files without quotes, whose comment lines precede the
 * data. */
#include "harness/report/table/published.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/infile.h"
#include "harness/plan/find.h"
#include "harness/plan/geometry.h"

static int n_fields(const char *line)
{
    int n = 1;

    for (; *line; line++)
        n += *line == ',';
    return n;
}

static void add_source(struct kvr_published *p, const char *comment)
{
    size_t n = strlen(p->source);

    snprintf(p->source + n, sizeof p->source - n, "%s%s", n ? " " : "",
             comment + strspn(comment, "# "));
}

/* Splits a line at commas and copies its fields to `to` [n_columns]. */
static enum kvr_status split(const struct kvr_published *p, char *line, int number, char **to)
{
    char *at = line;

    if (n_fields(line) != p->n_columns)
        return kvr_fail(KVR_EFORMAT, "%s:%d: the row has %d fields, need %d", p->path, number,
                        n_fields(line), p->n_columns);
    for (int i = 0; i < p->n_columns; i++) {
        to[i] = strdup(strsep(&at, ","));
        if (!to[i])
            return kvr_fail(KVR_ENOMEM, "%s: out of memory", p->path);
    }
    return KVR_OK;
}

static enum kvr_status add_line(struct kvr_published *p, char *line, int number)
{
    size_t n = (size_t)p->n_columns;
    char **cell;

    if (!p->column) {
        p->n_columns = n_fields(line);
        p->column = calloc((size_t)p->n_columns, sizeof *p->column);
        return p->column ? split(p, line, number, p->column)
                         : kvr_fail(KVR_ENOMEM, "%s: out of memory", p->path);
    }
    cell = realloc(p->cell, ((size_t)p->n_rows + 1) * n * sizeof *cell);
    if (!cell)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory", p->path);
    p->cell = cell;
    memset(cell + (size_t)p->n_rows * n, 0, n * sizeof *cell);
    p->n_rows++;
    return split(p, line, number, cell + (size_t)(p->n_rows - 1) * n);
}

enum kvr_status kvr_published_read(struct kvr_published *out, const char *name)
{
    static const struct kvr_find table = { "published table", "results/published", ".csv", NULL };
    enum kvr_status st = KVR_OK;
    char *line = NULL;
    size_t capacity = 0;
    FILE *f;

    *out = (struct kvr_published){ 0 };
    KVR_TRY(kvr_find_path(&table, name, NULL, out->path, sizeof out->path));
    KVR_TRY(kvr_infile_open_text(&f, out->path));
    for (int number = 1; st == KVR_OK && getline(&line, &capacity, f) >= 0; number++) {
        line[strcspn(line, "\r\n")] = '\0';
        if (line[0] == '#')
            add_source(out, line);
        else if (line[0])
            st = add_line(out, line, number);
    }
    if (st == KVR_OK && !feof(f) && errno == ENOMEM)
        st = kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating a line", out->path);
    if (st == KVR_OK && ferror(f))
        st = kvr_fail(KVR_EIO, "%s: cannot read the file: %s", out->path, strerror(errno));
    if (st == KVR_OK && !out->column)
        st = kvr_fail(KVR_EIO, "%s: the file has no line with the names of the columns", out->path);
    free(line);
    fclose(f);
    if (st != KVR_OK)
        kvr_published_free(out);
    return st;
}

void kvr_published_free(struct kvr_published *p)
{
    for (int i = 0; p->column && i < p->n_columns; i++)
        free(p->column[i]);
    for (int i = 0; i < p->n_rows * p->n_columns; i++)
        free(p->cell[i]);
    free(p->column);
    free(p->cell);
    *p = (struct kvr_published){ 0 };
}

const char *kvr_published_cell(const struct kvr_published *p, int row, const char *column)
{
    for (int i = 0; i < p->n_columns; i++)
        if (strcmp(p->column[i], column) == 0)
            return p->cell[row * p->n_columns + i];
    return "";
}

int kvr_published_find(const struct kvr_published *p, const char *first)
{
    for (int r = 0; r < p->n_rows; r++)
        if (strcmp(p->cell[r * p->n_columns], first) == 0)
            return r;
    return -1;
}

enum kvr_status kvr_published_fits(bool *out, const char *model)
{
    const struct kvr_geometry *wan = &kvr_wan_1_3b;
    const char *settings = strchr(model, '/'); /* as in NAME/layers=N,steps=N,compute=bf16 */
    struct kvr_geometry g = { 0 };
    char name[128];
    enum kvr_status st;

    *out = false;
    if (settings && strncmp(settings, "/compute=", 9) != 0)
        return KVR_OK; /* a reduced model, or a trace */
    snprintf(name, sizeof name, "%.*s", settings ? (int)(settings - model) : 127, model);
    st = kvr_geometry_find(name, &g);
    *out = st == KVR_OK && g.n_layers == wan->n_layers && g.n_heads == wan->n_heads &&
           g.head_dim == wan->head_dim && g.tokens_per_frame == wan->tokens_per_frame &&
           g.frames_per_chunk == wan->frames_per_chunk;
    return st == KVR_ENOMEM ? st : KVR_OK;
}

bool kvr_published_number(const char *text, double *value, double *rounding)
{
    const char *point = strchr(text, '.');
    char *end;

    *value = strtod(text, &end);
    if (end == text || *end || !isfinite(*value))
        return false;
    *rounding = 0.5 * pow(10.0, point ? -(double)strlen(point + 1) : 0.0);
    return true;
}

double kvr_published_value(const struct kvr_published *p, const char *first, const char *column)
{
    const int row = kvr_published_find(p, first);
    double value, rounding;

    return row >= 0 && kvr_published_number(kvr_published_cell(p, row, column), &value, &rounding)
               ? value
               : NAN;
}
