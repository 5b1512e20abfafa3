/* put.c - stores a session, and a finished cell with all its rows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/clock.h"
#include "harness/store/insert.h"
#include "harness/store/checksum.h"
#include "harness/store/plan.h"
#include "harness/store/sql.h"

enum kvr_status kvr_store_session(struct kvr_store *s, const struct kvr_session *x)
{
    char now[KVR_UTC_BYTES];
    const struct kvr_row_begun begun = { now };
    const struct kvr_part parts[] = { { KVR_RECORD_begun, &begun }, { KVR_RECORD_session, x } };

    enum kvr_status st;

    kvr_utc_now(now);
    KVR_TRY(kvr_sql_exec(s, "BEGIN IMMEDIATE", "writing the session"));
    st = kvr_insert(s, "session", parts, 2, 0, 1, "writing the session");
    if (st == KVR_OK)
        st = kvr_checksum_write(s, KVR_CHECKSUM_SESSION, x->id);
    for (int i = 0; st == KVR_OK && i < x->n_facts; i++)
        st = kvr_store_about(s, x->id, x->fact[i].name, x->fact[i].value);
    return kvr_sql_end(s, st, "writing the session");
}

static enum kvr_status put_cell(struct kvr_store *s, const struct kvr_row *r, int64_t attempt)
{
    const bool ok = r->outcome == KVR_OUT_OK;
    const char *noise = r->noise ? r->noise : "";
    const struct kvr_row_judged judged = {
        .outcome = kvr_outcome_name(r->outcome),
        .attempt = attempt,
        .verdict = !ok        ? "INVALID"
                   : noise[0] ? "NOISY"
                              : "VALID",
        .verdict_codes = ok ? noise : kvr_outcome_name(r->outcome),
        .time_codes = ok && r->time_codes ? r->time_codes
                      : ok                ? noise
                                          : kvr_outcome_name(r->outcome),
        .device_missing = !r->measured      ? "not measured"
                          : r->device_bytes ? NULL
                                            : "no device: backend cpu",
        .model_sha256 = r->model_sha256 ? r->model_sha256 : "unknown",
        .input_sha256 = r->input_sha256 ? r->input_sha256 : "unknown",
    };
    const struct kvr_part parts[] = { { KVR_RECORD_cell, r },
                                      { KVR_RECORD_measured, r },
                                      { KVR_RECORD_judged, &judged } };

    return kvr_insert(s, "cell", parts, 3, 0, 1, "writing a cell");
}

/* Inserts rows that refer to a cell. */
static enum kvr_status put_list(struct kvr_store *s, const char *key, const char *table,
                                enum kvr_record_id id, const void *items, size_t size, int n)
{
    const struct kvr_row_of of = { key };
    const struct kvr_part parts[] = { { KVR_RECORD_of, &of }, { id, items } };
    char what[64];

    sqlite3_snprintf(sizeof what, what, "writing the table %s", table);
    return kvr_insert(s, table, parts, 2, size, n, what);
}

static enum kvr_status put_series(struct kvr_store *s, const char *key,
                                  const struct kvr_row_metric *m)
{
    struct kvr_row_series *x = calloc((size_t)m->n_series + 1, sizeof *x);
    enum kvr_status st;

    if (!x)
        return kvr_fail(KVR_ENOMEM, "store: out of memory");
    for (int i = 0; i < m->n_series; i++)
        x[i] = (struct kvr_row_series){ m->name, i, m->series[i] };
    st = put_list(s, key, "series", KVR_RECORD_series, x, sizeof *x, m->n_series);
    free(x);
    return st;
}

static enum kvr_status put_metrics(struct kvr_store *s, const struct kvr_row *r)
{
    for (int i = 0; i < r->n_metrics; i++) {
        struct kvr_row_metric m = r->metric[i];

        if (m.missing)
            m.value = m.extra = NAN;
        KVR_TRY(put_list(s, r->key, "metric", KVR_RECORD_metric, &m, sizeof m, 1));
        KVR_TRY(put_series(s, r->key, &m));
    }
    return KVR_OK;
}

