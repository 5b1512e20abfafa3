/* store.c - opens a database for its single writer. */
#include "harness/store/sql.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "harness/core/infile.h"
#include "harness/core/path.h"
#include "harness/store/statement.h"

KVR_STATEMENT(schema);

enum { BUSY_MS = 10000 };

static const char *const outcome_names[KVR_N_OUTCOMES] = {
    "OK",     "EXCLUDED", "UNSUPPORTED", "SKIPPED", "OOM_HOST", "OOM_DEVICE",  "TIMEOUT",
    "SIGNAL", "NAN",      "DIVERGED",    "INVALID", "ERROR",    "INTERRUPTED",
};

const char *kvr_outcome_name(enum kvr_outcome o)
{
    return o >= 0 && o < KVR_N_OUTCOMES ? outcome_names[o] : "?";
}

bool kvr_outcome_parse(const char *name, enum kvr_outcome *out)
{
    for (int i = 0; i < KVR_N_OUTCOMES; i++)
        if (strcmp(name, outcome_names[i]) == 0) {
            *out = (enum kvr_outcome)i;
            return true;
        }
    return false;
}

bool kvr_outcome_is_open(enum kvr_outcome o)
{
    return o == KVR_OUT_SKIPPED || o == KVR_OUT_INTERRUPTED;
}

bool kvr_outcome_is_failure(enum kvr_outcome o)
{
    return o != KVR_OUT_OK && o != KVR_OUT_EXCLUDED && o != KVR_OUT_UNSUPPORTED &&
           !kvr_outcome_is_open(o);
}

/* WAL mode does not work on a network filesystem: all processes must share the WAL index in memory,
 * and hosts have no common memory. */
static bool on_network(const char *path)
{
    static const long magic[] = {
        0x6969,     /* NFS */
        0x0BD00BD0, /* Lustre */
        0x47504653, /* GPFS */
        0x19830326, /* BeeGFS */
        0x517B,     /* SMB */
        0xFF534D42, /* CIFS */
        0xFE534D42, /* SMB2 */
        0x65735546, /* FUSE: sshfs and the like */
        0x01021997, /* 9P */
        0x00C36400, /* Ceph */
    };
    char *dir = kvr_path_dir(path);
    struct statfs f;
    bool yes = false;

    if (dir && statfs(dir, &f) == 0)
        for (size_t i = 0; i < sizeof magic / sizeof *magic; i++)
            yes = yes || (unsigned long)(unsigned)f.f_type == (unsigned long)magic[i];
    free(dir);
    return yes;
}

/* Creates the tables. If several processes open an empty file, the first to lock it creates the
 * tables. */
static enum kvr_status create(struct kvr_store *s, enum kvr_sql_form *form)
{
    char ids[128];
    enum kvr_status st;

    KVR_TRY(kvr_sql_exec(s, "BEGIN IMMEDIATE", "creating the tables"));
    st = kvr_sql_check_version(s->db, s->path, form, NULL);
    if (st != KVR_OK || *form != KVR_FORM_EMPTY) {
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
        return st;
    }
    st = kvr_sql_exec(s, kvr_statement_schema, "creating the tables");
    if (st == KVR_OK)
        st = kvr_sql_create_cell(s->db, s->path, "cell");
    if (st == KVR_OK)
        st = kvr_sql_create_since_5(s->db, s->path, "");
    if (st == KVR_OK)
        st = kvr_sql_create_cell_indexes(s->db, s->path, "");
    sqlite3_snprintf(sizeof ids, ids, "PRAGMA application_id = %d; PRAGMA user_version = %d",
                     KVR_STORE_APP_ID, KVR_STORE_VERSION);
    if (st == KVR_OK)
        st = kvr_sql_create_views(s->db, s->path, false);
    if (st == KVR_OK)
        st = kvr_sql_exec(s, ids, "creating the tables");
    if (st == KVR_OK)
        st = kvr_sql_exec(s, "COMMIT", "creating the tables");
    if (st != KVR_OK)
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return st;
}

/* Checks that the database is writable. Another writer is reported as EBUSY here, not only after
 * the first cell has been measured. */
