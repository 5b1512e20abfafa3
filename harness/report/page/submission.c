/* submission.c - see submission.h. */
#include "harness/report/page/submission.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/core/infile.h"
#include "harness/core/json.h"
#include "harness/core/memtext.h"
#include "harness/core/outfile.h"
#include "harness/core/path.h"
#include "harness/core/version.h"
#include "harness/report/table/table.h"
#include "harness/store/check.h"
#include "harness/store/keep.h"

enum { BLOCK = 512, MANIFEST_MOST = 1 << 20, MEMBERS_MOST = 1000 };
#define MEMBER_MOST ((int64_t)4 << 30)

static const char checksums[] = "SELECT what, key, sha256 FROM seal ORDER BY what, key";
static const char sweeps[] = "SELECT sweep, name, config FROM sweeps ORDER BY started, sweep";
static const char environment[] = "SELECT id, started, host, os, cpu_model, n_cpus, memory_bytes, "
                                  "governor, jobs, git_hash, git_dirty, "
                                  "compiler, cflags, libraries, driver, turbo, argv, config_path "
                                  "FROM session ORDER BY started, id";
static const char configs[] = "SELECT DISTINCT config_text FROM session ORDER BY config_text";

static enum kvr_status no_memory(void)
{
    return kvr_fail(KVR_ENOMEM, "submission: out of memory");
}

/* --- temporary folder for the database ------------------------------------------------------- */

static enum kvr_status open_folder(struct kvr_submission *s)
{
    const char *tmp = getenv("TMPDIR");

    *s = (struct kvr_submission){ 0 };
    if (asprintf(&s->dir, "%s/kvresult-XXXXXX", tmp && *tmp ? tmp : "/tmp") < 0) {
        s->dir = NULL;
        return no_memory();
    }
    if (!mkdtemp(s->dir)) {
        const enum kvr_status st = kvr_fail(KVR_EIO, "%s: cannot create this temporary folder: %s",
                                            s->dir, strerror(errno));

        free(s->dir);
        s->dir = NULL;
        return st;
    }
    s->db = kvr_path_join(s->dir, "results.db");
    return s->db ? KVR_OK : no_memory();
}

void kvr_submission_close(struct kvr_submission *s)
{
    if (s->db)
        kvr_store_remove(s->db);
    if (s->dir)
        rmdir(s->dir);
    free(s->dir);
    free(s->db);
    *s = (struct kvr_submission){ 0 };
}

/* --- the manifest ---------------------------------------------------------------------------- */

/* Hashes one checksum as "what key sha256\n". A key from a package has any length. */
static enum kvr_status add_checksum(struct kvr_sha256 *h, const struct kvr_table *t, int row)
{
    for (int c = 0; c < 3; c++) {
        const char *text = kvr_table_text(t, row, c);

        KVR_TRY(kvr_sha256_add(h, text, strlen(text)));
        KVR_TRY(kvr_sha256_add(h, c < 2 ? " " : "\n", 1));
    }
    return KVR_OK;
}

/* Makes the manifest's JSON object for the database. It contains the numbers of cells, sessions and
 * sweeps, and one hash over the checksums of all of them. */
static enum kvr_status checksums_json(const char *db, json_t **out)
{
    char hex[KVR_SHA256_HEX];
    int n_cells = 0, n_sessions = 0, n_sweeps = 0;
    struct kvr_sha256 h;
    struct kvr_table *t;
    enum kvr_status st;

    KVR_TRY(kvr_table_query(&t, db, checksums, NULL));
    st = kvr_sha256_open(&h);
    for (int r = 0; st == KVR_OK && r < t->n_rows; r++) {
        const char *what = kvr_table_text(t, r, 0);

        n_cells += !strcmp(what, "cell");
        n_sessions += !strcmp(what, "session");
        n_sweeps += !strcmp(what, "sweep");
        st = add_checksum(&h, t, r);
    }
    kvr_table_close(&t);
    if (st == KVR_OK)
        st = kvr_sha256_close(&h, hex);
    if (st == KVR_OK)
        *out = json_pack("{s:i, s:i, s:i, s:s}", "cells", n_cells, "sessions", n_sessions, "sweeps",
                         n_sweeps, "sha256", hex);
    return st != KVR_OK || *out ? st : no_memory();
}

