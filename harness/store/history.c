/* history.c - estimates a cell's time from stored cells: by three queries, each for less similar
 * cells than the one before. */
#include "harness/store/history.h"

#include <string.h>

#include "harness/store/sql.h"

/* Over the stored OK cells: mean time of cell and video writing, largest host memory peak, mean
 * bytes of output files, number of cells. */
#define TAKEN                                                                                      \
    "SELECT avg((SELECT sum(ns) FROM sample x WHERE x.cell = c.key AND x.kind IN ('cell', "        \
    "'video'))), "                                                                                 \
    "max(c.host_peak_bytes), avg((SELECT sum(bytes) FROM artifact a WHERE a.cell = c.key)), "      \
    "count(*) FROM cell c WHERE c.outcome = 'OK' AND c.run_kind = ? AND "

static enum kvr_status query(struct kvr_store *s, sqlite3_stmt *q, struct kvr_expected *out)
{
    if (sqlite3_step(q) == SQLITE_ROW && sqlite3_column_int64(q, 3) > 0 &&
        sqlite3_column_int64(q, 0) > 0)
        *out = (struct kvr_expected){ sqlite3_column_int64(q, 0), sqlite3_column_int64(q, 1),
                                      sqlite3_column_int64(q, 2) };
    return sqlite3_finalize(q) == SQLITE_OK ? KVR_OK
                                            : kvr_sql_fail(s->db, s->path, "reading earlier cells");
}

enum kvr_status kvr_store_expect(struct kvr_store *s, const struct kvr_like *l,
                                 struct kvr_expected *out)
{
    sqlite3_stmt *q;

    memset(out, 0, sizeof *out);
    KVR_TRY(kvr_sql_prepare(s, &q, TAKEN "c.rollout = ?"));
    kvr_sql_bind(q, "tt", l->kind, l->rollout);
    KVR_TRY(query(s, q, out));
    if (out->cell_ns > 0)
        return KVR_OK;
    KVR_TRY(kvr_sql_prepare(s, &q,
                            TAKEN "c.model = ? AND c.name = ? AND c.frames = ? AND c.window = ? "
                                  "AND c.path = ?"));
    kvr_sql_bind(q, "tttiit", l->kind, l->model, l->name, (int64_t)l->frames, (int64_t)l->window,
                 l->path);
    KVR_TRY(query(s, q, out));
    if (out->cell_ns > 0)
        return KVR_OK;
    KVR_TRY(kvr_sql_prepare(s, &q, TAKEN "c.model = ? AND c.name = ? AND c.frames = ?"));
    kvr_sql_bind(q, "ttti", l->kind, l->model, l->name, (int64_t)l->frames);
    return query(s, q, out);
}

enum kvr_status kvr_store_same_frames(struct kvr_store *s, const char *rollout, const char *key,
                                      const struct kvr_session *session, char sha256[65])
{
    static const char sql[] =
        "SELECT a.sha256 FROM cell c JOIN session x ON x.id = c.session JOIN artifact a ON a.cell "
        "= c.key AND a.kind = 'frames' WHERE c.outcome = 'OK' AND c.rollout = ? AND c.key <> ? AND "
        "x.code = ? AND x.compiler = ? AND x.cflags = ? AND x.cpu_model = ? LIMIT 1";
    const char *text = NULL;
    sqlite3_stmt *q;
    enum kvr_status st = KVR_OK;

    sha256[0] = 0;
    KVR_TRY(kvr_sql_prepare(s, &q, sql));
    kvr_sql_bind(q, "tttttt", rollout, key, session->code, session->compiler, session->cflags,
                 session->cpu_model);
    if (sqlite3_step(q) == SQLITE_ROW)
        st = kvr_sql_text(q, 0, &text);
    sqlite3_snprintf(65, sha256, "%s", text ? text : "");
    if (sqlite3_finalize(q) != SQLITE_OK && st == KVR_OK)
        st = kvr_sql_fail(s->db, s->path, "reading earlier cells");
    return st;
}

enum kvr_status kvr_store_times(struct kvr_store *s, const char *rollout,
                                const struct kvr_session *session, double *seconds, int most,
                                int *n)
{
    static const char sql[] =
        "SELECT c.wall_ns / 1e9 FROM cell c JOIN session x ON x.id = c.session JOIN about a ON "
        "a.session = x.id AND a.name = 'machine' WHERE c.rollout = ? AND c.timing AND "
        "c.outcome = 'OK' AND c.time_codes = '' AND x.code = ? AND a.value = ?";
    const char *machine = kvr_session_fact(session, "machine");
    sqlite3_stmt *q;

    *n = 0;
    KVR_TRY(kvr_sql_prepare(s, &q, sql));
    kvr_sql_bind(q, "ttt", rollout, session->code, machine ? machine : "");
    while (*n < most && sqlite3_step(q) == SQLITE_ROW)
        seconds[(*n)++] = sqlite3_column_double(q, 0);
    return sqlite3_finalize(q) == SQLITE_OK ? KVR_OK
                                            : kvr_sql_fail(s->db, s->path, "reading earlier cells");
}
