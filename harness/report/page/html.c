/* html.c - writes the HTML page from its parts. The videos are in a folder next to the page or
 * embedded in it. */
#include "harness/report/page/html.h"

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
#include "harness/report/table/escape.h"
#include "harness/report/table/table.h"
#include "harness/store/statement.h"

enum { DEFAULT_CAP = 10 * 1000 * 1000 };

KVR_STATEMENT(page_videos);
KVR_STATEMENT(page_outs);
KVR_STATEMENT(page_names);

static enum kvr_status no_memory(void)
{
    return kvr_fail(KVR_ENOMEM, "report: out of memory");
}

/* ------------------------------------------------------------- search for the videos */

/* Sets *found to whether the folder `dir` contains the file `path`. Paths from the database are
 * untrusted, so a path that leads out of the folder counts as missing. */
static enum kvr_status has(const char *dir, const char *path, bool *found)
{
    char *full = kvr_path_join(dir, path);

    *found = full && kvr_path_is_below(dir, full);
    free(full);
    return full ? KVR_OK : no_memory();
}

/* A search for the first folder that contains the file `path`. */
struct search {
    const char *path;
    char *found;
    enum kvr_status st;
};

/* Sets s->found to the folder `dir` if `dir` contains the file s->path and no earlier folder did.
 * Takes ownership of `dir`. If `dir` is NULL because the caller ran out of memory, the search fails
 * with KVR_ENOMEM. */
static void try_folder(struct search *s, char *dir)
{
    bool there = false;

    if (s->st == KVR_OK && !s->found)
        s->st = dir ? has(dir, s->path, &there) : no_memory();
    if (there)
        s->found = dir;
    else
        free(dir);
}

/* Sets *out to the value of option --out in a sweep's command (a JSON array), or to NULL. The
 * caller frees it. */
static enum kvr_status out_option_of(const char *argv_json, char **out)
{
    json_t *argv = json_loads(argv_json, 0, NULL), *word;
    const char *option = NULL;
    bool failed;
    size_t i;

    json_array_foreach(argv, i, word)
    {
        const char *w = json_string_value(word),
                   *next = json_string_value(json_array_get(argv, i + 1));

        if (option || !w)
            continue;
        if (strncmp(w, "--out=", 6) == 0)
            option = w + 6;
        else if (strcmp(w, "--out") == 0 || strcmp(w, "-o") == 0)
            option = next;
    }
    *out = option ? strdup(option) : NULL;
    failed = option && !*out;
    json_decref(argv);
    return failed ? no_memory() : KVR_OK;
}

/* Looks for the file s->path in the output folder of each sweep. This folder is --out of the
 * sweep's command, or otherwise `out:` of its config. */
static enum kvr_status search_session_folders(struct search *s, const char *db_path)
{
    struct kvr_table *t = NULL;
    const enum kvr_status st = kvr_table_query(&t, db_path, kvr_statement_page_outs, NULL);

    if (st != KVR_OK)
        /* the query fails for databases of earlier versions, which lack a column; skip this
         * search */
        return st == KVR_ENOMEM ? st : KVR_OK;
    for (int r = 0; r < t->n_rows && s->st == KVR_OK && !s->found; r++) {
        char *option = NULL, *near;
        const char *dir;

        s->st = out_option_of(kvr_table_text(t, r, 0), &option);
        dir = option ? option : kvr_table_text(t, r, 1);
        if (*dir)
            try_folder(s, strdup(dir));
        if (*dir && *dir != '/') {
            near = kvr_path_dir(db_path);
            try_folder(s, near ? kvr_path_join(near, dir) : NULL);
            free(near);
        }
        free(option);
    }
    kvr_table_close(&t);
    return s->st;
}

/* Looks for the file s->path in the folder named after the database, such as out/study33/ for
 * out/study33.db. */
static void look_by_its_name(struct search *s, const char *db_path)
{
    const size_t n = strlen(db_path);

    if (n > 3 && strcmp(db_path + n - 3, ".db") == 0)
        try_folder(s, strndup(db_path, n - 3));
}

