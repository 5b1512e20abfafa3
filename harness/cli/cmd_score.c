/* cmd_score.c - `kvreel score`: computes further metrics for measured cells. */
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/core/opts.h"
#include "harness/plan/commands.h"
#include "harness/run/rescore.h"
#include "metrics/metric.h"

struct score_opts {
    const char *db, *out, *command, *name;
    int timeout_s;
    bool no_sandbox, force, json;
};

enum { MAX_METRICS = 64 };

static enum kvr_status find(const char *name, const struct kvr_metric **out)
{
    const char *names[MAX_METRICS + 1] = { 0 };
    const char *near;

    *out = kvr_metric_find(name);
    if (*out)
        return KVR_OK;
    for (int i = 0; i < MAX_METRICS && kvr_metrics[i]; i++)
        names[i] = kvr_metrics[i]->name;
    near = kvr_nearest(name, names);
    if (!near)
        return kvr_fail(KVR_EINVAL,
                        "score: unknown metric '%s'; `kvreel list metrics` lists metrics", name);
    return kvr_fail(KVR_EINVAL, "score: unknown metric '%s'; did you mean '%s'?", name, near);
}

static enum kvr_status choose(const struct kvr_call *call, json_t *metrics, json_t **commands)
{
    const struct score_opts *o = call->opts;

    for (int i = 0; i < call->n_words; i++) {
        const struct kvr_metric *m;

        KVR_TRY(find(call->words[i], &m));
        json_object_set_new(metrics, m->name, json_integer(m->version));
    }
    if (o->command && !o->name)
        return kvr_fail(
            KVR_EINVAL,
            "score: --command '%s' needs --name NAME, the name of the metric in the database",
            o->command);
    if (o->name && !o->command)
        return kvr_fail(
            KVR_EINVAL,
            "score: --name %s needs --command TEXT, the command line of the metric program",
            o->name);
    if (o->command) {
        const struct kvr_config_command c = { .name = o->name,
                                              .command = o->command,
                                              .unit = "unknown",
                                              .timeout_s = o->timeout_s,
                                              .sandbox = o->no_sandbox ? "none" : NULL };

        if (kvr_metric_find(o->name) || strpbrk(o->name, ". \n"))
            return kvr_fail(KVR_EINVAL,
                            "score: --name '%s': need one word without dots that is not the name "
                            "of a built-in metric (`kvreel list metrics` lists them)",
                            o->name);
        *commands = kvr_config_commands_json(&c, 1);
    }
    if (call->n_words == 0 && !o->command)
        return kvr_fail(
            KVR_EINVAL,
            "score: needs a metric's name or --command; `kvreel list metrics` lists metrics");
    return KVR_OK;
}

static int run(const struct kvr_call *call)
{
    const struct score_opts *o = call->opts;
    json_t *metrics = json_object(), *commands = NULL;
    struct kvr_rescore_summary s = { 0 };
    enum kvr_status st = choose(call, metrics, &commands);
    int code;

    if (st == KVR_OK)
        st = kvr_rescore(&(struct kvr_rescore_options){ .db_path = o->db,
                                                        .out_dir = o->out,
                                                        .metrics = metrics,
                                                        .commands = commands,
                                                        .force = o->force,
                                                        .progress = stderr },
                         &s);
    json_decref(metrics);
    json_decref(commands);
    if (st != KVR_OK)
        return kvr_cli_fail(st);
    code = s.failed ? KVR_EXIT_FAILED_CELLS : s.cells ? KVR_EXIT_OK : KVR_EXIT_NOTHING;
    if (o->json)
        return kvr_cli_json(json_pack("{s:i, s:i, s:i, s:i}", "cells", s.cells, "scored", s.scored,
                                      "had", s.had, "failed", s.failed),
                            code);
    printf("%d cells: %d scored, %d already had all metrics, %d failed\n", s.cells, s.scored, s.had,
           s.failed);
    return code;
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(struct score_opts, db, "db", 0, "FILE", "kvreel.db",
                 "database of the sweep whose finished cells are scored"),
    KVR_ARG_TEXT(struct score_opts, out, "out", 'o', "DIR", "out",
                 "output folder of the sweep, which contains the frames of the cells"),
    KVR_ARG_TEXT(struct score_opts, command, "command", 'c', "TEXT", NULL,
                 "command line of a metric program; {video} stands for the path of the cell's MP4, "
                 "{frames} for its raw frames and {reference} for the raw frames of the baseline"),
    KVR_ARG_TEXT(struct score_opts, name, "name", 0, "NAME", NULL,
                 "for --command: name of the metric in the database, one word without dots"),
    KVR_ARG_TIME(
        struct score_opts, timeout_s, "timeout", 0, "TIME", "60", 1, 86400,
        "for --command: time limit per cell, in seconds or with a unit as in 30m (at most 24h)"),
    KVR_ARG_FLAG(struct score_opts, no_sandbox, "no-sandbox", 0,
                 "for --command: allow the metric program to write files and use the network"),
    KVR_ARG_FLAG(struct score_opts, force, "force", 0, "recompute existing values"),
    KVR_ARG_FLAG(struct score_opts, json, "json", 0, "print JSON"),
    { 0 },
};

const struct kvr_command kvr_command_score = {
    .name = "score",
    .summary = "compute more metrics from the stored frames of finished cells",
    .usage = "METRIC... [options]",
    .examples =
        "  kvreel score ms_ssim lpips --db out/demo.db --out out/demo\n"
        "  kvreel score --command 'python3 score.py {video}' --name mine --db d.db -o out\n",
    .details = "`kvreel score` never generates a video again. If frames of a cell are missing or\n"
               "modified, only that cell fails (exit code 3).\n",
    .args = args,
    .opts_size = sizeof(struct score_opts),
    .min_words = 0,
    .max_words = MAX_METRICS,
    .run = run,
};
