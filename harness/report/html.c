/* html.c - the page from its parts, and the videos to its side or into it. */
#include "harness/report/html.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "harness/core/memtext.h"
#include "harness/core/outfile.h"
#include "harness/core/path.h"
#include "harness/core/sha256.h"
#include "harness/report/escape.h"
#include "harness/report/table.h"
#include "harness/store/statement.h"

enum { DEFAULT_CAP = 10 * 1000 * 1000 };

KVR_STATEMENT(page_videos);
KVR_STATEMENT(page_outs);
KVR_STATEMENT(page_names);

static enum kvr_status no_memory(void)
{
    return kvr_fail(KVR_ENOMEM, "report: no memory");
}

/* ------------------------------------------------------------- where the videos are */

/* The path is what the database says, and that may be anybody's: nothing outside of the folder is
 * there. */
static bool has(const char *dir, const char *path)
{
    char *full = dir ? kvr_path_join(dir, path) : NULL;
    bool found = full && kvr_path_is_below(dir, full);

    free(full);
    return found;
}

/* `dir` when `path` is in it, else NULL; takes `dir`. */
static char *keep_if_has(char *dir, const char *path)
{
    if (dir && has(dir, path))
        return dir;
    free(dir);
    return NULL;
}

/* What a sweep's command says of --out, NULL if nothing; free(). */
static char *said_out(const char *argv_json)
{
    json_t *argv = json_loads(argv_json, 0, NULL), *word;
    char *out = NULL;
    size_t i;

    json_array_foreach(argv, i, word)
    {
        const char *w = json_string_value(word),
                   *next = json_string_value(json_array_get(argv, i + 1));

        if (out || !w)
            continue;
        if (strncmp(w, "--out=", 6) == 0)
            out = strdup(w + 6);
        else if ((strcmp(w, "--out") == 0 || strcmp(w, "-o") == 0) && next)
            out = strdup(next);
    }
    json_decref(argv);
    return out;
}

/* Where a sweep said its files go: --out of its command, else `out:` of its config. */
static char *find_said(const char *db_path, const char *path)
{
    char *near = kvr_path_dir(db_path), *found = NULL;
    struct kvr_table *t;

    if (kvr_table_query(&t, db_path, kvr_statement_page_outs, NULL) != KVR_OK)
        t = NULL;
    for (int r = 0; t && r < t->n_rows && !found; r++) {
        char *said = said_out(kvr_table_text(t, r, 0));
        const char *dir = said ? said : kvr_table_text(t, r, 1);

        if (*dir)
            found = keep_if_has(strdup(dir), path);
        if (*dir && *dir != '/' && near && !found)
            found = keep_if_has(kvr_path_join(near, dir), path);
        free(said);
    }
    kvr_table_close(&t);
    free(near);
    return found;
}

char *kvr_html_media(const char *db_path, const char *told, const char *path)
{
    static const char *const near[] = { "", "out", "run" };
    char *dir, *stem, *found;

    if (told)
        return keep_if_has(strdup(told), path);
    found = find_said(db_path, path);
    dir = kvr_path_dir(db_path);
    for (size_t i = 0; dir && !found && i < sizeof near / sizeof near[0]; i++)
        found = keep_if_has(*near[i] ? kvr_path_join(dir, near[i]) : strdup(dir), path);
    free(dir);
    stem = strdup(db_path); /* out/study33.db with out/study33/ beside it */
    if (stem && !found && strlen(stem) > 3 && strcmp(stem + strlen(stem) - 3, ".db") == 0) {
        stem[strlen(stem) - 3] = '\0';
        found = keep_if_has(stem, path);
        stem = NULL;
    }
    free(stem);
    return found ? found : keep_if_has(strdup("out"), path);
}

static enum kvr_status read_file(const char *path, char **out, size_t *n)
{
    struct stat info;
    FILE *f = fopen(path, "rb");

    *out = NULL;
    *n = 0;
    if (!f || fstat(fileno(f), &info) != 0) {
        if (f)
            fclose(f);
        return kvr_fail(KVR_EIO, "%s: %s", path, strerror(errno));
    }
    *out = malloc((size_t)info.st_size + 1);
    if (*out)
        *n = fread(*out, 1, (size_t)info.st_size, f);
    fclose(f);
    if (!*out)
        return no_memory();
    return *n == (size_t)info.st_size ? KVR_OK : kvr_fail(KVR_EIO, "%s: cannot be read", path);
}

