/* runner.c - runs the jobs of a sweep with up to `jobs` workers, and stores the results.
 *
 * One loop polls a signal descriptor and every worker's pipes, so there are no signal handlers and
 * no global state. A cell that is compared with a baseline starts once the baseline's frames exist.
 */
#include "harness/run/runner_impl.h"

#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/clock.h"
#include "harness/plan/files.h"
#include "harness/run/choose.h"
#include "harness/run/disturbance.h"
#include "harness/run/encode.h"
#include "harness/run/estimate.h"
#include "harness/run/gpus.h"
#include "harness/run/order.h"
#include "harness/run/plan_by_method.h"
#include "harness/run/priority.h"
#include "harness/run/rescore.h"
#include "harness/run/run.h"
#include "harness/store/lock.h"
#include "harness/store/plan.h"

/* Whether a signal that requests a stop is pending. The signals are blocked, so they stay pending
 * until the loop reads them. */
static bool asked_to_stop(void)
{
    sigset_t set;

    return sigpending(&set) == 0 &&
           (sigismember(&set, SIGINT) || sigismember(&set, SIGTERM) || sigismember(&set, SIGUSR1));
}

static enum kvr_status check_stop_request(void)
{
    return asked_to_stop()
               ? kvr_fail(KVR_EINTERRUPTED, "run: interrupted before the first cell was started")
               : KVR_OK;
}

/* Checks that the prompt lists of all suites exist; a dry run does not need them. */
static enum kvr_status lists_are_there(const struct runner *r)
{
    for (int i = 0; i < r->config.n_suites && !r->opts->dry_run; i++)
        if (r->config.suite[i].absent)
            return kvr_fail(KVR_ENOTFOUND,
                            "run: suite '%s': the file of its prompts, %s, does not exist",
                            r->config.suite[i].name, r->config.suite[i].list);
    return KVR_OK;
}

static void say_plan(struct runner *r)
{
    const struct kvr_run_summary *s = r->summary;
    FILE *f = r->opts->progress;

    if (!f)
        return;
    fprintf(
        f,
        "%s: %d cells: %d to run, %d done before, %d unsupported, %d excluded; %d cells at a time",
        r->config.name, s->cells, s->to_run, s->done_before, s->unsupported, s->excluded,
        r->n_workers);
    if (s->to_score)
        fprintf(f, "; %d done cells to score with new metrics", s->to_score);
    if (s->estimate_ns)
        fprintf(f, "; about %.0f s", (double)s->estimate_ns / 1e9);
    fprintf(f, "\n");
}

static void say_warning(void *ctx, const struct kvr_plan_line *line)
{
    if (line->warning[0] && line->cells > line->excluded + line->unsupported)
        fprintf(ctx, "warning: %s: %s\n", line->method, line->warning);
}

struct baseline_list {
    FILE *f;
    int n;
};

static void say_baseline(void *ctx, const struct kvr_plan_line *line)
{
    struct baseline_list *l = ctx;

    if (line->default_baseline && line->to_run)
        fprintf(l->f, "%s%s",
                l->n++ ? ", " : "note: default baselines (`baselines: none` omits them): ",
                line->method);
}

/* Prints one line that names the default baselines to run. */
static enum kvr_status say_baselines(const struct runner *r)
{
    struct baseline_list l = { r->opts->progress, 0 };

    if (!l.f)
        return KVR_OK;
    KVR_TRY(kvr_plan_lines(r->jobs, &r->sweep, say_baseline, &l));
    if (l.n)
        fputc('\n', l.f);
    return KVR_OK;
}

/* Expands the config to cells and selects the requested ones. Opens no file for writing. */
static enum kvr_status plan_cells(struct runner *r)
{
    const struct kvr_run_options *o = r->opts;

    KVR_TRY(kvr_config_read_from(&r->config, &o->sweep));
    r->summary->until_decided = r->config.decide[0] && !o->most_prompts && !o->dry_run;
    if (r->summary->until_decided)
        return KVR_OK;
    KVR_TRY(kvr_config_load_plugins(&r->config));
    KVR_TRY(lists_are_there(r));
    r->config.stopped = asked_to_stop;
    KVR_TRY(kvr_runner_set_paths(r));
    KVR_TRY(kvr_runner_identify_device(r));
    KVR_TRY(kvr_runner_make_sweep(r));
    KVR_TRY(kvr_runner_identify_plan(r));
    if (o->costs)
        KVR_TRY(kvr_runner_cost_by_history(r));
    return kvr_sweep_select(&r->sweep, o->filter, o->shard, o->n_shards < 1 ? 1 : o->n_shards);
}

/* Finds finished cells in the database, orders the others and estimates their time. */
static enum kvr_status choose_jobs(struct runner *r)
{
    const struct kvr_run_options *o = r->opts;

    KVR_TRY(kvr_runner_open_store(r));
    KVR_TRY(kvr_session_gather(&r->session, o->argc, o->argv, o->sweep.path,
                               kvr_yaml_text_of_file(r->config.doc), 0));
    KVR_TRY(kvr_session_build(&r->session, r->build));
    KVR_TRY(kvr_retries_parse(&r->retries, o->retries));
    KVR_TRY(
        kvr_choose(&r->jobs, r->store, &r->sweep, o, r->build, r->summary->out_dir, r->summary));
    KVR_TRY(kvr_order(&r->order, &r->sweep, (uint64_t)r->config.set.order_seed));
    KVR_TRY(check_stop_request());
    if (o->budget_s > 0)
        KVR_TRY(kvr_most_telling_first(r->order, &r->sweep, r->jobs));
    if (r->driver[0])
        r->session.driver = r->driver;
    KVR_TRY(kvr_runner_record_gpus(r));
    KVR_TRY(kvr_session_identify(&r->session));
    KVR_TRY(kvr_runner_find_enough(r));
    kvr_runner_apply_most_prompts(r);
    kvr_runner_apply_limit(r);
    kvr_runner_count_timed_once(r);
    r->timeout_s = o->timeout_s > 0 ? o->timeout_s : r->config.set.timeout_s;
    r->n_workers = kvr_runner_count_workers(r);
    KVR_TRY(kvr_runner_estimate(r));
    return o->dry_run && !r->summary->estimate_ns ? kvr_estimate(&r->sweep, r->jobs, r->summary)
                                                  : KVR_OK;
}

