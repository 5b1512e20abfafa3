/* cmd_run.c - `kvreel run`: runs a sweep and resumes an interrupted one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/cli/pairs.h"
#include "harness/core/path.h"
#include "harness/plan/dump.h"
#include "harness/plan/files.h"
#include "harness/plan/yaml.h"
#include "harness/report/stats/stats.h"
#include "harness/report/table/table.h"
#include "harness/run/run.h"
#include "harness/settle/decide.h"
#include "harness/store/statement.h"

KVR_STATEMENT(failed_scores);

#define MIB (1024.0 * 1024.0)
#define GIB (1024.0 * MIB)

struct run_opts {
    const char *db, *out, *filter, *retry, *retries, *shard, *costs;
    int jobs, timeout_s, budget_s, limit;
    bool dry_run, dump_config, force, stale, json, quiet, progress;
    struct kvr_arg_list set;
};

static enum kvr_status parse_shard(const char *text, int *shard, int *n_shards)
{
    char rest;

    *shard = 0;
    *n_shards = 1;
    if (!text)
        return KVR_OK;
    if (sscanf(text, "%d/%d%c", shard, n_shards, &rest) != 2 || *n_shards < 1 || *shard < 0 ||
        *shard >= *n_shards)
        return kvr_fail(
            KVR_EINVAL,
            "run: --shard '%s': need i/N with 0 <= i < N, such as 0/4 for the first of 4 shards",
            text);
    return KVR_OK;
}

static json_t *bytes_json(int64_t n)
{
    return n ? json_integer((json_int_t)n) : json_null();
}

static json_t *positive_json(double x)
{
    return x > 0 ? json_real(x) : json_null();
}

static json_t *phase_json(const char *of, const struct kvr_run_phase *p)
{
    return json_pack("{s:i, s:f, s:o}", of, p->n, "flop", p->flop, "memory_bytes",
                     bytes_json(p->memory_bytes));
}

/* Returns the predicted FLOPs and memory of each phase as JSON. Returns NULL, which makes json_pack
 * omit the member, if no costs were predicted. */
static json_t *phases_json(const struct kvr_run_summary *s)
{
    if (!s->network.n)
        return NULL;
    return json_pack("{s:o, s:o, s:o, s:o}", "encoder", phase_json("prompts", &s->encoder),
                     "network", phase_json("cells", &s->network), "decoder",
                     phase_json("videos", &s->decoder), "frames_bytes",
                     bytes_json(s->frames_bytes));
}

/* JSON arrays printed with the summary; NULL arrays are omitted. A dry run sets `methods` and
 * `files`. A sweep with the setting `until: decided` sets `pairs`, the pairs of methods with their
 * verdicts. */
struct plan {
    json_t *methods, *files, *pairs;
};

/* Returns the summary as JSON. The result takes ownership of the arrays in `plan`. */
static json_t *summary_json(const struct kvr_run_summary *s, const struct plan *plan)
{
    const double at_least = s->flop_per_s > 0 ? s->flop / s->flop_per_s : 0;

    return json_pack(
        "{s:o*, s:o*, s:b, s:s*, s:o*, s:o, s:o, s:o, s:o, s:i, s:i, s:i, s:i, s:i, s:o, s:o, "
        "s:o*, s:i, "
        "s:i, "
        "s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:o, s:b, s:s, s:s}",
        "pairs", plan->pairs, "files", plan->files, "identified", !s->unidentified, "no_device",
        s->no_device[0] ? s->no_device : NULL, "phases", phases_json(s), "flop",
        positive_json(s->flop), "flop_per_s", positive_json(s->flop_per_s), "at_least_s",
        positive_json(at_least), "predicted_bytes", bytes_json(s->predicted_bytes), "noisy",
        s->noisy, "retried", s->retried, "enough", s->enough, "timed_once", s->timed_once,
        "limited", s->limited, "memory_bytes", bytes_json(s->memory_bytes), "disk_bytes",
        bytes_json(s->disk_bytes), "methods", plan->methods, "stale", s->n_stale, "cells", s->cells,
        "ok", s->ok, "failed", s->failed, "skipped", s->skipped, "done_before", s->done_before,
        "failed_before", s->failed_before, "unsupported", s->unsupported, "excluded", s->excluded,
        "to_run", s->to_run, "to_score", s->to_score, "scored", s->scored, "not_scored",
        s->not_scored, "estimate_s",
        s->estimate_ns ? json_real((double)s->estimate_ns * 1e-9) : json_null(), "interrupted",
        s->interrupted, "db", s->db_path, "out", s->out_dir);
}

