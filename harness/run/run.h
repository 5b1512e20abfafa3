/* run.h - runs a sweep: plans its cells, runs the cells that the database lacks, and stores the
 * results. A cell is one run of one method on one prompt and seed.
 *
 * Each cell runs in its own process, `kvreel worker`, which reads the cell as JSON from stdin and
 * writes its results as JSON to stdout. Only the parent process writes to the database. A cell that
 * crashes, hangs or fails is stored with its outcome, and the sweep continues. */
#ifndef KVR_RUN_RUN_H
#define KVR_RUN_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "harness/core/status.h"
#include "harness/plan/config.h"

/* Summary of one method's cells in a plan: their numbers by state, and texts for the user. The
 * strings are valid during the callback only. */
struct kvr_plan_line {
    const char *method;
    int cells, to_run, done, failed, unsupported, excluded, left_out; /* numbers of the method's
                                                                       * cells by state; left_out:
                                                                       * cells that do not run for
                                                                       * another reason, such as the
                                                                       * option `limit` */
    const char *model;                                                /* name of the model in the
                                                                       * method's first cell */
    bool listed; /* whether the config lists the method; false: kvreel added the method as a
                          * baseline of listed methods */
    bool default_baseline; /* whether kvreel added the method (plan/baselines.h) */
    const char *reason;  /* why the method's first unsupported, excluded or failed cell does not run
                          * ("": no such cell) */
    const char *warning; /* warning that applies to the method's results ("": no warning) */
};
/* Callback that returns the maximum number of prompts per prompt suite that this run measures for a
 * method (INT_MAX: all prompts). If the callback sets *enough to true, prompts beyond the maximum
 * are unnecessary; otherwise they are left for a later run. */
typedef int kvr_most_prompts_fn(void *ctx, const char *method, bool *enough);
typedef void kvr_plan_line_fn(void *ctx, const struct kvr_plan_line *line);

/* Callback that returns the relative width of a confidence interval: the width of the interval for
 * the median of the n values x, divided by this median. */
typedef double kvr_width_fn(const double *x, int n);

struct kvr_plan_file; /* harness/plan/files.h */
typedef void kvr_plan_file_fn(void *ctx, const struct kvr_plan_file *file);

/* Predicted total cost of one phase (text encoding, rollout or decoding) over all cells. The phases
 * do not overlap in time (harness/plan/resources.h). */
struct kvr_run_phase {
    int n;                /* number of prompts to encode, of rollouts to run, or of videos to
                           * decode */
    double flop;          /* total FLOPs of the phase */
    int64_t memory_bytes; /* peak memory, in bytes, of the prompt, rollout or video that needs the
                           * most memory */
};

struct kvr_run_options {
    /* The sweep's config, as a path or as text. For a config from a pipe, which can be read only
     * once, `kvreel run` passes the text. */
    struct kvr_config_source sweep;
    const char *db_path; /* path of the database (NULL: the config's `db`, or "kvreel.db") */
    const char *out_dir; /* folder for frames and videos (NULL: the config's `out`, or "out") */
    int jobs;            /* number of concurrent cells (0: one per core) */
    const char *filter;  /* filter of cells, such as "method~^RTN & prompt=3" (NULL: all cells) */
    const char *retry;   /* which failed cells of earlier runs are rerun, as "failed" or
                          * "failed:TYPE", where TYPE is an outcome such as TIMEOUT (NULL: none) */
    const char *retries; /* numbers of retries per outcome in this run, such as "SIGNAL:2" (NULL: no
                          * retries; choose.h) */
    bool force, dry_run;
    bool stale;          /* whether to rerun cells that another build of kvreel measured */
    int limit;           /* maximum number of cells to run (0: unlimited) */
    int shard, n_shards; /* run shard `shard`, counted from 0, of n_shards (0 of 1: all cells) */
    int budget_s;        /* time limit of the run in seconds (0: unlimited); a cell starts only if
                          * it is predicted to finish in time */
    kvr_most_prompts_fn *most_prompts; /* NULL: all prompts */
    void *most_ctx;
    kvr_width_fn *width; /* computes the width of the confidence interval of a cell's times, for the
                          * stop rule `until: ci_width 1%` (NULL: all repeats run) */
    const char *costs;   /* database with measured times of cells, used to balance the shards (NULL:
                          * predicted FLOPs are used) */
    int timeout_s;       /* timeout of a cell in seconds (0: the config's `timeout_s`) */
    FILE *progress;      /* stream for progress lines or a progress bar (NULL: no progress
                          * output) */
    kvr_plan_line_fn *plan_line; /* callback for each method in a dry run; may be NULL */
    kvr_plan_file_fn *plan_file; /* callback for each input file in a dry run; may be NULL */
    void *plan_ctx;
    int argc;
    char **argv; /* argc, argv: command line, stored in the database */
};

