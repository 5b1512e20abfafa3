/* answer.h - a worker's answer, or its death, becomes a row. */
#ifndef KVR_RUN_ANSWER_H
#define KVR_RUN_ANSWER_H

#include "harness/plan/sweep.h"
#include "harness/store/store.h"

/* How an attempt ended. Borrowed. */
struct kvr_attempt {
    const struct kvr_cell *cell;
    const char *baseline_key, *session;
    const char *started, *finished;
    const char *answer, *log_tail; /* what the worker wrote; answer NULL: there was no worker */
    int wait_status;
    int64_t cell_ns; /* from the worker's start to its end: rollout, files, metrics, video */
    bool timed_out, stopped; /* killed for its time, or by the user */
    int timeout_s;
    bool answer_lost;      /* there was no memory here to read it */
    bool oom_killed;       /* the kernel killed something for want of memory meanwhile */
    const char *disturbed; /* codes of what the machine did beside it; NULL: nothing */
    const struct kvr_row_watch *watch; /* the same in numbers */
    int n_watch;
    enum kvr_outcome outcome; /* without a worker: SKIPPED, UNSUPPORTED, with `reason` */
    const char *reason;
    const char *expected_frames; /* sha256 the frames must have, or "" */
};

/* What the caller wants to know of it afterwards. */
struct kvr_verdict {
    enum kvr_outcome outcome;
    char reason[512];
    int64_t wall_ns;
    double psnr, ssim; /* NaN when not measured */
    char frames_path[512], frames_sha256[65];
    bool noisy;
    bool disk_full; /* the worker could not write: the row was not stored */
};

/* Judge the attempt and store it, in one transaction. KVR_EFULL and the like are the store's. */
enum kvr_status kvr_attempt_store(struct kvr_store *s, const struct kvr_attempt *a,
                                  struct kvr_verdict *out);

#endif