/* --- writing --------------------------------------------------------------------------------- */

/* A member of the tar archive: a file on disk, or bytes in memory. */
struct member {
    char name[64];
    const char *path;
    char *text;
    int64_t bytes;
    char sha256[KVR_SHA256_HEX];
};

struct pack {
    struct member member[MEMBERS_MOST];
    int n;
};

static enum kvr_status add_text(struct pack *p, const char *name, char *text)
{
    struct member *m = &p->member[p->n];

    if (p->n == MEMBERS_MOST) {
        free(text);
        return kvr_fail(KVR_EINVAL,
                        "submission: the sweep used more than the limit of %d config files",
                        MEMBERS_MOST - 3);
    }
    p->n++;
    *m = (struct member){ .text = text, .bytes = (int64_t)strlen(text) };
    snprintf(m->name, sizeof m->name, "%s", name);
    return kvr_sha256_hex(text, strlen(text), m->sha256);
}

static enum kvr_status add_database(struct pack *p, const char *path)
{
    struct member *m = &p->member[p->n++];
    FILE *f;
    enum kvr_status st;

    *m = (struct member){ .name = "results.db", .path = path };
    KVR_TRY(kvr_infile_open(&f, path));
    st = fseek(f, 0, SEEK_END) == 0 && (m->bytes = ftell(f)) > 0
             ? KVR_OK
             : kvr_fail(KVR_EIO, "%s: cannot be read: %s", path, strerror(errno));
    fclose(f);
    return st == KVR_OK ? kvr_sha256_file(path, m->sha256) : st;
}

static enum kvr_status add_environment(struct pack *p, const char *db)
{
    struct kvr_table *t;
    char *text = NULL;
    size_t n;
    FILE *to;
    enum kvr_status st;

    KVR_TRY(kvr_table_query(&t, db, environment, NULL));
    to = kvr_text_open(&text, &n);
    st = to ? kvr_table_write(t, KVR_TABLE_JSON, to) : no_memory();
    if (!kvr_text_close(to, &text) && st == KVR_OK)
        st = no_memory();
    kvr_table_close(&t);
    if (st != KVR_OK) {
        free(text);
        return st;
    }
    return add_text(p, "environment.json", text);
}

static enum kvr_status add_configs(struct pack *p, const char *db)
{
    struct kvr_table *t;
    enum kvr_status st = KVR_OK;

    KVR_TRY(kvr_table_query(&t, db, configs, NULL));
    for (int r = 0; st == KVR_OK && r < t->n_rows; r++) {
        char hex[KVR_SHA256_HEX], name[64], *text = strdup(kvr_table_text(t, r, 0));

        st = text ? kvr_sha256_hex(text, strlen(text), hex) : no_memory();
        if (st != KVR_OK) {
            free(text);
            break;
        }
        snprintf(name, sizeof name, "configs/%.12s.yaml", hex);
        st = add_text(p, name, text);
    }
    kvr_table_close(&t);
    return st;
}

static enum kvr_status manifest(const struct pack *p, const char *db, const char *sweep, char **out)
{
    json_t *files = json_array(), *sums = NULL, *doc;
    enum kvr_status st = files ? checksums_json(db, &sums) : no_memory();

    for (int i = 0; st == KVR_OK && i < p->n; i++)
        if (json_array_append_new(files, json_pack("{s:s, s:I, s:s}", "name", p->member[i].name,
                                                   "bytes", (json_int_t)p->member[i].bytes,
                                                   "sha256", p->member[i].sha256)))
            st = no_memory();
    doc = json_pack("{s:s, s:i, s:s, s:s, s:o, s:o, s:o}", "kind", "kvreel-result", "schema", 1,
                    "version", kvr_version(), "git", kvr_git_hash(), "sweep", kvr_json_words(sweep),
                    "checksums", sums ? sums : json_null(), "files", files);
    *out = st == KVR_OK ? kvr_json_text(doc, JSON_INDENT(1)) : NULL;
    json_decref(doc);
    return st == KVR_OK && !*out ? no_memory() : st;
}

