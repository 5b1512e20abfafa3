/* store.h - one SQLite file holds every measurement: sessions, cells and what came of them.
 *
 *     struct kvr_store *s;
 *     KVR_TRY(kvr_store_open(&s, "kvreel.db"));
 *     KVR_TRY(kvr_store_session(s, &session));             once per run
 *     KVR_TRY(kvr_store_put(s, &row));                     a finished cell, in one transaction
 *     kvr_store_close(&s);
 *
 * One writer at a time. A row that kvr_store_put() has returned KVR_OK for survives a crash
 * of this process; a row it failed on leaves no trace. Reading is kvr_store_query(), which
 * opens the file read-only. Tables and views: sql/. */
#ifndef KVR_STORE_STORE_H
#define KVR_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/device/mem.h"
#include "harness/core/status.h"

enum {
    KVR_STORE_VERSION = 8,         /* PRAGMA user_version */
    KVR_STORE_OLDEST = 3,          /* what is still read, and brought to that */
    KVR_STORE_SEALED = 6,          /* from that on there are checksums, */
    KVR_STORE_SEALED_PLANS = 7,    /* from that on of plans, too */
    KVR_STORE_APP_ID = 0x6b76726c, /* PRAGMA application_id: "kvrl" */
};

/* What came of a cell. Of one that is not OK there are four kinds, everywhere by these words:
 * excluded (the config says no), unsupported (it cannot be), open (it is planned and not tried to
 * its end) and failed (tried, and no number: all the others). */
enum kvr_outcome {
    KVR_OUT_OK,
    KVR_OUT_EXCLUDED,    /* the config leaves it out; the reason says why */
    KVR_OUT_UNSUPPORTED, /* impossible with these settings; the reason says why */
    KVR_OUT_SKIPPED,     /* open: not tried yet, what it depends on failed */
    KVR_OUT_OOM_HOST,
    KVR_OUT_OOM_DEVICE,
    KVR_OUT_TIMEOUT,
    KVR_OUT_SIGNAL,   /* the worker died */
    KVR_OUT_NAN,      /* a latent was not finite */
    KVR_OUT_DIVERGED, /* finite, but far outside of what the model makes */
    KVR_OUT_INVALID,  /* measured, but not to be trusted: leaked memory, other frames than before */
    KVR_OUT_ERROR,    /* the worker said so; the reason is its message */
    KVR_OUT_INTERRUPTED, /* open: stopped by the user */
    KVR_N_OUTCOMES
};
const char *kvr_outcome_name(enum kvr_outcome o); /* "OK", "SKIPPED", ... */
bool kvr_outcome_parse(const char *name, enum kvr_outcome *out);
bool kvr_outcome_is_open(enum kvr_outcome o);
bool kvr_outcome_is_failure(enum kvr_outcome o);
/* "ok", "excluded", "unsupported", "open" or "failed". */
const char *kvr_outcome_kind(enum kvr_outcome o);

/* Where and with what a run was made. Every field is text or number, never NULL; what cannot
 * be known is "unknown". Owned strings: kvr_session_free. */
struct kvr_session {
    char id[40]; /* random, so that databases can be merged */
    char *argv;  /* as a JSON array */
    char *config_path, *config_text;
    char *host, *os, *cpu_model, *governor;
    int n_cpus, jobs;
    int64_t memory_bytes;
    const char *git_hash, *compiler, *cflags; /* borrowed, static */
    bool git_dirty;
    const char *code; /* hash of the sources that numbers depend on; borrowed, static */
    char *libraries;  /* "sqlite 3.40.1, libyaml 0.2.5, ..." */
    char *turbo;
    const char *driver; /* of the device, with its name; borrowed. "none: cpu" */
    int64_t order_seed;
    struct kvr_session_fact *fact; /* about the machine and the run */
    int n_facts;
};
struct kvr_session_fact {
    char *name, *value;
};
/* One more fact, or another value of one that is there. */
enum kvr_status kvr_session_tell(struct kvr_session *s, const char *name, const char *value);
/* Its value; NULL: no such fact. */
const char *kvr_session_fact(const struct kvr_session *s, const char *name);
/* 8 hex digits of who the machine is, in the fact "machine". After the last fact about it. */
enum kvr_status kvr_session_identify(struct kvr_session *s);
enum kvr_status kvr_session_gather(struct kvr_session *s, int argc, char *const *argv,
                                   const char *config_path, const char *config_text, int jobs);
void kvr_session_free(struct kvr_session *s);

/* 64 hex digits of what frames depend on besides their cell's key: code, compiler, flags, and the
 * CPU with its kernel variant. What two builds made is not to be compared frame by frame. */
enum kvr_status kvr_session_build(const struct kvr_session *s, char hex[65]);