static enum kvr_status check_writable(struct kvr_store *s)
{
    if (sqlite3_db_readonly(s->db, "main") == 1)
        return kvr_fail(KVR_EIO,
                        "store: %s: the database is read-only; allow writing to the file and its "
                        "folder, or use another database",
                        s->path);
    KVR_TRY(kvr_sql_exec(s, "BEGIN IMMEDIATE", "opening the database for writing"));
    return kvr_sql_exec(s, "ROLLBACK", "opening the database for writing");
}

/* Switches the database to WAL mode. It retries, because SQLite does not wait for locks during the
 * switch. */
static enum kvr_status use_wal(struct kvr_store *s)
{
    enum { STEP_MS = 20 };

    for (int ms = 0;; ms += STEP_MS) {
        const int rc = sqlite3_exec(s->db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);

        if (rc == SQLITE_OK)
            return kvr_sql_exec(s, "PRAGMA synchronous = FULL", "opening the database");
        if (rc != SQLITE_BUSY || ms >= BUSY_MS)
            return kvr_sql_fail(s->db, s->path, "opening the database");
        sqlite3_sleep(STEP_MS);
    }
}

static enum kvr_status set_up(struct kvr_store *s)
{
    enum kvr_sql_form form;
    int64_t version;

    sqlite3_busy_timeout(s->db, BUSY_MS);
    KVR_TRY(kvr_sql_check_version(s->db, s->path, &form, &version));
    s->has_tables = form != KVR_FORM_EMPTY;
    KVR_TRY(kvr_sql_exec(s, "PRAGMA foreign_keys = ON", "opening the database"));
    if (on_network(s->path))
        KVR_TRY(kvr_sql_exec(s,
                             "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = TRUNCATE;"
                             "PRAGMA synchronous = FULL",
                             "opening the database"));
    else
        KVR_TRY(use_wal(s));
    if (form == KVR_FORM_EMPTY)
        KVR_TRY(create(s, &form));
    s->has_tables = true;
    KVR_TRY(check_writable(s));
    return form == KVR_FORM_OLDER ? kvr_sql_migrate(s, version) : KVR_OK;
}

/* Explains SQLite's "unable to open database file". */
static enum kvr_status explain_open(const char *path, sqlite3 *db)
{
    const int error = sqlite3_system_errno(db);
    char *dir = kvr_path_dir(path);
    enum kvr_status st;

    if (!dir)
        return kvr_fail(KVR_ENOMEM, "store: out of memory");
    if (kvr_path_is_dir(path))
        st = kvr_fail(KVR_EIO, "store: %s: the path is a folder, need a database file", path);
    else if (!kvr_path_is_dir(dir))
        st = kvr_fail(
            KVR_ENOTFOUND,
            "store: %s: the folder %s does not exist; create the folder or correct the path", path,
            dir);
    else if (access(dir, W_OK) != 0)
        st = kvr_fail(KVR_EIO, "store: %s: cannot write to the folder %s: %s", path, dir,
                      strerror(errno));
    else
        st = kvr_fail(KVR_EIO, "store: %s: cannot open the database: %s", path,
                      error ? strerror(error) : sqlite3_errmsg(db));
    free(dir);
    return st;
}

static enum kvr_status open_with(struct kvr_store **out, const char *path, int flags,
                                 enum kvr_status set_up_fn(struct kvr_store *s))
{
    struct kvr_store *s = calloc(1, sizeof *s);
    enum kvr_status st;
    bool fresh;
    int rc;

    *out = NULL;
    fresh = access(path, F_OK) != 0;
    st = fresh ? KVR_OK : kvr_infile_check(path); /* SQLite would block on a FIFO */
    if (st != KVR_OK) {
        free(s);
        return kvr_fail_prefix(st, "store");
    }
    if (!s || !(s->path = strdup(path))) {
        free(s);
        return kvr_fail(KVR_ENOMEM, "store: out of memory");
    }
    rc = sqlite3_open_v2(path, &s->db, flags | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc == SQLITE_CANTOPEN)
        st = explain_open(path, s->db);
    else if (rc != SQLITE_OK)
        st = kvr_sql_fail(s->db, path, "opening the database");
    else
        st = set_up_fn(s);
    if (st != KVR_OK) {
        /* Other processes that have opened the file notice its removal (kvr_store_in_place). */
        if (fresh && !s->has_tables)
            unlink(path);
        kvr_store_close(&s);
        return st;
    }
    *out = s;
    return KVR_OK;
}

