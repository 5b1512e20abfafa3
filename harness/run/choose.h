/* choose.h - compares a sweep with the database, and chooses the cells (runs of one method on one
 * prompt) that this kvreel process measures or rescores. */
#ifndef KVR_RUN_CHOOSE_H
#define KVR_RUN_CHOOSE_H

#include "harness/plan/sweep.h"
#include "harness/run/run.h"
#include "harness/store/store.h"

enum kvr_state {
    KVR_LEFT_OUT, /* the cell is not selected by filter or limit, or needs neither a run nor new
                   * metrics */
    KVR_WAITING,
    KVR_RUNNING,
    KVR_DONE,   /* the database has the cell's results, and other cells can be compared with its
                 * frames */
    KVR_FAILED, /* the cell failed; cells that need it as baseline are therefore skipped */
};

struct kvr_job {
    struct kvr_cell *cell;
    enum kvr_state state;
    char frames_path[512]; /* path of the frames file of a cell in state DONE, relative to the out
                            * folder */
    char frames_sha256[65];
    bool expect_same_frames; /* whether the cell is rerun only because its frames file is missing or
                              * damaged; its new frames must then equal the original frames */
    int tries;               /* number of times that this run of kvreel retried the cell */
    bool enough;             /* whether the stop rule `until` makes the cell unnecessary */
    bool to_score;           /* whether the cell is DONE, but new metrics must be computed from its
                              * frames */
    bool other_build;        /* whether the cell is DONE, but another build of kvreel measured it,
                              * so that its frames cannot be compared with those of this build */
    char reason[512];        /* why the cell FAILED */
};

/* For each outcome of a failed cell, the maximum number of retries of the cell within one run of
 * kvreel. */
struct kvr_retries {
    int most[KVR_N_OUTCOMES];
};

/* Parses a list of outcomes and their maximum numbers of retries, such as "SIGNAL:2,TIMEOUT:1".
 * NULL means no retries. Returns KVR_EINVAL if the list is malformed, or names a deterministic
 * outcome, which a retry would reproduce. */
enum kvr_status kvr_retries_parse(struct kvr_retries *r, const char *text);

/* Sets *out to an array of one job per cell, in the order of the sweep; the caller frees *out.
 * `build` identifies the build of kvreel that runs now (kvr_session_build). A baseline measured by
 * another build is rerun if a cell that will run needs it. Sets the fields of `summary` that are
 * known before the first cell starts, for example `cells` and `skipped`. Returns KVR_EINVAL if
 * `opts->retry` is invalid. */
enum kvr_status kvr_choose(struct kvr_job **out, struct kvr_store *store, struct kvr_sweep *sweep,
                           const struct kvr_run_options *opts, const char *build,
                           const char *out_dir, struct kvr_run_summary *summary);

#endif