static enum kvr_status show_plan(struct runner *r)
{
    const struct kvr_run_options *o = r->opts;

    say_plan(r);
    KVR_TRY(say_baselines(r));
    if (o->dry_run && o->plan_file)
        KVR_TRY(kvr_plan_files(&r->config, o->plan_file, o->plan_ctx));
    if (o->dry_run && o->plan_line)
        return kvr_plan_lines(r->jobs, &r->sweep, o->plan_line, o->plan_ctx);
    return o->progress ? kvr_plan_lines(r->jobs, &r->sweep, say_warning, o->progress) : KVR_OK;
}

/* Stores the session (this run) and the plan in the database, then runs the jobs. */
static enum kvr_status measure(struct runner *r)
{
    enum kvr_status st;

    KVR_TRY(kvr_runner_can_make_videos(r));
    r->session.jobs = r->n_workers;
    r->session.order_seed = r->config.set.order_seed;
    KVR_TRY(kvr_machine_open(&r->machine, r->session.n_cpus, r->n_workers, r->gpus.n > 0));
    KVR_TRY(kvr_runner_record_gpu_states(r));
    KVR_TRY(kvr_runner_record_session(r));
    KVR_TRY(kvr_store_none_running(r->store));
    KVR_TRY(kvr_store_session(r->store, &r->session));
    KVR_TRY(kvr_runner_store_plan(r));
    st = kvr_encode_waiting(&r->sweep, r->jobs, &r->gpus, r->summary->out_dir, r->opts->progress,
                            &r->packs);
    if (st == KVR_OK)
        st = kvr_runner_loop(r);
    KVR_TRY(kvr_runner_end_session(r, st));
    return kvr_store_in_place(r->store);
}

static enum kvr_status run(struct runner *r)
{
    KVR_TRY(kvr_runner_catch_signals(r));
    KVR_TRY(plan_cells(r));
    if (r->summary->until_decided)
        return KVR_OK;
    KVR_TRY(check_stop_request());
    KVR_TRY(choose_jobs(r));
    KVR_TRY(show_plan(r));
    if (r->opts->dry_run || r->summary->cells == 0)
        return KVR_OK;
    /* A plan with nothing to run is stored, too: `status` lists every requested sweep. */
    return measure(r);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Computes the metrics that finished cells lack from their stored frames. */
static enum kvr_status rescore(struct runner *r, const char *const *keys, int n)
{
    json_t *metrics = kvr_config_metrics_json(&r->config);
    json_t *commands = kvr_config_commands_json(r->config.command, r->config.n_commands);
    struct kvr_rescore_summary s;
    enum kvr_status st =
        metrics && commands
            ? kvr_rescore(&(struct kvr_rescore_options){ .db_path = r->summary->db_path,
                                                         .out_dir = r->summary->out_dir,
                                                         .metrics = metrics,
                                                         .commands = commands,
                                                         .only = keys,
                                                         .n_only = n,
                                                         .stopped = asked_to_stop,
                                                         .progress = r->opts->progress },
                          &s)
            : kvr_fail(KVR_ENOMEM, "run: out of memory");

    json_decref(metrics);
    json_decref(commands);
    KVR_TRY(st);
    r->summary->scored = s.scored;
    r->summary->not_scored = s.failed;
    r->summary->interrupted = r->summary->interrupted || s.stopped;
    return KVR_OK;
}

/* Computes the metrics that finished cells lack. It runs after all cells and first closes the
 * database, because kvr_rescore() opens the database for writing, too. */
static enum kvr_status score_new_metrics(struct runner *r)
{
    const char **keys;
    enum kvr_status st;
    int n = 0;

    if (r->summary->to_score == 0 || r->summary->interrupted || r->opts->dry_run)
        return KVR_OK;
    kvr_store_close(&r->store);
    keys = calloc((size_t)r->summary->to_score, sizeof *keys);
    for (int i = 0; keys && i < r->sweep.n_cells; i++)
        if (r->jobs[i].to_score)
            keys[n++] = r->sweep.cell[i].key;
    if (keys)
        qsort(keys, (size_t)n, sizeof *keys, by_name);
    st = keys ? rescore(r, keys, n) : kvr_fail(KVR_ENOMEM, "run: out of memory");
    free(keys);
    return st;
}

enum kvr_status kvr_run(const struct kvr_run_options *opts, struct kvr_run_summary *out)
{
    struct runner r = {
        .opts = opts, .summary = out, .lock = -1, .signal_fd = -1, .t0_ns = kvr_now_ns()
    };
    enum kvr_status st;

    memset(out, 0, sizeof *out);
    st = run(&r);
    if (st == KVR_OK)
        st = score_new_metrics(&r);
    kvr_runner_release_signals(&r);
    kvr_gpus_close(&r.gpus);
    kvr_machine_close(&r.machine);
    kvr_store_close(&r.store);
    kvr_store_unlock(&r.lock);
    kvr_session_free(&r.session);
    free(r.jobs);
    free(r.order);
    free(r.stamps);
    kvr_encoded_free(r.packs, r.config.n_models);
    kvr_sweep_free(&r.sweep);
    kvr_config_free(&r.config);
    return st;
}
