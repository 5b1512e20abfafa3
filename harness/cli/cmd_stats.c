/* cmd_stats.c - `kvreel stats`: prints paired differences, medians and coverage. */
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/report/report.h"
#include "harness/report/stat_tables.h"
#include "harness/store/store.h"

struct stats_opts {
    const char *db, *before, *metric, *against, *where, *unit, *better, *format;
    double level;
    bool across, json;
};

static enum kvr_status parse_unit(const char *text, enum kvr_nesting *unit)
{
    *unit = strcmp(text, "seed") == 0 ? KVR_PER_SEED : KVR_PER_PROMPT;
    if (*unit == KVR_PER_PROMPT && strcmp(text, "prompt") != 0)
        return kvr_fail(KVR_EINVAL, "stats: --unit '%s': need prompt or seed", text);
    return KVR_OK;
}

static enum kvr_status parse_better(const char *text, int *sign)
{
    *sign = !text ? 0 : strcmp(text, "higher") == 0 ? 1 : -1;
    if (*sign < 0 && strcmp(text, "lower") != 0)
        return kvr_fail(KVR_EINVAL, "stats: --better '%s': need higher or lower", text);
    return KVR_OK;
}

static int run(const struct kvr_call *call)
{
    const struct stats_opts *o = call->opts;
    struct kvr_stat_options s = { .db = o->db,
                                  .metric = o->metric,
                                  .before = o->before,
                                  .against = o->against,
                                  .where = o->where,
                                  .level = o->level,
                                  .across_machines = o->across };
    const char *what = call->words[0];
    enum kvr_table_format format;
    struct kvr_table *t = NULL;
    enum kvr_status st = kvr_table_format_parse(o->json ? "json" : o->format, &format);
    int code = KVR_EXIT_OK;

    if (st == KVR_OK)
        st = parse_unit(o->unit, &s.unit);
    if (st == KVR_OK)
        st = parse_better(o->better, &s.better);
    if (st == KVR_OK && o->where)
        st = kvr_store_condition(o->db, "cells_wide", o->where);
    if (st == KVR_OK && strcmp(what, "paired") == 0)
        st = kvr_stat_paired(&t, &s);
    else if (st == KVR_OK && strcmp(what, "timing") == 0)
        st = kvr_stat_timing(&t, &s);
    else if (st == KVR_OK && strcmp(what, "coverage") == 0)
        st = kvr_stat_coverage(&t, &s);
    else if (st == KVR_OK && strcmp(what, "windows") == 0)
        st = kvr_stat_windows(&t, &s);
    else if (st == KVR_OK && strcmp(what, "growth") == 0)
        st = kvr_stat_growth(&t, &s);
    else if (st == KVR_OK && strcmp(what, "distribution") == 0)
        st = kvr_stat_distribution(&t, &s);
    else if (st == KVR_OK && strcmp(what, "sensitivity") == 0)
        st = kvr_stat_sensitivity(&t, &s);
    else if (st == KVR_OK && strcmp(what, "runs") == 0)
        st = kvr_stat_runs(&t, &s);
    else if (st == KVR_OK)
        st = kvr_fail(KVR_EINVAL,
                      "stats: unknown table '%s', need paired, windows, growth, distribution, "
                      "sensitivity, timing, coverage or runs",
                      what);
    if (st == KVR_OK)
        st = kvr_report_note_plan(t, o->db);
    if (st != KVR_OK) {
        kvr_table_close(&t);
        return kvr_cli_fail(st);
    }
    if (t->n_rows == 0) {
        code = KVR_EXIT_NOTHING;
        fprintf(stderr,
                "kvreel: stats: no rows: database %s has no cells to compare for table '%s', "
                "metric %s%s%s\n",
                o->db, what, o->metric, o->where ? ", --where " : "", o->where ? o->where : "");
    }
    st = kvr_table_write(t, format, stdout);
    kvr_table_close(&t);
    return kvr_cli_wrote(st, code);
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(struct stats_opts, db, "db", 0, "FILE", "kvreel.db", "database of results"),
    KVR_ARG_TEXT(struct stats_opts, before, "before", 0, "FILE", NULL,
                 "for runs: earlier database, which is compared with --db"),
    KVR_ARG_TEXT(struct stats_opts, metric, "metric", 'm', "NAME", "ssim",
                 "metric to compare; paired also accepts runtime_s, peak_bytes, resident_bytes and "
                 "compression"),
    KVR_ARG_TEXT(struct stats_opts, against, "against", 0, "METHOD", "BF16",
                 "for paired: label of the method that all other methods are compared with"),
    KVR_ARG_TEXT(struct stats_opts, where, "where", 0, "SQL", NULL,
                 "SQL condition on the view cells_wide that selects cells, such as 'frames = 42'"),
    KVR_ARG_REAL(
        struct stats_opts, level, "level", 0, "P", "0.95", 0.5, 0.999,
        "confidence level of the intervals (0.5..0.999); tests have significance level 1 - P"),
    KVR_ARG_TEXT(struct stats_opts, unit, "unit", 0, "UNIT", "prompt",
                 "for paired: independent unit of the test: prompt, or seed within one prompt"),
    KVR_ARG_TEXT(
        struct stats_opts, better, "better", 0, "WAY", NULL,
        "for paired, if another program computed the metric: whether higher or lower values "
        "are better; the default is the direction stored in the database"),
    KVR_ARG_FLAG(struct stats_opts, across, "across-machines", 0,
                 "allow comparisons between measurements of different machines"),
    KVR_ARG_TEXT(struct stats_opts, format, "format", 'f', "FORMAT", "txt",
                 "output format: txt, md, csv, json, jsonl or latex"),
    KVR_ARG_FLAG(struct stats_opts, json, "json", 0, "print JSON, the same as --format json"),
    { 0 },
};