static enum kvr_status write_file(const char *path, const char *p, size_t n)
{
    struct kvr_out *out;
    enum kvr_status st = kvr_out_open(&out, path);

    if (st != KVR_OK)
        return st;
    st = kvr_out_write(out, p, n);
    if (st == KVR_OK)
        return kvr_out_commit(&out);
    kvr_out_drop(&out);
    return st;
}

/* A second name for the same file where the disk is the same, else a copy. */
static enum kvr_status give_file(const char *from, const char *to)
{
    char *bytes;
    size_t n;
    enum kvr_status st;

    if (unlink(to) != 0 && errno != ENOENT)
        return kvr_fail(KVR_EIO, "%s: %s", to, strerror(errno));
    if (link(from, to) == 0)
        return KVR_OK;
    KVR_TRY(read_file(from, &bytes, &n));
    st = write_file(to, bytes, n);
    free(bytes);
    return st;
}

static void put_base64(FILE *to, const unsigned char *p, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < n; i += 3) {
        unsigned v = (unsigned)p[i] << 16 | (i + 1 < n ? (unsigned)p[i + 1] << 8 : 0) |
                     (i + 2 < n ? p[i + 2] : 0);

        fputc(digits[v >> 18], to);
        fputc(digits[v >> 12 & 63], to);
        fputc(i + 1 < n ? digits[v >> 6 & 63] : '=', to);
        fputc(i + 2 < n ? digits[v & 63] : '=', to);
    }
}

/* ------------------------------------------------------------- videos */

/* Keys become names of files and stand in the page. */
static bool is_key(const char *key)
{
    return key[0] && key[strspn(key, "0123456789abcdef")] == '\0';
}

struct videos {
    const char *db_path, *out_dir;
    const struct kvr_html_options *o;
    struct kvr_table *rows; /* of page_videos.sql */
    char *media;            /* where their paths begin; NULL: not found */
    int64_t room;           /* bytes left in a single file */
    struct kvr_html_result *result;
    FILE *to, *why; /* what is shown, and why the others are not */
};

/* The page says in the video's place why there is none. */
static void leave_out(struct videos *v, int *count, const char *key, const char *reason)
{
    const int n = v->result->n_gone + v->result->n_other + v->result->n_no_room;

    ++*count;
    if (!is_key(key))
        return;
    fprintf(v->why, "%s\"%s\":", n ? ",\n" : "", key);
    kvr_escape_json(v->why, reason);
}

static enum kvr_status put_inline(struct videos *v, const char *key, const char *from)
{
    char *bytes;
    size_t n;
    enum kvr_status st;
    struct stat info;
    int64_t needs;

    if (stat(from, &info) != 0)
        return kvr_fail(KVR_EIO, "%s: %s", from, strerror(errno));
    needs = ((int64_t)info.st_size + 2) / 3 * 4 + 100;
    if (needs > v->room) {
        leave_out(v, &v->result->n_no_room, key,
                  "left out: the single file would be larger than --cap");
        return KVR_OK;
    }
    st = read_file(from, &bytes, &n);
    if (st == KVR_OK) {
        fprintf(v->to, "%s\"%s\":\"data:video/mp4;base64,", v->result->n_videos ? ",\n" : "", key);
        put_base64(v->to, (const unsigned char *)bytes, n);
        fputc('"', v->to);
        v->room -= needs;
        v->result->n_videos++;
    }
    free(bytes);
    return st;
}

static enum kvr_status put_beside(struct videos *v, const char *key, const char *from)
{
    char *dir = kvr_path_join(v->out_dir, "assets"), *name = NULL, *to = NULL;
    enum kvr_status st = dir ? kvr_mkdirs(dir) : no_memory();

    if (st == KVR_OK && (asprintf(&name, "%s.mp4", key) < 0 || !(to = kvr_path_join(dir, name))))
        st = no_memory();
    if (st == KVR_OK)
        st = give_file(from, to);
    if (st == KVR_OK)
        fprintf(v->to, "%s\"%s\":\"assets/%s\"", v->result->n_videos++ ? ",\n" : "", key, name);
    free(dir);
    free(name);
    free(to);
    return st;
}

