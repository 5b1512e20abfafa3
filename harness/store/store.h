/* store.h - the SQLite database of all measurements: sessions, cells and their results.
 *
 *     struct kvr_store *s;
 *     KVR_TRY(kvr_store_open(&s, "kvreel.db"));
 *     KVR_TRY(kvr_store_session(s, &session));             once per run
 *     KVR_TRY(kvr_store_put(s, &row));                     a finished cell, in one transaction
 *     kvr_store_close(&s);
 *
 * One writer at a time. A row for which kvr_store_put() returned KVR_OK survives a crash of this
 * process; a failed one leaves no trace. kvr_store_query() reads with a read-only connection.
 * Tables and views: sql/. */
#ifndef KVR_STORE_STORE_H
#define KVR_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/device/mem.h"
#include "harness/core/status.h"

enum {
    KVR_STORE_VERSION = 8,         /* PRAGMA user_version */
    KVR_STORE_OLDEST = 3,          /* oldest readable version, migrated on opening */
    KVR_STORE_CHECKSUMS = 6,       /* first version with checksums */
    KVR_STORE_PLAN_CHECKSUMS = 7,  /* first version with checksums of plans */
    KVR_STORE_APP_ID = 0x6b76726c, /* PRAGMA application_id: "kvrl" */
};

/* Outcome of a cell. Those other than OK fall into four kinds, named the same everywhere: excluded
 * (by the config), unsupported (impossible), open (planned, not completed) and failed (tried
 * without a result: all others). */
enum kvr_outcome {
    KVR_OUT_OK,
    KVR_OUT_EXCLUDED,    /* excluded by the config; see the reason */
    KVR_OUT_UNSUPPORTED, /* impossible with these settings; see the reason */
    KVR_OUT_SKIPPED,     /* open: not tried, since a dependency failed */
    KVR_OUT_OOM_HOST,
    KVR_OUT_OOM_DEVICE,
    KVR_OUT_TIMEOUT,
    KVR_OUT_SIGNAL,      /* the worker died */
    KVR_OUT_NAN,         /* a latent is not finite */
    KVR_OUT_DIVERGED,    /* finite, but far outside the model's range */
    KVR_OUT_INVALID,     /* measured but invalid: a memory leak, or frames that changed */
    KVR_OUT_ERROR,       /* reported by the worker; the reason is its message */
    KVR_OUT_INTERRUPTED, /* open: stopped by the user */
    KVR_N_OUTCOMES
};
const char *kvr_outcome_name(enum kvr_outcome o); /* "OK", "SKIPPED", ... */
bool kvr_outcome_parse(const char *name, enum kvr_outcome *out);
bool kvr_outcome_is_open(enum kvr_outcome o);
bool kvr_outcome_is_failure(enum kvr_outcome o);

/* Provenance of a run. Every field is text or a number, never NULL; unknown ones are "unknown".
 * Owned strings: kvr_session_free. */
struct kvr_session {
    char id[40]; /* random, so that databases can be merged */
    char *argv;  /* JSON array */
    char *config_path, *config_text;
    char *host, *os, *cpu_model, *governor;
    int n_cpus, jobs;
    int64_t memory_bytes;
    const char *git_hash, *compiler, *cflags; /* borrowed, static */
    bool git_dirty;
    const char *code; /* hash of the sources that affect numbers; borrowed, static */
    char *libraries;  /* "sqlite 3.40.1, libyaml 0.2.5, ..." */
    char *turbo;
    const char *driver; /* of the device, with its name; borrowed. "none: cpu" */
    int64_t order_seed;
    struct kvr_session_fact *fact; /* facts about the machine and the run */
    int n_facts;
};
struct kvr_session_fact {
    char *name, *value;
};
/* Adds a fact, or replaces its value. */
enum kvr_status kvr_session_set_fact(struct kvr_session *s, const char *name, const char *value);
/* Value of a fact; NULL: the session has no such fact. */
const char *kvr_session_fact(const struct kvr_session *s, const char *name);
/* Sets the fact "machine" to 8 hex digits of the machine's identity. After all facts about it. */
enum kvr_status kvr_session_identify(struct kvr_session *s);
enum kvr_status kvr_session_gather(struct kvr_session *s, int argc, char *const *argv,
                                   const char *config_path, const char *config_text, int jobs);
void kvr_session_free(struct kvr_session *s);

