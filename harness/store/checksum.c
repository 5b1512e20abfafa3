/* checksum.c - hashes rows as canonical text. */
#include "harness/store/checksum.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "harness/store/sql.h"

const char *const kvr_checksum_names[KVR_N_CHECKSUMS] = { "cell", "session", "sweep" };
const int kvr_checksum_since[KVR_N_CHECKSUMS] = { KVR_STORE_CHECKSUMS, KVR_STORE_CHECKSUMS,
                                                  KVR_STORE_PLAN_CHECKSUMS };

const char *const kvr_checksum_tables[KVR_N_CHECKSUMS][12][2] = {
    { { "cell", "key" },
      { "metric", "cell" },
      { "series", "cell" },
      { "mem", "cell" },
      { "pass", "cell" },
      { "probe", "cell" },
      { "sample", "cell" },
      { "artifact", "cell" },
      { "watch", "cell" },
      { "attempt", "cell" },
      { NULL, NULL } },
    { { "session", "id" }, { "drift", "session" }, { "about", "session" }, { NULL, NULL } },
    { { "sweep", "id" }, { "plan", "sweep" }, { NULL, NULL } },
};

/* Selects a table's columns in order of name, so that the hash does not depend on the column order.
 */
static enum kvr_status select_rows(sqlite3 *db, const char *path, const char *schema,
                                   const char *const table[2], sqlite3_stmt **q)
{
    static const char list[] =
        "SELECT group_concat('\"' || name || '\"') FROM (SELECT name FROM pragma_table_xinfo(?1, "
        "?2) WHERE hidden = 0 ORDER BY name)";
    sqlite3_stmt *names = NULL;
    const char *columns;
    char *sql = NULL;
    int rc;

    *q = NULL;
    if (sqlite3_prepare_v2(db, list, -1, &names, NULL) != SQLITE_OK)
        return kvr_sql_fail(db, path, "checking the rows");
    kvr_sql_bind(names, "tt", table[0], schema);
    columns =
        sqlite3_step(names) == SQLITE_ROW ? (const char *)sqlite3_column_text(names, 0) : NULL;
    if (columns)
        sql = sqlite3_mprintf("SELECT %s FROM %s.%s WHERE %s = ? ORDER BY %s", columns, schema,
                              table[0], table[1], columns);
    sqlite3_finalize(names);
    if (!columns && sqlite3_errcode(db) != SQLITE_NOMEM)
        return kvr_fail(KVR_ESCHEMA, "store: %s: table '%s' is missing", path, table[0]);
    rc = sql ? sqlite3_prepare_v2(db, sql, -1, q, NULL) : SQLITE_ERROR;
    sqlite3_free(sql);
    return rc == SQLITE_OK ? KVR_OK : kvr_sql_fail(db, path, "checking the rows");
}

/* Hashes a value as "name:i12,", "name:r<bits>," or "name:t5:hello,"; text has a length prefix, so
 * different rows have different encodings. */
static enum kvr_status add_value(struct kvr_sha256 *h, sqlite3_stmt *q, int c)
{
    const int type = sqlite3_column_type(q, c);
    const char *name = sqlite3_column_name(q, c);
    const void *text = NULL;
    char head[192];
    int n = 0;

    if (type == SQLITE_NULL)
        return KVR_OK;
    if (!name)
        return kvr_fail(KVR_ENOMEM, "store: out of memory");
    if (type == SQLITE_INTEGER) {
        n = snprintf(head, sizeof head, "%.64s:i%" PRId64 ",", name,
                     (int64_t)sqlite3_column_int64(q, c));
    } else if (type == SQLITE_FLOAT) {
        const double r = sqlite3_column_double(q, c);
        uint64_t bits;

        memcpy(&bits, &r, sizeof bits);
        n = snprintf(head, sizeof head, "%.64s:r%016" PRIx64 ",", name, bits);
    } else {
        text = sqlite3_column_blob(q, c);
        if (!text && sqlite3_column_bytes(q, c) > 0)
            return kvr_fail(KVR_ENOMEM, "store: out of memory");
        n = snprintf(head, sizeof head, "%.64s:%c%d:", name, type == SQLITE_TEXT ? 't' : 'b',
                     sqlite3_column_bytes(q, c));
    }
    KVR_TRY(kvr_sha256_add(h, head, (size_t)n));
    return text ? kvr_sha256_add(h, text, (size_t)sqlite3_column_bytes(q, c)) : KVR_OK;
}