static enum kvr_status put_passes(struct kvr_store *s, const struct kvr_row *r)
{
    const struct kvr_row_of of = { r->key };
    struct kvr_row_nth nth = { 0 };
    const struct kvr_part parts[] = { { KVR_RECORD_of, &of },
                                      { KVR_RECORD_nth, &nth },
                                      { KVR_RECORD_pass, r->pass } };

    return kvr_insert_counted(s, "pass", parts, 3, sizeof *r->pass, r->n_passes, &nth.idx,
                              "writing a pass");
}

/* Reads *ok, whether the cell has been measured, and *attempt, the number of its next attempt. */
static enum kvr_status read_attempts(struct kvr_store *s, const char *key, bool *ok,
                                     int64_t *attempt)
{
    static const char sql[] =
        "SELECT coalesce(max(outcome = 'OK'), 0), 1 + max(coalesce(max(attempt), 0), coalesce("
        "(SELECT max(n) FROM attempt WHERE cell = ?1), 0)) FROM cell WHERE key = ?1";
    sqlite3_stmt *q;
    enum kvr_status st = KVR_OK;

    KVR_TRY(kvr_sql_prepare(s, &q, sql));
    kvr_sql_bind(q, "t", key);
    if (sqlite3_step(q) == SQLITE_ROW) {
        *ok = sqlite3_column_int(q, 0);
        *attempt = sqlite3_column_int64(q, 1);
    } else {
        st = kvr_sql_fail(s->db, s->path, "reading a cell");
    }
    sqlite3_finalize(q);
    return st;
}

static enum kvr_status drop_earlier(struct kvr_store *s, const char *key)
{
    sqlite3_stmt *q;
    enum kvr_status st;

    KVR_TRY(kvr_sql_prepare(s, &q, "DELETE FROM cell WHERE key = ?"));
    kvr_sql_bind(q, "t", key);
    st = kvr_sql_step(s, q, "replacing a cell");
    sqlite3_finalize(q);
    return st;
}

static enum kvr_status put_attempt(struct kvr_store *s, const struct kvr_row *r, int64_t attempt)
{
    struct kvr_row_attempt x = { .cell = r->key,
                                 .session = r->session,
                                 .n = attempt,
                                 .outcome = kvr_outcome_name(r->outcome),
                                 .reason = r->reason,
                                 .log_tail = r->log_tail,
                                 .started = r->started,
                                 .finished = r->finished,
                                 .measured = r->measured,
                                 .wall_ns = r->wall_ns };
    const struct kvr_part part = { KVR_RECORD_attempt, &x };

    for (int i = 0; i < r->n_artifacts; i++)
        if (strcmp(r->artifact[i].kind, "frames") == 0)
            x.frames_sha256 = r->artifact[i].sha256;
    return kvr_insert(s, "attempt", &part, 1, 0, 1, "writing an attempt");
}

static enum kvr_status put_all(struct kvr_store *s, const struct kvr_row *r)
{
    /* The old checksum is verified before the change, so that a damaged cell does not get a valid
     * one. */
    const enum kvr_status checked = kvr_checksum_check(s, KVR_CHECKSUM_CELL, r->key);
    const bool intact = checked == KVR_OK;
    int64_t attempt = 1;
    bool ok = false;