static int ask_to_wait(void *ctx, int times)
{
    enum { STEP_MS = 50 };
    struct kvr_store *s = ctx;

    if (!s->wait(s->wait_ctx, (int64_t)times * STEP_MS, STEP_MS))
        return 0;
    sqlite3_sleep(STEP_MS);
    return 1;
}

void kvr_store_wait(struct kvr_store *s, kvr_store_wait_fn *fn, void *ctx)
{
    s->wait = fn;
    s->wait_ctx = ctx;
    if (fn)
        sqlite3_busy_handler(s->db, ask_to_wait, s);
    else
        sqlite3_busy_timeout(s->db, BUSY_MS);
}

enum kvr_status kvr_store_open(struct kvr_store **out, const char *path)
{
    return open_with(out, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, set_up);
}

enum kvr_status kvr_store_open_readonly(struct kvr_store **out, const char *path)
{
    struct kvr_store *s = calloc(1, sizeof *s);
    enum kvr_status st;

    *out = NULL;
    if (!s || !(s->path = strdup(path))) {
        free(s);
        return kvr_fail(KVR_ENOMEM, "store: out of memory");
    }
    st = kvr_sql_open_readonly(&s->db, path, NULL);
    if (st != KVR_OK) {
        kvr_store_close(&s);
        return st;
    }
    *out = s;
    return KVR_OK;
}

enum kvr_status kvr_store_in_place(struct kvr_store *s)
{
    int moved = 0;
    char *to;
    enum kvr_status st;

    if (sqlite3_file_control(s->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) != SQLITE_OK || !moved)
        return KVR_OK;
    to = sqlite3_mprintf("%s.saved-%lld", s->path, (long long)getpid());
    if (!to)
        return kvr_fail(KVR_ENOMEM, "store: out of memory");
    if (kvr_sql_copy_database(s->db, to) == KVR_OK)
        st = kvr_fail(KVR_EIO,
                      "store: the database was deleted or renamed while in use (%s); results are "
                      "saved in %s",
                      s->path, to);
    else
        st = kvr_fail(KVR_EIO,
                      "store: %s: the database was deleted or renamed while in use, and the "
                      "results cannot be saved in %s: %s",
                      s->path, to, kvr_error());
    sqlite3_free(to);
    return st;
}

const char *kvr_store_copy_of(const struct kvr_store *s)
{
    return s->copy;
}

void kvr_store_remove(const char *path)
{
    static const char *const suffixes[] = { "", "-wal", "-shm", "-journal" };

    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        char *file = sqlite3_mprintf("%s%s", path, suffixes[i]);

        if (file)
            unlink(file);
        sqlite3_free(file);
    }
}

void kvr_store_close(struct kvr_store **s)
{
    if (!*s)
        return;
    kvr_checksums_close(&(*s)->checksums);
    sqlite3_close((*s)->db);
    free((*s)->path);
    free((*s)->copy);
    free(*s);
    *s = NULL;
}

static enum kvr_status read_known(sqlite3_stmt *q, struct kvr_known *out)
{
    enum { OUTCOME, REASON, WALL, PATH, SHA256, CODE, COMPILER, CFLAGS, CPU, N };
    const char *text[N];
    struct kvr_session by = { 0 };

    for (int i = 0; i < N; i++)
        if (i != WALL)
            KVR_TRY(kvr_sql_text(q, i, &text[i]));
    by.code = text[CODE];
    by.compiler = text[COMPILER];
    by.cflags = text[CFLAGS];
    by.cpu_model = (char *)(uintptr_t)text[CPU];
    KVR_TRY(kvr_session_build(&by, out->build));
    out->found = true;
    out->wall_ns = sqlite3_column_int64(q, WALL);
    sqlite3_snprintf(sizeof out->reason, out->reason, "%s", text[REASON]);
    sqlite3_snprintf(sizeof out->frames_path, out->frames_path, "%s", text[PATH]);
    sqlite3_snprintf(sizeof out->frames_sha256, out->frames_sha256, "%s", text[SHA256]);
    return text[OUTCOME] && kvr_outcome_parse(text[OUTCOME], &out->outcome) ? KVR_OK : KVR_EFORMAT;
}

