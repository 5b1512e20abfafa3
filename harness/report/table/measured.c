/* measured.c - reads CSV with quoted fields; a header line names the columns. */
#include "harness/report/table/measured.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/infile.h"
#include "harness/plan/find.h"

enum { MAX_COLUMNS = 24, FIELD = 512 };

struct csv {
    char path[4096];
    FILE *f;
    char *line;
    size_t capacity;
    int number; /* number of the last line that was read, counted from 1 */
    char head[FIELD * MAX_COLUMNS];
};

/* Copies field i of a line, without its quotes, to out [n]; "" if the line has fewer fields.
 * Returns false if the field does not fit. */
static bool field(const char *line, int i, char *out, size_t n)
{
    size_t used = 0;
    bool quoted = false;

    for (; *line && *line != '\n' && *line != '\r' && i >= 0; line++) {
        if (*line == '"' && !(quoted && line[1] == '"'))
            quoted = !quoted;
        else if (*line == ',' && !quoted)
            i--;
        else if (i == 0) {
            line += *line == '"';
            if (used + 1 >= n) {
                out[used] = 0;
                return false;
            }
            out[used++] = *line;
        }
    }
    out[used] = 0;
    return true;
}

/* Returns the index of a column in the header line; -1: there is no such column. */
static int column(const char *head, const char *name)
{
    char text[FIELD];

    for (int i = 0; i < MAX_COLUMNS && field(head, i, text, sizeof text) && *text; i++)
        if (strcmp(text, name) == 0)
            return i;
    return -1;
}

static bool next_line(struct csv *c)
{
    while (getline(&c->line, &c->capacity, c->f) >= 0) {
        c->number++;
        if (c->line[strspn(c->line, "\r\n")])
            return true;
    }
    return false;
}

/* Reads the field of a named column from the last line. The field is "" if the file lacks the
 * column. */
static enum kvr_status get(const struct csv *c, const char *name, char *out, size_t n)
{
    const int at = column(c->head, name);

    *out = 0;
    if (at >= 0 && !field(c->line, at, out, n))
        return kvr_fail(
            KVR_EFORMAT,
            "%s:%d: column %s: the value '%.20s...' is longer than %zu bytes, the limit", c->path,
            c->number, name, out, n - 1);
    return KVR_OK;
}

static void close_csv(struct csv *c)
{
    if (c->f)
        fclose(c->f);
    free(c->line);
}

/* Opens a CSV file and reads its header line. `needs` (ends with NULL) lists the columns that must
 * exist. */
static enum kvr_status open_csv(struct csv *c, const char *dir, const char *name,
                                const char *const *needs)
{
    *c = (struct csv){ .number = 0 };
    snprintf(c->path, sizeof c->path, "%s/%s", dir, name);
    KVR_TRY(kvr_infile_open_text(&c->f, c->path));
    if (!next_line(c))
        return kvr_fail(KVR_EFORMAT, "%s: empty; need a first line with the names of the columns",
                        c->path);
    snprintf(c->head, sizeof c->head, "%s", c->line);
    for (; *needs; needs++)
        if (column(c->head, *needs) < 0)
            return kvr_fail(KVR_EFORMAT, "%s:%d: the first line has no column '%s'", c->path,
                            c->number, *needs);
    return KVR_OK;
}

/* --- sessions ---------------------------------------------------------------------------- */

static enum kvr_status add_session(struct kvr_measured *m, const struct csv *c)
{
    struct kvr_measured_session s = { .patched = false }, *all;
    char text[FIELD];

    KVR_TRY(get(c, "session", s.id, sizeof s.id));
    KVR_TRY(get(c, "date", s.date, sizeof s.date));
    KVR_TRY(get(c, "commit", s.commit, sizeof s.commit));
    KVR_TRY(get(c, "card", s.card, sizeof s.card));
    KVR_TRY(get(c, "patched", text, sizeof text));
    s.patched = *text && strcmp(text, "nothing") != 0;
    KVR_TRY(get(c, "changes", text, sizeof text));
    s.patched |= strcmp(text, "true") == 0;
    all = realloc(m->session, ((size_t)m->n_sessions + 1) * sizeof *all);
    if (!all)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory", c->path);
    m->session = all;
    all[m->n_sessions++] = s;
    return KVR_OK;
}