/* Writes a POSIX ustar header. Numbers are octal, and the checksum is computed with blanks in the
 * checksum field. */
static enum kvr_status put_header(struct kvr_out *to, const char *name, int64_t bytes)
{
    char h[BLOCK] = { 0 };
    unsigned sum = 0;

    snprintf(h, 100, "%s", name);
    memcpy(h + 100, "0000644\0000000000\0000000000", 24);
    snprintf(h + 124, 12, "%011llo", (unsigned long long)bytes);
    memcpy(h + 136, "00000000000", 12);
    memset(h + 148, ' ', 8);
    h[156] = '0';
    memcpy(h + 257, "ustar\00000", 8);
    for (int i = 0; i < BLOCK; i++)
        sum += (unsigned char)h[i];
    snprintf(h + 148, 8, "%06o", sum);
    h[155] = ' ';
    return kvr_out_write(to, h, sizeof h);
}

static enum kvr_status put_file(struct kvr_out *to, const char *path)
{
    char piece[1 << 16];
    FILE *f;
    enum kvr_status st;
    size_t n;

    KVR_TRY(kvr_infile_open(&f, path));
    st = KVR_OK;
    while (st == KVR_OK && (n = fread(piece, 1, sizeof piece, f)) > 0)
        st = kvr_out_write(to, piece, n);
    if (st == KVR_OK && ferror(f))
        st = kvr_fail(KVR_EIO, "%s: cannot be read: %s", path, strerror(errno));
    fclose(f);
    return st;
}

static enum kvr_status put_member(struct kvr_out *to, const struct member *m)
{
    static const char zeros[BLOCK];

    KVR_TRY(put_header(to, m->name, m->bytes));
    KVR_TRY(m->path ? put_file(to, m->path) : kvr_out_write(to, m->text, (size_t)m->bytes));
    return kvr_out_write(to, zeros, (size_t)((BLOCK - m->bytes % BLOCK) % BLOCK));
}

static enum kvr_status put_all(const struct pack *p, char *first, const char *path, int64_t *bytes)
{
    static const char end[2 * BLOCK];
    const struct member m = { .name = "manifest.json",
                              .text = first,
                              .bytes = (int64_t)strlen(first) };
    struct kvr_out *to;
    enum kvr_status st;

    KVR_TRY(kvr_out_open(&to, path));
    st = put_member(to, &m);
    *bytes = 2 * BLOCK + BLOCK + (m.bytes + BLOCK - 1) / BLOCK * BLOCK;
    for (int i = 0; st == KVR_OK && i < p->n; i++) {
        st = put_member(to, &p->member[i]);
        *bytes += BLOCK + (p->member[i].bytes + BLOCK - 1) / BLOCK * BLOCK;
    }
    if (st == KVR_OK)
        st = kvr_out_write(to, end, sizeof end);
    if (st == KVR_OK)
        st = kvr_out_commit(&to);
    kvr_out_drop(&to);
    return st;
}

/* Finds the requested sweep by name or id. If none is requested, the database must have only one
 * sweep. The caller frees *id, which is NULL after an error. */
static enum kvr_status find_sweep(const char *db, const char *want, char **id, char name[128],
                                  int *n_sweeps)
{
    char known[512] = "";
    int found = -1, n = 0;
    struct kvr_table *t;
    enum kvr_status st = KVR_OK;

    *id = NULL;
    KVR_TRY(kvr_table_query(&t, db, sweeps, NULL));
    for (int r = 0; r < t->n_rows; r++) {
        const char *is = kvr_table_text(t, r, 0), *called = kvr_table_text(t, r, 1);

        if (strlen(known) + strlen(called) + 24 < sizeof known)
            sprintf(known + strlen(known), "%s%s (%.8s)", r ? ", " : "", called, is);
        if (!want || !strcmp(called, want) ||
            (strlen(want) >= 4 && !strncmp(is, want, strlen(want)))) {
            found = r;
            n++;
        }
    }
    *n_sweeps = t->n_rows;
    if (n == 0)
        st = kvr_fail(KVR_EINVAL, "submission: %s: %s%s%s%s", db,
                      want ? "no sweep '" : "the database has no sweep", want ? want : "",
                      want ? "'; the database has " : "", want ? known : "");
    else if (n > 1)
        st = kvr_fail(KVR_EINVAL, "submission: %s: %d sweeps %s; choose one with --sweep: %s", db,
                      n, want ? "match --sweep" : "are in the database", known);
    else {
        *id = strdup(kvr_table_text(t, found, 0));
        st = *id ? KVR_OK : no_memory();
        snprintf(name, 128, "%s", kvr_table_text(t, found, 1));
    }
    kvr_table_close(&t);
    return st;
}