/* A number, or the reason why there is none. */
struct kvr_row_metric {
    const char *name, *unit;
    double value;
    int n;               /* what it was pooled over */
    const char *missing; /* NULL: value counts */
    double extra;        /* the metric's second number; NaN when it has none */
    int n_series;
    const double *series; /* per frame; NaN is stored as NULL */
};

struct kvr_row_mem {
    const char *tag;
    int64_t at_peak;  /* held when the total was highest */
    int64_t tag_peak; /* its own highest */
    int64_t live_end;
};

struct kvr_row_pass {
    int chunk, pass;
    int64_t t_ns, tokens, bf16, nominal, resident, resident_kv, live_total;
    int64_t by_tag[KVR_N_MEM_TAGS]; /* live_total by tag */
    bool has_phases;                /* else they become NULL */
    int64_t encode_ns, decode_ns, attend_ns, linear_ns, cross_ns, other_ns;
};

/* A place of -1: over all of them. A value that is not finite becomes NULL. */
struct kvr_row_probe {
    const char *name;
    int layer, head, step, chunk, age;
    double value;
    int64_t n;
};

struct kvr_row_sample {
    const char *kind; /* "rollout", "encode", "decode", "attend", "linear", "cross", "other", ... */
    int round;
    int64_t ns;
};

struct kvr_row_artifact {
    const char *kind, *path; /* "frames", "video"; relative to the out folder */
    int64_t bytes;
    const char *sha256;
};

/* One attempt at a cell. Everything is borrowed for the call. */
struct kvr_row {
    const char *key, *rollout, *baseline; /* content hashes; baseline: key of the BF16 cell */
    const char *spec; /* canonical JSON, of which the columns of the settings are made */
    const char *session;
    const char *method; /* label shown: "RTN_INT4", "RTN_INT4@study bits=3" */
    const char *name, *reading, *family;
    const char *model, *suite, *prompt_id, *prompt;
    int repeat;
    bool is_baseline;
    const char *warning; /* NULL: none */

    enum kvr_outcome outcome;
    const char *reason, *log_tail;  /* "" when there is nothing to say */
    const char *started, *finished; /* ISO 8601, UTC */

    bool measured; /* the numbers below count; else they become NULL */
    int64_t wall_ns, bf16_bytes, nominal_bytes, resident_bytes;
    int64_t max_nominal_bytes, max_resident_bytes; /* over the rollout's passes */
    /* Of blocks whose bytes depend on their values: bits an element by thousandths, all of them and
     * the largest block; 0: there are none. */
    int64_t varying_millibits, max_varying_millibits;
    int64_t peak_bytes, live_start_bytes, live_end_bytes, host_peak_bytes;
    int64_t device_bytes; /* the most that was taken of the device; 0: there is none */
    const char *model_sha256, *input_sha256;
    const char *noise;      /* "" or codes with blanks between: an OK row is NOISY for these */
    const char *time_codes; /* the same, with what keeps the time of a row from counting that is not
                               noise; NULL: as `noise` */

    int n_metrics, n_mem, n_passes, n_samples, n_artifacts, n_probes, n_watch;
    const struct kvr_row_metric *metric;
    const struct kvr_row_mem *mem;
    const struct kvr_row_pass *pass;
    const struct kvr_row_sample *sample;
    const struct kvr_row_artifact *artifact;
    const struct kvr_row_probe *probe;
    const struct kvr_row_watch *watch;
};

/* What the machine did beside a cell. */
struct kvr_row_watch {
    const char *name;
    double value;
};

struct kvr_store;

/* Creates the file when it is not there. One of an earlier version, or from before a setting was
 * there, is brought to this one, after it was copied (kvr_store_copy_of). KVR_ESCHEMA: of a later
 * version, or not ours; KVR_EBUSY: another writer; KVR_EIO: cannot be opened or written. */
enum kvr_status kvr_store_open(struct kvr_store **out, const char *path);
/* Called while another program holds the database, with how long that has been; false: give up.
 * Without one, NULL, a call gives up after 10 s: KVR_EBUSY. */
typedef bool kvr_store_wait_fn(void *ctx, int64_t waited_ms);
void kvr_store_wait(struct kvr_store *s, kvr_store_wait_fn *fn, void *ctx);
/* To look and not to touch: nothing is created or changed, an earlier version is read as it is. */
enum kvr_status kvr_store_look(struct kvr_store **out, const char *path);
/* Where the database is as it was before it was opened; NULL: it was not changed. */
const char *kvr_store_copy_of(const struct kvr_store *s);
void kvr_store_close(struct kvr_store **s);

enum kvr_status kvr_store_session(struct kvr_store *s, const struct kvr_session *session);

