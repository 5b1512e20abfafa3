/* put.c - a session, and a finished cell with everything that hangs on it. */
#include "harness/store/sql.h"

#include <math.h>
#include <string.h>
#include <time.h>

enum kvr_status kvr_store_session(struct kvr_store *s, const struct kvr_session *x)
{
    static const char sql[] = "INSERT INTO session VALUES(?1, strftime('%Y-%m-%dT%H:%M:%SZ', "
                              "'now'), ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, "
                              "?15, ?16, ?20, ?17, ?18, ?19)";
    sqlite3_stmt *q;
    enum kvr_status st;

    KVR_TRY(kvr_sql_prepare(s, &q, sql));
    kvr_sql_bind(q, "tttttttiititittttitt", x->id, x->argv, x->config_path, x->config_text, x->host,
                 x->os, x->cpu_model, (int64_t)x->n_cpus, x->memory_bytes, x->governor,
                 (int64_t)x->jobs, x->git_hash, (int64_t)x->git_dirty, x->compiler, x->cflags,
                 x->libraries, x->turbo, x->order_seed, x->code, x->driver);
    st = kvr_sql_step(s, q, "writing the session");
    sqlite3_finalize(q);
    return st;
}

static enum kvr_status put_cell(struct kvr_store *s, const struct kvr_row *r, int64_t attempt)
{
    static const char sql[] =
        "INSERT INTO cell(key, rollout, baseline, is_baseline, spec, method, name, reading, "
        "family, "
        "model, suite, prompt_id, prompt, repeat, outcome, reason, log_tail, attempt, session, "
        "started, finished, wall_ns, bf16_bytes, nominal_bytes, resident_bytes, max_nominal_bytes, "
        "max_resident_bytes, peak_bytes, live_start_bytes, live_end_bytes, host_peak_bytes, "
        "device_bytes, device_missing, model_sha256, input_sha256, verdict, verdict_codes, "
        "warning) "
        "VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
    static const char texts[] = "ttti"
                                "ttttttttt" /* spec .. prompt */
                                "itttittt"; /* repeat .. finished */
    const char *numbers = !r->measured      ? "xxxxxxxxxxx"
                          : r->device_bytes ? "iiiiiiiiiii"
                                            : "iiiiiiiiiix";
    const char *no_bytes = r->measured ? "no device: backend cpu" : "not measured";
    const char *noise = r->noise ? r->noise : "";
    const char *verdict = r->outcome != KVR_OUT_OK ? "INVALID" : noise[0] ? "NOISY" : "VALID";
    const char *codes = r->outcome != KVR_OUT_OK ? kvr_outcome_name(r->outcome) : noise;
    char types[64];
    sqlite3_stmt *q;
    enum kvr_status st;

    if (r->measured && r->device_bytes)
        no_bytes = NULL;
    KVR_TRY(kvr_sql_prepare(s, &q, sql));
    sqlite3_snprintf(sizeof types, types, "%s%stttttt", texts, numbers);
    kvr_sql_bind(q, types, r->key, r->rollout, r->baseline, (int64_t)r->is_baseline, r->spec,
                 r->method, r->name, r->reading, r->family, r->model, r->suite, r->prompt_id,
                 r->prompt, (int64_t)r->repeat, kvr_outcome_name(r->outcome), r->reason,
                 r->log_tail, attempt, r->session, r->started, r->finished, r->wall_ns,
                 r->bf16_bytes, r->nominal_bytes, r->resident_bytes, r->max_nominal_bytes,
                 r->max_resident_bytes, r->peak_bytes, r->live_start_bytes, r->live_end_bytes,
                 r->host_peak_bytes, r->device_bytes, no_bytes,
                 r->model_sha256 ? r->model_sha256 : "unknown",
                 r->input_sha256 ? r->input_sha256 : "unknown", verdict, codes, r->warning);
    st = kvr_sql_step(s, q, "writing a cell");
    sqlite3_finalize(q);
    return st;
}

static enum kvr_status put_series(struct kvr_store *s, const struct kvr_row *r,
                                  const struct kvr_row_metric *m)
{
    sqlite3_stmt *q;
    enum kvr_status st = KVR_OK;

    KVR_TRY(kvr_sql_prepare(s, &q, "INSERT INTO series VALUES(?,?,?,?)"));
    for (int i = 0; st == KVR_OK && i < m->n_series; i++) {
        kvr_sql_bind(q, "ttid", r->key, m->name, (int64_t)i, m->series[i]);
        st = kvr_sql_step(s, q, "writing a series");
    }
    sqlite3_finalize(q);
    return st;
}

static enum kvr_status put_metrics(struct kvr_store *s, const struct kvr_row *r)
{
    sqlite3_stmt *q;
    enum kvr_status st = KVR_OK;