struct kvr_run_summary {
    int cells;   /* number of cells of the plan that the options filter and shard select */
    int ok;      /* number of cells that this run measured with outcome OK */
    int failed;  /* number of cells that this run measured with an outcome other than OK */
    int skipped; /* number of cells that did not run: already in the database, unsupported or
                  * excluded */
    int done_before, unsupported, excluded; /* numbers of cells that were measured before, that are
                                             * unsupported, and that the config excludes; their sum
                                             * is `skipped` */
    int failed_before;      /* number of cells counted in done_before that failed and are not
                             * retried */
    int to_score;           /* number of cells counted in done_before whose result lacks requested
                             * metrics, which are computed from stored frames */
    int scored, not_scored; /* numbers of cells counted in to_score whose missing metrics were
                             * computed, and whose missing metrics could not be computed */
    int to_run;             /* number of cells to measure: in this run or, after a dry run, in a
                             * later run */
    int timed_once;         /* number of timed cells without repeats, for whose times no confidence
                             * interval can be computed */
    int limited;            /* number of cells left for a later run because of `limit` or the time
                             * limit budget_s */
    int enough;             /* number of cells that do not run, because the stop rule `until` is
                             * already met */
    int later;              /* number of cells left for a later run, because the callback
                             * `most_prompts` allows no more prompts for their method */
    int retried;            /* number of attempts that repeated a failed attempt */
    int noisy;              /* number of cells counted in `ok` whose times are marked as noisy */
    int n_stale;            /* number of cells counted in done_before that another build of kvreel
                             * measured */
    int64_t memory_bytes;   /* memory of all concurrent cells in bytes, estimated from cells in the
                             * database (0: unknown) */
    int64_t disk_bytes;     /* disk space in bytes for the cells counted in to_run, estimated from
                             * cells in the database (0: unknown) */
    int64_t estimate_ns;    /* wall time in ns for the cells counted in to_run, estimated from cells
                             * in the database (0: unknown) */
    /* The fields from flop to frames_bytes are predicted costs (estimate.h). Only a dry run
     * computes these costs, and only if the database has no cells from which estimate_ns can be
     * estimated. Costs that are not computed or are unknown are 0. The field flop is the total
     * number of FLOPs of the cells to run; flop_per_s is the measured FLOP/s of this machine. */
    double flop, flop_per_s;
    int64_t predicted_bytes;                        /* peak memory for KV cache and weights, in
                                                     * bytes, of the cell that needs the most
                                                     * memory */
    struct kvr_run_phase encoder, network, decoder; /* predicted costs of text encoding, rollout
                                                     * (`network`) and decoding; the memory of the
                                                     * rollout includes activations */
    int64_t frames_bytes;                           /* size of all raw frame files to store, in
                                                     * bytes, excluding MP4 videos */
    bool unidentified;   /* whether a dry run cannot compute the keys (input hashes) of cells,
                          * because files are missing or not hashed yet, or the device is
                          * unavailable */
    char no_device[512]; /* why a dry run could not query the device ("": the query succeeded) */
    bool until_decided;  /* whether the config has `until: decided`; kvr_run then runs nothing, and
                          * the caller must use kvr_decide() (settle/decide.h) */
    bool interrupted;
    char db_path[512], out_dir[512];
};

/* Runs a sweep. Returns KVR_OK even if cells failed; the summary counts these cells. An error means
 * that the sweep as a whole could not run. */
enum kvr_status kvr_run(const struct kvr_run_options *opts, struct kvr_run_summary *out);

/* Runs `kvreel worker`: reads one cell as JSON from `in`, runs it, and writes the results as JSON
 * to `out`. Returns the exit code. */
int kvr_worker_main(FILE *in, FILE *out);

#endif
