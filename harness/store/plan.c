/* plan.c - see plan.h. */
#include "harness/store/plan.h"

#include <string.h>

#include "harness/store/checksum.h"
#include "harness/store/sql.h"

static enum kvr_status put_sweep(struct kvr_store *s, const struct kvr_plan *p)
{
    sqlite3_stmt *q;
    enum kvr_status st;

    KVR_TRY(kvr_sql_prepare(s, &q, "INSERT OR IGNORE INTO sweep VALUES(?,?,?,?)"));
    kvr_sql_bind(q, "ttti", p->id, p->name, p->config, (int64_t)p->n);
    st = kvr_sql_step(s, q, "writing the plan of a sweep");
    sqlite3_finalize(q);
    return st;
}

static enum kvr_status put_cells(struct kvr_store *s, const struct kvr_plan *p)
{
    static const char sql[] =
        "INSERT INTO plan VALUES(?,?,?,?,?,?,?,?,?) ON CONFLICT(sweep, cell) DO UPDATE SET state = "
        "excluded.state WHERE state <> excluded.state AND state <> 'enough'";
    sqlite3_stmt *q;
    enum kvr_status st = KVR_OK;

    KVR_TRY(kvr_sql_prepare(s, &q, sql));
    for (int i = 0; st == KVR_OK && i < p->n; i++) {
        const struct kvr_planned *c = &p->cell[i];

        kvr_sql_bind(q, "tttttttdt", p->id, c->cell, c->method, c->model, c->suite, c->prompt_id,
                     c->run_kind, c->cost, c->state);
        st = kvr_sql_step(s, q, "writing the plan of a sweep");
    }
    sqlite3_finalize(q);
    return st;
}

enum kvr_status kvr_store_plan(struct kvr_store *s, const struct kvr_plan *plan)
{
    enum kvr_status st;

    KVR_TRY(kvr_sql_exec(s, "BEGIN IMMEDIATE", "writing the plan of a sweep"));
    st = kvr_checksum_check(s, KVR_CHECKSUM_SWEEP, plan->id);
    if (st == KVR_OK)
        st = put_sweep(s, plan);
    if (st == KVR_OK)
        st = put_cells(s, plan);
    if (st == KVR_OK)
        st = kvr_checksum_write(s, KVR_CHECKSUM_SWEEP, plan->id);
    return kvr_sql_end(s, st, "writing the plan of a sweep");
}

/* Runs one statement whose parameters are all text. */
static enum kvr_status put(struct kvr_store *s, const char *sql, const char *what,
                           const char *const text[4])
{
    char types[5] = "";
    sqlite3_stmt *q;
    enum kvr_status st;

    for (int i = 0; i < 4 && text[i]; i++)
        types[i] = 't';
    KVR_TRY(kvr_sql_prepare(s, &q, sql));
    kvr_sql_bind(q, types, text[0], text[1], text[2], text[3]);
    st = kvr_sql_step(s, q, what);
    sqlite3_finalize(q);
    return st;
}

/* Runs a statement that changes a row of the cell, session or sweep (`group`) with key text[0], and
 * updates the checksum of its rows. The caller may have opened a transaction. */
static enum kvr_status put_with_checksum(struct kvr_store *s, enum kvr_checksum_what group,
                                         const char *sql, const char *what,
                                         const char *const text[4])
{
    enum kvr_status st;

    KVR_TRY(kvr_sql_exec(s, "SAVEPOINT sealed", what));
    st = kvr_checksum_check(s, group, text[0]);
    if (st == KVR_OK)
        st = put(s, sql, what, text);
    if (st == KVR_OK)
        st = kvr_checksum_write(s, group, text[0]);
    if (st != KVR_OK)
        sqlite3_exec(s->db, "ROLLBACK TO sealed", NULL, NULL, NULL);
    sqlite3_exec(s->db, "RELEASE sealed", NULL, NULL, NULL);
    return st;
}

enum kvr_status kvr_store_enough(struct kvr_store *s, const char *sweep, const char *cell, bool yes)
{
    return put_with_checksum(s, KVR_CHECKSUM_SWEEP,
                             "UPDATE plan SET state = ?3 WHERE sweep = ?1 AND cell = ?2",
                             "writing the plan of a sweep",
                             (const char *const[4]){ sweep, cell, yes ? "enough" : "planned" });
}

enum kvr_status kvr_store_about(struct kvr_store *s, const char *session, const char *name,
                                const char *value)
{
    return put_with_checksum(s, KVR_CHECKSUM_SESSION, "INSERT OR REPLACE INTO about VALUES(?,?,?)",
                             "writing a name and value that describe a session",
                             (const char *const[4]){ session, name, value });
}

enum kvr_status kvr_store_started(struct kvr_store *s, const char *cell, const char *session,
                                  const char *started, const char *device)
{
    return put(s, "INSERT OR REPLACE INTO running VALUES(?,?,?,?)",
               "writing the record of a running cell",
               (const char *const[4]){ cell, session, started, device });
}

enum kvr_status kvr_store_stopped(struct kvr_store *s, const char *cell)
{
    return put(s, "DELETE FROM running WHERE cell = ?", "deleting the record of a running cell",
               (const char *const[4]){ cell });
}

enum kvr_status kvr_store_none_running(struct kvr_store *s)
{
    return kvr_sql_exec(s, "DELETE FROM running",
                        "deleting the records of cells that an interrupted run left running");
}