static enum kvr_status add_table(struct kvr_checksums *s, struct kvr_sha256 *h,
                                 enum kvr_checksum_what what, int i, const char *key, int *rows)
{
    const char *const *table = kvr_checksum_tables[what][i];
    enum kvr_status st = KVR_OK;
    sqlite3_stmt *q;
    int rc;

    if (!s->rows[what][i])
        KVR_TRY(select_rows(s->db, s->path, s->schema, table, &s->rows[what][i]));
    q = s->rows[what][i];
    kvr_sql_bind(q, "t", key);
    for (; (rc = sqlite3_step(q)) == SQLITE_ROW && st == KVR_OK; ++*rows) {
        st = kvr_sha256_add(h, table[0], strlen(table[0]) + 1);
        for (int c = 0; st == KVR_OK && c < sqlite3_column_count(q); c++)
            st = add_value(h, q, c);
    }
    if (st == KVR_OK && rc != SQLITE_DONE)
        st = kvr_sql_fail(s->db, s->path, "checking the rows");
    sqlite3_reset(q);
    return st;
}

/* Hashes the rows of a group (cell, session or sweep). *rows: number of rows. */
static enum kvr_status make(struct kvr_checksums *s, enum kvr_checksum_what what, const char *key,
                            char hex[KVR_SHA256_HEX], int *rows)
{
    struct kvr_sha256 h = { 0 };
    enum kvr_status st = kvr_sha256_open(&h);

    *rows = 0;
    for (int i = 0; st == KVR_OK && kvr_checksum_tables[what][i][0]; i++)
        st = add_table(s, &h, what, i, key, rows);
    if (st == KVR_OK)
        return kvr_sha256_close(&h, hex);
    kvr_sha256_close(&h, NULL);
    return st;
}

static enum kvr_status prepare(struct kvr_checksums *s, sqlite3_stmt **q, const char *sql)
{
    char *text = *q ? NULL : sqlite3_mprintf(sql, s->schema);
    const int rc = *q     ? SQLITE_OK
                   : text ? sqlite3_prepare_v2(s->db, text, -1, q, NULL)
                          : SQLITE_NOMEM;

    sqlite3_free(text);
    return rc == SQLITE_OK ? KVR_OK : kvr_sql_fail(s->db, s->path, "reading a checksum");
}

enum kvr_status kvr_checksums_write(struct kvr_checksums *s, enum kvr_checksum_what what,
                                    const char *key)
{
    char hex[KVR_SHA256_HEX];
    enum kvr_status st = KVR_OK;
    int rows;

    KVR_TRY(make(s, what, key, hex, &rows));
    KVR_TRY(
        prepare(s, &s->write, "INSERT OR REPLACE INTO %s.seal(what, key, sha256) VALUES(?, ?, ?)"));
    kvr_sql_bind(s->write, "ttt", kvr_checksum_names[what], key, hex);
    if (sqlite3_step(s->write) != SQLITE_DONE)
        st = kvr_sql_fail(s->db, s->path, "writing a checksum");
    sqlite3_reset(s->write);
    return st;
}

