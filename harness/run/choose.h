/* choose.h - what of a sweep is to be run, given what the database knows. */
#ifndef KVR_RUN_CHOOSE_H
#define KVR_RUN_CHOOSE_H

#include "harness/plan/sweep.h"
#include "harness/run/run.h"
#include "harness/store/store.h"

enum kvr_state {
    KVR_LEFT_OUT, /* not selected, or nothing to do */
    KVR_WAITING,
    KVR_RUNNING,
    KVR_DONE,   /* its frames are there: candidates may be compared with them */
    KVR_FAILED, /* what depends on it is skipped */
};

struct kvr_job {
    struct kvr_cell *cell;
    enum kvr_state state;
    char frames_path[512]; /* below the out folder, when DONE */
    char frames_sha256[65];
    bool expect_same_frames; /* made again only because the file is gone or damaged */
    int tries;               /* that have failed in this run and were to be repeated */
    bool enough;             /* left out: its rollout's time is known well enough */
    bool to_score;           /* DONE, and its frames are to be scored by metrics that are new */
    bool other_build;        /* when DONE: frames of this build are not to be compared with its */
    char reason[512];        /* when FAILED */
};

/* How many times more a cell is tried in the same run when it fails so. */
struct kvr_retries {
    int most[KVR_N_OUTCOMES];
};

/* "SIGNAL:2,TIMEOUT:1"; NULL: none. KVR_EINVAL: not such a list, or of what the same rollout would
 * only do again. */
enum kvr_status kvr_retries_parse(struct kvr_retries *r, const char *text);

/* One job per cell of the sweep, in its order; malloc'ed. `build` is that of this run
 * (kvr_session_build); a baseline of another one is made again when a cell needs it. Fills the
 * counts of `summary` that are known now. KVR_EINVAL: `opts->retry` is not understood. */
enum kvr_status kvr_choose(struct kvr_job **out, struct kvr_store *store, struct kvr_sweep *sweep,
                           const struct kvr_run_options *opts, const char *build,
                           const char *out_dir, struct kvr_run_summary *summary);

#endif