static void print_phase(const char *name, const char *of, const char *where,
                        const struct kvr_run_phase *p)
{
    if (p->n)
        printf("  %-12s %6d %-7s %9.2f GiB %-16s %12.4g TFLOP\n", name, p->n, of,
               (double)p->memory_bytes / GIB, where, p->flop * 1e-12);
}

/* Prints the predicted costs of the cells, and a computation time: their FLOPs divided by the
 * measured FLOP/s of a linear layer. The time is a rough estimate, not a bound: other load and
 * operations other than linear layers make rollouts slower. */
static void print_estimate(const struct kvr_run_summary *s)
{
    printf("No similar cells were measured earlier. Estimate from the number of operations and the "
           "sizes of the tensors:\n");
    print_phase("text encoder", "prompts", "of device memory", &s->encoder);
    print_phase("network", "cells", "of device memory", &s->network);
    print_phase("decoder", "videos", "of device memory", &s->decoder);
    if (s->frames_bytes)
        printf("  %-12s %24.2f GiB on disk, in addition to videos\n", "raw frames",
               (double)s->frames_bytes / GIB);
    if (s->flop > 0 && s->flop_per_s > 0)
        printf("  about %.0f s of computation at %.3g TFLOP/s, the highest rate measured for a "
               "linear layer on this CPU\n",
               s->flop / s->flop_per_s, s->flop_per_s * 1e-12);
}

/* Prints where the results are, and the command that shows them. */
static void print_places(const struct kvr_run_summary *s)
{
    char videos[sizeof s->out_dir + 16];

    if (s->ok + s->done_before == 0)
        return;
    snprintf(videos, sizeof videos, "%s/by-name", s->out_dir);
    printf("results in %s%s%s; next: kvreel report --db %s\n", s->db_path,
           kvr_path_exists(videos) ? ", videos in " : "", kvr_path_exists(videos) ? videos : "",
           s->db_path);
}

static void print_text(const struct kvr_run_summary *s, bool dry_run)
{
    if (dry_run) {
        printf("%d cells: %d to run, %d done before, %d failed before, %d unsupported, %d excluded",
               s->cells, s->to_run, s->done_before - s->failed_before, s->failed_before,
               s->unsupported, s->excluded);
        if (s->limited)
            printf(", %d left for a later run by --limit or --budget", s->limited);
        if (s->enough)
            printf(", %d unnecessary (the config's stop rule `until` is met)", s->enough);
        if (s->n_stale)
            printf(
                "; another build of kvreel measured %d of the earlier cells (--stale reruns them)",
                s->n_stale);
        if (s->to_score)
            printf("; %d finished cells to score with new metrics", s->to_score);
        putchar('\n');
        if (s->no_device[0])
            printf("A run on this machine fails. kvreel cannot tell which cells are already "
                   "finished: %s\n",
                   s->no_device);
        else if (s->unidentified)
            printf("Some files are missing or not hashed yet, so kvreel cannot tell which of the "
                   "cells that use these files are already finished\n");
        if (s->estimate_ns)
            printf("Estimate from earlier cells: %.1f s, %.1f MiB of memory, %.1f MiB on disk\n",
                   (double)s->estimate_ns * 1e-9, (double)s->memory_bytes / MIB,
                   (double)s->disk_bytes / MIB);
        else if (s->to_run)
            print_estimate(s);
        return;
    }
    printf("%d cells: %d ok, %d failed, %d not run (%d done before, %d failed before, %d "
           "unsupported, %d excluded)%s",
           s->cells, s->ok, s->failed, s->skipped, s->done_before - s->failed_before,
           s->failed_before, s->unsupported, s->excluded, s->interrupted ? ", interrupted" : "");
    if (s->limited)
        printf(", %d open (left for a later run)", s->limited);
    if (s->enough)
        printf(", %d unnecessary (the config's stop rule `until` is met)", s->enough);
    if (s->scored)
        printf("; %d scored with new metrics", s->scored);
    if (s->retried)
        printf("; %d failed attempts repeated", s->retried);
    putchar('\n');
    if (s->noisy)
        printf("%d of the ok cells are NOISY: their measurement was disturbed, so statistics "
               "exclude their times; column verdict_codes of the view cells_wide gives the "
               "reasons\n",
               s->noisy);
    print_places(s);
}