enum kvr_status kvr_store_known(struct kvr_store *s, const char *key, struct kvr_known *out)
{
    static const char sql[] = "SELECT outcome, reason, coalesce(wall_ns, 0), a.path, a.sha256, "
                              "s.code, s.compiler, s.cflags, s.cpu_model "
                              "FROM cell JOIN session s ON s.id = cell.session LEFT JOIN artifact "
                              "a ON a.cell = key AND a.kind = 'frames' WHERE key = ?";
    enum kvr_status st = KVR_OK;
    sqlite3_stmt *q;
    int rc;

    memset(out, 0, sizeof *out);
    KVR_TRY(kvr_sql_prepare(s, &q, sql));
    kvr_sql_bind(q, "t", key);
    rc = sqlite3_step(q);
    if (rc == SQLITE_ROW) {
        st = read_known(q, out);
        if (st == KVR_EFORMAT)
            st = kvr_fail(st,
                          "store: %s: cell %s has the outcome '%.40s', which this version of "
                          "kvreel does not know; use a later version",
                          s->path, key, (const char *)sqlite3_column_text(q, 0));
    } else if (rc != SQLITE_DONE) {
        st = kvr_sql_fail(s->db, s->path, "reading a cell");
    }
    sqlite3_finalize(q);
    return st;
}

static enum kvr_status text_of(sqlite3_stmt *q, int column, char **out)
{
    const char *t;

    KVR_TRY(kvr_sql_text(q, column, &t));
    *out = t ? strdup(t) : NULL;
    return t && !*out ? kvr_fail(KVR_ENOMEM, "store: out of memory") : KVR_OK;
}

enum kvr_status kvr_store_alike(struct kvr_store *s, const char *rollout, const char *spec,
                                struct kvr_alike *out)
{
    static const char sql[] =
        "SELECT c.key, c.spec, f.path, f.sha256, b.path, b.sha256 FROM cell c LEFT JOIN artifact f "
        "ON f.cell = c.key AND f.kind = 'frames' LEFT JOIN artifact b ON b.cell = c.baseline AND "
        "b.kind = 'frames' WHERE c.rollout = ?1 AND c.outcome = 'OK' AND json_remove(c.spec, "
        "'$.metrics', '$.commands') = json_remove(?2, '$.metrics', '$.commands') ORDER BY "
        "c.finished DESC, c.key DESC LIMIT 1";
    enum kvr_status st = KVR_OK;
    sqlite3_stmt *q;
    int rc;

    memset(out, 0, sizeof *out);
    KVR_TRY(kvr_sql_prepare(s, &q, sql));
    kvr_sql_bind(q, "tt", rollout, spec);
    rc = sqlite3_step(q);
    if (rc == SQLITE_ROW) {
        char **const to[] = { &out->spec, &out->frames[0], &out->sha256[0], &out->frames[1],
                              &out->sha256[1] };
        const char *its;

        st = kvr_sql_text(q, 0, &its);
        if (st == KVR_OK)
            sqlite3_snprintf(sizeof out->key, out->key, "%s", its);
        for (int i = 0; st == KVR_OK && i < (int)(sizeof to / sizeof *to); i++)
            st = text_of(q, 1 + i, to[i]);
    } else if (rc != SQLITE_DONE) {
        st = kvr_sql_fail(s->db, s->path, "reading a cell");
    }
    sqlite3_finalize(q);
    return st;
}

void kvr_alike_free(struct kvr_alike *a)
{
    for (int i = 0; i < 2; i++) {
        free(a->frames[i]);
        free(a->sha256[i]);
    }
    free(a->spec);
    memset(a, 0, sizeof *a);
}
