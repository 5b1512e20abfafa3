/* store.h - the SQLite database of all measurements: sessions, cells and their results.
 *
 *     struct kvr_store *s;
 *     KVR_TRY(kvr_store_open(&s, "kvreel.db"));
 *     KVR_TRY(kvr_store_session(s, &session));             once per run
 *     KVR_TRY(kvr_store_put(s, &row));                     a finished cell, in one transaction
 *     kvr_store_close(&s);
 *
 * Only one process may write at a time. After kvr_store_put() returns KVR_OK, the row survives a
 * crash of this process; after an error, the database is unchanged. For reading, kvr_store_query()
 * opens a read-only connection. The files in harness/store/sql define the tables and views. */
#ifndef KVR_STORE_STORE_H
#define KVR_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/device/mem.h"
#include "harness/core/status.h"

enum {
    KVR_STORE_VERSION = 8,         /* PRAGMA user_version */
    KVR_STORE_OLDEST = 3,          /* oldest database version that can be read */
    KVR_STORE_CHECKSUMS = 6,       /* first database version that stores checksums of cells and
                                    * sessions */
    KVR_STORE_PLAN_CHECKSUMS = 7,  /* first database version that also stores checksums of sweeps
                                    * and their plans */
    KVR_STORE_APP_ID = 0x6b76726c, /* PRAGMA application_id: "kvrl" */
};

/* Outcome of a cell. OK, EXCLUDED and UNSUPPORTED complete a cell. SKIPPED and INTERRUPTED leave it
 * open, that is, planned but not completed. Every other outcome is a failure. */
enum kvr_outcome {
    KVR_OUT_OK,
    KVR_OUT_EXCLUDED,    /* a rule of the config excludes the cell */
    KVR_OUT_UNSUPPORTED, /* the cell cannot run with these settings */
    KVR_OUT_SKIPPED,     /* not measured, because its baseline failed; the cell stays open */
    KVR_OUT_OOM_HOST,
    KVR_OUT_OOM_DEVICE,
    KVR_OUT_TIMEOUT,
    KVR_OUT_SIGNAL,      /* a signal killed the worker, the process that measures the cell */
    KVR_OUT_NAN,         /* a latent value is NaN or infinite */
    KVR_OUT_DIVERGED,    /* latents are finite, but far outside the range of the model's latents */
    KVR_OUT_INVALID,     /* the run leaked memory, its frames have no SHA-256, or they differ from
                          * the frames of an earlier run, which should be identical */
    KVR_OUT_ERROR,       /* any other failure, for example invalid JSON from the worker; `reason`
                          * describes it */
    KVR_OUT_INTERRUPTED, /* the user stopped the run; the cell stays open */
    KVR_N_OUTCOMES
};
const char *kvr_outcome_name(enum kvr_outcome o); /* "OK", "SKIPPED", ... */
bool kvr_outcome_parse(const char *name, enum kvr_outcome *out);
bool kvr_outcome_is_open(enum kvr_outcome o);
bool kvr_outcome_is_failure(enum kvr_outcome o);

/* A session: one run of kvreel, with its machine, build, command line and config. No string of a
 * session is NULL; an unknown value is "unknown". kvr_session_free() frees the facts and all
 * members of type char *. Members of type const char * are static or borrowed. */
struct kvr_session {
    char id[40]; /* random id, so that sessions of merged databases do not collide */
    char *argv;  /* JSON array */
    char *config_path, *config_text;
    char *host, *os, *cpu_model, *governor;
    int n_cpus, jobs;
    int64_t memory_bytes;
    const char *git_hash, *compiler, *cflags; /* static strings */
    bool git_dirty;
    const char *code; /* hash of the source files that affect results; static string */
    char *libraries;  /* names and versions of libraries, as in "sqlite 3.40.1, libyaml 0.2.5" */
    char *turbo;
    const char *driver; /* GPU name and driver version, or "none: cpu" without a GPU; borrowed */
    int64_t order_seed;
    struct kvr_session_fact *fact; /* properties [n_facts] of the machine and the run */
    int n_facts;
};
struct kvr_session_fact {
    char *name, *value;
};
/* Adds a fact to a session, or replaces its value. A fact is a named property of the machine or of
 * the run. */
enum kvr_status kvr_session_set_fact(struct kvr_session *s, const char *name, const char *value);
/* Returns the value of a fact, or NULL if the session has no such fact. */
const char *kvr_session_fact(const struct kvr_session *s, const char *name);
/* Sets the fact "machine" to a hash, 8 hex digits, of the properties that affect times:
 * s->cpu_model, s->n_cpus, s->driver and facts about CPU, caches, frequency governor and GPUs. The
 * caller must set these properties first, because a missing fact is hashed as "". */