static void print_line(void *ctx, const struct kvr_plan_line *l)
{
    (void)ctx;
    printf("%-50s %4d cells: %d to run, %d done, %d failed, %d unsupported, %d excluded%s%s\n",
           l->method, l->cells, l->to_run, l->done, l->failed, l->unsupported, l->excluded,
           l->reason[0] ? ": " : "", l->reason);
    if (l->warning[0])
        printf("  warning: %s\n", l->warning);
}

/* "about 5.29 GiB" */
static const char *size_text(const struct kvr_plan_file *f, char *buf, size_t n)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB" };
    double x = (double)f->bytes;
    int u = 0;

    for (; x >= 1024 && u < 3; u++)
        x /= 1024;
    snprintf(buf, n, "%s%.*f %s", f->there ? "" : "about ", u == 3 ? 2 : u > 0, x, units[u]);
    return f->bytes || f->there ? buf : "size unknown";
}

static void print_file(void *ctx, const struct kvr_plan_file *f)
{
    const char *without = f->there ? "" : f->without;
    char size[32];

    (void)ctx;
    printf("%-12s %15s  %-7s  %s%s%s\n", f->what, size_text(f, size, sizeof size),
           f->there ? "there" : "MISSING", f->path, without[0] ? "; without it " : "", without);
}

static void keep_file(void *ctx, const struct kvr_plan_file *f)
{
    const struct plan *plan = ctx;

    json_array_append_new(plan->files, json_pack("{s:s, s:s, s:o, s:b, s:s}", "what", f->what,
                                                 "path", f->path, "bytes", bytes_json(f->bytes),
                                                 "there", f->there, "without", f->without));
}

static void keep_line(void *ctx, const struct kvr_plan_line *l)
{
    const struct plan *plan = ctx;

    json_array_append_new(plan->methods,
                          json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:s}", "method",
                                    l->method, "cells", l->cells, "to_run", l->to_run, "done",
                                    l->done, "failed", l->failed, "unsupported", l->unsupported,
                                    "excluded", l->excluded, "left_out", l->left_out, "reason",
                                    l->reason, "warning", l->warning));
}

static int verdict(const struct kvr_run_summary *s, bool dry_run)
{
    if (s->interrupted)
        return KVR_EXIT_INTERRUPTED;
    if (dry_run)
        return KVR_EXIT_OK;
    if (s->failed + s->failed_before + s->not_scored > 0)
        return KVR_EXIT_FAILED_CELLS;
    /* Cells that an earlier run finished count as results; a run without any result fails. */
    if (s->ok + s->done_before == 0)
        return KVR_EXIT_NOTHING;
    return KVR_EXIT_OK;
}

static enum kvr_status dump(const struct kvr_config_source *sweep)
{
    struct kvr_config c;
    enum kvr_status st;

    KVR_TRY(kvr_config_read_from(&c, sweep));
    st = kvr_config_dump(&c, stdout);
    kvr_config_free(&c);
    return st == KVR_OK ? kvr_preferences_dump(sweep->preferences, stdout) : st;
}

/* Reads preferences from files, then from the environment, then from the command line; later values
 * override earlier ones. */
static enum kvr_status read_preferences(struct kvr_preferences *s, const struct run_opts *o)
{
    char number[32];

