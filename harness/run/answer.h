/* answer.h - judges a worker's answer or failure, and stores it as the cell's row. */
#ifndef KVR_RUN_ANSWER_H
#define KVR_RUN_ANSWER_H

#include "harness/plan/sweep.h"
#include "harness/store/store.h"

/* Result of an attempt to run a cell. All pointers are borrowed. */
struct kvr_attempt {
    const struct kvr_cell *cell;
    const char *baseline_key, *session;
    const char *started, *finished;
    const char *answer, *log_tail; /* `answer`: stdout of the worker (NULL: no worker was started);
                                    * `log_tail`: last lines of the worker's stderr */
    int wait_status;
    int64_t cell_ns;         /* wall time of the worker in nanoseconds: rollout, files, metrics and
                              * video */
    bool timed_out, stopped; /* the timeout, or the user, killed the worker */
    int timeout_s;
    bool answer_lost;                  /* the parent ran out of memory while it read the answer */
    bool oom_killed;                   /* the OOM killer was active while the worker ran */
    const char *disturbed;             /* codes of disturbances while the cell ran (NULL:
                                        * undisturbed) */
    const struct kvr_row_watch *watch; /* observations [n_watch] of the machine (disturbance.h) */
    int n_watch;
    enum kvr_outcome outcome; /* outcome SKIPPED or UNSUPPORTED of a cell whose worker was not
                               * started */
    const char *reason;
    const char *expected_frames; /* SHA-256 that the frames must have ("": not checked) */
};

/* Outcome and results of a stored attempt. */
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

/* Determines the outcome of an attempt and stores it in one transaction. Errors such as KVR_EFULL
 * are those of the store. */
enum kvr_status kvr_attempt_store(struct kvr_store *s, const struct kvr_attempt *a,
                                  struct kvr_verdict *out);

#endif
