/* cmd_claims.c - `kvreel claims`: tests the papers' claims with the results in a database. */
#include "harness/cli/cli.h"
#include "harness/report/claims/claims.h"

struct claims_opts {
    const char *db, *format;
    int most;
    bool json;
};

static int run(const struct kvr_call *call)
{
    const struct claims_opts *o = call->opts;
    enum kvr_table_format format;
    struct kvr_ledger l = { 0 };
    struct kvr_table *t = NULL;
    enum kvr_status st = kvr_table_format_parse(o->json ? "json" : o->format, &format);
    int code;

    if (st == KVR_OK)
        st = kvr_claims(&l, call->n_words ? call->words[0] : NULL, o->db,
                        &(struct kvr_claims_options){ .most = o->most, .elsewhere = true });
    if (st == KVR_OK)
        st = kvr_ledger_table(&l, &t);
    code = st == KVR_OK ? kvr_cli_wrote(kvr_table_write(t, format, stdout), KVR_EXIT_OK)
                        : kvr_cli_fail(st);
    kvr_table_close(&t);
    kvr_ledger_free(&l);
    return code;
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(
        struct claims_opts, db, "db", 0, "FILE", NULL,
        "database of measurements; without it, only claims about computed sizes get a verdict"),
    KVR_ARG_TEXT(struct claims_opts, format, "format", 'f', "FORMAT", "txt",
                 "output format: txt, md, csv, json, jsonl or latex"),
    KVR_ARG_INT(
        struct claims_opts, most, "most", 0, "N", "360", 12, 1000000,
        "maximum number of prompts per claim; a claim that needs more for a verdict is futile"),
    KVR_ARG_FLAG(struct claims_opts, json, "json", 0, "print JSON, the same as --format json"),
    { 0 },
};

const struct kvr_command kvr_command_claims = {
    .name = "claims",
    .summary = "test the claims of papers against the measurements in a database",
    .usage = "[LEDGER.yaml] [options]",
    .examples = "  kvreel claims --db out/study33.db\n"
                "  kvreel claims --db out/study33.db --format csv >claims.csv\n"
                "  kvreel claims mine.yaml --db kvreel.db --json\n",
    .details =
        "The verdict of a claim is: holds, does not hold, equal (the difference is within the\n"
        "claim's margin) or futile (a verdict would need more than --most prompts).\n"
        "Verdicts come from a confidence sequence and e-BH over all claims, so a database may\n"
        "be judged while it grows.\n"
        "A claim that needs a GPU or another model names the command that would decide it.\n"
        "`kvreel settle` makes the measurements that claims without a verdict need.\n"
        "The default ledger of claims is results/claims.yaml.\n",
    .args = args,
    .opts_size = sizeof(struct claims_opts),
    .max_words = 1,
    .run = run,
};