enum kvr_status kvr_html_media(char **out, const char *db_path, const char *out_dir,
                               const char *path)
{
    static const char *const near[] = { "", "out", "run" };
    struct search s = { .path = path, .st = KVR_OK };

    *out = NULL;
    if (out_dir) {
        try_folder(&s, strdup(out_dir));
    } else {
        char *dir = kvr_path_dir(db_path);

        s.st = dir ? search_session_folders(&s, db_path) : no_memory();
        for (size_t i = 0; i < sizeof near / sizeof near[0]; i++)
            try_folder(&s, dir && *near[i] ? kvr_path_join(dir, near[i]) : strdup(dir ? dir : ""));
        free(dir);
        look_by_its_name(&s, db_path);
        try_folder(&s, strdup("out"));
    }
    *out = s.found;
    return s.st;
}

/* Reads a file to *out, which the caller frees. After an error *out is NULL. */
static enum kvr_status read_file(const char *path, char **out, size_t *n)
{
    struct stat info;
    FILE *f = fopen(path, "rb");
    enum kvr_status st = KVR_OK;

    *out = NULL;
    *n = 0;
    if (!f || fstat(fileno(f), &info) != 0)
        st = kvr_fail(KVR_EIO, "%s: cannot be read: %s", path, strerror(errno));
    if (st == KVR_OK) {
        *out = malloc((size_t)info.st_size + 1);
        st = *out ? KVR_OK : no_memory();
    }
    if (st == KVR_OK) {
        *n = fread(*out, 1, (size_t)info.st_size, f);
        if (*n != (size_t)info.st_size)
            st = kvr_fail(KVR_EIO, "%s: the file changed while it was read", path);
    }
    if (f)
        fclose(f);
    if (st != KVR_OK) {
        free(*out);
        *out = NULL;
    }
    return st;
}

/* Hard-links the file on the same filesystem, otherwise copies it. */
static enum kvr_status give_file(const char *from, const char *to)
{
    char *bytes;
    size_t n;
    enum kvr_status st;

    if (unlink(to) != 0 && errno != ENOENT)
        return kvr_fail(KVR_EIO, "%s: cannot be replaced: %s", to, strerror(errno));
    if (link(from, to) == 0)
        return KVR_OK;
    KVR_TRY(read_file(from, &bytes, &n));
    st = kvr_out_save(to, bytes, n);
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

/* A cell's key becomes a file name and is written into the page, so only hexadecimal digits are
 * allowed. */
static bool is_key(const char *key)
{
    return key[0] && key[strspn(key, "0123456789abcdef")] == '\0';
}

struct videos {
    const char *db_path, *out_dir;
    const struct kvr_html_options *o;
    struct kvr_table *rows; /* rows of page_videos.sql */
    char *media;            /* folder that contains the video files; NULL: not found */
    int64_t budget;         /* remaining bytes for embedded videos */
    struct kvr_html_result *result;
    /* output streams: the shown videos, and the reasons why other videos are omitted */
    FILE *to, *why;
};

/* Records why a video is omitted. The page shows the reason instead of the video. */
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
    char why[128];