    KVR_TRY(kvr_preferences_read(s));
    if (o->db)
        KVR_TRY(kvr_preferences_option(s, KVR_PREF_DB, o->db, "--db"));
    if (o->out)
        KVR_TRY(kvr_preferences_option(s, KVR_PREF_OUT, o->out, "--out"));
    snprintf(number, sizeof number, "%d", o->timeout_s);
    if (o->timeout_s)
        KVR_TRY(kvr_preferences_option(s, KVR_PREF_TIMEOUT_S, number, "--timeout"));
    snprintf(number, sizeof number, "%d", o->jobs);
    if (o->jobs)
        KVR_TRY(kvr_preferences_option(s, KVR_PREF_JOBS, number, "--jobs"));
    if (o->quiet && o->progress)
        return kvr_fail(KVR_EINVAL, "run: --quiet and --progress cannot be combined");
    if (o->quiet)
        return kvr_preferences_option(s, KVR_PREF_QUIET, "true", "--quiet");
    return o->progress ? kvr_preferences_option(s, KVR_PREF_QUIET, "false", "--progress") : KVR_OK;
}

/* Reports the scores that external metric programs failed to compute; their cells still count as
 * measured. */
static void say_failed_scores(const struct kvr_run_summary *s)
{
    struct kvr_table *t;

    if (!kvr_path_exists(s->db_path) ||
        kvr_table_query(&t, s->db_path, kvr_statement_failed_scores, NULL) != KVR_OK)
        return;
    for (int r = 0; r < t->n_rows; r++)
        fprintf(stderr,
                "kvreel: metric %s has no value in %.0f of %.0f cells, because its program failed; "
                "one of the errors: %s\n",
                kvr_table_text(t, r, 0), kvr_table_number(t, r, 1), kvr_table_number(t, r, 2),
                kvr_table_text(t, r, 3));
    kvr_table_close(&t);
}

static int report(const struct run_opts *o, const struct kvr_run_summary *s,
                  const struct plan *plan)
{
    int code = verdict(s, o->dry_run);

    if (o->json)
        code = kvr_cli_json(summary_json(s, plan), code);
    else
        print_text(s, o->dry_run);
    if (!o->json && plan->pairs) {
        kvr_cli_print_pairs(plan->pairs);
        json_decref(plan->pairs);
    }
    if (s->timed_once)
        fprintf(stderr,
                "kvreel: timing: %d cells have one timed rollout each, so their times have no "
                "confidence interval; use "
                "`repeats: 6` (or --set repeats=6), with `until: ci_width 2%%` to stop early\n",
                s->timed_once);
    if (code == KVR_EXIT_INTERRUPTED)
        fprintf(stderr, "kvreel: interrupted; the same command resumes the sweep\n");
    if (code == KVR_EXIT_NOTHING)
        fprintf(stderr,
                "kvreel: nothing was measured: of %d cells, %d are unsupported, %d excluded, and "
                "%d left for a later run\n",
                s->cells, s->unsupported, s->excluded, s->limited);
    if (o->filter && s->cells == 0)
        fprintf(stderr,
                "kvreel: no cell of the sweep matches --filter '%s'; use --dry-run without "
                "--filter to list the methods\n",
                o->filter);
    if (s->not_scored)
        fprintf(stderr,
                "kvreel: the new metrics of %d finished cells could not be computed; `kvreel score "
                "METRIC` prints the reason, and `kvreel run --force` reruns the cells\n",
                s->not_scored);
    if (!o->dry_run)
        say_failed_scores(s);
    if (s->failed + s->failed_before > 0 && code == KVR_EXIT_FAILED_CELLS)
        fprintf(stderr,
                "kvreel: %d cells failed, %d of them in an earlier run; see `kvreel query --db %s "
                "'SELECT * FROM failures'`, run again with --retry failed\n",
                s->failed + s->failed_before, s->failed_before, s->db_path);
    return code;
}