    if (checked == KVR_ENOMEM) /* not checked: the cell may be damaged */
        return checked;
    KVR_TRY(kvr_store_stopped(s, r->key));
    KVR_TRY(read_attempts(s, r->key, &ok, &attempt));
    KVR_TRY(put_attempt(s, r, attempt));
    if (ok && r->outcome != KVR_OUT_OK)
        return intact ? kvr_checksum_write(s, KVR_CHECKSUM_CELL, r->key) : KVR_OK;
    KVR_TRY(drop_earlier(s, r->key));
    KVR_TRY(put_cell(s, r, attempt));
    KVR_TRY(put_metrics(s, r));
    KVR_TRY(put_list(s, r->key, "mem", KVR_RECORD_mem, r->mem, sizeof *r->mem, r->n_mem));
    KVR_TRY(put_passes(s, r));
    KVR_TRY(put_list(s, r->key, "sample", KVR_RECORD_sample, r->sample, sizeof *r->sample,
                     r->n_samples));
    KVR_TRY(
        put_list(s, r->key, "probe", KVR_RECORD_probe, r->probe, sizeof *r->probe, r->n_probes));
    KVR_TRY(put_list(s, r->key, "watch", KVR_RECORD_watch, r->watch, sizeof *r->watch, r->n_watch));
    KVR_TRY(put_list(s, r->key, "artifact", KVR_RECORD_artifact, r->artifact, sizeof *r->artifact,
                     r->n_artifacts));
    return kvr_checksum_write(s, KVR_CHECKSUM_CELL, r->key);
}

enum kvr_status kvr_store_put(struct kvr_store *s, const struct kvr_row *r)
{
    enum kvr_status st;

    KVR_TRY(kvr_sql_exec(s, "BEGIN IMMEDIATE", "writing a cell"));
    st = kvr_sql_end(s, put_all(s, r), "writing a cell");
    return st == KVR_OK ? kvr_store_in_place(s) : st;
}

enum kvr_status kvr_store_drift(struct kvr_store *s, const char *session, int idx, const char *cell,
                                const char *started, int64_t ns)
{
    const struct kvr_row_drift x = { session, idx, cell, started, ns };
    const struct kvr_part part = { KVR_RECORD_drift, &x };
    enum kvr_status st;

    KVR_TRY(kvr_sql_exec(s, "BEGIN IMMEDIATE", "writing a drift sample"));
    st = kvr_checksum_check(s, KVR_CHECKSUM_SESSION, session);
    if (st == KVR_OK)
        st = kvr_insert(s, "drift", &part, 1, 0, 1, "writing a drift sample");
    if (st == KVR_OK)
        st = kvr_checksum_write(s, KVR_CHECKSUM_SESSION, session);
    return kvr_sql_end(s, st, "writing a drift sample");
}

typedef enum kvr_status cell_fn(struct kvr_store *s, const char *key);

static enum kvr_status check_cell(struct kvr_store *s, const char *key)
{
    return kvr_checksum_check(s, KVR_CHECKSUM_CELL, key);
}

static enum kvr_status checksum_cell(struct kvr_store *s, const char *key)
{
    return kvr_checksum_write(s, KVR_CHECKSUM_CELL, key);
}

static enum kvr_status each_ok_cell(struct kvr_store *s, const char *session, cell_fn *fn)
{
    sqlite3_stmt *q;
    const char *key;
    enum kvr_status st = KVR_OK;
    int rc = SQLITE_DONE;

    KVR_TRY(kvr_sql_prepare(s, &q, "SELECT key FROM cell WHERE session = ? AND outcome = 'OK'"));
    kvr_sql_bind(q, "t", session);
    while (st == KVR_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) {
        st = kvr_sql_text(q, 0, &key);
        if (st == KVR_OK)
            st = fn(s, key);
    }
    if (st == KVR_OK && rc != SQLITE_DONE)
        st = kvr_sql_fail(s->db, s->path, "marking a session");
    sqlite3_finalize(q);
    return st;
}

/* SQL expression: the codes `codes`, which are separated by blanks, and the code ?2. */
#define ADD_CODE(codes)                                                                            \
    "iif(instr(' ' || " codes " || ' ', ' ' || ?2 || ' '), " codes ", ltrim(" codes " || ' ' || "  \
    "?2))"

#define NEW_VERDICT_CODES ADD_CODE("verdict_codes")

/* If the column time_codes is NULL, the view cells_wide shows the other value. */
#define NEW_TIME_CODES                                                                             \
    ADD_CODE("coalesce(time_codes, iif(timing, verdict_codes, trim('UNTIMED ' || "                 \
             "verdict_codes)))")

/* Verifies the OK cells of a session, runs and finalizes the statement `q`, which updates these
 * cells, and computes their checksums again. */
