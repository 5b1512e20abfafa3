/* answer.h - derives the outcome of a cell (one measured run) from its worker process's answer or
 * failure, and stores the outcome and the results in the database. */
#ifndef KVR_RUN_ANSWER_H
#define KVR_RUN_ANSWER_H

#include "harness/plan/sweep.h"
#include "harness/store/store.h"

/* Result of an attempt to run a cell. The caller owns all pointers. */
struct kvr_attempt {
    const struct kvr_cell *cell;
    const char *baseline_key, *session;
    const char *started, *finished;
    const char *answer, *log_tail; /* `answer`: stdout of the worker (NULL: no worker was started);
                                    * `log_tail`: last lines of the worker's stderr */
    int wait_status;
    int64_t cell_ns;         /* wall time of the worker process in nanoseconds, including rollout,
                              * metrics and writing of files */
    bool timed_out, stopped; /* timed_out: whether the worker was killed at the timeout; stopped:
                              * whether it was killed because the user interrupted the run */
    int timeout_s;
    bool answer_lost;                  /* whether the parent ran out of memory while it read the
                                        * worker's answer */
    bool answer_too_long;              /* whether the worker's answer exceeds KVR_ANSWER_MAX */
    bool oom_killed;                   /* whether the kernel's OOM killer killed a process while the
                                        * worker ran */
    const char *disturbed;             /* codes of disturbances of the cell's time, such as "LOAD
                                        * CLOCK" (NULL: undisturbed) */
    const struct kvr_row_watch *watch; /* observations [n_watch] of the machine while the worker
                                        * ran, such as its load (disturbance.h) */
    int n_watch;
    enum kvr_outcome outcome; /* outcome of a cell whose worker was not started: SKIPPED or
                               * UNSUPPORTED */
    const char *reason;
    const char *expected_frames; /* SHA-256 that the frames must have, because the cell repeats an
                                  * earlier run ("": not checked) */
};

/* Outcome and results that kvr_attempt_store derives from an attempt. */
struct kvr_verdict {
    enum kvr_outcome outcome;
    char reason[512];
    int64_t wall_ns;
    double psnr, ssim; /* NaN: not measured */
    char frames_path[512], frames_sha256[65];
    bool noisy;
    bool disk_full; /* whether the disk is full, so that the worker could not write its files and no
                     * row was stored */
};

/* Determines the outcome of an attempt, and stores outcome and results in one transaction. If the
 * database fails, returns its status, such as KVR_EFULL. */
enum kvr_status kvr_attempt_store(struct kvr_store *s, const struct kvr_attempt *a,
                                  struct kvr_verdict *out);

#endif
