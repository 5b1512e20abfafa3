/* sheet_cells.c - selects the cells of a contact sheet and reads their frames. */
#include "harness/report/page/sheet_cells.h"

#include <stdlib.h>
#include <string.h>

#include "harness/core/opts.h"
#include "harness/core/path.h"
#include "harness/core/sha256.h"
#include "harness/files/media/media.h"
#include "harness/report/page/html.h"
#include "harness/report/table/table.h"

enum { MAX_ROWS = 65, MAX_COLUMNS = 64, MAX_LABEL = 96 };

struct sheet {
    const struct kvr_sheet_cells *c;
    struct kvr_sheet_origin *origin;
    char baseline[33];
    int n_rows;
    struct kvr_sheet_row row[MAX_ROWS];
    struct kvr_video video[MAX_ROWS];
    char label[MAX_ROWS][MAX_LABEL];
    int pick[MAX_COLUMNS];
};

/* Returns `text` as an SQL string in single quotes, with its single quotes doubled. The caller
 * frees it. NULL: no memory. */
static char *quoted(const char *text)
{
    char *out = malloc(2 * strlen(text) + 3), *to = out;

    if (!out)
        return NULL;
    *to++ = '\'';
    for (; *text; text++) {
        if (*text == '\'')
            *to++ = '\'';
        *to++ = *text;
    }
    strcpy(to, "'");
    return out;
}

static enum kvr_status no_memory(void)
{
    return kvr_fail(KVR_ENOMEM, "sheet: out of memory");
}

/* Runs an SQL query: `sql`, then `text` as an SQL string, then `rest`. */
static enum kvr_status query(struct kvr_table **t, const struct sheet *s, const char *sql,
                             const char *text, const char *rest)
{
    char *word = quoted(text), *full = NULL;
    enum kvr_status st;

    *t = NULL;
    if (!word || asprintf(&full, "%s%s%s", sql, word, rest) < 0) {
        free(word);
        return no_memory();
    }
    st = kvr_table_query(t, s->c->db, full, NULL);
    free(full);
    free(word);
    return st;
}

/* Returns KVR_ENOTFOUND with the message that the database has no finished cell of `method`. If the
 * database does not contain the method at all, the message suggests the most similar name. */
static enum kvr_status fail_method(const struct sheet *s, const char *method)
{
    struct kvr_table *t;
    const char **names, *near = NULL;
    bool there = false;

    KVR_TRY(kvr_table_query(&t, s->c->db, "SELECT DISTINCT method FROM cell", NULL));
    names = calloc((size_t)t->n_rows + 1, sizeof *names);
    for (int r = 0; names && r < t->n_rows; r++) {
        names[r] = kvr_table_text(t, r, 0);
        there = there || strcmp(names[r], method) == 0;
    }
    if (names && !there)
        near = kvr_nearest(method, names);
    if (near)
        kvr_fail(KVR_ENOTFOUND, "sheet: database %s has no cell of method '%s'; did you mean '%s'?",
                 s->c->db, method, near);
    else
        kvr_fail(KVR_ENOTFOUND, "sheet: database %s has no finished cell of method '%s'%s%s%s",
                 s->c->db, method, s->c->prompt ? " and prompt '" : "",
                 s->c->prompt ? s->c->prompt : "", s->c->prompt ? "'" : "");
    free(names);
    kvr_table_close(&t);
    return KVR_ENOTFOUND;
}

/* Finds the cell of the first method. Its baseline is the baseline of all rows of the sheet. */
static enum kvr_status find_first(struct sheet *s)
{
    const char *method = s->c->methods[0];
    char *prompt = s->c->prompt ? quoted(s->c->prompt) : strdup("c.prompt_id");
    char *name = quoted(method), *sql = NULL;
    struct kvr_table *t = NULL;
    enum kvr_status st = KVR_OK;