static enum kvr_status update_cells(struct kvr_store *s, const char *session, sqlite3_stmt *q)
{
    enum kvr_status st = kvr_sql_exec(s, "BEGIN IMMEDIATE", "marking a session");

    if (st == KVR_OK) {
        st = each_ok_cell(s, session, check_cell);
        if (st == KVR_OK)
            st = kvr_sql_step(s, q, "marking a session");
        if (st == KVR_OK)
            st = each_ok_cell(s, session, checksum_cell);
        st = kvr_sql_end(s, st, "marking a session");
    }
    sqlite3_finalize(q);
    return st;
}

enum kvr_status kvr_store_noisy(struct kvr_store *s, const char *session, const char *code)
{
    static const char sql[] =
        "UPDATE cell SET verdict = 'NOISY', verdict_codes = " NEW_VERDICT_CODES
        ", time_codes = " NEW_TIME_CODES " WHERE session = ?1 AND outcome = 'OK'";
    sqlite3_stmt *q;

    KVR_TRY(kvr_sql_prepare(s, &q, sql));
    kvr_sql_bind(q, "tt", session, code);
    return update_cells(s, session, q);
}

enum kvr_status kvr_store_untimed_drift(struct kvr_store *s, const char *session, double most)
{
    static const char sql[] =
        "WITH b AS (SELECT model, frames, window, path, run_kind FROM cell WHERE session = ?1 AND "
        "is_baseline AND outcome = 'OK' AND NOT timing GROUP BY model, frames, window, path, "
        "run_kind, threads, backend HAVING max(wall_ns) > (1 + ?3) * min(wall_ns)) "
        "UPDATE cell SET time_codes = " NEW_TIME_CODES
        " WHERE session = ?1 AND outcome = 'OK' AND NOT timing AND "
        "(model, frames, window, path, run_kind) IN b";
    sqlite3_stmt *q;

    KVR_TRY(kvr_sql_prepare(s, &q, sql));
    kvr_sql_bind(q, "ttd", session, "DRIFT", most);
    return update_cells(s, session, q);
}

static enum kvr_status replace_metrics(struct kvr_store *s, const struct kvr_row *r)
{
    static const char *const sql[] = { "DELETE FROM metric WHERE cell = ? AND name = ?",
                                       "DELETE FROM series WHERE cell = ? AND name = ?" };

    for (int i = 0; i < 2; i++) {
        enum kvr_status st = KVR_OK;
        sqlite3_stmt *q;

        KVR_TRY(kvr_sql_prepare(s, &q, sql[i]));
        for (int k = 0; st == KVR_OK && k < r->n_metrics; k++) {
            kvr_sql_bind(q, "tt", r->key, r->metric[k].name);
            st = kvr_sql_step(s, q, "replacing a metric");
        }
        sqlite3_finalize(q);
        KVR_TRY(st);
    }
    return put_metrics(s, r);
}

static enum kvr_status put_spec(struct kvr_store *s, const char *cell, const char *spec)
{
    sqlite3_stmt *q;
    enum kvr_status st;

    KVR_TRY(kvr_sql_prepare(s, &q, "UPDATE cell SET spec = ?2 WHERE key = ?1"));
    kvr_sql_bind(q, "tt", cell, spec);
    st = kvr_sql_step(s, q, "updating column spec of a scored cell");
    sqlite3_finalize(q);
    return st;
}

enum kvr_status kvr_store_metrics(struct kvr_store *s, const char *cell, const char *spec,
                                  const struct kvr_row_metric *metric, int n)
{
    const struct kvr_row r = { .key = cell, .metric = metric, .n_metrics = n };
    enum kvr_status st;

    KVR_TRY(kvr_sql_exec(s, "BEGIN IMMEDIATE", "writing metrics"));
    st = check_cell(s, cell);
    if (st == KVR_OK)
        st = replace_metrics(s, &r);
    if (st == KVR_OK)
        st = put_spec(s, cell, spec);
    if (st == KVR_OK)
        st = checksum_cell(s, cell);
    return kvr_sql_end(s, st, "writing metrics");
}
