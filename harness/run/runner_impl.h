/* runner_impl.h - the state of a run, shared by runner*.c. */
#ifndef KVR_RUN_RUNNER_IMPL_H
#define KVR_RUN_RUNNER_IMPL_H

#include <signal.h>

#include "harness/run/answer.h"
#include "harness/run/choose.h"
#include "harness/run/disturbance.h"
#include "harness/run/gpus.h"
#include "harness/run/progress.h"
#include "harness/run/run.h"
#include "harness/run/spawn.h"

enum { MAX_WORKERS = 256, TICK_MS = 1000, N_DRIFT = 3 };

struct worker {
    struct kvr_child child;
    struct kvr_job *job; /* NULL: idle */
    int64_t start_ns, deadline_ns;
    bool timed_out, stopped, drift; /* drift: a repeated baseline, not a cell */
    int64_t oom_kills;              /* the host's count of OOM kills when the worker started */
    int gpu;                        /* index of the held GPU; -1: none is held */
    struct kvr_disturbance disturbance;
    char started[32];
};

struct runner {
    const struct kvr_run_options *opts;
    struct kvr_run_summary *summary;
    struct kvr_config config;
    struct kvr_sweep sweep;
    char **packs;       /* per model of the config: embeddings of its prompts (encode.h) */
    char (*stamps)[65]; /* per model of the config: its stamp, taken when it was hashed */
    struct kvr_job *jobs;
    int *order;
    struct kvr_store *store;
    struct kvr_session session;
    struct kvr_retries retries;
    char build[65]; /* build of the session */
    char plan_id[KVR_KEY_LEN];
    struct kvr_progress progress;
    struct worker *workers;
    int n_workers, n_running, next; /* next: index in the order; no earlier job is WAITING */
    int n_started, n_drift;         /* cells; started drift measurements */
    int64_t drift_ns[N_DRIFT];
    int64_t t0_ns, ns_done; /* start of the run; total time of finished cells */
    double cost_done;
    struct kvr_machine machine;
    struct kvr_job *drift_job; /* the baseline that is measured again */
    char driver[256];          /* the device's driver, for the session */
    struct kvr_gpus gpus;
    bool no_links;               /* the out folder does not support links */
    bool waits_for_gpu, said_so; /* other programs hold all GPUs; the message was printed */
    int timeout_s, signals;      /* signals: stop requests by the user */
    int signal_fd, lock;
    sigset_t old_mask;
    struct sigaction old_pipe;
};

void kvr_runner_timestamp(char out[32]);

/* Stores the attempt with the cell, its baseline, the session and its times; without a start time,
 * start and end are the same. */
enum kvr_status kvr_runner_store_attempt(struct runner *r, struct kvr_job *j,
                                         const struct kvr_attempt *tried, struct kvr_verdict *v);

/* Stores a row for a cell without a worker. */
enum kvr_status kvr_runner_store_untried(struct runner *r, struct kvr_job *j, enum kvr_outcome o,
                                         const char *reason, struct kvr_verdict *v);

enum kvr_status kvr_runner_store_unsupported(struct runner *r);

enum kvr_status kvr_runner_settle(struct runner *r, struct kvr_job *j, const struct kvr_verdict *v);

/* Stores facts that order runs of the same second, and this run's restrictions, so that tables can
 * tell that they are partial. */
enum kvr_status kvr_runner_record_session(struct runner *r);

/* Stores the UUIDs of the GPUs that cells may use, which are part of the machine's identity. */
enum kvr_status kvr_runner_record_gpus(struct runner *r);

/* Stores NVML's version, or why it is unavailable, and clocks, power and ECC settings. */
enum kvr_status kvr_runner_record_gpu_states(struct runner *r);

/* Computes the hash of all keys, which identifies the plan on any machine. */
enum kvr_status kvr_runner_identify_plan(struct runner *r);

enum kvr_status kvr_runner_store_plan(struct runner *r);

/* Records how the session ended, also on error: one that stays "running" was killed. Returns the
 * original error whether or not the database accepts the record. */
enum kvr_status kvr_runner_end_session(struct runner *r, enum kvr_status ended);

bool kvr_runner_wants_video(const struct runner *r, const struct kvr_cell *c);

/* The worker's request. File names contain cell and build, so files of different results never
 * overwrite each other. */
char *kvr_runner_request(const struct runner *r, const struct kvr_job *j, bool drift);

/* In a timed session the first baseline is measured again: at once, after half of the cells, and
 * after the last. NULL: not due now. */
struct kvr_job *kvr_runner_drift_due(const struct runner *r, bool cells_left);

/* Picks a measured baseline for drift measurements in a resumed session, in which all baselines
 * have already been measured. */
void kvr_runner_choose_drift_job(struct runner *r);

/* Leaves out the prompts beyond `most_prompts`. */
void kvr_runner_apply_most_prompts(struct runner *r);

/* Keeps only the time of a drift measurement. A failed one leaves the session unchecked, which
 * counts as noisy. */
enum kvr_status kvr_runner_finish_drift(struct runner *r, struct worker *w);

enum kvr_status kvr_runner_judge_drift(struct runner *r);

/* Leaves out repeats that earlier runs have made unnecessary. */
enum kvr_status kvr_runner_find_enough(struct runner *r);

enum kvr_status kvr_runner_fill_workers(struct runner *r);

enum kvr_status kvr_runner_finish(struct runner *r, struct worker *w, int wait_status);

enum kvr_status kvr_runner_catch_signals(struct runner *r);

/* Consumes pending signals, which would kill the process once unblocked. */
void kvr_runner_release_signals(struct runner *r);

enum kvr_status kvr_runner_loop(struct runner *r);

/* Checks before the first cell that videos can be written, so that cells do not fail after their
 * frames are done. */
enum kvr_status kvr_runner_can_make_videos(const struct runner *r);

/* Identifies the device: its name is part of every key and of the session. A dry run may be for a
 * device of another machine. */
enum kvr_status kvr_runner_look_at_device(struct runner *r);

enum kvr_status kvr_runner_make_sweep(struct runner *r);

enum kvr_status kvr_runner_set_paths(struct runner *r);

int kvr_runner_count_workers(const struct runner *r);

/* Estimates time, disk space and memory from this database's history; a cell without history is
 * taken as the average of the others. The memory is that of concurrent workers running the largest
 * remaining cells. */
enum kvr_status kvr_runner_estimate(struct runner *r);

/* Keeps the first `limit` cells that would run, in order; baselines precede the cells that depend
 * on them. */
void kvr_runner_apply_limit(struct runner *r);

enum kvr_status kvr_runner_open_store(struct runner *r);

/* Counts timed cells without repeats: `repeats: 1` gives a single sample even with `timing`. */
void kvr_runner_count_timed_once(struct runner *r);

/* Sets the costs of cells from the database of option `costs`: the time of similar cells, or FLOPs
 * at the rate of cells with known times. Depends on the file only, so every machine computes the
 * same shards. */
enum kvr_status kvr_runner_cost_by_history(struct runner *r);

#endif