    if (!prompt || !name ||
        asprintf(&sql,
                 "SELECT c.key, c.baseline, c.suite, c.prompt_id,\n"
                 "  count(*) OVER (PARTITION BY c.suite, c.prompt_id)\n"
                 "FROM cell c LEFT JOIN metric m ON m.cell = c.key AND m.name = 'ssim'\n"
                 "WHERE c.method = %s AND c.prompt_id = %s AND c.outcome = 'OK'\n"
                 "  AND c.run_kind = 'bench'\n"
                 "ORDER BY %s c.suite, c.prompt_id, c.key LIMIT 1",
                 name, prompt, s->c->worst ? "m.value IS NULL, m.value," : "") < 0)
        st = no_memory();
    if (st == KVR_OK)
        st = kvr_table_query(&t, s->c->db, sql, NULL);
    if (st == KVR_OK && t->n_rows == 0)
        st = fail_method(s, method);
    if (st == KVR_OK) {
        snprintf(s->origin->key, sizeof s->origin->key, "%s", kvr_table_text(t, 0, 0));
        snprintf(s->baseline, sizeof s->baseline, "%s", kvr_table_text(t, 0, 1));
        snprintf(s->origin->suite, sizeof s->origin->suite, "%s", kvr_table_text(t, 0, 2));
        snprintf(s->origin->prompt, sizeof s->origin->prompt, "%s", kvr_table_text(t, 0, 3));
        s->origin->n_like = (int)kvr_table_number(t, 0, 4);
    }
    kvr_table_close(&t);
    free(sql);
    free(name);
    free(prompt);
    return st;
}

/* Reads the frames of one cell; refuses frames that changed since the measurement. */
static enum kvr_status read_frames(struct sheet *s, struct kvr_video *v, const char *method,
                                   const char *path, const char *sha256)
{
    char *dir, *file;
    char hex[KVR_SHA256_HEX] = "";
    enum kvr_status st;

    KVR_TRY(kvr_html_media(&dir, s->c->db, s->c->media, path));
    file = dir ? kvr_path_join(dir, path) : NULL;
    if (dir && !file)
        st = kvr_fail(KVR_ENOMEM, "sheet: out of memory");
    else if (!file)
        st = kvr_fail(KVR_ENOTFOUND,
                      "sheet: frames of method %s not found at %s; give the sweep's output folder "
                      "with --media",
                      method, path);
    else
        st = kvr_sha256_file(file, hex);
    if (st == KVR_OK && strcmp(hex, sha256) != 0)
        st = kvr_fail(KVR_EFORMAT,
                      "sheet: %s was modified after the measurement: its sha256 is %.12s, the "
                      "database has %.12s",
                      file, hex, sha256);
    if (st == KVR_OK)
        st = kvr_video_read(v, file);
    free(file);
    free(dir);
    return st;
}

static enum kvr_status add_row(struct sheet *s, const struct kvr_table *t, const char *method)
{
    const int i = s->n_rows;
    const double ssim = kvr_table_number(t, 0, 3);
    char mean[32] = "";

    KVR_TRY(read_frames(s, &s->video[i], method, kvr_table_text(t, 0, 1), kvr_table_text(t, 0, 2)));
    if (ssim == ssim)
        snprintf(mean, sizeof mean, "  SSIM %.4f", ssim);
    snprintf(s->label[i], sizeof s->label[i], "%.60s%s", method, mean);
    s->row[i] = (struct kvr_sheet_row){ .label = s->label[i], .frames = s->video[i].frames };
    s->n_rows++;
    return KVR_OK;
}

/* Adds the cell with key `key` as a row of the sheet. */
static enum kvr_status add_key(struct sheet *s, const char *key)
{
    struct kvr_table *t;
    enum kvr_status st;

    KVR_TRY(query(&t, s,
                  "SELECT c.method, a.path, a.sha256, m.value FROM cell c\n"
                  "JOIN artifact a ON a.cell = c.key AND a.kind = 'frames'\n"
                  "LEFT JOIN metric m ON m.cell = c.key AND m.name = 'ssim'\n"
                  "WHERE c.outcome = 'OK' AND c.key = ",
                  key, ""));
    if (t->n_rows)
        st = add_row(s, t, kvr_table_text(t, 0, 0));
    else
        st = kvr_fail(KVR_ENOTFOUND,
                      "sheet: cell %.32s has no stored frames according to database %s", key,
                      s->c->db);
    kvr_table_close(&t);
    return st;
}

