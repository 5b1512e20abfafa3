/* runner_impl.h - the state of `kvreel run`, shared by runner*.c. A session is one `kvreel run` and
 * its record in the database. A drift measurement repeats a baseline, to show whether the machine's
 * speed changes during a timed session. */
#ifndef KVR_RUN_RUNNER_IMPL_H
#define KVR_RUN_RUNNER_IMPL_H

#include <signal.h>

#include "harness/core/clock.h"
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
    struct kvr_job *job; /* cell that the worker runs; NULL: the worker is idle */
    int64_t start_ns, deadline_ns;
    bool timed_out, stopped, drift; /* timed_out: killed at deadline_ns; stopped: killed at the
                                     * user's request; drift: runs a drift measurement */
    int64_t oom_kills;              /* the host's count of OOM kills when the worker started; a
                                     * higher count at the worker's end means that the kernel may
                                     * have killed it */
    int gpu;                        /* index of the GPU that the worker uses; -1: none */
    struct kvr_disturbance disturbance;
    char started[KVR_UTC_BYTES];
};

struct runner {
    const struct kvr_run_options *opts;
    struct kvr_run_summary *summary;
    struct kvr_config config;
    struct kvr_sweep sweep;
    char **packs;       /* for each model: path of the file with the text embeddings of the model's
                         * prompts (encode.h) */
    char (*stamps)[65]; /* for each model: hex digest that changes if one of the model's files is
                         * rewritten (kvr_model_stamp) */
    struct kvr_job *jobs;
    int *order; /* indices of all cells in start order (order.h) */
    struct kvr_store *store;
    struct kvr_session session;
    struct kvr_retries retries;
    char build[65]; /* hash of the running kvreel program */
    char plan_id[KVR_KEY_LEN];
    struct kvr_progress progress;
    struct worker *workers;
    int n_workers, n_running, next; /* n_running: number of busy workers; next: index of `order` at
                                     * which the search for the next waiting job begins */
    int n_started, n_drift;         /* numbers of cells and of drift measurements that this session
                                     * has started */
    int64_t drift_ns[N_DRIFT];
    int64_t t0_ns, ns_done; /* t0_ns: start time of the run; ns_done: sum of the finished cells'
                             * wall times */
    double cost_done;
    struct kvr_machine machine;
    struct kvr_job *drift_job; /* baseline that drift measurements repeat (kvr_runner_drift_due) */
    char driver[256];          /* version of the device's driver, stored with the session */
    struct kvr_gpus gpus;
    bool no_links;               /* whether creating a symbolic link to a video or frames file
                                  * failed, so that no more links are created */
    bool waits_for_gpu, said_so; /* waits_for_gpu: no cell runs, because other kvreel processes
                                  * use all GPUs; said_so: this wait was reported */
    int timeout_s, signals;      /* timeout_s: timeout of a cell in seconds; signals: number of stop
                                  * signals (such as Ctrl-C); the second one kills the running
                                  * cells */
    int signal_fd, lock;
    sigset_t old_mask;
    struct sigaction old_pipe;
};

/* Stores an attempt to run a cell, with the session, the attempt's start and end time, and the key
 * of the baseline that the cell's frames are compared with. If the attempt has no start time, its
 * end time is stored as its start time. */
enum kvr_status kvr_runner_store_attempt(struct runner *r, struct kvr_job *j,
                                         const struct kvr_attempt *tried, struct kvr_verdict *v);

/* Stores a result row with outcome `o` for a cell that no worker ran. */
enum kvr_status kvr_runner_store_untried(struct runner *r, struct kvr_job *j, enum kvr_outcome o,
                                         const char *reason, struct kvr_verdict *v);

enum kvr_status kvr_runner_store_unsupported(struct runner *r);

enum kvr_status kvr_runner_settle(struct runner *r, struct kvr_job *j, const struct kvr_verdict *v);

/* Stores the session's output folder, start time in ns, state "running", plan hash and options. The
 * start time in ns orders sessions that start in the same second. From the options filter, limit,
 * budget and shard, `kvreel status` can tell that the session was to run only a part of the
 * sweep. */
enum kvr_status kvr_runner_record_session(struct runner *r);

/* Stores the UUIDs of the GPUs that cells may use. These UUIDs also enter the hash that identifies
 * the session's machine (kvr_session_identify). */