enum kvr_status kvr_session_identify(struct kvr_session *s);
enum kvr_status kvr_session_gather(struct kvr_session *s, int argc, char *const *argv,
                                   const char *config_path, const char *config_text, int jobs);
void kvr_session_free(struct kvr_session *s);

/* Writes the hash of a build as 64 hex digits. The hash covers code, compiler, compiler flags, CPU
 * model and kernel variant. The build's hash and the cell's key together cover everything that
 * frames depend on. The frames of one cell may therefore differ between builds, which is not an
 * error. */
enum kvr_status kvr_session_build(const struct kvr_session *s, char hex[65]);

/* The value of a metric for one cell, or the reason why it has no value. */
struct kvr_row_metric {
    const char *name, *unit;
    double value;
    int n;               /* number of samples, such as frames, that `value` is computed from */
    const char *missing; /* reason why the metric has no value (NULL: the value is valid) */
    double extra;        /* second number that some metrics have, such as the number of identical
                          * frames for `psnr` (NaN: none) */
    int n_series;
    const double *series; /* values [n_series] of the metric, usually one per frame; a NaN becomes
                           * NULL */
};

/* Memory of a cell with one memory tag, a category of allocations such as "KV" or "WEIGHTS". */
struct kvr_row_mem {
    const char *tag;
    int64_t at_peak;  /* bytes with this tag when the total over all tags is largest */
    int64_t tag_peak; /* largest number of bytes with this tag at any time during the cell */
    int64_t live_end; /* bytes with this tag that are still allocated at the end of the cell */
};

/* Time and memory of one forward pass, recorded at its end. `live_total` is the number of bytes
 * allocated at that time, summed over all memory tags. */
struct kvr_row_pass {
    int chunk, pass;
    int64_t t_ns, tokens, bf16, nominal, resident, resident_kv, live_total;
    int64_t by_tag[KVR_N_MEM_TAGS]; /* live_total split by memory tag, in bytes */
    bool has_phases;                /* whether the six times from encode_ns to other_ns were
                                     * measured; if not, they are stored as NULL */
    int64_t encode_ns, decode_ns, attend_ns, linear_ns, cross_ns, other_ns;
};

/* One value measured by a probe, which compares attention over the method's cache with attention
 * over a BF16 cache. `step` is the index of the forward pass within the chunk. `age` is the number
 * of chunks from the chunk of the attended tokens to the chunk of the query. If layer, head, step,
 * chunk or age is -1, `value` is an aggregate over that dimension, for example over all heads.
 * Values that are not finite are stored as NULL. */
struct kvr_row_probe {
    const char *name;
    int layer, head, step, chunk, age;
    double value;
    int64_t n;
};

struct kvr_row_sample {
    const char *kind; /* name of the timed phase, such as "rollout", "encode" or "attend" */
    int round;
    int64_t ns;
};

struct kvr_row_artifact {
    /* A file that the cell wrote: `kind` is "frames" (raw frames) or "video" (encoded video), and
     * `path` is relative to the output folder. */
    const char *kind, *path;
    int64_t bytes;
    const char *sha256;
};

/* One attempt to measure a cell. kvr_store_put() does not keep the pointers after it returns. */
struct kvr_row {
    /* `key` is the hash of the cell's spec, and `rollout` the hash of the entries of the spec that
     * affect the frames (plan/cell.h). `baseline` is the key of the BF16 cell with which the cell
     * is compared. */
    const char *key, *rollout, *baseline;
    const char *spec; /* the cell's spec as canonical JSON, from which SQLite generates the columns
                       * of settings */
    const char *session;
    const char *method; /* displayed label: "RTN_INT4", "RTN_INT4@study bits=3" */
    const char *name, *reading, *family;
    const char *model, *suite, *prompt_id, *prompt;
    int repeat;
    bool is_baseline;
    const char *warning; /* warning that is shown with the cell's results (NULL: no warning) */

    enum kvr_outcome outcome;
    const char *reason, *log_tail;  /* "": no text */
    const char *started, *finished; /* ISO 8601, UTC */