const struct kvr_command kvr_command_stats = {
    .name = "stats",
    .summary =
        "print paired differences, metrics per part of the video, error growth, timing or coverage",
    .usage = "paired|windows|growth|distribution|sensitivity|timing|coverage|runs [options]",
    .examples =
        "  kvreel stats paired --metric ssim --against RTN_INT4\n"
        "  kvreel stats windows --metric psnr      # per chunk, next to that of BF16 reruns\n"
        "  kvreel stats growth --metric psnr       # error of one chunk, accumulated error\n"
        "  kvreel stats timing --db out/timing.db --json\n"
        "  kvreel stats runs --db now.db --before then.db    # compares two commits or machines\n"
        "  kvreel stats coverage --where \"suite = 'moviegen-nano'\"\n",
    .details =
        "paired compares each method with --against on the same prompts. windows has the metric\n"
        "per chunk. growth compares the error of chunks generated from the BF16 rollout's past\n"
        "with the error that accumulates. distribution has metrics that need no BF16 frames.\n"
        "sensitivity repeats comparisons with other seeds, prompts and settings. timing has\n"
        "median times, and coverage the number of finished cells. runs compares two databases.\n"
        "The two cells of a pair have the same model, prompt, seed and settings. Values are\n"
        "averaged over seeds, repeats and reruns with perturbed noise of a prompt, so n\n"
        "counts prompts.\n"
        "`separable` means that a sign-flip permutation test is significant (Holm-adjusted\n"
        "for the number of methods) and the confidence interval excludes 0. A separable\n"
        "difference needs at least 6 pairs, and more pairs if more methods are compared.\n"
        "`beyond chaos` applies the same test to a method and BF16 reruns with perturbed noise.\n"
        "A group contains the methods that are not separable from the group's best method.\n"
        "Measurements of different machines are compared only with --across-machines.\n",
    .args = args,
    .opts_size = sizeof(struct stats_opts),
    .min_words = 1,
    .max_words = 1,
    .run = run,
};