/* Is the file at `from` the one that was measured? Else `why` [n] says what is there instead. Sizes
 * first: they cost nothing. */
static bool is_whole(const char *from, int64_t bytes, const char *sha256, char *why, size_t n)
{
    char hex[KVR_SHA256_HEX];
    struct stat info;

    if (stat(from, &info) != 0)
        snprintf(why, n, "there is no file any more: %s", strerror(errno));
    else if (!S_ISREG(info.st_mode))
        snprintf(why, n, "what is there is not a file");
    else if ((int64_t)info.st_size != bytes)
        snprintf(why, n,
                 "not shown: another file is there, of %lld bytes; this cell's had %lld "
                 "(another sweep may have written over it)",
                 (long long)info.st_size, (long long)bytes);
    else if (kvr_sha256_file(from, hex) != KVR_OK)
        snprintf(why, n, "cannot be read: %s", kvr_error());
    else if (strcmp(hex, sha256) != 0)
        snprintf(why, n,
                 "not shown: another file is there, of the same size; its sha256 is %.12s..., "
                 "this cell's was %.12s...",
                 hex, sha256);
    else
        return true;
    return false;
}

enum { KEY, PATH, SHA256, BYTES }; /* columns of page_videos.sql */

/* One that is gone, or is not the file that was measured, is left out, and its place says so. */
static enum kvr_status put_video(struct videos *v, int row)
{
    const char *key = kvr_table_text(v->rows, row, KEY), *path = kvr_table_text(v->rows, row, PATH);
    char why[256], *from;
    enum kvr_status st = KVR_OK;

    if (!v->media || !is_key(key) || !has(v->media, path)) {
        leave_out(v, &v->result->n_gone, key,
                  v->media ? "there is no such file in the sweep's folder"
                           : "the sweep's folder was not found (`kvreel report --media` says where "
                             "it is)");
        return KVR_OK;
    }
    from = kvr_path_join(v->media, path);
    if (!from)
        return no_memory();
    if (!is_whole(from, kvr_table_at(v->rows, row, BYTES)->i, kvr_table_text(v->rows, row, SHA256),
                  why, sizeof why))
        leave_out(v, &v->result->n_other, key, why);
    else
        st = v->o->single_file ? put_inline(v, key, from) : put_beside(v, key, from);
    free(from);
    return st;
}

static enum kvr_status find_videos(struct videos *v)
{
    KVR_TRY(kvr_table_query(&v->rows, v->db_path, kvr_statement_page_videos, NULL));
    for (int r = 0; r < v->rows->n_rows && !v->media; r++) /* the first may be gone */
        v->media = kvr_html_media(v->db_path, v->o->media_dir, kvr_table_text(v->rows, r, PATH));
    return KVR_OK;
}

static enum kvr_status put_videos(struct videos *v)
{
    char *why = NULL;
    size_t n = 0;
    enum kvr_status st = KVR_OK;

    v->why = open_memstream(&why, &n);
    if (!v->why)
        return no_memory();
    fputs("{\"has\":{", v->to);
    for (int r = 0; st == KVR_OK && r < v->rows->n_rows; r++)
        st = put_video(v, r);
    if (!kvr_text_close(v->why, &why) && st == KVR_OK)
        st = no_memory();
    if (st == KVR_OK)
        fprintf(v->to, "},\n\"why\":{%s}}\n", why);
    free(why);
    return st;
}

/* ------------------------------------------------------------- the page */

/* 'sha256-...' of a script or style, as a content security policy wants it. */
static enum kvr_status put_hash(FILE *to, const char *text)
{
    char hex[KVR_SHA256_HEX];
    unsigned char raw[32];

    KVR_TRY(kvr_sha256_hex(text, strlen(text), hex));
    for (int i = 0; i < 32; i++) {
        unsigned byte;

        sscanf(hex + 2 * i, "%2x", &byte);
        raw[i] = (unsigned char)byte;
    }
    fputs("'sha256-", to);
    put_base64(to, raw, sizeof raw);
    fputc('\'', to);
    return KVR_OK;
}