    KVR_TRY(kvr_sql_prepare(s, &q, "INSERT INTO metric VALUES(?,?,?,?,?,?,?)"));
    for (int i = 0; st == KVR_OK && i < r->n_metrics; i++) {
        const struct kvr_row_metric *m = &r->metric[i];

        kvr_sql_bind(q, "ttdtidt", r->key, m->name, m->missing ? NAN : m->value, m->unit,
                     (int64_t)m->n, m->missing ? NAN : m->extra, m->missing);
        st = kvr_sql_step(s, q, "writing a metric");
        if (st == KVR_OK)
            st = put_series(s, r, m);
    }
    sqlite3_finalize(q);
    return st;
}

static enum kvr_status put_mem(struct kvr_store *s, const struct kvr_row *r)
{
    sqlite3_stmt *q;
    enum kvr_status st = KVR_OK;

    KVR_TRY(kvr_sql_prepare(s, &q, "INSERT INTO mem VALUES(?,?,?,?,?)"));
    for (int i = 0; st == KVR_OK && i < r->n_mem; i++) {
        const struct kvr_row_mem *m = &r->mem[i];

        kvr_sql_bind(q, "ttiii", r->key, m->tag, m->at_peak, m->tag_peak, m->live_end);
        st = kvr_sql_step(s, q, "writing memory");
    }
    sqlite3_finalize(q);
    return st;
}

static enum kvr_status put_passes(struct kvr_store *s, const struct kvr_row *r)
{
    sqlite3_stmt *q;
    enum kvr_status st = KVR_OK;

    KVR_TRY(kvr_sql_prepare(s, &q,
                            "INSERT INTO pass VALUES(?,?,?,?,?,?,?,?,?,?,?,"
                            "?,?,?,?,?,?,?,?,?,?,?,?)"));
    for (int i = 0; st == KVR_OK && i < r->n_passes; i++) {
        const struct kvr_row_pass *p = &r->pass[i];

        kvr_sql_bind(q, p->has_phases ? "tiiiiiiiiiiiiiiiiiiiiii" : "tiiiiiiiiiiiiiiiixxxxxx",
                     r->key, (int64_t)i, (int64_t)p->chunk, (int64_t)p->pass, p->t_ns, p->tokens,
                     p->bf16, p->nominal, p->resident, p->resident_kv, p->live_total,
                     p->by_tag[KVR_MEM_KV], p->by_tag[KVR_MEM_META], p->by_tag[KVR_MEM_SCRATCH],
                     p->by_tag[KVR_MEM_WEIGHTS], p->by_tag[KVR_MEM_ACT], p->by_tag[KVR_MEM_IO],
                     p->encode_ns, p->decode_ns, p->attend_ns, p->linear_ns, p->cross_ns,
                     p->other_ns);
        st = kvr_sql_step(s, q, "writing a pass");
    }
    sqlite3_finalize(q);
    return st;
}

static enum kvr_status put_samples(struct kvr_store *s, const struct kvr_row *r)
{
    sqlite3_stmt *q;
    enum kvr_status st = KVR_OK;

    KVR_TRY(kvr_sql_prepare(s, &q, "INSERT INTO sample VALUES(?,?,?,?)"));
    for (int i = 0; st == KVR_OK && i < r->n_samples; i++) {
        const struct kvr_row_sample *x = &r->sample[i];

        kvr_sql_bind(q, "ttii", r->key, x->kind, (int64_t)x->round, x->ns);
        st = kvr_sql_step(s, q, "writing a sample");
    }
    sqlite3_finalize(q);
    return st;
}

/* A place, or NULL for all. */
static char place(int index)
{
    return index < 0 ? 'x' : 'i';
}

static enum kvr_status put_probes(struct kvr_store *s, const struct kvr_row *r)
{
    sqlite3_stmt *q;
    enum kvr_status st = KVR_OK;

    KVR_TRY(kvr_sql_prepare(s, &q, "INSERT INTO probe VALUES(?,?,?,?,?,?,?,?,?)"));
    for (int i = 0; st == KVR_OK && i < r->n_probes; i++) {
        const struct kvr_row_probe *p = &r->probe[i];
        const char types[] = { 't',
                               't',
                               place(p->layer),
                               place(p->head),
                               place(p->step),
                               place(p->chunk),
                               place(p->age),
                               'd',
                               'i',
                               0 };

        kvr_sql_bind(q, types, r->key, p->name, (int64_t)p->layer, (int64_t)p->head,
                     (int64_t)p->step, (int64_t)p->chunk, (int64_t)p->age,
                     isfinite(p->value) ? p->value : NAN, p->n);
        st = kvr_sql_step(s, q, "writing a probe");
    }
    sqlite3_finalize(q);
    return st;
}

static enum kvr_status put_artifacts(struct kvr_store *s, const struct kvr_row *r)
{
    sqlite3_stmt *q;
    enum kvr_status st = KVR_OK;