/* Copies the database without the other sweeps. */
static enum kvr_status copy_sweep(const char *db, const char *to, const char *id, int n_sweeps)
{
    struct kvr_check_result r;
    struct kvr_store *s;
    enum kvr_status st;

    KVR_TRY(kvr_store_rescue(db, to, NULL, NULL, &r));
    if (n_sweeps > 1) {
        KVR_TRY(kvr_store_open(&s, to));
        st = kvr_store_keep_sweep(s, id);
        kvr_store_close(&s);
        KVR_TRY(st);
    }
    return kvr_store_check_intact(to);
}

static enum kvr_status count(const char *db, struct kvr_submission_result *out)
{
    struct kvr_table *t;

    KVR_TRY(kvr_table_query(
        &t, db, "SELECT (SELECT count(*) FROM cell), (SELECT count(*) FROM session)", NULL));
    out->cells = (int64_t)kvr_table_number(t, 0, 0);
    out->sessions = (int64_t)kvr_table_number(t, 0, 1);
    kvr_table_close(&t);
    return out->cells ? KVR_OK
                      : kvr_fail(KVR_EINVAL, "submission: sweep '%s' has no cells", out->sweep);
}

enum kvr_status kvr_submission_write(const char *db, const char *sweep, const char *path,
                                     struct kvr_submission_result *out)
{
    struct pack *p = calloc(1, sizeof *p);
    struct kvr_submission work = { 0 };
    char *id = NULL, *first = NULL;
    int n_sweeps;
    enum kvr_status st = p ? kvr_store_check_intact(db) : no_memory();

    *out = (struct kvr_submission_result){ 0 };
    if (st == KVR_OK)
        st = find_sweep(db, sweep, &id, out->sweep, &n_sweeps);
    if (st == KVR_OK)
        st = open_folder(&work);
    if (st == KVR_OK)
        st = copy_sweep(db, work.db, id, n_sweeps);
    if (st == KVR_OK)
        st = count(work.db, out);
    if (st == KVR_OK)
        st = add_database(p, work.db);
    if (st == KVR_OK)
        st = add_environment(p, work.db);
    if (st == KVR_OK)
        st = add_configs(p, work.db);
    if (st == KVR_OK)
        st = manifest(p, work.db, out->sweep, &first);
    if (st == KVR_OK)
        st = put_all(p, first, path, &out->bytes);
    if (st == KVR_OK)
        memcpy(out->sha256, p->member[0].sha256, sizeof out->sha256);
    for (int i = 0; p && i < p->n; i++)
        free(p->member[i].text);
    free(p);
    free(id);
    free(first);
    kvr_submission_close(&work);
    return st;
}

/* --- reading a submission -------------------------------------------------------------------- */

/* Reads an octal header field, which may lack a final NUL. */
static bool read_octal(const char *field, size_t width, int64_t *out)
{
    char text[16] = "", *end;

    memcpy(text, field, width);
    *out = (int64_t)strtoull(text, &end, 8);
    return end != text && *out >= 0;
}

static bool is_header(const char h[BLOCK], char name[101], int64_t *bytes)
{
    int64_t sum = 0, stored_sum;

    if (memcmp(h + 257, "ustar", 5) != 0 || (h[156] != '0' && h[156] != 0) ||
        !read_octal(h + 148, 7, &stored_sum) || !read_octal(h + 124, 11, bytes))
        return false;
    for (int i = 0; i < BLOCK; i++)
        sum += i >= 148 && i < 156 ? ' ' : (unsigned char)h[i];
    memcpy(name, h, 100);
    name[100] = 0;
    return sum == stored_sum && *bytes <= MEMBER_MOST;
}