/* Reads the stored checksum of a cell, session or sweep; hex becomes "" if none is stored. */
static enum kvr_status read_checksum(struct kvr_checksums *s, enum kvr_checksum_what what,
                                     const char *key, char hex[KVR_SHA256_HEX])
{
    enum kvr_status st = KVR_OK;
    const char *text = NULL;
    int rc;

    hex[0] = 0;
    KVR_TRY(prepare(s, &s->read, "SELECT sha256 FROM %s.seal WHERE what = ? AND key = ?"));
    kvr_sql_bind(s->read, "tt", kvr_checksum_names[what], key);
    rc = sqlite3_step(s->read);
    if (rc == SQLITE_ROW)
        st = kvr_sql_text(s->read, 0, &text);
    else if (rc != SQLITE_DONE)
        st = kvr_sql_fail(s->db, s->path, "checking the rows");
    snprintf(hex, KVR_SHA256_HEX, "%s", text ? text : "");
    sqlite3_reset(s->read);
    return st;
}

enum kvr_status kvr_checksums_check(struct kvr_checksums *s, enum kvr_checksum_what what,
                                    const char *key)
{
    const char *name = kvr_checksum_names[what];
    char now[KVR_SHA256_HEX], sealed[KVR_SHA256_HEX];
    int rows;

    KVR_TRY(make(s, what, key, now, &rows));
    KVR_TRY(read_checksum(s, what, key, sealed));
    if (rows == 0 && !sealed[0])
        return KVR_OK;
    if (!sealed[0])
        return kvr_fail(KVR_EFORMAT, "store: %s: %s %s has no checksum", s->path, name, key);
    if (rows == 0)
        return kvr_fail(KVR_EFORMAT, "store: %s: %s %s has a checksum, but its rows are missing",
                        s->path, name, key);
    return strcmp(now, sealed) == 0
               ? KVR_OK
               : kvr_fail(KVR_EFORMAT, "store: %s: the rows of %s %s do not match their checksum",
                          s->path, name, key);
}

void kvr_checksums_close(struct kvr_checksums *s)
{
    for (int w = 0; w < KVR_N_CHECKSUMS; w++)
        for (int i = 0; kvr_checksum_tables[w][i][0]; i++)
            sqlite3_finalize(s->rows[w][i]);
    sqlite3_finalize(s->read);
    sqlite3_finalize(s->write);
}

static struct kvr_checksums *checksums_of(struct kvr_store *s)
{
    s->checksums.db = s->db;
    s->checksums.path = s->path;
    s->checksums.schema = "main";
    return &s->checksums;
}

enum kvr_status kvr_checksum_write(struct kvr_store *s, enum kvr_checksum_what what,
                                   const char *key)
{
    return kvr_checksums_write(checksums_of(s), what, key);
}

enum kvr_status kvr_checksum_check(struct kvr_store *s, enum kvr_checksum_what what,
                                   const char *key)
{
    return kvr_checksums_check(checksums_of(s), what, key);
}

static enum kvr_status checksum_each(struct kvr_checksums *s, enum kvr_checksum_what what)
{
    char *sql = sqlite3_mprintf("SELECT %s FROM main.%s", kvr_checksum_tables[what][0][1],
                                kvr_checksum_tables[what][0][0]);
    sqlite3_stmt *q = NULL;
    int rc = sql ? sqlite3_prepare_v2(s->db, sql, -1, &q, NULL) : SQLITE_NOMEM;
    enum kvr_status st = KVR_OK;

    sqlite3_free(sql);
    if (rc != SQLITE_OK)
        return kvr_sql_fail(s->db, s->path, "writing checksums");
    while (st == KVR_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) {
        const char *key;

        st = kvr_sql_text(q, 0, &key);
        if (st == KVR_OK)
            st = kvr_checksums_write(s, what, key);
    }
    if (st == KVR_OK && rc != SQLITE_DONE)
        st = kvr_sql_fail(s->db, s->path, "writing checksums");
    sqlite3_finalize(q);
    return st;
}

enum kvr_status kvr_checksum_add_missing(struct kvr_store *s, int64_t version)
{
    enum kvr_status st = KVR_OK;

    for (int w = 0; st == KVR_OK && w < KVR_N_CHECKSUMS; w++)
        if (version < kvr_checksum_since[w])
            st = checksum_each(checksums_of(s), (enum kvr_checksum_what)w);
    return st;
}