/* 64 hex digits of everything that frames depend on besides the cell's key: code, compiler, flags,
 * CPU and kernel variant. Frames of different builds are not compared. */
enum kvr_status kvr_session_build(const struct kvr_session *s, char hex[65]);

/* A number, or the reason why there is none. */
struct kvr_row_metric {
    const char *name, *unit;
    double value;
    int n;               /* number of pooled values */
    const char *missing; /* why there is no value; NULL: the value is valid */
    double extra;        /* the metric's second number; NaN if it has none */
    int n_series;
    const double *series; /* per frame; NaN is stored as NULL */
};

struct kvr_row_mem {
    const char *tag;
    int64_t at_peak;  /* at the peak of the total */
    int64_t tag_peak; /* peak of this tag */
    int64_t live_end;
};

struct kvr_row_pass {
    int chunk, pass;
    int64_t t_ns, tokens, bf16, nominal, resident, resident_kv, live_total;
    int64_t by_tag[KVR_N_MEM_TAGS]; /* live_total by tag */
    bool has_phases;                /* else they become NULL */
    int64_t encode_ns, decode_ns, attend_ns, linear_ns, cross_ns, other_ns;
};

/* An index of -1 means "over all". Non-finite values become NULL. */
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
    const char *spec; /* canonical JSON, from which the settings' columns are generated */
    const char *session;
    const char *method; /* displayed label: "RTN_INT4", "RTN_INT4@study bits=3" */
    const char *name, *reading, *family;
    const char *model, *suite, *prompt_id, *prompt;
    int repeat;
    bool is_baseline;
    const char *warning; /* caveat about the cell's numbers; NULL: there is none */

    enum kvr_outcome outcome;
    const char *reason, *log_tail;  /* "" if there is none */
    const char *started, *finished; /* ISO 8601, UTC */

    bool measured; /* the numbers below are valid; else they become NULL */
    int64_t wall_ns, bf16_bytes, nominal_bytes, resident_bytes;
    int64_t max_nominal_bytes, max_resident_bytes; /* over the rollout's passes */
    /* Blocks of data-dependent size: thousandths of bits per element, overall and of the largest
     * block; 0: there are no such blocks. */
    int64_t varying_millibits, max_varying_millibits;
    int64_t peak_bytes, live_start_bytes, live_end_bytes, host_peak_bytes;
    int64_t device_bytes; /* peak device memory; 0: no device */
    const char *model_sha256, *input_sha256;
    const char *noise;      /* "" or space-separated codes: they make an OK row NOISY */
    const char *time_codes; /* `noise` plus other reasons against the time; NULL: as `noise` */

    int n_metrics, n_mem, n_passes, n_samples, n_artifacts, n_probes, n_watch;
    const struct kvr_row_metric *metric;
    const struct kvr_row_mem *mem;
    const struct kvr_row_pass *pass;
    const struct kvr_row_sample *sample;
    const struct kvr_row_artifact *artifact;
    const struct kvr_row_probe *probe;
    const struct kvr_row_watch *watch;
};

/* State of the machine during a cell. */
struct kvr_row_watch {
    const char *name;
    double value;
};

struct kvr_store;

/* Creates the file if missing. A database of an earlier version, or without a setting, is migrated
 * after a backup (kvr_store_copy_of). KVR_ESCHEMA: a later version, or another program's file;
 * KVR_EBUSY: another writer; KVR_EIO: cannot be opened or written. */
enum kvr_status kvr_store_open(struct kvr_store **out, const char *path);
/* Called while another program locks the database, with the time waited; false gives up. NULL:
 * gives up after 10 s with KVR_EBUSY. */
typedef bool kvr_store_wait_fn(void *ctx, int64_t waited_ms);
void kvr_store_wait(struct kvr_store *s, kvr_store_wait_fn *fn, void *ctx);
/* Opens read-only: nothing is created or changed; an earlier version is read without migration. */
enum kvr_status kvr_store_open_readonly(struct kvr_store **out, const char *path);
/* Path of the backup made before migration; NULL: not migrated. */
const char *kvr_store_copy_of(const struct kvr_store *s);
void kvr_store_close(struct kvr_store **s);

enum kvr_status kvr_store_session(struct kvr_store *s, const struct kvr_session *session);

/* Whether the database is still the file of that name. If not, its content is copied to a new file,
 * PATH.saved-PROCESS, named in the error: KVR_EIO. kvr_store_put() checks this, too. */
