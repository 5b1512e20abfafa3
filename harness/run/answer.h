/* answer.h - stores a worker's answer, or its failure, as a row. */
#ifndef KVR_RUN_ANSWER_H
#define KVR_RUN_ANSWER_H

#include "harness/plan/sweep.h"
#include "harness/store/store.h"

/* Result of an attempt. Borrowed. */
struct kvr_attempt {
    const struct kvr_cell *cell;
    const char *baseline_key, *session;
    const char *started, *finished;
    const char *answer, *log_tail; /* output of the worker; answer NULL: no worker was started */
    int wait_status;
    int64_t cell_ns;         /* wall time of the worker: rollout, files, metrics, video */
    bool timed_out, stopped; /* killed by the timeout, or by the user */
    int timeout_s;
    bool answer_lost;                  /* the parent ran out of memory while it read the answer */
    bool oom_killed;                   /* the OOM killer was active while the worker ran */
    const char *disturbed;             /* codes of disturbances while the cell ran; NULL: there were
                                        * none */
    const struct kvr_row_watch *watch; /* [n_watch] the observed numbers (disturbance.h) */
    int n_watch;
    enum kvr_outcome outcome; /* without a worker: SKIPPED or UNSUPPORTED, with `reason` */
    const char *reason;
    const char *expected_frames; /* expected sha256 of the frames, or "" */
};

/* What the caller learns from a stored attempt. */
struct kvr_verdict {
    enum kvr_outcome outcome;
    char reason[512];
    int64_t wall_ns;
    double psnr, ssim; /* NaN when not measured */
    char frames_path[512], frames_sha256[65];
    bool noisy;
    bool disk_full; /* the worker could not write: the row was not stored */
};

/* Judges the attempt and stores it in one transaction. Errors such as KVR_EFULL come from the
 * store. */
enum kvr_status kvr_attempt_store(struct kvr_store *s, const struct kvr_attempt *a,
                                  struct kvr_verdict *out);

#endif