    bool measured; /* whether the members below, from wall_ns to device_bytes, were measured; if
                    * not, they are stored as NULL */
    int64_t wall_ns, bf16_bytes, nominal_bytes, resident_bytes;
    int64_t max_nominal_bytes, max_resident_bytes; /* maximum nominal and resident bytes of the
                                                    * cache over the passes of the rollout */
    /* Some codecs compress blocks to a size that depends on the data. For these blocks, the mean
     * and the maximum size in 1/1000 bit per element; both are 0 if the cell has no such blocks. */
    int64_t varying_millibits, max_varying_millibits;
    int64_t peak_bytes, live_start_bytes, live_end_bytes, host_peak_bytes;
    int64_t device_bytes; /* peak bytes of device memory (0: the cell used no GPU) */
    const char *model_sha256, *input_sha256;
    const char *noise;      /* codes, separated by spaces, of the reasons why the verdict is NOISY
                             * ("": no such reason) */
    const char *time_codes; /* codes of all reasons why the cell's time is not valid, including
                             * those in `noise` (NULL: only those in `noise`) */

    int n_metrics, n_mem, n_passes, n_samples, n_artifacts, n_probes, n_watch;
    const struct kvr_row_metric *metric;
    const struct kvr_row_mem *mem;
    const struct kvr_row_pass *pass;
    const struct kvr_row_sample *sample;
    const struct kvr_row_artifact *artifact;
    const struct kvr_row_probe *probe;
    const struct kvr_row_watch *watch;
};

/* One observation of the machine during a cell (run/disturbance.h). */
struct kvr_row_watch {
    const char *name;
    double value;
};

struct kvr_store;

/* Opens a database for writing, and creates it if it does not exist. A database with an older
 * schema is backed up (kvr_store_copy_of) and migrated. KVR_ESCHEMA: the file has a later version
 * or belongs to another program. KVR_EBUSY: another process is writing. KVR_EIO: the file cannot be
 * opened or written. */
enum kvr_status kvr_store_open(struct kvr_store **out, const char *path);
/* Callback that a function of the store calls repeatedly while it waits for another program's lock
 * on the database. `waited_ms` is the time waited so far, a multiple of `step_ms`, the time between
 * two calls. If the callback returns false, the function stops waiting and returns KVR_EBUSY. */
typedef bool kvr_store_wait_fn(void *ctx, int64_t waited_ms, int64_t step_ms);
/* Sets the callback for waits on another program's lock. If `fn` is NULL, functions of the store
 * wait for at most 10 s and then return KVR_EBUSY. */
void kvr_store_wait(struct kvr_store *s, kvr_store_wait_fn *fn, void *ctx);
/* Opens a database read-only, without creating or changing any file. A database with an older
 * schema is read without migration. */
enum kvr_status kvr_store_open_readonly(struct kvr_store **out, const char *path);
/* Returns the path of the backup made before migration, or NULL if the database was not
 * migrated. */
const char *kvr_store_copy_of(const struct kvr_store *s);
void kvr_store_close(struct kvr_store **s);
/* Deletes the database file and the files that SQLite keeps beside it (-wal, -shm, -journal), if
 * they exist. The database must be closed. */
void kvr_store_remove(const char *path);

enum kvr_status kvr_store_session(struct kvr_store *s, const struct kvr_session *session);

/* Checks that the database file was not deleted or renamed while open. If it was, the function
 * saves the database's content to a new file, PATH.saved-PID (PID: this process's id), and returns
 * KVR_EIO with a message that names the new file. The function kvr_store_put() makes the same
 * check. */
enum kvr_status kvr_store_in_place(struct kvr_store *s);

/* Stores an attempt. Inserts the cell's row, or replaces the row of an earlier attempt and
 * increments the column `attempt`. If an earlier attempt was OK and this attempt is not, the row is
 * unchanged, and only the table `attempt` records the new attempt. KVR_EFULL: the disk is full; the
 * database is unchanged. */
enum kvr_status kvr_store_put(struct kvr_store *s, const struct kvr_row *row);

/* Adds metrics with their series to an existing cell in one transaction; metrics with equal names
 * are replaced. `spec` is the cell's spec with these metrics added. */
enum kvr_status kvr_store_metrics(struct kvr_store *s, const char *cell, const char *spec,
                                  const struct kvr_row_metric *metric, int n);

/* Outcome and results in a cell's row, as kvr_store_known() reads them. */
struct kvr_known {
    bool found;
    enum kvr_outcome outcome;
    char reason[256];
    char frames_path[512], frames_sha256[65]; /* "": the cell has no stored frames */
    int64_t wall_ns;                          /* 0 if not measured */
    char build[65];                           /* hash of the build that measured the cell */
};
enum kvr_status kvr_store_known(struct kvr_store *s, const char *key, struct kvr_known *out);