/* The page with its marks {{style}}, {{script}}, ... filled in. The videos come last, when it is
 * known how much room is left. */
static enum kvr_status put_page(struct videos *v, const char *title, FILE *to)
{
    const char *at = kvr_report_page;
    enum kvr_status st = KVR_OK;

    v->to = to;
    while (st == KVR_OK && *at) {
        const char *mark = strstr(at, "{{");

        if (!mark) {
            fputs(at, to);
            break;
        }
        fwrite(at, 1, (size_t)(mark - at), to);
        at = mark;
        if (strncmp(at, "{{style}}", 9) == 0)
            fputs(kvr_report_style, to);
        else if (strncmp(at, "{{script}}", 10) == 0)
            fputs(kvr_report_script, to);
        else if (strncmp(at, "{{style_hash}}", 14) == 0)
            st = put_hash(to, kvr_report_style);
        else if (strncmp(at, "{{script_hash}}", 15) == 0)
            st = put_hash(to, kvr_report_script);
        else if (strncmp(at, "{{data}}", 8) == 0)
            st = kvr_html_data(v->db_path, v->media, title, to);
        else if (strncmp(at, "{{title}}", 9) == 0)
            kvr_escape_html(to, title);
        else if (strncmp(at, "{{videos}}", 10) == 0) {
            int64_t cap = v->o->cap_bytes ? v->o->cap_bytes : DEFAULT_CAP;

            /* What is still to come: the script and the markup behind. */
            v->room = cap - ftell(to) - (int64_t)strlen(kvr_report_script) - (int64_t)strlen(at);
            st = put_videos(v);
        }
        at = strstr(at, "}}");
        at = at ? at + 2 : "";
    }
    return st;
}

/* What the page is called: as told, else the sweeps by their configs, else the database's file. */
static enum kvr_status name_page(const struct videos *v, char **out)
{
    struct kvr_table *t;
    char *name;
    size_t n;

    if (v->o->title) {
        *out = strdup(v->o->title);
        return *out ? KVR_OK : no_memory();
    }
    KVR_TRY(kvr_table_query(&t, v->db_path, kvr_statement_page_names, NULL));
    *out = strdup(kvr_table_text(t, 0, 0));
    kvr_table_close(&t);
    if (!*out || **out)
        return *out ? KVR_OK : no_memory();
    free(*out);
    *out = name = strdup(kvr_path_base(v->db_path));
    if (!name)
        return no_memory();
    n = strlen(name);
    if (n > 3 && strcmp(name + n - 3, ".db") == 0)
        name[n - 3] = '\0';
    return KVR_OK;
}

static enum kvr_status count_cells(const char *db_path, int *n)
{
    struct kvr_table *t;

    KVR_TRY(kvr_table_query(&t, db_path, "SELECT count(*) FROM cell WHERE jitter = 0", NULL));
    *n = (int)kvr_table_number(t, 0, 0);
    kvr_table_close(&t);
    return *n ? KVR_OK : kvr_fail(KVR_ENOTFOUND, "report: %s has no cells", db_path);
}

enum kvr_status kvr_html_write(const char *db_path, const char *out_dir,
                               const struct kvr_html_options *options, struct kvr_html_result *out)
{
    struct videos v = { .db_path = db_path, .out_dir = out_dir, .o = options, .result = out };
    char *page = NULL, *title = NULL;
    size_t n = 0;
    FILE *to;
    enum kvr_status st;

    *out = (struct kvr_html_result){ 0 };
    KVR_TRY(count_cells(db_path, &out->n_cells));
    KVR_TRY(kvr_mkdirs(out_dir));
    snprintf(out->path, sizeof out->path, "%s/index.html", out_dir);
    to = open_memstream(&page, &n);
    if (!to)
        return no_memory();
    st = find_videos(&v);
    if (st == KVR_OK)
        st = name_page(&v, &title);
    if (st == KVR_OK)
        st = put_page(&v, title, to);
    if (!kvr_text_close(to, &page) && st == KVR_OK)
        st = no_memory();
    if (st == KVR_OK)
        st = write_file(out->path, page, n);
    out->bytes = (int64_t)n;
    free(page);
    free(title);
    free(v.media);
    kvr_table_close(&v.rows);
    return st;
}