bool kvr_submission_is(const char *path)
{
    char h[BLOCK], name[101];
    int64_t bytes;
    FILE *f;
    bool is;

    if (kvr_infile_open(&f, path) != KVR_OK)
        return false;
    is = fread(h, 1, BLOCK, f) == BLOCK && is_header(h, name, &bytes) &&
         strcmp(name, "manifest.json") == 0;
    fclose(f);
    return is;
}

/* Reads and hashes the bytes of a member, and writes them to `to`. `to` NULL: they are not
 * written. */
static enum kvr_status take(FILE *f, const char *path, const char *name, int64_t bytes, FILE *to,
                            char sha256[KVR_SHA256_HEX])
{
    int64_t left = (bytes + BLOCK - 1) / BLOCK * BLOCK, own = bytes;
    char piece[1 << 16];
    struct kvr_sha256 h;
    enum kvr_status st;

    KVR_TRY(kvr_sha256_open(&h));
    st = KVR_OK;
    while (st == KVR_OK && left > 0) {
        const size_t n = left < (int64_t)sizeof piece ? (size_t)left : sizeof piece;
        const size_t mine = own < (int64_t)n ? (size_t)own : n;

        if (fread(piece, 1, n, f) != n)
            st = kvr_fail(KVR_EFORMAT,
                          "%s: the package ends %" PRId64 " bytes before the end of member '%.60s'",
                          path, left, name);
        if (st == KVR_OK)
            st = kvr_sha256_add(&h, piece, mine);
        if (st == KVR_OK && to && fwrite(piece, 1, mine, to) != mine)
            st = kvr_fail(KVR_EIO, "%s: cannot write member '%.60s': %s", path, name,
                          strerror(errno));
        left -= (int64_t)n;
        own -= (int64_t)mine;
    }
    {
        const enum kvr_status closed = kvr_sha256_close(&h, sha256);

        return st == KVR_OK ? closed : st;
    }
}

static enum kvr_status read_manifest(FILE *f, const char *path, json_t **out)
{
    char h[BLOCK], name[101], hex[KVR_SHA256_HEX], where[300], *text = NULL;
    int64_t bytes;
    size_t n;
    FILE *to;
    enum kvr_status st;

    *out = NULL;
    if (fread(h, 1, BLOCK, f) != BLOCK || !is_header(h, name, &bytes) || bytes > MANIFEST_MOST)
        return kvr_fail(KVR_EFORMAT, "%s: not a result package: it must begin with manifest.json",
                        path);
    to = kvr_text_open(&text, &n);
    st = to ? take(f, path, name, bytes, to, hex) : no_memory();
    if (!kvr_text_close(to, &text) && st == KVR_OK)
        st = no_memory();
    snprintf(where, sizeof where, "%.200s: manifest.json", path);
    if (st == KVR_OK)
        st = kvr_json_parse(out, text, strlen(text), where);
    free(text);
    if (st == KVR_OK &&
        (!json_is_object(*out) ||
         strcmp("kvreel-result", json_is_string(json_object_get(*out, "kind"))
                                     ? json_string_value(json_object_get(*out, "kind"))
                                     : "") != 0))
        st = kvr_fail(KVR_EFORMAT,
                      "%s: manifest.json: the key 'kind' must be kvreel-result, got '%.40s'", path,
                      json_is_object(*out) && json_is_string(json_object_get(*out, "kind"))
                          ? json_string_value(json_object_get(*out, "kind"))
                          : "nothing");
    return st;
}

