/* run.h - runs a sweep: plans, runs the cells that the database lacks, stores the results.
 *
 * Each cell runs in its own process (`kvreel worker`, with the cell as JSON on stdin and the answer
 * as JSON on stdout); the parent is the only writer of the database. A cell that crashes, hangs or
 * fails becomes a row; the sweep continues. */
#ifndef KVR_RUN_RUN_H
#define KVR_RUN_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "harness/core/status.h"
#include "harness/plan/config.h"

/* One method of a plan. Borrowed for the call. */
struct kvr_plan_line {
    const char *method;
    int cells, to_run, done, failed, unsupported, excluded, left_out; /* numbers of cells; left_out:
                                                                       * by `limit` */
    const char *model;                                                /* model of the first cell */
    bool listed;         /* listed in the config, unlike added baselines */
    const char *reason;  /* why the first cell that will not run does not */
    const char *warning; /* a caveat about the method's numbers; "" if there is none */
};
/* Number of prompts of each suite over which this run measures a method; INT_MAX: all. *enough:
 * whether the other prompts are not needed at all, or left for a later run. */
typedef int kvr_most_prompts_fn(void *ctx, const char *method, bool *enough);
typedef void kvr_plan_line_fn(void *ctx, const struct kvr_plan_line *line);

/* Width of the median's confidence interval, relative to the median. */
typedef double kvr_width_fn(const double *x, int n);

struct kvr_plan_file; /* harness/plan/files.h */
typedef void kvr_plan_file_fn(void *ctx, const struct kvr_plan_file *file);

/* Prediction for one phase of a plan; phases do not overlap (harness/plan/resources.h). */
struct kvr_run_phase {
    int n;                /* encoded prompts, rollouts, or decoded videos */
    double flop;          /* FLOPs of all together */
    int64_t memory_bytes; /* memory of the largest of them */
};

struct kvr_run_options {
    /* The sweep. A pipe can be read only once, so `kvreel run` passes its text. */
    struct kvr_config_source sweep;
    const char *db_path; /* NULL: from the config, else "kvreel.db" */
    const char *out_dir; /* NULL: from the config, else "out" */
    int jobs;            /* 0: one per core */
    const char *filter;  /* NULL: all. "method~^RTN & prompt=3" */
    const char *retry;   /* NULL, "failed" or "failed:TYPE" */
    const char *retries; /* NULL, or "SIGNAL:2,..": outcomes retried at once (choose.h) */
    bool force, dry_run;
    bool stale;          /* run cells of other builds again */
    int limit;           /* > 0: at most this many cells, in order */
    int shard, n_shards; /* 0 of 1: everything */
    int budget_s;        /* > 0: start only cells that would finish within this time */
    kvr_most_prompts_fn *most_prompts; /* NULL: all prompts */
    void *most_ctx;
    kvr_width_fn *width; /* for `until: ci_width 1%`; NULL: all repeats are run */
    const char *costs; /* a database whose cell times weight the shards; NULL: predicted FLOPs do */
    int timeout_s;     /* 0: from the config */
    FILE *progress;    /* progress lines or bar; NULL: quiet */
    kvr_plan_line_fn *plan_line; /* called for each method of a dry run; NULL: not called */
    kvr_plan_file_fn *plan_file; /* called for each input file of a dry run; NULL: not called */
    void *plan_ctx;
    int argc;
    char **argv; /* stored with the session */
};

struct kvr_run_summary {
    int cells;   /* cells in the plan, after filter and shard */
    int ok;      /* cells that this run measured, with outcome OK */
    int failed;  /* cells that this run measured, with another outcome */
    int skipped; /* cells already in the database, excluded, or impossible for a reason */
    int done_before, unsupported, excluded; /* the three parts of `skipped` */
    int failed_before;      /* part of done_before: failed in the database and not retried */
    int to_score;           /* part of done_before: has new metrics to compute from frames */
    int scored, not_scored; /* cells of to_score with and without new scores */
    int to_run;             /* cells that were measured, or would be in a dry run */
    int timed_once;         /* timed cells without repeats: their spread is unknown */
    int limited;            /* cells left for a later run by `limit` or by the budget */
    int enough;             /* repeats and prompts left out by the stop rule */
    int later;              /* prompts left out by `most_prompts` for now */
    int retried;            /* failed attempts that were repeated */
    int noisy;              /* part of `ok`: the time is not reliable */
    int n_stale;            /* part of done_before: measured by another build */
    int64_t memory_bytes;   /* memory of the concurrent cells, from history; 0: unknown */
    int64_t disk_bytes;     /* disk space for to_run, from history; 0: unknown */
    int64_t estimate_ns;    /* wall time of to_run, from history; 0: unknown */
    /* Dry run without history: predictions (estimate.h); 0: unknown. */
    double flop, flop_per_s;
    int64_t predicted_bytes;                        /* bytes of the largest cell, without
                                                     * activations */
    struct kvr_run_phase encoder, network, decoder; /* network: with activations */
    int64_t frames_bytes;                           /* raw frames to be stored, without videos */
    bool unidentified; /* dry run: files are missing or not hashed yet, or the device is absent, so
                        * it is unknown which cells were measured with them */
    char no_device[512]; /* dry run: why the device could not be queried; "" if it could */
    bool
        until_decided; /* nothing was run: `until: decided` is for kvr_decide() (settle/decide.h) */
    bool interrupted;
    char db_path[512], out_dir[512];
};

/* KVR_OK even if cells failed (see the summary); errors concern the sweep as a whole. */
enum kvr_status kvr_run(const struct kvr_run_options *opts, struct kvr_run_summary *out);

/* `kvreel worker`: runs the one cell described on `in`, answers on `out`. Returns the exit code. */
int kvr_worker_main(FILE *in, FILE *out);

#endif