static int find_session(const struct kvr_measured *m, const char *id)
{
    for (int i = 0; i < m->n_sessions; i++)
        if (strcmp(m->session[i].id, id) == 0)
            return i;
    return -1;
}

/* --- rows -------------------------------------------------------------------------------- */

static enum kvr_status read_number(const struct csv *c, const char *name, double *out)
{
    char text[FIELD], *end;

    KVR_TRY(get(c, name, text, sizeof text));
    *out = *text ? strtod(text, &end) : NAN;
    if (*text && (end == text || *end || !isfinite(*out)))
        return kvr_fail(KVR_EFORMAT, "%s:%d: column %s: '%s' is not a number", c->path, c->number,
                        name, text);
    return KVR_OK;
}

static enum kvr_status add_row(struct kvr_measured *m, const struct csv *c)
{
    struct kvr_measured_row r = { .session = -1 }, *all;
    char id[FIELD];
    double n;

    KVR_TRY(get(c, "session", id, sizeof id));
    r.session = find_session(m, id);
    if (r.session < 0)
        return kvr_fail(KVR_EFORMAT, "%s:%d: session '%s' is not in sessions.csv", c->path,
                        c->number, id);
    KVR_TRY(get(c, "name", r.name, sizeof r.name));
    KVR_TRY(get(c, "unit", r.unit, sizeof r.unit));
    KVR_TRY(get(c, "note", r.note, sizeof r.note));
    KVR_TRY(read_number(c, "value", &r.value));
    KVR_TRY(read_number(c, "n", &n));
    r.n = isnan(n) ? 0 : (int)n;
    all = realloc(m->row, ((size_t)m->n_rows + 1) * sizeof *all);
    if (!all)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory", c->path);
    m->row = all;
    all[m->n_rows++] = r;
    return KVR_OK;
}

static enum kvr_status read_file(struct kvr_measured *m, const char *dir, const char *name,
                                 const char *const *needs,
                                 enum kvr_status (*add)(struct kvr_measured *, const struct csv *))
{
    struct csv c;
    enum kvr_status st = open_csv(&c, dir, name, needs);

    while (st == KVR_OK && next_line(&c))
        st = add(m, &c);
    if (st == KVR_OK && ferror(c.f))
        st = kvr_fail(KVR_EIO, "%s: %s", c.path, strerror(errno));
    close_csv(&c);
    return st;
}

enum kvr_status kvr_measured_read(struct kvr_measured *out, const char *dir)
{
    static const char *const sessions[] = { "session", "date", "card", "patched", NULL };
    static const char *const rows[] = { "session", "name", "unit", "value", NULL };
    enum kvr_status st;

    *out = (struct kvr_measured){ 0 };
    st = read_file(out, dir, "sessions.csv", sessions, add_session);
    if (st == KVR_OK)
        st = read_file(out, dir, "rows.csv", rows, add_row);
    if (st != KVR_OK)
        kvr_measured_free(out);
    return st;
}

void kvr_measured_free(struct kvr_measured *m)
{
    free(m->session);
    free(m->row);
    *m = (struct kvr_measured){ 0 };
}

static const struct kvr_find cards = { "card", "results/measured", "", "rows.csv" };

enum kvr_status kvr_measured_find(char *out, size_t n, const char *gpu)
{
    return kvr_find_path(&cards, gpu, NULL, out, n);
}

enum kvr_status kvr_measured_names(char ***out)
{
    return kvr_find_names(&cards, NULL, out);
}

int kvr_measured_row(const struct kvr_measured *m, int session, const char *name)
{
    for (int i = 0; i < m->n_rows; i++)
        if (m->row[i].session == session && isfinite(m->row[i].value) &&
            strcmp(m->row[i].name, name) == 0)
            return i;
    return -1;
}