static double width(const double *x, int n)
{
    struct kvr_interval ci;
    const double middle = kvr_median(x, n);

    if (kvr_median_interval(x, n, 0.95, &ci) != KVR_OK || ci.min_max)
        return INFINITY;
    return (ci.hi - ci.lo) / middle;
}

/* Runs the sweep. With the setting `until: decided`, runs prompts until the comparison of each pair
 * of methods has a verdict. */
static enum kvr_status run_or_decide(const struct kvr_run_options *r, struct kvr_run_summary *s,
                                     struct plan *plan)
{
    struct kvr_decide_summary decided;

    KVR_TRY(kvr_run(r, s));
    if (!s->until_decided)
        return KVR_OK;
    KVR_TRY(kvr_decide(r, &decided));
    *s = decided.run;
    KVR_TRY(kvr_decide_pairs(decided.ledger, s->db_path, decided.most, &plan->pairs));
    fprintf(stderr,
            "kvreel: the comparison of %d of %d pairs of methods has a verdict; `kvreel claims %s "
            "--db %s --most %d` prints the table\n",
            decided.pairs - decided.open, decided.pairs, decided.ledger, s->db_path, decided.most);
    return KVR_OK;
}

static int run_with(const struct kvr_call *call, const struct kvr_preferences *preferences)
{
    const struct run_opts *o = call->opts;
    struct kvr_run_summary s = { 0 };
    const bool kept = o->json && o->dry_run;
    struct plan plan = { kept ? json_array() : NULL, kept ? json_array() : NULL, NULL };
    char *text = NULL;
    enum kvr_status st;
    struct kvr_run_options r = {
        .sweep = { .path = call->words[0],
                   .preferences = preferences,
                   .overrides = o->set.n ? o->set.v : NULL },
        .jobs = kvr_preferences_number(preferences, KVR_PREF_JOBS, 0),
        .filter = o->filter,
        .retry = o->retry,
        .retries = o->retries,
        .force = o->force,
        .stale = o->stale,
        .limit = o->limit,
        .costs = o->costs,
        .budget_s = o->budget_s,
        .width = width,
        .dry_run = o->dry_run,
        .progress = kvr_preferences_number(preferences, KVR_PREF_QUIET, 0) ? NULL : stderr,
        .plan_line = o->json ? keep_line : print_line,
        .plan_file = o->json ? keep_file : print_file,
        .plan_ctx = &plan,
        .argc = call->argc,
        .argv = call->argv,
    };

    st = parse_shard(o->shard, &r.shard, &r.n_shards);
    if (st == KVR_OK)
        st = kvr_yaml_load(&text, &r.sweep.n_text, r.sweep.path);
    r.sweep.text = text;
    if (st == KVR_OK)
        st = o->dump_config ? dump(&r.sweep) : run_or_decide(&r, &s, &plan);
    free(text);
    if (st == KVR_OK && !o->dump_config)
        return report(o, &s, &plan);
    json_decref(plan.methods);
    json_decref(plan.files);
    return o->dump_config ? kvr_cli_wrote(st, KVR_EXIT_OK) : kvr_cli_fail(st);
}

