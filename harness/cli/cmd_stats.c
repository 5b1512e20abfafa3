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
        return kvr_fail(KVR_EINVAL,
                        "stats: --unit '%s' is not a unit of the paired test: need prompt or seed",
                        text);
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
        "confidence level P of the intervals (0.5..0.999); the significance level of the tests is "
        "1 - P"),
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
    .summary = "print differences of methods, metrics per chunk, error growth, times or coverage",
    .usage = "paired|windows|growth|distribution|sensitivity|timing|coverage|runs [options]",
    .examples =
        "  kvreel stats paired --metric ssim --against RTN_INT4\n"
        "  kvreel stats windows --metric psnr      # PSNR of each chunk\n"
        "  kvreel stats growth --metric psnr       # injected and accumulated error\n"
        "  kvreel stats timing --db out/timing.db --json\n"
        "  kvreel stats runs --db now.db --before then.db    # compares two commits or machines\n"
        "  kvreel stats coverage --where \"suite = 'moviegen-nano'\"\n",
    .details =
        "`paired` compares each method with the method of --against on the same prompts.\n"
        "`windows` prints the metric of each chunk. `growth` compares the error injected per\n"
        "chunk (each chunk is generated from the BF16 rollout's chunks) with the accumulated\n"
        "error (each chunk is generated from the method's own chunks). `distribution` compares\n"
        "metrics that are computed without the BF16 frames. `sensitivity` tests whether the\n"
        "verdicts change with the seeds, the prompts, the forcing or the methods' version.\n"
        "`timing` prints median times, and `coverage` the numbers of finished cells. `runs`\n"
        "compares the databases of --before and --db.\n"
        "The two cells of a pair have the same model, prompt, seed and settings. The values of\n"
        "a prompt are averaged over its seeds, repeats and reruns with perturbed noise, so the\n"
        "column n is the number of prompts.\n"
        "`separable` means that a sign-flip permutation test is significant (Holm-adjusted\n"
        "for the number of methods) and the confidence interval excludes 0. A separable\n"
        "difference needs at least 6 pairs, and more pairs if more methods are compared.\n"
        "`beyond chaos` means that the same test separates the method from BF16 reruns with\n"
        "perturbed noise.\n"
        "A group contains the methods that are not separable from the group's best method.\n"
        "Measurements of different machines are compared only with --across-machines.\n",
    .args = args,
    .opts_size = sizeof(struct stats_opts),
    .min_words = 1,
    .max_words = 1,
    .run = run,
};