/* Adds a row for `method`, which is not the first method. The row's cell has the same baseline as
 * the first method's cell, so the two cells differ only in the method. */
static enum kvr_status add_beside(struct sheet *s, const char *method)
{
    char rest[128];
    struct kvr_table *t;
    enum kvr_status st;

    snprintf(rest, sizeof rest,
             " AND baseline = '%.32s' AND outcome = 'OK' AND run_kind = 'bench'\n"
             "ORDER BY key LIMIT 1",
             s->baseline);
    KVR_TRY(query(&t, s, "SELECT key FROM cell WHERE method = ", method, rest));
    st = t->n_rows ? add_key(s, kvr_table_text(t, 0, 0)) : fail_method(s, method);
    kvr_table_close(&t);
    return st;
}

static int ascending(const void *a, const void *b)
{
    const int x = *(const int *)a, y = *(const int *)b;

    return (x > y) - (x < y);
}

/* Selects the frames with the lowest SSIM between the first method's cell and the baseline, in time
 * order. */
static enum kvr_status pick_worst(struct sheet *s, int *columns)
{
    struct kvr_table *t;

    KVR_TRY(query(&t, s,
                  "SELECT idx FROM series WHERE name = 'ssim' AND value IS NOT NULL AND cell = ",
                  s->origin->key, "\nORDER BY value, idx"));
    if (*columns > t->n_rows)
        *columns = t->n_rows;
    for (int i = 0; i < *columns; i++)
        s->pick[i] = (int)kvr_table_number(t, i, 0);
    kvr_table_close(&t);
    if (*columns == 0)
        return kvr_fail(KVR_ENOTFOUND, "sheet: cell %s has no SSIM per frame, which --worst needs",
                        s->origin->key);
    qsort(s->pick, (size_t)*columns, sizeof s->pick[0], ascending);
    for (int r = 0; r < s->n_rows; r++) {
        s->row[r].pick = s->pick;
        if (s->pick[0] < 0 || s->pick[*columns - 1] >= s->row[r].frames.n)
            return kvr_fail(KVR_EFORMAT,
                            "sheet: video %s has %d frames, but the SSIM series includes frame %d",
                            s->label[r], s->row[r].frames.n, s->pick[*columns - 1]);
    }
    return KVR_OK;
}

static enum kvr_status fill(struct sheet *s, const char *out)
{
    int columns = s->c->columns;

    KVR_TRY(find_first(s));
    KVR_TRY(add_key(s, s->baseline));
    if (strcmp(s->baseline, s->origin->key) != 0)
        KVR_TRY(add_key(s, s->origin->key));
    for (int i = 1; i < s->c->n_methods; i++)
        KVR_TRY(add_beside(s, s->c->methods[i]));
    for (int i = 0; i < s->n_rows; i++)
        if (columns > s->row[i].frames.n)
            columns = s->row[i].frames.n;
    if (s->c->worst)
        KVR_TRY(pick_worst(s, &columns));
    KVR_TRY(kvr_mkdirs_above(out));
    return kvr_sheet_write(out, s->row, s->n_rows, columns, s->c->scale);
}

enum kvr_status kvr_sheet_of_cells(const struct kvr_sheet_cells *c, const char *out,
                                   struct kvr_sheet_origin *origin)
{
    struct sheet *s;
    enum kvr_status st;

    memset(origin, 0, sizeof *origin);
    if (c->n_methods < 1 || c->n_methods >= MAX_ROWS || c->columns > MAX_COLUMNS)
        return kvr_fail(
            KVR_EINVAL,
            "sheet: %d methods and %d columns requested, need 1..%d methods and at most %d columns",
            c->n_methods, c->columns, MAX_ROWS - 1, MAX_COLUMNS);
    s = calloc(1, sizeof *s);
    if (!s)
        return no_memory();
    s->c = c;
    s->origin = origin;
    st = fill(s, out);
    for (int i = 0; i < MAX_ROWS; i++)
        kvr_video_free(&s->video[i]);
    free(s);
    return st;
}