static int run(const struct kvr_call *call)
{
    struct kvr_preferences preferences;
    enum kvr_status st = read_preferences(&preferences, call->opts);
    int code = st == KVR_OK ? run_with(call, &preferences) : kvr_cli_fail(st);

    kvr_preferences_free(&preferences);
    return code;
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(struct run_opts, db, "db", 0, "FILE", NULL,
                 "database of results; the default is `db` of the config, else kvreel.db"),
    KVR_ARG_TEXT(
        struct run_opts, out, "out", 'o', "DIR", NULL,
        "output folder for frames and videos; the default is `out` of the config, else out"),
    KVR_ARG_INT(
        struct run_opts, jobs, "jobs", 'j', "N", "0", 0, 1024,
        "number of cells that run in parallel; 0 means `jobs` of the configuration files "
        "named below, else one cell per core, which is faster than several threads per cell"),
    KVR_ARG_TEXT(struct run_opts, filter, "filter", 0, "EXPR", NULL,
                 "run only cells that match all terms of this filter, such as 'method~^RTN & "
                 "seed=1'; operators are = != < <= > >= and, for regular expressions, ~ !~"),
    KVR_ARG_FLAG(struct run_opts, dry_run, "dry-run", 'n',
                 "show the plan without measuring anything"),
    KVR_ARG_FLAG(struct run_opts, dump_config, "dump-config", 0,
                 "print the effective config and where each value comes from"),
    KVR_ARG_TEXT(
        struct run_opts, retry, "retry", 0, "WHAT", NULL,
        "run failed cells again: `failed` means all, failed:TYPE,... those with these outcomes: "
        "TIMEOUT, OOM_HOST, OOM_DEVICE, SIGNAL, NAN, DIVERGED, INVALID or ERROR"),
    KVR_ARG_TEXT(struct run_opts, retries, "retries", 0, "TYPE:N,...", NULL,
                 "retry a cell that fails with outcome TYPE (as for --retry) up to N times within "
                 "this run, as in OOM_HOST:1"),
    KVR_ARG_FLAG(struct run_opts, force, "force", 0,
                 "run all cells again, including finished ones"),
    KVR_ARG_FLAG(struct run_opts, stale, "stale", 0,
                 "also rerun the finished cells that another build of kvreel measured"),
    KVR_ARG_INT(struct run_opts, limit, "limit", 0, "N", "0", 0, 1000000,
                "run at most N cells; 0 means all"),
    KVR_ARG_TEXT(struct run_opts, shard, "shard", 0, "i/N", NULL,
                 "run shard i of N shards of equal cost, with i from 0 to N - 1"),
    KVR_ARG_TEXT(
        struct run_opts, costs, "costs", 0, "FILE", NULL,
        "database with measured times of cells, which are used to give all shards equal run "
        "time; without it, all shards get equal FLOPs"),
    KVR_ARG_TIME(
        struct run_opts, budget_s, "budget", 0, "TIME", NULL, 1, 1e7,
        "time limit of the whole run, in seconds or with a unit as in 90s, 30m or 2h; cells "
        "that reduce the standard errors of the methods' means most for their cost run first"),
    KVR_ARG_TIME(
        struct run_opts, timeout_s, "timeout", 0, "TIME", "0", 0, 604800,
        "time limit per cell, in seconds or with a unit as in 90s, 30m or 2h (at most 168h); "
        "0 means timeout_s of the config"),
    KVR_ARG_LIST(struct run_opts, set, "set", 's', "AXIS=VALUE",
                 "replace the config's values of setting AXIS, as in frames=21; may be repeated"),
    KVR_ARG_FLAG(struct run_opts, json, "json", 0, "print the summary of the run as JSON"),
    KVR_ARG_FLAG(struct run_opts, quiet, "quiet", 'q', "print no progress on stderr"),
    KVR_ARG_FLAG(struct run_opts, progress, "progress", 0,
                 "print progress on stderr, even if a configuration file (named below) sets quiet"),
    { 0 },
};

const struct kvr_command kvr_command_run = {
    .name = "run",
    .summary = "run a sweep; cells that finished earlier are not run again",
    .usage = "CONFIG.yaml [options]",
    .examples = "  kvreel run configs/demo.yaml --dry-run         # what would be done\n"
                "  kvreel run configs/demo.yaml --db out/demo.db  # run or resume it\n"
                "  kvreel run configs/demo.yaml --filter 'method=RTN_INT4' --jobs 2\n",
    .details = "The first Ctrl-C lets running cells finish, and the second Ctrl-C stops them. An\n"
               "interrupted run has exit code 75, and the same command resumes the sweep.\n"
               "db, out, timeout_s, memory_mib, jobs and quiet may also be set in\n"
               "/etc/kvreel/config.yaml, ~/.config/kvreel/config.yaml, kvreel.yaml and the\n"
               "environment (KVREEL_JOBS, ...). --dump-config shows where each value comes from.\n",
    .args = args,
    .opts_size = sizeof(struct run_opts),
    .min_words = 1,
    .max_words = 1,
    .stops = true,
    .run = run,
};
