/* run.h - a sweep: plan, run what is not yet in the database, store.
 *
 * Each cell runs in a process of its own (`kvreel worker`, given the cell as JSON on stdin,
 * answering JSON on stdout); the parent is the only writer of the database. A cell that
 * crashes, hangs or fails is a row; the sweep goes on. */
#ifndef KVR_RUN_RUN_H
#define KVR_RUN_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "harness/core/status.h"
#include "harness/plan/preferences.h"

/* Of a plan, one method. Borrowed for the call. */
struct kvr_plan_line {
    const char *method;
    int cells, to_run, done, failed, unsupported, excluded, left_out; /* left_out: by `limit` */
    const char *reason;  /* of the first that will not run */
    const char *warning; /* what to mind when its numbers are read; "" */
};
typedef void kvr_plan_line_fn(void *ctx, const struct kvr_plan_line *line);

/* Of samples, the width of the median's interval, in parts of the median. */
typedef double kvr_width_fn(const double *x, int n);

struct kvr_plan_file; /* harness/plan/files.h */
typedef void kvr_plan_file_fn(void *ctx, const struct kvr_plan_file *file);

/* One of the three phases of a plan, which do not overlap (harness/plan/need.h), by arithmetic. */
struct kvr_run_phase {
    int n;                /* prompts that are encoded, rollouts, videos that are decoded */
    double flop;          /* of all */
    int64_t memory_bytes; /* of the largest */
};

struct kvr_run_options {
    const char *config_path;
    const char *db_path; /* NULL: what the config says, else "kvreel.db" */
    const char *out_dir; /* NULL: what the config says, else "out" */
    int jobs;            /* 0: one per core */
    const char *filter;  /* NULL: all. "method~^RTN & prompt=3" */
    const char *retry;   /* NULL, "failed" or "failed:TYPE" */
    const char
        *retries; /* NULL, or "SIGNAL:2,..": what fails so is tried again at once (choose.h) */
    bool force, dry_run;
    bool stale;          /* run again what another build measured */
    int limit;           /* > 0: no more cells than these, in their order */
    int shard, n_shards; /* 0 of 1: everything */
    int budget_s;        /* > 0: start nothing that would not be through by then */
    kvr_width_fn *width; /* what `until: ci_width 1%` is held against; NULL: repeats are all run */
    const char
        *costs;    /* a database: what its cells took weighs those of shards; NULL: arithmetic */
    int timeout_s; /* 0: what the config says */
    const char *const *overrides;              /* "axis=value", NULL-terminated; may be NULL */
    const struct kvr_preferences *preferences; /* below and above the config; NULL: none */
    FILE *progress;                            /* progress lines or bar; NULL: quiet */
    kvr_plan_line_fn *plan_line;               /* of a dry run, per method; NULL: nobody asks */
    kvr_plan_file_fn *plan_file;               /* the same, per file that is read */
    void *plan_ctx;
    int argc;
    char **argv; /* stored with the session */
};

struct kvr_run_summary {
    int cells;   /* in the plan, after filter and shard */
    int ok;      /* measured now and good */
    int failed;  /* measured now and not */
    int skipped; /* already in the database, excluded, or impossible with a reason */
    int done_before, unsupported, excluded; /* the parts of skipped */
    int failed_before; /* in the database as failed, and not asked for again; part of done_before */
    int to_score;      /* of done_before: whose frames new metrics are, or would be, computed of; */
    int scored, not_scored; /* of those, as it turned out */
    int to_run;             /* cells that were, or in a dry run would be, measured */
    int timed_once;       /* of those, timed ones that nobody repeats: no spread is known of them */
    int limited;          /* left for another time by `limit`, or by the budget */
    int enough;           /* repeats that the stop rule has left out */
    int retried;          /* attempts that failed and were repeated */
    int noisy;            /* of ok: measured, but the time is not to be trusted */
    int n_stale;          /* of done_before: by another build than this */
    int64_t memory_bytes; /* to_run at a time will hold, by history; 0: not known */
    int64_t disk_bytes;   /* to_run will write, by history; 0: not known */
    int64_t estimate_ns;  /* wall time to_run will take, by the database's history; 0: none */
    /* Of a dry run without that history, by arithmetic (estimate.h); 0: not known. */
    double flop, flop_per_s;
    int64_t predicted_bytes;                        /* of the largest cell, activations apart */
    struct kvr_run_phase encoder, network, decoder; /* network: with activations */
    int64_t frames_bytes;                           /* raw frames that will be kept; no videos */
    bool unidentified; /* of a dry run: files are not there, or large and not hashed before, or the
                          device is not here, so that it cannot be told which cells were measured
                          with them */
    char no_device[512]; /* of a dry run: why the device could not be looked at; "": it could */
    bool interrupted;
    char db_path[512], out_dir[512];
};

/* KVR_OK also when cells failed (see the summary); errors are of the sweep as a whole. */
enum kvr_status kvr_run(const struct kvr_run_options *opts, struct kvr_run_summary *out);

/* `kvreel worker`: run the one cell described on `in`, answer on `out`. Exit code. */
int kvr_worker_main(FILE *in, FILE *out);

#endif