    if (stat(from, &info) != 0)
        return kvr_fail(KVR_EIO, "%s: cannot be read: %s", from, strerror(errno));
    needs = ((int64_t)info.st_size + 2) / 3 * 4 + 100;
    if (needs > v->budget) {
        snprintf(why, sizeof why,
                 "omitted: the video needs %lld bytes, but the limit of --cap leaves only %lld",
                 (long long)needs, (long long)v->budget);
        leave_out(v, &v->result->n_no_room, key, why);
        return KVR_OK;
    }
    st = read_file(from, &bytes, &n);
    if (st == KVR_OK) {
        fprintf(v->to, "%s\"%s\":\"data:video/mp4;base64,", v->result->n_videos ? ",\n" : "", key);
        put_base64(v->to, (const unsigned char *)bytes, n);
        fputc('"', v->to);
        v->budget -= needs;
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

/* Checks by size and hash that the file at `from` is the file that was measured, and sets *intact.
 * If it is not, `why` [n] describes the difference. */
static enum kvr_status check_video_file(const char *from, int64_t bytes, const char *sha256,
                                        bool *intact, char *why, size_t n)
{
    enum kvr_status st = KVR_OK;
    char hex[KVR_SHA256_HEX];
    struct stat info;

    *intact = false;
    if (stat(from, &info) != 0)
        snprintf(why, n, "the video file cannot be opened: %s", strerror(errno));
    else if (!S_ISREG(info.st_mode))
        snprintf(why, n, "not shown: the video is not a regular file");
    else if ((int64_t)info.st_size != bytes)
        snprintf(why, n,
                 "not shown: the file has %lld bytes, but had %lld when it was measured (another "
                 "sweep may have overwritten it)",
                 (long long)info.st_size, (long long)bytes);
    else if ((st = kvr_sha256_file(from, hex)) != KVR_OK)
        snprintf(why, n, "cannot be read: %s", kvr_error());
    else if (strcmp(hex, sha256) != 0)
        snprintf(why, n,
                 "not shown: the file's sha256 is %.12s..., but was %.12s... when it was measured",
                 hex, sha256);
    else
        *intact = true;
    return st == KVR_ENOMEM ? st : KVR_OK;
}

enum { KEY, PATH, SHA256, BYTES }; /* columns of page_videos.sql */

/* Adds a video. If the video's file is missing or was changed, the page shows the reason instead of
 * the video. */
static enum kvr_status put_video(struct videos *v, int row)
{
    const char *key = kvr_table_text(v->rows, row, KEY), *path = kvr_table_text(v->rows, row, PATH);
    char why[256], *from;
    bool there = false;
    enum kvr_status st;

    if (v->media && is_key(key))
        KVR_TRY(has(v->media, path, &there));
    if (!there) {
        leave_out(
            v, &v->result->n_gone, key,
            v->media
                ? "the sweep's output folder does not contain this video file"
                : "the sweep's output folder was not found; name it with `kvreel report --media`");
        return KVR_OK;
    }
    from = kvr_path_join(v->media, path);
    if (!from)
        return no_memory();
    st = check_video_file(from, kvr_table_at(v->rows, row, BYTES)->i,
                          kvr_table_text(v->rows, row, SHA256), &there, why, sizeof why);
    if (st == KVR_OK && !there)
        leave_out(v, &v->result->n_other, key, why);
    else if (st == KVR_OK)
        st = v->o->single_file ? put_inline(v, key, from) : put_beside(v, key, from);
    free(from);
    return st;
}

static enum kvr_status find_videos(struct videos *v)
{
    KVR_TRY(kvr_table_query(&v->rows, v->db_path, kvr_statement_page_videos, NULL));
    /* Searches for the folder of the videos by the path of each video in turn, because some videos
     * may be missing. */
    for (int r = 0; r < v->rows->n_rows && !v->media; r++)
        KVR_TRY(kvr_html_media(&v->media, v->db_path, v->o->media_dir,
                               kvr_table_text(v->rows, r, PATH)));
    return KVR_OK;
}

static enum kvr_status put_videos(struct videos *v)
{
    char *why = NULL;
    size_t n = 0;
    enum kvr_status st = KVR_OK;

    v->why = kvr_text_open(&why, &n);
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

/* Writes the hash of a script or style as 'sha256-...' for the page's Content-Security-Policy. */
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

/* Writes the page's template and replaces the marks {{style}}, {{script}}, and so on. In the
 * template, {{videos}} follows {{data}}, because the bytes left for videos depend on the size of
 * the data. */
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

            /* The limit `cap` is for the whole page, so reserve room for the script and the rest of
             * the template, which are written after the videos. */
            v->budget = cap - ftell(to) - (int64_t)strlen(kvr_report_script) - (int64_t)strlen(at);
            st = put_videos(v);
        }
        at = strstr(at, "}}");
        at = at ? at + 2 : "";
    }
    return st;
}

/* Returns the page's title in *out: the title that the options give, otherwise the names of the
 * sweeps, otherwise the file name of the database. */
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
    return *n ? KVR_OK
              : kvr_fail(KVR_ENOTFOUND, "report: database %s has no cells; run a sweep first",
                         db_path);
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
    to = kvr_text_open(&page, &n);
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
        st = kvr_out_save(out->path, page, n);
    out->bytes = (int64_t)n;
    free(page);
    free(title);
    free(v.media);
    kvr_table_close(&v.rows);
    return st;
}