/* Is the database still the file of that name? If not, what it holds is copied to a new file,
 * PATH.saved-PROCESS, and the error names that: KVR_EIO. kvr_store_put() asks, too. */
enum kvr_status kvr_store_in_place(struct kvr_store *s);

/* Insert, or replace an earlier attempt at the same key (its `attempt` goes on counting). What was
 * measured stays when a later attempt fails: that one goes into the table `attempt` alone.
 * KVR_EFULL: no space; the database is as it was. */
enum kvr_status kvr_store_put(struct kvr_store *s, const struct kvr_row *row);

/* Metrics of a cell that is there, with their series; those of the same names are replaced. All
 * of them or none. `spec`: the cell's, which now names them, too. */
enum kvr_status kvr_store_metrics(struct kvr_store *s, const char *cell, const char *spec,
                                  const struct kvr_row_metric *metric, int n);

/* What is known of a cell. */
struct kvr_known {
    bool found;
    enum kvr_outcome outcome;
    char reason[256];
    char frames_path[512], frames_sha256[65]; /* "" when there is no frames artifact */
    int64_t wall_ns;                          /* 0 when not measured */
    char build[65];                           /* that measured it: kvr_session_build */
};
enum kvr_status kvr_store_known(struct kvr_store *s, const char *key, struct kvr_known *out);

/* An OK cell that is this one but for the metrics it was scored by, the last there is. */
struct kvr_alike {
    char key[65];    /* "": there is none */
    char *spec;      /* owned */
    char *frames[2]; /* paths of its own and of its baseline's, owned; NULL: none */
    char *sha256[2]; /* of these */
};
enum kvr_status kvr_store_alike(struct kvr_store *s, const char *rollout, const char *spec,
                                struct kvr_alike *out);
void kvr_alike_free(struct kvr_alike *a); /* copes with {0} */

/* A baseline of a timed session measured once more: the `idx`-th time. */
enum kvr_status kvr_store_drift(struct kvr_store *s, const char *session, int idx, const char *cell,
                                const char *started, int64_t ns);

/* Of a session that is not timed: where baselines of the same settings, which do the same work
 * whatever the prompt, differ by more than this part, times have one more reason not to count,
 * DRIFT. */
enum kvr_status kvr_store_untimed_drift(struct kvr_store *s, const char *session, double most);

/* Give every OK row of the session one more reason to be NOISY. */
enum kvr_status kvr_store_noisy(struct kvr_store *s, const char *session, const char *code);

/* One value of a result row. */
enum kvr_value_type {
    KVR_VALUE_NULL,
    KVR_VALUE_INT,
    KVR_VALUE_REAL,
    KVR_VALUE_TEXT,
    KVR_VALUE_BLOB
};
struct kvr_value {
    enum kvr_value_type type;
    int64_t i;
    double r;
    const char *text; /* TEXT and BLOB, borrowed until the callback returns */
    int n_bytes;
};

/* Called once with `row` == NULL for the column names (also when no row follows), then for
 * each row. Non-zero stops quietly. */
typedef int kvr_row_fn(void *ctx, int n_columns, const char *const *names,
                       const struct kvr_value *row);

/* What a statement may call beside SQLite's own: NAME(x), of the numbers x [n] of a group, NULL left
 * out. The result is NULL where it is not finite. */
struct kvr_query_function {
    const char *name;
    double (*of)(const double *x, int n);
};

/* What a statement may take; 0: any. What it sees and may call. */
struct kvr_query_limits {
    int seconds;
    int64_t bytes; /* of SQLite's own memory */
    const char
        *where; /* SQL condition: rows of cells_wide, and so of all views that are made of it */
    const struct kvr_query_function *functions; /* ends with name NULL; NULL: none */
};

/* One reading statement on a database opened read-only. KVR_ENOTFOUND: no such file;
 * KVR_ESCHEMA: not a kvreel database, or of a later version; KVR_EINVAL: bad SQL, more than one
 * statement, or one that would write. */
enum kvr_status kvr_store_query(const char *path, const char *sql, kvr_row_fn *fn, void *ctx);
/* KVR_EINVAL, too, when it takes longer; KVR_ENOMEM: more memory. */
enum kvr_status kvr_store_query_within(const char *path, const char *sql,
                                       const struct kvr_query_limits *limits, kvr_row_fn *fn,
                                       void *ctx);

/* What makes an empty database, with sql/schema.sql and sql/cell.sql before it. */
extern const char *const kvr_store_since_5[][2];    /* tables since version 5: name, "(...)" */
extern const char *const kvr_store_cell_index[][2]; /* name, ON; NULL-terminated */

struct kvr_store_view {
    const char *name, *as; /* AS SELECT ..., before kvr_settings_sql() */
};
extern const struct kvr_store_view kvr_store_views[]; /* NULL-terminated */

#endif
