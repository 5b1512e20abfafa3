/* choose.h - chooses the cells of a sweep to run, given the database. */
#ifndef KVR_RUN_CHOOSE_H
#define KVR_RUN_CHOOSE_H

#include "harness/plan/sweep.h"
#include "harness/run/run.h"
#include "harness/store/store.h"

enum kvr_state {
    KVR_LEFT_OUT, /* not selected, or nothing to do */
    KVR_WAITING,
    KVR_RUNNING,
    KVR_DONE,   /* its frames exist for comparisons */
    KVR_FAILED, /* cells that depend on it are skipped */
};

struct kvr_job {
    struct kvr_cell *cell;
    enum kvr_state state;
    char frames_path[512]; /* path of the frames below the out folder, if DONE */
    char frames_sha256[65];
    bool expect_same_frames; /* the cell runs again only because its file is missing or damaged */
    int tries;               /* failed attempts of this run that were retried */
    bool enough;             /* the cell is left out because its rollout's time is known precisely
                              * enough */
    bool to_score;           /* DONE, with new metrics to compute from its frames */
    bool other_build;        /* DONE by another build, so that frames cannot be compared */
    char reason[512];        /* why the cell FAILED */
};

/* Retries of a failed cell within a run, by outcome. */
struct kvr_retries {
    int most[KVR_N_OUTCOMES];
};

/* Parses "SIGNAL:2,TIMEOUT:1"; NULL: no retries. KVR_EINVAL: malformed, or an outcome that a retry
 * would repeat. */
enum kvr_status kvr_retries_parse(struct kvr_retries *r, const char *text);

/* One job per cell of the sweep, in its order; malloc'd. `build` is the build of this run
 * (kvr_session_build); a baseline of another build is rerun if a cell needs it. Fills the counts of
 * `summary` known so far. KVR_EINVAL: invalid `opts->retry`. */
enum kvr_status kvr_choose(struct kvr_job **out, struct kvr_store *store, struct kvr_sweep *sweep,
                           const struct kvr_run_options *opts, const char *build,
                           const char *out_dir, struct kvr_run_summary *summary);

#endif
