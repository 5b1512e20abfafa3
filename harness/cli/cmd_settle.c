/* cmd_settle.c - `kvreel settle`: measures more prompts until each of the papers' claims has a
 * verdict. */
#include <stdlib.h>
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/core/path.h"
#include "harness/settle/settle.h"

struct settle_opts {
    const char *db, *out, *ledger, *format;
    int jobs, most, budget_s, elsewhere;
    bool json, quiet;
};

/* Prints the verdicts of the requested claims. */
static enum kvr_status print(const struct settle_opts *o, const char *const *ids)
{
    struct kvr_ledger l = { 0 };
    struct kvr_table *t = NULL;
    enum kvr_table_format format;
    enum kvr_status st = kvr_table_format_parse(o->json ? "json" : o->format, &format);

    if (st == KVR_OK)
        st = kvr_claims(&l, o->ledger, kvr_path_exists(o->db) ? o->db : NULL,
                        &(struct kvr_claims_options){ .most = o->most, .elsewhere = true });
    if (st == KVR_OK)
        st = kvr_settle_choose(&l, ids);
    if (st == KVR_OK)
        st = kvr_ledger_table(&l, &t);
    if (st == KVR_OK)
        st = kvr_table_write(t, format, stdout);
    kvr_table_close(&t);
    kvr_ledger_free(&l);
    return st;
}

static int run(const struct kvr_call *call)
{
    const struct settle_opts *o = call->opts;
    const bool all = call->n_words == 1 && strcmp(call->words[0], "all") == 0;
    const char *ids[65] = { 0 };
    struct kvr_settle_summary s = { 0 };
    struct kvr_settle_options options = { .ledger = o->ledger,
                                          .db = o->db,
                                          .out = o->out,
                                          .jobs = o->jobs,
                                          .most = o->most,
                                          .budget_s = o->budget_s,
                                          .elsewhere = o->elsewhere,
                                          .progress = o->quiet ? NULL : stderr,
                                          .argc = call->argc,
                                          .argv = call->argv };
    enum kvr_status st;

    for (int i = 0; i < call->n_words; i++)
        ids[i] = call->words[i];
    options.ids = all ? NULL : ids;
    st = kvr_settle(&options, &s);
    if (st == KVR_OK)
        st = print(o, options.ids);
    if (st != KVR_OK)
        return kvr_cli_fail(st);
    if (!o->quiet)
        fprintf(stderr,
                "kvreel: settle: %d rounds of measurement, %d cells measured, %d cells failed; %d "
                "claims are still open (no verdict)%s\n",
                s.rounds, s.cells, s.failed, s.open,
                s.interrupted     ? "; interrupted: the same command resumes the run"
                : s.out_of_budget ? "; time limit reached: the same command resumes the run"
                                  : "");
    if (s.interrupted || s.out_of_budget)
        return KVR_EXIT_INTERRUPTED;
    return s.failed || s.stuck ? KVR_EXIT_FAILED_CELLS : KVR_EXIT_OK;
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(struct settle_opts, db, "db", 0, "FILE", "kvreel.db",
                 "database of cells; it is created if it does not exist"),
    KVR_ARG_TEXT(
        struct settle_opts, out, "out", 'o', "DIR", "out/settle",
        "output folder for frames and for settle.yaml, the config of the sweep that ran last"),
    KVR_ARG_TEXT(struct settle_opts, ledger, "ledger", 0, "FILE", NULL,
                 "YAML file of claims (ledger); the default is results/claims.yaml"),
    KVR_ARG_TIME(struct settle_opts, budget_s, "budget", 0, "TIME", NULL, 1, 1e7,
                 "time limit of the whole run, in seconds or with a unit as in 90s, 30m or 2h; "
                 "claims that are cheapest to decide come first"),
    KVR_ARG_INT(struct settle_opts, jobs, "jobs", 'j', "N", "0", 0, 1024,
                "number of cells that run in parallel; 0 means one per core"),
    KVR_ARG_INT(
        struct settle_opts, most, "most", 0, "N", "360", 12, 1000000,
        "maximum number of prompts per claim, at least 12; a claim that needs more is futile"),
    KVR_ARG_INT(
        struct settle_opts, elsewhere, "elsewhere", 0, "N", "0", 0, 1000,
        "after the verdicts, also run two sweeps of N prompts per suite (0: none): one with each "
        "method's other version (NAME@study for NAME, or the reverse), one with "
        "`forcing: teacher` (each chunk is generated from the BF16 rollout's past)"),
    KVR_ARG_TEXT(struct settle_opts, format, "format", 'f', "FORMAT", "txt",
                 "output format: txt, md, csv, json, jsonl or latex"),
    KVR_ARG_FLAG(struct settle_opts, json, "json", 0, "print JSON, the same as --format json"),
    KVR_ARG_FLAG(struct settle_opts, quiet, "quiet", 'q', "print no progress on stderr"),
    { 0 },
};

const struct kvr_command kvr_command_settle = {
    .name = "settle",
    .summary = "measure more prompts until each claim has a verdict",
    .usage = "CLAIM...|all [options]",
    .examples =
        "  kvreel settle prq2-quarot4 soft4-prune4 --db out/settle.db\n"
        "  kvreel settle all --db out/settle.db --budget 45m   # the same command resumes\n",
    .details =
        "The ledger is a YAML file of claims, such as that one method is better than another.\n"
        "`kvreel settle` tests all claims of the ledger (as `kvreel claims` does), measures\n"
        "more prompts for the undecided claims that need the least CPU time, and tests all\n"
        "claims again. The run ends when each claim holds, does not hold, is equal within its\n"
        "margin, or is futile (needs more than --most prompts).\n"
        "The exit code is 75 if the time limit or Ctrl-C ended the run; the same command\n"
        "resumes it.\n",
    .args = args,
    .opts_size = sizeof(struct settle_opts),
    .min_words = 1,
    .max_words = 64,
    .stops = true,
    .run = run,
};
