/* choose.h - compares a sweep with the database and chooses the cells to run. */
#ifndef KVR_RUN_CHOOSE_H
#define KVR_RUN_CHOOSE_H

#include "harness/plan/sweep.h"
#include "harness/run/run.h"
#include "harness/store/store.h"

enum kvr_state {
    KVR_LEFT_OUT, /* the cell is not selected, or has no work to do */
    KVR_WAITING,
    KVR_RUNNING,
    KVR_DONE,   /* the cell is measured, and other cells can be compared with its frames */
    KVR_FAILED, /* the cell failed, so cells that need it as baseline are skipped */
};

struct kvr_job {
    struct kvr_cell *cell;
    enum kvr_state state;
    char frames_path[512]; /* path of a DONE cell's frames, relative to the out folder */
    char frames_sha256[65];
    bool expect_same_frames; /* the cell is rerun only because its frames file is missing or
                              * damaged, so the new frames must be identical */
    int tries;               /* number of retries of the cell in this run */
    bool enough;             /* the stop rule makes the cell unnecessary: the rollout's time is
                              * known precisely enough */
    bool to_score;           /* the cell is DONE, and new metrics must be computed from its
                              * frames */
    bool other_build;        /* the cell is DONE, but another build measured it, so its frames
                              * cannot be compared */
    char reason[512];        /* why the cell FAILED */
};

/* Maximum number of retries of a failed cell within a run, per outcome. */
struct kvr_retries {
    int most[KVR_N_OUTCOMES];
};

/* Parses a list such as "SIGNAL:2,TIMEOUT:1"; NULL means no retries. KVR_EINVAL: the list is
 * malformed, or names a deterministic outcome that a retry would repeat. */
enum kvr_status kvr_retries_parse(struct kvr_retries *r, const char *text);

/* Sets *out to one job per cell, in the order of the sweep; the caller frees *out. `build` is the
 * build of this run (kvr_session_build). A baseline measured by another build is rerun if a cell
 * needs it. Sets the counts of `summary` that are known before the run. KVR_EINVAL: `opts->retry`
 * is invalid. */
enum kvr_status kvr_choose(struct kvr_job **out, struct kvr_store *store, struct kvr_sweep *sweep,
                           const struct kvr_run_options *opts, const char *build,
                           const char *out_dir, struct kvr_run_summary *summary);

#endif