/* The OK cell measured last whose spec equals a given spec, except for the metrics and the commands
 * that compute metrics. */
struct kvr_alike {
    char key[65];    /* key of the cell ("": no such cell) */
    char *spec;      /* owned */
    char *frames[2]; /* paths of two files of raw frames, owned: [0] of the cell, [1] of its
                      * baseline (NULL: no stored frames) */
    char *sha256[2]; /* SHA-256 of the frames of the cell [0] and of its baseline [1], owned */
};
enum kvr_status kvr_store_alike(struct kvr_store *s, const char *rollout, const char *spec,
                                struct kvr_alike *out);
void kvr_alike_free(struct kvr_alike *a); /* accepts {0} */

/* Stores one wall time of the drift check, in which a timed session measures one baseline
 * repeatedly to detect a drift of the machine's speed. `idx` is the index of this measurement in
 * the session, from 0, `cell` the baseline's key, and `ns` the wall time in nanoseconds. */
enum kvr_status kvr_store_drift(struct kvr_store *s, const char *session, int idx, const char *cell,
                                const char *started, int64_t ns);

/* Detects drift in an untimed session by comparing the wall times of baselines with equal settings.
 * Without drift, these times are about equal for all prompts. If the longest time exceeds (1 +
 * `most`) times the shortest, the function adds the disturbance code DRIFT to all OK cells of the
 * session that have the settings of these baselines. */
enum kvr_status kvr_store_untimed_drift(struct kvr_store *s, const char *session, double most);

/* Adds a disturbance code to every OK cell of the session, and sets the verdict of these cells to
 * NOISY. */
enum kvr_status kvr_store_noisy(struct kvr_store *s, const char *session, const char *code);

/* One value in a row of a query's result. */
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
    const char *text; /* bytes of a TEXT or BLOB, valid until the callback returns */
    int n_bytes;
};

/* Callback for query results. In the first call, `row` is NULL and `names` are the column names,
 * even if there are no rows. Each further call passes one row. A non-zero return value ends the
 * query without error. */
typedef int kvr_row_fn(void *ctx, int n_columns, const char *const *names,
                       const struct kvr_value *row);

/* An aggregate function that SQL statements can call as name(x). For each group of rows, `of`
 * computes the result from x [n], the numbers that are not NULL, which it may overwrite. If the
 * result is not finite, it becomes NULL in SQL. */
struct kvr_query_function {
    const char *name;
    double (*of)(double *x, int n);
};

/* Options of kvr_store_query_within(): limits of time and memory (0: unlimited), a row filter, and
 * additional SQL functions. */
struct kvr_query_limits {
    int seconds;
    int64_t bytes;     /* limit of the memory that SQLite allocates */
    const char *where; /* SQL condition that selects rows of the view cells_wide, and so of all
                        * views based on it (NULL: all rows) */
    const struct kvr_query_function *functions; /* additional SQL functions; the last element has
                                                 * name NULL (functions NULL: none) */
};

/* Runs one SQL query on a read-only connection. KVR_ENOTFOUND: no such file. KVR_ESCHEMA: the file
 * is not a kvreel database, or has a later version. KVR_EINVAL: the SQL is invalid, has several
 * statements, or writes. */
enum kvr_status kvr_store_query(const char *path, const char *sql, kvr_row_fn *fn, void *ctx);
/* Like kvr_store_query(), with the options `limits`. Also returns KVR_EINVAL if the query exceeds
 * the time limit, and KVR_ENOMEM if it exceeds the memory limit. */
enum kvr_status kvr_store_query_within(const char *path, const char *sql,
                                       const struct kvr_query_limits *limits, kvr_row_fn *fn,
                                       void *ctx);

/* Checks that `where` is a valid SQL condition on the columns of the view named `view`. The message
 * of KVR_EINVAL gives the condition and the reason. */
enum kvr_status kvr_store_condition(const char *path, const char *view, const char *where);

/* Definitions of the tables and indexes that the store creates in a new database, in addition to
 * the tables of sql/schema.sql and sql/cell.sql. A migration creates missing tables and indexes. */
extern const char *const kvr_store_since_5[][2];    /* {table name, SQL text of its columns} of each
                                                     * table added in version 5 or later */
extern const char *const kvr_store_cell_index[][2]; /* {index name, SQL text after CREATE INDEX ...
                                                     * ON}; the last pair is {NULL, NULL} */

struct kvr_store_view {
    const char *name, *as; /* the view's SELECT, before kvr_settings_sql() replaces placeholders */
};
extern const struct kvr_store_view kvr_store_views[]; /* NULL-terminated */

#endif