enum kvr_status kvr_runner_record_gpus(struct runner *r);

/* Stores two properties of the session: the version of NVML (or the reason why NVML is
 * unavailable), and the GPUs' clock, power and ECC settings. */
enum kvr_status kvr_runner_record_gpu_states(struct runner *r);

/* Computes the plan's hash from the keys (input hashes) of its cells. The same plan has the same
 * hash on any machine with the same device name. */
enum kvr_status kvr_runner_identify_plan(struct runner *r);

enum kvr_status kvr_runner_store_plan(struct runner *r);

/* Stores how the session ended, also after an error. A session that stays "running" in the database
 * was killed. Returns the argument `ended`, even if the database cannot be written. */
enum kvr_status kvr_runner_end_session(struct runner *r, enum kvr_status ended);

bool kvr_runner_wants_video(const struct runner *r, const struct kvr_cell *c);

/* Builds the request (JSON) that a worker receives. The names of the result files contain the
 * hashes of the rollout (or video) and of the build, so that different results never overwrite each
 * other. */
char *kvr_runner_request(const struct runner *r, const struct kvr_job *j, bool drift);

/* Returns the baseline to repeat now as a drift measurement; NULL: none. The session repeats its
 * first baseline directly after the baseline's own run, after half of the cells and after the last
 * cell. */
struct kvr_job *kvr_runner_drift_due(const struct runner *r, bool cells_left);

/* Picks a measured baseline for drift measurements in a session that resumes a sweep and runs no
 * baseline itself. */
void kvr_runner_choose_drift_job(struct runner *r);

/* Excludes cells of the prompts beyond the number that the callback `most_prompts` allows. */
void kvr_runner_apply_most_prompts(struct runner *r);

/* Stores the time of a drift measurement and deletes the frames that the measurement wrote. If the
 * measurement failed, kvr_runner_judge_drift marks the session's times as noisy. */
enum kvr_status kvr_runner_finish_drift(struct runner *r, struct worker *w);

enum kvr_status kvr_runner_judge_drift(struct runner *r);

/* Excludes cells for which stored results already meet the stop rule `until` (kvr_is_enough). */
enum kvr_status kvr_runner_find_enough(struct runner *r);

enum kvr_status kvr_runner_fill_workers(struct runner *r);

enum kvr_status kvr_runner_finish(struct runner *r, struct worker *w, int wait_status);

enum kvr_status kvr_runner_catch_signals(struct runner *r);

/* Discards pending stop signals, then restores the signal mask. Without the discard, unblocking a
 * pending signal would kill the process. */
void kvr_runner_release_signals(struct runner *r);

enum kvr_status kvr_runner_loop(struct runner *r);

/* Checks before the first cell that video files can be written, so that no cell fails after its
 * frames have been generated. */
enum kvr_status kvr_runner_can_make_videos(const struct runner *r);

/* Determines the device's name, which is part of every cell's key and is stored with the session. A
 * dry run may name a device that this machine does not have. */
enum kvr_status kvr_runner_identify_device(struct runner *r);

enum kvr_status kvr_runner_make_sweep(struct runner *r);

enum kvr_status kvr_runner_set_paths(struct runner *r);

int kvr_runner_count_workers(const struct runner *r);

/* Estimates time, disk space and memory from earlier results in this database. A cell without
 * earlier results is estimated as the mean of the other cells. The memory estimate assumes that the
 * concurrent workers run the largest remaining cells. */
enum kvr_status kvr_runner_estimate(struct runner *r);

/* Of the cells that would run, keeps only the first `limit` in start order. In this order, a
 * baseline precedes the cells that are compared with it. */
void kvr_runner_apply_limit(struct runner *r);

enum kvr_status kvr_runner_open_store(struct runner *r);

/* Sets summary->timed_once to the number of timed cells that run only once, because `repeats` is 1.
 * Their times get no confidence interval. */
void kvr_runner_count_timed_once(struct runner *r);

/* Sets the predicted cost of each cell to the mean time of matching cells (struct kvr_like) in the
 * database that the option `costs` names. Without matching cells, the cost is the cell's FLOPs
 * divided by the mean FLOP/s of the cells that have matches. Without any matches, all costs remain
 * FLOPs. No other database is read, so every machine computes the same shards. */
enum kvr_status kvr_runner_cost_by_history(struct runner *r);

#endif