/* Checks that the next member has the name, size and hash that the manifest states. */
static enum kvr_status check_member(FILE *f, const char *path, const json_t *listed,
                                    const struct kvr_submission *s)
{
    char h[BLOCK], name[101], hex[KVR_SHA256_HEX];
    const char *want_name, *want_hex;
    int64_t bytes, want_bytes;
    FILE *to = NULL;
    enum kvr_status st;

    KVR_TRY(kvr_json_string(listed, path, "name", &want_name));
    KVR_TRY(kvr_json_int(listed, path, "bytes", &want_bytes));
    KVR_TRY(kvr_json_string(listed, path, "sha256", &want_hex));
    if (fread(h, 1, BLOCK, f) != BLOCK || !is_header(h, name, &bytes) ||
        strcmp(name, want_name) != 0 || bytes != want_bytes)
        return kvr_fail(KVR_EFORMAT,
                        "%s: the package has no member '%.60s' of %" PRId64
                        " bytes, which its manifest lists",
                        path, want_name, want_bytes);
    if (strcmp(name, "results.db") == 0) {
        to = fopen(s->db, "wb");
        if (!to)
            return kvr_fail(KVR_EIO, "%s: cannot be written: %s", s->db, strerror(errno));
    }
    st = take(f, path, name, bytes, to, hex);
    if (to && fclose(to) != 0 && st == KVR_OK)
        st = kvr_fail(KVR_EIO, "%s: cannot be written: %s", s->db, strerror(errno));
    if (st == KVR_OK && strcmp(hex, want_hex) != 0)
        st = kvr_fail(KVR_EFORMAT,
                      "%s: member '%.60s' of the package has sha256 %.12s..., but manifest.json "
                      "has %.12s...: the member was modified",
                      path, name, hex, want_hex);
    return st;
}

static enum kvr_status compare_checksums(const char *path, const json_t *doc, const char *db)
{
    json_t *is = NULL;
    enum kvr_status st = kvr_store_check_intact(db);

    if (st == KVR_OK)
        st = checksums_json(db, &is);
    if (st == KVR_OK && !json_equal(is, json_object_get(doc, "checksums")))
        st = kvr_fail(KVR_EFORMAT,
                      "%s: the checksums of results.db differ from those in manifest.json: one of "
                      "the two was modified",
                      path);
    json_decref(is);
    return st == KVR_OK ? st : kvr_fail_prefix(st, "%s", kvr_path_base(path));
}

/* Checks that only zero bytes follow the last listed member. tar ends an archive with two blocks of
 * zeros or more. */
static enum kvr_status check_end(FILE *f, const char *path)
{
    static const char zeros[BLOCK];
    char rest[BLOCK];
    int64_t bytes = 0;
    size_t n;

    while ((n = fread(rest, 1, BLOCK, f)) > 0) {
        if (memcmp(rest, zeros, n) != 0)
            return kvr_fail(KVR_EFORMAT,
                            "%s: the package has members that its manifest does not list", path);
        bytes += (int64_t)n;
    }
    if (ferror(f))
        return kvr_fail(KVR_EIO, "%s: cannot be read: %s", path, strerror(errno));
    return bytes >= 2 * BLOCK ? KVR_OK
                              : kvr_fail(KVR_EFORMAT,
                                         "%s: the package ends with %" PRId64
                                         " bytes of zeros, need at least %d: it is truncated",
                                         path, bytes, 2 * BLOCK);
}

static enum kvr_status read_all(FILE *f, const char *path, const json_t *doc,
                                const struct kvr_submission *s)
{
    json_t *files;

    KVR_TRY(kvr_json_array(doc, path, "files", &files));
    for (size_t i = 0; i < json_array_size(files); i++)
        KVR_TRY(check_member(f, path, json_array_get(files, i), s));
    KVR_TRY(check_end(f, path));
    if (!kvr_path_exists(s->db))
        return kvr_fail(KVR_EFORMAT, "%s: the package has no results.db", path);
    return compare_checksums(path, doc, s->db);
}

enum kvr_status kvr_submission_open(struct kvr_submission *out, const char *path)
{
    json_t *doc = NULL;
    FILE *f;
    enum kvr_status st;

    *out = (struct kvr_submission){ 0 };
    KVR_TRY(kvr_infile_open(&f, path));
    st = open_folder(out);
    if (st == KVR_OK)
        st = read_manifest(f, path, &doc);
    if (st == KVR_OK)
        st = read_all(f, path, doc, out);
    fclose(f);
    json_decref(doc);
    if (st != KVR_OK)
        kvr_submission_close(out);
    return st;
}