enum kvr_status kvr_store_in_place(struct kvr_store *s);

/* Inserts a row, or replaces an earlier attempt at the same key (`attempt` is incremented). A
 * measured cell stays if a later attempt fails, which is then recorded in the table `attempt` only.
 * KVR_EFULL: no space; the database is unchanged. */
enum kvr_status kvr_store_put(struct kvr_store *s, const struct kvr_row *row);

/* Adds metrics with their series to an existing cell, replacing metrics of the same names. One
 * transaction. `spec`: the cell's spec, extended by them. */
enum kvr_status kvr_store_metrics(struct kvr_store *s, const char *cell, const char *spec,
                                  const struct kvr_row_metric *metric, int n);

/* What the database stores about a cell. */
struct kvr_known {
    bool found;
    enum kvr_outcome outcome;
    char reason[256];
    char frames_path[512], frames_sha256[65]; /* "" without a frames artifact */
    int64_t wall_ns;                          /* 0 if not measured */
    char build[65];                           /* build that measured it: kvr_session_build */
};
enum kvr_status kvr_store_known(struct kvr_store *s, const char *key, struct kvr_known *out);

/* The latest OK cell that differs from this one in its metrics only. */
struct kvr_alike {
    char key[65];    /* "": there is no such cell */
    char *spec;      /* owned */
    char *frames[2]; /* paths of the cell's frames and of its baseline's, owned; NULL: no frames */
    char *sha256[2]; /* hashes of these frames */
};
enum kvr_status kvr_store_alike(struct kvr_store *s, const char *rollout, const char *spec,
                                struct kvr_alike *out);
void kvr_alike_free(struct kvr_alike *a); /* accepts {0} */

/* The idx-th repeated measurement of a timed session's baseline. */
enum kvr_status kvr_store_drift(struct kvr_store *s, const char *session, int idx, const char *cell,
                                const char *started, int64_t ns);

/* For an untimed session: if baselines of equal settings, whose work does not depend on the prompt,
 * differ by more than this share, their times get the code DRIFT. */
enum kvr_status kvr_store_untimed_drift(struct kvr_store *s, const char *session, double most);

/* Adds a noise code to every OK row of the session. */
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

/* Called once with `row` == NULL for the column names (even without rows), then for each row. A
 * non-zero return stops the query without error. */
typedef int kvr_row_fn(void *ctx, int n_columns, const char *const *names,
                       const struct kvr_value *row);

/* An additional SQL aggregate: NAME(x) of a group's non-NULL numbers x [n]. NULL if the result is
 * not finite. */
struct kvr_query_function {
    const char *name;
    double (*of)(const double *x, int n);
};

/* Limits of a statement (0: unlimited), and the rows and functions that it can use. */
struct kvr_query_limits {
    int seconds;
    int64_t bytes;     /* memory allocated by SQLite */
    const char *where; /* SQL condition that restricts cells_wide, and so all views based on it */
    const struct kvr_query_function *functions; /* terminated by name NULL; NULL: no additional
                                                 * functions */
};

/* One reading statement on a read-only connection. KVR_ENOTFOUND: no such file; KVR_ESCHEMA: not a
 * kvreel database, or a later version; KVR_EINVAL: bad SQL, several statements, or a write. */
enum kvr_status kvr_store_query(const char *path, const char *sql, kvr_row_fn *fn, void *ctx);
/* Also KVR_EINVAL if it exceeds the time limit, KVR_ENOMEM if it exceeds the memory limit. */
enum kvr_status kvr_store_query_within(const char *path, const char *sql,
                                       const struct kvr_query_limits *limits, kvr_row_fn *fn,
                                       void *ctx);

/* KVR_EINVAL, with the condition and the reason: `where` is not a condition on this view. */
enum kvr_status kvr_store_condition(const char *path, const char *view, const char *where);

/* Definitions of an empty database, after sql/schema.sql and sql/cell.sql. */
extern const char *const kvr_store_since_5[][2];    /* tables since version 5: name, columns */
extern const char *const kvr_store_cell_index[][2]; /* name, ON; NULL-terminated */

struct kvr_store_view {
    const char *name, *as; /* AS SELECT ..., before kvr_settings_sql() */
};
extern const struct kvr_store_view kvr_store_views[]; /* NULL-terminated */

#endif