    KVR_TRY(kvr_sql_prepare(s, &q, "INSERT INTO artifact VALUES(?,?,?,?,?)"));
    for (int i = 0; st == KVR_OK && i < r->n_artifacts; i++) {
        const struct kvr_row_artifact *a = &r->artifact[i];

        kvr_sql_bind(q, "tttit", r->key, a->kind, a->path, a->bytes, a->sha256);
        st = kvr_sql_step(s, q, "writing an artifact");
    }
    sqlite3_finalize(q);
    return st;
}

/* What there is of the cell: is it measured, and which attempt would be the next? */
static enum kvr_status look_back(struct kvr_store *s, const char *key, bool *ok, int64_t *attempt)
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
    const char *frames = NULL;
    sqlite3_stmt *q;
    enum kvr_status st;

    for (int i = 0; i < r->n_artifacts; i++)
        if (strcmp(r->artifact[i].kind, "frames") == 0)
            frames = r->artifact[i].sha256;
    KVR_TRY(kvr_sql_prepare(s, &q, "INSERT INTO attempt VALUES(?,?,?,?,?,?,?,?,?,?)"));
    kvr_sql_bind(q, r->measured ? "ttitttttit" : "ttitttttxt", r->key, r->session, attempt,
                 kvr_outcome_name(r->outcome), r->reason, r->log_tail, r->started, r->finished,
                 r->wall_ns, frames);
    st = kvr_sql_step(s, q, "writing an attempt");
    sqlite3_finalize(q);
    return st;
}

static enum kvr_status put_all(struct kvr_store *s, const struct kvr_row *r)
{
    int64_t attempt = 1;
    bool ok = false;

    KVR_TRY(look_back(s, r->key, &ok, &attempt));
    KVR_TRY(put_attempt(s, r, attempt));
    if (ok && r->outcome != KVR_OUT_OK)
        return KVR_OK;
    KVR_TRY(drop_earlier(s, r->key));
    KVR_TRY(put_cell(s, r, attempt));
    KVR_TRY(put_metrics(s, r));
    KVR_TRY(put_mem(s, r));
    KVR_TRY(put_passes(s, r));
    KVR_TRY(put_samples(s, r));
    KVR_TRY(put_probes(s, r));
    return put_artifacts(s, r);
}

enum kvr_status kvr_store_put(struct kvr_store *s, const struct kvr_row *r)
{
    enum kvr_status st;

    KVR_TRY(kvr_sql_exec(s, "BEGIN IMMEDIATE", "writing a cell"));
    st = put_all(s, r);
    if (st == KVR_OK)
        st = kvr_sql_exec(s, "COMMIT", "writing a cell");
    if (st != KVR_OK && !sqlite3_get_autocommit(s->db)) /* SQLite may have rolled back itself */
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return st == KVR_OK ? kvr_store_in_place(s) : st;
}

enum kvr_status kvr_store_drift(struct kvr_store *s, const char *session, int idx, const char *cell,
                                const char *started, int64_t ns)
{
    sqlite3_stmt *q;
    enum kvr_status st;

    KVR_TRY(kvr_sql_prepare(s, &q, "INSERT INTO drift VALUES(?,?,?,?,?)"));
    kvr_sql_bind(q, "titti", session, (int64_t)idx, cell, started, ns);
    st = kvr_sql_step(s, q, "writing a drift sample");
    sqlite3_finalize(q);
    return st;
}

enum kvr_status kvr_store_noisy(struct kvr_store *s, const char *session, const char *code)
{
    static const char sql[] = "UPDATE cell SET verdict = 'NOISY', verdict_codes = "
                              "ltrim(verdict_codes || ' ' || ?2) WHERE session = ?1 AND outcome = "
                              "'OK' AND instr(' ' || verdict_codes || ' ', ' ' || ?2 || ' ') = 0";
    sqlite3_stmt *q;
    enum kvr_status st;

    KVR_TRY(kvr_sql_prepare(s, &q, sql));
    kvr_sql_bind(q, "tt", session, code);
    st = kvr_sql_step(s, q, "marking a session");
    sqlite3_finalize(q);
    return st;
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

enum kvr_status kvr_store_metrics(struct kvr_store *s, const char *cell,
                                  const struct kvr_row_metric *metric, int n)
{
    const struct kvr_row r = { .key = cell, .metric = metric, .n_metrics = n };
    enum kvr_status st;

    KVR_TRY(kvr_sql_exec(s, "BEGIN IMMEDIATE", "writing metrics"));
    st = replace_metrics(s, &r);
    if (st == KVR_OK)
        st = kvr_sql_exec(s, "COMMIT", "writing metrics");
    if (st != KVR_OK && !sqlite3_get_autocommit(s->db))
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return st;
}
